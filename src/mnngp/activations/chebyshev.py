"""Chebyshev series on [0, upper], chopped where they are exact to rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.polynomial import chebyshev
from scipy.fft import dct

from mnngp._typing import Matrix, Vector
from mnngp.errors import MnngpError

HALF_RANGE = np.sqrt(0.5)  # sin(θ/2) at θ = π/2, where correlations change their sign


@dataclass(frozen=True, eq=False)
class Series:
    """``Σ_k coefficients[k] T_k(2s/upper - 1)`` for s in [0, upper].

    ``tail`` is the sum of the absolute coefficients that were dropped: a bound of the error
    of chopping on the whole interval, since ``|T_k| ≤ 1``.
    """

    coefficients: Vector
    upper: float
    tail: float = 0.0

    @staticmethod
    def fit(
        function: Callable[[Vector], Vector], upper: float, *, tolerance: float, most: int = 128
    ) -> Series:
        """Interpolate at Chebyshev nodes, more of them until the coefficients have died out.

        ``tolerance`` is relative to the largest coefficient.
        """
        count = 32
        while True:
            series = Series(_interpolate(function, count, upper), upper).chopped(tolerance)
            # three dropped at the end: resolved, not aliased
            if len(series.coefficients) <= count - 3:
                return series
            if 2 * count > most:
                raise MnngpError(
                    f"a Chebyshev series of degree {count - 1} does not resolve the "
                    f"function to {tolerance:g}"
                )
            count *= 2

    def chopped(self, tolerance: float) -> Series:
        """Drop the longest tail of a sum below ``tolerance`` times the largest coefficient."""
        size = np.abs(self.coefficients)
        tails = np.cumsum(size[::-1])[::-1]
        keep = max(1, int(np.count_nonzero(tails > tolerance * size.max())))
        return Series(self.coefficients[:keep], self.upper, self.tail + float(size[keep:].sum()))

    def __call__(self, s: Vector) -> Vector:
        """Evaluate by Clenshaw's recurrence."""
        return np.asarray(chebyshev.chebval(s * (2.0 / self.upper) - 1.0, self.coefficients))

    def at(self, s: float) -> float:
        """Evaluate for one number, faster than an array of one."""
        x = s * (2.0 / self.upper) - 1.0
        last, before = 0.0, 0.0
        for coefficient in self._reversed:
            last, before = coefficient + 2.0 * x * last - before, last
        return last - x * before

    @cached_property
    def _reversed(self) -> list[float]:
        return [float(coefficient) for coefficient in self.coefficients[::-1]]

    def restricted(self, upper: float, tolerance: float) -> Series:
        """Return the same function on the shorter interval [0, upper], with fewer terms."""
        return Series(_interpolate(self, len(self.coefficients), upper), upper, self.tail).chopped(
            tolerance
        )

    @cached_property
    def powers(self) -> Vector:
        """Coefficients in powers of ``2s/upper - 1``, for short series."""
        return np.asarray(self.coefficients @ _in_powers(len(self.coefficients)))

    @cached_property
    def slope(self) -> Series:
        """The derivative with respect to s."""
        derivative = chebyshev.chebder(self.coefficients) * (2.0 / self.upper)
        return Series(np.asarray(derivative, dtype=np.float64), self.upper)


@lru_cache(maxsize=64)
def _in_powers(count: int) -> Matrix:
    """The coefficients of T_0, …, T_{count-1} in powers, a polynomial a row: they are integers.

    NumPy's ``cheb2poly`` takes a millisecond, which a sweep over many networks notices.
    """
    rows = np.eye(count)
    for k in range(2, count):
        rows[k] = -rows[k - 2]
        rows[k, 1:] += 2.0 * rows[k - 1, :-1]
    return rows


def _interpolate(function: Callable[[Vector], Vector], count: int, upper: float) -> Vector:
    """Chebyshev coefficients of the interpolant at ``count`` nodes on [0, upper]."""
    nodes = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    coefficients = dct(function((nodes + 1.0) * (upper / 2.0))) / count
    coefficients[0] /= 2.0
    return np.asarray(coefficients)
