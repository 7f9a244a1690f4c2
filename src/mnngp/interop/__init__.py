"""Kernels of this library for other libraries; each module needs that library, and nothing else
imports it.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """A module, imported when it is first used."""
    if name == "gpytorch":
        return importlib.import_module("mnngp.interop.gpytorch")
    raise AttributeError(f"module 'mnngp.interop' has no attribute {name!r}")
