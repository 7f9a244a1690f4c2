"""Choosing rank, depth, variances, kind and noise from the data, by leave-one-out.

Each kernel that is tried is taken apart into eigenvectors once; then leave-one-out predictions for
all noise variances are a matrix product. With C = K + ν diag(1/w) for observations of weight w, ``M
= W^½ K W^½ = V Λ Vᵀ`` and ``(Λ + ν)⁻¹`` give

    α = C⁻¹y,   d_i = (C⁻¹)_ii,   y_i - α_i/d_i  the prediction without observation i,   1/d_i  its
    variance.

Rows with equal features are one observation, their mean ȳ (``mnngp.inference.observations``). Their spread
about it tells the noise by itself, whatever the function is: ``S = Σ w (y - ȳ)²`` is ν times a χ²
variable with one degree of freedom less than there are rows.

The search begins with a few kernels that suit many tables, and goes from the best one to its
neighbours as long as that helps. Where there are more places than ``LARGEST``, a random subset of
them is used, and the best few are compared again on a larger one. Kernels are independent of each
other, so each has one core to itself: small decompositions by several threads of BLAS are hardly
faster, and much slower on a machine that is doing something else. It also makes the result the same
for any number of threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from mnngp._system import threads
from mnngp._typing import Matrix, Vector
from mnngp.activations import Maxout
from mnngp.errors import collect_warnings
from mnngp.inference.leave_one_out import leave_out
from mnngp.inference.observations import Observations
from mnngp.inference.posterior import Posterior
from mnngp.inference.solvers.covariance import contraction
from mnngp.kernels.evaluate import correlations, standard_deviations
from mnngp.kernels.points import Points
from mnngp.kernels.sklearn import MaxoutKernel

# places that kernels are compared on: an eigendecomposition takes less than a tenth of a second
LARGEST = 700
FEW = 4  # places below which no kernel can be chosen, only the noise
DEFAULTS = {"depth": 3, "rank": 4, "bias_var": 0.1, "kind": "nngp"}  # there
_REFINED_ON = 2000  # and the best few of them: a factorisation each
_REFINEMENTS = 2  # kernels that are kept back for that
# prior variance of a constant, relative to the rest, beyond which it is free for all purposes
_INTERCEPT = 1e3
_NOISES = 10.0 ** np.arange(-7.0, 1.6, 0.25)  # relative to the kernel's scale
_FINER_NOISES = 10.0 ** np.arange(-11.0, 1.6, 0.25)
_COLUMNS = 64  # of a matrix product with the eigenvectors

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
    noise_ratio: float = math.nan
    score: float = -math.inf
    places: int = 0
    seconds: float = 0.0

    @property
    def key(self) -> tuple[Any, ...]:
        """Which kernel it is, without what was found of it."""
        return self.depth, self.rank, self.weight_var, self.bias_var, self.kind

    def kernel(self, dtype: Any) -> MaxoutKernel:
        return MaxoutKernel(self.depth, self.rank, self.weight_var, self.bias_var, self.kind, dtype)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Objective:
    """What is asked of a kernel, and what of the scale of signal and noise is given.

    Attributes
    ----------
    density : bool
        Whether it is the leave-one-out log density (for numbers), or the mean squared error (for
        class memberships: Brier's score, which asks nothing of the variances).
    noise_var, signal_var : float, optional
        Where they are given.
    """

    density: bool
    noise_var: float | None = None
    signal_var: float | None = None

    @property
    def ratio(self) -> float | None:
        """The noise for a signal of one, if it is given."""
        return (
            None
            if self.noise_var is None or self.signal_var is None
            else self.noise_var / self.signal_var
        )

    def score(self, alpha: Matrix, precision: Vector, ratio: float, data: Observations) -> float:
        """Of what conditioning gives for a signal of one and the noise ``ratio``; larger is better,
        NaN never.
        """
        with np.errstate(all="ignore"):
            value = (self._log_density if self.density else _squared_error)(
                alpha, precision, ratio, data
            )
        return value if math.isfinite(value) else -math.inf

    def _log_density(
        self, alpha: Matrix, precision: Vector, ratio: float, data: Observations
    ) -> float:
        """The mean log density of the places' means, each predicted from the other places, and of
        the spread within places.

        A row that shares its place with others is predicted by them, whatever the kernel: so whole
        places are left out. A scale of signal and noise that is not given is the best one of each
        target.
        """
        total = float(data.weight.sum())
        mean_square = scales(alpha, precision, ratio, data)
        log_variance = -float(data.part @ np.log(precision)) / total
        if ratio > 0.0:
            log_variance += float(np.sum(data.weight - data.part)) / total * math.log(ratio)
        scale = self._given_scale(ratio)
        if scale is None:
            # a constant target says nothing of the others' noise
            varied = mean_square[mean_square > 0.0]
            return -0.5 * (float(np.mean(np.log(varied))) + log_variance) if len(varied) else 0.0
        return -0.5 * (float(np.mean(mean_square)) / scale + math.log(scale) + log_variance)

    def _given_scale(self, ratio: float) -> float | None:
        """The signal variance, as far as it follows from what is given."""
        if self.signal_var is not None:
            return self.signal_var
        return self.noise_var / ratio if self.noise_var else None


def scales(alpha: Matrix, precision: Vector, ratio: float, data: Observations) -> Vector:
    """The best scale of signal and noise together, of each target: mean squares in units of what
    was expected.
    """
    square = data.part @ (alpha**2 / precision[:, None])
    if ratio > 0.0:
        square = square + data.part @ data.spread / ratio
    return np.asarray(square / data.weight.sum())


def _squared_error(alpha: Matrix, precision: Vector, ratio: float, data: Observations) -> float:
    """Minus the mean square error of predictions without one observation: ``data.part``, a row or
    all that may be copies.
    """
    own, others, _ = leave_out(precision, ratio / data.weight, data.part / data.weight)
    square = (others[:, None] * alpha) ** 2 + own[:, None] ** 2 * data.within
    return -float(np.average(np.mean(square, axis=1), weights=data.weight))


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A kernel conditioned on data with any noise."""

    values: Vector
    vectors: Matrix
    projected: Matrix  # Vᵀ W^½ y
    data: Observations
    unit: float  # the scale of the kernel, times the weight of a row, which noise is relative to

    @staticmethod
    def of(kernel: MaxoutKernel, points: Points, data: Observations) -> Spectrum:
        """Take the kernel apart, in the distance form where all its correlations are near one."""
        network = kernel.network
        kappa = contraction(network, points)
        deviation = standard_deviations(network, points)
        unit = kappa * float(np.mean(deviation**2)) * data.mean_weight or 1.0
        scale = deviation * np.sqrt(kappa * data.weight / unit)
        matrix = correlations(network, points, contraction=kappa).astype(np.float64)
        matrix += min((1.0 - kappa) / kappa, _INTERCEPT)
        matrix *= scale[:, None]
        matrix *= scale
        values, vectors = np.linalg.eigh(matrix)
        projected = vectors.T @ (np.sqrt(data.weight)[:, None] * data.y)
        return Spectrum(np.maximum(values, 0.0), vectors, projected, data, unit)

    def conditioned(self, noises: Vector) -> Iterator[tuple[float, Matrix, Vector]]:
        """For each noise (relative to ``unit``): the noise itself, α, and the diagonal of C⁻¹."""
        weight, targets = self.data.weight[:, None] / self.unit, self.projected.shape[1]
        root = np.sqrt(self.data.weight)[:, None] / self.unit
        shrunk = 1.0 / (self.values[:, None] + noises)
        precision = weight * (self.vectors**2 @ shrunk)
        step = max(1, _COLUMNS // targets)
        for start in range(0, len(noises), step):
            few = shrunk[:, start : start + step, None] * self.projected[:, None, :]
            alpha = root[..., None] * (self.vectors @ few.reshape(len(few), -1)).reshape(few.shape)
            for index in range(few.shape[1]):
                yield (
                    float(noises[start + index]) * self.unit,
                    alpha[:, index],
                    precision[:, start + index],
                )

    def log_evidence(self, signal: float, noise: float) -> float:
        """Of all targets together, up to a constant; ``signal`` in units of the kernel's scale."""
        values = signal * self.values + noise
        tiny = np.finfo(np.float64).eps * float(values.max())
        values = np.maximum(values, tiny)
        fit = float(np.sum(self.projected**2 / values[:, None]))
        return float(-0.5 * (fit + self.projected.shape[1] * np.log(values).sum()))


def choose(
    data: Observations,
    fixed: Mapping[str, Any],
    objective: Objective,
    *,
    seed: Any = None,
    budget: int = 24,
    jobs: int = 1,
    done: Callable[[float], object] | None = None,
) -> list[Trial]:
    """Try kernels, in ``jobs`` threads; the best is first.

    ``fixed`` holds the hyperparameters of the kernel that are given (depth, rank, weight_var,
    bias_var, kind). ``budget`` is the number of kernels to try at most.
    """
    rng = np.random.default_rng(seed)
    few, points = _few(data, rng)
    tried: dict[tuple[Any, ...], Trial] = {}
    at_first = budget if len(data) <= LARGEST else max(1, budget - _REFINEMENTS)

    def attempt(trials: Iterable[Trial]) -> None:
        new = {trial.key: trial for trial in trials if trial.key not in tried}

        def one(trial: Trial) -> Trial:
            with collect_warnings():  # what is chosen in the end says it again
                result = _try(trial, points, few, objective)
            if done is not None:
                done(1.0 / budget)
            return result

        results = threads.parallel_map(one, list(islice(new.values(), at_first - len(tried))), jobs)
        tried.update((trial.key, trial) for trial in results)

    attempt(_starts(fixed) if len(data) >= FEW else [plain(fixed)])
    improved = len(data) >= FEW
    while improved and len(tried) < at_first:
        best = _best(tried)
        attempt(_neighbours(best, fixed))
        improved = _best(tried) is not best
    ranked = sorted(tried.values(), key=lambda trial: -trial.score)
    if len(data) > LARGEST:
        ranked = _refined(ranked, data, fixed, objective, rng, jobs, new=budget - len(tried))
    if done is not None:
        done(1.0 - len(tried) / budget)
    return ranked


def _best(tried: Mapping[tuple[Any, ...], Trial]) -> Trial:
    return max(tried.values(), key=lambda trial: trial.score)


def _refined(
    ranked: list[Trial],
    data: Observations,
    fixed: Mapping[str, Any],
    objective: Objective,
    rng: np.random.Generator,
    jobs: int,
    *,
    new: int,
) -> list[Trial]:
    """Compare the best two again, with ``new`` neighbours and with less noise, on more places: more
    data bear sharper kernels.
    """
    more = _some(data, _REFINED_ON, rng)
    seen: dict[tuple[Any, ...], Trial] = {}

    def one(trial: Trial) -> Trial:
        """With its noise, and less of it as long as that helps."""
        began = time.perf_counter()
        best = replace(trial, score=-math.inf)
        kernel = trial.kernel("float64")
        for factor in (1.0, 10**-0.5, 0.1, 10**-1.5) if objective.ratio is None else (1.0,):
            ratio = factor * trial.noise_ratio
            with collect_warnings():
                posterior = Posterior(kernel, more.X, more.y, ratio / more.weight)
            value = objective.score(posterior.weights(), posterior.precision(), ratio, more)
            if not value > best.score:
                break
            best = replace(best, noise_ratio=ratio, score=value)
        return replace(best, places=len(more), seconds=time.perf_counter() - began)

    def attempt(trials: Iterable[Trial]) -> None:
        seen.update((trial.key, trial) for trial in threads.parallel_map(one, list(trials), jobs))

    attempt(ranked[:2])
    best = _best(seen)
    sharper = (
        other
        for other in _neighbours(best, fixed)
        if other.depth > best.depth or other.rank > best.rank
    )
    unseen = (
        replace(other, noise_ratio=best.noise_ratio) for other in sharper if other.key not in seen
    )
    attempt(islice(unseen, new))
    others = [trial for trial in ranked if trial.key not in seen]
    return sorted(seen.values(), key=lambda trial: -trial.score) + others


def share_of_time(places: int, budget: int) -> float:
    """Roughly how much of a fit's time is spent here, and not on the factorisation of all
    places.
    """
    choosing, factorising = budget * 9.0 * min(places, LARGEST) ** 3, places**3 / 3.0
    return choosing / (choosing + factorising)


def best_signal(trial: Trial, data: Observations, noise_var: float, seed: Any) -> float:
    """The signal variance with the largest evidence for a given noise variance, from at most
    ``LARGEST`` places.
    """
    few, points = _few(data, np.random.default_rng(seed))
    spectrum = Spectrum.of(trial.kernel("float64"), points, few)
    signals = np.logspace(-8.0, 8.0, 129) * (float(np.mean(few.y**2)) or 1.0) * few.mean_weight
    evidence = [spectrum.log_evidence(signal, noise_var) for signal in signals]
    return float(signals[int(np.argmax(evidence))] / spectrum.unit)


def best_scales(trial: Trial, data: Observations, seed: Any) -> Vector:
    """The scale of signal and noise of each target that leave-one-out asks for, from at most
    ``_REFINED_ON`` places.
    """
    few = _some(data, _REFINED_ON, np.random.default_rng(seed))
    with collect_warnings():
        posterior = Posterior(trial.kernel("float64"), few.X, few.y, trial.noise_ratio / few.weight)
    return scales(posterior.weights(), posterior.precision(), trial.noise_ratio, few)


def tells_noise(data: Observations, objective: Objective) -> bool:
    """Whether there is something to choose the noise by: other places, or a spread within more than
    one.
    """
    return len(data) >= FEW or (len(data) > 1 and objective.density and bool(data.repeats.any()))


def plain(fixed: Mapping[str, Any]) -> Trial:
    """A kernel where there is nothing to choose one by."""
    rank = fixed.get("rank", DEFAULTS["rank"])
    return Trial(**{**DEFAULTS, "weight_var": Maxout(rank).critical_weight_var, **fixed})


def default(fixed: Mapping[str, Any], data: Observations, objective: Objective) -> Trial:
    """The same with a noise: that of a single place is its spread, for a signal of the same size;
    or else a hundredth.
    """
    trial = plain(fixed)
    if objective.ratio is not None:
        return replace(trial, noise_ratio=objective.ratio)
    network = trial.kernel("float64").network
    points = Points.of("X", data.X, np.dtype(np.float64))
    scale = (
        contraction(network, points)
        * float(np.mean(standard_deviations(network, points) ** 2))
        * data.mean_weight
    )
    return replace(trial, noise_ratio=(1.0 if data.repeats.any() else 0.01) * scale)


def _some(data: Observations, most: int, rng: np.random.Generator) -> Observations:
    """The data, or a random part of them if they are more."""
    return (
        data
        if len(data) <= most
        else data.subset(np.sort(rng.choice(len(data), most, replace=False)))
    )


def _few(data: Observations, rng: np.random.Generator) -> tuple[Observations, Points]:
    """What kernels are compared on."""
    few = _some(data, LARGEST, rng)
    return few, Points.of("X", few.X, np.dtype(np.float64))


def _try(trial: Trial, points: Points, data: Observations, objective: Objective) -> Trial:
    began = time.perf_counter()
    spectrum = Spectrum.of(trial.kernel("float64"), points, data)
    # which tell the noise, however little it is
    noises = _FINER_NOISES if data.repeats.any() else _NOISES
    if objective.ratio is not None:
        noises = np.array([objective.ratio / spectrum.unit])
    found = [
        (objective.score(alpha, precision, ratio, data), ratio)
        for ratio, alpha, precision in spectrum.conditioned(noises)
    ]
    score, ratio = max(found, key=lambda pair: pair[0])
    return replace(
        trial, noise_ratio=ratio, score=score, places=len(data), seconds=time.perf_counter() - began
    )


def _trial(
    fixed: Mapping[str, Any], kind: str, rank: int, depth: int, gain: float, bias_var: float
) -> Trial:
    """A kernel, with the fixed hyperparameters in their places."""
    rank = fixed.get("rank", rank)
    own = {
        "depth": depth,
        "rank": rank,
        "weight_var": gain * Maxout(rank).critical_weight_var,
        "bias_var": bias_var,
        "kind": kind,
    }
    return Trial(**{**own, **fixed})


def _starts(fixed: Mapping[str, Any]) -> Iterator[Trial]:
    yield from dict.fromkeys(_trial(fixed, *start) for start in _STARTS)


def _neighbours(trial: Trial, fixed: Mapping[str, Any]) -> Iterator[Trial]:
    """One step from a trial in each direction that is free."""
    gain = (
        trial.weight_var / Maxout(trial.rank).critical_weight_var
        if "weight_var" not in fixed
        else 1.0
    )
    here = {
        "kind": trial.kind,
        "rank": trial.rank,
        "depth": trial.depth,
        "gain": gain,
        "bias_var": trial.bias_var,
    }
    axes = {"depth": DEPTHS, "bias_var": BIASES, "rank": RANKS, "gain": GAINS, "kind": KINDS}
    for name, values in axes.items():
        if ("weight_var" if name == "gain" else name) in fixed:
            continue
        place = int(
            np.argmin(
                [
                    value != here[name] if name == "kind" else abs(np.log(value / here[name]))
                    for value in values
                ]
            )
        )
        for step in (-1, 1):
            if 0 <= place + step < len(values):
                yield _trial(fixed, **{**here, name: values[place + step]})
