"""Products with a kernel matrix that is never there as a whole: tiles, kept or computed anew.

Only one triangle of a symmetric matrix is visited: a tile serves for its own rows and, transposed,
for its mirror image's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from mnngp._system import memory, threads
from mnngp._typing import Matrix
from mnngp.inference.solvers.interface import Progress
from mnngp.kernels.evaluate import correlations
from mnngp.kernels.points import Points
from mnngp.networks.network import Network

# points: a tile of 8 MB, computed at full speed, and still in the cache for its transposed product
TILE = 1024


@dataclass(frozen=True)
class Storage:
    """Where the kernel's tiles are."""

    kept: int  # bytes of the tiles that stay in memory
    total: int  # of all
    where: str  # whose memory that is

    def __str__(self) -> str:
        share = "kept" if self.kept == self.total else "computed anew in every iteration"
        if 0 < self.kept < self.total:
            share = f"{100.0 * self.kept / self.total:.0f} % of them kept, the others {share}"
        return f"{memory.format_bytes(self.total)} of tiles {self.where}, {share}"


class Operator(Protocol):
    """The matrix ``1 - (1 - ρ)/κ`` without noise, as a function of (n, k)."""

    storage: Storage

    def __call__(self, v: Matrix) -> Matrix: ...


@dataclass(frozen=True)
class Patch:
    """A rectangle of ``kernels.evaluate.correlations``, or a square on its diagonal, in tiles."""

    network: Network
    contraction: float
    height: int
    width: int
    symmetric: bool  # a square on the diagonal

    @cached_property
    def tiles(self) -> list[tuple[int, int]]:
        """Where each tile begins; of a symmetric square those of the lower triangle."""
        starts = [(i, j) for i in range(0, self.height, TILE) for j in range(0, self.width, TILE)]
        return [(i, j) for i, j in starts if j <= i or not self.symmetric]

    def sizes(self) -> list[int]:
        """Entries of each tile; those on a diagonal are whole."""
        return [min(TILE, self.height - i) * min(TILE, self.width - j) for i, j in self.tiles]

    def fitting(self, numbers: int) -> int:
        """How many of the tiles fit into the memory of so many numbers."""
        return int(np.searchsorted(np.cumsum(self.sizes()), numbers, side="right"))

    def tile(self, rows: Points, cols: Points, i: int, j: int) -> Matrix:
        """The tile that begins there; ``rows`` and ``cols`` are the points of the whole patch."""
        other = None if self.symmetric and i == j else cols[j : j + TILE]
        return correlations(self.network, rows[i : i + TILE], other, contraction=self.contraction)

    def first(
        self, rows: Points, cols: Points, count: int, progress: Progress | None = None
    ) -> list[Matrix]:
        """The first tiles, to be kept."""
        tiles = []
        for place in self.tiles[:count]:
            tiles.append(self.tile(rows, cols, *place))
            if progress is not None:
                progress(1.0 / count)
        return tiles

    def product(
        self, points: tuple[Points, Points] | None, kept: Sequence[Matrix], v: Matrix, w: Matrix
    ) -> tuple[Matrix, Matrix]:
        """``T v`` for the columns' v, and ``Tᵀ w`` for the rows' w; of a square twice ``A v``.

        ``kept`` are the first tiles; the others are computed of the rows' and columns' ``points``,
        each with all threads to itself. Kept ones are shared out to threads, each with its own
        sums: BLAS makes little of more than one on so few columns.
        """
        count, crew = len(kept), threads.count()
        sums = [self._zeros(v) for _ in range(crew)]

        def share(member: int) -> None:
            for number in range(member, count, crew):
                self._add(sums[member], number, kept[number], v, w)

        threads.parallel_for(share, range(crew), work=sum(tile.size for tile in kept) * v.shape[1])
        total = self._zeros(v)
        for number in range(count, len(self.tiles)):
            assert points is not None, "not all tiles are kept"
            self._add(total, number, self.tile(*points, *self.tiles[number]), v, w)
        below, right = total
        for other_below, other_right in sums:
            below += other_below
            if right is not below:
                right += other_right
        return below, right

    def _zeros(self, v: Matrix) -> tuple[Matrix, Matrix]:
        below = np.zeros((self.height, v.shape[1]))
        return below, below if self.symmetric else np.zeros((self.width, v.shape[1]))

    def _add(
        self, sums: tuple[Matrix, Matrix], number: int, tile: Matrix, v: Matrix, w: Matrix
    ) -> None:
        (below, right), (i, j) = sums, self.tiles[number]
        # Products in float64 of entries in float32: rounding of the vectors would end the
        # convergence early.
        entries = tile.astype(np.float64, copy=False)
        below[i : i + TILE] += entries @ v[j : j + TILE]
        if not (self.symmetric and i == j):
            right[j : j + TILE] += entries.T @ w[i : i + TILE]


class LocalTiles:
    """The operator of one process; ``budget`` is in bytes."""

    def __init__(
        self,
        network: Network,
        contraction: float,
        points: Points,
        budget: int,
        progress: Progress | None = None,
    ) -> None:
        n, size = len(points), network.dtype.itemsize
        self.points, self.patch = points, Patch(network, contraction, n, n, symmetric=True)
        count, sizes = self.patch.fitting(max(0, budget) // size), self.patch.sizes()
        self.kept = self.patch.first(points, points, count, progress)
        self.storage = Storage(size * sum(sizes[:count]), size * sum(sizes), "in memory")

    def __call__(self, v: Matrix) -> Matrix:
        return self.patch.product((self.points, self.points), self.kept, v, v)[0]
