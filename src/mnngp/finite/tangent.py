"""The tangent kernel of a finite network, and gradient descent, which it rules.

    Θ̂(x, x') = Σ_θ ∂f(x)/∂θ · ∂f(x')/∂θ

The gradient in a weight of the affine map ``z_l = s_w W_l h_{l-1} + s_b β_l`` is
``s_w δ_l h_{l-1}``, with ``δ_l = ∂f/∂z_l``, so a layer's part of the sum is a product of two small
matrices,

    Θ̂_l = (δ_l · δ_l') (s_w² h_{l-1} · h_{l-1}' + s_b²)

and no gradient of a weight is ever stored. The maps of a convolution are used at every position:
the gradient in their weights is the sum ``s_w Σ_p δ_l(p) h_{l-1}(window p)``, and is formed for
some maps at a time. In the parametrisation "ntk" s_w and s_b are the standard deviations of weights
and biases; in "standard" both are one. As the width grows, the first tends to
``network.kernel("ntk")``.

*Descent.* On the loss ``½ Σ (f(x_i) - y_i)²`` a step of size η moves the parameters by ``-η`` times
its gradient. Were the network linear in its parameters, with the tangent kernel Θ, its outputs
would be, after k steps and at any points x (Lee et al. 2019, eqs. 8 to 11, with steps in place of
the flow),

    f_k(x) = f_0(x) + Θ_x Θ⁻¹ (1 - (1 - ηΘ)^k) (y - f_0)

As the width grows this holds for every network from its own start f_0, with the analytic Θ. Over
the networks it becomes the Gaussian process of ``mnngp.inference.GradientFlow`` at the time
``t = ηk``, where ``(1 - ηΘ)^k`` is ``exp(-Θt)``.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from mnngp import _validation
from mnngp._typing import Vector
from mnngp.errors import InputError
from mnngp.finite.checks import as_group
from mnngp.finite.finite_network import FiniteNetwork, input_tensor, real_array
from mnngp.finite.schedule import Training
from mnngp.finite.training import predict, train
from mnngp.kernels import MaxoutKernel

_BLOCK = 2**23  # gradients in weights that are held at a time


def tangent_kernel(network: FiniteNetwork, X: Any, Y: Any = None, *, output: int = 0) -> Vector:
    """The tangent kernel of a network as it is now, between the rows of ``X`` and those of ``Y``.

    Parameters
    ----------
    network : MaxoutNetwork or ConvMaxoutNetwork
        At its initialisation or after any training.
    X, Y : arrays of shape (n, inputs), (m, inputs), or images
        ``Y`` is ``X`` by default.
    output : int
        Of which output; between two different ones the kernel vanishes in the limit.

    Returns
    -------
    array of shape (n, m)
        The sum over all parameters of products of gradients.

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp.finite import MaxoutNetwork
    >>> network = MaxoutNetwork(2000, rank=3, depth=2, inputs=4, parametrization="ntk", seed=0)
    >>> X = np.array([[1.0, 0.0, 0.5, -1.0], [0.0, 1.0, -0.5, 2.0]])
    >>> print(np.abs(tangent_kernel(network, X) / network.kernel("ntk")(X) - 1.0).max() < 0.1)
    True
    """
    if not isinstance(network, FiniteNetwork):
        raise InputError(
            f"network must be a MaxoutNetwork or a ConvMaxoutNetwork, got {type(network).__name__}"
        )
    if (
        isinstance(output, bool)
        or not isinstance(output, int | np.integer)
        or not 0 <= output < network.outputs
    ):
        raise InputError(f"output must be one of 0 to {network.outputs - 1}, got {output!r}")
    rows = _layers(network, input_tensor("X", X, network), output)
    columns = rows if Y is None else _layers(network, input_tensor("Y", Y, network), output)
    total = np.zeros((len(rows[0][0]), len(columns[0][0])))
    for index, (row, column) in enumerate(zip(rows, columns, strict=True)):
        weight_std, bias_std = (
            network.deviations[index] if network.parametrization == "ntk" else (1.0, 1.0)
        )
        weights, biases = _of_layer(network, index, row, column)
        total += weight_std**2 * weights + bias_std**2 * biases
    return total


def analytic(kernel: MaxoutKernel) -> MaxoutKernel:
    """The tangent kernel of the infinitely wide network that a kernel is of."""
    return type(kernel)(**{**kernel.get_params(), "kind": "ntk"})


def _layers(
    network: FiniteNetwork, points: torch.Tensor, output: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The inputs ``h_{l-1}`` and the output's gradient ``δ_l`` of each map: a row a point."""
    # A gradient is taken here whatever the caller has switched off, in the network's own precision.
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(points.device.type, enabled=False),
    ):
        # a clone, since they may be the caller's own numbers
        inputs, values = network._traced(points.clone().requires_grad_())
        # The outputs of different points do not share values: the gradient of their sum is each
        # one's own.
        deltas = torch.autograd.grad(values[-1][:, output].sum(), values)
    return [
        (h.detach(), d.flatten(2) if d.ndim > 2 else d[..., None])
        for h, d in zip(inputs, deltas, strict=True)
    ]


