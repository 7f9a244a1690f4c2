"""The Cholesky factorisation on this machine: the solver of every posterior that asks for none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp._typing import Matrix, Vector
from mnngp.inference.solvers import noise
from mnngp.inference.solvers.covariance import Covariance, contraction
from mnngp.inference.solvers.interface import Inverse, Progress, part_of
from mnngp.inference.solvers.packed import Packed
from mnngp.kernels import layout
from mnngp.kernels.evaluate import packed_correlations

# entries of the kernel between new and training points that are held at a time; more if the factor
# is large
_CHUNK = 1 << 22
_STEP = 2 * layout.TASK  # new points: whole tasks, and more than one, so that threads are busy


@dataclass(frozen=True)
class Report:
    """What a factorisation did.

    Attributes
    ----------
    added : float
        What had to be added to the noise variance of every target before the covariance was
        numerically positive definite; zero if nothing had to.
    attempts : int
        Factorisations, of which the last succeeded.
    contraction : float
        κ: one for a plain correlation matrix, less where the distance form was used.
    condition : float
        A lower bound of the condition number of what was factored, from the factor's diagonal.
    """

    added: float
    attempts: int
    contraction: float
    condition: float


@dataclass(frozen=True)
class Cholesky:
    """Solve by a Cholesky factorisation, in half the memory of a matrix.

    Parameters
    ----------
    policy : "relative" or "paper"
        What to do if the covariance is not positive definite in floating point: see ``noise``.
    """

    policy: str = "relative"

    def __post_init__(self) -> None:
        _validation.one_of("policy", self.policy, ("relative", "paper"))

    def __call__(self, covariance: Covariance, progress: Progress | None = None) -> Factor:
        network, points = covariance.network, covariance.points
        packed, half = Packed(len(covariance), network.dtype), part_of(progress, 0.5)
        attempts = 0
        for kappa, added in noise.attempts(self.policy, covariance, contraction(network, points)):
            attempts += 1
            packed_correlations(network, points, packed.memory, contraction=kappa, done=half)
            packed.add_to_diagonal(covariance.diagonal(kappa, added))
            if not packed.factor(half):
                break
            half = None  # the shares of the first attempt add up to one
        else:
            raise noise.no_attempt_left(covariance, added)
        noise.warn_of_noise(covariance, kappa, added, attempts)
        report = Report(added, attempts, kappa, condition(packed.diagonal()))
        return Factor(kappa, covariance.noise_var + added, packed, report)


def condition(diagonal: Vector) -> float:
    """A lower bound of the condition number of ``L Lᵀ``, from the diagonal of L."""
    diagonal = diagonal.astype(np.float64)
    return float((diagonal.max() / diagonal.min()) ** 2)


@dataclass(frozen=True, eq=False)
class Factor(Inverse):
    """``A⁻¹`` from the Cholesky factor of A."""

    contraction: float
    noise_var: Vector
    packed: Packed  # the factor
    report: Report

    @property
    def chunk_size(self) -> int:
        """Their kernel takes 1/32 of the factor's memory, or what ``_CHUNK`` says if it is more."""
        n = self.packed.n
        return max(1, max(_CHUNK // n, n // 64) // _STEP) * _STEP

    def solve(self, b: Matrix) -> Matrix:
        return self.packed.solve(b).astype(np.float64)

    def log_determinant(self) -> float:
        return self.packed.log_determinant()

    def diagonal(self, chosen: NDArray[np.int64] | None = None) -> Vector:
        if chosen is None:
            return self.packed.inverse().diagonal().astype(np.float64)
        return self._diagonal_by_solves(chosen, self.packed.memory.dtype)

    def explained(self, rows: Matrix) -> Vector:
        self.packed.forward(rows.T)
        return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))

    def jointly_explained(self, rows: Matrix) -> Matrix:
        self.packed.forward(rows.T)
        return (rows @ rows.T).astype(np.float64)

    def matrix(self) -> Matrix:
        """``A⁻¹`` itself, symmetric, (n, n), in float64."""
        return self.packed.inverse().dense()
