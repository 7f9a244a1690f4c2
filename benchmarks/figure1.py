"""Write src/mnngp/experiments/figure1.csv: how far four ways to F_q are off, which figure 1 of the
report draws.

    python benchmarks/figure1.py      # two minutes on one core

- library: ``Maxout`` against tests/reference/maxout_reference.json, twenty digits by another
  formula;
- table: the paper's quadrature and linear interpolation, as corrected (``TabulatedMaxout``),
  halfway between its nodes, where a user's correlations are; against ``Maxout``;
- printed: the same sums on the grid that the paper prints (R_max = 100), at nodes; against
  ``Maxout``;
- monte_carlo: a million draws, the largest that is practical for a table; against ``Maxout``.
"""

import csv
import json
from pathlib import Path

import numpy as np

from mnngp.activations import Maxout
from mnngp.experiments.tabulated import _grid_moment

ROOT = Path(__file__).parents[1]
RANKS = (2, 3, 4, 8)
NODES = np.linspace(-1.0, 1.0, 1001)
DRAWS = 1_000_000


def library(rank):
    for row in json.loads((ROOT / "tests/reference/maxout_reference.json").read_text())["values"][
        str(rank)
    ]:
        if abs(rho := float(row["rho"])) <= 0.9999 or abs(rho) == 1.0:
            yield rho, float(Maxout(rank).moment(rho)) - float(row["moment"])


def table(rank):
    for cell in np.unique(np.round(np.linspace(0, 999, 45)).astype(int)):
        ends = [_grid_moment(rank, float(NODES[i]), 501, 10.0) for i in (cell, cell + 1)]
        rho = (NODES[cell] + NODES[cell + 1]) / 2.0
        yield rho, sum(ends) / 2.0 - float(Maxout(rank).moment(rho))


def printed(rank):
    for i in np.unique(np.round(np.linspace(1, 999, 45)).astype(int)):
        yield (
            NODES[i],
            _grid_moment(rank, float(NODES[i]), 501, 100.0) - float(Maxout(rank).moment(NODES[i])),
        )


def monte_carlo(rank):
    rng = np.random.default_rng(rank)
    for rho in np.linspace(-0.95, 0.95, 20):
        total = 0.0
        for _ in range(10):
            first = rng.normal(size=(DRAWS // 10, rank))
            second = rho * first + np.sqrt(1.0 - rho * rho) * rng.normal(size=first.shape)
            total += float((first.max(axis=1) * second.max(axis=1)).sum())
        yield rho, total / DRAWS - float(Maxout(rank).moment(rho))


def main():
    with (ROOT / "src/mnngp/experiments/figure1.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("rank", "method", "rho", "error"))
        for rank in RANKS:
            for method in (library, table, printed, monte_carlo):
                writer.writerows(
                    (rank, method.__name__, f"{rho:.10g}", f"{error:.3e}")
                    for rho, error in method(rank)
                )


if __name__ == "__main__":
    main()
