"""A fitted Gaussian process, in the units of the data that it was fitted to, and what is found of
it when it is first asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from mnngp._typing import Matrix, Vector
from mnngp.errors import UnavailableError
from mnngp.estimators.features import Scaling
from mnngp.estimators.warp import Warp
from mnngp.inference.observations import Observations
from mnngp.inference.posterior import Posterior
from mnngp.inference.scoring import leave_out

_Value = TypeVar("_Value")
IMPOSSIBLE = (
    "noise_var is 0, but rows {} and {} of X are equal and their targets differ: no function "
    "without noise does that; give a noise_var above 0, or None"
)
LEFT_OUT_AT_MOST = 256  # rows, where each of them is a system to solve


@dataclass(frozen=True, eq=False)
class FittedProcess:
    """A posterior of standardised targets on scaled features, and what leads to both.

    Targets are ``unit`` times those of the posterior, plus ``offset``, both (targets,). The data
    are in the posterior's units, and without the features, which the posterior has. Where there are
    warps, "targets" are what those made of them.
    """

    scaling: Scaling  # of the features
    offset: Vector
    unit: Vector
    data: Observations
    posterior: Posterior
    noise_var: float  # of an observation of weight one, in the posterior's units
    n_rows: int  # of the data, those of weight zero included
    flat: bool = False  # whether the targets were a vector
    seed: Any = None  # for random parts of the data
    warps: tuple[Warp, ...] = ()  # of each target, before anything else; none if they are as given

    def in_targets(self, mean: Matrix) -> Matrix:
        """Posterior means (m, targets) in the targets' units."""
        return mean * self.unit + self.offset

    def mean(self, X: Matrix) -> Matrix:
        """The posterior mean (m, targets)."""
        return self.in_targets(self.posterior.mean(self.scaling(X)))

    def mean_and_variance(self, X: Matrix) -> tuple[Matrix, Vector]:
        """The mean, and the variance (m,) for a unit of one, which all targets share."""
        mean, variance = self.posterior.mean_and_variance(self.scaling(X))
        return self.in_targets(mean), variance

    def mean_and_covariance(self, X: Matrix) -> tuple[Matrix, Matrix]:
        """The mean, and the covariance (m, m) for a unit of one."""
        mean, covariance = self.posterior.mean_and_covariance(self.scaling(X))
        return self.in_targets(mean), covariance

    def sample(self, X: Matrix, count: int, seed: Any) -> Matrix:
        """Functions drawn from the posterior (m, targets, count)."""
        drawn = self.posterior.sample(self.scaling(X), count, seed)
        return np.asarray(drawn * self.unit[:, None] + self.offset[:, None])

    def log_marginal_likelihood(self) -> float:
        """The log evidence of all rows, summed over the targets."""
        if self.noise_var == 0.0 and self.data.conflict:
            raise UnavailableError(IMPOSSIBLE.format(*self.data.conflict))
        within = self.data.log_density_within(self.noise_var)
        rescaled = len(self.data.row) * float(np.log(self.unit).sum())
        warped = sum(float(slope.sum()) for slope in self.log_slopes().T) if self.warps else 0.0
        return self.posterior.log_marginal_likelihood() + within - rescaled + warped

    def log_slopes(self) -> Matrix:
        """What the warps add to the log density of each row's targets (r, targets)."""
        z = self.in_targets(self.data.row_y)
        slopes = [warp.log_slope(column) for warp, column in zip(self.warps, z.T, strict=True)]
        return np.stack(slopes, axis=1)

    def observed(self) -> Matrix:
        """The targets of the rows (r, targets), before they were warped."""
        z = self.in_targets(self.data.row_y)
        if not self.warps:
            return z
        found = [warp.inverse(column) for warp, column in zip(self.warps, z.T, strict=True)]
        return np.stack(found, axis=1)

    def among_observed(self, mean: Matrix) -> Matrix:
        """Means (m, targets), none beyond all targets that were seen.

        Where a process that is extrapolated is thought to be uncertain, the mean of its exponential
        may be a thousand times what was ever observed. The targets' range is the least that can be
        said against it.
        """
        y = self.observed()
        return np.asarray(np.clip(mean, y.min(axis=0), y.max(axis=0)))

    # --- leave-one-out ----------------------------------------------------------------------------

    def check_leave_one_out(self) -> None:
        """Raise if leave-one-out is not to be had, before any work."""
        if not self.posterior.factored and len(self.data) > LEFT_OUT_AT_MOST:
            self.posterior.precision()  # says why not

    def left_out(self, rows: NDArray[np.int64], weight: Vector) -> tuple[Matrix, Vector, Vector]:
        """Mean and variance of the function at some rows, each without so much of its weight.

        The third is the noise of what was left out. All are in the posterior's units.
        """
        group = self.data.group[rows]
        inputs, where = np.unique(group, return_inverse=True)
        every = len(inputs) == len(self.data) and (
            self.posterior.factored or len(inputs) > LEFT_OUT_AT_MOST
        )
        precision = self.posterior.precision(None if every else inputs)[where]
        noise, share = self.posterior.noise_var[group], weight / self.data.weight[group]
        own, others, variance = leave_out(precision, noise, share)
        y, alpha = self.data.row_y[rows], self.posterior.weights()[group]
        error = own[:, None] * (y - self.data.y[group]) + others[:, None] * alpha
        return y - error, variance, noise / share

    def in_rows(self, values: Matrix) -> Matrix:
        """Values of the rows that have a weight, in the order of the data; NaN for the others."""
        result = np.full((self.n_rows, *values.shape[1:]), np.nan)
        result[self.data.row] = values
        return result


class Lazy(Generic[_Value]):
    """A value that is computed once; threads that ask for it meanwhile wait."""

    def __init__(self, value: _Value | None = None) -> None:
        self._value = value
        self._lock = threading.Lock()

    def get(self, compute: Callable[[], _Value]) -> _Value:
        """The value, by ``compute`` if it is not known yet."""
        with self._lock:
            if self._value is None:
                self._value = compute()
            return self._value

    def __reduce__(self) -> Any:
        return Lazy, (self._value,)  # a lock stays where it is


class LazyResults:
    """Annotated attributes that are computed together when one of them is first asked for.

    Asking whether there are any costs nothing.
    """

    def __init__(self, compute: Callable[[], dict[str, Any]]) -> None:
        self._compute = compute

    def __getattr__(self, name: str) -> Any:
        if name not in type(self).__annotations__ or "_compute" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        vars(self).update(self._compute())
        return vars(self)[name]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).__annotations__}

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).__annotations__]

    def __repr__(self) -> str:
        numbers = {
            name: value for name, value in self.__getstate__().items() if isinstance(value, float)
        }
        text = ", ".join(f"{name}={value:.4g}" for name, value in numbers.items())
        return f"{type(self).__name__}({text})"
