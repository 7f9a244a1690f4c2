"""How far each way of going beyond the paper's table goes, and what it costs: a picture and a table
from experiments/results/. Called by make_results.py.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from result_cells import read, runs

from mnngp import plots
from mnngp.experiments import comparison, rendering, selection
from mnngp.experiments.records import Result
from mnngp.inference.costs import duration

DATASETS = ("mnist", "cifar10")
# what it is called, which runs have it, and how it is drawn
WAYS = {
    "the paper's networks": (("grid-{}-*", "table1-{}-*"), "#6a6a6a", "o"),
    "chosen noise": (("noise-{}",), "#1b6ca8", "s"),
    "tangent kernels": (("tangent-{}",), "#c8553d", "D"),
    "convolution": (("convolution-{}*",), "#2a8a5a", "^"),
}
# Of the paper's twenty training sets the first, which every way has seen: one differs from another
# by more than a way does.
REPEATS = 3


def rows_of_way(way: str, dataset: str) -> Iterator[selection.Row]:
    """What was selected at each size, in the order of sizes."""
    patterns, _, _ = WAYS[way]
    sizes: dict[int, list[Result]] = {}
    for pattern in patterns:
        found: dict[int, list[Result]] = {}
        for name in runs(pattern.format(dataset)):
            for one in filter(in_table, read(name)):
                found.setdefault(one.n_train, []).append(one)
        for size, own in found.items():  # those that have the most training sets
            before = sizes.get(size, [])
            if repeats_of(own) > repeats_of(before):
                sizes[size] = own
            elif repeats_of(own) == repeats_of(before):  # the selected one beside its neighbours
                known = {network_of(one) for one in before}
                sizes[size] = before + [one for one in own if network_of(one) not in known]
    for _, own in sorted(sizes.items()):
        whole = [
            row for row in selection.rows(own, repeats_of(own)) if not row.partial and row.best
        ]
        if whole:  # of several networks, the one that the validation images prefer
            yield max(whole, key=lambda row: row.best.validation_accuracy or 0.0)


def network_of(one: Result) -> tuple[object, ...]:
    """What tells it from others of its way."""
    return one.activation, one.rank, one.depth, one.weight_var, one.bias_var, one.options


def repeats_of(own: list[Result]) -> int:
    """How many training sets there are."""
    return 1 + max((one.repeat for one in own), default=-1)


def in_table(one: Result) -> bool:
    """Maxout alone, on the same training sets, so that one thing differs at a time."""
    return "axout" in one.activation and one.repeat < REPEATS


def seconds(row: selection.Row) -> float:
    """Of one network on one training set, with 10,000 test images and those to validate.

    Cells of a convolutional network share the time of their kernel: all that differ in the noise
    are what it took.
    """

    def kernel(one: selection.Candidate) -> selection.Setting:
        words = (one.setting.options or "").split(", ")
        rest = ", ".join(word for word in words if not word.startswith("noise_var"))
        return one.setting._replace(options=rest)

    shared = row.candidates if "Conv" in row.activation else (row.best,)
    together = [one for one in shared if kernel(one) == kernel(row.best)]
    # the median: a first cell may have waited for a compiler
    return sum(float(np.median([cell.seconds for cell in one.results])) for one in together)


def figure(path: Path) -> None:
    """Accuracy and cost by the number of training images, a column for each collection."""
    drawn, axes = plots.new_figure(figsize=(9.6, 6.4), nrows=2, ncols=2)
    for column, dataset in enumerate(DATASETS):
        above, below = axes[0][column], axes[1][column]
        for way, (_, color, marker) in WAYS.items():
            rows = list(rows_of_way(way, dataset))
            sizes = [row.n_train for row in rows]
            style = {"color": color, "marker": marker, "ms": 5, "label": way}
            above.plot(sizes, [row.best.test_accuracy.mean for row in rows], **style)
            below.plot(sizes, [seconds(row) for row in rows], **style)
        above.set(title=comparison.dataset_name(dataset), xscale="log")
        below.set(xscale="log", yscale="log", xlabel="training images")
    axes[0][0].set_ylabel("test accuracy")
    axes[1][0].set_ylabel("seconds for a network")
    drawn.legend(
        *axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
    )
    drawn.savefig(path, dpi=130)


def table() -> str:
    """The same as numbers."""
    sizes: dict[tuple[str, int], dict[str, selection.Row]] = {}
    for dataset in DATASETS:
        for way in WAYS:
            for row in rows_of_way(way, dataset):
                sizes.setdefault((dataset, row.n_train), {})[way] = row
    header = ["data", "training images", *WAYS]
    lines = [header, ["---", *["---:"] * (len(header) - 1)]]
    for dataset, size in sorted(sizes, key=lambda key: (DATASETS.index(key[0]), key[1])):
        found = sizes[dataset, size]
        accuracies = {way: row.best.test_accuracy for way, row in found.items()}
        best = max(one.mean for one in accuracies.values())
        cells = []
        for way in WAYS:
            text = ""
            if way in found:
                mean = rendering.spread(accuracies[way])
                text = f"**{mean}**" if np.isclose(accuracies[way].mean, best) else mean
                text += f", {duration(seconds(found[way]))}"
            cells.append(text)
        lines.append([comparison.dataset_name(dataset), f"{size:,}", *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
