"""A run in words: the sentences, tiles, lists and small tables of its report."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median_high
from typing import Any

from mnngp.experiments import comparison, rendering
from mnngp.experiments.comparison import Line, dataset_name, network_name
from mnngp.experiments.records import Result
from mnngp.experiments.rendering import NOTHING, power
from mnngp.experiments.selection import Row
from mnngp.experiments.toml_tables import leaves

_MOST = 40  # rows of a list that could be as long as the run


def summary(
    lines: Sequence[Line],
    results: Sequence[Result],
    about: Mapping[str, Any],
    repeats: int | None,
    asked: int | None,
) -> list[str]:
    """The run in a few sentences: its best row, how that compares, and what is still to come.

    ``repeats`` are looked at, of those that the protocol ``asked`` for.
    """
    finished = [line for line in lines if line.ours]
    remaining = about.get("open")
    said = []
    if not results:
        said.append("No cell is finished yet.")
    elif finished:
        said += _best_rows(finished)
    elif remaining == 0:
        said.append(
            "No combination of hyperparameters has all of its repeats done: they failed or "
            "diverged."
        )
    else:
        said.append(
            "No row of the table is complete yet: that takes all repeats of at least one "
            "combination of hyperparameters."
        )
    if remaining:
        said.append(
            f"The run is not finished: {remaining:,} of {about['cells']:,} cells are still to come."
        )
    if asked and repeats and repeats < asked:
        said.append(f"Only the first {repeats} of {asked} repeats are looked at here.")
    elif asked and not finished and remaining:
        counts = Counter(result.repeat for result in results)
        if whole := sum(count * asked == about["cells"] for count in counts.values()):
            said.append(
                f"Of {asked} repeats {whole} {'is' if whole == 1 else 'are'} complete: --repeats "
                f"{whole} looks at these alone."
            )
    if failed := sum(result.status == "failed" for result in results):
        said.append(f"{failed:,} {_plural(failed, 'cell')} failed; see below.")
    if inaccurate := sum(result.warning is not None for result in results):
        cells = "cell was" if inaccurate == 1 else "cells were"
        said.append(f"{inaccurate:,} {cells} computed less accurately than usual; see below.")
    if diverged := sum(result.status == "diverged" for result in results):
        they = "it is" if diverged == 1 else "they are"
        said.append(f"Of the networks of finite width {diverged:,} diverged: {they} left out.")
    return said


def _best_rows(lines: Sequence[Line]) -> list[str]:
    """The best row, its competitors on the same images, and how many rows the paper has alike."""
    best = max(lines, key=lambda line: line.ours.mean if line.ours else 0.0)
    said = [_best_row(best)]
    same = [line for line in lines if (line.dataset, line.n_train) == (best.dataset, best.n_train)]
    named = [
        f"{line.network} {line.ours.mean:.4f}" for line in same if line.ours and line is not best
    ]
    if named:
        listed = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
        said.append(f"On the same images and under the same protocol: {listed}.")
    compared = [line.agrees for line in lines if line.agrees is not None]
    if len(compared) > 1:
        agree = "agrees" if sum(compared) == 1 else "agree"
        said.append(
            f"Of {len(compared)} rows that the paper also has, {sum(compared)} {agree} with it, "
            f"to {comparison.AGREEMENT:g} or three standard errors."
        )
    return said


def _best_row(line: Line) -> str:
    best, ours, setting = line.row.best if line.row else None, line.ours, line.setting
    if best is None or ours is None or setting is None:
        return ""
    rank = "" if setting.rank is None else f" of rank {setting.rank}"
    kind = " (tangent kernel)" if line.kind == "ntk" else ""
    wide = "infinitely wide" if setting.width is None else f"{setting.width} units wide"
    spread = ""
    if ours.deviation is not None:
        spread = f" (± {100 * ours.deviation:.2f} over {ours.repeats} repeats)"
    text = (
        f"Learning from {line.n_train:,} images of {dataset_name(line.dataset)}, {wide} "
        f"{network_name(line.activation)} networks{rank} with {setting.depth} "
        f"{_plural(setting.depth, 'hidden layer')}{kind} classify {100 * ours.mean:.2f} % of "
        f"{best.results[0].n_test:,} test images correctly{spread}"
    )
    if line.paper is None or line.difference is None:
        return f"{text}."
    off = line.in_standard_errors
    errors = "" if off is None else f", {abs(off):.1f} standard errors away"
    return f"{text}. The paper has {100 * line.paper.accuracy:.2f} %{errors}."


def tiles(
    lines: Sequence[Line], results: Sequence[Result], about: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """A few numbers to see at a glance, each with what it is."""
    shown = []
    if accuracies := [line.ours.mean for line in lines if line.ours]:
        shown.append((f"{100 * max(accuracies):.2f} %", "best test accuracy of those selected"))
    done = sum(result.status == "done" for result in results)
    rest = f", {about['open']:,} to come" if about.get("open") else ""
    shown.append((f"{done:,}", f"{_plural(done, 'cell')} done{rest}"))
    if counted := sum(len(line.row.candidates) for line in lines if line.row):
        shown.append((f"{counted:,}", f"complete {_plural(counted, 'candidate')}"))
    seconds = sum(result.seconds or 0.0 for result in results)
    return [*shown, (duration(seconds), "computing, summed over cells")]


def detail(row: Row) -> dict[str, str]:
    """A row of the second table: what was selected, from how many, and what it took."""
    best, complete = row.best, len(row.candidates)
    return {
        "data": dataset_name(row.dataset),
        "n_t": f"{row.n_train:,}",
        "network": comparison.row_name(row),
        "selected": comparison.model_name(best.setting) if best else NOTHING,
        "validation": _number(best.validation_accuracy if best else None),
        "test": rendering.marked(best),
        "log loss": _number(best.test_log_loss if best else None),
        "largest noise": power(best.noise_var if best else None),
        "candidates": f"{complete:,}" + (f" of {row.total:,}" if row.total > complete else ""),
        "time": duration(row.seconds),
    }


def timing_rows(results: Sequence[Result]) -> list[dict[str, str]]:
    """Time by set of data and size."""
    seconds: dict[tuple[str, int], list[float]] = defaultdict(list)
    for result in results:
        if result.status == "done" and result.seconds is not None:
            seconds[result.dataset, result.n_train].append(result.seconds)
    return [
        {
            "data": dataset_name(dataset),
            "n_t": f"{size:,}",
            "cells": f"{len(times):,}",
            "median": duration(median_high(times)),
            "longest": duration(max(times)),
            "all": duration(sum(times)),
        }
        for (dataset, size), times in sorted(seconds.items())
    ]


def facts(results: Sequence[Result], about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Which program made the results, where, when and from which seeds."""
    said = []
    if about:
        said += [(name, _words(about[name])) for name in ("machine", "version", "commit")]
        counts = ", ".join(f"{about[name]:,} {name}" for name in ("done", "failed", "diverged"))
        said.append(("cells", f"{about['cells']:,}: {counts}, {about['open']:,} to come"))
        said.append(("begun", _to_the_minute(about["created"])))
    if results:
        times = [result.finished for result in results]
        first, last = _to_the_minute(min(times)), _to_the_minute(max(times))
        said.append(("cells finished", first if first == last else f"{first} to {last}"))
        seeds = ", ".join(map(str, sorted({result.seed for result in results})[:_MOST]))
        shuffled = "repeat r shuffles the training images with SeedSequence([seed, r])"
        said.append(("seed", f"{seeds}; {shuffled}"))
    programs = Counter(
        f"mnngp {result.version}" + (f", commit {result.commit}" if result.commit else "")
        for result in results
    )
    for name, count in programs.most_common(_MOST):
        said.append(("computed by", f"{name} ({count:,} {_plural(count, 'cell')})"))
    return said


