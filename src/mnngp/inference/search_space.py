"""Which kernels a fit chooses from: what the user left open.

A ``SearchSpace`` gives the kernels to begin with and the neighbours of each; ``choice`` scores them
and walks. A new family of networks is a new space.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from mnngp._typing import Vector
from mnngp.activations import Maxout
from mnngp.kernels.sklearn import DeepKernel, MaxoutKernel
from mnngp.networks.embedding import Embedding

MAXOUT_PARAMETERS = ("depth", "rank", "weight_var", "bias_var", "kind")
RANKS = (2, 3, 4, 6, 8, 16)
DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
GAINS = (0.5, 0.8, 1.0, 1.25, 2.0)  # weight_var in units of the activation's critical one
BIASES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
KINDS = ("nngp", "ntk")
LENGTHSCALES = (0.25, 0.5, 1.0, 2.0, 4.0)  # of an embedding
LINEAR = "linear"  # features without one
DEFAULTS = {"depth": 3, "rank": 4, "bias_var": 0.1, "kind": "nngp"}
_LINEAR_STARTS = (
    # kind, rank, depth, gain, bias_var
    ("nngp", 4, 1, 1.0, 0.1),
    ("nngp", 2, 3, 1.0, 1.0),
    ("nngp", 4, 4, 1.0, 0.1),
    ("nngp", 4, 12, 1.0, 0.1),
    ("ntk", 4, 1, 1.0, 0.1),
    ("ntk", 2, 3, 1.0, 0.01),
    ("ntk", 4, 4, 1.0, 0.1),
    ("ntk", 4, 12, 1.0, 0.1),
)
_STARTS = (
    # the same where there are embeddings, too, and a lengthscale for those
    (("nngp", 4, 1, 1.0, 0.1), 1.0),
    (("ntk", 4, 4, 1.0, 0.1), 1.0),
    (("nngp", 4, 12, 1.0, 0.1), 1.0),
    (("nngp", 2, 3, 1.0, 0.1), 0.25),
)
# Of a saturating activation the weight variance says how nonlinear a layer is: a wider range.
_SMOOTH_GAINS = (0.1, 0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0, 10.0)
_FEWEST = 3  # values of a variance within its bounds; if there are fewer, others are made
_FACTORS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)  # of bias variances that differ by layer


class SearchSpace(ABC):
    """The kernels that a fit chooses from, in double precision."""

    dtype: Any  # of the kernel that is fitted in the end
    complete: bool  # whether there is but one kernel: nothing to choose
    weighs: bool = False  # whether features may have other shares

    def fitted(self, kernel: DeepKernel) -> DeepKernel:
        """A kernel of the space as it is fitted in the end, in ``dtype``."""
        return with_parameters(kernel, dtype=self.dtype)  # type: ignore[no-any-return]

    def features(self, kernel: DeepKernel) -> str:
        """Which version of the features a kernel of the space stands behind."""
        return LINEAR

    @abstractmethod
    def default(self) -> DeepKernel:
        """The kernel where there is nothing to choose one by."""

    @abstractmethod
    def starts(self) -> Iterator[DeepKernel]:
        """Where the search begins, the most promising first; some may be equal."""

    @abstractmethod
    def neighbours(self, kernel: DeepKernel) -> Iterator[DeepKernel]:
        """One step from a kernel in each direction that is open."""

    def sharper(self, kernel: DeepKernel) -> Iterator[DeepKernel]:
        """Neighbours that may be better when there are more data."""
        return self.neighbours(kernel)

    def weighted(self, kernel: DeepKernel, weights: tuple[float, ...]) -> Iterator[DeepKernel]:
        """A kernel whose features have other shares, where the space ``weighs``."""
        return iter(())


class MaxoutSpace(SearchSpace):
    """Networks of equal maxout layers; some of ``MAXOUT_PARAMETERS`` may be given.

    ``embeddings`` are by the version of the features that they take, and differ in their limits;
    any lengthscale may be theirs. ``linear`` says whether there are networks without any.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        dtype: Any = "float64",
        embeddings: Mapping[str, Embedding] | None = None,
        *,
        linear: bool = True,
    ) -> None:
        self.given, self.dtype = dict(given), dtype
        self.embeddings, self.linear = dict(embeddings or {}), linear
        self.weighs = bool(self.embeddings)
        self.complete = len(self.given) == len(MAXOUT_PARAMETERS) and not self.embeddings

    def features(self, kernel: Any) -> str:
        if kernel.embedding is None:
            return LINEAR
        limits = kernel.embedding.limits
        return next(name for name, one in self.embeddings.items() if one.limits == limits)

    def default(self) -> MaxoutKernel:
        rank = self.given.get("rank", DEFAULTS["rank"])
        critical = Maxout(rank).critical_weight_var
        embedding = None if self.linear else next(iter(self.embeddings.values()))
        own = {"weight_var": critical, "embedding": embedding, **self.given}
        return MaxoutKernel(**{**DEFAULTS, **own})

    def starts(self) -> Iterator[MaxoutKernel]:
        if not self.embeddings:
            yield from (self._kernel(*start) for start in _LINEAR_STARTS)
            return
        for network, lengthscale in _STARTS:
            for one in self.embeddings.values():
                yield self._kernel(*network, replace(one, lengthscale=lengthscale))
            if self.linear:
                yield self._kernel(*network)

    def weighted(self, kernel: Any, weights: tuple[float, ...]) -> Iterator[MaxoutKernel]:
        """A kernel whose features have other shares, in each version of them."""
        for one in self.embeddings.values():
            embedding = replace(one, lengthscale=kernel.embedding.lengthscale, weights=weights)
            yield with_parameters(kernel, embedding=embedding)

    def neighbours(self, kernel: Any) -> Iterator[MaxoutKernel]:
        gain = 1.0
        if "weight_var" not in self.given:
            gain = kernel.weight_var / Maxout(kernel.rank).critical_weight_var
        names = ("kind", "rank", "depth", "bias_var", "embedding")
        here = {name: getattr(kernel, name) for name in names}
        here["gain"] = gain
        yield from (self._kernel(**{**here, "embedding": one}) for one in self._others(kernel))
        axes = {"depth": DEPTHS, "bias_var": BIASES, "rank": RANKS, "gain": GAINS, "kind": KINDS}
        for name, values in axes.items():
            if ("weight_var" if name == "gain" else name) not in self.given:
                for value in _steps(values, here[name]):
                    yield self._kernel(**{**here, name: value})

    def sharper(self, kernel: Any) -> Iterator[MaxoutKernel]:
        for other in self.neighbours(kernel):
            finer = (
                other.embedding is not None
                and other.embedding.lengthscale < kernel.embedding.lengthscale
            )
            if finer or other.depth > kernel.depth or other.rank > kernel.rank:
                yield other

    def _others(self, kernel: Any) -> Iterator[Embedding]:
        """Embeddings one step away: with another lengthscale, or of another version."""
        embedding = kernel.embedding
        if embedding is None:
            return
        for lengthscale in _steps(LENGTHSCALES, embedding.lengthscale):
            yield replace(embedding, lengthscale=lengthscale)
        for other in self.embeddings.values():
            if other.limits != embedding.limits:
                yield replace(other, lengthscale=embedding.lengthscale, weights=embedding.weights)

    def _kernel(
        self,
        kind: str,
        rank: int,
        depth: int,
        gain: float,
        bias_var: Any,
        embedding: Embedding | None = None,
    ) -> MaxoutKernel:
        rank = self.given.get("rank", rank)
        weight_var = gain * Maxout(rank).critical_weight_var
        own = {"depth": depth, "weight_var": weight_var, "bias_var": bias_var, "kind": kind}
        return MaxoutKernel(**{**own, "rank": rank, "embedding": embedding, **self.given})


