"""The sweep on Dask: two worker processes beside one, in cells a second.

`python benchmarks/workers.py` runs this: a grid of 1,152 networks on 900 of scikit-learn's digits.
Starting the cluster and compiling are not in the times; sending the images and preparing the angles
are. The two take turns, and medians are compared.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from kernel import machine
from rich.console import Console

from mnngp import data
from mnngp.experiments import dask_runner
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.store import Store

RESULTS = Path(__file__).parent / "results"
GRID = {
    "activation": "maxout",
    "rank": [2, 3, 4],
    "depth": [1, 5, 9, 13, 17, 21],
    "weight_var": {"from": 0.1, "to": 4.83, "count": 4},
    "bias_var": {"from": 0.069, "to": 2.0, "count": 4},
}


def protocol(seed: int, count: int = 4) -> Protocol:
    grid = GRID | {name: GRID[name] | {"count": count} for name in ("weight_var", "bias_var")}
    return Protocol.of(
        {
            "data": {"name": "digits", "train": 900, "validation": 298, "seed": seed, "repeats": 2},
            "family": [grid],
        }
    )


def cells_a_second(client, what: Protocol) -> float:
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.begin(Path(folder) / "run.sqlite", what) as store,
    ):
        start = time.perf_counter()
        dask_runner.run(what, store, data.load("digits"), client)
        seconds = time.perf_counter() - start
        assert store.about()["done"] == len(what)
    return len(what) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the workers: one core each
    console = Console(width=140)
    found: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(arguments.turns):
        for workers, rates in found.items():
            with dask_runner.connected(workers=workers) as client:
                cells_a_second(client, protocol(seed=100, count=1))  # compiles, and warms up
                rates.append(cells_a_second(client, protocol(seed=turn)))
                console.print(f"turn {turn + 1}, {workers} workers: {rates[-1]:.1f} cells a second")
    one, two = (statistics.median(rates) for rates in found.values())
    report = [
        "# The sweep on Dask, two workers beside one",
        "",
        f"{len(protocol(0)):,} cells of 900 digits, one thread a worker. Made by `python "
        "benchmarks/workers.py`.",
        "",
        *(f"- {name}: {value}" for name, value in (machine() | {"turns": arguments.turns}).items()),
        "",
        "| one worker, cells a second | two workers | ratio |",
        "| ---: | ---: | ---: |",
        f"| {one:.1f} | {two:.1f} | {two / one:.2f} |",
    ]
    (RESULTS / "workers.md").write_text("\n".join(report) + "\n")
    console.print("\n".join(report))


if __name__ == "__main__":
    main()