def failures(results: Sequence[Result]) -> dict[str, Any]:
    """Failed cells by their error."""
    failed = [result for result in results if result.status != "done"]
    return _by_reason((result.error or "no error was recorded", result) for result in failed)


def inaccuracies(results: Sequence[Result]) -> dict[str, Any]:
    """Inaccurate cells by what they warned of first, but for the numbers in it."""
    first: dict[str, str] = {}
    cells = []
    for result in results:
        if result.warning is not None:
            reason = result.warning.partition("\n")[0]
            cells.append((first.setdefault(re.sub(r"\d[\d.e+-]*", "0", reason), reason), result))
    return _by_reason(cells)


def _by_reason(cells: Iterable[tuple[str, Result]]) -> dict[str, Any]:
    """Cells by their reason, the most frequent first."""
    by_reason: dict[str, list[Result]] = defaultdict(list)
    for reason, result in cells:
        by_reason[reason].append(result)
    ranked = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    rows = [
        {"count": len(found), "reason": reason, "cells": [_cell(cell) for cell in found[:5]]}
        for reason, found in ranked[:_MOST]
    ]
    return {"rows": rows, "more": max(0, len(ranked) - _MOST)}


def _cell(result: Result) -> str:
    network = network_name(result.activation, result.kind, result.width, result.rank)
    # Networks of finite width are given by standard deviations.
    square, exponent = ("²", 1.0) if result.width is None else ("", 0.5)
    bias, weight = result.bias_var**exponent, result.weight_var**exponent
    return (
        f"{dataset_name(result.dataset)}, {result.n_train:,} images, repeat {result.repeat}: "
        f"{network}, depth {result.depth}, σ_b{square} = {bias:.4g}, σ_w{square} = {weight:.4g}"
    )


