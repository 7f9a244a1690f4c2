"""Connections to Dask clusters: one that is running, or one of processes on this machine, which listens on loopback alone."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from mnngp.errors import ClusterError, MissingExtraError

_PATIENCE = 20.0  # seconds to wait for a scheduler


def distributed() -> Any:
    """Dask's distributed scheduler, or how to get it."""
    try:
        import distributed as module
    except ImportError as error:
        raise MissingExtraError('a cluster needs Dask: pip install "mnngp[dask]"') from error
    return module


def client_at(address: str) -> Any:
    """A client of the scheduler at an address such as "tcp://10.0.0.1:8786"."""
    dask = distributed()
    try:
        _knock(address)
        return dask.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(f"there is no Dask scheduler at {address}: {error}") from error


def _knock(address: str) -> None:
    """Whether anybody listens there. (A client that finds nobody keeps trying when the program is at its end.)"""
    comm = distributed().comm
    protocol, location = comm.parse_address(address)
    if protocol in ("tcp", "tls"):
        host, port = comm.parse_host_port(location)
        if not port:
            raise ValueError("an address is like tcp://10.0.0.1:8786")
        socket.create_connection((host, port), timeout=_PATIENCE).close()


def local(workers: int | None = None, *, memory_limit: Any = "auto") -> tuple[Any, Any]:
    """Start a cluster of processes, as many as there are cores by default, which divide the cores among them.

    Returns its client and the cluster itself, to be closed in this order. It has no dashboard.
    """
    dask = distributed()
    cores = os.cpu_count() or 1
    count = workers or cores
    # A worker's libraries look at these when they are loaded.
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {name: os.environ.get(name, str(max(1, cores // count))) for name in names}
    cluster = dask.LocalCluster(
        n_workers=count,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
        memory_limit=memory_limit,
        env=environment,
        silence_logs=logging.CRITICAL,
    )
    return dask.Client(cluster, set_as_default=False), cluster
