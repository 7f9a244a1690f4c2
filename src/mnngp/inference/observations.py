"""Training data as a Gaussian process sees it: unique inputs, with the mean of what was observed.

Rows with equal features are observations of the same function value. Merging them changes no
prediction (with noise σ², w observations are one observation of their mean with noise σ²/w), makes
n smaller and a singular covariance regular, and makes a sample weight of two the same as a row
given twice, also when hyperparameters are chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mnngp._typing import Matrix, Vector

Integers = NDArray[np.int64]
_CHUNK = 1 << 14  # rows compared at a time


@dataclass(frozen=True, eq=False)
class Observations:
    """Unique inputs, what was observed at each, and how often; n of them, from r rows.

    The weight to be held out is left out of each input at a time, when what is left has to predict
    it. Where rows with equal features are a sample of what may be seen there, that is one row's.
    Where they may be copies (a bootstrap sample, oversampling) it is the whole input's: a copy must
    not vouch for its original.
    """

    X: Matrix  # (n, d)
    y: Matrix  # (n, targets) the weighted mean of the targets at each input
    weight: Vector  # (n,) the sum of the sample weights
    within: Matrix  # (n, targets) the weighted mean square of the targets about their mean
    held_out_weight: Vector  # (n,)
    group: Integers  # (r,) which unique input each row of the data has
    row: Integers  # (r,) its number in the data; rows of weight zero are left out
    row_y: Matrix  # (r, targets)
    row_weight: Vector  # (r,)

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def mean_weight(self) -> float:
        """Of an observation: a row, or copies of one."""
        return float(np.mean(self.held_out_weight))

    @property
    def spread(self) -> Matrix:
        """The weighted sum of squares about the mean of each input: χ² times the noise variance."""
        return self.weight[:, None] * self.within

    @property
    def repeats(self) -> Vector:
        """Its degrees of freedom: the rows of each input beyond the first, less copies."""
        return np.rint(self.weight / self.held_out_weight) - 1.0

    @property
    def first_rows(self) -> Integers:
        """The first row of the data that has each input."""
        return np.asarray(self.row[np.unique(self.group, return_index=True)[1]])

    @property
    def conflict(self) -> tuple[int, int] | None:
        """Two rows of the data with equal features and different targets, if there are any."""
        _, first = np.unique(self.group, return_index=True)
        differ = np.any(self.row_y != self.row_y[first[self.group]], axis=1)
        if not differ.any():
            return None
        other = int(np.argmax(differ))
        return int(self.row[first[self.group[other]]]), int(self.row[other])

    @staticmethod
    def of(X: Matrix, y: Matrix, sample_weight: Vector | None = None) -> Observations:
        """Merge the rows of ``X`` that are equal; ``y`` is (r, targets)."""
        weight: Vector = np.ones(len(X)) if sample_weight is None else sample_weight
        row = np.flatnonzero(weight > 0.0)
        if len(row) < len(X):
            X, y, weight = X[row], y[row], weight[row]
        first, group = _equal_rows(X)
        if len(first) == len(X):  # nothing to merge: the common case, without a copy
            return Observations(X, y, weight, np.zeros_like(y), weight, group, row, y, weight)
        total = np.bincount(group, weights=weight).astype(np.float64)
        mean = _means(y, weight, total, group)
        within = _means((y - mean[group]) ** 2, weight, total, group)
        held_out = total / _count_observations(X[first], y, group)
        return Observations(X[first], mean, total, within, held_out, group, row, y, weight)

    def standardized(self, offset: Vector, unit: Vector) -> Observations:
        """With targets in other units, and never in the caller's memory."""
        y = (self.y - offset) / unit
        if self.row_y is self.y:  # nothing was merged: every row is an input, without any spread
            return replace(self, y=y, row_y=y)
        return replace(self, y=y, within=self.within / unit**2, row_y=(self.row_y - offset) / unit)

    def subset(self, chosen: Integers) -> Observations:
        """Some of the inputs, in ascending order, as if they were all."""
        number = np.full(len(self), -1)
        number[chosen] = np.arange(len(chosen))
        rows = np.flatnonzero(number[self.group] >= 0)
        return Observations(
            self.X[chosen],
            self.y[chosen],
            self.weight[chosen],
            self.within[chosen],
            self.held_out_weight[chosen],
            number[self.group[rows]],
            self.row[rows],
            self.row_y[rows],
            self.row_weight[rows],
        )

    def sample(self, most: int, rng: np.random.Generator) -> Observations:
        """All inputs, or ``most`` random ones if there are more."""
        if len(self) <= most:
            return self
        return self.subset(np.sort(rng.choice(len(self), most, replace=False)))

    def log_density_within(self, noise_var: float) -> float:
        """What the rows add to the log evidence of the means: their density about them.

        Without noise equal rows say the same thing once.
        """
        if len(self.row) == len(self) or noise_var == 0.0:
            return 0.0
        rows = np.log(2.0 * np.pi * noise_var / self.row_weight)
        means = np.log(2.0 * np.pi * noise_var / self.weight)
        targets, spread = self.y.shape[1], np.sum(self.spread)
        return float(0.5 * targets * (means.sum() - rows.sum()) - 0.5 * spread / noise_var)


