"""The paper's grids beside the arithmetic that they cannot do without.

`python benchmarks/grid.py --data-dir DIR [FILE ...]` runs one repeat of protocol files, by default
the grid of 1,152 cells with 1,000 images of MNIST, and times in the same run a large matrix product
on each core. The *bare limit* is what a cell has to compute at the very least, at that speed: a
Cholesky factorisation, ten right-hand sides, a series for each pair of images, and the product with
ten columns. What is above it is memory, library calls, standardising, angles, scores and the store.

*Wall* is what you wait for. *CPU* is the time of all threads: on a machine that does nothing else
it is nearly the number of cores times the wall time, and on a busy one it says what that would have
been, or somewhat more, since others take the caches.
The files of the data are needed (`mnngp data fetch mnist`).
"""

import argparse
import os
import platform
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from revision import commit
from threadpoolctl import threadpool_limits

from mnngp import __version__, data
from mnngp._system import threads
from mnngp.experiments import cells, runner
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.store import Store

HERE = Path(__file__).parent
EXPERIMENTS = HERE.parent / "experiments"
SIZE = 1000  # of the matrices that are multiplied
CLASSES = 10


def once(path):
    """The first repeat of a protocol file."""
    tables = tomllib.loads(path.read_text())
    tables["data"]["repeats"] = 1
    return Protocol.of(tables)


def compiled(protocol, images):
    """Compile what the grid needs, by two of its cells."""
    prepared = _prepared(protocol, images)
    for group in (protocol.groups[0], protocol.groups[-1]):
        list(prepared.outcomes([group.at(group.depths[:1])], lambda *_: None))
    return prepared


def _prepared(protocol, images):
    split = protocol.groups[0].split
    return cells.Prepared(protocol, images, cells.Test(protocol, images), split, {"dense"})


def operations(protocol, prepared):
    """Floating point operations of all cells: additions and multiplications, each counted."""
    points, others = prepared.infinite.points, prepared.infinite.others
    n, m = len(points), sum(map(len, others))
    total, lengths = 0.0, []
    for group in protocol.groups:
        for depth in group.depths:
            chart = points.curve(group.kernel(depth).network).chart
            terms = len(chart.powers) or len(chart.series)
            lengths.append(terms)
            total += n**3 / 3 + 2 * n**2 * CLASSES
            total += 2 * terms * n * (n / 2 + m) + 2 * CLASSES * n * m
    return total, float(np.mean(lengths))


def speed(seconds=2.0):
    """Operations a second of matrix products by one thread on each core, all at once.

    By their CPU time, as if each had its core to itself; the number of threads.
    """

    def work(seed):
        a = np.random.default_rng(seed).normal(size=(SIZE, SIZE))
        done, begun, end = 0, time.thread_time(), time.perf_counter() + seconds
        while time.perf_counter() < end:
            a @ a
            done += 1
        return 2.0 * SIZE**3 * done / (time.thread_time() - begun)

    count = threads.count()
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(count) as pool:
        return sum(pool.map(work, range(count))), count


def grid(protocol, images):
    """Wall and CPU seconds of a sweep into a new store."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.begin(Path(folder) / "run.sqlite", protocol) as store,
    ):
        wall, cpu = time.perf_counter(), time.process_time()
        runner.run(protocol, store, images)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert all(result.status == "done" for result in store.results())
    return wall, cpu


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--repeats", type=int, default=3, help="the medians count")
    arguments = parser.parse_args()
    rows, loads = [], []
    for path in arguments.files or [EXPERIMENTS / "grid-mnist-1000-once.toml"]:
        protocol = once(path)
        images = data.load(protocol.dataset, arguments.data_dir)
        total, terms = operations(protocol, compiled(protocol, images))
        times = []
        for _ in range(arguments.repeats):
            loads.append(os.getloadavg()[0])
            (rate, count), (wall, cpu) = speed(), grid(protocol, images)
            bare = total / rate
            times.append((wall, cpu / count, bare, cpu / count / bare))
            print(f"{path.stem}: wall {wall:.1f} s, CPU {cpu:.1f} s, bare {bare:.1f} s", flush=True)
        wall, share, bare, ratio = np.median(times, axis=0)
        per_cell = 1e3 * share * count / len(protocol)
        rows.append(
            f"| {path.stem} | {len(protocol):,} | {terms:.0f} | {wall:.0f} | {share:.0f} | "
            f"{per_cell:.0f} | {bare:.0f} | {ratio:.1f} |"
        )
    lines = [
        "# The paper's grids beside bare arithmetic",
        "",
        f"- machine: {platform.machine()}, {os.cpu_count()} cores, load average of others before "
        f"the runs {min(loads):.1f} to {max(loads):.1f}",
        f"- mnngp {__version__} ({commit()}), NumPy {np.__version__}, {datetime.now(UTC):%Y-%m-%d}",
        f"- medians of {arguments.repeats}; one repeat of each protocol; compiled before",
        "- *CPU / cores* is the time of all threads by the number of cores: what the wall time "
        "comes near to on a machine that does nothing else",
        "- *bare limit*: factorisation, right-hand sides, series and product at the speed of a "
        "large matrix product in the same run; *ratio* of CPU / cores to it",
        "- command: `python benchmarks/grid.py --data-dir DIR`",
        "",
        "| protocol | cells | terms of the series | wall, s | CPU / cores, s | CPU a cell, ms | "
        "bare limit, s | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *rows,
    ]
    path = HERE / "results" / "grid.md"
    path.write_text("\n".join(lines) + "\n")
    print(path.read_text())


if __name__ == "__main__":
    main()
