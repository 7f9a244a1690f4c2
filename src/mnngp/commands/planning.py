"""``mnngp plan``: what a fit will take, before it starts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer


def plan(
    n: Annotated[
        float,
        typer.Option(
            "--n",
            min=1,
            max=1e12,
            help="Training points, such as 20000 or 1e6.",
            show_default=False,
        ),
    ],
    features: Annotated[int, typer.Option(min=1, help="Columns of the data.")] = 100,
    depth: Annotated[int, typer.Option(min=1, help="Hidden layers.")] = 5,
    targets: Annotated[int, typer.Option(min=1, help="Targets, or classes.")] = 1,
    workers: Annotated[
        int, typer.Option(min=1, help="Workers of a Dask cluster; 1: this machine, without one.")
    ] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each.")] = 1,
    memory: Annotated[str, typer.Option(help="Memory of each, such as 32GB.")] = "16GB",
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    iterations: Annotated[
        int | None,
        typer.Option(
            min=1, help="Of conjugate gradients [default: as in the benchmark].", show_default=False
        ),
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(help="Show this one alone: cholesky, cg or dask.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Time, memory and traffic of a fit, from costs that were measured; the advised solver is
    first.
    """
    from mnngp import _validation
    from mnngp._system.memory import format_bytes
    from mnngp.errors import InputError
    from mnngp.inference.costs import SOLVERS, Workload, duration, plans

    if solver is not None:
        _validation.one_of("solver", solver, SOLVERS)
    load = Workload(round(n), features, depth, targets, workers, threads, memory, dtype, iterations)
    made = [one for one in plans(load) if solver in (None, one.solver)]
    if not made:
        where = "one machine" if workers == 1 else "a cluster"
        raise InputError(
            f"solver {solver!r} is not for {where}: give --workers {2 if workers == 1 else 1}"
        )
    if as_json:
        typer.echo(json.dumps({"job": asdict(load), "plans": [one.as_dict() for one in made]}))
        return
    place = (
        f"{threads} threads, {memory}"
        if workers == 1
        else f"{workers:,} workers of {threads} threads and {memory}"
    )
    typer.echo(f"n = {load.n:,}, {features} features, depth {depth}, {targets} targets; {place}")
    typer.echo(
        f"The kernel has {format_bytes(0.5 * load.itemsize * load.n * load.n)} (one triangle).\n"
    )
    for one in made:
        typer.echo(str(one))
        spent = sorted(one.parts.items(), key=lambda part: -part[1])
        typer.echo("    " + ", ".join(f"{name} {duration(seconds)}" for name, seconds in spent))
    advised = made[0]
    typer.echo(
        f"\nAdvised: solver={advised.solver!r}."
        if advised.fits
        else "\nNothing fits: more memory or more workers are needed."
    )
