"""Which networks can be computed as one, and which data they can be given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from mnngp import _validation
from mnngp.errors import InputError
from mnngp.finite.finite_network import FiniteNetwork, real_array, tensor_like
from mnngp.finite.maxout_network import MaxoutNetwork
from mnngp.finite.schedule import Training
from mnngp.finite.stack import Shape

# points (sets, points, inputs), targets (sets, points, outputs)
Data = tuple[torch.Tensor, torch.Tensor]
_DTYPES = (torch.float16, torch.float32, torch.float64)  # those that NumPy has, too


def as_group(networks: FiniteNetwork | Sequence[FiniteNetwork]) -> list[Any]:
    """The networks, if they can be computed as one."""
    group = list(networks) if isinstance(networks, Iterable) else [networks]
    if (
        not group
        or not all(isinstance(network, FiniteNetwork) for network in group)
        or any(network._traits != group[0]._traits for network in group)
    ):
        raise InputError(
            "networks must be a MaxoutNetwork or a sequence of them, at least one, or the same of "
            f"ConvMaxoutNetwork, got {networks!r}"
        )
    if len({id(network) for network in group}) < len(group):
        raise InputError("networks must be different ones: the same is there twice")
    for number, network in enumerate(group):
        if isinstance(network, MaxoutNetwork):
            _check_plain(f"networks[{number}]", network)
    first = _traits(group[0])
    if first["dtype"] not in _DTYPES:
        raise InputError(
            f"networks must be of dtype {', '.join(map(str, _DTYPES))}, got {first['dtype']}; "
            "network.float() makes one float32"
        )
    for number, network in enumerate(group[1:], 1):
        for name, value in _traits(network).items():
            if value != first[name]:
                raise InputError(
                    f"networks must have the same {', '.join(first)}; "
                    f"networks[0] has {name} {first[name]}, networks[{number}] has {value}"
                )
    return group


def _check_plain(name: str, network: MaxoutNetwork) -> None:
    """Refuse a network that computes more than affine maps and maxima: a stack knows no more."""
    parts = [*network.weights, *network.biases]
    maps = Shape.of(network).maps
    sizes = [rows * columns for rows, columns in maps] + [rows for rows, _ in maps]
    own = any(
        getattr(getattr(network, name), "__func__", None) is not getattr(MaxoutNetwork, name)
        for name in ("forward", "hidden", "_hidden", "_affine")
    )
    derived = any(not isinstance(part, torch.nn.Parameter) for part in parts)
    changed = [part.numel() for part in parts] != sizes
    reasons = {
        "it has a forward of its own": own,
        "it has forward hooks": network._forward_hooks or network._forward_pre_hooks,
        "it has pruned or parametrised weights": derived,
        "parameters of it are tied": len({id(part) for part in parts}) < len(parts),
        "its parameters do not have the shapes that they were made with": changed,
    }
    for reason, holds in reasons.items():
        if holds:
            raise InputError(
                f"{name} must compute what a MaxoutNetwork computes, but {reason}: "
                "write your own loop for it"
            )


def _traits(network: FiniteNetwork) -> dict[str, Any]:
    weight = network.weights[0]
    return {
        **{name: getattr(network, name) for name in network._traits},
        "dtype": weight.dtype,
        "device": weight.device,
    }


def training_data(
    group: Sequence[FiniteNetwork],
    X: Any,
    Y: Any,
    training: Training,
    validation: tuple[Any, Any] | None,
) -> tuple[Data, Data | None]:
    """Points and targets to train on, and to validate with; or an error if that cannot be done."""
    if not isinstance(training, Training):
        raise InputError(
            f"training must be a Training, such as Training(epochs=10), got {training!r}"
        )
    for number, network in enumerate(group):
        for name, parameter in network.named_parameters():
            if not parameter.requires_grad:
                raise InputError(
                    f"networks must have no fixed parameters, got requires_grad=False for {name} "
                    f"of networks[{number}]: "
                    "train trains all of them; to train some, write your own loop"
                )
    largest = torch.finfo(group[0].weights[0].dtype).max
    if training.learning_rate > largest:
        raise InputError(
            f"learning_rate must be at most {largest:.3g}, as the networks' dtype, "
            f"got {training.learning_rate!r}"
        )
    data = _data("X", X, "Y", Y, group)
    if validation is None:
        if training.patience is not None:
            raise InputError(
                f"patience={training.patience!r} (early stopping) needs validation=(X, "
                "Y), points to judge by"
            )
        return data, None
    if not (isinstance(validation, tuple | list) and len(validation) == 2):
        several = f" of length {len(validation)}" if isinstance(validation, tuple | list) else ""
        raise InputError(
            "validation must be a pair (X, Y) of points and targets, got "
            f"{type(validation).__name__}{several}"
        )
    other = _data("validation[0]", validation[0], "validation[1]", validation[1], group)
    if len(other[0]) != len(data[0]):
        raise InputError(
            f"validation must have as many sets of points as X, {len(data[0])}, got {len(other[0])}"
        )
    return data, other


def _data(name_x: str, X: Any, name_y: str, Y: Any, group: Sequence[FiniteNetwork]) -> Data:
    outputs, Y = group[0].outputs, real_array(name_y, Y)
    if Y.ndim == 1 and outputs == 1:
        Y = Y[:, None]
    elif Y.ndim < 2:
        raise InputError(
            f"{name_y} must have 2 dimensions (points, outputs), such as one-hot rows "
            f"np.eye({outputs})[labels] - 0.1, got shape {Y.shape}"
        )
    points = input_sets(name_x, X, group)
    targets = point_sets(name_y, Y, outputs, group)
    if points.shape[:2] != targets.shape[:2]:
        expected, got = tuple(points.shape[:2]), tuple(targets.shape[:2])
        raise InputError(
            f"{name_y} must have a row for each row of {name_x}, {expected} (sets, rows), got {got}"
        )
    return points, targets


def input_sets(name: str, value: Any, group: Sequence[FiniteNetwork]) -> torch.Tensor:
    """Sets of points (sets, points, inputs) for the networks."""
    array = group[0]._as_rows(name, real_array(name, value))
    return point_sets(name, array, group[0].inputs, group)


def point_sets(name: str, value: Any, columns: int, group: Sequence[FiniteNetwork]) -> torch.Tensor:
    """Sets of points (sets, points, columns) for the networks."""
    array = real_array(name, value)
    sets = array.shape[0] if array.ndim == 3 else 1
    if len(group) % max(sets, 1):
        raise InputError(
            f"{name} must have sets of points for equal parts of the {len(group)} networks, got "
            f"shape {array.shape}"
        )
    array = array.reshape(-1, array.shape[2]) if array.ndim == 3 else array
    array = _validation.points(name, array)
    if array.shape[1] != columns:
        raise InputError(
            f"{name} must have {columns} columns, as many as the networks have, got "
            f"shape {array.shape}"
        )
    return tensor_like(array, group[0].weights[0].detach()).reshape(sets, -1, columns)
