"""A model's account of itself: its data, what was chosen and why, how good it is, what matters."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mnngp._typing import Vector
from mnngp.errors import UnavailableError
from mnngp.estimators.process import LEFT_OUT_AT_MOST
from mnngp.estimators.relevance import column_names
from mnngp.estimators.table_features import VERSIONS
from mnngp.inference.choice import FEW
from mnngp.inference.costs import duration
from mnngp.inference.search_space import LINEAR

_WIDTH = 80  # columns of the text
_NAME = 18  # of them for what a line is about
_LONGEST = 40  # characters of a name from the data
_MANY = 8  # classes that are named
_CHEAP = 3000  # distinct rows up to which all of a factor's inverse takes seconds
_TOP = 5  # columns that matter most
_NINETY = 1.6448536269514722  # standard deviations of a 90 % interval to either side
_FEATURES = {
    "standard": "each column standardised",
    "sphere": "each row standardised",
    "whitened": "images standardised and whitened",
    "columns": "an embedding of each standardised column",
    "ranks": "an embedding of each column's ranks",
    None: "as they are",
}
Lines = list[tuple[str, str]]


@dataclass(frozen=True)
class ModelSummary:
    """What a fitted model says of itself: ``str`` is plain text of 80 columns at most.

    Attributes
    ----------
    title : str
        The name of the estimator.
    sections : dict
        For each heading the lines below it, pairs of what they are about and of what they say.
    """

    title: str
    sections: Mapping[str, Sequence[tuple[str, str]]]

    def __str__(self) -> str:
        lines = [self.title]
        for heading, section in self.sections.items():
            lines += ["", heading]
            for name, text in section:
                wrapped = textwrap.wrap(text, _WIDTH - _NAME) or [""]
                names = [name] + [""] * (len(wrapped) - 1)
                pairs = zip(names, wrapped, strict=True)
                lines += [f"  {name:<{_NAME - 2}}{part}".rstrip() for name, part in pairs]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [f"<caption><b>{html.escape(self.title)}</b></caption>"]
        for heading, section in self.sections.items():
            rows.append(
                f'<tr><th colspan="2" style="text-align:left">{html.escape(heading)}</th></tr>'
            )
            rows += [
                f'<tr><td style="text-align:left">{html.escape(name)}</td>'
                f'<td style="text-align:left">{html.escape(text)}</td></tr>'
                for name, text in section
            ]
        return f"<table>{''.join(rows)}</table>"


def summary_of(model: Any) -> ModelSummary:
    """The summary of a fitted estimator."""
    quality, poor = _quality(model)
    sections = {
        "Data": _data(model),
        "Model": _model(model),
        "Leave-one-out": quality,
        "Relevance": _relevance(model),
        "Warnings": [("", text) for text in (*_warnings(model), *poor)],
    }
    return ModelSummary(
        type(model).__name__, {name: lines for name, lines in sections.items() if lines}
    )


def how_chosen(model: Any) -> str:
    """Among how many kernels a model's was chosen, and by what."""
    tried = len(model.trials_)
    if tried < 2:
        return "the only one that was tried"
    criterion = "mean squared error" if hasattr(model, "classes_") else "log density"
    return f"out of {tried} by leave-one-out {criterion}"


def _data(model: Any) -> Lines:
    process, encoder = model.process_, getattr(model, "encoder_", None)
    if hasattr(model, "classes_"):
        labels = _some(map(_label, model.classes_), len(model.classes_))
        task = f"classification, {len(model.classes_)} classes: {labels}"
    else:
        targets = process.data.y.shape[1]
        task = "regression" if targets == 1 else f"regression of {targets} targets"
    rows, distinct = process.n_rows, len(process.data)
    ignored = rows - len(process.data.row)
    text = f"{rows:,}"
    text += f", of which {ignored:,} have the weight zero" * (ignored > 0)
    text += f"; {distinct:,} distinct" * (distinct < rows - ignored)
    features = process.posterior.points.rows[0].size
    columns = f"{model.n_features_in_:,}"
    if model.image_shape is not None:
        columns = f"images of {' x '.join(map(str, model.image_shape))}"
    elif encoder is not None:
        columns += f", which became {features:,} features"
    notes = () if encoder is None else encoder.notes_
    lines = [("task", task), ("rows", text), ("columns", columns)]
    return lines + [("note", _printable(note)) for note in notes]


