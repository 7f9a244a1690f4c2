"""Gaussian processes of infinitely wide maxout networks, as scikit-learn estimators that choose for
themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mnngp import _validation
from mnngp._typing import Matrix, Vector
from mnngp.errors import InputError, UnavailableError, warn_of_accuracy
from mnngp.estimators import scaling
from mnngp.estimators.calibration import Calibration, Late
from mnngp.estimators.scaling import Scaling
from mnngp.inference.observations import Observations

if TYPE_CHECKING:
    from mnngp._system.progress import Stages
    from mnngp.inference.posterior import Posterior

_KERNEL_PARAMETERS = ("depth", "rank", "weight_var", "bias_var", "kind")
_LARGEST_TARGET = 1e150
_SMALLEST_UNIT, _LARGEST_UNIT = 1e-145, 1e153  # whose squares are numbers
_WEIGHTS = 1e-100, 1e100  # sample weights that are not zero
_IMPOSSIBLE = (
    "noise_var is 0, but rows {} and {} of X are equal and their targets differ: no function "
    "without noise does that; give a "
    "noise_var above 0, or None"
)
_CALIBRATED_ON = 2000  # training points at most
_CALIBRATED_ON_FEW = 256  # where each of them is a system to solve


class _LeaveOneOut:
    """Results that are computed when one of them is first asked for, so that asking whether there
    are any costs nothing.
    """

    def __init__(self, compute: Callable[[], dict[str, Any]]) -> None:
        self._compute = compute

    def __getattr__(self, name: str) -> Any:
        if name not in type(self).__annotations__ or "_compute" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        vars(self).update(self._compute())
        return vars(self)[name]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).__annotations__}

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).__annotations__]

    def __repr__(self) -> str:
        numbers = {name: getattr(self, name) for name in type(self).__annotations__}
        shown = ", ".join(
            f"{name}={value:.4g}" for name, value in numbers.items() if isinstance(value, float)
        )
        return f"{type(self).__name__}({shown})"


class RegressionLeaveOneOut(_LeaveOneOut):
    """Each training target, predicted from all other rows; NaN for rows of weight zero.

    Attributes
    ----------
    mean, std : arrays, of the shape of y
        The prediction, with the noise in its standard deviation.
    log_density : array
        Of the target under its prediction.
    rmse, r2 : float
        Over all rows and targets.
    """

    mean: Matrix
    std: Matrix
    log_density: Matrix
    rmse: float
    r2: float


class ClassificationLeaveOneOut(_LeaveOneOut):
    """Each training label, predicted from all other rows; NaN for rows of weight zero.

    Attributes
    ----------
    decision : array (n, classes)
        Posterior means.
    prediction : array (n,)
        The class with the largest.
    probability : array (n, classes)
        Calibrated on these very predictions: three numbers for all rows.
    accuracy, log_loss : float
        Weighted means.
    """

    decision: Matrix
    prediction: Matrix
    probability: Matrix
    accuracy: float
    log_loss: float


def _twin(estimator: Any, state: dict[str, Any]) -> Any:
    """An estimator of the same class with a state of its own, whatever the class leaves out of its
    pickles.
    """
    twin = object.__new__(type(estimator))
    twin.__dict__ = state
    return twin


def _in_one_step(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method that fits work on a copy, whose state the estimator takes over at the end, all
    at once.
    """

    @wraps(fit)
    def fitted(self: Any, *arguments: Any, **keywords: Any) -> Any:
        working = _twin(self, vars(self).copy())
        fit(working, *arguments, **keywords)
        self.__dict__ = working.__dict__
        return self

    return fitted


