"""What a readout asks for: stages, displacements, and where everything begins.

From the top down: a readout asks for displacements of the last stage's pictures. Each of them asks
for one displacement before a convolution, times its stride, and for a few before a pooling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnngp._typing import Array, Vector
from mnngp.networks.convolutional import ConvolutionalNetwork, Place
from mnngp.networks.layers import Conv, GlobalAvgPool, Pair

Displacements = set[tuple[int, int]]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Section:
    """Convolutions between two poolings, or the inputs and the readout."""

    shape: Pair  # before them
    convolutions: tuple[Place, ...]
    pool: Place | None  # behind them; None: the readout

    @property
    def behind(self) -> Pair:
        """The shape that the pooling, or the readout, gets."""
        return self.convolutions[-1].behind if self.convolutions else self.shape

    @property
    def circular(self) -> bool:
        """Whether the pictures go on behind their borders."""
        return any(
            isinstance(one.layer, Conv) and one.layer.padding == "circular"
            for one in self.convolutions
        )

    def before(self, behind: Iterable[tuple[int, int]]) -> Displacements:
        """Displacements of positions before the section, from those behind it."""
        strides = np.prod([(1, 1), *(one.stride for one in self.convolutions)], axis=0)
        asked = {(int(strides[0]) * down, int(strides[1]) * right) for down, right in behind}
        if not self.circular:
            return asked
        high, wide = self.shape  # p' is left of p, or right of it
        return {
            pair
            for down, right in asked
            for pair in product(_unrolled(down, high), _unrolled(right, wide))
        }

    def rolled(self, behind: Iterable[tuple[int, int]]) -> Displacements:
        """The pictures that hold some displacements behind the section."""
        high, wide = self.behind
        if not self.circular:
            return set(behind)
        return {(down % high, right % wide) for down, right in behind}


def _unrolled(displacement: int, length: int) -> set[int]:
    return {displacement % length, displacement % length - length} - {-length}


def sections(network: ConvolutionalNetwork, shape: Pair, signal: bool) -> tuple[Section, ...]:
    """Cut a network at its poolings; the last of them is with the readout if it stands there."""
    found: list[Section] = []
    convolutions: list[Place] = []
    start = shape
    for place in network.places(shape, signal=signal):
        if isinstance(place.layer, Conv):
            convolutions.append(place)
        else:
            found.append(Section(start, tuple(convolutions), place))
            start, convolutions = place.behind, []
    return (*found, Section(start, tuple(convolutions), None))


def readout_weights(count: int, pool: Place | None, axis: int, *, everywhere: bool) -> Vector:
    """The weight of each displacement (from -count + 1 on) and position, along one axis.

    A readout takes ``Σ weight V(p, p')``: of equal positions behind the pooling, or of all.
    """
    members = np.eye(count)
    if pool is not None:
        size, stride, windows = pool.size[axis], pool.stride[axis], pool.behind[axis]
        members = np.zeros((windows, count))
        for window in range(windows):
            members[window, window * stride : window * stride + size] = 1.0 / size
    if everywhere:
        total = members.mean(axis=0)
        pairs = np.outer(total, total)
    else:
        pairs = members.T @ members / len(members)
    weights = np.zeros((2 * count - 1, count))
    for place in range(count):
        weights[np.arange(count) - place + count - 1, place] = pairs[place]
    return weights


class Plan(NamedTuple):
    """All sections, as arrays that compiled code can read (see ``displacement.Stage``)."""

    stages: Array  # (stages, 4) first and last convolution, first shape, whether it is circular
    shape: Array  # (…, 2)
    size: Array
    stride: Array
    pad: Array
    scale: Array
    before: Array
    behind: Array
    wanted: Array  # (…, 2) displacements behind each stage
    wanted_span: Array  # (stages, 2)
    pools: Array  # (poolings, 4) size and stride
    pool_shift: Array  # (poolings,) where E begins in ``Maps.pooled``
    pool_shape: Array  # (poolings, 2)
    stored: Array  # (poolings,) pairs of positions that are stored
    start: Array  # where each displacement begins in the store, all tables one after another
    start_shift: Array  # (poolings,) where each table begins
    down: Array  # (2 height - 1, height) the readout's weight of each displacement and row
    right: Array  # (2 width - 1, width)
    area: int  # cells of the largest picture
    width: int  # columns of the widest

    @property
    def updates(self) -> float:
        """Cells of all pictures of a pair of images, in all layers."""
        total = 0.0
        for index, (first, last, shape, circular) in enumerate(self.stages):
            begin, end = self.wanted_span[index]
            asked = np.abs(self.wanted[begin:end])
            strides = np.ones(2, dtype=np.int64)
            for level in range(last - first, -1, -1):
                overlap = self.shape[shape + level] - strides * asked * (1 - circular)
                total += float(np.maximum(overlap, 0).prod(axis=1).sum())
                if level:
                    strides = strides * self.stride[first + level - 1]
        return total


def plan(
    network: ConvolutionalNetwork, shape: Pair, signal: bool, poolings: int | None = None
) -> Plan:
    """What has to be done; with ``poolings`` for the variances behind so many of them only."""
    return _plan(network, shape, signal, poolings)


@lru_cache(maxsize=64)
def _plan(network: ConvolutionalNetwork, shape: Pair, signal: bool, poolings: int | None) -> Plan:
    parts = sections(network, shape, signal)
    last = len(parts) - 1 if poolings is None else poolings - 1
    everywhere = isinstance(network.readout, GlobalAvgPool)
    down, right = np.zeros((1, 1)), np.zeros((1, 1))
    folded = False
    if poolings is None:
        # a pooling right before the readout is part of it: nothing has to be stored
        folded = last > 0 and not parts[last].convolutions
        last -= folded
        end, pool = parts[last].behind, parts[last].pool if folded else None
        down, right = (
            readout_weights(end[axis], pool, axis, everywhere=everywhere) for axis in (0, 1)
        )
        wanted = {
            (int(y), int(x))
            for y in np.flatnonzero(down.any(axis=1)) - end[0] + 1
            for x in np.flatnonzero(right.any(axis=1)) - end[1] + 1
        }
    else:
        wanted = _before_pool(parts[last].pool, {(0, 0)})
    return _packed(network, parts[: last + 1], wanted, (down, right), stored=poolings is not None)


def _before_pool(pool: Place | None, behind: Displacements) -> Displacements:
    assert pool is not None
    high, wide = pool.size
    inside = list(product(range(1 - high, high), range(1 - wide, wide)))
    return {
        (pool.stride[0] * down + y, pool.stride[1] * right + x)
        for down, right in behind
        for y, x in inside
        if abs(pool.stride[0] * down + y) < pool.before[0]
        and abs(pool.stride[1] * right + x) < pool.before[1]
    }


def _packed(
    network: ConvolutionalNetwork,
    parts: tuple[Section, ...],
    wanted: Displacements,
    weights: tuple[Vector, Vector],
    *,
    stored: bool,
) -> Plan:
    asked: list[Displacements] = [set() for _ in parts]
    kept: list[Displacements] = []  # behind each pooling
    if stored:
        kept = [{(0, 0)}]
    for index in reversed(range(len(parts))):
        asked[index] = parts[index].rolled(wanted)
        if index:
            kept.insert(0, parts[index].before(asked[index]))
            wanted = _before_pool(parts[index - 1].pool, kept[0])
    poolings = [part.pool for part in parts if part.pool is not None][: len(kept)]
    convolutions = [one for part in parts for one in part.convolutions]
    maps = network.affine[: len(convolutions)]
    tables, stores = [], []
    for pool, displacements in zip(poolings, kept, strict=True):
        table, count = _starts(pool.behind, displacements)
        tables.append(table)
        stores.append(count)
    shapes: list[Pair] = []
    stages, first = [], 0
    for part in parts:
        end = first + len(part.convolutions)
        stages.append((first, end, len(shapes), part.circular))
        shapes += [part.shape, *(one.behind for one in part.convolutions)]
        first = end
    margins = [
        (one.before[0] + one.size[0] + one.pad[0], one.before[1] + one.size[1] + one.pad[1])
        for one in convolutions
    ] + shapes
    return Plan(
        _ints(stages, 4),
        _ints(shapes, 2),
        _ints([one.size for one in convolutions], 2),
        _ints([one.stride for one in convolutions], 2),
        _ints([one.pad for one in convolutions], 2),
        np.array(
            [
                dense.weight_var / (one.size[0] * one.size[1])
                for one, dense in zip(convolutions, maps, strict=True)
            ],
            dtype=network.dtype,
        ),
        _begins([one.before[0] * one.before[1] for one in convolutions]),
        _begins([one.behind[0] * one.behind[1] for one in convolutions]),
        _ints([pair for displacements in asked for pair in sorted(displacements)], 2),
        np.lib.stride_tricks.sliding_window_view(_begins([len(each) for each in asked]), 2).copy(),
        _ints([(*pool.size, *pool.stride) for pool in poolings], 4),
        _begins([pool.behind[0] * pool.behind[1] for pool in poolings]),
        _ints([pool.behind for pool in poolings], 2),
        np.array(stores, dtype=np.int64),
        np.concatenate([*tables, np.zeros(0, dtype=np.int64)]),
        _begins([table.size for table in tables]),
        weights[0].astype(network.dtype),
        weights[1].astype(network.dtype),
        max(high * wide for high, wide in margins),
        max(wide for _, wide in margins),
    )


def _starts(shape: Pair, displacements: Displacements) -> tuple[Indices, int]:
    """Where the pairs of positions of each displacement begin in a store; how many there are."""
    (high, wide), count = shape, 0
    table = np.full((2 * high - 1, 2 * wide - 1), -1, dtype=np.int64)
    for down, right in sorted(displacements):
        table[down + high - 1, right + wide - 1] = count
        count += (high - abs(down)) * (wide - abs(right))
    return table.reshape(-1), count


def _begins(lengths: list[int]) -> Indices:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _ints(rows: Sequence[tuple[int, ...]], columns: int) -> Indices:
    return np.array(rows, dtype=np.int64).reshape(-1, columns)
