"""The paper's figures and the timings, as Plotly figures: plain dictionaries of ``data`` and
``layout``.

``plotly.graph_objects.Figure(figure)`` makes an object of one. Each is a grid of small panels
(Plotly's ``layout.grid``), and ``layout.meta`` says how narrow and how high a panel may be, so that
a page can put fewer side by side on a narrow screen. Colours are legible on white and on black, and
never the only difference: markers and dashes differ too. Names that come from data or configuration
are escaped, because Plotly reads mark-up in texts.
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
from typing import TYPE_CHECKING, Any

import numpy as np

from mnngp.activations import Maxout
from mnngp.experiments.paper import Published, table1
from mnngp.experiments.selection import Candidate, Row
from mnngp.experiments.tables import dataset_name, model_name, network_name, row_name

if TYPE_CHECKING:
    from mnngp.experiments.store import Result

Figure = dict[str, Any]

BLUE, ORANGE, GREEN, PURPLE, GREY, OCHRE = (
    "#3b82c4",
    "#d1602f",
    "#1f9d78",
    "#a66bb5",
    "#808890",
    "#b08a1e",
)
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
MOST_PANELS = 36


# --- figure 1: F_q and its error ------------------------------------------------------------------


def moments(ranks: Sequence[int] = (2, 3, 4)) -> Figure:
    """Figure 1: F_q, exact, and how far each way to compute it is off, a panel a rank."""
    rho = np.cos(np.linspace(np.pi, 0.0, 121))  # closer together near ±1, where F_q bends
    data = []
    for rank, (color, dash) in RANK_STYLES.items():
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"q = {rank}",
                "x": _rounded(rho, 5),
                "y": _rounded(Maxout(rank).moment(rho), 6),
                "line": {"color": color, "dash": dash, "width": 2},
                "hovertemplate": f"F<sub>{rank}</sub>(%{{x:.3f}}) = %{{y:.5f}}<extra></extra>",
                **_axes(0),
            }
        )
    for panel, rank in enumerate(ranks, start=1):
        for method, (name, color, symbol) in METHODS.items():
            points = _errors()[rank, method]
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers" if method == "monte_carlo" else "lines+markers",
                    "name": name,
                    "legendgroup": method,
                    "showlegend": panel == 1,
                    "x": [where for where, _ in points],
                    "y": [max(abs(error), LEAST_ERROR) for _, error in points],
                    "marker": {
                        "color": color,
                        "symbol": symbol,
                        "size": 5,
                        "line": {"color": color, "width": 1},
                    },
                    "line": {"color": color, "width": 1},
                    "hovertemplate": f"{name}<br>ρ = %{{x:.3f}}: off by %{{y:.1e}}<extra></extra>",
                    **_axes(panel),
                }
            )
    layout = _panels(
        ["F<sub>q</sub>(ρ), exact", *(f"error of F<sub>{rank}</sub>" for rank in ranks)],
        {
            "title": {"text": "correlation ρ"},
            "range": [-1.04, 1.04],
            "tickvals": [-1, -0.5, 0, 0.5, 1],
        },
        {
            "type": "log",
            "range": [-17.6, 0.8],
            "tickvals": [1e-16, 1e-12, 1e-8, 1e-4, 1],
            "ticktext": [
                "10<sup>−16</sup>",
                "10<sup>−12</sup>",
                "10<sup>−8</sup>",
                "10<sup>−4</sup>",
                "1",
            ],
        },
        columns=4,
        least=255,
        height=250,
    )
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
    """Figure 2: test accuracy against n_t, over all ranks and a panel a rank, with the other
    activations and the paper's points.

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
    panels: list[int | None] = [None, *ranks] if len(ranks) > 1 else [None]
    data: list[Figure] = []
    for panel, rank in enumerate(panels):
        by_network: dict[tuple[str, str, int | None], list[Row]] = defaultdict(list)
        for row in rows:
            if row.rank == (rank if row.activation == "maxout" else None) and (
                row.width is None
            ) == (row.kind != "finite"):
                by_network[row.activation, row.kind, row.width].append(row)
        data += [_ours(line, _style(line[0], rows)) | _axes(panel) for line in by_network.values()]
        for activation, finite in (
            ("maxout", False),
            ("relu", False),
            ("tanh", False),
            ("maxout", True),
        ):
            points = [
                row
                for row in theirs
                if row.activation == activation and (row.width is not None) == finite
            ]
            if points := [row for row in points if rank in (None, row.rank)]:
                data.append(_papers(points, activation, finite) | _axes(panel))
    _once_in_legend(data)
    titles = ["all ranks" if len(ranks) > 1 else "", *(f"rank {rank}" for rank in panels[1:])]
    sizes = sorted({row.n_train for row in rows} | {row.n_train for row in theirs})
    x = {
        "title": {"text": "training images"},
        "type": "log",
        "range": [math.log10(sizes[0]) - 0.2, math.log10(sizes[-1]) + 0.2],
        "tickvals": _apart(sizes),
        "ticktext": [_short(size) for size in _apart(sizes)],
    }
    y = {"title": {"text": "test accuracy"}, "matches": "y"}
    layout = _panels(titles, x, y, columns=4, least=250, height=300, share=True)
    layout["meta"] |= {"paper": bool(theirs), "by_size": True}
    return {"data": data, "layout": layout}


