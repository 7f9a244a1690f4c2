"""Conjugate gradients on a Dask cluster: the kernel's tiles live, or are computed, on the workers.

The matrix is cut into a grid of patches, a few for each thread; one task multiplies one patch with its parts of the vectors, and
the sums over a row of patches are made on the workers, so that an iteration moves the vectors and not the matrix. Vectors and
preconditioner stay with the client.

Dask computes what a dead worker held again, as long as it knows how. Data that were scattered it does not; so whatever is lost is
sent again from here, and the product of that iteration is repeated.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mnngp import memory
from mnngp.connection import client_at, distributed, local
from mnngp.errors import ClusterError, InputError
from mnngp.inference.large import ConjugateGradients, Storage
from mnngp.inference.packed import Progress
from mnngp.inference.tiles import TILE, Patch, Shape, part
from mnngp.kernels.points import Points
from mnngp.kernels.structure import Network

Matrix = NDArray[Any]
_Value = TypeVar("_Value")
_ATTEMPTS = 6  # products that fail one after the other
_PATIENCE = 60.0  # seconds without any worker
_TASKS = 4  # patches for each thread: workers of unequal speed even out
KEPT_SHARE = 0.4  # of a worker's memory, for tiles: Dask begins to write to disk at 0.6


class Session:
    """A connection to a cluster, closed with the last thing that uses it if it was opened here.

    Parameters
    ----------
    scheduler : str or distributed.Client or None
        An address such as "tcp://10.0.0.1:8786", a client, or None: the client that is active, or else a cluster of processes on
        this machine that listens to the loopback interface alone.
    """

    def __init__(self, scheduler: Any = None) -> None:
        dask = distributed()
        mine: list[Any] = []
        if isinstance(scheduler, dask.Client):
            self.client = scheduler
        elif isinstance(scheduler, str):
            self.client = client_at(scheduler)
            mine = [self.client]
        elif scheduler is not None:
            raise InputError(f"scheduler must be an address, a distributed.Client or None, got {scheduler!r}")
        else:
            try:
                self.client = dask.get_client()  # also of the address that DASK_SCHEDULER_ADDRESS gives
            except ValueError:
                mine = list(local())
                self.client = mine[0]
        self.close = weakref.finalize(self, _close, mine)

    def workers(self) -> dict[str, Any]:
        """What the scheduler knows of its workers; waits a while for the first."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                found = self.client.scheduler_info(n_workers=-1)["workers"]
            except TypeError:  # before 2025.2
                found = self.client.scheduler_info()["workers"]
            if found or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        if not found:
            raise ClusterError(f"the cluster at {self.client.scheduler.address} has had no worker for {_PATIENCE:.0f} s")
        return dict(found)

    def results(self, futures: Sequence[Any]) -> list[Any]:
        """Their values. Without any worker it does not wait for ever."""
        while True:
            try:
                with self.client.as_current():
                    distributed().wait(futures, timeout=10.0)
            except TimeoutError:
                self.workers()
                continue
            return list(self.client.gather(futures))

    def insist(self, work: Callable[[], _Value], renew: Callable[[], object]) -> _Value:
        """Do ``work``; where data were lost with a worker, ``renew`` them and do it again."""
        from concurrent.futures import CancelledError

        dask = distributed()
        for attempt in range(_ATTEMPTS):
            try:
                return work()
            except (CancelledError, OSError, dask.KilledWorker) as error:
                if attempt == _ATTEMPTS - 1:
                    raise ClusterError(
                        f"workers were lost in {_ATTEMPTS} attempts at one product; is their memory enough?"
                    ) from error
                time.sleep(0.5 * attempt)
                self.workers()
                renew()
        raise AssertionError


def _close(owned: list[Any]) -> None:
    for thing in owned:
        thing.close()


@dataclass(frozen=True)
class ClusterConjugateGradients(ConjugateGradients):
    """Solve by preconditioned conjugate gradients on a Dask cluster: a ``solver`` of ``Posterior`` and of the estimators.

    Parameters
    ----------
    tolerance, max_iterations, rank, seed
        As for ``ConjugateGradients``.
    memory : int or str, optional
        For the kernel's tiles on all workers together: by default two fifths of their memory, less the data, which each may need.
        What does not fit is computed anew in every iteration.
    scheduler : str or distributed.Client, optional
        An address, or a client. By default the client that is active, or else a cluster of processes on this machine, on loopback.
    """

    scheduler: Any = None

    def operator(self, network: Network, contraction: float, x: Points, progress: Progress | None) -> ClusterTiles:
        """The kernel's tiles, on the workers."""
        given = None if self.memory is None else memory.as_bytes("memory", self.memory)
        return ClusterTiles(Session(self.scheduler), network, contraction, x, given, progress)

    def rank_for(self, n: int) -> int:
        """The client holds the preconditioner; ``memory`` is the workers'."""
        return ConjugateGradients(rank=self.rank).rank_for(n)


def room_of(workers: dict[str, Any], points: int) -> int:
    """Bytes for tiles on all workers, each of which may need all ``points`` (in bytes)."""
    limits = [worker["memory_limit"] or memory.available() / len(workers) for worker in workers.values()]
    return int(sum(max(0.0, KEPT_SHARE * limit - points) for limit in limits))


