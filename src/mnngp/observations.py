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
_CHUNK = 1 << 14  # rows compared at a time


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
    part : array (places,)
        The weight that is left out of each place at a time, when what is left has to predict it. Where rows with equal features
        are a sample of what may be seen there, that is one row's. Where they may be copies (a bootstrap sample, oversampling) it
        is the whole place's: a copy must not vouch for its original.
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
    part: Vector
    place: Integers
    row: Integers
    row_y: Matrix
    row_weight: Vector

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def mean_weight(self) -> float:
        """Of an observation: a row, or copies of one."""
        return float(np.mean(self.part))

    @property
    def spread(self) -> Matrix:
        """The weighted sum of squares about the mean of each place (places, targets): χ² times the noise variance."""
        return self.weight[:, None] * self.within

    @property
    def conflict(self) -> tuple[int, int] | None:
        """Two rows of the data with equal features and different targets, if there are any."""
        disagree = np.flatnonzero(~_agree(self.within, self.y))
        if not len(disagree):
            return None
        rows = np.flatnonzero(self.place == disagree[0])
        other = int(np.argmax(np.any(self.row_y[rows] != self.row_y[rows[0]], axis=1)))
        return int(self.row[rows[0]]), int(self.row[rows[other]])

    @property
    def repeats(self) -> Vector:
        """Its degrees of freedom: the rows of each place beyond the first, if they are observations of their own."""
        return np.rint(self.weight / self.part) - 1.0

    @staticmethod
    def of(X: Matrix, y: Matrix, sample_weight: Vector | None = None) -> Observations:
        """Merge the rows of ``X`` that are equal; ``y`` is (n, targets)."""
        weight: Vector = np.ones(len(X)) if sample_weight is None else sample_weight
        row = np.flatnonzero(weight > 0.0)
        if len(row) < len(X):
            X, y, weight = X[row], y[row], weight[row]
        first, place = _equal_rows(X)
        if len(first) == len(X):  # nothing to merge: the common case, without a copy
            return Observations(X, y, weight, np.zeros_like(y), weight, place, row, y, weight)
        total = np.bincount(place, weights=weight).astype(np.float64)
        mean = _means(y, weight, total, place)
        within = _means((y - mean[place]) ** 2, weight, total, place)
        count = np.bincount(place)
        agree = _agree(within, mean)
        copies = agree & (not _equal_by_chance(X, mean, count, agree))
        part = np.where(copies, total, total / count)
        return Observations(X[first], mean, total, within, part, place, row, y, weight)

    def standardized(self, offset: Vector, unit: Vector) -> Observations:
        """With targets in other units, and never in the caller's memory."""
        y = (self.y - offset) / unit
        if self.row_y is self.y:  # nothing was merged: every row is a place, without any spread
            return replace(self, y=y, row_y=y)
        return replace(self, y=y, within=self.within / unit**2, row_y=(self.row_y - offset) / unit)

    def subset(self, chosen: Integers) -> Observations:
        """Some of the places, in ascending order, as if they were all."""
        number = np.full(len(self), -1)
        number[chosen] = np.arange(len(chosen))
        rows = np.flatnonzero(number[self.place] >= 0)
        return Observations(
            self.X[chosen],
            self.y[chosen],
            self.weight[chosen],
            self.within[chosen],
            self.part[chosen],
            number[self.place[rows]],
            self.row[rows],
            self.row_y[rows],
            self.row_weight[rows],
        )

    def log_density_within(self, noise_var: float) -> float:
        """What the rows add to the log evidence of the places: their density about the mean of their place.

        Without noise equal rows say the same thing once.
        """
        if len(self.row) == len(self) or noise_var == 0.0:
            return 0.0
        targets = self.y.shape[1]
        rows, places = np.log(2.0 * np.pi * noise_var / self.row_weight), np.log(2.0 * np.pi * noise_var / self.weight)
        spread = np.sum(self.weight[:, None] * self.within)
        return float(0.5 * targets * (places.sum() - rows.sum()) - 0.5 * spread / noise_var)


def _agree(within: Matrix, mean: Matrix) -> NDArray[np.bool_]:
    """The places whose rows have the same targets, up to the rounding of their mean."""
    return np.asarray(np.all(within <= 1e-24 * mean**2, axis=1))


def _means(values: Matrix, weight: Vector, total: Vector, place: Integers) -> Matrix:
    """The weighted mean over the rows of each place."""
    return np.stack([np.bincount(place, weights=weight * column) / total for column in values.T], axis=1)


def _equal_by_chance(X: Matrix, y: Matrix, count: Integers, agree: NDArray[np.bool_]) -> bool:
    """Whether rows with equal features are no copies of each other.

    They are not if they often disagree. If they agree in targets of many values (``y``, of the places), they are. They need not be
    if columns have so few values that rows are equal by chance: if independent columns with these frequencies would make more than
    a hundredth of the equal pairs that there are. (Columns depend on each other, so there are more. Continuous ones make none: 1e-9
    of the pairs and less.)
    """
    if np.sum(~agree) >= 0.05 * np.sum(count > 1):
        return True
    if np.sum((np.unique(y, axis=0, return_counts=True)[1] / len(y)) ** 2) < 0.05:
        return False
    pairs, chance = float(np.sum(count * (count - 1.0))), float(len(X)) ** 2
    for column in X.T:
        if chance < 0.01 * pairs:
            return False
        chance *= float(np.sum((np.unique(column, return_counts=True)[1] / len(X)) ** 2))
    return chance >= 0.01 * pairs


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
    begins = np.full(n, True)  # a group of equal rows, which are neighbours in order
    for start in range(0, len(alike), _CHUNK):
        part = alike[start : start + _CHUNK]
        begins[part + 1] = np.any(X[order[part]] != X[order[part + 1]], axis=1)
    group = np.empty(n, dtype=np.int64)
    group[order] = order[begins][np.cumsum(begins) - 1]
    first, inverse = np.unique(group, return_inverse=True)
    return first.astype(np.int64), inverse.astype(np.int64)
