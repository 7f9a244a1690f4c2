"""The Cholesky factorisation on a Dask cluster, by Dask's own blocked routines.

The kernel is a Dask array whose blocks are computed on the workers, where
``dask.array.linalg.cholesky`` asks for them. All blocks have to be of one size, so the matrix is
padded with rows of the identity. The factor stays on the workers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp._system.connection import compared, versions
from mnngp._typing import Matrix, Vector
from mnngp.errors import FactorizationError
from mnngp.inference.cluster import OnCluster, Session
from mnngp.inference.factor import Inverse, Report, contraction
from mnngp.inference.large import ConjugateGradients, Iteration, IterationReport, System
from mnngp.inference.packed import Progress
from mnngp.inference.tiles import part
from mnngp.kernels.evaluate import correlations
from mnngp.kernels.points import Points
from mnngp.networks.network import Network

_COLUMNS = 512  # right-hand sides at a time


@dataclass(frozen=True)
class ClusterCholesky(OnCluster):
    """Solve by a Cholesky factorisation on a Dask cluster: a ``solver`` of ``Posterior`` and of the
    estimators.

    Its memory, some three matrices of n² numbers on all workers together, is that of
    ``dask.array.linalg.cholesky``.

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

    def __call__(
        self,
        network: Network,
        x: Points,
        deviation: Vector,
        noise_var: Vector,
        progress: Progress | None = None,
    ) -> ClusterFactor:
        kappa = contraction(network, x)
        scale = np.where(deviation > 0.0, deviation, 1.0)
        factor = BlockedFactor(
            Session(self.scheduler), network, kappa, x, noise_var / (kappa * scale**2), self.block
        )
        diagonal = factor.diagonal()
        if progress is not None:
            progress(1.0)
        return ClusterFactor(
            kappa,
            noise_var,
            factor,
            Report(0.0, 1, kappa, float((diagonal.max() / diagonal.min()) ** 2)),
        )


def kernel_array(
    session: Session, network: Network, contraction: float, x: Points, noise: Vector, block: int
) -> tuple[Any, list[Any]]:
    """``A`` as a Dask array of square blocks, padded with the identity; and the points' futures,
    which have to be held.
    """
    import dask
    import dask.array as da

    block = min(block, len(x))
    edges = [*range(0, len(x), block), len(x)]
    points = session.scatter([part(x, *pair) for pair in pairwise(edges)])
    make, ours = dask.delayed(compared, pure=False), versions()
    shape, count = (block, block), len(points)
    upper = {
        (i, j): da.from_delayed(
            make(
                ours,
                _block,
                network,
                contraction,
                points[i],
                points[j],
                i == j,
                noise[edges[i] : edges[i + 1]],
                block,
            ),
            shape,
            dtype=np.float64,
        )
        for i in range(count)
        for j in range(i, count)
    }
    rows = [[upper[i, j] if i <= j else upper[j, i].T for j in range(count)] for i in range(count)]
    return da.block(rows), points


class BlockedFactor:
    """The factor on the workers. If they lose it with the data that it is made of, it is made
    again.
    """

    def __init__(
        self,
        session: Session,
        network: Network,
        contraction: float,
        x: Points,
        noise: Vector,
        block: int,
    ) -> None:
        self.session, self.network, self.contraction, self.x, self.noise = (
            session,
            network,
            contraction,
            x,
            noise,
        )
        self.block = block
        session.workers()
        session.insist(self._make, lambda: None)

    def _make(self) -> None:
        from dask.array.linalg import cholesky

        array, self.points = kernel_array(
            self.session, self.network, self.contraction, self.x, self.noise, self.block
        )
        with self.session.client.as_current():
            self.lower = self.session.client.persist(cholesky(array, lower=True))

    def _compute(self, make: Any) -> Any:
        """The value of a Dask array that ``make`` makes of the factor."""

        def work() -> Any:
            try:
                return self.session.results([self.session.client.compute(make(self.lower))])[0]
            except np.linalg.LinAlgError as error:
                raise FactorizationError(
                    f"the covariance of {len(self.x)} targets is not positive definite in floating "
                    "point; a larger noise_var "
                    f"avoids it ({error})"
                ) from error

        return self.session.insist(work, self._make)

    def diagonal(self) -> Vector:
        import dask.array as da

        return np.asarray(self._compute(da.diag)[: len(self.x)])

    def forward(self, b: Matrix) -> Any:
        """``L⁻¹ b``, on the cluster, as a function of L."""
        from dask.array.linalg import solve_triangular

        return lambda lower: solve_triangular(lower, self._padded(b, lower), lower=True)

    def solve(self, b: Matrix) -> Matrix:
        from dask.array.linalg import solve_triangular

        forward = self.forward(b)
        solved = self._compute(lambda lower: solve_triangular(lower.T, forward(lower), lower=False))
        return np.asarray(solved[: len(self.x)])

    def products(self, b: Matrix, *, jointly: bool) -> Matrix:
        """``bᵀA⁻¹b``, or its diagonal."""
        forward = self.forward(b)

        def make(lower: Any) -> Any:
            half = forward(lower)
            return half.T @ half if jointly else (half**2).sum(axis=0)

        return np.asarray(self._compute(make))

    def _padded(self, b: Matrix, lower: Any) -> Any:
        import dask.array as da

        whole = np.zeros((lower.shape[0], b.shape[1]))
        whole[: len(b)] = b
        return da.from_array(whole, chunks=(lower.chunks[0], (b.shape[1],)))


@dataclass(frozen=True, eq=False)
class ClusterFactor(Inverse):
    """``A⁻¹`` from a factor on a cluster."""

    factor: BlockedFactor
    done: Report

    @property
    def report(self) -> Report:
        return self.done

    @property
    def at_a_time(self) -> int:
        return _COLUMNS

    def solve(self, b: Matrix) -> Matrix:
        return self.factor.solve(b)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy leaves the factor where it is, and solves by conjugate gradients on its own
        machine, as a saved model does.
        """
        return _by_iteration, (
            self.contraction,
            self.noise_var,
            self.factor.network,
            self.factor.x,
            self.factor.noise,
        )

    def explained(self, kernel: Matrix) -> Vector:
        return self.factor.products(kernel.T.astype(np.float64), jointly=False)

    def jointly_explained(self, kernel: Matrix) -> Matrix:
        return self.factor.products(kernel.T.astype(np.float64), jointly=True)

    def diagonal(self, chosen: NDArray[np.int64] | None = None) -> Vector:
        return self._diagonal_by_solves(
            np.arange(len(self.noise_var)) if chosen is None else chosen
        )

    def log_determinant(self) -> float:
        return 2.0 * math.fsum(np.log(self.factor.diagonal()))


def _by_iteration(
    contraction: float, noise_var: Vector, network: Network, x: Points, noise: Vector
) -> Iteration:
    system = System(ConjugateGradients(), network, x, contraction, noise, progress=None)
    system.first = IterationReport.of_factor(contraction)
    return Iteration(contraction, noise_var, system)


# --- on the workers -------------------------------------------------------------------------------


def _block(
    network: Network,
    contraction: float,
    rows: Points,
    cols: Points,
    on_diagonal: bool,
    noise: Vector,
    size: int,
) -> Matrix:
    values = correlations(network, rows, None if on_diagonal else cols, contraction=contraction)
    if on_diagonal:
        values[np.diag_indices(len(rows))] += noise
    if values.shape == (size, size):
        return values.astype(np.float64, copy=False)
    result = np.eye(size) if on_diagonal else np.zeros((size, size))
    result[: len(rows), : len(cols)] = values
    return result
