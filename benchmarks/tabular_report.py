"""From the rows of benchmarks/tabular.py to its page: means over folds and sets, ranks, and where a
peer is ahead.
"""

import json
import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from ranks import LEVEL, Ranks, draw, ranked
from tabular_models import (
    CORES,
    INNER_FOLDS,
    LEAVES,
    MODELS,
    OURS,
    RATE,
    SLOW_RATE,
    SUBSAMPLING,
    TITLES,
)
from tabular_scores import BINS, CLIP, INTERVAL
from tabular_sets import (
    FEWEST_ROWS,
    GROUPS,
    KEEL,
    MOST_REGRESSION_ROWS,
    MOST_ROWS,
    NUMBERS,
    PACKAGES,
    SMALL,
    TUNE,
    TWINS,
    fold_count,
    task_of,
)

TIE = 7  # digits after which accuracies are one: a sum of three folds depends on their order
AHEAD = 0.03
FEWEST_SETS = 5  # for a rank test to say anything
TASKS = ("classification", "regression")
# Why a peer is ahead of us by more than AHEAD: a sentence for each set, which the page prints. It
# says what was tried to find out, not what might be; its numbers are those of tabular_why.py, and
# belong to the version that is named there.
WHY = {
    "tae": "instructor and course are codes written as numbers, which thresholds can single out "
    "and a smooth function cannot: with all columns as categories ours has 0.656, the forest 0.650",
    "bupa": "half from the embedding: with standardised columns ours has 0.721, but "
    "leave-one-out prefers the embedding (0.692). The other half are interactions: a forest of "
    "trees of depth 2 has 0.684, of depth 4 0.712, of depth 8 0.762",
    "r-airquality": "the forest gains from leaves of single rows, by which it repeats the day "
    "most alike of a hundred: with leaves of five and more it has 0.641. It is neither the columns "
    "(standardised 0.587, embedding 0.634) nor the warp (none 0.636)",
    "r-biochemists": "hardly anything can be predicted, and leave-one-out prefers the embedding; "
    "with standardised columns ours has 0.062",
    "r-doctor": "four fifths of the counts are zeros, and the rest spreads: the log density, by "
    "which ours chooses, is best with a noise for the zeros (variance 0.1), which is too little "
    "for the rest. With noise_var=0.6 given, ours has 0.247",
}


def read(results: Path) -> dict[tuple[str, int, str], dict]:
    """The last row of each set, fold and model: what was computed again stands further down."""
    lines = results.read_text().splitlines() if results.exists() else []
    return {(row["set"], row["fold"], row["model"]): row for row in map(json.loads, lines)}


class Summary:
    """Means over the folds. Means over sets are of those for which every model at hand has the same
    folds.
    """

    def __init__(self, rows: Iterable[dict]) -> None:
        self.rows: dict[str, dict[str, list[dict]]] = {}
        for row in rows:
            self.rows.setdefault(row["set"], {}).setdefault(row["model"], []).append(row)

    def models(self, task: str, key: str = "fit_seconds") -> list[str]:
        """Those that have the measure."""
        names = self.sets("all", task)
        return [
            model
            for model in MODELS
            if any(key in row for name in names for row in self.rows[name].get(model, []))
        ]

    def sets(self, group: str, task: str) -> list[str]:
        return [name for name in GROUPS[group] if name in self.rows and task_of(name) == task]

    def complete(self, group: str, task: str, key: str = "fit_seconds") -> list[str]:
        """The sets that count in means: those of every model at hand, on the same folds."""
        models = self.models(task, key)

        def counts(name: str) -> bool:
            folds = [
                {row["fold"] for row in self.rows[name].get(model, []) if key in row}
                for model in models
            ]
            large = self.fact(name, "n") + self.fact(name, "n_test") >= FEWEST_ROWS
            return large and name not in TWINS and all(part == folds[0] for part in folds)

        return [name for name in self.sets(group, task) if counts(name)]

    def fact(self, name: str, key: str) -> Any:
        return next(rows[0][key] for rows in self.rows[name].values())

    def values(self, name: str, model: str, key: str) -> list[float]:
        rows = sorted(self.rows[name].get(model, []), key=lambda row: row["fold"])
        return [row[key] for row in rows if key in row]

    def mean(self, name: str, model: str, key: str) -> float:
        values = self.values(name, model, key)
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
    words = (
        "set",
        "group",
        "model",
        "pair",
        "peers ahead",
        "why",
        "measure",
        "source",
        "mean ranks",
    )
    rules = ["---" if title in words else "---:" for title in header]
    return ["| " + " | ".join(line) + " |" for line in (header, rules, *lines)] + [""]


