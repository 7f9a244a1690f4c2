"""Draw the figures of the documentation to docs/figures/, and write its measured tables. `make
docs-data` runs this.
"""

import json
from pathlib import Path
from typing import Any

import check_outputs
import make_results
import make_tables
import measurements
import numpy as np
from sklearn.datasets import load_digits

from mnngp import (
    AvgPool,
    Conv,
    Flatten,
    GlobalAvgPool,
    Maxout,
    MaxoutGPClassifier,
    MaxoutGPRegressor,
    MaxoutKernel,
    NetworkKernel,
    plots,
    theory,
)
from mnngp.data import standardised
from mnngp.experiments import demonstration as demo
from mnngp.experiments.tabulated import TabulatedMaxout
from mnngp.inference import GradientFlow

HERE = Path(__file__).parent
FIGURES = HERE / "figures"
COLORS = {1: "#9aa5b1", 2: "#1b6ca8", 3: "#2a9d8f", 4: "#c8553d", 8: "#6a4c93"}


def moments(path: Path) -> None:
    """F_q of several ranks, and what the paper's table loses of it."""
    figure, axes = plots.new_figure(figsize=(9.6, 3.8), ncols=2)
    left, right = axes[0]
    rho = np.linspace(-1.0, 1.0, 401)
    for rank, color in COLORS.items():
        left.plot(rho, Maxout(rank).moment(rho), color=color, label=f"q = {rank}")
    left.set(title="F_q(ρ)", xlabel="correlation ρ before the layer", ylabel="E[max h · max h']")
    left.legend(frameon=False)

    unit = Maxout(4)
    coarse = TabulatedMaxout(4, r_max=100.0, n_rho=201)
    nodes = np.linspace(-1.0, 1.0, coarse.n_rho)[1:-1]  # at ±1 there is a formula of its own
    right.semilogy(
        nodes,
        _error(coarse.table[1:-1], unit.moment(nodes)),
        color="#999999",
        label="printed grid (r_max = 100), at nodes",
    )
    table = TabulatedMaxout(4, n_rho=101)
    for count, color in ((101, COLORS[8]), (1001, COLORS[4])):
        nodes = np.linspace(-1.0, 1.0, count)
        middle = (nodes[1:] + nodes[:-1]) / 2.0
        # 1001 nodes take a minute; the table is exact at its nodes, so interpolating exact values
        # is the same.
        between = (
            table.moment(middle)
            if count == table.n_rho
            else np.interp(middle, nodes, unit.moment(nodes))
        )
        right.semilogy(
            middle,
            _error(between, unit.moment(middle)),
            color=color,
            label=f"table, n_rho = {count}, between nodes",
        )
    values = json.loads((make_tables.REFERENCE / "maxout_reference.json").read_text())["values"][
        "4"
    ]
    known = np.array([float(row["rho"]) for row in values])
    exact = np.array([float(row["moment"]) for row in values])
    right.semilogy(
        known,
        _error(unit.moment(known), exact),
        "o",
        ms=3.5,
        color=COLORS[2],
        label="Maxout(4), against 20 digits",
    )
    right.set(
        title="Error of F_4(ρ)",
        xlabel="correlation ρ",
        ylim=(1e-17, 1e5),
        yticks=[1e-16, 1e-12, 1e-8, 1e-4, 1.0],
    )
    right.legend(loc="upper left", fontsize=8, frameon=False)
    figure.savefig(path, dpi=130)


