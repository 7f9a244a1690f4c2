"""A maxout network of finite width, as a PyTorch module.

With ``h_0 = x`` and for l = 1 … L, every unit of a layer the maximum of q affine maps of the layer
before (eqs. 1 and 2):

    h_l = max_{i ≤ q} (W_{l,i} h_{l-1} + b_{l,i}),        f = W h_L + b

*Initialisation.* That of infinite width (``finite_network``); or that of the paper's own
experiments with finite networks, which give the standard deviations themselves, ``weight_std`` and
``bias_std``, whatever the fan-in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mnngp import _validation
from mnngp.errors import InputError
from mnngp.finite.finite_network import Affine, FiniteNetwork, infinite_width, plain
from mnngp.kernels import MaxoutKernel


class MaxoutNetwork(FiniteNetwork):
    """A fully connected network of ``depth`` hidden layers of maxout units.

    Parameters
    ----------
    width, rank, depth : int
        Units of a hidden layer, affine maps that a unit is the maximum of, hidden layers.
    inputs, outputs : int
        Numbers that come in and go out.
    weight_var, bias_var : float or sequence of depth + 1 floats
        The infinite-width initialisation: variances times fan-in of the weights, and of the biases;
        one for all affine maps, or one for each. By default those of ``MaxoutKernel``, 1 and 0.1.
    weight_std, bias_std : float
        The paper's initialisation, in place of the variances: standard deviations as they are,
        whatever the fan-in.
    parametrization : {"standard", "ntk"}
        What the parameters are, see above. At the start it makes no difference.
    seed : int, optional
        Of the initial parameters; equal seeds give equal networks of one dtype, on every device.
        None: a seed that PyTorch's own generator draws, so ``torch.manual_seed`` decides.
    dtype : {"float32", "float64"}, or torch.float32, torch.float64
        Of the parameters.
    device : str or torch.device
        Any that PyTorch has.

    Examples
    --------
    >>> network = MaxoutNetwork(50, rank=4, depth=3, inputs=784, outputs=10, weight_var=0.5)
    >>> network(torch.zeros(2, 784)).shape
    torch.Size([2, 10])
    >>> network.kernel()  # of the Gaussian process that it is nearly
    MaxoutKernel(depth=3, rank=4, weight_var=0.5, bias_var=0.1, kind='nngp')
    """

    _traits = ("width", "rank", "depth", "inputs", "outputs", "parametrization")

    def __init__(
        self,
        width: int,
        rank: int,
        depth: int,
        inputs: int,
        outputs: int = 1,
        *,
        weight_var: Any = None,
        bias_var: Any = None,
        weight_std: float | None = None,
        bias_std: float | None = None,
        parametrization: str = "standard",
        seed: int | None = None,
        dtype: str | torch.dtype = "float32",
        device: Any = "cpu",
    ) -> None:
        super().__init__()
        shape = {"width": width, "rank": rank, "depth": depth, "inputs": inputs, "outputs": outputs}
        for name, value in shape.items():
            setattr(self, name, _validation.positive_int(name, value))
        fan_ins = [inputs, *[width] * depth]
        given = {"weight_var": weight_var, "bias_var": bias_var}
        given |= {"weight_std": weight_std, "bias_std": bias_std}
        self.deviations, self._given = _deviations(fan_ins, given)
        maps = [*[(rank, width)] * depth, (outputs,)]
        sizes = [((*size, fan_in), size) for size, fan_in in zip(maps, fan_ins, strict=True)]
        self._draw(sizes, parametrization, seed, dtype, device)

    @classmethod
    def of_kernel(cls, kernel: MaxoutKernel, width: int, inputs: int, seed: int) -> MaxoutNetwork:
        """A network whose limit of infinite width, also in training, a kernel is of."""
        options: dict[str, Any] = {"weight_var": kernel.weight_var, "bias_var": kernel.bias_var}
        options |= {"parametrization": "ntk", "seed": seed}
        return cls(width, kernel.rank, kernel.depth, inputs, **options)

    def _hidden(self, X: torch.Tensor, affine: Affine) -> torch.Tensor:
        for index in range(self.depth):
            X = affine(index, X).unflatten(-1, (self.rank, self.width)).amax(-2)
        return X

    def _affine(self, index: int, X: torch.Tensor) -> torch.Tensor:
        (X, bias), weight = self._scaled(index, X), self.weights[index]
        return torch.nn.functional.linear(X, weight.reshape(-1, weight.shape[-1]), bias)

    def kernel(self, kind: str = "nngp") -> MaxoutKernel:
        """The kernel that belongs to the initialisation: exact in the limit of infinite width.

        For the paper's initialisation this is the kernel with ``weight_var = fan_in · weight_std²``
        in each layer.
        """
        weight_var, bias_var = np.square(self.deviations).T
        fan_ins = [self.inputs, *[self.width] * self.depth]
        weights, biases = _one_if_equal(weight_var * fan_ins), _one_if_equal(bias_var)
        return MaxoutKernel(self.depth, self.rank, weight_var=weights, bias_var=biases, kind=kind)


def _deviations(
    fan_ins: list[int], given: dict[str, Any]
) -> tuple[list[tuple[float, float]], dict[str, Any]]:
    """Standard deviations of the weights and biases of each map, and what says so."""
    if given["weight_std"] is None and given["bias_std"] is None:
        weight_var = 1.0 if given["weight_var"] is None else given["weight_var"]
        bias_var = 0.1 if given["bias_var"] is None else given["bias_var"]
        return infinite_width(fan_ins, weight_var, bias_var)
    if given["weight_var"] is not None or given["bias_var"] is not None:
        raise InputError(
            "variances (weight_var, bias_var: over fan-in) and standard deviations (weight_std, "
            "bias_std: as they are) exclude each other, got "
            + ", ".join(f"{name}={value!r}" for name, value in given.items())
        )
    if given["weight_std"] is None:
        raise InputError(
            "weight_std is missing: the paper's initialisation takes weight_std and bias_std"
        )
    weight_std = _validation.real("weight_std", given["weight_std"], low=0.0, strict=True)
    bias_std = _validation.real("bias_std", given["bias_std"] or 0.0, low=0.0)
    pairs = [(weight_std, bias_std)] * len(fan_ins)
    return pairs, plain(weight_std=weight_std, bias_std=bias_std)


def _one_if_equal(values: Any) -> Any:
    """A number where all are the same up to rounding (15 digits of it), else all of them."""
    first = float(f"{values[0]:.15g}")
    return (
        first
        if np.allclose(values, first, rtol=1e-14, atol=0.0)
        else [float(f"{value:.15g}") for value in values]
    )
