"""The kernel of a network that is given layer by layer, fully connected or convolutional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp.activations import Activation, HomogeneousActivation, SmoothActivation
from mnngp.errors import InputError
from mnngp.kernels.sklearn import Bounds, DeepKernel
from mnngp.networks.convolutional import ConvolutionalNetwork
from mnngp.networks.embedding import Embedding
from mnngp.networks.layers import AvgPool, Conv, Flatten, GlobalAvgPool, Spatial
from mnngp.networks.network import Network, as_dtype

if TYPE_CHECKING:
    from mnngp.kernels.points import Points

_SPATIAL = (Conv, AvgPool, GlobalAvgPool, Flatten)


class NetworkKernel(DeepKernel):
    """The kernel of an infinitely wide network with any activations, layer by layer.

    A network with convolutions has infinitely many channels, and a readout at its end.

    Parameters
    ----------
    layers : sequence of Activation; or of Conv, AvgPool, Activation, and GlobalAvgPool or Flatten
        From the input on. Of a fully connected network only the activations are listed: an affine
        map stands before each of them, and one at the end; an ``Embedding`` may be the first. Of a
        convolutional one all layers are, but for the affine map behind the readout.
    weight_var : float, or sequence of floats
        Variance of the weights (times the fan-in): one for all affine maps, or one for each, that
        behind the last layer included.
    bias_var : float, or sequence of floats
        Variance of the biases, likewise.
    kind : "nngp" or "ntk"
        This and what follows are as for ``MaxoutKernel``.
    dtype : "float64" or "float32"
        Type of the matrices.
    weight_var_bounds, bias_var_bounds : pair of floats or "fixed"
        Between which an optimiser may choose the variances.
    image_shape : (height, width), (height, width, channels) or None
        Of the images of a convolutional network, which may then be rows of all their pixels; for
        windows of one dimension the (length, channels) of signals. Without it images are
        (n, height, width, channels) or, with one channel, (n, height, width); signals are
        (n, length, channels). Where windows do not tell, three dimensions are signals if they are
        more than twice as long as they have channels.
    flips : bool
        Whether the kernel is the mean over both images and their mirror images: that of a network
        that gives an image and its mirror image the same output.

    Examples
    --------
    >>> from mnngp import Conv, GlobalAvgPool, Maxout, ReLU
    >>> NetworkKernel([Maxout(4), ReLU()], weight_var=1.0, bias_var=0.1)
    NetworkKernel(layers=[Maxout(rank=4), ReLU()], weight_var=1, bias_var=0.1, kind='nngp')
    >>> kernel = NetworkKernel([Conv(3), Maxout(4), Conv(3, stride=2), Maxout(4), GlobalAvgPool()])
    >>> images = np.random.default_rng(0).normal(size=(5, 8, 8, 3))
    >>> kernel(images).shape
    (5, 5)
    """

    def __init__(
        self,
        layers: Sequence[Activation | Spatial | Embedding],
        weight_var: float | Sequence[float] = 1.0,
        bias_var: float | Sequence[float] = 0.1,
        kind: str = "nngp",
        dtype: Any = "float64",
        weight_var_bounds: Bounds = (1e-5, 1e5),
        bias_var_bounds: Bounds = (1e-5, 1e5),
        image_shape: tuple[int, ...] | None = None,
        flips: bool = False,
    ) -> None:
        self.layers = layers
        self.weight_var = weight_var
        self.bias_var = bias_var
        self.kind = kind
        self.dtype = dtype
        self.weight_var_bounds = weight_var_bounds
        self.bias_var_bounds = bias_var_bounds
        self.image_shape = image_shape
        self.flips = flips
        self._network()

    @property
    def convolutional(self) -> bool:
        """Whether there is a layer that knows of positions."""
        return isinstance(self.layers, list | tuple) and any(
            isinstance(layer, _SPATIAL) for layer in self.layers
        )

    @property
    def embedding(self) -> Embedding | None:  # type: ignore[override]
        """The first layer, if it is an embedding."""
        first = self.layers[0] if isinstance(self.layers, list | tuple) and self.layers else None
        return first if isinstance(first, Embedding) and not self.convolutional else None

    def _activations(self, depth: int | None = None) -> tuple[Activation, ...]:
        alone = self.layers if self.embedding is None else self.layers[1:]
        if not isinstance(alone, list | tuple) or not alone:
            raise InputError(
                "layers must be a list of at least one activation, such as "
                f"[Maxout(4), ReLU()], got {self.layers!r}"
            )
        units: list[Activation] = []
        for index, layer in enumerate(self.layers):
            if isinstance(layer, _SPATIAL) or (index == 0 and self.embedding is not None):
                continue
            if isinstance(layer, Embedding):
                raise InputError(
                    f"layers[{index}] cannot be an embedding: it is the first layer of a fully "
                    f"connected network, or none, got {layer!r}"
                )
            if not isinstance(layer, Activation):
                kinds = "a layer, such as Conv(3)," if self.convolutional else "an activation,"
                raise InputError(
                    f"layers[{index}] must be {kinds} such as Maxout(4) or ReLU(), got {layer!r}"
                )
            known = isinstance(layer, HomogeneousActivation | SmoothActivation)
            if not known and getattr(layer, "table", None) is None:
                raise InputError(
                    f"layers[{index}] must be a HomogeneousActivation or a SmoothActivation, "
                    f"got {layer!r}"
                )
            units.append(layer)
        if depth is not None and depth > len(units):
            raise InputError(
                f"depths must be at most {len(units)}, the number of activations, got {depth}"
            )
        return tuple(units[:depth])

    def _network(self, depth: int | None = None) -> Network:
        if not self.convolutional:
            for name, usual in (("image_shape", None), ("flips", False)):
                if getattr(self, name) is not usual:
                    raise InputError(
                        f"{name} is for networks with convolutions, got {getattr(self, name)!r}"
                    )
            return super()._network(depth)
        self._activations(depth)
        _validation.bounds("weight_var_bounds", self.weight_var_bounds)
        _validation.bounds("bias_var_bounds", self.bias_var_bounds)
        network = ConvolutionalNetwork.of(
            self.layers,  # type: ignore[arg-type]
            self.weight_var,
            self.bias_var,
            self.kind,
            self.dtype,
            self.flips,
        )
        shape = _validation.image_shape(self.image_shape, network.of_signals)
        if shape is not None:
            network.places(shape[:2], signal=bool(network.of_signals))  # type: ignore[arg-type]
        return network if depth is None else network.up_to(depth)  # type: ignore[return-value]

    def checked(self, name: str, X: Any, like: Any = None) -> NDArray[Any]:
        """Data that this kernel takes, as an array whose rows are points; ``like`` other such."""
        if not self.convolutional:
            return super().checked(name, X, like)
        pixels, _ = self._images(name, X)
        if like is not None and self._images("X", like)[0].shape[1:] != pixels.shape[1:]:
            raise InputError(
                f"{name} must have images of the shape {like.shape[1:]}, as X has, got "
                f"{pixels.shape[1:]}"
            )
        return np.asarray(X)

    def prepared(self, name: str, rows: NDArray[Any]) -> Points:
        """Data that is checked, as points."""
        if not self.convolutional:
            return super().prepared(name, rows)
        from mnngp.kernels.convolution import differences  # noqa: F401 (it brings derivatives)
        from mnngp.kernels.convolution.image_points import Images

        pixels, signal = self._images(name, rows)
        self._convolutional.places(pixels.shape[1:3], signal=signal)
        return Images.of_pixels(
            np.ascontiguousarray(pixels, dtype=as_dtype(self.dtype)), signal=signal
        )

    @property
    def _convolutional(self) -> ConvolutionalNetwork:
        return self._network()  # type: ignore[return-value]

    def _images(self, name: str, X: Any) -> tuple[NDArray[Any], bool]:
        signals = self._convolutional.of_signals
        return _validation.images(
            name, X, _validation.image_shape(self.image_shape, signals), signals
        )
