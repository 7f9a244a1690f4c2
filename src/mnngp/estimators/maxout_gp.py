"""What the regressor and the classifier share: parameters, and a fit that chooses what is open."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from mnngp import _validation
from mnngp._system import threads
from mnngp._system.progress import Stages, bar
from mnngp._typing import Matrix, Vector
from mnngp.errors import InputError, warn_of_accuracy
from mnngp.estimators import model_file, relevance, summary, table_input
from mnngp.estimators.features import Whitened
from mnngp.estimators.parameters import check_pixels, image_rows, search_space, seed_of
from mnngp.estimators.process import IMPOSSIBLE, FittedProcess, Lazy
from mnngp.estimators.summary import ModelSummary
from mnngp.estimators.table_features import feature_versions
from mnngp.estimators.warp import Warp, warped
from mnngp.inference import choice
from mnngp.inference.costs import describe_here, duration
from mnngp.inference.image_choice import ImageChoice, ImageTrial, in_strata
from mnngp.inference.image_networks import REGULARIZATION, ImageSpace
from mnngp.inference.observations import Observations
from mnngp.inference.posterior import Posterior
from mnngp.inference.scoring import Objective
from mnngp.inference.search_space import SearchSpace
from mnngp.inference.solvers import by_name
from mnngp.kernels.sklearn import DeepKernel

_SMALLEST_UNIT, _LARGEST_UNIT = 1e-145, 1e153  # whose squares are numbers


def _all_at_once(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method that fits work on a copy, whose state the estimator takes over in one step."""

    @wraps(fit)
    def fitted(self: Any, *arguments: Any, **keywords: Any) -> Any:
        # not copy.copy, which leaves out what the class leaves out of its pickles
        working = object.__new__(type(self))
        working.__dict__ = vars(self).copy()
        fit(working, *arguments, **keywords)
        self.__dict__ = working.__dict__
        return self

    return fitted


