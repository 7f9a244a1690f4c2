"""A kernel matrix cut into blocks: what they are, and how one is computed.

Blocks are squares, but for the last ones. Their sides are multiples of 16, as many images as the
compiled pass over convolutions takes at a time: so each entry is computed as it is in one piece,
and has the same digits. Of a symmetric matrix only blocks on and above the diagonal are computed.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mnngp._system import threads
from mnngp._typing import Matrix
from mnngp.activations import Activation
from mnngp.errors import InputError
from mnngp.kernels.sklearn import DeepKernel

if TYPE_CHECKING:
    from mnngp.kernels.points import Points

Place = tuple[int, int]  # of a block: which of the rows and which of the columns of blocks
_STEP = 16  # images that the compiled pass takes at a time
_SECONDS = 5.0  # of a block: what a killed process loses
_MEASURED = 0.3  # seconds that tell how long a block takes
_LARGEST = 2048
# bytes of images that are kept with what a network makes of each alone; others are prepared anew
# for each block, which takes as long as one of its rows and one of its columns
_KEPT = 1 << 29
_CORRELATIONS = np.array([-0.9, -0.3, 0.4, 0.95])


@dataclass(frozen=True)
class Grid:
    """Where the blocks of a matrix stand."""

    shape: tuple[int, int]
    size: int  # rows and columns of a block
    symmetric: bool

    def __iter__(self) -> Iterator[Place]:
        rows, columns = (-(-length // self.size) for length in self.shape)
        for row in range(rows):
            for column in range(row if self.symmetric else 0, columns):
                yield row, column

    def __len__(self) -> int:
        rows, columns = (-(-length // self.size) for length in self.shape)
        return rows * (rows + 1) // 2 if self.symmetric else rows * columns

    def slices(self, place: Place) -> tuple[slice, slice]:
        """The rows and the columns of a block."""
        rows, columns = (
            slice(index * self.size, min((index + 1) * self.size, length))
            for index, length in zip(place, self.shape, strict=True)
        )
        return rows, columns

    def pairs(self, place: Place) -> int:
        """How many entries of a block have to be computed."""
        rows, columns = (part.stop - part.start for part in self.slices(place))
        once = self.symmetric and place[0] == place[1]
        return int(rows * (rows + 1) // 2 if once else rows * columns)

    def put(self, matrix: Matrix, place: Place, values: Matrix) -> None:
        """Write a block, and the same beyond the diagonal of a symmetric matrix."""
        rows, columns = self.slices(place)
        matrix[rows, columns] = values
        if self.symmetric and place[0] != place[1]:
            matrix[columns, rows] = values.T


class Blocks:
    """The kernel of X with Y, or with itself, a block at a time.

    It may be sent to a worker, with the data.
    """

    def __init__(self, kernel: Any, X: Any, Y: Any = None) -> None:
        if not isinstance(kernel, DeepKernel):
            raise InputError(f"kernel must be a MaxoutKernel or a NetworkKernel, got {kernel!r}")
        self.kernel, self.network = kernel, kernel.network
        self.rows = kernel.checked("X", X)
        self.columns = None if Y is None or Y is X else kernel.checked("Y", Y, like=self.rows)
        kernel.prepared("X", self.rows[:1])  # whether the network takes such images
        self._kept: dict[tuple[bool, int], Points] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}}

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows if self.columns is None else self.columns)

    def grid(self, size: int) -> Grid:
        return Grid(self.shape, size, self.columns is None)

    def block(self, size: int, place: Place) -> Matrix:
        """Compute one."""
        from mnngp.kernels.evaluate import matrix

        rows, columns = self.grid(size).slices(place)
        x = self._points(rows, other=False)
        if self.columns is None and rows == columns:
            return matrix(self.network, x, None)[0]
        return matrix(self.network, x, self._points(columns, other=self.columns is not None))[0]

    def _points(self, part: slice, *, other: bool) -> Points:
        """Some images; what the engine finds out of each alone stays with them."""
        key = (other, part.start)
        if key not in self._kept:
            data = self.columns if other and self.columns is not None else self.rows
            points = self.kernel.prepared("Y" if other else "X", data[part])
            # a copy in the kernel's type, with the mirror images, and half as much for the rest
            used = 3 * (1 + len(self._kept)) * points.directions.nbytes
            if used > _KEPT:
                return points
            self._kept[key] = points
        return self._kept[key]

    def measured(self) -> tuple[int, float]:
        """A size of blocks that take some seconds here, and the seconds that a pair takes.

        The smallest give some work to each thread.
        """
        shape, seconds = self.shape, 0.0
        size = least = _STEP * math.ceil(math.sqrt(2.0 * threads.count()))
        if max(shape) <= size:
            return size, 0.0  # a single block
        self._time(2)  # what has to be compiled, or loaded
        while True:
            seconds = self._time(size)
            if seconds > _MEASURED or size >= min(_LARGEST, max(shape)):
                break
            size = min(_LARGEST, 3 * size)
        pair = seconds / (min(size, shape[0]) * min(size, shape[1]))
        best = _STEP * int(math.sqrt(_SECONDS / max(pair, 1e-12)) / _STEP)
        return max(least, min(best, _LARGEST)), pair

    def _time(self, size: int) -> float:
        from mnngp.kernels.evaluate import matrix

        x = self.kernel.prepared("X", self.rows[:size])
        y = self.kernel.prepared("Y", (self.rows if self.columns is None else self.columns)[-size:])
        start = time.perf_counter()
        matrix(self.network, x, y)
        return time.perf_counter() - start

    def fingerprint(self) -> dict[str, str]:
        """What all entries depend on, as texts, each under the name of its argument."""
        # without the addresses of activations that do not print themselves
        network = re.sub(r" at 0x[0-9a-f]+", "", repr(self.network))
        units = {unit for unit in self.network.layers if isinstance(unit, Activation)}
        moments = sorted(
            f"{type(unit).__name__} {np.array2string(unit.moment(_CORRELATIONS), precision=10)}"
            for unit in units
        )
        both = {"X": self.rows, "Y": self.columns}
        data = {name: "as X" if rows is None else _digest(rows) for name, rows in both.items()}
        return {"kernel": "; ".join([network, *moments]), **data}


def _digest(rows: NDArray[Any]) -> str:
    """Of values and shape, whatever type they have and however they lie in memory."""
    digest = hashlib.sha256()
    for start in range(0, len(rows), 1024):
        digest.update(np.ascontiguousarray(rows[start : start + 1024], dtype=np.float64).data)
    return f"{' × '.join(map(str, rows.shape))}, {digest.hexdigest()[:32]}"
