"""The picture of the convergence study; it needs Matplotlib (``mnngp[experiments]``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from mnngp.experiments.convergence.covariances import Agreement
from mnngp.experiments.convergence.study import ANGLES, PLACES, DescentAgreement, Study
from mnngp.plots import STYLE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#1b6ca8", "#c8553d", "#2a9d8f", "#6a4c93", "#b8860b", "#9aa5b1")
MARKERS = "osD^vP"
GREY = "#777777"


def convergence(study: Study) -> Figure:
    """Draw errors against width, the outputs' distribution, tangent kernels, and training.

    Parts that the study has nothing for are left out, and so are numbers that are not finite.
    """
    deepest = max(study.covariances, key=lambda row: (row.depth, -row.rank))
    group = [
        row for row in study.covariances if (row.rank, row.depth) == (deepest.rank, deepest.depth)
    ]
    panels: list[tuple[Any, ...]] = [
        (_errors, study.covariances, "Covariance of one network", study.width)
    ]
    if isinstance(deepest, Agreement):  # not of images
        panels += [(_densities, group), (_kurtosis, study.covariances)]
    if study.tangents:
        panels.append((_errors, study.tangents, "Tangent kernel of one network", study.width))
    if study.descents:
        panels.append((_errors, study.descents, "Gradient descent of one network", study.width))
        panels.append((_trained, study.descents[-1]))
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    size = (11.0 / 3.0 * columns, 3.3 * rows)
    figure, axes = new_figure(figsize=size, nrows=rows, ncols=columns)
    from matplotlib import rc_context

    with rc_context(STYLE):
        for ax, (draw, *arguments) in zip(axes.flat, panels, strict=False):
            draw(ax, *arguments)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    return figure


def _errors(ax: Axes, rows: Sequence[Any], title: str, xlabel: str) -> None:
    """Relative squared errors with bars of two standard errors, and a line of slope -1."""
    # The scale comes first: an axis without points cannot be made logarithmic afterwards.
    ax.set(title=title, xlabel=xlabel, ylabel="relative squared error", xscale="log", yscale="log")
    kinds = _kinds(rows)
    for (rank, depth), group in kinds.items():
        chosen = [
            (row.width, row.squared_error, 2.0 * row.squared_error_std)
            for row in group
            if _drawable(row.squared_error) and np.isfinite(row.squared_error_std)
        ]
        widths, values, above = np.reshape(chosen, (-1, 3)).T
        below = np.minimum(above, 0.9 * values)  # a logarithmic axis has no room for zero
        # Matplotlib before 3.10 takes an array of one number for a number
        bars = np.stack([below, above]).tolist()
        label, style = f"rank {rank}, depth {depth}", _style(kinds, rank, depth)
        ax.errorbar(widths, values, yerr=bars, label=label, **style)
    width = np.array([rows[0].width, max(row.width for row in rows)])
    scaled = [row.squared_error * row.width for row in rows if _drawable(row.squared_error)]
    top = 1.8 * max(scaled, default=np.nan)
    if _drawable(top):
        ax.plot(width, top / width, color=GREY, lw=1.0, ls=":", label="slope −1")
    _finish(ax, rows)


def _kurtosis(ax: Axes, rows: Sequence[Agreement]) -> None:
    """Excess kurtosis of an output: measured, on the exact line."""
    ax.set(title="Excess kurtosis of an output", xlabel="width", ylabel="drawn; lines: exact")
    ax.set(xscale="log", yscale="log")
    kinds = _kinds(rows)
    for (rank, depth), chosen in kinds.items():
        style = _style(kinds, rank, depth)
        exact, drawn = (
            [(row.width, getattr(row, name)) for row in chosen if _drawable(getattr(row, name))]
            for name in ("exact_kurtosis", "kurtosis")
        )
        ax.plot(*np.reshape(exact, (-1, 2)).T, color=style["color"], lw=1.0, ls=style["ls"])
        label, style = f"rank {rank}, depth {depth}", style | {"ls": "none"}
        ax.plot(*np.reshape(drawn, (-1, 2)).T, label=label, **style)
    _finish(ax, rows)


def _densities(ax: Axes, rows: Sequence[Agreement]) -> None:
    """The density of an output in units of the limit's deviation; its tails are what differs."""
    grid = np.linspace(-6.0, 6.0, 241)
    shown = rows if len(rows) <= 4 else [*rows[:3], rows[-1]]
    for row, color in zip(shown, COLORS, strict=False):
        # The kernel's variance is the exact mean of V: no network is biased in it.
        deviation = np.sqrt(
            row.draws.covariances[:, 0, 0] / rows[-1].draws.covariances[:, 0, 0].mean()
        )
        if not _drawable(deviation):
            continue
        density = norm.pdf(grid[:, None], scale=deviation).mean(axis=1)
        ax.semilogy(grid, density, color=color, lw=1.4, label=f"width {row.width:,}")
    ax.semilogy(grid, norm.pdf(grid), color="#222222", lw=1.0, ls="--", label="Gaussian")
    title = f"An output's density, rank {rows[0].rank}, depth {rows[0].depth}"
    ax.set(title=title, xlabel="output / √K", ylim=(1e-6, 20.0))
    ax.legend(fontsize=8, frameon=False, ncols=2, loc="upper center")


