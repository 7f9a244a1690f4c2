"""The compiled pass over all displacements and stages, for many pairs of images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mnngp._system.compiled import compiled
from mnngp._typing import Array
from mnngp.kernels.convolution.displacement import through
from mnngp.kernels.convolution.geometry import Plan
from mnngp.kernels.convolution.pictures import (
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


@compiled
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


@compiled
def stored_of(plan: Plan, index: int, store: Store) -> Source:
    """What the pooling before stage ``index`` has left; nothing before the first."""
    if index == 0:
        none = np.empty((1, 1), np.int64)
        return Source(store.distances[:0], store.tangents[:0], none, 0)
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


@compiled
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


@compiled
def read_out(
    plan: Plan, shape: Array, at: Rectangle, displacement: Array, work: Work, to: Array
) -> None:
    """Add a picture to what the readout gives, (2, LANES): distances and tangents."""
    for part in range(2 if work.there_t.shape[0] > 0 else 1):
        picture, place, sums = work.there if part == 0 else work.there_t, 0, to[part]
        total = load(sums, 0)
        for y in range(at.top, at.bottom):
            row = spread(to.dtype.type(0.0))
            for x in range(at.left, at.right):
                weight = plan.right[(x + displacement[1]) % shape[1] - x + shape[1] - 1, x]
                row = row + weight * load(picture, place)
                place += LANES
            weight = plan.down[(y + displacement[0]) % shape[0] - y + shape[0] - 1, y]
            total = total + weight * row
        store(total, sums, 0)


@compiled
def pair_of_images(
    plan: Plan, program: Program, pair: Pair, work: Work, store: Store, to: Array
) -> None:
    """All stages of an image with ``LANES`` others; the readout's sums are added to ``to``.

    A plan that ends with a pooling leaves them in the store.
    """
    count, poolings = plan.stages.shape[0], plan.pools.shape[0]
    store.distances[:] = store.distances.dtype.type(0.0)
    store.tangents[:] = store.distances.dtype.type(0.0)
    for index in range(count):
        stage, source = stage_of(plan, index), stored_of(plan, index, store)
        shape = stage.shape[stage.shape.shape[0] - 1]
        for k in range(plan.wanted_span[index, 0], plan.wanted_span[index, 1]):
            wanted = plan.wanted[k]
            table = levels(stage, wanted[0], wanted[1])
            done = through(stage, program, pair, table, source, work)
            at = level_of(table, table.shape[0] - 1).known
            if index < poolings:
                target = stored_of(plan, index + 1, store)
                deposit(plan, index, shape, at, wanted, done, target)
            else:
                read_out(plan, shape, at, wanted, done, to)


@compiled
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
def work_of(plan: Plan, program: Program) -> tuple[Work, Store]:
    """The memory of a thread."""
    dtype = program.moment_root.dtype
    cells, stored = plan.area * LANES, plan.stored.sum() * LANES
    tangent = 1 if program.tangent else 0
    work = Work(
        np.empty(cells, dtype),
        np.empty(cells, dtype),
        np.empty(cells * tangent, dtype),
        np.empty(cells * tangent, dtype),
        np.empty((ROWS, plan.width * LANES), dtype),
    )
    return work, Store(np.empty(stored, dtype), np.empty(stored * tangent, dtype))


@compiled
def turned(maps: Maps, turn: int, to: Maps) -> None:
    """The same images in other lanes: lane l gets that of lane l + turn."""
    for channel in range(maps.pixels.shape[0]):
        turn_lanes(maps.pixels[channel], turn, to.pixels[channel])
    turn_lanes(maps.before, turn, to.before)
    turn_lanes(maps.off, turn, to.off)
    turn_lanes(maps.inverse, turn, to.inverse)
    turn_lanes(maps.hermite, turn, to.hermite)
    turn_lanes(maps.pooled, turn, to.pooled)


@compiled
def turn_lanes(values: Array, turn: int, to: Array) -> None:
    """Those of one map."""
    if turn == 0 or values.shape[0] == 0:
        to[:] = values
        return
    # all but the first and the last position in one loop, whose reads stay inside
    for edge in (0, values.shape[0] - LANES):
        for lane in range(LANES):
            to[edge + lane] = values[edge + (lane + turn) % LANES]
    middle = values.shape[0] - 2 * LANES
    after, before = values[LANES + turn :], values[turn:]
    target = to[LANES:]
    for k in range(middle):
        target[k] = after[k] if (k & (LANES - 1)) < LANES - turn else before[k]


@compiled
def empty_like(maps: Maps) -> Maps:
    """Memory for one of many."""
    return Maps(
        np.empty_like(maps.pixels),
        np.empty_like(maps.before),
        np.empty_like(maps.off),
        np.empty_like(maps.inverse),
        np.empty_like(maps.hermite),
        maps.hermite_start,
        np.empty_like(maps.pooled),
    )


@compiled
def blocks_of_images(
    plan: Plan, program: Program, rows: Maps, cols: Maps, wanted: Array, out: Array, pooled: Array
) -> None:
    """Blocks of images with blocks of others: ``out`` (2, tasks, LANES).

    A task (``wanted``, (tasks, 3)) is a block of the rows, one of the columns, and a turn: with
    turn k lane l is the pair of image l of the first with image l + k of the other. ``pooled``
    (tasks, positions · LANES) gets what a plan leaves that ends with a pooling.
    """
    work, store = work_of(plan, program)
    theirs = empty_like(maps_at(cols, 0))
    for task in range(wanted.shape[0]):
        row, col, turn = wanted[task]
        if task == 0 or col != wanted[task - 1, 1] or turn != wanted[task - 1, 2]:
            turned(maps_at(cols, col), turn, theirs)
        out[:, task] = out.dtype.type(0.0)
        pair_of_images(plan, program, Pair(maps_at(rows, row), theirs), work, store, out[:, task])
        if pooled.shape[1] > 0:
            last = stored_of(plan, plan.pools.shape[0], store)
            pooled[task] = last.distances[: pooled.shape[1]]
