"""The estimators as scikit-learn's users meet them: conventions, choices, probabilities, and data
that are not nice.
"""

import contextlib
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
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
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mnngp import MaxoutGPClassifier, MaxoutGPRegressor, MaxoutKernel
from mnngp.errors import AccuracyWarning, InputError
from mnngp.inference import Posterior
from mnngp.inference.observations import Observations

FIXED = {"depth": 3, "rank": 4, "weight_var": 0.9, "bias_var": 0.2, "kind": "nngp"}


@parametrize_with_checks(
    [MaxoutGPRegressor(), MaxoutGPClassifier(), MaxoutGPClassifier(**FIXED, noise_var=0.01)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def wave():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(60, 2))
    return (
        X,
        np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=60),
        rng.uniform(-2.0, 2.0, size=(20, 2)),
    )


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
    scores = [trial["score"] for trial in model.trials_]
    assert scores == sorted(scores, reverse=True)
    assert set(model.trials_[0]) == {
        "depth",
        "rank",
        "weight_var",
        "bias_var",
        "kind",
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
    model = MaxoutGPRegressor(depth=3, rank=4, noise_var=0.01, random_state=0).fit(X, y)
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


# --- data that are not nice -----------------------------------------------------------------------


def test_equal_rows_with_other_labels():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0], [3.0, 1.0], [4.0, 4.0], [2.0, 5.0]], 20, axis=0)
    y = np.concatenate(
        [
            np.repeat([0, 1], [15, 5]),
            np.repeat([0, 1], [2, 18]),
            np.repeat([0, 1], [10, 10]),
            np.zeros(20),
            np.ones(20),
        ]
    )
    model = MaxoutGPClassifier(random_state=0).fit(X, y.astype(int))
    probability = model.predict_proba(X[::20])[:, 1]
    np.testing.assert_allclose(probability, [0.25, 0.9, 0.5, 0.0, 1.0], atol=0.15)
    # merged, so not singular
    assert MaxoutGPClassifier(**FIXED, noise_var=0.0).fit(X, y.astype(int)).report_.added == 0.0


def test_weights_are_counts():
    X, y = load_wine(return_X_y=True)
    weight = np.random.default_rng(0).integers(0, 4, size=len(X))
    weighted = MaxoutGPClassifier(random_state=0, max_trials=6).fit(X, y, sample_weight=weight)
    repeated = MaxoutGPClassifier(random_state=0, max_trials=6).fit(
        np.repeat(X, weight, axis=0), np.repeat(y, weight)
    )
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    assert np.isnan(weighted.loo_.decision[weight == 0]).all()
    assert not np.isnan(weighted.loo_.decision[weight > 0]).any()


def test_what_is_left_out_of_a_place():
    """One row where rows are equal by chance, all of them where they may be copies; a row with all
    of its weight.
    """
    rng = np.random.default_rng(0)
    coarse, fine = rng.integers(0, 3, size=(200, 4)).astype(float), rng.normal(size=(200, 4))
    rule = (coarse[:, :1] > coarse[:, 1:2]).astype(float)  # no two equal rows disagree
    one = Observations.of(coarse, rule)
    assert len(one) < 100
    np.testing.assert_allclose(one.held_out_weight, 1.0)
    heavy = Observations.of(coarse, rule, np.full(200, 5.0))
    np.testing.assert_allclose(heavy.held_out_weight, 5.0)
    again = rng.integers(0, 200, size=200)
    copies = Observations.of(fine[again], rule[again])
    np.testing.assert_array_equal(copies.held_out_weight, copies.weight)
    assert copies.weight.max() > 1.0
    # equal rows that disagree are no copies
    noisy = Observations.of(fine[again], rng.normal(size=(200, 1)))
    np.testing.assert_allclose(noisy.held_out_weight, 1.0)
    some = noisy.subset(np.arange(0, len(noisy), 2))
    np.testing.assert_allclose(
        some.y[:, 0], np.bincount(some.group, weights=some.row_y[:, 0]) / np.bincount(some.group)
    )


def test_a_rule_over_few_values_is_remembered():
    """Most rows of such a table were seen before: leaving all equal ones out says that nothing
    helps, and all becomes noise.
    """
    X = np.random.default_rng(0).integers(0, 2, size=(600, 7)).astype(float)
    y = X.sum(axis=1) == 3
    model = MaxoutGPClassifier(random_state=0).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.85  # 0.73 is chance


