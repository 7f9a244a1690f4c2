"""What a fit will take, before it starts: time, memory and traffic, from costs that were measured.

For n points of d features, L layers, k right-hand sides (the targets and an intercept), W workers
of T threads, with the costs of one thread (``costs.json``, made by ``benchmarks/large.py``), E =
n²/2 entries and the share p of them that is kept:

    entry      = entry + feature · d + layer · (L + 1)     seconds to compute an entry of the kernel
    cholesky   = E · entry + factor · n³/3
    iteration  = E · (product + column · k) + E · entry · (1 - p)
    cg         = E · entry · p + n r · entry + root · n r² + I · (iteration + 4 root · n r k)

Work on E is divided by W · T · ``efficiency``; what the client does (the terms with the
preconditioner's rank r) by its own T. A cluster adds ``task`` seconds for each task, and the
vectors' way over the network. The number of iterations I depends on the data and the noise above
all; ``iterations`` and ``growth`` are the benchmark's.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from mnngp import _validation
from mnngp._system import memory
from mnngp.errors import InputError

SOLVERS = ("cholesky", "cg", "dask")
_TASKS = 4  # patches a worker, each of which runs one task at a time, with all its threads
_TILE = 1024
_RANK = 512
_KEPT_SHARE = 0.4


@dataclass(frozen=True)
class Costs:
    """Seconds of one thread for each kind of work, and what is assumed of a cluster."""

    entry: float  # for an entry of the kernel, whatever it is
    feature: float  # more for each feature
    layer: float  # and for each layer
    factor: float  # a multiplication and addition of the factorisation, with the solves behind it
    product: float  # for an entry of a product with kept tiles
    column: float  # more for each right-hand side
    root: float  # for a multiplication and addition with the preconditioner
    iterations: float  # ``iterations · (n / 10,000)^growth``
    growth: float
    task: float  # for Dask's scheduler to handle a task
    efficiency: float = 0.8  # share of a thread's speed that is left when all work: assumed
    bandwidth: float = 1.25e9  # bytes a second into or out of a worker: assumed, 10 Gbit/s


@cache
def measured() -> Costs:
    """The costs that come with the package."""
    text = files("mnngp.inference").joinpath("costs.json").read_text(encoding="utf-8")
    return Costs(**json.loads(text)["costs"])


@dataclass(frozen=True)
class Workload:
    """What is to be fitted, and where. With one worker the plan is for this machine."""

    n: int
    features: int
    depth: int = 5
    targets: int = 1
    workers: int = 1
    threads: int = 1  # of each worker
    memory: int | str = "16GB"  # of each worker, and of the client
    dtype: str = "float64"
    iterations: int | None = None  # if you know better than the benchmark

    def __post_init__(self) -> None:
        for name in ("n", "features", "depth", "targets", "workers", "threads"):
            _validation.positive_int(name, getattr(self, name))
        if self.iterations is not None:
            _validation.positive_int("iterations", self.iterations)
        _validation.one_of("dtype", self.dtype, ("float64", "float32"))
        if self.bytes == 0:
            raise InputError(f"memory must be above zero, got {self.memory!r}")

    @property
    def bytes(self) -> int:
        """The memory of each worker."""
        return memory.parse_bytes("memory", self.memory)

    @property
    def itemsize(self) -> int:
        """Bytes of an entry."""
        return 8 if self.dtype == "float64" else 4


@dataclass(frozen=True)
class Plan:
    """What one solver would take."""

    solver: str
    seconds: float
    parts: dict[str, float]  # where the seconds go
    worker_memory: float  # bytes at most; of a fit on one machine both are in the same process
    client_memory: float
    traffic: float  # bytes over the network in all
    kept: float  # share of the kernel that stays in memory; the rest is computed in every iteration
    iterations: int  # zero for a factorisation
    fits: bool  # whether the memory is enough

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        size = memory.format_bytes
        line = f"{self.solver}: about {duration(self.seconds)}, {size(self.worker_memory)} a worker"
        if self.solver == "dask":
            line += (
                f", {size(self.client_memory)} on the client, {size(self.traffic)} over the network"
            )
        if self.iterations:
            tiles = "kept" if self.kept == 1.0 else "computed anew in every iteration"
            if 0.0 < self.kept < 1.0:
                tiles = f"{100.0 * self.kept:.0f} % kept, the rest {tiles}"
            line += f"; {self.iterations} iterations, the kernel is {tiles}"
        return line + ("" if self.fits else "; it does not fit into the memory")


def plans(workload: Workload, costs: Costs | None = None) -> list[Plan]:
    """What each solver would take that the workload can have: the best that fits is first.

    Examples
    --------
    >>> best, *others = plans(Workload(n=20_000, features=784, memory="8GB"))
    >>> best.fits, {plan.solver for plan in [best, *others]} == {"cg", "cholesky"}
    (True, True)
    """
    ways = (_conjugate_gradients, _cholesky) if workload.workers == 1 else (_conjugate_gradients,)
    made = [way(workload, costs or measured()) for way in ways]
    return sorted(made, key=lambda plan: (not plan.fits, plan.seconds))


def describe_here(solver: str, n: int, features: int, depth: int, targets: int, dtype: Any) -> str:
    """What a fit on this machine, with its free memory and threads, will take; for people."""
    from mnngp._system import threads

    here = 1, threads.count(), memory.available(), str(dtype)
    made = plans(Workload(n, features, depth, targets, *here))
    told = [str(plan) for plan in made if plan.solver == solver] or ["on a cluster"]
    return f"n = {n:,}; {told[0]}"


def _entry(load: Workload, costs: Costs) -> float:
    return costs.entry + costs.feature * load.features + costs.layer * (load.depth + 1)


def _speed(threads: int, costs: Costs) -> float:
    """Threads' worth of work done at a time."""
    return threads * (costs.efficiency if threads > 1 else 1.0)


