"""The data as the kernels see it: directions and lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from mnngp._system import threads
from mnngp._typing import Vector
from mnngp.errors import ScaleError

_CHUNK = 1 << 16  # numbers converted at a time, to keep temporary memory small

_Rest = ParamSpec("_Rest")
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class Points:
    """Rows of a data matrix, each as a unit vector and a squared length.

    Attributes
    ----------
    directions : array (n, d)
        ``x_i / |x_i|`` in the kernel's floating point type; a zero row stays zero.
    square_lengths : array (n,)
        ``|x_i|² / d``.
    """

    directions: NDArray[Any]
    square_lengths: Vector

    @property
    def rows(self) -> NDArray[Any]:
        """An array of the shape that the data had."""
        return self.directions

    @property
    def stored(self) -> NDArray[Any]:
        """What files keep of them: rows of numbers, from which a kernel prepares the points."""
        return self.directions

    def __len__(self) -> int:
        return len(self.square_lengths)

    def __getitem__(self, rows: slice) -> Points:
        """Some consecutive points, without a copy."""
        return Points(self.directions[rows], self.square_lengths[rows])

    def subset(self, chosen: NDArray[np.int64]) -> Points:
        """Some of the points."""
        return Points(self.directions[chosen], self.square_lengths[chosen])

    @staticmethod
    def of(name: str, matrix: NDArray[Any], dtype: np.dtype[Any]) -> Points:
        """Split a data matrix, already checked, into directions and lengths.

        Rows are brought near one by a power of two first, so that neither tiny nor huge entries
        lose their direction.
        """
        count, width = matrix.shape
        directions = np.empty((count, width), dtype=dtype)
        lengths = np.empty(count)
        rows = max(1, _CHUNK // width)

        def split(start: int) -> None:
            part = matrix[start : start + rows].astype(np.float64)
            _, power = np.frexp(np.maximum(part.max(axis=1), -part.min(axis=1)))
            if np.abs(power).max() > 100:
                part = np.ldexp(part, -power[:, None])
            else:
                power[:] = 0
            square = np.einsum("ij,ij->i", part, part)
            with np.errstate(over="ignore"):
                lengths[start : start + rows] = np.ldexp(square / width, 2 * power)
            np.divide(
                part,
                np.sqrt(np.where(square > 0.0, square, 1.0))[:, None],
                out=directions[start : start + rows],
                casting="same_kind",
            )

        threads.parallel_for(split, range(0, count, rows), work=matrix.size)
        if not np.isfinite(lengths).all():
            row = int(np.argmin(np.isfinite(lengths)))
            raise ScaleError(
                f"{name}[{row}] is too long: its squared length overflows float64; scale {name} "
                "down (an estimator does with "
                "normalize='standard')"
            )
        return Points(directions, lengths)


@dataclass(frozen=True, eq=False)
class GivenPoints(Points):
    """Points that a network makes something else of first; ``given`` is what they were, (n, d)."""

    given: NDArray[Any]

    @property
    def rows(self) -> NDArray[Any]:
        return self.given

    @property
    def stored(self) -> NDArray[Any]:
        return self.given


class ByKind(Generic[_Rest, _Result]):
    """A function of a network and points, of which a kind of points may bring its own version."""

    def __init__(self, generic: Callable[_Rest, _Result]) -> None:
        self.generic = generic
        self._versions = singledispatch(generic)
        update_wrapper(self, generic)

    def register(
        self, kind: type[Points]
    ) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
        """Decorate the version of ``kind``."""

        def add(version: Callable[..., _Result]) -> Callable[..., _Result]:
            self._versions.register(kind, version)
            return version

        return add

    def __call__(self, *args: _Rest.args, **options: _Rest.kwargs) -> _Result:
        return self._versions.dispatch(type(args[1]))(*args, **options)
