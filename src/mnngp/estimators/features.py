"""What is done to the features before the kernel: nothing, or columns or rows standardised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
        if self.normalize == "sphere":
            centred = X - X.mean(axis=1, keepdims=True)
            size = np.abs(centred).max(axis=1, keepdims=True)
            flat = size <= 8.0 * np.finfo(np.float64).eps * np.abs(X).max(axis=1, keepdims=True)
            centred /= np.where(flat, np.inf, np.where(size > 0.0, size, 1.0))
            root = np.sqrt(np.mean(centred**2, axis=1, keepdims=True))
            return np.asarray(centred / np.where(flat, 1.0, root))
        return X