def set_table(summary: Summary, task: str, key: str, title: str, form: str) -> list[str]:
    """One measure of every model on every set; the best is bold, if there is such a thing."""
    models, best = summary.models(task, key), {"accuracy": True, "r2": True, "rmse": False}
    best |= {"log_loss": False, "nlpd": False}
    facts = ["n", "d", "classes" if task == "classification" else "outputs"]
    lines = []
    for name in summary.sets("all", task):
        values = [summary.mean(name, model, key) for model in models]
        line = [name, "tune" if name in TUNE else "report"]
        line += [str(summary.fact(name, fact)) for fact in facts]
        line += (
            best_bold(values, form, best[key])
            if key in best
            else [number(value, form) for value in values]
        )
        lines.append(line)
    header = ["set", "group", *facts, *(TITLES[model] for model in models)]
    return [f"### {title}", "", *markdown(header, lines)] if lines else []


CLASSIFICATION_COLUMNS = {
    "accuracy": ("accuracy", ".4f"),
    "log_loss": ("log loss", ".4f"),
    "log_loss_sklearn": ("log loss, scikit-learn's clip", ".4f"),
    "ece": ("ECE", ".4f"),
}
REGRESSION_COLUMNS = {"r2": ("R²", ".4f"), "coverage": ("coverage", ".3f")}
RANKED = {
    # measure: (task, title, the sign that makes small best)
    "accuracy": ("classification", "accuracy", -1.0),
    "log_loss": ("classification", "log loss", 1.0),
    "rmse": ("regression", "RMSE", 1.0),
    "nlpd": ("regression", "NLPD", 1.0),
}


def rank(summary: Summary, group: str, key: str) -> Ranks | None:
    task, title, sign = RANKED[key]
    models, names = summary.models(task, key), summary.complete(group, task, key)
    if len(models) < 2 or not names:
        return None
    losses = np.array([sign * np.round(summary.table(names, model, key), TIE) for model in models])
    return ranked(title, [TITLES[model] for model in models], losses)


def group_table(summary: Summary, task: str) -> list[str]:
    columns = CLASSIFICATION_COLUMNS if task == "classification" else REGRESSION_COLUMNS
    order = [key for key, (of, _, _) in RANKED.items() if of == task]
    header = ["group", "model", "sets", *(title for title, _ in columns.values())]
    header += [f"mean rank, {RANKED[key][1]}" for key in order]
    header += ["fit s", "fit s, median", "predict s"]
    lines = []
    for group in ("report", "tune", "all"):
        names, found = summary.complete(group, task), {}
        for key in order:
            ranks = rank(summary, group, key)
            found[key] = dict(zip(ranks.models, ranks.mean, strict=True)) if ranks else {}
        for model in summary.models(task) if names else []:
            seconds = summary.table(names, model, "fit_seconds")
            line = [group, TITLES[model], str(len(names))]
            line += [
                number(summary.table(names, model, key).mean(), form)
                for key, (_, form) in columns.items()
            ]
            line += [number(found[key].get(TITLES[model], np.nan), ".2f") for key in order]
            line += [number(seconds.mean(), ".2f"), number(np.median(seconds), ".2f")]
            line.append(number(summary.table(names, model, "predict_seconds").mean(), ".3f"))
            lines.append(line)
    return [f"### {task.capitalize()}", "", *markdown(header, lines)] if lines else []


