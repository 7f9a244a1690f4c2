"""The posterior of a Gaussian process: mean, variance, covariance, samples, evidence and
leave-one-out.

Rasmussen and Williams (2006), algorithm 2.1 and section 5.4.2; the paper's eq. (22) (label 20 in
its source). With the notation of ``factor`` and z = y/σ, ``a = A⁻¹z``, ``t = A⁻¹1``, ``c = 1ᵀt +
κ/(1 - κ)``:

    β = 1ᵀa / c,  α = a - tβ             the intercept's posterior mean, and the weights of the
    training points E f(x)   = σ_x (β + A_xᵀ α) Var f(x) = κ σ_x² [1 - A_xᵀA⁻¹A_x + (1 - A_xᵀt)²/c]

which for κ = 1 (c infinite) are the usual ones. Nothing in them is a small difference of large
numbers, however small κ is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp._system import threads
from mnngp._typing import Matrix, Vector
from mnngp.errors import InputError, MnngpError
from mnngp.inference.factor import Inverse, factorize
from mnngp.inference.packed import Progress
from mnngp.kernels.evaluate import correlations, standard_deviations
from mnngp.kernels.points import Points
from mnngp.kernels.sklearn import DeepKernel
from mnngp.networks.network import Network

Solver = Callable[[Network, Points, Vector, Vector, Progress | None], Inverse]


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """The prediction of each training target from all others, in closed form.

    Attributes
    ----------
    mean : array of shape (n,) or (n, targets)
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
    X : array of shape (n, d)
    y : array of shape (n,) or (n, targets)
        All targets share the kernel and the noise.
    noise_var : float, or array of shape (n,)
        Variance of the noise, of all targets or of each.
    signal_var : float
        What the kernel is multiplied by.
    policy : "relative" or "paper"
        What to do if the covariance is not positive definite in floating point: see
        ``mnngp.inference.factor``.
    solver : ConjugateGradients or another of ``mnngp.inference``, optional
        For more points than a Cholesky factorisation is for. By default there is one.
    progress : callable, optional
        Is told each finished share of the work; the shares add up to one.

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
        if not isinstance(kernel, DeepKernel):
            raise InputError(f"kernel must be a MaxoutKernel or a NetworkKernel, got {kernel!r}")
        _validation.one_of("policy", policy, ("relative", "paper"))
        _validation.real(
            "signal_var", signal_var, low=0.0, high=_validation.LARGEST_VARIANCE, strict=True
        )
        if solver is not None and not callable(solver):
            raise InputError(
                "solver must be None or one of mnngp.inference, such as "
                f"ConjugateGradients(), got {solver!r}"
            )
        network, rows = kernel.network, _validation.points("X", X)
        y, self._flat = as_targets(y, len(rows))
        noise = _noise(noise_var, len(rows))
        self._condition(
            kernel,
            Points.of("X", rows, network.dtype),
            y,
            noise,
            signal_var,
            policy,
            solver,
            progress,
        )

    @classmethod
    def on(
        cls,
        kernel: DeepKernel,
        points: Points,
        y: Matrix,
        noise_var: Vector,
        *,
        policy: str,
        progress: Progress | None,
    ) -> Posterior:
        """As the class itself, for points that are prepared already."""
        self = cls.__new__(cls)
        self._flat = False
        self._condition(kernel, points, y, noise_var, 1.0, policy, None, progress)
        return self

    def _condition(
        self,
        kernel: DeepKernel,
        points: Points,
        y: Matrix,
        noise_var: Vector,
        signal_var: float,
        policy: str,
        solver: Solver | None,
        progress: Progress | None,
    ) -> None:
        self.kernel, self.signal_var, self._network = kernel, float(signal_var), kernel.network
        self._points, self._y = points, y
        with threads.one_blas_thread(len(points) ** 3 / 3.0):
            deviation = math.sqrt(self.signal_var) * standard_deviations(self._network, points)
            self._factor: Inverse = (
                factorize(
                    self._network, points, deviation, noise_var, policy=policy, progress=progress
                )
                if solver is None
                else solver(self._network, points, deviation, noise_var, progress)
            )
            self._deviation = np.where(deviation > 0.0, deviation, 1.0)
            self._precision: Vector | None = None
            self._weigh()

    @classmethod
    def restored(
        cls,
        kernel: DeepKernel,
        points: Points,
        y: Matrix,
        signal_var: float,
        factor: Inverse,
        *,
        deviation: Vector,
        alpha: Matrix,
        beta: Vector,
        t: Vector,
        c: float,
        precision: Vector | None,
    ) -> Posterior:
        """A posterior of which everything that takes long is known already."""
        self = cls.__new__(cls)
        self.kernel, self.signal_var, self._network = kernel, signal_var, kernel.network
        self._points, self._y, self._flat, self._factor = points, y, False, factor
        self._deviation, self._alpha, self._beta, self._t, self._c = deviation, alpha, beta, t, c
        self._precision = precision
        return self

    def _weigh(self) -> None:
        """α, β, t and c of the module's text."""
        kappa = self._factor.contraction
        z = self._y / self._deviation[:, None]
        solved = self._factor.solve(np.column_stack([z, np.ones(len(z))]))
        a, self._t = solved[:, :-1], solved[:, -1].copy()  # not a view that keeps all of it
        if kappa < 1.0:
            self._c = float(self._t.sum()) + kappa / (1.0 - kappa)
            self._beta = a.sum(axis=0) / self._c
            self._alpha = a - self._t[:, None] * self._beta
        else:
            self._c, self._beta, self._alpha = math.inf, np.zeros(a.shape[1]), a
        # as a model file has it: BLAS may sum rows and columns in another order
        self._alpha = np.ascontiguousarray(self._alpha)
        if not np.isfinite(self._alpha).all():
            raise MnngpError(
                "the posterior's weights are not finite; are targets or noise_var "
                "near the limits of floating point?"
            )

    # --- what was done ----------------------------------------------------------------------------

    @property
    def report(self) -> Any:
        """What the factorisation did: noise added, attempts, contraction, condition. Of another
        solver, what that did.
        """
        return self._factor.report

    @property
    def factored(self) -> bool:
        """Whether there is a factor, so that variances and leave-one-out cost little."""
        return self._factor.factored

    @property
    def noise_var(self) -> Vector:
        """The noise variance of each training target, with what had to be added."""
        return self._factor.noise_var

    # --- prediction -------------------------------------------------------------------------------

    def mean(self, X: Any) -> Matrix:
        """The posterior mean at new points: (m,) or (m, targets). Takes one chunk of the kernel at
        a time.
        """
        rows = self._rows(X)
        result = np.empty((len(rows), self._y.shape[1]))
        with threads.one_blas_thread(2.0 * len(rows) * self._y.size):
            for part, sigma, kernel in self._chunks(rows):
                result[part] = self._mean(kernel, sigma)
                del kernel  # before the next one is made
        return self._shaped(result)

    def mean_and_variance(self, X: Any) -> tuple[Matrix, Vector]:
        """The posterior mean, and the variance of the function (without noise) at each point, which
        all targets share.
        """
        rows = self._rows(X)
        mean, variance = np.empty((len(rows), self._y.shape[1])), np.empty(len(rows))
        with threads.one_blas_thread(len(rows) * len(self._y) ** 2):
            for part, sigma, kernel in self._chunks(rows):
                mean[part] = self._mean(kernel, sigma)
                rest = 1.0 - kernel @ self._t
                share = 1.0 - self._factor.explained(kernel) + rest**2 / self._c
                variance[part] = self._factor.contraction * sigma**2 * np.maximum(share, 0.0)
                del kernel
        return self._shaped(mean), variance

    def mean_and_covariance(self, X: Any) -> tuple[Matrix, Matrix]:
        """The posterior mean, and the covariance matrix (m, m) of the function at all points
        together.
        """
        x = Points.of("X", self._rows(X), self._network.dtype)
        with threads.one_blas_thread(len(x) * len(self._y) * (len(x) + len(self._y))):
            sigma, kernel = self._sigma(x), self._cross(x)
            mean = self._mean(kernel, sigma)
            rest = 1.0 - kernel @ self._t
            share = correlations(self._network, x, contraction=self._factor.contraction).astype(
                np.float64
            )
            share -= self._factor.jointly_explained(kernel)
        share += np.outer(rest, rest) / self._c
        share *= self._factor.contraction * np.outer(sigma, sigma)
        return self._shaped(mean), share

    def sample(self, X: Any, count: int = 1, seed: Any = None) -> Matrix:
        """Functions drawn from the posterior, at new points: (m, count) or (m, targets, count)."""
        count = _validation.positive_int("count", count)
        mean, covariance = self.mean_and_covariance(X)
        return draw(mean, covariance, count, seed)

    def _rows(self, X: Any) -> Matrix:
        return _validation.points("X", X, self._points.directions.shape[1])

    def _sigma(self, x: Points) -> Vector:
        return math.sqrt(self.signal_var) * standard_deviations(self._network, x)

    def _cross(self, x: Points) -> Matrix:
        return correlations(self._network, x, self._points, contraction=self._factor.contraction)

    def _chunks(self, rows: Matrix) -> Iterator[tuple[slice, Vector, Matrix]]:
        """New points in parts: where they stand, their σ, and their correlations with the training
        points.
        """
        size = self._factor.at_a_time
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            yield part, *self._seen(rows[part])

    def _seen(self, rows: Matrix) -> tuple[Vector, Matrix]:
        """σ and correlations; a function of its own, so that the points are gone when the next ones
        are made.
        """
        x = Points.of("X", rows, self._network.dtype)
        return self._sigma(x), self._cross(x)

    def _mean(self, kernel: Matrix, sigma: Vector) -> Matrix:
        weights = self._alpha.astype(kernel.dtype, copy=False)
        return np.asarray(sigma[:, None] * (self._beta + kernel @ weights), dtype=np.float64)

    def _shaped(self, result: Matrix) -> Matrix:
        return result[:, 0] if self._flat else result

    # --- how good it is ---------------------------------------------------------------------------

    def quadratic(self) -> Vector:
        """``yᵀ C⁻¹ y`` of each target: n if the signal's and the noise's scales are right."""
        z = self._y / self._deviation[:, None]
        return np.asarray(np.sum(z * self._alpha, axis=0) / self._factor.contraction)

    def log_marginal_likelihood(self) -> float:
        """The log evidence, summed over the targets (as scikit-learn does)."""
        n, targets = self._y.shape
        kappa = self._factor.contraction
        log_determinant = (
            self._factor.log_determinant()
            + n * math.log(kappa)
            + 2.0 * float(np.log(self._deviation).sum())
        )
        if kappa < 1.0:
            log_determinant += math.log1p((1.0 - kappa) / kappa * float(self._t.sum()))
        return float(
            -0.5
            * (
                float(self.quadratic().sum())
                + targets * (log_determinant + n * math.log(2.0 * math.pi))
            )
        )

    def leave_one_out(self) -> LeaveOneOut:
        """Each training target, predicted from all others (Rasmussen and Williams, eqs. 5.10 to
        5.12).
        """
        alpha, inverse = self.weights(), self.precision()
        residual, variance = alpha / inverse[:, None], 1.0 / inverse
        density = -0.5 * (
            residual**2 / variance[:, None] + np.log(2.0 * math.pi * variance)[:, None]
        )
        return LeaveOneOut(self._shaped(self._y - residual), variance, self._shaped(density))

    def weights(self) -> Matrix:
        """``C⁻¹ y``, (n, targets), with C the covariance of the targets."""
        return np.asarray(self._alpha / (self._factor.contraction * self._deviation)[:, None])

    def precision(self, chosen: NDArray[np.int64] | None = None) -> Vector:
        """The diagonal of ``C⁻¹``, all of it (kept once computed; takes n²/2 numbers for the
        inverse) or some elements.
        """
        if chosen is None:
            if self._precision is None:
                with threads.one_blas_thread(2.0 / 3.0 * len(self._y) ** 3):
                    inverse = self._factor.diagonal() - self._t**2 / self._c
                self._precision = inverse / (self._factor.contraction * self._deviation**2)
            return self._precision
        if self._precision is not None:
            return self._precision[chosen]
        result = self._factor.diagonal(chosen) - self._t[chosen] ** 2 / self._c
        return np.asarray(result / (self._factor.contraction * self._deviation[chosen] ** 2))

    def divide_targets(self, unit: Vector) -> None:
        """Divide each target by a number, in place: all that depends on them is linear in them."""
        self._y, self._alpha, self._beta = (
            np.ascontiguousarray(part / unit) for part in (self._y, self._alpha, self._beta)
        )


