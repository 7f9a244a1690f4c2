"""Table 1, ours beside the paper's: as text, CSV, Markdown, LaTeX, or records for JSON.

*Ours* is the mean test accuracy of the selected hyperparameters, ± the standard deviation s over n
repeats. The paper gives means without a spread, so the standard error of a difference takes theirs
to be like ours: s √(1/n + 1/m), where m is 20 for the authors' rows and 1 for those of Lee et al.
(2018). With n = 1 there is no s, and the binomial standard error of the test images stands in for
it.

A dagger † marks accuracies with repeats that were computed less accurately than usual
(``Result.warning``), and a note says why. Noise that was raised as the paper does it is told in a
note alone.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mnngp import _validation
from mnngp.experiments.paper import Published, published, table1
from mnngp.experiments.selection import Candidate, Row, Setting, Spread, row_order

if TYPE_CHECKING:
    from rich.table import Table

NOTHING = "–"
MARK = "†"  # of accuracies that are less accurate than usual
AGREEMENT = 0.005  # of an accuracy; or three standard errors, where that is more
_DATASETS = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
_ACTIVATIONS = {
    "relu": "ReLU",
    "tanh": "Tanh",
    "erf": "Erf",
    "gelu": "GELU",
    "leaky_relu": "LeakyReLU",
    "abs": "Abs",
}


@dataclass(frozen=True)
class Line:
    """One line of the table: a row that was run, the paper's row for it, or both."""

    dataset: str
    n_train: int
    activation: str
    kind: str
    row: Row | None
    paper: Published | None

    @property
    def setting(self) -> Setting | None:
        """The selected hyperparameters."""
        return self.row.best.setting if self.row and self.row.best else None

    @property
    def ours(self) -> Spread | None:
        return self.row.best.test_accuracy if self.row and self.row.best else None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return self.ours.mean - self.paper.accuracy if self.ours and self.paper else None

    @property
    def standard_error(self) -> float | None:
        """Of the difference; None if it would be zero, which repeats without any spread say nothing
        about.
        """
        if self.ours is None or self.paper is None:
            return None
        return (
            self.ours.single * math.sqrt(1.0 / self.ours.repeats + 1.0 / self.paper.repeats) or None
        )

    @property
    def in_standard_errors(self) -> float | None:
        return (
            self.difference / self.standard_error
            if self.difference is not None and self.standard_error
            else None
        )

    @property
    def agrees(self) -> bool | None:
        """Whether the difference is at most 0.005, or three standard errors where that is more."""
        if self.difference is None:
            return None
        return abs(self.difference) <= max(AGREEMENT, 3.0 * (self.standard_error or 0.0))

    @property
    def network(self) -> str:
        """In words: "maxout", "maxout, rank 3", "ReLU, tangent kernel", "maxout, width 500"."""
        return row_name(self.row) if self.row else network_name(self.activation, self.kind)

    @property
    def model(self) -> str | None:
        return None if self.setting is None else model_name(self.setting)


def dataset_name(name: str) -> str:
    """As it is written."""
    return _DATASETS.get(name, name)


def network_name(
    activation: str, kind: str = "nngp", width: int | None = None, rank: int | None = None
) -> str:
    """As it is written in a sentence.

    >>> network_name("relu", "ntk"), network_name("maxout", "finite"), network_name("maxout", "finite", 500, 3)
    ('ReLU, tangent kernel', 'maxout, finite width', 'maxout, width 500, rank 3')
    """
    words = [
        {"tanh": "tanh", "erf": "erf", "abs": "abs"}.get(activation)
        or _ACTIVATIONS.get(activation, activation)
    ]
    if kind == "finite":
        words.append("finite width" if width is None else f"width {width}")
    if rank is not None:
        words.append(f"rank {rank}")
    return ", ".join([*words, "tangent kernel"] if kind == "ntk" else words)


def row_name(row: Row) -> str:
    """The network of a row."""
    return network_name(row.activation, row.kind, row.width, row.rank)


