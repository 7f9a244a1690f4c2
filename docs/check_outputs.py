"""Run the code of the README and of the pages, and compare what it prints with the text blocks below it.

    python docs/check_outputs.py                      all pages; ends with an error and a diff if anything differs
    python docs/check_outputs.py --write guide.md     puts what was printed into the text blocks of a page

A ```text block belongs to the ```python block that ends right before it. The blocks of a page run in one process, in a folder of
their own, with warnings as errors, as in tests/test_docs.py.
"""

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAIR = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
RUN = """
import contextlib, io, json, sys
blocks, space, printed = json.load(sys.stdin), {"__name__": "__main__"}, []
for block in blocks:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(block, space)
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""


def pages(names: list[str]) -> list[Path]:
    """The pages with code, or those that are named."""
    all_pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in all_pages if (not names or page.name in names) and PAIR.search(page.read_text())]


def outputs(page: Path) -> list[str]:
    """What each block of a page prints."""
    blocks = [match["code"] for match in PAIR.finditer(page.read_text())]
    settings = ["-W", "error", "-W", "ignore:The optimal value found:UserWarning"]
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            [sys.executable, *settings, "-c", RUN],
            input=json.dumps(blocks), stdout=subprocess.PIPE, text=True, check=False, cwd=folder, env={**os.environ},
        )  # fmt: skip
    if result.returncode:
        sys.exit(f"{page.name}: its code failed")
    return list(json.loads(result.stdout))


def rewritten(page: Path) -> str:
    """The page with the text blocks as they should be."""
    found = iter(outputs(page))

    def fill(match: re.Match[str]) -> str:
        printed = next(found)
        block = f"```python\n{match['code']}```\n"
        return block + (f"\n```text\n{printed}```\n" if printed or match["output"] is not None else "")

    return PAIR.sub(fill, page.read_text())


def main() -> None:
    """Check or rewrite."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="names such as guide.md; all by default")
    parser.add_argument("--write", action="store_true", help="rewrite the text blocks")
    arguments = parser.parse_args()
    differ = False
    for page in pages(arguments.pages):
        old, new = page.read_text(), rewritten(page)
        if arguments.write:
            page.write_text(new)
        elif old != new:
            differ = True
            lines = difflib.unified_diff(old.splitlines(), new.splitlines(), page.name, "what it prints", lineterm="", n=1)
            print("\n".join(lines))
        print(f"{page.name}: {'written' if arguments.write else 'differs' if old != new else 'as it says'}")
    sys.exit(differ)


if __name__ == "__main__":
    main()
