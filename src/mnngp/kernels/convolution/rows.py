"""Compiled pieces of the convolutional pass: what happens to a row of a picture.

A row has the cells of some neighbouring positions, ``LANES`` pairs of images at each of them, side
by side, so that every loop is long and vectorises.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mnngp._system.compiled import compiled
from mnngp._typing import Array
from mnngp.kernels.convolution.stages import (
    Pair,
    Stage,
    Work,
    mine_at,
)
from mnngp.kernels.convolution.vectors import LANES, store
from mnngp.kernels.ladder import hermite_values, ladder_of
from mnngp.kernels.strips import HERMITE, Program, homogeneous_values


class Sides(NamedTuple):
    """What the images of both sides have of a row."""

    off: Array
    inverse: Array
    other_off: Array
    other_inverse: Array


@compiled
def lanes(values: Array, shape: Array, y: int, x: int, out: Array) -> None:
    """A row of the columns' images, from a position on, around the border if need be."""
    wide = shape[1] * LANES
    row = values[(y % shape[0]) * wide : (y % shape[0] + 1) * wide]
    start = (x % shape[1]) * LANES
    first = min(out.shape[0], wide - start)
    for k in range(first):
        out[k] = row[start + k]
    for k in range(first, out.shape[0]):
        out[k] = row[k - first]


@compiled
def column_sums(picture: Array, width: int, top: int, high: int, out: Array) -> None:
    """The sum of some rows of a picture with ``width`` columns."""
    span = width * LANES
    first = picture[top * span : (top + 1) * span]
    if high == 3:
        second = picture[(top + 1) * span : (top + 2) * span]
        third = picture[(top + 2) * span : (top + 3) * span]
        for k in range(span):
            out[k] = first[k] + second[k] + third[k]
        return
    out[:span] = first
    for down in range(1, high):
        row = picture[(top + down) * span : (top + down + 1) * span]
        for k in range(span):
            out[k] += row[k]


