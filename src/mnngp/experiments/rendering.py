"""The table for people: as text, CSV, Markdown or LaTeX.

A dagger † marks accuracies with repeats that were computed less accurately than usual
(``Result.warning``), and a note says why. Noise that was raised as the paper does it is told in a
note alone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mnngp import _validation
from mnngp.experiments.comparison import Line, dataset_name, record
from mnngp.experiments.selection import Candidate, Row, Spread

if TYPE_CHECKING:
    from rich.table import Table

NOTHING = "–"
MARK = "†"  # of accuracies that are less accurate than usual


def render(lines: Sequence[Line], style: str = "text") -> str:
    """The table as a string: "text", "csv", "markdown" or "latex"."""
    styles = {"text": as_text, "csv": as_csv, "markdown": as_markdown, "latex": as_latex}
    return styles[_validation.one_of("format", style, tuple(styles))](lines)


# --- numbers --------------------------------------------------------------------------------------


def spread(value: Spread | None) -> str:
    """Mean ± standard deviation.

    >>> spread(Spread.of([0.90, 0.92], 1000))
    '0.9100 ± 0.0141'
    """
    if value is None:
        return NOTHING
    return f"{value.mean:.4f}" + ("" if value.deviation is None else f" ± {value.deviation:.4f}")


def marked(candidate: Candidate | None) -> str:
    """The test accuracy of a candidate, with a mark if it is less accurate than usual."""
    text = spread(candidate.test_accuracy if candidate else None)
    return f"{MARK} {text}" if candidate and candidate.warned else text


def power(value: float | None) -> str:
    """A noise variance: 1e-7, not 1e-07."""
    if value is None:
        return NOTHING
    return f"{value:.1e}".replace(".0e", "e").replace("e-0", "e-").replace("e+0", "e+")


def signed(value: float | None, digits: int) -> str:
    """With a sign, a true minus, and no minus before zero."""
    if value is None:
        return NOTHING
    text = f"{value:+.{digits}f}"
    return text.lstrip("+-") if float(text) == 0.0 else text.replace("-", "−")


# --- columns --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column: its title, the same in LaTeX, and what it shows of a row."""

    title: str
    show: Callable[[Line], str]
    latex: str = ""  # as the title
    number: bool = True
    paper: bool = False  # only where there is something to compare with


_MODEL = r"$q$-depth-$\sigma_b^2$-$\sigma_w^2$"
COLUMNS = (
    Column("data", lambda of: dataset_name(of.dataset), number=False),
    Column("n_t", lambda of: f"{of.n_train:,}", "$n_t$"),
    Column("network", lambda of: of.network, number=False),
    Column("model", lambda of: of.model or NOTHING, _MODEL, number=False),
    Column("paper's model", lambda of: of.paper.model if of.paper else NOTHING, "", False, True),
    Column("paper", lambda of: f"{of.paper.accuracy:.4f}" if of.paper else NOTHING, paper=True),
    Column("ours", lambda of: marked(of.row.best if of.row else None)),
    Column("difference", lambda of: signed(of.difference, 4), paper=True),
    Column("in s.e.", lambda of: signed(of.in_standard_errors, 1), paper=True),
    Column("repeats", lambda of: str(of.ours.repeats) if of.ours else NOTHING),
)


def columns(lines: Sequence[Line]) -> tuple[Column, ...]:
    """Those with something to say: without a row of the paper, none to compare with it."""
    compared = any(line.paper for line in lines)
    return tuple(column for column in COLUMNS if compared or not column.paper)


# --- notes ----------------------------------------------------------------------------------------


