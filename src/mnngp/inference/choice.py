"""Choosing rank, depth, variances, kind and noise from the data, by leave-one-out.

Each kernel that is tried is taken apart into eigenvectors once; then leave-one-out predictions for all noise variances are a
matrix product each. With C = K + ν diag(1/w) for observations of weight w, ``M = W^½ K W^½ = V Λ Vᵀ`` and ``(Λ + ν)⁻¹`` give

    α = C⁻¹y,   d_i = (C⁻¹)_ii,   y_i - α_i/d_i  the prediction without observation i,   1/d_i  its variance.

The search begins with a few kernels that suit many tables, and goes from the best one to its neighbours as long as that helps.
Where there are more places than ``LARGEST``, a random subset of them is used, and the best few are compared again on a larger one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp.activations import Maxout
from mnngp.activations.series import Vector
from mnngp.errors import AccuracyWarning
from mnngp.inference.factor import contraction
from mnngp.inference.posterior import Posterior, leave_out
from mnngp.kernels.matrix import correlations, standard_deviations
from mnngp.kernels.network import MaxoutKernel
from mnngp.kernels.points import Points
from mnngp.observations import Observations

Matrix = NDArray[Any]
LARGEST = 1000  # places that kernels are compared on: an eigendecomposition takes a fraction of a second
_REFINED_ON = 2000  # and the best few of them: a factorisation each
_REFINEMENTS = 2  # kernels that are kept back for that
_INTERCEPT = 1e3  # prior variance of a constant, relative to the rest, beyond which it is free for all purposes
_NOISES = 10.0 ** np.arange(-7.0, 1.6, 0.25)  # relative to the kernel's scale

RANKS = (2, 3, 4, 6, 8, 16)
DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
GAINS = (0.5, 0.8, 1.0, 1.25, 2.0)  # weight_var in units of the activation's critical one
BIASES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
KINDS = ("nngp", "ntk")
_STARTS = (
    # kind, rank, depth, gain, bias_var
    ("nngp", 4, 1, 1.0, 0.1),
    ("nngp", 2, 3, 1.0, 1.0),
    ("nngp", 4, 4, 1.0, 0.1),
    ("nngp", 4, 12, 1.0, 0.1),
    ("ntk", 4, 1, 1.0, 0.1),
    ("ntk", 2, 3, 1.0, 0.01),
    ("ntk", 4, 4, 1.0, 0.1),
    ("ntk", 4, 12, 1.0, 0.1),
)


@dataclass(frozen=True)
class Trial:
    """One kernel that was tried.

    Attributes
    ----------
    depth, rank, weight_var, bias_var, kind
        Of the kernel.
    noise_ratio : float
        The noise variance that was best for it, for a signal variance of one.
    score : float
        What leave-one-out said of it; larger is better.
    places : int
        Places in the data that it was tried on.
    seconds : float
    """

    depth: int
    rank: int
    weight_var: Any
    bias_var: Any
    kind: str
    noise_ratio: float = float("nan")
    score: float = float("-inf")
    places: int = 0
    seconds: float = 0.0

    def kernel(self, dtype: Any) -> MaxoutKernel:
        return MaxoutKernel(self.depth, self.rank, self.weight_var, self.bias_var, self.kind, dtype)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def one_left_out(alpha: Matrix, precision: Vector, noise: Vector, data: Observations) -> tuple[Matrix, Vector]:
    """Mean square errors of predictions without one observation, at each place, and the variances of those predictions.

    What is left out at a time is ``data.part``: a row, or a place whose rows may be copies.
    """
    share = data.part / data.weight
    own, others, spread = leave_out(precision, noise, share)
    return (others[:, None] * alpha) ** 2 + own[:, None] ** 2 * data.within, spread + noise / share


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The leave-one-out predictions of a kernel for any noise."""

    values: Vector
    vectors: Matrix
    projected: Matrix  # Vᵀ W^½ y
    data: Observations
    unit: float  # the kernel's scale, which noise is relative to

    @staticmethod
    def of(kernel: MaxoutKernel, points: Points, data: Observations) -> Spectrum:
        """Take the kernel apart, in the distance form where all its correlations are near one."""
        network = kernel._network()
        kappa = contraction(network, points)
        deviation = standard_deviations(network, points)
        unit = kappa * float(np.mean(deviation**2)) or 1.0
        scale = deviation * np.sqrt(kappa * data.weight / unit)
        matrix = correlations(network, points, contraction=kappa).astype(np.float64)
        matrix += min((1.0 - kappa) / kappa, _INTERCEPT)
        matrix *= scale[:, None]
        matrix *= scale
        values, vectors = np.linalg.eigh(matrix)
        projected = vectors.T @ (np.sqrt(data.weight)[:, None] * data.y)
        return Spectrum(np.maximum(values, 0.0), vectors, projected, data, unit)

    def leave_one_out(self, noise: float) -> tuple[Matrix, Vector]:
        """As ``one_left_out``, for a noise relative to ``unit`` and variances in it."""
        shrunk = 1.0 / (self.values + noise)
        root = np.sqrt(self.data.weight)
        inverse = self.data.weight * (self.vectors**2 @ shrunk)
        alpha = root[:, None] * (self.vectors @ (self.projected * shrunk[:, None]))
        return one_left_out(alpha, inverse, noise / self.data.weight, self.data)

    def log_evidence(self, signal: float, noise: float) -> float:
        """Of all targets together, up to a constant; ``signal`` in units of the kernel's scale."""
        values = signal * self.values + noise
        tiny = np.finfo(np.float64).eps * float(values.max())
        values = np.maximum(values, tiny)
        fit = float(np.sum(self.projected**2 / values[:, None]))
        return float(-0.5 * (fit + self.projected.shape[1] * np.log(values).sum()))


