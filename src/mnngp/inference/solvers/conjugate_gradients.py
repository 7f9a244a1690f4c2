"""Conjugate gradients over tiles of the kernel: for more points than a factorisation is for.

The intercept (see ``covariance``) is one more right-hand side. Nothing of the size n² has to be
held: tiles that do not fit are computed in every iteration (``tiles``). What needs the whole
inverse or its determinant is not to be had this way, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp._system import memory
from mnngp._typing import Matrix, Vector
from mnngp.errors import ClusterError, UnavailableError
from mnngp.inference.solvers import tiles
from mnngp.inference.solvers.cg_iteration import conjugate_gradients
from mnngp.inference.solvers.covariance import Covariance, contraction, has_variance
from mnngp.inference.solvers.interface import Inverse, Progress, part_of
from mnngp.inference.solvers.preconditioner import Preconditioner
from mnngp.kernels.evaluate import correlations

HIGHEST_RANK = 512
# of a point that a rank of one is worth: four times that of L and E⁻¹L, while it is made
_RANK_BYTES = 4 * 2 * 8
# where memory was estimated, not given: without a preconditioner there may be no convergence
_LOWEST_RANK = 64
# of κ: no factorisation would notice that it is too small for points outside of the sample
_WIDER = 16.0
_COLUMNS = 256  # right-hand sides at a time, for new points
_CHUNK = 1 << 28  # bytes of one such block


@dataclass(frozen=True)
class IterationReport:
    """What conjugate gradients did to condition on the targets.

    Attributes
    ----------
    contraction : float
        κ: one for a plain correlation matrix, less where the distance form was used.
    iterations : int
        How many it took.
    residuals : tuple of float
        The relative residual of each target, and of the intercept, computed at the end.
    history : tuple of float
        The worst of them, iteration by iteration.
    rank : int
        Of the preconditioner.
    kept, total : int
        Bytes of the kernel's tiles that stay in memory, and of all of them.
    where : str
        Whose memory that is.
    seconds : float
        Of the iterations.
    added : float
        Nothing is ever added to the noise: zero.
    """

    contraction: float
    iterations: int
    residuals: tuple[float, ...]
    history: tuple[float, ...]
    rank: int
    kept: int
    total: int
    where: str
    seconds: float
    added: float = 0.0

    def __str__(self) -> str:
        worst = max(self.residuals, default=0.0)
        return (
            f"{self.iterations} iterations in {self.seconds:.3g} s, relative residual {worst:.1e}, "
            f"preconditioner of rank {self.rank}; "
            f"{tiles.Storage(self.kept, self.total, self.where)}"
        )


@dataclass(frozen=True)
class ConjugateGradients:
    """Solve by preconditioned conjugate gradients on this machine.

    A ``solver`` of ``Posterior`` and of the estimators.

    Parameters
    ----------
    tolerance : float
        Of the relative residual of each target.
    max_iterations : int
        With more it is a ``ConvergenceError``.
    rank : int, optional
        Of the preconditioner; zero for none but the diagonal. By default an eighth of the points,
        at most 512, and less where its n × rank numbers would take more than a quarter of the
        memory; not below 64 unless ``memory`` is given.
    memory : int or str, optional
        For the kernel's tiles and the preconditioner, in bytes or as "4GB": by default half of what
        the machine has free. Tiles that do not fit are computed anew in every iteration.
    seed : int
        Of the preconditioner's pivots.

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp import MaxoutKernel
    >>> from mnngp.inference import Posterior
    >>> X = np.linspace(-2.0, 2.0, 300)[:, None]
    >>> solver = ConjugateGradients(memory="1MB")
    >>> posterior = Posterior(MaxoutKernel(3, 4), X, np.sin(X[:, 0]), 1e-4, solver=solver)
    >>> posterior.mean(np.array([[0.5], [1.0]])).round(2)
    array([0.48, 0.84])
    >>> max(posterior.report.residuals) < 1e-8
    True
    """

    tolerance: float = 1e-8
    max_iterations: int = 1000
    rank: int | None = None
    memory: int | str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _validation.real("tolerance", self.tolerance, low=0.0, high=0.1, strict=True)
        _validation.positive_int("max_iterations", self.max_iterations)
        if self.rank is not None and self.rank != 0:
            _validation.positive_int("rank", self.rank)
        if self.memory is not None:
            memory.parse_bytes("memory", self.memory)

    def __call__(self, covariance: Covariance, progress: Progress | None = None) -> Iteration:
        kappa = min(1.0, _WIDER * contraction(covariance.network, covariance.points))
        return Iteration(self, covariance, kappa, progress=progress)

    def budget(self) -> int:
        """Bytes for tiles and preconditioner."""
        if self.memory is None:
            return memory.available() // 2
        return memory.parse_bytes("memory", self.memory)

    def rank_for(self, n: int) -> int:
        """The rank of the preconditioner of n points."""
        if self.rank is not None:
            return min(self.rank, n)
        fitting = self.budget() // (_RANK_BYTES * n)
        lowest = _LOWEST_RANK if self.memory is None else 0
        return min(HIGHEST_RANK, n // 8, max(lowest, fitting))

    def operator(
        self, covariance: Covariance, contraction: float, progress: Progress | None
    ) -> tiles.Operator:
        """The kernel's tiles, on this machine."""
        n = len(covariance)
        budget = self.budget() - 16 * n * self.rank_for(n)
        return tiles.LocalTiles(
            covariance.network, contraction, covariance.points, budget, progress
        )

    def elsewhere(self) -> ConjugateGradients:
        """The same for a copy, which may be on another machine."""
        return _Elsewhere(self.tolerance, self.max_iterations, self.rank, self.memory, self.seed)


