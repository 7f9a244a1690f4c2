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
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnngp import __version__
from mnngp._io import atomic_write, writable
from mnngp.errors import InputError, MissingExtraError
from mnngp.experiments import figures, selection, tables
from mnngp.experiments.selection import Row
from mnngp.experiments.tables import NOTHING, dataset_name, network_name, power

if TYPE_CHECKING:
    from mnngp.experiments.store import Result, Store

_MOST = 40  # rows of a list that could be as long as the run


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


def write(
    run: Store | Sequence[Result],
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    repeats: int | None = None,
    sections: Sequence[Section] = (),
) -> Path:
    """Write the report of a run, at once: a file that was there before is replaced when the new one
    is complete.

    Parameters
    ----------
    run : Store or sequence of Result
        A run's store, which also knows its protocol, or results alone.
    path : path
        Of the HTML file.
    title : str, optional
        The protocol's by default.
    repeats : int, optional
        Look at the first so many repeats only: for a run that is under way. All that the protocol
        asks for by default.
    sections : sequence of Section
        More to show, after the table.
    """
    path = writable(path, *([] if isinstance(run, Sequence) else [run.path]))
    page = render(run, title=title, repeats=repeats, sections=sections).encode(errors="replace")
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
    """The page as a string; ``write`` says what the arguments are."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError(
            'reports need Jinja2 and Plotly: pip install "mnngp[experiments]"'
        ) from error
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
        repeats = run.protocol.repeats if repeats is None else repeats
        if repeats > run.protocol.repeats:
            raise InputError(
                f"repeats must be at most {run.protocol.repeats}, as many as the run "
                f"has, got {repeats}"
            )
    rows = selection.rows(results, repeats)
    lines = tables.lines(rows)
    drawn = drawings(rows, results)
    return {
        "title": title or "A run of mnngp",
        "version": __version__,
        "summary": summary(
            lines, results, about, repeats, protocol["data"]["repeats"] if protocol else None
        ),
        "tiles": tiles(lines, results, about),
        "lines": lines,
        "columns": tables.columns(lines),
        "notes": tables.notes(lines),
        "selected": [detail(row) for row in rows],
        "accuracy_figures": [
            (place, *named[0]) for place, named in drawn.items() if place.startswith("accuracy")
        ],
        "timings_drawn": "timings" in drawn,
        "finite": any(result.width is not None for result in results),
        "heat_maps": [name for name, _ in drawn.get("heat-maps", ())],
        "timings": timing_rows(results),
        "protocol": flat(protocol),
        "protocol_json": json.dumps(protocol, ensure_ascii=False),
        "facts": facts(results, about),
        "failures": failures(results),
        "inaccuracies": inaccuracies(results),
        "noise": raised_noise(results),
        "data": _script_safe(drawn),
    }


def drawings(
    rows: Sequence[Row], results: Sequence[Result]
) -> dict[str, list[tuple[str, figures.Figure]]]:
    """The figures by the place in the page that they go to: a list for each, of names and figures
    to choose from.
    """
    drawn = {"moments": [("", figures.moments())]}
    for i, dataset in enumerate(dict.fromkeys(row.dataset for row in rows)):
        if figure := figures.accuracy(rows, dataset):
            drawn[f"accuracy-{i}"] = [(dataset_name(dataset), figure)]
    if named := figures.all_heat_maps(rows):
        drawn["heat-maps"] = named
    if figure := figures.timings(results):
        drawn["timings"] = [("", figure)]
    return drawn


# --- in words -------------------------------------------------------------------------------------


def summary(
    lines: Sequence[tables.Line],
    results: Sequence[Result],
    about: Mapping[str, Any],
    repeats: int | None,
    asked: int | None,
) -> list[str]:
    """The run in a few sentences: its best row, how that compares, and what is still to come.

    ``repeats`` are looked at, of those that the protocol ``asked`` for.
    """
    finished = [line for line in lines if line.ours]
    said = []
    if not results:
        said.append("No cell is finished yet.")
    elif not finished and not about.get("open", 1):
        said.append(
            "No combination of hyperparameters has all of its repeats done: they failed or "
            "diverged."
        )
    elif not finished:
        said.append(
            "No row of the table is complete yet: that takes all repeats of at least one "
            "combination of hyperparameters."
        )
    else:
        best = max(finished, key=lambda line: line.ours.mean if line.ours else 0.0)
        said.append(_best_row(best))
        others = [
            line
            for line in finished
            if line is not best and (line.dataset, line.n_train) == (best.dataset, best.n_train)
        ]
        if others:
            named = [f"{line.network} {line.ours.mean:.4f}" for line in others if line.ours]
            said.append(f"On the same images and under the same protocol: {_and(named)}.")
        compared = [line for line in finished if line.agrees is not None]
        if len(compared) > 1:
            near = sum(bool(line.agrees) for line in compared)
            said.append(
                f"Of {len(compared)} rows that the paper also has, {near} "
                f"{'agrees' if near == 1 else 'agree'} with it, "
                f"to {tables.AGREEMENT:g} or three standard errors."
            )
    if remaining := about.get("open"):
        said.append(
            f"The run is not finished: {remaining:,} of {about['cells']:,} cells are still to come."
        )
    if asked and repeats and repeats < asked:
        said.append(f"Only the first {repeats} of {asked} repeats are looked at here.")
    elif asked and not finished and about.get("open"):
        counts = Counter(result.repeat for result in results)
        if whole := sum(count * asked == about["cells"] for count in counts.values()):
            said.append(
                f"Of {asked} repeats {whole} {'is' if whole == 1 else 'are'} complete: --repeats "
                f"{whole} looks at these alone."
            )
    if failed := sum(result.status == "failed" for result in results):
        said.append(f"{failed:,} {_plural(failed, 'cell')} failed; see below.")
    if inaccurate := sum(result.warning is not None for result in results):
        cells = "cell was" if inaccurate == 1 else "cells were"
        said.append(f"{inaccurate:,} {cells} computed less accurately than usual; see below.")
    if diverged := sum(result.status == "diverged" for result in results):
        said.append(
            f"Of the networks of finite width {diverged:,} diverged: "
            f"{'it is' if diverged == 1 else 'they are'} left out."
        )
    return said


def _best_row(line: tables.Line) -> str:
    best, ours, setting = line.row.best if line.row else None, line.ours, line.setting
    if best is None or ours is None or setting is None:
        return ""
    rank = "" if setting.rank is None else f" of rank {setting.rank}"
    layers = f"{setting.depth} {_plural(setting.depth, 'hidden layer')}"
    spread = (
        ""
        if ours.deviation is None
        else f" (± {100 * ours.deviation:.2f} over {ours.repeats} repeats)"
    )
    images = f"{line.n_train:,} images of {dataset_name(line.dataset)}"
    kind = " (tangent kernel)" if line.kind == "ntk" else ""
    wide = "infinitely wide" if setting.width is None else f"{setting.width} units wide"
    text = (
        f"Learning from {images}, {wide} {network_name(line.activation)} networks{rank} with "
        f"{layers}{kind} "
        f"classify {100 * ours.mean:.2f} % of {best.results[0].n_test:,} test images "
        f"correctly{spread}"
    )
    if line.paper is None or line.difference is None:
        return f"{text}."
    errors = (
        ""
        if line.in_standard_errors is None
        else f", {abs(line.in_standard_errors):.1f} standard errors away"
    )
    return f"{text}. The paper has {100 * line.paper.accuracy:.2f} %{errors}."


def tiles(
    lines: Sequence[tables.Line], results: Sequence[Result], about: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """A few numbers to see at a glance, each with what it is."""
    shown = []
    best = max((line.ours.mean for line in lines if line.ours), default=None)
    if best is not None:
        shown.append((f"{100 * best:.2f} %", "best test accuracy of those selected"))
    done = sum(result.status == "done" for result in results)
    shown.append(
        (
            f"{done:,}",
            f"{_plural(done, 'cell')} done"
            + (f", {about['open']:,} to come" if about.get("open") else ""),
        )
    )
    if counted := sum(len(line.row.candidates) for line in lines if line.row):
        shown.append((f"{counted:,}", f"complete {_plural(counted, 'candidate')}"))
    shown.append(
        (duration(sum(result.seconds or 0.0 for result in results)), "computing, summed over cells")
    )
    return shown


def detail(row: Row) -> dict[str, str]:
    """A row of the second table: what was selected, from how many, and what it took."""
    best = row.best
    return {
        "data": dataset_name(row.dataset),
        "n_t": f"{row.n_train:,}",
        "network": tables.row_name(row),
        "selected": tables.model_name(best.setting) if best else NOTHING,
        "validation": number(best.validation_accuracy if best else None),
        "test": tables.marked(best),
        "log loss": number(best.test_log_loss if best else None),
        "largest noise": power(best.noise_var if best else None),
        "candidates": f"{len(row.candidates):,}"
        + (f" of {row.total:,}" if row.total > len(row.candidates) else ""),
        "time": duration(row.seconds),
    }


def timing_rows(results: Sequence[Result]) -> list[dict[str, str]]:
    """Time by set of data and size."""
    seconds: dict[tuple[str, int], list[float]] = defaultdict(list)
    for result in results:
        if result.status == "done" and result.seconds is not None:
            seconds[result.dataset, result.n_train].append(result.seconds)
    return [
        {
            "data": dataset_name(dataset),
            "n_t": f"{size:,}",
            "cells": f"{len(times):,}",
            "median": duration(sorted(times)[len(times) // 2]),
            "longest": duration(max(times)),
            "all": duration(sum(times)),
        }
        for (dataset, size), times in sorted(seconds.items())
    ]


def facts(results: Sequence[Result], about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Which program made the results, where, when and from which seeds."""
    said = []
    if about:
        said += [(name, _words(about[name])) for name in ("machine", "version", "commit")]
        counts = ", ".join(f"{about[name]:,} {name}" for name in ("done", "failed", "diverged"))
        said.append(("cells", f"{about['cells']:,}: {counts}, {about['open']:,} to come"))
        said.append(("begun", to_the_minute(about["created"])))
    if results:
        first, last = (
            to_the_minute(end(result.finished for result in results)) for end in (min, max)
        )
        said.append(("cells finished", first if first == last else f"{first} to {last}"))
        seeds = ", ".join(map(str, sorted({result.seed for result in results})[:_MOST]))
        said.append(
            ("seed", f"{seeds}; repeat r shuffles the training images with SeedSequence([seed, r])")
        )
    programs = Counter(
        f"mnngp {result.version}" + (f", commit {result.commit}" if result.commit else "")
        for result in results
    )
    said += [
        ("computed by", f"{name} ({count:,} {_plural(count, 'cell')})")
        for name, count in programs.most_common(_MOST)
    ]
    return said


