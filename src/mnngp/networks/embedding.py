"""An embedding of each feature by itself, in front of the first layer that mixes them.

Infinitely many random periodic units ``√2 cos(ω a + φ)`` of one feature a, with ω normal of
variance 1/ℓ², have the covariance ``exp(-(a - b)² / 2ℓ²)``; random one-hot vectors of a category
have ``[a = b]``. What the first affine map sees of two rows is a mean of that over the features,

    V₀(x, x') = Σ_j s_j k_j(x_j, x'_j),    Σ_j s_j = 1,

which is one for a row with itself: all rows have one length. No unit needs to be drawn, because the
Gaussian has a short explicit map: on an interval of some lengthscales its eigenvalues fall faster
than any power, and those of its matrix between Chebyshev nodes give all digits with a few columns a
feature (an interval of five lengthscales: 20, of two: 12). Inner products of such rows are V₀, and
everything behind them is as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp._typing import Matrix, Vector
from mnngp.errors import InputError

_SMALLEST = 1e-13  # eigenvalues that are kept, of a kernel whose largest entry is one
_SHOWN = 3  # categories, gaps or weights, when it is printed
_LONGEST = 200.0  # lengthscales between the limits: some hundred columns a feature


@dataclass(frozen=True)
class Embedding:
    """Each feature through infinitely many random periodic units of its own.

    It may stand first in a network: ``NetworkKernel([Embedding(1.0), Maxout(4)])``, or
    ``MaxoutKernel(..., embedding=Embedding(1.0))``. Features should have about the size of one;
    the estimators see to that, and choose the lengthscale.

    Attributes
    ----------
    lengthscale : float
        ℓ: features that differ by much more have nothing to do with each other.
    limits : (low, high)
        Numbers beyond are taken for the limit.
    categories : tuple of (start, stop)
        Columns from ``start`` up to but not including ``stop`` that are indicators of one category
        each: 0 or 1, and at most one 1 among them. A row with none of them has a category that no
        other knows of.
    gaps : tuple of int
        Columns that are 1 where the number in the column before is missing: a gap has nothing to do
        with any number, and all gaps are alike.
    weights : tuple of float
        s, up to a factor: one for each number, in the order of the columns, then one for each
        category. A gap has that of its number. Empty: all features have the same share.

    Examples
    --------
    >>> Embedding(0.5)
    Embedding(0.5)
    >>> X = np.array([[0.0, 1.0], [0.5, -1.0]])
    >>> rows = Embedding(0.5)(X)
    >>> (rows @ rows.T / rows.shape[1]).round(4)
    array([[1.    , 0.3034],
           [0.3034, 1.    ]])
    """

    lengthscale: float = 1.0
    limits: tuple[float, float] = (-4.0, 4.0)
    categories: tuple[tuple[int, int], ...] = ()
    gaps: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _validation.real("lengthscale", self.lengthscale, low=0.0, strict=True)
        limits = self.limits
        if not (isinstance(limits, tuple) and len(limits) == 2):
            raise InputError(f"limits must be a pair of numbers, got {limits!r}")
        for index, limit in enumerate(limits):
            _validation.real(f"limits[{index}]", limit, low=-1e6, high=1e6)
        if not 0.0 < limits[1] - limits[0] <= _LONGEST * self.lengthscale:
            raise InputError(
                f"limits must be a lower and a higher number, at most {_LONGEST:g} lengthscales "
                f"apart, got {limits!r} for lengthscale={self.lengthscale!r}"
            )
        for start, stop in self.categories:
            if not 0 <= start < stop:
                raise InputError(
                    "categories must be pairs (start, stop) of columns with 0 <= start < stop, got "
                    f"{(start, stop)!r}"
                )
        used = {column for start, stop in self.categories for column in range(start, stop)}
        for gap in self.gaps:
            if gap < 1 or {gap - 1, gap} & used:
                raise InputError(
                    "gaps must be columns from 1 on, each behind a number of its own, got "
                    f"{_short(self.gaps)} with categories={_short(self.categories)}"
                )
            used |= {gap - 1, gap}
        if not isinstance(self.weights, tuple):
            raise InputError(f"weights must be a tuple of numbers, got {self.weights!r}")
        for index, weight in enumerate(self.weights):
            _validation.real(f"weights[{index}]", weight, low=0.0, high=1e6)
        if self.weights and not sum(self.weights) > 0.0:
            raise InputError(f"weights must not all be zero, got {_short(self.weights)}")

    def __repr__(self) -> str:
        parts = [f"{self.lengthscale:.4g}"]
        if self.limits != Embedding.limits:
            parts.append(f"limits=({self.limits[0]:.4g}, {self.limits[1]:.4g})")
        columns = {"categories": self.categories, "gaps": self.gaps}
        columns["weights"] = tuple(float(f"{weight:.3g}") for weight in self.weights)
        parts += [f"{name}={_short(value)}" for name, value in columns.items() if value]
        return f"Embedding({', '.join(parts)})"

    def numbers(self, columns: int) -> NDArray[np.int64]:
        """Which columns hold numbers; raises if there are not as many columns as it speaks of."""
        others = {column for start, stop in self.categories for column in range(start, stop)}
        others.update(self.gaps)
        if others and max(others) >= columns:
            raise InputError(
                f"X must have more than {max(others)} columns, of which the embedding says what "
                f"they are, got {columns}"
            )
        return np.array([j for j in range(columns) if j not in others], dtype=np.int64)

    def features(self, columns: int) -> int:
        """The number of features: numbers, then categories."""
        return len(self.numbers(columns)) + len(self.categories)

    def blocks(self, columns: int) -> list[NDArray[np.int64]]:
        """Which columns of the explicit map are of each feature, as ``weights`` has them."""
        numbers, step = self.numbers(columns), self.basis()[1].shape[1]
        gap_of = {gap - 1: len(numbers) * step + k for k, gap in enumerate(self.gaps)}
        blocks = []
        for place, number in enumerate(numbers.tolist()):
            block = np.arange(place * step, (place + 1) * step)
            blocks.append(np.append(block, gap_of[number]) if number in gap_of else block)
        at = len(numbers) * step + len(self.gaps)
        for start, stop in self.categories:
            blocks.append(np.arange(at, at + stop - start + 1))
            at += stop - start + 1
        return blocks

    def scale(self, columns: int) -> Vector:
        """What the columns of the explicit map are multiplied by, for the features' shares."""
        count = self.features(columns)
        if self.weights and len(self.weights) != count:
            raise InputError(
                f"weights must be {count} numbers, one for each feature, got {len(self.weights)}"
            )
        shares = np.asarray(self.weights or np.ones(count), dtype=np.float64)
        shares = shares / shares.sum()
        result = np.empty(self.width(columns))
        for block, share in zip(self.blocks(columns), shares, strict=True):
            result[block] = np.sqrt(len(result) * share)
        return result

    def width(self, columns: int) -> int:
        """Columns of the explicit map."""
        each: int = self.basis()[1].shape[1]
        of_categories = sum(stop - start + 1 for start, stop in self.categories)
        return each * len(self.numbers(columns)) + len(self.gaps) + of_categories

    def basis(self) -> tuple[Vector, Matrix]:
        """Nodes t and a matrix W: the map of a number a is ``k(a, t) W``."""
        return _basis(float(self.lengthscale), *map(float, self.limits))

    def __call__(self, X: NDArray[Any]) -> Matrix:
        """The explicit map of rows: ``φ(x)·φ(x') / width = V₀(x, x')``."""
        X = np.asarray(X, dtype=np.float64)
        nodes, weights = self.basis()
        numbers = self.numbers(X.shape[1])
        result = np.empty((len(X), self.width(X.shape[1])))
        present = np.ones((len(X), X.shape[1]))
        for gap in self.gaps:
            present[:, gap - 1] -= X[:, gap]
        step = weights.shape[1]
        for place, column in enumerate(numbers):
            part = result[:, place * step : (place + 1) * step]
            away = np.clip(X[:, column], *self.limits)[:, None] - nodes
            np.matmul(np.exp(-0.5 * (away / self.lengthscale) ** 2), weights, out=part)
            part *= present[:, column : column + 1]
        at = step * len(numbers)
        for gap in self.gaps:
            result[:, at] = X[:, gap]
            at += 1
        for start, stop in self.categories:
            indicators = X[:, start:stop]
            result[:, at : at + stop - start] = indicators
            result[:, at + stop - start] = 1.0 - indicators.sum(axis=1)
            at += stop - start + 1
        result *= self.scale(X.shape[1])
        return result

    def pull_back(self, X: NDArray[Any], pulled: Matrix) -> Matrix:
        """From derivatives in the explicit map of rows, (n, width), to those in the rows, (n, d).

        Of a number beyond the limits it is zero, of one at a limit that of the inner side.
        Indicators may be any numbers: the map is linear in them.
        """
        X = np.asarray(X, dtype=np.float64)
        nodes, weights = self.basis()
        numbers, result = self.numbers(X.shape[1]), np.zeros(X.shape)
        pulled = pulled * self.scale(X.shape[1])
        step, gap_of = weights.shape[1], {gap - 1: gap for gap in self.gaps}
        for place, column in enumerate(numbers):
            number = X[:, column]
            away = (np.clip(number, *self.limits)[:, None] - nodes) / self.lengthscale
            # of the number itself, and of whether it is there
            back = pulled[:, place * step : (place + 1) * step] @ weights.T
            back *= np.exp(-0.5 * away**2)
            inside = (number >= self.limits[0]) & (number <= self.limits[1])
            slope = -np.einsum("ij,ij->i", back, away) / self.lengthscale
            result[:, column] = np.where(inside, slope, 0.0)
            if column in gap_of:
                gap = gap_of[column]
                result[:, gap] -= back.sum(axis=1)
                result[:, column] *= 1.0 - X[:, gap]
        at = step * len(numbers)
        for gap in self.gaps:
            result[:, gap] += pulled[:, at]
            at += 1
        for start, stop in self.categories:
            none = pulled[:, at + stop - start]
            result[:, start:stop] = pulled[:, at : at + stop - start] - none[:, None]
            at += stop - start + 1
        return result


def _short(columns: tuple[Any, ...]) -> str:
    if len(columns) <= _SHOWN:
        return repr(columns)
    return f"({', '.join(map(repr, columns[:_SHOWN]))}, … {len(columns)} in all)"


@lru_cache(maxsize=64)
def _basis(lengthscale: float, low: float, high: float) -> tuple[Vector, Matrix]:
    length = (high - low) / lengthscale
    count = int(16 + 4 * length)  # nodes: a quarter fewer would lose digits
    angles = np.pi * (np.arange(count) + 0.5) / count
    nodes = 0.5 * (low + high) + 0.5 * (high - low) * np.cos(angles)
    away = (nodes[:, None] - nodes) / lengthscale
    values, vectors = np.linalg.eigh(np.exp(-0.5 * away**2))
    kept = values > _SMALLEST
    weights = vectors[:, kept] / np.sqrt(values[kept])
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights
