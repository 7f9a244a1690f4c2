"""Infinitely wide maxout networks as Gaussian processes.

The names below are the public interface, modules included. They are imported when first used, so
that ``import mnngp`` and ``mnngp --help`` are quick; the compiled code is loaded with the first
kernel matrix.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mnngp import (
        activations,
        data,
        errors,
        estimators,
        experiments,
        finite,
        inference,
        interop,
        kernels,
        plots,
        theory,
    )
    from mnngp.activations import (
        GELU,
        Abs,
        Activation,
        Erf,
        LeakyReLU,
        Maxout,
        ReLU,
        Tanh,
    )
    from mnngp.estimators import MaxoutGPClassifier, MaxoutGPRegressor, load
    from mnngp.finite import MaxoutNetwork  # noqa: F401
    from mnngp.kernels import MaxoutKernel, NetworkKernel
    from mnngp.networks import AvgPool, Conv, Embedding, Flatten, GlobalAvgPool

__version__ = "0.2.0.dev0"

_HOME = {
    "mnngp.activations": (
        "Activation",
        "Maxout",
        "ReLU",
        "LeakyReLU",
        "Abs",
        "Erf",
        "Tanh",
        "GELU",
    ),
    "mnngp.networks": ("Conv", "AvgPool", "GlobalAvgPool", "Flatten", "Embedding"),
    "mnngp.kernels": ("MaxoutKernel", "NetworkKernel"),
    "mnngp.estimators": ("MaxoutGPClassifier", "MaxoutGPRegressor", "load"),
    # needs PyTorch, and so is not in __all__: a star import must work without
    "mnngp.finite": ("MaxoutNetwork",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "GELU",
    "Abs",
    "Activation",
    "AvgPool",
    "Conv",
    "Embedding",
    "Erf",
    "Flatten",
    "GlobalAvgPool",
    "LeakyReLU",
    "Maxout",
    "MaxoutGPClassifier",
    "MaxoutGPRegressor",
    "MaxoutKernel",
    "NetworkKernel",
    "ReLU",
    "Tanh",
    "__version__",
    "activations",
    "data",
    "errors",
    "estimators",
    "experiments",
    "finite",
    "inference",
    "interop",
    "kernels",
    "load",
    "plots",
    "theory",
]
_SUBMODULES = tuple(name for name in __all__ if name not in {"__version__", *_MODULE})


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"mnngp.{name}")
    if name not in _MODULE:
        raise AttributeError(f"module 'mnngp' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
