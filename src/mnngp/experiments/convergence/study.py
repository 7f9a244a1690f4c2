"""The whole convergence study, as ``mnngp converge`` and the documentation run it.

Its last part are networks in training, beside what the analytic tangent kernel predicts for each of
them; ``mnngp.finite.tangent`` has the formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mnngp import _validation
from mnngp._system.progress import Done
from mnngp._typing import Vector
from mnngp.activations import Maxout
from mnngp.errors import InputError
from mnngp.experiments.convergence.covariances import (
    KernelAgreement,
    agreement,
    power_law,
    several_networks,
    tangent_agreement,
)
from mnngp.finite.finite_network import real_array
from mnngp.finite.maxout_network import MaxoutNetwork
from mnngp.finite.sampling import network_seeds, setting, weight_count
from mnngp.finite.tangent import analytic, gradient_descent, linear_descent
from mnngp.finite.training import predict
from mnngp.inference import GradientFlow
from mnngp.kernels import MaxoutKernel

Stage = Callable[[str, float], Done]
# of unequal norms, and apart
POINTS = np.array([[1.0, -0.5, 0.3, 0.8], [0.2, 1.1, -0.4, 0.5], [-0.7, 0.4, 1.5, -0.2]])
ANGLES = np.array([-2.4, -0.9, 0.4, 1.8])  # of the points that are trained on
PLACES = np.linspace(-np.pi, np.pi, 48, endpoint=False)  # and of those that are predicted
FEWEST = 16  # tangent kernels, of which one at width 2,000 is off by 2 to 5 %
MOST = 20  # narrow networks vary most and cost least: up to so many times as many of them
# weights to spend on a width: they decide how many networks
TANGENT_WEIGHTS, DESCENT_WEIGHTS = 2**26, 2**21
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
        """The mean square of trained minus predicted at the end, for each network, relative to that
        of what was predicted.
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


@dataclass(frozen=True, eq=False)
class Study:
    """What was found."""

    # for each rank, depth and width; an Agreement each, unless networks are convolutional
    covariances: Sequence[KernelAgreement]
    tangents: Sequence[KernelAgreement]  # the same for tangent kernels, up to a width
    # for each width up to another, at the first rank and depth
    descents: Sequence[DescentAgreement] = ()
    width: str = "width"  # what it is called

    def exponents(self) -> Iterator[tuple[str, int, int, float, float]]:
        """What falls with which power of the width: name, rank, depth, exponent, standard error."""
        groups: dict[str, Sequence[Any]] = {
            "kernel": self.covariances,
            "tangent kernel": self.tangents,
            "gradient descent": self.descents,
        }
        for name, rows in groups.items():
            for rank, depth in dict.fromkeys((row.rank, row.depth) for row in rows):
                chosen = [row for row in rows if (row.rank, row.depth) == (rank, depth)]
                if len(chosen) > 1 and all(row.squared_error > 0.0 for row in chosen):
                    names = ("width", "squared_error", "squared_error_std")
                    known = ([getattr(row, name) for row in chosen] for name in names)
                    yield name, rank, depth, *power_law(*known)

    def summary(self) -> dict[str, Any]:
        """All numbers, without the draws, for a program to read."""
        names = ("rank", "depth", "width", "networks", "squared_error", "squared_error_std")
        exponents = ("of", "rank", "depth", "exponent", "std")
        rows = [vars(row).copy() for row in self.covariances]
        for row in rows:
            row.pop("draws", None)
        return {
            "covariances": rows,
            "tangent_kernels": [vars(row) for row in self.tangents],
            "gradient_descents": [
                {name: getattr(row, name) for name in names} for row in self.descents
            ],
            "exponents": [dict(zip(exponents, row, strict=True)) for row in self.exponents()],
        }


def circle(angles: Vector) -> Vector:
    """Points of the plane with ``|x|²/d = 1``."""
    return np.asarray(np.sqrt(2.0) * np.stack([np.cos(angles), np.sin(angles)], axis=1))


@dataclass(frozen=True)
class Settings:
    """How networks are drawn in a study."""

    # How many of the largest width. A width that is k times smaller gets k times as many, up to
    # twenty times. Tangent kernels are of at most so many networks, and at least 16; for training
    # at least 4.
    networks: int = 200
    weight_var: float | None = None  # the critical one of each rank
    bias_var: float = 0.1
    draw: str = "values"  # or "weights", see mnngp.finite.sampling
    tangent_up_to: int = 2000  # the largest width whose tangent kernels are computed; 0 for none
    # The largest width that is trained, at the first rank and the first depth; 0 for none. By
    # default all for one hidden layer, whose networks are small, and 500 for more.
    descent_up_to: int | None = None
    # A row's draws depend on it and on the row's rank, depth, width and number of networks, not on
    # other rows.
    seed: int = 0

    def kernel(self, rank: int, depth: int) -> MaxoutKernel:
        """The process that networks of this shape become."""
        critical = Maxout(rank).critical_weight_var
        weight_var = critical if self.weight_var is None else self.weight_var
        return MaxoutKernel(depth, rank, weight_var, self.bias_var)


