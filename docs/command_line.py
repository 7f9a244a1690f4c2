"""The page of the command line, made from the commands when the site is built: a hook of MkDocs.

    python docs/command_line.py                       prints what stands in place of the marker

Typer describes the commands (``typer … utils docs``), as it does for --help; here they only get
links, and a block for each example. No file is written.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

PAGE, MARKER = "command-line.md", "<!-- the commands -->"
_DESCRIBE = [sys.executable, "-m", "typer", "mnngp.commands.app", "utils", "docs", "--name"]
_HEADING = re.compile(r"^#{2,3} `(mnngp [\w ]+)`\n\n(.*?)\n\n", re.MULTILINE | re.DOTALL)
_LIST = re.compile(r"\*\*Commands\*\*:\n\n(\* `.*\n)+")


@lru_cache
def commands() -> str:
    """All commands with their arguments, options and defaults, as Markdown."""
    path = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    found = subprocess.run(
        [*_DESCRIBE, "mnngp"],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"},  # these sources, any alphabet
    )
    if found.returncode:
        raise RuntimeError(f"the commands could not be described\n{found.stderr}")
    return _shaped(found.stdout)


def _shaped(text: str) -> str:
    """What Typer wrote, in the shape of a page that has a title already."""
    _, _, text = text.partition("\n")  # the title
    text = re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), text)  # {TRAIN}: one that is required
    text = re.sub(r"^\* `([a-z_]+) <", lambda name: f"* `{name[1].upper()} <", text, flags=re.M)
    for old, new in ((" range>`", ">`"), ("**Usage**:\n\n", ""), ("x>=", "at least ")):
        text = text.replace(old, new)
    text = re.sub(r"^Example: (.*)$", r"**Example**:\n\n```console\n$ \1\n```", text, flags=re.M)
    # Typer's own lists cut sentences off
    lines = [
        f"* [{name}](#{name.replace(' ', '-')}): {_line(said)}"
        for name, said in _HEADING.findall(text)
        if name != "mnngp data"
    ]
    first = "**Commands**:\n\n" + "\n".join(lines) + "\n"
    return _LIST.sub("", _LIST.sub(lambda _: first, text, count=1))


def _line(paragraph: str) -> str:
    return " ".join(paragraph.split())


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """MkDocs calls this for each page."""
    return markdown.replace(MARKER, commands()) if page.file.src_uri == PAGE else markdown


if __name__ == "__main__":
    print(commands())