def model_name(setting: Setting) -> str:
    """As the paper writes it: q-depth-σ_b²-σ_w², or the activation in place of q;
    width-q-depth-σ_b-σ_w for finite networks.

    >>> model_name(Setting("mnist", 100, "maxout", "nngp", 4, 9, 1.1724, 3.4793))
    '4-9-1.17-3.48'
    >>> model_name(Setting("mnist", 100, "maxout", "finite", 3, 13, 0.1**2, 0.001**2, width=500))
    '500-3-13-0.1-0.001'
    """
    if setting.width is not None:
        deviations = (f"{math.sqrt(value):.4g}" for value in (setting.bias_var, setting.weight_var))
        return "-".join([str(setting.width), str(setting.rank), str(setting.depth), *deviations])
    first = (
        str(setting.rank)
        if setting.rank is not None
        else _ACTIVATIONS.get(setting.activation, setting.activation)
    )
    return f"{first}-{setting.depth}-{_two_decimals(setting.bias_var)}-{_two_decimals(setting.weight_var)}"


def _two_decimals(value: float) -> str:
    """As the paper has it, or two digits where that would be none, or many."""
    return f"{value:.2f}" if value == 0.0 or 0.01 <= abs(value) < 1000.0 else f"{value:.2g}"


def lines(rows: Iterable[Row], *, ranks: bool = False, missing: bool = False) -> list[Line]:
    """The lines of the table, in order; rows of several runs may be put together.

    Parameters
    ----------
    rows : iterable of Row
        What ``selection.rows`` returns.
    ranks : bool
        Also a row for each rank of maxout, and for each width; the paper has none.
    missing : bool
        Also the paper's rows that were not run, of the same sets of data: networks of finite width,
        other sizes. Left out by default, since a run is mostly one row or two of the paper's table.
    """
    rows = list(rows)
    found = []
    for row in rows:
        if row.partial and not ranks:
            continue
        theirs = None
        if row.kind != "ntk" and not row.partial:
            theirs = published(
                row.dataset, row.n_train, row.activation, finite=row.kind == "finite"
            )
        found.append(Line(row.dataset, row.n_train, row.activation, row.kind, row, theirs))
    if missing:
        shown = {line.paper for line in found}
        datasets = {row.dataset for row in rows}
        found += [
            Line(
                theirs.dataset,
                theirs.n_train,
                theirs.activation,
                "finite" if theirs.width else "nngp",
                None,
                theirs,
            )
            for theirs in table1()
            if theirs not in shown and theirs.dataset in datasets
        ]
        found.sort(
            key=lambda line: row_order(line.dataset, line.n_train, line.kind, line.activation)
        )
    return found


def render(lines: Sequence[Line], style: str = "text") -> str:
    """The table as a string: "text", "csv", "markdown" or "latex"."""
    styles: dict[str, Callable[[Sequence[Line]], str]] = {
        "text": as_text,
        "csv": as_csv,
        "markdown": as_markdown,
        "latex": as_latex,
    }
    return styles[_validation.one_of("format", style, tuple(styles))](lines)


# --- records: every number, unrounded -------------------------------------------------------------


def record(line: Line) -> dict[str, Any]:
    """A row as a flat dictionary of numbers and strings; what there is not is None."""
    best = line.row.best if line.row else None
    first = best.results[0] if best else None
    setting, ours = line.setting, line.ours
    return {
        "dataset": line.dataset,
        "n_train": line.n_train,
        "n_validation": first.n_validation if first else None,
        "n_test": first.n_test if first else None,
        "network": line.network,
        "activation": line.activation,
        "kind": line.kind,
        "width": setting.width if setting else None,
        "training": setting.training if setting else None,
        "model": line.model,
        "rank": setting.rank if setting else None,
        "depth": setting.depth if setting else None,
        "bias_var": setting.bias_var if setting and setting.width is None else None,
        "weight_var": setting.weight_var if setting and setting.width is None else None,
        "bias_std": math.sqrt(setting.bias_var) if setting and setting.width is not None else None,
        "weight_std": math.sqrt(setting.weight_var)
        if setting and setting.width is not None
        else None,
        "paper_model": line.paper.model if line.paper else None,
        "paper_accuracy": line.paper.accuracy if line.paper else None,
        "test_accuracy": ours.mean if ours else None,
        "standard_deviation": ours.deviation if ours else None,
        "standard_error": ours.standard_error if ours else None,
        "difference": line.difference,
        "difference_standard_error": line.standard_error,
        "difference_in_standard_errors": line.in_standard_errors,
        "agrees": line.agrees,
        "repeats": ours.repeats if ours else None,
        "validation_accuracy": best.validation_accuracy if best else None,
        "test_log_loss": best.test_log_loss if best else None,
        "noise_var": best.noise_var if best else None,
        "raised": best.raised if best else None,
        "warned": best.warned if best else None,
        "warning": "; ".join(best.warnings) if best and best.warned else None,
        "seconds": best.seconds if best else None,
        "seconds_all": line.row.seconds if line.row else None,
        "candidates": len(line.row.candidates) if line.row else None,
        "incomplete": line.row.incomplete if line.row else None,
        "inaccurate": line.row.inaccurate if line.row else None,
        "failed": line.row.failed if line.row else None,
        "diverged": line.row.diverged if line.row else None,
    }


