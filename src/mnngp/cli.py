"""The command line: parse, call, print. What is heavy is imported inside the commands, so that ``--help`` is quick."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from mnngp import __version__
from mnngp.commands import data, models
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
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Infinitely wide maxout networks as Gaussian processes."""


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the picture (PNG).")] = Path("mnngp-demo.png"),
) -> None:
    """Classify scikit-learn's digits with networks of infinite width, and draw what happens."""
    if not output.parent.is_dir():
        raise typer.BadParameter(f"the folder {output.parent} does not exist", param_hint="--output")
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from mnngp import demo as demonstration

    console = Console()
    data = demonstration.Digits.load()
    console.print(
        f"{len(data.train)} digits to learn from, {len(data.test)} to test on; exact Bayesian inference, nothing is trained."
    )
    results = []
    with console.status("compiling (some ten seconds, the first time only)"):
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
        table.add_row(result.name, *(f"{value:.3f}" for value in result.accuracy.values()), f"{result.seconds:.2f}")
    console.print(table)
    console.print("Rank 2 and ReLU (inputs/√2) agree to the last digit: they are the same Gaussian process (proposition 1).\n")
    with console.status("choosing a kernel, and growing a forest"):
        contest = demonstration.contest(data)
    table = Table(title="The same digits, raw pixels, nothing chosen by hand")
    table.add_column("classifier", no_wrap=True)
    for title in ("accuracy", "log loss", "seconds to fit"):
        table.add_column(title, justify="right")
    for entry in contest:
        table.add_row(entry.name, f"{entry.accuracy:.3f}", f"{entry.log_loss:.3f}", f"{entry.seconds:.1f}")
    console.print(table)
    chosen = contest[0].model
    console.print(
        f"Chosen from {len(chosen.trials_)} kernels by leave-one-out: {chosen.kernel_!r}\n"
        f"Leave-one-out had foretold an accuracy of {chosen.loo_.accuracy:.3f} and a log loss of {chosen.loo_.log_loss:.3f}."
    )
    demonstration.picture(data, results, chosen, output)
    console.print(f"Picture: {output}")


@app.command()
def phase(
    rank: Annotated[int, typer.Option(help="Maxout rank.", min=1)] = 2,
    depth: Annotated[int, typer.Option(help="Number of hidden layers.", min=1)] = 30,
    weight_var: Annotated[float | None, typer.Option(help="Weight variance (times fan-in); the critical one by default.")] = None,
    bias_var: Annotated[float, typer.Option(help="Bias variance.")] = 0.0,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the phase diagram and the way through the layers, to this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (numbers too large are null).")] = False,
) -> None:
    """How to initialise a deep maxout network: the critical weight variance, the phase, and what depth does."""
    if plot is not None and plot.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise typer.BadParameter(f"{plot} must end in .png, .pdf or .svg", param_hint="--plot")
    if plot is not None and not plot.parent.is_dir():
        raise typer.BadParameter(f"the folder {plot.parent} does not exist", param_hint="--plot")
    from mnngp import theory
    from mnngp.activations import Maxout

    unit = Maxout(rank)
    critical = theory.critical_weight_var(unit)
    chosen = critical if weight_var is None else weight_var
    point = theory.fixed_point(unit, weight_var=chosen, bias_var=bias_var)
    profile = theory.depth_profile(unit, depth, weight_var=chosen, bias_var=bias_var)
    if as_json:
        facts: dict[str, object] = {"rank": rank, "depth": depth, "weight_var": chosen, "bias_var": bias_var}
        facts |= {
            "critical_weight_var": critical,
            "phase": point.phase,
            "variance_slope": point.variance_slope,
            "gradient_slope": point.gradient_slope,
        }
        layers = {name: getattr(profile, name).tolist() for name in ("variance", "correlation", "distance", "gradient")}
        layers = {name: [value if math.isfinite(value) else None for value in values] for name, values in layers.items()}
        typer.echo(json.dumps(facts | layers, allow_nan=False))
    else:
        typer.echo(
            f"Maxout of rank {rank}: critical weight variance {critical:.8g} (a standard deviation of {critical**0.5:.6g}/√fan_in)"
        )
        typer.echo(f"At σ_w² = {chosen:.6g}, σ_b² = {bias_var:g} the network is {point.phase}.")
        typer.echo(
            f"A layer multiplies variances by {point.variance_slope:.4f} and squared gradients by {point.gradient_slope:.4f}.\n"
        )
        typer.echo(f"{'layer':>6} {'variance':>12} {'1 - correlation':>16} {'gradient²':>12}")
        for layer in sorted({0, 1, 2, 3, *range(0, depth, max(1, depth // 8)), depth} & set(range(depth + 1))):
            row = (profile.variance[layer], profile.distance[layer], profile.gradient[layer])
            typer.echo(f"{layer:>6} {row[0]:>12.5g} {row[1]:>16.5g} {row[2]:>12.5g}")
    if plot is not None:
        from mnngp import plots

        plots.initialisation(unit, depth, weight_var=chosen, bias_var=bias_var).savefig(plot, dpi=130)
        if not as_json:
            typer.echo(f"\nPicture: {plot}")


app.command()(models.fit)
app.command()(models.predict)
app.add_typer(data.app, name="data")


def main() -> None:
    """Run the command line; a user's mistake ends in one line, not in a traceback."""
    try:
        app()
    except (MnngpError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from error
