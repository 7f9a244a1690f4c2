"""Compiled pieces of the convolutional pass: what happens to a row of a picture.

A row has the cells of some neighbouring positions, ``LANES`` pairs of images at each of them, side
by side, so that every loop is long and vectorises.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from mnngp._system.compiled import compiled
from mnngp._typing import Array
from mnngp.kernels.ladder import hermite_values, ladder_of
from mnngp.kernels.strips import HERMITE, Program, polynomial

LANES = 16  # pairs of images: a register of float32, or two of float64


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
