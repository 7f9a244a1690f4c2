"""Arguments that posteriors and gradient flow share: kernels, targets and noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnngp import _validation
from mnngp._typing import Matrix, Vector
from mnngp.errors import InputError
from mnngp.kernels.sklearn import DeepKernel


def check_kernel(kernel: Any) -> None:
    """Raise if it is no kernel of this package."""
    if not isinstance(kernel, DeepKernel):
        raise InputError(f"kernel must be a MaxoutKernel or a NetworkKernel, got {kernel!r}")


def as_targets(y: Any, n: int) -> tuple[Matrix, bool]:
    """Targets as a matrix (n, targets), and whether they were a vector."""
    values = np.asarray(_validation.real_array("y", y), dtype=np.float64)
    if values.ndim not in (1, 2) or len(values) != n or 0 in values.shape:
        raise InputError(
            f"y must have shape ({n},) or ({n}, targets), a row for each row of X, "
            f"got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise InputError(f"y must be finite, got {values[~np.isfinite(values)][0]}")
    return values.reshape(n, -1), values.ndim == 1


def as_noise(noise_var: Any, n: int) -> Vector:
    """The variance of the noise of each of n targets."""
    if np.ndim(noise_var) == 0:
        return np.full(
            n, _validation.real("noise_var", noise_var, low=0.0, high=_validation.LARGEST_VARIANCE)
        )
    values = np.asarray(_validation.real_array("noise_var", noise_var), dtype=np.float64)
    if values.shape != (n,):
        raise InputError(f"noise_var must be a number or {n} numbers, got shape {values.shape}")
    right = (values >= 0.0) & (values <= _validation.LARGEST_VARIANCE)
    if not right.all():
        raise InputError(
            f"noise_var must be from 0 to {_validation.LARGEST_VARIANCE:g}, "
            f"got {values[~right][0]:g} at {int(np.argmin(right))}"
        )
    return values