def convergence_study(
    ranks: Sequence[int] = (2, 4),
    depths: Sequence[int] = (1, 3),
    widths: Sequence[int] = (5, 50, 500, 2000, 5000),
    *,
    stage: Stage = lambda name, share: lambda part: None,
    **settings: Any,
) -> Study:
    """Draw networks of several ranks, depths and widths beside the processes they become.

    Parameters
    ----------
    ranks, depths, widths : sequences of int
        All combinations are drawn.
    stage : callable
        Opens a stage of a progress bar, as ``mnngp._system.progress.bar`` has it.
    **settings
        Those of ``Settings``.

    Examples
    --------
    >>> found = convergence_study([3], [2], [10, 100], tangent_up_to=0, descent_up_to=0)
    >>> for name, rank, depth, exponent, std in found.exponents():
    ...     print(f"{name}, rank {rank}, depth {depth}: squared error as width^{exponent:.1f}")
    kernel, rank 3, depth 2: squared error as width^-1.0
    """
    ranks, depths, widths = (
        distinct(*each) for each in (("rank", ranks), ("depth", depths), ("width", widths))
    )
    chosen = Settings(**settings)
    networks = chosen.networks
    several_networks(networks)
    kernels = [chosen.kernel(rank, depth) for rank in ranks for depth in depths]
    widths, seed = sorted(widths), _validation.seed("seed", chosen.seed)
    limit = chosen.descent_up_to
    if limit is None:
        limit = widths[-1] if depths[0] == 1 else 500
    given = (circle(ANGLES), np.sin(ANGLES), circle(PLACES))
    if widths[0] <= limit:  # an error now, not when all else is done
        step_size(analytic(kernels[0]), given[0], 1.0)
    tasks, inputs = [], POINTS.shape[1]
    for kernel in kernels:
        for width in widths:
            count = networks * min(MOST, widths[-1] // width)
            numbers = len(POINTS) * kernel.rank * kernel.depth * width
            if chosen.draw != "values":
                numbers = weight_count(kernel, width, inputs)
            task = Task(agreement, kernel, POINTS, width, count, count * numbers)
            tasks.append(task._replace(options={"draw": chosen.draw}))
        for width in (width for width in widths if width <= chosen.tangent_up_to):
            size = weight_count(kernel, width, inputs)
            count = int(np.clip(TANGENT_WEIGHTS // size, FEWEST, max(FEWEST, networks)))
            cost = 2.0 * count * size + 1e5 * count
            tasks.append(Task(tangent_agreement, kernel, POINTS, width, count, cost))
    for width in (width for width in widths if width <= limit):
        size = weight_count(kernels[0], width, 2)
        count = int(np.clip(DESCENT_WEIGHTS // size, 4, max(4, networks)))
        cost = 300.0 * count * size
        tasks.append(Task(descent_agreement, kernels[0], given, width, count, cost))
    names: dict[Callable[..., Any], str] = {
        agreement: "covariances",
        tangent_agreement: "tangent kernels",
        descent_agreement: "gradient descent",
    }
    rows = run_tasks(tasks, names, seed, stage)
    return Study(rows[agreement], rows[tangent_agreement], rows[descent_agreement])


class Task(NamedTuple):
    """A row of the study, and the numbers to be drawn or trained for it: about what it costs."""

    compare: Callable[..., Any]
    kernel: Any
    data: Any
    width: int
    networks: int
    cost: float
    options: dict[str, str] = {}  # noqa: RUF012

    def run(self, seed: int, progress: Done) -> Any:
        """Draw the networks, with a seed of the row's own."""
        network = self.kernel.network
        ranks = [block.activation.rank for block in network.blocks if block.activation]
        row = (*self.compare.__name__.encode(), max(ranks), network.depth, self.width)
        own = int(np.random.SeedSequence((seed, *row)).generate_state(1)[0])
        numbers = (self.data, self.width, self.networks)
        return self.compare(self.kernel, *numbers, seed=own, progress=progress, **self.options)


def run_tasks(
    tasks: Sequence[Task], names: dict[Callable[..., Any], str], seed: int, stage: Stage
) -> dict[Callable[..., Any], list[Any]]:
    """The rows of each kind, told to a progress bar by these names."""
    rows: dict[Callable[..., Any], list[Any]] = {compare: [] for compare in names}
    total = sum(task.cost for task in tasks)
    for task in tasks:
        progress = stage(f"{names[task.compare]}, width {task.width}", task.cost / total)
        rows[task.compare].append(task.run(seed, progress))
    return rows


def distinct(name: str, values: Sequence[int]) -> list[int]:
    """Positive integers, each once; the first stays the first."""
    if len(values) == 0:
        raise InputError(f"{name} must be one or more positive integers, got none")
    return list(dict.fromkeys(_validation.positive_int(name, value) for value in values))
