"""How to cite: the page says what CITATION.cff says."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_page_agrees_with_the_citation_file():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    software, paper = citation.split("references:\n")
    page = (ROOT / "docs" / "cite.md").read_text(encoding="utf-8")
    entries = {
        kind: dict(re.findall(r"^ +(\w+) += \{(.*)\},?$", body, re.MULTILINE))
        for kind, body in re.findall(r"```bibtex\n@(\w+)\{\w+,\n(.*?)\n\}\n```", page, re.DOTALL)
    }
    assert list(entries) == ["article", "software"]

    def given(part, key):
        return [
            value.strip('"')
            for value in re.findall(rf"^(?: *- )?\s*{key}: (.+)$", part, re.MULTILINE)
        ]

    (title,), (version,), (date,), (licence,) = (
        given(software, key) for key in ("title", "version", "date-released", "license")
    )
    assert entries["software"] == {
        "title": title.replace("mnngp", "{mnngp}"),
        "author": "{" + "} and {".join(given(software, "name")) + "}",
        "version": version,
        "date": date,
        "license": licence,
    }
    (title,), (year,), (url,) = (given(paper, key) for key in ("title", "year", "url"))
    families, firsts = given(paper, "family-names"), given(paper, "given-names")
    people = [f"{family}, {first}" for family, first in zip(families, firsts, strict=True)]
    assert entries["article"] == {
        "title": title,
        "author": " and ".join(people),
        "year": year,
        "eprint": url.rpartition("/")[2],
        "archivePrefix": "arXiv",
        "url": url,
    }
    assert len(people) == 3
    assert url in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
