"""How good a kernel is for data with any noise, by leave-one-out, from one eigendecomposition.

With C = K + ν diag(1/w) for observations of weight w, ``M = W^½ K W^½ = V Λ Vᵀ`` and ``(Λ + ν)⁻¹``
give

    α = C⁻¹y,   d_i = (C⁻¹)_ii,
    y_i - α_i/d_i  the prediction without observation i,   1/d_i  its variance,

so leave-one-out predictions for all noise variances are a matrix product.

Rows with equal features are one observation, their mean ȳ (``inference.observations``). Their
spread about it tells the noise by itself, whatever the function is: ``S = Σ w (y - ȳ)²`` is ν times
a χ² variable with one degree of freedom less than there are rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mnngp._typing import Matrix, Vector
from mnngp.inference.observations import Observations
from mnngp.inference.solvers.covariance import contraction
from mnngp.kernels.evaluate import correlations, distances, standard_deviations
from mnngp.kernels.points import Points
from mnngp.kernels.sklearn import DeepKernel
from mnngp.networks.network import Network

# prior variance of a constant, relative to the rest, beyond which it is free for all purposes
_INTERCEPT = 1e3
_COLUMNS = 64  # of a matrix product with the eigenvectors


@dataclass(frozen=True)
class Objective:
    """What is asked of a kernel, and what of the scale of signal and noise is given."""

    # Whether it is the leave-one-out log density (for numbers), or the mean squared error (for
    # class memberships: Brier's score, which asks nothing of the variances).
    density: bool
    noise_var: float | None = None
    signal_var: float | None = None

    @property
    def noise_ratio(self) -> float | None:
        """The noise for a signal of one, if it is given."""
        if self.noise_var is None or self.signal_var is None:
            return None
        return self.noise_var / self.signal_var

    def scores(
        self, alpha: Matrix, precision: Matrix, ratios: Vector, data: Observations
    ) -> Vector:
        """Of what conditioning gives for a signal of one and each of the noises; never NaN.

        ``alpha`` is (n, noises, targets), ``precision`` (n, noises).
        """
        measure = self._log_density if self.density else _negative_squared_error
        with np.errstate(all="ignore"):
            values = measure(alpha, precision, ratios, data)
        return np.where(np.isfinite(values), values, -np.inf)

    def score(self, alpha: Matrix, precision: Vector, ratio: float, data: Observations) -> float:
        """The same, for one noise."""
        return float(self.scores(alpha[:, None], precision[:, None], np.array([ratio]), data)[0])

    def _log_density(
        self, alpha: Matrix, precision: Matrix, ratios: Vector, data: Observations
    ) -> Vector:
        """The mean log density of the inputs' means, each predicted from the others, and of the
        spread about them.

        A row that shares its input with others is predicted by them, whatever the kernel: so whole
        inputs are left out. A scale of signal and noise that is not given is the best one of each
        target.
        """
        total = float(data.weight.sum())
        mean_square = scales(alpha, precision, ratios, data)
        rest = float(np.sum(data.weight - data.held_out_weight))
        log_variance = rest * _log(ratios) - data.held_out_weight @ np.log(precision)
        if self.signal_var is not None:
            scale = np.full_like(ratios, self.signal_var)
        elif self.noise_var:
            scale = self.noise_var / ratios
        else:
            # a constant target says nothing of the others' noise
            varied = mean_square > 0.0
            logs = np.where(varied, np.log(np.where(varied, mean_square, 1.0)), 0.0).sum(axis=1)
            count = varied.sum(axis=1)
            best = logs / np.maximum(count, 1) + log_variance / total
            return np.asarray(np.where(count > 0, -0.5 * best, 0.0))
        value = mean_square.mean(axis=1) / scale + np.log(scale) + log_variance / total
        return np.asarray(-0.5 * value)


def scales(alpha: Matrix, precision: Matrix, ratios: Vector, data: Observations) -> Matrix:
    """The best scale of signal and noise together, for each noise and target.

    They are mean squares of the leave-one-out errors, in units of what was expected.
    """
    square = np.tensordot(data.held_out_weight, alpha**2 / precision[..., None], axes=1)
    spread = data.held_out_weight @ data.spread
    square = square + spread / np.where(ratios > 0.0, ratios, np.inf)[:, None]
    return np.asarray(square / data.weight.sum())


def _log(ratios: Vector) -> Vector:
    """The logarithms of noises; of none, nothing."""
    return np.log(np.where(ratios > 0.0, ratios, 1.0))


def leave_out(precision: Vector, noise: Vector, share: Vector) -> tuple[Vector, Vector, Vector]:
    """What changes at an input if a share of its observations is left out.

    The input has the mean observation ȳ of the noise N. With ``α = C⁻¹ȳ`` and d the diagonal of C⁻¹
    (``precision``) the function there is ``f̂ = ȳ - N α`` with the variance ``N (1 - N d)``.
    Without a share h of the observations, all equal to y, and with ``r = 1 - h (1 - N d)``,

        (y - ȳ + N α) / r      is the error of the prediction of y,
        N (1 - N d) / r        is the function's variance.

    Returns ``1/r``, ``N/r`` and that variance. Without all of them (h = 1, and so y = ȳ) they are
    0, 1/d and 1/d - N, which also hold for N = 0.
    """
    whole = share >= 1.0
    rest = np.where(whole, 1.0, 1.0 - share * (1.0 - noise * precision))
    spread = np.where(whole, 1.0 / precision - noise, noise * (1.0 - noise * precision) / rest)
    return (
        np.where(whole, 0.0, 1.0 / rest),
        np.where(whole, 1.0 / precision, noise / rest),
        np.maximum(spread, 0.0),
    )


def _negative_squared_error(
    alpha: Matrix, precision: Matrix, ratios: Vector, data: Observations
) -> Vector:
    """Minus the mean square error of predictions, each without the weight to be held out."""
    share = (data.held_out_weight / data.weight)[:, None]
    own, others, _ = leave_out(precision, ratios / data.weight[:, None], share)
    square = others**2 * np.einsum("nmt,nmt->nm", alpha, alpha)
    square += own**2 * data.within.sum(axis=1)[:, None]
    return np.asarray(-(data.weight @ square) / (data.weight.sum() * alpha.shape[-1]))


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A kernel conditioned on data with any noise."""

    values: Vector  # Λ
    vectors: Matrix  # V
    projected: Matrix  # ``Vᵀ W^½ y``, (n, targets)
    data: Observations
    unit: float  # the scale of the kernel, times the weight of a row, which noise is relative to

    @staticmethod
    def of(kernel: DeepKernel, points: Points, data: Observations) -> Spectrum:
        """Decompose the kernel matrix, in the distance form where all correlations are near one."""
        network, u = kernel.network, None
        if not (isinstance(network, Network) or network.tangent):
            u = distances(network, points)  # dear, of images: once for both that need them
        kappa = contraction(network, points, u)
        deviation = standard_deviations(network, points)
        unit = kappa * float(np.mean(deviation**2)) * data.mean_weight or 1.0
        scale = deviation * np.sqrt(kappa * data.weight / unit)
        if u is None:
            matrix = correlations(network, points, contraction=kappa).astype(np.float64)
        else:
            matrix = 1.0 - (2.0 / kappa) * u.astype(np.float64)
        matrix += min((1.0 - kappa) / kappa, _INTERCEPT)
        matrix *= scale[:, None]
        matrix *= scale
        values, vectors = np.linalg.eigh(matrix)
        projected = vectors.T @ (np.sqrt(data.weight)[:, None] * data.y)
        return Spectrum(np.maximum(values, 0.0), vectors, projected, data, unit)

    def conditioned(self, noises: Vector) -> Iterator[tuple[Vector, Matrix, Matrix]]:
        """For some noises (relative to ``unit``) at a time: the noises themselves, α (n, noises,
        targets), and the diagonal of C⁻¹ (n, noises).
        """
        weight, targets = self.data.weight[:, None] / self.unit, self.projected.shape[1]
        root = np.sqrt(self.data.weight)[:, None] / self.unit
        shrunk = 1.0 / (self.values[:, None] + noises)
        precision = weight * (self.vectors**2 @ shrunk)
        step = max(1, _COLUMNS // targets)
        for start in range(0, len(noises), step):
            part = slice(start, start + step)
            few = shrunk[:, part, None] * self.projected[:, None, :]
            alpha = root[..., None] * (self.vectors @ few.reshape(len(few), -1)).reshape(few.shape)
            yield noises[part] * self.unit, alpha, precision[:, part]

    def log_evidence(self, signal: float, noise: float) -> float:
        """Of all targets together, up to a constant; ``signal`` in units of the kernel's scale."""
        values = signal * self.values + noise
        values = np.maximum(values, np.finfo(np.float64).eps * float(values.max()))
        fit = float(np.sum(self.projected**2 / values[:, None]))
        return float(-0.5 * (fit + self.projected.shape[1] * np.log(values).sum()))
