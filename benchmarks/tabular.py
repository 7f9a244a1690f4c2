"""Our estimators, with no arguments, beside a 500-tree random forest, a tuned RBF support vector
machine, scikit-learn's boosting and a tuned LightGBM on tabular sets.

`python benchmarks/tabular.py` runs what is missing in the results file and writes the page next to
it. `make tabular` installs the packages that it needs. Each result is one line, written when it is
there, so an interrupted run goes on where it stopped; of two lines for the same the last counts.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tabular_models import MODELS, code_of
from tabular_report import read, write_report
from tabular_scores import score, warm_up
from tabular_sets import GROUPS, fold_count, folds_of, task_of

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Plan:
    """What is to be there after a run."""

    results: Path
    sets: list[str]
    models: list[str]
    again: list[str]
    folds: int | None

    def is_done(self, row: dict | None, code: str) -> bool:
        """Whether a row stands; what is to be computed again stands if it has been, so that such a
        run can be interrupted, too. Uncommitted code has no name by which to tell.
        """
        if row is None or row["model"] not in self.again:
            return row is not None
        same = row["code"] == code and row.get("form", "matrix") == MODELS[row["model"]].form
        return same and not code.endswith("-dirty)")


def run(plan: Plan, console: Console) -> bool:
    """Everything that the results file does not hold yet; false where something failed."""
    done, warm, whole = read(plan.results), set(), True
    codes = {model: code_of(model) for model in plan.models}
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    count = {name: fold_count(name, plan.folds) for name in plan.sets}
    open_jobs = {
        name: [
            (fold, model)
            for fold in range(count[name])
            for model in plan.models
            if not plan.is_done(done.get((name, fold, model)), codes[model])
        ]
        for name in plan.sets
    }
    columns = (
        TextColumn("{task.description:<32}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress, plan.results.open("a") as file:
        bar = progress.add_task("", total=sum(map(len, open_jobs.values())))
        for name, jobs in open_jobs.items():
            prepared, task = list(folds_of(name, count[name])) if jobs else [], task_of(name)
            for fold, model in jobs:
                progress.update(bar, description=f"{name} {fold} {model}")
                try:
                    form = MODELS[model].form
                    if (model, task) not in warm:
                        warm_up(model, task, form)
                        warm.add((model, task))
                    row = score(model, task, form, prepared[fold])
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
        "--again",
        nargs="+",
        choices=list(MODELS),
        default=[],
        metavar="MODEL",
        help="run only these, and compute anew what other code than today's, or the other form of "
        "table, has computed; the new lines supersede the old",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="forget the results of these models on these sets first",
    )
    parser.add_argument("--table", action="store_true", help="only write the page")
    arguments = parser.parse_args()
    results, console, whole = arguments.results, Console(), True
    plan = Plan(
        results,
        arguments.sets or GROUPS[arguments.group],
        arguments.again or arguments.models,
        arguments.again,
        arguments.folds,
    )
    results.parent.mkdir(parents=True, exist_ok=True)
    if not arguments.table:
        if arguments.fresh:
            kept = [
                row
                for row in read(results).values()
                if row["set"] not in plan.sets or row["model"] not in plan.models
            ]
            results.write_text("".join(json.dumps(row) + "\n" for row in kept))
        whole = run(plan, console)
    console.print(f"written: {write_report(results, arguments.folds)}")
    sys.exit(not whole)


if __name__ == "__main__":
    main()
