"""Optional packages: asked for before any work, not after minutes of it."""

from __future__ import annotations

import importlib

from mnngp.errors import MissingExtraError

_TITLES = {"matplotlib": "Matplotlib", "jinja2": "Jinja2", "plotly": "Plotly"}


def require(purpose: str, *packages: str) -> None:
    """Raise ``MissingExtraError`` unless these packages of "experiments" can be imported."""
    missing, reason = [], None
    for name in packages:
        try:
            importlib.import_module(name)
        except ImportError as error:
            missing.append(_TITLES.get(name, name))
            reason = error
    if missing:
        raise MissingExtraError(
            f'{purpose} need {" and ".join(missing)}: pip install "mnngp[experiments]"'
        ) from reason