def leave_out(precision: Vector, noise: Vector, share: Vector) -> tuple[Vector, Vector, Vector]:
    """What changes at a place if a share of its observations is left out.

    A place has the mean observation ȳ of the noise N. With ``α = C⁻¹ȳ`` and d the diagonal of C⁻¹
    (``precision``) the function there is ``f̂ = ȳ - N α`` with the variance ``N (1 - N d)``.
    Without a share h of the observations, all equal to y, the error of the prediction of y is ``(y
    - ȳ + N α) / r`` with ``r = 1 - h (1 - N d)``, and the function's variance ``N (1 - N d) / r``.

    Returns ``1/r``, ``N/r`` and that variance. Without the whole place (h = 1, and so y = ȳ) they
    are 0, 1/d and 1/d - N, which also hold for N = 0.
    """
    whole = share >= 1.0
    rest = np.where(whole, 1.0, 1.0 - share * (1.0 - noise * precision))
    spread = np.where(whole, 1.0 / precision - noise, noise * (1.0 - noise * precision) / rest)
    return (
        np.where(whole, 0.0, 1.0 / rest),
        np.where(whole, 1.0 / precision, noise / rest),
        np.maximum(spread, 0.0),
    )


def draw(mean: Matrix, covariance: Matrix, count: int, seed: Any) -> Matrix:
    """Samples of a Gaussian, along the last axis; a covariance that is singular, or negative by
    rounding, is no obstacle.
    """
    with threads.one_blas_thread(9.0 * len(covariance) ** 3):
        values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = np.random.default_rng(seed).standard_normal((*mean.shape[1:], len(root), count))
    return np.asarray(mean[..., None] + np.moveaxis(root @ noise, -2, 0))


