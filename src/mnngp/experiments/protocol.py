"""The protocol of a run: a TOML file that says which data, sizes, repeats and networks.

docs/experiments.md describes the file. Repeat r shuffles the original training images with
``numpy.random.default_rng(SeedSequence([seed, r]))``; the first n_t train and the next n_v
validate. A *cell* is one network at one size and repeat. A *group* is the cells that differ in
depth alone, a *split* a size and a repeat. Of a finite network ``weight_var`` and ``bias_var`` are
the squares of its standard deviations. The ``activation`` of a convolutional network is all of its
layers, and its depth the number of activations among them.
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

from mnngp import _validation
from mnngp.data.published import NAMES, Collection, collection
from mnngp.errors import InputError
from mnngp.experiments import convolutions
from mnngp.experiments.convolutions import Convolution
from mnngp.experiments.toml_tables import MOST, Table, leaves
from mnngp.finite.schedule import Training

if TYPE_CHECKING:
    from mnngp.kernels.sklearn import DeepKernel

KINDS = ("nngp", "ntk", "finite")
FORMS = ("dense", "convolutional", "finite")
ACTIVATIONS = {  # the classes of mnngp.activations
    "maxout": "Maxout",
    "relu": "ReLU",
    "leaky_relu": "LeakyReLU",
    "abs": "Abs",
    "erf": "Erf",
    "tanh": "Tanh",
    "gelu": "GELU",
}
_DEEPEST = 10_000
_WIDEST = 1_000_000
_TRAINING = ("optimizer", "learning_rate", "epochs", "batch_size", "patience")
_DATA = ("name", "train", "validation", "repeats", "seed", "test")
_EVERY_FAMILY = ("activation", "kind", "rank", "depth", "train")
_INFINITE = (*_EVERY_FAMILY, "weight_var", "bias_var", "noise_var")
_CONVOLUTIONAL = (*convolutions.KEYS, *convolutions.OPTIONS, "noise_var")
_FINITE = (*_EVERY_FAMILY, "width", "weight_std", "bias_std", *_TRAINING)


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
    convolution: Convolution | None = None
    noise_var: float | None = None  # that of the protocol

    @property
    def form(self) -> str:
        """How its cells are computed: one of ``FORMS``."""
        if self.convolution is not None:
            return "convolutional"
        return "dense" if self.width is None else "finite"

    @property
    def options(self) -> str | None:
        """What is not as usual, in words."""
        words = [] if self.convolution is None else self.convolution.options
        words += [] if self.noise_var is None else [f"noise_var {self.noise_var!r}"]
        return ", ".join(words) or None

    def key(self, depth: int) -> str:
        """A cell's name, which no other cell of the protocol has."""
        unit = self.activation if self.rank is None else f"{self.activation}-{self.rank}"
        size, repeat = self.split.n_train, self.split.repeat
        kind = self.kind if self.width is None else f"{self.kind}-{self.width}/{self.training}"
        options = "" if self.options is None else f"/{self.options}"
        variances = f"{self.weight_var!r}/{self.bias_var!r}"
        return f"{size}/{repeat}/{unit}/{kind}/{variances}/{depth}{options}"

    def at(self, depths: tuple[int, ...]) -> Group:
        return replace(self, depths=depths)

    def kernel(self, depth: int) -> DeepKernel:
        from mnngp import activations
        from mnngp.kernels import NetworkKernel

        if self.convolution is not None:
            return NetworkKernel(
                self.convolution.network(self.rank),
                self.weight_var,
                self.bias_var,
                self.kind,
                self.convolution.dtype,
                image_shape=self.convolution.image_shape,
                flips=self.convolution.flips,
            )
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
    convolution: tuple[Convolution | None, ...] = (None,)
    noise_var: tuple[float | None, ...] = (None,)

    @staticmethod
    def of(table: Table, train: tuple[int, ...], images: Collection) -> Family:
        """Check a table of the file; ``train`` are the sizes of the protocol."""
        here = table.integers("train") if "train" in table else train
        if not set(here) <= set(train):
            raise InputError(
                f"{table.prefix}train must be some of data.train, {list(train)}, got {list(here)}"
            )
        return (_convolutional if "layers" in table else _dense)(table, here, images)

    def __len__(self) -> int:
        """The number of networks."""
        of_layers = (self.rank, self.depth, self.weight_var, self.bias_var, self.convolution)
        others = (self.width, self.training, self.noise_var)
        return math.prod(map(len, (*of_layers, *others)))

    def mapping(self) -> dict[str, Any]:
        """What a TOML file has."""
        noise = [value for value in self.noise_var if value is not None]
        return self._mapping() | ({"noise_var": noise} if noise else {})

    def _mapping(self) -> dict[str, Any]:
        variants = tuple(one for one in self.convolution if one is not None)
        if variants:
            keys = ["rank"] * variants[0].ranked + ["train", "weight_var", "bias_var"]
            mapping: dict[str, Any] = {key: list(getattr(self, key)) for key in keys}
            return {"kind": self.kind} | mapping | convolutions.mapping(variants)
        keys = ["rank"] * (self.activation == "maxout") + ["depth", "train"]
        keys += ["width"] if self.kind == "finite" else ["weight_var", "bias_var"]
        mapping = {"activation": self.activation, "kind": self.kind}
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