@pytest.mark.parametrize("change", ["bootstrap", "two rows of weight two", "all of weight ten"])
def test_copies_do_not_vouch_for_each_other(change):
    """A copy predicts its original perfectly: choosing must not take that for a world without
    noise.
    """
    X, y = load_diabetes(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    train, test = order[:300], order[300:]
    weight = np.ones(300)
    if change == "bootstrap":
        train = rng.choice(train, 300)
    elif change == "two rows of weight two":
        weight[:2] = 2.0
    else:
        weight[:] = 10.0
    plain = MaxoutGPRegressor(random_state=0, max_trials=8).fit(X[order[:300]], y[order[:300]])
    model = MaxoutGPRegressor(random_state=0, max_trials=8).fit(
        X[train], y[train], sample_weight=weight
    )
    assert 0.3 < model.noise_var_ / np.median(weight) / plain.noise_var_ < 3.0
    assert model.score(X[test], y[test]) > plain.score(X[test], y[test]) - 0.1
    X, y = load_breast_cancer(return_X_y=True)
    order = rng.permutation(len(X))
    train, test = order[:300], order[300:]
    train = rng.choice(train, 300) if change == "bootstrap" else train
    classifier = MaxoutGPClassifier(random_state=0, max_trials=8).fit(
        X[train], y[train], sample_weight=weight
    )
    assert log_loss(y[test], classifier.predict_proba(X[test])) < 0.2


def test_one_class():
    X = np.random.default_rng(0).normal(size=(10, 2))
    model = MaxoutGPClassifier().fit(X, ["only"] * 10)
    assert set(model.predict(X)) == {"only"}
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((10, 1)))
    assert model.loo_.accuracy == 1.0


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_few_samples(n):
    X, y = np.arange(2.0 * n).reshape(n, 2), np.arange(n, dtype=float)

    def few():
        text = f"X has only {n} distinct row.* no kernel can be chosen"
        return pytest.warns(AccuracyWarning, match=text) if n < 4 else contextlib.nullcontext()

    with (
        few(),
        pytest.warns(AccuracyWarning, match="all targets are the same")
        if n == 1
        else contextlib.nullcontext(),
    ):
        model = MaxoutGPRegressor().fit(X, y)
    mean, deviation = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(deviation).all()
    assert np.abs(mean - y).max() <= n
    with few():
        classifier = MaxoutGPClassifier().fit(X, y > 0)
    assert np.isfinite(classifier.predict_proba(X)).all()
    assert np.isfinite(classifier.loo_.log_loss)


def test_targets_of_any_scale():
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    y = np.sin(3.0 * X[:, 0])
    plain = (
        MaxoutGPRegressor(random_state=0, max_trials=4).fit(X, y).predict(X[:5], return_std=True)
    )
    for scale in (1e140, 1e-140):
        scaled = (
            MaxoutGPRegressor(random_state=0, max_trials=4)
            .fit(X, scale * y)
            .predict(X[:5], return_std=True)
        )
        np.testing.assert_allclose(np.array(scaled) / scale, plain, rtol=1e-6)
    with pytest.raises(InputError, match=r"y must be below 1e\+150, .* got \d\.\de\+200"):
        MaxoutGPRegressor().fit(X, y / y[0] * 1e200)
    with pytest.warns(AccuracyWarning, match="all targets are the same"):
        model = MaxoutGPRegressor().fit(X, np.full(40, 1e6))
    np.testing.assert_allclose(model.predict(X), 1e6)


@pytest.mark.parametrize(
    ("name", "value"), [("random_state", -1), ("random_state", "a"), ("progress", "x")]
)
def test_parameters_that_are_not_of_the_kernel(name, value):
    with pytest.raises(InputError, match=f"{name} must be"):
        MaxoutGPRegressor(**{name: value}).fit(np.eye(5), np.arange(5.0))


def test_a_label_with_one_member():
    X, y = load_iris(return_X_y=True)
    keep = np.concatenate([np.arange(100), [120]])
    model = MaxoutGPClassifier(random_state=0, max_trials=6).fit(X[keep], y[keep])
    assert model.predict_proba(X).shape == (150, 3)
    assert model.score(X[:100], y[:100]) > 0.95


def test_constant_columns_and_targets(wave):
    X, y, new = wave
    wide, wide_new = (
        np.column_stack([part, np.full(len(part), 0.1), np.zeros(len(part))]) for part in (X, new)
    )
    # The kernel sees |x|²/d: two more columns, of zeros, are another scale of the inputs and
    # nothing else.
    assert np.isfinite(
        MaxoutGPRegressor(random_state=0, max_trials=4).fit(wide, y).predict(wide_new)
    ).all()
    with pytest.warns(AccuracyWarning, match="X has only 1 distinct row, "):
        nothing = MaxoutGPRegressor(random_state=0).fit(np.full((20, 3), 7.0), np.arange(20.0))
    np.testing.assert_allclose(nothing.predict([[7.0, 7.0, 7.0]]), [9.5], atol=1e-6)
    with pytest.warns(AccuracyWarning, match="all targets are the same"):
        flat = MaxoutGPRegressor(random_state=0, max_trials=4).fit(X, np.full(len(X), 3.0))
    np.testing.assert_allclose(flat.predict(new), 3.0, atol=1e-6)
    assert np.isfinite(flat.predict(new, return_std=True)[1]).all()


