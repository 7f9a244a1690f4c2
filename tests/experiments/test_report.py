"""The report of a run, as a page."""

import base64
import hashlib
import html
import re
import sys
import time
from dataclasses import replace

import pytest

from mnngp.errors import InputError, MissingExtraError
from mnngp.experiments import report
from tests.experiments.pages import EVIL, drawings, evil_results, small
from tests.made_up import failure, grid, result, stored

LARGEST = 6_000_000


def without_scripts(page):
    return re.sub("(?s)<script.*?</script>", "", page)


def test_the_page_is_complete_and_alone(tmp_path):
    with stored(
        tmp_path / "run.sqlite",
        small(sizes=(100, 500), activations=("maxout", "relu")),
        title="A small grid",
    ) as store:
        path = report.write(store, tmp_path / "report.html")
    page = path.read_text()
    assert page.startswith("<!doctype html>")
    text = html.unescape(re.sub("<[^>]*>", "", without_scripts(page)))
    expected = [
        "A small grid",
        "Table 1, beside the paper",
        "4-5-0.07-4.83",
        "Figure 1",
        "Figure 2",
        "Figure 3",
    ]
    for part in (
        *expected,
        "data.repeats",
        "family[0].depth",
        "SeedSequence",
        "to come",
        "Python 3",
    ):
        assert part in text, part
    assert set(drawings(page)) == {"moments", "accuracy-0", "heat-maps", "timings"}
    assert len(drawings(page)["heat-maps"]) == 4
    assert not re.search(
        r"""(?:src|href)\s*=\s*["']?+(?!data:|#)|url\(|@import""", without_scripts(page)
    )
    assert page.count("plotly.js v") == 1


def test_the_policy_allows_the_scripts_of_the_page_and_no_others():
    page = report.render([result()])
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    scripts = re.findall("(?s)<script>(.*?)</script>", page)
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert len(hashes) == 2
    assert re.search("script-src ([^;]*);", policy)[1] == " ".join(
        f"'sha256-{value}'" for value in hashes
    )
    assert policy.startswith("default-src 'none';")


def test_names_are_escaped(tmp_path):
    page = report.render(
        evil_results(),
        title=EVIL,
        sections=[report.Section(EVIL, EVIL, (EVIL,), ((EVIL,),), b"", EVIL)],
    )
    assert "49" not in re.search("<h1>(.*)</h1>", page)[1]
    for opening in ("<script>window", "<img src", "<!--"):
        assert opening not in page.replace("<!doctype", "")
    assert page.count("</script>") == 3
    assert drawings(page)["accuracy-0"][0][0] == EVIL
    with stored(tmp_path / "run.sqlite", small(ranks=(2,)), title=EVIL) as store:
        assert html.escape(EVIL, quote=False).replace('"', "&#34;").replace(
            "'", "&#39;"
        ) in report.render(store)


def test_summary_in_words():
    results = small(sizes=(1000,), activations=("maxout", "relu"))
    (best, other, *_) = report.contents(results)["summary"]
    assert re.match(
        r"Learning from 1,000 images of MNIST, infinitely wide \w+ networks( of rank \d)? with \d "
        r"hidden layers? classify "
        r"\d\d\.\d\d % of 10,000 test images correctly \(± \d\.\d\d over 2 repeats\)\. "
        r"The paper has \d\d\.\d\d %, \d+\.\d standard errors away\.$",
        best,
    )
    assert other.startswith("On the same images and under the same protocol: ")
    tangent = report.contents([result(kind="ntk", depth=1)])["summary"]
    assert tangent == [
        "Learning from 1,000 images of MNIST, infinitely wide maxout networks of rank 4 with 1 "
        "hidden layer (tangent kernel) "
        "classify 93.50 % of 10,000 test images correctly."
    ]


def test_a_run_under_way(tmp_path):
    results = [one for one in small(repeats=3) if one.repeat == 0]
    with stored(tmp_path / "run.sqlite", results, repeats=3) as store:
        summary = report.contents(store)["summary"]
        assert summary[0].startswith("No row of the table is complete yet")
        assert summary[1:] == [
            "The run is not finished: 72 of 108 cells are still to come.",
            "Of 3 repeats 1 is complete: --repeats 1 looks at these alone.",
        ]
        assert (
            report.contents(store, repeats=1)["summary"][-1]
            == "Only the first 1 of 3 repeats are looked at here."
        )
        assert len(report.contents(store, repeats=1)["selected"]) == 4
        with pytest.raises(
            InputError, match="repeats must be at most 3, as many as the run has, got 4"
        ):
            report.render(store, repeats=4)


