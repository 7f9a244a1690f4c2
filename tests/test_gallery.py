"""The scripts of examples/ run to their ends, and the gallery's pages are theirs."""

import json
import re
from importlib.util import find_spec

import pytest

from tests.test_docs import LINK, ROOT, script

gallery = script("make_gallery")
EXTRAS = {"torch": "torch", "gpytorch": "botorch", "dask": "distributed"}
STALE = "refresh it: make gallery"


def page(name):
    return (gallery.GALLERY / f"{name}.md").read_text(encoding="utf-8")


def test_all_examples_are_in_the_overview():
    assert sorted(gallery.names()) == sorted(path.stem for path in gallery.EXAMPLES.glob("*.py"))
    assert len(gallery.names()) >= 12
    assert page("index") == gallery.overview(), STALE


@pytest.mark.parametrize("name", gallery.names())
def test_pages_and_notebooks_are_those_of_the_scripts(name):
    example, text = gallery.read(name), page(name)
    found = re.findall(r"^```python\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    assert found == [cell.code for cell in example.cells if cell.code], STALE
    for cell in example.cells:
        assert cell.text in text, STALE
    notebook = (gallery.GALLERY / f"{name}.ipynb").read_text(encoding="utf-8")
    assert notebook == gallery.notebook(example), STALE
    sources = ["".join(cell["source"]) for cell in json.loads(notebook)["cells"]]
    assert [one for one in sources if one in found] == found


@pytest.mark.parametrize("name", ["index", *gallery.names()])
def test_links_and_pictures_are_there(name):
    text = page(name)
    words = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for target, _ in LINK.findall(words):
        assert (gallery.GALLERY / target).exists(), f"{name}.md links to {target}"
    pictures = re.findall(r"figures/([\w-]+)\.svg#only-light", text)
    assert pictures
    for picture in pictures:
        light, dark = (
            (gallery.GALLERY / "figures" / f"{picture}{ending}.svg").read_text(encoding="utf-8")
            for ending in ("", "-dark")
        )
        assert gallery.NEUTRAL in light
        assert dark == light.replace(gallery.NEUTRAL, gallery.NEUTRAL_DARK)


def test_a_script_is_taken_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "EXAMPLES", tmp_path)
    (tmp_path / "one.py").write_text(
        '"""A title\n\nOne line.\n\nMore, with `"code"`.\n"""\n\nx = 1\n\n# %%\n# Text of \\(x\\),\n'
        "# see [there](../there.md).\n#\n# And more.\ny = x  # a comment\n\n# %%\nprint(y)\n"
    )
    example = gallery.read("one")
    assert (example.title, example.line) == ("A title", "One line.")
    assert [cell.code for cell in example.cells] == ["x = 1", "y = x  # a comment", "print(y)"]
    assert example.cells[0].text == 'One line.\n\nMore, with `"code"`.'
    assert example.cells[1].text == "Text of \\(x\\),\nsee [there](../there.md).\n\nAnd more."
    cells = json.loads(gallery.notebook(example))["cells"]
    assert "".join(cells[2]["source"]) == "Text of $x$,\nsee there.\n\nAnd more."
    assert [shown["text"] for shown in gallery.run(example)] == ["", "", "1\n"]
    (tmp_path / "one.py").write_text('"""A title\n\nOne line.\n"""\n\n1 / 0\n')
    with pytest.raises(SystemExit, match=r"(?s)one\.py failed.*ZeroDivisionError"):
        gallery.run(gallery.read("one"))


@pytest.mark.parametrize("name", gallery.names())
def test_examples_run(name):
    """In a process of their own, as a person would run them; and their pictures can be drawn."""
    example = gallery.read(name)
    extras = re.search(r'pip install "mnngp\[([\w,]+)\]"', example.cells[0].text)[1].split(",")
    for extra in extras:
        if extra in EXTRAS and not find_spec(EXTRAS[extra]):
            pytest.skip(f"it needs {EXTRAS[extra]}")
    drawn = sum(len(shown["pictures"]) for shown in gallery.run(example))
    assert drawn == page(name).count("#only-light")


def test_the_style_has_the_neutral_colour():
    style = (ROOT / "examples" / "matplotlibrc").read_text(encoding="utf-8")
    assert style.count(gallery.NEUTRAL.lstrip("#")) >= 6
