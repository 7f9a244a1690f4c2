"""Activations: what one layer does to a pair of correlated Gaussians."""

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