def _style(row: Row, rows: Iterable[Row]) -> tuple[str, str, str]:
    """Colour, marker and dash: by activation, or by width, from the least to the greatest of those
    that there are.
    """
    color, symbol, dash = STYLES.get(row.activation, OTHER)
    if row.kind != "finite":
        return (color, symbol, dash) if row.kind == "nngp" else (color, f"{symbol}-dot", "longdash")
    widths = sorted({other.width for other in rows if other.width is not None})
    return (*WIDTHS[widths.index(row.width or widths[0]) % len(WIDTHS)], "dot")


def _ours(line: list[Row], style: tuple[str, str, str]) -> Figure:
    color, symbol, dash = style
    activation = line[0].activation
    name = escape(network_name(activation, line[0].kind, line[0].width))
    best = [row.best for row in line if row.best]
    spreads = [candidate.test_accuracy for candidate in best if candidate.test_accuracy]
    hover = (
        f"{name}, n<sub>t</sub> = "
        f"%{{customdata[2]}}<br>%{{y:.4f}}%{{customdata[1]}}<br>%{{customdata[0]}}<extra></extra>"
    )
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "legendgroup": f"ours {name}",
        "x": [round(row.n_train * ASIDE.get(activation, 1.0), 2) for row in line],
        "y": [_round(spread.mean) for spread in spreads],
        "error_y": {
            "type": "data",
            "array": [_round(spread.deviation or 0.0) for spread in spreads],
            "thickness": 1,
            "width": 3,
        },
        "customdata": [
            [escape(model_name(c.setting)), _plus_minus(c), f"{c.setting.n_train:,}"] for c in best
        ],
        "marker": {"color": color, "symbol": symbol, "size": 8},
        "line": {"color": color, "dash": dash, "width": 1.75},
        "hovertemplate": hover,
    }


def _papers(points: list[Published], activation: str, finite: bool) -> Figure:
    color, symbol, _ = (PURPLE, "diamond", "") if finite else STYLES[activation]
    name = "paper: finite width" if finite else f"paper: {network_name(activation)}"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "legendgroup": name,
        "x": [
            round(row.n_train * (1.0 if finite else ASIDE.get(activation, 1.0)), 2)
            for row in points
        ],
        "y": [row.accuracy for row in points],
        "customdata": [[row.model, f"{row.n_train:,}"] for row in points],
        "marker": {
            "color": color,
            "symbol": f"{symbol}-open",
            "size": 11,
            "line": {"color": color, "width": 1.25},
        },
        "hovertemplate": f"{name}, n<sub>t</sub> = "
        f"%{{customdata[1]}}<br>%{{y:.4f}}<br>%{{customdata[0]}}<extra></extra>",
    }


