"""Probabilities of classes, from the posterior of a regression on class memberships.

The posterior gives each class a mean μ_c and all of them one variance v. Its probabilities are the
softmax of

    a μ_c / √(1 + b v/v̄)

(MacKay's moderation: the less is known at a point, the flatter), mixed with a little of equal odds,
so that nothing is impossible. The three numbers are those with the least log loss on leave-one-out
predictions of the training data, so they cost no validation set.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp._typing import Matrix, Vector


@dataclass(frozen=True, eq=False)
class Calibration:
    """From posterior means and variances to probabilities.

    Attributes
    ----------
    sharpness : float
        a.
    moderation : float
        b, for variances in units of ``unit`` (v̄).
    floor : float
        Share of equal odds that is mixed in.
    """

    sharpness: float
    moderation: float
    floor: float
    unit: float

    def __call__(self, mean: Matrix, variance: Vector) -> Matrix:
        """Probabilities (m, classes)."""
        logits = self.sharpness * self.moderated(mean, variance)
        logits -= logits.max(axis=1, keepdims=True)
        odds = np.exp(logits)
        odds /= odds.sum(axis=1, keepdims=True)
        return np.asarray((1.0 - self.floor) * odds + self.floor / mean.shape[1])

    def moderated(self, mean: Matrix, variance: Vector) -> Matrix:
        """Means, the nearer to zero the less is known."""
        return np.asarray(mean / np.sqrt(1.0 + self.moderation * variance / self.unit)[:, None])

    @staticmethod
    def fit(
        mean: Matrix, variance: Vector, label: NDArray[np.int64], weight: Vector, classes: int
    ) -> Calibration:
        """Choose the three numbers from leave-one-out predictions of labels."""
        from scipy.optimize import minimize

        unit = float(np.average(variance, weights=weight)) or 1.0
        if classes == 1:
            return Calibration(1.0, 0.0, 0.0, unit)
        total = float(weight.sum())
        rows = np.arange(len(label))

        def at(parameters: Vector) -> Calibration:
            sharpness, moderation, floor = parameters
            return Calibration(
                float(np.exp(sharpness)),
                float(np.exp(moderation)),
                0.5 / (1.0 + float(np.exp(-floor))),
                unit,
            )

        def loss(parameters: Vector) -> float:
            if np.abs(parameters).max() > 30.0:
                return float("inf")
            chosen = at(parameters)(mean, variance)[rows, label]
            # Weak priors, worth an observation or two: a floor of about one in n, a moderate
            # sharpness.
            prior = 0.5 * (
                (parameters[0] - 1.5) ** 2 / 4.0
                + (parameters[1] + 1.0) ** 2 / 4.0
                + (parameters[2] - rare) ** 2 / 4.0
            )
            return float(-np.sum(weight * np.log(np.maximum(chosen, 1e-300))) + prior) / total

        rare = -float(np.log(total + 2.0))
        starts = [np.array([start, -1.0, rare]) for start in (0.5, 2.5)]
        results = [
            minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-6})
            for start in starts
        ]
        return at(min(results, key=lambda result: result.fun).x)


class Late:
    """A value that is computed when first asked for, once: leave-one-out is not free, and not
    everybody wants probabilities.
    """

    def __init__(self, value: Any = None) -> None:
        self.value = value
        self._lock = threading.Lock()

    def __call__(self, compute: Callable[[], Any]) -> Any:
        """The value, by ``compute`` if it is not known yet; other threads that ask meanwhile wait
        for it.
        """
        with self._lock:
            if self.value is None:
                self.value = compute()
            return self.value

    def __getstate__(self) -> tuple[Any]:
        return (self.value,)  # a lock stays where it is

    def __setstate__(self, state: tuple[Any]) -> None:
        self.__init__(*state)  # type: ignore[misc]
