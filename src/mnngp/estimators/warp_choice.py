"""Whether targets are better warped, by leave-one-out densities on a part of the data.

Only targets that look odd are looked at closer, for a warp is a change of the model that has to be
worth it. They look odd if they are skewed, or some of them far out, beside a Gaussian variable with
the same quartiles. Then a few kernels are conditioned on the targets as they are and on each warp
of them, from the same eigendecompositions, and the log densities of the targets themselves are
compared, each predicted from all others, with the warp's slope in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from mnngp._system import threads
from mnngp._typing import Matrix, Vector
from mnngp.errors import collect_warnings
from mnngp.estimators.warp import QUARTILES, Arcsinh, Identity, Log, Warp, warped
from mnngp.inference import choice
from mnngp.inference.observations import Observations
from mnngp.inference.scoring import Spectrum, scales
from mnngp.inference.search_space import SearchSpace
from mnngp.kernels.sklearn import DeepKernel

FEWEST = 50  # inputs, below which quantiles say little
_COMPARED_ON = 500  # inputs at most
_KERNELS = 4  # those that the search begins with
# A Gaussian variable is not skewed, and one in 1.7 million is five deviations out; the targets of
# diabetes have 0.23 and 2.2, lognormal ones of deviation 0.5 of their logarithm are skewed by 0.39.
_SKEWED, _FAR_OUT = 0.25, 5.0
_MOST_EQUAL = 0.1  # of the rows may have the same target: an atom has no density
_AHEAD, _ERRORS = 0.02, 2.0  # nats a row, and standard errors of the difference


def look_odd(y: Vector) -> bool:
    """Whether targets are clearly skewed or have heavy tails.

    With q_p the quantiles it is ``|q₉₅ + q₅ - 2 q₅₀| > 0.25 (q₉₅ - q₅)``, or a target that is more
    than five standard deviations from the median, by the deviation of a Gaussian variable with the
    same quartiles. Targets of which more than a tenth have the same value are left alone.
    """
    if np.unique(y, return_counts=True)[1].max() > _MOST_EQUAL * len(y):
        return False
    low, first, middle, third, high = np.quantile(y, [0.05, 0.25, 0.5, 0.75, 0.95])
    skewed = abs((high - middle) - (middle - low)) > _SKEWED * (high - low)
    farthest = np.abs(y - middle).max()
    return bool(skewed or farthest > _FAR_OUT * (third - first) / QUARTILES)


def choose(data: Observations, space: SearchSpace, seed: object, jobs: int) -> Warp:
    """The warp of a single target that is clearly better than none, or ``Identity()``."""
    y = data.row_y[:, 0]
    if len(data) < FEWEST or not look_odd(y):
        return Identity()
    first = next(space.starts())
    if getattr(first, "convolutional", False):  # a kernel takes longer than all else here
        return Identity()
    candidates: list[Warp] = [Identity(), Arcsinh.of(y)]
    if y.min() > 0.0:
        candidates.append(Log.of(y))
    few = data.sample(_COMPARED_ON, np.random.default_rng(seed))  # type: ignore[arg-type]
    own = space.features(first)
    starts = (kernel for kernel in space.starts() if space.features(kernel) == own)
    kernels = list(islice({kernel.network: kernel for kernel in starts}.values(), _KERNELS))
    densities = _left_out(few, candidates, kernels, jobs)
    total = float(few.weight.sum())

    def lead(density: Vector) -> tuple[float, float]:
        """How far ahead of none, for a row of weight one, and the standard error of that."""
        difference = density - densities[0]
        mean = float(difference.sum()) / total
        return mean, math.sqrt(float(np.sum((difference - mean * few.weight) ** 2))) / total

    leads = [lead(density) for density in densities]
    best = max(range(len(candidates)), key=lambda number: leads[number][0])
    mean, error = leads[best]
    return candidates[best] if mean > max(_AHEAD, _ERRORS * error) else Identity()


def _left_out(
    data: Observations, candidates: Sequence[Warp], kernels: Sequence[DeepKernel], jobs: int
) -> list[Vector]:
    """For each warp what each input adds to the log density, by the kernel that suits it best.

    Up to a constant that all have in common.
    """
    z = warped(candidates, np.repeat(data.row_y, len(candidates), axis=1))
    # as if the warps were several targets at the same inputs
    together = Observations.of(data.X[data.group], z, data.row_weight)
    together = replace(together, held_out_weight=data.held_out_weight)
    offset = np.average(together.y, axis=0, weights=together.weight)
    unit = np.sqrt(np.average((together.row_y - offset) ** 2, axis=0, weights=data.row_weight))
    together = together.standardized(offset, unit)

    def one(kernel: DeepKernel) -> Matrix:
        with collect_warnings():
            points = kernel.prepared("X", kernel.checked("X", data.X))
            return _conditioned(Spectrum.of(kernel, points, together), together)

    tried = threads.parallel_map(one, kernels, jobs)
    found: list[Vector] = []
    for j, warp in enumerate(candidates):
        density = max((each[:, j] for each in tried), key=lambda one: float(one.sum()))
        slope = data.row_weight * (warp.log_slope(z[:, j]) - math.log(unit[j]))
        found.append(np.asarray(density + np.bincount(data.group, weights=slope), np.float64))
    return found


def _conditioned(spectrum: Spectrum, data: Observations) -> Matrix:
    """What the inputs add to the leave-one-out log density of each target (n, targets), with its
    own best noise and scale.

    They add up to what ``inference.scoring`` has for each target alone.
    """
    best = np.full(data.y.shape, -np.inf)
    part = data.held_out_weight[:, None, None]
    weight, spread = data.weight[:, None, None], data.spread[:, None]
    for ratios, alpha, precision in spectrum.conditioned(choice.noises_to_try(data)):
        scale, ratio = scales(alpha, precision, ratios, data), ratios[:, None]
        error = part * (alpha**2 / precision[..., None] + spread / ratio) / scale
        variance = weight * np.log(scale) - part * np.log(precision)[..., None]
        variance = variance + (weight - part) * np.log(ratio)
        density = -0.5 * (error + variance)
        for one in density.swapaxes(0, 1):
            better = one.sum(axis=0) > best.sum(axis=0)
            best[:, better] = one[:, better]
    return best
