"""What a solver is, and what a posterior asks of it.

A solver is a setting that users choose (``Cholesky``, ``ConjugateGradients``, …). Called with a
covariance it gives an ``Inverse``: A⁻¹ of that covariance (see ``covariance``), however it is had.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mnngp._typing import Matrix, Vector
from mnngp.inference.solvers.covariance import Covariance

Progress = Callable[[float], object]  # is told each finished share of the work; they add up to one


def part_of(progress: Progress | None, share: float) -> Progress | None:
    """The progress of a part that is so large a share of the whole."""
    return None if progress is None else lambda done: progress(share * done)


class Solver(Protocol):
    """A way to solve."""

    def __call__(self, covariance: Covariance, progress: Progress | None = None) -> Inverse:
        """Do what takes long: a factorisation, say."""


class Inverse(ABC):
    """``A⁻¹``, as far as a posterior needs it."""

    contraction: float  # κ
    noise_var: Vector  # of each target, with what had to be added
    report: Any  # what was done; it has ``added`` and ``contraction`` at least
    # a further solve costs n² operations with a factor, and some hundred products with A without
    factored = True

    @property
    @abstractmethod
    def chunk_size(self) -> int:
        """How many new points predictions are made for together."""

    @abstractmethod
    def solve(self, b: Matrix) -> Matrix:
        """``A⁻¹ b``, for (n, k), in float64."""

    @abstractmethod
    def log_determinant(self) -> float:
        """Of A."""

    @abstractmethod
    def diagonal(self, chosen: NDArray[np.int64] | None = None) -> Vector:
        """The diagonal of ``A⁻¹``, or some elements of it."""

    @abstractmethod
    def explained(self, rows: Matrix) -> Vector:
        """``A_xᵀ A⁻¹ A_x`` for new points' rows of A, (m, n), which may be overwritten."""

    @abstractmethod
    def jointly_explained(self, rows: Matrix) -> Matrix:
        """``A_xᵀ A⁻¹ A_y`` for all pairs of new points: ``explained`` is its diagonal."""

    def _diagonal_by_solves(self, chosen: NDArray[np.int64], dtype: Any = np.float64) -> Vector:
        """Elements of the diagonal, each by a solve with its unit vector."""
        result, step = np.empty(len(chosen)), self.chunk_size
        for start in range(0, len(chosen), step):
            few = chosen[start : start + step]
            units = np.zeros((len(few), len(self.noise_var)), dtype=dtype)
            units[np.arange(len(few)), few] = 1.0
            result[start : start + step] = self.explained(units)
        return result
