"""The report: what it says, that it needs nothing but itself, and that a real browser shows it as
it should.
"""

import base64
import hashlib
import html
import json
import re
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from mnngp.activations import Maxout
from mnngp.errors import InputError, MissingExtraError
from mnngp.experiments import figures, heat_maps, report, selection
from mnngp.experiments.store import Store
from mnngp.experiments.tabulated import _grid_moment
from tests import browser
from tests.made_up import failure, grid, result, stored

EVIL = """<script>window.hit = 1</script></script><img src=x onerror="window.hit = 2"> {{ 7 * 7 }} <!-- " ' & \\u003c"""
LARGEST = 6_000_000


def small(**changes):
    return list(
        grid(
            **{"depths": (1, 5), "biases": (0.1, 1.0), "weights": (0.5, 1.0, 2.0), "repeats": 2}
            | changes
        )
    )


def evil_results():
    odd = {
        "dataset": EVIL,
        "activation": EVIL,
        "rank": None,
        "version": EVIL,
        "commit": EVIL,
        "finished": EVIL,
    }
    cells = [
        result(**odd, n_train=size, depth=depth, weight_var=w, bias_var=b)
        for size in (100, 200)
        for depth in (1, 2)
        for w in (1.0, 2.0)
        for b in (0.0, 0.1)
    ]
    return [*cells, failure(EVIL, **odd, depth=3)]


def without_scripts(page):
    return re.sub("(?s)<script.*?</script>", "", page)


def drawings(page):
    return json.loads(
        re.search('(?s)<script type="application/json" id="drawings">(.*?)</script>', page)[1]
    )


# --- figures --------------------------------------------------------------------------------------


def all_figures():
    rows = selection.rows(small(sizes=(100, 500), activations=("maxout", "relu", "tanh", "erf")))
    yield figures.moments()
    yield figures.accuracy(rows, "mnist")
    yield figures.accuracy(
        selection.rows(small(dataset="digits", activations=("maxout", "relu"))), "digits"
    )
    yield from (figure for _, figure in heat_maps.all_heat_maps(rows))
    yield figures.timings(small(sizes=(100, 5000), activations=("maxout", "relu")))
    yield figures.timings(small())


def test_figures_are_what_plotly_knows():
    import plotly.graph_objects as go

    for figure in all_figures():
        drawn = go.Figure(figure)  # it checks every name and value
        axes = {trace.xaxis or "x" for trace in drawn.data}
        assert len(axes) == figure["layout"]["meta"]["panels"]
        json.dumps(figure, allow_nan=False)