@compiled
def row_sums(columns: Array, wide: int, stride: int, out: Array) -> None:
    """Sums of ``wide`` columns, ``stride`` apart."""
    out[:] = out.dtype.type(0.0)
    if stride == 1:
        for right in range(wide):
            moved = columns[right * LANES : right * LANES + out.shape[0]]
            for k in range(out.shape[0]):
                out[k] += moved[k]
        return
    for x in range(out.shape[0] // LANES):
        target = out[x * LANES : (x + 1) * LANES]
        for right in range(wide):
            place = (x * stride + right) * LANES
            moved = columns[place : place + LANES]
            for lane in range(LANES):
                target[lane] += moved[lane]


@compiled
def hermite_row(
    program: Program, step: int, pair: Pair, shape: Array, at: Any, count: int, work: Array
) -> None:
    """The sums over degrees of a smooth step, a position after the other.

    They are of one image ``alone`` with others.
    ``at`` are row and column of the first position in either image. Takes u from the first row of
    ``work``, and leaves E and the slope of V in ρ in the next two, degree 0 in the fourth.
    """
    half = work.dtype.type(0.5)
    y, x, other_y, other_x = at
    degrees = program.deviation_span[step, 1] - program.deviation_span[step, 0]
    start = pair.mine.hermite_start[step]
    end = start + degrees * shape[0] * shape[1]
    lanes = 1 if pair.alone else LANES
    mine = pair.mine.hermite[start * lanes : end * lanes].reshape((degrees, -1))
    theirs = pair.theirs.hermite[start * LANES : end * LANES].reshape((degrees, -1))
    ladder = ladder_of(program, step)
    for place in range(count):
        i = (y * shape[1] + x + place) * lanes
        j = ((other_y % shape[0]) * shape[1] + (other_x + place) % shape[1]) * LANES
        first, last = place * LANES, (place + 1) * LANES
        hermite_values(
            ladder,
            mine[:, i],
            theirs,
            j,
            work[0, first:last],
            work[1, first:last],
            work[2, first:last],
            work[4:7],
        )
        for lane in range(LANES):
            apart = mine[0, i] - theirs[0, j + lane]
            work[3, first + lane] = half * apart * apart


@compiled
def any_row(
    program: Program, step: int, t: Array, sides: Sides, work: Array, out: Array, out_t: Array
) -> None:
    """A step of any kind from u, E, P and degree 0, which are in ``work``; and its tangent."""
    half = out.dtype.type(0.5)
    one = out.dtype.type(1.0)
    two = out.dtype.type(2.0)
    zero = out.dtype.type(0.0)
    smooth, moment = program.kind[step] == HERMITE, half * program.moment_root[step] ** 2
    for k in range(out.shape[0]):
        weight = sides.inverse[k] * sides.other_inverse[k]
        both = one / weight if weight > zero else zero  # 2 σ_i σ_j
        apart = sides.off[k] - sides.other_off[k]
        fixed = work[3, k] if smooth else moment * apart * apart
        value = fixed + (two if smooth else both) * work[1, k]
        out[k] = value if value > zero else zero
        if program.tangent:
            theta = half * both * (one - two * work[0, k]) + t[k]
            out_t[k] = work[2, k] * theta * (two * weight if smooth else one)


@compiled
def row_of(stage: Stage, index: int, pair: Pair, at: Any, count: int, work: Array) -> Sides:
    """``count`` cells of a row behind a convolution; ``at`` are row and column in either image."""
    y, x, other_y, other_x = at
    shape, begin = stage.shape[index + 1], stage.behind[index] * LANES
    end = begin + shape[0] * shape[1] * LANES
    off, inverse, other_off, other_inverse = work[0], work[1], work[2], work[3]
    here = begin + (y * shape[1] + x) * LANES
    for k in range(0, count, LANES):
        store(mine_at(pair.alone, pair.mine.off, here + k), off, k)
        store(mine_at(pair.alone, pair.mine.inverse, here + k), inverse, k)
    lanes(pair.theirs.off[begin:end], shape, other_y, other_x, other_off[:count])
    lanes(pair.theirs.inverse[begin:end], shape, other_y, other_x, other_inverse[:count])
    return Sides(off, inverse, other_off, other_inverse)


@compiled
def any_layer(stage: Stage, program: Program, pair: Pair, at: Any, work: Work) -> None:
    """A step of any kind, with its tangent if there is one."""
    index, below, level = at
    all_, known, rows = level.all, level.known, work.rows
    cells, tangent = (known.right - known.left) * LANES, program.tangent
    (high, wide), (down, right) = stage.size[index], stage.stride[index]
    step, scale, shape = stage.first + index, stage.scale[index], stage.shape[index + 1]
    width, shift = below.all.right - below.all.left, stage.pad[index, 0] + below.all.top
    half, zero = rows.dtype.type(0.5), rows.dtype.type(0.0)
    columns, d, t, more = rows[0], rows[1, :cells], rows[2, :cells], rows[7:]
    u, value, slope, second = more[0, :cells], more[1, :cells], more[2, :cells], more[3, :cells]
    for y in range(known.top, known.bottom):
        place = ((y - all_.top) * (all_.right - all_.left) + known.left - all_.left) * LANES
        out = work.there[place : place + cells]
        out_t = work.there_t[place : place + cells if tangent else 0]
        here = y, known.left, y + level.down, known.left + level.right
        sides = row_of(stage, index, pair, here, cells, rows[3:])
        column_sums(work.here, width, y * down - shift, high, columns)
        row_sums(columns, wide, right, d)
        for k in range(cells):
            apart = sides.off[k] - sides.other_off[k]
            q = scale * d[k] - half * apart * apart
            u[k] = q * sides.inverse[k] * sides.other_inverse[k] if q > zero else zero
        if tangent:
            column_sums(work.here_t, width, y * down - shift, high, columns)
            row_sums(columns, wide, right, t)
            for k in range(cells):
                t[k] *= scale
        if program.kind[step] == HERMITE:
            hermite_row(program, step, pair, shape, here, cells // LANES, more)
        else:
            order = 1 if tangent else 0
            homogeneous_values(program, step, u, order, value, slope, second, more[4:])
        any_row(program, step, t, sides, more, out, out_t)
