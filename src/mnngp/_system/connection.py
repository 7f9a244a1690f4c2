"""Connections to Dask clusters: a running one, or processes on this machine, on loopback alone.

Dask itself waits for ever for a scheduler that does not answer, in the handshake and in every call.
So calls go through ``answered`` here: they may take as long as they like, but meanwhile the
scheduler is asked now and then, and has to answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import mnngp
from mnngp import _validation
from mnngp.errors import ClusterError, InputError, MissingExtraError

_Value = TypeVar("_Value")
# seconds without an answer of a scheduler that answered before, or without any worker
PATIENCE = 60.0
_LOOK = 5.0  # seconds between two questions
_STARTS = 2  # of a cluster on this machine, if a worker dies while it starts
_LIKE = "an address such as 'tcp://10.0.0.1:8786'"


def distributed() -> Any:
    """Dask's distributed scheduler, or how to get it."""
    try:
        import distributed as module
    except ImportError as error:
        raise MissingExtraError('a cluster needs Dask: pip install "mnngp[dask]"') from error
    return module


# --- connecting -----------------------------------------------------------------------------------


def checked_address(name: str, value: str) -> str:
    """A scheduler's address with its port, of a protocol that Dask has, or an ``InputError``.

    Examples
    --------
    >>> checked_address("scheduler", "tcp://10.0.0.1:8786")
    'tcp://10.0.0.1:8786'
    """
    from distributed.comm import parse_address, parse_host_port, registry

    try:
        protocol, location = parse_address(value)
        if not value.strip() or value != value.strip():
            raise ValueError("it is empty" if not value.strip() else "there are spaces around it")
        registry.get_backend(protocol)
        if protocol != "inproc":  # in this process; it has no port
            host, port = parse_host_port(location)
            if not host or not 0 < port < 1 << 16:
                raise ValueError("it has no host, or no port that there is")
    # of Dask, or of a protocol that is not installed
    except (ValueError, RuntimeError, ImportError) as error:
        raise InputError(f"{name} must be {_LIKE}, got {value!r}: {error}") from error
    return value


def client_at(address: str, name: str = "scheduler") -> Any:
    """A client of the scheduler at an address; ``name`` is that of the argument."""
    dask = distributed()
    checked_address(name, address)
    try:
        kind = _who(address)
        if kind != "Scheduler":
            raise ClusterError(
                f"there is no Dask scheduler at {address}: it is the address of a {kind}"
            )
        return dask.Client(address, timeout=_first(), set_as_default=False)
    except TimeoutError as error:
        reason = (
            f"no answer in {_first():g} s; the port is something else's, or the scheduler is "
            "stopped"
        )
        raise ClusterError(f"there is no Dask scheduler at {address}: {reason}") from error
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise ClusterError(f"there is no Dask scheduler at {address}: {error}") from error


def check_client(name: str, client: Any, advice: str) -> None:
    """Raise if it is no client that work can be given to; ``name`` is that of the argument."""
    if not isinstance(client, distributed().Client):
        raise InputError(f"{name} must be an address, a distributed.Client or None, got {client!r}")
    if client.asynchronous:
        raise InputError(f"{name} must be a client that is not asynchronous, got {client!r}")
    if client.status == "closed":
        raise ClusterError(f"the client that is given as {name} is closed; {advice}")


def _first() -> float:
    """Seconds for a scheduler's first answer, and to get it back: Dask's setting."""
    import dask

    return float(dask.utils.parse_timedelta(dask.config.get("distributed.comm.timeouts.connect")))


def _who(address: str) -> str:
    """What kind of a Dask server is there.

    A client would wait for ever for one that accepts a connection and does not answer.
    """
    dask = distributed()

    async def ask() -> Any:
        arguments = dask.Security().get_connection_args("client")
        async with dask.rpc(address, timeout=_first(), connection_args=arguments) as server:
            return await server.identity()

    async def bounded() -> Any:
        return await asyncio.wait_for(ask(), _first())

    protocol, location = dask.comm.parse_address(address)
    if protocol == "inproc":
        return "Scheduler"
    if protocol in ("tcp", "tls"):  # where nobody listens, Dask would try again and again
        socket.create_connection(dask.comm.parse_host_port(location), timeout=_first()).close()
    with ThreadPoolExecutor(1) as thread:  # a notebook's own thread has a loop that runs
        return str(thread.submit(asyncio.run, bounded()).result()["type"])