def _dense(table: Table, here: tuple[int, ...], images: Collection) -> Family:
    finite = table.get("kind", "nngp") == "finite"
    known = {"allowed": ("maxout",), "default": "maxout"} if finite else {"allowed": ACTIVATIONS}
    activation = table.choice("activation", **known)
    rank: tuple[int | None, ...] = (None,)
    if activation == "maxout":
        rank = table.integers("rank")
    elif "rank" in table:
        raise InputError(
            f"{table.prefix}rank is for maxout only, got {table.get('rank')!r} with {activation}"
        )
    depth = table.integers("depth", most=_DEEPEST)
    if not finite:
        weights, biases = table.reals("weight_var", strict=True), table.reals("bias_var")
        kind, noise = table.get("kind", "nngp"), _noises(table)
        return Family(activation, kind, rank, depth, weights, biases, here, noise_var=noise)
    # So that their squares are numbers, of which they are the roots to the last digit.
    weights = tuple(w * w for w in table.reals("weight_std", low=1e-100, high=1e100))
    biases = tuple(b * b for b in table.reals("bias_std", high=1e100))
    width = table.integers("width", most=_WIDEST)
    training = _trainings(table)
    return Family(activation, "finite", rank, depth, weights, biases, here, width, training)


def _convolutional(table: Table, here: tuple[int, ...], images: Collection) -> Family:
    kind = table.choice("kind", ("nngp", "ntk"), "nngp")
    found = convolutions.variants(table, images)
    rank: tuple[int | None, ...] = (None,)
    if found[0].ranked:
        rank = table.integers("rank")
    elif "rank" in table:
        raise InputError(f"{table.prefix}rank is for layers such as 'Maxout(rank)', there is none")
    depth = (convolutions.depth_of(table.prefix, found[0], rank),)
    weights, biases = table.reals("weight_var", strict=True), table.reals("bias_var")
    name, noise = found[0].name, _noises(table)
    return Family(
        name, kind, rank, depth, weights, biases, here, convolution=found, noise_var=noise
    )


def _noises(table: Table) -> tuple[float | None, ...]:
    """What a family has in place of the protocol's noise."""
    return table.reals("noise_var", high=1e6) if "noise_var" in table else (None,)


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
            families=_families(whole.get("family"), train, images),
        )
        asked = protocol.repeats * sum(len(one.train) * len(one) for one in protocol.families)
        if asked > MOST:
            raise InputError(f"family: at most {MOST:,} cells can be run, got {asked:,}")
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
                of_layers = product(one.width, one.training, one.convolution, one.noise_var)
                for form, rank, w, b in product(of_layers, one.rank, one.weight_var, one.bias_var):
                    group = Group(split, one.activation, rank, one.kind, w, b, (), *form)
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


def _families(tables: Any, train: tuple[int, ...], images: Collection) -> tuple[Family, ...]:
    if not isinstance(tables, list) or not tables:
        raise InputError(f"family must be one or more tables, [[family]], got {tables!r}")
    families = []
    for index, values in enumerate(tables):
        name = f"family[{index}]"
        kind = values.get("kind", "nngp") if isinstance(values, Mapping) else "nngp"
        _validation.one_of(f"{name}.kind", kind, KINDS)
        known: tuple[str, ...] = _FINITE if kind == "finite" else _INFINITE
        if isinstance(values, Mapping) and "layers" in values:
            known = _CONVOLUTIONAL
        families.append(Family.of(Table(name, values, known), train, images))
    return tuple(families)
