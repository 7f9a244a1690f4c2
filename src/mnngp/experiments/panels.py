"""Plotly figures that are grids of small panels, as plain dictionaries of ``data`` and ``layout``.

``layout.meta`` says how narrow and how high a panel may be, so that a page can put fewer side by
side on a narrow screen. One is figure 3: validation accuracy over the two variances.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mnngp.experiments.comparison import dataset_name, row_name
from mnngp.experiments.selection import Candidate, Row

Figure = dict[str, Any]

MOST_PANELS = 36
Panel = tuple[int | None, int]  # rank and depth
Cells = dict[tuple[float, float], Candidate]  # by bias and weight variance


class Grid(NamedTuple):
    """How panels stand: at most so many columns, each from ``least`` to ``most`` pixels wide.

    With ``share`` their axes are the same, and named at the left and the bottom only.
    """

    columns: int
    least: int
    height: int
    most: int = 640
    share: bool = False


def layout(titles: Sequence[str], x: Figure, y: Figure, grid: Grid) -> Figure:
    """The layout of a grid of panels, with axes ``x`` and ``y``."""
    columns = max(1, min(grid.columns, len(titles)))
    rows = math.ceil(len(titles) / columns)
    around: Figure = {
        "grid": {"rows": rows, "columns": columns, "pattern": "independent"},
        "height": rows * grid.height + 120,
        "annotations": [],
        "legend": {"orientation": "h"},
        "meta": {**grid._asdict(), "panels": len(titles), "columns": columns},
    }
    corner = {"x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "showarrow": False}
    for panel, title in enumerate(titles):
        number = str(panel + 1) if panel else ""
        around[f"xaxis{number}"] = {"anchor": f"y{number}", **x}
        around[f"yaxis{number}"] = {"anchor": f"x{number}", **y}
        if title:
            domains = {"xref": f"x{number} domain", "yref": f"y{number} domain"}
            around["annotations"].append({"text": title, **domains, **corner})
    return around


def scatter(
    panel: int,
    x: Sequence[Any],
    y: Sequence[Any],
    color: str,
    *,
    marker: Figure | None = None,
    line: Figure | None = None,
    **more: Any,
) -> Figure:
    """Points of one colour in a panel: markers, a line, or both.

    Colours are legible on white and on black, and never the only difference.
    """
    parts = {"lines": line, "markers": marker}
    trace: Figure = {"type": "scatter", "x": x, "y": y, **axes(panel)}
    trace["mode"] = "+".join(name for name, part in parts.items() if part is not None)
    for name, part in (("marker", marker), ("line", line)):
        if part is not None:
            trace[name] = {"color": color, **part}
    return trace | more


def axes(panel: int) -> Figure:
    """The axes of a trace in a panel: x, x2, x3, …"""
    number = str(panel + 1) if panel else ""
    return {"xaxis": f"x{number}", "yaxis": f"y{number}"}


def once_in_legend(data: Iterable[Figure]) -> None:
    """One entry for what is drawn in several panels; clicking on it hides all of them."""
    seen = set()
    for trace in data:
        trace["showlegend"] = trace["legendgroup"] not in seen
        seen.add(trace["legendgroup"])


def rounded(value: float | None) -> float | None:
    """Five digits of a number, or nothing."""
    return None if value is None or not math.isfinite(value) else round(value, 5)


# --- figure 3 -------------------------------------------------------------------------------------


def heat_maps(row: Row) -> Figure | None:
    """Mean validation accuracy over (σ_w², σ_b²), a panel a (rank, depth), all on one scale.

    The ring is the selected candidate. None where there is no grid: fewer than four complete cells
    in every panel.
    """
    known = [candidate for candidate in row.candidates if candidate.validation_accuracy is not None]
    by_panel: dict[Panel, Cells] = defaultdict(dict)
    for candidate in known:
        setting = candidate.setting
        # The best one, where networks of finite width differ in something else.
        variances = (setting.bias_var, setting.weight_var)
        by_panel[setting.rank, setting.depth].setdefault(variances, candidate)
    if max(map(len, by_panel.values()), default=0) < 4:
        return None
    best = known[0].setting
    weights = sorted({candidate.setting.weight_var for candidate in known})
    biases = sorted({candidate.setting.bias_var for candidate in known})
    in_order = sorted(by_panel, key=lambda panel: (panel[0] or 0, panel[1]))
    shown = _fewer(in_order, (best.rank, best.depth))
    # Networks of finite width are given by standard deviations.
    square, scale = ("", math.sqrt) if row.kind == "finite" else ("²", float)
    titles, data = [], []
    for panel, (rank, depth) in enumerate(shown):
        titles.append(f"depth {depth}" if rank is None else f"q = {rank}, depth {depth}")
        cells = by_panel[rank, depth]
        grid = [[(bias, weight) for weight in weights] for bias in biases]
        hover = (
            f"{titles[-1]}<br>σ<sub>w</sub>{square} = %{{customdata[0]}}, "
            f"σ<sub>b</sub>{square} = %{{customdata[1]}}<br>validation <b>%{{z:.4f}}</b><br>"
            "test %{customdata[2]}<br>noise %{customdata[3]}<extra></extra>"
        )
        details = [
            [_details(cells.get(place), *map(scale, place)) for place in line] for line in grid
        ]
        heights = [
            [
                rounded(cells[place].validation_accuracy) if place in cells else None
                for place in line
            ]
            for line in grid
        ]
        data.append(
            {"type": "heatmap", "name": titles[-1], "z": heights, "customdata": details}
            | {"coloraxis": "coloraxis", "xgap": 1, "ygap": 1, "hoverongaps": False}
            | {"hovertemplate": hover, **axes(panel)}
        )
    panel = shown.index((best.rank, best.depth))
    place = ([weights.index(best.weight_var)], [biases.index(best.bias_var)])
    for color, width in (("#101418", 4.5), ("#ffffff", 2.0)):  # one is seen on every colour
        ring = {"size": 11, "line": {"width": width, "color": color}}
        trace = scatter(panel, *place, "rgba(0,0,0,0)", marker=ring, hoverinfo="skip")
        data.append(trace | {"showlegend": False})
    x, y = (
        _levels([scale(value) for value in values])
        | {"title": {"text": f"σ<sub>{letter}</sub>{square}"}}
        for values, letter in ((weights, "w"), (biases, "b"))
    )
    depths = max(sum(rank == other for other, _ in shown) for rank, _ in shown)
    around = layout(titles, x, y, Grid(min(depths, 6), 150, 150, most=260, share=True))
    values = [candidate.validation_accuracy or 0.0 for candidate in known]
    low, high = min(values), max(values)
    around["coloraxis"] = {"colorscale": "Viridis", "cmin": rounded(low), "cmax": rounded(high)}
    around["coloraxis"]["colorbar"] = {"title": {"text": "validation accuracy"}}
    # where a colour scale for the best begins
    around["meta"]["upper"] = rounded(high - 0.25 * (high - low))
    return {"data": data, "layout": around}


def all_heat_maps(rows: Iterable[Row]) -> list[tuple[str, Figure]]:
    """A figure for every row over all ranks, with a name to choose it by; large sizes first."""
    named = []
    for row in sorted(rows, key=lambda row: -row.n_train):
        if row.rank is None and (row.width is None) == (row.kind != "finite"):
            name = f"{dataset_name(row.dataset)}, {row.n_train:,} images, {row_name(row)}"
            named += [(name, figure)] if (figure := heat_maps(row)) else []
    return named


def _details(candidate: Candidate | None, bias: float, weight: float) -> list[str]:
    """What hovering shows besides the validation accuracy."""
    test = noise = ""
    if candidate is not None:
        spread, noise_var = candidate.test_accuracy, candidate.noise_var
        test = f"{spread.mean:.4f}{plus_minus(candidate)}" if spread else "–"
        noise = "–" if noise_var is None else f"{noise_var:.0e}"
    return [f"{weight:.4g}", f"{bias:.4g}", test, noise]


def plus_minus(candidate: Candidate) -> str:
    """The spread of a test accuracy, and a word where it is less accurate than usual."""
    spread = candidate.test_accuracy
    text = "" if spread is None or spread.deviation is None else f" ± {spread.deviation:.4f}"
    return f"{text}, less accurate than usual" if candidate.warned else text


def _levels(values: Sequence[float]) -> dict[str, Any]:
    """An axis with a step for each value, however far apart; at most four are written out."""
    last = len(values) - 1
    shown = sorted({0, len(values) // 2, last}) if last > 3 else list(range(len(values)))
    plain = {"showgrid": False, "zeroline": False, "showline": False, "ticks": ""}
    texts = [f"{values[i]:.2g}" for i in shown]
    return {"tickvals": shown, "ticktext": texts, "range": [-0.5, last + 0.5], **plain}


def _fewer(all_panels: list[Panel], best: Panel) -> list[Panel]:
    """At most so many as a page can draw, evenly over the depths, the best among them."""
    if len(all_panels) <= MOST_PANELS:
        return all_panels
    depths = sorted({depth for _, depth in all_panels})
    count = max(1, MOST_PANELS // len({rank for rank, _ in all_panels}))
    kept = {depths[round(i * (len(depths) - 1) / max(count - 1, 1))] for i in range(count)}
    nearest = min(kept, key=lambda depth: abs(depth - best[1]))
    kept = kept - {nearest} | {best[1]}
    return [panel for panel in all_panels if panel[1] in kept]
