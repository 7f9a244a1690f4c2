"""Activations: what one layer does to a pair of correlated Gaussians.

A new one is a ``HomogeneousActivation`` (give its ``profile``) or a ``SmoothActivation`` (give
``function`` and ``slope``). Kernels, theory and GPyTorch then know it; for the rest it is named
here and in ``mnngp/__init__.py``, in ``experiments/protocol.py`` for sweeps, in
``estimators/model_kernel.py`` for model files, and in the lists of tests/activations.
"""

from mnngp.activations.base import Activation, HomogeneousActivation
from mnngp.activations.maxout import Maxout
from mnngp.activations.piecewise import Abs, LeakyReLU, ReLU
from mnngp.activations.smooth import GELU, Erf, SmoothActivation, Tanh

__all__ = [
    "GELU",
    "Abs",
    "Activation",
    "Erf",
    "HomogeneousActivation",
    "LeakyReLU",
    "Maxout",
    "ReLU",
    "SmoothActivation",
    "Tanh",
]
