"""The estimators as scikit-learn's users meet them: conventions, choices, probabilities, and data
that are not nice.
"""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_linnerud,
    load_wine,
    make_moons,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mnngp import MaxoutGPClassifier, MaxoutGPRegressor, MaxoutKernel
from mnngp.inference import Posterior

FIXED = {"depth": 3, "rank": 4, "weight_var": 0.9, "bias_var": 0.2, "kind": "nngp"}


@parametrize_with_checks(
    [MaxoutGPRegressor(), MaxoutGPClassifier(), MaxoutGPClassifier(**FIXED, noise_var=0.01)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- everything given: a Gaussian process and nothing else ----------------------------------------


def test_a_specified_regressor_is_scikit_learns(wave):
    X, y, new = wave
    ours = MaxoutGPRegressor(**FIXED, noise_var=0.01, normalize=None).fit(X, y)
    theirs = GaussianProcessRegressor(MaxoutKernel(**FIXED), alpha=0.01, optimizer=None).fit(X, y)
    mean, covariance = theirs.predict(new, return_cov=True)
    np.testing.assert_allclose(ours.predict(new), mean, atol=1e-10)
    np.testing.assert_allclose(
        ours.predict(new, return_std=True)[1], np.sqrt(np.diag(covariance)), atol=1e-10
    )
    np.testing.assert_allclose(ours.predict(new, return_cov=True)[1], covariance, atol=1e-10)
    noisy = ours.predict(new, return_cov=True, include_noise=True)[1]
    np.testing.assert_allclose(noisy, covariance + 0.01 * np.eye(20), atol=1e-10)
    np.testing.assert_allclose(
        ours.predict(new, return_std=True, include_noise=True)[1],
        np.sqrt(np.diag(covariance) + 0.01),
        atol=1e-10,
    )
    assert ours.log_marginal_likelihood_ == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-10
    )
    assert (ours.noise_var_, ours.signal_var_) == (0.01, 1.0)
    assert ours.trials_[0]["depth"] == 3
    assert len(ours.trials_) == 1


def test_a_specified_regressor_with_weights_and_equal_rows(wave):
    """Weights scale the noise; equal rows are merged inside, which must not be seen from outside,
    the evidence included.
    """
    X, y, new = wave
    X, y = np.concatenate([X, X[:7]]), np.concatenate([y, y[:7] + 0.3])
    weight = np.random.default_rng(0).uniform(0.5, 3.0, size=len(X))
    ours = MaxoutGPRegressor(**FIXED, noise_var=0.01, normalize=None).fit(
        X, y, sample_weight=weight
    )
    theirs = GaussianProcessRegressor(
        MaxoutKernel(**FIXED), alpha=0.01 / weight, optimizer=None
    ).fit(X, y)
    np.testing.assert_allclose(ours.predict(new), theirs.predict(new), atol=1e-10)
    np.testing.assert_allclose(
        ours.predict(new, return_std=True)[1], theirs.predict(new, return_std=True)[1], atol=1e-10
    )
    assert ours.log_marginal_likelihood_ == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-10
    )
    loo = ours.loo_
    for i in range(len(X)):
        rest = np.delete(np.arange(len(X)), i)
        without = GaussianProcessRegressor(
            MaxoutKernel(**FIXED), alpha=0.01 / weight[rest], optimizer=None
        ).fit(X[rest], y[rest])
        mean, deviation = without.predict(X[i : i + 1], return_std=True)
        assert loo.mean[i] == pytest.approx(mean[0], abs=1e-9)
        assert loo.std[i] == pytest.approx(np.sqrt(deviation[0] ** 2 + 0.01 / weight[i]), rel=1e-8)
    assert loo.rmse == pytest.approx(np.sqrt(np.average((y - loo.mean) ** 2, weights=weight)))


