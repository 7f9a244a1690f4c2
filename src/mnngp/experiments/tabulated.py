"""The paper's own way to F_q, for comparison only: quadrature on a grid, linear interpolation.

Appendix B of the paper, with the corrections of the errata: each sum is multiplied by the cell's
area instead of being divided by a sum that makes it a conditional expectation, and the term with
different argmaxes carries ``Φ((y-ρx)/√(1-ρ²)) Φ((x-ρy)/√(1-ρ²))``. ``Maxout`` is exact, and set up
a thousand times as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, owens_t

from mnngp import _validation
from mnngp._typing import Vector
from mnngp.activations.base import Activation
from mnngp.activations.maxout import maximum_moment
from mnngp.errors import InputError


@dataclass(frozen=True)
class TabulatedMaxout(Activation):
    """Rank-q maxout by the paper's lookup table.

    Parameters
    ----------
    rank : int
        Maxout rank, 2 or more.
    n_grid : int
        Grid points a side.
    r_max : float
        The grid covers ``[-r_max, r_max]²``. The paper prints 100, a step of 0.4 that misses the
        ridge of width √(1-ρ²) near ρ = ±1; its tables were made with 10.
    n_rho : int
        How many equally spaced correlations are tabulated; between them F_q is linear. The default
        table takes most of a minute on first use.
    """

    rank: int
    n_grid: int = 501
    r_max: float = 10.0
    n_rho: int = 1001

    homogeneous: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if _validation.positive_int("rank", self.rank) < 2:
            raise InputError(f"rank must be at least 2 for the paper's table, got {self.rank!r}")
        for name, least in (("n_grid", 3), ("n_rho", 3)):
            if _validation.positive_int(name, getattr(self, name)) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)!r}")
        _validation.real("r_max", self.r_max, low=0.0, strict=True)

    @property
    def table(self) -> Vector:
        """F_q at ``n_rho`` equally spaced correlations from -1 to 1: what kernels look up."""
        return _table(int(self.rank), int(self.n_grid), float(self.r_max), int(self.n_rho))

    @property
    def mean(self) -> float:
        return maximum_moment(self.rank, 1)

    @property
    def second_moment(self) -> float:
        return float(self.table[-1])

    def _moment(self, rho: Vector) -> Vector:
        return np.interp(rho, np.linspace(-1.0, 1.0, self.n_rho), self.table)

    def _derivative(self, rho: Vector) -> Vector:
        cell = np.clip(((rho + 1.0) * (self.n_rho - 1) / 2.0).astype(np.int64), 0, self.n_rho - 2)
        return np.diff(self.table)[cell] * ((self.n_rho - 1) / 2.0)

    def _deficit(self, rho: Vector) -> Vector:
        return self.second_moment - self._moment(rho)


@lru_cache(maxsize=16)
def _table(rank: int, n_grid: int, r_max: float, n_rho: int) -> Vector:
    values = np.array(
        [_grid_moment(rank, rho, n_grid, r_max) for rho in np.linspace(-1.0, 1.0, n_rho)]
    )
    values.flags.writeable = False  # it is kept
    return values


def _grid_moment(rank: int, rho: float, n_grid: int, r_max: float) -> float:
    """F_q(ρ) by the corrected sums of appendix B.1 and B.2."""
    axis = np.linspace(-r_max, r_max, n_grid)
    step = 2.0 * r_max / (n_grid - 1)
    density = np.exp(-axis * axis / 2.0) / np.sqrt(2.0 * np.pi)
    if rho == 1.0:  # E max²
        return float(rank * step * (axis**2 * density * ndtr(axis) ** (rank - 1)).sum())
    if rho == -1.0:  # -E[max · min]
        between = np.clip(ndtr(axis)[:, None] - ndtr(axis), 0.0, 1.0)
        mask = axis[:, None] > axis
        term = np.outer(axis * density, axis * density) * between ** (rank - 2) * mask
        return float(-rank * (rank - 1) * step * step * term.sum())
    # The integrands are symmetric in x and y: sum over y ≤ x, the diagonal once. Points on an axis
    # carry the factor x y = 0, and the Gaussian weights are below rounding outside of |x| = 9,
    # whatever r_max is.
    row, column = np.tril_indices(n_grid)
    x, y = axis[row], axis[column]
    times = np.where(row == column, 1.0, 2.0) * step * step
    keep = (x * y != 0.0) & (np.maximum(np.abs(x), np.abs(y)) <= 9.0)
    x, y, times = x[keep], y[keep], times[keep]
    root = np.sqrt((1.0 - rho) * (1.0 + rho))
    up, across = (y - rho * x) / root, (x - rho * y) / root
    both_below = (
        0.5 * (ndtr(x) + ndtr(y))
        - owens_t(x, up / x)
        - owens_t(y, across / y)
        - np.where(x * y < 0.0, 0.5, 0.0)
    )
    both_below = np.clip(both_below, 0.0, 1.0)
    same = np.exp(-0.5 * (x * x + up * up)) / (2.0 * np.pi * root) * both_below ** (rank - 1)
    apart = (
        np.exp(-0.5 * (x * x + y * y))
        / (2.0 * np.pi)
        * ndtr(up)
        * ndtr(across)
        * both_below ** (rank - 2)
    )
    return float((times * x * y * (rank * same + rank * (rank - 1) * apart)).sum())
