"""Plotly figures that are grids of small panels, as plain dictionaries of ``data`` and ``layout``.

``layout.meta`` says how narrow and how high a panel may be, so that a page can put fewer side by
side on a narrow screen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

Figure = dict[str, Any]

BLUE, ORANGE, GREEN = "#3b82c4", "#d1602f", "#1f9d78"
PURPLE, GREY, OCHRE = "#a66bb5", "#808890", "#b08a1e"


class Grid(NamedTuple):
    """How panels stand: at most so many columns, each from ``least`` to ``most`` pixels wide.

    With ``share`` their axes are the same, and named at the left and the bottom only.
    """

    columns: int
    least: int
    height: int
    most: int = 640
    share: bool = False


def panels(titles: Sequence[str], x: Figure, y: Figure, grid: Grid) -> Figure:
    """The layout of a grid of panels, with axes ``x`` and ``y``."""
    columns = max(1, min(grid.columns, len(titles)))
    rows = math.ceil(len(titles) / columns)
    layout: Figure = {
        "grid": {"rows": rows, "columns": columns, "pattern": "independent"},
        "height": rows * grid.height + 120,
        "annotations": [_title(panel, title) for panel, title in enumerate(titles) if title],
        "legend": {"orientation": "h"},
        "meta": {**grid._asdict(), "panels": len(titles), "columns": columns},
    }
    for panel in range(len(titles)):
        layout[f"xaxis{_number(panel)}"] = {"anchor": f"y{_number(panel)}", **x}
        layout[f"yaxis{_number(panel)}"] = {"anchor": f"x{_number(panel)}", **y}
    return layout


def _title(panel: int, title: str) -> Figure:
    domains = {"xref": f"x{_number(panel)} domain", "yref": f"y{_number(panel)} domain"}
    corner = {"x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"}
    return {"text": title, **domains, **corner, "showarrow": False}


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
    """The axes of a trace in a panel."""
    return {"xaxis": f"x{_number(panel)}", "yaxis": f"y{_number(panel)}"}


def _number(panel: int) -> str:
    """The suffix of a panel's axes: x, x2, x3, …"""
    return str(panel + 1) if panel else ""


def once_in_legend(data: Iterable[Figure]) -> None:
    """One entry for what is drawn in several panels; clicking on it hides all of them."""
    seen = set()
    for trace in data:
        trace["showlegend"] = trace["legendgroup"] not in seen
        seen.add(trace["legendgroup"])


def rounded(value: float | None) -> float | None:
    """Five digits of a number, or nothing."""
    return None if value is None or not math.isfinite(value) else round(value, 5)
