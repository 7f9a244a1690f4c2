"""Look at the built site in a real browser, from disk: pictures of every page, and what is wrong.

    make docs && python docs/screenshots.py            all pages, to screenshots/
    python docs/screenshots.py maths guide             some of them
    python docs/screenshots.py --no-pictures           what is wrong, only

Every page is opened at 1,200 and 390 pixels, in light and dark, and told if it scrolls sideways,
if a script fails or the network is asked for anything, and if a formula is not rendered; then the
links of all pages are followed, anchors included, and the search is asked. Ends with an error if
anything was found. To be run, and the pictures to be looked at, before a release. It needs Chromium
and no package: tests/browser.py speaks to it.
"""

import argparse
import base64
import re
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.browser import PROGRAM, Browser  # noqa: E402

WIDTHS = (1200, 390)
TALLEST = 6000  # a taller picture is cut: browsers cannot draw any height, and nobody reads it
QUERIES = {"critical_weight_var": "API", "posterior": "mathematics", "F_q": "mathematics"}

# what stands beyond the right edge, and is not in something that scrolls by itself
WIDE = """(() => {
  const edge = document.documentElement.clientWidth, found = [];
  if (document.documentElement.scrollWidth <= edge) return found;
  const own = e => getComputedStyle(e).overflowX != "visible";
  const scrolls = e => !e.matches(".md-container") && (own(e) || scrolls(e.parentElement));
  for (const e of document.querySelectorAll(".md-container *"))
    if (e.getBoundingClientRect().right > edge + 1 && !scrolls(e.parentElement))
      found.push(e.tagName + "." + e.className + " " + e.textContent.trim().slice(0, 60));
  return found.length ? found.slice(0, 5) : ["the page"];
})()"""
# TeX that a reader would see, code aside
UNRENDERED = r"""(() => {
  const found = [...document.querySelectorAll(".katex-error, .arithmatex:not(:has(.katex))")]
    .map(e => e.textContent);
  const walk = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode());)
    if (!node.parentElement.closest("code, pre, script, style, .katex") &&
        /\\[([\])]|\\[a-z]{3,}|\$[^$]+\$|\$\$/.test(node.data)) found.push(node.data.trim());
  return found.map(text => text.slice(0, 80));
})()"""
BROKEN_IMAGES = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"


class Page(HTMLParser):
    """What a page links to, and what can be linked to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.links, self.anchors = path, set[str](), set[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep addresses and anchors."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif (name == "id" or (tag == "a" and name == "name")) and value:
                self.anchors.add(value)


def pages(site: Path) -> list[Path]:
    """All pages of the site; the one for addresses that do not exist is only made for a server."""
    return sorted(path for path in site.rglob("*.html") if path.name != "404.html")


def broken_links(site: Path) -> Iterator[str]:
    """Links within the site that lead nowhere."""
    known = {path.resolve(): Page(path) for path in pages(site)}
    for path, page in known.items():
        for link in sorted(page.links):
            if urlsplit(link).scheme:
                continue
            address, anchor = urldefrag(urljoin(path.as_uri(), link))
            target = Path(unquote(urlsplit(address).path))
            name = path.relative_to(site.resolve())
            if not target.is_file():
                yield f"{name}: links to {link}, which does not exist"
            # the theme marks pictures for light or dark this way, and its own checkboxes
            elif anchor.startswith(("only-", "__")) or target not in known:
                continue
            elif anchor and unquote(anchor) not in known[target].anchors:
                yield f"{name}: links to {link}, an anchor that does not exist"


class SiteBrowser(Browser):  # type: ignore[misc]  # the tests have no types
    """A browser for pages that do not say when they are ready."""

    def look(self, url: str, width: int) -> None:
        """Load a page, with its fonts and pictures."""
        self.open(url, width=width, height=900)
        self.value("document.fonts.ready.then(() => 1)")
        # pictures that load late are behind what is seen
        self.value("document.querySelectorAll('img').forEach(i => i.loading = 'eager')")
        self.wait("[...document.images].every(i => i.complete)")

    def shade(self, dark: bool) -> None:
        """Choose light or dark as a reader does: the choice is kept from page to page."""
        scheme = "slate" if dark else "default"
        self.value(f"document.querySelector('input[data-md-color-scheme={scheme}]').click()")
        if not self.wait(f"document.body.dataset.mdColorScheme == '{scheme}'"):
            raise RuntimeError(f"the page does not become {scheme}")

    def value(self, expression: str) -> Any:
        """A value of the page; the reports' sign of being ready is not theirs."""
        if expression == "document.documentElement.dataset.ready":
            return "yes"
        return super().value(expression)

    def wait(self, expression: str, seconds: float = 10.0) -> bool:
        """Whether something becomes true."""
        deadline = time.monotonic() + seconds
        while not self.value(f"Boolean({expression})"):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def complaints(self) -> list[str]:
        """What went wrong, in few words."""
        words = re.compile(r'"(?:text|description|url|value)": "(.*?)(?:\\\\n.*?)?"')
        return [" ".join(dict.fromkeys(words.findall(one))) for one in super().complaints()]

    def pictures(self, folder: Path, name: str, width: int) -> None:
        """Write the whole page, in parts."""
        height = int(self.call("Page.getLayoutMetrics")["cssContentSize"]["height"])
        for part, top in enumerate(range(0, height, TALLEST)):
            size = min(TALLEST, height - top)
            clip = {"x": 0, "y": top, "width": width, "height": size, "scale": 1}
            data = self.call(
                "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
            )["data"]
            end = f"-{part + 1}" if height > TALLEST else ""
            (folder / f"{name}{end}.png").write_bytes(base64.b64decode(data))


