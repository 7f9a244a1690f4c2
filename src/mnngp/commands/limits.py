"""``mnngp phase`` and ``mnngp converge``: what depth does to a network, and what width does."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mnngp._io import PICTURES, atomic_write, writable
from mnngp._system.extras import require

if TYPE_CHECKING:
    from mnngp.experiments.convergence.study import Study


def phase(
    rank: int = typer.Option(2, help="Maxout rank.", min=1),
    depth: int = typer.Option(30, help="Number of hidden layers.", min=1),
    weight_var: float | None = typer.Option(
        None, help="Weight variance (times fan-in); the critical one by default."
    ),
    bias_var: float = typer.Option(0.0, help="Bias variance."),
    plot: Path | None = typer.Option(
        None, help="Also draw the phase diagram and the way through the layers, to this file."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON (numbers too large are null)."),
) -> None:
    """How to initialise a deep maxout network: the critical weight variance, the phase, and what
    depth does.
    """
    _check_picture(plot)
    from mnngp import plots, theory
    from mnngp.activations import Maxout

    unit = Maxout(rank)
    critical = theory.critical_weight_var(unit)
    chosen = critical if weight_var is None else weight_var
    point = theory.fixed_point(unit, weight_var=chosen, bias_var=bias_var)
    profile = theory.depth_profile(unit, depth, weight_var=chosen, bias_var=bias_var)
    if as_json:
        facts = {"rank": rank, "depth": depth, "weight_var": chosen, "bias_var": bias_var}
        facts["critical_weight_var"] = critical
        for name in ("phase", "variance_slope", "gradient_slope"):
            facts[name] = getattr(point, name)
        for name in ("variance", "correlation", "distance", "gradient"):
            facts[name] = getattr(profile, name).tolist()
        typer.echo(json.dumps(finite_or_none(facts), allow_nan=False))
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
        _save_picture(figure, plot, tell=not as_json)


def converge(
    rank: list[int] | None = typer.Option(
        None, help="Maxout rank; may be repeated [default: 2, 4].", min=1
    ),
    depth: list[int] | None = typer.Option(
        None, help="Hidden layers; may be repeated [default: 1, 3].", min=1
    ),
    width: list[int] | None = typer.Option(
        None,
        help="Units of a hidden layer, or channels; may be repeated [default: 5, 50, 500, 2000, "
        "5000 units; 4, 16, 64, 256 channels].",
        min=1,
    ),
    readout: str | None = typer.Option(
        None,
        help="Convolutional networks on images of 8 × 8 pixels, with this readout: global (the "
        "mean over positions) or flatten. Nothing is trained.",
    ),
    networks: int | None = typer.Option(
        None,
        help="Networks of the largest width; smaller ones are up to 20 times as many. Tangent "
        "kernels take at least 16, training at least 4. [default: 200, convolutional 100]",
        min=2,
    ),
    weight_var: float | None = typer.Option(
        None, help="Weight variance (times fan-in); the critical one of each rank by default."
    ),
    bias_var: float = typer.Option(0.1, help="Bias variance."),
    all_weights: bool = typer.Option(
        False,
        "--all-weights",
        help="Draw every weight, not the values at the points: the same law, much slower.",
    ),
    tangent_up_to: int = typer.Option(
        2000, help="Largest width for tangent kernels; 0 for none.", min=0
    ),
    descent_up_to: int | None = typer.Option(
        None,
        help="Largest width to train, at the first rank and depth; 0 for none [default: all "
        "for depth 1, 500 for more].",
        min=0,
    ),
    seed: int = typer.Option(0, help="Of everything that is drawn.", min=0),
    plot: Path | None = typer.Option(None, help="Also draw it, to this file."),
    as_json: bool = typer.Option(
        False, "--json", help="Print JSON (numbers that are not finite are null)."
    ),
) -> None:
    """Draw finite networks, and watch them become the Gaussian process: covariances, marginals,
    tangent kernels, training.
    """
    _check_picture(plot)
    from mnngp._system import progress
    from mnngp.finite import require_torch

    require_torch()
    from mnngp.experiments.convergence import channels, study

    chosen: dict[str, Any] = {"ranks": rank, "depths": depth, "networks": networks}
    options: dict[str, Any] = {"weight_var": weight_var, "bias_var": bias_var}
    options |= {"tangent_up_to": tangent_up_to}
    if readout is None:
        run: Any = study.convergence_study
        chosen |= {"widths": width, "descent_up_to": descent_up_to}
        options |= {"draw": "weights" if all_weights else "values"}
    else:
        run = channels.image_study
        # all weights are drawn anyhow; what is to be trained is refused there
        chosen |= {"readout": readout, "channels": width, "descent_up_to": descent_up_to or None}
    options |= {name: value for name, value in chosen.items() if value is not None and value != []}
    try:
        with progress.bar("networks") as stage:
            found = run(**options, seed=seed, stage=stage)
    except KeyboardInterrupt:
        typer.echo("stopped; nothing is kept", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps(finite_or_none(found.summary()), allow_nan=False))
    else:
        _print(found)
    if plot is not None:
        from mnngp.experiments.convergence.pictures import convergence

        _save_picture(convergence(found), plot, tell=not as_json)


def _check_picture(path: Path | None) -> None:
    """An error now, not after the work."""
    if path is not None:
        writable(path, suffixes=PICTURES)
        require("plots", "matplotlib")


def _save_picture(figure: Any, path: Path, *, tell: bool) -> None:
    with atomic_write(path) as file:
        figure.savefig(file, dpi=130, format=path.suffix[1:].lower())
    if tell:
        typer.echo(f"\nPicture: {path}")


def finite_or_none(value: Any) -> Any:
    """JSON has no word for a number that is not finite."""
    if isinstance(value, dict):
        return {name: finite_or_none(item) for name, item in value.items()}
    if isinstance(value, list):
        return [finite_or_none(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _fit(value: float, width: int, form: str) -> str:
    """A number in a column; one that is too long for it has an exponent."""
    text = format(value, form)
    if len(text) > width:
        text = f"{100.0 * value:.2g}%" if form.endswith("%") else f"{value:.2g}"
    return text.rjust(width)


def _print(found: Study) -> None:
    """The tables of covariances, tangent kernels and training, and the exponents."""
    wide = max(6, len(found.width))

    def lines(rows: list[Any], title: str, names: str, *columns: tuple[str, int, str]) -> None:
        if rows:
            typer.echo(f"{title}\nrank depth {found.width:>{wide}} networks {names}")
        for row in rows:
            shape = f"{row.rank:>4} {row.depth:>5} {row.width:>{wide}} {row.networks:>8}"
            cells = (_fit(getattr(row, name), width, form) for name, width, form in columns)
            typer.echo(" ".join([shape, *cells]))

    error, score = ("error", 8, ".2%"), ("score", 7, ".1f")
    dense = all(hasattr(row, "printed_score") for row in found.covariances)
    if not dense:
        lines(
            list(found.covariances),
            "Covariances of the outputs (score: largest error in standard errors)",
            "   error   score           one network²",
            error,
            score,
            ("squared_error", 22, ".2e"),
        )
    lines(
        list(found.covariances) if dense else [],
        "Covariances of the outputs (score: largest error in standard errors; printed: for "
        "eq. (20) as printed)",
        "   error   score  printed  one network²  kurtosis     exact",
        error,
        score,
        ("printed_score", 8, ".1f"),
        ("squared_error", 13, ".2e"),
        ("kurtosis", 9, ".2e"),
        ("exact_kurtosis", 9, ".2e"),
    )
    lines(
        list(found.tangents),
        "\nTangent kernels against the analytic one",
        "   error   score           one network²",
        error,
        score,
        ("squared_error", 22, ".2e"),
    )
    lines(
        list(found.descents),
        "\nTrained by gradient descent, against what the analytic tangent kernel "
        "predicts from the same start",
        "                         one network²",
        ("squared_error", 39, ".2e"),
    )
    exponents = list(found.exponents())
    if exponents:
        typer.echo(f"\nThe squared error of one network falls like {found.width} to the power of")
    for name, rank, depth, exponent, std in exponents:
        typer.echo(f"  {exponent:6.3f} ± {std:.3f}   {name}, rank {rank}, depth {depth}")
