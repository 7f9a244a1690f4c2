"""Make the tables and pictures of the results page from experiments/results/. Called by
make_figures.py.

`python docs/make_results.py RUN.sqlite …` first adds runs of `mnngp sweep` to that folder: a CSV
file each, every cell a line.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import beyond
import numpy as np
from result_cells import add, read, runs

from mnngp import plots
from mnngp.experiments import comparison, rendering, selection

HERE = Path(__file__).parent
COLORS = {"maxout": "#1b6ca8", "relu": "#c8553d", "tanh": "#6a6a6a"}
# infinitely wide, then the widest first
FINITE_COLORS = ("#1b6ca8", "#7d4a95", "#a66bb5", "#c98bd0")


def rows_of(names: Iterable[str]) -> list[selection.Row]:
    """The rows of several runs, those of one size together, each with as many repeats as there are
    of its size.
    """
    found, sizes = [], {}
    for result in (result for name in names for result in read(name)):
        sizes.setdefault((result.dataset, result.n_train), []).append(result)
    for own in sizes.values():
        found += selection.rows(own, 1 + max(result.repeat for result in own))
    return sorted(found, key=lambda row: (row.dataset != "mnist", row.n_train))


def at_the_papers_choice() -> str:
    """Table 1 at the paper's hyperparameters, maxout and the two rows of Lee et al."""
    names = [
        f"table1-{dataset}-{size}"
        for dataset in ("mnist", "cifar10")
        for size in ("quick", "5000", "10000", "50000", "45000")
    ]
    return rendering.as_markdown(comparison.lines(rows_of(names)))


def grid_names() -> list[str]:
    """The runs of the paper's grid. Of the largest sizes there are neighbours of the network that
    the paper selected, which is in the other table.
    """
    largest = {"mnist": 50_000, "cifar10": 45_000}
    return [
        name
        for dataset, most in largest.items()
        for name in (
            *(f"grid-{dataset}-{size}" for size in (100, 500, 1000, 5000, 10_000, most)),
            f"table1-{dataset}-{most}",
        )
    ]


def searched() -> str:
    """The grid search: what was selected, for maxout, ReLU and tanh."""
    return rendering.as_markdown(comparison.lines(rows_of(grid_names())))


def side_by_side() -> str:
    """The selected networks of the grid search, repeat by repeat on the same images: differences
    from maxout, paired. Of the largest sizes there is no search.
    """
    lines = [
        "| data | n_t | repeats | maxout | rank 2 alone | ReLU | tanh | ReLU − maxout | ReLU "
        "− rank 2 | tanh − maxout |"
    ]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows = [row for row in rows_of(grid_names()) if row.n_train <= 10_000]
    for dataset, n_train in dict.fromkeys((row.dataset, row.n_train) for row in rows):
        accuracies: dict[str, np.ndarray] = {}
        for row in rows:
            if (
                (row.dataset, row.n_train) == (dataset, n_train)
                and row.best is not None
                and row.rank in (None, 2)
            ):
                name = row.activation if row.rank is None else "rank 2"
                accuracies[name] = np.array([result.test_accuracy for result in row.best.results])
        cells = [comparison.dataset_name(dataset), f"{n_train:,}", str(len(accuracies["maxout"]))]
        cells += [f"{accuracies[name].mean():.4f}" for name in ("maxout", "rank 2", "relu", "tanh")]
        for one, other in (("relu", "maxout"), ("relu", "rank 2"), ("tanh", "maxout")):
            difference = accuracies[one] - accuracies[other]
            spread = (
                f" ± {difference.std(ddof=1) / np.sqrt(len(difference)):.4f}"
                if len(difference) > 1
                else ""
            )
            cells.append(rendering.signed(difference.mean(), 4) + spread)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def accuracy_figure(path: Path) -> None:
    """Figure 2's shape: test accuracy by training images at the paper's hyperparameters, with the
    paper's points.
    """
    figure, axes = plots.new_figure(figsize=(9.6, 3.8), ncols=2)
    for ax, dataset in zip(axes[0], ("mnist", "cifar10"), strict=True):
        names = [
            f"table1-{dataset}-{size}" for size in ("quick", "5000", "10000", "50000", "45000")
        ]
        lines = [
            line
            for line in comparison.lines(rows_of(names))
            if line.ours is not None and line.paper is not None
        ]
        for activation, color in COLORS.items():
            mine = [line for line in lines if line.activation == activation]
            sizes = [line.n_train for line in mine]
            spread = [line.ours.deviation or 0.0 for line in mine]
            label = comparison.network_name(activation)
            ax.errorbar(
                sizes,
                [line.ours.mean for line in mine],
                spread,
                color=color,
                marker="o",
                ms=4,
                capsize=2,
                label=label,
            )
            ax.plot(
                sizes,
                [line.paper.accuracy for line in mine],
                ls="none",
                marker="x",
                ms=7,
                color=color,
            )
        ax.set(
            title=f"{comparison.dataset_name(dataset)}: ours (lines) and the paper's (crosses)",
            xscale="log",
            xlabel="training images",
        )
        ax.legend(frameon=False)
    axes[0][0].set_ylabel("test accuracy")
    figure.savefig(path, dpi=130)


