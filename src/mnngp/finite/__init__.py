"""Maxout networks of finite width. They need PyTorch (``pip install "mnngp[torch]"``), which is
imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mnngp.errors import MissingExtraError
from mnngp.finite.schedule import Training

if TYPE_CHECKING:
    from mnngp.finite.convergence import agreement, exact_kurtosis, tangent_agreement
    from mnngp.finite.descent import descend, descent_agreement
    from mnngp.finite.network import MaxoutNetwork
    from mnngp.finite.sampling import Draws, draw_values, draw_weights
    from mnngp.finite.study import Study, convergence_study
    from mnngp.finite.tangent import tangent_kernel
    from mnngp.finite.training import History, predict, train

_HOME = {
    "convergence": ("agreement", "exact_kurtosis", "tangent_agreement"),
    "descent": ("descend", "descent_agreement"),
    "network": ("MaxoutNetwork",),
    "sampling": ("Draws", "draw_values", "draw_weights"),
    "study": ("Study", "convergence_study"),
    "tangent": ("tangent_kernel",),
    "training": ("History", "predict", "train"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Draws",
    "History",
    "MaxoutNetwork",
    "Study",
    "Training",
    "agreement",
    "convergence_study",
    "descend",
    "descent_agreement",
    "draw_values",
    "draw_weights",
    "exact_kurtosis",
    "predict",
    "tangent_agreement",
    "tangent_kernel",
    "train",
]


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
        raise MissingExtraError(
            'finite networks need PyTorch: pip install "mnngp[torch]"'
        ) from error
