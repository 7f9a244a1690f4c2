"""The paper's figures 1 and 2 and the timings, as Plotly figures; ``panels`` has figure 3.

``plotly.graph_objects.Figure(figure)`` makes an object of one. Names that come from data or
configuration are escaped, because Plotly reads mark-up in texts.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from statistics import median

import numpy as np

from mnngp.activations import Maxout
from mnngp.experiments import panels
from mnngp.experiments.comparison import Published, model_name, network_name, row_name, table1
from mnngp.experiments.panels import Figure, Grid, once_in_legend, plus_minus, rounded, scatter
from mnngp.experiments.records import Result
from mnngp.experiments.selection import Row

BLUE, ORANGE, GREEN = "#3b82c4", "#d1602f", "#1f9d78"
PURPLE, GREY, OCHRE = "#a66bb5", "#808890", "#b08a1e"
RANK_STYLES = {2: (BLUE, "solid"), 3: (GREEN, "dash"), 4: (ORANGE, "dashdot"), 8: (PURPLE, "dot")}
STYLES = {  # colour, marker and dash of an activation
    "maxout": (BLUE, "circle", "solid"),
    "relu": (ORANGE, "square", "dash"),
    "tanh": (GREEN, "triangle-up", "dot"),
    "erf": (OCHRE, "triangle-down", "dashdot"),
    "gelu": (PURPLE, "pentagon", "longdash"),
    "leaky_relu": (GREY, "hexagon", "longdashdot"),
    "abs": (GREY, "star", "dot"),
}
OTHER = (GREY, "x", "dot")
# shifts in figure 2, so that points of equal height do not hide each other
ASIDE = {"relu": 0.93, "tanh": 1.075}
SIZES = (  # colour and marker, from few training images to many
    ("#3a9c9a", "circle"),
    ("#3b82c4", "square"),
    ("#5f72d2", "diamond"),
    ("#8561c5", "cross"),
    ("#a6589f", "x"),
    ("#bd5579", "star"),
)
# from narrow to wide
WIDTHS = (("#c98bd0", "diamond"), ("#a66bb5", "cross"), ("#7d4a95", "x"), ("#bd5579", "star"))
METHODS = {  # of figure1.csv: name, colour, marker
    "monte_carlo": ("Monte Carlo, a million draws", GREY, "x-thin-open"),
    "printed": ("quadrature on the grid as printed", OCHRE, "triangle-up-open"),
    "table": ("the paper's table, interpolated", ORANGE, "square-open"),
    "library": ("this library", BLUE, "circle"),
}
LEAST_ERROR = 1e-17  # drawn for no error at all, which a logarithmic axis does not have


def moments(ranks: Sequence[int] = (2, 3, 4)) -> Figure:
    """Figure 1: F_q, exact, and how far each way to compute it is off, a panel a rank."""
    rho = np.cos(np.linspace(np.pi, 0.0, 121))  # closer together near ±1, where F_q bends
    data = []
    for rank, (color, dash) in RANK_STYLES.items():
        hover = f"F<sub>{rank}</sub>(%{{x:.3f}}) = %{{y:.5f}}<extra></extra>"
        values = Maxout(rank).moment(rho).round(6).tolist()
        curve = scatter(0, rho.round(5).tolist(), values, color, line={"dash": dash, "width": 2})
        data.append(curve | {"name": f"q = {rank}", "hovertemplate": hover})
    for panel, rank in enumerate(ranks, start=1):
        for method, (name, color, symbol) in METHODS.items():
            places, errors = zip(*_errors()[rank, method], strict=True)
            heights = [max(abs(error), LEAST_ERROR) for error in errors]
            marker = {"symbol": symbol, "size": 5, "line": {"color": color, "width": 1}}
            line = None if method == "monte_carlo" else {"width": 1}
            hover = f"{name}<br>ρ = %{{x:.3f}}: off by %{{y:.1e}}<extra></extra>"
            trace = scatter(panel, places, heights, color, marker=marker, line=line, name=name)
            trace |= {"legendgroup": method, "showlegend": panel == 1, "hovertemplate": hover}
            data.append(trace)
    titles = ["F<sub>q</sub>(ρ), exact", *(f"error of F<sub>{rank}</sub>" for rank in ranks)]
    x = {
        "title": {"text": "correlation ρ"},
        "range": [-1.04, 1.04],
        "tickvals": [-1, -0.5, 0, 0.5, 1],
    }
    powers = (16, 12, 8, 4)
    y = {
        "type": "log",
        "range": [-17.6, 0.8],
        "tickvals": [*(10.0**-power for power in powers), 1],
        "ticktext": [*(f"10<sup>−{power}</sup>" for power in powers), "1"],
    }
    layout = panels.layout(titles, x, y, Grid(columns=4, least=255, height=250))
    layout["yaxis"] = {"anchor": "x"}
    return {"data": data, "layout": layout}


@lru_cache(maxsize=1)
def _errors() -> dict[tuple[int, str], list[tuple[float, float]]]:
    """What benchmarks/figure1.py measured, by rank and method."""
    errors: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    text = files("mnngp.experiments").joinpath("figure1.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        errors[int(row["rank"]), row["method"]].append((float(row["rho"]), float(row["error"])))
    return errors


# --- figure 2: test accuracy against the number of training images --------------------------------


def accuracy(rows: Iterable[Row], dataset: str) -> Figure | None:
    """Figure 2: test accuracy against n_t, ours and the paper's, over all ranks and by rank.

    With a single size, and nothing of the paper's to set it beside, the networks stand side by side
    instead. None if nothing is complete.
    """
    rows = [row for row in rows if row.dataset == dataset and row.best and row.best.test_accuracy]
    if not rows:
        return None
    theirs = [row for row in table1() if row.dataset == dataset]
    if not theirs and len({row.n_train for row in rows}) == 1:
        return _side_by_side(rows)
    ranks = sorted({row.rank for row in rows if row.rank is not None})
    shown: list[int | None] = [None, *ranks] if len(ranks) > 1 else [None]
    data: list[Figure] = []
    for panel, rank in enumerate(shown):
        by_network: dict[tuple[str, str, int | None], list[Row]] = defaultdict(list)
        for row in rows:
            here = row.rank == (rank if row.activation == "maxout" else None)
            if here and _of_one_width(row):
                by_network[row.activation, row.kind, row.width].append(row)
        data += [_ours(panel, line, _style(line[0], rows)) for line in by_network.values()]
        networks = (("maxout", False), ("relu", False), ("tanh", False), ("maxout", True))
        for activation, finite in networks:
            points = [
                row
                for row in theirs
                if (row.activation, row.width is not None) == (activation, finite)
                and rank in (None, row.rank)
            ]
            data += [_papers(panel, points, activation, finite)] if points else []
    once_in_legend(data)
    titles = ["all ranks" if len(ranks) > 1 else "", *(f"rank {rank}" for rank in shown[1:])]
    sizes = sorted({row.n_train for row in rows} | {row.n_train for row in theirs})
    x = {
        "title": {"text": "training images"},
        "type": "log",
        "range": [math.log10(sizes[0]) - 0.2, math.log10(sizes[-1]) + 0.2],
        "tickvals": _apart(sizes),
        "ticktext": [f"{n / 1000:g}k" if n >= 1000 else str(n) for n in _apart(sizes)],
    }
    y = {"title": {"text": "test accuracy"}, "matches": "y"}
    layout = panels.layout(titles, x, y, Grid(columns=4, least=250, height=300, share=True))
    layout["meta"] |= {"paper": bool(theirs), "by_size": True}
    return {"data": data, "layout": layout}


def _of_one_width(row: Row) -> bool:
    """Whether a row is of one width or infinite: not over several finite widths."""
    return (row.width is None) == (row.kind != "finite")


def _style(row: Row, rows: Iterable[Row]) -> tuple[str, str, str]:
    """Colour, marker and dash: by activation, or by width, from narrow to wide."""
    color, symbol, dash = STYLES.get(row.activation, OTHER)
    if row.kind != "finite":
        return (color, symbol, dash) if row.kind == "nngp" else (color, f"{symbol}-dot", "longdash")
    widths = sorted({other.width for other in rows if other.width is not None})
    return (*WIDTHS[widths.index(row.width or widths[0]) % len(WIDTHS)], "dot")


def _ours(panel: int, rows: list[Row], style: tuple[str, str, str]) -> Figure:
    color, symbol, dash = style
    first, best = rows[0], [row.best for row in rows if row.best]
    name = escape(network_name(first.activation, first.kind, first.width))
    spreads = [candidate.test_accuracy for candidate in best if candidate.test_accuracy]
    bars = [rounded(spread.deviation or 0.0) for spread in spreads]
    hover = (
        f"{name}, n<sub>t</sub> = "
        f"%{{customdata[2]}}<br>%{{y:.4f}}%{{customdata[1]}}<br>%{{customdata[0]}}<extra></extra>"
    )
    return scatter(
        panel,
        [round(row.n_train * ASIDE.get(first.activation, 1.0), 2) for row in rows],
        [rounded(spread.mean) for spread in spreads],
        color,
        marker={"symbol": symbol, "size": 8},
        line={"dash": dash, "width": 1.75},
        name=name,
        legendgroup=f"ours {name}",
        error_y={"type": "data", "array": bars, "thickness": 1, "width": 3},
        customdata=[
            [escape(model_name(c.setting)), plus_minus(c), f"{c.setting.n_train:,}"] for c in best
        ],
        hovertemplate=hover,
    )


def _papers(panel: int, points: list[Published], activation: str, finite: bool) -> Figure:
    color, symbol, _ = (PURPLE, "diamond", "") if finite else STYLES[activation]
    name = "paper: finite width" if finite else f"paper: {network_name(activation)}"
    aside = 1.0 if finite else ASIDE.get(activation, 1.0)
    hover = "%{customdata[1]}<br>%{y:.4f}<br>%{customdata[0]}<extra></extra>"
    return scatter(
        panel,
        [round(row.n_train * aside, 2) for row in points],
        [row.accuracy for row in points],
        color,
        marker={"symbol": f"{symbol}-open", "size": 11, "line": {"color": color, "width": 1.25}},
        name=name,
        legendgroup=name,
        customdata=[[row.model, f"{row.n_train:,}"] for row in points],
        hovertemplate=f"{name}, n<sub>t</sub> = {hover}",
    )


def _side_by_side(rows: list[Row]) -> Figure:
    """One size: the networks below each other, with their spread."""
    ranked = len({row.rank for row in rows if row.rank is not None}) > 1
    shown = [
        row
        for row in rows
        if (row.rank is not None) == (ranked and row.activation == "maxout") and _of_one_width(row)
    ]
    data, hover = [], "%{x:.4f}%{customdata[1]}<br>%{customdata[0]}<extra></extra>"
    for row in reversed(shown):
        name, trace = escape(row_name(row)), _ours(0, [row], _style(row, rows))
        trace |= {"x": trace["y"], "y": [name], "error_x": trace.pop("error_y")}
        trace |= {"mode": "markers", "showlegend": False, "hovertemplate": f"{name}<br>{hover}"}
        data.append(trace)
    x = {"title": {"text": "test accuracy"}}
    y = {"type": "category", "automargin": True, "showgrid": False}
    layout = panels.layout([""], x, y, Grid(1, least=250, height=30 * len(shown) + 20, most=760))
    layout["meta"] |= {"paper": False, "by_size": False}
    return {"data": data, "layout": layout}


def _apart(sizes: Sequence[int]) -> list[int]:
    """Sizes to be written at a logarithmic axis: those that do not touch."""
    kept: list[int] = []
    for size in reversed(sizes):
        if not kept or size < kept[-1] / 1.8:
            kept.append(size)
    return kept[::-1]


# --- timings --------------------------------------------------------------------------------------


def timings(results: Iterable[Result]) -> Figure | None:
    """Median time of a cell against depth, a line a size, a panel an activation.

    None for a single depth.
    """
    timed = [result for result in results if result.status == "done" and result.seconds]
    if len({result.depth for result in timed}) < 2:
        return None
    networks = list(dict.fromkeys((one.activation, one.kind, one.width) for one in timed))
    sizes = sorted({result.n_train for result in timed})
    seconds: dict[tuple[int, int], dict[int, list[float]]] = {}  # by panel and size, by depth
    for one in sorted(timed, key=lambda one: one.depth):
        line = (networks.index((one.activation, one.kind, one.width)), one.n_train)
        seconds.setdefault(line, {}).setdefault(one.depth, []).append(one.seconds or 0.0)
    data: list[Figure] = []
    for (panel, size), times in sorted(seconds.items()):
        color, symbol = SIZES[sizes.index(size) % len(SIZES)]
        trace = scatter(
            panel,
            list(times),
            [float(f"{median(values):.3g}") for values in times.values()],
            color,
            marker={"size": 6, "symbol": symbol},
            line={"width": 1.5},
            name=f"{size:,} images",
            legendgroup=str(size),
            customdata=[[len(values)] for values in times.values()],
            hovertemplate=f"{size:,} images, depth %{{x}}<br>%{{y:.3g}} s, of "
            "%{customdata[0]:,} cells<extra></extra>",
        )
        data.append(trace)
    once_in_legend(data)
    heights = [height for trace in data for height in trace["y"]]
    wide = max(heights) > 10.0 * min(heights)
    scale = (
        {"type": "log", "dtick": 1, "exponentformat": "power"} if wide else {"rangemode": "tozero"}
    )
    x = {"title": {"text": "hidden layers"}, "rangemode": "tozero"}
    y = {"title": {"text": "seconds a cell"}, "matches": "y"} | scale
    titles = [escape(network_name(*network)) for network in networks]
    columns = 4 if len(titles) % 4 == 0 else 3
    layout = panels.layout(titles, x, y, Grid(columns, least=250, height=230, share=True))
    return {"data": data, "layout": layout}
