"""Choosing a kernel and its noise from the data: candidates, their scores by leave-one-out, and a
second look at the best.

The search begins with a few kernels that suit many tables, and goes from the best one to its
neighbours as long as that helps (``inference.search_space`` knows both); on the way the features of
an embedding are weighted by what the best fit depends on (``inference.feature_weights``). Where
there are many inputs, the first kernels are compared on fewer, and the best of them again. Where
there are more unique inputs than ``LARGEST``, a random subset of them is used, and the best few are
compared again on a larger one.

Kernels are independent of each other, so each has one core to itself: small decompositions by
several threads of BLAS are hardly faster, and much slower on a machine that is doing something
else. It also makes the result the same for any number of threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from mnngp._system import threads
from mnngp._typing import Vector
from mnngp.errors import collect_warnings
from mnngp.inference.feature_weights import feature_weights
from mnngp.inference.observations import Observations
from mnngp.inference.posterior import Posterior
from mnngp.inference.scoring import Objective, Spectrum, scales
from mnngp.inference.search_space import LINEAR, SearchSpace
from mnngp.inference.solvers.covariance import contraction
from mnngp.kernels.embedded import EmbeddedPoints
from mnngp.kernels.evaluate import standard_deviations
from mnngp.kernels.points import Points
from mnngp.kernels.sklearn import DeepKernel
from mnngp.networks.embedding import Embedding
from mnngp.networks.network import Network

# inputs that kernels are compared on: an eigendecomposition takes less than a tenth of a second
LARGEST = 600
_AT_ONCE = 450  # inputs up to which the first kernels are compared on all of them
_FIRST_LOOK = 350  # or else on so many, an eighth of the time, and the best few of them again
_SURVIVORS = 4
_BEFORE_WEIGHTS = 8  # neighbours that are tried before features are weighted
# inputs below which they are not: what leave-one-out then promises too much of (the weights have
# seen what it leaves out) makes probabilities too sure of themselves
_FEWEST_TO_WEIGH = 80
FEW = 4  # inputs below which no kernel can be chosen, only the noise
_REFINED_ON = 2000  # and the best few of them: a factorisation each
_REFINEMENTS = 2  # kernels that are kept back for that
_NOISES = 10.0 ** np.arange(-7.0, 1.6, 0.25)  # relative to the kernel's scale
_FINER_NOISES = 10.0 ** np.arange(-11.0, 1.6, 0.25)
_LESS_NOISE = (1.0, 10**-0.5, 0.1, 10**-1.5)


@dataclass(frozen=True)
class Trial:
    """One kernel that was tried."""

    kernel: DeepKernel  # in double precision
    noise_ratio: float = math.nan  # the best noise variance for it, for a signal variance of one
    score: float = -math.inf  # what leave-one-out said of it; larger is better
    n_rows: int = 0  # distinct rows of the data that it was tried on
    seconds: float = 0.0
    features: str = LINEAR  # what stood in front of it

    def as_dict(self) -> dict[str, Any]:
        """Parameters of the kernel, and what was found: numbers and texts."""
        others = {"dtype", "image_shape", "flips", "embedding"}
        parameters = {
            name: [repr(layer) for layer in value] if name == "layers" else value
            for name, value in self.kernel.get_params().items()
            if name not in others and not name.endswith("_bounds")
        }
        embedding = self.kernel.embedding
        parameters["lengthscale"] = None if embedding is None else embedding.lengthscale
        parameters["weighted"] = embedding is not None and bool(embedding.weights)
        found = {name: value for name, value in vars(self).items() if name != "kernel"}
        return {**parameters, **found}


def choose(
    versions: Mapping[str, Observations],
    space: SearchSpace,
    objective: Objective,
    *,
    seed: Any = None,
    budget: int = 24,
    jobs: int = 1,
    done: Callable[[float], object] | None = None,
) -> list[Trial]:
    """Try at most ``budget`` kernels of a space, in ``jobs`` threads; the best is first.

    ``versions`` are the same data with the features that the space's kernels stand behind.
    """
    rng = np.random.default_rng(seed)
    n = len(next(iter(versions.values())))
    sample = _Sample(_sampled(versions, LARGEST, rng), space, objective, jobs)
    tried: dict[Network, Trial] = {}
    at_first = budget if n <= LARGEST else max(1, budget - _REFINEMENTS)

    def attempt(kernels: Iterable[DeepKernel], on: _Sample, most: int = at_first) -> None:
        new = {kernel.network: kernel for kernel in kernels}
        unseen = [kernel for network, kernel in new.items() if network not in tried]
        found = on.trials(unseen[: most - len(tried)])
        tried.update((trial.kernel.network, trial) for trial in found)
        if done is not None:
            done(len(found) / budget)

    def walk(most: int) -> None:
        """From the best to its neighbours, until that no longer helps."""
        best = None
        while len(tried) < most and (leader := _ranked(tried.values())[0]) is not best:
            best = leader
            attempt(space.neighbours(best.kernel), sample, most)

    if n < FEW:
        attempt([space.default()], sample)
    elif len(sample) <= _AT_ONCE:
        attempt(space.starts(), sample)
    else:
        attempt(space.starts(), sample.part(_FIRST_LOOK, rng))
        first = sorted(tried.values(), key=lambda trial: -trial.score)
        of_each_kind = {trial.features == LINEAR: trial for trial in reversed(first)}.values()
        survivors = {trial.kernel.network: trial for trial in (*first[:_SURVIVORS], *of_each_kind)}
        again = sample.trials([trial.kernel for trial in survivors.values()])
        tried.update((trial.kernel.network, trial) for trial in again)
    if n >= FEW:
        if space.weighs and len(sample) >= _FEWEST_TO_WEIGH:
            walk(min(len(tried) + _BEFORE_WEIGHTS, at_first))
            if len(tried) < at_first:
                attempt(sample.weighted(_ranked(tried.values())[0]), sample)
        walk(at_first)
    ranked = _ranked(tried.values())
    if n > LARGEST:
        more = _sampled(versions, _REFINED_ON, rng)
        ranked = _refined(ranked, more, space, objective, jobs, new=budget - len(tried))
    if done is not None:
        done(1.0 - len(tried) / budget)
    return ranked


def _ranked(trials: Iterable[Trial]) -> list[Trial]:
    """The best first."""
    return sorted(trials, key=_merit, reverse=True)


def _merit(trial: Trial) -> tuple[int, float]:
    """Scores on fewer rows are others: what was tried on more comes first."""
    return trial.n_rows, trial.score


class _Sample:
    """Some inputs that kernels are compared on, in each version of their features."""

    def __init__(
        self,
        versions: Mapping[str, Observations],
        space: SearchSpace,
        objective: Objective,
        jobs: int,
    ) -> None:
        self.versions, self.space, self.objective, self.jobs = versions, space, objective, jobs
        self._found: dict[Network, Trial] = {}
        self._points: dict[Embedding | None, Points] = {}  # as kernels with an embedding have them

    def __len__(self) -> int:
        return len(next(iter(self.versions.values())))

    def part(self, most: int, rng: np.random.Generator) -> _Sample:
        """A random part of them."""
        few = _sampled(self.versions, most, rng)
        return _Sample(few, self.space, self.objective, self.jobs)

    def trials(self, kernels: Sequence[DeepKernel]) -> list[Trial]:
        """What is found of some kernels."""
        unknown = [kernel for kernel in kernels if kernel.network not in self._found]
        for kernel in unknown:
            if kernel.embedding not in self._points:
                rows = kernel.checked("X", self.versions[self.space.features(kernel)].X)
                self._points[kernel.embedding] = kernel.prepared("X", rows)
        for trial in threads.parallel_map(self._one, unknown, self.jobs):
            self._found[trial.kernel.network] = trial
        return [self._found[kernel.network] for kernel in kernels]

    def weighted(self, trial: Trial) -> Iterator[DeepKernel]:
        """A kernel with an embedding, its features weighted by what a fit depends on."""
        points = self._points[trial.kernel.embedding]
        if not isinstance(points, EmbeddedPoints):  # the columns are ahead
            return iter(())
        data = self.versions[trial.features]
        weights = feature_weights(trial.kernel, points, data, trial.noise_ratio)
        return self.space.weighted(trial.kernel, weights) if len(weights) > 1 else iter(())

    def _one(self, kernel: DeepKernel) -> Trial:
        features = self.space.features(kernel)
        points = self._points[kernel.embedding]
        with collect_warnings():  # what is chosen in the end says it again
            result = trial_of(kernel, points, self.versions[features], self.objective)
        return replace(result, features=features)


def _sampled(
    versions: Mapping[str, Observations], most: int, rng: np.random.Generator
) -> dict[str, Observations]:
    """The same few inputs of each version, or all."""
    n = len(next(iter(versions.values())))
    if n <= most:
        return dict(versions)
    chosen = np.sort(rng.choice(n, most, replace=False))
    return {name: data.subset(chosen) for name, data in versions.items()}


def _compared_on(
    data: Observations, kernel: DeepKernel, rng: np.random.Generator
) -> tuple[Observations, Points]:
    few = data.sample(LARGEST, rng)
    return few, kernel.prepared("X", kernel.checked("X", few.X))


def noises_to_try(data: Observations) -> Vector:
    """Noise variances, relative to the kernel's scale."""
    # rows that repeat tell the noise, however little it is
    return _FINER_NOISES if data.repeats.any() else _NOISES


