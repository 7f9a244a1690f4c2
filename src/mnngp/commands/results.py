"""``mnngp table`` and ``mnngp report``: what a sweep found, beside the paper."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from mnngp._io import PAGES, atomic_write, writable
from mnngp._system.extras import require
from mnngp.errors import InputError

_SUFFIXES = {"text": ".txt", "csv": ".csv", "markdown": ".md", "latex": ".tex"}
Run = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="The store that mnngp sweep wrote.", show_default=False),
]
Repeats = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Only the first so many repeats, for a run that is under way.",
        show_default=False,
    ),
]


def table(
    run: Run,
    style: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="text, csv, markdown or latex [default: what the output's suffix "
            "says, else text].",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where to write it (.txt, .csv, .md or .tex) [default: print it].",
            show_default=False,
        ),
    ] = None,
    ranks: Annotated[bool, typer.Option("--ranks", help="A row for each rank, too.")] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Also the rows of the paper that were not run.")
    ] = False,
    repeats: Repeats = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print Table 1: the paper's accuracy, ours with its spread, and the difference in standard
    errors.
    """
    from mnngp import _validation

    style = None if style is None else _validation.one_of("format", style, tuple(_SUFFIXES))
    if output is not None:
        wanted = list(_SUFFIXES) if style is None else [style, "text"]
        writable(
            output,
            run,
            suffixes=[".json"]
            if as_json
            else list(dict.fromkeys(_SUFFIXES[name] for name in wanted)),
        )
        style = style or next(
            (known for known, suffix in _SUFFIXES.items() if suffix == output.suffix.lower()), None
        )
    from mnngp.experiments import comparison, rendering, selection
    from mnngp.experiments.store import Store

    with Store.open(run) as store:
        results, planned = store.results(), store.protocol.repeats
        about = store.about(results)
        if repeats is not None and repeats > planned:
            raise InputError(
                f"repeats must be at most {planned}, as many as the run has, got {repeats}"
            )
        rows = selection.rows(results, repeats or planned)
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
    run: Run,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the page (HTML).")
    ] = Path("report.html"),
    title: Annotated[
        str | None, typer.Option(help="Of the page [default: the protocol's].", show_default=False)
    ] = None,
    repeats: Repeats = None,
) -> None:
    """Write one page with the table, the figures, timings and what was run; it needs no network."""
    writable(output, run, suffixes=PAGES)
    require("reports", "jinja2", "plotly")
    from mnngp.experiments import report as page
    from mnngp.experiments.store import Store

    with Store.open(run) as store:
        typer.echo(f"report: {page.write(store, output, title=title, repeats=repeats)}")
