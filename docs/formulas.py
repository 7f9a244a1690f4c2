"""Formulas are rendered when the site is built: a hook of MkDocs.

KaTeX (docs/vendor/katex) runs here, in a JavaScript engine that comes as a Python package, and the
pages hold what it made. So they show their formulas without a script, at once, offline and from
disk; and a formula with a mistake stops ``make docs`` (it is strict) instead of showing red.

Arithmatex marks the formulas. Until a page is finished each stands as plain text (``F_q(ρ)``): that
is what the search finds and shows. Its TeX waits in an attribute.
"""

import html
import json
import logging
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from py_mini_racer import JSEvalException, MiniRacer

KATEX = Path(__file__).parent / "vendor" / "katex" / "katex.min.js"
MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
WAITING = re.compile(
    r'<(?P<tag>span|div) class="arithmatex" data-tex="(?P<tex>[^"]*)">.*?</(?P=tag)>', re.DOTALL
)
SIGNS = {
    "sqrt": "√", "sum": "Σ", "int": "∫", "le": "≤", "ge": "≥", "approx": "≈", "cdot": "·",
    "times": "×", "infty": "∞", "partial": "∂", "to": "→", "pm": "±", "langle": "⟨", "rangle": "⟩",
    "circ": "∘", "varepsilon": "ε", "varphi": "φ", "top": "ᵀ", "ell": "ℓ", "frac": " ",
}  # fmt: skip
LAYOUT = re.compile(
    r"\\(begin|end)\{\w+\}|\\(left|right|[Bb]ig[glr]*|q?quad|math\w+|text|operatorname|tilde|hat|bar)"
    r"(?![a-z])|\\\\(\[\w+\])?|\\[^A-Za-z]|&"
)
FRACTION = re.compile(r"\\t?frac\s*(\d|\{[^{}]*\})\s*(\d|\{[^{}]*\})")
log = logging.getLogger("mkdocs.hooks.formulas")


@cache
def _engine() -> MiniRacer:
    """KaTeX, loaded once."""
    engine = MiniRacer()
    engine.eval(KATEX.read_text(encoding="utf-8"))
    return engine


@cache
def rendered(tex: str, display: bool) -> str:
    """A formula as HTML, with MathML for those who listen."""
    options = {"displayMode": display, "throwOnError": True, "strict": "ignore"}
    call = f"katex.renderToString({json.dumps(tex)}, {json.dumps(options)})"
    return str(_engine().eval(call))


def plain(tex: str) -> str:
    """A formula in letters, for the search."""

    def sign(match: re.Match[str]) -> str:
        name = match[1]
        case = "CAPITAL" if name[0].isupper() else "SMALL"
        try:
            greek = unicodedata.lookup(
                f"GREEK {case} LETTER {name.lower().replace('lambda', 'lamda')}"
            )
        except KeyError:
            greek = name
        return SIGNS.get(name, greek)

    text = LAYOUT.sub(" ", FRACTION.sub(r"\1/\2", tex))
    text = re.sub(r"\\([A-Za-z]+)", sign, text)
    return " ".join(re.sub(r"[{}]", "", text).split())


def on_page_content(content: str, **_: Any) -> str:
    """Plain text in place of TeX, before the search reads the page."""

    def wait(match: re.Match[str]) -> str:
        tex = html.unescape(match["tex"]).strip()
        tag, text = match["tag"], html.escape(plain(tex))
        return f'<{tag} class="arithmatex" data-tex="{html.escape(tex)}">{text}</{tag}>'

    return MARKED.sub(wait, content)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """The formulas of a finished page."""

    def render(match: re.Match[str]) -> str:
        tex, tag = html.unescape(match["tex"]), match["tag"]
        try:
            formula = rendered(tex, tag == "div")
        except JSEvalException as error:
            reason = str(error).partition("\n")[0]
            log.warning("%s: a formula cannot be shown, %s: %s", page.file.src_uri, reason, tex)
            formula = f'<span class="katex-error">{html.escape(tex)}</span>'
        return f'<{tag} class="arithmatex">{formula}</{tag}>'

    return WAITING.sub(render, output)