class MaxoutGP(BaseEstimator, ABC):  # type: ignore[misc]
    """Parameters, fit and files of the two estimators."""

    _density: ClassVar[bool]  # whether kernels are compared by densities, or by squared errors
    _shared_scale: ClassVar[bool]  # whether all targets have one scale

    def _keep(self, arguments: dict[str, Any]) -> None:
        """Each argument of the constructor under its name, as it is: scikit-learn's way."""
        del arguments["self"]
        self.__dict__.update(arguments)

    # --- fitting ----------------------------------------------------------------------------------

    @_all_at_once
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to features (n, d) and targets: numbers (n,) or (n, targets), or labels (n,).

        Features are an array, or a frame of pandas, polars or Arrow: text, categories, dates,
        durations and gaps in a frame become numbers as ``mnngp.data.TableEncoder`` says. Labels may
        be of any type that can be sorted. A fit that fails or is interrupted leaves the estimator
        as it was.
        """
        space = search_space(self)
        X = table_input.learned(self, X)
        with table_input.hints(X):
            X, y, weight = self._training_data(X, table_input.targets(y), sample_weight)
        table_input.name_features(self)
        check_pixels(self.image_shape, X)
        targets = y.reshape(len(X), -1)
        space, scalings = feature_versions(self, space, X, weight)
        scaling = next(iter(scalings.values()))
        data = Observations.of(scaling(X), targets, weight)
        seed = seed_of(self.random_state)
        warps = self._warps(data, space, seed)
        if warps:
            data = Observations.of(scaling(X), warped(warps, targets), weight)
        if self._density and self.noise_var == 0.0 and data.conflict:
            raise InputError(IMPOSSIBLE.format(*data.conflict))
        given = space.complete and self.noise_var is not None
        signal_var = 1.0 if given and self._density and self.signal_var is None else self.signal_var
        offset, unit = np.zeros(targets.shape[1]), np.ones(targets.shape[1])
        if signal_var is None and not given:
            offset, unit = self._center_and_unit(data)
        data = data.standardized(offset, unit)
        noise_var = self._in_units(unit)
        objective = Objective(self._density, noise_var, signal_var)
        with (
            bar(type(self).__name__, show=self.progress) as stage,
            threads.one_blas_thread(float(len(data)) ** 3 / 3.0),
        ):
            trials: Sequence[choice.Trial]
            if isinstance(space, ImageSpace):
                trials, share, whitened = self._choose_network(data, space, objective, seed, stage)
                if whitened is not None:
                    scaling, data = whitened, replace(data, X=whitened.whiten(data.X))
            else:
                rows = X[data.first_rows]
                versions = {
                    name: data if one is scaling else replace(data, X=one(rows))
                    for name, one in scalings.items()
                }
                trials, share = self._choose(versions, space, objective, seed, stage)
                scaling, data = scalings[trials[0].features], versions[trials[0].features]
            best = trials[0]
            if noise_var is not None and signal_var is None:
                signal_var = choice.best_signal(best, data, noise_var, seed)
            self.kernel_ = space.fitted(best.kernel)
            signal = signal_var if signal_var is not None else 1.0
            noise = noise_var if noise_var is not None else best.noise_ratio * signal
            posterior = self._conditioned(data, best, noise, signal, stage, 1.0 - share)
            if noise_var is None and signal_var is None:
                scale = self._rescaling(choice.best_scales(best, data, seed, posterior), unit)
                posterior.divide_targets(scale)
                unit, data = unit * scale, data.standardized(np.zeros(len(scale)), scale)
        # The posterior has the points in its own form: the features are not kept a second time.
        data, rows = replace(data, X=data.X[:0]), len(X)
        process = FittedProcess(
            scaling, offset, unit, data, posterior, noise, rows, y.ndim == 1, seed, warps
        )
        self.restore(self.kernel_, process, [trial.as_dict() for trial in trials])
        return self

    def _warps(self, data: Observations, space: SearchSpace, seed: Any) -> tuple[Warp, ...]:
        """What each target is warped by, before anything else is done to it; none by default."""
        return ()

    @abstractmethod
    def _training_data(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Matrix, Matrix, Vector | None]:
        """Features, targets (n,) or (n, k) to regress on, and weights, checked."""

    def _choose(
        self,
        versions: Mapping[str, Observations],
        space: SearchSpace,
        objective: Objective,
        seed: Any,
        stage: Stages,
    ) -> tuple[list[choice.Trial], float]:
        """The kernels that were tried, the best first, and the share of the time that it took."""
        data = next(iter(versions.values()))
        share, given = 0.0, space.complete and self.noise_var is not None
        if given or not choice.determines_noise(data, objective):
            trials = [choice.untried(space, data, objective)]
        else:
            share = choice.share_of_time(len(data), self.max_trials)
            trials = choice.choose(
                versions,
                space,
                objective,
                seed=seed,
                budget=self.max_trials,
                jobs=self._jobs(),
                done=stage("choosing", share),
            )
        self._warn_of_few(data, space)
        return trials, share

    def _choose_network(
        self, data: Observations, space: ImageSpace, objective: Objective, seed: Any, stage: Stages
    ) -> tuple[list[ImageTrial], float, Whitened | None]:
        """As ``_choose``, among networks and features; with it what whitens, if the best wants it
        to.
        """
        began, share = time.perf_counter(), 0.5
        self._warn_of_few(data, space)
        if not choice.determines_noise(data, objective):
            only = choice.untried(space, data, objective)
            return [ImageTrial(**vars(only))], 0.0, None
        labels = np.zeros(len(data), np.int64) if self._density else data.y.argmax(axis=1)
        whitened = Whitened.learned(data.X, space.image_shape, REGULARIZATION, data.weight)
        versions = {"standardised": data.X, "whitened": whitened.whiten(data.X)}
        order = in_strata(labels, np.random.default_rng(seed))
        budget = self.max_trials if len(data) >= choice.FEW else 1
        compared = ImageChoice(data, versions, objective, order, self._jobs())
        half = 0.5 * self.fit_seconds
        spent = time.perf_counter() - began
        trials = compared.among(
            space, (half - spent, half), budget, stage.say, stage("choosing", share)
        )
        return trials, share, whitened if trials[0].features == "whitened" else None

    def _jobs(self) -> int:
        """Kernels to try at a time."""
        return threads.count() if self.n_jobs is None else int(effective_n_jobs(self.n_jobs))

    def _warn_of_few(self, data: Observations, space: SearchSpace) -> None:
        if len(data) < choice.FEW and not space.complete:
            warn_of_accuracy(
                f"X has only {len(data)} distinct row{'s' * (len(data) > 1)}, from which no kernel "
                f"can be chosen: {space.fitted(space.default())!r} is a guess, and so is every "
                "prediction for other rows"
            )

    def _center_and_unit(self, data: Observations) -> tuple[Vector, Vector]:
        """The mean of each target, and its standard deviation over all rows."""
        constant = np.ptp(data.row_y, axis=0) == 0.0
        offset = np.where(constant, data.row_y[0], np.average(data.y, axis=0, weights=data.weight))
        size = np.abs(data.row_y - offset).max(axis=0)  # no square overflows or vanishes
        relative = (data.row_y - offset) / np.where(size > 0.0, size, 1.0)
        deviation = size * np.sqrt(np.average(relative**2, axis=0, weights=data.row_weight))
        if self.noise_var is not None or self._shared_scale:  # one noise for all targets
            deviation = np.full(len(deviation), math.sqrt(float(np.mean(deviation**2))))
        if constant.any() and not self._shared_scale:
            which = "" if constant.all() else f" (of y[:, {int(np.argmax(constant))}])"
            warn_of_accuracy(
                f"all targets are the same{which}, so their scale is not known, and "
                "standard deviations mean nothing"
            )
        if np.any(~constant & (deviation < _SMALLEST_UNIT)):
            raise InputError(
                f"y must vary by more than {_SMALLEST_UNIT:.0e}, for its square to be a number, "
                f"got {deviation[~constant].min():.1e}"
            )
        return offset, np.where(deviation > 0.0, deviation, 1.0)

    def _in_units(self, unit: Vector) -> float | None:
        """The given noise variance, for standardised targets."""
        if self.noise_var is None:
            return None
        variance, largest = float(unit[0]) ** 2, _validation.LARGEST_VARIANCE
        if not self.noise_var <= largest * min(variance, 1.0):
            raise InputError(
                f"noise_var must be at most {largest:.0e} times the variance of the targets "
                f"({variance:.1e}), got {self.noise_var!r}"
            )
        return float(self.noise_var) / variance

    def _rescaling(self, scale: Vector, unit: Vector) -> Vector:
        """What the targets are divided by, for signal and noise to have another scale."""
        if self._shared_scale:
            scale = np.full(len(scale), np.mean(scale))
        root = np.sqrt(np.where(scale > 0.0, scale, 1.0))
        if np.max(root) * np.max(unit) > _LARGEST_UNIT:
            raise InputError(
                f"y is of the size {np.max(unit):.0e} and the kernel of "
                f"{np.max(root) ** -2.0:.0e}: the signal variance overflows; scale y down"
            )
        return np.asarray(root)

    def _conditioned(
        self,
        data: Observations,
        trial: choice.Trial,
        noise: float,
        signal: float,
        stage: Stages,
        share: float,
    ) -> Posterior:
        """The posterior, by the solver; the progress shows what it will take and what it did."""
        (n, d), dtype = data.X.shape, np.dtype(self.kernel_.dtype)
        name, depth = by_name.name_of(self.solver, n, dtype), self.kernel_.network.depth
        if isinstance(trial, ImageTrial):
            stage.say(f"n = {n:,}; {name}: {duration(trial.expected(n, dtype))}")
        else:
            stage.say(describe_here(name, n, d, depth, data.y.shape[1], dtype))
        solver = by_name.solver_of(self.solver, n, dtype)
        posterior = Posterior(
            self.kernel_,
            data.X,
            data.y,
            noise / data.weight,
            signal,
            solver=solver,
            progress=stage("conditioning", share),
        )
        if solver is not None:
            stage.say(str(posterior.report))
        return posterior

    # --- what was fitted --------------------------------------------------------------------------

    def restore(
        self, kernel: DeepKernel, process: FittedProcess, trials: list[dict[str, Any]]
    ) -> None:
        """Set the fitted attributes; for ``fit``, and for models that are read from files."""
        self.kernel_, self.process_, self.trials_ = kernel, process, trials
        self._relevance: Lazy[Vector] = Lazy()
        unit = float(process.unit[0]) if np.ptp(process.unit) == 0.0 else process.unit
        self.noise_var_ = process.noise_var * unit**2
        self.signal_var_ = process.posterior.signal_var * unit**2
        report = process.posterior.report
        self.report_ = replace(report, added=report.added * float(np.max(unit)) ** 2)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def log_marginal_likelihood_(self) -> float:
        """The log evidence of the training data, summed over the targets."""
        check_is_fitted(self, "process_")
        return self.process_.log_marginal_likelihood()

    @property
    def feature_relevance_(self) -> Vector:
        """How much the prediction depends on each column; they add up to one.

        The mean squared gradient of the posterior mean in the column as the kernel has it
        (standardised, or as ranks), over the training rows (2,000 random ones at most) and summed
        over the classes or targets; of a category, by how much its levels differ. In closed form,
        computed when it is first asked for; in the order of ``feature_names_in_``, and zero for a
        column that was left out. It tells what the model uses: of columns that say the same, each
        has a part.
        """
        check_is_fitted(self, "process_")
        kept: Lazy[Vector] = self.__dict__.setdefault("_relevance", Lazy())  # of older pickles
        return kept.get(partial(relevance.feature_relevance, self))

    def summary(self) -> ModelSummary:
        """The model's account of itself: what it was fitted to, what was chosen and why, how good
        it is by leave-one-out, and which columns matter.

        Print it, or let a notebook show it.
        """
        check_is_fitted(self, "process_")
        return summary.summary_of(self)

    def check_features(self, X: Any) -> Matrix:
        """New rows, checked: the features that they become."""
        check_is_fitted(self, "process_")
        features = table_input.encoded(self, X)
        if features is not None:
            return features
        X = image_rows(self.image_shape, table_input.matrix_or_frame(X))
        with table_input.hints(X):
            return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))

    def save(self, path: Any) -> None:
        """Write the fitted model to a file, to be read by ``mnngp.load``.

        It is a zip archive of NumPy arrays and JSON, without any pickle. The file appears when it
        is complete; one that was there before stays until then.
        """
        check_is_fitted(self, "process_")
        if type(self).__module__.rpartition(".")[0] != __package__:  # whose state we do not know
            raise InputError(
                "only a MaxoutGPClassifier or a MaxoutGPRegressor itself can be saved, "
                f"got {type(self).__name__}"
            )
        model_file.save(self, path)