def _model(model: Any) -> Lines:
    process, kernel = model.process_, model.kernel_
    features = _FEATURES.get(process.scaling.normalize, str(process.scaling.normalize))
    if kernel.embedding is not None:
        own = process.scaling.normalize in VERSIONS
        features += f"{'' if own else ', embedded'}, lengthscale {kernel.embedding.lengthscale:.4g}"
        features += f", weighted{' by relevance' * own}" * bool(kernel.embedding.weights)
    lines = [("features", features), ("network", _network(kernel))]
    if process.warps:
        lines.append(("targets", f"warped: {_some(map(repr, process.warps), len(process.warps))}"))
    for name in ("noise_var", "signal_var"):
        value = getattr(model, f"{name}_")
        shown = _some((f"{one:.4g}" for one in np.ravel(value)), np.size(value))
        lines.append((name.replace("_var", " variance"), shown))
    lines.append(("chosen", _choice(model)))
    compared = _best_by_features(model.trials_)
    if compared:
        lines.append(("compared", f"best score by features: {compared}"))
    return [*lines, ("solver", _solver(model))]


def _network(kernel: Any) -> str:
    """The network in words, as far as it is of equal maxout layers."""
    names = ("depth", "rank", "weight_var", "bias_var")
    if not all(name in kernel.get_params() for name in names):
        return repr(kernel)
    sizes = [
        f"{value:.4g}" if np.ndim(value) == 0 else f"({', '.join(f'{one:.4g}' for one in value)})"
        for value in (kernel.weight_var, kernel.bias_var)
    ]
    layers = f"{kernel.depth} hidden layer{'s' * (kernel.depth > 1)}"
    precision = ", in float32" * (np.dtype(kernel.dtype) == np.float32)
    return (
        f"maxout of rank {kernel.rank}, {layers}; weight variance {sizes[0]}, bias variance "
        f"{sizes[1]}; kernel: {kernel.kind.upper()}{precision}"
    )


def _choice(model: Any) -> str:
    trials, distinct = model.trials_, len(model.process_.data)
    if len(trials) < 2:
        return f"{how_chosen(model)}: nothing was left open, or there was nothing to choose by"
    seconds = sum(_float(trial.get("seconds")) for trial in trials)
    text = f"{how_chosen(model)}, in {duration(seconds)} of computing"
    best, rows = trials[0], trials[0].get("n_rows")
    if rows is not None and rows < distinct:
        text += f", at last on {rows:,} of {distinct:,} distinct rows"
    others = [trial for trial in trials[1:] if trial.get("n_rows") == rows]
    if math.isfinite(_float(best.get("score"))):
        text += f"; score {_float(best.get('score')):.4g}"
        if others:
            text += f", that of the next best {_float(others[0].get('score')):.4g}"
    return text


def _best_by_features(trials: Sequence[Mapping[str, Any]]) -> str:
    """The best score of each version of the features, if all were compared on the same rows."""
    if len({trial.get("n_rows") for trial in trials}) > 1:
        return ""
    best: dict[str, float] = {}
    for trial in trials:  # the best first
        best.setdefault(str(trial.get("features", LINEAR)), _float(trial.get("score")))
    if len(best) < 2:
        return ""
    return ", ".join(f"{name} {score:.4g}" for name, score in best.items())


def _solver(model: Any) -> str:
    report = model.report_
    if not model.process_.posterior.factored:
        return f"conjugate gradients: {report}"
    added = "nothing was added to the noise"
    if report.added > 0.0:
        added = f"{report.added:.3g} was added to the noise variance"
    return f"Cholesky factorisation, {added}"


# --- how good it is -------------------------------------------------------------------------------


