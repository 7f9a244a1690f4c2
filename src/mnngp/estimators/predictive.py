"""What a regression says of the targets at some rows: Gaussian, or what a warp makes of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from mnngp._typing import Array, Matrix, Vector
from mnngp.estimators.process import FittedProcess
from mnngp.estimators.warp import Warp


@dataclass(frozen=True, eq=False)
class Predictive:
    """The distribution of targets at m rows, in their own units.

    ``center`` (m, targets) and ``variance`` (m,) are of the function before the warps; the former
    in the units of what was warped, the latter, as ``noise``, for a unit of one.
    """

    process: FittedProcess
    center: Matrix
    variance: Vector
    noise: Vector | float

    @staticmethod
    def of(process: FittedProcess, X: Matrix) -> Predictive:
        """Of new observations, of weight one."""
        return Predictive(process, *process.mean_and_variance(X), process.noise_var)

    @property
    def deviation(self) -> Matrix:
        """The standard deviation of an observation before the warps (m, targets)."""
        return np.asarray(np.sqrt(self.variance + self.noise)[:, None] * self.process.unit)

    def mean(self) -> Matrix:
        """The mean of the targets (m, targets); of warped ones, among those that were seen."""
        if not self.process.warps:
            return self.center
        total = self.deviation**2
        columns = [
            warp.mean(self.center[:, j], total[:, j]) for j, warp in enumerate(self.process.warps)
        ]
        return self.process.among_observed(np.stack(columns, axis=1))

    def std(self, *, include_noise: bool) -> Matrix:
        """The standard deviation of an observation, or of the mean of all that may be made."""
        process = self.process
        spread = self.variance + self.noise if include_noise else self.variance
        if not process.warps:
            return np.asarray(np.sqrt(spread)[:, None] * process.unit)
        total, common = self.deviation**2, spread[:, None] * process.unit**2
        columns = [
            warp.std((self.center[:, j], total[:, j]), common[:, j])
            for j, warp in enumerate(process.warps)
        ]
        return np.stack(columns, axis=1)

    def quantiles(self, levels: Sequence[float] | Vector) -> Array:
        """Of an observation: (m, targets, levels)."""
        gaussian = self.center[..., None] + self.deviation[..., None] * ndtri(np.asarray(levels))
        if not self.process.warps:
            return np.asarray(gaussian)
        columns = [warp.inverse(gaussian[:, j]) for j, warp in enumerate(self.process.warps)]
        return np.stack(columns, axis=1)


def covariances(process: FittedProcess, X: Matrix, *, include_noise: bool) -> tuple[Matrix, Array]:
    """Means (m, targets) and covariances (m, m, targets), of observations or of their means."""
    center, covariance = process.mean_and_covariance(X)
    diagonal = np.diag_indices_from(covariance)
    total = covariance[diagonal] + process.noise_var
    if include_noise:
        covariance[diagonal] = total
    if not process.warps:
        return center, covariance[..., None] * process.unit**2

    def one(warp: Warp, mean: Vector, square: float) -> tuple[Vector, Matrix]:
        left, right = (mean[:, None], square * total[:, None]), (mean, square * total)
        return warp.mean(mean, square * total), warp.covariance(left, right, square * covariance)

    found = [
        one(warp, center[:, j], float(process.unit[j]) ** 2) for j, warp in enumerate(process.warps)
    ]
    means, matrices = zip(*found, strict=True)
    return process.among_observed(np.stack(means, axis=-1)), np.stack(matrices, axis=-1)
