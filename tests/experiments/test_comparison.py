"""From results to rows, the paper's table, and ours beside it in every format."""

import csv
import io
import json
import math
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mnngp.errors import InputError
from mnngp.experiments import comparison, rendering, selection
from mnngp.experiments.comparison import published, table1
from mnngp.experiments.selection import Spread
from tests.made_up import failure, grid, result

SHARED = Path(__file__).parents[3] / "shared" / "paper" / "table1.csv"


def small(**changes):
    return list(
        grid(
            **{
                "ranks": (2, 4),
                "depths": (1, 5),
                "biases": (0.1, 1.0),
                "weights": (0.5, 1.0),
                "repeats": 3,
            }
            | changes
        )
    )


def only(results, **arguments):
    """The one row that is not of a single rank."""
    (row,) = (row for row in selection.rows(results, **arguments) if not row.partial)
    return row


# --- selection ------------------------------------------------------------------------------------


def test_selected_is_the_highest_mean_validation_accuracy():
    first = [
        result(depth=1, repeat=r, validation_accuracy=v, test_accuracy=0.99)
        for r, v in enumerate((0.99, 0.80, 0.80))
    ]
    second = [
        result(depth=5, repeat=r, validation_accuracy=0.90, test_accuracy=t)
        for r, t in enumerate((0.80, 0.90, 1.00))
    ]
    best = only(first + second).best
    assert best.setting.depth == 5  # neither the best repeat nor the test images decide
    assert best.validation_accuracy == pytest.approx(0.90, abs=1e-15)
    assert best.test_accuracy.mean == pytest.approx(0.90, abs=1e-15)


def test_ties_go_to_the_log_loss_and_then_to_the_order():
    cells = [result(depth=depth, weight_var=w) for depth in (9, 5) for w in (2.0, 1.0)]
    assert only(cells).best.setting[4:8] == (4, 5, 0.34, 1.0)
    assert only([*cells, result(depth=21, validation_log_loss=0.2)]).best.setting.depth == 21
    assert only([*cells, result(depth=21, validation_log_loss=None)]).best.setting.depth == 5
    assert only([*cells, result(depth=21, validation_accuracy=None)]).best.setting.depth == 5


def test_the_order_in_which_cells_were_finished_does_not_matter():
    results = small(activations=("maxout", "relu"), sizes=(100, 500))
    expected = rendering.as_csv(comparison.lines(selection.rows(results), ranks=True))
    for seed in range(5):
        random.Random(seed).shuffle(results)
        assert rendering.as_csv(comparison.lines(selection.rows(results), ranks=True)) == expected


def test_rows_of_maxout_are_over_all_ranks_and_of_each():
    rows = selection.rows(small(activations=("relu", "maxout", "tanh"), sizes=(500, 100)))
    assert [(row.n_train, row.activation, row.rank) for row in rows] == [
        (size, *network)
        for size in (100, 500)
        for network in (
            ("maxout", None),
            ("maxout", 2),
            ("maxout", 4),
            ("relu", None),
            ("tanh", None),
        )
    ]
    overall, *ranks = rows[:3]
    assert len(overall.candidates) == sum(len(row.candidates) for row in ranks) == 16
    assert overall.best == max(
        (row.best for row in ranks), key=lambda best: best.validation_accuracy
    )
    assert overall.seconds == pytest.approx(sum(row.seconds for row in ranks))
    assert overall.best.noise_var == 1e-10


def test_only_complete_candidates_count():
    results = small(ranks=(2,))
    worst = min(
        (row.candidates[-1] for row in selection.rows(results)),
        key=lambda candidate: candidate.validation_accuracy,
    )
    best = only(results).best
    incomplete = [one for one in results if one not in best.results[:1]]
    row = only(incomplete)
    assert (row.best.setting != best.setting, len(row.candidates), row.incomplete, row.failed) == (
        True,
        7,
        1,
        0,
    )
    again = failure(
        "no",
        **{
            name: getattr(best.results[0], name)
            for name in ("rank", "depth", "bias_var", "weight_var", "repeat")
        },
    )
    row = only([*incomplete, again])
    assert (len(row.candidates), row.incomplete, row.failed) == (7, 0, 1)
    assert row.best.setting not in (best.setting, worst.setting)
    nothing = only([failure("no")])
    assert nothing.best is None
    assert comparison.lines([nothing])[0].ours is None