def _side_by_side(rows: list[Row]) -> Figure:
    """One size: the networks below each other, with their spread."""
    ranked = len({row.rank for row in rows if row.rank is not None}) > 1
    shown = [
        row
        for row in rows
        if (row.rank is not None) == (ranked and row.activation == "maxout")
        and (row.width is None) == (row.kind != "finite")
    ]
    data = []
    for row in reversed(shown):
        name = escape(row_name(row))
        trace = _ours([row], _style(row, rows))
        trace |= {
            "x": trace["y"],
            "y": [name],
            "error_x": trace.pop("error_y"),
            "mode": "markers",
            "showlegend": False,
        }
        trace["hovertemplate"] = (
            f"{name}<br>%{{x:.4f}}%{{customdata[1]}}<br>%{{customdata[0]}}<extra></extra>"
        )
        data.append(trace)
    y = {"type": "category", "automargin": True, "showgrid": False}
    layout = _panels(
        [""],
        {"title": {"text": "test accuracy"}},
        y,
        columns=1,
        least=250,
        most=760,
        height=30 * len(shown) + 20,
    )
    layout["meta"] |= {"paper": False, "by_size": False}
    return {"data": data, "layout": layout}


# --- figure 3: validation accuracy over the two variances -----------------------------------------


def heat_maps(row: Row) -> Figure | None:
    """Figure 3: mean validation accuracy over (σ_w², σ_b²), a panel a (rank, depth), all on one
    colour scale.

    The ring is the selected candidate. None where there is no grid: fewer than four complete cells
    in every panel.
    """
    known = [candidate for candidate in row.candidates if candidate.validation_accuracy is not None]
    by_panel: dict[tuple[int | None, int], dict[tuple[float, float], Candidate]] = defaultdict(dict)
    for candidate in known:
        setting = candidate.setting
        # The best one, where networks of finite width differ in something else.
        by_panel[setting.rank, setting.depth].setdefault(
            (setting.bias_var, setting.weight_var), candidate
        )
    if max(map(len, by_panel.values()), default=0) < 4:
        return None
    best = known[0].setting
    # Networks of finite width are given by standard deviations.
    square, shown = ("", math.sqrt) if row.kind == "finite" else ("²", float)
    weights = sorted({candidate.setting.weight_var for candidate in known})
    biases = sorted({candidate.setting.bias_var for candidate in known})
    panels = _fewer(
        sorted(by_panel, key=lambda panel: (panel[0] or 0, panel[1])), (best.rank, best.depth)
    )
    data: list[Figure] = []
    titles = []
    for panel, (rank, depth) in enumerate(panels):
        titles.append(f"depth {depth}" if rank is None else f"q = {rank}, depth {depth}")
        cells = by_panel[rank, depth]
        data.append(
            {
                "type": "heatmap",
                "name": titles[-1],
                "z": [
                    [_height(cells.get((bias, weight))) for weight in weights] for bias in biases
                ],
                "customdata": [
                    [
                        _details(cells.get((bias, weight)), shown(bias), shown(weight))
                        for weight in weights
                    ]
                    for bias in biases
                ],
                "coloraxis": "coloraxis",
                "xgap": 1,
                "ygap": 1,
                "hoverongaps": False,
                "hovertemplate": (
                    f"{titles[-1]}<br>σ<sub>w</sub>{square} = %{{customdata[0]}}, "
                    f"σ<sub>b</sub>{square} = %{{customdata[1]}}<br>"
                    "validation <b>%{z:.4f}</b><br>test %{customdata[2]}<br>noise "
                    "%{customdata[3]}<extra></extra>"
                ),
                **_axes(panel),
            }
        )
    for color, width in (("#101418", 4.5), ("#ffffff", 2.0)):  # a ring that is seen on every colour
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [weights.index(best.weight_var)],
                "y": [biases.index(best.bias_var)],
                "marker": {
                    "size": 11,
                    "color": "rgba(0,0,0,0)",
                    "line": {"width": width, "color": color},
                },
                "hoverinfo": "skip",
                "showlegend": False,
                **_axes(panels.index((best.rank, best.depth))),
            }
        )
    x, y = (
        _levels([shown(value) for value in values])
        | {"title": {"text": f"σ<sub>{letter}</sub>{square}"}}
        for values, letter in ((weights, "w"), (biases, "b"))
    )
    depths = max(sum(rank == other for other, _ in panels) for rank, _ in panels)
    layout = _panels(
        titles, x, y, columns=min(depths, 6), least=150, most=260, height=150, share=True
    )
    values = [
        candidate.validation_accuracy
        for candidate in known
        if candidate.validation_accuracy is not None
    ]
    low, high = min(values), max(values)
    layout["coloraxis"] = {"colorscale": "Viridis", "cmin": _round(low), "cmax": _round(high)}
    layout["coloraxis"]["colorbar"] = {"title": {"text": "validation accuracy"}}
    # where a colour scale for the best begins
    layout["meta"]["upper"] = _round(high - 0.25 * (high - low))
    return {"data": data, "layout": layout}