def local(workers: int | None = None, *, memory_limit: Any = "auto") -> tuple[Any, Any]:
    """Start a cluster of processes, one a core by default, which divide the cores among them.

    Returns its client and the cluster itself, to be closed in this order. It has no dashboard.
    """
    dask = distributed()
    cores = os.cpu_count() or 1
    count = cores if workers is None else _validation.positive_int("workers", workers)
    # A worker's libraries look at these when they are loaded.
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {name: os.environ.get(name, str(max(1, cores // count))) for name in names}
    for attempt in range(_STARTS):
        try:
            cluster = dask.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                # health and such, on a port that is free
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                memory_limit=memory_limit,
                env=environment,
                preload=[__name__],
                silence_logs=logging.CRITICAL,
            )
            break
        except RuntimeError as error:  # a nanny's
            if attempt == _STARTS - 1:
                raise ClusterError(
                    f"a worker on this machine died while it started, {_STARTS} times; is there "
                    f"memory for {count} processes? "
                    "(In a script, what starts them has to stand below if __name__ == '__main__':)"
                ) from error
    return dask.Client(cluster, set_as_default=False), cluster


def dask_setup(worker: Any) -> None:
    """A worker of ours leaves an interrupt at the terminal to who started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# --- asking ---------------------------------------------------------------------------------------


def answered(client: Any, make: Callable[[], Awaitable[_Value]], advice: str) -> _Value:
    """What comes of a call that ``make`` makes on the client's loop, however long it takes.

    It is a ``ClusterError``, which ends in the advice, if meanwhile the scheduler is gone, or if
    for ``PATIENCE`` seconds it does not answer or there is no worker.
    """
    if client.status not in ("running", "connecting"):
        raise ClusterError(f"the client of the cluster is closed; {advice}")
    address = client.scheduler.address

    async def watched() -> _Value:
        work, empty = asyncio.ensure_future(make()), time.monotonic()
        try:
            while not (await asyncio.wait({work}, timeout=_LOOK))[0]:
                if await _workers(client, address, advice):
                    empty = time.monotonic()
                elif time.monotonic() > empty + PATIENCE:
                    raise ClusterError(
                        f"the cluster at {address} has had no worker for {PATIENCE:g} s; {advice}"
                    )
            return work.result()
        except ClusterError:
            raise
        except Exception:
            if client.status != "running":  # that is why
                await _workers(client, address, advice)
            raise
        finally:
            work.cancel()

    return client.sync(watched)  # type: ignore[no-any-return]


async def _workers(client: Any, address: str, advice: str) -> int:
    """How many workers the scheduler has, as soon as it answers.

    A client that lost it tries to get it back for a while.
    """
    end = time.monotonic() + PATIENCE
    while client.status in ("running", "connecting"):
        try:
            return len(
                await asyncio.wait_for(client.scheduler.ncores(), max(0.0, end - time.monotonic()))
            )
        except (OSError, RuntimeError) as error:  # with TimeoutError
            if time.monotonic() > end and client.status == "running":
                raise ClusterError(
                    f"the scheduler at {address} has not answered for {PATIENCE:g} s: it is "
                    f"stopped, or out of reach; {advice}"
                ) from error
        if time.monotonic() > end:
            break
        await asyncio.sleep(0.1)
    raise ClusterError(
        f"the scheduler at {address} is gone: it has ended, or the connection to it; {advice}"
    )


# --- versions -------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """What has to be the same on all machines, for results (mnngp, NumPy) or pickles (Python)."""
    import numpy as np

    minor = ".".join(np.__version__.split(".")[:2])
    return {
        "mnngp": mnngp.__version__,
        "Python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "NumPy": minor,
    }


def compare(client: Any, advice: str) -> None:
    """Raise a ``ClusterError`` if a worker has other versions than there are here, or no mnngp."""
    found = answered(client, lambda: client.run(versions, on_error="return"), advice)
    for worker, theirs in found.items():
        if isinstance(theirs, OSError):
            continue  # it died
        if isinstance(theirs, BaseException):
            raise ClusterError(
                f"the worker at {worker} cannot compute this: {type(theirs).__name__}: {theirs}. "
                f"Install mnngp {mnngp.__version__} there"
            )
        _agree(worker, theirs, versions())


def compared(ours: dict[str, str], function: Callable[..., _Value], *arguments: Any) -> _Value:
    """On a worker, which may join at any time: the function's value, if versions agree."""
    if versions() != ours:
        _agree(distributed().get_worker().address, versions(), ours)
    return function(*arguments)


def _agree(worker: str, theirs: dict[str, str], ours: dict[str, str]) -> None:
    other = [name for name in ours if theirs.get(name) != ours[name]]
    if other:
        has, needs = (
            " and ".join(f"{name} {known.get(name)}" for name in other) for known in (theirs, ours)
        )
        raise ClusterError(
            f"the worker at {worker} has {has}, and not {needs} as here: install "
            "the same everywhere"
        )
