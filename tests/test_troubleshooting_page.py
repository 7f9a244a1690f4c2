"""Troubleshooting: messages are quoted as the package has them, and none of its warnings is missing.

That its blocks run is tests/test_docs.py's.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from mnngp import errors

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
ANY = "…"
OTHERS = ("Input y contains NaN", "LinAlgError")  # scikit-learn's and NumPy's


def template(node):
    """A string expression with … for what varies, or None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) or ANY for part in node.values)
    if isinstance(node, ast.BinOp):  # text + (more if ... else "")
        left = template(node.left)
        return None if left is None else left + (template(node.right) or ANY)
    return None


def texts():
    for path in sorted((ROOT / "src" / "mnngp").rglob("*.py")):
        yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


@cache
def templates():
    return {text for node in texts() if (text := template(node))}


def warned():
    """What ``warn_of_accuracy`` is called with."""
    return [
        template(node.args[0])
        for node in texts()
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "warn_of_accuracy"
    ]


def quoted():
    """Messages of the page: first cells of tables of messages, and those of symptoms."""
    tables = re.findall(r"^\| message \|.*\n\|[- |]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    cells = [re.match(r"\| `(.+?)` \|", line)[1] for table in tables for line in table.splitlines()]
    symptoms = re.findall(r"^\*\*Symptom\.\*\* (.*)$", PAGE, re.MULTILINE)
    return cells + [text for line in symptoms for text in line.split("`")[1::2] if " " in text]


def fits(message, text):
    """Whether a message is a text of the package, what varies or is left out being … or filled in."""

    def holds(holed, whole):
        pieces = holed.split(ANY)
        pattern = ".*?".join(map(re.escape, pieces))
        return max(pieces, key=len) in whole and re.fullmatch(pattern, whole, re.DOTALL) is not None

    # much of the text is fixed, or one of two holes would fit everything
    fixed = len(text.replace(ANY, "")) > 0.7 * len(message)
    return holds(message, text) or (fixed and holds(text, message))


@pytest.mark.parametrize("message", [m for m in quoted() if not any(o in m for o in OTHERS)])
def test_a_quoted_message_is_one_of_the_package(message):
    assert max(map(len, message.split(ANY))) > 8, "nothing of it could be searched for"
    assert any(fits(message, text) for text in templates()), message


def test_there_are_messages_and_a_wrong_one_is_seen():
    assert len(quoted()) > 25
    for wrong in ("all correlations at depth … are two", "X is sparse (…); pass a full array"):
        assert not any(fits(wrong, text) for text in templates())


def test_no_warning_is_missing():
    found = warned()
    assert len(found) == 5
    for text in found:
        assert any(fits(message, text) for message in quoted()), text


def test_every_error_is_in_the_table_with_what_it_also_is():
    for name in errors.__all__:
        if name == "MnngpError":
            continue
        (other,) = re.findall(rf"^\| `{name}` \| `(\w+)` \|", PAGE, re.MULTILINE)
        parents = [each.__name__ for each in getattr(errors, name).__mro__[1:]]
        assert other in parents, name
