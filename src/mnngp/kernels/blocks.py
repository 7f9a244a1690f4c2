"""The compiled recursion over a matrix: cosines in, kernel values out, all layers while a strip is
in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mnngp._system.compiled import compiled
from mnngp._typing import Array
from mnngp.kernels.forward import Program, Tables, advance

STRIP = 256  # columns: seven arrays of it and a row of each table stay in the first-level cache
# which entries of a block are wanted: all, or those on one side of the matrix's diagonal
ALL, LEFT, RIGHT = 0, 1, 2
# Distances below these are recomputed from differences: 1 - cos has lost that many digits.
REFINE = {np.dtype(np.float64): 1e-3, np.dtype(np.float32): 1e-2}


@compiled
def distances(
    cosine: Array, i: int, j0: int, rows: Array, cols: Array, refine: Any, u: Array
) -> None:
    """``u = (1 - cos)/2``; where two points nearly agree ``|x_i - x_j|²/4``, where they nearly
    oppose ``1 - |x_i + x_j|²/4``.
    """
    half = u.dtype.type(0.5)
    quarter = u.dtype.type(0.25)
    one = u.dtype.type(1.0)
    zero = u.dtype.type(0.0)
    close = 0
    for j in range(u.shape[0]):
        value = half - half * cosine[j]
        value = value if value > zero else zero
        u[j] = value if value < one else one
    for j in range(u.shape[0]):
        close += 1 if u[j] < refine or one - u[j] < refine else 0
    if close > 0:
        for j in range(u.shape[0]):
            near = u[j] < refine
            if near or one - u[j] < refine:
                sign = one if near else -one
                total = zero
                for k in range(rows.shape[1]):
                    difference = rows[i, k] - sign * cols[j0 + j, k]
                    total += difference * difference
                u[j] = quarter * total if near else one - quarter * total


@compiled
def wanted(left: int, right: int, diagonal: int, part: int) -> tuple[int, int]:
    """The columns of a strip wanted of a row that meets the matrix's diagonal in column
    ``diagonal``; there may be none.
    """
    start = max(left, diagonal + 1) if part == RIGHT else left
    stop = min(right, diagonal) if part == LEFT else right
    return start, stop


@compiled
def transform(
    state: Array,
    tangents: Array,
    out: Array,
    first: int,
    last: int,
    begin: int,
    end: int,
    row_shift: int,
    col_shift: int,
    part: int,
    mirror: bool,
    raw: bool,
    save: bool,
    emit: bool,
    tangent: bool,
    program: Program,
    rows: Tables,
    cols: Tables,
    row_scale: Array,
    col_scale: Array,
    stretch: Any,
    row_points: Array,
    col_points: Array,
    refine: Any,
) -> None:
    """Take a block of the memory, rows ``first`` to ``last`` and columns ``begin`` to ``end``,
    through the steps of a program.

    ``state`` holds cosines (``raw``) or distances; ``tangents`` the tangents between two programs,
    or nothing. With ``save`` the new distances and tangents are stored there; with ``emit`` the
    kernel, scale_i scale_j (1 - stretch u_ij) or scale_i scale_j t_ij, goes to ``out`` (which may
    be ``state``). Row i stands for point ``i + row_shift``, columns likewise; ``part`` says which
    entries are wanted. With ``mirror`` they are copied to the other side of the diagonal.
    """
    one = state.dtype.type(1.0)
    zero = state.dtype.type(0.0)
    buffer = np.empty((7, STRIP), state.dtype)
    for left in range(begin, end, STRIP):
        right = min(left + STRIP, end)
        for i in range(first, last):
            start, stop = wanted(left, right, i + row_shift - col_shift, part)
            width = stop - start
            if width <= 0:
                continue
            row, column = i + row_shift, start + col_shift
            u = buffer[0, :width]
            t = buffer[1, :width]
            if raw:
                distances(state[i, start:stop], row, column, row_points, col_points, refine, u)
                for j in range(width):
                    t[j] = zero
            else:
                for j in range(width):
                    u[j] = state[i, start + j]
                if tangent:
                    for j in range(width):
                        t[j] = tangents[i, start + j]
            advance(
                program,
                rows,
                cols,
                row,
                column,
                tangent,
                u,
                t,
                buffer[2, :width],
                buffer[3, :width],
                buffer[4, :width],
                buffer[5, :width],
                buffer[6, :width],
            )
            if save:
                for j in range(width):
                    state[i, start + j] = u[j]
                if tangent:
                    for j in range(width):
                        tangents[i, start + j] = t[j]
            if emit:
                mine = row_scale[row]
                theirs = col_scale[column : column + width]
                target = out[i, start:stop]
                if tangent:
                    for j in range(width):
                        target[j] = mine * theirs[j] * t[j]
                else:
                    for j in range(width):
                        target[j] = mine * theirs[j] * (one - stretch * u[j])
        if emit and mirror:
            for j in range(left, right):
                for i in range(max(first, j + 1), last):
                    out[j, i] = out[i, j]
