"""Conjugate gradients on a Dask cluster: the kernel's tiles live, or are computed, on the workers.

The matrix is cut into a grid of patches, a few for each thread; one task multiplies one patch with
its parts of the vectors, and the sums over a row of patches are made on the workers, so that an
iteration moves the vectors and not the matrix. Vectors and preconditioner stay with the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from mnngp._system import memory
from mnngp._system.connection import checked_address, distributed
from mnngp._typing import Matrix
from mnngp.inference.solvers.conjugate_gradients import ConjugateGradients
from mnngp.inference.solvers.covariance import Covariance
from mnngp.inference.solvers.dask_session import Session, check_client
from mnngp.inference.solvers.interface import Progress
from mnngp.inference.solvers.tiles import TILE, Patch, Storage

_TASKS = 4  # patches for each thread: workers of unequal speed even out
KEPT_SHARE = 0.4  # of a worker's memory, for tiles: Dask begins to write to disk at 0.6


@dataclass(frozen=True)
class ClusterConjugateGradients(ConjugateGradients):
    """Solve by preconditioned conjugate gradients on a Dask cluster.

    A ``solver`` of ``Posterior`` and of the estimators.

    Parameters
    ----------
    tolerance, max_iterations, rank, seed
        As for ``ConjugateGradients``.
    memory : int or str, optional
        For the kernel's tiles on all workers together: by default two fifths of their memory, less
        the data, which each may need. What does not fit is computed anew in every iteration.
    scheduler : str or distributed.Client, optional
        An address, or a client. By default the client that is active, or else a cluster of
        processes on this machine, on loopback. Copies share a client; a pickle has its address.
    """

    scheduler: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.scheduler, str):
            distributed()
            checked_address("scheduler", self.scheduler)
        elif self.scheduler is not None:
            check_client(self.scheduler)
            object.__setattr__(self, "_address", self.scheduler.scheduler.address)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # all else is immutable

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "scheduler": self.__dict__.get("_address", self.scheduler)}

    def operator(
        self, covariance: Covariance, contraction: float, progress: Progress | None
    ) -> ClusterTiles:
        """The kernel's tiles, on the workers."""
        budget = None if self.memory is None else memory.parse_bytes("memory", self.memory)
        return ClusterTiles(Session(self.scheduler), covariance, contraction, budget, progress)

    def rank_for(self, n: int) -> int:
        """The client holds the preconditioner; ``memory`` is the workers'."""
        return ConjugateGradients(rank=self.rank).rank_for(n)

    def elsewhere(self) -> ConjugateGradients:
        """Without the cluster, and without its memory."""
        here = ConjugateGradients(self.tolerance, self.max_iterations, self.rank, seed=self.seed)
        return here.elsewhere()


def tile_budget(limits: Sequence[float], points: int) -> int:
    """Bytes for tiles on workers of so much memory, each of which may need all ``points``."""
    return int(sum(max(0.0, KEPT_SHARE * limit - points) for limit in limits))


def edges(n: int, threads: int, largest: float) -> list[int]:
    """Where the rows of patches begin: some patches for each thread, of whole tiles.

    None has more than ``largest`` entries.
    """
    count = max(2.0, (2.0 * _TASKS * threads) ** 0.5, n / largest**0.5)
    size = max(TILE, round(n / count / TILE) * TILE)
    return [*range(0, n, size), n]


class ClusterTiles:
    """The operator of a cluster."""

    def __init__(
        self,
        session: Session,
        covariance: Covariance,
        contraction: float,
        budget: int | None,
        progress: Progress | None,
    ) -> None:
        self.session, self.x = session, covariance.points
        network, workers = covariance.network, session.workers()
        limits, item = session.limits(workers), network.dtype.itemsize
        if budget is None:
            budget = tile_budget(limits, self.x.directions.nbytes)
        threads = sum(worker["nthreads"] for worker in workers.values())
        self.edges = edges(len(self.x), threads, max(TILE**2, 0.1 * min(limits) / item))
        lengths = [last - first for first, last in pairwise(self.edges)]
        self.patches = {
            (i, j): Patch(network, contraction, lengths[i], lengths[j], symmetric=i == j)
            for i in range(len(lengths))
            for j in range(i + 1)
        }
        sizes = {place: patch.sizes() for place, patch in self.patches.items()}
        total = item * sum(map(sum, sizes.values()))
        self.count, kept, allowed = {}, 0, 0.0
        # every patch keeps about the same share: no task is longer than the others
        for place, patch in self.patches.items():
            allowed += min(1.0, budget / total) * item * sum(sizes[place])
            self.count[place] = patch.fitting(round(allowed - kept) // item)
            kept += item * sum(sizes[place][: self.count[place]])
        self.storage = Storage(kept, total, f"on {len(workers)} workers")
        self.points: list[Any] = []
        self.kept: dict[tuple[int, int], Any] = {}
        session.insist(lambda: self._prepare(progress), self._renew)

    def _renew(self) -> None:
        """Forget what is lost: it is sent and computed again."""
        if any(future.status != "finished" for future in self.points):
            self.points = []
        self.kept = {
            place: future for place, future in self.kept.items() if future.status == "finished"
        }

    def _prepare(self, progress: Progress | None = None) -> None:
        """The points on the workers, and the tiles that are kept."""
        session = self.session
        if not self.points:
            self.points = session.scatter([self.x[slice(*pair)] for pair in pairwise(self.edges)])
        missing = [place for place in self.patches if place not in self.kept and self.count[place]]
        for i, j in missing:
            self.kept[i, j] = session.submit(
                Patch.first, self.patches[i, j], self.points[i], self.points[j], self.count[i, j]
            )
        if progress is not None and missing:
            for _ in session.completed([self.kept[place] for place in missing]):
                progress(1.0 / len(missing))

    def __call__(self, v: Matrix) -> Matrix:
        return self.session.insist(lambda: self._product(v), self._renew)

    def _product(self, v: Matrix) -> Matrix:
        self._prepare()
        session = self.session
        vectors = session.scatter([v[first:last] for first, last in pairwise(self.edges)])
        pairs: list[list[Any]] = [[] for _ in vectors]
        halves: list[list[int]] = [[] for _ in vectors]
        for (i, j), patch in self.patches.items():
            whole = self.count[i, j] == len(patch.tiles)  # the points are not needed
            points = None if whole else (self.points[i], self.points[j])
            kept = self.kept.get((i, j), ())
            both = session.submit(Patch.product, patch, points, kept, vectors[j], vectors[i])
            for row, half in ((i, 0), (j, 1)) if i != j else ((i, 0),):
                pairs[row].append(both)
                halves[row].append(half)
        totals = [session.submit(_add_up, *row) for row in zip(pairs, halves, strict=True)]
        del both, pairs  # nothing but the sums is held once they are made
        return np.concatenate(session.results(totals))


def _add_up(pairs: Sequence[tuple[Matrix, Matrix]], halves: Sequence[int]) -> Matrix:
    """On a worker: the sum of one half of each pair.

    Halves as tasks of their own would move less, and keep the scheduler busier.
    """
    total = np.zeros_like(pairs[0][halves[0]])
    for pair, half in zip(pairs, halves, strict=True):
        total += pair[half]
    return total
