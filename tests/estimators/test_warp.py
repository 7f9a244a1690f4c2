"""Targets that are warped: moments in closed form, densities with the slope, the choice by data."""

import numpy as np
import pytest
from scipy import stats

import mnngp
from mnngp import MaxoutGPRegressor
from mnngp.errors import InputError, ModelFileError
from mnngp.estimators import warp_choice
from mnngp.estimators.warp import Arcsinh, Identity, Log, from_dicts
from mnngp.inference.choice import trial_of
from mnngp.inference.observations import Observations
from mnngp.inference.scoring import Objective, Spectrum
from mnngp.inference.search_space import MaxoutSpace
from tests.estimators.model_files import rewrite

GIVEN = {"depth": 2, "rank": 3, "weight_var": 0.8, "bias_var": 0.2, "kind": "nngp"}
WARPS = [Log(0.0), Log(-0.7), Arcsinh(0.3, 2.0)]


def lognormal(n, seed=0, noise=0.4):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    return X, np.exp(np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + noise * rng.normal(size=n))


# --- one warp -------------------------------------------------------------------------------------


@pytest.mark.parametrize("warp", WARPS)
def test_there_and_back_and_the_slope(warp):
    z = np.linspace(-3.0, 3.0, 31)
    y = warp.inverse(z)
    np.testing.assert_allclose(warp(y), z, atol=1e-14)
    step = 1e-6
    slope = (warp(y + step) - warp(y - step)) / (2.0 * step)
    np.testing.assert_allclose(warp.log_slope(z), np.log(slope), atol=1e-7)
    assert from_dicts([warp.as_dict()]) == (warp,)


def test_a_lognormal_variable_is_scipys():
    mean, variance = np.array([-1.0, 0.0, 2.0]), np.array([0.01, 0.5, 1.5])
    known = stats.lognorm(s=np.sqrt(variance), scale=np.exp(mean))
    np.testing.assert_allclose(Log().mean(mean, variance), known.mean(), rtol=1e-14)
    np.testing.assert_allclose(Log().std((mean, variance), variance), known.std(), rtol=1e-13)
    levels = np.array([0.05, 0.5, 0.95])
    gaussian = stats.norm(mean, np.sqrt(variance)).ppf(levels[:, None])
    np.testing.assert_allclose(Log().inverse(gaussian), known.ppf(levels[:, None]), rtol=1e-12)


@pytest.mark.parametrize("warp", WARPS)
def test_moments_are_those_of_draws(warp):
    """Within four standard errors of 400,000 draws, function and observation alike."""
    rng = np.random.default_rng(1)
    mean, noise = np.array([0.4, -0.6]), 0.2
    common = np.array([[0.3, -0.15], [-0.15, 0.2]])
    total = np.diag(common) + noise
    f = rng.multivariate_normal(mean, common, size=400_000)
    y = warp.inverse(f + np.sqrt(noise) * rng.normal(size=f.shape))
    function = warp.mean(f, np.full((1, 1), noise))  # the mean of y, given f

    def close(values, expected):
        error = 4.0 * values.std(axis=0) / np.sqrt(len(values))
        np.testing.assert_array_less(np.abs(values.mean(axis=0) - expected), error)

    expected = warp.mean(mean, total)
    close(y, expected)
    close(function, expected)
    left, right = (mean[:, None], total[:, None]), (mean, total)
    centred = function - expected
    found = warp.covariance(left, right, common)
    close(centred[:, :, None] * centred[:, None, :], found)
    close((y - expected) ** 2, np.diag(warp.covariance(left, right, common + noise * np.eye(2))))
    np.testing.assert_allclose(
        warp.std((mean, total), np.diag(common)), np.sqrt(np.diag(found)), rtol=1e-13
    )
    np.testing.assert_allclose(found, found.T, rtol=1e-13)


@pytest.mark.parametrize("warp", [*WARPS, Arcsinh(1e150, 1e150)])
def test_nothing_overflows(warp):
    mean, variance = np.array([0.0, 3.0, 1e4, 50.0]), np.array([0.0, 1e4, 1.0, 1e9])
    with np.errstate(over="raise", invalid="raise"):
        values = [
            warp.mean(mean, variance),
            warp.std((mean, variance), variance),
            warp.covariance((mean[:, None], variance[:, None]), (mean, variance), -np.eye(4)),
            warp.inverse(np.array([-1e5, 1e5])),
        ]
    for value in values:
        assert np.isfinite(value).all()


