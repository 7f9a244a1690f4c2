"""Products with a kernel matrix that is never there as a whole: tiles, kept in memory as far as
they fit, or computed anew.

Only one triangle of a symmetric matrix is visited: a tile serves for its own rows and, transposed,
for its mirror image's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mnngp._system import threads
from mnngp._typing import Matrix
from mnngp.kernels.evaluate import correlations
from mnngp.kernels.points import Points
from mnngp.networks.network import Network

# points: a tile of 8 MB, computed at full speed, and still in the cache for its transposed product
TILE = 1024


def part(points: Points, start: int, stop: int) -> Points:
    """A run of points, as a view."""
    return Points(points.directions[start:stop], points.square_lengths[start:stop])


@dataclass(frozen=True)
class Shape:
    """A rectangle of a matrix, or a square on the diagonal of a symmetric one, and how it is cut
    into tiles.
    """

    rows: int
    cols: int
    symmetric: bool

    @cached_property
    def tiles(self) -> list[tuple[int, int]]:
        """Where each tile begins; of a symmetric square those of the lower triangle."""
        starts = [(i, j) for i in range(0, self.rows, TILE) for j in range(0, self.cols, TILE)]
        return [(i, j) for i, j in starts if j <= i or not self.symmetric]

    def sizes(self) -> list[int]:
        """Entries of each tile; those on a diagonal are whole."""
        return [min(TILE, self.rows - i) * min(TILE, self.cols - j) for i, j in self.tiles]

    def fitting(self, numbers: int) -> int:
        """How many of the tiles fit into the memory of so many numbers."""
        return int(np.searchsorted(np.cumsum(self.sizes()), numbers, side="right"))


@dataclass(frozen=True, eq=False)
class Patch:
    """A rectangle of ``correlations`` (``kernels.matrix``), or a square on its diagonal.

    Attributes
    ----------
    network, contraction
        What the entries are.
    shape : Shape
    rows, cols : Points, or None
        None if all tiles are kept. Those of a square are its rows.
    kept : sequence of arrays
        The first tiles. The others are computed in every product.
    """

    network: Network
    contraction: float
    shape: Shape
    rows: Points | None
    cols: Points | None
    kept: Sequence[Matrix] = ()

    def tile(self, i: int, j: int) -> Matrix:
        """The tile that begins there."""
        assert self.rows is not None, "all tiles are kept"
        assert self.cols is not None
        rows = part(self.rows, i, i + TILE)
        cols = None if self.shape.symmetric and i == j else part(self.cols, j, j + TILE)
        return correlations(self.network, rows, cols, contraction=self.contraction)

    def first(self, count: int, done: Callable[[float], object] | None = None) -> list[Matrix]:
        """The first tiles, to be kept; ``done`` is told each finished share of them."""
        tiles = []
        for place in self.shape.tiles[:count]:
            tiles.append(self.tile(*place))
            if done is not None:
                done(1.0 / count)
        return tiles

    def product(self, v: Matrix, w: Matrix) -> tuple[Matrix, Matrix]:
        """``T v`` for the columns' v, and ``Tᵀ w`` for the rows' w; of a square on the diagonal ``A
        v``, twice the same array.

        Kept tiles are shared out to threads, each with its own sums: BLAS makes little of more than
        one on so few columns. A tile that is computed has all threads to itself.
        """
        below, right = self._nothing(v)
        count, crew = len(self.kept), threads.count()
        sums = [self._nothing(v) for _ in range(crew)]

        def share(member: int) -> None:
            for number in range(member, count, crew):
                self._add(*sums[member], number, self.kept[number], v, w)

        threads.parallel_for(
            share, range(crew), work=sum(tile.size for tile in self.kept) * v.shape[1]
        )
        for number in range(count, len(self.shape.tiles)):
            self._add(below, right, number, self.tile(*self.shape.tiles[number]), v, w)
        for other_below, other_right in sums:
            below += other_below
            if right is not below:
                right += other_right
        return below, right

    def _nothing(self, v: Matrix) -> tuple[Matrix, Matrix]:
        below = np.zeros((self.shape.rows, v.shape[1]))
        return below, below if self.shape.symmetric else np.zeros((self.shape.cols, v.shape[1]))

    def _add(
        self, below: Matrix, right: Matrix, number: int, tile: Matrix, v: Matrix, w: Matrix
    ) -> None:
        i, j = self.shape.tiles[number]
        # Products in float64 of entries in float32: rounding of the vectors would end the
        # convergence early.
        entries = tile.astype(np.float64, copy=False)
        below[i : i + TILE] += entries @ v[j : j + TILE]
        if not (self.shape.symmetric and i == j):
            right[j : j + TILE] += entries.T @ w[i : i + TILE]
