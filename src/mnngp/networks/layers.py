"""The layers of a network. Activations are layers as well: see ``mnngp.activations``."""

from __future__ import annotations

from dataclasses import dataclass

from mnngp import _validation
from mnngp.activations import Activation
from mnngp.errors import InputError

Pair = tuple[int, int]
Window = int | tuple[int] | tuple[int, int]


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


@dataclass(frozen=True)
class Conv:
    """A convolution with infinitely many random channels.

    Its weights have the variance ``weight_var / (channels · window)``, so that a window of equal
    pixels is what an image of one pixel is to ``Dense``.

    Attributes
    ----------
    size : int, or pair of ints
        Height and width of the window; ``(3,)`` is a window of signals only.
    stride : int, or pair of ints
        How far apart windows are.
    padding : "same", "valid" or "circular"
        What a window sees beyond the border: zeros, and there are as many windows as pixels; no
        window reaches beyond it; or the other side of the image.

    Examples
    --------
    >>> Conv(3), Conv((5, 1), stride=2, padding="valid")
    (Conv(3), Conv((5, 1), stride=2, padding='valid'))
    """

    size: Window
    stride: Window = 1
    padding: str = "same"

    def __post_init__(self) -> None:
        _check_window("size", self.size)
        _check_window("stride", self.stride)
        _validation.one_of("padding", self.padding, ("same", "valid", "circular"))

    def __repr__(self) -> str:
        padding = "" if self.padding == "same" else f", padding={self.padding!r}"
        return f"Conv({self.size}{_stride(self.stride, 1)}{padding})"


@dataclass(frozen=True)
class AvgPool:
    """The mean over windows, all of which are inside of the image.

    Attributes
    ----------
    size : int, or pair of ints
        Height and width of the window.
    stride : int, or pair of ints, optional
        How far apart windows are; as far as they are large by default.
    """

    size: Window
    stride: Window | None = None

    def __post_init__(self) -> None:
        _check_window("size", self.size)
        if self.stride is not None:
            _check_window("stride", self.stride)

    def __repr__(self) -> str:
        return f"AvgPool({self.size}{_stride(self.stride, None)})"


@dataclass(frozen=True)
class GlobalAvgPool:
    """The readout of the mean over all positions; a ``Dense`` follows by itself."""


@dataclass(frozen=True)
class Flatten:
    """The readout of all positions, each with weights of its own; a ``Dense`` follows by itself."""


def _check_window(name: str, value: object) -> None:
    if not isinstance(value, tuple):
        _validation.positive_int(name, value)
    elif len(value) not in {1, 2}:
        raise InputError(f"{name} must be a positive integer or a pair of them, got {value!r}")
    else:
        for index, part in enumerate(value):
            _validation.positive_int(f"{name}[{index}]", part)


def _stride(value: Window | None, usual: int | None) -> str:
    return "" if value == usual else f", stride={value}"


Readout = GlobalAvgPool | Flatten
Spatial = Conv | AvgPool | GlobalAvgPool | Flatten
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
