"""``mnngp table`` and ``mnngp report``: what a sweep found, beside the paper."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import typer

from mnngp._io import PAGES, atomic_write, writable
from mnngp._system.extras import require

_SUFFIXES = {"text": ".txt", "csv": ".csv", "markdown": ".md", "latex": ".tex"}
_RUN = typer.Argument(..., metavar="RUN", help="The store that mnngp sweep wrote.")
_REPEATS = typer.Option(
    None, min=1, help="Only the first so many repeats, for a run that is under way."
)


def table(
    run: Path = _RUN,
    style: str | None = typer.Option(
        None,
        "--format",
        help="text, csv, markdown or latex [default: what the output's suffix says, else text].",
    ),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="Where to write it (.txt, .csv, .md or .tex) [default: print it].",
    ),
    ranks: bool = typer.Option(False, "--ranks", help="A row for each rank, too."),
    missing: bool = typer.Option(
        False, "--missing", help="Also the rows of the paper that were not run."
    ),
    repeats: int | None = _REPEATS,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Print Table 1: the paper's accuracy, ours with its spread, and the difference in standard
    errors.
    """
    from mnngp import _validation

    style = None if style is None else _validation.one_of("format", style, tuple(_SUFFIXES))
    if output is not None:
        wanted = list(_SUFFIXES) if style is None else [style, "text"]
        suffixes = list(dict.fromkeys(_SUFFIXES[name] for name in wanted))
        writable(output, run, suffixes=[".json"] if as_json else suffixes)
        style = style or next(
            (known for known, suffix in _SUFFIXES.items() if suffix == output.suffix.lower()), None
        )
    from mnngp.experiments import comparison, rendering, selection
    from mnngp.experiments.store import Store

    with Store.open(run) as store:
        results = store.results()
        about = store.about(results)
        rows = selection.rows(results, store.repeats(repeats))
    if about["open"] and repeats is None:
        typer.echo(
            f"{about['done']:,} of {about['cells']:,} cells are done; --repeats N looks at "
            "the first N repeats",
            err=True,
        )
    lines = comparison.lines(rows, ranks=ranks, missing=missing)
    if as_json:
        text = json.dumps([comparison.record(line) for line in lines])
    elif style in (None, "text") and output is None and sys.stdout.isatty():
        text = rendering.as_text(lines, shutil.get_terminal_size().columns).rstrip("\n")
    else:
        text = rendering.render(lines, style or "text").rstrip("\n")
    if output is None:
        typer.echo(text)
    else:
        with atomic_write(output) as file:
            file.write(f"{text}\n".encode())
        typer.echo(f"table: {output}")


def report(
    run: Path = _RUN,
    output: Path = typer.Option(
        Path("report.html"), "--output", "-o", help="Where to write the page (HTML)."
    ),
    title: str | None = typer.Option(None, help="Of the page [default: the protocol's]."),
    repeats: int | None = _REPEATS,
) -> None:
    """Write one page with the table, the figures, timings and what was run; it needs no network."""
    writable(output, run, suffixes=PAGES)
    require("reports", "jinja2", "plotly")
    from mnngp.experiments import report as page
    from mnngp.experiments.store import Store

    with Store.open(run) as store:
        typer.echo(f"report: {page.write(store, output, title=title, repeats=repeats)}")