@pytest.mark.parametrize("scale", [1e6, 1e-6, 1e150, 1e-150])
def test_the_columns_units_do_not_matter(wave, scale):
    X, y, new = wave
    factors = np.array([scale, 1.0])
    plain = MaxoutGPRegressor(random_state=0, max_trials=6).fit(X, y)
    scaled = MaxoutGPRegressor(random_state=0, max_trials=6).fit(X * factors, y)
    np.testing.assert_allclose(
        scaled.predict(new * factors), plain.predict(new), rtol=1e-4, atol=1e-5
    )
    units = MaxoutGPRegressor(random_state=0, max_trials=6).fit(X, 1e6 * y - 3e7)
    np.testing.assert_allclose(units.predict(new), 1e6 * plain.predict(new) - 3e7, rtol=1e-6)


def test_more_columns_than_rows_and_one_column():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 400))
    y = X[:, 0] > 0.0
    model = MaxoutGPClassifier(random_state=0, max_trials=6).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    line = np.linspace(-3.0, 3.0, 80)[:, None]
    curve = MaxoutGPRegressor(random_state=0).fit(line, np.sin(2.0 * line[:, 0]))
    assert curve.score(line + 0.02, np.sin(2.0 * line[:, 0] + 0.04)) > 0.99


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 0}, "depth must be a positive integer"),
        ({"rank": 1.5}, "rank must be a positive integer"),
        ({"weight_var": -1.0}, "weight_var must be a finite number above 0"),
        (
            {"weight_var": [1.0, 1.0]},
            "weight_var has a value for each layer, so depth must be given, too",
        ),
        ({"bias_var": "big"}, "bias_var must be a number or a sequence"),
        ({"kind": "cnn"}, "kind must be one of 'nngp', 'ntk', got 'cnn'"),
        (
            {"noise_var": -1.0},
            r"noise_var must be a finite number at least 0 and at most 1e\+200, "
            r"got -1.0",
        ),
        (
            {"signal_var": 0.0},
            r"signal_var must be a finite number above 0 and at most 1e\+200, "
            r"got 0.0",
        ),
        (
            {"normalize": "rows"},
            r"normalize must be 'standard' \(columns\), 'sphere' \(rows\) or "
            r"None, got 'rows'",
        ),
        ({"dtype": "float16"}, "dtype must be 'float64' or 'float32'"),
        ({"max_trials": 0}, "max_trials must be a positive integer"),
    ],
)
def test_bad_parameters(arguments, message):
    for estimator in (MaxoutGPRegressor, MaxoutGPClassifier):
        with pytest.raises(InputError, match=message):
            estimator(**arguments).fit(np.eye(4), [0, 1, 0, 1])


def test_bad_data(wave):
    X, y, new = wave
    model = MaxoutGPRegressor(**FIXED)
    with pytest.raises(TypeError, match=r"Sparse data was passed.*dense"):
        model.fit(scipy.sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(np.where(X > 1.9, np.nan, X), y)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[60, 59\]"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match=r"at least one non-zero number|above 0 for one row"):
        model.fit(X, y, sample_weight=np.zeros(60))
    with pytest.raises(ValueError, match="Negative values in data"):
        model.fit(X, y, sample_weight=-np.ones(60))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict(new)
    with pytest.raises(NotFittedError):
        model.save("nowhere.mnngp")
    with pytest.raises(ValueError, match="Unknown label type"):
        MaxoutGPClassifier().fit(X, y)
    model.fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features"):
        model.predict(np.ones((2, 3)))
    with pytest.raises(InputError, match="at most one of return_std and return_cov"):
        model.predict(new, return_std=True, return_cov=True)


def test_a_progress_bar_when_asked_for(wave, capsys):
    X, y, _ = wave
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        MaxoutGPRegressor(progress=True, max_trials=3).fit(X, y)
    assert "MaxoutGPRegressor: conditioning" in capsys.readouterr().err
    MaxoutGPRegressor(max_trials=3).fit(X, y)
    assert capsys.readouterr().err == ""
