"""``mnngp fit`` and ``mnngp predict``: from a table to a model file, and to predictions."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mnngp._io import atomic_write, writable
from mnngp._system.extras import require
from mnngp.errors import InputError, ModelFileError, UnavailableError, collect_warnings

# A row is far from those of training if its standard deviation is twice what nearly all of them
# have when they are left out. Not the largest of them: that may be of a row that stands alone. Of
# other rows of the same kind at most three in a thousand were far (twelve regressions on normal,
# lognormal and noisy data in 1 to 10 columns, n = 100 to 300, and three classifications), and all
# of those with one column moved by three times its range.
_FAR, _NEARLY_ALL = 2.0, 0.98
_LEFT_OUT = 2000  # rows at most


def fit(
    table: Annotated[
        Path, typer.Argument(metavar="TRAIN", help="The training table: CSV (or TSV) or Parquet.")
    ],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="Where to write the model.")
    ],
    task: Annotated[
        str | None,
        typer.Option(
            help="classification or regression; by default regression if the target holds numbers."
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column not to use (may be repeated).")
    ] = None,
    max_trials: Annotated[int, typer.Option(min=1, help="Kernels to try at most.")] = 24,
    seed: Annotated[
        int, typer.Option(min=0, help="For the subset that kernels are compared on.")
    ] = 0,
    solver: Annotated[
        str,
        typer.Option(
            help="auto, cholesky, cg, or dask: the cluster at "
            "DASK_SCHEDULER_ADDRESS, or processes here."
        ),
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fit a model to a table: kernel, noise and all are chosen from the data."""
    writable(output, table, suffixes=(".mnngp", ""))
    require("tables", "polars")
    from mnngp import data

    frame = data.read_table(table)
    encoder = data.Encoder.of(frame, target, task, drop or ())
    X, y = encoder.labelled(frame)
    from mnngp.estimators import MaxoutGPClassifier, MaxoutGPRegressor, model_file

    model: Any = (MaxoutGPClassifier if encoder.task == "classification" else MaxoutGPRegressor)(
        max_trials=max_trials, random_state=seed, solver=solver
    )
    with collect_warnings() as warned:
        model.fit(X, y)
    notes = [*encoder.notes, *(text for _, text in warned)]
    model_file.save(model, output, table=encoder.as_dict() | {"usual_std": _usual_std(model, seed)})
    left_out = {}
    with contextlib.suppress(UnavailableError):  # there is no factor
        loo = model.loo_
        names = ("accuracy", "log_loss") if encoder.task == "classification" else ("rmse", "r2")
        left_out = {name: getattr(loo, name) for name in names}
    if as_json:
        kernel = {
            name: getattr(model.kernel_, name)
            for name in ("depth", "rank", "weight_var", "bias_var", "kind")
        }
        facts = {"task": encoder.task, "rows": len(X), "features": X.shape[1], "notes": notes}
        typer.echo(
            json.dumps(
                {
                    **facts,
                    "kernel": kernel,
                    "leave_one_out": _finite(left_out),
                    "model": str(output),
                }
            )
        )
        return
    for note in notes:
        typer.echo(f"note: {note}")
    typer.echo(f"{encoder.task} of {target!r}: {len(X):,} rows, {X.shape[1]} features")
    criterion = "mean squared error" if encoder.task == "classification" else "log density"
    tried = len(model.trials_)
    how = (
        f"the best of {tried} by leave-one-out {criterion}"
        if tried > 1
        else "the only one that was tried"
    )
    typer.echo(f"kernel: {model.kernel_!r} ({how})")
    shown = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in left_out.items())
    typer.echo(f"leave-one-out: {shown}" if shown else f"no leave-one-out: {model.report_}")
    typer.echo(f"model: {output}")


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What mnngp fit wrote.")],
    table: Annotated[
        Path, typer.Argument(metavar="NEW", help="Rows to predict: CSV (or TSV) or Parquet.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where to write them (.csv, .tsv or .parquet) [default: print them].",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="A column of NEW to put in front, such as an identifier (may be repeated)."
        ),
    ] = None,
) -> None:
    """Predict new rows: the number and the standard deviation of an observation (with its noise),
    or the label and probabilities.

    What was not understood is noted on the standard error stream, and the score, if the table holds
    the target.
    """
    if output is not None:
        writable(output, model, table, suffixes=(".csv", ".tsv", ".parquet"))
    require("tables", "polars")
    import polars as pl

    from mnngp import data
    from mnngp.estimators import load

    fitted = load(model)
    if getattr(fitted, "_table", None) is None:
        raise ModelFileError(
            f"{model} was not written by mnngp fit: it does not know the columns of a table"
        )
    known = fitted._table
    # version 0.1 does not know it
    usual = known.get("usual_std") if isinstance(known, dict) else None
    encoder = data.Encoder.from_dict(
        {key: known[key] for key in known if key != "usual_std"}
        if isinstance(known, dict)
        else known
    )
    frame = data.read_table(table)
    X = encoder.encode(frame, strict=False)
    if encoder.task == "classification":
        # As predict_proba, which keeps the variance to itself: it is what takes the time, and need
        # not be computed twice.
        mean, variance = fitted._posterior.mean_and_variance(fitted._inputs(X))
        probability = fitted._calibration()(fitted._means(mean), variance)
        deviation = float(fitted._unit[0]) * (variance + fitted._noise) ** 0.5
        columns = {"prediction": fitted.classes_[probability.argmax(axis=1)]}
        columns |= {
            f"P({label})": probability[:, number] for number, label in enumerate(fitted.classes_)
        }
    else:
        mean, deviation = fitted.predict(X, return_std=True, include_noise=True)
        columns = {"prediction": mean, "std": deviation}
    kept = [frame[name] for name in _kept(frame, keep or (), columns)]
    result = pl.DataFrame([*kept, *(pl.Series(name, values) for name, values in columns.items())])
    if output is None:
        typer.echo(result.write_csv().encode(), nl=False)  # the same bytes on every platform
    else:
        with atomic_write(output) as file:
            _write(result, file, output.suffix.lower())
        typer.echo(f"{len(X):,} predictions: {output}")
    for surprise in [*encoder.surprises(frame), *_extrapolated(deviation, usual)]:
        typer.echo(f"note: {surprise}", err=True)
    scored = encoder.scored(frame, strict=False)
    if scored is not None:
        X, y = scored
        name = "accuracy" if encoder.task == "classification" else "R²"
        typer.echo(
            f"{name} on the {len(X):,} rows that have {encoder.target!r}: {fitted.score(X, y):.4f}",
            err=True,
        )


def _usual_std(model: Any, seed: int) -> float:
    """The standard deviation that nearly all training rows have when they are left out.

    Without a factor a row that is left out is a system to solve; the spread of the targets stands
    in, which a prediction does not exceed where it knows anything.
    """
    import numpy as np

    data, unit = model._data, float(model._unit[0])
    if not model._posterior.factored:
        return unit
    rows = np.arange(len(data.row))
    if len(rows) > _LEFT_OUT:
        rows = np.sort(np.random.default_rng(seed).choice(rows, _LEFT_OUT, replace=False))
    _, variance, noise = model._left_out(rows, data.row_weight[rows])
    return unit * math.sqrt(float(np.quantile(variance + noise, _NEARLY_ALL, method="lower")))


def _extrapolated(deviation: Any, usual: object) -> list[str]:
    """What to say of rows that are far from all training rows."""
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


def _write(result: Any, file: Any, suffix: str) -> None:
    if suffix == ".parquet":
        result.write_parquet(file)
    else:
        result.write_csv(file, separator="\t" if suffix == ".tsv" else ",")


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