def failures(results: Sequence[Result]) -> dict[str, Any]:
    """Failed cells by their error."""
    return _by_reason(
        (result.error or "no error was recorded", result)
        for result in results
        if result.status != "done"
    )


def inaccuracies(results: Sequence[Result]) -> dict[str, Any]:
    """Cells that are less accurate than usual by what they warned of first, but for the numbers in
    it.
    """
    first: dict[str, str] = {}
    cells = []
    for result in results:
        if result.warning is not None:
            reason = result.warning.partition("\n")[0]
            cells.append((first.setdefault(re.sub(r"\d[\d.e+-]*", "0", reason), reason), result))
    return _by_reason(cells)


def _by_reason(cells: Iterable[tuple[str, Result]]) -> dict[str, Any]:
    """Cells by their reason, the most frequent first."""
    by_reason: dict[str, list[Result]] = defaultdict(list)
    for reason, result in cells:
        by_reason[reason].append(result)
    ranked = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    return {
        "rows": [
            {"count": len(cells), "reason": reason, "cells": [_cell(cell) for cell in cells[:5]]}
            for reason, cells in ranked[:_MOST]
        ],
        "more": max(0, len(ranked) - _MOST),
    }


def _cell(result: Result) -> str:
    network = network_name(result.activation, result.kind, result.width, result.rank)
    # Networks of finite width are given by standard deviations.
    square, power = ("²", 1.0) if result.width is None else ("", 0.5)
    bias, weight = result.bias_var**power, result.weight_var**power
    return (
        f"{dataset_name(result.dataset)}, {result.n_train:,} images, repeat {result.repeat}: "
        f"{network}, "
        f"depth {result.depth}, σ_b{square} = {bias:.4g}, σ_w{square} = {weight:.4g}"
    )