def test_small_variances_keep_their_digits():
    """The covariance of nearly certain functions: the slopes' product times that of z."""
    mean, tiny = np.array(0.7), np.array(1e-18)
    zero = np.zeros(())
    for warp in WARPS:
        slope = np.exp(-warp.log_slope(mean))
        np.testing.assert_allclose(warp.std((mean, zero), tiny), slope * 1e-9, rtol=1e-12)


def test_what_is_learned():
    y = np.array([4.0, 0.5, 2.0])
    assert Log.of(y) == Log(0.0)
    assert Log.of(np.append(y, 0.0)) == Log(-0.25)  # half of the smallest that is above zero
    assert repr(Log.of(y)) == "Log(shift=0.0)"
    gaussian = np.random.default_rng(0).normal(3.0, 2.0, size=20_000)
    found = Arcsinh.of(gaussian)
    np.testing.assert_allclose([found.center, found.scale], [3.0, 2.0], rtol=0.03)
    assert Arcsinh.of(np.full(5, 2.0)) == Arcsinh(2.0, 1.0)
    assert Arcsinh.of(np.array([0.0] * 9 + [1.0])).scale == pytest.approx(0.3)


# --- in the regressor -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["log", "arcsinh"])
def test_predictions_are_those_of_a_process_of_warped_targets(name):
    X, y = lognormal(60)
    new = X[:5] + 0.3
    model = MaxoutGPRegressor(**GIVEN, noise_var=0.1, signal_var=0.7, warp=name).fit(X, y)
    warp = model.warp_
    plain = MaxoutGPRegressor(**GIVEN, noise_var=0.1, signal_var=0.7, warp=None).fit(X, warp(y))
    mean, covariance = plain.predict(new, return_cov=True)
    total = np.diag(covariance) + 0.1
    np.testing.assert_allclose(model.predict(new), warp.mean(mean, total), rtol=1e-10)
    for include_noise in (False, True):
        common = covariance + 0.1 * include_noise * np.eye(5)
        found, matrix = model.predict(new, return_cov=True, include_noise=include_noise)
        std = model.predict(new, return_std=True, include_noise=include_noise)[1]
        np.testing.assert_allclose(found, model.predict(new), rtol=1e-10)
        expected = warp.covariance((mean[:, None], total[:, None]), (mean, total), common)
        np.testing.assert_allclose(matrix, expected, rtol=1e-9)
        np.testing.assert_allclose(std, np.sqrt(np.diag(matrix)), rtol=1e-9)
    levels = [0.9, 0.5, 0.025]
    expected = warp.inverse(mean[:, None] + np.sqrt(total)[:, None] * stats.norm.ppf(levels))
    np.testing.assert_allclose(model.predict_quantiles(new, levels), expected, rtol=1e-10)
    drawn = model.sample_y(new, 20_000)
    found, std = model.predict(new, return_std=True)
    error = 4.0 * drawn.std(axis=1) / np.sqrt(20_000)
    np.testing.assert_array_less(np.abs(drawn.mean(axis=1) - found), error)
    np.testing.assert_allclose(drawn.std(axis=1), std, rtol=0.1)
    evidence = plain.log_marginal_likelihood_ + warp.log_slope(warp(y)).sum()
    assert model.log_marginal_likelihood_ == pytest.approx(evidence, rel=1e-10)


