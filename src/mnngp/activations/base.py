"""What one layer does to a pair of correlated Gaussians."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from mnngp import _validation
from mnngp._typing import Vector
from mnngp.activations.profile import Profile


class Activation(ABC):
    """One kind of hidden unit, seen by a pair (z, z') of unit Gaussians with correlation ρ.

    The two functions that a deep kernel is made of are ``moment(ρ) = E[φ(z) φ(z')]`` and its
    derivative in ρ, ``derivative(ρ) = E[φ'(z) φ'(z')]`` (Price's theorem), which is what the
    tangent kernel needs. Activations are immutable and compare by their parameters.
    """

    homogeneous: ClassVar[bool]
    """Whether φ(cz) = c φ(z) for c > 0, so that one ``moment`` serves every variance."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """``E φ(z)``."""

    @property
    @abstractmethod
    def second_moment(self) -> float:
        """``E φ(z)² = moment(1)``."""

    @property
    def critical_weight_var(self) -> float:
        """``1 / E φ²``, which keeps a unit variance through a layer without bias.

        For a homogeneous activation it keeps every variance, at any depth: the critical
        initialisation.
        """
        return 1.0 / self.second_moment

    def moment(self, rho: Any) -> Any:
        """``E[φ(z) φ(z')]`` at correlation ``rho``, a number or an array."""
        return _elementwise(self._moment, rho)

    def derivative(self, rho: Any) -> Any:
        """The derivative of ``moment``, ``E[φ'(z) φ'(z')]``."""
        return _elementwise(self._derivative, rho)

    def deficit(self, rho: Any) -> Any:
        """``moment(1) - moment(rho)``, to full relative accuracy as ρ → 1."""
        return _elementwise(self._deficit, rho)

    @abstractmethod
    def _moment(self, rho: Vector) -> Vector: ...

    @abstractmethod
    def _derivative(self, rho: Vector) -> Vector: ...

    @abstractmethod
    def _deficit(self, rho: Vector) -> Vector: ...


class HomogeneousActivation(Activation):
    """An activation with φ(cz) = c φ(z) for c > 0: known once its ``Profile`` is."""

    homogeneous: ClassVar[bool] = True

    @property
    @abstractmethod
    def profile(self) -> Profile:
        """The correlation map, built on first use and kept."""

    @property
    def mean(self) -> float:
        return self.profile.mean

    @property
    def second_moment(self) -> float:
        return self.profile.second_moment

    @property
    def error(self) -> float:
        """Bound of the absolute error of ``derivative``; that of ``moment`` is at most twice it."""
        return self.profile.error

    def _moment(self, rho: Vector) -> Vector:
        return self.second_moment - self._deficit(rho)

    def _derivative(self, rho: Vector) -> Vector:
        return self.profile.slope((1.0 - rho) / 2.0, (1.0 + rho) / 2.0)

    def _deficit(self, rho: Vector) -> Vector:
        return self.profile.deficit((1.0 - rho) / 2.0, (1.0 + rho) / 2.0)


def _elementwise(function: Any, rho: Any) -> Any:
    values = function(_validation.correlations("rho", rho))
    return float(values) if np.ndim(rho) == 0 else values
