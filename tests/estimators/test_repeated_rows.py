"""Rows that repeat tell the noise by themselves: the regressor's noise, intervals, evidence and
choice with few distinct rows.
"""

import contextlib
import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mnngp import MaxoutGPRegressor, MaxoutKernel
from mnngp.errors import AccuracyWarning, InputError, UnavailableError
from mnngp.inference import choice
from mnngp.inference.observations import Observations

ROWS, NEW = 400, 4000
FIXED = {"depth": 3, "rank": 4, "weight_var": 0.9, "bias_var": 0.2, "kind": "nngp"}


def function(X, targets=1):
    return np.sin(2.0 * X) @ np.array([[1.0, 2.0, 0.5]])[:, :targets]


def sampled(distinct, seed, *, weighted=False, targets=1):
    """Rows with so many distinct values of a column (None: all are), noise of variance one divided
    by the weight, and new rows.
    """
    rng = np.random.default_rng(seed)
    values = rng.uniform(-2.0, 2.0, size=(distinct or ROWS, 1))
    X = values if distinct is None else values[rng.integers(0, distinct, ROWS)]
    new = (
        rng.uniform(-2.0, 2.0, size=(NEW, 1))
        if distinct is None
        else values[rng.integers(0, distinct, NEW)]
    )
    weight = rng.uniform(0.5, 2.0, ROWS) if weighted else None
    noise = rng.normal(size=(ROWS, targets)) / np.sqrt(1.0 if weight is None else weight)[..., None]
    observed = function(new, targets) + rng.normal(size=(NEW, targets))
    return X, function(X, targets) + noise, weight, noise, new, observed


@contextlib.contextmanager
def told_if_few(distinct):
    if distinct is None or distinct >= choice.FEW:
        yield
        return
    with pytest.warns(
        AccuracyWarning,
        match=f"X has only {distinct} distinct row.* no kernel can be chosen: .* is a guess",
    ):
        yield


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("distinct", [1, 2, 3, 5, 10, 50, None])
def test_noise_and_coverage(distinct, weighted):
    """The variance of 400 draws is itself uncertain by 7 %: each noise is held to that of its own
    draws, and their mean to one.
    """
    noises = []
    for seed in range(4):
        X, y, weight, noise, new, observed = sampled(distinct, seed, weighted=weighted)
        with told_if_few(distinct):
            model = MaxoutGPRegressor(random_state=0, max_trials=10).fit(
                X, y[:, 0], sample_weight=weight
            )
        drawn = float(np.mean(noise[:, 0] ** 2 * (1.0 if weight is None else weight)))
        assert model.noise_var_ == pytest.approx(drawn, rel=0.15)
        noises.append(model.noise_var_)
        mean, deviation = model.predict(new, return_std=True, include_noise=True)
        assert 0.92 <= np.mean(np.abs(observed[:, 0] - mean) < 1.96 * deviation) <= 0.975
        inside = np.abs(y[:, 0] - model.loo_.mean) < 1.96 * model.loo_.std
        assert 0.92 <= np.mean(inside) <= 0.98
    assert np.mean(noises) == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("distinct", [2, 10, None])
def test_each_target_has_its_own_noise(distinct):
    """Of three targets whose signals differ, and of one whose unit does. (They had one scale for
    all: 1.7 and 0.7 for 1.)
    """
    X, y, _, noise, new, observed = sampled(distinct, 0, targets=3)
    units = np.array([1.0, 1.0, 1e5])
    with told_if_few(distinct):
        model = MaxoutGPRegressor(random_state=0, max_trials=10).fit(X, y * units)
    np.testing.assert_allclose(model.noise_var_ / units**2, np.mean(noise**2, axis=0), rtol=0.15)
    mean, deviation = model.predict(new, return_std=True, include_noise=True)
    inside = np.mean(np.abs(observed * units - mean) < 1.96 * deviation, axis=0)
    assert inside.min() >= 0.92
    assert inside.max() <= 0.975


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_size_of_the_weights_is_the_size_of_the_noise(size):
    """Noise is relative to a weight of one: weights that are all a million must not leave the range
    that is searched.
    """
    X, y, weight, *_, new, _ = sampled(50, 1, weighted=True)
    plain = MaxoutGPRegressor(random_state=0, max_trials=6).fit(X, y[:, 0], sample_weight=weight)
    scaled = MaxoutGPRegressor(random_state=0, max_trials=6).fit(
        X, y[:, 0], sample_weight=size * weight
    )
    assert scaled.noise_var_ / size == pytest.approx(plain.noise_var_, rel=1e-6)
    np.testing.assert_allclose(scaled.predict(new), plain.predict(new), rtol=1e-6)