def raised_noise(results: Sequence[Result]) -> list[dict[str, str]]:
    """Where the factorisation failed with the noise asked for, and how much it took."""
    cells: dict[tuple[str, int, str], list[Result]] = defaultdict(list)
    for result in results:
        if result.status == "done":
            name = network_name(result.activation, result.kind, result.width, result.rank)
            cells[dataset_name(result.dataset), result.n_train, name].append(result)
    rows = []
    for (dataset, size, name), members in cells.items():
        if raised := [result for result in members if (result.attempts or 1) > 1]:
            depths = sorted({result.depth for result in raised})
            rows.append(
                {
                    "data": dataset,
                    "n_t": f"{size:,}",
                    "network": name,
                    "depths": str(depths[0])
                    if len(depths) == 1
                    else f"{depths[0]} to {depths[-1]}",
                    "cells": f"{len(raised):,} of {len(members):,}",
                    "largest noise": power(max(result.noise_var or 0.0 for result in raised)),
                }
            )
    return rows


# --- small matters --------------------------------------------------------------------------------


def flat(value: Any, name: str = "") -> list[tuple[str, str]]:
    """Nested configuration as lines of a dotted name and a value; long lists are shortened."""
    if isinstance(value, Mapping):
        return [
            line
            for key, inner in value.items()
            for line in flat(inner, f"{name}.{key}" if name else str(key))
        ]
    if isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        return [line for i, inner in enumerate(value) for line in flat(inner, f"{name}[{i}]")]
    return [(name, _words(value))]


