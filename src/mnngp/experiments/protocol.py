"""The protocol of a run: a TOML file that says which data, sizes, repeats and networks, checked on
load.

    title = "MNIST, 1,000 images: the paper's grid"

    [data]
    name = "mnist"             # digits, mnist, fashion-mnist, cifar10
    train = [1000]             # sizes n_t
    validation = 10000         # n_v
    repeats = 1
    seed = 0                   # the default
    # test = 2000              # only the first so many test images

    [noise]                    # may be left out: these are the defaults policy = "paper"
    # noise_var, times ten whenever the factorisation fails; or "relative" noise_var = 1e-10

    [[family]]                 # one or more
    activation = "maxout"      # maxout, relu, leaky_relu, abs, erf, tanh, gelu
    kind = "nngp"              # the default; or "ntk"
    rank = [2, 3, 4]           # of maxout
    depth = [1, 5, 9]
    weight_var = [0.1, 0.776]  # a number, a list, or
    bias_var = { from = 0.0, to = 2.0, count = 30 }
    # train = [1000]           # only at these of data.train

    [[family]]                 # networks of finite width, initialised as in the paper and trained
    (needs PyTorch) kind = "finite" width = [5, 50, 500] rank = [2, 3, 4] depth = [1, 5, 9]
    weight_std = [0.001, 0.1]  # standard deviations, whatever the fan-in bias_std = 0.1 optimizer =
    "adam"         # the defaults; or "sgd" learning_rate = 1e-5       # or several epochs = 200
    batch_size = 256 # patience = 10            # early stopping, on the validation images

Repeat r shuffles the original training images with ``numpy.random.default_rng(SeedSequence([seed,
r]))``; the first n_t train and the next n_v validate. A *cell* is one network at one size and
repeat. A *group* is the cells that differ in depth alone, a *split* a size and a repeat. Of a
finite network ``weight_var`` and ``bias_var`` are the squares of its standard deviations.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mnngp import _validation
from mnngp.data.published import NAMES, collection
from mnngp.errors import InputError
from mnngp.finite.schedule import Training

if TYPE_CHECKING:
    from mnngp.activations import Activation
    from mnngp.kernels.sklearn import DeepKernel

KINDS = ("nngp", "ntk", "finite")
ACTIVATIONS = ("maxout", "relu", "leaky_relu", "abs", "erf", "tanh", "gelu")
_MOST_CELLS = 1_000_000
_DEEPEST = 10_000
_WIDEST = 1_000_000
_TRAINING = ("optimizer", "learning_rate", "epochs", "batch_size", "patience")
_KEYS = {
    "": {"title", "data", "noise", "family"},
    "data.": {"name", "train", "validation", "repeats", "seed", "test"},
    "noise.": {"policy", "noise_var"},
    "family": {"activation", "kind", "rank", "depth", "weight_var", "bias_var", "train"},
    "finite": {
        "activation",
        "kind",
        "width",
        "rank",
        "depth",
        "weight_std",
        "bias_std",
        "train",
        *_TRAINING,
    },
    "range": {"from", "to", "count"},
}


@dataclass(frozen=True, order=True)
class Split:
    """A training set: its size, and which of the random ones of that size."""

    n_train: int
    repeat: int


@dataclass(frozen=True)
class Group:
    """Networks that differ in depth alone, on one split."""

    split: Split
    activation: str
    rank: int | None
    kind: str
    weight_var: float
    bias_var: float
    depths: tuple[int, ...]
    width: int | None = None  # infinite
    training: Training | None = None  # of networks of finite width

    def key(self, depth: int) -> str:
        """A cell's name, which no other cell of the protocol has."""
        unit = self.activation if self.rank is None else f"{self.activation}-{self.rank}"
        size, repeat = self.split.n_train, self.split.repeat
        kind = self.kind if self.width is None else f"{self.kind}-{self.width}/{self.training}"
        return f"{size}/{repeat}/{unit}/{kind}/{self.weight_var!r}/{self.bias_var!r}/{depth}"

    def at(self, depths: tuple[int, ...]) -> Group:
        """The same with other depths."""
        return replace(self, depths=depths)

    def kernel(self, depth: int) -> DeepKernel:
        """The kernel of a cell."""
        from mnngp.kernels import NetworkKernel

        return NetworkKernel([self._unit()] * depth, self.weight_var, self.bias_var, self.kind)

    def _unit(self) -> Activation:
        from mnngp import activations

        classes: dict[str, Any] = {
            "relu": activations.ReLU,
            "leaky_relu": activations.LeakyReLU,
            "abs": activations.Abs,
            "erf": activations.Erf,
            "tanh": activations.Tanh,
            "gelu": activations.GELU,
        }
        unit: Activation = (
            activations.Maxout(self.rank or 1)
            if self.activation == "maxout"
            else classes[self.activation]()
        )
        return unit


