"""Run the code of the README and of the pages, and compare what it prints with the text blocks
below it.

    python docs/check_outputs.py                      all pages; ends with an error and a diff if
    anything differs python docs/check_outputs.py --write guide.md     puts what was printed into
    the text blocks of a page

A ```text block belongs to the ```python block that ends right before it. The blocks of a page run
in one process, in a folder of their own, with warnings as errors. tests/test_docs.py does the same.

Words have to be the same; white space does not matter. A number with a point may differ by one in
its last digit, since another processor rounds differently; a number without has to be the same.
Where even that is too much to ask, a comment between the two blocks, ``<!-- its numbers depend on
the machine -->``, leaves the words to be compared.
"""

import argparse
import difflib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
NOTE = "<!-- its numbers depend on the machine -->\n\n"
PAIR = re.compile(
    rf"^```python\n(?P<code>.*?)^```\n(?:\n(?P<note>{re.escape(NOTE)})?```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"((?<![\w.])[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?(?!\w))")
RUN = """
import contextlib, io, json, sys
blocks, space, printed = json.load(sys.stdin), {"__name__": "__main__"}, []
for block in blocks:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(block, space)
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""


def pages(names: list[str] | None = None) -> list[Path]:
    """The pages with code, or those of them that are named."""
    all_pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [
        page
        for page in all_pages
        if (not names or page.name in names) and PAIR.search(page.read_text())
    ]


def outputs(page: Path) -> list[str]:
    """What each block of a page prints."""
    blocks = [match["code"] for match in PAIR.finditer(page.read_text())]
    # scikit-learn's optimiser may end at a bound, and says so; everything else is an error
    settings = ["-W", "error", "-W", "ignore:The optimal value found:UserWarning"]
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            [sys.executable, *settings, "-c", RUN],
            input=json.dumps(blocks),
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            timeout=300,
        )
    if result.returncode:
        raise RuntimeError(f"{page.name}: its code failed\n{result.stderr}")
    return list(json.loads(result.stdout))


def rewritten(page: Path, printed: list[str]) -> str:
    """The page with the text blocks as they should be."""
    found = iter(printed)

    def fill(match: re.Match[str]) -> str:
        output = next(found)
        block = f"```python\n{match['code']}```\n"
        return block + (
            f"\n{match['note'] or ''}```text\n{output}```\n"
            if output or match["output"] is not None
            else ""
        )

    return PAIR.sub(fill, page.read_text())


def agree(expected: str, printed: str, *, numbers: bool = True) -> bool:
    """Whether two outputs say the same."""
    left, right = NUMBER.split(expected), NUMBER.split(printed)
    if len(left) != len(right):
        return False
    for k, (a, b) in enumerate(zip(left, right, strict=True)):
        if k % 2 == 0 and "".join(a.split()) != "".join(b.split()):
            return False
        if k % 2 and numbers and not _close(a, b):
            return False
    return True


def _close(a: str, b: str) -> bool:
    """Whether two numbers differ by one in the last digit of either at most."""
    if a == b:
        return True
    if "." not in a + b and "e" not in a + b:
        return False
    units = []
    for number in (a, b):
        digits, _, exponent = number.partition("e")
        units.append(10.0 ** (int(exponent or 0) - len(digits.partition(".")[2])))
    # NumPy leaves out zeros at the end: the shorter number is known as well as the other.
    return abs(float(a) - float(b)) < 1.001 * min(units) or abs(float(a) - float(b)) < 1e-9 * abs(
        float(a)
    )


def differences(page: Path) -> Iterator[str]:
    """The lines of a page that are not what its code prints, as a diff; none if all is well."""
    printed = outputs(page)
    old, matches = page.read_text(), list(PAIR.finditer(page.read_text()))
    shown = [match["output"] or "" for match in matches]
    kept = [
        before if agree(before, now, numbers=match["note"] is None) else now
        for match, before, now in zip(matches, shown, printed, strict=True)
    ]
    new = rewritten(page, kept)
    yield from difflib.unified_diff(
        old.splitlines(), new.splitlines(), page.name, "what it prints", lineterm="", n=1
    )


def main() -> None:
    """Check or rewrite."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", help="names such as guide.md; all by default")
    parser.add_argument("--write", action="store_true", help="rewrite the text blocks")
    arguments = parser.parse_args()
    differ = False
    for page in pages(arguments.pages):
        if arguments.write:
            page.write_text(rewritten(page, outputs(page)))
            print(f"{page.name}: written")
            continue
        lines = list(differences(page))
        differ |= bool(lines)
        print("\n".join([*lines, f"{page.name}: {'differs' if lines else 'as it says'}"]))
    sys.exit(differ)


if __name__ == "__main__":
    main()