def _words(value: Any) -> str:
    if isinstance(value, list):
        shown = [_words(inner) for inner in value]
        return (
            ", ".join(shown)
            if len(shown) <= 10
            else f"{', '.join(shown[:3])}, …, {shown[-1]} ({len(shown)} values)"
        )
    if isinstance(value, float):
        return f"{value:.6g}"
    return NOTHING if value is None else str(value)


def number(value: float | None) -> str:
    """Four digits, or a dash."""
    return NOTHING if value is None else f"{value:.4f}"


def to_the_minute(text: str) -> str:
    """An ISO time, to the minute."""
    try:
        return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M %Z").strip()
    except ValueError:
        return text


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(0.0123), duration(75.0), duration(4000.0)
    ('12 ms', '75 s', '67 min')
    """
    for unit, size, limit in (
        ("ms", 1e-3, 0.995),
        ("s", 1.0, 100.0),
        ("min", 60.0, 6000.0),
        ("h", 3600.0, 360_000.0),
    ):
        if seconds < limit:
            return (
                f"{seconds / size:.2g} {unit}"
                if seconds / size < 10.0
                else f"{seconds / size:.0f} {unit}"
            )
    return f"{seconds / 86400.0:.0f} days"


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


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
    try:
        text = files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            'reports need Jinja2 and Plotly: pip install "mnngp[experiments]"'
        ) from error
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--").replace("\r\n", "\n")
