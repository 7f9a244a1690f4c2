"""The code of the README and of the documentation runs as it stands, page by page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_code_runs(page, tmp_path):
    code = "\n".join(BLOCK.findall(page.read_text()))
    # scikit-learn's optimiser may end at a bound, and says so; everything else is an error
    settings = ["-W", "error", "-W", "ignore:The optimal value found:UserWarning"]
    result = subprocess.run(
        [sys.executable, *settings, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, _ in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_first_commands_are_named():
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
