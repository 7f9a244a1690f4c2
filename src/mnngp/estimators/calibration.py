"""Probabilities of classes, from the posterior of a regression on class memberships.

The posterior gives each class a mean μ_c and all of them one variance v. Its probabilities are the
softmax of

    a μ_c / √(1 + b v/v̄)

(MacKay's moderation: the less is known at a point, the flatter), mixed with a little of equal odds,
so that nothing is impossible. The three numbers are those with the least log loss on leave-one-out
predictions of the training data, so they cost no validation set.

Sweeps have validation images and no variances: theirs is the softmax of a μ_c alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mnngp._typing import Matrix, Vector

_SHARPEST = 1e6


class SoftmaxLoss:
    """The log loss of ``softmax(a · mean)`` on labelled predictions, as a function of a."""

    def __init__(self, mean: Matrix, label: NDArray[np.int64]) -> None:
        gaps = np.array(mean.T, order="C")  # a class a row: sums over classes are quick
        gaps -= gaps.max(axis=0)
        self.gaps, self.own = gaps, gaps[label, np.arange(len(label))]

    def log_probability(self, a: float | Vector) -> Vector:
        """Of each row's label; a is a number, or one for each row."""
        return np.asarray(a * self.own - np.log(np.exp(a * self.gaps).sum(axis=0)))

    def __call__(self, a: float) -> float:
        """The mean log loss."""
        return -float(np.mean(self.log_probability(a)))

    def derivatives(self, a: float) -> tuple[float, float]:
        """First and second derivative of the log loss in a."""
        odds = np.exp(a * self.gaps)
        total = odds.sum(axis=0)
        odds *= self.gaps
        expected = odds.sum(axis=0) / total
        odds *= self.gaps
        first = float(np.mean(expected - self.own))
        return first, float(np.mean(odds.sum(axis=0) / total - expected**2))

    def sharpness(self) -> float:
        """The a ≥ 0 with the least log loss, by Newton's method inside a bracket: it is convex.

        It ends where no more than 10⁻¹⁴ can be gained: if no label is wrong, there is always a
        little.
        """
        widest = -float(self.gaps.min())
        if widest == 0.0 or self.derivatives(0.0)[0] >= 0.0:
            return 0.0
        low, high, a = 0.0, _SHARPEST / widest, 4.0 / widest
        for _ in range(100):
            first, second = self.derivatives(a)
            if first * first <= 1e-14 * second:
                break
            low, high = (a, high) if first < 0.0 else (low, a)
            newton = a - first / second if second > 0.0 else math.inf
            a = newton if low < newton < high else 0.5 * (low + high)
        return a


@dataclass(frozen=True, eq=False)
class Calibration:
    """From posterior means and variances to probabilities."""

    sharpness: float  # a
    moderation: float  # b
    floor: float  # share of equal odds that is mixed in
    unit: float  # v̄

    def __call__(self, mean: Matrix, variance: Vector) -> Matrix:
        """Probabilities (m, classes)."""
        logits = self.sharpness * self.moderated(mean, variance)
        logits -= logits.max(axis=1, keepdims=True)
        odds = np.exp(logits)
        odds /= odds.sum(axis=1, keepdims=True)
        return np.asarray((1.0 - self.floor) * odds + self.floor / mean.shape[1])

    def moderated(self, mean: Matrix, variance: Vector) -> Matrix:
        """Means, the nearer to zero the less is known."""
        return np.asarray(mean / self._moderator(variance)[:, None])

    def _moderator(self, variance: Vector) -> Vector:
        return np.sqrt(1.0 + self.moderation * variance / self.unit)

    @staticmethod
    def fit(
        mean: Matrix, variance: Vector, label: NDArray[np.int64], weight: Vector
    ) -> Calibration:
        """Choose the three numbers from leave-one-out predictions of labels."""
        from scipy.optimize import minimize

        classes = mean.shape[1]
        unit = float(np.average(variance, weights=weight)) or 1.0
        if classes == 1:
            return Calibration(1.0, 0.0, 0.0, unit)
        softmax, total = SoftmaxLoss(mean, label), float(weight.sum())

        def at(parameters: Vector) -> Calibration:
            sharpness, moderation, floor = parameters
            share = 0.5 / (1.0 + float(np.exp(-floor)))
            return Calibration(float(np.exp(sharpness)), float(np.exp(moderation)), share, unit)

        def loss(parameters: Vector) -> float:
            if np.abs(parameters).max() > 30.0:
                return float("inf")
            chosen = at(parameters)
            log_odds = softmax.log_probability(chosen.sharpness / chosen._moderator(variance))
            given = (1.0 - chosen.floor) * np.exp(log_odds) + chosen.floor / classes
            # Weak priors, worth an observation or two: a moderate sharpness, a floor of about one
            # in n.
            prior = np.sum((parameters - usual) ** 2) / 8.0
            return float(-np.sum(weight * np.log(np.maximum(given, 1e-300))) + prior) / total

        rare = -float(np.log(total + 2.0))
        usual = np.array([1.5, -1.0, rare])
        results = [
            minimize(
                loss,
                np.array([start, -1.0, rare]),
                method="Nelder-Mead",
                options={"xatol": 1e-3, "fatol": 1e-6},
            )
            for start in (0.5, 2.5)
        ]
        return at(min(results, key=lambda result: result.fun).x)
