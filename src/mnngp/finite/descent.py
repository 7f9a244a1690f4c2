"""Full-batch gradient descent of finite networks, and of the linear model that they become.

On the loss ``½ Σ (f(x_i) - y_i)²`` a step of size η moves the parameters by ``-η`` times its
gradient. Were the network linear in its parameters, with the tangent kernel Θ, its outputs would
be, after k steps and at any points x (Lee et al. 2019, eqs. 8 to 11, with steps in place of the
flow),

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

from mnngp import _validation
from mnngp._typing import Vector
from mnngp.errors import InputError
from mnngp.finite.checks import as_group
from mnngp.finite.maxout_network import MaxoutNetwork, input_tensor, real_array
from mnngp.finite.schedule import Training
from mnngp.finite.training import predict, train
from mnngp.kernels import MaxoutKernel


def gradient_descent(
    networks: MaxoutNetwork | Sequence[MaxoutNetwork],
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
    networks : MaxoutNetwork, or a sequence of them
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
    """The predictions ``f_k(new)`` of the linear model above, of shape (len(record), networks, m).

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
