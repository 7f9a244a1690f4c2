"""The report in Chromium: it fits, it can be used, and nothing in it runs that should not."""

import re
import time
from dataclasses import replace

import pytest

from mnngp.experiments import report
from mnngp.experiments.store import Store
from tests import browser
from tests.experiments.pages import EVIL, drawings, evil_results, small
from tests.made_up import failure, result, stored

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
