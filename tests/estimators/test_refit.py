"""What a fit leaves behind when it fails, is interrupted, or is asked by several threads; and what
it says of wrong arguments.
"""

import gc
import pickle
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import NotFittedError

import mnngp
from mnngp import MaxoutGPClassifier, MaxoutGPRegressor, MaxoutKernel
from mnngp._system import threads
from mnngp.errors import AccuracyWarning, ConvergenceError, InputError
from mnngp.estimators.calibration import Calibration
from mnngp.inference import ConjugateGradients, Posterior, choice
from mnngp.inference.solvers import cholesky
from mnngp.inference.solvers.covariance import Covariance

FIXED = {"depth": 3, "rank": 4, "weight_var": 0.9, "bias_var": 0.2, "kind": "nngp"}


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:150], y[:150], X[150:160]


def interrupted(call, delay):
    """Call, with Ctrl-C after so many seconds. Returns whether it came in time."""

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    except KeyboardInterrupt:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    return False


# it may come where Python cannot raise it
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("estimator", [MaxoutGPRegressor, MaxoutGPClassifier])
def test_an_interrupted_refit_changes_nothing(diabetes, estimator, tmp_path):
    """25 each: other features, other targets, other classes, stopped anywhere. Predictions stay the
    same to the last bit.
    """
    X, y, new = diabetes
    if estimator is MaxoutGPClassifier:
        y = (y > np.median(y)).astype(int)
    model = estimator(random_state=0, max_trials=4).fit(X, y)
    before, state = model.predict(new), set(vars(model))
    other = 1e3 * X[:, :4] + 7.0, np.arange(len(X)) % 3 * 1e6
    start = time.perf_counter()
    estimator(random_state=0, max_trials=4).fit(*other)
    usual = time.perf_counter() - start
    stopped, rng = 0, np.random.default_rng(0)
    while stopped < 25:
        if interrupted(lambda: model.fit(*other), max(1e-4, rng.uniform(0.0, 0.9) * usual)):
            stopped += 1
            np.testing.assert_array_equal(model.predict(new), before)
            assert set(vars(model)) == state
        else:
            model.fit(X, y)  # it was too quick: back to the beginning
            before = model.predict(new)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(mnngp.load(tmp_path / "model").predict(new), before)
    assert threads.count() == threads._allowed()  # no limit of BLAS was left behind


def test_a_first_fit_that_is_interrupted_leaves_nothing(diabetes):
    X, y, new = diabetes
    model = MaxoutGPRegressor()
    if interrupted(lambda: model.fit(X, y), 1e-3):
        with pytest.raises(NotFittedError):
            model.predict(new)
        assert not hasattr(model, "n_features_in_")


def test_a_refit_that_fails_changes_nothing(diabetes, tmp_path):
    X, y, new = diabetes
    model = MaxoutGPRegressor(**FIXED, noise_var=1.0, signal_var=3.0).fit(X, y)
    before = model.predict(new)
    model.set_params(solver=ConjugateGradients(max_iterations=1, rank=0), noise_var=1e-6)
    with pytest.raises(ConvergenceError):
        model.fit(100.0 * X[:, :5], 1e3 * y)
    np.testing.assert_array_equal(model.predict(new), before)
    model.set_params(solver="auto").save(tmp_path / "model")
    np.testing.assert_array_equal(mnngp.load(tmp_path / "model").predict(new), before)


def test_names_of_columns_go_with_the_data_they_came_from(diabetes):
    import pandas as pd

    X, y, new = diabetes
    model = MaxoutGPRegressor(**FIXED, noise_var=1.0).fit(pd.DataFrame(X).rename(columns=str), y)
    assert hasattr(model, "feature_names_in_")
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    model.predict(new)


def test_probabilities_are_calibrated_once_for_all_threads(monkeypatch):
    X, y = load_breast_cancer(return_X_y=True)
    model = MaxoutGPClassifier(**FIXED, noise_var=0.1).fit(X[:200], y[:200])
    calls, compute = [], Calibration.fit
    monkeypatch.setattr(
        Calibration,
        "fit",
        lambda *arguments: calls.append(1) or time.sleep(0.1) or compute(*arguments),
    )
    together, found = threading.Barrier(4), []

    def ask():
        together.wait()
        found.append(model.predict_proba(X[200:220]))

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert calls == [1]
    assert len(found) == 4
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X[200:220]), found[0])


