"""The convolutional networks that an estimator of images chooses from.

``NETWORKS`` is the list, a network a line; the first that fits is taken where there is nothing to
choose by. Those whose windows do not fit the images, and strides of images that are small anyway,
are left out. Each is tried on standardised and, if there are enough to learn a whitening from, on
whitened images, and the best of them with flips.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from mnngp import _validation
from mnngp.activations import Maxout
from mnngp.errors import InputError
from mnngp.inference.search_space import SearchSpace, with_parameters
from mnngp.kernels.network_kernel import NetworkKernel
from mnngp.kernels.sklearn import DeepKernel
from mnngp.networks.convolutional import ConvolutionalNetwork
from mnngp.networks.layers import AvgPool, Conv, Flatten, GlobalAvgPool, Pair

# conv: 3 × 3 and maxout; half: 4 × 4 with a stride of two, which treats left and right of an even
# number of columns alike, so that flips take twice the time and not four times; pool: means over
# 2 × 2; then a readout: flatten, local (means over a quarter of the sides, 8 pixels at most, and
# flatten) or global (over all).
NETWORKS = (
    # rank, layers
    (4, "conv conv local"),
    (2, "conv conv conv conv local"),
    (4, "conv conv conv conv conv conv local"),
    (4, "conv conv flatten"),
    (2, "conv conv conv global"),
    (2, "conv conv conv conv conv conv global"),
    (2, "conv conv pool conv pool conv global"),
    (4, "half conv conv local"),
    (2, "half conv conv global"),
    (2, "half conv conv conv conv global"),
    (2, "half conv pool conv global"),
)
FEATURES = ("standardised", "whitened")  # what stands in front of a network
REGULARIZATION = 0.1  # of the whitening
_BIAS_VAR = 0.01
_LARGE = 20  # pixels of the shorter side, above which there are strides
_WIDEST = 8  # window of local pooling
_POSITIONS = 64 * 64  # for global pooling at most: a pair takes some tenths of a second then


@dataclass(frozen=True)
class Candidate:
    """A network, and what stands in front of it."""

    kernel: NetworkKernel = field(compare=False)
    features: str
    network: ConvolutionalNetwork = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "network", self.kernel.network)

    @property
    def flipped(self) -> Candidate:
        """The same, with the mean over mirror images."""
        return Candidate(with_parameters(self.kernel, flips=True), self.features)

    @property
    def updates(self) -> float:
        """Steps of the recursion that a pair of images takes: what its cost goes with."""
        from mnngp.kernels.convolution.geometry import plan  # compiled code, loaded late

        shape: Pair = self.kernel.image_shape[:2]  # type: ignore[index, assignment]
        once = plan(replace(self.network, flips=False), shape, False).updates
        return once * (1 if not self.network.flips else 2 if self.network.mirrors(shape) else 4)


class ImageSpace(SearchSpace):
    """The networks of ``NETWORKS`` that fit images of a shape, in single precision.

    That is enough to compare them, and takes less than half the time.
    """

    complete = False

    def __init__(self, image_shape: Any, dtype: Any = "float64") -> None:
        shape = _validation.image_shape(image_shape, False)
        assert shape is not None
        self.image_shape, self.dtype = shape, dtype
        self.kernels = list(_kernels(shape))

    def features(self, kernel: DeepKernel) -> str:
        return FEATURES[0]

    def default(self) -> NetworkKernel:
        return self.kernels[0]

    def starts(self) -> Iterator[NetworkKernel]:
        yield from self.kernels

    def neighbours(self, kernel: DeepKernel) -> Iterator[NetworkKernel]:
        yield with_parameters(kernel, flips=True)

    def candidates(self, features: Iterable[str]) -> list[Candidate]:
        """All networks behind some of ``FEATURES``, without flips."""
        return [Candidate(kernel, name) for kernel in self.kernels for name in features]


def _kernels(shape: tuple[int, ...]) -> Iterator[NetworkKernel]:
    """Those that fit; one without pooling fits everything."""
    for rank, words in NETWORKS:
        positions = shape[0] * shape[1] / (4 if "half" in words else 1)
        if ("half" in words and min(shape[:2]) <= _LARGE) or (
            "global" in words and positions > _POSITIONS
        ):
            continue
        unit = Maxout(rank)
        try:
            yield NetworkKernel(
                _layers(words.split(), unit, shape[:2]),
                weight_var=unit.critical_weight_var,
                bias_var=_BIAS_VAR,
                dtype="float32",
                image_shape=shape,
            )
        except InputError:  # there are more pixels in a window than in the image
            continue


def _layers(words: list[str], unit: Maxout, shape: tuple[int, ...]) -> list[Any]:
    layers: list[Any] = []
    smaller = 2 ** (words.count("half") + words.count("pool"))
    quarters = [round(side / smaller / 4) for side in shape]
    window = tuple(
        max(min(2, side), min(_WIDEST, quarter))
        for side, quarter in zip(shape, quarters, strict=True)
    )
    for word in words:
        layers += {
            "conv": [Conv(3), unit],
            "half": [Conv(4, stride=2), unit],
            "pool": [AvgPool(2)],
            "flatten": [Flatten()],
            "local": [AvgPool(window, 1), Flatten()],  # type: ignore[arg-type]
            "global": [GlobalAvgPool()],
        }[word]
    return layers