class _MaxoutGP(BaseEstimator):  # type: ignore[misc]
    """What the regressor and the classifier share."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Name the constructor after the class, so that Python's errors about its arguments do."""
        super().__init_subclass__(**keywords)
        shared = _MaxoutGP.__init__
        if getattr(cls.__init__, "__code__", None) is shared.__code__:
            own = FunctionType(
                shared.__code__,
                shared.__globals__,
                shared.__name__,
                shared.__defaults__,
                shared.__closure__,
            )
            own.__qualname__, own.__kwdefaults__ = (
                f"{cls.__qualname__}.__init__",
                shared.__kwdefaults__,
            )
            own.__annotations__ = shared.__annotations__
            cls.__init__ = own  # type: ignore[method-assign]

    def __init__(
        self,
        depth: int | None = None,
        rank: int | None = None,
        weight_var: float | Sequence[float] | None = None,
        bias_var: float | Sequence[float] | None = None,
        kind: str | None = None,
        noise_var: float | None = None,
        signal_var: float | None = None,
        *,
        normalize: str | None = "standard",
        dtype: Any = "float64",
        max_trials: int = 24,
        random_state: Any = None,
        progress: bool | None = None,
        solver: Any = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.depth = depth
        self.rank = rank
        self.weight_var = weight_var
        self.bias_var = bias_var
        self.kind = kind
        self.noise_var = noise_var
        self.signal_var = signal_var
        self.normalize = normalize
        self.dtype = dtype
        self.max_trials = max_trials
        self.random_state = random_state
        self.progress = progress
        self.solver = solver
        self.n_jobs = n_jobs

    # --- parameters -------------------------------------------------------------------------------

    def _fixed(self) -> dict[str, Any]:
        """The kernel's hyperparameters that are given, checked, before any work."""
        given = {
            name: getattr(self, name)
            for name in _KERNEL_PARAMETERS
            if getattr(self, name) is not None
        }
        for name in ("weight_var", "bias_var"):
            if np.ndim(given.get(name, 0.0)):
                if self.depth is None:
                    raise InputError(
                        f"{name} has a value for each layer, so depth must be given, too"
                    )
                given[name] = tuple(given[name])
        from mnngp.inference import choice
        from mnngp.inference.solvers import by_name

        choice.plain(given).kernel(self.dtype)  # raises where a value is not allowed
        if self.noise_var is not None:
            _validation.real(
                "noise_var", self.noise_var, low=0.0, high=_validation.LARGEST_VARIANCE
            )
        if self.signal_var is not None:
            _validation.real(
                "signal_var",
                self.signal_var,
                low=0.0,
                high=_validation.LARGEST_VARIANCE,
                strict=True,
            )
        _validation.positive_int("max_trials", self.max_trials)
        if self.n_jobs is not None and (
            self.n_jobs == 0 or not isinstance(self.n_jobs, int | np.integer)
        ):
            raise InputError(
                "n_jobs must be None, a number of threads, or -1 for all cores, got "
                f"{self.n_jobs!r}"
            )
        if not isinstance(self.random_state, np.random.RandomState):
            _seed(self.random_state)
        if self.progress not in (None, True, False):
            raise InputError(f"progress must be True, False or None, got {self.progress!r}")
        by_name.check(self.solver)
        if self.normalize not in scaling.WAYS:
            raise InputError(
                "normalize must be 'standard' (columns), 'sphere' (rows) or None, "
                f"got {self.normalize!r}"
            )
        return given

    # --- fitting ----------------------------------------------------------------------------------

    def _fit(
        self,
        X: Matrix,
        y: Matrix,
        weight: Vector | None,
        *,
        signal_var: float | None,
        density: bool,
    ) -> None:
        """Choose what is not given, and condition on the targets (n, k).

        They are taken as they are if ``signal_var`` is given or is all that has to be chosen; or
        else centred and scaled.
        """
        from mnngp._system import threads
        from mnngp._system.progress import bar
        from mnngp.inference import choice
        from mnngp.inference.solvers import by_name

        fixed = self._fixed()
        self._scaling = Scaling.of(self.normalize, X, weight)
        data = Observations.of(self._scaling(X), y, weight)
        if density and self.noise_var == 0.0 and data.conflict:
            raise InputError(_IMPOSSIBLE.format(*data.conflict))
        complete = len(fixed) == len(_KERNEL_PARAMETERS) and self.noise_var is not None
        free_scale = signal_var is None and not complete
        self._offset, self._unit = (
            self._center_and_unit(data)
            if free_scale
            else (np.zeros(y.shape[1]), np.ones(y.shape[1]))
        )
        data = data.standardized(self._offset, self._unit)
        noise_var = None if self.noise_var is None else self._in_units(self.noise_var)
        seed = self._seed = _seed(self.random_state)
        solver = by_name.solver_of(self.solver, len(data), self.dtype)
        with (
            bar(type(self).__name__, show=self.progress) as stage,
            threads.one_blas_thread(float(len(data)) ** 3 / 3.0),
        ):
            objective = choice.Objective(density, noise_var, signal_var)
            share = 0.0
            searching = not complete and choice.tells_noise(data, objective)
            if searching:
                jobs = threads.count() if self.n_jobs is None else effective_n_jobs(self.n_jobs)
                share = choice.share_of_time(len(data), self.max_trials)
                done = stage("choosing", share)
                trials = choice.choose(
                    data, fixed, objective, seed=seed, budget=self.max_trials, jobs=jobs, done=done
                )
            else:
                trials = [choice.default(fixed, data, objective)]
            if len(data) < choice.FEW and len(fixed) < len(_KERNEL_PARAMETERS):
                warn_of_accuracy(
                    f"X has only {len(data)} distinct row{'s' * (len(data) > 1)}, from which no "
                    "kernel can be chosen: "
                    f"{trials[0].kernel(self.dtype)!r} is a guess, and so is every prediction for "
                    "other rows"
                )
            best = trials[0]
            if noise_var is not None and signal_var is None:
                signal_var = choice.best_signal(best, data, noise_var, seed)
            self.kernel_ = best.kernel(self.dtype)
            signal = signal_var if signal_var is not None else 1.0
            noise = noise_var if noise_var is not None else best.noise_ratio * signal
            self._posterior = self._conditioned(data, noise, signal, solver, stage, 1.0 - share)
            if noise_var is None and signal_var is None:
                data = self._rescaled(data, choice.best_scales(best, data, seed))
        # The posterior has the points in its own form: the features are not kept a second time.
        self._data, self._noise, self._n_rows = replace(data, X=data.X[:0]), noise, len(X)
        self._describe([trial.as_dict() for trial in trials])

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
            least = f"y must vary by more than {_SMALLEST_UNIT:.0e}, for its square to be a number"
            raise InputError(f"{least}, got {deviation[~constant].min():.1e}")
        return offset, np.where(deviation > 0.0, deviation, 1.0)

    def _in_units(self, noise_var: float) -> float:
        """A given noise variance in the units of the standardised targets."""
        unit = float(self._unit[0]) ** 2
        if not noise_var <= _validation.LARGEST_VARIANCE * min(unit, 1.0):
            raise InputError(
                f"noise_var must be at most {_validation.LARGEST_VARIANCE:.0e} times the variance of "
                f"the targets ({unit:.1e}), "
                f"got {noise_var!r}"
            )
        return noise_var / unit

    def _rescaled(self, data: Observations, scale: Vector) -> Observations:
        """Give signal and noise together another scale, of each target or one for all of them."""
        if self._shared_scale:
            scale = np.full(len(scale), np.mean(scale))
        root = np.sqrt(np.where(scale > 0.0, scale, 1.0))
        if np.max(root) * np.max(self._unit) > _LARGEST_UNIT:
            raise InputError(
                f"y is of the size {np.max(self._unit):.0e} and the kernel of "
                f"{np.max(root) ** -2.0:.0e}: the signal variance "
                "overflows; scale y down"
            )
        self._posterior.divide_targets(root)
        self._unit = self._unit * root
        return data.standardized(np.zeros(len(root)), root)

    def _conditioned(
        self,
        data: Observations,
        noise: float,
        signal: float,
        solver: Any,
        stage: Stages,
        share: float,
    ) -> Posterior:
        """The posterior, by the solver; what it will take and what it did are shown with the
        progress.
        """
        from mnngp.inference.costs import describe_here
        from mnngp.inference.posterior import Posterior
        from mnngp.inference.solvers import by_name

        n, d = data.X.shape
        name, dtype = by_name.name_of(self.solver, n, self.dtype), np.dtype(self.dtype)
        stage.say(describe_here(name, n, d, self.kernel_.depth, data.y.shape[1], dtype))
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

    def _describe(self, trials: list[dict[str, Any]]) -> None:
        """Set the fitted attributes that others look at."""
        self.trials_ = trials
        unit = float(self._unit[0]) if np.ptp(self._unit) == 0.0 else self._unit
        self.noise_var_, self.signal_var_ = (
            self._noise * unit**2,
            self._posterior.signal_var * unit**2,
        )
        report = self._posterior.report
        self.report_ = replace(report, added=report.added * float(np.max(unit)) ** 2)

    _shared_scale = False

    # --- what was fitted --------------------------------------------------------------------------

    @property
    def log_marginal_likelihood_(self) -> float:
        """The log evidence of the training data, summed over the targets."""
        check_is_fitted(self, "kernel_")
        data = self._data
        if self._noise == 0.0 and data.conflict:
            raise UnavailableError(_IMPOSSIBLE.format(*data.conflict))
        within = data.log_density_within(self._noise)
        return (
            self._posterior.log_marginal_likelihood()
            + within
            - len(data.row) * float(np.log(self._unit).sum())
        )

    def _check_leave_one_out(self) -> None:
        """Raise if leave-one-out is not to be had, before any work."""
        check_is_fitted(self, "kernel_")
        if not self._posterior.factored and len(self._data) > _CALIBRATED_ON_FEW:
            self._posterior.precision()  # says why not

    def _left_out(self, rows: NDArray[np.int64], amount: Vector) -> tuple[Matrix, Vector, Vector]:
        """For some rows of the data: the mean and the variance of the function there, without an
        amount of the row's weight.

        The third is the noise of what was left out.
        """
        from mnngp.inference.leave_one_out import leave_out

        places, where = np.unique(self._data.place[rows], return_inverse=True)
        every = len(places) == len(self._data) and (
            self._posterior.factored or len(places) > _CALIBRATED_ON_FEW
        )
        precision = self._posterior.precision(None if every else places)[where]
        place = self._data.place[rows]
        noise, share = self._posterior.noise_var[place], amount / self._data.weight[place]
        own, others, variance = leave_out(precision, noise, share)
        y = self._data.row_y[rows]
        error = (
            own[:, None] * (y - self._data.y[place])
            + others[:, None] * self._posterior.weights()[place]
        )
        return y - error, variance, noise / share

    # --- prediction -------------------------------------------------------------------------------

    def _in_rows(self, values: Matrix) -> Matrix:
        """Values of the rows that have a weight, in the order of the data; NaN for the others."""
        result = np.full((self._n_rows, *values.shape[1:]), np.nan)
        result[self._data.row] = values
        return result

    def _inputs(self, X: Any) -> Matrix:
        check_is_fitted(self, "kernel_")
        return self._scaling(validate_data(self, X, reset=False, dtype=np.float64))

    def save(self, path: Any) -> None:
        """Write the fitted model to a file, to be read by ``mnngp.load``: NumPy arrays and JSON in
        a zip archive, no pickle.

        The file appears when it is complete; one that was there before stays until then.
        """
        from mnngp.estimators.model_file import save

        check_is_fitted(self, "kernel_")
        if type(self) not in (MaxoutGPClassifier, MaxoutGPRegressor):
            raise InputError(
                "only a MaxoutGPClassifier or a MaxoutGPRegressor itself can be "
                f"saved, got {type(self).__name__}"
            )
        save(self, path)


class MaxoutGPRegressor(RegressorMixin, _MaxoutGP):  # type: ignore[misc]
    """Regression with the Gaussian process of an infinitely wide maxout network.

    Everything that is None is chosen from the data by leave-one-out; what is given stays as it is.

    Parameters
    ----------
    depth : int, optional
        Number of hidden layers of the ``MaxoutKernel``.
    rank : int, optional
        Number of linear maps its units take the maximum of.
    weight_var : float, or sequence of depth + 1 floats, optional
        Variance of its weights, times the fan-in.
    bias_var : float, or sequence of depth + 1 floats, optional
        Variance of its biases.
    kind : "nngp" or "ntk", optional
        The covariance of the network at its random initialisation, or its tangent kernel.
    noise_var : float, optional
        Variance of the noise in the targets; of one with the sample weight w it is ``noise_var /
        w``.
    signal_var : float, optional
        What the kernel is multiplied by. If None it is found from the data, and the targets are
        centred, unless all other hyperparameters are given: then it is one, and the targets are
        taken as they are (centre them yourself): the process is fully specified, and is that of
        scikit-learn's ``GaussianProcessRegressor``. They are also taken as they are if it is given.
    normalize : "standard" or "sphere" or None
        What is done to the features: each column standardised, each row standardised (as in the
        paper), or nothing.
    dtype : "float64" or "float32"
        Of the kernel matrix and its factor.
    max_trials : int
        Kernels to try at most.
    random_state : int or RandomState or None
        For the subset that kernels are compared on, where there are many points.
    progress : bool, optional
        Whether to show a progress bar; by default when three seconds have passed, on a terminal or
        in a notebook.
    solver : "auto", "cholesky", "cg", "dask", "dask-cholesky", or a solver of ``mnngp.inference``
        A Cholesky factorisation, or conjugate gradients, on this machine or on a Dask cluster (the
        client that is active). "auto" factors up to 60,000 points if half of the free memory is
        enough, and iterates beyond. An iteration gives predictions and variances, but neither
        ``loo_`` nor ``log_marginal_likelihood_``. A ``ConjugateGradients(...)`` or
        ``ClusterConjugateGradients(scheduler=...)`` has more settings.
    n_jobs : int, optional
        Kernels to try at a time, each in a thread with one core; -1 for as many as there are cores.
        By default as many as BLAS may use threads. What is chosen does not depend on it.

    Attributes
    ----------
    kernel_ : MaxoutKernel
    noise_var_, signal_var_ : float, or array (targets,)
    trials_ : list of dict
        What was tried, the best first: hyperparameters, seconds, and the score, which is the
        leave-one-out log density up to a constant. Those that were compared again on more places
        come before the others.
    loo_ : RegressionLeaveOneOut
        Of each row by all others, so that copies of a row vouch for each other (they do not when
        kernels are chosen).
    log_marginal_likelihood_ : float
    report_ : mnngp.inference.Report
        What the factorisation did; ``mnngp.inference.IterationReport`` of conjugate gradients.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MaxoutGPRegressor(random_state=0).fit(X[:300], y[:300])
    >>> round(model.score(X[300:], y[300:]), 2)
    0.52
    >>> mean, std = model.predict(X[300:302], return_std=True)
    """

    @_in_one_step
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to features (n, d) and targets (n,) or (n, targets).

        A fit that fails or is interrupted leaves the estimator as it was.
        """
        self._fixed()
        _check_numbers(y)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        self._flat = y.ndim == 1
        largest = float(np.abs(y).max())
        if largest > _LARGEST_TARGET:
            raise InputError(
                f"y must be below {_LARGEST_TARGET:.0e}, for its square to be a "
                f"number, got {largest:.1e}"
            )
        complete = all(
            getattr(self, name) is not None for name in (*_KERNEL_PARAMETERS, "noise_var")
        )
        signal_var = 1.0 if complete and self.signal_var is None else self.signal_var
        self._fit(
            X,
            np.asarray(y, dtype=np.float64).reshape(len(X), -1),
            _weight(sample_weight, X),
            signal_var=signal_var,
            density=True,
        )
        return self

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = False,
    ) -> Any:
        """The posterior mean; on request with the standard deviation, or the covariance, of the
        function.

        Parameters
        ----------
        X : array (m, d)
            New points.
        return_std, return_cov : bool
            At most one of them. For several targets the last axis is theirs.
        include_noise : bool
            Whether the deviation is that of a new observation, with its noise, and not of the
            function.
        """
        if return_std and return_cov:
            raise InputError("at most one of return_std and return_cov can be true")
        x = self._inputs(X)
        if not (return_std or return_cov):
            return self._targets(self._posterior.mean(x))
        noise = self._noise if include_noise else 0.0
        if return_cov:
            mean, covariance = self._posterior.mean_and_covariance(x)
            covariance[np.diag_indices_from(covariance)] += noise
            return self._targets(mean), self._spread(covariance, 2)
        mean, variance = self._posterior.mean_and_variance(x)
        return self._targets(mean), self._spread(np.sqrt(variance + noise), 1)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Matrix:
        """Functions drawn from the posterior: (m, n_samples) or (m, targets, n_samples)."""
        x = self._inputs(X)
        drawn = self._posterior.sample(x, n_samples, _seed(random_state))
        moved = drawn * self._unit[:, None] + self._offset[:, None]
        return np.asarray(moved[:, 0] if self._flat else moved)

    @property
    def loo_(self) -> RegressionLeaveOneOut:
        """Leave-one-out predictions of the training rows, in closed form; computed when one of them
        is asked for.
        """
        self._check_leave_one_out()
        # of this fit, whatever comes after it
        return RegressionLeaveOneOut(_twin(self, self.__dict__)._leave_one_out)

    def _leave_one_out(self) -> dict[str, Any]:
        data = self._data
        mean, variance, noise = self._left_out(np.arange(len(data.row)), data.row_weight)
        std = np.sqrt(variance + noise)[:, None]
        density = -0.5 * ((data.row_y - mean) / std) ** 2 - np.log(std * math.sqrt(2.0 * math.pi))
        error = (data.row_y - mean) * self._unit
        average = np.average(data.row_y, axis=0, weights=data.row_weight)
        around = np.average(
            ((data.row_y - average) * self._unit) ** 2, axis=0, weights=data.row_weight
        )
        square = np.average(error**2, axis=0, weights=data.row_weight)
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = float(np.mean(1.0 - square / around))
        return {
            "mean": self._in_rows(self._targets(mean)),
            "std": self._in_rows(self._spread(std[:, 0], 1)),
            "log_density": self._in_rows(
                (density - np.log(self._unit))[:, 0] if self._flat else density - np.log(self._unit)
            ),
            "rmse": math.sqrt(float(np.mean(square))),
            "r2": r2,
        }

    def _targets(self, mean: Matrix) -> Matrix:
        moved = mean * self._unit + self._offset
        return moved[:, 0] if self._flat else moved

    def _spread(self, values: Matrix, power: int) -> Matrix:
        return (
            values * float(self._unit[0]) ** power
            if self._flat
            else values[..., None] * self._unit**power
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class MaxoutGPClassifier(ClassifierMixin, _MaxoutGP):  # type: ignore[misc]
    """Classification with the Gaussian process of an infinitely wide maxout network.

    As in the paper, class memberships (one-hot minus 0.1) are regressed on, and the largest mean
    wins. Everything that is None is chosen from the data by leave-one-out; what is given stays as
    it is.

    Parameters
    ----------
    depth : int, optional
        Number of hidden layers of the ``MaxoutKernel``.
    rank : int, optional
        Number of linear maps its units take the maximum of.
    weight_var : float, or sequence of depth + 1 floats, optional
        Variance of its weights, times the fan-in.
    bias_var : float, or sequence of depth + 1 floats, optional
        Variance of its biases.
    kind : "nngp" or "ntk", optional
        The covariance of the network at its random initialisation, or its tangent kernel.
    noise_var : float, optional
        Variance of the noise in the class memberships; of a row with the sample weight w it is
        ``noise_var / w``.
    signal_var : float, optional
        What the kernel is multiplied by. If None it is found from the data, even if all others are
        given: the scale of a class membership means nothing by itself.
    normalize : "standard" or "sphere" or None
        What is done to the features: each column standardised, each row standardised (as in the
        paper), or nothing.
    dtype : "float64" or "float32"
        Of the kernel matrix and its factor.
    max_trials : int
        Kernels to try at most.
    random_state : int or RandomState or None
        For the subset that kernels are compared on, where there are many points.
    progress : bool, optional
        Whether to show a progress bar; by default when three seconds have passed, on a terminal or
        in a notebook.
    solver : "auto", "cholesky", "cg", "dask", "dask-cholesky", or a solver of ``mnngp.inference``
        A Cholesky factorisation, or conjugate gradients, on this machine or on a Dask cluster (the
        client that is active). "auto" factors up to 60,000 points if half of the free memory is
        enough, and iterates beyond. An iteration gives predictions and variances, but neither
        ``loo_`` nor ``log_marginal_likelihood_``. A ``ConjugateGradients(...)`` or
        ``ClusterConjugateGradients(scheduler=...)`` has more settings.
    n_jobs : int, optional
        Kernels to try at a time, each in a thread with one core; -1 for as many as there are cores.
        By default as many as BLAS may use threads. What is chosen does not depend on it.

    Attributes
    ----------
    classes_ : array
    kernel_ : MaxoutKernel
    noise_var_, signal_var_ : float
    trials_ : list of dict
        What was tried, the best first: hyperparameters, seconds, and the score, which is minus the
        leave-one-out mean squared error in units of the targets' variance. Those that were compared
        again on more places come before the others.
    loo_ : ClassificationLeaveOneOut
        Of each row by all others, so that copies of a row vouch for each other (they do not when
        kernels are chosen).
    log_marginal_likelihood_ : float
        Of the regression, summed over the classes.
    report_ : mnngp.inference.Report
        What the factorisation did; ``mnngp.inference.IterationReport`` of conjugate gradients.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = MaxoutGPClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.95)
    True
    >>> model.predict_proba(X[1:2]).shape
    (1, 3)
    """

    _shared_scale = True

    @_in_one_step
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to features (n, d) and labels (n,), of any type that can be sorted.

        A fit that fails or is interrupted leaves the estimator as it was.
        """
        self._fixed()
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weight = _weight(sample_weight, X)
        self.classes_, label = np.unique(y, return_inverse=True)
        targets = np.full((len(X), len(self.classes_)), -0.1)
        targets[np.arange(len(X)), label] = 0.9
        self._fit(X, targets, weight, signal_var=self.signal_var, density=False)
        self._calibrated = Late()
        return self

    def decision_function(self, X: Any) -> Matrix:
        """Posterior means of the class memberships (m, classes).

        For two classes it is what scikit-learn asks for: a number (m,) that grows with the
        probability of the second class, the difference of the two means, moderated by the variance
        as the probabilities are.
        """
        x = self._inputs(X)
        if len(self.classes_) != 2:
            return self._means(self._posterior.mean(x))
        mean, variance = self._posterior.mean_and_variance(x)
        moderated = self._calibration().moderated(self._means(mean), variance)
        return np.asarray(moderated[:, 1] - moderated[:, 0])

    def latent_mean_and_variance(self, X: Any) -> tuple[Matrix, Vector]:
        """The posterior of the class memberships: means (m, classes), and the variance (m,) that
        all classes share.
        """
        mean, variance = self._posterior.mean_and_variance(self._inputs(X))
        return self._means(mean), variance * float(self._unit[0]) ** 2

    def predict(self, X: Any) -> Matrix:
        """The class with the largest posterior mean."""
        x = self._inputs(X)
        mean = self._means(self._posterior.mean(x))
        return np.asarray(self.classes_[mean.argmax(axis=1)])

    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities (m, classes), from posterior mean and variance, calibrated by
        leave-one-out.
        """
        x = self._inputs(X)
        mean, variance = self._posterior.mean_and_variance(x)
        return np.asarray(self._calibration()(self._means(mean), variance))

    def predict_log_proba(self, X: Any) -> Matrix:
        """Their logarithms."""
        return np.asarray(np.log(self.predict_proba(X)))

    @property
    def loo_(self) -> ClassificationLeaveOneOut:
        """Leave-one-out predictions of the training rows, in closed form; computed when one of them
        is asked for.
        """
        self._check_leave_one_out()
        # of this fit, whatever comes after it
        return ClassificationLeaveOneOut(_twin(self, self.__dict__)._leave_one_out)

    def _leave_one_out(self) -> dict[str, Any]:
        data = self._data
        mean, variance, _ = self._left_out(np.arange(len(data.row)), data.row_weight)
        mean = self._means(mean)
        label = data.row_y.argmax(axis=1)
        probability = self._calibration()(mean, variance)
        right, given = (
            mean.argmax(axis=1) == label,
            np.log(probability[np.arange(len(label)), label]),
        )
        decision = self._in_rows(mean)
        return {
            "decision": decision,
            "prediction": np.asarray(self.classes_[np.nan_to_num(decision).argmax(axis=1)]),
            "probability": self._in_rows(probability),
            "accuracy": float(np.average(right, weights=data.row_weight)),
            "log_loss": -float(np.average(given, weights=data.row_weight)),
        }

    def _means(self, mean: Matrix) -> Matrix:
        return mean * self._unit + self._offset

    def _calibration(self) -> Calibration:
        return self._calibrated(self._calibrate)  # type: ignore[no-any-return]

    def _calibrate(self) -> Calibration:
        """From leave-one-out predictions of some rows; what is left out with each is what it is
        when a kernel is chosen.
        """
        data, k = self._data, len(self.classes_)
        rows, most = (
            np.arange(len(data.row)),
            _CALIBRATED_ON if self._posterior.factored else _CALIBRATED_ON_FEW,
        )
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(self._seed).choice(rows, most, replace=False))
        mean, variance, _ = self._left_out(rows, data.part[data.place[rows]])
        # its size must not matter beside the priors
        weight = data.row_weight[rows] / data.mean_weight
        return Calibration.fit(
            self._means(mean), variance, data.row_y[rows].argmax(axis=1), weight, k
        )


def load(path: Any) -> Any:
    """Read a fitted model that its ``save`` wrote.

    Raises ``ModelFileError`` if the file is not such a model, damaged, or written by a newer
    version of the format.

    Examples
    --------
    >>> import numpy as np, tempfile, mnngp
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> model = mnngp.MaxoutGPRegressor(depth=2).fit(X, X[:, 0] ** 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.mnngp")
    ...     again = mnngp.load(f"{folder}/model.mnngp")
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    from mnngp.estimators.model_file import restore

    return restore(
        path, {known.__name__: known for known in (MaxoutGPClassifier, MaxoutGPRegressor)}
    )


def _weight(sample_weight: Any, X: Matrix) -> Vector | None:
    if sample_weight is None:
        return None
    weight = np.asarray(
        _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    )
    odd = (weight != 0.0) & ((weight < _WEIGHTS[0]) | (weight > _WEIGHTS[1]))
    if odd.any():
        raise InputError(
            f"sample_weight must be 0, or from {_WEIGHTS[0]:g} to {_WEIGHTS[1]:g}, "
            f"got {weight[odd][0]:g}"
        )
    if not weight.any():
        raise InputError("sample_weight must be above 0 for one row at least, got zeros")
    return weight


def _check_numbers(y: Any) -> None:
    """Raise if targets are strings: NumPy would say what it could not convert, but not what to
    do.
    """
    values = np.asarray(y)
    if values.dtype.kind in "OSU":
        string = next(
            (value for value in values.ravel().tolist() if isinstance(value, str | bytes)), None
        )
        if string is not None:
            raise InputError(
                f"y must be numbers, got {string!r}; for labels of classes there is "
                "MaxoutGPClassifier"
            )


def _seed(random_state: Any) -> Any:
    """What NumPy's generators take, of what scikit-learn's ``random_state`` may be."""
    from sklearn.utils import check_random_state

    if random_state is None:
        return None
    try:
        generator = check_random_state(random_state)
    except ValueError as error:
        raise InputError(
            "random_state must be None, an integer from 0 to 2**32 - 1 or a RandomState, got "
            f"{random_state!r}"
        ) from error
    return (
        int(random_state)
        if isinstance(random_state, int | np.integer)
        else int(generator.randint(2**31 - 1))
    )
