"""The Cholesky factorisation on a Dask cluster, by Dask's own blocked routines.

The kernel is a Dask array whose blocks are computed on the workers, where
``dask.array.linalg.cholesky`` asks for them. All blocks have to be of one size, so the matrix is
padded with rows of the identity. The factor stays on the workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp._system.connection import compared, versions
from mnngp._typing import Matrix, Vector
from mnngp.errors import FactorizationError
from mnngp.inference.solvers.cholesky import Report, condition
from mnngp.inference.solvers.conjugate_gradients import (
    ConjugateGradients,
    Iteration,
    IterationReport,
)
from mnngp.inference.solvers.covariance import Covariance, contraction
from mnngp.inference.solvers.dask_session import OnCluster, Session
from mnngp.inference.solvers.interface import Inverse, Progress
from mnngp.kernels.evaluate import correlations
from mnngp.kernels.points import Points
from mnngp.networks.network import Network

_COLUMNS = 512  # right-hand sides at a time
_OfFactor = Callable[[Any], Any]  # from the factor, a Dask array, to another


@dataclass(frozen=True)
class ClusterCholesky(OnCluster):
    """Solve by a Cholesky factorisation on a Dask cluster.

    A ``solver`` of ``Posterior`` and of the estimators. Its memory, some three matrices of n²
    numbers on all workers together, is that of ``dask.array.linalg.cholesky``.

    Parameters
    ----------
    scheduler : str or distributed.Client, optional
        As for ``ClusterConjugateGradients``.
    block : int
        Rows of a block.
    """

    scheduler: Any = None
    block: int = 2048

    def __post_init__(self) -> None:
        _validation.positive_int("block", self.block)
        self._check_scheduler()

    def __call__(self, covariance: Covariance, progress: Progress | None = None) -> ClusterFactor:
        kappa = contraction(covariance.network, covariance.points)
        factor = ClusterFactor(Session(self.scheduler), covariance, kappa, self.block)
        if progress is not None:
            progress(1.0)
        return factor


class ClusterFactor(Inverse):
    """``A⁻¹`` from a factor on a cluster.

    If the workers lose it with the data that it is made of, it is made again.
    """

    def __init__(
        self, session: Session, covariance: Covariance, contraction: float, block: int
    ) -> None:
        self.session, self.covariance, self.contraction = session, covariance, contraction
        self.noise_var, self.block = covariance.noise_var, min(block, len(covariance))
        session.workers()
        session.insist(self._factor, lambda: None)
        self.report = Report(0.0, 1, contraction, condition(self._factor_diagonal()))

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy leaves the factor where it is, and iterates on its machine, as a saved model."""
        return _by_iteration, (self.covariance, self.contraction)

    @property
    def chunk_size(self) -> int:
        return _COLUMNS

    def solve(self, b: Matrix) -> Matrix:
        from dask.array.linalg import solve_triangular

        forward = self._forward(b)
        solved = self._compute(lambda lower: solve_triangular(lower.T, forward(lower), lower=False))
        return np.asarray(solved[: len(b)])

    def log_determinant(self) -> float:
        return 2.0 * math.fsum(np.log(self._factor_diagonal()))

    def diagonal(self, chosen: NDArray[np.int64] | None = None) -> Vector:
        return self._diagonal_by_solves(
            np.arange(len(self.noise_var)) if chosen is None else chosen
        )

    def explained(self, rows: Matrix) -> Vector:
        forward = self._forward(rows.T)
        return np.asarray(self._compute(lambda lower: (forward(lower) ** 2).sum(axis=0)))

    def jointly_explained(self, rows: Matrix) -> Matrix:
        forward = self._forward(rows.T)

        def product(lower: Any) -> Any:
            half = forward(lower)
            return half.T @ half

        return np.asarray(self._compute(product))

    def _factor(self) -> None:
        from dask.array.linalg import cholesky

        array = self._array()
        with self.session.client.as_current():
            self.lower = self.session.client.persist(cholesky(array, lower=True))

    def _array(self) -> Any:
        """``A`` as a Dask array of square blocks, padded with the identity."""
        import dask
        import dask.array as da

        points, size = self.covariance.points, self.block
        edges = [*range(0, len(points), size), len(points)]
        # futures, which have to be held
        self.points = session_points = self.session.scatter(
            [points[slice(*pair)] for pair in pairwise(edges)]
        )
        noise = self.covariance.diagonal(self.contraction)
        make, ours, count = dask.delayed(compared, pure=False), versions(), len(edges) - 1

        def block(i: int, j: int) -> Any:
            own = noise[edges[i] : edges[i + 1]] if i == j else None
            made = make(
                ours,
                _block,
                self.covariance.network,
                self.contraction,
                session_points[i],
                session_points[j],
                own,
                size,
            )
            return da.from_delayed(made, (size, size), dtype=np.float64)

        upper = {(i, j): block(i, j) for i in range(count) for j in range(i, count)}
        return da.block(
            [[upper[i, j] if i <= j else upper[j, i].T for j in range(count)] for i in range(count)]
        )

    def _compute(self, make: _OfFactor) -> Any:
        """The value of a Dask array that ``make`` makes of the factor."""

        def work() -> Any:
            try:
                return self.session.results([self.session.client.compute(make(self.lower))])[0]
            except np.linalg.LinAlgError as error:
                raise FactorizationError(
                    f"the covariance of {len(self.covariance)} targets is not positive definite in "
                    f"floating point; a larger noise_var avoids it ({error})"
                ) from error

        return self.session.insist(work, self._factor)

    def _factor_diagonal(self) -> Vector:
        import dask.array as da

        return np.asarray(self._compute(da.diag)[: len(self.covariance)])

    def _forward(self, b: Matrix) -> _OfFactor:
        """``L⁻¹ b``, on the cluster, as a function of L."""
        import dask.array as da
        from dask.array.linalg import solve_triangular

        def forward(lower: Any) -> Any:
            padded = np.zeros((lower.shape[0], b.shape[1]))
            padded[: len(b)] = b
            chunks = (lower.chunks[0], (b.shape[1],))
            return solve_triangular(lower, da.from_array(padded, chunks=chunks), lower=True)

        return forward


def _by_iteration(covariance: Covariance, contraction: float) -> Iteration:
    report = IterationReport.of_factor(contraction)
    return Iteration(ConjugateGradients(), covariance, contraction, report=report)


def _block(
    network: Network,
    contraction: float,
    rows: Points,
    cols: Points,
    noise: Vector | None,
    size: int,
) -> Matrix:
    """On a worker: a block of A; ``noise`` is None but on the diagonal."""
    other = cols if noise is None else None
    values = correlations(network, rows, other, contraction=contraction)
    if noise is not None:
        values[np.diag_indices(len(rows))] += noise
    if values.shape == (size, size):
        return values.astype(np.float64, copy=False)
    result = np.zeros((size, size)) if noise is None else np.eye(size)
    result[: len(rows), : len(cols)] = values
    return result
