"""Smooth activations (erf, tanh, GELU) by their Hermite series, with a known remainder.

With ``c_k(v) = E[φ(√v z) h_k(z)]``, h_k the orthonormal Hermite polynomials,

    E[φ(√v z) φ(√v' z')] = Σ_k c_k(v) c_k(v') ρ^k,        √v √v' E[φ' φ'] = Σ_k k c_k(v) c_k(v') ρ^(k-1).

Unequal variances cost nothing extra, and what a cut at degree K leaves out is known: the two sums at ρ = 1 are
``E φ²`` and ``v E φ'²``, which are computed on their own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import erf, ndtr

from mnngp.activations.base import Activation
from mnngp.activations.series import Vector
from mnngp.errors import warn_of_accuracy

_STEP = 1.0 / 64.0
_NODES = np.arange(-832, 833) * _STEP  # to ±13, where √density is below 1e-18, and Hermite functions are at most one
MOST_TERMS = 1024
_TARGET = 1e-14  # remainder relative to the sum
_TOLERATED = 1e-10  # a larger one is worth a warning


@lru_cache(maxsize=1)
def _hermite_functions() -> Vector:
    """``h_k(z) · density(z) · dz`` on the nodes, a row a degree: the rows of ``c_k`` as an integral.

    The recurrence runs on ``h_k √density``, which is bounded, so no degree overflows.
    """
    root_density = np.exp(-_NODES * _NODES / 4.0) / (2.0 * np.pi) ** 0.25
    rows = np.empty((MOST_TERMS, len(_NODES)))
    rows[0] = root_density
    rows[1] = _NODES * root_density
    for k in range(1, MOST_TERMS - 1):
        rows[k + 1] = (_NODES * rows[k] - np.sqrt(k) * rows[k - 1]) / np.sqrt(k + 1.0)
    rows *= root_density * _STEP
    return rows


class SmoothActivation(Activation):
    """An activation given by its function and slope; its moments come from Hermite coefficients."""

    homogeneous: ClassVar[bool] = False

    @abstractmethod
    def function(self, z: Vector) -> Vector:
        """``φ(z)``."""

    @abstractmethod
    def slope(self, z: Vector) -> Vector:
        """``φ'(z)``."""

    def variance(self, v: Vector) -> Vector:
        """``E φ(√v z)²`` for an array of variances."""
        return self._square_mean(self.function, v)

    def slope_variance(self, v: Vector) -> Vector:
        """``E φ'(√v z)²`` for an array of variances."""
        return self._square_mean(self.slope, v)

    def hermite(self, v: Vector, terms: int) -> Vector:
        """``c_0 … c_(terms-1)`` at each variance, a row a variance."""
        values = self.function(np.sqrt(v)[:, None] * _NODES)
        return np.asarray(values @ _hermite_functions()[:terms].T)

    def terms(self, largest: float) -> tuple[int, float]:
        """How many terms reach rounding for variances up to ``largest``, and the remainder they leave.

        The remainder is that of ``Σ k c_k²`` (and so bounds that of ``Σ c_k²``), relative to the sum, at ρ = ±1; inside it
        falls geometrically.
        """
        v = np.array([largest])
        coefficients = self.hermite(v, MOST_TERMS)[0]
        total = largest * self.slope_variance(v)[0]
        if total == 0.0:
            return 2, 0.0
        left = np.abs(1.0 - np.cumsum(np.arange(MOST_TERMS) * coefficients**2) / total)
        enough = np.nonzero(left <= _TARGET)[0]
        if len(enough) == 0:
            # Either the series is too long, or the slope is too steep for the nodes (the sum then overshoots).
            return MOST_TERMS, float(left[-64:].max())
        return int(enough[0]) + 2, _TARGET

    def checked_terms(self, largest: float) -> int:
        """Return ``terms``, with a warning where the series is not accurate."""
        count, remainder = self.terms(largest)
        if not remainder <= _TOLERATED:
            warn_of_accuracy(
                f"the Hermite series of {self!r} at variance {largest:.3g} leaves out {remainder:.1e} of the slope's variance "
                f"after {count} terms; bring the variance down (standardise the inputs, or a smaller weight_var)"
            )
        return count

    @property
    def mean(self) -> float:
        return float(_unit_coefficients(self)[0])

    @property
    def second_moment(self) -> float:
        return float(self.variance(np.ones(1))[0])

    @property
    def error(self) -> float:
        """The remainder of the series of ``derivative`` at ρ = 1, and so a bound of it everywhere."""
        return self.terms(1.0)[1] * float(self.slope_variance(np.ones(1))[0])

    def _moment(self, rho: Vector) -> Vector:
        return np.asarray(np.polynomial.polynomial.polyval(rho, _unit_coefficients(self) ** 2))

    def _derivative(self, rho: Vector) -> Vector:
        powers = _unit_coefficients(self) ** 2
        return np.asarray(np.polynomial.polynomial.polyval(rho, powers[1:] * np.arange(1, len(powers))))

    def _deficit(self, rho: Vector) -> Vector:
        # Σ c_k² (1 - ρ^k) = (1-ρ) Σ_j ρ^j Σ_(k>j) c_k²
        powers = _unit_coefficients(self) ** 2
        tails = np.cumsum(powers[::-1])[::-1]
        return np.asarray((1.0 - rho) * np.polynomial.polynomial.polyval(rho, tails[1:]))

    @staticmethod
    def _square_mean(function: Callable[[Vector], Vector], v: Vector) -> Vector:
        weight = np.exp(-_NODES * _NODES / 2.0) / np.sqrt(2.0 * np.pi) * _STEP
        return np.asarray(function(np.sqrt(v)[:, None] * _NODES) ** 2 @ weight)


@lru_cache(maxsize=64)
def _unit_coefficients(activation: SmoothActivation) -> Vector:
    coefficients: Vector = activation.hermite(np.ones(1), activation.checked_terms(1.0))[0]
    return coefficients


@dataclass(frozen=True)
class Erf(SmoothActivation):
    """The error function ``erf(z)``."""

    def function(self, z: Vector) -> Vector:
        return np.asarray(erf(z))

    def slope(self, z: Vector) -> Vector:
        return np.asarray(2.0 / np.sqrt(np.pi) * np.exp(-z * z))


@dataclass(frozen=True)
class Tanh(SmoothActivation):
    """The hyperbolic tangent."""

    def function(self, z: Vector) -> Vector:
        return np.asarray(np.tanh(z))

    def slope(self, z: Vector) -> Vector:
        return np.asarray(1.0 - np.tanh(z) ** 2)


@dataclass(frozen=True)
class GELU(SmoothActivation):
    """The Gaussian error linear unit ``z Φ(z)``."""

    def function(self, z: Vector) -> Vector:
        return np.asarray(z * ndtr(z))

    def slope(self, z: Vector) -> Vector:
        return np.asarray(ndtr(z) + z * np.exp(-z * z / 2.0) / np.sqrt(2.0 * np.pi))
