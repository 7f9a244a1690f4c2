"""Networks in training, beside what the analytic tangent kernel predicts for each of them.

``mnngp.finite.descent`` has the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mnngp import _validation
from mnngp._system.progress import Done
from mnngp._typing import Vector
from mnngp.errors import InputError
from mnngp.experiments.convergence.covariances import several_networks
from mnngp.finite.descent import gradient_descent, linear_descent
from mnngp.finite.maxout_network import MaxoutNetwork, real_array
from mnngp.finite.sampling import network_seeds, setting, weight_count
from mnngp.finite.tangent import analytic
from mnngp.finite.training import predict
from mnngp.inference import GradientFlow
from mnngp.kernels import MaxoutKernel

_AT_ONCE = 2**24  # weights of networks that are trained together; there are as many gradients
_LONGEST = 1e30  # a step in single precision, times the number of points


@dataclass(frozen=True, eq=False)
class DescentAgreement:
    """Networks of one width in training, beside what is predicted for them at m new points."""

    rank: int
    depth: int
    width: int
    times: Vector  # (moments,): step size times steps
    trained: Vector  # (moments, networks, m): outputs of the networks
    predicted: Vector  # the same of the linear model, from each network's own start
    mean: Vector  # (moments, m), of GradientFlow over initialisations
    std: Vector

    @property
    def networks(self) -> int:
        return int(self.trained.shape[1])

    @property
    def squared_errors(self) -> Vector:
        """The mean square of trained minus predicted at the end, for each network.

        It is relative to the mean square of what was predicted.
        """
        difference = (self.trained[-1] - self.predicted[-1]) ** 2
        return np.asarray(difference.mean(axis=1) / np.mean(self.predicted[-1] ** 2))

    @property
    def squared_error(self) -> float:
        return float(self.squared_errors.mean())

    @property
    def squared_error_std(self) -> float:
        return float(self.squared_errors.std(ddof=1) / np.sqrt(self.networks))


def step_size(tangent: MaxoutKernel, X: Any, resolution: float) -> float:
    """The step that is ``resolution`` times ``1/λ_max`` of a tangent kernel at the points."""
    largest = float(np.linalg.eigvalsh(tangent(X))[-1])
    resolution = _validation.real("resolution", resolution, low=0.0, high=2.0, strict=True)
    if not resolution < largest * _LONGEST:
        raise InputError(
            "the tangent kernel must not be too small to train with, got a largest eigenvalue of "
            f"{largest:.3g} for {tangent!r}: "
            "larger variances or less depth help, or no training (--descent-up-to 0)"
        )
    return resolution / largest


class Descent(NamedTuple):
    """How long a descent is, and how often it is looked at.

    Times are in units of ``1/λ_max`` of the tangent kernel, in which the fastest direction is
    learnt: descent follows the flow as its step goes to zero, and diverges at 2.
    """

    time: float = 20.0
    resolution: float = 0.2  # the step
    moments: int = 9  # predictions, evenly on the logarithm of the time, besides the start


def descent_agreement(
    kernel: MaxoutKernel,
    data: tuple[Any, Any, Any],
    width: int,
    networks: int,
    *,
    descent: Descent = Descent(),  # noqa: B008  (it cannot be changed)
    seed: int = 0,
    progress: Done = lambda part: None,
) -> DescentAgreement:
    """Train networks in the parametrisation "ntk", beside the tangent kernel's predictions.

    Parameters
    ----------
    kernel : MaxoutKernel
        Says rank, depth and variances.
    data : arrays X, y and new of shape (n, d), (n,), (m, d)
        What is learnt, and where it is predicted.
    width, networks : int
        Units of each hidden layer, and how many networks: two or more, for a standard error.
    descent : Descent
        How long, in which steps, and when to look.
    seed, progress
        As for ``draw_values``.

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp import MaxoutKernel
    >>> data = np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]), np.array([[0.5]])
    >>> kernel = MaxoutKernel(depth=1, rank=2)
    >>> narrow, wide = (descent_agreement(kernel, data, width, 20) for width in (20, 2000))
    >>> wide.squared_error < 0.1 * narrow.squared_error
    True
    """
    several_networks(networks)
    width = _validation.positive_int("width", width)
    moments = _validation.positive_int("moments", descent.moments)
    time = _validation.real("time", descent.time, low=0.0, strict=True)
    X, y, new = data
    X, new = setting(kernel, X)[0], _validation.points("new", real_array("new", new))
    if new.shape[1] != X.shape[1]:
        raise InputError(f"new must have {X.shape[1]} columns, as many as X, got shape {new.shape}")
    tangent = analytic(kernel)
    step = step_size(tangent, X, descent.resolution)
    steps = max(1, round(time / descent.resolution))
    record = sorted({0, steps, *(round(value) for value in np.geomspace(1, steps, moments))})
    both = np.concatenate([X, new])
    inputs, seeds = both.shape[1], network_seeds(seed, networks)
    batch = max(1, _AT_ONCE // weight_count(kernel, width, inputs))
    trained, start = [], []
    for first in range(0, networks, batch):
        some = seeds[first : first + batch]
        group = [MaxoutNetwork.of_kernel(kernel, width, inputs, own) for own in some]
        start.append(predict(group, both)[..., 0].astype(np.float64))
        trained.append(gradient_descent(group, X, y, step=step, record=record, new=new))
        progress(len(group) / networks)
    times = step * np.array(record)
    flow = GradientFlow(tangent, X, y)
    limits = [flow.mean_and_covariance(new, float(moment)) for moment in times]
    return DescentAgreement(
        kernel.rank,
        kernel.depth,
        width,
        times,
        trained=np.concatenate(trained, axis=1),
        predicted=linear_descent(
            tangent, X, y, new, np.concatenate(start), step=step, record=record
        ),
        mean=np.stack([mean for mean, _ in limits]),
        std=np.stack([np.sqrt(np.diag(covariance)) for _, covariance in limits]),
    )