def _means(values: Matrix, weight: Vector, total: Vector, group: Integers) -> Matrix:
    """The weighted mean over the rows of each group."""
    return np.stack(
        [np.bincount(group, weights=weight * column) / total for column in values.T], axis=1
    )


def _count_observations(X: Matrix, y: Matrix, group: Integers) -> Integers:
    """How many rows of each group are observations of their own, and not copies of another.

    ``X`` are the unique inputs. Rows with the same targets are copies if the targets have many
    values: observations would not agree to the last digit. If they have few (labels), rows that
    agree are copies too, unless others often disagree, or rows are equal by chance.
    """
    rows = np.unique(np.column_stack([group.astype(np.float64), y]), axis=0)
    distinct = np.unique(rows[:, 0], return_counts=True)[1]
    count = np.bincount(group)
    values = np.unique(y, axis=0, return_counts=True)[1]
    many = np.sum((values / len(y)) ** 2) < 0.05
    if many or not (np.sum(distinct > 1) >= 0.05 * np.sum(count > 1) or _equal_by_chance(X, count)):
        return np.asarray(distinct)
    return np.asarray(count)


def _equal_by_chance(X: Matrix, count: Integers) -> bool:
    """Whether rows are equal as few are possible: many rows an input, or columns of few values.

    The latter if independent columns, with values that agree as often as those of two different
    inputs do, would make more than a hundredth of the equal pairs that there are. (Columns depend
    on each other, so there are more. Continuous ones make none.)
    """
    n, total = len(X), float(count.sum())
    if total >= 5.0 * n:
        return True
    pairs, chance = float(np.sum(count * (count - 1.0))), total**2
    for column in X.T:
        if chance < 0.01 * pairs:
            return False
        same = np.unique(column, return_counts=True)[1].astype(np.float64)
        chance *= float(np.sum(same * (same - 1.0))) / max(1.0, n * (n - 1.0))
    return chance >= 0.01 * pairs


def _equal_rows(X: Matrix) -> tuple[Integers, Integers]:
    """The first row of each group of equal rows, in the order of appearance, and each row's group.

    Equal rows have equal inner products with any vector, so only those that agree in one are
    compared.
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
        some = alike[start : start + _CHUNK]
        begins[some + 1] = np.any(X[order[some]] != X[order[some + 1]], axis=1)
    group = np.empty(n, dtype=np.int64)
    group[order] = order[begins][np.cumsum(begins) - 1]
    first, inverse = np.unique(group, return_inverse=True)
    return first.astype(np.int64), inverse.astype(np.int64)