def test_the_objective_is_the_density_of_what_was_seen():
    """Of the places' means, each by the others, by conditioning plainly; and of the rows about
    them, with nothing merged.
    """
    X, y, weight, *_ = sampled(6, 2, weighted=True)
    X, y, weight = X[:40], y[:40], weight[:40]
    data, noise, signal = Observations.of(X, y, weight), 0.7, 1.3
    kernel = MaxoutKernel(**FIXED)
    covariance = signal * kernel(data.X) + np.diag(noise / data.weight)
    inverse = np.linalg.inv(covariance)
    log_density, total = 0.0, 0.0
    for place in range(len(data)):
        rest = np.arange(len(data)) != place
        gain = covariance[place, rest] @ np.linalg.inv(covariance[np.ix_(rest, rest)])
        mean, variance = (
            gain @ data.y[rest, 0],
            covariance[place, place] - gain @ covariance[rest, place],
        )
        of_mean = multivariate_normal(mean, variance).logpdf(data.y[place, 0]) + 0.5 * np.log(
            2.0 * np.pi
        )
        rows = data.group == place
        # Given their mean, rows are Gaussian in one dimension less; what does not depend on the
        # noise drops out.
        about = -0.5 * np.sum(weight[rows] * (y[rows, 0] - data.y[place, 0]) ** 2) / noise - 0.5 * (
            rows.sum() - 1
        ) * np.log(noise)
        share = data.weight[place] / rows.sum()  # the weight of an observation
        log_density, total = log_density + share * (of_mean + about), total + share * rows.sum()
    objective = choice.Objective(True, noise_var=noise, signal_var=signal)
    alpha, precision = signal * inverse @ data.y, signal * np.diag(inverse)  # for a signal of one
    assert objective.score(alpha, precision, noise / signal, data) == pytest.approx(
        log_density / total, rel=1e-10
    )
    free = [
        choice.Objective(True, signal_var=c).score(alpha, precision, noise / signal, data)
        for c in np.geomspace(0.1, 10.0, 2001)
    ]
    assert choice.Objective(True).score(alpha, precision, noise / signal, data) == pytest.approx(
        max(free) + 0.5, abs=1e-5
    )


def test_the_evidence_is_that_of_the_rows():
    X, y, weight, *_ = sampled(5, 3, weighted=True)
    model = MaxoutGPRegressor(**FIXED, noise_var=0.8, normalize=None).fit(
        X, y[:, 0], sample_weight=weight
    )
    covariance = MaxoutKernel(**FIXED)(X) + np.diag(0.8 / weight)
    assert model.log_marginal_likelihood_ == pytest.approx(
        multivariate_normal(cov=covariance).logpdf(y[:, 0]), rel=1e-9
    )


def test_a_given_signal_fixes_the_scale_of_the_noise():
    """Only the noise is left to choose, and it is an amount, not a ratio to a scale that is found
    as well.
    """
    X, y, *_ = sampled(None, 4)
    for signal in (1.0, 30.0):
        model = MaxoutGPRegressor(**FIXED, signal_var=signal, random_state=0).fit(X, y[:, 0])
        assert model.signal_var_ == signal
        assert model.noise_var_ == pytest.approx(1.0, rel=0.35)  # steps of 1.8


def test_copies_are_no_evidence_of_little_noise():
    X, y, *_ = sampled(None, 5)
    once = MaxoutGPRegressor(random_state=0, max_trials=6).fit(X[:150], y[:150, 0])
    twice = MaxoutGPRegressor(random_state=0, max_trials=6).fit(
        np.repeat(X[:150], 2, axis=0), np.repeat(y[:150, 0], 2)
    )
    # of an observation of weight two, half of it
    assert twice.noise_var_ == pytest.approx(2.0 * once.noise_var_, rel=1e-6)
    assert twice.kernel_ == once.kernel_


def test_no_noise_cannot_explain_rows_that_disagree():
    X, y = np.array([[0.0], [1.0], [2.0], [1.0], [3.0]]), np.array([1.0, 2.0, 3.0, 2.5, 4.0])
    with pytest.raises(
        InputError, match="noise_var is 0, but rows 1 and 3 of X are equal and their targets differ"
    ):
        MaxoutGPRegressor(**FIXED, noise_var=0.0).fit(X, y)
    y[3] = y[1]
    agreeing = MaxoutGPRegressor(**FIXED, noise_var=0.0, normalize=None).fit(X, y)
    assert np.isfinite(agreeing.log_marginal_likelihood_)
    once = MaxoutGPRegressor(**FIXED, noise_var=0.0, normalize=None).fit(
        np.delete(X, 3, axis=0), np.delete(y, 3)
    )
    assert agreeing.log_marginal_likelihood_ == pytest.approx(
        once.log_marginal_likelihood_, rel=1e-10
    )


def test_a_classifier_without_noise_has_no_evidence_for_labels_that_disagree():
    from mnngp import MaxoutGPClassifier

    X, y = np.array([[0.0], [1.0], [2.0], [1.0], [3.0]]), np.array([0, 1, 0, 0, 1])
    model = MaxoutGPClassifier(**FIXED, noise_var=0.0).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    with pytest.raises(UnavailableError, match="noise_var is 0, but rows 1 and 3 of X are equal"):
        _ = model.log_marginal_likelihood_