@pytest.mark.parametrize("name", ["log", "arcsinh"])
def test_leave_one_out_is_refitting(name):
    """With everything given, but the warp: that is learned from all rows, so it is put in again."""
    X, y = lognormal(40)
    X[1], weight = X[0], np.ones(40)  # two rows at one input, and one that counts twice
    weight[2] = 2.0
    fixed = {**GIVEN, "noise_var": 0.1, "signal_var": 0.7, "normalize": None}
    model = MaxoutGPRegressor(**fixed, warp=name).fit(X, y, weight)
    warp, loo = model.warp_, model.loo_
    for row in (0, 2, 3, 17):
        rest = np.arange(40) != row
        plain = MaxoutGPRegressor(**fixed, warp=None).fit(X[rest], warp(y[rest]), weight[rest])
        mean, std = plain.predict(X[[row]], return_std=True)
        total = std**2 + 0.1 / weight[row]
        slope = warp.log_slope(warp(y[row]))
        density = stats.norm(mean, np.sqrt(total)).logpdf(warp(y[row])) + slope
        assert loo.log_density[row] == pytest.approx(float(density[0]), rel=1e-8)
        np.testing.assert_allclose(loo.mean[row], warp.mean(mean, total), rtol=1e-8)
        np.testing.assert_allclose(loo.std[row], warp.std((mean, total), total), rtol=1e-8)
    error = np.average((y - loo.mean) ** 2, weights=weight)
    assert loo.rmse == pytest.approx(np.sqrt(error))
    around = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
    assert loo.r2 == pytest.approx(1.0 - error / around)


def test_quantiles_hold_what_they_promise():
    """Of 600 new observations; within four deviations of the binomial distribution."""
    X, y = lognormal(800, seed=3)
    model = MaxoutGPRegressor(max_trials=4, random_state=0).fit(X[:200], y[:200])
    assert model.warp_ == Log(0.0)
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    found = model.predict_quantiles(X[200:], levels)
    assert (np.diff(found, axis=1) > 0.0).all()
    assert (found > 0.0).all()
    below = np.mean(y[200:, None] < found, axis=0)
    # 0.03 for what 200 rows do not tell
    bound = 4.0 * np.sqrt(levels * (1.0 - levels) / 600) + 0.03
    np.testing.assert_array_less(np.abs(below - levels), bound)
    # densities of rows are better than those without the warp
    plain = MaxoutGPRegressor(max_trials=4, random_state=0, warp=None).fit(X[:200], y[:200])
    assert model.loo_.log_density.mean() > plain.loo_.log_density.mean() + 0.1
    # means are not medians: they do not fall short of the sum
    assert np.mean(model.predict(X[200:])) == pytest.approx(np.mean(y[200:]), rel=0.1)


def test_means_do_not_leave_the_targets_behind():
    """Where the process goes up and up its exponential would be anything; medians still go."""
    X = np.linspace(0.0, 4.0, 60)[:, None]
    y = np.exp(X[:, 0] + 0.1 * np.random.default_rng(0).normal(size=60))
    model = MaxoutGPRegressor(**GIVEN, warp="log").fit(X, y)
    far = np.array([[12.0], [40.0]])
    np.testing.assert_allclose(model.predict(far), y.max())
    np.testing.assert_allclose(model.predict(far, return_cov=True)[0], y.max())
    assert (model.predict_quantiles(far, [0.5]) > y.max()).all()
    assert np.isfinite(model.predict(far, return_std=True)[1]).all()


def test_several_targets():
    X, y = lognormal(40)
    both = np.column_stack([y, 10.0 * y + 1.0])
    model = MaxoutGPRegressor(**GIVEN, warp="log").fit(X, both)
    assert model.warp_ == (Log(0.0), Log(0.0))
    assert model.predict(X[:3]).shape == (3, 2)
    assert model.predict_quantiles(X[:3]).shape == (3, 2, 3)
    assert model.sample_y(X[:3], 4).shape == (3, 2, 4)
    mean, covariance = model.predict(X[:3], return_cov=True)
    assert covariance.shape == (3, 3, 2)
    np.testing.assert_allclose(mean, model.predict(X[:3]))
    assert model.loo_.log_density.shape == (40, 2)
    as_given = MaxoutGPRegressor(**GIVEN).fit(X, both)
    assert as_given.warp_ == Identity()
    column = MaxoutGPRegressor(**GIVEN, warp="arcsinh").fit(X, y[:, None])
    assert column.predict_quantiles(X[:3], [0.5]).shape == (3, 1, 1)
    assert isinstance(column.warp_, Arcsinh)


