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

import math
from typing import Any, NamedTuple

import numpy as np

from mnngp._system.compiled import compiled, to_tuple
from mnngp._typing import Array
from mnngp.kernels.ladder import hermite_values, ladder_of
from mnngp.kernels.strips import HERMITE, NEAR, Program, homogeneous_values, polynomial

LANES = 16  # pairs of images: a register of float32, or two of float64
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


class Maps(NamedTuple):
    """What the pass needs of an image, or of ``LANES`` images, side by side at each position."""

    pixels: Array  # (channels, positions) divided by √(2 channels)
    before: Array  # ½ V before each convolution
    off: Array  # σ behind it, less the network's reference
    inverse: Array  # 1/√2σ; zero where σ is
    hermite: Array  # coefficients of smooth activations, (degrees, positions) each
    hermite_start: Array  # (steps,) where those of each begin
    pooled: Array  # E behind each pooling


class Pair(NamedTuple):
    """An image, and ``LANES`` others."""

    mine: Maps
    theirs: Maps


class Source(NamedTuple):
    """What a pooling has left of the pairs of positions that are asked for."""

    distances: Array  # (pairs · LANES,)
    tangents: Array
    start: Array  # (2 height - 1, 2 width - 1) where each displacement begins; -1: not asked for
    shift: int  # where its E begins in ``Maps.pooled``


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


# --- rows -----------------------------------------------------------------------------------------


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


class Sides(NamedTuple):
    """What the images of both sides have of a row."""

    off: Array
    inverse: Array
    other_off: Array
    other_inverse: Array


@compiled
def near_row(g: Any, numbers: Any, sums: Any, sides: Sides, out: Array) -> None:
    """A NEAR step of a covariance in one pass that vectorises: the bulk of the time.

    ``numbers`` are the series' stretch, M, w/k², and half of F(1) - F(-1); ``sums`` three rows
    whose sum a window has.
    """
    half = out.dtype.type(0.5)
    one = out.dtype.type(1.0)
    zero = out.dtype.type(0.0)
    stretch, moment, scale, _ = numbers
    first, second, third = sums
    off, inverse, other_off, other_inverse = sides
    for k in range(out.shape[0]):
        apart = off[k] - other_off[k]
        square = half * apart * apart
        q = scale * (first[k] + second[k] + third[k]) - square
        q = q if q > zero else zero
        x = math.sqrt(q * (inverse[k] * other_inverse[k])) * stretch - one
        out[k] = moment * square + q * polynomial(g, x)


@compiled
def whole_row(g: Any, h: Any, numbers: Any, sums: Any, sides: Sides, out: Array) -> None:
    """The same of a WHOLE step."""
    half = out.dtype.type(0.5)
    one = out.dtype.type(1.0)
    zero = out.dtype.type(0.0)
    stretch, moment, scale, fall = numbers
    first, second, third = sums
    off, inverse, other_off, other_inverse = sides
    for k in range(out.shape[0]):
        apart = off[k] - other_off[k]
        square = half * apart * apart
        q = scale * (first[k] + second[k] + third[k]) - square
        q = q if q > zero else zero
        weight = inverse[k] * other_inverse[k]
        u = q * weight
        rest = one - u
        rest = rest if rest > zero else zero
        near = u <= half
        x = math.sqrt(u if near else rest) * stretch - one
        close, far = q * polynomial(g, x), fall - rest * polynomial(h, x)
        far = far / weight if weight > zero else zero
        out[k] = moment * square + (close if near else far)


@compiled
def hermite_row(
    program: Program, step: int, pair: Pair, shape: Array, at: Any, count: int, work: Array
) -> None:
    """The sums over degrees of a smooth step, a position after the other.

    They are of one image with others: all lanes of ``pair.mine`` are the same.
    ``at`` are row and column of the first position in either image. Takes u from the first row of
    ``work``, and leaves E and the slope of V in ρ in the next two, degree 0 in the fourth.
    """
    half = work.dtype.type(0.5)
    y, x, other_y, other_x = at
    degrees = program.deviation_span[step, 1] - program.deviation_span[step, 0]
    start = pair.mine.hermite_start[step]
    end = start + degrees * shape[0] * shape[1]
    mine = pair.mine.hermite[start * LANES : end * LANES].reshape((degrees, -1))
    theirs = pair.theirs.hermite[start * LANES : end * LANES].reshape((degrees, -1))
    ladder = ladder_of(program, step)
    for place in range(count):
        i = (y * shape[1] + x + place) * LANES
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
def colour_row(mine: Array, theirs: Array, here: int, there: int, out: Array) -> None:
    """Distances of pixels of three channels, in one pass."""
    count = out.shape[0]
    a, d = mine[0, here : here + count], theirs[0, there : there + count]
    b, e = mine[1, here : here + count], theirs[1, there : there + count]
    c, f = mine[2, here : here + count], theirs[2, there : there + count]
    for k in range(count):
        red, green, blue = a[k] - d[k], b[k] - e[k], c[k] - f[k]
        out[k] = red * red + green * green + blue * blue


