"""Full-batch gradient descent of finite networks, and what the tangent kernel foretells for each of
them.

On the loss ``½ Σ (f(x_i) - y_i)²`` a step of size η moves the parameters by ``-η`` times its
gradient. Were the network linear in its parameters, with the tangent kernel Θ, its outputs would
be, after k steps and at any points x (Lee et al. 2019, eqs. 8 to 11, with steps in place of the
flow),

    f_k(x) = f_0(x) + Θ_x Θ⁻¹ (1 - (1 - ηΘ)^k) (y - f_0)

As the width grows this holds for every network from its own start f_0, with the analytic Θ. Over
the networks it becomes the Gaussian process of ``mnngp.inference.GradientFlow`` at the time ``t =
ηk``, where ``(1 - ηΘ)^k`` is ``exp(-Θt)``.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp._system.progress import Done
from mnngp.errors import InputError
from mnngp.finite.network import MaxoutNetwork, input_tensor, real_array
from mnngp.finite.sampling import network_seeds, setting, weight_count
from mnngp.finite.schedule import Training
from mnngp.finite.tangent import analytic
from mnngp.finite.training import as_group, predict, train
from mnngp.inference import GradientFlow
from mnngp.kernels import MaxoutKernel

Array = NDArray[np.float64]
_AT_ONCE = 2**24  # weights of networks that are trained together; there are as many gradients
_LONGEST = 1e30  # a step in single precision, times the number of points


def descend(
    networks: MaxoutNetwork | Sequence[MaxoutNetwork],
    X: Any,
    y: Any,
    *,
    step: float,
    record: Sequence[int],
    new: Any,
) -> Array:
    """Train networks of one shape, all at once, and follow their predictions. The networks are not
    changed.

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
    >>> networks = [MaxoutNetwork(100, 2, 1, 1, parametrization="ntk", seed=seed) for seed in range(3)]
    >>> X, y = np.array([[-1.0], [1.0]]), np.array([0.0, 1.0])
    >>> print(np.abs(descend(networks, X, y, step=0.2, record=[100], new=X) - y).max().round(2))
    0.0
    """
    step = _validation.real("step", step, low=0.0, strict=True)
    networks = as_group(networks)
    numbers = np.asarray(record)
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu" or numbers.min() < 0:
        raise InputError(f"record must be whole numbers of steps, 0 or more, got {record!r}")
    moments = sorted(set(numbers.tolist()))
    if networks[0].outputs != 1:
        raise InputError(f"networks must have one output, got {networks[0].outputs}")
    points, unknown, targets = (
        input_tensor("X", X, networks[0]),
        input_tensor("new", new, networks[0]),
        real_array("y", y),
    )
    if targets.shape != points.shape[:1]:
        raise InputError(
            f"y must have one number for each of the {len(points)} rows of X, got "
            f"shape {targets.shape}"
        )
    moving, count, found = copy.deepcopy(networks), 0, {}
    gone = np.zeros(len(moving), dtype=bool)
    rate = 0.5 * step * len(points)  # of the mean squared error, which is 2/n of the loss
    for moment in moments:
        if moment > count:
            training = Training(
                "sgd", learning_rate=rate, epochs=moment - count, batch_size=len(points)
            )
            gone |= [history.diverged for history in train(moving, points, targets, training)]
            count = moment
        made = predict(moving, unknown)[..., 0].astype(np.float64)
        found[moment] = np.where(gone[:, None] | ~np.isfinite(made), np.nan, made)
    return np.stack([found[moment] for moment in numbers.tolist()])


def foretell(
    kernel: MaxoutKernel,
    X: Any,
    y: Any,
    new: Any,
    start: Array,
    *,
    step: float,
    record: Sequence[int],
) -> Array:
    """The predictions ``f_k(new)`` of the linear model above, for networks whose outputs are known
    before training.

    Parameters
    ----------
    kernel : MaxoutKernel
        The analytic tangent kernel, ``kind="ntk"``.
    X, y, new, step, record
        As for ``descend``.
    start : array of shape (networks, n + m)
        The networks' outputs before training, at ``X`` and then at ``new``.

    Returns
    -------
    array of shape (len(record), networks, m)
    """
    theta, cross = kernel(X), kernel(new, X)
    values, vectors = np.linalg.eigh(theta)
    known, unknown = start[:, : len(theta)], start[:, len(theta) :]
    residual = (np.asarray(y) - known) @ vectors
    gains = (_gain(step * values, count) * step for count in record)
    return np.stack([unknown + (residual * gain) @ (cross @ vectors).T for gain in gains])


def _gain(x: Array, count: int) -> Array:
    """``(1 - (1 - x)^count) / x``, also for small x and, as at equal points, for zero."""
    small = np.abs(x) < 1e-14
    learnt = np.where(
        x < 0.5, -np.expm1(count * np.log1p(-np.minimum(x, 0.5))), 1.0 - (1.0 - x) ** count
    )
    return np.asarray(np.where(small, count, learnt / np.where(small, 1.0, x)))


def step_size(tangent: MaxoutKernel, X: Any, resolution: float) -> float:
    """The step of descent that is ``resolution`` times ``1/λ_max`` of a tangent kernel at the
    points.
    """
    largest = float(np.linalg.eigvalsh(tangent(X))[-1])
    resolution = _validation.real("resolution", resolution, low=0.0, high=2.0, strict=True)
    if not resolution < largest * _LONGEST:
        raise InputError(
            "the tangent kernel must not be too small to train with, got a largest eigenvalue of "
            f"{largest:.3g} for {tangent!r}: "
            "larger variances or less depth help, or no training (--descent-up-to 0)"
        )
    return resolution / largest


@dataclass(frozen=True, eq=False)
class DescentAgreement:
    """Networks of one width in training, beside what is foretold.

    Attributes
    ----------
    rank, depth, width : int
    times : array of shape (moments,)
        Step size times steps.
    trained, foretold : arrays of shape (moments, networks, m)
        Predictions at the new points: of the networks, and of the linear model from each network's
        own start.
    mean, std : arrays of shape (moments, m)
        Of ``GradientFlow`` over initialisations.
    """

    rank: int
    depth: int
    width: int
    times: Array
    trained: Array
    foretold: Array
    mean: Array
    std: Array

    @property
    def networks(self) -> int:
        """How many networks."""
        return int(self.trained.shape[1])

    @property
    def squared_errors(self) -> Array:
        """For each network, the mean square of trained minus foretold at the end, relative to that
        of what was foretold.
        """
        difference, scale = (
            (self.trained[-1] - self.foretold[-1]) ** 2,
            np.mean(self.foretold[-1] ** 2),
        )
        return np.asarray(difference.mean(axis=1) / scale)

    @property
    def squared_error(self) -> float:
        """The mean of the squared errors."""
        return float(self.squared_errors.mean())

    @property
    def squared_error_std(self) -> float:
        """The standard error of this mean."""
        return float(self.squared_errors.std(ddof=1) / np.sqrt(self.networks))


def descent_agreement(
    kernel: MaxoutKernel,
    X: Any,
    y: Any,
    new: Any,
    width: int,
    networks: int,
    *,
    time: float = 20.0,
    resolution: float = 0.2,
    moments: int = 9,
    seed: int = 0,
    progress: Done = lambda part: None,
) -> DescentAgreement:
    """Train networks of one width, in the parametrisation "ntk", and compare them with the tangent
    kernel's predictors.

    Parameters
    ----------
    kernel : MaxoutKernel
        Says rank, depth and variances.
    X, y, new : arrays of shape (n, d), (n,), (m, d)
        What is learnt, and where it is predicted.
    width, networks : int
        Units of each hidden layer, and how many networks: two or more, for a standard error.
    time : float
        Until when, in units of ``1/λ_max`` of the tangent kernel, the time in which the fastest
        direction is learnt.
    resolution : float
        The step, in the same units: descent follows the flow as it goes to zero, and diverges at 2.
    moments : int
        How many predictions to record, evenly on the logarithm of the time, besides the start.
    seed, progress
        As for ``draw_values``.

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp import MaxoutKernel
    >>> X, y, new = np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]), np.array([[0.5]])
    >>> kernel = MaxoutKernel(depth=1, rank=2)
    >>> narrow, wide = (descent_agreement(kernel, X, y, new, width, 20).squared_error for width in (20, 2000))
    >>> wide < 0.1 * narrow
    True
    """
    if _validation.positive_int("networks", networks) < 2:
        raise InputError("networks must be 2 or more, for a standard error, got 1")
    width, moments = (
        _validation.positive_int("width", width),
        _validation.positive_int("moments", moments),
    )
    time = _validation.real("time", time, low=0.0, strict=True)
    X, new = setting(kernel, X)[0], _validation.points("new", real_array("new", new))
    if new.shape[1] != X.shape[1]:
        raise InputError(f"new must have {X.shape[1]} columns, as many as X, got shape {new.shape}")
    tangent = analytic(kernel)
    step = step_size(tangent, X, resolution)
    steps = max(1, round(time / resolution))
    record = sorted({0, steps, *(round(value) for value in np.geomspace(1, steps, moments))})
    both = np.concatenate([X, new])
    inputs, seeds = both.shape[1], network_seeds(seed, networks)
    batch = max(1, _AT_ONCE // weight_count(kernel, width, inputs))
    trained, start = [], []
    for first in range(0, networks, batch):
        group = [
            MaxoutNetwork(
                width,
                kernel.rank,
                kernel.depth,
                inputs,
                weight_var=kernel.weight_var,
                bias_var=kernel.bias_var,
                parametrization="ntk",
                seed=own,
            )
            for own in seeds[first : first + batch]
        ]
        start.append(predict(group, both)[..., 0].astype(np.float64))
        trained.append(descend(group, X, y, step=step, record=record, new=new))
        progress(len(group) / networks)
    times = step * np.array(record)
    foretold = foretell(tangent, X, y, new, np.concatenate(start), step=step, record=record)
    flow = GradientFlow(tangent, X, y)
    limits = [flow.mean_and_covariance(new, float(moment)) for moment in times]
    mean, std = np.stack([m for m, _ in limits]), np.stack([np.sqrt(np.diag(c)) for _, c in limits])
    return DescentAgreement(
        kernel.rank,
        kernel.depth,
        width,
        times,
        np.concatenate(trained, axis=1),
        foretold,
        mean,
        std,
    )
