"""``mnngp fit`` and ``mnngp predict``: from a table to a model file, and from that to predictions."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mnngp.errors import InputError, ModelFileError, UnavailableError
from mnngp.files import replacing, writable


def fit(
    table: Annotated[
        Path, typer.Argument(metavar="TRAIN", help="The training table: CSV (or TSV) or Parquet.", show_default=False)
    ],
    target: Annotated[str, typer.Option(help="The column to predict.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="Where to write the model.", show_default=False)],
    task: Annotated[
        str | None,
        typer.Option(help="classification or regression; by default regression if the target holds numbers.", show_default=False),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column not to use (may be repeated).", show_default=False)] = None,
    max_trials: Annotated[int, typer.Option(min=1, help="Kernels to try at most.")] = 24,
    seed: Annotated[int, typer.Option(min=0, help="For the subset that kernels are compared on.")] = 0,
    solver: Annotated[
        str, typer.Option(help="auto, cholesky, cg, or dask: the cluster whose address is in DASK_SCHEDULER_ADDRESS.")
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fit a model to a table: kernel, noise and all are chosen from the data."""
    writable(output, table)
    from mnngp import data, persistence
    from mnngp.estimators import MaxoutGPClassifier, MaxoutGPRegressor

    frame = data.tables.read(table)
    encoder = data.Encoder.of(frame, target, task, drop or ())
    X, y = encoder.labelled(frame)
    model: Any = (MaxoutGPClassifier if encoder.task == "classification" else MaxoutGPRegressor)(
        max_trials=max_trials, random_state=seed, solver=solver
    )
    model.fit(X, y)
    persistence.save(model, output, table=encoder.as_dict())
    left_out = {}
    with contextlib.suppress(UnavailableError):  # there is no factor
        loo = model.loo_
        names = ("accuracy", "log_loss") if encoder.task == "classification" else ("rmse", "r2")
        left_out = {name: getattr(loo, name) for name in names}
    if as_json:
        kernel = {name: getattr(model.kernel_, name) for name in ("depth", "rank", "weight_var", "bias_var", "kind")}
        facts = {"task": encoder.task, "rows": len(X), "features": X.shape[1], "notes": list(encoder.notes)}
        typer.echo(json.dumps({**facts, "kernel": kernel, "leave_one_out": _finite(left_out), "model": str(output)}))
        return
    for note in encoder.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"{encoder.task} of {target!r}: {len(X):,} rows, {X.shape[1]} features")
    criterion = "mean squared error" if encoder.task == "classification" else "log density"
    tried = len(model.trials_)
    how = f"the best of {tried} by leave-one-out {criterion}" if tried > 1 else "too few rows to choose from"
    typer.echo(f"kernel: {model.kernel_!r} ({how})")
    shown = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in left_out.items())
    typer.echo(f"leave-one-out: {shown}" if shown else f"no leave-one-out: {model.report_}")
    typer.echo(f"model: {output}")


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What mnngp fit wrote.", show_default=False)],
    table: Annotated[Path, typer.Argument(metavar="NEW", help="Rows to predict: CSV (or TSV) or Parquet.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write them (.csv or .parquet) [default: print them].", show_default=False),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A column of NEW to put in front, such as an identifier (may be repeated).", show_default=False),
    ] = None,
) -> None:
    """Predict new rows: the number and the standard deviation of an observation (with its noise), or the label and probabilities.

    What was not understood is noted on the standard error stream, and the score, if the table holds the target.
    """
    if output is not None:
        writable(output, model, table)
    import polars as pl

    from mnngp import data, load

    fitted = load(model)
    if getattr(fitted, "_table", None) is None:
        raise ModelFileError(f"{model} was not written by mnngp fit: it does not know the columns of a table")
    encoder = data.Encoder.from_dict(fitted._table)
    frame = data.tables.read(table)
    X = encoder.encode(frame)
    if encoder.task == "classification":
        probability = fitted.predict_proba(X)
        columns = {"prediction": fitted.classes_[probability.argmax(axis=1)]}
        columns |= {f"P({label})": probability[:, number] for number, label in enumerate(fitted.classes_)}
    else:
        mean, deviation = fitted.predict(X, return_std=True, include_noise=True)
        columns = {"prediction": mean, "std": deviation}
    kept = [frame[name] for name in _kept(frame, keep or (), columns)]
    result = pl.DataFrame([*kept, *(pl.Series(name, values) for name, values in columns.items())])
    if output is None:
        sys.stdout.write(result.write_csv())
    else:
        with replacing(output) as file:
            (result.write_parquet if output.suffix == ".parquet" else result.write_csv)(file)
        typer.echo(f"{len(X):,} predictions: {output}")
    for surprise in encoder.surprises(frame):
        typer.echo(f"note: {surprise}", err=True)
    scored = encoder.scored(frame)
    if scored is not None:
        X, y = scored
        name = "accuracy" if encoder.task == "classification" else "R²"
        typer.echo(f"{name} on the {len(X):,} rows that have {encoder.target!r}: {fitted.score(X, y):.4f}", err=True)


def _kept(frame: Any, keep: Sequence[str], columns: Mapping[str, Any]) -> list[str]:
    for name in keep:
        if name not in frame.columns:
            raise InputError(f"--keep {name}: the table has no such column")
        if name in columns:
            raise InputError(f"--keep {name}: the predictions have a column of that name")
    return list(keep)


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """As JSON has it."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
