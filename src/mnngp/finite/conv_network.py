"""A convolutional maxout network with finitely many channels, as a PyTorch module.

With ``h_0(p)`` the pixels of an image at the position p, every unit of a convolution is the maximum
of q affine maps of one and the same window, whose positions are s p + δ for the stride s:

    h_l(p) = max_{i ≤ q} (b_{l,i} + Σ_δ W_{l,i}(δ) h_{l-1}(s p + δ)),        f = b + W r(h_L)

and the readout r has the mean over all positions, or all positions one after the other. A map of
windows of k positions and c channels has the fan-in c·k; behind ``Flatten`` it is that of all
positions. Where windows are, and what they see beyond the border, is what ``NetworkKernel`` says:
both have it from ``mnngp.networks.ConvolutionalNetwork``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch.nn import functional

from mnngp import _validation
from mnngp._typing import Matrix
from mnngp.activations import GELU, Abs, Activation, Erf, LeakyReLU, Maxout, ReLU, Tanh
from mnngp.errors import InputError
from mnngp.finite.finite_network import Affine, FiniteNetwork, infinite_width
from mnngp.kernels import NetworkKernel
from mnngp.networks import AvgPool, Conv, Flatten
from mnngp.networks.convolutional import Place
from mnngp.networks.layers import Spatial

# by the class itself: a subclass may be another function
UNITS: dict[type[Activation], Callable[[Any, torch.Tensor], torch.Tensor]] = {
    Maxout: lambda unit, Z: Z.unflatten(1, (unit.rank, -1)).amax(1),
    ReLU: lambda unit, Z: functional.relu(Z),
    LeakyReLU: lambda unit, Z: functional.leaky_relu(Z, unit.negative_slope),
    Abs: lambda unit, Z: Z.abs(),
    Tanh: lambda unit, Z: Z.tanh(),
    Erf: lambda unit, Z: Z.erf(),
    GELU: lambda unit, Z: functional.gelu(Z),
}


class ConvMaxoutNetwork(FiniteNetwork):
    """A convolutional network of maxout units, or others, with ``channels`` of them at a position.

    Parameters
    ----------
    channels : int
        Of every convolution.
    layers : sequence of Conv, Activation and AvgPool, and a readout
        Those of ``NetworkKernel``. A ``Maxout(rank)`` takes maxima over ``rank`` convolutions.
    image_shape : (height, width) or (height, width, channels)
        Of the images; for windows of one dimension the (length, channels) of signals.
    outputs : int
        Numbers that come out.
    weight_var, bias_var : float or sequence of floats
        The infinite-width initialisation: variances times fan-in of the weights, and of the biases;
        one for all affine maps, or one for each convolution and one for the map behind the readout.
    parametrization : {"standard", "ntk"}
        Whether the parameters are the weights themselves, or numbers of unit variance that are
        multiplied by their standard deviations. At the start it makes no difference.
    seed, dtype, device
        As for ``MaxoutNetwork``.

    Examples
    --------
    >>> from mnngp import Conv, GlobalAvgPool, Maxout
    >>> layers = [Conv(3), Maxout(4), Conv(3, stride=2), Maxout(4), GlobalAvgPool()]
    >>> network = ConvMaxoutNetwork(16, layers, image_shape=(8, 8, 3), outputs=10, weight_var=0.65)
    >>> network(torch.zeros(2, 8, 8, 3)).shape
    torch.Size([2, 10])
    >>> print(network.kernel().network)  # of the Gaussian process that it is nearly
    Conv(3) (0.65, 0.1) → Maxout(rank=4) → Conv(3, stride=2) (0.65, 0.1) → Maxout(rank=4) → \