def _trained(ax: Axes, descent: DescentAgreement) -> None:
    """Trained networks at the end, on what is predicted for each, in the band of the limit."""
    angles = PLACES / np.pi
    mean, band = descent.mean[-1], 1.96 * descent.std[-1]
    predicted, trained = (
        np.where(np.isfinite(values), values, np.nan)
        for values in (descent.predicted[-1], descent.trained[-1])
    )
    light, label = "#dbe9f6", "limit: mean, 95 %"
    ax.fill_between(angles, mean - band, mean + band, color=light, lw=0, label=label)
    ax.plot(angles, mean, color=COLORS[0], lw=1.2)
    for index, color in zip(range(min(3, descent.networks)), COLORS[1:], strict=False):
        names = ("predicted", "trained") if index == 0 else (None, None)
        ax.plot(angles, predicted[index], color=color, lw=1.2, label=names[0])
        ax.plot(angles, trained[index], "o", color=color, ms=2.4, label=names[1])
    ax.plot(ANGLES / np.pi, np.sin(ANGLES), "o", color="#222222", ms=5, label="data", zorder=5)
    title = f"Trained, rank {descent.rank}, depth {descent.depth}, width {descent.width:,}"
    ax.set(title=title, xlabel="angle of the input / π")
    ax.legend(fontsize=8, frameon=False, ncols=2, loc="upper left")
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.35 * (high - low))


def _finish(ax: Axes, rows: Sequence[Any]) -> None:
    """Write the widths below the axis, aslant where they are close, and the legend."""
    places = sorted({row.width for row in rows})
    aslant: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    close = any(right < 4 * left for left, right in pairwise(places))
    ax.set_xticks(places, [f"{width:,}" for width in places], **(aslant if close else {}))
    ax.minorticks_off()
    ax.legend(fontsize=8, frameon=False)


def _drawable(values: Any) -> bool:
    """Whether a logarithmic axis has a place for them."""
    return bool(np.all(np.isfinite(values) & (np.asarray(values) > 0.0)))


def _kinds(rows: Sequence[Any]) -> dict[tuple[int, int], list[Any]]:
    kinds: dict[tuple[int, int], list[Any]] = {}
    for row in rows:
        kinds.setdefault((row.rank, row.depth), []).append(row)
    return kinds


def _style(kinds: dict[tuple[int, int], list[Any]], rank: int, depth: int) -> dict[str, Any]:
    """A colour for each rank, a marker and a line for each depth."""
    ranks, depths = (sorted({key[place] for key in kinds}) for place in (0, 1))
    place = depths.index(depth)
    return {
        "color": COLORS[ranks.index(rank) % len(COLORS)],
        "marker": MARKERS[place % len(MARKERS)],
        "ls": ("-", "--", "-.", ":")[place % 4],
        "ms": 4.5,
        "lw": 1.2,
    }
