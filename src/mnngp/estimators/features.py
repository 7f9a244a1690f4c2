"""What is done to the features before the kernel: nothing, or columns or rows standardised; of
images, whitened behind that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnngp._typing import Matrix, Vector

NORMALIZATIONS = ("standard", "sphere", None)


@dataclass(frozen=True, eq=False)
class Scaling:
    """The features as the kernel sees them.

    ``normalize="standard"``: each column minus its mean, divided by its standard deviation in the
    training data. ``normalize="sphere"``: each row minus its mean, divided by its standard
    deviation, as the paper does with images; all points then have the same length √d. A column or
    row without variation becomes zero. ``None``: as it is.
    """

    normalize: str | None
    mean: Vector
    scale: Vector

    @staticmethod
    def of(normalize: str | None, X: Matrix, weight: Vector | None) -> Scaling:
        if normalize != "standard":
            return Scaling(normalize, np.empty(0), np.empty(0))
        mean = np.average(X, axis=0, weights=weight)
        size = np.abs(X - mean).max(axis=0)
        unit = np.where(size > 0.0, size, 1.0)  # no square overflows or vanishes
        variance = np.average(((X - mean) / unit) ** 2, axis=0, weights=weight)
        # What is left of a constant column is the rounding of its mean.
        constant = size <= 8.0 * np.finfo(np.float64).eps * np.abs(mean)
        scale = np.where(constant | (variance == 0.0), np.inf, unit * np.sqrt(variance))
        return Scaling(normalize, mean, scale)

    def __call__(self, X: Matrix) -> Matrix:
        if self.normalize == "standard":
            result: Matrix = X - self.mean
            result /= self.scale
            return result
        return standardised_rows(X) if self.normalize == "sphere" else X


def standardised_rows(X: NDArray[Any]) -> NDArray[Any]:
    """Each row minus its mean, divided by its standard deviation; one without any becomes zero."""
    centred = X - X.mean(axis=1, keepdims=True)
    size = np.abs(centred).max(axis=1, keepdims=True)
    flat = size <= 8.0 * np.finfo(X.dtype).eps * np.abs(X).max(axis=1, keepdims=True)
    centred /= np.where(flat, np.inf, np.where(size > 0.0, size, 1.0))
    root = np.sqrt(np.mean(centred**2, axis=1, keepdims=True))
    return np.asarray(centred / np.where(flat, 1.0, root))


@dataclass(frozen=True, eq=False)
class Whitened(Scaling):
    """Rows standardised, and then whitened by what was learned of the training data.

    With the mean μ and the covariance U Λ Uᵀ of the standardised rows, and ε the regularisation
    times the mean of all Λ, x becomes ``U (Λ + ε)^(-1/2) Uᵀ (x - μ)``. ``components`` are the
    columns of U that the data have a variance along, so it is

        (x - μ)/√ε + Vᵀ diag(gain) V (x - μ),    gain = (Λ + ε)^(-1/2) - ε^(-1/2),

    and few rows take little work, however many columns they have.
    """

    components: Matrix  # V, (r, d)
    gain: Vector  # (r,)

    @staticmethod
    def along(axes: PrincipalAxes, regularization: float) -> Whitened:
        """By axes that were found."""
        (r, d), added = axes.components.shape, regularization * float(axes.variance.sum())
        added /= d
        # without any variance there is nothing to divide by; without ε only directions that have it
        scale = 1.0 if r == 0 else np.sqrt(added) if added > 0.0 else np.inf
        gain = 1.0 / np.sqrt(axes.variance + added) - 1.0 / scale
        return Whitened("whitened", axes.mean, np.full(d, scale), axes.components, gain)

    def __call__(self, X: Matrix) -> Matrix:
        return self.whiten(standardised_rows(X))

    def whiten(self, X: NDArray[Any]) -> NDArray[Any]:
        """Rows that need no standardising, in their type."""
        mean, scale, components, gain = (
            part.astype(X.dtype, copy=False)
            for part in (self.mean, self.scale, self.components, self.gain)
        )
        centred = X - mean
        result = ((centred @ components.T) * gain) @ components
        centred /= scale
        result += centred
        return np.asarray(result)


class PrincipalAxes(NamedTuple):
    """Mean of rows, and the directions in which they vary, the largest variance first."""

    mean: Vector
    variance: Vector  # (r,)
    components: Matrix  # (r, d), orthonormal

    @staticmethod
    def of(X: Matrix, weight: Vector | None = None) -> PrincipalAxes:
        """By the smaller one of the two matrices that have the same eigenvalues."""
        share = np.full(len(X), 1.0 / len(X)) if weight is None else weight / weight.sum()
        mean = share @ X
        centred = (X - mean) * np.sqrt(share)[:, None]
        few = len(X) < X.shape[1]
        values, vectors = np.linalg.eigh(centred @ centred.T if few else centred.T @ centred)
        # what is left of equal rows is the rounding of their mean
        eps = np.finfo(np.float64).eps
        rounding = X.shape[1] * (8.0 * eps * float(np.abs(X).max())) ** 2
        there = np.flatnonzero(values > max(len(values) * eps * values[-1], rounding))[::-1]
        components = vectors.T[there]
        if few:
            components = components @ centred / np.sqrt(values[there])[:, None]
        return PrincipalAxes(mean, values[there], np.ascontiguousarray(components))
