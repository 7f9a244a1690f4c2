"""Threads for the compiled loops: as many as the BLAS library may use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakSet

from threadpoolctl import ThreadpoolController

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
_SMALL = 200_000  # loop steps below which a thread costs more than it saves
# operations of BLAS from which its threads are worth waiting for: a tenth of a second on one core
_WORTH = 4e9


class _Holder:
    """One call that has the cores."""


class _Cores:
    """The cores, taken from BLAS while our threads run: its idle threads would spin on them.

    Where callers in several Python threads overlap, the first one limits BLAS and lifts the limit
    when it is done: a limit has to be lifted by the thread that set it. The others run under it, or
    for their rest without.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.owner: int | None = None
        # the owner's calls inside each other, as long as they live
        self.holders: WeakSet[_Holder] = WeakSet()
        self.threads = 1
        self.limit: Any = None

    @contextmanager
    def taken(self) -> Iterator[int]:
        """How many there are; given back whenever Ctrl-C comes, at once or by the next call."""
        holder = _Holder()
        try:
            yield self._take(holder)
        finally:
            self._give_back(holder)

    def _take(self, holder: _Holder) -> int:
        with self.lock:
            if self.owner is None:
                self.threads = _allowed()
                self.owner = threading.get_ident()
            if self.owner == threading.get_ident():
                self.holders.add(holder)
                if self.limit is None:
                    self.limit = _blas().limit(limits=1)
            return self.threads

    def _give_back(self, holder: _Holder) -> None:
        with self.lock:
            self.holders.discard(holder)
            if self.owner == threading.get_ident() and not self.holders:
                if self.limit is not None:
                    self.limit.restore_original_limits()
                self.owner = self.limit = None


_cores = _Cores()
_alone = threading.local()  # set in threads that have one core and no more
if hasattr(os, "register_at_fork"):  # the thread that holds them is not there in a child
    os.register_at_fork(after_in_child=_cores.__init__)  # type: ignore[misc]


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """NumPy's BLAS library; looking for it takes milliseconds, asking it does not."""
    return ThreadpoolController().select(user_api="blas")


def _allowed() -> int:
    """How many threads BLAS may use now, or ours where it does not say."""
    known = [pool["num_threads"] for pool in _blas().info() if pool["num_threads"]]
    return max(known) if known else _cores_allowed()


def count() -> int:
    """How many threads there may be now."""
    if getattr(_alone, "here", False):
        return 1
    with _cores.lock:
        return _allowed() if _cores.owner is None else _cores.threads


def _cores_allowed() -> int:
    """The cores of this process, where threadpoolctl does not know the BLAS (Accelerate).

    joblib looks at CPU affinity, at quotas of containers and at LOKY_MAX_CPU_COUNT; its workers get
    the other two variables.
    """
    import joblib

    allowed = int(joblib.cpu_count())
    for name in ("OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        # OpenMP takes a list, one for each level
        first = os.environ.get(name, "").split(",")[0].strip()
        if first.isdecimal() and int(first) > 0:
            allowed = min(allowed, int(first))
    return max(1, allowed)


def parallel_for(
    function: Callable[[_Task], object], tasks: Sequence[_Task], *, work: float
) -> None:
    """Call ``function`` on each task, in threads where there is work enough for them.

    There are as many threads as NumPy's BLAS may use now, so OMP_NUM_THREADS, OPENBLAS_NUM_THREADS,
    MKL_NUM_THREADS, CPU affinity, joblib's limits for its workers and
    ``threadpoolctl.threadpool_limits`` all hold here as well.
    """
    few = work <= _SMALL  # for BLAS as well
    if few or len(tasks) == 1 or count() == 1:
        with nullcontext() if few else one_blas_thread(work):
            for task in tasks:
                function(task)
        return
    with _cores.taken() as threads:
        _in_pool(function, tasks, threads)


def parallel_map(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], jobs: int
) -> list[_Result]:
    """What ``function`` makes of each task, ``jobs`` at a time, each with one core to itself.

    What it calls starts no threads of its own, so that results do not depend on ``jobs``.
    """

    def alone(task: _Task) -> _Result:
        before, _alone.here = getattr(_alone, "here", False), True
        try:
            return function(task)
        finally:
            _alone.here = before

    with _cores.taken():
        if jobs == 1 or len(tasks) <= 1:
            return [alone(task) for task in tasks]
        return _in_pool(alone, tasks, jobs)


def _in_pool(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], threads: int
) -> list[_Result]:
    """In threads of their own. An error, or Ctrl-C, ends it with the tasks that have begun."""
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(function, task) for task in tasks]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def one_blas_thread(operations: float) -> Iterator[None]:
    """One thread of BLAS for few ``operations``: others would cost more than they help.

    On a machine that is doing something else a thread may wait for a core, and BLAS waits for all
    of its threads, many times in one small decomposition.
    """
    if operations >= _WORTH:
        yield
        return
    with _cores.taken():
        yield
