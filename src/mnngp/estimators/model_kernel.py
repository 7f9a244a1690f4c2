"""Kernels as data, for model files, and the checks of single values that are read from one.

A kernel is its class, its layers and its variances. All checks raise ``InputError`` with the name
of the entry.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mnngp import _validation
from mnngp.activations import GELU, Abs, Activation, Erf, LeakyReLU, Maxout, ReLU, Tanh
from mnngp.errors import InputError
from mnngp.kernels.network_kernel import NetworkKernel
from mnngp.kernels.sklearn import DeepKernel, MaxoutKernel
from mnngp.networks.embedding import Embedding
from mnngp.networks.layers import AvgPool, Conv, Flatten, GlobalAvgPool

LARGEST_INT = (1 << 63) - 1
_LONGEST_TEXT = 1000
# as JSON cannot write them
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

# --- single values --------------------------------------------------------------------------------


def whole(name: str, value: Any, low: int, high: int) -> int:
    """An int from low to high, and no bool."""
    if type(value) is not int or not low <= value <= high:
        raise InputError(
            f"{name} must be a whole number from {low} to {high:,} in a model file, got {value!r}"
        )
    return value


def check_dtype(name: str, value: Any) -> None:
    """Check that it is one of the two that kernels have."""
    # NumPy makes a type of many a text
    if isinstance(value, str) and len(value) <= 8 and value.lstrip("<>=|").isalnum():
        with contextlib.suppress(TypeError, ValueError):
            if np.dtype(value) in (np.float64, np.float32):
                return
    raise InputError(f"{name} must be 'float64' or 'float32', got {value!r}")


def scalars(name: str, value: Any, *, inside: bool = False) -> Any:
    """A number (finite or not), a short text, None, or a list of them."""
    if isinstance(value, list) and not inside:
        return [scalars(f"{name}[{i}]", item, inside=True) for i, item in enumerate(value)]
    if isinstance(value, str) and len(value) <= _LONGEST_TEXT:
        return _NOT_FINITE.get(value, value)
    number = isinstance(value, float) or (isinstance(value, int) and abs(value) <= LARGEST_INT)
    if value is None or number:
        return value
    raise InputError(f"{name} must be a number, a short text, or a list of them, got {value!r}")


def as_json(name: str, value: Any) -> Any:
    """A value as strict JSON has it."""
    if isinstance(value, np.ndarray | list | tuple):
        return [as_json(name, item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0.0 else "-Infinity"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"{name} cannot be saved, got {value!r}")


def all_as_json(values: dict[str, Any]) -> dict[str, Any]:
    """Named values as strict JSON has them."""
    return {name: as_json(name, value) for name, value in values.items()}


# --- kernels --------------------------------------------------------------------------------------

LARGEST_DEPTH = 10_000  # the kernel of a handful of points takes seconds then
LARGEST_RANK = 1_000_000
_LARGEST_SMOOTH_DEPTH = 1_000  # a layer of those takes ten times as long
_MOST_ACTIVATIONS = 32  # different ones: each is set up for a fraction of a second
_KERNELS: dict[str, type[DeepKernel]] = {
    "MaxoutKernel": MaxoutKernel,
    "NetworkKernel": NetworkKernel,
}
_KEYS = {"MaxoutKernel": ("class", "depth", "rank"), "NetworkKernel": ("class", "layers")}
_SHARED_KEYS = ("weight_var", "bias_var", "kind", "dtype", "weight_var_bounds", "bias_var_bounds")
_LAYERS: dict[str, type[Any]] = {
    layer.__name__: layer
    for layer in (
        *(Maxout, ReLU, LeakyReLU, Abs, Erf, Tanh, GELU),
        *(Conv, AvgPool, GlobalAvgPool, Flatten, Embedding),
    )
}
_LARGEST_WINDOW = 10_000
_MOST_COLUMNS = 1 << 24


def _check_window(name: str, value: Any, *, none: bool = False) -> None:
    """Raise if it is not a whole number, or one or two of them in a list."""
    if none and value is None:
        return
    parts = value if isinstance(value, list) and 1 <= len(value) <= 2 else [value]
    for part in parts:
        whole(name, part, 1, _LARGEST_WINDOW)


def _check_columns(name: str, value: Any, *, pairs: bool) -> None:
    """Raise if it is not a list of columns, or of pairs of them."""
    if not isinstance(value, list):
        raise InputError(f"{name} must be a list, got {value!r}")
    for one in value:
        if pairs and not (isinstance(one, list) and len(one) == 2):
            raise InputError(f"{name} must have pairs of columns, got {one!r}")
        for column in one if pairs else [one]:
            whole(name, column, 0, _MOST_COLUMNS)


def _check_limits(name: str, value: Any) -> None:
    if not (isinstance(value, list) and len(value) == 2):
        raise InputError(f"{name} must be two numbers, got {value!r}")
    for limit in value:
        _validation.real(name, limit, low=-1e6, high=1e6)


def _check_weights(name: str, value: Any) -> None:
    if not isinstance(value, list):
        raise InputError(f"{name} must be a list, got {value!r}")
    for weight in value:
        _validation.real(name, weight, low=0.0, high=1e6)


_LAYER_PARAMETERS: dict[str, dict[str, Callable[[str, Any], object]]] = {
    "Maxout": {"rank": partial(whole, low=1, high=LARGEST_RANK)},
    "LeakyReLU": {"negative_slope": partial(_validation.real, low=-1e6, high=1e6)},
    "Conv": {
        "size": _check_window,
        "stride": _check_window,
        "padding": partial(_validation.one_of, allowed=("same", "valid", "circular")),
    },
    "Embedding": {
        "lengthscale": partial(_validation.real, low=1e-3, high=1e6),
        "limits": _check_limits,
        "categories": partial(_check_columns, pairs=True),
        "gaps": partial(_check_columns, pairs=False),
        "weights": _check_weights,
    },
    "AvgPool": {"size": _check_window, "stride": partial(_check_window, none=True)},
}
_IMAGE_KEYS = ("image_shape", "flips")  # of kernels with convolutions
# of version 1, which knew one class
_OLD_DEFAULTS = {
    "class": "MaxoutKernel",
    "weight_var_bounds": [1e-5, 1e5],
    "bias_var_bounds": [1e-5, 1e5],
}


def describe(kernel: DeepKernel) -> dict[str, Any]:
    """A kernel as JSON has it."""
    kind = type(kernel)
    if _KERNELS.get(kind.__name__) is not kind:
        raise InputError(
            f"only the kernels {' and '.join(_KERNELS)} themselves can be saved, got {kernel!r}"
        )
    parameters = kernel.get_params()
    described: dict[str, Any] = {"class": kind.__name__}
    if "layers" in parameters:
        described["layers"] = [_layer(activation) for activation in parameters.pop("layers")]
    if not getattr(kernel, "convolutional", False):
        parameters = {key: value for key, value in parameters.items() if key not in _IMAGE_KEYS}
    parameters["dtype"] = str(np.dtype(parameters["dtype"]))
    embedding = parameters.pop("embedding", None)
    if embedding is not None:
        described["embedding"] = _layer(embedding)
    return {**described, **all_as_json(parameters)}


def _layer(layer: Any) -> dict[str, Any]:
    name = type(layer).__name__
    if _LAYERS.get(name) is not type(layer):
        raise InputError(
            f"the layers of a kernel that is saved can be {', '.join(_LAYERS)}, got {layer!r}"
        )
    parameters = _LAYER_PARAMETERS.get(name, {})
    return {"class": name} | {key: as_json(key, getattr(layer, key)) for key in parameters}


def checked(name: str, described: object, version: int) -> dict[str, Any]:
    """A description with everything in its bounds; ``name`` is where it stands in the file."""
    if not isinstance(described, dict):
        raise InputError(f"{name} must have names and values, got {described!r}")
    if version == 1:
        described = {**_OLD_DEFAULTS, **described}
    _validation.one_of(f"{name}.class", described.get("class"), tuple(_KERNELS))
    keys = _KEYS[described["class"]] + _SHARED_KEYS
    if "image_shape" in described and "layers" in described:
        keys += _IMAGE_KEYS
        _check_image(name, described)
    if "embedding" in described and "depth" in described:
        keys += ("embedding",)
        _check_layer(f"{name}.embedding", described["embedding"], ("Embedding",))
    if set(described) != set(keys):
        raise InputError(f"{name} must have the keys {', '.join(keys)}, got {sorted(described)}")
    if "depth" in described:
        depth = whole(f"{name}.depth", described["depth"], 1, LARGEST_DEPTH)
        whole(f"{name}.rank", described["rank"], 1, LARGEST_RANK)
    else:
        depth = _check_layers(f"{name}.layers", described["layers"])
    for which, zero in (("weight_var", False), ("bias_var", True)):
        value = described[which]
        _validation.variances(f"{name}.{which}", value, depth + 1, zero=zero)
        count = len(value) if isinstance(value, list) else 1
        _check_bounds(f"{name}.{which}_bounds", described[f"{which}_bounds"], count)
    _validation.one_of(f"{name}.kind", described["kind"], ("nngp", "ntk"))
    check_dtype(f"{name}.dtype", described["dtype"])
    return described


def _check_layers(name: str, layers: Any) -> int:
    """Raise if a layer is not one that can be saved; how many there are."""
    if not isinstance(layers, list) or not 1 <= len(layers) <= LARGEST_DEPTH:
        raise InputError(f"{name} must be a list of 1 to {LARGEST_DEPTH:,} layers, got {layers!r}")
    different, smooth = set(), 0
    for number, layer in enumerate(layers):
        kind = _check_layer(f"{name}[{number}]", layer, tuple(_LAYERS))
        if issubclass(_LAYERS[kind], Activation):
            different.add(tuple(layer.values()))
            smooth += not _LAYERS[kind].homogeneous
    if len(different) > _MOST_ACTIVATIONS or smooth > _LARGEST_SMOOTH_DEPTH:
        raise InputError(
            f"{name} must have at most {_MOST_ACTIVATIONS} different activations and "
            f"{_LARGEST_SMOOTH_DEPTH:,} smooth ones, got {len(different)} and {smooth}"
        )
    if any(layer["class"] in {"Flatten", "GlobalAvgPool"} for layer in layers):
        return sum(layer["class"] == "Conv" for layer in layers)
    return len(layers) - int(layers[0]["class"] == "Embedding")


def _check_layer(name: str, layer: Any, allowed: tuple[str, ...]) -> str:
    """Raise if it is not one of these classes, with its parameters; which one it is."""
    if not isinstance(layer, dict):
        raise InputError(f"{name} must have names and values, got {layer!r}")
    kind = _validation.one_of(f"{name}.class", layer.get("class"), allowed)
    if kind == "Embedding":
        layer.setdefault("weights", [])  # files from before there were any
    parameters = _LAYER_PARAMETERS.get(kind, {})
    if set(layer) != {"class", *parameters}:
        keys = ", ".join(["class", *parameters])
        raise InputError(f"{name} must have the keys {keys}, got {sorted(layer)}")
    for key, check in parameters.items():
        check(f"{name}.{key}", layer[key])
    return kind


def check_image_shape(name: str, shape: Any) -> None:
    """Raise if it is not two or three whole numbers."""
    if not isinstance(shape, list) or not 2 <= len(shape) <= 3:
        raise InputError(f"{name} must be two or three numbers, got {shape!r}")
    for part in shape:
        whole(name, part, 1, _LARGEST_WINDOW)


def _check_image(name: str, described: dict[str, Any]) -> None:
    flips = described.get("flips")
    check_image_shape(f"{name}.image_shape", described["image_shape"])
    if not isinstance(flips, bool):
        raise InputError(f"{name}.flips must be true or false, got {flips!r}")


def _check_bounds(name: str, bounds: Any, count: int) -> None:
    """Raise if they are not "fixed", one pair, or one pair for each of ``count`` variances."""
    _validation.bounds(name, bounds)  # takes all that NumPy makes numbers of
    if bounds == "fixed":
        return
    pairs = bounds if isinstance(bounds[0], list) else [bounds]
    numbers = [number for pair in pairs for number in pair]
    if len(pairs) not in (1, count) or not all(type(number) in (int, float) for number in numbers):
        raise InputError(
            f"{name} must be 'fixed', or 1 or {count} pairs of numbers, got {bounds!r}"
        )


def build(described: dict[str, Any]) -> DeepKernel:
    """The kernel of a description that was checked."""
    parameters = {name: _as_tuple(value) for name, value in described.items() if name != "class"}
    if "layers" in described:
        made: dict[Any, Any] = {}
        parameters["layers"] = []
        for layer in described["layers"]:
            one = _built(layer)
            parameters["layers"].append(made.setdefault(one, one))
    if "embedding" in described:
        parameters["embedding"] = _built(described["embedding"])
    return _KERNELS[described["class"]](**parameters)


def _built(layer: dict[str, Any]) -> Any:
    given = {name: _as_tuple(value) for name, value in layer.items() if name != "class"}
    return _LAYERS[layer["class"]](**given)


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value
