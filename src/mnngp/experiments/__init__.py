"""The paper's experiments: protocols, sweeps, stores of results, tables, reports; convergence."""

from __future__ import annotations

import importlib
from pkgutil import iter_modules
from typing import Any


def __getattr__(name: str) -> Any:
    """A module, imported when it is first used."""
    if name not in {module.name for module in iter_modules(__path__)}:
        raise AttributeError(f"module 'mnngp.experiments' has no attribute {name!r}")
    return importlib.import_module(f"mnngp.experiments.{name}")