def test_one_row_many_times_predicts_itself():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        model = MaxoutGPRegressor().fit(np.zeros((50, 3)), np.arange(50.0))
    mean, deviation = model.predict(np.zeros((1, 3)), return_std=True, include_noise=True)
    assert mean[0] == pytest.approx(24.5)
    assert deviation[0] == pytest.approx(np.std(np.arange(50.0), ddof=1), rel=0.05)


@pytest.mark.parametrize("case", ["line", "ten", "fifty"])
def test_noise_far_below_the_signal(case):
    """The scale is that of leave-one-out, which chose the noise: by the evidence it was 1.6, 1.2
    and 2.4 times too large here.
    """
    rng = np.random.default_rng(0)

    def table(n):
        X = (
            rng.normal(size=(n, 5))
            if case == "line"
            else rng.integers(0, {"ten": 10, "fifty": 50}[case], size=(n, 1)).astype(float)
        )
        return X, X.sum(axis=1) + 0.1 * rng.normal(size=n)

    X, y = table(400)
    model = MaxoutGPRegressor(random_state=0, max_trials=12).fit(X, y)
    # three standard errors of a variance from 400 rows are 0.21 of it
    assert model.noise_var_ == pytest.approx(0.01, rel=0.21)
    new, observed = table(NEW)
    mean, deviation = model.predict(new, return_std=True, include_noise=True)
    assert 0.92 <= np.mean(np.abs(observed - mean) < 1.96 * deviation) <= 0.975


def test_a_target_that_is_constant_says_nothing_of_the_others():
    X, y, *_ = sampled(None, 6)
    alone = MaxoutGPRegressor(random_state=0, max_trials=6).fit(X, y[:, 0])
    with pytest.warns(
        AccuracyWarning,
        match=r"all targets are the same \(of y\[:, 1\]\), so their "
        r"scale is not known",
    ):
        beside = MaxoutGPRegressor(random_state=0, max_trials=6).fit(
            X, np.column_stack([y, np.full(ROWS, 1.0 / 3.0)])
        )
    assert beside.noise_var_[0] == pytest.approx(alone.noise_var_, rel=1e-9)
    np.testing.assert_allclose(beside.predict(X)[:, 1], 1.0 / 3.0, rtol=1e-12)


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-5])
def test_a_given_noise_with_weights_of_any_size(size):
    """Weights of 1/σ² and a noise of one: in whatever unit y is."""
    X, y, *_, new, _ = sampled(None, 7)
    plain = MaxoutGPRegressor(noise_var=1.0, random_state=0, max_trials=6).fit(X, y[:, 0])
    weight = np.full(ROWS, size**-2)
    scaled = MaxoutGPRegressor(noise_var=1.0, random_state=0, max_trials=6).fit(
        X, size * y[:, 0], sample_weight=weight
    )
    np.testing.assert_allclose(scaled.predict(new) / size, plain.predict(new), rtol=1e-6)


def test_copies_among_replicates_are_no_observations():
    """A row that was given twice beside rows that were measured twice; and labels of doubled rows,
    in one or two columns.
    """
    X, y, *_ = sampled(None, 8)
    X, y = (
        np.concatenate([X, X[50:], X[:40]]),
        np.concatenate([y[:, 0], y[50:, 0], y[:40, 0] + np.random.default_rng(0).normal(size=40)]),
    )
    data = Observations.of(X, y[:, None])
    assert data.repeats.sum() == 40
    for columns in (1, 2):
        X = np.random.default_rng(1).normal(size=(150, columns))
        label = (X[:, :1] + 0.7 * np.random.default_rng(2).normal(size=(150, 1)) > 0.0).astype(
            float
        )
        assert Observations.of(np.tile(X, (2, 1)), np.tile(label, (2, 1))).repeats.sum() == 0
    X = np.random.default_rng(3).integers(0, 4, size=(200, 2)).astype(float)
    # few rows are possible
    assert Observations.of(X, (X[:, :1] > 1.0).astype(float)).repeats.sum() == 200 - 16


def test_large_offsets_are_no_agreement():
    """Epoch milliseconds: targets that differ by 1e-12 of their size do differ; those that are the
    same do not conflict.
    """
    X = np.repeat(np.arange(40.0)[:, None], 3, axis=0)
    y = 1.7e12 + np.round(np.random.default_rng(0).normal(size=120))
    assert Observations.of(X, y[:, None]).repeats.sum() > 40
    same = MaxoutGPRegressor(noise_var=0.0, max_trials=2).fit(X, 1e9 + np.sin(X[:, 0]))
    assert np.isfinite(same.log_marginal_likelihood_)
