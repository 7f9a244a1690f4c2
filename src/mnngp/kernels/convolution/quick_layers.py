"""A convolution and a homogeneous activation in one pass: where the time goes.

From the sum d of a window, with ``q = w/k² d - ½ (σ_i - σ_j)²``, an activation leaves
``M/2 (σ_i - σ_j)² + 2 σ_i σ_j E(u)``, where ``u = q / 2σ_i σ_j`` (displacement.py). Where ρ ≥ 0,
``E = u G(√u)``, which needs no division; where ρ < 0, a series on the other side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mnngp._system.compiled import uncounted
from mnngp._typing import Array
from mnngp.kernels.convolution.stages import Level, Pair, Stage, Work, mine_at
from mnngp.kernels.convolution.vectors import (
    LANES,
    larger,
    load,
    root,
    spread,
    store,
    where_at_most,
)
from mnngp.kernels.strips import Program, polynomial


class Numbers(NamedTuple):
    """What a step has beside its series."""

    stretch: Any  # of its variable
    moment: Any  # M
    scale: Any  # w/k²
    fall: Any  # half of F(1) - F(-1)
    zero: Any  # in the type of all
    half: Any
    one: Any


class Walk(NamedTuple):
    """Where a layer's cells are in its maps and pictures, in numbers of an array."""

    high: int  # the window
    wide: int
    span: int  # a row of the picture below
    step: int  # from a window to the next
    start: int  # the first window
    row: int  # from it to that below it
    out: int  # the first cell of the picture behind
    out_row: int
    begin: int  # of this layer in the maps


@uncounted
def walk_of(stage: Stage, index: int, below: Level, level: Level) -> Walk:
    """That from one level to the next."""
    span = (below.all.right - below.all.left) * LANES
    out_row = (level.all.right - level.all.left) * LANES
    (high, wide), (down, right) = stage.size[index], stage.stride[index]
    first = level.known.top * down - stage.pad[index, 0] - below.all.top
    out = (level.known.top - level.all.top) * out_row
    out += (level.known.left - level.all.left) * LANES
    begin = stage.behind[index] * LANES
    return Walk(high, wide, span, right * LANES, first * span, down * span, out, out_row, begin)


@uncounted
def column(picture: Array, place: int, span: int, high: int) -> Any:
    """The sum of ``high`` cells, one below the other."""
    total = load(picture, place)
    if high == 3:
        return total + load(picture, place + span) + load(picture, place + 2 * span)
    for down in range(1, high):
        total = total + load(picture, place + down * span)
    return total


@uncounted
def numbers_of(stage: Stage, program: Program, index: int) -> Numbers:
    """Those of a convolution and its activation."""
    step, kind = stage.first + index, program.fall.dtype.type
    return Numbers(
        program.stretch[step],
        program.moment_root[step] ** 2,
        stage.scale[index],
        program.fall[step],
        kind(0.0),
        kind(0.5),
        kind(1.0),
    )


@uncounted
def of_distance(series: Any, numbers: Numbers, d: Any, apart: Any, weight: Any) -> Any:
    """What an activation leaves; ``weight`` is 1/2σ_i σ_j, or zero.

    ``series`` is the near one, and the far one if a correlation may be negative.
    """
    square = numbers.half * apart * apart
    q = larger(numbers.scale * d - square, spread(numbers.zero))
    if len(series) == 1:
        x = root(q * weight) * numbers.stretch - numbers.one
        return numbers.moment * square + q * polynomial(series[0], x)
    u, half = q * weight, spread(numbers.half)
    rest = larger(numbers.one - u, spread(numbers.zero))
    x = root(where_at_most(u, half, u, rest)) * numbers.stretch - numbers.one
    # where the weight is zero u is, and the near side is taken
    far = (numbers.fall - rest * polynomial(series[1], x)) / weight
    return numbers.moment * square + where_at_most(u, half, q * polynomial(series[0], x), far)


@uncounted
def of_tangent(series: Any, numbers: Numbers, d: Any, t: Any, apart: Any, weight: Any) -> Any:
    """What it leaves of the tangent, ``P (K + T)``; ``series`` are the slopes."""
    square = numbers.half * apart * apart
    u = larger(numbers.scale * d - square, spread(numbers.zero)) * weight
    none, half = spread(numbers.zero), spread(numbers.half)
    k = where_at_most(weight, none, none, (numbers.half - u) / weight)
    theta = k + numbers.scale * t
    if len(series) == 1:
        x = root(u) * numbers.stretch - numbers.one
        return polynomial(series[0], x) * theta
    rest = larger(numbers.one - u, none)
    x = root(where_at_most(u, half, u, rest)) * numbers.stretch - numbers.one
    return where_at_most(u, half, polynomial(series[0], x), polynomial(series[1], x)) * theta


@uncounted
def quick_layer(
    series: Any, slopes: Any, numbers: Numbers, stage: Stage, pair: Pair, at: Any, work: Work
) -> None:
    """All cells of a picture, from ``work.here`` to ``work.there``; and tangents, if ``slopes``.

    ``at`` are the layer's place in the stage, and the levels before and behind it.
    """
    index, below, level = at
    known, walk = level.known, walk_of(stage, index, below, level)
    height, width = stage.shape[index + 1]
    off, inverse = pair.mine.off, pair.mine.inverse
    other_off, other_inverse = pair.theirs.off, pair.theirs.inverse
    picture, out, tangents, out_t = work.here, work.there, work.here_t, work.there_t
    sliding = walk.wide == 3 and walk.step == LANES  # the next window has two columns of this one
    other_y = known.top + level.down
    other_y = other_y if other_y < height else other_y - height
    for y in range(known.bottom - known.top):
        place, to = walk.start + y * walk.row, walk.out + y * walk.out_row
        mine = walk.begin + ((known.top + y) * width + known.left) * LANES
        line = walk.begin + other_y * width * LANES
        other_y = other_y + 1 if other_y + 1 < height else 0
        across = known.left + level.right
        across = across if across < width else across - width
        first = column(picture, place, walk.span, walk.high)
        second = first
        if sliding:
            second = column(picture, place + LANES, walk.span, walk.high)
        for _ in range(known.left, known.right):
            if sliding:
                third = column(picture, place + 2 * LANES, walk.span, walk.high)
                d = first + second + third
                first, second = second, third
            else:  # written out, here and below: a function of its own would be called, not inlined
                d = column(picture, place, walk.span, walk.high)
                for right in range(1, walk.wide):
                    d = d + column(picture, place + right * LANES, walk.span, walk.high)
            theirs = line + across * LANES
            apart = mine_at(pair.alone, off, mine) - load(other_off, theirs)
            weight = mine_at(pair.alone, inverse, mine) * load(other_inverse, theirs)
            store(of_distance(series, numbers, d, apart, weight), out, to)
            if len(slopes) > 0:
                t = column(tangents, place, walk.span, walk.high)
                for right in range(1, walk.wide):
                    t = t + column(tangents, place + right * LANES, walk.span, walk.high)
                store(of_tangent(slopes, numbers, d, t, apart, weight), out_t, to)
            place, mine, to = place + walk.step, mine + LANES, to + LANES
            across = across + 1 if across + 1 < width else 0