class VarianceSpace(SearchSpace):
    """A given kernel, of which the variances that are not fixed are open, within their bounds.

    A variance for all layers is set: the weight variance around the critical one, on average over
    the layers. Variances that differ by layer keep their ratios, and have a common factor.
    """

    def __init__(self, kernel: DeepKernel) -> None:
        self.dtype = kernel.dtype
        self.kernel: DeepKernel = with_parameters(kernel, dtype="float64")
        activations = [block.activation for block in kernel.network.blocks if block.activation]
        homogeneous = all(activation.homogeneous for activation in activations)
        logs = [math.log(activation.critical_weight_var) for activation in activations]
        self._ladders: dict[str, list[Any]] = {}
        self._starts: dict[str, list[Any]] = {}
        gains = GAINS if homogeneous else _SMOOTH_GAINS
        weight = kernel.weight_var if np.ndim(kernel.weight_var) else math.exp(np.mean(logs))
        self._open("weight_var", weight, gains, (1.0,) if homogeneous else (1.0, 0.25, 4.0))
        if np.ndim(kernel.bias_var):
            self._open("bias_var", kernel.bias_var, _FACTORS, (1.0, 10.0, 0.1))
        else:
            self._open("bias_var", 1.0, BIASES, (0.1, 1.0, 0.01))
        self.complete = not self._ladders

    def _open(self, name: str, unit: Any, factors: Sequence[float], first: Sequence[float]) -> None:
        """Open a variance, if it is not fixed: ``factors`` times the unit, within its bounds."""
        hyperparameter = getattr(self.kernel, f"hyperparameter_{name}")
        if hyperparameter.fixed:
            return
        lowest, highest = hyperparameter.bounds.T / unit
        low, high = lowest.max(), highest.min()
        rungs = [factor for factor in factors if low <= factor <= high]
        if len(rungs) < _FEWEST:
            rungs = np.geomspace(low, high, 5).tolist() if low < high else []

        def times_unit(factor: float) -> Any:
            return tuple((factor * np.asarray(unit)).tolist()) if np.ndim(unit) else factor * unit

        self._ladders[name] = [times_unit(factor) for factor in rungs]
        begin = [factor for factor in first if factor in rungs] or rungs[len(rungs) // 2 :][:1]
        self._starts[name] = [times_unit(factor) for factor in begin]

    def default(self) -> DeepKernel:
        return self.kernel

    def starts(self) -> Iterator[DeepKernel]:
        yield self.kernel
        begin = {name: values for name, values in self._starts.items() if values}
        for values in product(*begin.values()):
            yield with_parameters(self.kernel, **dict(zip(begin, values, strict=True)))

    def neighbours(self, kernel: DeepKernel) -> Iterator[DeepKernel]:
        for name, values in self._ladders.items():
            for value in _steps(values, getattr(kernel, name)):
                yield with_parameters(kernel, **{name: value})


def with_parameters(kernel: DeepKernel, **parameters: Any) -> Any:
    """A kernel that differs in some parameters; activations are the same objects."""
    return type(kernel)(**{**kernel.get_params(), **parameters})


def _steps(ladder: Sequence[Any], here: Any) -> Iterator[Any]:
    """The values of a ladder on both sides of the one that is nearest to ``here``."""
    away = [
        value != here if isinstance(here, str) else abs(np.log(_first(value) / _first(here)))
        for value in ladder
    ]
    nearest = int(np.argmin(away)) if away else 0
    for index in (nearest - 1, nearest + 1):
        if 0 <= index < len(ladder):
            yield ladder[index]


def _first(value: float | Vector) -> float:
    """Of variances that differ by layer, the first: their ratios stay."""
    return float(np.ravel(value)[0])