def edges(n: int, threads: int, largest: float) -> list[int]:
    """Where the rows of patches begin: some patches for each thread, none with more than ``largest`` entries, of whole tiles."""
    count = max(2.0, (2.0 * _TASKS * threads) ** 0.5, n / largest**0.5)
    size = max(TILE, round(n / count / TILE) * TILE)
    return [*range(0, n, size), n]


class ClusterTiles:
    """The operator of a cluster."""

    def __init__(
        self, session: Session, network: Network, contraction: float, x: Points, room: int | None, progress: Progress | None
    ) -> None:
        self.session, self.network, self.contraction, self.x = session, network, contraction, x
        workers = session.workers()
        item = network.dtype.itemsize
        if room is None:
            room = room_of(workers, x.directions.nbytes)
        smallest = min(worker["memory_limit"] or memory.available() / len(workers) for worker in workers.values())
        self.edges = edges(len(x), sum(worker["nthreads"] for worker in workers.values()), max(TILE**2, 0.1 * smallest / item))
        blocks = len(self.edges) - 1
        self.shapes = {
            (i, j): Shape(self._length(i), self._length(j), symmetric=i == j) for i in range(blocks) for j in range(i + 1)
        }
        sizes = {place: shape.sizes() for place, shape in self.shapes.items()}
        total = item * sum(map(sum, sizes.values()))
        self.count, kept, allowed = {}, 0, 0.0
        for place, shape in self.shapes.items():  # every patch keeps about the same share: no task is longer than the others
            allowed += min(1.0, room / total) * item * sum(sizes[place])
            self.count[place] = shape.fitting(round(allowed - kept) // item)
            kept += item * sum(sizes[place][: self.count[place]])
        self.storage = Storage(kept, total, f"on {len(workers)} workers")
        self.points: list[Any] = []
        self.kept: dict[tuple[int, int], Any] = {}
        session.insist(lambda: self._prepare(progress), self._renew)

    def _length(self, block: int) -> int:
        return self.edges[block + 1] - self.edges[block]

    def _renew(self) -> None:
        """Forget what is lost: it is sent and computed again."""
        if any(future.status != "finished" for future in self.points):
            self.points = []
        self.kept = {place: future for place, future in self.kept.items() if future.status == "finished"}

    def _prepare(self, progress: Progress | None = None) -> None:
        """The points on the workers, and the tiles that are kept."""
        client = self.session.client
        if not self.points:
            parts = [part(self.x, *pair) for pair in pairwise(self.edges)]
            # Without hashes: equal data under an old key that is just being forgotten would be lost with it.
            self.points = client.scatter(parts, hash=False)
        missing = [place for place in self.shapes if place not in self.kept and self.count[place]]
        for i, j in missing:
            self.kept[i, j] = client.submit(
                _first_tiles, self.network, self.contraction, self.shapes[i, j], self.points[i], self.points[j], self.count[i, j],
                pure=False,
            )  # fmt: skip
        if progress is not None and missing:
            with client.as_current():
                for _ in distributed().as_completed([self.kept[place] for place in missing]):
                    progress(1.0 / len(missing))

    def __call__(self, v: Matrix) -> Matrix:
        return self.session.insist(lambda: self._product(v), self._renew)

    def _product(self, v: Matrix) -> Matrix:
        self._prepare()
        client = self.session.client
        vectors = client.scatter([v[first:last] for first, last in pairwise(self.edges)], hash=False)
        pairs: list[list[Any]] = [[] for _ in vectors]
        halves: list[list[int]] = [[] for _ in vectors]
        for (i, j), shape in self.shapes.items():
            whole = self.count[i, j] == len(shape.tiles)  # the points are not needed
            both = client.submit(
                _multiply, self.network, self.contraction, shape,
                None if whole else self.points[i], None if whole else self.points[j], self.kept.get((i, j), ()),
                vectors[j], vectors[i], pure=False,
            )  # fmt: skip
            for row, half in ((i, 0), (j, 1)) if i != j else ((i, 0),):
                pairs[row].append(both)
                halves[row].append(half)
        totals = [client.submit(_add_up, *row, pure=False) for row in zip(pairs, halves, strict=True)]
        del both, pairs  # nothing but the sums is held once they are made
        return np.concatenate(self.session.results(totals))


# --- on the workers -----------------------------------------------------------------------------------------------------


def _first_tiles(network: Network, contraction: float, shape: Shape, rows: Points, cols: Points, count: int) -> list[Matrix]:
    return Patch(network, contraction, shape, rows, cols).first(count)


def _multiply(
    network: Network,
    contraction: float,
    shape: Shape,
    rows: Points | None,
    cols: Points | None,
    kept: Sequence[Matrix],
    v: Matrix,
    w: Matrix,
) -> tuple[Matrix, Matrix]:
    return Patch(network, contraction, shape, rows, cols, kept).product(v, w)


def _add_up(pairs: Sequence[tuple[Matrix, Matrix]], halves: Sequence[int]) -> Matrix:
    """The sum of one half of each pair. (Halves as tasks of their own would move less, and keep the scheduler busier.)"""
    total = np.zeros_like(pairs[0][halves[0]])
    for pair, half in zip(pairs, halves, strict=True):
        total += pair[half]
    return total