@dataclass(frozen=True)
class Family:
    """One activation and kind, with all combinations of its hyperparameters."""

    activation: str
    kind: str
    rank: tuple[int | None, ...]
    depth: tuple[int, ...]
    weight_var: tuple[float, ...]
    bias_var: tuple[float, ...]
    train: tuple[int, ...]
    width: tuple[int | None, ...] = (None,)
    training: tuple[Training | None, ...] = (None,)

    def __len__(self) -> int:
        """The number of networks."""
        lists = (self.rank, self.depth, self.weight_var, self.bias_var, self.width, self.training)
        return math.prod(len(values) for values in lists)

    def mapping(self) -> dict[str, Any]:
        """What a TOML file has."""
        common = {"activation": self.activation, "kind": self.kind}
        rank = {"rank": list(self.rank)} if self.activation == "maxout" else {}
        if self.kind != "finite":
            values = {
                key: list(getattr(self, key))
                for key in ("depth", "weight_var", "bias_var", "train")
            }
            return {**common, **rank, **values}
        settings = [training for training in self.training if training is not None]
        same = {
            name: getattr(settings[0], name)
            for name in _TRAINING
            if getattr(settings[0], name) is not None
        }
        return {
            **common,
            **rank,
            **{key: list(getattr(self, key)) for key in ("width", "depth", "train")},
            # exactly what was squared
            "weight_std": [math.sqrt(value) for value in self.weight_var],
            "bias_std": [math.sqrt(value) for value in self.bias_var],
            **same,
            "learning_rate": [training.learning_rate for training in settings],
        }