def trial_of(kernel: DeepKernel, points: Points, data: Observations, objective: Objective) -> Trial:
    """Score a kernel with the noise that suits it best."""
    began = time.perf_counter()
    spectrum = Spectrum.of(kernel, points, data)
    noises = noises_to_try(data)
    if objective.noise_ratio is not None:
        noises = np.array([objective.noise_ratio / spectrum.unit])
    found = [
        (objective.scores(alpha, precision, ratios, data), ratios)
        for ratios, alpha, precision in spectrum.conditioned(noises)
    ]
    scores, ratios = (np.concatenate(parts) for parts in zip(*found, strict=True))
    best = int(np.argmax(scores))
    score, ratio = float(scores[best]), float(ratios[best])
    return Trial(kernel, ratio, score, len(data), time.perf_counter() - began)


def _refined(
    ranked: list[Trial],
    versions: Mapping[str, Observations],
    space: SearchSpace,
    objective: Objective,
    jobs: int,
    *,
    new: int,
) -> list[Trial]:
    """Compare the best two again, with ``new`` neighbours and with less noise, on more inputs: more
    data bear sharper kernels.
    """
    seen: dict[Network, Trial] = {}

    def one(trial: Trial) -> Trial:
        """With its noise, and less of it as long as that helps."""
        began, data = time.perf_counter(), versions[trial.features]
        best = replace(trial, score=-math.inf)
        for factor in _LESS_NOISE if objective.noise_ratio is None else (1.0,):
            ratio = factor * trial.noise_ratio
            with collect_warnings():
                posterior = Posterior(trial.kernel, data.X, data.y, ratio / data.weight)
            value = objective.score(posterior.weights(), posterior.precision(), ratio, data)
            if not value > best.score:
                break
            best = replace(best, noise_ratio=ratio, score=value)
        return replace(best, n_rows=len(data), seconds=time.perf_counter() - began)

    def attempt(trials: Iterable[Trial]) -> None:
        results = threads.parallel_map(one, list(trials), jobs)
        seen.update((trial.kernel.network, trial) for trial in results)

    attempt(ranked[:2])
    best = max(seen.values(), key=lambda trial: trial.score)
    unseen = (
        Trial(kernel, best.noise_ratio, features=best.features)
        for kernel in space.sharper(best.kernel)
        if kernel.network not in seen
    )
    attempt(islice(unseen, new))
    others = [trial for trial in ranked if trial.kernel.network not in seen]
    return sorted(seen.values(), key=lambda trial: -trial.score) + others


