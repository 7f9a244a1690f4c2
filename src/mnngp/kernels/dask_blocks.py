"""Blocks of a kernel matrix on the workers of a Dask cluster.

The data travel to each worker once, as a plugin, which the scheduler also gives to workers that
join later; what a block needs of each image alone is kept there. A task is a place, and its result
a block. Dask computes again what a worker had that died; a block that took several workers with it
is an error.

Dask sends Python objects, by pickle, between the client, the scheduler and the workers: whoever can
reach one of them can run code there.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

from threadpoolctl import threadpool_limits

from mnngp._system.connection import (
    answered,
    check_client,
    client_at,
    compare,
    compared,
    distributed,
    versions,
)
from mnngp._typing import Matrix
from mnngp.errors import ClusterError
from mnngp.kernels.blocks import Blocks, Place

_ADVICE = "with a store what is finished is kept, and the same call goes on"
_AHEAD = 2  # blocks for each thread of the workers: none waits for the next
_LOST = 3  # times that a block may be lost
_FAREWELL = 5.0  # seconds for what need not be heard, and for a connection to be closed


@contextmanager
def on_cluster(blocks: Blocks, client: Any) -> Iterator[ClusterBlocks]:
    """Have blocks computed by a client's workers; it may be an address, too."""
    distributed()
    opened = client_at(client, "client") if isinstance(client, str) else client
    check_client("client", opened, _ADVICE)
    try:
        compare(opened, _ADVICE)
        plugin = _Data(blocks)
        answered(opened, lambda: opened.register_plugin(plugin), _ADVICE)
        try:
            yield ClusterBlocks(opened, plugin.name)
        finally:
            _tell(opened, lambda: opened.unregister_worker_plugin(plugin.name))
    finally:
        if opened is not client:
            with suppress(Exception):  # it may be stopped
                opened.close(timeout=_FAREWELL)


class ClusterBlocks:
    """The blocks of a plugin."""

    def __init__(self, client: Any, name: str) -> None:
        self.client, self.name = client, name
        self.threads = max(1, sum(self._ask(client.nthreads).values()))

    def measured(self) -> tuple[int, float]:
        """``Blocks.measured`` on one of the workers, and the seconds of a pair on all together."""
        future = self._submit("measured")
        size, pair = self._ask(lambda: self.client.gather(future))
        return size, pair / len(self._ask(self.client.nthreads) or [None])

    def computed(self, size: int, places: Iterable[Place]) -> Iterator[tuple[Place, Matrix]]:
        """Blocks as they are finished, in any order."""
        waiting, running, lost = iter(places), {}, Counter[Place]()
        with self.client.as_current():
            ending = distributed().as_completed()

        def submit(place: Place) -> None:
            future = self._submit("block", size, place)
            running[future.key] = place, future
            ending.add(future)

        try:
            for place in islice(waiting, _AHEAD * self.threads):
                submit(place)
            while running:
                future = self._ask(ending.__anext__)
                place, _ = running.pop(future.key)
                values = self._values(future)
                if values is not None:
                    yield place, values
                else:
                    lost[place] += 1
                    if lost[place] > _LOST:
                        raise ClusterError(
                            f"workers died {lost[place]} times computing the block {place}; is "
                            f"their memory enough? {_ADVICE}"
                        )
                    submit(place)
                    continue
                for following in islice(waiting, 1):
                    submit(following)
        finally:
            futures = [future for _, future in running.values()]
            if futures:
                _tell(self.client, lambda: self.client.cancel(futures, force=True))

    def _values(self, future: Any) -> Matrix | None:
        """A finished block; None if it was lost with a worker."""
        try:
            return self._ask(lambda: self.client.gather(future))  # type: ignore[no-any-return]
        except (OSError, CancelledError, distributed().KilledWorker):
            return None
        except LookupError as error:
            raise ClusterError(f"a worker does not have the data: {error}; {_ADVICE}") from error

    def _submit(self, method: str, *arguments: Any) -> Any:
        return self.client.submit(
            compared, versions(), _on_worker, self.name, method, *arguments, pure=False
        )

    def _ask(self, make: Callable[[], Any]) -> Any:
        return answered(self.client, make, _ADVICE)


def _tell(client: Any, make: Callable[[], Any]) -> None:
    """Where no answer is needed, and perhaps nobody is there to give one."""
    if client.status == "running":
        with suppress(Exception):
            client.sync(make, callback_timeout=_FAREWELL)


# --- on the workers -------------------------------------------------------------------------------


def _on_worker(name: str, method: str, *arguments: Any) -> Any:
    plugin = distributed().get_worker().plugins[name]
    return getattr(plugin.blocks, method)(*arguments)


class _Data(distributed().WorkerPlugin):  # type: ignore[misc]
    """The kernel and the data, on a worker; each matrix has its own name for them."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks, self.name = blocks, f"mnngp-blocks-{uuid.uuid4().hex}"
        self.limit: Any = None

    def setup(self, worker: Any) -> None:
        # as many blocks as the worker has threads are computed side by side
        if worker.state.nthreads > 1:
            self.limit = threadpool_limits(limits=1, user_api="blas")

    def teardown(self, worker: Any) -> None:
        if self.limit is not None:
            self.limit.restore_original_limits()