def test_figure_1_shows_what_the_library_does_today():
    (curves, *errors) = (
        panel for panel in (figures.moments()["data"][:4], *figures.moments()["data"][4:])
    )
    for rank, curve in zip((2, 3, 4, 8), curves, strict=True):
        np.testing.assert_allclose(curve["y"], Maxout(rank).moment(np.array(curve["x"])), atol=2e-5)
    by_method = {(trace["legendgroup"], trace["xaxis"]): trace for trace in errors}
    assert len(by_method) == 12
    for panel, rank in (("x2", 2), ("x3", 3), ("x4", 4)):
        assert max(by_method["library", panel]["y"]) < 5e-15
        assert 1e-7 < np.median(by_method["table", panel]["y"]) < 1e-5
        table = figures._errors()[rank, "table"]
        rho, error = table[len(table) // 3]
        nodes = sum(_grid_moment(rank, rho + step, 501, 10.0) for step in (-0.001, 0.001)) / 2.0
        assert nodes - Maxout(rank).moment(rho) == pytest.approx(error, rel=1e-2)


def test_figure_2_has_a_panel_a_rank_and_the_papers_points():
    rows = selection.rows(small(sizes=(100, 500), activations=("maxout", "relu")))
    figure = figures.accuracy(rows, "mnist")
    assert [note["text"] for note in figure["layout"]["annotations"]] == [
        "all ranks",
        "rank 2",
        "rank 3",
        "rank 4",
    ]
    by_name = {(trace["name"], trace["xaxis"]): trace for trace in figure["data"]}
    best = [row.best.test_accuracy.mean for row in rows if row.rank == 3]
    assert by_name["maxout", "x3"]["y"] == pytest.approx(best, abs=1e-5)
    assert by_name["maxout", "x3"]["x"] == [100, 500]
    assert by_name["paper: finite width", "x"]["y"] == [
        0.7070,
        0.8837,
        0.9210,
        0.9626,
        0.9729,
        0.9859,
    ]
    assert by_name["paper: maxout", "x3"]["y"] == [0.9763]  # where the paper selected rank 3
    assert ("ReLU", "x4") in by_name
    assert figures.accuracy(rows, "cifar10") is None


def test_figure_3_holds_the_mean_validation_accuracies():
    results = small()
    row = selection.rows(results)[0]
    figure = heat_maps.heat_maps(row)
    maps = [trace for trace in figure["data"] if trace["type"] == "heatmap"]
    assert [trace["name"] for trace in maps] == [
        f"q = {rank}, depth {depth}" for rank in (2, 3, 4) for depth in (1, 5)
    ]
    for candidate in row.candidates:
        setting = candidate.setting
        z = maps[2 * (2, 3, 4).index(setting.rank) + (1, 5).index(setting.depth)]["z"]
        value = z[(0.1, 1.0).index(setting.bias_var)][(0.5, 1.0, 2.0).index(setting.weight_var)]
        assert value == pytest.approx(candidate.validation_accuracy, abs=1e-5)
    assert {trace["coloraxis"] for trace in maps} == {"coloraxis"}
    values = np.array([trace["z"] for trace in maps])
    assert (figure["layout"]["coloraxis"]["cmin"], figure["layout"]["coloraxis"]["cmax"]) == (
        values.min(),
        values.max(),
    )
    gap = [
        one
        for one in results
        if (one.rank, one.depth, one.bias_var, one.weight_var, one.repeat) != (3, 1, 1.0, 0.5, 1)
    ]
    assert heat_maps.heat_maps(selection.rows(gap)[0])["data"][2]["z"][1][0] is None
    assert heat_maps.heat_maps(selection.rows([result()])[0]) is None


def test_a_hundred_depths_are_thinned_out_and_the_best_is_kept():
    row = selection.rows(small(ranks=(2, 3), depths=range(1, 101), repeats=1))[0]
    names = [
        trace["name"] for trace in heat_maps.heat_maps(row)["data"] if trace["type"] == "heatmap"
    ]
    best = row.best.setting
    assert len(names) <= heat_maps.MOST_PANELS
    assert f"q = {best.rank}, depth {best.depth}" in names


# --- the page -------------------------------------------------------------------------------------


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


# --- in a browser ---------------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(
    browser.PROGRAM is None, reason="there is no Chromium (apt-get install chromium)"
)
WIDTHS = (
    "[document.documentElement.scrollWidth, innerWidth, document.body.scrollWidth <= innerWidth]"
)


