"""A convolutional network: its layers, and what becomes of the shape of an image in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mnngp import _validation
from mnngp.activations import Activation
from mnngp.errors import InputError
from mnngp.networks.layers import (
    AvgPool,
    Block,
    Conv,
    Dense,
    Flatten,
    GlobalAvgPool,
    Pair,
    Readout,
    Spatial,
    Window,
)
from mnngp.networks.network import as_dtype

SpatialLayer = Spatial | Activation


@dataclass(frozen=True)
class Place:
    """A layer in its place: the shapes before and behind it, and where its windows are."""

    layer: Conv | AvgPool
    before: Pair
    behind: Pair
    size: Pair
    stride: Pair
    pad: Pair  # rows above, and columns left of the image that windows see


@dataclass(frozen=True)
class ConvolutionalNetwork:
    """Everything of a network with infinitely many channels that its kernel depends on.

    Attributes
    ----------
    layers : tuple of Conv, Activation and AvgPool, and a readout
        From the images on.
    affine : tuple of Dense
        The variances of each convolution, and those of the map behind the readout.
    tangent : bool
        Whether the tangent kernel is meant (NTK), or the covariance at initialisation (NNGP).
    dtype : numpy.dtype
        Of the computation.
    flips : bool
        Whether the kernel is the mean over both images and their mirror images.
    """

    layers: tuple[SpatialLayer, ...]
    affine: tuple[Dense, ...]
    tangent: bool
    dtype: np.dtype[Any]
    flips: bool = False

    @staticmethod
    def of(
        layers: Sequence[SpatialLayer],
        weight_var: Any,
        bias_var: Any,
        kind: str,
        dtype: Any,
        flips: bool = False,
    ) -> ConvolutionalNetwork:
        """Put a network together; one variance for all affine maps, or one for each."""
        check_order(layers)
        count = 1 + sum(isinstance(layer, Conv) for layer in layers)
        weights = _validation.variances("weight_var", weight_var, count, zero=False)
        biases = _validation.variances("bias_var", bias_var, count, zero=True)
        tangent = _validation.one_of("kind", kind, ("nngp", "ntk")) == "ntk"
        if not isinstance(flips, bool | np.bool_):
            raise InputError(f"flips must be True or False, got {flips!r}")
        affine = tuple(Dense(float(w), float(b)) for w, b in zip(weights, biases, strict=True))
        return ConvolutionalNetwork(tuple(layers), affine, tangent, as_dtype(dtype), bool(flips))

    @property
    def depth(self) -> int:
        """The number of activations."""
        return sum(isinstance(layer, Activation) for layer in self.layers)

    @property
    def readout(self) -> Readout:
        """What the last layer does with the positions."""
        return self.layers[-1]  # type: ignore[return-value]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Each convolution with the activation behind it, and the map behind the readout."""
        maps, blocks = iter(self.affine), []
        for layer, following in zip(self.layers, (*self.layers[1:], None), strict=True):
            if isinstance(layer, Conv):
                dense = next(maps)
                unit = following if isinstance(following, Activation) else None
                blocks.append(Block(unit, dense.weight_var, dense.bias_var))
        return (*blocks, Block(None, self.affine[-1].weight_var, self.affine[-1].bias_var))

    @property
    def of_signals(self) -> bool | None:
        """Whether windows have one dimension, or two; None if that is not said."""
        windows = [
            window
            for layer in self.layers
            if isinstance(layer, Conv | AvgPool)
            for window in (layer.size, layer.stride)
            if isinstance(window, tuple)
        ]
        return len(windows[0]) == 1 if windows else None

    def places(self, shape: Pair, *, signal: bool = False) -> list[Place]:
        """Convolutions and poolings for images of a shape; raises where nothing is left of them.

        A ``signal`` is an image of one column, and its windows have one, too.
        """
        places: list[Place] = []
        for index, layer in enumerate(self.layers):
            if isinstance(layer, Conv | AvgPool):
                place = _place(f"layers[{index}], {layer!r},", layer, shape, signal)
                places.append(place)
                shape = place.behind
        return places

    def mirrors(self, shape: Pair, *, signal: bool = False) -> bool:
        """Whether the mirror image of a picture goes through the layers as its mirror image."""
        axis = 0 if signal else 1
        return all(
            (place.behind[axis] - 1) * place.stride[axis] + place.size[axis] - place.before[axis]
            == 2 * place.pad[axis]
            for place in self.places(shape, signal=signal)
        )

    def up_to(self, depth: int) -> ConvolutionalNetwork:
        """The same network, its readout behind the first ``depth`` activations."""
        if depth == self.depth:
            return self
        ends = [index for index, one in enumerate(self.layers) if isinstance(one, Activation)]
        layers = self.layers[: ends[depth - 1] + 1]
        convolutions = sum(isinstance(layer, Conv) for layer in layers)
        return replace(
            self,
            layers=(*layers, self.readout),
            affine=(*self.affine[:convolutions], self.affine[-1]),
        )

    def __str__(self) -> str:
        maps = iter(self.affine)
        shown = []
        for layer in self.layers:
            dense = next(maps) if isinstance(layer, Conv) else None
            shown.append(str(layer) if dense is None else f"{layer!r} {str(dense)[5:]}")
        return " → ".join([*shown, str(self.affine[-1])])


