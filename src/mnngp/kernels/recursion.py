"""The compiled recursion over a matrix: cosines in, kernel values out, all layers while a strip is in cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnngp.kernels.compiled import compiled
from mnngp.kernels.strips import Array, Program, Tables, advance

STRIP = 256  # columns: seven arrays of it and a row of each table stay in the first-level cache
# Distances below these are recomputed from differences: 1 - cos has lost that many digits.
REFINE = {np.dtype(np.float64): 1e-3, np.dtype(np.float32): 1e-2}


@compiled
def distances(cosine: Array, i: int, j0: int, rows: Array, cols: Array, refine: Any, u: Array) -> None:
    """``u = (1 - cos)/2``; where two points nearly agree ``|x_i - x_j|²/4``, where they nearly oppose ``1 - |x_i + x_j|²/4``."""
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
def transform(
    state: Array, tangents: Array, out: Array, first: int, last: int, lower: bool, raw: bool, save: bool, emit: bool, tangent: bool,
    program: Program, rows: Tables, cols: Tables, row_scale: Array, col_scale: Array, row_points: Array, col_points: Array,
    refine: Any,
) -> None:  # fmt: skip
    """Take rows ``first`` to ``last`` of the matrix through the steps of a program.

    ``state`` holds cosines (``raw``) or distances; ``tangents`` the tangents between two programs, or nothing. With ``save`` the
    new distances and tangents are stored there; with ``emit`` the kernel goes to ``out`` (which may be ``state``). With ``lower``
    the matrix is symmetric: only what is left of the diagonal is computed, and mirrored.
    """
    one = state.dtype.type(1.0)
    two = state.dtype.type(2.0)
    zero = state.dtype.type(0.0)
    buffer = np.empty((7, STRIP), state.dtype)
    columns = last if lower else state.shape[1]
    for j0 in range(0, columns, STRIP):
        stop = min(j0 + STRIP, columns)
        for i in range(first, last):
            end = min(stop, i) if lower else stop
            width = end - j0
            if width <= 0:
                continue
            u = buffer[0, :width]
            t = buffer[1, :width]
            if raw:
                distances(state[i, j0:end], i, j0, row_points, col_points, refine, u)
                for j in range(width):
                    t[j] = zero
            else:
                for j in range(width):
                    u[j] = state[i, j0 + j]
                if tangent:
                    for j in range(width):
                        t[j] = tangents[i, j0 + j]
            advance(
                program, rows, cols, i, j0, tangent, u, t,
                buffer[2, :width], buffer[3, :width], buffer[4, :width], buffer[5, :width], buffer[6, :width],
            )  # fmt: skip
            if save:
                for j in range(width):
                    state[i, j0 + j] = u[j]
                if tangent:
                    for j in range(width):
                        tangents[i, j0 + j] = t[j]
            if emit:
                mine = row_scale[i]
                theirs = col_scale[j0:end]
                target = out[i, j0:end]
                if tangent:
                    for j in range(width):
                        target[j] = mine * theirs[j] * t[j]
                else:
                    for j in range(width):
                        target[j] = mine * theirs[j] * (one - two * u[j])
        if emit and lower:
            for j in range(j0, stop):
                for i in range(max(first, j + 1), last):
                    out[j, i] = out[i, j]
