"""The whole experiment on convergence, as ``mnngp converge`` and the documentation run it: what is
drawn, and how often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp._system.progress import Done
from mnngp.activations import Maxout
from mnngp.errors import InputError
from mnngp.finite.convergence import (
    Agreement,
    TangentAgreement,
    agreement,
    power_law,
    tangent_agreement,
)
from mnngp.finite.descent import DescentAgreement, descent_agreement, step_size
from mnngp.finite.sampling import weight_count
from mnngp.finite.tangent import analytic
from mnngp.kernels import MaxoutKernel

Array = NDArray[np.float64]
Stage = Callable[[str, float], Done]
# of unequal norms, and apart
POINTS = np.array([[1.0, -0.5, 0.3, 0.8], [0.2, 1.1, -0.4, 0.5], [-0.7, 0.4, 1.5, -0.2]])
ANGLES = np.array([-2.4, -0.9, 0.4, 1.8])  # of the points that are trained on
PLACES = np.linspace(-np.pi, np.pi, 48, endpoint=False)  # and of those that are predicted
FEWEST = 16  # tangent kernels, of which one at width 2,000 is off by 2 to 5 %
MOST = 20  # narrow networks vary most and cost least: up to so many times as many of them
# weights to spend on a width: they decide how many networks
TANGENT_WEIGHTS, DESCENT_WEIGHTS = 2**26, 2**21


@dataclass(frozen=True, eq=False)
class Study:
    """What was found.

    Attributes
    ----------
    covariances : list of Agreement
        For each rank, depth and width.
    tangents : list of TangentAgreement
        The same, up to a width.
    descents : list of DescentAgreement
        For each width up to another one, at the first rank and depth.
    """

    covariances: list[Agreement]
    tangents: list[TangentAgreement]
    descents: list[DescentAgreement]

    def exponents(self) -> Iterator[tuple[str, int, int, float, float]]:
        """What falls with which power of the width: (name, rank, depth, exponent, its standard
        error).
        """
        groups: tuple[tuple[str, Sequence[Any]], ...] = (
            ("kernel", self.covariances),
            ("tangent kernel", self.tangents),
            ("gradient descent", self.descents),
        )
        for name, rows in groups:
            for rank, depth in dict.fromkeys((row.rank, row.depth) for row in rows):
                chosen = [row for row in rows if (row.rank, row.depth) == (rank, depth)]
                if len(chosen) > 1 and all(row.squared_error > 0.0 for row in chosen):
                    numbers = [
                        (row.width, row.squared_error, row.squared_error_std) for row in chosen
                    ]
                    yield name, rank, depth, *power_law(*zip(*numbers, strict=True))

    def summary(self) -> dict[str, Any]:
        """All numbers, without the draws, for a program to read."""
        names = ("rank", "depth", "width", "networks", "squared_error", "squared_error_std")
        return {
            "covariances": [
                {
                    field.name: getattr(row, field.name)
                    for field in fields(row)
                    if field.name != "draws"
                }
                for row in self.covariances
            ],
            "tangent_kernels": [
                {field.name: getattr(row, field.name) for field in fields(row)}
                for row in self.tangents
            ],
            "gradient_descents": [
                {name: getattr(row, name) for name in names} for row in self.descents
            ],
            "exponents": [
                {"of": name, "rank": rank, "depth": depth, "exponent": exponent, "std": std}
                for name, rank, depth, exponent, std in self.exponents()
            ],
        }


def circle(angles: Array) -> Array:
    """Points of the plane with ``|x|²/d = 1``."""
    return np.asarray(np.sqrt(2.0) * np.stack([np.cos(angles), np.sin(angles)], axis=1))


def convergence_study(
    ranks: Sequence[int] = (2, 4),
    depths: Sequence[int] = (1, 3),
    widths: Sequence[int] = (5, 50, 500, 2000, 5000),
    *,
    networks: int = 200,
    weight_var: float | None = None,
    bias_var: float = 0.1,
    draw: str = "values",
    tangent_up_to: int = 2000,
    descent_up_to: int | None = None,
    seed: int = 0,
    stage: Stage = lambda name, share: lambda part: None,
) -> Study:
    """Draw networks of several ranks, depths and widths, and compare them with the Gaussian
    processes they become.

    Parameters
    ----------
    ranks, depths, widths : sequences of int
        All combinations are drawn.
    networks : int
        How many of the largest width. A width that is k times smaller gets k times as many, up to
        twenty times. Tangent kernels are of at most so many networks, and at least 16; for training
        at least 4.
    weight_var : float, optional
        The critical one of each rank by default.
    bias_var : float
        For all layers.
    draw : {"values", "weights"}
        How: see ``mnngp.finite.sampling``.
    tangent_up_to : int
        The largest width whose tangent kernels are computed; 0 for none.
    descent_up_to : int, optional
        The largest width that is trained, at the first rank and the first depth; 0 for none. By
        default all for one hidden layer, whose networks are small, and 500 for more.
    seed : int
        A row's draws depend on it and on the row's rank, depth, width and number of networks, not
        on other rows.
    stage : callable
        Opens a stage of a progress bar, as ``mnngp._system.progress.bar`` has it.

    Examples
    --------
    >>> found = convergence_study(ranks=[3], depths=[2], widths=[10, 100], networks=100, tangent_up_to=0, descent_up_to=0)
    >>> for name, rank, depth, exponent, std in found.exponents():
    ...     print(f"{name}, rank {rank}, depth {depth}: squared error as width to the power of {exponent:.1f}")
    kernel, rank 3, depth 2: squared error as width to the power of -1.0
    """
    ranks, depths, widths = (
        _distinct(name, values)
        for name, values in (("rank", ranks), ("depth", depths), ("width", widths))
    )
    networks = _validation.positive_int("networks", networks)
    if networks < 2:
        raise InputError("networks must be 2 or more, for a standard error, got 1")
    kernels = [
        MaxoutKernel(
            depth,
            rank,
            Maxout(rank).critical_weight_var if weight_var is None else weight_var,
            bias_var,
        )
        for rank in ranks
        for depth in depths
    ]
    widths, seed = sorted(widths), _validation.seed("seed", seed)
    limit = (widths[-1] if depths[0] == 1 else 500) if descent_up_to is None else descent_up_to
    given = (circle(ANGLES), np.sin(ANGLES), circle(PLACES))
    if widths[0] <= limit:  # an error now, not when all else is done
        step_size(analytic(kernels[0]), given[0], 1.0)
    # What is done, and numbers to be drawn or trained for it, which is about what it costs.
    jobs: list[tuple[str, float, Callable[[Done], Any]]] = []
    for kernel in kernels:
        for width in widths:
            count = networks * min(MOST, widths[-1] // width)
            numbers = len(POINTS) * kernel.rank * kernel.depth * width
            cost = count * (
                numbers if draw == "values" else weight_count(kernel, width, POINTS.shape[1])
            )
            work = _bound(
                agreement, kernel, POINTS, width=width, networks=count, draw=draw, seed=seed
            )
            jobs.append((f"covariances, width {width}", cost, work))
        for width in (value for value in widths if value <= tangent_up_to):
            size = weight_count(kernel, width, POINTS.shape[1])
            count = int(np.clip(TANGENT_WEIGHTS // size, FEWEST, max(FEWEST, networks)))
            work = _bound(tangent_agreement, kernel, POINTS, width=width, networks=count, seed=seed)
            jobs.append((f"tangent kernels, width {width}", 2.0 * count * size + 1e5 * count, work))
    for width in (value for value in widths if value <= limit):
        size = weight_count(kernels[0], width, 2)
        count = int(np.clip(DESCENT_WEIGHTS // size, 4, max(4, networks)))
        work = _bound(descent_agreement, kernels[0], *given, width=width, networks=count, seed=seed)
        jobs.append((f"gradient descent, width {width}", 300.0 * count * size, work))
    total = sum(cost for _, cost, _ in jobs)
    results = [work(stage(name, cost / total)) for name, cost, work in jobs]
    return Study(
        [row for row in results if isinstance(row, Agreement)],
        [row for row in results if isinstance(row, TangentAgreement)],
        [row for row in results if isinstance(row, DescentAgreement)],
    )


def _bound(
    function: Callable[..., Any],
    kernel: MaxoutKernel,
    *arguments: Any,
    width: int,
    seed: int,
    **options: Any,
) -> Callable[[Done], Any]:
    """A job, with a seed of its own."""
    own = np.random.SeedSequence(
        (seed, *function.__name__.encode(), kernel.rank, kernel.depth, width)
    ).generate_state(1)
    return lambda progress: function(
        kernel, *arguments, width, seed=int(own[0]), **options, progress=progress
    )


def _distinct(name: str, values: Sequence[int]) -> list[int]:
    """Positive integers, each once; the first stays the first."""
    if len(values) == 0:
        raise InputError(f"{name} must be one or more positive integers, got none")
    return list(dict.fromkeys(_validation.positive_int(name, value) for value in values))
