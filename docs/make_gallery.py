"""Run the scripts of examples/ and write what they show to docs/gallery/: a page, pictures and a
notebook of each, and the overview.

    python docs/make_gallery.py                    all of them (`make gallery`)
    python docs/make_gallery.py priors flow        these, and the overview

A script begins with a docstring: its title, one line for the overview, and what else there is to
say. `# %%` begins a cell, as sphinx-gallery, Spyder and VS Code have it: comments that follow at
once are Markdown, the rest is code. (mkdocs-gallery reads the same scripts, but runs them while the
site is built, and the site is to be built from what is committed.)
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
GALLERY = ROOT / "docs" / "gallery"
SECTIONS = {
    "What a network believes": ("priors", "regression", "ordered"),
    "Estimators": ("choosing", "calibration", "table", "images"),
    "Networks of finite width": ("width", "flow", "initialisation"),
    "Larger things": ("optimisation", "sweep", "large"),
}
NEUTRAL, NEUTRAL_DARK = "#24292f", "#d8dee6"  # the first is that of examples/matplotlibrc
# Each cell in turn: what it printed, and its pictures with their titles.
RUN = """
import contextlib, io, json, sys
import matplotlib.pyplot as plt

def picture(figure):
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    titles = [figure.get_suptitle(), *(ax.get_title() for ax in figure.axes)]
    return {"svg": file.getvalue(), "titles": [title for title in titles if title]}

if __name__ == "__main__":  # not in the processes that an example starts
    blocks, shown = json.load(sys.stdin), []
    space = {"__name__": "__main__"}
    for block in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(block, space)
        pictures = [picture(plt.figure(number)) for number in plt.get_fignums()]
        plt.close("all")
        shown.append({"text": out.getvalue(), "pictures": pictures})
    print(json.dumps(shown))
"""


@dataclass(frozen=True)
class Cell:
    """Markdown, and the code below it; either may be empty."""

    text: str
    code: str


@dataclass(frozen=True)
class Example:
    """A script, taken apart."""

    name: str
    title: str
    line: str  # for the overview
    cells: list[Cell]


def names() -> list[str]:
    """Of all examples, in the order of the overview."""
    return [name for section in SECTIONS.values() for name in section]


def read(name: str) -> Example:
    """Take a script apart."""
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    title, line, *rest = (ast.get_docstring(ast.parse(source)) or "").split("\n\n", 2)
    head, *pieces = re.split(r"^# %%.*\n", source, flags=re.MULTILINE)
    begin = head.index('"""', head.index('"""') + 3) + 3
    cells = [Cell("\n\n".join([line, *rest]), head[begin:].strip())]
    for piece in pieces:
        comments = re.match(r"(#.*\n)*", piece)[0]
        text = re.sub(r"^# ?", "", comments, flags=re.MULTILINE)
        cells.append(Cell(text.strip(), piece[len(comments) :].strip()))
    return Example(name, title, " ".join(line.split()), cells)


def run(example: Example) -> list[dict]:
    """What each cell shows, in a process and a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "run.py"
        program.write_text(RUN, encoding="utf-8")
        result = subprocess.run(
            [sys.executable, str(program)],
            input=json.dumps([cell.code for cell in example.cells]),
            env={
                **os.environ,
                "MPLBACKEND": "agg",
                "MATPLOTLIBRC": str(EXAMPLES),
                "PYTHONPATH": str(ROOT / "src"),
            },
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    if result.returncode:
        raise SystemExit(f"examples/{example.name}.py failed:\n{result.stderr}")
    return json.loads(result.stdout)


def both(alt: str, picture: str) -> str:
    """A picture, for pages with light and with dark colours."""
    return (
        f"![{alt}](figures/{picture}.svg#only-light)![{alt}](figures/{picture}-dark.svg#only-dark)"
    )


def page(example: Example, shown: list[dict]) -> str:
    """The page; its pictures are written."""
    for old in (GALLERY / "figures").glob(f"{example.name}-*.svg"):
        old.unlink()
    parts, count = [f"# {example.title}"], 0
    for cell, found in zip(example.cells, shown, strict=True):
        parts += [cell.text] if cell.text else []
        parts += [f"```python\n{cell.code}\n```"] if cell.code else []
        parts += [f"```text\n{found['text'].rstrip()}\n```"] if found["text"].strip() else []
        for one in found["pictures"]:
            count += 1
            name = f"{example.name}-{count}"
            svg = re.sub(r"[ \t]+$", "", one["svg"], flags=re.MULTILINE)
            for ending, text in (("", svg), ("-dark", svg.replace(NEUTRAL, NEUTRAL_DARK))):
                (GALLERY / "figures" / f"{name}{ending}.svg").write_text(text, encoding="utf-8")
            alt = "; ".join(one["titles"]).replace("\n", " ") or example.title
            parts.append(both(re.sub(r"[\[\]$]", "", alt), name))
    parts.append(footer(example.name))
    return "\n\n".join(parts) + "\n"


def footer(name: str) -> str:
    """Where the script is, and where to go on."""
    order = names()
    after = order[(order.index(name) + 1) % len(order)]
    return (
        f"---\n\n`python examples/{name}.py` runs all of this; "
        f"[{name}.ipynb]({name}.ipynb){{ download }} is a notebook of it. "
        f"[All examples](index.md) · next: [{read(after).title}]({after}.md)"
    )


def notebook(example: Example) -> str:
    """The example for Jupyter, without outputs. Its mathematics has dollars, links are words."""
    found = []
    for number, cell in enumerate(example.cells):
        text = f"# {example.title}\n\n{cell.text}" if number == 0 else cell.text
        text = re.sub(r"\\[()]", "$", re.sub(r"\\[\[\]]", "$$", text))
        text = re.sub(r"\[([^\]]+)\]\([^)]+\.md[^)]*\)", r"\1", text)
        for kind, source in (("markdown", text), ("code", cell.code)):
            if source:
                more = {"execution_count": None, "outputs": []} if kind == "code" else {}
                entry = {"cell_type": kind, "id": f"{example.name}-{len(found)}", "metadata": {}}
                found.append({**entry, **more, "source": source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    whole = {"cells": found, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def overview() -> str:
    """All examples as cards."""
    parts = [
        "# Gallery",
        "Each example is a short script that shows one thing, with its pictures. They are in "
        "`examples/` and run in some seconds each; every page has a notebook to download.",
    ]
    for section, members in SECTIONS.items():
        cards = []
        for name in members:
            example = read(name)
            picture = both(example.title, f"{name}-1")
            cards.append(
                f"-   [{picture}]({name}.md)\n\n    **[{example.title}]({name}.md)**\n\n"
                f"    {example.line}"
            )
        grid = '<div class="grid cards gallery" markdown>\n\n{}\n\n</div>'
        parts += [f"## {section}", grid.format("\n\n".join(cards))]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write the pages that are named, or all."""
    parser = argparse.ArgumentParser(description="Write the pages of the gallery.")
    parser.add_argument("names", nargs="*", help="examples, without .py; all by default")
    (GALLERY / "figures").mkdir(parents=True, exist_ok=True)
    for name in parser.parse_args().names or names():
        example = read(name)
        (GALLERY / f"{name}.md").write_text(page(example, run(example)), encoding="utf-8")
        (GALLERY / f"{name}.ipynb").write_text(notebook(example), encoding="utf-8")
        print(f"written: docs/gallery/{name}.md", flush=True)
    (GALLERY / "index.md").write_text(overview(), encoding="utf-8")


if __name__ == "__main__":
    main()
