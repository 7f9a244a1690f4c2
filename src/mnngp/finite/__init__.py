"""Maxout networks of finite width, in PyTorch (``pip install "mnngp[torch]"``).

PyTorch is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mnngp.errors import MissingExtraError
from mnngp.finite.schedule import Training

if TYPE_CHECKING:
    from mnngp.finite.conv_network import ConvMaxoutNetwork
    from mnngp.finite.maxout_network import MaxoutNetwork
    from mnngp.finite.sampling import Draws, draw_values, draw_weights
    from mnngp.finite.tangent import gradient_descent, tangent_kernel
    from mnngp.finite.training import History, predict, train

__all__ = [
    "ConvMaxoutNetwork",
    "Draws",
    "History",
    "MaxoutNetwork",
    "Training",
    "draw_values",
    "draw_weights",
    "gradient_descent",
    "predict",
    "tangent_kernel",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        require_torch()
        for home in ("maxout_network", "conv_network", "sampling", "training", "tangent"):
            module = importlib.import_module(f"mnngp.finite.{home}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module 'mnngp.finite' has no attribute {name!r}")


def require_torch() -> None:
    """Raise ``MissingExtraError`` if there is no PyTorch."""
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise MissingExtraError(
            'finite networks need PyTorch: pip install "mnngp[torch]"'
        ) from error
