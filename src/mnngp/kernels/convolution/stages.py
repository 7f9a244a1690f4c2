"""What the compiled pass hands around: pictures of a displacement, and what images have alone."""

from __future__ import annotations

from typing import Any, NamedTuple

from mnngp._system.compiled import uncounted
from mnngp._typing import Array
from mnngp.kernels.convolution.vectors import load, repeat

ROWS = 16  # of ``Work.rows``


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
    """``LANES`` images, each with one of ``LANES`` others; or one with ``LANES`` others.

    What two images have of their own is most of what a pass reads. Of one ``alone`` it is one
    number at each position, and that of the others stays in the second cache while rows go by.
    """

    mine: Maps
    theirs: Maps
    alone: bool


@uncounted
def mine_at(alone: bool, values: Array, place: int) -> Any:
    """What one of the maps of ``Pair.mine`` has at a position, in all lanes."""
    return repeat(values, place) if alone else load(values, place)


class Source(NamedTuple):
    """What a pooling has left of the pairs of positions that are asked for."""

    distances: Array  # (pairs · LANES,)
    tangents: Array
    start: Array  # (2 height - 1, 2 width - 1) where each displacement begins; -1: not asked for
    shift: int  # where its E begins in ``Maps.pooled``


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
    """Memory of a thread: pictures before and behind a layer, rows, and ``levels``."""

    here: Array
    there: Array
    here_t: Array
    there_t: Array
    rows: Array  # (ROWS, width · LANES)
    table: Array  # (convolutions + 1, 10)


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


@uncounted
def overlap(shape: Array, down: int, right: int, circular: bool) -> Rectangle:
    """The positions p of an image for which p + d is in the image, too."""
    if circular:
        return Rectangle(0, shape[0], 0, shape[1])
    high, wide = shape[0], shape[1]
    return Rectangle(max(0, -down), min(high, high - down), max(0, -right), min(wide, wide - right))


@uncounted
def level_of(table: Array, index: int) -> Level:
    """Read a row of ``levels``."""
    row = table[index]
    return Level(
        row[0],
        row[1],
        Rectangle(row[2], row[3], row[4], row[5]),
        Rectangle(row[6], row[7], row[8], row[9]),
    )


@uncounted
def levels(stage: Stage, down: int, right: int, table: Array) -> None:
    """What a displacement behind the stage asks for, from the top down."""
    count = stage.size.shape[0]
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
