"""``mnngp plan``, ``fit`` and ``predict``: what a fit takes; a table, its model, predictions."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mnngp._io import atomic_write, writable
from mnngp._system.extras import require
from mnngp.commands.limits import finite_or_none
from mnngp.errors import InputError, ModelFileError, UnavailableError, collect_warnings

if TYPE_CHECKING:
    import polars as pl

    from mnngp.data import Encoder

# A row is far from those of training if its standard deviation is twice what nearly all of them
# have when they are left out. Not the largest of them: that may be of a row that stands alone. Of
# other rows of the same kind at most three in a thousand were far (twelve regressions on normal,
# lognormal and noisy data in 1 to 10 columns, n = 100 to 300, and three classifications), and all
# of those with one column moved by three times its range, where the network sees the columns.
# Behind an embedding one column is no more than its share: what is far outside of it is told by
# the notes on columns.
_FAR, _NEARLY_ALL = 2.0, 0.98
_LEFT_OUT = 2000  # rows at most


def fit(
    table: Path = typer.Argument(
        ..., metavar="TRAIN", help="The training table: CSV (or TSV) or Parquet."
    ),
    target: str = typer.Option(..., help="The column to predict."),
    output: Path = typer.Option(
        ..., "--output", "-o", metavar="MODEL", help="Where to write the model."
    ),
    task: str | None = typer.Option(
        None,
        help="classification or regression; by default regression if the target holds numbers.",
    ),
    drop: list[str] | None = typer.Option(None, help="A column not to use (may be repeated)."),
    max_trials: int = typer.Option(24, min=1, help="Kernels to try at most."),
    seed: int = typer.Option(0, min=0, help="For the subset that kernels are compared on."),
    solver: str = typer.Option(
        "auto",
        help="auto, cholesky, cg, or dask: the cluster at "
        "DASK_SCHEDULER_ADDRESS, or processes here.",
    ),
    class_weight: str | None = typer.Option(
        None,
        help="balanced: all classes weigh the same, so that rare ones are found more often "
        "[default: as frequent as they are].",
    ),
    warp: str = typer.Option(
        "auto",
        help="Of numbers to predict: none, log (none below zero), arcsinh (far out on both "
        "sides), or auto: one of them if it is clearly better.",
    ),
    features: str = typer.Option(
        "auto",
        help="What the first layer sees: linear (the columns), embedding (each column by itself), "
        "or auto: the better of the two by leave-one-out.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Fit a model to a table: kernel, noise and all are chosen from the data.

    Labels that are numbers in an order (grades, stars) may be predicted as numbers: that is a
    regression, which knows that 4 is between 3 and 5.
    """
    from mnngp import _validation

    writable(output, table, suffixes=(".mnngp", ""))
    _validation.one_of("--class-weight", class_weight or "balanced", ("balanced",))
    _validation.one_of("--warp", warp, ("auto", "none", "log", "arcsinh"))
    _validation.one_of("--features", features, ("auto", "linear", "embedding"))
    require("tables", "polars")
    from mnngp import data

    frame = data.read_table(table)
    encoder = data.Encoder.of(frame, target, task, drop or ())
    X, y = encoder.labelled(frame)
    from mnngp.estimators import MaxoutGPClassifier, MaxoutGPRegressor, model_file
    from mnngp.estimators.summary import how_chosen
    from mnngp.estimators.table_input import EncodedTable

    given: dict[str, Any] = {"max_trials": max_trials, "random_state": seed, "solver": solver}
    given["features"] = features
    if encoder.task == "classification":
        if warp != "auto":
            raise InputError(f"--warp is for regression, {target!r} holds labels, got {warp!r}")
        model: Any = MaxoutGPClassifier(**given, class_weight=class_weight)
    else:
        if class_weight is not None:
            raise InputError(
                f"--class-weight is for classification, {target!r} holds numbers (if they are "
                f"labels: --task classification), got {class_weight!r}"
            )
        model = MaxoutGPRegressor(**given, warp=None if warp == "none" else warp)
    with collect_warnings() as warned:
        model.fit(EncodedTable(encoder.without_target(frame, drop or ()), X), y)
    notes = [*encoder.notes, *(text for _, text in warned)]
    model_file.save(model, output, table=encoder.as_dict() | {"usual_std": _usual_std(model, seed)})
    left_out = {}
    with contextlib.suppress(UnavailableError):  # there is no factor
        loo = model.loo_
        names = ("accuracy", "log_loss") if encoder.task == "classification" else ("rmse", "r2")
        left_out = {name: getattr(loo, name) for name in names}
    if as_json:
        parts = ("depth", "rank", "weight_var", "bias_var", "kind")
        facts = {"task": encoder.task, "rows": len(X), "features": X.shape[1], "notes": notes}
        facts["kernel"] = {name: getattr(model.kernel_, name) for name in parts}
        facts |= {"leave_one_out": finite_or_none(left_out), "model": str(output)}
        if encoder.task == "regression":
            facts["warp"] = model.warp_.as_dict()
        typer.echo(json.dumps(facts))
        return
    for note in notes:
        typer.echo(f"note: {note}")
    typer.echo(f"{encoder.task} of {target!r}: {len(X):,} rows, {X.shape[1]} features")
    typer.echo(f"kernel: {model.kernel_!r} ({how_chosen(model)})")
    if encoder.task == "regression" and model.process_.warps:
        typer.echo(f"warp of {target!r}: {model.warp_!r}")
    shown = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in left_out.items())
    typer.echo(f"leave-one-out: {shown}" if shown else f"no leave-one-out: {model.report_}")
    typer.echo(f"model: {output}")


