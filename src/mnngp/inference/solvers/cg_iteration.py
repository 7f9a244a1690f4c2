"""The iteration of conjugate gradients for several right-hand sides at once, preconditioned.

All columns share each product with the matrix, which is what costs; each has its own steps, and
leaves when it has converged. The residual that the iteration carries along drifts from the true one
by rounding. So the true one is computed at the end, and columns that are not there yet are started
again from where they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mnngp._typing import Matrix, Vector
from mnngp.errors import ConvergenceError, FactorizationError

Linear = Callable[[Matrix], Matrix]
MARGIN = 0.9  # of the tolerance that is aimed at, for the drift


@dataclass(frozen=True)
class Convergence:
    """How a solve went."""

    iterations: int  # products with the matrix, less those that only looked at the true residual
    residuals: tuple[float, ...]  # ``|b - A x| / |b|`` of each column, computed at the end
    history: tuple[float, ...]  # the worst after each iteration, as the iteration sees it
    seconds: float


def conjugate_gradients(
    product: Linear,
    b: Matrix,
    precondition: Linear,
    *,
    tolerance: float,
    most: int,
    seen: Callable[[float], object] | None = None,
) -> tuple[Matrix, Matrix, Convergence]:
    """Solve ``A x = b`` for (n, k), A symmetric positive definite: x, ``b - A x``, and how it went.

    ``product`` gives ``A v`` of (n, j), for any j up to k, and ``precondition`` an approximation of
    ``A⁻¹ v``, symmetric and positive definite. ``tolerance`` is of the residual of each column,
    relative to its right-hand side; if ``most`` iterations do not reach it, there is a
    ``ConvergenceError``. ``seen`` is told the worst residual after each iteration.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag(np.arange(1.0, 6.0))
    >>> x, residual, how = conjugate_gradients(
    ...     lambda v: A @ v, np.ones((5, 1)), lambda v: v, tolerance=1e-10, most=20
    ... )
    >>> x[:, 0].round(6)
    array([1.      , 0.5     , 0.333333, 0.25    , 0.2     ])
    >>> how.iterations
    5
    """
    began, size = time.perf_counter(), np.linalg.norm(b, axis=0)
    size = np.where(size > 0.0, size, 1.0)
    x, residual = np.zeros_like(b), b.astype(np.float64)
    relative = np.linalg.norm(residual, axis=0) / size
    history: list[float] = []

    def another(worst: float) -> bool:
        """Note the worst residual of an iteration; whether there may be another."""
        history.append(worst)
        if seen is not None:
            seen(worst)
        return len(history) < most

    while len(wanted := np.flatnonzero(relative > tolerance)):
        before = relative[wanted]
        x[:, wanted] += _iterate(
            product, residual[:, wanted], precondition, size[wanted], tolerance, another
        )
        residual[:, wanted] = b[:, wanted] - product(x[:, wanted])
        relative = np.linalg.norm(residual, axis=0) / size
        worst = float(relative.max())
        if len(history) >= most and worst > tolerance:
            raise ConvergenceError(
                f"conjugate gradients reached a relative residual of {worst:.1e} in {len(history)} "
                f"iterations, and not the tolerance of {tolerance:.0e}. A larger noise_var, a "
                "preconditioner of higher rank or more iterations "
                "(ConjugateGradients(rank=…, max_iterations=…)) help, in this order"
            )
        if np.any((relative[wanted] > tolerance) & (relative[wanted] > 0.5 * before)):
            raise ConvergenceError(
                f"conjugate gradients stay at a relative residual of {worst:.1e}, by rounding: the "
                f"tolerance of {tolerance:.0e} is out of reach. A larger noise_var, "
                "dtype='float64' or a larger tolerance help"
            )
    seconds = time.perf_counter() - began
    return x, residual, Convergence(len(history), tuple(relative.tolist()), tuple(history), seconds)


def _iterate(
    product: Linear,
    residual: Matrix,
    precondition: Linear,
    size: Vector,
    tolerance: float,
    another: Callable[[float], bool],
) -> Matrix:
    """What to add for ``A x = residual``, until each column's carried residual is small enough."""
    x = np.zeros_like(residual)
    active, enough = np.arange(residual.shape[1]), MARGIN * tolerance * size
    r = residual.copy()
    z = precondition(r)  # may be r itself
    direction, inner = z.copy(), np.einsum("ij,ij->j", r, z)
    norms = np.linalg.norm(residual, axis=0)
    while True:
        moved = product(direction)
        curvature = np.einsum("ij,ij->j", direction, moved)
        if not np.all(curvature > 0.0):
            raise FactorizationError(
                f"the covariance of {len(x)} targets is not positive definite: conjugate gradients "
                f"met a direction of curvature {float(np.nanmin(curvature)):.1e}. A larger "
                "noise_var avoids it"
            )
        step = inner / curvature
        x[:, active] += step * direction
        r -= step * moved
        norms[active] = np.linalg.norm(r, axis=0)
        more, going = another(float(np.max(norms / size))), norms[active] > enough[active]
        if not (more and going.any()):
            return x
        if not going.all():
            active, r, direction = active[going], r[:, going], direction[:, going]
            inner = inner[going]
        z = precondition(r)
        new = np.einsum("ij,ij->j", r, z)
        direction, inner = z + (new / inner) * direction, new