def test_failed_cells_and_raised_noise_are_told():
    contents = report.contents(
        [
            *small(),
            *(failure("singular", depth=99, weight_var=float(w)) for w in range(1, 8)),
            failure("other", depth=98),
        ]
    )
    assert [
        (row["count"], row["reason"], len(row["cells"])) for row in contents["failures"]["rows"]
    ] == [
        (7, "singular", 5),
        (1, "other", 1),
    ]
    assert "8 cells failed; see below." in contents["summary"]
    assert contents["noise"] == []
    (noise,) = report.contents([result(), result(depth=9, attempts=3, noise_var=1e-8)])["noise"]
    assert (noise["cells"], noise["depths"], noise["largest noise"]) == ("1 of 2", "9", "1e-8")


def test_cells_that_are_less_accurate_than_usual_are_told(tmp_path):
    odd = {one: f"off by {one.weight_var:.0e} <or so>\nand more" for one in small(ranks=(4,))}
    results = [replace(one, warning=odd.get(one)) for one in [*odd, *small(ranks=(3,))]]
    results = [
        replace(one, validation_accuracy=0.99) if (one.rank, one.depth) == (4, 5) else one
        for one in results
    ]
    with stored(tmp_path / "run.sqlite", results) as store:
        contents, page = report.contents(store), report.render(store)
    assert "24 cells were computed less accurately than usual; see below." in contents["summary"]
    (told,) = contents["inaccuracies"]["rows"]
    assert (told["count"], told["reason"], len(told["cells"])) == (24, "off by 5e-01 <or so>", 5)
    # all ranks, 3 and 4
    assert [row["test"].startswith("† 0.") for row in contents["selected"]] == [True, False, True]
    text = html.unescape(re.sub("<[^>]*>", "", without_scripts(page)))
    assert re.search(
        r"† MNIST, 1,000, maxout: less accurate than usual, in 2 of 2 repeats: off by \de.0\d <or "
        r"so> \(and others\)",
        text,
    )
    assert re.search("† 0[.][0-9]{4} ± 0[.][0-9]{4}", text)
    maps = [
        trace for trace in drawings(page)["heat-maps"][0][1]["data"] if trace["type"] == "heatmap"
    ]
    hover = {
        trace["name"]: {
            "less accurate than usual" in cell[2] for row in trace["customdata"] for cell in row
        }
        for trace in maps
    }
    assert hover == {
        f"q = {rank}, depth {depth}": {rank == 4} for rank in (3, 4) for depth in (1, 5)
    }
    assert "Nothing was recorded." in report.render([result()])


@pytest.mark.parametrize(
    "results",
    [[], [failure("no")], [result()], [result(test_accuracy=0.0), result(depth=9, seconds=None)]],
)
def test_a_page_of_almost_nothing(results):
    page = report.render(results)
    assert set(drawings(page)) >= {"moments"}
    assert not re.search(r"\bNone\b(?!\.|: the noise)|\bnan\b", without_scripts(page))
    if not results:
        assert "No cell is finished yet." in page


def test_the_largest_run(tmp_path):
    """The paper's grid, 20 repeats, and then all of its sizes with three activations: time and size
    stay in bounds.
    """
    start = time.perf_counter()
    page = report.render(list(grid(repeats=20)))
    assert time.perf_counter() - start < 30.0  # 1.6 s on a quiet machine
    assert len(page.encode()) < LARGEST
    sizes = (100, 500, 1000, 5000, 10000, 50000)
    page = report.render(list(grid(sizes=sizes, activations=("maxout", "relu", "tanh"))))
    assert len(page.encode()) < LARGEST


def test_sections_of_ones_own():
    picture = b"\x89PNG not really"
    page = report.render(
        [result()],
        sections=[
            report.Section("More", "A text.", ("a", "b"), (("c", "d"),), picture, "What it shows")
        ],
    )
    assert '<a href="#section-1">More</a>' in page
    assert (
        f'<img class="picture" src="data:image/png;base64,{base64.b64encode(picture).decode()}" '
        'alt="What it shows">' in page
    )
    assert "<td>c</td>" in page


def test_a_file_is_replaced_at_once_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr(
        report, "render", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("stop"))
    )
    with pytest.raises(RuntimeError, match="stop"):
        report.write([result()], path)
    monkeypatch.undo()
    monkeypatch.setattr(report.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        report.write([result()], path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    monkeypatch.undo()
    report.write([result(dataset="lone \udcff surrogate")], path)
    assert path.read_text().startswith("<!doctype html>")
    with pytest.raises(InputError, match="is a folder; name a file to write"):
        report.write([], tmp_path)
    with pytest.raises(InputError, match=r"cannot be written: the folder .* does not exist"):
        report.write([], tmp_path / "none" / "report.html")


@pytest.mark.parametrize("name", ["jinja2", "plotly"])
def test_without_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r'pip install "mnngp\[experiments\]"'):
        report.render([result()])