def test_a_run_under_way_by_its_first_repeats():
    results = [one for one in small(repeats=4) if one.repeat < 3]
    assert only(results, repeats=4).best is None
    assert only(results, repeats=4).incomplete == 16
    row = only(results, repeats=2)
    assert (row.repeats, len(row.candidates), row.best.test_accuracy.repeats) == (2, 16, 2)
    with pytest.raises(InputError, match="repeats must be a positive integer"):
        selection.rows(results, repeats=0)


def test_results_of_two_runs_are_refused():
    with pytest.raises(InputError, match="must be of one run, but repeat 0 is twice there"):
        selection.rows([result(), result(test_accuracy=0.5)])


def test_spread():
    values = [0.91, 0.93, 0.94, 0.90]
    spread = Spread.of(values, 10_000)
    assert spread.mean == pytest.approx(np.mean(values), abs=1e-15)
    assert spread.deviation == pytest.approx(np.std(values, ddof=1), abs=1e-15)
    assert spread.standard_error == pytest.approx(np.std(values, ddof=1) / 2.0, abs=1e-15)
    one = Spread.of([0.9], 10_000)
    assert (one.deviation, one.standard_error) == (None, pytest.approx(0.003))
    assert Spread.of([1.0], 10).standard_error == 0.0


# --- the paper's table ----------------------------------------------------------------------------


def test_the_papers_table():
    rows = table1()
    assert len(rows) == 48
    assert {row.dataset for row in rows} == {"mnist", "cifar10"}
    assert published("cifar10", 45000, "maxout").accuracy == 0.5895
    assert published("mnist", 100, "tanh").repeats == 1
    finite = published("mnist", 100, "maxout", finite=True)
    assert (finite.width, finite.rank, finite.depth, finite.repeats) == (500, 3, 13, 20)
    assert published("digits", 100, "maxout") is None
    assert published("mnist", 100, "erf") is None
    for row in rows:  # what is printed, and the columns beside it
        first, depth, bias, weight = row.model.split("-")[-4:]
        assert (int(depth), float(bias), float(weight)) == (row.depth, row.bias, row.weight)
        assert first.lower() == (row.activation if row.family == "nngp" else str(row.rank))


@pytest.mark.skipif(not SHARED.exists(), reason="the original is not in this checkout")
def test_the_papers_table_is_a_copy():
    from importlib.resources import files

    assert files("mnngp.experiments").joinpath("table1.csv").read_bytes() == SHARED.read_bytes()


# --- ours beside it -------------------------------------------------------------------------------


def test_difference_in_standard_errors():
    accuracies = (0.930, 0.934, 0.938)
    row = only([result(repeat=r, test_accuracy=a) for r, a in enumerate(accuracies)])
    (line,) = comparison.lines([row])
    deviation = np.std(accuracies, ddof=1)
    assert line.difference == pytest.approx(-0.001, abs=1e-12)
    assert line.standard_error == pytest.approx(deviation * math.sqrt(1 / 3 + 1 / 20))
    assert line.in_standard_errors == pytest.approx(-0.001 / line.standard_error)
    relu = only([replace(one, activation="relu", rank=None) for one in row.best.results])
    # Lee et al.: one split
    assert comparison.lines([relu])[0].standard_error == pytest.approx(
        deviation * math.sqrt(1 / 3 + 1)
    )
    single = comparison.lines([only([result(test_accuracy=0.9)])])[0]
    assert single.standard_error == pytest.approx(0.003 * math.sqrt(1 + 1 / 20))
    # no spread at all
    assert (
        comparison.lines([only([result(repeat=r) for r in range(3)])])[0].in_standard_errors is None
    )


@pytest.mark.parametrize(("accuracy", "agrees"), [(0.9399, True), (0.9301, True), (0.9449, False)])
def test_agreement_is_five_thousandths_or_three_standard_errors(accuracy, agrees):
    (line,) = comparison.lines([only([result(test_accuracy=accuracy)])])
    assert line.agrees is agrees  # one repeat: a standard error of 0.0024
    (line,) = comparison.lines(
        [only([result(repeat=r, test_accuracy=accuracy + d) for r, d in enumerate((-0.02, 0.02))])]
    )
    assert line.agrees is True