def predict(
    model: Path = typer.Argument(
        ..., metavar="MODEL", help="What mnngp fit wrote, or save of a model of a frame."
    ),
    table: Path = typer.Argument(
        ..., metavar="NEW", help="Rows to predict: CSV (or TSV) or Parquet."
    ),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="Where to write them (.csv, .tsv or .parquet) [default: print them].",
    ),
    keep: list[str] | None = typer.Option(
        None, help="A column of NEW to put in front, such as an identifier (may be repeated)."
    ),
    interval: float | None = typer.Option(
        None,
        help="Of numbers: add columns lower and upper, between which an observation falls with "
        "this probability, such as 0.9, and misses on either side with the same [default: none].",
    ),
    quantiles: str | None = typer.Option(
        None,
        help="Of numbers: add a column for each of these quantiles of an observation, such as "
        "0.05,0.5,0.95 [default: none].",
    ),
) -> None:
    """Predict new rows: the number (the mean of what may be observed) and the standard deviation of
    an observation (with its noise), or the label and probabilities.

    What was not understood is noted on the standard error stream, and the score, if the table holds
    the target.
    """
    if output is not None:
        writable(output, model, table, suffixes=(".csv", ".tsv", ".parquet"))
    require("tables", "polars")
    import polars as pl

    from mnngp import data
    from mnngp.estimators import load
    from mnngp.tables.table_encoder import plain_numbers

    levels = _levels(interval, quantiles)
    fitted = load(model)
    encoder, usual = _learned_by_fit(fitted, model)
    if levels and hasattr(fitted, "classes_"):
        option = f"--interval {interval}" if interval is not None else f"--quantiles {quantiles}"
        raise InputError(f"{option}: {model} predicts labels, which have probabilities alone")
    frame = data.read_table(table)
    X: Any = plain_numbers(frame, fitted.feature_names_in_) if fitted.encoder_ is None else frame
    X = fitted.check_features(X)
    if hasattr(fitted, "classes_"):
        # As predict_proba, which keeps the variance to itself: it is what takes the time, and need
        # not be computed twice.
        process = fitted.process_
        mean, variance = process.mean_and_variance(X)
        probability = fitted.calibration_(mean, variance)
        deviation = float(process.unit[0]) * (variance + process.noise_var) ** 0.5
        columns = {"prediction": fitted.classes_[probability.argmax(axis=1)]}
        columns |= {
            f"P({label})": probability[:, number] for number, label in enumerate(fitted.classes_)
        }
    else:
        columns, deviation = _numbers(fitted, X, levels)
    for name in keep or ():
        if name not in frame.columns:
            raise InputError(f"--keep {name}: the table has no such column")
        if name in columns:
            raise InputError(f"--keep {name}: the predictions have a column of that name")
    kept = [frame[name] for name in keep or ()]
    result = pl.DataFrame([*kept, *(pl.Series(name, values) for name, values in columns.items())])
    _show(result, output)
    learned = encoder if encoder is not None else fitted.encoder_
    surprises = [] if learned is None else learned.surprises(frame)
    for surprise in [*surprises, *_extrapolated(deviation, usual)]:
        typer.echo(f"note: {surprise}", err=True)
    scored = None if encoder is None else encoder.scored(frame, strict=False)
    if encoder is not None and scored is not None:
        X, y = scored
        name = "accuracy" if encoder.task == "classification" else "R²"
        typer.echo(
            f"{name} on the {len(X):,} rows that have {encoder.target!r}: {fitted.score(X, y):.4f}",
            err=True,
        )


def _levels(interval: float | None, quantiles: str | None) -> dict[str, float]:
    """Names of columns, and the quantiles that stand there."""
    levels = {}
    if interval is not None:
        if not 0.0 < interval < 1.0:
            raise InputError(
                f"--interval must be a probability above 0 and below 1, got {interval!r}"
            )
        levels = {"lower": 0.5 - 0.5 * interval, "upper": 0.5 + 0.5 * interval}
    for text in [] if quantiles is None else quantiles.split(","):
        try:
            level = float(text)
        except ValueError:
            level = math.nan
        if not 0.0 < level < 1.0:
            raise InputError(
                "--quantiles must be numbers above 0 and below 1 with commas between them, such as "
                f"0.05,0.5,0.95, got {quantiles!r}"
            )
        levels[f"quantile {level:g}"] = level
    return levels