# --- without a search, and after it ---------------------------------------------------------------


def determines_noise(data: Observations, objective: Objective) -> bool:
    """Whether there is something to choose the noise by: other inputs, or a spread at several."""
    return len(data) >= FEW or (len(data) > 1 and objective.density and bool(data.repeats.any()))


def untried(space: SearchSpace, data: Observations, objective: Objective) -> Trial:
    """The default kernel, with a noise.

    That of a single input is its spread, for a signal of the same size; or else a hundredth.
    """
    kernel = space.default()
    if objective.noise_ratio is not None:
        return Trial(kernel, objective.noise_ratio, features=space.features(kernel))
    network, points = kernel.network, kernel.prepared("X", kernel.checked("X", data.X))
    variance = float(np.mean(standard_deviations(network, points) ** 2))
    scale = contraction(network, points) * variance * data.mean_weight
    ratio = (1.0 if data.repeats.any() else 0.01) * scale
    return Trial(kernel, ratio, features=space.features(kernel))


def best_signal(trial: Trial, data: Observations, noise_var: float, seed: Any) -> float:
    """The signal variance with the largest evidence for a given noise variance."""
    rng = np.random.default_rng(seed)
    if _of_images(trial):
        data = data.sample(max(FEW, trial.n_rows), rng)
    few, points = _compared_on(data, trial.kernel, rng)
    spectrum = Spectrum.of(trial.kernel, points, few)
    signals = np.logspace(-8.0, 8.0, 129) * (float(np.mean(few.y**2)) or 1.0) * few.mean_weight
    evidence = [spectrum.log_evidence(signal, noise_var) for signal in signals]
    return float(signals[int(np.argmax(evidence))] / spectrum.unit)


def best_scales(trial: Trial, data: Observations, seed: Any, posterior: Posterior) -> Vector:
    """The scale of signal and noise of each target that leave-one-out asks for.

    ``posterior`` is that of all data, with the trial's noise: another kernel of images would take
    longer than to ask it.
    """
    few = data
    if not (_of_images(trial) and posterior.factored):
        most = max(FEW, trial.n_rows) if _of_images(trial) else _REFINED_ON
        few = data.sample(most, np.random.default_rng(seed))
        with collect_warnings():
            posterior = Posterior(trial.kernel, few.X, few.y, trial.noise_ratio / few.weight)
    alpha, precision = posterior.weights()[:, None], posterior.precision()[:, None]
    return np.asarray(scales(alpha, precision, np.array([trial.noise_ratio]), few)[0])


def _of_images(trial: Trial) -> bool:
    return bool(getattr(trial.kernel, "convolutional", False))


def share_of_time(n: int, budget: int) -> float:
    """Roughly how much of a fit's time is spent here, and not on the factorisation."""
    choosing, factorising = budget * 9.0 * min(n, LARGEST) ** 3, n**3 / 3.0
    return choosing / (choosing + factorising)