@dataclass(frozen=True)
class Protocol:
    """What a run does. ``Protocol.load(path)`` or ``Protocol.of(mapping)`` checks it and makes
    one.
    """

    title: str
    dataset: str
    train: tuple[int, ...]
    validation: int
    repeats: int
    seed: int
    test: int
    policy: str
    noise_var: float
    families: tuple[Family, ...]

    @staticmethod
    def load(path: str | Path) -> Protocol:
        """Read a TOML file."""
        try:
            with open(path, "rb") as file:
                mapping = tomllib.load(file)
        except FileNotFoundError as error:
            raise InputError(f"{path} is not there") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not a TOML file: {error}") from error
        try:
            return Protocol.of(mapping)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    @staticmethod
    def of(mapping: Mapping[str, Any]) -> Protocol:
        """Check a mapping, such as a TOML file holds; an error names the key.

        >>> family = {"activation": "relu", "depth": [1, 3], "weight_var": 2.0, "bias_var": 0.1}
        >>> protocol = Protocol.of({"data": {"name": "digits", "train": 100, "validation": 500}, "family": [family]})
        >>> len(protocol), [group.depths for group in protocol.groups]
        (2, [(1, 3)])
        >>> Protocol.of({"data": {"name": "digits", "train": 100, "validation": 500}, "family": [family | {"depth": 0}]})
        Traceback (most recent call last):
            ...
        mnngp.errors.InputError: family[0].depth must be a positive integer (1, 2, 3, ...), got 0
        """
        _known("", mapping)
        title = mapping.get("title", "")
        if not isinstance(title, str):
            raise InputError(f"title must be a text, got {title!r}")
        data = _table("data.", mapping)
        name = _validation.one_of("data.name", _needed("data.", data, "name"), tuple(NAMES))
        train = _integers("data.train", _needed("data.", data, "train"))
        validation = _validation.positive_int(
            "data.validation", _needed("data.", data, "validation")
        )
        images = collection(name)
        if max(train) + validation > images.train:
            raise InputError(
                f"data.train and data.validation must be at most {images.train} together, the "
                f"training images of {name}, "
                f"got {max(train)} + {validation}"
            )
        test = _validation.positive_int("data.test", data.get("test", images.test))
        if test > images.test:
            raise InputError(
                f"data.test must be at most {images.test}, the test images of {name}, got {test}"
            )
        noise = _table("noise.", mapping) if "noise" in mapping else {}
        protocol = Protocol(
            title=title,
            dataset=name,
            train=train,
            validation=validation,
            repeats=_validation.positive_int("data.repeats", data.get("repeats", 1)),
            seed=_validation.seed("data.seed", data.get("seed", 0)),
            test=test,
            policy=_validation.one_of(
                "noise.policy", noise.get("policy", "paper"), ("paper", "relative")
            ),
            noise_var=_validation.real(
                "noise.noise_var", noise.get("noise_var", 1e-10), low=0.0, high=1e6
            ),
            families=_families(mapping, train),
        )
        asked = protocol.repeats * sum(len(one.train) * len(one) for one in protocol.families)
        if asked > _MOST_CELLS:
            raise InputError(f"family: at most {_MOST_CELLS:,} cells can be run, got {asked:,}")
        return protocol

    def mapping(self) -> dict[str, Any]:
        """What ``of`` takes, with every value written out."""
        data = {key: getattr(self, key) for key in ("validation", "repeats", "seed", "test")}
        return {
            "title": self.title,
            "data": {"name": self.dataset, "train": list(self.train), **data},
            "noise": {"policy": self.policy, "noise_var": self.noise_var},
            "family": [one.mapping() for one in self.families],
        }

    def canonical(self) -> str:
        """JSON of everything that results depend on: equal for equal runs, however the file was
        written.
        """
        mapping = self.mapping()
        del mapping["title"]
        return json.dumps(mapping, sort_keys=True)

    def differences(self, new: Protocol) -> list[str]:
        """What another protocol has different, a line a key: ``key: old → new``."""
        old_values, new_values = (dict(_leaves(json.loads(one.canonical()))) for one in (self, new))
        lines = []
        for key in dict.fromkeys([*old_values, *new_values]):
            old, other = old_values.get(key, "nothing"), new_values.get(key, "nothing")
            if old != other:
                lines.append(f"{key}: {old} → {other}")
        return lines

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All groups, those of a split together; what two families have in common is there once."""
        depths: dict[Group, set[int]] = {}
        for split in self.splits:
            for one in self.families:
                if split.n_train not in one.train:
                    continue
                choices = product(one.width, one.training, one.rank, one.weight_var, one.bias_var)
                for width, training, rank, weight_var, bias_var in choices:
                    group = Group(
                        split,
                        one.activation,
                        rank,
                        one.kind,
                        weight_var,
                        bias_var,
                        (),
                        width,
                        training,
                    )
                    depths.setdefault(group, set()).update(one.depth)
        return tuple(group.at(tuple(sorted(own))) for group, own in depths.items())

    @property
    def splits(self) -> Iterator[Split]:
        """All splits, first repeats first."""
        return (
            Split(n_train, repeat) for repeat, n_train in product(range(self.repeats), self.train)
        )

    def __len__(self) -> int:
        """The number of cells."""
        return sum(len(group.depths) for group in self.groups)


def _families(mapping: Mapping[str, Any], train: tuple[int, ...]) -> tuple[Family, ...]:
    tables = _needed("", mapping, "family")
    if not isinstance(tables, list) or not tables:
        raise InputError(f"family must be one or more tables, [[family]], got {tables!r}")
    return tuple(_family(f"family[{index}].", table, train) for index, table in enumerate(tables))


def _family(prefix: str, table: Any, train: tuple[int, ...]) -> Family:
    if not isinstance(table, Mapping):
        raise InputError(f"{prefix[:-1]} must be a table, got {table!r}")
    kind = _validation.one_of(f"{prefix}kind", table.get("kind", "nngp"), KINDS)
    _known(prefix, table, "finite" if kind == "finite" else "family")
    if kind == "finite":
        activation = _validation.one_of(
            f"{prefix}activation", table.get("activation", "maxout"), ("maxout",)
        )
    else:
        activation = _validation.one_of(
            f"{prefix}activation", _needed(prefix, table, "activation"), ACTIVATIONS
        )
    rank: tuple[int | None, ...] = (None,)
    if activation == "maxout":
        rank = _integers(f"{prefix}rank", _needed(prefix, table, "rank"))
    elif "rank" in table:
        raise InputError(
            f"{prefix}rank is for maxout only, got {table['rank']!r} with {activation}"
        )
    here = _integers(f"{prefix}train", table["train"]) if "train" in table else train
    if not set(here) <= set(train):
        raise InputError(
            f"{prefix}train must be some of data.train, {list(train)}, got {list(here)}"
        )
    depth = _integers(f"{prefix}depth", _needed(prefix, table, "depth"), most=_DEEPEST)
    if kind != "finite":
        weights = _reals(f"{prefix}weight_var", _needed(prefix, table, "weight_var"), strict=True)
        biases = _reals(f"{prefix}bias_var", _needed(prefix, table, "bias_var"))
        return Family(activation, kind, rank, depth, weights, biases, here)
    width = _integers(f"{prefix}width", _needed(prefix, table, "width"), most=_WIDEST)
    # So that their squares are numbers, of which they are the roots to the last digit.
    weights = _reals(
        f"{prefix}weight_std", _needed(prefix, table, "weight_std"), low=1e-100, high=1e100
    )
    biases = _reals(f"{prefix}bias_std", _needed(prefix, table, "bias_std"), high=1e100)
    weights, biases = (tuple(value * value for value in values) for values in (weights, biases))
    return Family(
        activation, kind, rank, depth, weights, biases, here, width, _training(prefix, table)
    )


def _training(prefix: str, table: Mapping[str, Any]) -> tuple[Training, ...]:
    """One for each learning rate."""
    given = {name: table[name] for name in _TRAINING if name in table}
    rates = _reals(
        f"{prefix}learning_rate",
        given.pop("learning_rate", Training().learning_rate),
        strict=True,
        high=1e6,
    )
    try:
        return tuple(Training(**given, learning_rate=rate) for rate in rates)
    except InputError as error:  # its text begins with the key
        raise InputError(f"{prefix}{error}") from error


def _known(prefix: str, table: Mapping[str, Any], kind: str | None = None) -> None:
    allowed = _KEYS[prefix if kind is None else kind]
    for key in table:
        if key not in allowed:
            raise InputError(
                f"{prefix}{key} is not known here; there are {', '.join(sorted(allowed))}"
            )


def _table(prefix: str, mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    table = _needed("", mapping, prefix[:-1])
    if not isinstance(table, Mapping):
        raise InputError(f"{prefix[:-1]} must be a table, [{prefix[:-1]}], got {table!r}")
    _known(prefix, table)
    return table


def _needed(prefix: str, table: Mapping[str, Any], key: str) -> Any:
    if key not in table:
        raise InputError(f"{prefix}{key} is missing")
    return table[key]


def _integers(key: str, value: Any, most: int | None = None) -> tuple[int, ...]:
    """One or several, ascending and each once."""
    if isinstance(value, list) and not value:
        raise InputError(f"{key} must hold at least one value, got none")
    items = (
        {f"{key}[{index}]": item for index, item in enumerate(value)}
        if isinstance(value, list)
        else {key: value}
    )
    numbers = {_validation.positive_int(name, item) for name, item in items.items()}
    if most is not None and max(numbers) > most:
        raise InputError(f"{key} must be at most {most:,}, got {max(numbers):,}")
    return tuple(sorted(numbers))


def _reals(
    key: str,
    value: Any,
    *,
    low: float = 0.0,
    high: float = _validation.LARGEST_VARIANCE,
    strict: bool = False,
) -> tuple[float, ...]:
    """A number, several, or a range; ascending and each once."""

    def number(name: str, item: Any) -> float:
        return _validation.real(name, item, low=low, high=high, strict=strict)

    if isinstance(value, Mapping):
        _known(f"{key}.", value, "range")
        ends = [number(f"{key}.{end}", _needed(f"{key}.", value, end)) for end in ("from", "to")]
        count = _validation.positive_int(f"{key}.count", _needed(f"{key}.", value, "count"))
        if count > _MOST_CELLS:
            raise InputError(f"{key}.count must be at most {_MOST_CELLS:,}, got {count:,}")
        return tuple(sorted({float(item) for item in np.linspace(ends[0], ends[1], count)}))
    if not isinstance(value, list):
        return (number(key, value),)
    if not value:
        raise InputError(f"{key} must hold at least one value, got none")
    return tuple(sorted({number(f"{key}[{index}]", item) for index, item in enumerate(value)}))


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{key}[{index}]")
    else:
        yield key, value