def _numbers(fitted: Any, X: Any, levels: dict[str, float]) -> tuple[dict[str, Any], Any]:
    """The columns of a regression; and each row's deviation of the first target, before its warp.

    The variance is what takes the time, so it is computed once.
    """
    from mnngp.estimators.predictive import Predictive

    found = Predictive.of(fitted.process_, X)
    parts = {"prediction": found.mean(), "std": found.std(include_noise=True)}
    if levels:
        values = found.quantiles(list(levels.values()))
        parts |= {name: values[..., number] for number, name in enumerate(levels)}
    ends = [""] if fitted.process_.flat else [f" {j}" for j in range(found.center.shape[1])]
    columns = {
        f"{name}{end}": values[:, j] for name, values in parts.items() for j, end in enumerate(ends)
    }
    return columns, found.deviation[:, 0]


def _show(result: pl.DataFrame, output: Path | None) -> None:
    """Print predictions, or write them to a file."""
    if output is None:
        typer.echo(result.write_csv().encode(), nl=False)  # the same bytes on every platform
    else:
        with atomic_write(output) as file:
            if output.suffix.lower() == ".parquet":
                result.write_parquet(file)
            else:
                result.write_csv(file, separator="\t" if output.suffix.lower() == ".tsv" else ",")
        typer.echo(f"{len(result):,} predictions: {output}")


def _learned_by_fit(fitted: Any, path: Path) -> tuple[Encoder | None, object]:
    """What ``mnngp fit`` learned of target and columns, and how sure predictions usually are.

    Version 0.1 did not know the latter; a model that Python fitted to a frame knows neither.
    """
    if fitted.encoder_ is None and not hasattr(fitted, "feature_names_in_"):
        raise ModelFileError(
            f"{path} was not written by mnngp fit, nor fitted to a frame: it does not know the "
            "columns of a table"
        )
    if fitted.encoder_ is None or "target" not in fitted.table_:
        return None, None
    from mnngp.data import Encoder

    table = dict(fitted.table_)
    usual = table.pop("usual_std", None)
    return Encoder.from_dict(table), usual


def _usual_std(model: Any, seed: int) -> float:
    """The standard deviation that nearly all training rows have when they are left out.

    Without a factor a row that is left out is a system to solve; the spread of the targets stands
    in, which a prediction does not exceed where it knows anything.
    """
    import numpy as np

    process, unit = model.process_, float(model.process_.unit[0])
    if not process.posterior.factored:
        return unit
    data = process.data
    rows = np.arange(len(data.row))
    if len(rows) > _LEFT_OUT:
        rows = np.sort(np.random.default_rng(seed).choice(rows, _LEFT_OUT, replace=False))
    _, variance, noise = process.left_out(rows, data.row_weight[rows])
    return unit * math.sqrt(float(np.quantile(variance + noise, _NEARLY_ALL, method="lower")))


def _extrapolated(deviation: Any, usual: object) -> list[str]:
    if usual is None:
        return []
    if type(usual) is not float or not 0.0 <= usual < math.inf:
        raise ModelFileError(f"usual_std must be a finite number at least 0, got {usual!r}")
    far = (deviation > _FAR * usual).nonzero()[0]
    if not len(far):
        return []
    who = "is far from all training rows: its prediction is an extrapolation"
    if len(far) > 1:
        who = "are far from all training rows: their predictions are extrapolations"
    why = "a standard deviation of more than twice the usual one in training"
    return [f"{len(far)} of {len(deviation)} rows {who} ({why}), first row {far[0] + 1}"]


def plan(
    n: float = typer.Option(
        ..., "--n", min=1, max=1e12, help="Training points, such as 20000 or 1e6."
    ),
    features: int = typer.Option(100, min=1, help="Columns of the data."),
    depth: int = typer.Option(5, min=1, help="Hidden layers."),
    targets: int = typer.Option(1, min=1, help="Targets, or classes."),
    workers: int = typer.Option(
        1, min=1, help="Workers of a Dask cluster; 1: this machine, without one."
    ),
    threads: int = typer.Option(1, min=1, help="Threads of each."),
    memory: str = typer.Option("16GB", help="Memory of each, such as 32GB."),
    dtype: str = typer.Option("float64", help="float64 or float32."),
    iterations: int | None = typer.Option(
        None, min=1, help="Of conjugate gradients [default: as in the benchmark]."
    ),
    solver: str | None = typer.Option(None, help="Show this one alone: cholesky, cg or dask."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Time, memory and traffic of a fit, from costs that were measured; the advised solver is
    first.
    """
    from mnngp import _validation
    from mnngp._system.memory import format_bytes
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
    place = f"{threads} threads, {memory}"
    if workers > 1:
        place = f"{workers:,} workers of {threads} threads and {memory}"
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
