"""The compiled pass over all displacements and stages, for many pairs of images."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mnngp._system.compiled import compiled, uncounted
from mnngp._typing import Array
from mnngp.kernels.convolution.displacement import through
from mnngp.kernels.convolution.geometry import Plan
from mnngp.kernels.convolution.stages import (
    ROWS,
    Maps,
    Pair,
    Rectangle,
    Source,
    Stage,
    Work,
    level_of,
    levels,
)
from mnngp.kernels.convolution.vectors import LANES, load, spread, store
from mnngp.kernels.strips import Program


class Store(NamedTuple):
    """Memory of a thread for what poolings leave, one after another."""

    distances: Array  # (Σ stored · LANES,)
    tangents: Array


@uncounted
def stage_of(plan: Plan, index: int) -> Stage:
    """One of the stages."""
    row = plan.stages[index]
    first, last, shape = row[0], row[1], row[2]
    return Stage(
        first,
        row[3] > 0,
        plan.shape[shape : shape + last - first + 1],
        plan.size[first:last],
        plan.stride[first:last],
        plan.pad[first:last],
        plan.scale[first:last],
        plan.before[first:last],
        plan.behind[first:last],
    )


@uncounted
def stored_of(plan: Plan, index: int, store: Store) -> Source:
    """What the pooling before stage ``index`` has left; nothing before the first."""
    if index == 0:
        return Source(store.distances[:0], store.tangents[:0], plan.wanted, 0)
    begin = plan.stored[: index - 1].sum() * LANES
    end = begin + plan.stored[index - 1] * LANES
    high, wide = plan.pool_shape[index - 1]
    shift = plan.start_shift[index - 1]
    table = plan.start[shift : shift + (2 * high - 1) * (2 * wide - 1)]
    return Source(
        store.distances[begin:end],
        store.tangents[begin : end if store.tangents.shape[0] > 0 else begin],
        table.reshape((2 * high - 1, 2 * wide - 1)),
        plan.pool_shift[index - 1],
    )


@uncounted
def deposit(
    plan: Plan, pool: int, shape: Array, at: Rectangle, displacement: Array, work: Work, to: Source
) -> None:
    """Add a picture to what a pooling leaves: the mean over both windows."""
    high, wide, down, right = plan.pools[pool]
    rows, columns = plan.pool_shape[pool]
    one = work.there.dtype.type(1.0)
    part = one / work.there.dtype.type(high * wide * high * wide)
    for y in range(at.top, at.bottom):
        other_y = (y + displacement[0]) % shape[0]
        for x in range(at.left, at.right):
            other_x = (x + displacement[1]) % shape[1]
            cell = ((y - at.top) * (at.right - at.left) + x - at.left) * LANES
            # all windows that hold p, and all that hold p'
            for wy in range(max(0, (y - high) // down + 1), min(rows - 1, y // down) + 1):
                for wx in range(max(0, (x - wide) // right + 1), min(columns - 1, x // right) + 1):
                    for vy in range(
                        max(0, (other_y - high) // down + 1), min(rows - 1, other_y // down) + 1
                    ):
                        for vx in range(
                            max(0, (other_x - wide) // right + 1),
                            min(columns - 1, other_x // right) + 1,
                        ):
                            begin = to.start[vy - wy + rows - 1, vx - wx + columns - 1]
                            if begin < 0:
                                continue
                            begin += (wy - max(0, wy - vy)) * (columns - abs(vx - wx))
                            begin = (begin + wx - max(0, wx - vx)) * LANES
                            value = load(to.distances, begin) + part * load(work.there, cell)
                            store(value, to.distances, begin)
                            if to.tangents.shape[0] > 0:
                                value = load(to.tangents, begin) + part * load(work.there_t, cell)
                                store(value, to.tangents, begin)


@uncounted
def read_out(
    plan: Plan, shape: Array, at: Rectangle, displacement: Array, work: Work, to: Array
) -> None:
    """Add a picture to what the readout gives, (2, LANES): distances and tangents."""
    (down, right), (height, width) = displacement, shape
    for part in range(2 if work.there_t.shape[0] > 0 else 1):
        picture, place, sums = work.there if part == 0 else work.there_t, 0, to[part]
        total = load(sums, 0)
        for y in range(at.top, at.bottom):
            row = spread(to.dtype.type(0.0))
            for x in range(at.left, at.right):
                apart = right if x + right < width else right - width
                row = row + plan.right[apart + width - 1, x] * load(picture, place)
                place += LANES
            apart = down if y + down < height else down - height
            total = total + plan.down[apart + height - 1, y] * row
        store(total, sums, 0)


@uncounted
def maps_at(maps: Maps, index: int) -> Maps:
    """One image of many, or one block of ``LANES``."""
    return Maps(
        maps.pixels[index],
        maps.before[index],
        maps.off[index],
        maps.inverse[index],
        maps.hermite[index],
        maps.hermite_start,
        maps.pooled[index],
    )


@compiled
def aligned(count: int, dtype: Any) -> Array:
    """Memory that begins with a line of the cache: a vector that lies in two of them takes two."""
    numbers = np.empty(count + LANES, dtype)
    first = -numbers.ctypes.data % (LANES * numbers.itemsize) // numbers.itemsize
    return numbers[first : first + count]


@compiled
def work_of(plan: Plan, program: Program) -> tuple[Work, Store]:
    """The memory of a thread."""
    dtype = program.moment_root.dtype
    cells, stored = plan.area * LANES, plan.stored.sum() * LANES
    tangent = 1 if program.tangent else 0
    work = Work(
        aligned(cells, dtype),
        aligned(cells, dtype),
        aligned(cells * tangent, dtype),
        aligned(cells * tangent, dtype),
        np.empty((ROWS, plan.width * LANES), dtype),
        np.empty((plan.size.shape[0] + 1, 10), np.int64),
    )
    return work, Store(aligned(stored, dtype), aligned(stored * tangent, dtype))


@uncounted
def pairs_of_images(
    plan: Plan,
    program: Program,
    rows: Maps,
    cols: Maps,
    wanted: Array,
    memory: Any,
    out: Array,
    pooled: Array,
) -> None:
    """All stages of many pairs; the readout's sums to ``out``, (2, tasks, LANES).

    A task (``wanted``, (tasks, 2)) is an image of the rows and a block of the columns; or a block
    of the rows, whose images have a partner each in the block of the columns. ``memory`` is from
    ``work_of``. ``pooled`` (tasks, positions · LANES) gets what a plan leaves that ends with a
    pooling.
    """
    work, store = memory
    count, poolings = plan.stages.shape[0], plan.pools.shape[0]
    alone = rows.pixels.shape[2] != cols.pixels.shape[2]
    zero = out.dtype.type(0.0)
    for task in range(wanted.shape[0]):
        pair = Pair(maps_at(rows, wanted[task, 0]), maps_at(cols, wanted[task, 1]), alone)
        sums = out[:, task]
        sums[:] = zero
        store.distances[:] = zero
        store.tangents[:] = zero
        for index in range(count):
            stage, source = stage_of(plan, index), stored_of(plan, index, store)
            shape = stage.shape[stage.shape.shape[0] - 1]
            for k in range(plan.wanted_span[index, 0], plan.wanted_span[index, 1]):
                asked = plan.wanted[k]
                levels(stage, asked[0], asked[1], work.table)
                done = through(stage, program, pair, source, work)
                at = level_of(work.table, stage.size.shape[0]).known
                if index < poolings:
                    target = stored_of(plan, index + 1, store)
                    deposit(plan, index, shape, at, asked, done, target)
                else:
                    read_out(plan, shape, at, asked, done, sums)
        begin = store.distances.shape[0] - pooled.shape[1]
        for k in range(pooled.shape[1]):
            pooled[task, k] = store.distances[begin + k]
