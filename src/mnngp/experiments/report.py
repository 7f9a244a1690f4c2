"""The report of a run: one HTML page that needs nothing else, neither a network nor a server.

The page is made by the templates beside this module. Jinja2 escapes every name; the figures travel
as JSON without any ``<``; and a content security policy lets the page run the two scripts that are
in it, by their hashes, and load nothing. So a name that holds mark-up is shown as it is, whatever
it says.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from mnngp import __version__
from mnngp._io import atomic_write, writable
from mnngp._system.extras import require
from mnngp.experiments import comparison, figures, narrative, rendering, selection
from mnngp.experiments.panels import Figure, all_heat_maps
from mnngp.experiments.records import Result
from mnngp.experiments.selection import Row
from mnngp.experiments.store import Store


@dataclass(frozen=True)
class Section:
    """A section of one's own, after the table: a text, a table, a picture, or all of them."""

    title: str
    text: str = ""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    picture: bytes | None = None  # PNG
    description: str = ""  # of the picture, for those who do not see it

    @property
    def source(self) -> str:
        return f"data:image/png;base64,{base64.b64encode(self.picture or b'').decode()}"


def write(run: Store | Sequence[Result], path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the report of a run, an HTML file; ``render`` says what the options are.

    A file that is there is replaced when the new one is complete.
    """
    path = writable(path, *([] if isinstance(run, Sequence) else [run.path]))
    page = render(run, **options).encode(errors="replace")
    with atomic_write(path) as file:
        file.write(page)
    return path


def render(
    run: Store | Sequence[Result],
    *,
    title: str | None = None,
    repeats: int | None = None,
    sections: Sequence[Section] = (),
) -> str:
    """The page as a string, of a run's store, which also knows its protocol, or of results alone.

    The title is the protocol's by default. ``repeats`` looks at the first so many only, for a run
    that is under way; ``sections`` are shown after the table.
    """
    require("reports", "jinja2", "plotly")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = files("mnngp.experiments").joinpath("templates")
    scripts = [_plotly(), templates.joinpath("report.js").read_text(encoding="utf-8")]
    environment = Environment(
        loader=PackageLoader("mnngp.experiments", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["subscripts"] = _subscripts
    return environment.get_template("report.html").render(
        **contents(run, title, repeats),
        sections=sections,
        style=templates.joinpath("report.css").read_text(encoding="utf-8"),
        scripts=scripts,
        hashes=" ".join(
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            for text in scripts
        ),
    )


def contents(
    run: Store | Sequence[Result], title: str | None = None, repeats: int | None = None
) -> dict[str, Any]:
    """Everything that the template shows, as strings, rows and figures."""
    protocol: dict[str, Any] = {}
    about: dict[str, Any] = {}
    if isinstance(run, Sequence):
        results = list(run)
    else:
        results, protocol = run.results(), run.protocol.mapping()
        about = run.about(results)  # of the same moment: the run may be under way
        title = title or run.protocol.title
        repeats = run.repeats(repeats)
    rows = selection.rows(results, repeats)
    lines = comparison.lines(rows)
    drawn = drawings(rows, results)
    asked = protocol["data"]["repeats"] if protocol else None
    return {
        "title": title or "A run of mnngp",
        "version": __version__,
        "summary": narrative.summary(lines, results, about, repeats, asked),
        "tiles": narrative.tiles(lines, results, about),
        "lines": lines,
        "columns": rendering.columns(lines),
        "notes": rendering.notes(lines),
        "selected": [narrative.detail(row) for row in rows],
        "accuracy_figures": [
            (place, *named[0]) for place, named in drawn.items() if place.startswith("accuracy")
        ],
        "timings_drawn": "timings" in drawn,
        "finite": any(result.width is not None for result in results),
        "heat_maps": [name for name, _ in drawn.get("heat-maps", ())],
        "timings": narrative.timing_rows(results),
        "protocol": narrative.flat(protocol),
        "protocol_json": json.dumps(protocol, ensure_ascii=False),
        "facts": narrative.facts(results, about),
        "failures": narrative.failures(results),
        "inaccuracies": narrative.inaccuracies(results),
        "noise": narrative.raised_noise(results),
        "data": _script_safe(drawn),
    }


def drawings(rows: Sequence[Row], results: Sequence[Result]) -> dict[str, list[tuple[str, Figure]]]:
    """The figures by their place in the page: for each a list of names and figures."""
    drawn = {"moments": [("", figures.moments())]}
    for i, dataset in enumerate(dict.fromkeys(row.dataset for row in rows)):
        if figure := figures.accuracy(rows, dataset):
            drawn[f"accuracy-{i}"] = [(comparison.dataset_name(dataset), figure)]
    if named := all_heat_maps(rows):
        drawn["heat-maps"] = named
    if figure := figures.timings(results):
        drawn["timings"] = [("", figure)]
    return drawn


def _subscripts(text: str) -> str:
    """Our own texts with n_t, σ_b² and σ_w² as they are printed."""
    from markupsafe import Markup, escape

    return Markup(
        re.sub(r"\b(n|σ)_([tbw])(?![a-z])", r"<var>\1</var><sub>\2</sub>", str(escape(text)))
    )


def _script_safe(value: Any) -> str:
    """JSON that cannot end the script element it stands in, nor begin a comment there."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plotly() -> str:
    """Plotly's program, from its Python package."""
    text = files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--").replace("\r\n", "\n")
