"""Products with a kernel matrix that is never there as a whole: tiles, kept in memory as far as they fit, or computed anew.

Only one triangle of a symmetric matrix is visited: a tile serves for its own rows and, transposed, for its mirror image's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp.kernels.matrix import correlations
from mnngp.kernels.points import Points
from mnngp.kernels.structure import Network

Matrix = NDArray[Any]
TILE = 1024  # points: a tile of 8 MB, computed at full speed, and still in the cache for its transposed product


def part(points: Points, start: int, stop: int) -> Points:
    """A run of points, as a view."""
    return Points(points.directions[start:stop], points.square_lengths[start:stop])


def triangle(n: int) -> int:
    """Entries of all tiles of a symmetric matrix; those on its diagonal are whole."""
    full, rest = divmod(n, TILE)
    return full * (full + 1) // 2 * TILE * TILE + rest * (full * TILE + rest)


class Patch:
    """A rectangle of ``correlations`` (``kernels.matrix``), or a symmetric square on the diagonal, in tiles.

    Parameters
    ----------
    network, contraction
        What the entries are.
    rows : Points
    cols : Points, or None for those of the rows
    room : int
        Bytes for tiles that are kept: the first ones, until it is full. The others are computed in every product.
    done : function, optional
        Is told each finished share of the tiles that are kept.
    """

    def __init__(
        self,
        network: Network,
        contraction: float,
        rows: Points,
        cols: Points | None,
        room: int,
        done: Callable[[float], object] | None = None,
    ) -> None:
        self.network, self.contraction, self.rows, self.cols = network, contraction, rows, cols
        self.places = [
            (i, j)
            for i in range(0, len(rows), TILE)
            for j in range(0, i + 1 if cols is None else len(cols), TILE)
        ]  # fmt: skip
        sizes = [network.dtype.itemsize * self._height(i) * self._width(j) for i, j in self.places]
        fitting = int(np.searchsorted(np.cumsum(sizes), room, side="right"))
        self.nbytes, self.total = sum(sizes[:fitting]), sum(sizes)
        self.kept: list[Matrix] = []
        for place, size in zip(self.places[:fitting], sizes[:fitting], strict=True):
            self.kept.append(self._tile(*place))
            if done is not None:
                done(size / self.nbytes)

    def __sizeof__(self) -> int:
        """What Dask goes by when it decides where to compute and when to spill."""
        points = self.rows.directions.nbytes + (0 if self.cols is None else self.cols.directions.nbytes)
        return object.__sizeof__(self) + self.nbytes + points

    def _height(self, i: int) -> int:
        return min(TILE, len(self.rows) - i)

    def _width(self, j: int) -> int:
        return min(TILE, len(self.rows if self.cols is None else self.cols) - j)

    def _tile(self, i: int, j: int) -> Matrix:
        rows = part(self.rows, i, i + TILE)
        if self.cols is None and i == j:
            return correlations(self.network, rows, contraction=self.contraction)
        cols = part(self.rows if self.cols is None else self.cols, j, j + TILE)
        return correlations(self.network, rows, cols, contraction=self.contraction)

    def product(self, v: Matrix, w: Matrix | None = None) -> tuple[Matrix, Matrix]:
        """``T v`` for the columns' v, and ``Tᵀ w`` for the rows' w; of a square on the diagonal ``A v``, twice the same array."""
        symmetric = self.cols is None
        below = np.zeros((len(self.rows), v.shape[1]))
        right = below if symmetric else np.zeros((len(v), v.shape[1]))
        w = v if w is None else w
        for number, (i, j) in enumerate(self.places):
            tile = self.kept[number] if number < len(self.kept) else self._tile(i, j)
            # Products in float64 of entries in float32: rounding of the vectors would end the convergence early.
            tile = tile.astype(np.float64, copy=False)
            below[i : i + TILE] += tile @ v[j : j + TILE]
            if not (symmetric and i == j):
                right[j : j + TILE] += tile.T @ w[i : i + TILE]
        return below, right
