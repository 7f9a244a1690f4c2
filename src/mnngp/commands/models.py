"""``mnngp fit`` and ``mnngp predict``: from a table to a model file, and from that to predictions."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mnngp.errors import ModelFileError

if TYPE_CHECKING:
    from mnngp.data import Encoder


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
    seed: Annotated[int, typer.Option(help="For the subset that kernels are compared on.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fit a model to a table: kernel, noise and all are chosen from the data."""
    if not output.parent.is_dir():
        raise typer.BadParameter(f"the folder {output.parent} does not exist", param_hint="--output")
    from mnngp import data, persistence
    from mnngp.estimators import MaxoutGPClassifier, MaxoutGPRegressor

    frame = data.tables.read(table)
    encoder = data.Encoder.of(frame, target, task, drop or ())
    X, y = encoder.labelled(frame)
    model: Any = (MaxoutGPClassifier if encoder.task == "classification" else MaxoutGPRegressor)(
        max_trials=max_trials, random_state=seed
    )
    model.fit(X, y)
    persistence.save(model, output, table=encoder.as_dict())
    left_out = (
        {"accuracy": model.loo_.accuracy, "log_loss": model.loo_.log_loss}
        if encoder.task == "classification"
        else {"rmse": model.loo_.rmse, "r2": model.loo_.r2}
    )
    if as_json:
        kernel = {name: getattr(model.kernel_, name) for name in ("depth", "rank", "weight_var", "bias_var", "kind")}
        facts = {"task": encoder.task, "rows": len(X), "features": X.shape[1], "notes": list(encoder.notes)}
        typer.echo(json.dumps({**facts, "kernel": kernel, "leave_one_out": left_out, "model": str(output)}))
        return
    for note in encoder.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"{encoder.task} of {target!r}: {len(X):,} rows, {X.shape[1]} features")
    typer.echo(f"chosen from {len(model.trials_)} kernels: {model.kernel_!r}")
    typer.echo("leave-one-out: " + ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in left_out.items()))
    typer.echo(f"model: {output}")


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What mnngp fit wrote.", show_default=False)],
    table: Annotated[Path, typer.Argument(metavar="NEW", help="Rows to predict: CSV (or TSV) or Parquet.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write the predictions (CSV) [default: print them].", show_default=False),
    ] = None,
) -> None:
    """Predict new rows: the number and its standard deviation, or the label and the probability of each.

    If the table holds the target, too, the score is printed on the standard error stream.
    """
    if output is not None and not output.parent.is_dir():
        raise typer.BadParameter(f"the folder {output.parent} does not exist", param_hint="--output")
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
    text = pl.DataFrame(columns).write_csv()
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
        typer.echo(f"{len(X):,} predictions: {output}")
    if encoder.target in frame.columns:
        typer.echo(_score(fitted, encoder, frame), err=True)


def _score(fitted: Any, encoder: Encoder, frame: Any) -> str:
    X, y = encoder.labelled(frame)
    name = "accuracy" if encoder.task == "classification" else "R²"
    return f"{name} on the {len(X):,} rows that have {encoder.target!r}: {fitted.score(X, y):.4f}"