def faults(browser: SiteBrowser, width: int) -> Iterator[str]:
    """What is wrong with the page that is open."""
    yield from (f"scrolls sideways at {width}: {one}" for one in browser.value(WIDE))
    yield from (f"not rendered: {one}" for one in browser.value(UNRENDERED))
    yield from (f"picture does not load: {one}" for one in browser.value(BROKEN_IMAGES))
    yield from (f"complains: {one}" for one in browser.complaints())
    asked = [url for url in browser.requests() if not url.startswith("file:")]
    yield from (f"asks the network for {url}" for url in asked)


def search_faults(browser: SiteBrowser, site: Path) -> Iterator[str]:
    """Searches, from disk, that do not find the page they should."""
    for query, expected in QUERIES.items():
        browser.look(f"{(site / 'index.html').resolve().as_uri()}?q={query}", WIDTHS[0])
        if not browser.wait("document.querySelector('.md-search-result__item')"):
            yield f"search: nothing is found for {query}; {browser.complaints()}"
            continue
        found = browser.value(
            "[...document.querySelectorAll('.md-search-result__item h1')].map(e => e.textContent)"
        )
        if not any(expected in title for title in found):
            yield f"search: {query} finds {found}, not {expected}"


def inspect(site: Path, names: list[str], folder: Path | None) -> Iterator[str]:
    """Everything that is wrong, a line each; pictures are written on the way."""
    with SiteBrowser() as browser:
        for path in pages(site):
            name = path.relative_to(site).with_suffix("").as_posix()
            if names and name not in names:
                continue
            seen = set[str]()
            for width in WIDTHS:
                browser.look(path.resolve().as_uri(), width)
                for shade in ("light", "dark"):
                    browser.shade(shade == "dark")
                    seen.update(faults(browser, width))
                    if folder:
                        stem = f"{name.replace('/', '-')}-{width}-{shade}"
                        browser.pictures(folder, stem, width)
            yield from (f"{name}: {one}" for one in sorted(seen))
        yield from search_faults(browser, site)
    yield from broken_links(site)


def main() -> None:
    """Look, and say what is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", help="names such as guide; all by default")
    parser.add_argument("--site", type=Path, default=ROOT / "site")
    parser.add_argument("--output", type=Path, default=ROOT / "screenshots")
    parser.add_argument("--no-pictures", action="store_true")
    arguments = parser.parse_args()
    if PROGRAM is None:
        parser.error("there is no Chromium")
    if not pages(arguments.site):
        parser.error(f"no pages in {arguments.site}: make docs builds them")
    folder = None if arguments.no_pictures else arguments.output
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for line in inspect(arguments.site, arguments.pages, folder):
        print(line, flush=True)
        count += 1
    print(f"{count} faults" + (f"; pictures in {folder}" if folder else ""))
    sys.exit(count > 0)


if __name__ == "__main__":
    main()
