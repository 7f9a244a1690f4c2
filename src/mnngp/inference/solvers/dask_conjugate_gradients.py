"""Conjugate gradients on a Dask cluster: the kernel's tiles live, or are computed, on the workers.

The matrix is cut into a grid of patches, a few for each thread; one task multiplies one patch with
its parts of the vectors, and the sums over a row of patches are made on the workers, so that an
iteration moves the vectors and not the matrix. Vectors and preconditioner stay with the client.

Dask computes what a dead worker held again, as long as it knows how. Data that were scattered it
does not; so whatever is lost is sent again from here, and the work repeated (``Session.insist``).
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np

from mnngp._system import connection, memory
from mnngp._system.connection import check_client, checked_address, client_at, distributed
from mnngp._typing import Matrix
from mnngp.errors import ClusterError
from mnngp.inference.solvers.conjugate_gradients import ConjugateGradients
from mnngp.inference.solvers.covariance import Covariance
from mnngp.inference.solvers.interface import Progress
from mnngp.inference.solvers.tiles import TILE, Patch, Storage

_Value = TypeVar("_Value")
_ATTEMPTS = 6  # products that fail one after the other
_CLOSING = 10.0  # seconds for a connection to be closed
_ADVICE = "fit again on a cluster that runs, or on this machine with solver='cg'"
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
            check_client("scheduler", self.scheduler, _ADVICE)
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
        return np.concatenate(session.ask(lambda: session.client.gather(totals)))


def _add_up(pairs: Sequence[tuple[Matrix, Matrix]], halves: Sequence[int]) -> Matrix:
    """On a worker: the sum of one half of each pair.

    Halves as tasks of their own would move less, and keep the scheduler busier.
    """
    total = np.zeros_like(pairs[0][halves[0]])
    for pair, half in zip(pairs, halves, strict=True):
        total += pair[half]
    return total


class Session:
    """A connection to a cluster, closed with the last thing that uses it if it was opened here.

    The scheduler is an address such as "tcp://10.0.0.1:8786", a client, or None: the client that is
    active, or else a cluster of processes on this machine that listens to loopback alone.
    """

    def __init__(self, scheduler: Any = None) -> None:
        distributed()
        import dask

        mine: list[Any] = []
        if isinstance(scheduler, str):
            mine = [client_at(scheduler)]
        elif scheduler is not None:
            check_client("scheduler", scheduler, _ADVICE)
            self.client = scheduler
        elif (active := _active()) is not None:
            self.client = active
        elif address := dask.config.get("scheduler-address", None):  # DASK_SCHEDULER_ADDRESS
            mine = [client_at(address, "DASK_SCHEDULER_ADDRESS")]
        else:
            mine = list(connection.local())
        if mine:
            self.client = mine[0]
        self.close = weakref.finalize(self, _close, mine)

    def ask(self, make: Callable[[], Awaitable[_Value]]) -> _Value:
        """What comes of a call of the client, as ``connection.answered`` does it."""
        with self._closing():
            return connection.answered(self.client, make, _ADVICE)

    @contextmanager
    def _closing(self) -> Iterator[None]:
        """Closed at once if there is no hope: who collects the error should not wait for that."""
        try:
            yield
        except ClusterError:
            self.close()
            raise

    def workers(self) -> dict[str, Any]:
        """What the scheduler knows of its workers; waits a while for the first.

        All of them have the versions that are here, or it is an error.
        """
        deadline = time.monotonic() + connection.PATIENCE
        while not (found := self.ask(self._identity)["workers"]):
            if time.monotonic() > deadline:
                address = self.client.scheduler.address
                raise ClusterError(
                    f"the cluster at {address} has had no worker for "
                    f"{connection.PATIENCE:g} s; {_ADVICE}"
                )
            time.sleep(0.2)
        with self._closing():
            connection.compare(self.client, _ADVICE)
        return dict(found)

    async def _identity(self) -> Any:
        try:
            return await self.client.scheduler.identity(n_workers=-1)
        except TypeError:  # before 2025.2
            return await self.client.scheduler.identity()

    def limits(self, workers: dict[str, Any]) -> list[float]:
        """Bytes that each worker may take: its limit, or else its share of its machine's memory."""
        limits = {
            address: float(worker["memory_limit"] or 0) for address, worker in workers.items()
        }
        free = [address for address, limit in limits.items() if not limit]
        if free:
            found = self.ask(lambda: self.client.run(memory.available, workers=free))
            beside = Counter(workers[address]["host"] for address in free)
            limits |= {
                address: found.get(address, 0) / beside[workers[address]["host"]]
                for address in free
            }
        return list(limits.values())

    def scatter(self, parts: Sequence[Any]) -> list[Any]:
        """Data on the workers, as futures."""
        # Without hashes: equal data under an old key that is just being forgotten would be lost.
        return list(self.ask(lambda: self.client.scatter(list(parts), hash=False)))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A task; a worker refuses it if its versions are not those of here."""
        return self.client.submit(
            connection.compared, connection.versions(), function, *arguments, pure=False
        )

    def completed(self, futures: Sequence[Any]) -> Iterator[Any]:
        """Each of them, when it has come to its end."""
        with self.client.as_current():
            ending = distributed().as_completed(futures)
        for _ in futures:
            yield self.ask(ending.__anext__)

    def insist(self, work: Callable[[], _Value], renew: Callable[[], object]) -> _Value:
        """Do ``work``; where data were lost with a worker, ``renew`` them and do it again."""
        dask = distributed()
        for attempt in range(_ATTEMPTS):
            try:
                return work()
            except ClusterError:
                raise
            except Exception as error:
                lost = isinstance(error, CancelledError | OSError | dask.KilledWorker)
                if not lost and self.client.status == "running":
                    raise
                if attempt == _ATTEMPTS - 1:
                    raise ClusterError(
                        f"workers were lost in {_ATTEMPTS} attempts at one product; is their "
                        "memory enough?"
                    ) from error
                time.sleep(0.5 * attempt)
                self.workers()
                renew()
        raise AssertionError


def _active() -> Any:
    """The client of the worker whose task this is, or the last that was opened and not closed."""
    dask = distributed()
    try:
        dask.get_worker()
    except ValueError:
        with suppress(ValueError):
            return dask.default_client()
        return None
    return dask.get_client()


def _close(owned: list[Any]) -> None:
    # what is forgotten may be collected by the client's own thread
    if any(thing.asynchronous for thing in owned):
        threading.Thread(target=_close, args=(owned,)).start()
        return
    for thing in owned:
        with suppress(Exception):  # the other side may be gone, or stopped
            thing.close(timeout=_CLOSING)
