"""Sums over all Hermite degrees, in few terms.

A steep activation needs the degrees up to a hundred times its variance. But far up the ladder a
summand changes little from one degree to the next, and real degrees in geometric progression do for
all: with t = log k and k of one parity the trapezoidal rule

    Σ_k f(k)  ≈  ½ ∫ f(e^t) e^t dt  ≈  Σ_n f(κ_n) h κ_n / 2,        κ_n = κ_0 e^(hn)

converges geometrically for everything that such a sum is made of: powers of k times exponentials.
Below, where degrees have to be taken one by one, a smooth window W(k) hands over from the sum to
the rule: degree k keeps the share 1 - W(k). All weights are positive, so a kernel stays one. With
five rungs an octave the degrees double every five terms, and powers ρ^κ come by squaring.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from mnngp._typing import Vector

RUNGS = 5  # real degrees an octave
# Where the window W(k) = Φ(log(k/middle)/width) is half open; beyond ``reach`` widths it is as good
# as shut, or open. Found by trial: of all windows that sum the arcsine's series and its derivative
# to 3e-15 this one takes the fewest terms.
_MIDDLE, _WIDTH, _REACH = 30.0, 0.17, 7.4
_FIRST, _LAST = (_MIDDLE * np.exp(sign * _WIDTH * _REACH) for sign in (-1.0, 1.0))


@dataclass(frozen=True, eq=False)
class Degrees:
    """Degrees to sum over: 0, 1, whole ones that rise by one or two, then real ones, each twice the
    one that stands ``RUNGS`` before it.
    """

    values: Vector
    weights: Vector  # what a summand of that degree counts
    whole: int  # how many are whole
    odd: bool = False  # whether the real ones stand for odd degrees, or for even ones

    @staticmethod
    def every(count: int) -> Degrees:
        """0, 1, 2, … one by one."""
        return Degrees(np.arange(count, dtype=np.float64), np.ones(count), count)

    @staticmethod
    def up_to(largest: float, *, odd: bool) -> Degrees:
        """0, 1, and all that are odd, or even: one by one where that is shorter."""
        start = 3.0 if odd else 2.0
        rungs = int(np.ceil(np.log2(max(largest, 2.0 * _FIRST) / _FIRST) * RUNGS)) + 1
        if largest / 2.0 <= _LAST / 2.0 + rungs:
            whole = np.concatenate([[0.0, 1.0], np.arange(start, largest + 2.0, 2.0)])
            return Degrees(whole, np.ones_like(whole), len(whole), odd)
        whole = np.concatenate([[0.0, 1.0], np.arange(start, _LAST, 2.0)])
        real = _FIRST * 2.0 ** (np.arange(rungs) / RUNGS)
        kept = np.append([1.0, 1.0], 1.0 - _window(whole[2:]))
        return Degrees(
            np.append(whole, real),
            np.append(kept, np.log(2.0) / RUNGS / 2.0 * real * _window(real)),
            len(whole),
            odd,
        )

    def sum(self, squares: Vector, rho: Vector) -> Vector:
        """``Σ squares_k ρ^k``."""
        rho = np.asarray(rho, dtype=np.float64)
        result = np.zeros_like(rho)
        for index, (degree, square) in enumerate(zip(self.values, squares, strict=True)):
            result += square * self._power(rho, index, degree, even=not self.odd)
        return result

    def slope(self, squares: Vector, rho: Vector) -> Vector:
        """``Σ k squares_k ρ^(k-1)``."""
        rho = np.asarray(rho, dtype=np.float64)
        result = np.zeros_like(rho)
        for index, (degree, square) in enumerate(zip(self.values, squares, strict=True)):
            if degree > 0.0:
                result += degree * square * self._power(rho, index, degree - 1.0, even=self.odd)
        return result

    def deficit(self, squares: Vector, gap: Vector) -> Vector:
        """``Σ squares_k (1 - ρ^k)`` from ``gap = 1 - ρ``, to full relative accuracy as that → 0."""
        gap = np.asarray(gap, dtype=np.float64)
        near = gap < 0.5
        with np.errstate(divide="ignore"):
            log = np.log1p(-np.where(near, gap, 0.0))
        result = np.zeros_like(gap)
        for index, (degree, square) in enumerate(zip(self.values, squares, strict=True)):
            far = 1.0 - self._power(1.0 - gap, index, degree, even=not self.odd)
            result += square * np.where(near, -np.expm1(degree * log), far)
        return result

    def _power(self, rho: Vector, index: int, exponent: float, *, even: bool) -> Vector:
        """``ρ^exponent`` of a term; a real exponent stands for whole ones that are even or odd."""
        if index < self.whole:
            return np.asarray(rho**exponent)
        power = np.abs(rho) ** exponent
        return np.asarray(power if even else np.sign(rho) * power)


def _window(k: Vector) -> Vector:
    return np.asarray(ndtr(np.log(k / _MIDDLE) / _WIDTH))