def raised_noise(results: Sequence[Result]) -> list[dict[str, str]]:
    """Where the factorisation failed with the noise asked for, and how much it took."""
    cells: dict[tuple[str, int, str], list[Result]] = defaultdict(list)
    for result in results:
        if result.status == "done":
            name = network_name(result.activation, result.kind, result.width, result.rank)
            cells[dataset_name(result.dataset), result.n_train, name].append(result)
    rows = []
    for (dataset, size, name), members in cells.items():
        raised = [result for result in members if (result.attempts or 1) > 1]
        if not raised:
            continue
        depths = [result.depth for result in raised]
        low, high = min(depths), max(depths)
        rows.append(
            {
                "data": dataset,
                "n_t": f"{size:,}",
                "network": name,
                "depths": str(low) if low == high else f"{low} to {high}",
                "cells": f"{len(raised):,} of {len(members):,}",
                "largest noise": power(max(result.noise_var or 0.0 for result in raised)),
            }
        )
    return rows


def flat(value: Any, name: str = "") -> list[tuple[str, str]]:
    """Nested configuration as lines of a dotted name and a value; long lists are shortened."""
    return [(key, _words(item)) for key, item in leaves(value, name, lists=True)]


def _words(value: Any) -> str:
    if isinstance(value, list):
        shown = [_words(inner) for inner in value]
        if len(shown) > 10:
            shown = [*shown[:3], "…", f"{shown[-1]} ({len(shown)} values)"]
        return ", ".join(shown)
    if isinstance(value, float):
        return f"{value:.6g}"
    return NOTHING if value is None else str(value)


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4f}"


def _to_the_minute(text: str) -> str:
    try:
        return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M %Z").strip()
    except ValueError:
        return text


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(0.0123), duration(75.0), duration(4000.0)
    ('12 ms', '75 s', '67 min')
    """
    units = (("ms", 1e-3, 0.995), ("s", 1.0, 100.0), ("min", 60.0, 6e3), ("h", 3600.0, 3.6e5))
    for unit, size, limit in units:
        if seconds < limit:
            count = seconds / size
            return f"{count:.2g} {unit}" if count < 10.0 else f"{count:.0f} {unit}"
    return f"{seconds / 86400.0:.0f} days"


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
