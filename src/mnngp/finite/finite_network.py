"""What networks of finite width share: random affine maps, and data as tensors for them.

*Initialisation.* The infinite-width one draws the weights of a map with the variance
``weight_var / fan_in`` and its biases with ``bias_var``: as the width grows the network becomes the
Gaussian process whose kernel ``network.kernel()`` is.

*Parametrisation.* "standard" has those weights as its parameters. "ntk" has numbers of unit
variance, and multiplies them by their standard deviations in the forward pass: the same function at
the start, but one whose gradient descent has a limit, in which ``network.kernel("ntk")`` rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from mnngp import _validation
from mnngp._typing import Matrix
from mnngp.errors import InputError

DTYPES = {"float32": torch.float32, "float64": torch.float64}
Affine = Callable[[int, torch.Tensor], torch.Tensor]


class FiniteNetwork(torch.nn.Module):  # type: ignore[misc]
    """Affine maps with random weights, and what a network does between them."""

    # what networks must have in common to be trained together, beside dtype and device
    _traits: ClassVar[tuple[str, ...]]
    inputs: int
    outputs: int
    parametrization: str
    deviations: list[tuple[float, float]]  # of the weights and biases of each map
    _given: dict[str, Any]  # what says so

    def _draw(
        self,
        sizes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
        parametrization: str,
        seed: int | None,
        dtype: str | torch.dtype,
        device: Any,
    ) -> None:
        """Draw parameters: ``sizes`` are those of the weights and biases of each affine map."""
        names = ("standard", "ntk")
        self.parametrization = _validation.one_of("parametrization", parametrization, names)
        kind = torch_dtype(dtype)
        if seed is None:
            seed = int(torch.randint(2**63 - 1, (), device="cpu"))
        # of the CPU, so that a seed means the same everywhere
        generator = torch.Generator().manual_seed(_validation.seed("seed", seed))
        self.weights, self.biases = torch.nn.ParameterList(), torch.nn.ParameterList()
        for pair, deviation in zip(sizes, self.deviations, strict=True):
            scale = (1.0, 1.0) if parametrization == "ntk" else deviation
            for of, size, std in zip((self.weights, self.biases), pair, scale, strict=True):
                numbers = torch.empty(size, dtype=kind, device="cpu")
                numbers.normal_(generator=generator).mul_(std)
                of.append(torch.nn.Parameter(numbers.to(device)))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """The outputs for the points of ``X``, a row each."""
        return self._affine(len(self.deviations) - 1, self.hidden(X))

    def hidden(self, X: torch.Tensor) -> torch.Tensor:
        """What the output is an affine map of: a row for each point of ``X``."""
        return self._hidden(X, self._affine)

    def _traced(self, X: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """What goes into each affine map and what comes out; the outputs come last."""
        inputs, values = [], []

        def affine(index: int, H: torch.Tensor) -> torch.Tensor:
            inputs.append(H)
            values.append(self._affine(index, H))
            return values[-1]

        affine(len(self.deviations) - 1, self._hidden(X, affine))
        return inputs, values

    def _hidden(self, X: torch.Tensor, affine: Affine) -> torch.Tensor:
        """``hidden``, by these affine maps."""
        raise NotImplementedError

    def _affine(self, index: int, X: torch.Tensor) -> torch.Tensor:
        """All affine maps of a layer, one after the other."""
        raise NotImplementedError

    def _scaled(self, index: int, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the weights of a layer are multiplied by, and the biases."""
        bias = self.biases[index].reshape(-1)
        if self.parametrization == "ntk":
            weight_std, bias_std = self.deviations[index]
            return X * weight_std, bias * bias_std
        return X, bias

    def _windows(self, index: int, H: torch.Tensor) -> torch.Tensor:
        """What each window of an affine map sees of its input: (points, fan-in, windows)."""
        return H[..., None]

    def _as_rows(self, name: str, array: Matrix) -> Matrix:
        """Points, or sets of them, whose last axis has the ``inputs`` of one."""
        return array

    def extra_repr(self) -> str:
        shown = {name: getattr(self, name) for name in self._traits} | self._given
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())


def torch_dtype(dtype: object) -> torch.dtype:
    """The dtype of that name, or that dtype itself, if networks can have it."""
    if isinstance(dtype, torch.dtype) and dtype in DTYPES.values():
        return dtype
    return DTYPES[_validation.one_of("dtype", dtype, tuple(DTYPES))]


def real_array(name: str, value: Any) -> Matrix:
    """Return a tensor, or what NumPy makes an array of, as a numeric array."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        # NumPy has no bfloat16
        value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    return _validation.real_array(name, value)


def tensor_like(array: Matrix, like: torch.Tensor) -> torch.Tensor:
    """An array of any layout as a tensor, with the dtype and the device of ``like``."""
    # PyTorch refuses negative strides and other machines' numbers, and warns of arrays that cannot
    # be written to.
    kind = np.dtype(np.float64) if array.dtype.itemsize > 8 else array.dtype.newbyteorder("=")
    return torch.from_numpy(np.require(array, kind, ["C", "W"])).to(like)


def input_tensor(name: str, value: Any, network: FiniteNetwork) -> torch.Tensor:
    """Points (points, inputs) as a tensor for the network."""
    array = _validation.points(name, network._as_rows(name, real_array(name, value)))
    if array.shape[1] != network.inputs:
        raise InputError(
            f"{name} must have {network.inputs} columns, as many as the network has "
            f"inputs, got shape {array.shape}"
        )
    return tensor_like(array, network.weights[0].detach())


def infinite_width(
    fan_ins: Sequence[int], weight_var: Any, bias_var: Any
) -> tuple[list[tuple[float, float]], dict[str, Any]]:
    """Standard deviations of the weights and biases of each map, and what says so."""
    count = len(fan_ins)
    weights = _validation.variances("weight_var", weight_var, count, zero=False) / fan_ins
    biases = _validation.variances("bias_var", bias_var, count, zero=True)
    pairs = list(zip(np.sqrt(weights).tolist(), np.sqrt(biases).tolist(), strict=True))
    return pairs, plain(weight_var=weight_var, bias_var=bias_var)


def plain(**values: Any) -> dict[str, Any]:
    """The same as Python's own numbers, and lists of them."""
    return {name: np.asarray(value, dtype=np.float64).tolist() for name, value in values.items()}
