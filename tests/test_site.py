"""The site: it is built from what is committed, strictly, and reads well from disk."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import PROGRAM

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("mkdocs", "material", "mkdocstrings", "py_mini_racer"))),
    reason="needs the extra docs",
)


def script(name):
    specification = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def state():
    """What git sees of the tree; None where there is no repository."""
    # not of all of it: other tests run at the same time
    places = ["docs", "src", "benchmarks", "experiments", "mkdocs.yml", "README.md"]
    command = ["git", "status", "--porcelain", "--untracked-files=all", "--", *places]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout if found.returncode == 0 else None


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site, and the state of the tree before and after: as `make docs` builds it, elsewhere."""
    folder, before = tmp_path_factory.mktemp("site"), state()
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return folder, before, state()


def test_building_leaves_the_tree_as_it_was(built):
    _, before, after = built
    assert before == after


def test_make_docs_computes_nothing():
    """What takes time, and writes to tracked files, has a target of its own."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\ndocs: ")[1].split("\n\n")[0]
    assert "mkdocs build --strict" in recipe
    assert "--quiet" not in recipe  # MkDocs does not count warnings that it does not show
    assert "python" not in recipe.replace("$(BIN)/mkdocs", "")


def test_links_and_anchors(built):
    assert not list(script("screenshots").broken_links(built[0]))


def test_formulas_are_rendered(built):
    text = (built[0] / "maths.html").read_text(encoding="utf-8")
    assert text.count('class="katex"') > 200
    index = (built[0] / "search" / "search_index.js").read_text(encoding="utf-8")
    assert r"\\rho" not in index  # the search has the letters instead


def test_a_wrong_formula_is_a_warning(caplog):
    formulas = script("formulas")
    page = type("Page", (), {"file": type("File", (), {"src_uri": "page.md"})})
    marked = r'<p><span class="arithmatex">\(\frac{1}\)</span>, <span class="arithmatex">\(F_q(\rho) &lt; 1\)</span></p>'
    waiting = formulas.on_page_content(marked)
    assert ">F_q(ρ) &lt; 1<" in waiting
    output = formulas.on_post_page(waiting, page=page)
    assert output.count("katex-error") == 1
    assert output.count('class="katex"') == 1
    assert "page.md" in caplog.text


@pytest.mark.parametrize(
    ("tex", "letters"),
    [
        (r"F_q'(\rho) = \tfrac12 \bigl(1 - \Lambda^{-1}\bigr)", "F_q'(ρ) = 1/2 (1 - Λ^-1 )"),
        (r"\begin{aligned} a &= \sqrt{b} \\[1ex] c &\le \ell \end{aligned}", "a = √b c ≤ ℓ"),
    ],
)
def test_what_the_search_has_of_a_formula(tex, letters):
    assert script("formulas").plain(tex) == letters


@pytest.mark.skipif(PROGRAM is None, reason="needs Chromium")
def test_narrow_pages_and_the_search_from_disk(built):
    screenshots = script("screenshots")
    with screenshots.SiteBrowser() as browser:
        found = []
        for path in screenshots.pages(built[0]):
            browser.look(path.as_uri(), 390)
            found += [f"{path.name}: {one}" for one in screenshots.faults(browser, 390)]
        found += screenshots.search_faults(browser, built[0])
    assert not found, "\n".join(found)