Score = Callable[[Matrix, Vector, Observations], float]


def squared_error(square: Matrix, variance: Vector, data: Observations) -> float:
    """Minus the mean squared error: for class memberships that is Brier's score. It asks nothing of the variances."""
    return -float(np.average(np.mean(square, axis=1), weights=data.weight))


def log_density(square: Matrix, variance: Vector, data: Observations) -> float:
    """The mean log density, for the best scale of all variances together: rewards those that are honest about each point."""
    ratio = np.average(square / variance[:, None], axis=0, weights=data.weight)
    return -0.5 * float(np.mean(np.log(np.maximum(ratio, 1e-300))) + np.average(np.log(variance), weights=data.weight))


SCORES: dict[str, Score] = {"squared error": squared_error, "log density": log_density}


def choose(
    data: Observations,
    fixed: Mapping[str, Any],
    score: Score,
    *,
    noise_ratio: float | None = None,
    seed: Any = None,
    budget: int = 24,
    done: Callable[[float], object] | None = None,
) -> list[Trial]:
    """Try kernels; the best is first.

    ``fixed`` holds the hyperparameters of the kernel that are given (depth, rank, weight_var, bias_var, kind), ``noise_ratio`` the
    noise for a signal of one if that is. ``budget`` is the number of kernels to try at most.
    """
    rng = np.random.default_rng(seed)
    few, points = _few(data, rng)
    tried: dict[Trial, Trial] = {}
    at_first = budget if len(data) <= LARGEST else max(1, budget - _REFINEMENTS)

    def attempt(trial: Trial) -> Trial:
        if trial not in tried and len(tried) < at_first:
            tried[trial] = _try(trial, points, few, score, noise_ratio)
            if done is not None:
                done(1.0 / budget)
        return tried.get(trial, trial)

    for trial in _starts(fixed):
        attempt(trial)
    improved = True
    while improved and len(tried) < at_first:
        best = max(tried, key=lambda trial: tried[trial].score)
        for neighbour in _neighbours(best, fixed):
            attempt(neighbour)
        improved = max(tried, key=lambda trial: tried[trial].score) != best
    ranked = sorted(tried.values(), key=lambda trial: -trial.score)
    if len(data) > LARGEST:
        ranked = _refined(ranked, data, fixed, score, noise_ratio, rng, new=budget - len(tried))
    if done is not None:
        done(1.0 - len(tried) / budget)
    return ranked


