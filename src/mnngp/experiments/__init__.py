"""The paper's experiments: protocols, sweeps, stores of results, tables and reports."""

from __future__ import annotations

import importlib
from typing import Any

_SUBMODULES = (
    "cells",
    "cluster",
    "figures",
    "paper",
    "protocol",
    "report",
    "runner",
    "selection",
    "store",
    "tables",
)


def __getattr__(name: str) -> Any:
    """A module, imported when it is first used."""
    if name not in _SUBMODULES:
        raise AttributeError(f"module 'mnngp.experiments' has no attribute {name!r}")
    return importlib.import_module(f"mnngp.experiments.{name}")
