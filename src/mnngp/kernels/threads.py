"""Threads for the compiled loops: as many as the BLAS library may use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

_Task = TypeVar("_Task")
_SMALL = 200_000  # loop steps below which a thread costs more than it saves


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """NumPy's BLAS library; looking for it takes milliseconds, asking it does not."""
    return ThreadpoolController().select(user_api="blas")


def spread(function: Callable[[_Task], object], tasks: Sequence[_Task], *, work: float) -> None:
    """Call ``function`` on each task, in threads where there is work enough for them.

    There are as many threads as NumPy's and SciPy's BLAS may use now, so OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, MKL_NUM_THREADS,
    CPU affinity, joblib's limits for its workers and ``threadpoolctl.threadpool_limits`` all hold here as well. While they
    run, BLAS has one thread in each: its own idle threads spin, and would take the cores from ours.
    """
    if work <= _SMALL or len(tasks) == 1:
        for task in tasks:
            function(task)
        return
    controller = _blas()
    threads = max((pool["num_threads"] for pool in controller.info()), default=1)
    with controller.limit(limits=1), ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(function, tasks):
            pass