def wins(gain: np.ndarray) -> str:
    gain = gain[~np.isnan(gain)]
    if not len(gain):
        return "-"
    return f"{(gain > 0).sum()} / {(gain == 0).sum()} / {(gain < 0).sum()}"


def pair_table(summary: Summary, task: str) -> list[str]:
    keys = [(key, title, sign) for key, (of, title, sign) in RANKED.items() if of == task]
    main = "accuracy" if task == "classification" else "r2"
    header = ["group", "pair", *(f"{title}: wins / ties / losses" for _, title, _ in keys)]
    header.append(f"mean difference, {'accuracy' if main == 'accuracy' else 'R²'}")
    lines = []
    for group in ("report", "tune", "all"):
        names = summary.complete(group, task)
        for peer in summary.models(task):
            if not names or peer == OURS or OURS not in summary.models(task):
                continue
            line = [group, f"{TITLES[OURS]} against {TITLES[peer]}"]
            for key, _, sign in keys:
                gain = summary.table(names, peer, key) - summary.table(names, OURS, key)
                line.append(wins(np.round(sign * gain, TIE)))
            ahead = summary.table(names, OURS, main) - summary.table(names, peer, main)
            lines.append([*line, f"{ahead.mean():+.4f}"])
    return [f"### {task.capitalize()}", "", *markdown(header, lines)] if lines else []


def rank_part(summary: Summary, picture: Path) -> list[str]:
    parts = [
        found
        for key in RANKED
        if (found := rank(summary, "report", key)) and found.count >= FEWEST_SETS
    ]
    if not parts:
        return []
    draw(parts, picture)
    lines = [
        [
            part.title,
            str(part.count),
            number(part.p_value, ".1g"),
            f"{part.critical_difference:.2f}",
            *[", ".join(f"{model} {mean:.2f}" for mean, model in pairs(part))],
        ]
        for part in parts
    ]
    header = ["measure", "sets", "Friedman p", "critical difference", "mean ranks"]
    return [
        "## Ranks",
        "",
        "Of the sets of the group report (Demšar 2006): Friedman's test that all models are the",
        f"same, and Nemenyi's critical difference at {LEVEL:.0%}, by which two mean ranks must",
        "differ. A blue bar joins models that it does not tell apart.",
        "",
        f"![Mean ranks of the models, with critical differences]({picture.name})",
        "",
        *markdown(header, lines),
    ]


def pairs(part: Ranks) -> list[tuple[float, str]]:
    return sorted(zip(part.mean, part.models, strict=True))


