"""The compiled forward pass: cosines in, kernel values out, all layers while a strip is in cache.

A strip carries, for one point i and some points j, the distances ``u_ij = (1 - ρ_ij)/2`` and, for a
tangent kernel, the normalised tangents ``t_ij = Θ_ij / √(v_i v_j)``. A step of the recursion is

    u' = (p_i - p_j)² + (r_i - r_j)² + a_i a_j E(u),      t' = 1 - 2u' + a_i a_j P(u) t,

with E half the activation's deficit and P its slope (see ``pointwise`` for a, p and r, and
``ladder`` for smooth activations). Every term of u' is non-negative, so nothing cancels, and 1 - ρ
keeps its relative accuracy at any depth.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mnngp._system.compiled import compiled
from mnngp._typing import Array
from mnngp.kernels.ladder import hermite_values, ladder_of
from mnngp.kernels.layout import LEFT, RIGHT, Panel
from mnngp.kernels.strips import (
    COLLAPSED,
    G_SLOPE,
    HERMITE,
    NEAR,
    QUICK,
    G,
    Program,
    Side,
    half_angle,
    homogeneous_values,
    quick_of,
    quick_step,
    two_sided,
)

STRIP = 256  # columns: eight arrays of it and a row of each table stay in the first-level cache
# Distances below these are recomputed from differences: 1 - cos has lost that many digits.
REFINE = {np.dtype(np.float64): 1e-3, np.dtype(np.float32): 1e-2}


class Way(NamedTuple):
    """A strip on its way: one row of each array, or one for each step if the way is kept."""

    u: Array  # (1 or steps + 1, STRIP)
    t: Array
    value: Array  # E
    slope: Array  # P
    second: Array  # P', see ``homogeneous_values``
    work: Array  # (3, STRIP)


class Task(NamedTuple):
    """What is to be done with a matrix."""

    raw: bool  # it holds cosines, and not distances
    save: bool  # distances (and tangents) are stored again
    emit: bool  # entries, scale_i scale_j (1 - stretch u_ij) or … t_ij, are written
    mirror: bool  # and copied to the other side of the diagonal
    stretch: Any
    refine: Any


@compiled
def way_of(buffer: Array, rows: int) -> Way:
    """Parts of a buffer of 5 · rows + 3 strips, whose rows are contiguous: loops vectorise."""
    return Way(
        buffer[:rows],
        buffer[rows : 2 * rows],
        buffer[2 * rows : 3 * rows],
        buffer[3 * rows : 4 * rows],
        buffer[4 * rows : 5 * rows],
        buffer[5 * rows :],
    )


@compiled
def advance(
    program: Program, rows: Side, cols: Side, i: int, j0: int, width: int, way: Way, order: int
) -> None:
    """Take the strip of row i from column j0 on through all steps of the program.

    It stands in the first ``width`` columns of ``way``. With ``order`` ≥ 1 the way is kept: every
    step has rows of its own, and E and P stay there; with 2 the derivative of P as well.
    """
    one = way.u.dtype.type(1.0)
    two = way.u.dtype.type(2.0)
    zero = way.u.dtype.type(0.0)
    end = j0 + width
    first_u, first_t = way.u[0, :width], way.t[0, :width]
    for step in range(program.kind.shape[0]):
        kind = program.kind[step]
        ai, pi, ri = rows.a[step, i], rows.p[step, i], rows.r[step, i]
        a, p, r = cols.a[step, j0:end], cols.p[step, j0:end], cols.r[step, j0:end]
        if kind == NEAR and 0 < program.power_terms[step] <= QUICK and order == 0:
            quick_step(
                quick_of(program, step), program.tangent, first_u, first_t, (ai, pi, ri), (a, p, r)
            )
            continue
        here = step if order > 0 else 0
        behind = step + 1 if order > 0 else 0
        u, t = way.u[here, :width], way.t[here, :width]
        value, slope = way.value[here, :width], way.slope[here, :width]
        next_u, next_t = way.u[behind, :width], way.t[behind, :width]
        if kind == COLLAPSED:
            # The series are those of s / s_L, whose square divides u, and of t_L.
            beyond = half_angle(program, step, u, way.work[0])
            two_sided(program, step, G, u, beyond, value, way.work)
            if program.tangent:
                two_sided(program, step, G_SLOPE, u, beyond, t, way.work)
            for j in range(width):
                u[j] = u[j] / (value[j] * value[j])
        elif kind == HERMITE:
            first, last = program.deviation_span[step, 0], program.deviation_span[step, 1]
            hermite_values(
                ladder_of(program, step),
                rows.deviation[first:last, i],
                cols.deviation[first:last],
                j0,
                u,
                value,
                slope,
                way.work,
            )
            for j in range(width):
                dp = pi - p[j]
                dr = ri - r[j]
                moved = dp * dp + dr * dr + value[j]
                next_u[j] = moved if moved > zero else zero
                next_t[j] = one - two * next_u[j] + slope[j] * t[j]
        else:
            least = max(order, 1) if program.tangent else min(order, 1)
            second = way.second[here, :width]
            homogeneous_values(program, step, u, least, value, slope, second, way.work)
            for j in range(width):
                dp = pi - p[j]
                dr = ri - r[j]
                next_u[j] = dp * dp + dr * dr + ai * a[j] * value[j]
            if program.tangent:
                for j in range(width):
                    next_t[j] = one - two * next_u[j] + ai * a[j] * slope[j] * t[j]


@compiled
def distances(
    cosine: Array, rows: Array, i: int, cols: Array, j0: int, refine: Any, u: Array
) -> None:
    """``u = (1 - cos)/2``, from differences where two points nearly agree or nearly oppose.

    That is ``|x_i - x_j|²/4``, or ``1 - |x_i + x_j|²/4``.
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
    """The columns wanted of a strip, of a row that meets the diagonal in column ``diagonal``."""
    start = max(left, diagonal + 1) if part == RIGHT else left
    stop = min(right, diagonal) if part == LEFT else right
    return start, stop


