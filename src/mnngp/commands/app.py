"""The list of commands; what is heavy is imported inside them, so ``--help`` is quick."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import typer

from mnngp import __version__
from mnngp.commands import data, limits, models
from mnngp.commands.demo import demo
from mnngp.commands.sweep import report, sweep, table
from mnngp.errors import MnngpError

app = typer.Typer(
    help="Infinitely wide maxout networks as Gaussian processes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mnngp {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Infinitely wide maxout networks as Gaussian processes."""


# One for each, below its options in --help and on the page of the command line.
EXAMPLES: dict[Callable[..., None], str] = {
    demo: "mnngp demo --output digits.html",
    models.fit: "mnngp fit train.csv --target price --output model.mnngp",
    models.predict: "mnngp predict model.mnngp new.csv --interval 0.9",
    sweep: "mnngp sweep experiments/digits-small.toml --output digits.sqlite",
    table: "mnngp table digits.sqlite --ranks",
    report: "mnngp report digits.sqlite --output report.html",
    limits.phase: "mnngp phase --rank 4 --depth 30 --plot phase.png",
    models.plan: "mnngp plan --n 50000 --features 784 --targets 10 --memory 32GB",
    limits.converge: "mnngp converge --rank 4 --width 20 --width 200 --networks 50",
}

app.add_typer(data.app, name="data")
for command, example in EXAMPLES.items():
    app.command(epilog=f"Example: {example}")(command)


def main() -> None:
    """Run the command line; a user's mistake ends in one line, not in a traceback."""
    # into a file or a pipe, Windows has an alphabet without σ and √
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except (MnngpError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from error