def as_csv(lines: Sequence[Line]) -> str:
    """Every number, unrounded; empty where there is none."""
    file = io.StringIO()
    names = list(record(Line("", 0, "", "", None, None)))
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(record(line) for line in lines)
    return file.getvalue()


# --- for people -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column for people: its title, the same in LaTeX, and what it shows of a row."""

    title: str
    latex: str
    show: Callable[[Line], str]
    number: bool = True
    paper: bool = False  # only where there is something to compare with


COLUMNS = (
    Column("data", "data", lambda line: dataset_name(line.dataset), number=False),
    Column("n_t", "$n_t$", lambda line: f"{line.n_train:,}"),
    Column("network", "network", lambda line: line.network, number=False),
    Column(
        "model",
        r"$q$-depth-$\sigma_b^2$-$\sigma_w^2$",
        lambda line: line.model or NOTHING,
        number=False,
    ),
    Column(
        "paper's model",
        "paper's model",
        lambda line: line.paper.model if line.paper else NOTHING,
        number=False,
        paper=True,
    ),
    Column(
        "paper",
        "paper",
        lambda line: f"{line.paper.accuracy:.4f}" if line.paper else NOTHING,
        paper=True,
    ),
    Column("ours", "ours", lambda line: marked(line.row.best if line.row else None)),
    Column("difference", "difference", lambda line: signed(line.difference, 4), paper=True),
    Column("in s.e.", "in s.e.", lambda line: signed(line.in_standard_errors, 1), paper=True),
    Column("repeats", "repeats", lambda line: str(line.ours.repeats) if line.ours else NOTHING),
)


def spread(value: Spread | None) -> str:
    """Mean ± standard deviation.

    >>> spread(Spread.of([0.90, 0.92], 1000))
    '0.9100 ± 0.0141'
    """
    if value is None:
        return NOTHING
    return f"{value.mean:.4f}" + ("" if value.deviation is None else f" ± {value.deviation:.4f}")


def marked(candidate: Candidate | None) -> str:
    """The test accuracy of a candidate, with a mark before it where it is less accurate than
    usual.
    """
    text = spread(candidate.test_accuracy if candidate else None)
    return f"{MARK} {text}" if candidate and candidate.warned else text


def power(value: float | None) -> str:
    """A noise variance: 1e-7, not 1e-07."""
    return (
        NOTHING
        if value is None
        else f"{value:.1e}".replace(".0e", "e").replace("e-0", "e-").replace("e+0", "e+")
    )


def signed(value: float | None, digits: int) -> str:
    """With a sign, a true minus, and no minus before zero."""
    if value is None:
        return NOTHING
    text = f"{value:+.{digits}f}"
    return text.lstrip("+-") if float(text) == 0.0 else text.replace("-", "−")


def columns(lines: Sequence[Line]) -> tuple[Column, ...]:
    """Those with something to say: without a row of the paper, none to compare with it."""
    compared = any(line.paper for line in lines)
    return tuple(column for column in COLUMNS if compared or not column.paper)


