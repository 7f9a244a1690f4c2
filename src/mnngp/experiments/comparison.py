"""Table 1, ours beside the paper's.

*The paper's.* ``table1.csv`` has its rows. The ``mnngp`` and ``finite`` ones are the authors' own,
means of 20 repeats; the ``nngp`` ones are Lee et al.'s (2018), of one split. Neither gives a
spread. ``bias`` and ``weight`` are variances, but standard deviations in the ``finite`` rows.

*Ours* is the mean test accuracy of the selected hyperparameters, ± the standard deviation s over n
repeats. The paper gives means without a spread, so the standard error of a difference takes theirs
to be like ours: s √(1/n + 1/m), where m is 20 for the authors' rows and 1 for those of Lee et al.
(2018). With n = 1 there is no s, and the binomial standard error of the test images stands in for
it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from mnngp.experiments.protocol import ACTIVATIONS
from mnngp.experiments.selection import Row, Setting, Spread, row_order

AGREEMENT = 0.005  # of an accuracy; or three standard errors, where that is more
_DATASETS = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
_REPEATS = {"mnngp": 20, "finite": 20, "nngp": 1}  # of the paper's rows
_LOWER = ("maxout", "tanh", "erf", "abs")  # in a sentence


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
    for dataset, size, _, family, model, unit, rank, *numbers in csv.reader(text.splitlines()[1:]):
        depth, bias, weight, accuracy = map(float, numbers)
        network = ("maxout", int(unit)) if family == "finite" else (unit, None)
        shape = (int(rank) if rank else None, int(depth))
        found = (dataset, int(size), family, *network, *shape, bias, weight, model, accuracy)
        rows.append(Published(*found))
    return tuple(rows)


def published(
    dataset: str, n_train: int, activation: str, *, finite: bool = False
) -> Published | None:
    """The paper's row for an activation, or for networks of finite width; None where it has none.

    >>> published("mnist", 1000, "maxout").accuracy
    0.935
    """
    wanted = (dataset, n_train, activation, finite)
    rows = {
        (row.dataset, row.n_train, row.activation, row.width is not None): row for row in table1()
    }
    return rows.get(wanted)


def dataset_name(name: str) -> str:
    """As it is written."""
    return _DATASETS.get(name, name)


def network_name(
    activation: str, kind: str = "nngp", width: int | None = None, rank: int | None = None
) -> str:
    """As it is written in a sentence.

    >>> network_name("relu", "ntk"), network_name("maxout", "finite")
    ('ReLU, tangent kernel', 'maxout, finite width')
    >>> network_name("maxout", "finite", 500, 3)
    'maxout, width 500, rank 3'
    """
    words = [activation if activation in _LOWER else ACTIVATIONS.get(activation, activation)]
    if kind == "finite":
        words.append("finite width" if width is None else f"width {width}")
    if rank is not None:
        words.append(f"rank {rank}")
    return ", ".join([*words, "tangent kernel"] if kind == "ntk" else words)


def row_name(row: Row) -> str:
    """The network of a row."""
    return network_name(row.activation, row.kind, row.width, row.rank)


def model_name(setting: Setting) -> str:
    """As the paper writes it: q-depth-σ_b²-σ_w², or the activation in place of q.

    It is width-q-depth-σ_b-σ_w for finite networks.

    >>> model_name(Setting("mnist", 100, "maxout", "nngp", 4, 9, 1.1724, 3.4793))
    '4-9-1.17-3.48'
    >>> model_name(Setting("mnist", 100, "maxout", "finite", 3, 13, 0.1**2, 0.001**2, width=500))
    '500-3-13-0.1-0.001'
    >>> model_name(Setting("mnist", 100, "Conv(3), …", "nngp", 2, 5, 0.1, 1.0, options="flips"))
    '2-5-0.10-1.00, flips'
    """
    variances = (setting.bias_var, setting.weight_var)
    if setting.width is not None:
        shape = (setting.width, setting.rank, setting.depth)
        words = [*shape, *(f"{math.sqrt(value):.4g}" for value in variances)]
    else:
        first = setting.rank or ACTIVATIONS.get(setting.activation, "conv")
        # two decimals, as the paper has it, or two digits where that would be none, or many
        shown = (f"{v:.2f}" if v == 0.0 or 0.01 <= v < 1000.0 else f"{v:.2g}" for v in variances)
        words = [first, setting.depth, *shown]
    options = "" if setting.options is None else f", {setting.options}"
    return "-".join(map(str, words)) + options


@dataclass(frozen=True)
class Line:
    """One line of the table: a row that was run, the paper's row for it, or both."""

    dataset: str
    n_train: int
    activation: str
    kind: str
    row: Row | None
    paper: Published | None

    @property
    def setting(self) -> Setting | None:
        return self.row.best.setting if self.row and self.row.best else None

    @property
    def ours(self) -> Spread | None:
        return self.row.best.test_accuracy if self.row and self.row.best else None

    @property
    def difference(self) -> float | None:
        return self.ours.mean - self.paper.accuracy if self.ours and self.paper else None

    @property
    def standard_error(self) -> float | None:
        """Of the difference; None if it would be 0, which repeats without spread do not tell."""
        if self.ours is None or self.paper is None:
            return None
        repeats = 1.0 / self.ours.repeats + 1.0 / self.paper.repeats
        return self.ours.single * math.sqrt(repeats) or None

    @property
    def in_standard_errors(self) -> float | None:
        if self.difference is None or not self.standard_error:
            return None
        return self.difference / self.standard_error

    @property
    def agrees(self) -> bool | None:
        """Whether the difference is at most 0.005, or three standard errors where that is more."""
        if self.difference is None:
            return None
        return abs(self.difference) <= max(AGREEMENT, 3.0 * (self.standard_error or 0.0))

    @property
    def network(self) -> str:
        """In words: "maxout", "maxout, rank 3", "ReLU, tangent kernel", "maxout, width 500"."""
        return row_name(self.row) if self.row else network_name(self.activation, self.kind)

    @property
    def model(self) -> str | None:
        return None if self.setting is None else model_name(self.setting)


