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

from mnngp._system.compiled import compiled, to_tuple
from mnngp._typing import Array
from mnngp.kernels.convolution.pictures import Level, Pair, Source, Stage, Work, level_of
from mnngp.kernels.convolution.quick_layers import numbers_of, quick_layer, tangent_layer
from mnngp.kernels.convolution.rows import any_layer
from mnngp.kernels.convolution.vectors import LANES, larger, load, spread, store
from mnngp.kernels.strips import NEAR, Program


@compiled
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
                total = load(mine, begin + (y * width + x) * LANES)
            if 0 <= other_y < height and 0 <= other_x < width:
                total = total + load(theirs, begin + (other_y * width + other_x) * LANES)
            store(total, picture, place)
            if tangents.shape[0] > 0:
                store(none, tangents, place)
            place, x = place + LANES, x + 1


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
def input_distance(mine: Array, theirs: Array, here: int, there: int, channels: int) -> Any:
    """Of two pixels: ``|x_i(p) - x_j(p')|² / 2C``; channels are one after the other."""
    apart = load(mine, here) - load(theirs, there)
    total = apart * apart
    step = mine.shape[0] // channels
    for channel in range(1, channels):
        apart = load(mine, here + channel * step) - load(theirs, there + channel * step)
        total = total + apart * apart
    return total


@compiled
def begin_stage(stage: Stage, pair: Pair, level: Level, source: Source, work: Work) -> None:
    """The picture before the first convolution, to ``work.there``: of pixels, or of a pooling.

    A pooling leaves ``D - E_i(p) - E_j(p')``.
    """
    all_, known = level.all, level.known
    height, width = stage.shape[0]
    none, tangent = spread(work.there.dtype.type(0.0)), work.there_t.shape[0] > 0
    channels, shift = pair.mine.pixels.shape[0], source.shift * LANES
    mine, theirs = pair.mine.pixels.reshape(-1), pair.theirs.pixels.reshape(-1)
    pooled, other_pooled = pair.mine.pooled, pair.theirs.pooled
    for y in range(known.top, known.bottom):
        place = (y - all_.top) * (all_.right - all_.left) + known.left - all_.left
        other_y = (y + level.down) % height
        for x in range(known.left, known.right):
            other_x = (x + level.right) % width
            here, there = (y * width + x) * LANES, (other_y * width + other_x) * LANES
            to = (place + x - known.left) * LANES
            if source.distances.shape[0] == 0:
                store(input_distance(mine, theirs, here, there, channels), work.there, to)
                if tangent:
                    store(none, work.there_t, to)
                continue
            down, right = other_y - y, other_x - x
            begin = source.start[down + height - 1, right + width - 1]
            begin += (y - max(0, -down)) * (width - abs(right)) + x - max(0, -right)
            value = load(source.distances, begin * LANES) - load(pooled, shift + here)
            value = larger(value - load(other_pooled, shift + there), none)
            store(value, work.there, to)
            if tangent:
                store(load(source.tangents, begin * LANES), work.there_t, to)


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
    power, both, numbers = program.power[step], (below, level), numbers_of(stage, program, index)
    near = program.kind[step] == NEAR
    if terms == 0 or terms > 17:
        any_layer(stage, program, pair, index, below, level, work)
        return
    if near and terms == 9:
        quick_layer((to_tuple(power[0], 9),), numbers, stage, pair, index, both, work)
    elif near and terms == 13:
        quick_layer((to_tuple(power[0], 13),), numbers, stage, pair, index, both, work)
    else:
        series = to_tuple(power[0], 17), to_tuple(power[3], 17)
        quick_layer(series, numbers, stage, pair, index, both, work)
    if program.tangent and near:
        tangent_layer((to_tuple(power[1], 17),), numbers, stage, pair, index, both, work)
    elif program.tangent:
        slopes = to_tuple(power[1], 17), to_tuple(power[4], 17)
        tangent_layer(slopes, numbers, stage, pair, index, both, work)


def _in_double(
    stage: Stage, program: Program, pair: Pair, index: int, below: Level, level: Level, work: Work
) -> None:
    step, terms = stage.first + index, program.power_terms[stage.first + index]
    power, both, numbers = program.power[step], (below, level), numbers_of(stage, program, index)
    near = program.kind[step] == NEAR
    if terms == 0:
        any_layer(stage, program, pair, index, below, level, work)
        return
    if near:
        quick_layer((to_tuple(power[0], 25),), numbers, stage, pair, index, both, work)
    else:
        series = to_tuple(power[0], 25), to_tuple(power[3], 25)
        quick_layer(series, numbers, stage, pair, index, both, work)
    if program.tangent and near:
        tangent_layer((to_tuple(power[1], 25),), numbers, stage, pair, index, both, work)
    elif program.tangent:
        slopes = to_tuple(power[1], 25), to_tuple(power[4], 25)
        tangent_layer(slopes, numbers, stage, pair, index, both, work)


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
