"""Kernels of this library for other libraries; each module needs that library, and nothing else
imports it.
"""

from __future__ import annotations

import importlib
from typing import Any

_SUBMODULES = ("gpytorch",)


def __getattr__(name: str) -> Any:
    """A module, imported when it is first used."""
    if name not in _SUBMODULES:
        raise AttributeError(f"module 'mnngp.interop' has no attribute {name!r}")
    return importlib.import_module(f"mnngp.interop.{name}")