def _of_layer(
    network: FiniteNetwork,
    index: int,
    row: tuple[torch.Tensor, torch.Tensor],
    column: tuple[torch.Tensor, torch.Tensor],
) -> tuple[Vector, Vector]:
    """A layer's products of gradients in weights and in biases, for standard deviations of one.

    They are summed in double precision, a small matter beside the pass through the weights.
    """
    (h, delta), (other, deltas) = (
        (network._windows(index, H).double(), d.double()) for H, d in (row, column)
    )
    biases = delta.sum(2) @ deltas.sum(2).T
    if delta.shape[2] == 1:
        weights = biases * (h.flatten(1) @ other.flatten(1).T)
    else:
        weights = torch.zeros_like(biases)
        some = max(1, _BLOCK // ((len(h) + len(other)) * h.shape[1]))
        for ours, theirs in zip(delta.split(some, 1), deltas.split(some, 1), strict=True):
            weights += (ours @ h.mT).flatten(1) @ (theirs @ other.mT).flatten(1).T
    return weights.cpu().numpy(), biases.cpu().numpy()


def gradient_descent(
    networks: FiniteNetwork | Sequence[FiniteNetwork],
    X: Any,
    y: Any,
    *,
    step: float,
    record: Sequence[int],
    new: Any,
) -> Vector:
    """Train copies of networks of one shape, all at once, and follow their predictions.

    Parameters
    ----------
    networks : MaxoutNetwork or ConvMaxoutNetwork, or a sequence of them
        With one output. For a limit of infinite width their ``parametrization`` is "ntk".
    X, y : arrays of shape (n, inputs), (n,)
        What they learn.
    step : float
        η. Descent converges below ``2/λ_max`` of the tangent kernel.
    record : sequence of int
        After how many steps to predict; the last is the end.
    new : array of shape (m, inputs)
        Where to predict.

    Returns
    -------
    array of shape (len(record), networks, m)
        NaN for a network that has diverged.

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp.finite import MaxoutNetwork
    >>> networks = [MaxoutNetwork(100, 2, 1, 1, parametrization="ntk", seed=k) for k in range(3)]
    >>> X, y = np.array([[-1.0], [1.0]]), np.array([0.0, 1.0])
    >>> found = gradient_descent(networks, X, y, step=0.2, record=[100], new=X)
    >>> print(np.abs(found - y).max().round(2))
    0.0
    """
    step = _validation.real("step", step, low=0.0, strict=True)
    networks = as_group(networks)
    numbers = np.asarray(record)
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu" or numbers.min() < 0:
        raise InputError(f"record must be whole numbers of steps, 0 or more, got {record!r}")
    if networks[0].outputs != 1:
        raise InputError(f"networks must have one output, got {networks[0].outputs}")
    points, unknown = input_tensor("X", X, networks[0]), input_tensor("new", new, networks[0])
    targets = real_array("y", y)
    if targets.shape != points.shape[:1]:
        raise InputError(
            f"y must have one number for each of the {len(points)} rows of X, got "
            f"shape {targets.shape}"
        )
    moving, count, found = copy.deepcopy(networks), 0, {}
    diverged = np.zeros(len(moving), dtype=bool)
    rate = 0.5 * step * len(points)  # of the mean squared error, which is 2/n of the loss
    for moment in sorted(set(numbers.tolist())):
        if moment > count:
            training = Training(
                "sgd", learning_rate=rate, epochs=moment - count, batch_size=len(points)
            )
            diverged |= [history.diverged for history in train(moving, points, targets, training)]
            count = moment
        outputs = predict(moving, unknown)[..., 0].astype(np.float64)
        found[moment] = np.where(diverged[:, None] | ~np.isfinite(outputs), np.nan, outputs)
    return np.stack([found[moment] for moment in numbers.tolist()])


def linear_descent(
    kernel: MaxoutKernel,
    X: Any,
    y: Any,
    new: Any,
    start: Vector,
    *,
    step: float,
    record: Sequence[int],
) -> Vector:
    """The predictions ``f_k(new)`` of the linear model, of shape (len(record), networks, m).

    ``kernel`` is the analytic tangent kernel, ``start`` the networks' outputs before training, at
    ``X`` and then at ``new``: (networks, n + m). The rest is as for ``gradient_descent``.
    """
    theta, cross = kernel(X), kernel(new, X)
    values, vectors = np.linalg.eigh(theta)
    known, unknown = start[:, : len(theta)], start[:, len(theta) :]
    residual = (np.asarray(y) - known) @ vectors
    gains = (_gain(step * values, count) * step for count in record)
    return np.stack([unknown + (residual * gain) @ (cross @ vectors).T for gain in gains])


def _gain(x: Vector, count: int) -> Vector:
    """``(1 - (1 - x)^count) / x``, also for small x and, as at equal points, for zero."""
    small = np.abs(x) < 1e-14
    learnt = np.where(
        x < 0.5, -np.expm1(count * np.log1p(-np.minimum(x, 0.5))), 1.0 - (1.0 - x) ** count
    )
    return np.asarray(np.where(small, count, learnt / np.where(small, 1.0, x)))
