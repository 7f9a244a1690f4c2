"""What derivatives cost: those of a kernel matrix in time, those of the evidence in memory.

    python benchmarks/gradient.py

A network of depth 10 with a weight and a bias variance for each layer, 22 hyperparameters. What
must hold: `k(X, eval_gradient=True)` takes at most six times the plain matrix, plus the time to
write its result; the evidence's gradient takes no memory that grows as n² times the number of
hyperparameters. The sides take turns, and medians are shown, for one thread and for all of them:
where two virtual cores are one real one, threads help the plain matrix or not, as luck has it.
"""

import argparse
import itertools
import platform
import statistics
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from mnngp import MaxoutKernel
from mnngp._system import threads
from mnngp.inference import Posterior, log_evidence_gradient

HERE = Path(__file__).parent
DEPTH = 10


def kernel(kind: str, *, layers: bool) -> MaxoutKernel:
    if not layers:
        return MaxoutKernel(DEPTH, 4, 0.7, 0.2, kind)
    weights, biases = np.linspace(0.6, 0.9, DEPTH + 1), np.linspace(0.1, 0.3, DEPTH + 1)
    return MaxoutKernel(DEPTH, 4, list(weights), list(biases), kind)


def seconds(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def time_of_matrices(n: int, turns: int) -> list[str]:
    X, lines = np.random.default_rng(0).normal(size=(n, 20)), []
    for kind, limit in itertools.product(("nngp", "ntk"), sorted({1, threads.count()})):
        k = kernel(kind, layers=True)
        count = len(k.theta)
        tasks = {
            "plain": lambda k=k: k(X),
            "write": lambda count=count: np.empty((count, n, n)).fill(1.0),
            "gradient": lambda k=k: k(X, eval_gradient=True),
        }
        found = {name: [] for name in tasks}
        with threadpool_limits(limit):
            for task in tasks.values():
                task()
            for _ in range(turns):
                for name, task in tasks.items():
                    found[name].append(seconds(task))
        plain, write, gradient = (1e3 * statistics.median(part) for part in found.values())
        lines.append(
            f"| {kind}, {count} hyperparameters | {limit} | {plain:.0f} | {write:.0f} "
            f"| {gradient:.0f} | {(gradient - write) / plain:.1f} |"
        )
    return lines


def memory_of_evidence(n: int) -> list[str]:
    X, lines = np.random.default_rng(0).normal(size=(n, 20)), []
    for layers in (False, True):
        k = kernel("nngp", layers=layers)
        posterior = Posterior(k, X, np.sin(X[:, 0]), 1e-2)
        tracemalloc.start()
        gradient = log_evidence_gradient(posterior)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        lines.append(f"| {len(gradient)} | {peak / 2**20:.0f} | {peak / (8 * n * n):.2f} |")
    return lines


def main(n: int, n_evidence: int, turns: int) -> None:
    text = [
        f"Derivatives, depth {DEPTH}, rank 4; {datetime.now(UTC):%Y-%m-%d}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}; "
        f"medians of {turns} turns.",
        "",
        f"The kernel matrix of {n:,} points, milliseconds:",
        "",
        "| kernel | threads | plain matrix | writing the result | with its gradient "
        "| ratio, less writing |",
        "|---|---|---|---|---|---|",
        *time_of_matrices(n, turns),
        "",
        f"Memory of the evidence's gradient at n = {n_evidence:,}, beyond the posterior itself:",
        "",
        "| derivatives | MiB | in n² doubles |",
        "|---|---|---|",
        *memory_of_evidence(n_evidence),
    ]
    (HERE / "results" / "gradient.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--n-evidence", type=int, default=4000)
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    main(options.n, options.n_evidence, options.turns)
