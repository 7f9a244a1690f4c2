"""A maxout network of finite width, as a PyTorch module.

With ``h_0 = x`` and for l = 1 … L, every unit of a layer the maximum of q affine maps of the layer
before (eqs. 1 and 2):

    h_l = max_{i ≤ q} (W_{l,i} h_{l-1} + b_{l,i}),        f = W h_L + b

*Initialisation.* The infinite-width one draws the weights of a map with the variance
``weight_var / fan_in`` and its biases with ``bias_var``: as ``width → ∞`` the network becomes the
Gaussian process whose kernel ``MaxoutKernel`` has. The paper's own experiments with finite networks
give the standard deviations themselves, ``weight_std`` and ``bias_std``, whatever the fan-in.

*Parametrisation.* "standard" has those weights as its parameters. "ntk" has numbers of unit
variance, and multiplies them by their standard deviations in the forward pass: the same function at
the start, but one whose gradient descent has a limit, in which the tangent kernel
``MaxoutKernel(kind="ntk")`` rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mnngp import _validation
from mnngp._typing import Matrix
from mnngp.errors import InputError
from mnngp.kernels import MaxoutKernel

DTYPES = {"float32": torch.float32, "float64": torch.float64}


class MaxoutNetwork(torch.nn.Module):  # type: ignore[misc]
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
        self.parametrization = _validation.one_of(
            "parametrization", parametrization, ("standard", "ntk")
        )
        kind = torch_dtype(dtype)
        fan_ins = [inputs, *[width] * depth]
        given = {"weight_var": weight_var, "bias_var": bias_var}
        given |= {"weight_std": weight_std, "bias_std": bias_std}
        self.deviations, self._given = _deviations(fan_ins, given)
        if seed is None:
            seed = int(torch.randint(2**63 - 1, (), device="cpu"))
        # of the CPU, so that a seed means the same everywhere
        generator = torch.Generator().manual_seed(_validation.seed("seed", seed))
        self.weights, self.biases = torch.nn.ParameterList(), torch.nn.ParameterList()
        for index, (fan_in, deviation) in enumerate(zip(fan_ins, self.deviations, strict=True)):
            maps = (rank, width) if index < depth else (outputs,)
            scale = (1.0, 1.0) if parametrization == "ntk" else deviation
            sizes = ((*maps, fan_in), maps)
            for of, size, std in zip((self.weights, self.biases), sizes, scale, strict=True):
                numbers = torch.empty(size, dtype=kind, device="cpu")
                numbers.normal_(generator=generator).mul_(std)
                of.append(torch.nn.Parameter(numbers.to(device)))

    @classmethod
    def of_kernel(cls, kernel: MaxoutKernel, width: int, inputs: int, seed: int) -> MaxoutNetwork:
        """A network whose limit of infinite width, also in training, a kernel is of."""
        options: dict[str, Any] = {"weight_var": kernel.weight_var, "bias_var": kernel.bias_var}
        options |= {"parametrization": "ntk", "seed": seed}
        return cls(width, kernel.rank, kernel.depth, inputs, **options)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """The outputs for the rows of ``X``."""
        return self._affine(self.depth, self.hidden(X))

    def hidden(self, X: torch.Tensor) -> torch.Tensor:
        """The units of the last hidden layer, ``h_L``."""
        for index in range(self.depth):
            X = self._affine(index, X).unflatten(-1, (self.rank, self.width)).amax(-2)
        return X

    def _affine(self, index: int, X: torch.Tensor) -> torch.Tensor:
        """All affine maps of a layer, one after the other in the last axis."""
        weight, bias = self.weights[index], self.biases[index]
        weight, bias = weight.reshape(-1, weight.shape[-1]), bias.reshape(-1)
        if self.parametrization == "ntk":
            weight_std, bias_std = self.deviations[index]
            X, bias = X * weight_std, bias * bias_std
        return torch.nn.functional.linear(X, weight, bias)

    def kernel(self, kind: str = "nngp") -> MaxoutKernel:
        """The kernel that belongs to the initialisation: exact in the limit of infinite width.

        For the paper's initialisation this is the kernel with ``weight_var = fan_in · weight_std²``
        in each layer.
        """
        weight_var, bias_var = np.square(self.deviations).T
        fan_ins = [self.inputs, *[self.width] * self.depth]
        weights, biases = _one_if_equal(weight_var * fan_ins), _one_if_equal(bias_var)
        return MaxoutKernel(self.depth, self.rank, weight_var=weights, bias_var=biases, kind=kind)

    def extra_repr(self) -> str:
        names = ("width", "rank", "depth", "inputs", "outputs", "parametrization")
        shown = {name: getattr(self, name) for name in names} | self._given
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


def input_tensor(name: str, value: Any, network: MaxoutNetwork) -> torch.Tensor:
    """Points (points, inputs) as a tensor for the network."""
    array = _validation.points(name, real_array(name, value))
    if array.shape[1] != network.inputs:
        raise InputError(
            f"{name} must have {network.inputs} columns, as many as the network has "
            f"inputs, got shape {array.shape}"
        )
    return tensor_like(array, network.weights[0].detach())


def _deviations(
    fan_ins: list[int], given: dict[str, Any]
) -> tuple[list[tuple[float, float]], dict[str, Any]]:
    """Standard deviations of the weights and biases of each map, and what says so."""
    if given["weight_std"] is None and given["bias_std"] is None:
        count = len(fan_ins)
        weight_var = 1.0 if given["weight_var"] is None else given["weight_var"]
        bias_var = 0.1 if given["bias_var"] is None else given["bias_var"]
        weights = _validation.variances("weight_var", weight_var, count, zero=False) / fan_ins
        biases = _validation.variances("bias_var", bias_var, count, zero=True)
        pairs = list(zip(np.sqrt(weights).tolist(), np.sqrt(biases).tolist(), strict=True))
        return pairs, _plain(weight_var=weight_var, bias_var=bias_var)
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
    return pairs, _plain(weight_std=weight_std, bias_std=bias_std)


def _plain(**values: Any) -> dict[str, Any]:
    return {name: np.asarray(value, dtype=np.float64).tolist() for name, value in values.items()}


def _one_if_equal(values: Any) -> Any:
    """A number where all are the same up to rounding (15 digits of it), else all of them."""
    first = float(f"{values[0]:.15g}")
    return (
        first
        if np.allclose(values, first, rtol=1e-14, atol=0.0)
        else [float(f"{value:.15g}") for value in values]
    )