def _cholesky(load: Workload, costs: Costs) -> Plan:
    n, speed = float(load.n), _speed(load.threads, costs)
    parts = {
        "kernel": 0.5 * n * n * _entry(load, costs) / speed,
        "factorisation": costs.factor * n**3 / 3.0 / speed,
    }
    need = 0.5 * load.itemsize * n * n * (1.0 + 1.0 / 32.0) + 2.0 * 8.0 * n * load.features
    return Plan("cholesky", sum(parts.values()), parts, need, need, 0.0, 1.0, 0, need <= load.bytes)


def _conjugate_gradients(load: Workload, costs: Costs) -> Plan:
    n, k, cluster = float(load.n), load.targets + 1, load.workers > 1
    entries, entry = 0.5 * n * n, _entry(load, costs)
    speed, own = _speed(load.workers * load.threads, costs), _speed(load.threads, costs)
    rank = min(_RANK, load.n // 8, load.bytes // 2 // (64 * load.n))
    iterations = load.iterations or max(1, round(costs.iterations * (n / 1e4) ** costs.growth))
    points, vectors, root = 8.0 * n * load.features, 6.0 * 8.0 * n * k, 16.0 * n * rank
    budget = 0.5 * load.bytes - root
    if cluster:
        budget = load.workers * (_KEPT_SHARE * load.bytes - points)
    kept = min(1.0, max(0.0, budget) / (load.itemsize * entries))
    anew = entries * entry * (1.0 - kept)
    parts = {
        "kernel": entries * entry * kept / speed,
        "preconditioner": (n * rank * entry + costs.root * n * rank**2) / own,
        "products": iterations * (entries * (costs.product + costs.column * k) + anew) / speed,
        "preconditioning": iterations * 4.0 * costs.root * n * rank * k / own,
    }
    tiles, working = kept * load.itemsize * entries, 4.0 * 8.0 * _TILE**2 * load.threads
    client = worker = tiles + root + 2.0 * points + vectors + working
    traffic = 0.0
    if cluster:
        largest = n * math.sqrt(load.itemsize / (0.1 * load.bytes))
        rows = max(2.0, math.sqrt(2.0 * _TASKS * load.workers), largest)
        rows = min(rows, max(2.0, n / _TILE))
        patches = 0.5 * rows * (rows + 1.0)
        # the vectors to each patch, and both its products to two sums
        among, own_way = patches * 2.0 * (n / rows) * k * 8.0 * 3.0, 2.0 * 8.0 * n * k
        traffic = iterations * (among + own_way) + points * min(load.workers, rows)
        parts["scheduling"] = iterations * costs.task * (patches + rows)
        parts["network"] = iterations * (among / load.workers + own_way) / costs.bandwidth
        worker = tiles / load.workers + points + vectors / 3.0 + working
        client = 2.0 * points + root + vectors
    fits = worker <= load.bytes and client <= load.bytes
    name = "dask" if cluster else "cg"
    return Plan(name, sum(parts.values()), parts, worker, client, traffic, kept, iterations, fits)


def duration(seconds: float) -> str:
    """A time for people.

    Examples
    --------
    >>> duration(90.0), duration(7200.0), duration(1e6)
    ('90 s', '2 hours', '12 days')
    """
    days = 86400.0
    units = ((365.0 * days, "years"), (days, "days"), (3600.0, "hours"), (60.0, "minutes"))
    unit, name = next((pair for pair in units if seconds >= 2.0 * pair[0]), (1.0, "s"))
    count = seconds / unit
    if name == "s":
        return f"{count:.2g} s" if count < 100.0 else f"{count:.0f} s"
    return f"{count:.2g} {name}" if count < 100.0 else f"{count:,.0f} {name}"