def heat_maps(path: Path, name: str = "grid-cifar10-5000") -> None:
    """Figure 3's shape: validation accuracy over the variances, a panel a rank and depth."""
    results = [result for result in read(name) if result.activation == "maxout"]
    ranks, depths = (
        sorted({getattr(result, key) for result in results}) for key in ("rank", "depth")
    )
    weights, biases = (
        sorted({getattr(result, key) for result in results}) for key in ("weight_var", "bias_var")
    )
    mean: dict[tuple[int, int], np.ndarray] = {
        (q, L): np.zeros((len(biases), len(weights))) for q in ranks for L in depths
    }
    repeats = 1 + max(result.repeat for result in results)
    for result in results:
        place = biases.index(result.bias_var), weights.index(result.weight_var)
        mean[result.rank, result.depth][place] += result.validation_accuracy / repeats
    best = max(values.max() for values in mean.values())
    figure, axes = plots.new_figure(figsize=(9.6, 5.0), nrows=len(ranks), ncols=len(depths))
    for (rank, depth), values in mean.items():
        ax = axes[ranks.index(rank)][depths.index(depth)]
        image = ax.imshow(
            values, origin="lower", cmap="viridis", vmin=best - 0.03, vmax=best, aspect="auto"
        )
        ax.set_title(f"q = {rank}, depth {depth}", fontsize=8)
        ticks = range(0, 8, 7)
        ax.set_xticks(ticks, [f"{weights[k]:.1f}" for k in ticks], fontsize=7)
        ax.set_yticks(ticks, [f"{biases[k]:.2f}" for k in ticks], fontsize=7)
    axes[-1][0].set_xlabel("σ_w²", fontsize=8)
    axes[-1][0].set_ylabel("σ_b²", fontsize=8)
    figure.colorbar(
        image,
        ax=[ax for line in axes for ax in line],
        label="mean validation accuracy",
        extend="min",
        shrink=0.8,
    )
    figure.savefig(path, dpi=130)


def finite_names() -> list[str]:
    """The runs with networks of finite width."""
    return [
        f"finite-{dataset}{part}"
        for dataset in ("mnist", "cifar10")
        for part in ("-part", "-rates")
    ]


