"""The layers of a network. Activations are layers as well: see ``mnngp.activations``."""

from __future__ import annotations

from dataclasses import dataclass

from mnngp.activations import Activation


@dataclass(frozen=True)
class Dense:
    """An affine map, wide and random.

    Attributes
    ----------
    weight_var : float
        Variance of the weights times the number of inputs, σ_w² in the paper.
    bias_var : float
        Variance of the biases, σ_b² in the paper.
    """

    weight_var: float
    bias_var: float

    def __str__(self) -> str:
        return f"Dense({self.weight_var:.4g}, {self.bias_var:.4g})"


Layer = Dense | Activation


@dataclass(frozen=True)
class Block:
    """An activation and the affine map behind it: one step of the recursion.

    ``activation`` is None for the affine map of the inputs.
    """

    activation: Activation | None
    weight_var: float
    bias_var: float

    @property
    def homogeneous(self) -> bool:
        """Whether one correlation map serves every variance; the inputs' identity does."""
        return self.activation is None or self.activation.homogeneous
