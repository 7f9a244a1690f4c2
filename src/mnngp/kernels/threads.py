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

    Callers in several Python threads may overlap: the first takes, the last gives back.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.callers = 0
        self.threads = 1
        self.limit: Any = None

    def __enter__(self) -> int:
        with self.lock:
            if self.callers == 0:
                blas = _blas()
                self.threads = max((pool["num_threads"] for pool in blas.info()), default=1)
                self.limit = blas.limit(limits=1)
                self.limit.__enter__()
            self.callers += 1
            return self.threads

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.callers -= 1
            if self.callers == 0:
                self.limit.__exit__(*error)


_cores = _Cores()


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """NumPy's BLAS library; looking for it takes milliseconds, asking it does not."""
    return ThreadpoolController().select(user_api="blas")


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
