"""Smooth activations (erf, tanh, GELU, or any other) by their Hermite series.

With ``c_k(v) = E[φ(√v z) h_k(z)]``, h_k the orthonormal Hermite polynomials,

    E[φ(√v z) φ(√v' z')] = Σ_k   c_k(v) c_k(v') ρ^k,
    √v √v' E[φ' φ']      = Σ_k k c_k(v) c_k(v') ρ^(k-1).

Unequal variances cost nothing extra. For erf, tanh and GELU the coefficients are known, and sums
over all degrees take some hundred terms at any variance (``hermite.py``). Of any other activation
they are integrals, and the sum is cut at a degree K. What that leaves out is known: the two sums at
ρ = 1 are ``E φ²`` and ``v E φ'²``, which are computed on their own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import erf, ndtr

from mnngp._typing import Vector
from mnngp.activations.base import Activation
from mnngp.activations.degrees import Degrees
from mnngp.activations.hermite import (
    ERROR,
    ErrorFunctions,
    Expansion,
    GatedLinear,
    hyperbolic_tangent,
)
from mnngp.errors import warn_of_accuracy

_STEP = 1.0 / 64.0
# to ±13, where √density is below 1e-18, and Hermite functions are at most one
_NODES = np.arange(-832, 833) * _STEP
MOST_TERMS = 1024
_TARGET = 1e-14  # remainder relative to the sum
_TOLERATED = 1e-10  # a larger one is worth a warning


@lru_cache(maxsize=1)
def _hermite_functions() -> Vector:
    """``h_k(z) · density(z) · dz`` on the nodes, a row a degree: ``c_k`` as an integral.

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
    # its moments, where they are known at any variance
    _exact: ClassVar[ErrorFunctions | GatedLinear | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if ("function" in cls.__dict__ or "slope" in cls.__dict__) and "_exact" not in cls.__dict__:
            # what was known of the function of the class above does not hold for another
            cls._exact = None

    @abstractmethod
    def function(self, z: Vector) -> Vector:
        """``φ(z)``."""

    @abstractmethod
    def slope(self, z: Vector) -> Vector:
        """``φ'(z)``."""

    @property
    def exact(self) -> bool:
        """Whether its moments are known at any variance; if not, the series is cut."""
        return self._exact is not None

    def variance(self, v: Vector) -> Vector:
        """``V(v) = E φ(√v z)²`` for an array of variances."""
        if self._exact is not None:
            return self._exact.variance(v)
        return _gaussian_mean(lambda z: self.function(z) ** 2, v)

    def variance_slope(self, v: Vector) -> Vector:
        """``V'(v)`` for an array of variances above zero."""
        if self._exact is not None:
            return self._exact.variance_slope(v)
        return _gaussian_mean(lambda z: self.function(z) * self.slope(z) * z, v) / v

    def slope_variance(self, v: Vector) -> Vector:
        """``E φ'(√v z)²`` for an array of variances."""
        if self._exact is not None:
            return self._exact.slope_variance(v)
        return _gaussian_mean(lambda z: self.slope(z) ** 2, v)

    def expansion(self, largest: float) -> Expansion:
        """The Hermite coefficients for variances up to ``largest``; warns if inaccurate."""
        if self._exact is not None:
            return self._exact.expansion(largest)
        return _Truncated(self, Degrees.every(self.checked_terms(largest)))

    def hermite(self, v: Vector, terms: int) -> Vector:
        """``c_0 … c_(terms-1)`` at each variance, a row a variance."""
        values = self.function(np.sqrt(v)[:, None] * _NODES)
        return np.asarray(values @ _hermite_functions()[:terms].T)

    def terms(self, largest: float) -> tuple[int, float]:
        """How many terms variances up to ``largest`` need, and the remainder they leave.

        The remainder is that of ``Σ k c_k²`` (and so bounds that of ``Σ c_k²``), relative to the
        sum, at ρ = ±1; inside it falls geometrically.
        """
        v = np.array([largest])
        coefficients = self.hermite(v, MOST_TERMS)[0]
        total = largest * self.slope_variance(v)[0]
        if total == 0.0:
            return 2, 0.0
        left = np.abs(1.0 - np.cumsum(np.arange(MOST_TERMS) * coefficients**2) / total)
        enough = np.nonzero(left <= _TARGET)[0]
        if len(enough) == 0:
            # The series is too long, or the slope too steep for the nodes (the sum overshoots).
            return MOST_TERMS, float(left[-64:].max())
        return min(int(enough[0]) + 2, MOST_TERMS), _TARGET

    def checked_terms(self, largest: float) -> int:
        """Return ``terms``, with a warning where the series is not accurate."""
        count, remainder = self.terms(largest)
        if not remainder <= _TOLERATED:
            warn_of_accuracy(
                f"the Hermite series of {self!r} at variance {largest:.3g} leaves out "
                f"{remainder:.1e} of the slope's variance after {count} terms; bring the variance "
                "down (standardise the inputs, or a smaller weight_var)"
            )
        return count

    @property
    def mean(self) -> float:
        return float(_at_one(self)[1][0])

    @property
    def second_moment(self) -> float:
        return float(self.variance(np.ones(1))[0])

    @property
    def error(self) -> float:
        """The remainder of the series of ``derivative`` at ρ = 1: a bound of it everywhere."""
        return (ERROR if self._exact is not None else self.terms(1.0)[1]) * float(
            self.slope_variance(np.ones(1))[0]
        )

    def _moment(self, rho: Vector) -> Vector:
        degrees, coefficients = _at_one(self)
        return degrees.sum(coefficients**2, rho)

    def _derivative(self, rho: Vector) -> Vector:
        degrees, coefficients = _at_one(self)
        return degrees.slope(coefficients**2, rho)

    def _deficit(self, rho: Vector) -> Vector:
        degrees, coefficients = _at_one(self)
        return degrees.deficit(coefficients**2, 1.0 - rho)


@dataclass(frozen=True, eq=False)
class _Truncated(Expansion):
    """Coefficients by quadrature, to a last degree."""

    activation: SmoothActivation
    degrees: Degrees

    def coefficients(self, v: Vector) -> Vector:
        terms = len(self.degrees.values)
        return np.concatenate(
            [self.activation.hermite(part, terms) for part in np.array_split(v, len(v) // 2048 + 1)]
        )

    def deviations(self, v: Vector, e: Vector, reference: float) -> Vector:
        at = self.coefficients(np.array([reference]))
        if np.abs(e).max() > 1e-3 * reference:
            return self.coefficients(v) - at
        # The Taylor series in log v. Its cut-off coefficients are below the series' own remainder.
        away = np.log1p(e / reference)
        derivative, factor = at[0], np.ones_like(v)
        result = np.zeros((len(v), len(self.degrees.values)))
        for order in range(1, 9):
            derivative = _log_variance_derivative(derivative)
            factor = factor * away / order
            result += factor[:, None] * derivative
        return result

    def rates(self, v: Vector) -> Vector:
        return _log_variance_derivative(self.coefficients(v))


def _log_variance_derivative(coefficients: Vector) -> Vector:
    """``dc_k / d log v`` along the last axis: ``2 v dc_k/dv = k c_k + √((k+1)(k+2)) c_(k+2)``."""
    k = np.arange(coefficients.shape[-1])
    above = np.zeros_like(coefficients)
    above[..., :-2] = coefficients[..., 2:]
    return np.asarray(0.5 * (k * coefficients + np.sqrt((k + 1.0) * (k + 2.0)) * above))


def _gaussian_mean(function: Callable[[Vector], Vector], v: Vector) -> Vector:
    """``E function(√v z)`` for an array of variances."""
    weight = np.exp(-_NODES * _NODES / 2.0) / np.sqrt(2.0 * np.pi) * _STEP
    return np.asarray(function(np.sqrt(v)[:, None] * _NODES) @ weight)


@lru_cache(maxsize=64)
def _at_one(activation: SmoothActivation) -> tuple[Degrees, Vector]:
    """The coefficients at unit variance."""
    expansion = activation.expansion(1.0)
    return expansion.degrees, expansion.coefficients(np.ones(1))[0]


@dataclass(frozen=True)
class Erf(SmoothActivation):
    """The error function ``erf(z)``."""

    _exact = ErrorFunctions(np.array([0.5]), np.ones(1))

    def function(self, z: Vector) -> Vector:
        return np.asarray(erf(z))

    def slope(self, z: Vector) -> Vector:
        return np.asarray(2.0 / np.sqrt(np.pi) * np.exp(-z * z))


@dataclass(frozen=True)
class Tanh(SmoothActivation):
    """The hyperbolic tangent."""

    _exact = hyperbolic_tangent()

    def function(self, z: Vector) -> Vector:
        return np.asarray(np.tanh(z))

    def slope(self, z: Vector) -> Vector:
        return np.asarray(1.0 - np.tanh(z) ** 2)


@dataclass(frozen=True)
class GELU(SmoothActivation):
    """The Gaussian error linear unit ``z Φ(z)``."""

    _exact = GatedLinear()

    def function(self, z: Vector) -> Vector:
        return np.asarray(z * ndtr(z))

    def slope(self, z: Vector) -> Vector:
        return np.asarray(ndtr(z) + z * np.exp(-z * z / 2.0) / np.sqrt(2.0 * np.pi))