class _Elsewhere(ConjugateGradients):
    """Of a copy: bounded by the memory that was given, and by what this machine has free in use."""

    def budget(self) -> int:
        return min(super().budget(), memory.available() // 2)

    def rank_for(self, n: int) -> int:
        fitting = memory.available() // 2 // (_RANK_BYTES * n)
        return min(super().rank_for(n), max(_LOWEST_RANK, fitting))


class Iteration(Inverse):
    """``A⁻¹`` by conjugate gradients.

    Tiles and preconditioner are made when first needed, and again by copies. The report is how the
    first solve went.
    """

    factored = False

    def __init__(
        self,
        solver: ConjugateGradients,
        covariance: Covariance,
        contraction: float,
        *,
        report: IterationReport | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.solver, self.covariance, self.contraction = solver, covariance, contraction
        self.noise_var = covariance.noise_var
        self.report, self.progress = report, progress
        self.operator: tiles.Operator | None = None
        self.preconditioner: Preconditioner | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again, and with no cluster: a copy solves where it is."""
        made = {"progress": None, "operator": None, "preconditioner": None}
        return {**self.__dict__, **made, "solver": self.solver.elsewhere()}

    @property
    def chunk_size(self) -> int:
        return max(16, min(_COLUMNS, _CHUNK // (8 * len(self.noise_var))))

    def solve(self, b: Matrix) -> Matrix:
        return self.solve_with_residual(b)[0]

    def log_determinant(self) -> float:
        raise unavailable("the log marginal likelihood needs")

    def diagonal(self, chosen: NDArray[np.int64] | None = None) -> Vector:
        if chosen is None:
            raise unavailable("leave-one-out predictions of all rows need")
        return self._diagonal_by_solves(chosen)

    # With A x = k - r the form k'ᵀA⁻¹k is k'ᵀx + x'ᵀr + r'ᵀA⁻¹r: the last term is of second order,
    # and left out.

    def explained(self, rows: Matrix) -> Vector:
        rows = rows.astype(np.float64)
        x, residual = self.solve_with_residual(rows.T)
        return np.asarray(np.einsum("ij,ji->i", rows, x) + np.einsum("ij,ij->j", x, residual))

    def jointly_explained(self, rows: Matrix) -> Matrix:
        rows, step = rows.astype(np.float64), self.chunk_size
        solved = [
            self.solve_with_residual(rows[start : start + step].T)
            for start in range(0, len(rows), step)
        ]
        x, residual = (np.concatenate(parts, axis=1) for parts in zip(*solved, strict=True))
        both = rows @ x + x.T @ residual
        return np.asarray((both + both.T) / 2.0)

    def solve_with_residual(self, b: Matrix) -> tuple[Matrix, Matrix]:
        """``x`` and the residual ``b - A x``."""
        operator, preconditioner = self._prepared()
        noise = self.covariance.diagonal(self.contraction)[:, None]
        try:
            x, residual, how = conjugate_gradients(
                lambda v: operator(v) + noise * v,
                np.ascontiguousarray(b, dtype=np.float64),
                preconditioner,
                tolerance=self.solver.tolerance,
                most=self.solver.max_iterations,
                seen=self._seen(),
            )
        except ClusterError:
            self.operator = None  # the next time on the cluster that there is then
            raise
        if self.report is None:
            found = vars(how) | vars(operator.storage)
            self.report = IterationReport(self.contraction, rank=preconditioner.rank, **found)
        self.progress = None
        return x, residual

    def _prepared(self) -> tuple[tiles.Operator, Preconditioner]:
        """The tiles and the preconditioner."""
        network, points, kappa = self.covariance.network, self.covariance.points, self.contraction
        if self.operator is None:
            half = part_of(self.progress, 0.5)
            self.operator = self.solver.operator(self.covariance, kappa, half)
        if self.preconditioner is None:
            self.preconditioner = Preconditioner.of(
                lambda chosen: correlations(
                    network, points, points.subset(chosen), contraction=kappa
                ),
                has_variance(network, points).astype(np.float64),
                self.covariance.diagonal(kappa),
                self.solver.rank_for(len(points)),
                self.solver.seed,
            )
        return self.operator, self.preconditioner

    def _seen(self) -> Callable[[float], object] | None:
        """The logarithm of the residual falls about evenly: half of the progress."""
        progress, tolerance, told = self.progress, self.solver.tolerance, [0.0]
        if progress is None:
            return None

        def seen(worst: float) -> None:
            share = min(1.0, max(0.0, math.log(max(worst, tolerance)) / math.log(tolerance)))
            if share > told[0]:
                progress(0.5 * (share - told[0]))
                told[0] = share

        return seen


def unavailable(what: str) -> UnavailableError:
    """The error for what an iteration does not give."""
    return UnavailableError(
        f"{what} a factorisation, and this model was solved by iteration: use solver='cholesky'"
    )