def _error(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The absolute difference; an exact agreement is shown at the foot of a logarithmic axis."""
    return np.maximum(np.abs(found - exact), 3e-17)


def depth(path: Path) -> None:
    """The distance 1 - ρ through the layers, in the ordered phase and on its border."""
    figure, axes = plots.new_figure(figsize=(9.6, 3.6), ncols=2)
    settings = (
        ("ordered: σ_w² = 0.5/M, σ_b² = 0.1", 0.5, 0.1),
        ("critical: σ_w² = 1/M, σ_b² = 0", 1.0, 0.0),
    )
    for ax, (title, factor, bias_var) in zip(axes[0], settings, strict=True):
        for rank in (2, 3, 4):
            unit = Maxout(rank)
            profile = theory.depth_profile(
                unit, 100, weight_var=factor * unit.critical_weight_var, bias_var=bias_var
            )
            ax.semilogy(profile.distance, color=COLORS[rank], label=f"rank {rank}")
        ax.axhline(2.0**-53, color="#999999", lw=1.0, ls=":")
        ax.text(
            -3, 2.0**-53, "rounding of 1 - ρ", ha="left", va="bottom", fontsize=8, color="#777777"
        )
        ax.set(title=title, xlabel="hidden layer", ylabel="1 - ρ")
    axes[0, 0].legend(loc="lower left", frameon=False)
    figure.savefig(path, dpi=130)


def demonstration(path: Path) -> None:
    """The picture of `mnngp demo`."""
    data = demo.Digits.load()
    demo.warm_up()
    demo.picture(
        data,
        list(demo.run(data)),
        MaxoutGPClassifier(random_state=0).fit(data.raw_train, data.train_labels),
        path,
    )


def curve() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A few points of a curve, and where to predict it."""
    X = np.array([-2.6, -2.3, -1.7, -1.2, -0.9, 0.8, 1.1, 1.5, 2.4])
    return X[:, None], np.sin(2.0 * X) + 0.4 * X, np.linspace(-4.0, 4.0, 321)[:, None]


def _draw_posterior(
    ax: Any, X: np.ndarray, y: np.ndarray, line: np.ndarray, mean: np.ndarray, std: np.ndarray
) -> None:
    """Mean, 95 % band and data of a function of one variable."""
    ax.fill_between(line[:, 0], mean - 1.96 * std, mean + 1.96 * std, color="#dbe9f6", lw=0)
    ax.plot(line[:, 0], mean, color="#1b6ca8", lw=1.8)
    ax.plot(X[:, 0], y, "o", ms=4, color="#222222", zorder=5)


def regression(path: Path) -> None:
    """Posteriors of a curve, over depth and rank, each with the signal variance of the largest
    evidence.
    """

    def fitted(signal_var: float) -> MaxoutGPRegressor:
        given = {
            "weight_var": Maxout(rank).critical_weight_var,
            "bias_var": 0.3,
            "kind": "nngp",
            "noise_var": 1e-2,
        }
        return MaxoutGPRegressor(depth, rank, **given, signal_var=signal_var, normalize=None).fit(
            X, y
        )

    X, y, line = curve()
    figure, axes = plots.new_figure(figsize=(9.6, 6.8), nrows=3, ncols=3)
    for row, rank in zip(axes, (2, 4, 16), strict=True):
        for ax, depth in zip(row, (1, 3, 8), strict=True):
            model = max(
                map(fitted, np.logspace(-1.0, 7.0, 81)),
                key=lambda model: model.log_marginal_likelihood_,
            )
            ax.plot(line[:, 0], model.sample_y(line, 4, random_state=1), color="#9aa5b1", lw=0.8)
            _draw_posterior(ax, X, y, line, *model.predict(line, return_std=True))
            ax.text(
                0.0,
                -4.6,
                f"log evidence {model.log_marginal_likelihood_:.1f}",
                ha="center",
                fontsize=8.5,
                color="#555555",
            )
            ax.set(title=f"rank {rank}, depth {depth}", xlim=(-4.0, 4.0), ylim=(-5.0, 5.0))
    for ax in axes[:-1].flat:
        ax.tick_params(labelbottom=False)
    for ax in axes[:, 1:].flat:
        ax.tick_params(labelleft=False)
    figure.savefig(path, dpi=130)


def reliability(path: Path) -> None:
    """How often the most probable label is right, by how probable it is said to be."""
    figure, axes = plots.new_figure(figsize=(9.6, 4.6), ncols=2)
    styles = (("#1b6ca8", "o"), ("#9aa5b1", "s"), ("#c8553d", "^"))
    for ax, (name, methods) in zip(axes[0], measurements.calibration().items(), strict=True):
        ax.plot([0.0, 1.0], [0.0, 1.0], color="#999999", lw=1.0, ls=":")
        for (method, found), (color, marker) in zip(methods.items(), styles, strict=True):
            # fewer rows say nothing
            used = [k for k in range(measurements.BINS) if np.sum(found.bins == k) >= 20]
            x, y = (
                np.array([part[found.bins == k].mean() for k in used])
                for part in (found.confidence, found.right)
            )
            label = f"{method}\nECE {found.calibration_error:.3f}, log loss {found.log_loss:.3f}"
            ax.plot(x, y, color=color, marker=marker, ms=5, lw=1.3, label=label)
        rows = len(next(iter(methods.values())).right)
        ax.set(
            title=f"{name}: {rows:,} held-out rows of {measurements.SPLITS} splits",
            xlabel="probability of the predicted class",
        )
        ax.set(
            xlim=(0.0, 1.02), ylim=(0.0, 1.02), ylabel="share of right predictions", aspect="equal"
        )
        ax.legend(loc="lower right", fontsize=8, frameon=False, labelspacing=0.8)
    figure.savefig(path, dpi=130)


def ordered(path: Path) -> None:
    """Accuracy and distance over depth in the ordered phase."""
    rows = measurements.ordered_phase()
    depths = [row.depth for row in rows]
    figure, axes = plots.new_figure(
        figsize=(9.6, 4.0), ncols=2, gridspec_kw={"width_ratios": [1.25, 1.0]}
    )
    left, right = axes[0]
    left.semilogx(
        depths,
        [row.found for row in rows],
        "o-",
        ms=4,
        color=COLORS[2],
        label="signal found, distance form",
    )
    left.semilogx(
        depths,
        [row.scaled for row in rows],
        "^-",
        ms=4,
        color=COLORS[3],
        label="signal found, Cholesky of K",
    )
    left.semilogx(
        depths,
        [row.plain for row in rows],
        "-",
        lw=1.6,
        color=COLORS[4],
        label="signal 1, Cholesky of K",
    )
    left.semilogx(
        depths,
        [row.plain_in_distances for row in rows],
        "s",
        ms=5,
        mfc="none",
        color=COLORS[4],
        label="signal 1, distance form",
    )
    left.set(title="Test accuracy, noise_var = 1e-10", xlabel="hidden layers", ylim=(0.0, 1.04))
    left.legend(loc="center left", fontsize=8.5, frameon=False)
    right.semilogy(depths, [row.distance for row in rows], color="#222222")
    for level, text in ((measurements.PAPER_NOISE, "noise_var"), (2.0**-53, "rounding of ρ")):
        right.axhline(level, color="#999999", lw=1.0, ls=":")
        right.text(100.0, level, text, ha="right", va="bottom", fontsize=8, color="#777777")
    right.set(
        title="Mean distance u = (1 - ρ)/2",
        xlabel="hidden layers",
        yticks=[1e-100, 1e-75, 1e-50, 1e-25, 1.0],
    )
    left.set(
        xticks=[1, 2, 5, 10, 20, 50, 100], xticklabels=["1", "2", "5", "10", "20", "50", "100"]
    )
    left.minorticks_off()
    figure.savefig(path, dpi=130)


def flow(path: Path) -> None:
    """Networks in training: over initialisations, at four times."""
    X, y, line = curve()
    trained = GradientFlow(MaxoutKernel(3, 4, Maxout(4).critical_weight_var, 0.3), X, y)
    figure, axes = plots.new_figure(figsize=(11.0, 3.2), ncols=4)
    for ax, time in zip(axes[0], (0.0, 0.03, 1.0, np.inf), strict=True):
        mean, covariance = trained.mean_and_covariance(line, time)
        ax.plot(line[:, 0], trained.sample(line, time, 4, seed=1), color="#9aa5b1", lw=0.8)
        _draw_posterior(ax, X, y, line, mean, np.sqrt(np.diag(covariance)))
        ax.set(
            title="time ∞" if np.isinf(time) else f"time {time:g}",
            xlim=(-4.0, 4.0),
            ylim=(-6.0, 6.0),
        )
    for ax in axes[0, 1:]:
        ax.tick_params(labelleft=False)
    figure.savefig(path, dpi=130)


def readouts(path: Path) -> None:
    """Accuracy by the number of images, of a dense network and of four with convolutions."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    X, y = standardised(digits.data[order]), digits.target[order]
    body = [Conv(3), Maxout(4)]
    networks = {
        "dense": [Maxout(4)] * 3,
        "global pooling": [*body * 3, GlobalAvgPool()],
        "flatten": [*body * 3, Flatten()],
        "inner pooling": [*body * 2, AvgPool(2), *body, AvgPool(2, 1), Flatten()],
        "local pooling": [*body * 3, AvgPool(4, 1), Flatten()],
    }
    counts, new = (30, 60, 120, 240, 480), slice(1000, None)
    targets = np.eye(10)[y] - 0.1
    figure, axes = plots.new_figure(figsize=(6.4, 4.0))
    for (name, layers), color in zip(networks.items(), COLORS.values(), strict=True):
        shape = None if name == "dense" else (8, 8)
        variance = Maxout(4).critical_weight_var
        kernel = NetworkKernel(layers, variance, 0.01, dtype="float32", image_shape=shape)
        K = kernel(X[:960], X)
        found = []
        for count in counts:
            right = []
            for start in range(0, 961 - count, max(240, count)):
                rows = slice(start, start + count)
                noisy = K[rows, rows] + 1e-3 * K[rows, rows].trace() / count * np.eye(count)
                mean = K[rows, new].T @ np.linalg.solve(noisy, targets[rows])
                right.append(np.mean(mean.argmax(axis=1) == y[new]))
            found.append(np.mean(right))
        axes[0, 0].semilogx(counts, found, "o-", color=color, label=name)
    axes[0, 0].set(xlabel="training images", ylabel="accuracy on 797 others", xticks=counts)
    axes[0, 0].set_xticklabels([str(count) for count in counts])
    axes[0, 0].minorticks_off()
    axes[0, 0].set_title("scikit-learn's digits, 8 × 8 pixels")
    axes[0, 0].legend(frameon=False)
    figure.savefig(path, dpi=130)


def relevance(path: Path) -> None:
    """Of the columns of the table on the page "Fit a table", by the code of the page."""
    page = Path(__file__).with_name("tables.md").read_text()
    blocks = [match["code"] for match in check_outputs.PAIR.finditer(page)]
    space: dict[str, Any] = {}
    for block in blocks[:2]:  # the table, and the model
        exec(block, space)
    plots.relevance(space["model"]).savefig(path, dpi=130)


def main() -> None:
    """Draw all figures and write all tables."""
    FIGURES.mkdir(exist_ok=True)
    moments(FIGURES / "moments.png")
    plots.initialisation(Maxout(4), 30).savefig(FIGURES / "initialisation.png", dpi=130)
    depth(FIGURES / "depth.png")
    regression(FIGURES / "regression.png")
    reliability(FIGURES / "reliability.png")
    ordered(FIGURES / "ordered.png")
    flow(FIGURES / "flow.png")
    readouts(FIGURES / "readouts.png")
    relevance(FIGURES / "relevance.png")
    demonstration(FIGURES / "demo.png")
    for name in sorted(file.name for file in FIGURES.glob("*.png")):
        print(f"written: docs/figures/{name}")
    make_tables.main()
    make_results.write_all()


if __name__ == "__main__":
    main()