GlobalAvgPool() → Dense(0.65, 0.1)
    """

    _traits = ("channels", "layers", "image_shape", "outputs", "parametrization")

    def __init__(
        self,
        channels: int,
        layers: Sequence[Activation | Spatial],
        image_shape: tuple[int, ...],
        outputs: int = 1,
        *,
        weight_var: Any = 1.0,
        bias_var: Any = 0.1,
        parametrization: str = "standard",
        seed: int | None = None,
        dtype: str | torch.dtype = "float32",
        device: Any = "cpu",
    ) -> None:
        super().__init__()
        self.channels = _validation.positive_int("channels", channels)
        self.outputs = _validation.positive_int("outputs", outputs)
        if not NetworkKernel(layers, weight_var, bias_var).convolutional:
            raise InputError(
                "layers must have convolutions and a readout, such as [Conv(3), Maxout(4), "
                f"Flatten()], got {layers!r}; without them there is MaxoutNetwork"
            )
        if image_shape is None:
            raise InputError("image_shape must be the shape of the images, such as (28, 28)")
        network: Any = NetworkKernel(layers, weight_var, bias_var, image_shape=image_shape).network
        for index, layer in enumerate(layers):
            if isinstance(layer, Activation) and type(layer) not in UNITS:
                names = ", ".join(unit.__name__ for unit in UNITS)
                raise InputError(f"layers[{index}] must be one of {names}, got {layer!r}")
        self.layers, self.image_shape = list(layers), tuple(image_shape)
        signal = bool(network.of_signals)
        shape: Any = _validation.image_shape(image_shape, signal)
        self.inputs, self._pixels = prod(shape), shape
        # as which an image may come: the kernel takes the same
        self._shapes = [(shape[0], shape[2]) if signal else shape, (self.inputs,)]
        if shape[2] == 1 and not signal:
            self._shapes.append(shape[:2])
        self._places: list[Place] = network.places(shape[:2], signal=signal)
        self._convolutions = [place for place in self._places if isinstance(place.layer, Conv)]
        depth, sizes, fan_ins = shape[2], [], []
        for place, block in zip(self._convolutions, network.blocks, strict=False):
            rank = (block.activation.rank,) if isinstance(block.activation, Maxout) else ()
            maps, window = (*rank, self.channels), (depth, *place.size)
            sizes.append(((*maps, *window), maps))
            fan_ins.append(prod(window))
            depth = self.channels
        if isinstance(network.readout, Flatten):
            depth *= prod(self._places[-1].behind if self._places else shape[:2])
        sizes.append(((self.outputs, depth), (self.outputs,)))
        self.deviations, self._given = infinite_width([*fan_ins, depth], weight_var, bias_var)
        self._draw(sizes, parametrization, seed, dtype, device)

    @classmethod
    def of_kernel(cls, kernel: NetworkKernel, channels: int, seed: int) -> ConvMaxoutNetwork:
        """A network whose limit of many channels, also in training, a kernel is of."""
        if not (isinstance(kernel, NetworkKernel) and kernel.convolutional):
            raise InputError(f"kernel must be a NetworkKernel with convolutions, got {kernel!r}")
        if kernel.image_shape is None or kernel.flips:
            raise InputError(
                "kernel must have an image_shape, and flips=False: a network does not take means "
                f"over mirror images by itself; got {kernel!r}"
            )
        options: dict[str, Any] = {"weight_var": kernel.weight_var, "bias_var": kernel.bias_var}
        options |= {"parametrization": "ntk", "seed": seed}
        layers: Any = kernel.layers  # no embedding is among those of a convolutional network
        return cls(channels, layers, kernel.image_shape, **options)

    def kernel(self, kind: str = "nngp") -> NetworkKernel:
        """The kernel that belongs to the initialisation: exact in the limit of many channels."""
        return NetworkKernel(self.layers, **self._given, kind=kind, image_shape=self.image_shape)

    def _hidden(self, X: torch.Tensor, affine: Affine) -> torch.Tensor:
        H = self._images(X)
        places, maps = iter(self._places), iter(range(len(self._convolutions)))
        for layer in self.layers[:-1]:
            if isinstance(layer, Activation):
                H = UNITS[type(layer)](layer, H)
                continue
            place = next(places)
            if isinstance(layer, AvgPool):
                H = functional.avg_pool2d(H, place.size, place.stride)
            else:
                H = affine(next(maps), H)
        return H.flatten(1) if isinstance(self.layers[-1], Flatten) else H.mean((2, 3))

    def _images(self, X: torch.Tensor) -> torch.Tensor:
        """Images as they come, as (points, channels, height, width)."""
        if tuple(X.shape[1:]) not in self._shapes:
            raise InputError(self._wrong("X", X.shape))
        return X.reshape(len(X), *self._pixels).permute(0, 3, 1, 2)

    def _affine(self, index: int, X: torch.Tensor) -> torch.Tensor:
        (X, bias), weight = self._scaled(index, X), self.weights[index]
        if index == len(self._convolutions):
            return functional.linear(X, weight, bias)
        place = self._convolutions[index]
        weight = weight.reshape(-1, *weight.shape[-3:])
        return functional.conv2d(_padded(X, place), weight, bias, stride=place.stride)

    def _windows(self, index: int, H: torch.Tensor) -> torch.Tensor:
        if index == len(self._convolutions):
            return super()._windows(index, H)
        place = self._convolutions[index]
        return functional.unfold(_padded(H, place), place.size, stride=place.stride)

    def _as_rows(self, name: str, array: Matrix) -> Matrix:
        for leading in (1, 2):
            if array.shape[leading:] in self._shapes:
                return array.reshape(*array.shape[:leading], self.inputs)
        raise InputError(self._wrong(name, array.shape))

    def _wrong(self, name: str, shape: Sequence[int]) -> str:
        whole, flat = (", ".join(map(str, one)) for one in self._shapes[:2])
        return (
            f"{name} must have the shape (n, {whole}) or (n, {flat}), as image_shape says, "
            f"got {tuple(shape)}"
        )


def _padded(H: torch.Tensor, place: Place) -> torch.Tensor:
    """What the windows of a convolution see: zeros, or the other side, beyond the border."""
    for axis, (count, step, size, length, before) in enumerate(
        zip(place.behind, place.stride, place.size, place.before, place.pad, strict=True), start=2
    ):
        seen = (count - 1) * step + size
        if place.layer.padding == "circular":  # type: ignore[union-attr]
            # more than once around where the window is larger than the image
            around = torch.arange(-before, seen - before, device=H.device) % length
            H = H.index_select(axis, around)
        elif seen > length:
            sides = (before, seen - length - before)
            H = functional.pad(H, sides if axis == 3 else (0, 0, *sides))
    return H
