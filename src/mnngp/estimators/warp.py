"""Warps: increasing functions z = g(y) of targets, and the moments of y where z is Gaussian.

Where z is normal with mean m and variance v, y = g⁻¹(z) has moments in closed form. Of an
observation z = f + ε with the noise variance n the function in the units of y is
``h(x) = E[y | f(x)]``, the mean of all observations that may be made at x: its mean is that of y,
and its covariance is that of y less what the noise adds at each point.

    log:      E y = exp(m + v/2),   cov(h, h') = E y · E y' · (exp(c) - 1)
    arcsinh:  E y = exp(v/2) sinh m,
              cov(h, h') = ½ exp((v + v')/2) ((exp(c) - 1) cosh(m + m')
                           + (1 - exp(-c)) cosh(m - m'))

with v = var f + n of an observation and c = cov(f, f'); for y itself c = v at the same point. They
are the lognormal's formulas, and those for products of hyperbolic functions. All are computed as
logarithms, and what floating point cannot hold becomes ±exp(700): never infinity.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mnngp import _validation
from mnngp._typing import Matrix, Vector
from mnngp.errors import InputError

NAMES = ("auto", "log", "arcsinh")
_MOST = 700.0  # exponents beyond it overflow, or would in a sum
_LARGEST = 1e154  # of what a warp is made of: targets are smaller
Moments = tuple[Matrix, Matrix]  # mean and variance
QUARTILES = 1.3489795003921634  # the interquartile range of a standard normal variable


@dataclass(frozen=True)
class Warp(ABC):
    """An increasing function of the targets, and what it does to Gaussian variables."""

    @abstractmethod
    def __call__(self, y: Matrix) -> Matrix:
        """The warped targets z = g(y)."""

    @abstractmethod
    def inverse(self, z: Matrix) -> Matrix:
        """The targets y = g⁻¹(z) again; it takes quantiles to quantiles."""

    @abstractmethod
    def log_slope(self, z: Matrix) -> Matrix:
        """``log g'(y)`` at y = g⁻¹(z): what a log density of z becomes one of y by."""

    @abstractmethod
    def mean(self, mean: Matrix, total: Matrix) -> Matrix:
        """E y, for z of these means and variances; elementwise."""

    @abstractmethod
    def log_covariance(self, left: Moments, right: Moments, common: Matrix) -> Matrix:
        """The logarithm of the covariance's size; its sign is that of ``common``."""

    def covariance(self, left: Moments, right: Moments, common: Matrix) -> Matrix:
        """The covariance of two, for mean and variance of the z of each; elementwise.

        ``common`` is the covariance of what they have in common.
        """
        return np.sign(common) * _exp(self.log_covariance(left, right, common))

    def std(self, moments: Moments, common: Matrix) -> Matrix:
        """The standard deviation of what has the variance ``common`` of all that z has."""
        return _exp(0.5 * self.log_covariance(moments, moments, common))

    def as_dict(self) -> dict[str, Any]:
        """Name and numbers, in the types of JSON."""
        return {"name": type(self).__name__.lower(), **asdict(self)}


@dataclass(frozen=True)
class Identity(Warp):
    """z = y: targets as they are."""

    def __call__(self, y: Matrix) -> Matrix:
        return y

    def inverse(self, z: Matrix) -> Matrix:
        return z

    def log_slope(self, z: Matrix) -> Matrix:
        return np.zeros_like(z)

    def mean(self, mean: Matrix, total: Matrix) -> Matrix:
        return mean

    def log_covariance(self, left: Moments, right: Moments, common: Matrix) -> Matrix:
        with np.errstate(divide="ignore"):  # log 0
            return np.asarray(np.log(np.abs(common)))


@dataclass(frozen=True)
class Log(Warp):
    """z = log(y - shift): targets above ``shift``, whose noise is in proportion to them."""

    shift: float = 0.0

    def __post_init__(self) -> None:
        _validation.real("shift", self.shift, low=-_LARGEST, high=_LARGEST)

    @staticmethod
    def of(y: Vector, name: str = "y") -> Log:
        """Without a shift where all targets are above zero.

        Zeros are taken for what was too small to be told from zero: half of the smallest positive
        target is added to all.
        """
        least = float(y.min())
        if not least >= 0.0 or not y.max() > 0.0:
            raise InputError(
                f"warp='log' needs targets that are not negative, and some above 0, got {least!r} "
                f"in {name}; warp='arcsinh' takes targets of any sign"
            )
        return Log(0.0 if least > 0.0 else -0.5 * float(y[y > 0.0].min()))

    def __call__(self, y: Matrix) -> Matrix:
        with np.errstate(divide="ignore", invalid="ignore"):  # rows of weight zero may be anything
            return np.asarray(np.log(y - self.shift))

    def inverse(self, z: Matrix) -> Matrix:
        return _exp(z) + self.shift

    def log_slope(self, z: Matrix) -> Matrix:
        return -z

    def mean(self, mean: Matrix, total: Matrix) -> Matrix:
        return _exp(mean + 0.5 * total) + self.shift

    def log_covariance(self, left: Moments, right: Moments, common: Matrix) -> Matrix:
        size = left[0] + right[0] + 0.5 * (left[1] + right[1])
        return size + _log_expm1(common)