def test_the_tangent_kernel_and_other_data_have_no_row_in_the_paper():
    rows = selection.rows(
        [result(kind="ntk"), result(activation="gelu", rank=None), result(dataset="digits")]
    )
    lines = comparison.lines(rows)
    assert [line.network for line in lines] == ["maxout", "GELU", "maxout, tangent kernel"]
    assert all(line.paper is None for line in lines)
    assert "paper" not in rendering.as_text(lines)
    assert "in s.e." not in rendering.as_markdown(lines)


def test_the_papers_rows_that_were_not_run():
    rows = selection.rows(small(sizes=(500,), activations=("maxout", "relu")))
    assert len(comparison.lines(rows)) == 2
    lines = comparison.lines(rows, missing=True)
    assert len(lines) == 24
    assert [line.network for line in lines if line.n_train == 500] == [
        "maxout",
        "ReLU",
        "tanh",
        "maxout, finite width",
    ]
    assert sum(line.ours is not None for line in lines) == 2
    assert len(comparison.lines(rows, ranks=True)) == 4


def test_csv_holds_every_number():
    lines = comparison.lines(selection.rows(small(activations=("maxout", "relu"))), ranks=True)
    read = list(csv.DictReader(io.StringIO(rendering.as_csv(lines))))
    assert len(read) == len(lines) == 4
    for line, row in zip(lines, read, strict=True):
        assert float(row["test_accuracy"]) == line.ours.mean
        assert float(row["bias_var"]) == line.setting.bias_var
        assert (row["rank"] == "") == (line.activation == "relu")
    assert read[0]["paper_model"] == "4-5-0.34-4.83"
    assert float(read[0]["difference_in_standard_errors"]) == lines[0].in_standard_errors
    assert read[1]["network"] == "maxout, rank 2"
    assert read[1]["difference"] == ""
    assert len(rendering.as_csv([]).splitlines()) == 1
    assert json.loads(json.dumps(comparison.record(lines[0]), allow_nan=False))["repeats"] == 3


@pytest.mark.parametrize("width", [None, 60, 80, 100, 140, 200])
def test_text_never_loses_a_digit(width):
    lines = comparison.lines(
        selection.rows(small(sizes=(100, 50000), activations=("maxout", "relu"))), missing=True
    )
    text = rendering.as_text(lines, width)
    assert "…" not in text
    for line in lines:
        assert line.paper.model in text
        assert line.ours is None or rendering.spread(line.ours) in text
    assert max(map(len, text.splitlines())) <= (width or 200)


def test_text_without_results():
    assert rendering.as_text([]) == "No cell is finished yet.\n"
    text = rendering.as_text(
        comparison.lines(selection.rows([failure("no"), result(depth=9)], repeats=2))
    )
    assert (
        "MNIST, 1,000, maxout: of 2 candidates 1 failed and 1 not yet with all 2 repeats, left out"
        in text
    )
    assert "one repeat shows no s" in rendering.as_text(
        comparison.lines(selection.rows([result()]))
    )


def inaccurate(**changes):
    """Three repeats of two networks, of which the selected one has two repeats that are less
    accurate than usual.
    """
    series = "the series ends early & more"
    cells = [result(repeat=r, warning=series if r else None, **changes) for r in range(3)]
    return [
        *cells,
        *(
            result(repeat=r, depth=9, validation_accuracy=0.9, warning="constant", **changes)
            for r in range(3)
        ),
    ]


@pytest.mark.parametrize("width", [None, 60])
def test_accuracies_that_are_less_accurate_than_usual_are_marked(width):
    lines = comparison.lines(selection.rows([*inaccurate(activation="tanh", rank=None), *small()]))
    text = " ".join(rendering.as_text(lines, width).split())
    assert "† 0.9350 ± 0.0000" in text
    assert text.count("†") == 2  # the number and its note
    assert (
        "† MNIST, 1,000, tanh: less accurate than usual, in 2 of 3 repeats: the series ends early "
        "& more MNIST" in text
    )
    assert (
        "MNIST, 1,000, tanh: 1 of the 1 other complete candidates less accurate than usual" in text
    )
    assert "MNIST, 1,000, maxout: " not in text