def _refined(
    ranked: list[Trial],
    data: Observations,
    fixed: Mapping[str, Any],
    score: Score,
    noise_ratio: float | None,
    rng: np.random.Generator,
    *,
    new: int,
) -> list[Trial]:
    """Compare the best two again, with ``new`` neighbours and with less noise, on more places: more data bear sharper kernels."""
    more = data if len(data) <= _REFINED_ON else data.subset(np.sort(rng.choice(len(data), _REFINED_ON, replace=False)))
    seen: dict[Trial, Trial] = {}

    def attempt(trial: Trial, noise: float) -> Trial:
        """With the noise, and less of it as long as that helps."""
        bare = replace(trial, noise_ratio=float("nan"), score=float("-inf"), places=0, seconds=0.0)
        if bare in seen:
            return seen[bare]
        began = time.perf_counter()
        best = replace(bare, noise_ratio=noise)
        kernel = trial.kernel("float64")
        for factor in (1.0, 10**-0.5, 0.1, 10**-1.5) if noise_ratio is None else (1.0,):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AccuracyWarning)  # what is chosen in the end says it again
                posterior = Posterior(kernel, more.X, more.y, factor * noise / more.weight)
            value = score(*one_left_out(posterior.weights(), posterior.precision(), posterior.noise_var, more), more)
            if not value > best.score:
                break
            best = replace(best, noise_ratio=factor * noise, score=value)
        seen[bare] = replace(best, places=len(more), seconds=time.perf_counter() - began)
        return seen[bare]

    for trial in ranked[:2]:
        attempt(trial, trial.noise_ratio)
    best = max(seen.values(), key=lambda trial: trial.score)
    sharper = (other for other in _neighbours(best, fixed) if other.depth > best.depth or other.rank > best.rank)
    for neighbour in islice(sharper, new):
        attempt(neighbour, best.noise_ratio)
    return sorted(seen.values(), key=lambda trial: -trial.score) + ranked


def best_signal(trial: Trial, data: Observations, noise_var: float, seed: Any) -> float:
    """The signal variance with the largest evidence for a given noise variance, from at most ``LARGEST`` places."""
    few, points = _few(data, np.random.default_rng(seed))
    spectrum = Spectrum.of(trial.kernel("float64"), points, few)
    signals = np.logspace(-8.0, 8.0, 129) * (float(np.mean(few.y**2)) or 1.0)
    evidence = [spectrum.log_evidence(signal, noise_var) for signal in signals]
    return float(signals[int(np.argmax(evidence))] / spectrum.unit)


def modest_noise(kernel: Mapping[str, Any], data: Observations) -> float:
    """A noise variance, for a signal of one, for data that are too few to choose it from."""
    network = Trial(**kernel).kernel("float64")._network()
    points = Points.of("X", data.X, np.dtype(np.float64))
    return 0.01 * contraction(network, points) * float(np.mean(standard_deviations(network, points) ** 2))


def _few(data: Observations, rng: np.random.Generator) -> tuple[Observations, Points]:
    """The data, or a random part of them if they are many."""
    few = data if len(data) <= LARGEST else data.subset(np.sort(rng.choice(len(data), LARGEST, replace=False)))
    return few, Points.of("X", few.X, np.dtype(np.float64))


def _try(trial: Trial, points: Points, data: Observations, score: Score, noise_ratio: float | None) -> Trial:
    began = time.perf_counter()
    spectrum = Spectrum.of(trial.kernel("float64"), points, data)
    noises = _NOISES if noise_ratio is None else np.array([noise_ratio / spectrum.unit])
    scores = np.array([score(*spectrum.leave_one_out(noise), data) for noise in noises])
    scores = np.where(np.isfinite(scores), scores, -np.inf)
    best = int(np.argmax(scores))
    return replace(
        trial,
        noise_ratio=float(noises[best] * spectrum.unit),
        score=float(scores[best]),
        places=len(data),
        seconds=time.perf_counter() - began,
    )


def _trial(fixed: Mapping[str, Any], kind: str, rank: int, depth: int, gain: float, bias_var: float) -> Trial:
    """A kernel, with the fixed hyperparameters in their places."""
    rank = fixed.get("rank", rank)
    own = {"depth": depth, "rank": rank, "weight_var": gain * Maxout(rank).critical_weight_var, "bias_var": bias_var, "kind": kind}
    return Trial(**{**own, **fixed})


def _starts(fixed: Mapping[str, Any]) -> Iterator[Trial]:
    yield from dict.fromkeys(_trial(fixed, *start) for start in _STARTS)


def _neighbours(trial: Trial, fixed: Mapping[str, Any]) -> Iterator[Trial]:
    """One step from a trial in each direction that is free."""
    gain = trial.weight_var / Maxout(trial.rank).critical_weight_var if "weight_var" not in fixed else 1.0
    here = {"kind": trial.kind, "rank": trial.rank, "depth": trial.depth, "gain": gain, "bias_var": trial.bias_var}
    axes = {"depth": DEPTHS, "bias_var": BIASES, "rank": RANKS, "gain": GAINS, "kind": KINDS}
    for name, values in axes.items():
        if ("weight_var" if name == "gain" else name) in fixed:
            continue
        place = int(np.argmin([value != here[name] if name == "kind" else abs(np.log(value / here[name])) for value in values]))
        for step in (-1, 1):
            if 0 <= place + step < len(values):
                yield _trial(fixed, **{**here, name: values[place + step]})
