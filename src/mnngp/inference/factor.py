"""From a kernel and points to a factored covariance: the noise policy, and what was done.

The covariance of the targets is ``signal K + noise``. With ``K_ij = s_i s_j ρ_ij`` and ``σ_i =
√signal · s_i`` it is

    σ_i σ_j [(1 - κ) + κ A_ij],    A = 1 - (1 - ρ)/κ + diag(noise_i / κ σ_i²),

and A is what is factored. For κ = 1 that is the correlation matrix. In the ordered phase
(docs/maths.md) all correlations are one up to rounding, and a Cholesky factor of them is noise; but
``1 - ρ = 2u`` is known to full relative accuracy, so with κ of its size A is as well conditioned as
the data allow. The rest, (1 - κ) times a matrix of ones, is an intercept with a known prior
variance; the posterior adds it in closed form. No assumption on the lengths of the points is made:
those that differ are in σ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp._typing import Matrix, Vector
from mnngp.errors import FactorizationError, NoiseWarning, warn_of_accuracy
from mnngp.inference.packed import Packed, Progress
from mnngp.kernels import layout
from mnngp.kernels.evaluate import distances, packed_correlations
from mnngp.kernels.points import Points
from mnngp.networks.network import Network

_SAMPLE = 512  # points that the contraction is chosen from
_ATTEMPTS = 12
# entries of the kernel between new and training points that are held at a time; more if the factor
# is large
_CHUNK = 1 << 22
_STEP = 2 * layout.TASK  # new points: whole tasks, and more than one, so that threads are busy
PAPER_NOISE = 1e-10


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


@dataclass(frozen=True, eq=False)
class Inverse(ABC):
    """What a posterior asks of ``A⁻¹``, however it is had: from a factor here, or by iteration
    (``inference.large``).

    Attributes
    ----------
    contraction : float
        κ.
    noise_var : array (n,)
        The noise of each target, with what had to be added.
    factored : bool
        Whether there is a factor: a further solve costs n² operations then, and some hundred
        products with A if not.
    """

    contraction: float
    noise_var: Vector

    factored = True

    @property
    @abstractmethod
    def report(self) -> Any:
        """What was done; it has ``added`` and ``contraction`` at least."""

    @property
    @abstractmethod
    def at_a_time(self) -> int:
        """New points that predictions are made for together."""

    @abstractmethod
    def solve(self, b: Matrix) -> Matrix:
        """``A⁻¹ b``, for (n, k), in float64."""

    @abstractmethod
    def explained(self, kernel: Matrix) -> Vector:
        """``A_xᵀ A⁻¹ A_x`` of each new point: the diagonal of ``jointly_explained``. ``kernel`` may
        be overwritten.
        """

    @abstractmethod
    def jointly_explained(self, kernel: Matrix) -> Matrix:
        """``A_xᵀ A⁻¹ A_y`` for all pairs of new points; ``kernel`` (m, n) are their rows of A. It
        may be overwritten.
        """

    @abstractmethod
    def diagonal(self, chosen: NDArray[np.int64] | None = None) -> Vector:
        """The diagonal of ``A⁻¹``, or some elements of it."""

    @abstractmethod
    def log_determinant(self) -> float:
        """Of A."""

    def _diagonal_by_solves(self, chosen: NDArray[np.int64]) -> Vector:
        """Elements of the diagonal, each by a solve with its unit vector: where there is no inverse
        to take them from.
        """
        result, step = np.empty(len(chosen)), self.at_a_time
        for start in range(0, len(chosen), step):
            few = chosen[start : start + step]
            units = np.zeros((len(few), len(self.noise_var)))
            units[np.arange(len(few)), few] = 1.0
            result[start : start + step] = self.explained(units)
        return result


@dataclass(frozen=True, eq=False)
class Factor(Inverse):
    """The factored ``A``, with what is needed to put the covariance together again."""

    packed: Packed
    done: Report

    @property
    def report(self) -> Report:
        return self.done

    @property
    def at_a_time(self) -> int:
        """Their kernel takes 1/32 of the factor's memory, or what ``_CHUNK`` says if that is
        more.
        """
        n = self.packed.n
        return max(1, max(_CHUNK // n, n // 64) // _STEP) * _STEP

    def solve(self, b: Matrix) -> Matrix:
        return self.packed.solve(b).astype(np.float64)

    def explained(self, kernel: Matrix) -> Vector:
        self.packed.forward(kernel.T)
        return np.asarray(np.einsum("ij,ij->i", kernel, kernel, dtype=np.float64))

    def jointly_explained(self, kernel: Matrix) -> Matrix:
        self.packed.forward(kernel.T)
        return (kernel @ kernel.T).astype(np.float64)

    def diagonal(self, chosen: NDArray[np.int64] | None = None) -> Vector:
        if chosen is None:
            return self.packed.inverse().diagonal().astype(np.float64)
        result, rows = np.empty(len(chosen)), self.at_a_time
        for start in range(0, len(chosen), rows):  # |L⁻¹ e_i|², a block of unit vectors at a time
            part = chosen[start : start + rows]
            units = np.zeros((len(part), self.packed.n), dtype=self.packed.memory.dtype)
            units[np.arange(len(part)), part] = 1.0
            result[start : start + rows] = self.explained(units)
        return result

    def log_determinant(self) -> float:
        return self.packed.log_determinant()


def alive(network: Network, x: Points) -> NDArray[np.bool_]:
    """Points whose function value has a variance: without biases that at the origin has none."""
    biases = any(layer.bias_var > 0.0 for layer in network.blocks)
    return np.full(len(x), True) if biases else np.asarray(x.square_lengths > 0.0)


def contraction(network: Network, x: Points) -> float:
    """κ, from the distances of a sample of points: one, unless all points are close together behind
    the network.

    The smallest κ for which ``1 - 2u/κ`` is positive definite would do. It depends on how the
    points lie, not on their distances alone; so growing multiples of the largest distance are tried
    on the sample.
    """
    # no intercept where the function is zero for sure
    if network.tangent or len(x) < 2 or not alive(network, x).all():
        return 1.0
    chosen = np.unique(np.linspace(0, len(x) - 1, _SAMPLE).astype(np.int64))
    u = distances(network, x.subset(chosen)).astype(np.float64)
    largest = float(u.max())
    if largest < np.finfo(network.dtype).tiny:  # below it digits are lost, and 1/κ overflows
        warn_of_accuracy(
            f"all correlations at depth {network.depth} are one to the last digit of "
            f"{network.dtype}, distances included: the "
            "prior is a constant function and the predictions will be, too. Choose a smaller depth "
            "or a larger weight_var"
            + (", or dtype='float64'" if network.dtype == np.float32 else "")
            + "; features should be of the size of one (the estimators see to that with "
            "normalize='standard')"
        )
        return 1.0
    kappa = 4.0 * largest
    while kappa < 1.0 and not _positive_definite(1.0 - (2.0 / kappa) * u):
        kappa *= 4.0
    # a margin for the points that are not in the sample
    return min(1.0, kappa if kappa == 4.0 * largest else 4.0 * kappa)


def _positive_definite(a: Matrix) -> bool:
    try:
        np.linalg.cholesky(a + 1e-10 * np.eye(len(a)))
    except np.linalg.LinAlgError:
        return False
    return True


def factorize(
    network: Network,
    x: Points,
    deviation: Vector,
    noise_var: Vector,
    *,
    policy: str = "relative",
    progress: Progress | None = None,
) -> Factor:
    """Factor the covariance of targets with standard deviations ``deviation`` (σ) and noise
    variances ``noise_var``.

    ``policy`` says what happens if it is not positive definite in floating point. "paper": the
    noise is multiplied by ten, and again, as in the paper (which begins at 1e-10). "relative": what
    is added begins at the rounding of the matrix, relative to the kernel's scale, and grows
    tenfold. Either way the report and a warning say it.
    """
    n, kappa = len(x), contraction(network, x)
    scale = np.where(deviation > 0.0, deviation, 1.0)
    size = float(np.mean(deviation**2))
    added, packed = 0.0, Packed(n, network.dtype)
    for attempt in range(1, _ATTEMPTS + 1):
        packed_correlations(
            network,
            x,
            packed.memory,
            contraction=kappa,
            done=_part(progress, 0.5 if attempt == 1 else 0.0),
        )
        total = noise_var + added
        packed.add_to_diagonal(total / (kappa * scale**2))
        failed = packed.factor(_part(progress, 0.5 if attempt == 1 else 0.0))
        if not failed:
            break
        if policy == "paper":
            added = float(noise_var.max() or PAPER_NOISE) * 10.0**attempt - float(noise_var.max())
        elif kappa < 1.0 and attempt == 1:
            # the intercept's share was too large for these points: rare, and the remedy is cheap
            kappa = min(1.0, 16.0 * kappa)
        else:
            added = (
                10.0 * added
                if added
                else 4.0 * n * float(np.finfo(network.dtype).eps) * (kappa * size or 1.0)
            )
    else:
        raise FactorizationError(
            f"the covariance of {n} targets is not positive definite, not even with {added:.1e} "
            "added to the noise variance"
            "; is a kernel entry or the noise_var not what it should be?"
        )
    diagonal = packed.diagonal().astype(np.float64)
    condition = float((diagonal.max() / diagonal.min()) ** 2)
    if added:
        warn_of_accuracy(
            f"the covariance of {n} targets was not positive definite in {network.dtype}: "
            f"{added / (kappa * size or 1.0):.0e} "
            f"of the kernel's scale was added to the noise variance ({attempt} attempts; the "
            "report says how much that is). "
            "A larger noise_var avoids it"
            + (", dtype='float64' may, too" if network.dtype == np.float32 else ""),
            NoiseWarning,
        )
    return Factor(kappa, noise_var + added, packed, Report(added, attempt, kappa, condition))


def _part(progress: Progress | None, share: float) -> Progress | None:
    return (lambda done: progress(share * done)) if progress is not None and share else None
