"""The noise policy: what is tried when a covariance is not positive definite in floating point.

"relative"
    What is added to the noise begins at the rounding of the matrix, relative to the kernel's scale,
    and grows tenfold.
"paper"
    The noise is multiplied by ten, and again, as in the paper (which begins at 1e-10).

Either way the solver's report says what was added, and a warning does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import numpy as np

from mnngp.errors import FactorizationError, NoiseWarning, warn_of_accuracy
from mnngp.inference.solvers.covariance import Covariance

PAPER_NOISE = 1e-10
_ATTEMPTS = 12


def attempts(
    policy: str, covariance: Covariance, contraction: float
) -> Iterator[tuple[float, float]]:
    """κ and what is added to the noise variances, for one attempt after the other."""
    way = _papers if policy == "paper" else _relative
    return islice(way(covariance, contraction), _ATTEMPTS)


def _papers(covariance: Covariance, kappa: float) -> Iterator[tuple[float, float]]:
    noise = float(covariance.noise_var.max())
    yield kappa, 0.0
    for attempt in count(1):
        yield kappa, (noise or PAPER_NOISE) * 10.0**attempt - noise


def _relative(covariance: Covariance, kappa: float) -> Iterator[tuple[float, float]]:
    yield kappa, 0.0
    if kappa < 1.0:
        # the intercept's share was too large for these points: rare, and the remedy is cheap
        kappa = min(1.0, 16.0 * kappa)
        yield kappa, 0.0
    rounding = len(covariance) * float(np.finfo(covariance.network.dtype).eps)
    added = 4.0 * rounding * _kernel_scale(covariance, kappa)
    while True:
        yield kappa, added
        added *= 10.0


def _kernel_scale(covariance: Covariance, kappa: float) -> float:
    return kappa * float(np.mean(covariance.deviation**2)) or 1.0


def warn_of_noise(covariance: Covariance, kappa: float, added: float, tried: int) -> None:
    """Say what was added, if anything was."""
    if added:
        dtype = covariance.network.dtype
        remedy = ", dtype='float64' may, too" if dtype == np.float32 else ""
        warn_of_accuracy(
            f"the covariance of {len(covariance)} targets was not positive definite in {dtype}: "
            f"{added / _kernel_scale(covariance, kappa):.0e} of the kernel's scale was added to "
            f"the noise variance ({tried} attempts; the report says how much that is). "
            f"A larger noise_var avoids it{remedy}",
            NoiseWarning,
        )


def no_attempt_left(covariance: Covariance, added: float) -> FactorizationError:
    """The error for a covariance that no noise has helped."""
    return FactorizationError(
        f"the covariance of {len(covariance)} targets is not positive definite, not even with "
        f"{added:.1e} added to the noise variance; is a kernel entry or the noise_var not what it "
        "should be?"
    )