def notes(lines: Sequence[Line]) -> list[str]:
    """What has to be said below the table: what the numbers mean, and what is not in them."""
    said, spreads = [], [line.ours for line in lines if line.ours]
    if spreads:
        repeated = any(one.deviation is not None for one in spreads)
        said.append(
            "ours: mean test accuracy at the hyperparameters with the highest mean validation "
            "accuracy" + (", ± standard deviation over the repeats" if repeated else "")
        )
        finite = any(line.kind == "finite" for line in lines)
        said.append(
            "model: q-depth-σ_b²-σ_w², or the activation in place of the rank q"
            + ("; width-q-depth-σ_b-σ_w, with standard deviations, for networks of finite width")
            * finite
        )
    if any(line.in_standard_errors is not None for line in lines):
        said.append(
            "in s.e.: the difference over s √(1/n + 1/m), with s our standard deviation, n our "
            "repeats and m those of the paper's row (20, or 1 for ReLU and tanh, from Lee et al. "
            "2018), whose spread is not known and taken to be like ours"
        )
        if any(one.deviation is None for one in spreads):
            said.append(
                "one repeat shows no s: the binomial standard error of the test images "
                "stands in for it"
            )
    said += [f"{place(line)}: {text}" for line in lines if (text := selected_training(line))]
    for line in lines:
        if line.row is None:
            continue
        if text := inaccuracy(line.row.best):
            said.append(f"{MARK} {place(line)}: {text}")
        if not line.row.partial:
            texts = (tell(line.row) for tell in (others_inaccurate, raised, pending))
            said += [f"{place(line)}: {text}" for text in texts if text]
    return said


def place(line: Line) -> str:
    """Which row: "MNIST, 1,000, maxout"."""
    return f"{dataset_name(line.dataset)}, {line.n_train:,}, {line.network}"


def selected_training(line: Line) -> str:
    """How the selected network was trained, in words; empty if that was not selected."""
    if line.row is None or line.setting is None or line.setting.training is None:
        return ""
    several = {candidate.setting.training for candidate in line.row.candidates}
    return f"selected with {line.setting.training}" if len(several) > 1 else ""


def inaccuracy(candidate: Candidate | None) -> str:
    """Why a candidate is less accurate than usual, in words; empty if it is not."""
    if candidate is None or not candidate.warned:
        return ""
    reasons = candidate.warnings
    others = "" if len(reasons) == 1 else " (and others)"
    return (
        f"less accurate than usual{_repeats(candidate.warned, candidate)}: "
        f"{_one_line(reasons[0])}{others}"
    )


def others_inaccurate(row: Row) -> str:
    """That candidates which were not selected are inaccurate, in words; empty if none is."""
    others = row.inaccurate - (row.best is not None and row.best.warned > 0)
    others_of_all = f"{others:,} of the {len(row.candidates) - 1:,} other complete candidates"
    return f"{others_of_all} less accurate than usual" if others else ""


def raised(row: Row) -> str:
    """That the selected candidate took more noise than asked for; empty if not, or marked."""
    best = row.best
    if best is None or not best.raised or best.warned:
        return ""
    return (
        f"noise variance raised to {power(best.noise_var)}, for a matrix that can be "
        f"factored{_repeats(best.raised, best)}"
    )


def _repeats(count: int, candidate: Candidate) -> str:
    total = len(candidate.results)
    return f", in {count} of {total} repeats" if total > 1 else ""


def pending(row: Row) -> str:
    """What did not count, in words; empty if everything did."""
    counts = {
        "failed": row.failed,
        "diverged": row.diverged,
        f"not yet with all {row.repeats} repeats": row.incomplete,
    }
    parts = [f"{count:,} {what}" for what, count in counts.items() if count]
    candidates = "candidate" if row.total == 1 else "candidates"
    return f"of {row.total:,} {candidates} {' and '.join(parts)}, left out" if parts else ""


# --- styles ---------------------------------------------------------------------------------------


def as_csv(lines: Sequence[Line]) -> str:
    """Every number, unrounded; empty where there is none."""
    file = io.StringIO()
    names = list(record(Line("", 0, "", "", None, None)))
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(record(line) for line in lines)
    return file.getvalue()


