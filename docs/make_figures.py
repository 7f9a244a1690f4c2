"""Draw the figures of the documentation to docs/figures/, and write its measured tables. `make docs` runs this."""

import json
from pathlib import Path

import make_tables
import numpy as np

from mnngp import Maxout, TabulatedMaxout, demo, plots, theory

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
        nodes, _error(coarse.values[1:-1], unit.moment(nodes)), color="#999999", label="printed grid (r_max = 100), at nodes"
    )
    table = TabulatedMaxout(4, n_rho=101)
    for count, color in ((101, COLORS[8]), (1001, COLORS[4])):
        nodes = np.linspace(-1.0, 1.0, count)
        middle = (nodes[1:] + nodes[:-1]) / 2.0
        # 1001 nodes take a minute; the table is exact at its nodes, so interpolating exact values is the same.
        between = table.moment(middle) if count == table.n_rho else np.interp(middle, nodes, unit.moment(nodes))
        right.semilogy(middle, _error(between, unit.moment(middle)), color=color, label=f"table, n_rho = {count}, between nodes")
    values = json.loads((make_tables.REFERENCE / "maxout_reference.json").read_text())["values"]["4"]
    known = np.array([float(row["rho"]) for row in values])
    exact = np.array([float(row["moment"]) for row in values])
    right.semilogy(known, _error(unit.moment(known), exact), "o", ms=3.5, color=COLORS[2], label="Maxout(4), against 20 digits")
    right.set(title="Error of F_4(ρ)", xlabel="correlation ρ", ylim=(1e-17, 1e5), yticks=[1e-16, 1e-12, 1e-8, 1e-4, 1.0])
    right.legend(loc="upper left", fontsize=8, frameon=False)
    figure.savefig(path, dpi=130)


def _error(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The absolute difference; an exact agreement is shown at the foot of a logarithmic axis."""
    return np.maximum(np.abs(found - exact), 3e-17)


def depth(path: Path) -> None:
    """The distance 1 - ρ through the layers, in the ordered phase and on its border."""
    figure, axes = plots.new_figure(figsize=(9.6, 3.6), ncols=2)
    settings = (("ordered: σ_w² = 0.5/M, σ_b² = 0.1", 0.5, 0.1), ("critical: σ_w² = 1/M, σ_b² = 0", 1.0, 0.0))
    for ax, (title, factor, bias_var) in zip(axes[0], settings, strict=True):
        for rank in (2, 3, 4):
            unit = Maxout(rank)
            profile = theory.depth_profile(unit, 100, weight_var=factor * unit.critical_weight_var, bias_var=bias_var)
            ax.semilogy(profile.distance, color=COLORS[rank], label=f"rank {rank}")
        ax.axhline(2.0**-53, color="#999999", lw=1.0, ls=":")
        ax.text(-3, 2.0**-53, "rounding of 1 - ρ", ha="left", va="bottom", fontsize=8, color="#777777")
        ax.set(title=title, xlabel="hidden layer", ylabel="1 - ρ")
    axes[0, 0].legend(loc="lower left", frameon=False)
    figure.savefig(path, dpi=130)


def demonstration(path: Path) -> None:
    """The picture of `mnngp demo`."""
    data = demo.Digits.load()
    demo.warm_up()
    demo.picture(data, list(demo.run(data)), path)


def main() -> None:
    """Draw all figures and write all tables."""
    FIGURES.mkdir(exist_ok=True)
    moments(FIGURES / "moments.png")
    plots.initialisation(Maxout(4), 30).savefig(FIGURES / "initialisation.png", dpi=130)
    depth(FIGURES / "depth.png")
    demonstration(FIGURES / "demo.png")
    for name in sorted(file.name for file in FIGURES.glob("*.png")):
        print(f"written: docs/figures/{name}")
    make_tables.main()


if __name__ == "__main__":
    main()