def all_heat_maps(rows: Iterable[Row]) -> list[tuple[str, Figure]]:
    """Figure 3 for every row over all ranks, with a name to choose it by; the largest sizes
    first.
    """
    named = []
    for row in sorted(rows, key=lambda row: -row.n_train):
        if (
            row.rank is None
            and (row.width is None) == (row.kind != "finite")
            and (figure := heat_maps(row))
        ):
            name = f"{dataset_name(row.dataset)}, {row.n_train:,} images, {row_name(row)}"
            named.append((name, figure))
    return named


def _height(candidate: Candidate | None) -> float | None:
    return _round(candidate.validation_accuracy) if candidate else None


def _details(candidate: Candidate | None, bias: float, weight: float) -> list[str]:
    """What hovering shows besides the validation accuracy."""
    if candidate is None:
        return [f"{weight:.4g}", f"{bias:.4g}", "", ""]
    spread = candidate.test_accuracy
    noise = candidate.noise_var
    test = f"{spread.mean:.4f}{_plus_minus(candidate)}" if spread else "–"
    return [f"{weight:.4g}", f"{bias:.4g}", test, "–" if noise is None else f"{noise:.0e}"]


def _levels(values: Sequence[float]) -> Figure:
    """An axis with a step for each value, however far apart they are; at most four of them are
    written out.
    """
    shown = (
        sorted({0, len(values) // 2, len(values) - 1})
        if len(values) > 4
        else list(range(len(values)))
    )
    return {
        "tickvals": shown,
        "ticktext": [f"{values[i]:.2g}" for i in shown],
        "range": [-0.5, len(values) - 0.5],
        "showgrid": False,
        "zeroline": False,
        "showline": False,
        "ticks": "",
    }


def _fewer(
    panels: list[tuple[int | None, int]], best: tuple[int | None, int]
) -> list[tuple[int | None, int]]:
    """At most so many as a page can draw, evenly over the depths, the best among them."""
    if len(panels) <= MOST_PANELS:
        return panels
    depths = sorted({depth for _, depth in panels})
    count = max(1, MOST_PANELS // len({rank for rank, _ in panels}))
    kept = {depths[round(i * (len(depths) - 1) / max(count - 1, 1))] for i in range(count)}
    nearest = min(kept, key=lambda depth: abs(depth - best[1]))
    kept = kept - {nearest} | {best[1]}
    return [panel for panel in panels if panel[1] in kept]


# --- timings --------------------------------------------------------------------------------------


def timings(results: Iterable[Result]) -> Figure | None:
    """Median time of a cell against depth, a line a number of training images, a panel an
    activation; None for a single depth.
    """
    times = defaultdict[int, defaultdict[int, list[float]]]  # by number of images and depth
    seconds: dict[tuple[str, str, int | None], times] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for result in results:
        if result.status == "done" and result.seconds:
            seconds[result.activation, result.kind, result.width][result.n_train][
                result.depth
            ].append(result.seconds)
    if (
        len(
            {
                depth
                for by_size in seconds.values()
                for by_depth in by_size.values()
                for depth in by_depth
            }
        )
        < 2
    ):
        return None
    sizes = sorted({size for by_size in seconds.values() for size in by_size})
    data: list[Figure] = []
    for panel, by_size in enumerate(seconds.values()):
        for size, by_depth in sorted(by_size.items()):
            color, symbol = SIZES[sizes.index(size) % len(SIZES)]
            depths = sorted(by_depth)
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": f"{size:,} images",
                    "legendgroup": str(size),
                    "x": depths,
                    "y": [float(f"{median(by_depth[depth]):.3g}") for depth in depths],
                    "customdata": [[len(by_depth[depth])] for depth in depths],
                    "marker": {"color": color, "size": 6, "symbol": symbol},
                    "line": {"color": color, "width": 1.5},
                    "hovertemplate": f"{size:,} images, depth %{{x}}<br>%{{y:.3g}} s, of "
                    f"%{{customdata[0]:,}} cells<extra></extra>",
                    **_axes(panel),
                }
            )
    _once_in_legend(data)
    heights = [height for trace in data for height in trace["y"]]
    wide = max(heights) > 10.0 * min(heights)
    scale = (
        {"type": "log", "dtick": 1, "exponentformat": "power"} if wide else {"rangemode": "tozero"}
    )
    x = {"title": {"text": "hidden layers"}, "rangemode": "tozero"}
    y = {"title": {"text": "seconds a cell"}, "matches": "y"} | scale
    titles = [escape(network_name(*network)) for network in seconds]
    layout = _panels(
        titles, x, y, columns=4 if len(titles) % 4 == 0 else 3, least=250, height=230, share=True
    )
    return {"data": data, "layout": layout}


# --- what they have in common ---------------------------------------------------------------------


def _panels(
    titles: Sequence[str],
    x: Figure,
    y: Figure,
    *,
    columns: int,
    least: int,
    height: int,
    most: int = 640,
    share: bool = False,
) -> Figure:
    """The layout of a grid of panels, each from ``least`` to ``most`` pixels wide, with axes ``x``
    and ``y``.

    With ``share`` their axes are the same, and named at the left and the bottom only.
    """
    columns = max(1, min(columns, len(titles)))
    rows = math.ceil(len(titles) / columns)
    layout: Figure = {
        "grid": {"rows": rows, "columns": columns, "pattern": "independent"},
        "height": rows * height + 120,
        "annotations": [
            {
                "text": title,
                "xref": f"x{_number(panel)} domain",
                "yref": f"y{_number(panel)} domain",
                "x": 0,
                "y": 1,
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
            }
            for panel, title in enumerate(titles)
            if title
        ],
        "legend": {"orientation": "h"},
        "meta": {
            "panels": len(titles),
            "columns": columns,
            "least": least,
            "most": most,
            "height": height,
            "share": share,
        },
    }
    for panel in range(len(titles)):
        layout[f"xaxis{_number(panel)}"] = {"anchor": f"y{_number(panel)}", **x}
        layout[f"yaxis{_number(panel)}"] = {"anchor": f"x{_number(panel)}", **y}
    return layout


def _once_in_legend(data: Iterable[Figure]) -> None:
    """One entry for what is drawn in several panels; clicking on it hides all of them."""
    seen = set()
    for trace in data:
        trace["showlegend"] = trace["legendgroup"] not in seen
        seen.add(trace["legendgroup"])


def _number(panel: int) -> str:
    """The suffix of a panel's axes: x, x2, x3, …"""
    return str(panel + 1) if panel else ""


def _axes(panel: int) -> Figure:
    return {"xaxis": f"x{_number(panel)}", "yaxis": f"y{_number(panel)}"}


def _plus_minus(candidate: Candidate) -> str:
    spread = candidate.test_accuracy
    text = "" if spread is None or spread.deviation is None else f" ± {spread.deviation:.4f}"
    return f"{text}, less accurate than usual" if candidate.warned else text


def _apart(sizes: Sequence[int]) -> list[int]:
    """Sizes to be written at a logarithmic axis: those that do not touch."""
    kept: list[int] = []
    for size in reversed(sizes):
        if not kept or size < kept[-1] / 1.8:
            kept.append(size)
    return kept[::-1]


def _short(size: int) -> str:
    return f"{size / 1000:g}k" if size >= 1000 else str(size)


def _round(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 5)


def _rounded(values: Any, digits: int) -> list[float]:
    return [round(float(value), digits) for value in values]