def test_quantiles_without_a_warp(wave):
    X, y, new = wave
    model = MaxoutGPRegressor(**GIVEN, noise_var=0.01).fit(X, y)
    mean, std = model.predict(new, return_std=True, include_noise=True)
    expected = stats.norm(mean[:, None], std[:, None]).ppf([0.05, 0.5, 0.95])
    np.testing.assert_allclose(model.predict_quantiles(new), expected, rtol=1e-12)
    for quantiles in ([], [0.5, 1.0], 0.5, [[0.5]], ["a"], [np.nan]):
        with pytest.raises(InputError, match="quantiles must be a sequence of numbers above 0 and"):
            model.predict_quantiles(new, quantiles)


def test_zeros_and_rows_of_weight_zero():
    X, y = lognormal(40)
    y[3], weight = -1.0, np.ones(40)
    with pytest.raises(
        InputError, match=r"warp='log' needs targets that are not negative, .* got -1.0 in y;"
    ):
        MaxoutGPRegressor(**GIVEN, warp="log").fit(X, y)
    weight[3] = 0.0
    model = MaxoutGPRegressor(**GIVEN, warp="log").fit(X, y, weight)
    assert np.isfinite(model.predict(X)).all()
    assert np.isnan(model.loo_.mean[3])
    y[3] = 0.0
    model = MaxoutGPRegressor(**GIVEN, warp="log").fit(X, y)
    smallest = y[y > 0.0].min()
    assert model.warp_ == Log(-0.5 * smallest)
    assert model.predict_quantiles(X).min() > -0.5 * smallest


@pytest.mark.parametrize(
    ("warp", "y", "message"),
    [
        ("sqrt", [1.0] * 4, "warp must be 'auto', None, 'log' or 'arcsinh', got 'sqrt'"),
        (Log(0.0), [1.0] * 4, r"warp must be 'auto', .* got Log\(shift=0.0\)"),
        ("log", [0.0] * 4, "not negative, and some above 0, got 0.0 in y"),
        ("log", [[1.0, -2.5], [1.0, 2.0]], r"got -2.5 in y\[:, 1\]"),
    ],
)
def test_what_is_refused(warp, y, message):
    with pytest.raises(InputError, match=message):
        MaxoutGPRegressor(warp=warp).fit(np.arange(float(len(y)))[:, None], y)


# --- the choice -----------------------------------------------------------------------------------


def chosen(X, y):
    data = Observations.of((X - X.mean(axis=0)) / X.std(axis=0), y[:, None])
    return warp_choice.choose(data, MaxoutSpace({}), 0, 1)


def test_gaussian_targets_stay_as_they_are(monkeypatch):
    """Also if they were all to look odd: 100 draws of each, of which 95 at least must."""
    monkeypatch.setattr(warp_choice, "look_odd", lambda y: True)
    kept = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 2))
        y = 10.0 + np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=60)
        kept += chosen(X, y) == Identity()
    assert kept >= 95


def test_targets_with_a_reason_are_warped():
    """Lognormal ones by their logarithm; those of Cauchy's noise, on both sides, by arcsinh."""
    for seed in range(5):
        X, y = lognormal(150, seed)
        assert chosen(X, y) == Log(0.0)
        tails = np.random.default_rng(seed).standard_t(1, size=150)
        assert isinstance(chosen(X, X[:, 0] + 0.5 * tails), Arcsinh)


def test_a_slip_of_the_pen_does_not_widen_all_intervals():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=100)
    y[7] = 50.0
    automatic, none = (
        MaxoutGPRegressor(max_trials=2, random_state=0, warp=warp).fit(X, y)
        for warp in ("auto", None)
    )
    assert isinstance(automatic.warp_, Arcsinh)
    widths = [np.ptp(model.predict_quantiles(X), axis=1) for model in (automatic, none)]
    assert np.median(widths[0]) < 0.5 * np.median(widths[1])


def test_what_looks_odd():
    rng = np.random.default_rng(0)
    assert not warp_choice.look_odd(rng.normal(size=200))
    assert not warp_choice.look_odd(rng.uniform(size=200))
    assert warp_choice.look_odd(np.exp(rng.normal(size=200)))
    assert warp_choice.look_odd(-np.exp(rng.normal(size=200)))
    assert warp_choice.look_odd(rng.standard_t(2, size=200))
    # many zeros have no density, whatever the others are
    assert not warp_choice.look_odd(np.maximum(np.exp(2.0 * rng.normal(size=200)), 0.5))


