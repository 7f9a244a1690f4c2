"""The sweep beside doing the same one at a time.

`python benchmarks/sweep.py --data-dir DIR` times, on MNIST,

1. one cell of the size of the paper's largest quick one (5,000 training and 10,000 test images,
rank 4, depth 17), beside the
   method of the authors' program: a table of F_q, linear interpolation in every layer, whole
   matrices (NumPy);
2. the paper's grid of 1,152 cells (1,000 training, 10,000 validation and 10,000 test images),
beside the same cells one at a time
   through the estimator: a random part of those, scaled up.

Needs the files of MNIST (`mnngp data fetch mnist`), some 12 GB of memory for the peer, and a quiet
machine.
"""

import argparse
import os
import platform
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import scipy.linalg
from revision import commit
from rich.console import Console

from mnngp import Maxout, MaxoutGPClassifier, __version__, data
from mnngp.experiments import cells, runner
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.store import Store

HERE = Path(__file__).parent
GRID = HERE.parent / "experiments" / "grid-mnist-1000-once.toml"
CELL = {"rank": 4, "depth": 17, "weight_var": 0.1 + 49 * 4 / 290, "bias_var": 2 * 9 / 29}
NODES = 1001


def timed(function):
    start = time.perf_counter()
    value = function()
    return value, time.perf_counter() - start


def one_cell(images, repeats):
    """Through the sweep: seconds for reading nothing, standardising, angles, kernel, factor,
    predictions and scores.
    """
    family = {"activation": "maxout", **CELL}
    seconds, accuracy = [], None
    for _ in range(repeats + 1):  # the first one compiles
        protocol = Protocol.of(
            {
                "data": {"name": "mnist", "train": [5000], "validation": 1, "repeats": 1},
                "family": [family],
            }
        )
        with (
            tempfile.TemporaryDirectory() as folder,
            Store.begin(Path(folder) / "run.sqlite", protocol) as store,
        ):
            _, spent = timed(
                lambda store=store, protocol=protocol: runner.run(protocol, store, images)
            )
            accuracy = store.results()[0].test_accuracy
        seconds.append(spent)
    return statistics.median(seconds[1:]), accuracy


def peer_cell(images):
    """The same cell by the method of the authors' program. The table itself is not timed: it was
    made before.
    """
    protocol = Protocol.of(
        {
            "data": {"name": "mnist", "train": [5000], "validation": 1, "repeats": 1},
            "family": [{"activation": "maxout", **CELL}],
        }
    )
    train, _ = cells.rows(protocol, next(iter(runner.units(protocol))).split, len(images.y))
    nodes = np.linspace(-1.0, 1.0, NODES)
    table = Maxout(CELL["rank"]).moment(nodes)  # exact at the nodes, as theirs is to 1e-13
    weight, bias, second = CELL["weight_var"], CELL["bias_var"], Maxout(CELL["rank"]).second_moment

    def deep(cosines):
        """All layers, a whole matrix at a time; all points have the same variance."""
        variance, covariance = weight + bias, weight * cosines + bias
        for _ in range(CELL["depth"]):
            covariance = (
                weight
                * variance
                * np.interp(np.clip(covariance / variance, -1.0, 1.0), nodes, table)
                + bias
            )
            variance = weight * variance * second + bias
        return covariance

    def run():
        X, X_test = data.standardised(images.X[train]), data.standardised(images.X_test)
        kernel = deep(X @ X.T / X.shape[1])
        noise, factor = 1e-10, None
        while factor is None:
            try:
                factor = scipy.linalg.cho_factor(kernel + noise * np.eye(len(X)))
            except np.linalg.LinAlgError:
                noise *= 10.0
        alpha = scipy.linalg.cho_solve(factor, np.eye(10)[images.y[train]] - 0.1)
        mean = deep(X_test @ X.T / X.shape[1]) @ alpha
        return float(np.mean(mean.argmax(axis=1) == images.y_test))

    accuracy, seconds = timed(run)
    return seconds, accuracy