def test_leave_one_out_without_noise(wave):
    X, y, _ = wave
    model = MaxoutGPRegressor(**FIXED, noise_var=0.0, normalize=None).fit(X, y)
    rest = MaxoutGPRegressor(**FIXED, noise_var=0.0, normalize=None).fit(X[1:], y[1:])
    mean, deviation = rest.predict(X[:1], return_std=True)
    assert model.loo_.mean[0] == pytest.approx(mean[0], abs=1e-6)
    assert model.loo_.std[0] == pytest.approx(deviation[0], rel=1e-5)


def test_changing_the_data_afterwards_changes_nothing(wave):
    X, y, new = (part.copy() for part in wave)
    model = MaxoutGPRegressor(**FIXED, noise_var=0.01, normalize=None).fit(X, y)
    before, loo = model.predict(new), model.loo_.mean
    X[:], y[:] = 7.0, 7.0
    np.testing.assert_array_equal(model.predict(new), before)
    np.testing.assert_array_equal(model.loo_.mean, loo)


def test_leave_one_out_of_a_classifier_is_refitting():
    X, y = (part[::3] for part in load_iris(return_X_y=True))
    arguments = {**FIXED, "noise_var": 0.05, "signal_var": 1.0, "normalize": None}
    model = MaxoutGPClassifier(**arguments).fit(X, y)
    loo, right = model.loo_, []
    for i in range(len(X)):
        rest = MaxoutGPClassifier(**arguments).fit(np.delete(X, i, axis=0), np.delete(y, i))
        np.testing.assert_allclose(
            loo.decision[i], rest.decision_function(X[i : i + 1])[0], atol=1e-9
        )
        right.append(rest.predict(X[i : i + 1])[0] == y[i])
    assert loo.accuracy == np.mean(right)
    np.testing.assert_array_equal(loo.prediction == y, right)
    assert loo.log_loss == pytest.approx(log_loss(y, loo.probability))


def test_the_papers_classification():
    """One-hot minus 0.1, images standardised by themselves, no prior mean."""
    X, y = load_digits(return_X_y=True)
    model = MaxoutGPClassifier(**FIXED, noise_var=1e-6, signal_var=1.0, normalize="sphere").fit(
        X[:200], y[:200]
    )
    rows = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
    posterior = Posterior(MaxoutKernel(**FIXED), rows[:200], np.eye(10)[y[:200]] - 0.1, 1e-6)
    np.testing.assert_allclose(
        model.decision_function(X[200:300]), posterior.mean(rows[200:300]), atol=1e-9
    )
    assert model.score(X[200:], y[200:]) > 0.8


def test_the_ordered_phase_classifies_as_well_at_any_depth():
    """The paper's failed cells (its figure 3): weight variance 0.1.

    It takes both: the signal variance that is found (with one, the noise hides what points differ
    by, however exactly it is solved) and distances (without them rounding ends it at depth 13).
    """
    X, y = load_digits(return_X_y=True)
    accuracy = {}
    for depth in (5, 13, 21, 100):
        model = MaxoutGPClassifier(depth, 2, 0.1, 0.34, "nngp", 1e-10, normalize="sphere").fit(
            X[:500], y[:500]
        )
        accuracy[depth] = model.score(X[500:], y[500:])
        assert model.noise_var_ == 1e-10
        assert model.report_.added == 0.0
    assert accuracy[5] > 0.94
    assert max(accuracy.values()) - min(accuracy.values()) < 0.002


# --- choosing -------------------------------------------------------------------------------------


def test_what_is_given_stays(wave):
    X, y, _ = wave
    for name, value in {
        **FIXED,
        "noise_var": 0.02,
        "signal_var": 1.7,
        "kind": "ntk",
        "rank": 3,
    }.items():
        model = MaxoutGPRegressor(**{name: value}, max_trials=6, random_state=0).fit(X, y)
        if name in ("noise_var", "signal_var"):
            assert getattr(model, f"{name}_") == pytest.approx(value, rel=1e-12)
        else:
            assert getattr(model.kernel_, name) == value
            assert {trial[name] for trial in model.trials_} == {value}
        assert len(model.trials_) <= 6
    layers = MaxoutGPRegressor(depth=2, weight_var=[0.5, 0.6, 0.7], max_trials=5).fit(X, y)
    assert layers.kernel_.weight_var == (0.5, 0.6, 0.7)


