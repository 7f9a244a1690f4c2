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

from typing import Any

from numba.extending import overload

from mnngp._system.compiled import UNCOUNTED, to_tuple, uncounted
from mnngp._typing import Array
from mnngp.kernels.convolution.quick_layers import numbers_of, quick_layer
from mnngp.kernels.convolution.rows import any_layer
from mnngp.kernels.convolution.stages import (
    Level,
    Pair,
    Source,
    Stage,
    Work,
    level_of,
    mine_at,
)
from mnngp.kernels.convolution.vectors import LANES, larger, load, spread, store
from mnngp.kernels.strips import NEAR, Program


@uncounted
def fill_borders(
    stage: Stage, index: int, pair: Pair, level: Level, picture: Array, tangents: Array
) -> None:
    """What a picture has where not both positions are inside: what one of them has, or zeros."""
    none = spread(picture.dtype.type(0.0))
    all_, known, begin = level.all, level.known, stage.before[index] * LANES
    height, width = stage.shape[index]
    mine, theirs = pair.mine.before, pair.theirs.before
    place = 0
    for y in range(all_.top, all_.bottom):
        inside, other_y, x = known.top <= y < known.bottom, y + level.down, all_.left
        while x < all_.right:
            if inside and known.left <= x < known.right:
                place, x = place + (known.right - x) * LANES, known.right
                continue
            total, other_x = none, x + level.right
            if 0 <= y < height and 0 <= x < width:
                total = mine_at(pair.alone, mine, begin + (y * width + x) * LANES)
            if 0 <= other_y < height and 0 <= other_x < width:
                total = total + load(theirs, begin + (other_y * width + other_x) * LANES)
            store(total, picture, place)
            if tangents.shape[0] > 0:
                store(none, tangents, place)
            place, x = place + LANES, x + 1


@uncounted
def wrap(level: Level, picture: Array) -> None:
    """The borders of a picture that goes on behind its other side."""
    all_, known = level.all, level.known
    width, high, wide = all_.right - all_.left, known.bottom - known.top, known.right - known.left
    for y in range(all_.top, all_.bottom):
        from_y = known.top + (y - known.top) % high
        for x in range(all_.left, all_.right):
            from_x = known.left + (x - known.left) % wide
            if from_y != y or from_x != x:
                place = (from_y - all_.top) * width + from_x - all_.left
                to = (y - all_.top) * width + x - all_.left
                store(load(picture, place * LANES), picture, to * LANES)


@uncounted
def input_picture(stage: Stage, pair: Pair, level: Level, work: Work) -> None:
    """The distances of pixels, ``|x_i(p) - x_j(p')|² / 2C``, to ``work.there``."""
    all_, known = level.all, level.known
    height, width = stage.shape[0]
    none, tangent = spread(work.there.dtype.type(0.0)), work.there_t.shape[0] > 0
    channels = pair.mine.pixels.shape[0]
    mine, theirs = pair.mine.pixels.reshape(-1), pair.theirs.pixels.reshape(-1)
    step = height * width * LANES  # from a channel to the next
    for y in range(known.top, known.bottom):
        to = (y - all_.top) * (all_.right - all_.left) + known.left - all_.left
        to, here = to * LANES, (y * width + known.left) * LANES
        other_y, across = y + level.down, known.left + level.right
        line = (other_y if other_y < height else other_y - height) * width * LANES
        across = across if across < width else across - width
        for _ in range(known.left, known.right):
            there = line + across * LANES
            apart = mine_at(pair.alone, mine, here) - load(theirs, there)
            total = apart * apart
            for channel in range(1, channels):
                shift = channel * step
                apart = mine_at(pair.alone, mine, here + shift) - load(theirs, there + shift)
                total = total + apart * apart
            store(total, work.there, to)
            if tangent:
                store(none, work.there_t, to)
            here, to = here + LANES, to + LANES
            across = across + 1 if across + 1 < width else 0