def finite() -> str:
    """Networks of finite width: what was selected, for each width, beside the Gaussian process and
    the paper.
    """
    lines = [
        "| data | n_t | network | repeats | selected | validation | test | paper | paper's "
        "model | diverged |"
    ]
    lines.append("| --- | ---: | --- | ---: | --- | ---: | ---: | ---: | --- | ---: |")
    for name in finite_names():
        for line in comparison.lines(rows_of([name]), ranks=True):
            if line.row is None or line.row.rank is not None or line.row.best is None:
                continue
            best, theirs = line.row.best, line.paper
            network = line.network + (", other rates" if name.endswith("-rates") else "")
            cells = [
                comparison.dataset_name(line.dataset),
                f"{line.n_train:,}",
                network,
                str(line.row.repeats),
            ]
            cells += [
                comparison.model_name(best.setting),
                f"{best.validation_accuracy:.4f}",
                rendering.spread(best.test_accuracy),
            ]
            cells += [f"{theirs.accuracy:.4f}", theirs.model] if theirs else ["", ""]
            cells.append(
                f"{line.row.diverged:,} of {line.row.total:,}" if line.kind == "finite" else ""
            )
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def finite_figure(path: Path) -> None:
    """Figure 2: test accuracy against the number of images, finite widths and the Gaussian process,
    a panel a rank.
    """
    datasets = [dataset for dataset in ("mnist", "cifar10") if read(f"finite-{dataset}-part")]
    figure, axes = plots.new_figure(
        figsize=(9.6, 3.2 * len(datasets) + 0.3), nrows=len(datasets), ncols=3
    )
    for line, dataset in zip(axes, datasets, strict=True):
        rows = [
            row
            for row in rows_of([f"finite-{dataset}-part"])
            if row.best and row.best.test_accuracy
        ]
        widths = [None, *sorted({row.width for row in rows if row.width}, reverse=True)]
        for ax, rank in zip(line, (2, 3, 4), strict=True):
            for width, color, marker in zip(widths, FINITE_COLORS, "osDv", strict=False):
                own = [row for row in rows if (row.rank, row.width) == (rank, width)]
                sizes = [row.n_train for row in own]
                means = [row.best.test_accuracy.mean for row in own]
                ax.plot(
                    sizes,
                    means,
                    color=color,
                    marker=marker,
                    ms=5,
                    label="infinite" if width is None else f"width {width}",
                )
            low, high = min(row.n_train for row in rows), max(row.n_train for row in rows)
            ax.set(
                title=f"{comparison.dataset_name(dataset)}, rank {rank}",
                xscale="log",
                xlim=(low / 1.3, high * 1.3),
                ylim=(0.0, None),
            )
            ax.set_xticks(
                [low, high] if low < high else [low],
                [f"{low:,}", f"{high:,}"] if low < high else [f"{low:,}"],
            )
            ax.set_xticks([], minor=True)
            ax.set_xlabel("training images")
        line[0].set_ylabel("test accuracy")
    figure.legend(
        *axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
    )
    figure.savefig(path, dpi=130)


# CIFAR-10 with few images: Arora et al. 2020 (CNTK-14 with global pooling, ResNet-34), and the best
# column of FABR (Xu, Kelly, Malamud)
FEW = {
    10: (15.3, 14.6, 18.5),
    20: (18.8, 17.5, 20.9),
    40: (21.3, 19.5, 25.1),
    80: (25.5, 23.3, 29.6),
    160: (30.5, 28.3, 35.0),
    320: (36.6, 33.2, 40.7),
    640: (42.6, 41.7, 46.2),
    1280: (48.9, 49.1, 51.1),
}


def convolution() -> str:
    """Convolutional networks beside the paper's dense ones, and others' networks."""
    lines = [
        "| data | training images | repeats | accuracy | noise | dense (the paper) "
        "| CNTK-14 / ResNet-34 / FABR, few images |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows_of(runs("convolution-*")):
        if row.best is None or row.partial:
            continue
        paper = comparison.published(row.dataset, row.n_train, "maxout")
        others = FEW.get(row.n_train) if row.dataset == "cifar10" else None
        cells = [
            comparison.dataset_name(row.dataset),
            f"{row.n_train:,}",
            str(row.best.test_accuracy.repeats),
            rendering.spread(row.best.test_accuracy),
            f"{row.best.noise_var:g}",
            "" if paper is None else f"{paper.accuracy:.4f}",
            "" if others is None else " / ".join(f"{one / 100.0:.3f}" for one in others),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_all() -> None:
    """Write what the page includes."""
    generated, figures = HERE / "generated", HERE / "figures"
    for name, make in {
        "results_paper": at_the_papers_choice,
        "results_grid": searched,
        "results_pairs": side_by_side,
        "results_finite": finite,
        "results_convolution": convolution,
        "results_beyond": beyond.table,
    }.items():
        (generated / f"{name}.md").write_text(make())
    accuracy_figure(figures / "results_accuracy.png")
    heat_maps(figures / "results_grid.png")
    finite_figure(figures / "results_finite.png")
    beyond.figure(figures / "results_beyond.png")


if __name__ == "__main__":
    for run in sys.argv[1:]:
        print(add(Path(run)))
    write_all()