def _quality(model: Any) -> tuple[Lines, list[str]]:
    """Scores by leave-one-out beside those of who looks at no column; and what is wrong."""
    process = model.process_
    posterior, n = process.posterior, len(process.data)
    cheap = posterior.known_precision is not None or n <= (
        _CHEAP if posterior.factored else LEFT_OUT_AT_MOST
    )
    if n < 2:
        return [("", "there is but one distinct row")], []
    if not cheap and posterior.factored:
        return [("", f"not computed for {n:,} distinct rows; loo_ computes it")], []
    try:
        loo = model.loo_
        return (_of_classes if hasattr(model, "classes_") else _of_numbers)(process, loo)
    except UnavailableError as error:
        return [("", f"not available: {error}")], []


def _of_classes(process: Any, loo: Any) -> tuple[Lines, list[str]]:
    data = process.data
    share = np.bincount(data.row_y.argmax(axis=1), weights=data.row_weight)
    share = share[share > 0.0] / share.sum()
    majority, entropy = float(share.max()), -float(share @ np.log(share))
    lines = [
        ("accuracy", f"{loo.accuracy:.3f} (always the most frequent class: {majority:.3f})"),
        ("log loss", f"{loo.log_loss:.3f} (the classes' frequencies: {entropy:.3f})"),
    ]
    poor = "leave-one-out is no better than the most frequent class: the columns may tell nothing"
    return lines, [poor] if loo.log_loss >= entropy and loo.accuracy <= majority else []


def _of_numbers(process: Any, loo: Any) -> tuple[Lines, list[str]]:
    data, y = process.data, process.observed()
    # intervals are where the process is: what a warp makes of them holds the same rows
    mean, variance, noise = process.left_out(np.arange(len(data.row)), data.row_weight)
    error, std = data.row_y - mean, np.sqrt(variance + noise)[:, None]
    away = y - np.average(y, axis=0, weights=data.row_weight)
    spread = np.sqrt(np.average(away**2, axis=0, weights=data.row_weight))

    def held(error: Vector, deviation: Vector) -> str:
        inside = np.mean(np.abs(error) <= _NINETY * deviation, axis=1)
        return f"{100.0 * float(np.average(inside, weights=data.row_weight)):.1f} %"

    rmse = math.sqrt(float(np.mean(spread**2)))
    lines = [
        ("R²", f"{loo.r2:.3f} (always the mean: 0)"),
        ("RMSE", f"{loo.rmse:.4g} (always the mean: {rmse:.4g})"),
        (
            "90 % intervals",
            f"hold {held(error, std)} (of the mean and its deviation: {held(away, spread)})",
        ),
    ]
    poor = "leave-one-out is no better than the mean: the columns may tell nothing"
    return lines, [poor] if loo.rmse >= rmse else []


def _relevance(model: Any) -> Lines:
    try:
        found = model.feature_relevance_
    except UnavailableError:
        return []
    names = column_names(model)
    order = np.argsort(-found, kind="stable")[:_TOP]
    rest = 1.0 - float(found[order].sum())
    lines = [(f"{found[j]:.3f}", _label(names[j])) for j in order if found[j] > 0.0]
    if not lines:
        return [("", "the prediction depends on no column")]
    if len(found) > _TOP:
        others = len(found) - _TOP
        lines.append((f"{max(rest, 0.0):.3f}", f"{others:,} other{'s' * (others > 1)} together"))
    return lines


def _warnings(model: Any) -> list[str]:
    distinct, found = len(model.process_.data), []
    if distinct < FEW:
        found.append(
            f"{distinct} distinct row{'s' * (distinct > 1)}: no kernel can be chosen from so few, "
            "and predictions for other rows are guesses"
        )
    if model.report_.added > 0.0:
        found.append(
            f"the covariance could not be factored until {model.report_.added:.3g} was added to "
            "the noise variance"
        )
    return found


# --- words ----------------------------------------------------------------------------------------


def _label(value: Any) -> str:
    """A name or label from the data, so that it cannot pretend to be anything else."""
    text = repr(str(value)) if isinstance(value, str) else _printable(str(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def _some(names: Iterable[str], count: int) -> str:
    shown = [name for name, _ in zip(names, range(_MANY), strict=False)]
    return ", ".join(shown) + ", …" * (count > _MANY)


def _float(value: Any) -> float:
    """A number of a trial; files of before may not have it."""
    return float(value) if isinstance(value, int | float) else math.nan