def lines(rows: Iterable[Row], *, ranks: bool = False, missing: bool = False) -> list[Line]:
    """The lines of the table, in order; rows of several runs may be put together.

    With ``ranks`` also a row for each rank of maxout, and for each width; the paper has none. With
    ``missing`` also the paper's rows that were not run, of the same sets of data: left out by
    default, since a run is mostly one row or two of the paper's table.
    """
    rows, found = list(rows), []
    for row in rows:
        if row.partial and not ranks:
            continue
        theirs, finite = None, row.kind == "finite"
        if row.kind != "ntk" and not row.partial:
            theirs = published(row.dataset, row.n_train, row.activation, finite=finite)
        found.append(Line(row.dataset, row.n_train, row.activation, row.kind, row, theirs))
    if missing:
        shown, datasets = {line.paper for line in found}, {row.dataset for row in rows}
        for theirs in table1():
            if theirs not in shown and theirs.dataset in datasets:
                kind = "finite" if theirs.width else "nngp"
                found.append(
                    Line(theirs.dataset, theirs.n_train, theirs.activation, kind, None, theirs)
                )
        found.sort(
            key=lambda line: row_order(line.dataset, line.n_train, line.kind, line.activation)
        )
    return found


def record(line: Line) -> dict[str, Any]:
    """A row as a flat dictionary of numbers and strings, unrounded; what there is not is None."""
    best = line.row.best if line.row else None
    setting = line.setting
    spreads: dict[str, Any] = dict.fromkeys(("bias_var", "weight_var", "bias_std", "weight_std"))
    if setting and setting.width is None:
        spreads |= {"bias_var": setting.bias_var, "weight_var": setting.weight_var}
    elif setting:
        spreads["bias_std"] = math.sqrt(setting.bias_var)
        spreads["weight_std"] = math.sqrt(setting.weight_var)

    def of(source: Any, *names: str, **renamed: str) -> dict[str, Any]:
        named = dict(zip(names, names, strict=True)) | renamed
        return {new: getattr(source, name, None) for new, name in named.items()}

    return {
        **of(line, "dataset", "n_train"),
        **of(best.results[0] if best else None, "n_validation", "n_test"),
        **of(line, "network", "activation", "kind"),
        **of(setting, "width", "training", "options"),
        "model": line.model,
        **of(setting, "rank", "depth"),
        **spreads,
        **of(line.paper, paper_model="model", paper_accuracy="accuracy"),
        **of(line.ours, test_accuracy="mean", standard_deviation="deviation"),
        **of(line.ours, "standard_error"),
        **of(line, "difference", difference_standard_error="standard_error"),
        **of(line, difference_in_standard_errors="in_standard_errors", agrees="agrees"),
        **of(line.ours, "repeats"),
        **of(best, "validation_accuracy", "test_log_loss", "noise_var", "raised", "warned"),
        "warning": "; ".join(best.warnings) if best and best.warned else None,
        **of(best, "seconds"),
        **of(line.row, seconds_all="seconds"),
        "candidates": len(line.row.candidates) if line.row else None,
        **of(line.row, "incomplete", "inaccurate", "failed", "diverged"),
    }
