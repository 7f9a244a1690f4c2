"""``mnngp converge``: finite networks become the Gaussian process, by experiment."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mnngp._io import PICTURES, atomic_write, writable
from mnngp._system.extras import require

if TYPE_CHECKING:
    from mnngp.experiments.convergence.study import Study


def converge(
    rank: Annotated[
        list[int] | None, typer.Option(help="Maxout rank; may be repeated [default: 2, 4].", min=1)
    ] = None,
    depth: Annotated[
        list[int] | None,
        typer.Option(help="Hidden layers; may be repeated [default: 1, 3].", min=1),
    ] = None,
    width: Annotated[
        list[int] | None,
        typer.Option(
            help="Units of a hidden layer; may be repeated [default: 5, 50, 500, 2000, 5000].",
            min=1,
        ),
    ] = None,
    networks: Annotated[
        int,
        typer.Option(
            help="Networks of the largest width; smaller ones are up to 20 times as many. Tangent "
            "kernels take at least 16, "
            "training at least 4.",
            min=2,
        ),
    ] = 200,
    weight_var: Annotated[
        float | None,
        typer.Option(
            help="Weight variance (times fan-in); the critical one of each rank by default."
        ),
    ] = None,
    bias_var: Annotated[float, typer.Option(help="Bias variance.")] = 0.1,
    all_weights: Annotated[
        bool,
        typer.Option(
            "--all-weights",
            help="Draw every weight, not the values at the points: the same law, much slower.",
        ),
    ] = False,
    tangent_up_to: Annotated[
        int, typer.Option(help="Largest width for tangent kernels; 0 for none.", min=0)
    ] = 2000,
    descent_up_to: Annotated[
        int | None,
        typer.Option(
            help="Largest width to train, at the first rank and depth; 0 for none [default: all "
            "for depth 1, 500 for more].",
            min=0,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.", min=0)] = 0,
    plot: Annotated[Path | None, typer.Option(help="Also draw it, to this file.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON (numbers that are not finite are null).")
    ] = False,
) -> None:
    """Draw finite networks, and watch them become the Gaussian process: covariances, marginals,
    tangent kernels, training.
    """
    if plot is not None:
        writable(plot, suffixes=PICTURES)
        require("plots", "matplotlib")
    from mnngp._system import progress
    from mnngp.finite import require_torch

    require_torch()
    from mnngp.experiments.convergence.study import convergence_study

    chosen = {"ranks": rank, "depths": depth, "widths": width}
    try:
        with progress.bar("networks") as stage:
            found = convergence_study(
                **{name: values for name, values in chosen.items() if values},
                networks=networks,
                weight_var=weight_var,
                bias_var=bias_var,
                draw="weights" if all_weights else "values",
                tangent_up_to=tangent_up_to,
                descent_up_to=descent_up_to,
                seed=seed,
                stage=stage,
            )
    except KeyboardInterrupt:
        typer.echo("stopped; nothing is kept", err=True)
        raise typer.Exit(130) from None
    if as_json:
        parts = {name: [_finite(row) for row in rows] for name, rows in found.summary().items()}
        typer.echo(json.dumps(parts, allow_nan=False))
    else:
        _print(found)
    if plot is not None:
        from mnngp.experiments.convergence.pictures import convergence

        with atomic_write(plot) as file:
            convergence(found).savefig(file, dpi=130, format=plot.suffix[1:].lower())
        if not as_json:
            typer.echo(f"\nPicture: {plot}")


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no word for a number that is not finite."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


def _fit(value: float, width: int, form: str) -> str:
    """A number in a column; one that is too long for it has an exponent."""
    text = format(value, form)
    if len(text) > width:
        text = f"{100.0 * value:.2g}%" if form.endswith("%") else f"{value:.2g}"
    return text.rjust(width)


def _print(found: Study) -> None:
    """The tables of covariances, tangent kernels and training, and the exponents."""
    typer.echo(
        "Covariances of the outputs (score: largest error in standard errors; printed: for "
        "eq. (20) as printed)"
    )
    typer.echo(
        "rank depth  width networks    error   score  printed  one network²  kurtosis     exact"
    )
    for row in found.covariances:
        typer.echo(
            f"{row.rank:>4} {row.depth:>5} {row.width:>6} {row.networks:>8} "
            f"{_fit(row.error, 8, '.2%')} "
            f"{_fit(row.score, 7, '.1f')} {_fit(row.printed_score, 8, '.1f')} "
            f"{row.squared_error:>13.2e} {row.kurtosis:>9.2e} {row.exact_kurtosis:>9.2e}"
        )
    if found.tangents:
        typer.echo("\nTangent kernels against the analytic one")
        typer.echo("rank depth  width networks    error   score           one network²")
    for tangent in found.tangents:
        typer.echo(
            f"{tangent.rank:>4} {tangent.depth:>5} {tangent.width:>6} {tangent.networks:>8} "
            f"{_fit(tangent.error, 8, '.2%')} "
            f"{_fit(tangent.score, 7, '.1f')} {tangent.squared_error:>22.2e}"
        )
    if found.descents:
        typer.echo(
            "\nTrained by gradient descent, against what the analytic tangent kernel "
            "predicts from the same start"
        )
        typer.echo("rank depth  width networks                          one network²")
    for descent in found.descents:
        typer.echo(
            f"{descent.rank:>4} {descent.depth:>5} {descent.width:>6} {descent.networks:>8} "
            f"{descent.squared_error:>39.2e}"
        )
    exponents = list(found.exponents())
    if exponents:
        typer.echo("\nThe squared error of one network falls like width to the power of")
    for name, rank, depth, exponent, std in exponents:
        typer.echo(f"  {exponent:6.3f} ± {std:.3f}   {name}, rank {rank}, depth {depth}")
