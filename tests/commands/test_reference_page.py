"""The page of the command line lists all commands and options, and its examples run."""

import importlib.util
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest
import typer

from mnngp.commands.app import app
from tests.commands.running import run

ROOT = Path(__file__).parents[2]
PINNED = (ROOT / "constraints.txt").read_text(encoding="utf-8")
specification = importlib.util.spec_from_file_location(
    "command_line", ROOT / "docs" / "command_line.py"
)
command_line = importlib.util.module_from_spec(specification)
specification.loader.exec_module(command_line)


def all_commands(command=None, name="mnngp"):
    """Every command by its full name, groups included."""
    command = command or typer.main.get_command(app)
    yield name, command
    for each, inner in getattr(command, "commands", {}).items():
        yield from all_commands(inner, f"{name} {each}")


def sections():
    """What the page says of each command."""
    parts = re.split(r"^#+ `(mnngp [\w ]+)`$", command_line.commands(), flags=re.MULTILINE)
    return {"mnngp": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


EXAMPLES = re.findall(
    r"^\*\*Example\*\*:\n\n```console\n\$ (.*)\n```$", command_line.commands(), re.M
)


@pytest.mark.skipif(
    [int(part) for part in typer.__version__.split(".")[:2]]
    < [int(part) for part in re.search(r"^typer==(\d+)\.(\d+)", PINNED, re.MULTILINE).groups()],
    reason="the site is built with the Typer of constraints.txt; 0.16 loses what is in brackets",
)
def test_the_page_has_every_command_and_option_with_its_default():
    found = sections()
    assert list(found) == [name for name, _ in all_commands()]
    for name, command in all_commands():
        for parameter in command.params:
            shown = found[name]
            if parameter.param_type_name == "argument":
                assert f"* `{(parameter.metavar or parameter.name).upper()}" in shown, parameter
                continue
            (line,) = re.findall(rf"^\* `(?:-\w, )?{parameter.opts[0]}\b.*$", shown, re.MULTILINE)
            assert " ".join(parameter.help.split()) in line, (name, parameter)
            if parameter.default not in (None, False, [], ()) and not parameter.required:
                assert f"default: {parameter.default}" in line, (name, parameter)
            assert parameter.required == ("required]" in line), (name, parameter)


def test_every_command_has_an_example_that_is_its_own():
    leaves = [name for name, command in all_commands() if not hasattr(command, "commands")]
    assert len(leaves) == len(EXAMPLES) == 11
    for name, example in zip(leaves, EXAMPLES, strict=True):
        assert example.startswith(f"{name} ") or example == name
        assert len(f"  Example: {example}") <= 80  # one line of --help
        assert f"Example: {example}" in run(*name.split()[1:], "--help").stdout


def test_the_examples_run_one_after_the_other(tmp_path, monkeypatch):
    """In a folder with a table and the repository's protocols; the demonstration and downloads have
    tests of their own, and are only understood here.
    """
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("mnngp.data.fetch", lambda name, folder: [Path(name)])
    monkeypatch.setattr("mnngp.commands.demo.writable", lambda *_, **__: pytest.fail("reached"))
    (tmp_path / "experiments").mkdir()
    small = (ROOT / "experiments" / "digits-small.toml").read_text(encoding="utf-8")
    small = re.sub(r"repeats = \d+", "repeats = 1", small).replace("[100, 300]", "[100]")
    (tmp_path / "experiments" / "digits-small.toml").write_text(small, encoding="utf-8")
    area = [float(20 + 7 * k % 90) for k in range(40)]
    homes = pl.DataFrame({"area": area, "price": [12.0 * a + 50.0 * (a % 3.0) for a in area]})
    homes[:30].write_csv(tmp_path / "train.csv")
    homes[30:].write_csv(tmp_path / "new.csv")
    said = {}
    for example in EXAMPLES:
        name, *arguments = shlex.split(example)[1:]
        if name == "demo":
            with pytest.raises(pytest.fail.Exception, match="reached"):
                run(name, *arguments, cwd=tmp_path)
        elif name != "converge" or find_spec("torch"):
            said[name] = run(name, *arguments, cwd=tmp_path).stdout
    assert "leave-one-out" in said["fit"]
    assert said["predict"].startswith("prediction,std,lower,upper\n")
    assert said["predict"].count("\n") == 11
    assert "ReLU" in said["table"]
    assert "0.64460863" in said["phase"]
    assert "Advised" in said["plan"]
    assert said["data"] == "mnist\n"
    made = {path.name for path in tmp_path.iterdir()}
    assert {"model.mnngp", "digits.sqlite", "report.html", "phase.png"} <= made


def test_mkdocs_puts_them_where_the_marker_is():
    class Page:
        class File:
            src_uri = "command-line.md"

        file = File()

    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert text.count(command_line.MARKER) == 1
    whole = command_line.on_page_markdown(text, Page())
    assert command_line.commands() in whole
    assert command_line.MARKER not in whole
    Page.file.src_uri = "index.md"
    assert command_line.on_page_markdown(text, Page()) == text
