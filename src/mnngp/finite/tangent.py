"""The tangent kernel of a finite network.

    Θ̂(x, x') = Σ_θ ∂f(x)/∂θ · ∂f(x')/∂θ

The gradient in a weight of the affine map ``z_l = s_w W_l h_{l-1} + s_b β_l`` is
``s_w δ_l h_{l-1}``, with ``δ_l = ∂f/∂z_l``, so a layer's part of the sum is a product of two small
matrices,

    Θ̂_l = (δ_l · δ_l') (s_w² h_{l-1} · h_{l-1}' + s_b²)

and no gradient of a weight is ever stored. In the parametrisation "ntk" s_w and s_b are the
standard deviations of weights and biases; in "standard" both are one. As the width grows, the first
tends to ``MaxoutKernel(kind="ntk")``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mnngp._typing import Vector
from mnngp.errors import InputError
from mnngp.finite.maxout_network import MaxoutNetwork, input_tensor
from mnngp.kernels import MaxoutKernel


def tangent_kernel(network: MaxoutNetwork, X: Any, Y: Any = None, *, output: int = 0) -> Vector:
    """The tangent kernel of a network as it is now, between the rows of ``X`` and those of ``Y``.

    Parameters
    ----------
    network : MaxoutNetwork
        At its initialisation or after any training.
    X, Y : arrays of shape (n, inputs), (m, inputs)
        ``Y`` is ``X`` by default.
    output : int
        Of which output; between two different ones the kernel vanishes in the limit.

    Returns
    -------
    array of shape (n, m)

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp.finite import MaxoutNetwork
    >>> network = MaxoutNetwork(2000, rank=3, depth=2, inputs=4, parametrization="ntk", seed=0)
    >>> X = np.array([[1.0, 0.0, 0.5, -1.0], [0.0, 1.0, -0.5, 2.0]])
    >>> print(np.abs(tangent_kernel(network, X) / network.kernel("ntk")(X) - 1.0).max() < 0.1)
    True
    """
    if not isinstance(network, MaxoutNetwork):
        raise InputError(f"network must be a MaxoutNetwork, got {type(network).__name__}")
    if (
        isinstance(output, bool)
        or not isinstance(output, int | np.integer)
        or not 0 <= output < network.outputs
    ):
        raise InputError(f"output must be one of 0 to {network.outputs - 1}, got {output!r}")
    rows = _layers(network, input_tensor("X", X, network), output)
    columns = rows if Y is None else _layers(network, input_tensor("Y", Y, network), output)
    total = np.zeros((len(rows[0][0]), len(columns[0][0])))
    for index, ((hidden, delta), (others, deltas)) in enumerate(zip(rows, columns, strict=True)):
        weight_std, bias_std = (
            network.deviations[index] if network.parametrization == "ntk" else (1.0, 1.0)
        )
        total += (delta @ deltas.T) * (weight_std**2 * (hidden @ others.T) + bias_std**2)
    return total


def analytic(kernel: MaxoutKernel) -> MaxoutKernel:
    """The tangent kernel of the infinitely wide network that a kernel is of."""
    return type(kernel)(**{**kernel.get_params(), "kind": "ntk"})


def _layers(network: MaxoutNetwork, points: torch.Tensor, output: int) -> list[tuple[Any, Any]]:
    """The inputs ``h_{l-1}`` and the output's gradient ``δ_l`` of each map: a row a point."""
    inputs, values = [], []
    # A gradient is taken here whatever the caller has switched off, in the network's own precision.
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(points.device.type, enabled=False),
    ):
        hidden = points.clone()  # which may be the caller's own numbers
        for index in range(network.depth + 1):
            inputs.append(hidden)
            values.append(network._affine(index, hidden.requires_grad_()))
            if index < network.depth:
                hidden = values[-1].unflatten(-1, (network.rank, network.width)).amax(-2)
        # The outputs of different points do not share values: the gradient of their sum is each
        # one's own.
        deltas = torch.autograd.grad(values[-1][:, output].sum(), values)
    # Their products are summed in double precision, a small matter beside the pass through the
    # weights.
    return [
        (h.detach().double().cpu().numpy(), d.double().cpu().numpy())
        for h, d in zip(inputs, deltas, strict=True)
    ]
