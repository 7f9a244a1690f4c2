"""Maxout networks of finite width. They need PyTorch (``pip install "mnngp[torch]"``), which is imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mnngp.errors import MissingExtraError
from mnngp.finite.schedule import Training

if TYPE_CHECKING:
    from mnngp.finite.network import MaxoutNetwork
    from mnngp.finite.training import History, predict, train

_HOME = {
    "network": ("MaxoutNetwork",),
    "training": ("History", "predict", "train"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = ["History", "MaxoutNetwork", "Training", "predict", "train"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'mnngp.finite' has no attribute {name!r}")
    require_torch()
    return getattr(importlib.import_module(f"mnngp.finite.{_MODULE[name]}"), name)


def require_torch() -> None:
    """Raise ``MissingExtraError`` if there is no PyTorch."""
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise MissingExtraError('finite networks need PyTorch: pip install "mnngp[torch]"') from error
