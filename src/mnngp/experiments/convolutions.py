"""Convolutional networks of a protocol: layers as texts, and what else makes up a family of them.

A layer is written as in Python, ``"Conv(3, stride=2)"``. The text is parsed, never run: a protocol
may come from a stranger.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import product
from typing import Any

from mnngp import _validation, activations, networks
from mnngp.activations import Activation
from mnngp.data.published import Collection
from mnngp.errors import InputError
from mnngp.experiments.toml_tables import Table
from mnngp.networks.convolutional import ConvolutionalNetwork, SpatialLayer

KEYS = ("layers", "kind", "rank", "weight_var", "bias_var", "train")
OPTIONS = ("flips", "whitening", "dtype")
_LAYERS: dict[str, Any] = {
    name: getattr(module, name)
    for module, names in (
        (networks, ("Conv", "AvgPool", "GlobalAvgPool", "Flatten")),
        (activations, ("Maxout", "ReLU", "LeakyReLU", "Abs", "Erf", "Tanh", "GELU")),
    )
    for name in names
}
_RANK = "rank"  # in the arguments of a layer: each value of the family's key
_MOST = 1000  # layers
_LONGEST = 200  # letters of a layer
_PERIOD = 6  # layers that are looked for again


@dataclass(frozen=True)
class Convolution:
    """What a cell with a convolutional network has beside its rank, kind and variances.

    Attributes
    ----------
    layers : tuple of str
        As in the file; ``rank`` may be an argument.
    image_shape : tuple of int
        (height, width) or (height, width, channels).
    flips : bool
        Whether the kernel is the mean over mirror images.
    whitening : float or None
        Regularisation of a ``StationaryWhitening`` by the training images; None: without.
    dtype : str
        Of the kernel; posteriors are computed in float64.
    """

    layers: tuple[str, ...]
    image_shape: tuple[int, ...]
    flips: bool = False
    whitening: float | None = None
    dtype: str = "float64"

    @property
    def name(self) -> str:
        """The layers in a line; what is repeated is there once.

        >>> Convolution(("Conv(3)", "Maxout(rank)") * 3 + ("Flatten()",), (8, 8)).name
        '3 × (Conv(3), Maxout(rank)), Flatten()'
        """
        parts, rest = [], self.layers
        while rest:
            count, period = max(
                ((_times(rest, period), period) for period in range(1, _PERIOD + 1)),
                key=lambda pair: (pair[0] * pair[1] if pair[0] > 1 else 1, -pair[1]),
            )
            period = period if count > 1 else 1
            part = ", ".join(rest[:period])
            several = f"({part})" if period > 1 else part
            parts.append(f"{count} × {several}" if count > 1 else part)
            rest = rest[count * period :]
        return ", ".join(parts)

    @property
    def options(self) -> list[str]:
        """What is not as usual, in words that tell any two apart."""
        words = ["flips"] * self.flips
        words += [] if self.whitening is None else [f"whitening {self.whitening!r}"]
        words += [self.dtype] * (self.dtype != "float64")
        return words

    @property
    def ranked(self) -> bool:
        """Whether a layer asks for the rank."""
        return any(_asks_for_rank(_call("layers", text)) for text in self.layers)

    def network(self, rank: int | None) -> list[SpatialLayer]:
        """The layers themselves."""
        return [_layer(f"layers[{index}]", text, rank) for index, text in enumerate(self.layers)]


def _times(layers: tuple[str, ...], period: int) -> int:
    """How often the first layers stand there, one after the other."""
    count = 1
    while layers[count * period : (count + 1) * period] == layers[:period]:
        count += 1
    return count


def variants(table: Table, images: Collection) -> tuple[Convolution, ...]:
    """All that a family's options ask for, of one list of layers; checked but for the rank."""
    texts = []
    for name, text in table.items("layers"):
        texts.append(ast.unparse(_call(name, text)))
    if len(texts) > _MOST:
        raise InputError(f"{table.prefix}layers must be at most {_MOST:,}, got {len(texts):,}")
    flips = dict.fromkeys(_flag(*item) for item in table.items("flips", False))
    whitening = dict.fromkeys(
        None if item is False else _validation.real(name, item, low=0.0, high=1e6)
        for name, item in table.items("whitening", False)
    )
    dtype = table.choice("dtype", ("float64", "float32"), "float64")
    shape = image_shape(images)
    return tuple(
        Convolution(tuple(texts), shape, flip, white, dtype)
        for flip, white in product(flips, whitening)
    )


def depth_of(prefix: str, convolution: Convolution, ranks: tuple[int | None, ...]) -> int:
    """The number of activations of a network that there can be, with each of the ranks."""
    built: list[SpatialLayer] = []
    for rank in ranks:
        try:
            built = convolution.network(rank)
            network = ConvolutionalNetwork.of(built, 1.0, 0.0, "nngp", "float64")
            network.places(convolution.image_shape[:2])  # type: ignore[arg-type]
        except InputError as error:  # its text begins with "layers"
            raise InputError(f"{prefix}{error}") from error
    return sum(isinstance(layer, Activation) for layer in built)


def image_shape(images: Collection) -> tuple[int, ...]:
    """Height, width and channels; the published colour images have a plane for each channel."""
    shape = images.shape
    return shape if len(shape) == 2 else (*shape[1:], shape[0])


def mapping(family: tuple[Convolution, ...]) -> dict[str, Any]:
    """What a TOML file has of the variants of a family."""
    first = family[0]

    def values(key: str) -> list[Any]:
        return list(dict.fromkeys(getattr(one, key) for one in family))

    return {
        "layers": list(first.layers),
        "flips": values("flips"),
        "whitening": [False if one is None else one for one in values("whitening")],
        "dtype": first.dtype,
    }


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, got {value!r}")
    return value


# --- texts ----------------------------------------------------------------------------------------


def _call(name: str, text: object) -> ast.Call:
    """A layer that is written as a call, not yet looked at closely."""
    node: Any = None
    if isinstance(text, str) and len(text) <= _LONGEST:
        try:
            node = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            node = None
    known = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    if not known or node.func.id not in _LAYERS:
        shown = repr(text) if len(repr(text)) <= _LONGEST else f"{repr(text)[:_LONGEST]}…"
        raise InputError(
            f"{name} must be a layer with its arguments, such as 'Conv(3)' or 'Maxout(rank)', of "
            f"{', '.join(_LAYERS)}; got {shown}"
        )
    return node  # type: ignore[no-any-return]


def _asks_for_rank(call: ast.Call) -> bool:
    given = [*call.args, *(one.value for one in call.keywords)]
    return any(isinstance(one, ast.Name) and one.id == _RANK for one in given)


def _layer(name: str, text: str, rank: int | None) -> SpatialLayer:
    call = _call(name, text)
    try:
        positional = [_value(one, rank) for one in call.args]
        named = {str(one.arg): _value(one.value, rank) for one in call.keywords}
        layer: SpatialLayer = _LAYERS[call.func.id](*positional, **named)  # type: ignore[attr-defined]
    except (InputError, TypeError, ValueError) as error:
        raise InputError(f"{name}, {text!r}: {error}") from error
    return layer


def _value(node: ast.expr, rank: int | None) -> Any:
    if isinstance(node, ast.Name) and node.id == _RANK:
        return rank
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"an argument must be a number, a text, a pair or rank, got {ast.unparse(node)}"
        ) from error
