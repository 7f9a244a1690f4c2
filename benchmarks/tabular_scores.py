"""What benchmarks/tabular.py measures of a model on one fold."""

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn import datasets, metrics
from tabular_models import MODELS, predictive_deviation
from tabular_sets import Fold
from threadpoolctl import threadpool_info

# a forest gives probabilities of zero, and a single one of them would make its log loss infinite
CLIP = 1e-6
BINS = 15
INTERVAL = 0.9


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    value = function()
    return value, round(time.perf_counter() - start, 5)


def calibration_error(y: np.ndarray, probabilities: np.ndarray) -> float:
    """The expected calibration error of the most probable label."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [abs((right[bins == k] - confidence[bins == k]).sum()) for k in range(BINS)]
    return float(np.sum(gaps) / len(y))


def classification_scores(model: Any, X: Any, y: np.ndarray) -> dict[str, float]:
    if not hasattr(model, "predict_proba"):
        labels, seconds = timed(lambda: model.predict(X))
        return {"accuracy": metrics.accuracy_score(y, labels), "predict_seconds": seconds}
    probabilities, seconds = timed(lambda: model.predict_proba(X))
    classes = np.arange(probabilities.shape[1])
    if not np.array_equal(model.classes_, classes) or not np.allclose(
        probabilities.sum(axis=1), 1.0
    ):
        raise ValueError("the probabilities do not fit the classes")
    return {
        "accuracy": metrics.accuracy_score(y, model.predict(X)),
        "log_loss": -np.log(np.maximum(probabilities[np.arange(len(y)), y], CLIP)).mean(),
        # which clips at the type's resolution
        "log_loss_sklearn": metrics.log_loss(y, probabilities, labels=classes),
        "ece": calibration_error(y, probabilities),
        "predict_seconds": seconds,
    }


def regression_scores(model: Any, inputs: tuple, y: np.ndarray, y_test: np.ndarray) -> dict:
    X, X_test = inputs
    mean, seconds = timed(lambda: model.predict(X_test))
    deviation = predictive_deviation(model, X, y, X_test)
    if np.ndim(deviation) == 1 and y.ndim == 2 and len(deviation) == len(y_test):
        deviation = deviation[:, None]  # one for all outputs
    deviation = np.maximum(deviation, 1e-6 * y.std(axis=0))
    inside = np.abs(y_test - mean) <= norm.ppf(0.5 + INTERVAL / 2) * deviation
    return {
        "r2": metrics.r2_score(y_test, mean),
        "rmse": metrics.root_mean_squared_error(y_test, mean),
        "nlpd": float(-norm.logpdf(y_test, mean, deviation).mean()),
        "coverage": float(inside.mean()),
        "predict_seconds": seconds,
    }


def blas_threads() -> int:
    return max(
        (library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"),
        default=1,
    )


def warm_up(model: str, task: str, form: str) -> None:
    """What is compiled or started only once is not timed."""
    load = datasets.load_iris if task == "classification" else datasets.load_diabetes
    X, y = (values[::3] for values in load(return_X_y=True))
    inputs = X if form == "matrix" else pd.DataFrame(X).add_prefix("x")
    MODELS[model].build(task, inputs, y).fit(inputs, y).predict(inputs)


def score(name: str, task: str, form: str, fold: Fold) -> dict[str, Any]:
    (X, X_test), y, y_test = fold.inputs(form), fold.y, fold.y_test
    model, fit_seconds = timed(lambda: MODELS[name].build(task, X, y).fit(X, y))
    row: dict[str, Any] = {"n": len(X), "n_test": len(X_test), "d": fold.X.shape[1], "form": form}
    if task == "classification":
        row |= {"classes": int(y.max()) + 1} | classification_scores(model, X_test, y_test)
    else:
        row |= {"outputs": 1 if y.ndim == 1 else y.shape[1]}
        row |= regression_scores(model, (X, X_test), y, y_test)
    chosen = {
        parameter.split("__")[-1]: float(value)
        for parameter, value in getattr(model, "best_params_", {}).items()
    }
    row |= {
        "fit_seconds": fit_seconds,
        "load": round(os.getloadavg()[0], 1),
        "blas_threads": blas_threads(),
    } | chosen
    return {
        key: float(f"{value:.9g}") if isinstance(value, float) else value
        for key, value in row.items()
    }