@pytest.mark.parametrize("estimator", [MaxoutGPRegressor, MaxoutGPClassifier])
def test_asking_whether_there_is_leave_one_out_costs_nothing(monkeypatch, diabetes, estimator):
    X, y, _ = diabetes
    model = estimator(**FIXED, noise_var=0.1).fit(X, y > 100.0)
    calls, diagonal = [], cholesky.Factor.diagonal
    monkeypatch.setattr(
        cholesky.Factor, "diagonal", lambda self, *rest: calls.append(1) or diagonal(self, *rest)
    )
    assert hasattr(model, "loo_")
    loo = model.loo_
    assert not calls
    assert not hasattr(loo, "nothing_of_that_name")
    assert not calls
    assert repr(loo).startswith(f"{type(loo).__name__}(")
    assert calls
    again = pickle.loads(pickle.dumps(model.loo_))
    for name in type(loo).__annotations__:
        np.testing.assert_array_equal(getattr(again, name), getattr(loo, name))
        assert name in dir(loo)


def test_leave_one_out_is_of_its_own_fit(diabetes):
    X, y, _ = diabetes
    model = MaxoutGPRegressor(**FIXED, noise_var=0.1, signal_var=1.0).fit(X, y)
    held, rmse = model.loo_, model.loo_.rmse
    model.fit(X, 10.0 * y)
    assert held.rmse == rmse
    assert model.loo_.rmse == pytest.approx(10.0 * rmse)


def test_weights_of_any_size_give_the_same_probabilities():
    X, y = load_breast_cancer(return_X_y=True)
    found = [
        MaxoutGPClassifier(**FIXED, random_state=0)
        .fit(X[:150], y[:150], sample_weight=np.full(150, size))
        .predict_proba(X[150:200])
        for size in (1.0, 1e-3, 1e12)
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-6)


def test_subclasses_keep_their_constructors_and_what_they_do_not_pickle(diabetes):
    class Quick(MaxoutGPRegressor):
        def __init__(self, extra=7):
            super().__init__(max_trials=3)
            self.extra = extra

        def __getstate__(self):
            return {
                name: value for name, value in super().__getstate__().items() if name != "logger"
            }

    class Quicker(Quick):
        pass

    model = Quicker(extra=3)
    assert (model.max_trials, model.extra) == (3, 3)
    model.logger = print
    assert model.fit(*diabetes[:2]).logger is print
    with pytest.raises(
        TypeError,
        match=r"MaxoutGPRegressor\.__init__\(\) got an unexpected keyword argument 'depht'",
    ):
        MaxoutGPRegressor(depht=3)


def test_the_cores_are_given_back_after_an_interrupt(monkeypatch):
    """Also if it comes in the middle of giving them back: then by the next call."""
    before, give_back = threads._allowed(), threads._Cores._give_back

    def interrupted_first(self, holder):
        monkeypatch.setattr(threads._Cores, "_give_back", give_back)
        raise KeyboardInterrupt

    monkeypatch.setattr(threads._Cores, "_give_back", interrupted_first)
    with (
        pytest.raises(KeyboardInterrupt),
        threads.one_blas_thread(1.0),
        threads.one_blas_thread(1.0),
    ):
        assert threads._allowed() == 1
    gc.collect()  # what pytest holds of the frames
    with threads.one_blas_thread(1.0):
        assert threads._allowed() == 1
        assert threads.count() == before
    assert threads._allowed() == before


# --- what is said of wrong arguments --------------------------------------------------------------


def test_errors_name_the_class():
    with pytest.raises(
        TypeError,
        match=r"^MaxoutGPRegressor\.__init__\(\) got an unexpected "
        r"keyword argument 'depht'",
    ):
        MaxoutGPRegressor(depht=3)
    with pytest.raises(TypeError, match=r"^MaxoutGPClassifier\.__init__\(\)"):
        MaxoutGPClassifier(*range(20))


def test_targets_that_are_no_numbers(diabetes):
    X, _, _ = diabetes
    for labels in (
        np.where(X[:, 0] > 0.0, "high", "low"),
        np.where(X[:, 0] > 0.0, "high", "low").astype(object),
        [["a", "b"]] * len(X),
    ):
        with pytest.raises(
            InputError,
            match=r"y must be numbers, got '.*'; for labels of classes "
            r"there is MaxoutGPClassifier",
        ):
            MaxoutGPRegressor().fit(X, labels)
    numbers = MaxoutGPRegressor(**FIXED, noise_var=0.1).fit(X, X[:, 0].astype(object))
    assert np.isfinite(numbers.predict(X)).all()


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (1e300, "sample_weight must be 0, or from 1e-100 to 1e\\+100, got 1e\\+300"),
        (5e-324, "sample_weight must be 0, or from 1e-100 to 1e\\+100, got 4.94066e-324"),
    ],
)
def test_weights_at_the_limits_of_floating_point(diabetes, weight, message):
    X, y, _ = diabetes
    weights = np.ones(len(X))
    weights[3] = weight
    for estimator in (MaxoutGPRegressor(), MaxoutGPClassifier()):
        with pytest.raises(InputError, match=message):
            estimator.fit(X, y > 100.0, sample_weight=weights)


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_weights_as_far_as_they_may_go(diabetes, size):
    X, y, new = diabetes
    model = MaxoutGPRegressor(random_state=0, max_trials=4).fit(
        X, y, sample_weight=np.full(len(X), size)
    )
    plain = MaxoutGPRegressor(random_state=0, max_trials=4).fit(X, y)
    np.testing.assert_allclose(model.predict(new), plain.predict(new), rtol=1e-6)


