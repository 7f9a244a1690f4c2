"""ReLU, leaky ReLU and the absolute value: piecewise linear, with closed forms.

Each is ``φ(z) = a z + b |z|``, and the two parts do not mix: ``F = a² ρ + b² F_abs``, with
``F_abs'(ρ) = E[sign z sign z'] = 1 - 2θ/π`` (Cho and Saul 2009).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mnngp import _validation
from mnngp.activations.base import HomogeneousActivation
from mnngp.activations.profile import Profile


@lru_cache(maxsize=512)
def _two_slopes(right: float, left: float) -> Profile:
    """The profile of ``right·z`` for z > 0 and ``left·z`` for z < 0."""
    even, odd = ((right - left) / 2.0) ** 2, ((right + left) / 2.0) ** 2
    return Profile.build(
        lambda theta: odd + even * (1.0 - 2.0 * theta / np.pi),
        mean=(right - left) / np.sqrt(2.0 * np.pi),
        second_moment=odd + even,
        error=0.0,
        fall=2.0 * odd,
    )


@dataclass(frozen=True)
class ReLU(HomogeneousActivation):
    """``max(z, 0)``.

    Examples
    --------
    >>> ReLU().second_moment, ReLU().critical_weight_var
    (0.5, 2.0)
    """

    @property
    def profile(self) -> Profile:
        return _two_slopes(1.0, 0.0)


@dataclass(frozen=True)
class LeakyReLU(HomogeneousActivation):
    """``z`` for z > 0, ``negative_slope · z`` for z < 0."""

    negative_slope: float = 0.01

    def __post_init__(self) -> None:
        _validation.real("negative_slope", self.negative_slope, low=-1e6, high=1e6)

    @property
    def profile(self) -> Profile:
        return _two_slopes(1.0, float(self.negative_slope))


@dataclass(frozen=True)
class Abs(HomogeneousActivation):
    """``|z|``."""

    @property
    def profile(self) -> Profile:
        return _two_slopes(1.0, -1.0)