def _place(name: str, layer: Conv | AvgPool, shape: Pair, signal: bool) -> Place:
    """What a layer makes of a shape."""
    stride = layer.size if layer.stride is None else layer.stride
    (high, wide), (down, right) = (_pair(name, value, signal) for value in (layer.size, stride))
    if isinstance(layer, AvgPool) or layer.padding == "valid":
        behind = ((shape[0] - high) // down + 1, (shape[1] - wide) // right + 1)
        if high > shape[0] or wide > shape[1]:
            raise InputError(
                f"{name} needs at least {high} × {wide} positions, and gets {shape[0]} × "
                f"{shape[1]}: use larger images, smaller windows or strides before it"
                + (", or padding='same'" if isinstance(layer, Conv) else "")
            )
        return Place(layer, shape, behind, (high, wide), (down, right), (0, 0))
    if layer.padding == "circular" and (shape[0] % down or shape[1] % right):
        raise InputError(
            f"{name} must have a stride that divides the {shape[0]} × {shape[1]} positions that it "
            "gets, so that the image goes on behind its border"
        )
    behind = (-(-shape[0] // down), -(-shape[1] // right))
    pad = tuple(
        max(0, (count - 1) * step + size - length) // 2
        for count, step, size, length in zip(
            behind, (down, right), (high, wide), shape, strict=True
        )
    )
    return Place(layer, shape, behind, (high, wide), (down, right), pad)  # type: ignore[arg-type]


def _pair(name: str, value: Window, signal: bool) -> Pair:
    if isinstance(value, int):
        return (value, 1 if signal else value)
    if signal != (len(value) == 1):
        raise InputError(
            f"{name} has windows of {'two dimensions' if signal else 'one dimension'}, and gets "
            f"{'signals' if signal else 'images'}"
        )
    return (value[0], 1 if signal else value[1])  # type: ignore[misc]


def check_order(layers: Sequence[Any]) -> None:
    """Refuse what is no network: the error names the layer by its place."""
    for index, layer in enumerate(layers):
        name = f"layers[{index}], {layer!r},"
        before = layers[index - 1] if index else None
        last = index == len(layers) - 1
        if isinstance(layer, Activation) and not isinstance(before, Conv):
            raise InputError(
                f"{name} must stand behind a convolution, whose sums it takes; it stands "
                + (f"behind {before!r}" if index else "first")
            )
        if isinstance(layer, GlobalAvgPool | Flatten) and not last:
            raise InputError(
                f"{name} is a readout and must be the last layer (a Dense map to the output "
                f"follows by itself); layers[{index + 1}], {layers[index + 1]!r}, stands behind it"
            )
        if last and not isinstance(layer, GlobalAvgPool | Flatten):
            raise InputError(
                f"{name} is the last layer: a convolutional network ends with a readout, "
                "GlobalAvgPool() or Flatten()"
            )
    paddings: list[tuple[int, Conv]] = []
    for index, layer in enumerate(layers):
        if isinstance(layer, AvgPool):
            paddings = []
        if isinstance(layer, Conv):
            paddings.append((index, layer))
            kinds = {one.padding == "circular" for _, one in paddings}
            if len(kinds) > 1:
                raise InputError(
                    f"layers[{index}], {layer!r}, and layers[{paddings[0][0]}], "
                    f"{paddings[0][1]!r}, cannot follow each other without a pooling between them: "
                    "padding='circular' goes with itself only"
                )