def standard_error(summary: Summary, name: str, peer: str, key: str) -> float:
    """Of the mean difference from ours, from those of the folds."""
    gaps = np.subtract(summary.values(name, peer, key), summary.values(name, OURS, key))
    return float(gaps.std(ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else np.nan


def ahead_part(summary: Summary) -> list[str]:
    """Sets on which a peer is ahead by more than AHEAD, and why."""
    lines = []
    for task, key in (("classification", "accuracy"), ("regression", "r2")):
        peers = [model for model in summary.models(task, key) if model != OURS]
        for name in summary.sets("all", task):
            ours, folds = summary.mean(name, OURS, key), len(summary.values(name, OURS, key))
            means = {
                peer: summary.mean(name, peer, key)
                for peer in peers
                if len(summary.values(name, peer, key)) == folds
            }
            means = {peer: mean for peer, mean in means.items() if mean > ours + AHEAD}
            if not means:
                continue
            ahead = [
                f"{TITLES[peer]} {means[peer]:.4f} ({means[peer] - ours:+.3f} ± "
                f"{number(standard_error(summary, name, peer, key))})"
                for peer in sorted(means, key=means.__getitem__, reverse=True)
            ]
            line = [name, "tune" if name in TUNE else "report", str(summary.fact(name, "n"))]
            line += [number(ours, ".4f"), ", ".join(ahead), WHY.get(name, "not explained yet")]
            lines.append(line)
    header = ["set", "group", "n", TITLES[OURS], "peers ahead", "why"]
    return [
        f"## Where a peer is ahead by more than {AHEAD:g}",
        "",
        "In accuracy, or in R² of numbers. ±: the standard error of the folds' differences, which",
        "share training rows, so it is rather too small. What stands under why was tried:",
        "`python benchmarks/tabular_why.py`.",
        "",
        *(markdown(header, lines) if lines else ["Nowhere.", ""]),
    ]


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


def folds_used(folds: int | None) -> str:
    return (
        f"all ten of sets of up to {SMALL:,} rows, the first three of larger ones"
        if folds is None
        else f"the first {folds}"
    )


def run_line(model: str, rows: list[dict]) -> str:
    """What computed a model's rows, in which form, how long that took and what else ran then:
    seconds are of worth only where the load is about the number of jobs.
    """
    rows = [row for row in rows if row["model"] == model]
    codes = sorted({row["code"] for row in rows})
    forms = sorted({row.get("form", "matrix") for row in rows})
    spent = sum(row["fit_seconds"] + row["predict_seconds"] for row in rows)
    threads = sorted({row["blas_threads"] for row in rows if "blas_threads" in row})
    text = f"- {TITLES[model]} ({' and '.join(forms)}): {', '.join(codes)}; {spent:.0f} s "
    text += f"altogether, median load average {np.median([row['load'] for row in rows]):.1f}"
    return text + (f", BLAS threads: {', '.join(map(str, threads))}" if threads else "")


def introduction(rows: list[dict], folds: int | None) -> list[str]:
    models = [model for model in MODELS if any(row["model"] == model for row in rows)]
    packages = [f"{package} {version(package)}" for package in PACKAGES]
    return [
        "# Tabular sets",
        "",
        "Our estimators with their default arguments, and peers:",
        "",
        "- forest: a random forest of 500 trees, scikit-learn's defaults otherwise",
        "- SVM: an RBF support vector machine on standardised columns, tuned by "
        f"{INNER_FOLDS}-fold cross-validation over C = 0.1 … 1000",
        "  and γ = 2⁻⁷ … 2³ divided by d",
        "- HistGB: scikit-learn's HistGradientBoosting with its defaults: 100 rounds at a rate of "
        "0.1; they stop early from 10,000 rows",
        "  on, which no set here has",
        f"- LightGBM: leaves of {', '.join(map(str, LEAVES))} and fewest rows of 5 and 20 at a "
        f"rate of {RATE:g}, then the best of them at {SLOW_RATE:g}, by",
        f"  {INNER_FOLDS}-fold cross-validation of the log loss or squared error with early "
        "stopping, which also says how many rounds; each",
        f"  round sees {SUBSAMPLING['bagging_fraction']:.0%} of the rows, each tree "
        f"{SUBSAMPLING['feature_fraction']:.0%} of the columns",
        "- not here: TabPFN and its like, whose weights cannot be had without the network; "
        "CatBoost, whose package is 97 MB",
        "",
        "Forest and SVM see matrices: nominal columns one-hot, gaps filled, both from the training "
        "part. Boosting sees the table itself,",
        "with categories and gaps. Which of the two ours saw stands in brackets below.",
        "",
        f"- sets of classes: {len(KEEL)} from KEEL ({packages[0]}, raw columns, its own folds: "
        f"{folds_used(folds)}), and",
        "  scikit-learn's bundled ones in 3 folds. sklearn-iris, -wine, -breast_cancer and -digits "
        "are the same data as KEEL's iris, wine,",
        "  wdbc and (a third of) optdigits: they are listed, but count in no mean. australian and "
        "crx are the same applicants, coded",
        "  differently.",
        f"- sets of numbers: {len(NUMBERS)} from {' and '.join(packages[1:])} (R's sets), in ten "
        "random folds, of which as many as of KEEL's; and",
        f"  scikit-learn's. linnerud, with fewer than {FEWEST_ROWS} rows, counts in no mean.",
        f"- n: training rows, at most {MOST_ROWS:,} (a stratified draw), of numbers "
        f"{MOST_REGRESSION_ROWS:,}; d: columns of the matrix. Values are means",
        "  over folds, the best is bold. Choices in our models may look at the group tune only: "
        "every third set in the order of names.",
        f"- log loss: the true label's probability clipped at {CLIP:g} for everybody, because "
        "forests give zeros; the means also",
        "  with scikit-learn's own clip, 2⁻⁵². ECE: expected calibration error of the most "
        "probable label in each fold's test",
        f"  part, in {BINS} equal bins. The support vector machine has no probabilities.",
        "- NLPD: mean negative log predictive density, Gaussian; coverage: how much of the test "
        f"part lies in the central {INTERVAL:.0%} of it.",
        "  A forest's deviation is the spread of its trees, at least 1e-6 of the target's: where "
        "all trees say the same and are wrong",
        "  (r-doctor, most of whose counts are zeros) its NLPD has no bound. SVM and boosting say "
        "only a mean: their deviation is that of",
        f"  {INNER_FOLDS}-fold cross-validation in the training part, the same everywhere.",
        "- fit s: one fold's fit, for SVM and LightGBM with the whole search, without what only "
        "the deviation takes; each model has",
        "  run once before. Boosting runs in one thread, LightGBM's candidates side by side: "
        "threads that wait for each other's cores",
        "  took ten times as long.",
        "- means, ranks and pairs: over the sets on which all models shown have the same folds.",
        f"- machine: {machine()}, {CORES} jobs",
        f"- versions: Python {platform.python_version()}, NumPy {np.__version__}, SciPy "
        f"{version('scipy')}",
        *(run_line(model, rows) for model in models),
        f"- dates: {', '.join(sorted({row['date'] for row in rows}))}",
        f"- command: `python benchmarks/tabular.py{'' if folds is None else f' --folds {folds}'}`",
        "",
    ]


def sources() -> list[str]:
    lines = [
        [
            name,
            f"{source.package}, {source.table}",
            source.target,
            ", ".join(source.left_out) or "-",
        ]
        for name, source in NUMBERS.items()
    ]
    header = ["set", "source", "predicted", "left out: says it already, or names the row"]
    return ["### Where the sets of numbers are from", "", *markdown(header, lines)]


def write_report(results: Path, folds: int | None) -> Path:
    rows = list(read(results).values())
    count = {name: fold_count(name, folds) for name in {row["set"] for row in rows}}
    rows = [row for row in rows if row["fold"] < count[row["set"]]]
    summary = Summary(rows)
    report = introduction(rows, folds)
    report += ["## Means over the sets", ""]
    for task in TASKS:
        report += group_table(summary, task)
    report += rank_part(summary, results.with_name(f"{results.stem}-ranks.png"))
    report += ["## Pairs", ""]
    for task in TASKS:
        report += pair_table(summary, task)
    report += [*ahead_part(summary), "## Sets of classes", ""]
    for key, title, form in (
        ("accuracy", "Accuracy", ".4f"),
        ("log_loss", "Log loss", ".3f"),
        ("ece", "ECE", ".3f"),
        ("fit_seconds", "Seconds of a fit", ".2f"),
        ("predict_seconds", "Seconds of a prediction", ".3f"),
    ):
        report += set_table(summary, "classification", key, title, form)
    report += ["## Sets of numbers", ""]
    for key, title, form in (
        ("r2", "R²", ".3f"),
        ("rmse", "RMSE", ".4g"),
        ("nlpd", "NLPD", ".3f"),
        ("coverage", f"Coverage of {INTERVAL:.0%} intervals", ".3f"),
        ("fit_seconds", "Seconds of a fit", ".2f"),
        ("predict_seconds", "Seconds of a prediction", ".3f"),
    ):
        report += set_table(summary, "regression", key, title, form)
    report += sources()
    path = results.with_suffix(".md")
    path.write_text("\n".join(report).rstrip() + "\n")
    return path
