"""The posterior of a Gaussian process: mean, variance, samples, evidence and leave-one-out.

Rasmussen and Williams (2006), algorithm 2.1 and section 5.4.2; the paper's eq. (22) (label 20 in
its source). With the notation of ``solvers.covariance`` and z = y/σ, ``a = A⁻¹z``, ``t = A⁻¹1``,
``c = 1ᵀt + κ/(1 - κ)``:

    β = 1ᵀa / c              the intercept's posterior mean
    α = a - tβ               the weights of the training points
    E f(x)   = σ_x (β + A_xᵀ α)
    Var f(x) = κ σ_x² [1 - A_xᵀA⁻¹A_x + (1 - A_xᵀt)²/c]

which for κ = 1 (c infinite) are the usual ones. Nothing in them is a small difference of large
numbers, however small κ is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp._system import threads
from mnngp._typing import Matrix, Vector
from mnngp.errors import InputError, MnngpError, UnavailableError
from mnngp.inference.solvers.cholesky import Cholesky
from mnngp.inference.solvers.covariance import Covariance
from mnngp.inference.solvers.interface import Inverse, Progress, Solver
from mnngp.kernels.evaluate import correlations, correlations_times, standard_deviations
from mnngp.kernels.input_gradient import mean_gradient
from mnngp.kernels.points import Points
from mnngp.kernels.sklearn import DeepKernel
from mnngp.networks.network import Network


class Weights(NamedTuple):
    """What predictions take of the targets, in the notation of the module."""

    deviation: Vector  # σ, and one where it is zero
    alpha: Matrix  # (n, targets)
    beta: Vector  # (targets,)
    t: Vector  # ``A⁻¹1``
    c: float  # infinite without an intercept

    @staticmethod
    def of(inverse: Inverse, deviation: Vector, targets: Matrix) -> Weights:
        """Solve for them."""
        kappa, z = inverse.contraction, targets / deviation[:, None]
        solved = inverse.solve(np.column_stack([z, np.ones(len(z))]))
        alpha, t = solved[:, :-1], solved[:, -1].copy()  # not a view that keeps all of it
        c, beta = math.inf, np.zeros(alpha.shape[1])
        if kappa < 1.0:
            c = float(t.sum()) + kappa / (1.0 - kappa)
            beta = alpha.sum(axis=0) / c
            alpha = alpha - t[:, None] * beta
        if not np.isfinite(alpha).all():
            raise MnngpError(
                "the posterior's weights are not finite; are targets or noise_var near the limits "
                "of floating point?"
            )
        # contiguous as a model file has it: BLAS may sum rows and columns in another order
        return Weights(deviation, np.ascontiguousarray(alpha), beta, t, c)


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """The prediction of each training target from all others, in closed form.

    Attributes
    ----------
    mean : array of shape (n,) or (n, targets)
        What the others predict.
    variance : array of shape (n,)
        Of the target: the function's and the noise's.
    log_density : array of shape (n,) or (n, targets)
        Of the target under that prediction.
    """

    mean: Matrix
    variance: Vector
    log_density: Matrix


class Posterior:
    """A Gaussian process with the kernel of a wide network, given targets with Gaussian noise.

    Parameters
    ----------
    kernel : MaxoutKernel or NetworkKernel
        With ``kind="ntk"`` the mean is that of a wide network trained to convergence by gradient
        descent, from a zero output; for its distribution over initialisations see ``GradientFlow``.
    X : array of shape (n, d), or Points
        ``mnngp.kernels.points.Points`` are data that are prepared already; predictions take either,
        too.
    y : array of shape (n,) or (n, targets)
        All targets share the kernel and the noise.
    noise_var : float, or array of shape (n,)
        Variance of the noise, of all targets or of each.
    signal_var : float
        What the kernel is multiplied by.
    policy : "relative" or "paper"
        What to do if the covariance is not positive definite in floating point: see
        ``mnngp.inference.solvers.cholesky.Cholesky``.
    solver : ConjugateGradients or another of ``mnngp.inference``, optional
        For more points than a Cholesky factorisation is for. By default there is one.
    progress : callable, optional
        Is told each finished share of the work; the shares add up to one.

    Attributes
    ----------
    kernel, signal_var
        As given.
    network : Network
        The kernel's.
    points : Points
        X.
    targets : array (n, targets)
        y.
    inverse : mnngp.inference.solvers.interface.Inverse
        What the solver made; a ``solvers.cholesky.Factor`` by default.
    deviation, alpha, beta, t, c
        See ``Weights``.

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp import MaxoutKernel
    >>> X = np.linspace(-2.0, 2.0, 30)[:, None]
    >>> posterior = Posterior(MaxoutKernel(depth=3, rank=4), X, np.sin(X[:, 0]), noise_var=1e-4)
    >>> mean, variance = posterior.mean_and_variance(np.array([[0.5], [5.0]]))
    >>> mean.round(2), np.sqrt(variance).round(2)
    (array([0.48, 0.48]), array([0.01, 0.35]))
    >>> posterior.report.added
    0.0
    """

    def __init__(
        self,
        kernel: DeepKernel,
        X: Any,
        y: Any,
        noise_var: Any = 0.0,
        signal_var: float = 1.0,
        *,
        policy: str = "relative",
        solver: Solver | None = None,
        progress: Progress | None = None,
    ) -> None:
        check_kernel(kernel)
        default = Cholesky(policy)
        _validation.real(
            "signal_var", signal_var, low=0.0, high=_validation.LARGEST_VARIANCE, strict=True
        )
        if solver is not None and not callable(solver):
            raise InputError(
                "solver must be None or one of mnngp.inference, such as ConjugateGradients(), got "
                f"{solver!r}"
            )
        network = kernel.network
        rows = X if isinstance(X, Points) else kernel.checked("X", X)
        targets, flat = _validation.targets(y, len(rows))
        noise = _validation.noise(noise_var, len(rows))
        points = rows if isinstance(rows, Points) else kernel.prepared("X", rows)
        with threads.one_blas_thread(len(points) ** 3 / 3.0):
            deviation = math.sqrt(signal_var) * standard_deviations(network, points)
            covariance = Covariance(network, points, deviation, noise)
            inverse = (solver or default)(covariance, progress)
            weights = Weights.of(inverse, covariance.scale, targets)
        self.kernel, self.signal_var = kernel, float(signal_var)
        self._set(points, targets, inverse, weights)
        self._flat = flat

    @classmethod
    def restored(
        cls,
        kernel: DeepKernel,
        points: Points,
        targets: Matrix,
        signal_var: float,
        inverse: Inverse,
        weights: Weights,
        precision: Vector | None = None,
    ) -> Posterior:
        """A posterior of which everything that takes long is known already."""
        self = cls.__new__(cls)
        self.kernel, self.signal_var = kernel, signal_var
        self._set(points, targets, inverse, weights)
        self.known_precision = precision
        return self

    def _set(self, points: Points, targets: Matrix, inverse: Inverse, weights: Weights) -> None:
        self.network = self.kernel.network
        self.points, self.targets, self.inverse = points, targets, inverse
        self.deviation, self.alpha, self.beta, self.t, self.c = weights
        self.known_precision: Vector | None = None
        self._flat = False

    # --- what was done ----------------------------------------------------------------------------

    @property
    def report(self) -> Any:
        """What the solver did: a ``Report`` of the factorisation, or an ``IterationReport``."""
        return self.inverse.report

    @property
    def factored(self) -> bool:
        """Whether there is a factor, so that variances and leave-one-out cost little."""
        return self.inverse.factored

    @property
    def contraction(self) -> float:
        """κ, one for a plain correlation matrix: see ``mnngp.inference.solvers.covariance``."""
        return self.inverse.contraction

    @property
    def noise_var(self) -> Vector:
        """The noise variance of each training target, with what had to be added."""
        return self.inverse.noise_var

    # --- prediction -------------------------------------------------------------------------------

    def mean(self, X: Any) -> Matrix:
        """The posterior mean at new points: (m,) or (m, targets).

        The kernel between new and training points is made a chunk at a time.
        """
        rows = self._rows(X)
        result = np.empty((len(rows), self.targets.shape[1]))
        with threads.one_blas_thread(2.0 * len(rows) * self.targets.size):
            for part in self._chunks(len(rows)):
                result[part] = self._mean_at(self._as_points(rows[part]))
        return self._shaped(result)

    def mean_and_variance(self, X: Any) -> tuple[Matrix, Vector]:
        """The posterior mean, and the variance of the function (without noise) at each point.

        All targets share the variance.
        """
        rows, kappa = self._rows(X), self.contraction
        mean, variance = np.empty((len(rows), self.targets.shape[1])), np.empty(len(rows))
        with threads.one_blas_thread(len(rows) * len(self.targets) ** 2):
            for part in self._chunks(len(rows)):
                sigma, kernel, mean[part], rest = self._at(self._as_points(rows[part]))
                share = 1.0 - self.inverse.explained(kernel) + rest**2 / self.c
                variance[part] = kappa * sigma**2 * np.maximum(share, 0.0)
                del kernel  # before the next one is made
        return self._shaped(mean), variance

    def mean_and_covariance(self, X: Any) -> tuple[Matrix, Matrix]:
        """The posterior mean, and the covariance matrix (m, m) of the function at all points."""
        x, kappa = self._as_points(self._rows(X)), self.contraction
        with threads.one_blas_thread(len(x) * len(self.targets) * (len(x) + len(self.targets))):
            sigma, kernel, mean, rest = self._at(x)
            share = correlations(self.network, x, contraction=kappa).astype(np.float64)
            share -= self.inverse.jointly_explained(kernel)
        share += np.outer(rest, rest) / self.c
        share *= kappa * np.outer(sigma, sigma)
        return self._shaped(mean), share

    def gradient(self, X: Any) -> Matrix:
        """The derivatives of the mean in each number of new points: (m, d) or (m, d, targets).

        In closed form, by one pass back through the layers. Of images there are none.
        """
        if not isinstance(self.network, Network):
            raise UnavailableError(
                "the gradient of the mean is there for dense networks, not for convolutional ones, "
                f"got kernel={self.kernel!r}"
            )
        rows = self._rows(X)
        width = rows.rows.shape[1] if isinstance(rows, Points) else rows.shape[1]
        result = np.empty((len(rows), width, self.targets.shape[1]))
        weights = self.alpha, self.beta
        with threads.one_blas_thread(2.0 * width * len(rows) * self.targets.size):
            for part in self._chunks(len(rows)):
                x = self._as_points(rows[part])
                result[part] = mean_gradient(
                    self.network, x, self.points, *weights, contraction=self.contraction
                )
        result *= math.sqrt(self.signal_var)
        return result[:, :, 0] if self._flat else result

    def sample(self, X: Any, count: int = 1, seed: Any = None) -> Matrix:
        """Functions drawn from the posterior, at new points: (m, count) or (m, targets, count)."""
        count = _validation.positive_int("count", count)
        mean, covariance = self.mean_and_covariance(X)
        return draw(mean, covariance, count, seed)

    def _rows(self, X: Any) -> Matrix | Points:
        """New points, checked."""
        if isinstance(X, Points):
            return X
        return self.kernel.checked("X", X, like=self.points.rows)

    def _as_points(self, rows: Matrix | Points) -> Points:
        return rows if isinstance(rows, Points) else self.kernel.prepared("X", rows)

    def _chunks(self, count: int) -> Iterator[slice]:
        """Where the chunks of new points stand; none is held while the next is made."""
        size = self.inverse.chunk_size
        return (slice(start, start + size) for start in range(0, count, size))

    def _deviations(self, x: Points) -> Vector:
        return np.asarray(math.sqrt(self.signal_var) * standard_deviations(self.network, x))

    def _mean_at(self, x: Points) -> Matrix:
        product = correlations_times(
            self.network, x, self.points, self.alpha, contraction=self.contraction
        )
        return self._mean(self._deviations(x), product)

    def _at(self, x: Points) -> tuple[Vector, Matrix, Matrix, Vector]:
        """σ of new points, their rows of A, their mean, and ``1 - A_xᵀt``."""
        sigma = self._deviations(x)
        rows = correlations(self.network, x, self.points, contraction=self.contraction)
        mean = self._mean(sigma, rows @ self.alpha.astype(rows.dtype, copy=False))
        return sigma, rows, mean, 1.0 - rows @ self.t

    def _mean(self, sigma: Vector, product: Matrix) -> Matrix:
        """From σ and ``A_xᵀ α``."""
        return np.asarray(sigma[:, None] * (self.beta + product), dtype=np.float64)

    def _shaped(self, result: Matrix) -> Matrix:
        return result[:, 0] if self._flat else result

    # --- how good it is ---------------------------------------------------------------------------

    def quadratic(self) -> Vector:
        """``yᵀ C⁻¹ y`` of each target: n if the signal's and the noise's scales are right."""
        z = self.targets / self.deviation[:, None]
        return np.asarray(np.sum(z * self.alpha, axis=0) / self.contraction)

    def log_marginal_likelihood(self) -> float:
        """The log evidence, summed over the targets (as scikit-learn does)."""
        (n, targets), kappa = self.targets.shape, self.contraction
        log_determinant = (
            self.inverse.log_determinant()
            + n * math.log(kappa)
            + 2.0 * float(np.log(self.deviation).sum())
        )
        if kappa < 1.0:
            log_determinant += math.log1p((1.0 - kappa) / kappa * float(self.t.sum()))
        constant = targets * (log_determinant + n * math.log(2.0 * math.pi))
        return float(-0.5 * (float(self.quadratic().sum()) + constant))

    def leave_one_out(self) -> LeaveOneOut:
        """Each training target from all others (Rasmussen and Williams, eqs. 5.10 to 5.12)."""
        alpha, inverse = self.weights(), self.precision()
        residual, variance = alpha / inverse[:, None], 1.0 / inverse
        density = -0.5 * (
            residual**2 / variance[:, None] + np.log(2.0 * math.pi * variance)[:, None]
        )
        return LeaveOneOut(self._shaped(self.targets - residual), variance, self._shaped(density))

    def weights(self) -> Matrix:
        """``C⁻¹ y``, (n, targets), with C the covariance of the targets."""
        return np.asarray(self.alpha / (self.contraction * self.deviation)[:, None])

    def precision(self, chosen: NDArray[np.int64] | None = None) -> Vector:
        """The diagonal of ``C⁻¹``, or some elements of it.

        All of it takes n²/2 numbers for the inverse, and is kept (``known_precision``).
        """
        if self.known_precision is None:
            every = slice(None) if chosen is None else chosen
            with threads.one_blas_thread(2.0 / 3.0 * len(self.targets) ** 3):
                inverse = self.inverse.diagonal(chosen) - self.t[every] ** 2 / self.c
            result = np.asarray(inverse / (self.contraction * self.deviation[every] ** 2))
            if chosen is None:
                self.known_precision = result
            return result
        return self.known_precision if chosen is None else self.known_precision[chosen]

    def divide_targets(self, unit: Vector) -> None:
        """Divide each target by a number, in place: all that depends on them is linear in them."""
        self.targets, self.alpha, self.beta = (
            np.ascontiguousarray(part / unit) for part in (self.targets, self.alpha, self.beta)
        )


def check_kernel(kernel: Any) -> None:
    """Raise if it is no kernel of this package."""
    if not isinstance(kernel, DeepKernel):
        raise InputError(f"kernel must be a MaxoutKernel or a NetworkKernel, got {kernel!r}")


def draw(mean: Matrix, covariance: Matrix, count: int, seed: Any) -> Matrix:
    """Samples of a Gaussian, along the last axis; a covariance that is singular, or negative by
    rounding, is no obstacle.
    """
    with threads.one_blas_thread(9.0 * len(covariance) ** 3):
        values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = np.random.default_rng(seed).standard_normal((*mean.shape[1:], len(root), count))
    return np.asarray(mean[..., None] + np.moveaxis(root @ noise, -2, 0))
