"""The sweep on a Dask cluster: workers compute units, the driver alone writes the store.

*Data.* The protocol and the images travel to a worker once, as a plugin, which the scheduler also
gives to workers that join later. What the cells of a split share (angles between images) is
computed on each worker that computes cells of it, and kept there; so a worker is given units of one
split as long as there are some.

*Kernels that take hours.* Cells of convolutional networks are computed by the driver, one after
another, and the blocks of their kernels by all workers (``kernels.dask_blocks``).

*What may break.* A worker: its units are done again by others; a unit that takes four workers with
it is recorded as failed. (The driver does this itself. Dask would leave units waiting for a worker
that is gone, if there was no other at that moment, and would blame units that were only waiting
behind the one that was being computed.) The scheduler or the driver: what is finished is in the
store, and the same command goes on. Several drivers may share a store, as several processes may
(``runner``).

*The same numbers.* A unit is computed by the same code as on one machine. Up to ``runner.SMALL``
training images a cell is one thread's work in both cases, and the numbers are the same to the last
bit on the same kind of machine; above, they are those of a process with as many threads as a worker
has.

*Security.* Dask sends Python objects, by pickle, between the driver, the scheduler and the workers:
whoever can reach one of them can run code there. A cluster that is started here listens on the
loopback interface only.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

from threadpoolctl import threadpool_limits

from mnngp._system.connection import answered, client_at, compare, distributed, local
from mnngp.data import Images
from mnngp.errors import ClusterError, MissingExtraError
from mnngp.experiments.cells import Outcome, Prepared, Test, limited
from mnngp.experiments.protocol import Group, Protocol, Split
from mnngp.experiments.records import Watcher
from mnngp.experiments.runner import SMALL, Sweep, Unit
from mnngp.experiments.store import Store

_KEPT = 2  # splits whose angles a worker keeps
_LOOK = 1.0  # seconds between two looks at which workers there are
# seconds for a result, some hundred bytes, to arrive, or for a process on this machine to be
# started again
_PATIENCE = 60.0
_ADVICE = "what is finished is kept, and the same command goes on"
_FAREWELL = 5.0  # seconds for what need not be heard, and for a connection to be closed
_DEATHS = 3  # workers that may die with a unit, as many as Dask's own allowed-failures

Computed = list[tuple[Group, int, Outcome, float]]


@contextmanager
def connected(*, workers: int | None = None, scheduler: str | None = None) -> Iterator[Any]:
    """A client of a cluster that runs, or of one on this machine that ends with the context."""
    if scheduler is not None:
        client = client_at(scheduler, "--scheduler")
        try:
            yield client
        finally:
            with suppress(Exception):  # it may be stopped
                client.close(timeout=_FAREWELL)
    else:
        # Without limits of memory: what a worker keeps is bounded, and more of it is no reason to
        # end a cell.
        client, cluster = local(1 if workers is None else workers, memory_limit=0)
        with cluster, client:
            yield client


def run(
    protocol: Protocol, store: Store, images: Images, client: Any, watcher: Watcher | None = None
) -> None:
    """``runner.run`` on a cluster."""
    _Distributed(protocol, store, images, watcher, client).run()


class _Distributed(Sweep):
    """The driver."""

    def __init__(
        self, protocol: Protocol, store: Store, images: Images, watcher: Watcher | None, client: Any
    ) -> None:
        super().__init__(protocol, store, images, watcher)
        self.client = client
        self.blocks = replace(self.blocks, client=client)
        self.plugin = _Cells(protocol, images)
        # units, futures and workers, by the keys of the futures
        self.running: dict[str, tuple[Unit, Any, str]] = {}
        self.events: queue.Queue[Any] = queue.Queue()  # futures that have come to an end
        self.sources: dict[Split, Iterator[Unit]] = {}
        self.homes: dict[str, Split] = {}  # which split a worker is at
        self.threads: dict[str, int] = {}  # of the workers
        self.looked_at_workers = -_LOOK
        self.again: deque[Unit] = deque()  # units that went with their workers
        self.deaths: Counter[int] = Counter()  # of workers that had a unit, by its number

    def run(self) -> None:
        compare(self.client, _ADVICE)
        self._ask(lambda: self.client.register_plugin(self.plugin))
        try:
            super().run()
        finally:
            self._tell(lambda: self.client.unregister_worker_plugin(self.plugin.name))

    def _run_open(self) -> bool:
        """Have all units computed that nobody else is computing; whether there were any."""
        self.sources = {
            split: self._claimed(split, ("dense", "finite"))
            for split in dict.fromkeys(unit.split for unit in self.open)
        }
        try:
            self._fill()
            any_at_all = bool(self.running)
            while self.running or self.again:
                self._take()
                self._fill()
            return self._run_convolutional() or any_at_all
        finally:
            self._give_up()

    def _run_convolutional(self) -> bool:
        """Compute kernels in blocks on the workers, the rest here; whether there were any."""
        any_at_all = False
        for split in dict.fromkeys(unit.split for unit in self.open):
            data = None
            for unit in self._claimed(split, ("convolutional",)):
                if data is None:
                    self.watcher.preparing(split)
                    known = (self.protocol, self.images, self.test, split)
                    data = Prepared(*known, ("convolutional",), self.blocks)
                try:
                    self._commit(unit, self._compute(data, unit))
                except BaseException:
                    self.store.release(unit.number)
                    raise
                any_at_all = True
        return any_at_all

    def _fill(self) -> None:
        """Give every worker as much as it has threads for, and one unit more: it never waits.

        A unit whose worker died is computed again by a worker that has nothing else: if that one
        dies too, it is known of what.
        """
        self._look_for_workers()
        busy = Counter(home for _, _, home in self.running.values())
        alone = {home for unit, _, home in self.running.values() if self.deaths[unit.number]}
        free = sorted(
            (worker for worker in self.threads if worker not in alone), key=busy.__getitem__
        )
        emptied, fed = free[: len(self.again)], free[len(self.again) :]
        for worker in emptied:
            if not busy[worker]:
                self._submit(self.again.popleft(), worker)
        for worker in fed:
            for _ in range(self.threads[worker] + 1 - busy[worker]):
                unit = self._next_unit(worker)
                if unit is None:
                    return
                self._submit(unit, worker)

    def _submit(self, unit: Unit, worker: str) -> None:
        future = self.client.submit(_compute, self.plugin.name, unit, workers=[worker], pure=False)
        self.running[future.key] = (unit, future, worker)
        future.add_done_callback(self.events.put)

    def _look_for_workers(self) -> None:
        """Look which workers there are; units of those that are gone go to others."""
        if time.monotonic() < self.looked_at_workers + _LOOK:
            return
        before, self.threads = self.threads, dict(self._ask(self.client.nthreads))
        since = time.monotonic()
        while not self.threads:  # they may be on their way
            self.watcher.no_workers()
            # ours: nobody else will start some
            if self.client.cluster is not None and time.monotonic() > since + _PATIENCE:
                raise ClusterError(f"all workers have died; {_ADVICE}")
            time.sleep(_LOOK)
            self.threads = dict(self._ask(self.client.nthreads))
        if self.threads.keys() - before.keys():
            compare(self.client, _ADVICE)
        self.looked_at_workers = time.monotonic()
        for worker in before.keys() - self.threads.keys():
            for key in [key for key, (_, _, home) in self.running.items() if home == worker]:
                self._lose(key, died=True)

    def _lose(self, key: str, *, died: bool) -> None:
        """Have a unit computed again; not if too many workers died that had it."""
        unit, future, _ = self.running.pop(key)
        self._tell(lambda: self.client.cancel([future], force=True))
        self.deaths[unit.number] += died
        if self.deaths[unit.number] > _DEATHS:
            error = f"KilledWorker: {self.deaths[unit.number]} workers died computing it"
            self._commit(unit, self._results(_failed(unit, error)))
        else:
            self.again.append(unit)

    def _next_unit(self, worker: str) -> Unit | None:
        """A unit of the split that the worker is at; or of one that no worker is at; or of any."""
        taken = set(self.homes.values())
        home = self.homes.get(worker)
        for split in sorted(self.sources, key=lambda split: (split != home, split in taken)):
            unit = next(self.sources[split], None)
            if unit is not None:
                if home != split:
                    self.homes[worker] = split
                    self.watcher.preparing(split)
                return unit
            del self.sources[split]
        return None

    def _take(self) -> None:
        """Wait for a unit that has come to an end, and commit it."""
        try:
            future = self.events.get(timeout=_LOOK)
        except queue.Empty:
            return  # whether there is a cluster is seen to before more is given to it
        if future.key not in self.running:
            return
        unit, _, worker = self.running[future.key]
        if future.status == "error":
            error = future.exception()
            # of the worker, not of the cells
            if isinstance(error, ClusterError | MissingExtraError | LookupError):
                raise ClusterError(
                    f"the worker at {worker} cannot compute cells: {type(error).__name__}: {error}"
                )
            computed = _failed(unit, f"{type(error).__name__}: {error}")
        else:
            try:
                computed = self._ask(lambda: self._fetched(future, worker))
            except (OSError, CancelledError):  # the worker died when it had done it
                self._lose(future.key, died=False)
                return
        del self.running[future.key]
        self._commit(unit, self._results(computed))

    async def _fetched(self, future: Any, worker: str) -> Any:
        """A result; Dask would wait for ever if its worker is gone."""
        fetching = asyncio.ensure_future(self.client.gather(future))
        end = time.monotonic() + _PATIENCE
        try:
            while not (await asyncio.wait({fetching}, timeout=_LOOK))[0]:
                if time.monotonic() > end or worker not in await self.client.nthreads():
                    raise ConnectionError(f"no result from {worker}")
            return fetching.result()
        finally:
            fetching.cancel()

    def _give_up(self) -> None:
        """What is still being computed is not wanted any more."""
        futures = [future for _, future, _ in self.running.values()]
        if futures:
            self._tell(lambda: self.client.cancel(futures, force=True))
        for unit in [*(unit for unit, _, _ in self.running.values()), *self.again]:
            self.store.release(unit.number)
        self.running = {}
        self.again.clear()

    def _ask(self, make: Callable[[], Awaitable[Any]]) -> Any:
        """What comes of a call of the client, as ``connection.answered`` does it."""
        return answered(self.client, make, _ADVICE)

    def _tell(self, make: Callable[[], Awaitable[Any]]) -> None:
        """The same where no answer is needed, and perhaps nobody is there to give one."""
        if self.client.status == "running":
            with suppress(Exception):
                self.client.sync(make, callback_timeout=_FAREWELL)


def _failed(unit: Unit, error: str) -> Computed:
    outcome = {"status": "failed", "error": error}
    return [(group, depth, outcome, 0.0) for group in unit.groups for depth in group.depths]


# --- on the workers -------------------------------------------------------------------------------


class _Cells(distributed().WorkerPlugin):  # type: ignore[misc]
    """A protocol and its images, on a worker; each sweep has its own name for them."""

    def __init__(self, protocol: Protocol, images: Images) -> None:
        self.protocol, self.images = protocol, images
        self.name = f"mnngp-cells-{uuid.uuid4().hex}"

    def setup(self, worker: Any) -> None:
        self.test = Test(self.protocol, self.images)
        self.kept: OrderedDict[Split, Prepared] = OrderedDict()
        self.lock = threading.Lock()
        # As many cells as the worker has threads run side by side.
        self.limit = (
            threadpool_limits(limits=1, user_api="blas") if worker.state.nthreads > 1 else None
        )

    def teardown(self, worker: Any) -> None:
        if self.limit is not None:
            self.limit.restore_original_limits()

    def __getstate__(self) -> dict[str, Any]:
        return {"protocol": self.protocol, "images": self.images, "name": self.name}

    def compute(self, unit: Unit) -> Computed:
        with self.lock:  # two threads do not compute the same angles
            data = self.kept.pop(unit.split, None)
            if data is None:
                forms = {group.form for group in self.protocol.groups if group.split == unit.split}
                while len(self.kept) >= _KEPT:
                    self.kept.popitem(last=False)
                data = Prepared(self.protocol, self.images, self.test, unit.split, forms)
            self.kept[unit.split] = data
        with self._alone(unit):
            return list(data.outcomes(unit.groups, _go_on))

    def _alone(self, unit: Unit) -> AbstractContextManager[None]:
        """The threads of a cell; cells that overlap must not each set what is the process's."""
        if self.limit is None:
            return limited(unit.split.n_train <= SMALL, {unit.groups[0].kind})
        if unit.groups[0].kind == "finite":
            import torch

            torch.set_num_threads(1)  # of this thread
        return nullcontext()


def _compute(name: str, unit: Unit) -> Computed:
    plugin: _Cells = distributed().get_worker().plugins[name]
    return plugin.compute(unit)


def _go_on(share: float = 0.0) -> None:
    """Nobody asks a worker to stop in the middle of a unit."""