@dataclass(frozen=True)
class Arcsinh(Warp):
    """z = arcsinh((y - center)/scale): linear about the centre, a logarithm on both sides."""

    center: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        _validation.real("center", self.center, low=-_LARGEST, high=_LARGEST)
        _validation.real("scale", self.scale, low=0.0, high=_LARGEST, strict=True)

    @staticmethod
    def of(y: Vector) -> Arcsinh:
        """About the median, in units of what the interquartile range says of the deviation.

        Where half of the targets are the same it is the standard deviation itself, and one if all
        are.
        """
        low, center, high = np.quantile(y, [0.25, 0.5, 0.75]).tolist()
        scale = (high - low) / QUARTILES or float(np.std(y)) or 1.0
        return Arcsinh(center, scale)

    def __call__(self, y: Matrix) -> Matrix:
        return np.asarray(np.arcsinh((y - self.center) / self.scale))

    def inverse(self, z: Matrix) -> Matrix:
        return self._scaled_sinh(z, 0.0)

    def log_slope(self, z: Matrix) -> Matrix:
        return -_log_cosh(z) - math.log(self.scale)

    def mean(self, mean: Matrix, total: Matrix) -> Matrix:
        return self._scaled_sinh(mean, 0.5 * total)

    def _scaled_sinh(self, z: Matrix, exponent: Matrix | float) -> Matrix:
        with np.errstate(divide="ignore"):  # log 0
            log_sinh = np.abs(z) + np.log(-np.expm1(-2.0 * np.abs(z))) - math.log(2.0)
        size = _exp(log_sinh + exponent + math.log(self.scale))
        return np.sign(z) * size + self.center

    def log_covariance(self, left: Moments, right: Moments, common: Matrix) -> Matrix:
        size = 0.5 * (left[1] + right[1]) + 2.0 * math.log(self.scale) - math.log(2.0)
        terms = np.logaddexp(
            _log_expm1(common) + _log_cosh(left[0] + right[0]),
            _log_expm1(-common) + _log_cosh(left[0] - right[0]),
        )
        return np.asarray(size + terms)


def _exp(exponent: Matrix) -> Matrix:
    return np.asarray(np.exp(np.minimum(exponent, _MOST)))


def _log_expm1(x: Matrix) -> Matrix:
    """``log |exp(x) - 1|``."""
    with np.errstate(divide="ignore"):  # log 0
        return np.asarray(np.maximum(x, 0.0) + np.log(-np.expm1(-np.abs(x))))


def _log_cosh(x: Matrix) -> Matrix:
    return np.abs(x) + np.log1p(np.exp(-2.0 * np.abs(x))) - math.log(2.0)


# --- one for each target --------------------------------------------------------------------------


def check(warp: object) -> None:
    """Raise if ``warp`` is none that an estimator takes."""
    if warp is not None and not (isinstance(warp, str) and warp in NAMES):
        raise InputError(f"warp must be 'auto', None, 'log' or 'arcsinh', got {warp!r}")


def learned(name: str, targets: Matrix) -> tuple[Warp, ...]:
    """The warp of that name for each target of (n, targets)."""
    if name == "arcsinh":
        return tuple(Arcsinh.of(column) for column in targets.T)
    several = targets.shape[1] > 1
    return tuple(
        Log.of(column, f"y[:, {number}]" if several else "y")
        for number, column in enumerate(targets.T)
    )


def warped(warps: Sequence[Warp], targets: Matrix) -> Matrix:
    """Each target (n, targets) by its own warp."""
    return np.stack([warp(y) for warp, y in zip(warps, targets.T, strict=True)], axis=1)


def from_dicts(entries: Any) -> tuple[Warp, ...]:
    """The warps that ``as_dict`` gave, all checked: the file may be a stranger's."""
    if not isinstance(entries, list):
        raise InputError(f"warps must be a list, got {entries!r}")
    known = {kind.__name__.lower(): kind for kind in (Identity, Log, Arcsinh)}
    found = []
    for number, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        kind = known.get(name) if isinstance(name, str) else None
        if kind is None or set(entry) != set(kind().as_dict()):
            raise InputError(
                f"warps[{number}] must have a name ({', '.join(known)}) and its numbers, "
                f"got {entry!r}"
            )
        numbers = {
            key: _validation.real(f"warps[{number}].{key}", value, low=-_LARGEST, high=_LARGEST)
            for key, value in entry.items()
            if key != "name"
        }
        found.append(kind(**numbers))
    return tuple(found)
