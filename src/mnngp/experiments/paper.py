"""Table 1 of the paper, as data.

The ``mnngp`` and ``finite`` rows are the authors' own, means of 20 repeats; the ``nngp`` rows are
Lee et al.'s (2018), of one split. Neither gives a spread. ``bias`` and ``weight`` are variances,
but standard deviations in the ``finite`` rows.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

_REPEATS = {"mnngp": 20, "finite": 20, "nngp": 1}


@dataclass(frozen=True)
class Published:
    """One row of the paper's table 1."""

    dataset: str
    n_train: int
    family: str  # "mnngp", "nngp" or "finite"
    activation: str  # "maxout", "relu" or "tanh"
    width: int | None  # of finite networks
    rank: int | None
    depth: int
    bias: float
    weight: float
    model: str  # as printed: q-depth-σ_b²-σ_w²
    accuracy: float

    @property
    def repeats(self) -> int:
        """How many training sets the accuracy is a mean over."""
        return _REPEATS[self.family]


@lru_cache(maxsize=1)
def table1() -> tuple[Published, ...]:
    """All rows, in the paper's order."""
    text = files("mnngp.experiments").joinpath("table1.csv").read_text(encoding="utf-8")
    rows = []
    for row in csv.DictReader(text.splitlines()):
        finite = row["family"] == "finite"
        rows.append(
            Published(
                dataset=row["dataset"],
                n_train=int(row["n_train"]),
                family=row["family"],
                activation="maxout" if finite else row["activation_or_width"],
                width=int(row["activation_or_width"]) if finite else None,
                rank=int(row["rank"]) if row["rank"] else None,
                depth=int(row["depth"]),
                bias=float(row["bias"]),
                weight=float(row["weight"]),
                model=row["model"],
                accuracy=float(row["test_accuracy"]),
            )
        )
    return tuple(rows)


def published(
    dataset: str, n_train: int, activation: str, *, finite: bool = False
) -> Published | None:
    """The paper's row for an activation, or for networks of finite width; None where it has none.

    >>> published("mnist", 1000, "maxout").accuracy
    0.935
    """
    for row in table1():
        if (row.dataset, row.n_train, row.activation, row.width is not None) == (
            dataset,
            n_train,
            activation,
            finite,
        ):
            return row
    return None
