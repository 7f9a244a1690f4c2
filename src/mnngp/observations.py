"""Training data as a Gaussian process sees it: one row a place, with the mean of what was observed there, and how often.

Rows with equal features are observations of the same function value. Merging them changes no prediction (with noise σ², w
observations are one observation of their mean with noise σ²/w), makes n smaller and a singular covariance regular, and makes a
sample weight of two the same as a row given twice, also when hyperparameters are chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp.activations.series import Vector

Matrix = NDArray[Any]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Observations:
    """Places, what was observed there, and how often.

    Attributes
    ----------
    X : array (places, d)
    y : array (places, targets)
        The weighted mean of the targets at each place.
    weight : array (places,)
        The sum of the sample weights.
    within : array (places, targets)
        The weighted mean square of the targets about that mean.
    place : array (rows,)
        Which place each row of the data belongs to.
    row : array (rows,)
        Its number in the data; rows of weight zero are left out.
    row_y, row_weight : arrays (rows, targets), (rows,)
        Its targets and weight.
    """

    X: Matrix
    y: Matrix
    weight: Vector
    within: Matrix
    place: Integers
    row: Integers
    row_y: Matrix
    row_weight: Vector

    def __len__(self) -> int:
        return len(self.weight)

    @staticmethod
    def of(X: Matrix, y: Matrix, sample_weight: Vector | None = None) -> Observations:
        """Merge the rows of ``X`` that are equal; ``y`` is (n, targets)."""
        weight: Vector = np.ones(len(X)) if sample_weight is None else sample_weight
        row = np.flatnonzero(weight > 0.0)
        if len(row) < len(X):
            X, y, weight = X[row], y[row], weight[row]
        first, place = _equal_rows(X)
        if len(first) == len(X):  # nothing to merge: the common case, without a copy
            return Observations(X, y, weight, np.zeros_like(y), place, row, y, weight)
        total = np.bincount(place, weights=weight).astype(np.float64)
        mean = _means(y, weight, total, place)
        return Observations(X[first], mean, total, _means((y - mean[place]) ** 2, weight, total, place), place, row, y, weight)

    def standardized(self, offset: Vector, unit: Vector) -> Observations:
        """With targets in other units."""
        return replace(self, y=(self.y - offset) / unit, within=self.within / unit**2, row_y=(self.row_y - offset) / unit)

    def subset(self, chosen: Integers) -> Observations:
        """Some of the places, as if they were all."""
        X, y, weight, place = self.X[chosen], self.y[chosen], self.weight[chosen], np.arange(len(chosen))
        return Observations(X, y, weight, self.within[chosen], place, place, y, weight)

    def unit(self) -> Vector:
        """The weight that is left out of each place at a time, when what is left has to predict it.

        Where observations differ they are a sample of what may be seen there, and one is left out. Where all agree they may be
        copies (a bootstrap sample, a weight), and a copy must not vouch for its original: the place is left out as a whole.
        """
        agree = np.all(self.within <= 1e-24 * self.y**2, axis=1)  # up to the rounding of the mean
        return np.where(agree, self.weight, np.minimum(1.0, self.weight))

    def log_density_within(self, noise_var: float) -> float:
        """What the rows add to the log evidence of the places: their density about the mean of their place."""
        if len(self.row) == len(self):
            return 0.0
        targets = self.y.shape[1]
        rows, places = np.log(2.0 * np.pi * noise_var / self.row_weight), np.log(2.0 * np.pi * noise_var / self.weight)
        spread = np.sum(self.weight[:, None] * self.within)
        return float(0.5 * targets * (places.sum() - rows.sum()) - 0.5 * spread / noise_var)


def _means(values: Matrix, weight: Vector, total: Vector, place: Integers) -> Matrix:
    """The weighted mean over the rows of each place."""
    return np.stack([np.bincount(place, weights=weight * column) / total for column in values.T], axis=1)


def _equal_rows(X: Matrix) -> tuple[Integers, Integers]:
    """The first row of each group of equal rows (in the order of appearance), and the group of each row.

    Equal rows have equal inner products with any vector, so only those that agree in one are compared.
    """
    n = len(X)
    mark = np.zeros(n)
    direction: Vector = np.random.default_rng(0).standard_normal((X.shape[1],))
    for column, factor in enumerate(direction):
        mark += factor * X[:, column]  # in this order for every row; BLAS may take another for each
    order = np.argsort(mark, kind="stable")
    alike = np.flatnonzero(mark[order[1:]] == mark[order[:-1]])
    group = np.arange(n)
    for k in alike.tolist():  # neighbours in order: by induction all that are equal find the first of them
        before, here = order[k], order[k + 1]
        if np.array_equal(X[before], X[here]):
            group[here] = group[before]
    first, inverse = np.unique(group, return_inverse=True)
    return first.astype(np.int64), inverse.astype(np.int64)