def test_choosing_is_good_enough_and_says_what_it_did(wave):
    X, y, new = wave
    model = MaxoutGPRegressor(random_state=0).fit(X, y)
    truth = np.sin(2.0 * new[:, 0]) + 0.3 * new[:, 1]
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 0.12
    assert 0.003 < model.noise_var_ < 0.03  # 0.01 in truth
    for linear in (False, True):
        scores = [one["score"] for one in model.trials_ if (one["features"] == "linear") == linear]
        assert scores == sorted(scores, reverse=True)
    assert set(model.trials_[0]) == {
        "depth",
        "rank",
        "weight_var",
        "bias_var",
        "kind",
        "features",
        "lengthscale",
        "weighted",
        "noise_ratio",
        "score",
        "n_rows",
        "seconds",
    }
    assert model.kernel_.depth == model.trials_[0]["depth"]
    again = MaxoutGPRegressor(random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(new), again.predict(new))


def test_a_seed_makes_it_repeatable_where_a_subset_is_used(monkeypatch):
    from mnngp.inference import choice

    monkeypatch.setattr(choice, "LARGEST", 60)
    X, y = load_breast_cancer(return_X_y=True)
    one, two = (
        MaxoutGPClassifier(max_trials=10, random_state=3).fit(X[:200], y[:200]) for _ in range(2)
    )
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert {trial["n_rows"] for trial in one.trials_} == {60, 200}  # and the best few again, on all
    assert one.score(X[200:], y[200:]) > 0.93


def test_predictive_intervals_are_honest():
    """On new data about 95 % are inside of two standard deviations."""
    X, y = load_diabetes(return_X_y=True)
    model = MaxoutGPRegressor(random_state=0).fit(X[:300], y[:300])
    mean, deviation = model.predict(X[300:], return_std=True, include_noise=True)
    assert 0.90 < np.mean(np.abs(y[300:] - mean) < 1.96 * deviation) < 0.99
    loo = model.loo_
    assert 0.90 < np.mean(np.abs(y[:300] - loo.mean) < 1.96 * loo.std) < 0.99
    assert loo.r2 > 0.4


def test_signal_is_found_for_a_given_noise(wave):
    X, y, _ = wave
    model = MaxoutGPRegressor(
        depth=3, rank=4, noise_var=0.01, features="linear", random_state=0
    ).fit(X, y)
    evidences = {}
    for factor in (0.25, 1.0, 4.0):
        kernel = {name: getattr(model.kernel_, name) for name in FIXED}
        other = MaxoutGPRegressor(
            **kernel, noise_var=0.01, signal_var=model.signal_var_ * factor
        ).fit(X, y - y.mean())
        evidences[factor] = other.log_marginal_likelihood_
    assert max(evidences, key=evidences.get) == 1.0


# --- probabilities --------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
def test_probabilities(load):
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y, new, label = X[order[::2]][:300], y[order[::2]][:300], X[order[1::2]], y[order[1::2]]
    model = MaxoutGPClassifier(random_state=0, max_trials=8).fit(X, y)
    probability = model.predict_proba(new)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert probability.min() > 0.0
    np.testing.assert_array_equal(model.classes_[probability.argmax(axis=1)], model.predict(new))
    np.testing.assert_allclose(model.predict_log_proba(new), np.log(probability))
    # Better than the softmax of the mean, which knows no scale, and than what is known of the
    # classes alone.
    mean = model.process_.mean(new)
    plain = np.exp(mean) / np.exp(mean).sum(axis=1, keepdims=True)
    assert log_loss(label, probability) < 0.5 * log_loss(label, plain)
    # Leave-one-out has foretold it.
    assert log_loss(label, probability) == pytest.approx(model.loo_.log_loss, abs=0.1)


