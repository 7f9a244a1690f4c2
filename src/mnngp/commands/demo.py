"""``mnngp demo``: the whole story in a minute, on digits that need no download."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mnngp._io import PAGES, writable
from mnngp._system.extras import require

if TYPE_CHECKING:
    from rich.table import Table


def demo(
    output: Path = typer.Option(
        Path("mnngp-demo.html"), "--output", "-o", help="Where to write the report (HTML)."
    ),
) -> None:
    """Classify scikit-learn's digits with networks of infinite width, and write a report."""
    writable(output, suffixes=PAGES)
    require("the demonstration's pictures and report", "matplotlib", "jinja2", "plotly")
    from rich.console import Console
    from rich.progress import Progress

    from mnngp.experiments import demonstration

    console = Console()
    data = demonstration.Digits.load()
    console.print(
        f"{len(data.train)} digits to learn from, {len(data.test)} to test on; exact Bayesian "
        "inference, nothing is trained."
    )
    results = []
    with console.status("compiling (some twenty seconds, the first time only)"):
        demonstration.warm_up()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("fitting", total=len(demonstration.FAMILIES))
        for result in demonstration.run(data):
            results.append(result)
            progress.update(task, advance=1, description=f"fitted {result.name}")
    accuracies = (
        [one.name, *(f"{value:.3f}" for value in one.accuracy.values()), f"{one.seconds:.2f}"]
        for one in results
    )
    names = ("network", *map(str, demonstration.DEPTHS), "seconds")
    console.print(_table("Test accuracy by number of hidden layers", names, accuracies))
    console.print(
        "Rank 2 and ReLU (inputs/√2) agree to the last digit: they are the same Gaussian "
        "process (proposition 1).\n"
    )
    with console.status("choosing a kernel, and growing a forest"):
        contest = demonstration.contest(data)
    title = "The same digits, raw pixels, nothing chosen by hand"
    console.print(_table(title, demonstration.CONTEST, (one.row() for one in contest)))
    chosen = contest[0].model
    console.print(
        f"Chosen from {len(chosen.trials_)} kernels by leave-one-out: {chosen.kernel_!r}\n"
        f"Leave-one-out had estimated an accuracy of {chosen.loo_.accuracy:.3f} and a log loss of "
        f"{chosen.loo_.log_loss:.3f}.\n"
    )
    names = ("digit", "prediction", "probability", "second", "probability")
    table = _table("Two of the surest and four of the least sure test images", names, ())
    table.columns[0].justify = "right"
    for guess in demonstration.guesses(data, chosen, surest=2, least=4):
        first = (f"{guess.truth}", f"{guess.first}", f"{guess.probability:.3f}")
        style = None if guess.first == guess.truth else "red"
        table.add_row(*first, f"{guess.second}", f"{guess.second_probability:.3f}", style=style)
    console.print(table)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("the paper's protocol, small", total=None)

        def told(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        demonstration.report(data, results, contest, output, told)
    console.print(f"Report: {output}")


def _table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    from rich.table import Column, Table

    numbers = (Column(name, justify="right") for name in names[1:])
    table = Table(Column(names[0], no_wrap=True), *numbers, title=title)
    for row in rows:
        table.add_row(*row)
    return table