@pytest.fixture(scope="module")
def chromium():
    with browser.Browser() as started:
        yield started


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The address of a report with everything in it."""
    folder = tmp_path_factory.mktemp("report")
    results = small(sizes=(100, 1000), activations=("maxout", "relu", "tanh"), depths=(1, 5, 9))
    reason = (
        "the Hermite series of Tanh() at variance 3e+03 leaves out 5.0e-02 of the slope's variance "
        "after 1024 terms"
    )
    results = [
        replace(one, warning=reason if one.activation == "tanh" and one.depth > 1 else None)
        for one in results
    ]
    stored(folder / "run.sqlite", results, title="Grüße: " + "a rather long title " * 4).close()
    with Store.open(folder / "run.sqlite") as store:
        return report.write(store, folder / "report.html").as_uri()


@needs_browser
@pytest.mark.parametrize(
    ("width", "dark"), [(1440, False), (1440, True), (768, False), (360, False), (360, True)]
)
def test_the_page_in_chromium(chromium, page, width, dark):
    chromium.open(page, width=width, dark=dark)
    assert chromium.complaints() == []
    assert chromium.requests() == [page]
    assert chromium.value(WIDTHS) == [width, width, True]  # no scrolling sideways
    drawn = chromium.value(
        "[...document.querySelectorAll('.plot')].map(p => [p.id, "
        "p.querySelectorAll('.main-svg').length > 0, "
        "p.getBoundingClientRect().width, p.querySelectorAll('.hm image, .scatterlayer "
        ".trace').length])"
    )
    assert [figure[0] for figure in drawn] == ["moments", "accuracy-0", "heat-maps", "timings"]
    for _, svg, room, traces in drawn:
        assert svg
        assert 0 < room <= width
        assert traces >= 4
    channels = [
        int(value)
        for value in re.findall(
            r"\d+", chromium.value("getComputedStyle(document.body).backgroundColor")
        )[:3]
    ]
    ink = [
        int(value)
        for value in re.findall(r"\d+", chromium.value("getComputedStyle(document.body).color"))[:3]
    ]
    assert (
        (max(channels) < 60 and min(ink) > 180) if dark else (min(channels) > 230 and max(ink) < 80)
    )
    label = chromium.value("getComputedStyle(document.querySelector('#moments .xtick text')).fill")
    # the figures are in the page's colours
    assert (min(map(int, re.findall(r"\d+", label)[:3])) > 120) is dark


@needs_browser
def test_panels_are_fewer_side_by_side_where_it_is_narrow(chromium, page):
    columns = {}
    for width in (1440, 768, 360):
        chromium.open(page, width=width)
        columns[width] = chromium.value(
            "['moments', 'heat-maps'].map(id => "
            "document.getElementById(id)._fullLayout.grid.columns)"
        )
        overlap = chromium.value(
            "[...document.querySelectorAll('#heat-maps .subplot')].every(a => "
            "a.getBoundingClientRect().right <= innerWidth)"
        )
        assert overlap
    assert columns == {1440: [4, 3], 768: [2, 3], 360: [1, 2]}
    chromium.call(
        "Emulation.setDeviceMetricsOverride",
        width=1440,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    deadline = time.monotonic() + 20.0
    # a window that is made wider
    while chromium.value("document.getElementById('moments')._fullLayout.grid.columns") != 4:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@needs_browser
def test_the_tables_scroll_in_their_own_box(chromium, page):
    chromium.open(page, width=360)
    box = chromium.value(
        "(b => [b.scrollWidth > b.clientWidth, b.clientWidth < 360, "
        "b.tabIndex])(document.querySelector('#table .scroll'))"
    )
    assert box == [True, True, 0]


@needs_browser
def test_the_page_by_keyboard(chromium, page):
    chromium.open(page)
    chromium.press("Tab")
    assert chromium.value(
        "[document.activeElement.className, document.activeElement.textContent]"
    ) == ["skip", "To the table"]

    def spoken(figure, *keys):
        chromium.value(f"document.getElementById('{figure}').focus()")
        for key in keys:
            chromium.press(key)
            time.sleep(0.15)
        return chromium.value("document.getElementById('spoken').textContent")

    first = drawings_of(page)["heat-maps"][0][1]["data"]
    assert spoken("heat-maps", "ArrowRight") == hover(first[0], 0, 0)
    # the focus was there all the time
    assert spoken("heat-maps", "ArrowRight", "ArrowUp") == hover(first[0], 1, 1)
    assert spoken("heat-maps", "PageDown") == hover(first[1], 1, 1)
    line = drawings_of(page)["accuracy-0"][0][1]["data"][1]
    text = spoken("accuracy-0", "ArrowRight", "ArrowDown", "ArrowRight")
    assert text.startswith(f"{line['name']}, nt = 1,000, {line['y'][1]:.4f}")
    chromium.press("Escape")
    time.sleep(0.15)
    assert chromium.value("document.querySelector('#accuracy-0 .hoverlayer').textContent") == ""
    assert chromium.complaints() == []


def drawings_of(page):
    from pathlib import Path
    from urllib.parse import unquote, urlparse

    return drawings(Path(unquote(urlparse(page).path)).read_text())


def hover(trace, row, column):
    weight, bias, test, noise = trace["customdata"][row][column]
    return (
        f"{trace['name']}, σw² = {weight}, σb² = {bias}, validation {trace['z'][row][column]:.4f}, "
        f"test {test}, noise {noise}"
    )


@needs_browser
def test_hovering_and_choosing(chromium, page):
    chromium.open(page)
    chromium.value("document.getElementById('heat-maps').scrollIntoView()")
    x, y = chromium.value(
        "(r => [r.x + 5, r.y + 5])(document.querySelector('#heat-maps .hm "
        "image').getBoundingClientRect())"
    )
    chromium.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    deadline = time.monotonic() + 10.0
    while "validation" not in (
        chromium.value("document.querySelector('#heat-maps .hoverlayer').textContent") or ""
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    choose = (
        "(s => {{ s.value = '{}'; s.dispatchEvent(new Event('change')); "
        "}})(document.querySelector('select[data-{}]'))"
    )
    options = chromium.value(
        "[...document.querySelectorAll('select[data-figure] option')].map(o => o.textContent)"
    )
    assert options[0] == "MNIST, 1,000 images, maxout"
    assert len(options) == 6
    scale = "(a => [a.cmin, a.cmax])(document.getElementById('heat-maps')._fullLayout.coloraxis)"
    chromium.value(choose.format(options.index("MNIST, 100 images, tanh"), "figure"))
    layout = drawings_of(page)["heat-maps"][options.index("MNIST, 100 images, tanh")][1]["layout"]
    assert chromium.value(scale) == [layout["coloraxis"]["cmin"], layout["coloraxis"]["cmax"]]
    chromium.value(choose.format("upper", "colours"))
    assert chromium.value(scale) == [layout["meta"]["upper"], layout["coloraxis"]["cmax"]]
    assert chromium.complaints() == []


@needs_browser
def test_evil_names_do_not_run(chromium, tmp_path):
    sections = [report.Section(EVIL, EVIL, (EVIL,), ((EVIL,),))]
    path = report.write(evil_results(), tmp_path / "report.html", title=EVIL, sections=sections)
    chromium.open(path.as_uri())
    assert chromium.complaints() == []  # nor does the policy have to stop anything
    assert chromium.value("[typeof window.hit, document.title]") == [
        "undefined",
        " ".join(EVIL.split()),
    ]
    assert chromium.value("document.querySelector('h1').textContent") == EVIL
    assert chromium.value("document.querySelector('.failures pre').textContent") == EVIL
    assert chromium.value("document.querySelectorAll('main img, main script').length") == 0
    chromium.value("document.getElementById('accuracy-0').focus()")
    chromium.press("ArrowRight")
    time.sleep(0.3)
    # shown, as it is
    assert "<script>window.hit" in chromium.value("document.getElementById('spoken').textContent")
    assert chromium.value("typeof window.hit") == "undefined"
    assert chromium.value("document.querySelector('#heat-maps').scrollWidth <= innerWidth")


@needs_browser
@pytest.mark.parametrize("results", [[], [failure("no")], [result()]])
def test_a_page_of_almost_nothing_in_chromium(chromium, tmp_path, results):
    for width in (1440, 360):
        chromium.open(report.write(results, tmp_path / "report.html").as_uri(), width=width)
        assert chromium.complaints() == []
        assert chromium.value(WIDTHS) == [width, width, True]
        assert chromium.value(
            "document.querySelectorAll('.plot').length === document.querySelectorAll('.plot "
            ".main-svg').length / 3"
        )


@needs_browser
def test_the_text_is_there_without_scripts(chromium, page):
    chromium.open(page, width=360, scripts=False)
    text = chromium.value("document.body.innerText")
    assert "Table 1, beside the paper" in text
    assert "the tables hold the numbers" in text
    assert (
        "Show" not in text.split("Validation accuracy over the hyperparameters")[1].split("Time")[0]
    )  # no control that does nothing
    assert chromium.value(WIDTHS) == [360, 360, True]


@needs_browser
def test_paper_is_white_also_in_the_dark(chromium, page):
    chromium.open(page, dark=True)
    chromium.call(
        "Emulation.setEmulatedMedia",
        media="print",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    chromium.value("window.dispatchEvent(new Event('beforeprint'))")
    assert chromium.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    fill = chromium.value("getComputedStyle(document.querySelector('#moments .xtick text')).fill")
    assert max(map(int, re.findall(r"\d+", fill)[:3])) < 120
    assert (
        chromium.value(
            "Math.max(...[...document.querySelectorAll('.plot svg')].map(s => "
            "s.getBoundingClientRect().width))"
        )
        <= 700
    )
    assert chromium.call("Page.printToPDF")["data"].startswith("JVBERi")  # %PDF