def as_rich(lines: Sequence[Line]) -> Table:
    """A table for the terminal; nothing in it is cut off or wrapped, so it needs its width."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    shown = columns(lines)
    for column in shown:
        table.add_column(column.title, justify="right" if column.number else "left", no_wrap=True)
    for i, line in enumerate(lines):
        if _begins_a_section(lines, i):
            table.add_section()
        cells = (Text(_one_line(column.show(line))) for column in shown)
        table.add_row(*cells, style="bold" if line.agrees is False else "")
    return table


def _begins_a_section(lines: Sequence[Line], i: int) -> bool:
    """Whether the data or the size is another than in the line before."""
    here, before = lines[i], lines[i - 1]
    return i > 0 and (here.dataset, here.n_train) != (before.dataset, before.n_train)


def as_text(lines: Sequence[Line], width: int | None = None) -> str:
    """The table and what it means, without colours; where it is too wide, a few lines a row."""
    if not lines:
        return "No cell is finished yet.\n"
    from rich.console import Console

    file = io.StringIO()
    console = Console(
        file=file, width=10_000, no_color=True, highlight=False, markup=False, legacy_windows=False
    )
    table = as_rich(lines)
    needed = console.measure(table).maximum
    console.width = width or needed
    if needed <= console.width:
        console.print(table)
    else:
        file.write("\n" + "".join(map(_block, lines)))
    for note in notes(lines):
        console.print(note)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _block(line: Line) -> str:
    """A row for a narrow terminal."""
    ours, theirs = line.model or NOTHING, line.paper.model if line.paper else ""
    width = max(len(ours), len(theirs))
    text = [_one_line(place(line))]
    if line.row:
        repeats = line.ours.repeats if line.ours else 0
        count = f"   {repeats} {'repeat' if repeats == 1 else 'repeats'}" if repeats else ""
        text.append(f"  ours   {ours:{width}}   {marked(line.row.best)}{count}")
    if line.paper:
        text.append(f"  paper  {theirs:{width}}   {line.paper.accuracy:.4f}")
    if line.difference is not None:
        off = line.in_standard_errors
        errors = "" if off is None else f", {signed(off, 1)} s.e."
        text.append(f"  difference {signed(line.difference, 4)}{errors}")
    return "\n".join(text) + "\n\n"


def as_markdown(lines: Sequence[Line]) -> str:
    """A pipe table, with the notes as a list below it."""
    shown = columns(lines)
    text = [
        _pipes(_markdown(column.title) for column in shown),
        _pipes("---:" if column.number else "---" for column in shown),
    ]
    text += [_pipes(_markdown(column.show(line)) for column in shown) for line in lines]
    text += ["", *(f"- {_markdown(note)}" for note in notes(lines))]
    return "\n".join(text).rstrip() + "\n"


def as_latex(lines: Sequence[Line]) -> str:
    """A ``tabular`` in the manner of the package booktabs, with the notes as comments."""
    shown = columns(lines)
    text = [r"% needs \usepackage{booktabs}", *(f"% {_one_line(note)}" for note in notes(lines))]
    sides = "".join("r" if column.number else "l" for column in shown)
    head = " & ".join(column.latex or column.title for column in shown)
    text += [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", head + r" \\", r"\midrule"]
    for i, line in enumerate(lines):
        if _begins_a_section(lines, i):
            text.append(r"\addlinespace")
        text.append(" & ".join(_latex(column.show(line)) for column in shown) + r" \\")
    return "\n".join([*text, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown(text: str) -> str:
    """Nothing in it is mark-up."""
    return "".join(f"\\{c}" if c in r"\`*_[]<>|~" else c for c in _one_line(text))


_NAMED = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater"}
_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {c: rf"\text{name}{{}}" for c, name in _NAMED.items()}
    | {"±": r"$\pm$", "−": "$-$", "–": "--", MARK: r"$^\dagger$"}
)


def _latex(text: str) -> str:
    return _one_line(text).translate(_LATEX)
