"""Rank-q maxout: the exact F_q and its derivative, for any rank.

The paper defines ``F_q(ρ) = E[max_i h_i · max_i h'_i]`` for q independent pairs of unit Gaussians
with correlation ρ (its eq. (6)), integrates it on a grid for 1001 values of ρ and interpolates
linearly. Here Price's theorem turns the derivative into a probability that is smooth enough for a
trapezoidal rule to give all sixteen digits:

    F_q'(ρ) = P(I = I') = q E[Φ_{2,ρ}(X, Y)^{q-1}],      I, I' the two argmaxes, Corr(X, Y) = ρ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, owens_t

from mnngp import _validation
from mnngp._typing import Vector
from mnngp.activations.base import HomogeneousActivation
from mnngp.activations.profile import Profile, linear_profile
from mnngp.errors import MnngpError

_RADIUS = 8.6  # the Gaussian weight is below 1e-16 outside


@dataclass(frozen=True)
class Maxout(HomogeneousActivation):
    """The maximum of ``rank`` independent linear maps (the paper's eq. (2)).

    Parameters
    ----------
    rank : int
        How many linear maps a unit takes the maximum of; 1 is a linear unit. The correlation map is
        exact to rounding for every rank (tested to 256), built in about a tenth of a second on
        first use and kept.

    Examples
    --------
    >>> unit = Maxout(rank=4)
    >>> round(unit.second_moment, 12), round(unit.critical_weight_var, 12)
    (1.551328895422, 0.644608633895)
    >>> unit.derivative([0.0, 1.0]).round(12)  # two argmaxes agree by chance, and surely
    array([0.25, 1.  ])
    """

    rank: int

    def __post_init__(self) -> None:
        _validation.positive_int("rank", self.rank)

    @property
    def profile(self) -> Profile:
        return _maxout_profile(int(self.rank))


@lru_cache(maxsize=512)
def _maxout_profile(rank: int) -> Profile:
    if rank == 1:
        return linear_profile()
    points, error = _resolved_grid(rank)
    return Profile.build(
        lambda theta: same_argmax_probability(theta, rank, points),
        mean=maximum_moment(rank, 1),
        second_moment=maximum_moment(rank, 2),
        error=error,
        tolerance=max(2e-15, error),
    )


def same_argmax_probability(theta: Vector, rank: int, points: int) -> Vector:
    """``P(I = I')`` at ``ρ = cos θ``, by ``points`` nodes of the rule on a diameter."""
    return np.array(
        [rank * (below ** (rank - 1) @ weight) for below, weight in both_below(theta, points)]
    )


def both_below(theta: Vector, points: int) -> Iterator[tuple[Vector, Vector]]:
    """For each angle ``Φ_{2,ρ}(X, Y)`` on the nodes of the trapezoidal rule, and their weights.

    In the rotated coordinates ``X = c a + s b``, ``Y = c a - s b`` (c, s the cosine and sine of
    θ/2; a, b independent) the integrand varies on a scale of one for every ρ, also at ±1, and the
    rule converges geometrically.
    """
    step = 2.0 * _RADIUS / (points - 1)
    # Swapping X and Y flips the sign of b: half of the plane is enough. The shifts keep X and Y off
    # zero, where Owen's T has its second argument at infinity.
    a = (np.arange(points) - (points - 1) / 2.0 + 0.25) * step
    b = (np.arange(points // 2 + 1) + 0.5) * step
    a, b = (axis.ravel() for axis in np.meshgrid(a, b, indexing="ij"))
    weight = np.exp(-(a * a + b * b) / 2.0) * (step * step / np.pi)
    inside = weight > 1e-19
    a, b, weight = a[inside], b[inside], weight[inside]

    for half_angle in theta / 2.0:
        c, s = np.cos(half_angle), np.sin(half_angle)
        x, y = c * a + s * b, c * a - s * b
        # (y - ρx)/√(1-ρ²) = s a - c b and (x - ρy)/√(1-ρ²) = s a + c b do not cancel as ρ → ±1.
        below = (
            0.5 * (ndtr(x) + ndtr(y))
            - owens_t(x, (s * a - c * b) / x)
            - owens_t(y, (s * a + c * b) / y)
            - np.where(x * y < 0.0, 0.5, 0.0)
        )
        yield np.clip(below, 0.0, 1.0), weight


def _resolved_grid(rank: int) -> tuple[int, float]:
    """Find a number of nodes at which the rule has converged, and the error that is left."""
    theta = np.array([0.0, 0.3, 1.1, 2.0, 2.9, np.pi])
    points = 49
    value = same_argmax_probability(theta, rank, points)
    while points < 1000:
        finer = points * 4 // 3 | 1
        refined = same_argmax_probability(theta, rank, finer)
        change = float(np.abs(refined - value).max())
        if change < 2e-15 + 4e-17 * rank:  # rounding: a sum of powers of numbers below one
            return points, change + 2e-15 + 8e-17 * rank
        points, value = finer, refined
    raise MnngpError(
        f"the quadrature for Maxout(rank={rank}) does not converge: ranks to 4096 are known to work"
    )


def maximum_moment(rank: int, power: int) -> float:
    """``E[max(h_1, …, h_q)^power]`` for independent unit Gaussians."""
    step = 1.0 / 64.0
    x = np.arange(-12.0, 12.0 + step, step)
    density = rank * np.exp(-x * x / 2.0) / np.sqrt(2.0 * np.pi) * ndtr(x) ** (rank - 1)
    return float((x**power * density).sum() * step)
