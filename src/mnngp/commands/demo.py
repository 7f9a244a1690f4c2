"""``mnngp demo``: the whole story in a minute, on digits that need no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mnngp._io import PAGES, writable
from mnngp._system.extras import require


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the report (HTML).")
    ] = Path("mnngp-demo.html"),
) -> None:
    """Classify scikit-learn's digits with networks of infinite width, and write a report."""
    writable(output, suffixes=PAGES)
    require("the demonstration's pictures and report", "matplotlib", "jinja2", "plotly")
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

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
    table = Table(title="Test accuracy by number of hidden layers")
    table.add_column("network", no_wrap=True)
    for depth in demonstration.DEPTHS:
        table.add_column(str(depth), justify="right")
    table.add_column("seconds", justify="right")
    for result in results:
        table.add_row(
            result.name,
            *(f"{value:.3f}" for value in result.accuracy.values()),
            f"{result.seconds:.2f}",
        )
    console.print(table)
    console.print(
        "Rank 2 and ReLU (inputs/√2) agree to the last digit: they are the same Gaussian "
        "process (proposition 1).\n"
    )
    with console.status("choosing a kernel, and growing a forest"):
        contest = demonstration.contest(data)
    table = Table(title="The same digits, raw pixels, nothing chosen by hand")
    table.add_column("classifier", no_wrap=True)
    for title in ("accuracy", "log loss", "seconds to fit"):
        table.add_column(title, justify="right")
    for entry in contest:
        table.add_row(
            entry.name, f"{entry.accuracy:.3f}", f"{entry.log_loss:.3f}", f"{entry.seconds:.1f}"
        )
    console.print(table)
    chosen = contest[0].model
    console.print(
        f"Chosen from {len(chosen.trials_)} kernels by leave-one-out: {chosen.kernel_!r}\n"
        f"Leave-one-out had estimated an accuracy of {chosen.loo_.accuracy:.3f} and a log loss of "
        f"{chosen.loo_.log_loss:.3f}.\n"
    )
    table = Table(title="Two of the surest and four of the least sure test images")
    for title in ("digit", "prediction", "probability", "second", "probability"):
        table.add_column(title, justify="right")
    for guess in demonstration.guesses(data, chosen, surest=2, least=4):
        style = None if guess.first == guess.truth else "red"
        numbers = (
            f"{guess.first}",
            f"{guess.probability:.3f}",
            f"{guess.second}",
            f"{guess.second_probability:.3f}",
        )
        table.add_row(f"{guess.truth}", *numbers, style=style)
    console.print(table)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("the paper's protocol, small", total=None)
        demonstration.report(
            data,
            results,
            contest,
            output,
            told=lambda done, total: progress.update(task, completed=done, total=total),
        )
    console.print(f"Report: {output}")