@compiled
def input_row(
    mine: Array, theirs: Array, shape: Array, at: Any, circular: bool, out: Array, work: Array
) -> None:
    """Distances of pixels, ``|x_i(p) - x_j(p')|² / 2C``; ``at`` as in ``hermite_row``."""
    y, x, other_y, other_x = at
    count = out.shape[0]
    here, there = (y * shape[1] + x) * LANES, (other_y * shape[1] + other_x) * LANES
    if mine.shape[0] == 3 and not circular:
        colour_row(mine, theirs, here, there, out)
        return
    out[:] = out.dtype.type(0.0)
    for channel in range(mine.shape[0]):
        own = mine[channel, here : here + count]
        if circular:
            other = work[0, :count]
            lanes(theirs[channel], shape, other_y, other_x, other)
        else:
            other = theirs[channel, there : there + count]
        for k in range(count):
            apart = own[k] - other[k]
            out[k] += apart * apart


@compiled
def pooled_row(pair: Pair, source: Source, shape: Array, at: Any, out: Array, out_t: Array) -> None:
    """What a pooling has left: ``D - E_i(p) - E_j(p')``."""
    zero = out.dtype.type(0.0)
    y, x, other_y, other_x = at
    high, wide = shape[0], shape[1]
    for place in range(out.shape[0] // LANES):
        to_y, to_x = other_y % high, (other_x + place) % wide
        down, right = to_y - y, to_x - x - place
        begin = source.start[down + high - 1, right + wide - 1]
        begin += (y - max(0, -down)) * (wide - abs(right)) + x + place - max(0, -right)
        mine = pair.mine.pooled[(source.shift + y * wide + x + place) * LANES :]
        theirs = pair.theirs.pooled[(source.shift + to_y * wide + to_x) * LANES :]
        for lane in range(LANES):
            value = source.distances[begin * LANES + lane] - mine[lane] - theirs[lane]
            out[place * LANES + lane] = value if value > zero else zero
        if out_t.shape[0] > 0:
            for lane in range(LANES):
                out_t[place * LANES + lane] = source.tangents[begin * LANES + lane]


# --- pictures -------------------------------------------------------------------------------------


@compiled
def copy_inside(values: Array, shape: Array, y: int, x: int, row: Array) -> None:
    """What is inside of an image of the cells from row y and column x on."""
    if not 0 <= y < shape[0]:
        return
    first, last = max(x, 0), min(x + row.shape[0] // LANES, shape[1])
    if last > first:
        source = values[(y * shape[1] + first) * LANES : (y * shape[1] + last) * LANES]
        target = row[(first - x) * LANES : (last - x) * LANES]
        for k in range(source.shape[0]):
            target[k] = source[k]


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
def row_of(sides: Sides, shape: Array, at: Any, count: int, circular: bool, work: Array) -> Sides:
    """``count`` cells of a row of them; ``at`` are row and column in either image."""
    y, x, other_y, other_x = at
    here, there = (y * shape[1] + x) * LANES, (other_y * shape[1] + other_x) * LANES
    off, inverse = sides.off[here : here + count], sides.inverse[here : here + count]
    if circular:
        other_off, other_inverse = work[0, :count], work[1, :count]
        lanes(sides.other_off, shape, other_y, other_x, other_off)
        lanes(sides.other_inverse, shape, other_y, other_x, other_inverse)
        return Sides(off, inverse, other_off, other_inverse)
    return Sides(
        off,
        inverse,
        sides.other_off[there : there + count],
        sides.other_inverse[there : there + count],
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
def convolve(
    stage: Stage, program: Program, pair: Pair, index: int, below: Level, level: Level, work: Work
) -> None:
    """A convolution and its activation, from ``work.here`` to ``work.there``."""
    step, terms = stage.first + index, program.power_terms[stage.first + index]
    if terms == 0 or program.tangent:
        any_layer(stage, program, pair, index, below, level, work)
        return
    power, both = program.power[step], (below, level)
    stretch, moment = program.stretch[step], program.moment_root[step] ** 2
    numbers = stretch, moment, stage.scale[index], program.fall[step]
    if program.kind[step] == NEAR:
        if terms == 9:
            quick_layer((to_tuple(power[0], 9),), numbers, stage, pair, index, both, work)
        elif terms == 13:
            quick_layer((to_tuple(power[0], 13),), numbers, stage, pair, index, both, work)
        elif terms == 17:
            quick_layer((to_tuple(power[0], 17),), numbers, stage, pair, index, both, work)
        else:
            quick_layer((to_tuple(power[0], 25),), numbers, stage, pair, index, both, work)
    elif terms == 9:
        series = to_tuple(power[0], 9), to_tuple(power[3], 9)
        quick_layer(series, numbers, stage, pair, index, both, work)
    elif terms == 13:
        series13 = to_tuple(power[0], 13), to_tuple(power[3], 13)
        quick_layer(series13, numbers, stage, pair, index, both, work)
    elif terms == 17:
        series17 = to_tuple(power[0], 17), to_tuple(power[3], 17)
        quick_layer(series17, numbers, stage, pair, index, both, work)
    else:
        series25 = to_tuple(power[0], 25), to_tuple(power[3], 25)
        quick_layer(series25, numbers, stage, pair, index, both, work)


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