def test_far_away_nothing_is_certain():
    X, y = make_moons(200, noise=0.2, random_state=0)
    model = MaxoutGPClassifier(random_state=0).fit(X, y)
    near, far = model.predict_proba([[0.0, 1.0]]).max(), model.predict_proba([[0.0, 1e6]]).max()
    assert near > 0.9
    assert far < 0.99


# --- where people use estimators ------------------------------------------------------------------


def test_pipelines_grids_clones_pickles():
    X, y = load_iris(return_X_y=True)
    quick = MaxoutGPClassifier(max_trials=4, random_state=0)
    assert cross_val_score(make_pipeline(StandardScaler(), quick), X, y, cv=3).mean() > 0.93
    search = GridSearchCV(
        MaxoutGPClassifier(**{**FIXED, "depth": None}, noise_var=0.1), {"depth": [1, 4]}, cv=3
    ).fit(X, y)
    assert search.best_params_["depth"] in (1, 4)
    model = quick.fit(X, y)
    assert clone(model).get_params() == model.get_params()
    for other in (pickle.loads(pickle.dumps(model)), pickle.loads(pickle.dumps(model.fit(X, y)))):
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_and_their_names(frame):
    X, y = load_wine(return_X_y=True)
    names = [f"column {i}" for i in range(X.shape[1])]
    table = frame(dict(zip(names, X.T, strict=True)))
    model = MaxoutGPClassifier(**FIXED).fit(table, y)
    assert list(model.feature_names_in_) == names
    np.testing.assert_array_equal(
        model.predict(table), MaxoutGPClassifier(**FIXED).fit(X, y).predict(X)
    )
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[names[::-1]])


def test_labels_of_any_kind():
    X, y = load_iris(return_X_y=True)
    for labels in (
        np.array(["setosa", "versicolor", "virginica"])[y],
        np.array(["a", "b", "c"], dtype=object)[y],
        y * 10 - 5,
        y > 0,
    ):
        model = MaxoutGPClassifier(**FIXED).fit(X, labels)
        assert model.score(X, labels) > 0.95
        assert model.predict(X).dtype == np.asarray(labels).dtype
    assert model.decision_function(X).shape == (150,)
    np.testing.assert_array_equal(model.decision_function(X) > 0.0, model.predict(X))


def test_several_targets():
    X, y = load_linnerud(return_X_y=True)
    model = MaxoutGPRegressor(random_state=0).fit(X, y)
    mean, deviation = model.predict(X, return_std=True)
    assert mean.shape == deviation.shape == y.shape
    assert model.predict(X[:4], return_cov=True)[1].shape == (4, 4, 3)
    assert model.sample_y(X[:4], 5).shape == (4, 3, 5)
    assert model.noise_var_.shape == (3,)
    assert model.loo_.mean.shape == y.shape
    specified = {**FIXED, "noise_var": 0.1}
    joint, single = (
        MaxoutGPRegressor(**specified).fit(X, y),
        MultiOutputRegressor(MaxoutGPRegressor(**specified)).fit(X, y),
    )
    np.testing.assert_allclose(joint.predict(X), single.predict(X))
    assert MaxoutGPRegressor(**specified).fit(X, y[:, :1]).predict(X).shape == (20, 1)


def test_samples(wave):
    X, y, new = wave
    model = MaxoutGPRegressor(random_state=0, max_trials=4).fit(X, y)
    mean, deviation = model.predict(new, return_std=True)
    drawn = model.sample_y(new, 4000, random_state=1)
    assert np.all(np.abs(drawn.mean(axis=1) - mean) < 5.0 * deviation / np.sqrt(4000.0))
    np.testing.assert_allclose(drawn.std(axis=1), deviation, rtol=0.08)


def test_single_precision(wave):
    X, y, new = wave
    single, double = (
        MaxoutGPRegressor(**FIXED, noise_var=0.01, dtype=dtype).fit(X, y)
        for dtype in ("float32", "float64")
    )
    np.testing.assert_allclose(single.predict(new), double.predict(new), atol=1e-3)
