"""Posteriors of more points than a factorisation is for: conjugate gradients over tiles of the
kernel.

The system is that of ``inference.factor``, ``A = 1 - (1 - ρ)/κ + diag(noise/κσ²)``, so that the
ordered phase keeps its digits here as well; the intercept is one more right-hand side. Nothing of
the size n² has to be held: tiles that do not fit are computed in every iteration
(``inference.tiles``). What needs the whole inverse or its determinant is not to be had this way,
and says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp._system import memory
from mnngp._typing import Matrix, Vector
from mnngp.errors import ClusterError, UnavailableError
from mnngp.inference.factor import Inverse, alive, contraction
from mnngp.inference.iterative import Convergence, conjugate_gradients
from mnngp.inference.packed import Progress
from mnngp.inference.preconditioner import Preconditioner
from mnngp.inference.tiles import Patch, Shape
from mnngp.kernels.evaluate import correlations
from mnngp.kernels.points import Points
from mnngp.networks.network import Network

HIGHEST_RANK = 512
# where memory was estimated, not given: without a preconditioner there may be no convergence
_LOWEST_RANK = 64
# of κ: no factorisation would notice that it is too small for points outside of the sample
_WIDER = 16.0
_COLUMNS = 256  # right-hand sides at a time, for new points
_CHUNK = 1 << 28  # bytes of one such block


@dataclass(frozen=True)
class Storage:
    """Where the kernel's tiles are.

    Attributes
    ----------
    kept, total : int
        Bytes of the tiles that stay in memory, and of all.
    where : str
    """

    kept: int
    total: int
    where: str

    def __str__(self) -> str:
        share = "kept" if self.kept == self.total else "computed anew in every iteration"
        if 0 < self.kept < self.total:
            share = (
                f"{100.0 * self.kept / self.total:.0f} % of them kept, the others computed anew in "
                "every iteration"
            )
        return f"{memory.format_bytes(self.total)} of tiles {self.where}, {share}"


class Operator(Protocol):
    """The matrix ``1 - (1 - ρ)/κ`` without noise, as a function of (n, k)."""

    storage: Storage

    def __call__(self, v: Matrix) -> Matrix: ...


@dataclass(frozen=True)
class IterationReport:
    """What conjugate gradients did to condition on the targets.

    Attributes
    ----------
    contraction : float
        κ: one for a plain correlation matrix, less where the distance form was used.
    iterations : int
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

    @staticmethod
    def of_factor(contraction: float) -> IterationReport:
        """Of a model that was factored on a cluster, and read from a file."""
        return IterationReport(contraction, 0, (), (), 0, 0, 0, "on a cluster", 0.0)

    def __str__(self) -> str:
        worst = max(self.residuals, default=0.0)
        return (
            f"{self.iterations} iterations in {self.seconds:.3g} s, relative residual {worst:.1e}, "
            "preconditioner of "
            f"rank {self.rank}; {Storage(self.kept, self.total, self.where)}"
        )


@dataclass(frozen=True)
class ConjugateGradients:
    """Solve by preconditioned conjugate gradients on this machine: a ``solver`` of ``Posterior``
    and of the estimators.

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
    >>> posterior = Posterior(MaxoutKernel(3, 4), X, np.sin(X[:, 0]), 1e-4, solver=ConjugateGradients(memory="1MB"))
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

    def __call__(
        self,
        network: Network,
        x: Points,
        deviation: Vector,
        noise_var: Vector,
        progress: Progress | None = None,
    ) -> Iteration:
        kappa = min(1.0, _WIDER * contraction(network, x))
        scale = np.where(deviation > 0.0, deviation, 1.0)
        return Iteration(
            kappa,
            noise_var,
            System(self, network, x, kappa, noise_var / (kappa * scale**2), progress),
        )

    def room(self) -> int:
        """Bytes for tiles and preconditioner."""
        return (
            memory.available() // 2
            if self.memory is None
            else memory.parse_bytes("memory", self.memory)
        )

    def rank_for(self, n: int) -> int:
        if self.rank is not None:
            return min(self.rank, n)
        fitting = self.room() // _rank_bytes(n)
        return min(
            HIGHEST_RANK, n // 8, fitting if self.memory is not None else max(_LOWEST_RANK, fitting)
        )

    def operator(
        self, network: Network, contraction: float, x: Points, progress: Progress | None
    ) -> Operator:
        """The kernel's tiles, on this machine."""
        return LocalTiles(
            network, contraction, x, self.room() - 16 * len(x) * self.rank_for(len(x)), progress
        )

    def elsewhere(self) -> ConjugateGradients:
        """The same for a copy, which may be on another machine."""
        return _Elsewhere(self.tolerance, self.max_iterations, self.rank, self.memory, self.seed)


def _rank_bytes(n: int) -> int:
    """Memory that a rank of one is worth: four times that of L and E⁻¹L, while it is made."""
    return 4 * 2 * 8 * n