def as_targets(y: Any, n: int) -> tuple[Matrix, bool]:
    """Targets as a matrix (n, targets), and whether they were a vector."""
    values = np.asarray(_validation.real_array("y", y), dtype=np.float64)
    if values.ndim not in (1, 2) or len(values) != n or 0 in values.shape:
        raise InputError(
            f"y must have shape ({n},) or ({n}, targets), a row for each row of X, "
            f"got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise InputError(f"y must be finite, got {values[~np.isfinite(values)][0]}")
    return values.reshape(n, -1), values.ndim == 1


def _noise(noise_var: Any, n: int) -> Vector:
    if np.ndim(noise_var) == 0:
        return np.full(
            n, _validation.real("noise_var", noise_var, low=0.0, high=_validation.LARGEST_VARIANCE)
        )
    values = np.asarray(_validation.real_array("noise_var", noise_var), dtype=np.float64)
    if values.shape != (n,):
        raise InputError(f"noise_var must be a number or {n} numbers, got shape {values.shape}")
    right = (values >= 0.0) & (values <= _validation.LARGEST_VARIANCE)
    if not right.all():
        raise InputError(
            f"noise_var must be from 0 to {_validation.LARGEST_VARIANCE:g}, got {values[~right][0]:g} "
            f"at {int(np.argmin(right))}"
        )
    return values