def test_densities_are_those_of_scoring():
    """Rows that repeat included: their sums are the scores of each target alone."""
    X, y = lognormal(60)
    X[:20] = X[20:40]
    data = Observations.of(X, np.column_stack([y, np.log(y)]))
    data = data.standardized(data.y.mean(axis=0), data.row_y.std(axis=0))
    kernel = MaxoutSpace({}).default()
    points = kernel.prepared("X", kernel.checked("X", data.X))
    found = warp_choice._conditioned(Spectrum.of(kernel, points, data), data)
    for j in (0, 1):
        one = Observations.of(X, data.row_y[:, [j]])
        score = trial_of(kernel, points, one, Objective(density=True)).score
        assert found[:, j].sum() / 60 == pytest.approx(score - 0.5, rel=1e-10)


def test_nothing_changes_where_nothing_is_odd(wave):
    X, y, new = wave
    X, y = np.vstack([X, X + 0.01]), np.append(y, y)
    automatic, none = (
        MaxoutGPRegressor(max_trials=3, random_state=np.random.RandomState(0), warp=warp).fit(X, y)
        for warp in ("auto", None)
    )
    assert automatic.warp_ == none.warp_ == Identity()
    np.testing.assert_array_equal(automatic.predict(new), none.predict(new))
    np.testing.assert_array_equal(automatic.loo_.std, none.loo_.std)
    assert automatic.log_marginal_likelihood_ == none.log_marginal_likelihood_
    assert automatic.loo_.r2 == none.loo_.r2


@pytest.mark.parametrize("given", [{"noise_var": 0.1}, {"signal_var": 1.0}])
def test_scales_that_are_given_are_of_the_targets_themselves(given):
    X, y = lognormal(80)
    assert MaxoutGPRegressor(**GIVEN, **given).fit(X, y).warp_ == Identity()


# --- files ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    X, y = lognormal(60)
    return MaxoutGPRegressor(max_trials=2, random_state=0, warp="arcsinh").fit(X, y)


def test_round_trip(model, tmp_path):
    X, _ = lognormal(60)
    model.save(tmp_path / "m")
    again = mnngp.load(tmp_path / "m")
    assert again.warp_ == model.warp_
    assert again.warp == "arcsinh"
    np.testing.assert_array_equal(again.predict_quantiles(X), model.predict_quantiles(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.log_marginal_likelihood_ == model.log_marginal_likelihood_

    def older(header, members):
        del header["warps"]
        del header["parameters"]["warp"]

    rewrite(tmp_path / "m", older)
    assert mnngp.load(tmp_path / "m").warp_ == Identity()


@pytest.mark.parametrize(
    ("warps", "message"),
    [
        ({}, "warps must be a list, got {}"),
        ([1], r"warps\[0\] must have a name \(identity, log, arcsinh\) and its numbers, got 1"),
        ([{"name": ["log"], "shift": 0.0}], r"warps\[0\] must have a name"),
        ([{"name": "log"}], r"warps\[0\] must have a name"),
        ([{"name": "log", "shift": 0.0, "more": 1}], r"warps\[0\] must have a name"),
        ([{"name": "log", "shift": "0"}], r"warps\[0\].shift must be a finite number"),
        ([{"name": "log", "shift": 1e200}], r"warps\[0\].shift must be a finite number"),
        ([{"name": "log", "shift": True}], r"warps\[0\].shift must be a finite number"),
        ([{"name": "arcsinh", "center": 0.0, "scale": 0.0}], "scale must be a finite number above"),
        ([{"name": "log", "shift": 0.0}] * 2, "warps must be none, or one for each of 1 targets"),
    ],
)
def test_files_that_do_not_fit(model, tmp_path, warps, message):
    model.save(tmp_path / "m")
    rewrite(tmp_path / "m", lambda header, members: header.update(warps=warps))
    with pytest.raises(ModelFileError, match=message):
        mnngp.load(tmp_path / "m")


def test_classes_are_not_warped(small_classifier, tmp_path):
    small_classifier.save(tmp_path / "m")
    entry = [{"name": "log", "shift": 0.0}] * 3
    rewrite(tmp_path / "m", lambda header, members: header.update(warps=entry))
    with pytest.raises(ModelFileError, match="warps must be those of a regressor's targets"):
        mnngp.load(tmp_path / "m")