def test_noise_at_the_limits_of_floating_point(diabetes):
    X, y, new = diabetes
    for noise in (1e300, np.inf):
        with pytest.raises(
            InputError,
            match=r"noise_var must be a finite number at least 0 and at "
            r"most 1e\+200",
        ):
            MaxoutGPRegressor(**FIXED, noise_var=noise).fit(X, y)
    with pytest.raises(
        InputError,
        match=r"noise_var must be at most 1e\+200 times the variance of "
        r"the targets",
    ):
        MaxoutGPRegressor(noise_var=1e150).fit(X, 1e-60 * y)
    with pytest.raises(InputError, match=r"noise_var must be from 0 to 1e\+200, got 1e\+300 at 2"):
        Posterior(MaxoutKernel(), X, y, [1.0, 1.0, 1e300] + [1.0] * 147)
    model = MaxoutGPRegressor(**FIXED, noise_var=1e200).fit(X, y)
    for values in (model.loo_.mean, model.loo_.std, model.loo_.log_density, model.predict(new)):
        assert np.isfinite(values).all()


@pytest.mark.parametrize("jobs", [0, 1.5, "two"])
def test_numbers_of_threads(diabetes, jobs):
    with pytest.raises(
        InputError, match="n_jobs must be None, a number of threads, or -1 for all cores, got"
    ):
        MaxoutGPRegressor(n_jobs=jobs).fit(*diabetes[:2])


# --- what is chosen and reported ------------------------------------------------------------------


def test_the_choice_does_not_depend_on_threads(monkeypatch, diabetes):
    X, y, new = diabetes
    monkeypatch.setattr(choice, "LARGEST", 60)
    one, two, some = (
        MaxoutGPRegressor(random_state=0, max_trials=12, n_jobs=jobs).fit(X, y)
        for jobs in (1, 2, -1)
    )
    for other in (two, some):
        assert [{**trial, "seconds": 0.0} for trial in other.trials_] == [
            {**trial, "seconds": 0.0} for trial in one.trials_
        ]
        np.testing.assert_array_equal(other.predict(new), one.predict(new))


def test_no_kernel_is_tried_or_listed_twice(monkeypatch, diabetes):
    """A NaN in its key let none be found again."""
    X, y, _ = diabetes
    monkeypatch.setattr(choice, "LARGEST", 60)
    solved, plain = [], choice.Posterior

    def counted(kernel, X, y, noise_var):
        solved.append((*kernel.get_params().values(), float(noise_var[0])))
        return plain(kernel, X, y, noise_var)

    monkeypatch.setattr(choice, "Posterior", counted)
    model = MaxoutGPRegressor(random_state=0, max_trials=14).fit(X, y)
    names = ("depth", "rank", "weight_var", "bias_var", "kind", "features", "lengthscale")
    listed = [str([trial[name] for name in names]) for trial in model.trials_]
    assert len(set(listed)) == len(listed)
    assert len(listed) <= 14
    compared = list(map(str, solved[:-1]))  # the last is for the scale
    assert len(set(compared)) == len(compared) > 2


def test_what_was_added_is_in_the_units_of_the_targets(diabetes):
    X, _, _ = diabetes
    near = np.concatenate([X, X + 1e-6])
    with pytest.warns(AccuracyWarning, match="was added"):
        model = MaxoutGPRegressor(**FIXED, dtype="float32", random_state=0).fit(
            near, 1e3 * np.tile(X[:, 0] ** 2, 2)
        )
    assert 0.0 < model.report_.added < 1.0
    process = model.process_
    noise = process.posterior.noise_var[0] * process.unit[0] ** 2
    assert model.noise_var_ + model.report_.added == pytest.approx(noise, rel=1e-9)


def test_what_is_added_follows_the_contraction(monkeypatch):
    """Where κ was too small for the points, and then the matrix singular as well: relative to the κ
    in the end.
    """
    X = np.repeat(np.random.default_rng(0).normal(size=(40, 3)), 2, axis=0)
    kernel = MaxoutKernel(1, 2)
    monkeypatch.setattr(cholesky, "contraction", lambda network, x: 0.07)
    network, (x, _) = kernel.network, kernel.points(X, None)
    with pytest.warns(AccuracyWarning, match="was added"):
        result = cholesky.Cholesky()(Covariance(network, x, np.full(80, 3.0), np.zeros(80)))
    kappa = result.report.contraction
    assert kappa == 1.0
    steps = np.log10(result.report.added / (4.0 * 80 * np.finfo(float).eps * kappa * 9.0))
    assert steps == pytest.approx(round(steps), abs=1e-9)