def test_marks_in_every_format():
    (line,) = comparison.lines(selection.rows(inaccurate()))
    assert "| † 0.9350 ± 0.0000 |" in rendering.as_markdown([line])
    assert r"& $^\dagger$ 0.9350 $\pm$ 0.0000 &" in rendering.as_latex([line])
    (row,) = csv.DictReader(io.StringIO(rendering.as_csv([line])))
    assert (row["warning"], row["warned"], row["inaccurate"], row["candidates"]) == (
        "the series ends early & more",
        "2",
        "2",
        "2",
    )
    assert float(row["test_accuracy"]) == pytest.approx(0.935)
    (plain,) = comparison.lines(selection.rows([result()]))
    assert [
        comparison.record(plain)[name] for name in ("warning", "warned", "inaccurate", "raised")
    ] == [None, 0, 0, 0]
    assert "†" not in rendering.as_text([plain])


def test_a_rank_of_its_own_has_its_own_mark():
    rows = selection.rows(
        [*inaccurate(rank=3), *(replace(one, rank=2, warning=None) for one in inaccurate())]
    )
    marked = {row.rank: rendering.marked(row.best).startswith("†") for row in rows}
    assert marked == {None: False, 2: False, 3: True}
    assert (
        sum(
            note.startswith("† MNIST, 1,000, maxout, rank 3: ")
            for note in rendering.notes(comparison.lines(rows, ranks=True))
        )
        == 1
    )


def test_noise_that_was_raised_is_told_without_a_mark():
    cells = [result(repeat=r, attempts=1 + r, noise_var=10.0 ** (r - 10)) for r in range(3)]
    (line,) = comparison.lines(selection.rows(cells))
    text = rendering.as_text([line])
    assert (
        "MNIST, 1,000, maxout: noise variance raised to 1e-8, for a matrix that can be factored, "
        "in 2 of 3 repeats" in text
    )
    assert "†" not in text
    assert (comparison.record(line)["raised"], comparison.record(line)["noise_var"]) == (2, 1e-8)


def test_markdown():
    lines = comparison.lines(selection.rows([result(dataset="a|b*<c>\n_d")]))
    head, rule, row, *_ = rendering.as_markdown(lines).splitlines()
    assert row.startswith(r"| a\|b\*\<c\> \_d | 1,000 | maxout | 4-5-0.34-4.83 | 0.9350 |")
    assert len({len(re.split(r"(?<!\\)\|", text)) for text in (head, rule, row)}) == 1


def test_latex():
    lines = comparison.lines(
        selection.rows(
            [
                *small(sizes=(100, 500)),
                result(
                    dataset=r"50% & "
                    r"\emph{x}_1 #$~^"
                ),
            ]
        )
    )
    text = rendering.as_latex(lines)
    assert r"50\% \& \textbackslash{}emph\{x\}\_1 \#\$\textasciitilde{}\textasciicircum{} &" in text
    assert all(
        text.count(command) == 1
        for command in (
            r"\toprule",
            r"\midrule",
            r"\bottomrule",
            r"\begin{tabular}",
            r"\end{tabular}",
        )
    )
    assert text.count(r"\addlinespace") == 2
    assert {
        len(re.split(r"(?<!\\)&", row)) for row in text.splitlines() if row.endswith(r"\\")
    } == {10}
    assert r"$\pm$" in text
    assert "−" not in re.sub("(?m)^%.*", "", text)
    assert (
        len(
            re.findall(
                "(?m)^%",
                rendering.as_latex(comparison.lines(selection.rows([failure("", dataset="a\nb")]))),
            )
        )
        == 2
    )


def test_formats():
    with pytest.raises(
        InputError, match="format must be one of 'text', 'csv', 'markdown', 'latex', got 'word'"
    ):
        rendering.render([], "word")
    lines = comparison.lines(selection.rows([result()]))
    assert rendering.render(lines) == rendering.as_text(lines)
    assert rendering.render(lines, "latex") == rendering.as_latex(lines)


def test_signs():
    assert [rendering.signed(value, 1) for value in (0.04, -0.04, 1.25, -3.0, None)] == [
        "0.0",
        "0.0",
        "+1.2",
        "−3.0",
        "–",
    ]