def grid(images):
    protocol = Protocol.load(GRID)
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.begin(Path(folder) / "run.sqlite", protocol) as store,
    ):
        _, seconds = timed(lambda: runner.run(protocol, store, images))
        results = store.results()
    assert all(result.status == "done" for result in results)
    return seconds, results


def one_at_a_time(images, results, count):
    """A random part of the cells through the estimator: fit, and predict both sets of images."""
    protocol = Protocol.load(GRID)
    train, validation = cells.rows(
        protocol, next(iter(runner.units(protocol))).split, len(images.y)
    )
    chosen = np.random.default_rng(0).choice(len(results), count, replace=False)
    X, X_new = images.X[train].astype(float), images.X[validation].astype(float)
    X_test, seconds, difference = images.X_test.astype(float), [], []
    for number in [chosen[0], *chosen]:  # the first one compiles
        cell = results[number]
        model = MaxoutGPClassifier(
            cell.depth,
            cell.rank,
            cell.weight_var,
            cell.bias_var,
            "nngp",
            max(cell.noise_var, 1e-10),
            1.0,
            normalize="sphere",
        )

        def run(model=model):
            model.fit(X, images.y[train]).predict(X_new)
            return model.score(X_test, images.y_test)

        accuracy, spent = timed(run)
        seconds.append(spent)
        difference.append(abs(accuracy - cell.test_accuracy))
    return statistics.mean(seconds[1:]), max(difference)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument(
        "--repeats", type=int, default=3, help="of the single cell; the median counts"
    )
    parser.add_argument("--cells", type=int, default=24, help="how many to run one at a time")
    parser.add_argument("--no-peer", action="store_true", help="leave out the authors' method")
    arguments = parser.parse_args()
    console = Console()
    images = data.load("mnist", arguments.data_dir)
    with console.status("one cell, 5,000 training images"):
        cell_seconds, cell_accuracy = one_cell(images, arguments.repeats)
    console.print(f"one cell: {cell_seconds:.1f} s, accuracy {cell_accuracy:.4f}")
    peer_seconds = peer_accuracy = float("nan")
    if not arguments.no_peer:
        with console.status("the same by the method of the authors' program (minutes)"):
            peer_seconds, peer_accuracy = peer_cell(images)
        console.print(f"by the authors' method: {peer_seconds:.0f} s, accuracy {peer_accuracy:.4f}")
    with console.status("the grid of 1,152 cells (minutes)"):
        grid_seconds, results = grid(images)
    console.print(f"grid: {grid_seconds:.0f} s")
    with console.status("cells one at a time"):
        single_seconds, difference = one_at_a_time(images, results, arguments.cells)

    def row(what, ours, peer):
        return f"| {what} | {ours:.1f} | {peer:.0f} | {peer / ours:.0f} |"

    lines = [
        "# The sweep",
        "",
        f"- machine: {platform.machine()}, {os.cpu_count()} cores, load average at the end "
        f"{os.getloadavg()[0]:.1f}",
        f"- mnngp {__version__} ({commit()}), NumPy {np.__version__}, {datetime.now(UTC):%Y-%m-%d}",
        f"- the cell's time is the median of {arguments.repeats}; its accuracy is "
        f"{cell_accuracy:.4f}, by the authors' method "
        f"{peer_accuracy:.4f}",
        f"- the estimator's time is 1,152 times the mean of {arguments.cells} random cells of it; "
        "their accuracies differ from "
        f"the sweep's by at most {difference:.4f}",
        "- command: `python benchmarks/sweep.py --data-dir DIR`",
        "",
        "| MNIST | sweep, s | peer, s | ratio |",
        "| --- | ---: | ---: | ---: |",
        row(
            "one cell: 5,000 training, 10,000 test images, rank 4, depth 17; the authors' method "
            "in NumPy",
            cell_seconds,
            peer_seconds,
        ),
        row(
            "the grid: 1,152 cells, 1,000 training, 20,000 other images; the estimator, a cell at "
            "a time",
            grid_seconds,
            len(results) * single_seconds,
        ),
    ]
    path = HERE / "results" / "sweep.md"
    path.write_text("\n".join(lines) + "\n")
    console.print(path.read_text(), markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
