"""A Dask cluster, as solvers use it.

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
from typing import Any, TypeVar

from mnngp._system import connection, memory
from mnngp._system.connection import (
    answered,
    client_at,
    compare,
    compared,
    distributed,
    local,
    versions,
)
from mnngp.errors import ClusterError, InputError

_Value = TypeVar("_Value")
_ATTEMPTS = 6  # products that fail one after the other
_CLOSING = 10.0  # seconds for a connection to be closed
_ADVICE = "fit again on a cluster that runs, or on this machine with solver='cg'"


class Session:
    """A connection to a cluster, closed with the last thing that uses it if it was opened here.

    Parameters
    ----------
    scheduler : str or distributed.Client or None
        An address such as "tcp://10.0.0.1:8786", a client, or None: the client that is active, or
        else a cluster of processes on this machine that listens to the loopback interface alone.
    """

    def __init__(self, scheduler: Any = None) -> None:
        distributed()
        import dask

        mine: list[Any] = []
        if isinstance(scheduler, str):
            mine = [client_at(scheduler)]
        elif scheduler is not None:
            check_client(scheduler)
            self.client = scheduler
        elif (active := _active()) is not None:
            self.client = active
        elif address := dask.config.get("scheduler-address", None):  # DASK_SCHEDULER_ADDRESS
            mine = [client_at(address, "DASK_SCHEDULER_ADDRESS")]
        else:
            mine = list(local())
        if mine:
            self.client = mine[0]
        self.close = weakref.finalize(self, _close, mine)

    def ask(self, make: Callable[[], Awaitable[_Value]]) -> _Value:
        """What comes of a call of the client, as ``connection.answered`` does it."""
        with self._closing():
            return answered(self.client, make, _ADVICE)

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
            compare(self.client, _ADVICE)
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
        return self.client.submit(compared, versions(), function, *arguments, pure=False)

    def completed(self, futures: Sequence[Any]) -> Iterator[Any]:
        """Each of them, when it has come to its end."""
        with self.client.as_current():
            ending = distributed().as_completed(futures)
        for _ in futures:
            yield self.ask(ending.__anext__)

    def results(self, futures: Sequence[Any]) -> list[Any]:
        """Their values."""
        return list(self.ask(lambda: self.client.gather(list(futures))))

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


def check_client(client: Any) -> None:
    """Raise if it is no client that a solve can use."""
    if not isinstance(client, distributed().Client):
        raise InputError(
            f"scheduler must be an address, a distributed.Client or None, got {client!r}"
        )
    if client.asynchronous:
        raise InputError(f"scheduler must be a client that is not asynchronous, got {client!r}")
    if client.status == "closed":
        raise ClusterError(f"the client that is given as scheduler is closed; {_ADVICE}")


def _close(owned: list[Any]) -> None:
    # what is forgotten may be collected by the client's own thread
    if any(thing.asynchronous for thing in owned):
        threading.Thread(target=_close, args=(owned,)).start()
        return
    for thing in owned:
        with suppress(Exception):  # the other side may be gone, or stopped
            thing.close(timeout=_CLOSING)