def notes(lines: Sequence[Line]) -> list[str]:
    """What has to be said below the table: what the numbers mean, and what is not in them."""
    said = []
    if any(line.ours for line in lines):
        said.append(
            "ours: mean test accuracy at the hyperparameters with the highest mean "
            "validation accuracy"
        )
        if any(line.ours and line.ours.deviation is not None for line in lines):
            said[0] += ", ± standard deviation over the repeats"
        said.append("model: q-depth-σ_b²-σ_w², or the activation in place of the rank q")
        if any(line.kind == "finite" for line in lines):
            said[-1] += (
                "; width-q-depth-σ_b-σ_w, with standard deviations, for networks of finite width"
            )
    if any(line.in_standard_errors is not None for line in lines):
        said.append(
            "in s.e.: the difference over s √(1/n + 1/m), with s our standard deviation, n our "
            "repeats and m those of the paper's "
            "row (20, or 1 for ReLU and tanh, from Lee et al. 2018), whose spread is not known and "
            "taken to be like ours"
        )
        if any(line.ours and line.ours.deviation is None for line in lines):
            said.append(
                "one repeat shows no s: the binomial standard error of the test images "
                "stands in for it"
            )
    said += [f"{place(line)}: {text}" for line in lines if (text := selected_training(line))]
    for line in lines:
        if line.row is None:
            continue
        said += [f"{MARK} {place(line)}: {text}"] if (text := inaccuracy(line.row.best)) else []
        if not line.row.partial:
            said += [
                f"{place(line)}: {text}"
                for tell in (others_inaccurate, raised, pending)
                if (text := tell(line.row))
            ]
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
    """That candidates which were not selected are less accurate than usual, in words; empty if none
    is.
    """
    others = row.inaccurate - (row.best is not None and row.best.warned > 0)
    if not others:
        return ""
    return (
        f"{others:,} of the {len(row.candidates) - 1:,} other complete candidates less accurate "
        "than usual"
    )


def raised(row: Row) -> str:
    """That the selected candidate took more noise than was asked for, in words; empty if it did
    not, or has a mark.
    """
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
    parts = [
        f"{count:,} {what}"
        for count, what in ((row.failed, "failed"), (row.diverged, "diverged"))
        if count
    ]
    parts += (
        [f"{row.incomplete:,} not yet with all {row.repeats} repeats"] if row.incomplete else []
    )
    return (
        f"of {row.total:,} {'candidate' if row.total == 1 else 'candidates'} "
        f"{' and '.join(parts)}, left out"
        if parts
        else ""
    )


def as_rich(lines: Sequence[Line]) -> Table:
    """A table for the terminal; nothing in it is cut off or wrapped, so it needs its width."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    shown = columns(lines)
    for column in shown:
        table.add_column(column.title, justify="right" if column.number else "left", no_wrap=True)
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        end = following is not None and (line.dataset, line.n_train) != (
            following.dataset,
            following.n_train,
        )
        cells = (Text(_one_line(column.show(line))) for column in shown)
        table.add_row(*cells, style="bold" if line.agrees is False else "", end_section=end)
    return table


def as_text(lines: Sequence[Line], width: int | None = None) -> str:
    """The table and what it means, without colours; where ``width`` is too little for it, a few
    lines for each row.
    """
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
        count = (
            f"   {line.ours.repeats} {'repeat' if line.ours.repeats == 1 else 'repeats'}"
            if line.ours
            else ""
        )
        text.append(f"  ours   {ours:{width}}   {marked(line.row.best)}{count}")
    if line.paper:
        text.append(f"  paper  {theirs:{width}}   {line.paper.accuracy:.4f}")
    if line.difference is not None:
        errors = (
            ""
            if line.in_standard_errors is None
            else f", {signed(line.in_standard_errors, 1)} s.e."
        )
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
    text.append(
        rf"\begin{{tabular}}{{{''.join('r' if column.number else 'l' for column in shown)}}}"
    )
    text += [r"\toprule", " & ".join(column.latex for column in shown) + r" \\", r"\midrule"]
    for i, line in enumerate(lines):
        if i and (line.dataset, line.n_train) != (lines[i - 1].dataset, lines[i - 1].n_train):
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


_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    MARK: r"$^\dagger$",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in _one_line(text))
