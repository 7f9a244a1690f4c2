"""Regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mnngp._typing import Matrix, Vector
from mnngp.errors import InputError
from mnngp.estimators import warp, warp_choice
from mnngp.estimators.maxout_gp import MaxoutGP
from mnngp.estimators.parameters import check_numbers, image_rows, sample_weights, seed_of
from mnngp.estimators.predictive import Predictive, covariances
from mnngp.estimators.process import FittedProcess, LazyResults
from mnngp.estimators.warp import Identity, Warp
from mnngp.inference.image_networks import ImageSpace
from mnngp.inference.observations import Observations
from mnngp.inference.search_space import SearchSpace
from mnngp.kernels.sklearn import DeepKernel

_LARGEST_TARGET = 1e150


class RegressionLeaveOneOut(LazyResults):
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


class MaxoutGPRegressor(RegressorMixin, MaxoutGP):  # type: ignore[misc]
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
    kernel : MaxoutKernel or NetworkKernel, optional
        Instead of the first five: any kernel of this package. Its layers, kind and dtype stay, and
        a variance whose bounds are "fixed"; one that is free is chosen within its bounds (where
        variances differ by layer, a common factor).
    image_shape : (height, width) or (height, width, channels), optional
        For rows that are images, all pixels of each; ``fit`` and ``predict`` also take arrays (n,
        height, width, channels). A convolutional network is chosen, instead of the first five, from
        a short list (``mnngp.inference.image_networks``), with flips or without, and images that
        are standardised or whitened before.
    features : "auto", "linear" or "embedding"
        What the first layer sees. "linear": the columns, normalized. "embedding": each column by
        itself through infinitely many periodic units (``Embedding``), of its standardised values or
        of its ranks, whichever leave-one-out prefers, and with the lengthscale that it does; a
        column of two values is a category, and so are the texts and gaps of a frame. From 80
        distinct rows on, features are weighted by how much a first fit depends on them. "auto":
        both are tried, and leave-one-out decides; only the columns where the kernel is given
        completely, ``normalize`` is not "standard", or the embedding would have more than 3,000
        columns.
    normalize : "standard" or "sphere" or None
        What is done to the features of the linear kind: each column standardised, each row
        standardised (as in the paper), or nothing.
    dtype : "float64" or "float32"
        Of the kernel matrix and its factor.
    max_trials : int
        Kernels to try at most.
    fit_seconds : float
        With ``image_shape``: about how long a fit may take. One half is for comparing networks, on
        as many images as that allows; networks whose kernel of all images would take more than the
        other half are left out (but for the cheapest). ``dtype="float32"`` makes that half the
        time.
    random_state : int or RandomState or None
        For the subset that kernels are compared on, where there are many points.
    progress : bool, optional
        Whether to show a progress bar; by default when three seconds have passed, on a terminal or
        in a notebook.
    solver : "auto", "cholesky", "cg", "dask", or a solver of mnngp.inference
        A Cholesky factorisation, or conjugate gradients, on this machine or on a Dask cluster (the
        client that is active). "auto" factors up to 60,000 points if half of the free memory is
        enough, and iterates beyond. An iteration gives predictions and variances, but neither
        ``loo_`` nor ``log_marginal_likelihood_``. A ``ConjugateGradients(...)`` or
        ``ClusterConjugateGradients(scheduler=...)`` has more settings.
    n_jobs : int, optional
        Kernels to try at a time, each in a thread with one core; -1 for as many as there are cores.
        By default as many as BLAS may use threads. What is chosen does not depend on it.
    warp : "auto" or "log" or "arcsinh" or None
        What the targets become before a Gaussian process is fitted to them: ``log(y)``, for noise
        in proportion to positive targets (if there are zeros, half of the smallest positive target
        is added to all), or ``arcsinh((y - median) / scale)``, a logarithm on both sides, for
        targets of which some are far out. All that comes out is in the units of y: ``predict``
        gives the mean of y, which has the least squared error (the median is the 0.5 quantile), and
        needs the variance for it; where that mean is beyond all targets of training, the nearest of
        them, for an exponential that is extrapolated knows no bounds. The function, in
        ``return_std``, ``return_cov`` and ``sample_y``, is the mean of all observations at a point.
        ``noise_var`` and ``signal_var`` are those of the warped targets, also where they are given.
        "auto" warps a single target, of 50 distinct rows or more, without given ``noise_var`` or
        ``signal_var``, if it looks odd (skewed, or some of it far out) and its leave-one-out log
        density on up to 500 rows is then clearly better: by 0.02 a row, and by two standard errors
        (``mnngp.estimators.warp_choice``).

    Attributes
    ----------
    kernel_ : MaxoutKernel or NetworkKernel
        The one that was chosen or given, with its variances.
    noise_var_, signal_var_ : float, or array (targets,)
        The variances of the noise and of the signal, in squared units of the (warped) targets.
    warp_ : Identity, Log or Arcsinh of mnngp.estimators.warp, or a tuple of one for each target
        What was done to the targets, with its numbers, such as ``Log(shift=0.0)``.
    trials_ : list of dict
        What was tried, the chosen one first: hyperparameters, seconds, and the score, which is the
        leave-one-out log density up to a constant. Those behind features of its kind come before
        the others, and among them those that were compared again on more rows.
    loo_ : RegressionLeaveOneOut
        Of each row by all others, so that copies of a row vouch for each other (they do not when
        kernels are chosen).
    log_marginal_likelihood_ : float
        The log evidence of the targets, summed over them if there are several.
    feature_relevance_ : array (columns,)
        How much the prediction depends on each column, as shares of one; computed when it is first
        asked for. ``mnngp.plots.relevance`` draws it.
    report_ : mnngp.inference.Report
        What the factorisation did; ``mnngp.inference.IterationReport`` of conjugate gradients.
    process_ : mnngp.estimators.process.FittedProcess
        The posterior and what leads to it, for those who need more.
    encoder_ : mnngp.data.TableEncoder or None
        How the columns of a frame became features; None for an array, and for a frame of nothing
        but numbers.
    n_features_in_, feature_names_in_
        Number and names of the columns, as scikit-learn has them.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MaxoutGPRegressor(random_state=0).fit(X[:300], y[:300])
    >>> round(model.score(X[300:], y[300:]), 2)
    0.52
    >>> mean, std = model.predict(X[300:302], return_std=True)

    Frames may have columns of all kinds, and gaps:

    >>> import polars as pl
    >>> grown = pl.DataFrame({"sun": [8.0, None, 5.0] * 9, "soil": ["clay", "sand", "sand"] * 9})
    >>> height = pl.Series([3.1, 1.0, 2.2, 2.9, 1.1, 1.9, 3.0, 0.9, 2.1] * 3)
    >>> model = MaxoutGPRegressor(1, 2, 1.0, 0.1, "nngp").fit(grown, height)
    >>> model.predict(pl.DataFrame({"soil": ["clay", "peat"], "sun": [8.0, None]})).shape
    (2,)
    """

    _density = True
    _shared_scale = False

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
        kernel: DeepKernel | None = None,
        image_shape: tuple[int, ...] | None = None,
        features: str = "auto",
        normalize: str | None = "standard",
        dtype: Any = "float64",
        max_trials: int = 24,
        fit_seconds: float = 120.0,
        random_state: Any = None,
        progress: bool | None = None,
        solver: Any = "auto",
        n_jobs: int | None = None,
        warp: str | None = "auto",
    ) -> None:
        self._keep(locals())

    def _training_data(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Matrix, Matrix, Vector | None]:
        warp.check(self.warp)
        check_numbers(y)
        X = image_rows(self.image_shape, X)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        largest = float(np.abs(y).max())
        if largest > _LARGEST_TARGET:
            raise InputError(
                f"y must be below {_LARGEST_TARGET:.0e}, for its square to be a number, "
                f"got {largest:.1e}"
            )
        return X, np.asarray(y, dtype=np.float64), sample_weights(sample_weight, X)

    def _warps(self, data: Observations, space: SearchSpace, seed: Any) -> tuple[Warp, ...]:
        if self.warp is None:
            return ()
        if self.warp != "auto":
            return warp.learned(self.warp, data.row_y)
        scaled = self.noise_var is not None or self.signal_var is not None
        if scaled or data.y.shape[1] > 1 or isinstance(space, ImageSpace):
            return ()
        chosen = warp_choice.choose(data, space, seed, self._jobs())
        return () if chosen == Identity() else (chosen,)

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = False,
    ) -> Any:
        """The mean of the targets; on request with the deviation, or the covariance, of the
        function.

        Parameters
        ----------
        X : array (m, d) or frame
            New points; a frame has the columns of training, by name.
        return_std, return_cov : bool
            At most one of them. For several targets the last axis is theirs.
        include_noise : bool
            Whether the deviation is that of a new observation, with its noise, and not of the
            function. The mean is the same for both, and has the noise in it if the targets were
            warped.
        """
        if return_std and return_cov:
            raise InputError("at most one of return_std and return_cov can be true")
        x = self.check_features(X)
        process = self.process_
        if return_cov:
            mean, covariance = covariances(process, x, include_noise=include_noise)
            return _shaped(process, mean), _shaped(process, covariance)
        if not return_std and not process.warps:
            return _shaped(process, process.mean(x))
        found = Predictive.of(process, x)
        if not return_std:
            return _shaped(process, found.mean())
        std = found.std(include_noise=include_noise)
        return _shaped(process, found.mean()), _shaped(process, std)

    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> Matrix:
        """Quantiles of a new observation, its noise included: (m, q), or (m, targets, q).

        Parameters
        ----------
        X : array (m, d) or frame
            New points.
        quantiles : sequence of float
            Above 0 and below 1, in any order; 0.5 is the median.

        Examples
        --------
        >>> import numpy as np
        >>> x = np.linspace(0.0, 1.0, 60)[:, None]
        >>> y = np.exp(2.0 * x[:, 0] + 0.3 * np.random.default_rng(0).normal(size=60))
        >>> model = MaxoutGPRegressor(warp="log", random_state=0).fit(x, y)
        >>> low, median, high = model.predict_quantiles([[0.5]])[0]
        >>> bool(0.0 < low < median < high)
        True
        """
        levels = check_quantiles(quantiles)
        x = self.check_features(X)
        found = Predictive.of(self.process_, x).quantiles(levels)
        return np.asarray(found[:, 0] if self.process_.flat else found)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Matrix:
        """Functions drawn from the posterior: (m, n_samples) or (m, targets, n_samples).

        Of warped targets the function is the mean of all observations at each point.
        """
        x, process = self.check_features(X), self.process_
        drawn = process.sample(x, n_samples, seed_of(random_state))
        for j, one in enumerate(process.warps):
            noise = process.noise_var * float(process.unit[j]) ** 2
            drawn[:, j] = one.mean(drawn[:, j], np.array(noise))
        return drawn[:, 0] if process.flat else drawn

    @property
    def warp_(self) -> Warp | tuple[Warp, ...]:
        """What the targets were warped by: one of ``mnngp.estimators.warp``, or one for each."""
        check_is_fitted(self, "process_")
        warps = self.process_.warps
        return (warps if len(warps) > 1 else warps[0]) if warps else Identity()

    @property
    def loo_(self) -> RegressionLeaveOneOut:
        """Leave-one-out predictions of the training rows, in closed form; computed when used."""
        check_is_fitted(self, "process_")
        self.process_.check_leave_one_out()
        return RegressionLeaveOneOut(partial(_leave_one_out, self.process_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _shaped(process: FittedProcess, values: Matrix) -> Matrix:
    """(…, targets) as the targets were given."""
    return values[..., 0] if process.flat else values


def check_quantiles(quantiles: Any) -> Vector:
    """Quantiles as a vector, or raise."""
    try:
        levels = np.asarray(quantiles, dtype=np.float64)
    except (ValueError, TypeError):
        levels = np.empty(0)
    if levels.ndim != 1 or not levels.size or not np.all((levels > 0.0) & (levels < 1.0)):
        raise InputError(
            "quantiles must be a sequence of numbers above 0 and below 1, such as "
            f"(0.05, 0.5, 0.95), got {quantiles!r}"
        )
    return levels


def _leave_one_out(process: FittedProcess) -> dict[str, Any]:
    data, unit = process.data, process.unit
    mean, variance, noise = process.left_out(np.arange(len(data.row)), data.row_weight)
    std = np.sqrt(variance + noise)
    density = -0.5 * ((data.row_y - mean) / std[:, None]) ** 2
    density -= np.log(std * math.sqrt(2.0 * math.pi))[:, None]
    density -= np.log(unit)
    errors, y, scale = data.row_y - mean, data.row_y, unit
    found = Predictive(process, process.in_targets(mean), variance, noise)
    if process.warps:
        density += process.log_slopes()
        y, scale = process.observed(), np.ones_like(unit)
        errors = y - found.mean()

    def mean_square(values: Matrix) -> Vector:
        return np.asarray(np.average((values * scale) ** 2, axis=0, weights=data.row_weight))

    error = mean_square(errors)
    around = mean_square(y - np.average(y, axis=0, weights=data.row_weight))
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = float(np.mean(1.0 - error / around))
    return {
        "mean": process.in_rows(_shaped(process, found.mean())),
        "std": process.in_rows(_shaped(process, found.std(include_noise=True))),
        "log_density": process.in_rows(_shaped(process, density)),
        "rmse": math.sqrt(float(np.mean(error))),
        "r2": r2,
    }