class _Elsewhere(ConjugateGradients):
    """Of a copy: what was given for another machine is a bound, and what this one has free when it
    is used is another.
    """

    def room(self) -> int:
        return min(super().room(), memory.available() // 2)

    def rank_for(self, n: int) -> int:
        return min(
            super().rank_for(n), max(_LOWEST_RANK, memory.available() // 2 // _rank_bytes(n))
        )


class LocalTiles:
    """The operator of one process; ``room`` is in bytes."""

    def __init__(
        self, network: Network, contraction: float, x: Points, room: int, progress: Progress | None
    ) -> None:
        shape, size = Shape(len(x), len(x), symmetric=True), network.dtype.itemsize
        patch, count = Patch(network, contraction, shape, x, x), shape.fitting(max(0, room) // size)
        self.patch = replace(patch, kept=patch.first(count, progress))
        sizes = shape.sizes()
        self.storage = Storage(size * sum(sizes[:count]), size * sum(sizes), "in memory")

    def __call__(self, v: Matrix) -> Matrix:
        return self.patch.product(v, v)[0]


class System:
    """``A x = b`` for one set of points: the tiles and the preconditioner, made when first needed,
    and how the first solve went.
    """

    def __init__(
        self,
        solver: ConjugateGradients,
        network: Network,
        x: Points,
        contraction: float,
        noise: Vector,
        progress: Progress | None,
    ) -> None:
        self.solver, self.network, self.x, self.contraction, self.noise = (
            solver,
            network,
            x,
            contraction,
            noise,
        )
        self.progress = progress
        self.parts: tuple[Operator, Preconditioner] | None = None
        self.first: IterationReport | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again, and with no cluster: a copy solves on the machine that it
        is on.
        """
        return {**self.__dict__, "progress": None, "parts": None, "solver": self.solver.elsewhere()}

    def solve(self, b: Matrix) -> tuple[Matrix, Matrix]:
        """``x`` and the residual ``b - A x``."""
        try:
            return self._solve(b)
        except ClusterError:
            self.parts = None  # the next time on the cluster that there is then
            raise

    def _solve(self, b: Matrix) -> tuple[Matrix, Matrix]:
        if self.parts is None:
            self.parts = self._prepare()
        operator, precondition = self.parts
        tolerance = self.solver.tolerance
        x, residual, how = conjugate_gradients(
            lambda v: operator(v) + self.noise[:, None] * v,
            np.ascontiguousarray(b, dtype=np.float64),
            precondition,
            tolerance=tolerance,
            most=self.solver.max_iterations,
            seen=self._seen(tolerance),
        )
        if self.first is None:
            self.first = self._report(how, operator.storage, precondition.rank)
        self.progress = None
        return x, residual

    def _prepare(self) -> tuple[Operator, Preconditioner]:
        x, network = self.x, self.network
        progress = self.progress
        half = None if progress is None else lambda share: progress(0.5 * share)
        operator = self.solver.operator(network, self.contraction, x, half)

        def columns(chosen: NDArray[np.int64]) -> Matrix:
            return correlations(network, x, x.subset(chosen), contraction=self.contraction)

        ones = alive(network, x).astype(np.float64)
        rank = self.solver.rank_for(len(x))
        return operator, Preconditioner.of(columns, ones, self.noise, rank, self.solver.seed)

    def _report(self, how: Convergence, storage: Storage, rank: int) -> IterationReport:
        return IterationReport(
            self.contraction,
            how.iterations,
            how.residuals,
            how.history,
            rank,
            storage.kept,
            storage.total,
            storage.where,
            how.seconds,
        )

    def _seen(self, tolerance: float) -> Any:
        """The logarithm of the residual falls about evenly: half of the progress."""
        progress, told = self.progress, [0.0]
        if progress is None:
            return None

        def seen(_: int, worst: float) -> None:
            share = min(1.0, max(0.0, math.log(max(worst, tolerance)) / math.log(tolerance)))
            if share > told[0]:
                progress(0.5 * (share - told[0]))
                told[0] = share

        return seen


@dataclass(frozen=True, eq=False)
class Iteration(Inverse):
    """``A⁻¹`` by conjugate gradients."""

    system: System

    factored = False

    @property
    def report(self) -> IterationReport:
        assert self.system.first is not None  # a posterior solves at once
        return self.system.first

    @property
    def at_a_time(self) -> int:
        return max(16, min(_COLUMNS, _CHUNK // (8 * len(self.noise_var))))

    def solve(self, b: Matrix) -> Matrix:
        return self.system.solve(b)[0]

    # With A x = k - r the form k'ᵀA⁻¹k is k'ᵀx + x'ᵀr + r'ᵀA⁻¹r: the last term is of second order,
    # and left out.

    def explained(self, kernel: Matrix) -> Vector:
        rows = kernel.astype(np.float64)
        x, residual = self.system.solve(rows.T)
        return np.asarray(np.einsum("ij,ji->i", rows, x) + np.einsum("ij,ij->j", x, residual))

    def jointly_explained(self, kernel: Matrix) -> Matrix:
        rows, step = kernel.astype(np.float64), self.at_a_time
        solved = [
            self.system.solve(rows[start : start + step].T) for start in range(0, len(rows), step)
        ]
        x, residual = (np.concatenate(parts, axis=1) for parts in zip(*solved, strict=True))
        both = rows @ x + x.T @ residual
        return np.asarray((both + both.T) / 2.0)

    def diagonal(self, chosen: NDArray[np.int64] | None = None) -> Vector:
        if chosen is None:
            raise unavailable("leave-one-out predictions of all rows need")
        return self._diagonal_by_solves(chosen)

    def log_determinant(self) -> float:
        raise unavailable("the log marginal likelihood needs")


def unavailable(what: str) -> UnavailableError:
    """The error for what an iteration does not give."""
    return UnavailableError(
        f"{what} a factorisation, and this model was solved by iteration: use solver='cholesky'"
    )
