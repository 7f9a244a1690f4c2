"""Leave-one-out predictions, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mnngp._typing import Matrix, Vector


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """The prediction of each training target from all others, in closed form.

    Attributes
    ----------
    mean : array of shape (n,) or (n, targets)
    variance : array of shape (n,)
        Of the target: the function's and the noise's.
    log_density : array of shape (n,) or (n, targets)
        Of the target under that prediction.
    """

    mean: Matrix
    variance: Vector
    log_density: Matrix


def leave_out(precision: Vector, noise: Vector, share: Vector) -> tuple[Vector, Vector, Vector]:
    """What changes at an input if a share of its observations is left out.

    The input has the mean observation ȳ of the noise N. With ``α = C⁻¹ȳ`` and d the diagonal of C⁻¹
    (``precision``) the function there is ``f̂ = ȳ - N α`` with the variance ``N (1 - N d)``.
    Without a share h of the observations, all equal to y, and with ``r = 1 - h (1 - N d)``,

        (y - ȳ + N α) / r      is the error of the prediction of y,
        N (1 - N d) / r        is the function's variance.

    Returns ``1/r``, ``N/r`` and that variance. Without all of them (h = 1, and so y = ȳ) they are
    0, 1/d and 1/d - N, which also hold for N = 0.
    """
    whole = share >= 1.0
    rest = np.where(whole, 1.0, 1.0 - share * (1.0 - noise * precision))
    spread = np.where(whole, 1.0 / precision - noise, noise * (1.0 - noise * precision) / rest)
    return (
        np.where(whole, 0.0, 1.0 / rest),
        np.where(whole, 1.0 / precision, noise / rest),
        np.maximum(spread, 0.0),
    )