@compiled
def transform(
    state: Array,
    tangents: Array,
    out: Array,
    panel: Panel,
    program: Program,
    rows: Side,
    cols: Side,
    task: Task,
) -> None:
    """Take a panel of the matrix through the steps of a program.

    ``state`` holds cosines or distances, ``tangents`` the tangents between two programs, or
    nothing; ``out`` may be ``state``.
    """
    one = state.dtype.type(1.0)
    zero = state.dtype.type(0.0)
    way = way_of(np.empty((8, STRIP), state.dtype), 1)
    for left in range(panel.begin, panel.end, STRIP):
        right = min(left + STRIP, panel.end)
        for i in range(panel.first, panel.last):
            row = i + panel.row_shift
            start, stop = wanted(left, right, row - panel.col_shift, panel.part)
            width = stop - start
            if width <= 0:
                continue
            column = start + panel.col_shift
            u, t = way.u[0, :width], way.t[0, :width]
            if task.raw:
                distances(
                    state[i, start:stop], rows.points, row, cols.points, column, task.refine, u
                )
                for j in range(width):
                    t[j] = zero
            else:
                for j in range(width):
                    u[j] = state[i, start + j]
                if program.tangent:
                    for j in range(width):
                        t[j] = tangents[i, start + j]
            advance(program, rows, cols, row, column, width, way, 0)
            if task.save:
                for j in range(width):
                    state[i, start + j] = u[j]
                if program.tangent:
                    for j in range(width):
                        tangents[i, start + j] = t[j]
            if task.emit:
                mine = rows.scale[row]
                theirs = cols.scale[column : column + width]
                target = out[i, start:stop]
                if program.tangent:
                    for j in range(width):
                        target[j] = mine * theirs[j] * t[j]
                else:
                    for j in range(width):
                        target[j] = mine * theirs[j] * (one - task.stretch * u[j])
        if task.emit and task.mirror:
            for j in range(left, right):
                for i in range(max(panel.first, j + 1), panel.last):
                    out[j, i] = out[i, j]
