"""Classification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from mnngp._typing import Matrix, Vector
from mnngp.estimators.calibration import Calibration
from mnngp.estimators.maxout_gp import MaxoutGP
from mnngp.estimators.parameters import check_class_weight, image_rows, sample_weights
from mnngp.estimators.process import LEFT_OUT_AT_MOST, FittedProcess, Lazy, LazyResults
from mnngp.kernels.sklearn import DeepKernel

_CALIBRATED_ON = 2000  # training rows at most, where leave-one-out costs little


class ClassificationLeaveOneOut(LazyResults):
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


class MaxoutGPClassifier(ClassifierMixin, MaxoutGP):  # type: ignore[misc]
    """Classification with the Gaussian process of an infinitely wide maxout network.

    As in the paper, class memberships (one-hot minus 0.1) are regressed on, and the largest mean
    wins. Everything that is None is chosen from the data by leave-one-out; what is given stays as
    it is. Classes are taken to be in no order: numbers that are (grades, stars) may as well be
    regressed on, by ``MaxoutGPRegressor``.

    Parameters
    ----------
    depth, rank, weight_var, bias_var, kind
        Of the ``MaxoutKernel``, as for ``MaxoutGPRegressor``.
    noise_var : float, optional
        Variance of the noise in the class memberships; of a row with the sample weight w it is
        ``noise_var / w``.
    signal_var : float, optional
        What the kernel is multiplied by. If None it is found from the data, even if all others are
        given: the scale of a class membership means nothing by itself.
    kernel : MaxoutKernel or NetworkKernel, optional
        Any kernel of this package, instead of the first five; what it leaves open is chosen.
    image_shape : (height, width) or (height, width, channels), optional
        For rows that are images: a convolutional network is chosen, instead of the first five.
    class_weight : dict, "balanced" or None
        What the sample weights of each class are multiplied by: a number for each label, or
        ``n / (classes · count)``, so that all classes weigh the same; as in scikit-learn. Rows
        count as often as their sample weight says.
    features, normalize, dtype, max_trials, fit_seconds, random_state, progress, solver, n_jobs
        As for ``MaxoutGPRegressor``.

    Attributes
    ----------
    classes_ : array
        The labels, in order.
    kernel_ : MaxoutKernel or NetworkKernel
        The one that was chosen or given, with its variances.
    noise_var_, signal_var_ : float
        The variances of the noise and of the signal.
    trials_ : list of dict
        As of ``MaxoutGPRegressor``; the score is minus the leave-one-out mean squared error in
        units of the targets' variance.
    loo_ : ClassificationLeaveOneOut
        Of each row by all others.
    calibration_ : mnngp.estimators.calibration.Calibration
        From posterior means and variances to probabilities; found when it is first asked for.
    log_marginal_likelihood_ : float
        Of the regression, summed over the classes.
    feature_relevance_, report_, process_, encoder_, n_features_in_, feature_names_in_
        As of ``MaxoutGPRegressor``.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = MaxoutGPClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.95)
    True
    >>> model.predict_proba(X[1:2]).shape
    (1, 3)

    Of images a convolutional network is chosen:

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MaxoutGPClassifier(image_shape=(8, 8), fit_seconds=5, random_state=0)
    >>> bool(model.fit(X[:100], y[:100]).score(X[100:300], y[100:300]) > 0.8)
    True
    """

    _density = False
    _shared_scale = True

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
        class_weight: Mapping[Any, float] | str | None = None,
        features: str = "auto",
        normalize: str | None = "standard",
        dtype: Any = "float64",
        max_trials: int = 24,
        fit_seconds: float = 120.0,
        random_state: Any = None,
        progress: bool | None = None,
        solver: Any = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self._keep(locals())

    def _training_data(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Matrix, Matrix, Vector | None]:
        check_class_weight(self.class_weight)
        X = image_rows(self.image_shape, X)
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weight = sample_weights(sample_weight, X)
        self.classes_, label = np.unique(y, return_inverse=True)
        if self.class_weight is not None:
            weight = np.ones(len(X)) if weight is None else weight
            if isinstance(self.class_weight, str):  # balanced; weights are counts, also here
                count = np.bincount(label, weights=weight)
                count *= np.sum(count > 0.0) / count.sum()
                weight = np.divide(weight, count[label], where=weight > 0.0, out=np.zeros(len(X)))
            else:
                weight = weight * compute_sample_weight(self.class_weight, y)
            weight = sample_weights(weight, X)
        targets = np.full((len(X), len(self.classes_)), -0.1)
        targets[np.arange(len(X)), label] = 0.9
        return X, targets, weight

    def restore(
        self,
        kernel: DeepKernel,
        process: FittedProcess,
        trials: list[dict[str, Any]],
        calibration: Calibration | None = None,
    ) -> None:
        """Set the fitted attributes; without a calibration it is found when it is needed."""
        super().restore(kernel, process, trials)
        self._calibration = Lazy(calibration)

    @property
    def calibration_(self) -> Calibration:
        """From posterior means and variances to probabilities."""
        check_is_fitted(self, "process_")
        return self._calibration.get(partial(_calibrate, self.process_))

    def decision_function(self, X: Any) -> Matrix:
        """Posterior means of the class memberships (m, classes).

        For two classes it is what scikit-learn asks for: a number (m,) that grows with the
        probability of the second class, the difference of the two means, moderated by the variance
        as the probabilities are.
        """
        x = self.check_features(X)
        if len(self.classes_) != 2:
            return self.process_.mean(x)
        mean, variance = self.process_.mean_and_variance(x)
        moderated = self.calibration_.moderated(mean, variance)
        return np.asarray(moderated[:, 1] - moderated[:, 0])

    def latent_mean_and_variance(self, X: Any) -> tuple[Matrix, Vector]:
        """The posterior of the memberships: means (m, classes) and the classes' variance (m,)."""
        x = self.check_features(X)
        mean, variance = self.process_.mean_and_variance(x)
        return mean, variance * float(self.process_.unit[0]) ** 2

    def predict(self, X: Any) -> Matrix:
        """The class with the largest posterior mean, for each row of an array or a frame."""
        x = self.check_features(X)
        return np.asarray(self.classes_[self.process_.mean(x).argmax(axis=1)])

    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities (m, classes), from posterior mean and variance, calibrated by
        leave-one-out.
        """
        x = self.check_features(X)
        mean, variance = self.process_.mean_and_variance(x)
        return self.calibration_(mean, variance)

    def predict_log_proba(self, X: Any) -> Matrix:
        """Their logarithms."""
        return np.asarray(np.log(self.predict_proba(X)))

    @property
    def loo_(self) -> ClassificationLeaveOneOut:
        """Leave-one-out predictions of the training rows, in closed form; computed when used."""
        check_is_fitted(self, "process_")
        self.process_.check_leave_one_out()
        # of this fit, whatever comes after it
        process, classes, calibration = self.process_, self.classes_, self._calibration

        def compute() -> dict[str, Any]:
            return _leave_one_out(process, classes, calibration.get(partial(_calibrate, process)))

        return ClassificationLeaveOneOut(compute)


def _calibrate(process: FittedProcess) -> Calibration:
    """From leave-one-out predictions of some rows.

    What is left out with each is what it is when a kernel is chosen.
    """
    data = process.data
    most = _CALIBRATED_ON if process.posterior.factored else LEFT_OUT_AT_MOST
    rows = np.arange(len(data.row))
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(process.seed).choice(rows, most, replace=False))
    mean, variance, _ = process.left_out(rows, data.held_out_weight[data.group[rows]])
    label = data.row_y[rows].argmax(axis=1)
    # its size must not matter beside the priors
    weight = data.row_weight[rows] / data.mean_weight
    return Calibration.fit(process.in_targets(mean), variance, label, weight)


def _leave_one_out(
    process: FittedProcess, classes: Matrix, calibration: Calibration
) -> dict[str, Any]:
    data = process.data
    mean, variance, _ = process.left_out(np.arange(len(data.row)), data.row_weight)
    mean = process.in_targets(mean)
    label = data.row_y.argmax(axis=1)
    probability = calibration(mean, variance)
    log_given = np.log(probability[np.arange(len(label)), label])
    decision = process.in_rows(mean)
    return {
        "decision": decision,
        "prediction": np.asarray(classes[np.nan_to_num(decision).argmax(axis=1)]),
        "probability": process.in_rows(probability),
        "accuracy": float(np.average(mean.argmax(axis=1) == label, weights=data.row_weight)),
        "log_loss": -float(np.average(log_given, weights=data.row_weight)),
    }
