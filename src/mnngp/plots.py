"""Pictures of theory and models. They need Matplotlib (``pip install "mnngp[experiments]"``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mnngp import _validation, theory
from mnngp._system.extras import require
from mnngp.activations import Activation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {"ordered": "#dbe9f6", "critical": "#666666", "chaotic": "#fde0d0"}
LINES = ("#1b6ca8", "#222222", "#c8553d")
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9.5,
    "axes.titlesize": 10.5,
}
_LONGEST = 32  # characters of a name


def new_figure(**arguments: Any) -> tuple[Figure, Any]:
    """A figure and its axes that no window or global state knows of."""
    require("plots", "matplotlib")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    grid = {
        name: arguments.pop(name) for name in ("nrows", "ncols", "gridspec_kw") if name in arguments
    }
    with rc_context(STYLE):
        figure = Figure(layout="constrained", **arguments)
        return figure, figure.subplots(squeeze=False, **grid)


def initialisation(
    activation: Activation,
    depth: int,
    *,
    weight_var: float | None = None,
    bias_var: float = 0.0,
    correlation: float = 0.5,
) -> Figure:
    """The phase diagram, and what ``depth`` layers do at, below and above a weight variance.

    Parameters
    ----------
    activation : Activation
        Of all hidden layers.
    depth : int
        Number of hidden layers.
    weight_var : float, optional
        The critical one by default.
    bias_var : float
        For all layers.
    correlation : float
        Of the two inputs that are followed.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with ``figure.savefig("phase.png")``.
    """
    chosen = weight_var
    if chosen is None:
        chosen = theory.critical_weight_var(activation, bias_var=bias_var)
    figure, axes = new_figure(
        figsize=(11.0, 3.6), ncols=4, gridspec_kw={"width_ratios": [1.25, 1, 1, 1]}
    )
    phase_diagram(activation, axes[0, 0], chosen, bias_var)
    panels = (
        ("variance", "variance"),
        ("distance", "1 - correlation"),
        ("gradient", "mean square gradient"),
    )
    for factor, color in zip((0.8, 1.0, 1.25), LINES, strict=True):
        profile = theory.depth_profile(
            activation,
            depth,
            weight_var=factor * chosen,
            bias_var=bias_var,
            correlation=correlation,
        )
        for ax, (name, title) in zip(axes[0, 1:], panels, strict=True):
            label = f"σ_w² = {factor * chosen:.4g}"
            ax.semilogy(
                np.maximum(getattr(profile, name), 1e-300),
                color=color,
                label=label,
                lw=2 if factor == 1.0 else 1.3,
            )
            ax.set(title=title, xlabel="layer")
            ax.xaxis.get_major_locator().set_params(integer=True)
    axes[0, 1].legend(fontsize=8, frameon=False)
    return figure


def relevance(model: Any, *, most: int = 20) -> Figure:
    """How much the predictions of a fitted model depend on each column, as bars.

    Parameters
    ----------
    model : MaxoutGPClassifier or MaxoutGPRegressor
        Whose ``feature_relevance_`` is drawn, the largest on top.
    most : int
        Columns to show at most; the others are one bar more.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with ``figure.savefig("relevance.png")``.
    """
    most = _validation.positive_int("most", most)
    found = model.feature_relevance_
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(len(found))])
    order = np.argsort(-found, kind="stable")[:most]
    # not for Matplotlib to take for mathematics
    labels = [_shortened(str(names[j])).replace("$", r"\$") for j in order]
    values, colors = found[order].tolist(), [LINES[0]] * len(order)
    if len(found) > len(order):
        labels.append(f"{len(found) - len(order):,} others together")
        values.append(float(found.sum() - found[order].sum()))
        colors.append(COLORS["critical"])
    figure, axes = new_figure(figsize=(6.4, 0.9 + 0.26 * len(values)))
    ax = axes[0, 0]
    bars = ax.barh(range(len(values)), values, color=colors, height=0.72)
    ax.bar_label(bars, [f"{value:.3f}" for value in values], padding=3, fontsize=8)
    ax.set_yticks(range(len(values)), labels)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.margins(x=0.12, y=0.02)
    ax.set(title="relevance of the columns", xlabel="share of the mean squared gradient")
    return figure


def _shortened(name: str) -> str:
    """A name from the data that leaves room for the bars."""
    printable = "".join(one if one.isprintable() else " " for one in name)
    return printable if len(printable) <= _LONGEST else f"{printable[: _LONGEST - 1]}…"


def phase_diagram(activation: Activation, ax: Axes, weight_var: float, bias_var: float) -> None:
    """Draw the phases around a point into ``ax``, and where gradients are kept."""
    right, top = 2.0 * weight_var, max(2.0 * bias_var, 0.5)
    # a straight line needs two points
    biases = top * np.linspace(0.0, 1.0, 2 if activation.homogeneous else 21) ** 2
    border = np.array([theory.critical_weight_var(activation, bias_var=float(b)) for b in biases])
    ax.fill_betweenx(biases, 0.0, border, color=COLORS["ordered"], lw=0)
    ax.fill_betweenx(biases, border, np.maximum(border, right), color=COLORS["chaotic"], lw=0)
    ax.plot(border, biases, color=COLORS["critical"], lw=1.5)
    kept = 1.0 / activation.derivative(1.0) if activation.homogeneous else np.inf
    if abs(kept / border[0] - 1.0) > 1e-6 and kept < right:
        ax.axvline(kept, color=COLORS["critical"], ls=":", lw=1.2)
        ax.text(kept, top * 0.4, "gradients kept", rotation=90, va="bottom", ha="right", fontsize=8)
    ax.plot(weight_var, bias_var, "o", color=LINES[1], clip_on=False, zorder=5)
    ax.text(min(border[-1], right) / 2.0, top * 0.92, "ordered", ha="center")
    ax.text(0.98 * right, top * 0.05, "chaotic", ha="right")
    ax.set(
        title=repr(activation),
        xlabel="weight variance σ_w²",
        ylabel="bias variance σ_b²",
        xlim=(0.0, right),
        ylim=(0.0, top),
    )
