"""The code of the README and of the documentation runs as it stands, page by page, and prints what
the pages say.
"""

import importlib.util
import inspect
import pkgutil
import re
from itertools import pairwise
from pathlib import Path

import pytest

import mnngp
from tests import public_api

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")


def script(name):
    """A program of the documentation, as a module."""
    specification = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


check_outputs = script("check_outputs")


@pytest.mark.parametrize("page", check_outputs.pages(), ids=lambda page: page.name)
def test_code_prints_what_the_page_says(page):
    lines = list(check_outputs.differences(page))
    assert not lines, "\n".join(
        [*lines, f"refresh it: python docs/check_outputs.py --write {page.name}"]
    )


@pytest.mark.parametrize(
    ("page", "printed", "same"),
    [
        ("accuracy 0.965", "accuracy 0.964", True),
        ("accuracy 0.965", "accuracy 0.963", False),
        ("accuracy 0.965", "error 0.965", False),
        ("[0.25     0.460095 1.      ]", "[0.25     0.460096 1.      ]", True),
        ("[1.27283  1.099592]", "[1.272829 1.099592]", True),
        ("[1.27283  1.099592]", "[1.272820 1.099592]", False),
        ("[257. 245.] ± [16.]", "[256. 245.] ± [16.]", True),
        ("-1.5513288954217923", "-1.551328895421791", True),
        ("1.5513288954217923", "-1.5513288954217923", False),
        ("3 attempts, depth=6", "4 attempts, depth=6", False),
        ("3 attempts, depth=6", "3 attempts, depth=8", False),
        ("κ = 5e-101", "κ = 6e-101", True),
        ("κ = 5e-101", "κ = 5e-100", False),
        ("1 (442, 442)", "1 (442, 442)\n5 (442, 442)", False),
        ("float32 True", "float32 False", False),
        ("nothing", "", False),
    ],
)
def test_what_counts_as_the_same(page, printed, same):
    assert check_outputs.agree(page, printed) == same


def test_a_stale_block_is_seen(tmp_path):
    block = "# Page\n\n```python\nprint(1 / 3)\n```\n\n{note}```text\n{text}\n```\n"
    page = tmp_path / "page.md"
    for text, note, stale in (
        ("0.3333333333333333", "", False),
        ("0.33333333333333", "", False),
        ("0.3334333333333333", "", True),
        ("0.3334333333333333", check_outputs.NOTE, False),
        ("a third", check_outputs.NOTE, True),
    ):
        page.write_text(block.format(text=text, note=note))
        assert bool(list(check_outputs.differences(page))) == stale
        assert check_outputs.rewritten(page, ["0.5\n"]) == block.format(text="0.5", note=note)
    page.write_text("```python\nprint(1 / 3)\n```\n")  # printed, and not shown
    assert list(check_outputs.differences(page))
    page.write_text("```python\nprint(1 / 0)\n```\n")
    with pytest.raises(RuntimeError, match=r"(?s)page\.md: its code failed.*ZeroDivisionError"):
        list(check_outputs.differences(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, _ in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_reference_names_what_there_is():
    names = re.findall(r"^::: (\S+)", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    for name in names:
        if importlib.util.find_spec("torch") or not re.search("finite|interop|convergence", name):
            assert pkgutil.resolve_name(name) is not None


def documented():
    """The objects that the API page describes, by directives and by the members of modules."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name, options in re.findall(r"^::: (\S+)\n((?:    .*\n)*)", text, re.MULTILINE):
        value = pkgutil.resolve_name(name)
        members = re.search(r" members: \[(.*)\]", options)
        if inspect.ismodule(value):
            yield from (getattr(value, member.strip()) for member in members[1].split(","))
        else:
            yield value


def public():
    """The public objects with their names, modules aside."""
    for module, lines in public_api.describe().items():
        for line in lines:
            name = re.match(r"(?:class )?(\w*)", line)[1]
            value = pkgutil.resolve_name(f"{module}:{name}") if name else None
            if name and name != "__version__" and not inspect.ismodule(value):
                yield f"{module}.{name}", value


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="the page has what needs PyTorch")
def test_the_reference_has_every_public_name():
    there = {id(value) for value in documented()}
    missing = [name for name, value in public() if id(value) not in there]
    assert not missing, f"docs/api.md does not have {', '.join(missing)}"


def undescribed(docstring):
    """The parameters, attributes and results of a docstring that nothing is said of."""
    for title in ("Parameters", "Attributes", "Returns", "Other Parameters"):
        section = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n---|\Z)", docstring, re.M | re.S)
        lines = section[1].splitlines() if section else []
        for line, after in pairwise([*lines, ""]):
            if line and not line.startswith(" ") and not after.startswith(" "):
                yield line


def test_what_counts_as_undescribed():
    said = "It.\n\nParameters\n----------\na : int\n    A.\nb, c : int\n\nReturns\n-------\nfloat\n"
    assert list(undescribed(said)) == ["b, c : int", "float"]
    assert not list(
        undescribed(said.replace("int\n\n", "int\n    B.\n\n").replace("float", "x\n    X"))
    )


def test_the_reference_has_no_empty_description():
    empty = []
    for name, value in public():
        if not callable(value):
            continue  # data: what is said of it stands below it, in its module
        members = inspect.getmembers(value, callable) if inspect.isclass(value) else []
        for key, member in [("", value), *members]:
            ours = getattr(member, "__module__", None) or ""
            if ours.startswith("mnngp") and (key == "__call__" or not key.startswith("_")):
                text = inspect.getdoc(member) or ""
                empty += [f"{name} {key}: {line}" for line in undescribed(text)]
        if not inspect.getdoc(value):
            empty.append(name)
    assert not empty, "\n".join(empty)


def test_the_first_commands_are_named():
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text


def test_the_picture_of_the_rooms_is_that_of_the_contract():
    rooms = script("rooms")
    assert rooms.PICTURE.read_text(encoding="utf-8") == rooms.picture(), "python docs/rooms.py"


def test_every_room_is_in_the_table():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in (ROOT / "src" / "mnngp").iterdir():
        room = f"{path.name}/" if (path / "__init__.py").exists() else path.stem
        public = path.suffix == ".py" or room.endswith("/")
        assert not public or room.startswith("__") or f"`{room}`" in text, room


def test_versions_agree():
    """The top of the CHANGELOG is what comes next; CITATION.cff names what was released last."""
    sections = re.findall(
        r"^## (\S+) \((.+)\)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    (newest, state), *_ = sections
    assert mnngp.__version__ == newest + ".dev0" * (state == "unreleased")
    released, date = next(section for section in sections if section[1] != "unreleased")
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", date)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {released}\ndate-released: {date}\n" in citation
