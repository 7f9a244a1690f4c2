"""What a network is made of, as far as its kernel can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mnngp.activations import Activation


@dataclass(frozen=True)
class Layer:
    """An activation and the affine map behind it; ``activation`` is None for the map of the
    inputs.
    """

    activation: Activation | None
    weight_var: float
    bias_var: float


@dataclass(frozen=True)
class Network:
    """Everything of an infinitely wide network that its kernel depends on.

    Layer 0 is the affine map of the inputs; layer l the l-th activation and the affine map behind
    it. The kernel at depth l is the covariance behind layer l, the theorem's ``G ∘ (H ∘ G)^l``, eq.
    (32), and not the recursion that eq. (20) prints (label 18 in the paper's source); see
    docs/paper.md.
    """

    layers: tuple[Layer, ...]
    tangent: bool
    dtype: np.dtype[Any]

    @property
    def depth(self) -> int:
        return len(self.layers) - 1
