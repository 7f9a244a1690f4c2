"""``mnngp phase``: how to initialise a deep maxout network."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from mnngp._io import PICTURES, atomic_write, writable
from mnngp._system.extras import require


def phase(
    rank: Annotated[int, typer.Option(help="Maxout rank.", min=1)] = 2,
    depth: Annotated[int, typer.Option(help="Number of hidden layers.", min=1)] = 30,
    weight_var: Annotated[
        float | None,
        typer.Option(help="Weight variance (times fan-in); the critical one by default."),
    ] = None,
    bias_var: Annotated[float, typer.Option(help="Bias variance.")] = 0.0,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Also draw the phase diagram and the way through the layers, to this file."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON (numbers too large are null).")
    ] = False,
) -> None:
    """How to initialise a deep maxout network: the critical weight variance, the phase, and what
    depth does.
    """
    if plot is not None:
        writable(plot, suffixes=PICTURES)
        require("plots", "matplotlib")
    from mnngp import plots, theory
    from mnngp.activations import Maxout

    unit = Maxout(rank)
    critical = theory.critical_weight_var(unit)
    chosen = critical if weight_var is None else weight_var
    point = theory.fixed_point(unit, weight_var=chosen, bias_var=bias_var)
    profile = theory.depth_profile(unit, depth, weight_var=chosen, bias_var=bias_var)
    if as_json:
        facts: dict[str, object] = {
            "rank": rank,
            "depth": depth,
            "weight_var": chosen,
            "bias_var": bias_var,
            "critical_weight_var": critical,
            "phase": point.phase,
            "variance_slope": point.variance_slope,
            "gradient_slope": point.gradient_slope,
        }
        for name in ("variance", "correlation", "distance", "gradient"):
            values = getattr(profile, name).tolist()
            facts[name] = [value if math.isfinite(value) else None for value in values]
        typer.echo(json.dumps(facts, allow_nan=False))
    else:
        typer.echo(
            f"Maxout of rank {rank}: critical weight variance {critical:.8g} (a standard deviation "
            f"of {critical**0.5:.6g}/√fan_in)"
        )
        typer.echo(f"At σ_w² = {chosen:.6g}, σ_b² = {bias_var:g} the network is {point.phase}.")
        typer.echo(
            f"A layer multiplies variances by {point.variance_slope:.4f} and squared gradients by "
            f"{point.gradient_slope:.4f}.\n"
        )
        typer.echo(f"{'layer':>6} {'variance':>12} {'1 - correlation':>16} {'gradient²':>12}")
        for layer in sorted(
            {0, 1, 2, 3, *range(0, depth, max(1, depth // 8)), depth} & set(range(depth + 1))
        ):
            row = (profile.variance[layer], profile.distance[layer], profile.gradient[layer])
            typer.echo(f"{layer:>6} {row[0]:>12.5g} {row[1]:>16.5g} {row[2]:>12.5g}")
    if plot is not None:
        figure = plots.initialisation(unit, depth, weight_var=chosen, bias_var=bias_var)
        with atomic_write(plot) as file:
            figure.savefig(file, dpi=130, format=plot.suffix[1:].lower())
        if not as_json:
            typer.echo(f"\nPicture: {plot}")