@uncounted
def pooled_picture(stage: Stage, pair: Pair, level: Level, source: Source, work: Work) -> None:
    """What a pooling has left, ``D - E_i(p) - E_j(p')``, to ``work.there``."""
    all_, known = level.all, level.known
    height, width = stage.shape[0]
    none, tangent = spread(work.there.dtype.type(0.0)), work.there_t.shape[0] > 0
    pooled, other_pooled, shift = pair.mine.pooled, pair.theirs.pooled, source.shift * LANES
    for y in range(known.top, known.bottom):
        place = (y - all_.top) * (all_.right - all_.left) + known.left - all_.left
        other_y = y + level.down if y + level.down < height else y + level.down - height
        for x in range(known.left, known.right):
            other_x = x + level.right if x + level.right < width else x + level.right - width
            here, there = (y * width + x) * LANES, (other_y * width + other_x) * LANES
            to = (place + x - known.left) * LANES
            down, right = other_y - y, other_x - x
            begin = source.start[down + height - 1, right + width - 1]
            begin += (y - max(0, -down)) * (width - abs(right)) + x - max(0, -right)
            value = load(source.distances, begin * LANES) - mine_at(
                pair.alone, pooled, shift + here
            )
            value = larger(value - load(other_pooled, shift + there), none)
            store(value, work.there, to)
            if tangent:
                store(load(source.tangents, begin * LANES), work.there_t, to)


def convolve(stage: Stage, program: Program, pair: Pair, at: Any, work: Work) -> None:
    """A convolution and its activation, from ``work.here`` to ``work.there``.

    ``at`` are its place in the stage, and the levels before and behind it.
    """
    raise NotImplementedError  # compiled code has one of the two below


@overload(convolve, jit_options=UNCOUNTED)  # type: ignore[untyped-decorator]
def _by_type(stage: Stage, program: Program, pair: Pair, at: Any, work: Work) -> None:
    """Each type has the numbers of terms that occur in it: fewer loops are compiled faster.

    Numba calls this with types, and wants the implementation to have the same annotations.
    """
    single = work.types[0].dtype.bitwidth == 32  # type: ignore[attr-defined]
    return _in_single if single else _in_double  # type: ignore[return-value]


def _in_single(stage: Stage, program: Program, pair: Pair, at: Any, work: Work) -> None:
    step = stage.first + at[0]
    terms, near, power = program.power_terms[step], program.kind[step] == NEAR, program.power[step]
    numbers = numbers_of(stage, program, at[0])
    if terms == 0 or terms > 13:
        any_layer(stage, program, pair, at, work)
    elif near and terms == 9 and not program.tangent:
        quick_layer((to_tuple(power[0], 9),), (), numbers, stage, pair, at, work)
    elif near and not program.tangent:
        quick_layer((to_tuple(power[0], 13),), (), numbers, stage, pair, at, work)
    elif near:
        slope = (to_tuple(power[1], 13),)
        quick_layer((to_tuple(power[0], 13),), slope, numbers, stage, pair, at, work)
    elif not program.tangent:
        series = to_tuple(power[0], 13), to_tuple(power[3], 13)
        quick_layer(series, (), numbers, stage, pair, at, work)
    else:
        series = to_tuple(power[0], 13), to_tuple(power[3], 13)
        slopes = to_tuple(power[1], 13), to_tuple(power[4], 13)
        quick_layer(series, slopes, numbers, stage, pair, at, work)


def _in_double(stage: Stage, program: Program, pair: Pair, at: Any, work: Work) -> None:
    step = stage.first + at[0]
    terms, near, power = program.power_terms[step], program.kind[step] == NEAR, program.power[step]
    numbers = numbers_of(stage, program, at[0])
    if terms == 0:
        any_layer(stage, program, pair, at, work)
    elif near and not program.tangent:
        quick_layer((to_tuple(power[0], 25),), (), numbers, stage, pair, at, work)
    elif near:
        slope = (to_tuple(power[1], 25),)
        quick_layer((to_tuple(power[0], 25),), slope, numbers, stage, pair, at, work)
    elif not program.tangent:
        series = to_tuple(power[0], 25), to_tuple(power[3], 25)
        quick_layer(series, (), numbers, stage, pair, at, work)
    else:
        series = to_tuple(power[0], 25), to_tuple(power[3], 25)
        slopes = to_tuple(power[1], 25), to_tuple(power[4], 25)
        quick_layer(series, slopes, numbers, stage, pair, at, work)


@uncounted
def through(stage: Stage, program: Program, pair: Pair, source: Source, work: Work) -> Work:
    """Take the picture of a displacement (``work.table``) through a stage, to ``there``."""
    count = stage.size.shape[0]
    level = level_of(work.table, 0)
    if source.distances.shape[0] > 0:
        pooled_picture(stage, pair, level, source, work)
    else:
        input_picture(stage, pair, level, work)
    for index in range(count):
        below, level = level, level_of(work.table, index + 1)
        if stage.circular:
            wrap(below, work.there)
            if program.tangent:
                wrap(below, work.there_t)
        else:
            fill_borders(stage, index, pair, below, work.there, work.there_t)
        work = Work(work.there, work.here, work.there_t, work.here_t, work.rows, work.table)
        convolve(stage, program, pair, (index, below, level), work)
    return work
