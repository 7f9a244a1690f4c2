"""Data that are not nice, and arguments that are wrong: few rows, equal rows, any scale."""

import contextlib
import warnings

import numpy as np
import pytest
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_iris,
    load_wine,
)
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

from mnngp import MaxoutGPClassifier, MaxoutGPRegressor
from mnngp.errors import AccuracyWarning, InputError
from mnngp.inference.observations import Observations

FIXED = {"depth": 3, "rank": 4, "weight_var": 0.9, "bias_var": 0.2, "kind": "nngp"}


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
