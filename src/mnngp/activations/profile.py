"""The correlation map of a positively homogeneous activation, as a distance.

A layer of such an activation is two things: the number ``M = F(1)`` and the function ``F(ρ)``. What
the deep recursion needs of ``F`` is not its value but how far it has fallen from ``F(1)``, to full
*relative* accuracy, because correlations crowd at one in a deep network. With ``u = (1-ρ)/2 =
sin²(θ/2)`` and ``ρ = cos θ``

    near half, ρ ≥ 0, s = √u      :  F(1) - F(ρ) = 2 s² G(s),             F'(ρ) = G(s) + s G'(s)/2
    far half,  ρ ≤ 0, c = √(1-u)  :  F(ρ) - F(-1) = 2 c² H(c),            F'(ρ) = H(c) + c H'(c)/2

and G and H are analytic on the whole of [0, √½]: neither ``arccos`` nor the square-root singularity
of F at ρ = ±1 is left. Both follow from ``P = F'`` alone: ``G(s) = 2 ∫₀¹ τ P(sτ) dτ``, a mean of P,
so nothing cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from mnngp._typing import Vector
from mnngp.activations.chebyshev import HALF_RANGE, Series

_LADDER = 2.0 ** -np.arange(0, 40, 0.5)  # interval ends at which shorter series are kept


@dataclass(frozen=True, eq=False)
class Profile:
    """``F`` of one homogeneous activation: its values, slopes and distances from one."""

    mean: float  # ``E φ``
    second_moment: float  # ``M = F(1) = E φ²`` at unit variance
    near: Series  # G in s, on [0, √½]
    far: Series  # H in c
    near_slope: Series  # ``F'`` in s
    far_slope: Series
    fall: float  # ``F(1) - F(-1)``
    # bound of the absolute error of ``F'``, by the chopped coefficients and the quadrature's own
    error: float
    _shorter: dict[tuple[str, int, float], Series] = field(default_factory=dict, repr=False)

    @staticmethod
    def build(
        derivative: Callable[[Vector], Vector],
        *,
        mean: float,
        second_moment: float,
        error: float,
        fall: float | None = None,
        tolerance: float = 2e-15,
    ) -> Profile:
        """Build from ``derivative(θ) = F'(cos θ)``, known to an absolute ``error``.

        ``fall`` if it is known exactly.
        """
        near_slope = Series.fit(
            lambda s: derivative(2.0 * np.arcsin(s)), HALF_RANGE, tolerance=tolerance
        )
        far_slope = Series.fit(
            lambda c: derivative(np.pi - 2.0 * np.arcsin(c)), HALF_RANGE, tolerance=tolerance
        )
        near, far = _weighted_mean(near_slope, tolerance), _weighted_mean(far_slope, tolerance)
        if fall is None:  # the two halves meet at s = c = √½, and there 2s² = 2c² = 1
            fall = float(sum(half(np.array([HALF_RANGE]))[0] for half in (near, far)))
        error += near_slope.tail + far_slope.tail
        return Profile(mean, second_moment, near, far, near_slope, far_slope, fall, error)

    @cached_property
    def _falls(self) -> Vector:
        """The deficit at equally spaced angles from 0 to π."""
        return self.deficit(np.sin(np.linspace(0.0, np.pi / 2.0, 2001)) ** 2)

    @cached_property
    def _increasing(self) -> bool:
        return bool(np.all(np.diff(self._falls) > 0.0))

    @cached_property
    def slope_at_one(self) -> float:
        """``F'(1)``."""
        return float(self.near_slope(np.zeros(1))[0])

    def largest_fall(self, reach: float) -> float:
        """The largest ``F(1) - F(1 - 2u)`` for u in [0, reach], or a little more."""
        if not self._increasing:
            return float(self._falls.max()) * (1.0 + 1e-5)
        if reach >= 1.0:
            return self.fall
        if reach > 0.5:
            return float(self.deficit(np.array([reach]))[0])
        # the same; a deep network asks once a layer
        return 2.0 * reach * self.near.at(math.sqrt(reach))

    @cached_property
    def nonnegative(self) -> bool:
        """Whether ``F ≥ 0`` on all of [-1, 1], so that no later correlation is negative."""
        return bool(self.second_moment - self._falls.max() >= -1e-13 * self.second_moment)

    @property
    def linear(self) -> bool:
        """Whether ``F`` is a multiple of ρ."""
        return len(self.near.coefficients) == 1 and len(self.far.coefficients) == 1

    def deficit(self, u: Vector, rest: Vector | None = None) -> Vector:
        """``F(1) - F(1 - 2u)``, to full relative accuracy as u → 0.

        ``rest`` is 1 - u where that is known better.
        """
        close, beyond = self._sides(u, rest)
        return np.where(
            u > 0.5,
            self.fall - 2.0 * beyond * self.far(np.sqrt(beyond)),
            2.0 * close * self.near(np.sqrt(close)),
        )

    def slope(self, u: Vector, rest: Vector | None = None) -> Vector:
        """``F'(1 - 2u)``."""
        close, beyond = self._sides(u, rest)
        return np.where(u > 0.5, self.far_slope(np.sqrt(beyond)), self.near_slope(np.sqrt(close)))

    @staticmethod
    def _sides(u: Vector, rest: Vector | None) -> tuple[Vector, Vector]:
        """U on the near half and 1 - u on the far one, each zero on the other."""
        far = u > 0.5
        return np.where(far, 0.0, u), np.where(far, 1.0 - u if rest is None else rest, 0.0)

    def shorter(self, which: str, reach: float, tolerance: float) -> Series:
        """Return ``near`` or ``near_slope`` on the shortest kept interval that holds [0, reach].

        Deep in a network only small distances are left, and fewer terms give them to the same
        accuracy.
        """
        steps = max(0, int(np.count_nonzero(reach * (1.0 + 1e-9) <= _LADDER * HALF_RANGE)) - 1)
        key = (which, steps, tolerance)
        if key not in self._shorter:
            self._shorter[key] = getattr(self, which).restricted(
                HALF_RANGE * _LADDER[steps], tolerance
            )
        return self._shorter[key]


def _weighted_mean(slope: Series, tolerance: float) -> Series:
    """``G(s) = 2 ∫₀¹ τ P(sτ) dτ`` for a series P, by a Gauss rule that is exact for its degree."""
    nodes, weights = np.polynomial.legendre.leggauss(len(slope.coefficients) // 2 + 2)
    tau = (nodes + 1.0) / 2.0

    def mean(s: Vector) -> Vector:
        return np.asarray(slope(s[:, None] * tau) @ (weights * tau))

    return Series.fit(mean, slope.upper, tolerance=tolerance)


@lru_cache(maxsize=1)
def linear_profile() -> Profile:
    """The profile of φ(z) = z: of rank-1 maxout, and of the inputs themselves."""
    return Profile.build(np.ones_like, mean=0.0, second_moment=1.0, error=0.0, fall=2.0)
