"""The covariance of the targets, in the form that solvers work on.

It is ``signal K + noise``. With ``K_ij = s_i s_j ρ_ij`` and ``σ_i = √signal · s_i`` that is

    σ_i σ_j [(1 - κ) + κ A_ij],    A = 1 - (1 - ρ)/κ + diag(noise_i / κ σ_i²),

and A is what solvers see. For the contraction κ = 1 it is the correlation matrix. In the ordered
phase (docs/maths.md) all correlations are one up to rounding, and a Cholesky factor of them is
noise; but ``1 - ρ = 2u`` is known to full relative accuracy, so with κ of its size A is as well
conditioned as the data allow. The rest, (1 - κ) times a matrix of ones, is an intercept with a
known prior variance; the posterior adds it in closed form. No assumption on the lengths of the
points is made: those that differ are in σ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mnngp._typing import Matrix, Vector
from mnngp.errors import warn_of_accuracy
from mnngp.inference.solvers import blas
from mnngp.kernels.evaluate import distances
from mnngp.kernels.points import Points
from mnngp.networks.network import Network

_SAMPLE = 512  # points that the contraction is chosen from
_IMAGES = 128  # those of images, whose distances take long


@dataclass(frozen=True, eq=False)
class Covariance:
    """What the covariance of n targets is made of."""

    network: Network
    points: Points
    deviation: Vector  # σ; zero where the function has no variance
    noise_var: Vector  # of each target

    def __len__(self) -> int:
        return len(self.noise_var)

    @property
    def scale(self) -> Vector:
        """σ, and one where it is zero."""
        return np.where(self.deviation > 0.0, self.deviation, 1.0)

    def diagonal(self, contraction: float, added: float = 0.0) -> Vector:
        """``noise_i / κ σ_i²``, with what is ``added`` to the noise."""
        return np.asarray((self.noise_var + added) / (contraction * self.scale**2))


def has_variance(network: Network, points: Points) -> NDArray[np.bool_]:
    """Whether the function has a variance at each point: at the origin, without biases, it is 0."""
    biases = any(block.bias_var > 0.0 for block in network.blocks)
    return np.full(len(points), True) if biases else np.asarray(points.square_lengths > 0.0)


def contraction(network: Network, points: Points, u: Matrix | None = None) -> float:
    """κ, from the distances of a sample of points: one, unless the network moves all together.

    ``u`` are the distances of all points, if they are known already.

    The smallest κ for which ``1 - 2u/κ`` is positive definite would do. It depends on how the
    points lie, not on their distances alone; so growing multiples of the largest distance are tried
    on the sample.
    """
    # no intercept where the function is zero for sure
    if network.tangent or len(points) < 2 or not has_variance(network, points).all():
        return 1.0
    most = _SAMPLE if isinstance(network, Network) else _IMAGES
    chosen = np.unique(np.linspace(0, len(points) - 1, most).astype(np.int64))
    u = distances(network, points.subset(chosen)) if u is None else u[np.ix_(chosen, chosen)]
    u = u.astype(np.float64, copy=False)
    largest = float(u.max())
    if largest < np.finfo(network.dtype).tiny:  # below it digits are lost, and 1/κ overflows
        remedy = ", or dtype='float64'" if network.dtype == np.float32 else ""
        warn_of_accuracy(
            f"all correlations at depth {network.depth} are one to the last digit of "
            f"{network.dtype}, distances included: the prior is a constant function and the "
            "predictions will be, too. Choose a smaller depth or a larger weight_var"
            f"{remedy}; features should be of the size of one (the estimators see to that with "
            "normalize='standard')"
        )
        return 1.0
    kappa = 4.0 * largest
    while kappa < 1.0 and not _positive_definite(u, kappa):
        kappa *= 4.0
    # a margin for the points that are not in the sample
    return min(1.0, kappa if kappa == 4.0 * largest else 4.0 * kappa)


def _positive_definite(u: Matrix, kappa: float) -> bool:
    """Whether ``1 - 2u/κ`` is, up to rounding."""
    a = np.multiply(u, -2.0 / kappa, order="F")
    a += 1.0
    a[np.diag_indices_from(a)] += 1e-10
    return blas.cholesky(a, lower=True) == 0
