"""The protocol of a run: a TOML file that says which data, sizes, repeats and networks.

docs/experiments.md describes the file. Repeat r shuffles the original training images with
``numpy.random.default_rng(SeedSequence([seed, r]))``; the first n_t train and the next n_v
validate. A *cell* is one network at one size and repeat. A *group* is the cells that differ in
depth alone, a *split* a size and a repeat. Of a finite network ``weight_var`` and ``bias_var`` are
the squares of its standard deviations.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
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
    from mnngp.kernels.sklearn import DeepKernel

KINDS = ("nngp", "ntk", "finite")
ACTIVATIONS = {  # the classes of mnngp.activations
    "maxout": "Maxout",
    "relu": "ReLU",
    "leaky_relu": "LeakyReLU",
    "abs": "Abs",
    "erf": "Erf",
    "tanh": "Tanh",
    "gelu": "GELU",
}
_MOST = 1_000_000  # values of a range, and cells
_REQUIRED: Any = object()
_DEEPEST = 10_000
_WIDEST = 1_000_000
_TRAINING = ("optimizer", "learning_rate", "epochs", "batch_size", "patience")
_DATA = ("name", "train", "validation", "repeats", "seed", "test")
_EVERY_FAMILY = ("activation", "kind", "rank", "depth", "train")
_INFINITE = (*_EVERY_FAMILY, "weight_var", "bias_var")
_FINITE = (*_EVERY_FAMILY, "width", "weight_std", "bias_std", *_TRAINING)


class Table:
    """One table of the file, read value by value: an error names the key.

    ``name`` is how errors call it, ``known`` are the keys it may have.
    """

    def __init__(self, name: str, values: Any, known: Collection[str]) -> None:
        if not isinstance(values, Mapping):
            written = "" if name.endswith("]") else f", [{name}]"
            raise InputError(f"{name} must be a table{written}, got {values!r}")
        self.prefix, self.values = f"{name}." if name else "", values
        for key in values:
            if key not in known:
                raise InputError(
                    f"{self.prefix}{key} is not known here; there are {', '.join(sorted(known))}"
                )

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def get(self, key: str, default: Any = _REQUIRED) -> Any:
        """A value; without a default it must be there."""
        if key not in self.values and default is _REQUIRED:
            raise InputError(f"{self.prefix}{key} is missing")
        return self.values.get(key, default)

    def table(self, key: str, known: Collection[str]) -> Table:
        return Table(f"{self.prefix}{key}", self.get(key), known)

    def choice(self, key: str, allowed: Collection[str], default: Any = _REQUIRED) -> str:
        return _validation.one_of(self.prefix + key, self.get(key, default), tuple(allowed))

    def integer(self, key: str, default: Any = _REQUIRED) -> int:
        return _validation.positive_int(self.prefix + key, self.get(key, default))

    def integers(self, key: str, most: int | None = None) -> tuple[int, ...]:
        """One positive integer or several, ascending and each once."""
        numbers = {_validation.positive_int(name, item) for name, item in self._items(key)}
        if most is not None and max(numbers) > most:
            raise InputError(f"{self.prefix}{key} must be at most {most:,}, got {max(numbers):,}")
        return tuple(sorted(numbers))

    def reals(self, key: str, default: Any = _REQUIRED, **limits: Any) -> tuple[float, ...]:
        """A number, several, or a range; ascending and each once.

        ``limits`` are those of ``_validation.real``.
        """
        limits = {"low": 0.0, "high": _validation.LARGEST_VARIANCE, **limits}
        if not isinstance(self.get(key, default), Mapping):
            items = self._items(key, default)
            return tuple(sorted({_validation.real(name, item, **limits) for name, item in items}))
        inner = self.table(key, ("from", "to", "count"))
        low, high = (
            _validation.real(inner.prefix + end, inner.get(end), **limits) for end in ("from", "to")
        )
        if (count := inner.integer("count")) > _MOST:
            raise InputError(f"{inner.prefix}count must be at most {_MOST:,}, got {count:,}")
        return tuple(sorted(set(np.linspace(low, high, count).tolist())))

    def _items(self, key: str, default: Any = _REQUIRED) -> list[tuple[str, Any]]:
        """The values of a list, or the one value, with their names."""
        value, name = self.get(key, default), self.prefix + key
        if not isinstance(value, list):
            return [(name, value)]
        if not value:
            raise InputError(f"{name} must hold at least one value, got none")
        return [(f"{name}[{index}]", item) for index, item in enumerate(value)]


def leaves(value: Any, key: str = "", *, lists: bool = False) -> Iterator[tuple[str, Any]]:
    """The values of nested tables and lists, with their dotted keys.

    With ``lists`` a list that holds no table is a value.
    """
    inner: Iterable[tuple[str, Any]]
    if isinstance(value, Mapping):
        inner = ((f"{key}.{name}" if key else name, item) for name, item in value.items())
    elif isinstance(value, list) and not (lists and not any(isinstance(i, Mapping) for i in value)):
        inner = ((f"{key}[{index}]", item) for index, item in enumerate(value))
    else:
        yield key, value
        return
    for name, item in inner:
        yield from leaves(item, name, lists=lists)


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
        return replace(self, depths=depths)

    def kernel(self, depth: int) -> DeepKernel:
        from mnngp import activations
        from mnngp.kernels import NetworkKernel

        arguments = () if self.rank is None else (self.rank,)
        unit = getattr(activations, ACTIVATIONS[self.activation])(*arguments)
        return NetworkKernel([unit] * depth, self.weight_var, self.bias_var, self.kind)


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

    @staticmethod
    def of(table: Table, train: tuple[int, ...]) -> Family:
        """Check a table of the file; ``train`` are the sizes of the protocol."""
        finite = table.get("kind", "nngp") == "finite"
        known = (
            {"allowed": ("maxout",), "default": "maxout"} if finite else {"allowed": ACTIVATIONS}
        )
        activation = table.choice("activation", **known)
        rank: tuple[int | None, ...] = (None,)
        if activation == "maxout":
            rank = table.integers("rank")
        elif "rank" in table:
            raise InputError(
                f"{table.prefix}rank is for maxout only, "
                f"got {table.get('rank')!r} with {activation}"
            )
        here = table.integers("train") if "train" in table else train
        if not set(here) <= set(train):
            raise InputError(
                f"{table.prefix}train must be some of data.train, {list(train)}, got {list(here)}"
            )
        depth = table.integers("depth", most=_DEEPEST)
        if not finite:
            weights, biases = table.reals("weight_var", strict=True), table.reals("bias_var")
            return Family(activation, table.get("kind", "nngp"), rank, depth, weights, biases, here)
        # So that their squares are numbers, of which they are the roots to the last digit.
        weights = tuple(w * w for w in table.reals("weight_std", low=1e-100, high=1e100))
        biases = tuple(b * b for b in table.reals("bias_std", high=1e100))
        width = table.integers("width", most=_WIDEST)
        training = _trainings(table)
        return Family(activation, "finite", rank, depth, weights, biases, here, width, training)

    def __len__(self) -> int:
        """The number of networks."""
        lists = (self.rank, self.depth, self.weight_var, self.bias_var, self.width, self.training)
        return math.prod(len(values) for values in lists)

    def mapping(self) -> dict[str, Any]:
        """What a TOML file has."""
        keys = ["rank"] * (self.activation == "maxout") + ["depth", "train"]
        keys += ["width"] if self.kind == "finite" else ["weight_var", "bias_var"]
        mapping: dict[str, Any] = {"activation": self.activation, "kind": self.kind}
        mapping |= {key: list(getattr(self, key)) for key in keys}
        settings = [training for training in self.training if training is not None]
        if settings:
            # exactly what was squared
            mapping["weight_std"] = [math.sqrt(value) for value in self.weight_var]
            mapping["bias_std"] = [math.sqrt(value) for value in self.bias_var]
            same = {name: getattr(settings[0], name) for name in _TRAINING}
            mapping |= {name: value for name, value in same.items() if value is not None}
            mapping["learning_rate"] = [training.learning_rate for training in settings]
        return mapping


def _trainings(table: Table) -> tuple[Training, ...]:
    """One for each learning rate."""
    rates = table.reals("learning_rate", Training().learning_rate, strict=True, high=1e6)
    others = {name: table.get(name) for name in _TRAINING if name in table}
    try:
        return tuple(Training(**others | {"learning_rate": rate}) for rate in rates)
    except InputError as error:  # its text begins with the key
        raise InputError(f"{table.prefix}{error}") from error


@dataclass(frozen=True)
class Protocol:
    """What a run does; ``Protocol.load(path)`` and ``Protocol.of(mapping)`` check it."""

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
        >>> data = {"name": "digits", "train": 100, "validation": 500}
        >>> protocol = Protocol.of({"data": data, "family": [family]})
        >>> len(protocol), [group.depths for group in protocol.groups]
        (2, [(1, 3)])
        >>> Protocol.of({"data": data, "family": [family | {"depth": 0}]})
        Traceback (most recent call last):
            ...
        mnngp.errors.InputError: family[0].depth must be a positive integer (1, 2, 3, ...), got 0
        """
        whole = Table("", mapping, ("title", "data", "noise", "family"))
        title = whole.get("title", "")
        if not isinstance(title, str):
            raise InputError(f"title must be a text, got {title!r}")
        data = whole.table("data", _DATA)
        name = data.choice("name", NAMES)
        train, validation = data.integers("train"), data.integer("validation")
        images = collection(name)
        if max(train) + validation > images.train:
            raise InputError(
                f"data.train and data.validation must be at most {images.train} together, the "
                f"training images of {name}, got {max(train)} + {validation}"
            )
        test = data.integer("test", images.test)
        if test > images.test:
            raise InputError(
                f"data.test must be at most {images.test}, the test images of {name}, got {test}"
            )
        noise = Table("noise", mapping.get("noise", {}), ("policy", "noise_var"))
        protocol = Protocol(
            title=title,
            dataset=name,
            train=train,
            validation=validation,
            repeats=data.integer("repeats", 1),
            seed=_validation.seed("data.seed", data.get("seed", 0)),
            test=test,
            policy=noise.choice("policy", ("paper", "relative"), "paper"),
            noise_var=_validation.real(
                "noise.noise_var", noise.get("noise_var", 1e-10), low=0.0, high=1e6
            ),
            families=_families(whole.get("family"), train),
        )
        asked = protocol.repeats * sum(len(one.train) * len(one) for one in protocol.families)
        if asked > _MOST:
            raise InputError(f"family: at most {_MOST:,} cells can be run, got {asked:,}")
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
        """JSON of all that results depend on: the same for equal runs, however they are written."""
        mapping = self.mapping()
        del mapping["title"]
        return json.dumps(mapping, sort_keys=True)

    def differences(self, new: Protocol) -> list[str]:
        """What another protocol has different, a line a key: ``key: old → new``."""
        old, other = (dict(leaves(json.loads(one.canonical()))) for one in (self, new))
        pairs = {key: (old.get(key, "nothing"), other.get(key, "nothing")) for key in old | other}
        return [f"{key}: {was} → {now}" for key, (was, now) in pairs.items() if was != now]

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All groups, those of a split together; what two families have in common is there once."""
        depths: dict[Group, set[int]] = {}
        for split in self.splits:
            for one in self.families:
                if split.n_train not in one.train:
                    continue
                choices = product(one.width, one.training, one.rank, one.weight_var, one.bias_var)
                for width, training, rank, w, b in choices:
                    group = Group(split, one.activation, rank, one.kind, w, b, (), width, training)
                    depths.setdefault(group, set()).update(one.depth)
        return tuple(group.at(tuple(sorted(own))) for group, own in depths.items())

    @property
    def splits(self) -> Iterator[Split]:
        """All splits, first repeats first."""
        sizes = product(range(self.repeats), self.train)
        return (Split(n_train, repeat) for repeat, n_train in sizes)

    def __len__(self) -> int:
        """The number of cells."""
        return sum(len(group.depths) for group in self.groups)


def _families(tables: Any, train: tuple[int, ...]) -> tuple[Family, ...]:
    if not isinstance(tables, list) or not tables:
        raise InputError(f"family must be one or more tables, [[family]], got {tables!r}")
    families = []
    for index, values in enumerate(tables):
        name = f"family[{index}]"
        kind = values.get("kind", "nngp") if isinstance(values, Mapping) else "nngp"
        _validation.one_of(f"{name}.kind", kind, KINDS)
        known = _FINITE if kind == "finite" else _INFINITE
        families.append(Family.of(Table(name, values, known), train))
    return tuple(families)
