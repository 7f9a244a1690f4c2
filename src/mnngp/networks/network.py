"""A network: its layers, whether its tangent kernel is meant, and the floating point type."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mnngp import _validation
from mnngp.activations import Activation
from mnngp.errors import InputError
from mnngp.networks.embedding import Embedding
from mnngp.networks.layers import Block, Dense, Layer

_DTYPES = (np.dtype(np.float64), np.dtype(np.float32))


@dataclass(frozen=True)
class Network:
    """Everything of an infinitely wide network that its kernel depends on.

    The kernel at depth l is the covariance behind the affine map that follows the l-th activation,
    the theorem's ``G ∘ (H ∘ G)^l``, eq. (32), and not the recursion that eq. (20) prints (label 18
    in the paper's source); see docs/paper.md.

    Attributes
    ----------
    layers : tuple of Dense and Activation
        From the inputs on, in turn; a ``Dense`` is the first and the last.
    tangent : bool
        Whether the tangent kernel is meant (NTK), or the covariance at initialisation (NNGP).
    dtype : numpy.dtype
        Of the computation.
    embedding : Embedding or None
        What stands in front of the first layer.

    Examples
    --------
    >>> from mnngp import MaxoutKernel
    >>> print(MaxoutKernel(depth=2, rank=4, weight_var=0.65).network)
    Dense(0.65, 0.1) → Maxout(rank=4) → Dense(0.65, 0.1) → Maxout(rank=4) → Dense(0.65, 0.1)
    """

    layers: tuple[Layer, ...]
    tangent: bool
    dtype: np.dtype[Any]
    embedding: Embedding | None = None

    @staticmethod
    def of(
        activations: Sequence[Activation],
        weight_var: Any,
        bias_var: Any,
        kind: str,
        dtype: Any,
        embedding: Embedding | None = None,
    ) -> Network:
        """Put a fully connected network together; one variance for all layers, or one for each."""
        count = len(activations) + 1
        weights = _validation.variances("weight_var", weight_var, count, zero=False)
        biases = _validation.variances("bias_var", bias_var, count, zero=True)
        tangent = _validation.one_of("kind", kind, ("nngp", "ntk")) == "ntk"
        maps = [Dense(float(w), float(b)) for w, b in zip(weights, biases, strict=True)]
        layers: list[Layer] = [maps[0]]
        for activation, dense in zip(activations, maps[1:], strict=True):
            layers += [activation, dense]
        return Network(tuple(layers), tangent, as_dtype(dtype), embedding)

    @property
    def depth(self) -> int:
        """The number of activations."""
        return len(self.layers) // 2

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The steps of the recursion; block 0 is the affine map of the inputs."""
        units = (None, *self.layers[1::2])
        pairs = zip(units, self.layers[::2], strict=True)
        return tuple(Block(unit, dense.weight_var, dense.bias_var) for unit, dense in pairs)  # type: ignore[union-attr, arg-type]

    def up_to(self, depth: int) -> Network:
        """The same network cut off behind its first ``depth`` activations."""
        return replace(self, layers=self.layers[: 2 * depth + 1])

    def __str__(self) -> str:
        first = () if self.embedding is None else (self.embedding,)
        return " → ".join(map(str, (*first, *self.layers)))


def as_dtype(value: Any) -> np.dtype[Any]:
    """The floating point type that a name stands for."""
    with contextlib.suppress(TypeError):
        if value is not None and np.dtype(value) in _DTYPES:
            dtype: np.dtype[Any] = np.dtype(value)
            return dtype
    raise InputError(f"dtype must be 'float64' or 'float32', got {value!r}")
