"""The compiled pass of a convolutional network: one displacement, all layers, some pairs at once.

Two images i and j have a covariance for each pair of positions p and p'. As long as nothing pools,
pairs of one displacement d = p' - p meet only each other: they are a picture over p, which goes
through all layers of a stage while it is in cache. ``LANES`` pairs of images go together, side by
side in memory, so that every loop is long and vectorises.

What a picture holds are halved squared distances (docs/convolution.md)

    D(p) = ½ V_ii(p, p) + ½ V_jj(p', p') - V_ij(p, p'),

which a convolution adds up, ``D' = w/k² Σ D``, and an activation takes, with
``q = D' - ½ (σ_i - σ_j)²`` and ``u = q / 2σ_i σ_j``, to ``½ M (σ_i - σ_j)² + 2 σ_i σ_j E(u)``.
No term is negative and nothing cancels. Outside of an image V is zero: there D is half the variance
of that image which is inside, and zero where both are outside.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from mnngp._system.compiled import compiled, to_tuple
from mnngp._typing import Array
from mnngp.kernels.convolution.rows import (
    LANES,
    Pair,
    Sides,
    Source,
    any_row,
    column_sums,
    copy_inside,
    hermite_row,
    input_row,
    near_row,
    pooled_row,
    row_of,
    row_sums,
    whole_row,
)
from mnngp.kernels.strips import HERMITE, NEAR, Program, homogeneous_values

ROWS = 16  # of ``Work.rows``


class Stage(NamedTuple):
    """Convolutions, each with its activation, between two poolings (or the inputs, the readout)."""

    first: int  # the program's step of the first convolution
    circular: bool
    shape: Array  # (convolutions + 1, 2) of an image: before them, and behind each
    size: Array  # (convolutions, 2) of a window
    stride: Array  # (convolutions, 2)
    pad: Array  # (convolutions, 2) rows above and columns left of an image that a window sees
    scale: Array  # (convolutions,) w/k²
    before: Array  # (convolutions,) where V before each of them begins in ``Maps.before``
    behind: Array  # (convolutions,) where σ behind each begins in ``Maps.off`` and ``Maps.inverse``


class Work(NamedTuple):
    """Memory of a thread: pictures before and behind a layer, and rows."""

    here: Array
    there: Array
    here_t: Array
    there_t: Array
    rows: Array  # (ROWS, width · LANES)


class Rectangle(NamedTuple):
    """Positions of an image; some may be outside of it."""

    top: int
    bottom: int
    left: int
    right: int


class Level(NamedTuple):
    """What is asked for before the first convolution of a stage, or behind one."""

    down: int  # the displacement
    right: int
    all: Rectangle  # positions that the next windows see
    known: Rectangle  # those of them that are in both images


# --- where things are -----------------------------------------------------------------------------


@compiled
def overlap(shape: Array, down: int, right: int, circular: bool) -> Rectangle:
    """The positions p of an image for which p + d is in the image, too."""
    if circular:
        return Rectangle(0, shape[0], 0, shape[1])
    high, wide = shape[0], shape[1]
    return Rectangle(max(0, -down), min(high, high - down), max(0, -right), min(wide, wide - right))


@compiled
def level_of(table: Array, index: int) -> Level:
    """Read a row of ``levels``."""
    row = table[index]
    return Level(
        row[0],
        row[1],
        Rectangle(row[2], row[3], row[4], row[5]),
        Rectangle(row[6], row[7], row[8], row[9]),
    )


@compiled
def levels(stage: Stage, down: int, right: int) -> Array:
    """What a displacement behind the stage asks for, from the top down."""
    count = stage.size.shape[0]
    table = np.empty((count + 1, 10), np.int64)
    known = overlap(stage.shape[count], down, right, stage.circular)
    seen = known
    for index in range(count, -1, -1):
        if index < count:
            size, stride, pad = stage.size[index], stage.stride[index], stage.pad[index]
            down, right = down * stride[0], right * stride[1]
            seen = Rectangle(
                known.top * stride[0] - pad[0],
                (known.bottom - 1) * stride[0] - pad[0] + size[0],
                known.left * stride[1] - pad[1],
                (known.right - 1) * stride[1] - pad[1] + size[1],
            )
            both = overlap(stage.shape[index], down, right, stage.circular)
            if stage.circular:  # a period, whether windows see all of it or not
                known = both
                seen = Rectangle(
                    min(seen.top, 0),
                    max(seen.bottom, both.bottom),
                    min(seen.left, 0),
                    max(seen.right, both.right),
                )
            else:
                known = Rectangle(
                    max(seen.top, both.top),
                    min(seen.bottom, both.bottom),
                    max(seen.left, both.left),
                    min(seen.right, both.right),
                )
        table[index, 0], table[index, 1] = down, right
        table[index, 2], table[index, 3], table[index, 4], table[index, 5] = seen
        table[index, 6], table[index, 7], table[index, 8], table[index, 9] = known
    return table


@compiled
def fill_borders(
    stage: Stage, index: int, pair: Pair, level: Level, picture: Array, tangents: Array
) -> None:
    """What a picture has where not both positions are inside: what one of them has, or zeros."""
    zero = picture.dtype.type(0.0)
    all_, known, shape = level.all, level.known, stage.shape[index]
    width = (all_.right - all_.left) * LANES
    left, right = (known.left - all_.left) * LANES, (known.right - all_.left) * LANES
    begin = stage.before[index] * LANES
    mine, theirs = pair.mine.before[begin:], pair.theirs.before[begin:]
    for y in range(all_.top, all_.bottom):
        start, other_y = (y - all_.top) * width, y + level.down
        inside = known.top <= y < known.bottom
        for side in range(2 if inside else 1):
            first, last, x = 0, width, all_.left
            if inside and side == 0:
                last = left
            elif inside:
                first, x = right, known.right
            row = picture[start + first : start + last]
            row[:] = zero
            copy_inside(mine, shape, y, x, row)
            copy_inside(theirs, shape, other_y, x + level.right, row)
            if tangents.shape[0] > 0:
                tangents[start + first : start + last] = zero


@compiled
def wrap(level: Level, picture: Array) -> None:
    """The borders of a picture that goes on behind its other side."""
    all_, known = level.all, level.known
    width, wide = (all_.right - all_.left) * LANES, (known.right - known.left) * LANES
    left, high = (known.left - all_.left) * LANES, known.bottom - known.top
    first, last = known.top - all_.top, known.bottom - all_.top
    for y in range(first, last):
        row = picture[y * width : (y + 1) * width]
        for k in range(left - 1, -1, -1):
            row[k] = row[k + wide]
        for k in range(left + wide, width):
            row[k] = row[k - wide]
    for y in range(first - 1, -1, -1):
        picture[y * width : (y + 1) * width] = picture[(y + high) * width : (y + high + 1) * width]
    for y in range(last, all_.bottom - all_.top):
        picture[y * width : (y + 1) * width] = picture[(y - high) * width : (y - high + 1) * width]


@compiled
def begin_stage(stage: Stage, pair: Pair, level: Level, source: Source, work: Work) -> None:
    """The picture before the first convolution, to ``work.there``."""
    all_, known, shape = level.all, level.known, stage.shape[0]
    cells, tangent = (known.right - known.left) * LANES, work.there_t.shape[0] > 0
    mine, theirs = pair.mine.pixels, pair.theirs.pixels
    for y in range(known.top, known.bottom):
        place = (y - all_.top) * (all_.right - all_.left) + known.left - all_.left
        out = work.there[place * LANES : place * LANES + cells]
        out_t = work.there_t[place * LANES : place * LANES + cells if tangent else 0]
        at = y, known.left, y + level.down, known.left + level.right
        if source.distances.shape[0] > 0:
            pooled_row(pair, source, shape, at, out, out_t)
        else:
            input_row(mine, theirs, shape, at, stage.circular, out, work.rows)
            out_t[:] = out.dtype.type(0.0)


@compiled
def sides_of(stage: Stage, index: int, pair: Pair) -> Sides:
    """What both images have behind a convolution."""
    shape, begin = stage.shape[index + 1], stage.behind[index] * LANES
    end = begin + shape[0] * shape[1] * LANES
    return Sides(
        pair.mine.off[begin:end],
        pair.mine.inverse[begin:end],
        pair.theirs.off[begin:end],
        pair.theirs.inverse[begin:end],
    )


@compiled
def quick_layer(
    series: Any, numbers: Any, stage: Stage, pair: Pair, index: int, levels_: Any, work: Work
) -> None:
    """A homogeneous step of a covariance: row by row, each in one pass that vectorises.

    ``series`` are the near one's coefficients, and the far one's if any correlation is negative.
    """
    below, level = levels_
    all_, known = level.all, level.known
    cells, width = (known.right - known.left) * LANES, below.all.right - below.all.left
    (high, wide), (down, right) = stage.size[index], stage.stride[index]
    shift = stage.pad[index, 0] + below.all.top
    columns, d, none = work.rows[0], work.rows[1, :cells], work.rows[3, :cells]
    none[:] = none.dtype.type(0.0)
    # What is handed over for each row has to be little: all maps would take as long as the row.
    everywhere, shape = sides_of(stage, index, pair), stage.shape[index + 1]
    circular, picture, more = stage.circular, work.here, work.rows[4:]
    place = ((known.top - all_.top) * (all_.right - all_.left) + known.left - all_.left) * LANES
    for y in range(known.top, known.bottom):
        column_sums(picture, width, y * down - shift, high, columns)
        sums = columns[:cells], columns[LANES : LANES + cells], columns[2 * LANES :]
        if wide != 3 or right != 1:
            row_sums(columns, wide, right, d)
            sums = d, none, none
        at = y, known.left, y + level.down, known.left + level.right
        sides = row_of(everywhere, shape, at, cells, circular, more)
        out = work.there[place : place + cells]
        if len(series) == 1:
            near_row(series[0], numbers, sums, sides, out)
        else:
            whole_row(series[0], series[1], numbers, sums, sides, out)
        place += (all_.right - all_.left) * LANES


@compiled
def any_layer(
    stage: Stage, program: Program, pair: Pair, index: int, below: Level, level: Level, work: Work
) -> None:
    """A step of any kind, with its tangent if there is one."""
    all_, known, rows = level.all, level.known, work.rows
    cells, tangent = (known.right - known.left) * LANES, program.tangent
    (high, wide), (down, right) = stage.size[index], stage.stride[index]
    step, scale = stage.first + index, stage.scale[index]
    width, shift = below.all.right - below.all.left, stage.pad[index, 0] + below.all.top
    half, zero = rows.dtype.type(0.5), rows.dtype.type(0.0)
    columns, d, t, more = rows[0], rows[1, :cells], rows[2, :cells], rows[6:]
    u, value, slope, second = more[0, :cells], more[1, :cells], more[2, :cells], more[3, :cells]
    everywhere, shape = sides_of(stage, index, pair), stage.shape[index + 1]
    for y in range(known.top, known.bottom):
        place = ((y - all_.top) * (all_.right - all_.left) + known.left - all_.left) * LANES
        out = work.there[place : place + cells]
        out_t = work.there_t[place : place + cells if tangent else 0]
        at = y, known.left, y + level.down, known.left + level.right
        sides = row_of(everywhere, shape, at, cells, stage.circular, rows[4:])
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
            hermite_row(program, step, pair, shape, at, cells // LANES, more)
        else:
            order = 1 if tangent else 0
            homogeneous_values(program, step, u, order, value, slope, second, more[4:])
        any_row(program, step, t, sides, more, out, out_t)


def convolve(
    stage: Stage, program: Program, pair: Pair, index: int, below: Level, level: Level, work: Work
) -> None:
    """A convolution and its activation, from ``work.here`` to ``work.there``."""
    raise NotImplementedError  # compiled code has one of the two below


@overload(convolve)  # type: ignore[untyped-decorator]
def _by_type(
    stage: Stage, program: Program, pair: Pair, index: int, below: Level, level: Level, work: Work
) -> None:
    """Each type has the numbers of terms that occur in it: fewer loops are compiled faster.

    Numba calls this with types, and wants the implementation to have the same annotations.
    """
    single = work.types[0].dtype.bitwidth == 32  # type: ignore[attr-defined]
    return _in_single if single else _in_double  # type: ignore[return-value]


def _in_single(
    stage: Stage, program: Program, pair: Pair, index: int, below: Level, level: Level, work: Work
) -> None:
    step, terms = stage.first + index, program.power_terms[stage.first + index]
    power, both = program.power[step], (below, level)
    stretch, moment = program.stretch[step], program.moment_root[step] ** 2
    numbers = stretch, moment, stage.scale[index], program.fall[step]
    if terms == 0 or terms > 13 or program.tangent:
        any_layer(stage, program, pair, index, below, level, work)
    elif program.kind[step] != NEAR:
        series = to_tuple(power[0], 13), to_tuple(power[3], 13)
        quick_layer(series, numbers, stage, pair, index, both, work)
    elif terms == 9:
        quick_layer((to_tuple(power[0], 9),), numbers, stage, pair, index, both, work)
    else:
        quick_layer((to_tuple(power[0], 13),), numbers, stage, pair, index, both, work)


def _in_double(
    stage: Stage, program: Program, pair: Pair, index: int, below: Level, level: Level, work: Work
) -> None:
    step, terms = stage.first + index, program.power_terms[stage.first + index]
    power, both = program.power[step], (below, level)
    stretch, moment = program.stretch[step], program.moment_root[step] ** 2
    numbers = stretch, moment, stage.scale[index], program.fall[step]
    if terms == 0 or program.tangent:
        any_layer(stage, program, pair, index, below, level, work)
    elif program.kind[step] != NEAR:
        series = to_tuple(power[0], 25), to_tuple(power[3], 25)
        quick_layer(series, numbers, stage, pair, index, both, work)
    else:
        quick_layer((to_tuple(power[0], 25),), numbers, stage, pair, index, both, work)


@compiled
def through(
    stage: Stage, program: Program, pair: Pair, table: Array, source: Source, work: Work
) -> Work:
    """Take the picture of a displacement (``levels``) through a stage; it is in ``there`` then."""
    count = stage.size.shape[0]
    begin_stage(stage, pair, level_of(table, 0), source, work)
    for index in range(count):
        below, level = level_of(table, index), level_of(table, index + 1)
        if stage.circular:
            wrap(below, work.there)
            if program.tangent:
                wrap(below, work.there_t)
        else:
            fill_borders(stage, index, pair, below, work.there, work.there_t)
        work = Work(work.there, work.here, work.there_t, work.here_t, work.rows)
        convolve(stage, program, pair, index, below, level, work)
    return work
