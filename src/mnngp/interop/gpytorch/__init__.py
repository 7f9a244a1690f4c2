"""GPyTorch kernels: ``pip install "mnngp[gpytorch]"``.

They work wherever a ``gpytorch.kernels.Kernel`` does, in BoTorch too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from mnngp import _validation
from mnngp import kernels as core
from mnngp.activations import Activation, HomogeneousActivation, Maxout, SmoothActivation
from mnngp.errors import InputError, MissingExtraError

try:
    import torch

    with warnings.catch_warnings():
        # linear_operator, on import, still asks for what newer versions of PyTorch have deprecated.
        warnings.filterwarnings("ignore", ".*torch.jit.script.* is deprecated", DeprecationWarning)
        import gpytorch
except ImportError as error:
    raise MissingExtraError(
        'mnngp.interop.gpytorch needs PyTorch and GPyTorch: pip install "mnngp[gpytorch]"'
    ) from error

from gpytorch.constraints import GreaterThan
from gpytorch.priors import LogNormalPrior

from mnngp.interop.gpytorch.kernel import (
    ConstraintError,
    DeepKernel,
    NegativeVarianceError,
    Options,
    OverflowingKernelError,
    Variances,
    as_shape,
)

__all__ = [
    "ConstraintError",
    "MaxoutKernel",
    "NegativeVarianceError",
    "NetworkKernel",
    "OverflowingKernelError",
    "kernel_with_priors",
]


class MaxoutKernel(DeepKernel):
    """The kernel of an infinitely wide maxout network, with trainable variances.

    Parameters
    ----------
    depth : int
        Number of hidden layers.
    rank : int
        Number of linear maps a unit takes the maximum of.
    weight_var : float, sequence of depth + 1 floats, or Tensor
        Initial variance of the weights (times the fan-in): one for all layers, or one for each; and
        of each batch, if there are several.
    bias_var : float, sequence of depth + 1 floats, or Tensor
        Initial variance of the biases, likewise. Zero is a network without biases, which has no
        such parameter: it stays zero.
    kind : "nngp" or "ntk"
        The covariance of the network at its random initialisation, or its tangent kernel.
    ard_num_dims : int, optional
        Number of input dimensions that get a lengthscale each, by which the inputs are divided: 1
        in the beginning. None by default: inputs are taken as they are.
    batch_shape : torch.Size or sequence of int, optional
        Gives each batch variances of its own.
    active_dims : sequence of int, optional
        The input dimensions to look at.
    weight_var_prior, bias_var_prior, lengthscale_prior : gpytorch.priors.Prior, optional
        Without biases there is none for them.
    weight_var_constraint, bias_var_constraint, lengthscale_constraint : Interval, optional
        ``gpytorch.constraints.Positive()`` by default. An ``initial_value`` of a constraint comes
        before the values above, as elsewhere in GPyTorch.
    embedding : mnngp.Embedding, optional
        In front of the first layer, behind the lengthscales.

    Notes
    -----
    All derivatives are finite. The NNGP kernel has first and second ones everywhere but at a zero
    input without biases, also where two inputs agree. The tangent kernel has a kink there, and zero
    stands for what is infinite. On a CPU, values and first derivatives come from the core's
    compiled passes; elsewhere, and for second derivatives, from PyTorch's operations.

    Examples
    --------
    >>> kernel = MaxoutKernel(depth=5, rank=4, weight_var=0.64, bias_var=0.1)
    >>> X = torch.eye(2, dtype=torch.float64)
    >>> kernel.double()(X).to_dense().detach().numpy().round(4)
    array([[0.8981, 0.8882],
           [0.8882, 0.8981]])
    >>> kernel.to_core()
    MaxoutKernel(depth=5, rank=4, weight_var=0.64, bias_var=0.1, kind='nngp')
    """

    _core = core.MaxoutKernel

    def __init__(
        self,
        depth: int = 5,
        rank: int = 4,
        weight_var: Variances = 1.0,
        bias_var: Variances = 0.1,
        kind: str = "nngp",
        **options: Any,
    ) -> None:
        depth = _validation.positive_int("depth", depth)
        units = (Maxout(_validation.positive_int("rank", rank)),) * depth
        core.MaxoutKernel(depth, rank, embedding=options.get("embedding"))  # checks it
        super().__init__(units, weight_var, bias_var, kind, Options(**options))
        self.rank = int(rank)

    def _shape(self) -> dict[str, Any]:
        embedding = {} if self.embedding is None else {"embedding": self.embedding}
        return {"depth": self.depth, "rank": self.rank, **embedding}


class NetworkKernel(DeepKernel):
    """The kernel of an infinitely wide network with any activations, with trainable variances.

    Second derivatives are there for homogeneous activations (maxout, ReLU, leaky ReLU, the absolute
    value), first ones for all.

    Parameters
    ----------
    layers : sequence of mnngp.Activation
        The activation of each hidden layer, from the input on.
    weight_var, bias_var : float, sequence of floats, or Tensor
        Initial variances, as of ``MaxoutKernel``.
    kind : "nngp" or "ntk"
        As of ``MaxoutKernel``.
    **options
        All others of ``MaxoutKernel``.

    Examples
    --------
    >>> from mnngp import GELU, Maxout
    >>> kernel = NetworkKernel([Maxout(4), GELU()], weight_var=[1.0, 0.7, 1.0], kind="ntk")
    >>> kernel.double().weight_var.detach().numpy().round(4)
    array([[1. , 0.7, 1. ]])
    """

    _core = core.NetworkKernel

    def __init__(
        self,
        layers: Sequence[Activation],
        weight_var: Variances = 1.0,
        bias_var: Variances = 0.1,
        kind: str = "nngp",
        **options: Any,
    ) -> None:
        network = core.NetworkKernel(list(layers))
        first = 0 if network.embedding is None else 1
        for index, unit in enumerate(network.layers[first:], first):
            if not isinstance(unit, HomogeneousActivation | SmoothActivation):
                kind = "has no derivatives" if isinstance(unit, Activation) else "is no activation"
                raise InputError(f"layers[{index}] {kind}: {unit!r}")
        chosen = Options(**options, embedding=network.embedding)
        super().__init__(network._activations(), weight_var, bias_var, kind, chosen)

    def _shape(self) -> dict[str, Any]:
        first = [] if self.embedding is None else [self.embedding]
        return {"layers": [*first, *self._units]}


def kernel_with_priors(
    ard_num_dims: int,
    depth: int = 3,
    rank: int = 4,
    *,
    batch_shape: Any = None,
    active_dims: Any = None,
) -> gpytorch.kernels.ScaleKernel:
    """A scaled ``MaxoutKernel`` with a lengthscale for each input, for few points: its parameters
    have priors.

    A few dozen points say little about five and more parameters: without priors the likelihood has
    maxima where all is noise, and others where biases vanish and the function is a cone around the
    origin. The priors are for inputs within about ±½ (``Normalize(d, center=0.0)``) and outputs of
    variance one (``Standardize(1)``), of any number of dimensions. The bounds of the parameters are
    for BoTorch's ``fit_gpytorch_mll``, which keeps them; other optimisers may step over them.

    Parameters
    ----------
    ard_num_dims : int
        Number of input dimensions that are looked at.
    depth, rank : int
        Number of hidden layers, and of linear maps a unit takes the maximum of.
    batch_shape : torch.Size or sequence of int, optional
        Gives each batch parameters of its own.
    active_dims : sequence of int, optional
        The input dimensions to look at.
    """
    batch = torch.Size() if batch_shape is None else as_shape("batch_shape", batch_shape)
    if active_dims is not None and len(active_dims) != ard_num_dims:
        raise InputError(
            f"ard_num_dims must be the number of active_dims, {len(active_dims)}, got "
            f"{ard_num_dims!r}"
        )
    kernel = MaxoutKernel(
        depth,
        rank,
        ard_num_dims=ard_num_dims,
        batch_shape=batch,
        active_dims=active_dims,
        **_around("weight_var", 2.0, spread=0.5, low=1e-3),
        **_around("bias_var", 2.0, spread=0.5, low=1e-3),
        **_around("lengthscale", 1.0, spread=0.5, low=0.025),
    )
    outputscale = _around("outputscale", 1.0, spread=1.0, low=1e-3)
    return gpytorch.kernels.ScaleKernel(kernel, batch_shape=batch, **outputscale)


def _around(name: str, median: float, *, spread: float, low: float) -> dict[str, Any]:
    """A prior, and a bound instead of a transformation: where a softplus rounds to zero, a
    log-normal prior is an error.
    """
    bound = GreaterThan(low, transform=None, initial_value=median)
    return {f"{name}_prior": LogNormalPrior(math.log(median), spread), f"{name}_constraint": bound}
