"""The Cholesky factorisation on this machine: the solver of every posterior that asks for none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp._typing import Matrix, Vector
from mnngp.errors import FactorizationError, NoiseWarning, warn_of_accuracy
from mnngp.inference.solvers.covariance import Covariance, contraction
from mnngp.inference.solvers.interface import Inverse, Progress, part_of
from mnngp.inference.solvers.packed import Packed
from mnngp.kernels import layout
from mnngp.kernels.evaluate import packed_correlations
from mnngp.networks.network import Network

# entries of the kernel between new and training points that are held at a time; more if the factor
# is large
_CHUNK = 1 << 22
_STEP = 2 * layout.TASK  # new points: whole tasks, and more than one, so that threads are busy
_PAPER_NOISE = 1e-10
_ATTEMPTS = 12
_WIDER = 16.0  # times κ, if it was too small


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

    The policy says what to do if the covariance is not positive definite in floating point. With
    "relative", what is added to the noise begins at the rounding of the matrix, relative to the
    kernel's scale, and grows tenfold. With "paper" the noise is multiplied by ten, and again, as in
    the paper (which begins at 1e-10). Either way the report says what was added, and a warning
    does.
    """

    policy: str = "relative"

    def __post_init__(self) -> None:
        _validation.one_of("policy", self.policy, ("relative", "paper"))

    def __call__(self, covariance: Covariance, progress: Progress | None = None) -> Factor:
        network = covariance.network
        packed, half = Packed(len(covariance), network.dtype), part_of(progress, 0.5)
        correlations = _Correlations(covariance)
        tried = 0
        for kappa, added in islice(self._attempts(covariance), _ATTEMPTS):
            tried += 1
            correlations.write(packed, kappa, half)
            packed.add_to_diagonal(covariance.diagonal(kappa, added))
            if not packed.factor(half):
                break
            half = None  # the shares of the first attempt add up to one
        else:
            raise FactorizationError(
                f"the covariance of {len(covariance)} targets is not positive definite, not even "
                f"with {added:.1e} added to the noise variance; is a kernel entry or the noise_var "
                "not what it should be?"
            )
        if added:
            remedy = ", dtype='float64' may, too" if network.dtype == np.float32 else ""
            warn_of_accuracy(
                f"the covariance of {len(covariance)} targets was not positive definite in "
                f"{network.dtype}: {added / _kernel_scale(covariance, kappa):.0e} of the kernel's "
                f"scale was added to the noise variance ({tried} attempts; the report says how "
                f"much that is). A larger noise_var avoids it{remedy}",
                NoiseWarning,
            )
        diagonal = packed.diagonal().astype(np.float64)
        condition = float((diagonal.max() / diagonal.min()) ** 2)
        report = Report(added, tried, kappa, condition)
        return Factor(kappa, covariance.noise_var + added, packed, report)

    def _attempts(self, covariance: Covariance) -> Iterator[tuple[float, float]]:
        """κ and what is added to the noise variances, for one attempt after the other."""
        kappa = contraction(covariance.network, covariance.points)
        yield kappa, 0.0
        if self.policy == "paper":
            noise = float(covariance.noise_var.max())
            for attempt in range(1, _ATTEMPTS):
                yield kappa, (noise or _PAPER_NOISE) * 10.0**attempt - noise
            return
        rounding = 4.0 * len(covariance) * float(np.finfo(covariance.network.dtype).eps)
        # Either rounding was too large, or the intercept's share was, for these points. The κ that
        # they need, 1 - 1/(1ᵀ ρ⁻¹ 1), grows with their number (1,200 digits: 0.53, 128 of them:
        # 0.16), so that the sample may not tell it. One wider step forgives most of that; then the
        # rounding is tried beside each step, so that whichever it was ends the search.
        while kappa < 1.0:
            kappa = min(1.0, _WIDER * kappa)
            yield kappa, 0.0
            if kappa < 1.0:
                yield kappa, rounding * _kernel_scale(covariance, kappa)
        added = rounding * _kernel_scale(covariance, kappa)
        while True:
            yield kappa, added
            added *= 10.0


class _Correlations:
    """Writes A for one κ after the other; those of images, which are dear, are computed once."""

    def __init__(self, covariance: Covariance) -> None:
        self.network, self.points = covariance.network, covariance.points
        self.first: tuple[float, Matrix] | None = None  # κ, and A

    def write(self, packed: Packed, kappa: float, done: Progress | None) -> None:
        if self.first is None:
            packed_correlations(
                self.network, self.points, packed.memory, contraction=kappa, done=done
            )
            if not isinstance(self.network, Network):
                self.first = kappa, packed.memory.copy()
            return
        before, memory = self.first
        np.subtract(1.0, memory, out=packed.memory)  # 2u / κ
        packed.memory *= before / kappa
        np.subtract(1.0, packed.memory, out=packed.memory)


def _kernel_scale(covariance: Covariance, kappa: float) -> float:
    return kappa * float(np.mean(covariance.deviation**2)) or 1.0


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
