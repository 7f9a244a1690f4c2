"""Activations whose Gaussian moments are known at any variance: erf, tanh and GELU.

For two Gaussians with variances v, v' and covariance c (Williams 1997)

    E[erf(z/√2S) erf(z'/√2S')] = (2/π) arcsin(c / √((v + S²)(v' + S'²))),

so the Hermite coefficients of such an error function are ``√(2 α_k/π) s^k`` for odd k, with ``s² =
v/(v + S²)`` and α_k those of the arcsine. tanh is a mixture of error functions of different widths
(the logistic distribution is one of Gaussians, with Kolmogorov's distribution for S: Andrews and
Mallows 1974), so its coefficients are means of these. The GELU is ``z/2 + z erf(z/√2)/2``:
multiplying by z leads from degree k to its neighbours, and with S = 1

    c_k(v) = √(α_(k-1) / 2πk) (k + v)/√(1 + v) s^k  for even k,        c_1(v) = √v/2.

Signs alternate and go out of all products. Each coefficient is a positive function of v and of the
degree, without a quadrature over z, and good for real degrees as well (``degrees.py``); so nothing
is lost at any variance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import gamma

from mnngp._typing import Vector
from mnngp.activations.degrees import Degrees

ERROR = 2e-14  # of these series, relative to the sum: measured 6e-15, most of it rounding
# a coefficient of that share of the first counts 1e-16, being squared, and all further ones
# together little more
_SMALL = 1e-8


class Expansion(ABC):
    """The Hermite coefficients of an activation as functions of the variance, times √weight.

    So ``E[φφ'] = Σ_k c_k(v) c_k(v') ρ^k`` over the degrees given. Arrays have a row for each
    variance and a column for each degree.
    """

    degrees: Degrees

    @abstractmethod
    def coefficients(self, v: Vector) -> Vector:
        """``c_k(v)``, up to a sign that is the same for all variances."""

    @abstractmethod
    def deviations(self, v: Vector, e: Vector, reference: float) -> Vector:
        """``c_k(v) - c_k(reference)`` for ``v = reference + e``, accurate however small e is.

        ``|e| ≤ reference/2``.
        """

    @abstractmethod
    def rates(self, v: Vector) -> Vector:
        """``dc_k / d log v``."""


@dataclass(frozen=True, eq=False)
class ErrorFunctions:
    """``φ(z) = Σ_m shares_m erf(z/√2S_m)``; ``squares`` are S²."""

    squares: Vector
    shares: Vector

    def variance(self, v: Vector) -> Vector:
        root, _, _ = self._pairs(v)
        return np.asarray(np.arctan(v[:, None] / root) @ self._pair_shares)

    def variance_slope(self, v: Vector) -> Vector:
        root, product, total = self._pairs(v)
        scale = np.maximum(v, 1.0)[:, None]  # against overflow
        share = v[:, None] / scale
        return np.asarray(
            (product / scale + share * total / 2.0)
            / (product / scale + share * (total + v[:, None]))
            / root
            @ self._pair_shares
        )

    def slope_variance(self, v: Vector) -> Vector:
        root, _, _ = self._pairs(v)
        return np.asarray((1.0 / root) @ self._pair_shares)

    def expansion(self, largest: float) -> Expansion:
        degrees = Degrees.up_to(_largest_degree(largest, self.squares, self.shares), odd=True)
        scales = np.sqrt(
            2.0 / np.pi * degrees.weights * np.append(0.0, _arcsine(degrees.values[1:]))
        )
        return _Powers(degrees, scales, self.squares, self.shares)

    @cached_property
    def _pair_shares(self) -> Vector:
        return np.asarray(2.0 / np.pi * np.outer(self.shares, self.shares).ravel())

    def _pairs(self, v: Vector) -> tuple[Vector, Vector, Vector]:
        """``√((v + S²)(v + S'²) - v²)`` for all pairs of widths; S²S'² and S² + S'²."""
        product = np.outer(self.squares, self.squares).ravel()
        total = np.add.outer(self.squares, self.squares).ravel()
        return np.sqrt(product + v[:, None] * total), product, total


class GatedLinear:
    """The GELU ``z Φ(z)``."""

    def variance(self, v: Vector) -> Vector:
        root, share = np.sqrt(1.0 + 2.0 * v), v / (1.0 + v)
        return np.asarray(v / 4.0 + v * (np.arctan(v / root) + 2.0 * share / root) / (2.0 * np.pi))

    def variance_slope(self, v: Vector) -> Vector:
        root, share = np.sqrt(1.0 + 2.0 * v), v / (1.0 + v)
        rest = share * (5.0 - 2.0 * share - 2.0 * v / (1.0 + 2.0 * v)) / root
        return np.asarray(0.25 + (np.arctan(v / root) + rest) / (2.0 * np.pi))

    def slope_variance(self, v: Vector) -> Vector:
        root = np.sqrt(1.0 + 2.0 * v)
        rest = v / (1.0 + v) * ((3.0 + 5.0 * v) / (1.0 + 2.0 * v)) / root
        return np.asarray(0.25 + (np.arctan(v / root) + rest) / (2.0 * np.pi))

    def expansion(self, largest: float) -> Expansion:
        # Further up all degrees together are below rounding: the squares fall as k^(-5/2).
        degrees = Degrees.up_to(
            min(_largest_degree(largest, np.ones(1), np.ones(1)), 1e30), odd=False
        )
        above = degrees.values[2:]
        scales = np.append(
            [1.0 / np.sqrt(2.0 * np.pi), 0.5],
            np.sqrt(_arcsine(above - 1.0) / (2.0 * np.pi * above)),
        )
        return _GatedPowers(degrees, np.sqrt(degrees.weights) * scales, np.ones(1), np.ones(1))


@dataclass(frozen=True, eq=False)
class _Powers(Expansion):
    """``c_k(v) = scales_k Σ_m shares_m s_m^k``."""

    degrees: Degrees
    scales: Vector
    squares: Vector
    shares: Vector

    def coefficients(self, v: Vector) -> Vector:
        return self._mixed(v, lambda square: self._one(v, square))

    def deviations(self, v: Vector, e: Vector, reference: float) -> Vector:
        at = np.array([reference])

        def difference(square: float) -> Vector:
            away = self._log_deviation(v, e, reference, square)
            # times a number below one: nothing overflows
            larger = np.maximum(self._one(v, square), self._one(at, square))
            return -np.sign(away) * larger * np.expm1(-np.abs(away))

        return self._mixed(v, difference)

    def rates(self, v: Vector) -> Vector:
        return self._mixed(v, lambda square: self._one(v, square) * self._log_rate(v, square))

    def _mixed(self, v: Vector, function: Callable[[float], Vector]) -> Vector:
        result = np.zeros((len(v), len(self.scales)))
        with np.errstate(under="ignore"):
            for square, share in zip(self.squares, self.shares, strict=True):
                result += share * function(square)
        result *= self.scales
        return result

    def _one(self, v: Vector, square: float) -> Vector:
        """The coefficients of one error function, but for their scale: ``s^k``."""
        result = np.empty((len(v), len(self.scales)))
        small = v < square
        result[small] = np.power.outer(np.sqrt(v[small] / (v[small] + square)), self.degrees.values)
        result[~small] = np.exp(
            np.multiply.outer(-0.5 * np.log1p(square / v[~small]), self.degrees.values)
        )
        return result

    def _log_deviation(self, v: Vector, e: Vector, reference: float, square: float) -> Vector:
        """How far their logarithms are from those of the reference."""
        return np.multiply.outer(
            0.5 * np.log1p(e / reference * (square / (v + square))), self.degrees.values
        )

    def _log_rate(self, v: Vector, square: float) -> Vector:
        """The derivatives of their logarithms in log v."""
        return np.multiply.outer(0.5 * square / (v + square), self.degrees.values)


class _GatedPowers(_Powers):
    """``c_k(v) = scales_k s^k (k + v)/√(1 + v)``."""

    def _one(self, v: Vector, square: float) -> Vector:
        return super()._one(v, square) * (
            (self.degrees.values + v[:, None]) / np.sqrt(1.0 + v)[:, None]
        )

    def _log_deviation(self, v: Vector, e: Vector, reference: float, square: float) -> Vector:
        more = (
            np.log1p(e[:, None] / (self.degrees.values + reference))
            - 0.5 * np.log1p(e / (1.0 + reference))[:, None]
        )
        return super()._log_deviation(v, e, reference, square) + more

    def _log_rate(self, v: Vector, square: float) -> Vector:
        whole = np.maximum(self.degrees.values + v[:, None], np.finfo(float).tiny)
        return super()._log_rate(v, square) + v[:, None] / whole - (0.5 * v / (1.0 + v))[:, None]


def _largest_degree(v: float, squares: Vector, shares: Vector) -> float:
    """Where the coefficients have fallen to nothing beside the first."""
    degree = 3.0
    while (
        shares @ np.exp(-0.5 * (degree - 1.0) * np.log1p(squares / max(v, 1e-30))) > _SMALL
        and degree < 1e300
    ):
        degree *= 1.25
    return degree


def _arcsine(k: Vector) -> Vector:
    """``α_k`` in ``arcsin y = Σ α_k y^k``, for real k: ``Γ(k/2) / (√π Γ((k+1)/2) k)``."""
    x = k / 2.0
    low, inverse = np.minimum(x, 32.0), 1.0 / np.maximum(x, 32.0)
    tail = 1.0 / 128.0 + inverse * (
        -5.0 / 1024.0 + inverse * (-21.0 / 32768.0 + inverse * (399.0 / 262144.0))
    )
    ratio = np.where(
        x < 32.0,
        gamma(low) / gamma(low + 0.5),
        np.sqrt(inverse) * (1.0 + inverse * (0.125 + inverse * tail)),
    )
    return np.asarray(ratio / (np.sqrt(np.pi) * k))


@lru_cache(maxsize=1)
def hyperbolic_tangent() -> ErrorFunctions:
    """The mixture of error functions that tanh is, by the trapezoidal rule in log S."""
    step = 0.1
    # from 0.165 to 4.5: the density is below 1e-16 outside
    scale = np.exp(np.arange(-18, 16) * step)
    terms = np.arange(1, 9)[:, None]
    # Two series of one density (a theta function's identity); each is good on its own side.
    odd = (2 * terms - 1) ** 2 * np.pi**2
    small = np.sqrt(2.0 * np.pi) * (
        (odd / (4.0 * scale**4) - 1.0 / scale**2) * np.exp(-odd / (8.0 * scale**2))
    ).sum(axis=0)
    large = (
        8.0
        * scale
        * ((-1.0) ** (terms - 1) * terms**2 * np.exp(-2.0 * terms**2 * scale**2)).sum(axis=0)
    )
    return ErrorFunctions(scale**2, np.where(scale < 1.0, small, large) * scale * step)
