"""Threads for the compiled loops: as many as the BLAS library may use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

_Task = TypeVar("_Task")
_SMALL = 200_000  # loop steps below which a thread costs more than it saves


class _Cores:
    """The cores, taken from BLAS while our threads run: its own idle threads spin, and would take them from ours.

    Where callers in several Python threads overlap, the first one limits BLAS and lifts the limit when it is done: a limit
    has to be lifted by the thread that set it. The others run under it, or for their rest without.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owner: int | None = None
        self.threads = 1
        self.limit: Any = None

    def __enter__(self) -> int:
        with self.lock:
            if self.owner is None:
                self.threads = count()
                self.limit = _blas().limit(limits=1)
                self.limit.__enter__()
                self.owner = threading.get_ident()
            return self.threads

    def __exit__(self, *error: object) -> None:
        with self.lock:
            if self.owner == threading.get_ident():
                self.owner = None
                self.limit.__exit__(*error)


_cores = _Cores()


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """NumPy's BLAS library; looking for it takes milliseconds, asking it does not."""
    return ThreadpoolController().select(user_api="blas")


def count() -> int:
    """How many threads there may be now."""
    return max((pool["num_threads"] for pool in _blas().info()), default=1)


def spread(function: Callable[[_Task], object], tasks: Sequence[_Task], *, work: float) -> None:
    """Call ``function`` on each task, in threads where there is work enough for them.

    There are as many threads as NumPy's BLAS may use now, so OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, MKL_NUM_THREADS, CPU
    affinity, joblib's limits for its workers and ``threadpoolctl.threadpool_limits`` all hold here as well.
    """
    if work <= _SMALL or len(tasks) == 1:
        for task in tasks:
            function(task)
        return
    with _cores as threads, ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(function, tasks):
            pass
