"""Posteriors against scikit-learn's and refitting: means, variances, samples, leave-one-out."""

import math
import tracemalloc

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor

from mnngp import MaxoutKernel
from mnngp.errors import InputError
from mnngp.inference import Posterior
from mnngp.inference.solvers import cholesky as cholesky_module
from mnngp.kernels import sphere
from mnngp.kernels.points import Points


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("weight_var", [1.0, 0.05])
def test_posterior_against_scikit_learn(table, kind, weight_var):
    X, y, new = table
    kernel = MaxoutKernel(3, 3, weight_var, 0.3, kind)
    ours, theirs = (
        Posterior(kernel, X, y, 1e-3),
        GaussianProcessRegressor(kernel, alpha=1e-3, optimizer=None).fit(X, y),
    )
    mean, covariance = theirs.predict(new, return_cov=True)
    np.testing.assert_allclose(ours.mean(new), mean, atol=1e-9)
    for result, expected in zip(
        ours.mean_and_covariance(new), (mean, covariance[..., 0]), strict=True
    ):
        np.testing.assert_allclose(result, expected, atol=1e-9)
    np.testing.assert_allclose(
        ours.mean_and_variance(new)[1], np.diag(covariance[..., 0]), atol=1e-9
    )
    assert ours.log_marginal_likelihood() == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-9
    )
    assert (ours.report.contraction < 1e-3) == (kind == "nngp" and weight_var == 0.05)
    one = Posterior(kernel, X, y[:, 1], 1e-3)
    np.testing.assert_allclose(one.mean(new), mean[:, 1], atol=1e-9)


def test_signal_and_noise_of_each_target(table):
    X, y, new = table
    noise = np.random.default_rng(1).uniform(0.01, 0.1, size=len(X))
    ours = Posterior(MaxoutKernel(2, 4), X, y[:, 0], noise, signal_var=3.0)
    from sklearn.gaussian_process.kernels import ConstantKernel

    theirs = GaussianProcessRegressor(
        ConstantKernel(3.0) * MaxoutKernel(2, 4), alpha=noise, optimizer=None
    ).fit(X, y[:, 0])
    mean, deviation = theirs.predict(new, return_std=True)
    np.testing.assert_allclose(ours.mean(new), mean, atol=1e-11)
    np.testing.assert_allclose(np.sqrt(ours.mean_and_variance(new)[1]), deviation, atol=1e-9)
    assert ours.log_marginal_likelihood() == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-11
    )


def test_targets_are_divided_in_place(table):
    X, y, new = table
    units = np.arange(2.0, 2.0 + y.shape[1])
    ours, divided = (
        Posterior(MaxoutKernel(2, 4), X, targets, 0.1, signal_var=3.0) for targets in (y, y / units)
    )
    ours.precision()
    ours.divide_targets(units)
    np.testing.assert_allclose(
        ours.mean_and_variance(new)[1], divided.mean_and_variance(new)[1], rtol=1e-10
    )
    np.testing.assert_allclose(ours.mean(new), divided.mean(new), rtol=1e-10)
    np.testing.assert_allclose(
        ours.leave_one_out().log_density, divided.leave_one_out().log_density, rtol=1e-10
    )
    assert ours.log_marginal_likelihood() == pytest.approx(
        divided.log_marginal_likelihood(), rel=1e-11
    )


@pytest.mark.parametrize(("weight_var", "depth", "noise"), [(1.0, 3, 1e-2), (0.1, 12, 1e-15)])
def test_leave_one_out_is_refitting(table, weight_var, depth, noise):
    """The second is in the ordered phase, with a noise of the size of what is left of the
    signal.
    """
    X, y, _ = table
    kernel = MaxoutKernel(depth, 2, weight_var, 0.3)
    posterior = Posterior(kernel, X, y, noise)
    result = posterior.leave_one_out()
    for i in range(len(X)):
        rest = Posterior(kernel, np.delete(X, i, axis=0), np.delete(y, i, axis=0), noise)
        mean, variance = rest.mean_and_variance(X[i : i + 1])
        np.testing.assert_allclose(result.mean[i], mean[0], rtol=1e-7, atol=1e-9)
        assert result.variance[i] == pytest.approx(variance[0] + noise, rel=1e-7)
    density = -0.5 * (
        (y - result.mean) ** 2 / result.variance[:, None]
        + np.log(2.0 * np.pi * result.variance)[:, None]
    )
    np.testing.assert_allclose(result.log_density, density, rtol=1e-6)
    fresh = Posterior(kernel, X, y, noise)
    np.testing.assert_allclose(
        fresh.precision(np.array([5, 3])), posterior.precision()[[5, 3]], rtol=1e-7
    )


def test_chunks_do_not_matter(table, monkeypatch):
    X, y, new = table
    posterior = Posterior(MaxoutKernel(3, 4), X, y, 1e-2)
    mean, variance = posterior.mean_and_variance(np.tile(new, (10, 1)))
    monkeypatch.setattr(cholesky_module, "_CHUNK", 1)
    monkeypatch.setattr(cholesky_module, "_STEP", 17)
    assert posterior.inverse.chunk_size == 17
    again, other = posterior.mean_and_variance(np.tile(new, (10, 1)))
    np.testing.assert_allclose(again, mean, rtol=1e-12)
    np.testing.assert_allclose(other, variance, rtol=1e-10)
    np.testing.assert_allclose(posterior.mean(np.tile(new, (10, 1))), mean, rtol=1e-12)
    np.testing.assert_allclose(
        posterior.precision(np.arange(len(X))), posterior.precision(), rtol=1e-10
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("keep", [True, False])
def test_prepared_points(table, keep, dtype, monkeypatch):
    """Points instead of arrays, and on a sphere, whose angles may be kept: the same posterior."""
    monkeypatch.setattr(cholesky_module, "_CHUNK", 1)
    monkeypatch.setattr(cholesky_module, "_STEP", 7)
    X, y, new = table
    X, new = (part * 2.0 / np.linalg.norm(part, axis=1, keepdims=True) for part in (X, new))
    kernel = MaxoutKernel(3, 4, dtype=dtype)
    expected = Posterior(kernel, X, y, 1e-2)
    points, others = (Points.of("X", part, np.dtype(dtype)) for part in (X, new))
    ball = sphere.on_sphere(points, sphere.window(others, points), keep=keep)
    for training, asked in ((points, others), (ball, ball.beside(others, keep=keep))):
        ours = Posterior(kernel, training, y, 1e-2)
        assert ours.points is training
        # measured: 2e-14 and 3e-6
        for one, other in zip(
            (ours.mean(asked), *ours.mean_and_variance(asked), *ours.mean_and_covariance(asked)),
            (
                expected.mean(new),
                *expected.mean_and_variance(new),
                *expected.mean_and_covariance(new),
            ),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, atol=1e-11 if dtype == "float64" else 1e-4)


def test_new_points_are_held_one_part_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(100, 2000)), rng.normal(size=(1200, 2000))
    posterior = Posterior(MaxoutKernel(1, 2), X, X[:, 0], 0.1)
    monkeypatch.setattr(cholesky_module, "_CHUNK", 1)
    part = 8 * posterior.inverse.chunk_size * 2000
    tracemalloc.start()
    try:
        posterior.mean(new)
        assert tracemalloc.get_traced_memory()[1] < 1.6 * part  # measured: 1.2, with two threads
    finally:
        tracemalloc.stop()


def test_single_precision(table):
    X, y, new = table
    double, single = (
        Posterior(MaxoutKernel(3, 4, dtype=dtype), X, y, 1e-2) for dtype in ("float64", "float32")
    )
    # measured: 3e-6 and 1e-6
    np.testing.assert_allclose(single.mean(new), double.mean(new), atol=1e-4)
    np.testing.assert_allclose(
        single.mean_and_variance(new)[1], double.mean_and_variance(new)[1], atol=1e-4
    )
    np.testing.assert_allclose(
        single.mean_and_covariance(new)[1], double.mean_and_covariance(new)[1], atol=1e-4
    )
    assert single.inverse.packed.memory.dtype == np.float32


def test_samples_have_the_posterior_moments(table):
    X, y, new = table
    posterior = Posterior(MaxoutKernel(2, 3), X, y, 1e-2)
    mean, covariance = posterior.mean_and_covariance(new[:5])
    drawn = posterior.sample(new[:5], 20_000, seed=0)
    assert drawn.shape == (5, 2, 20_000)
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(drawn.mean(axis=2), mean, atol=5.0 * scale.max() / math.sqrt(20_000))
    for target in range(2):
        np.testing.assert_allclose(
            np.cov(drawn[:, target]), covariance, atol=0.05 * scale.max() ** 2
        )
    np.testing.assert_array_equal(drawn, posterior.sample(new[:5], 20_000, seed=0))
    assert Posterior(MaxoutKernel(2, 3), X, y[:, 0], 1e-2).sample(new, 3).shape == (23, 3)


def test_points_without_prior_variance():
    """Without biases the function is zero at zero, whatever was observed there."""
    X = np.array([[0.0, 0.0], [1.0, 0.5], [-1.0, 2.0], [0.3, -0.7]])
    y = np.array([5.0, 1.0, 2.0, 3.0])
    kernel = MaxoutKernel(2, 3, bias_var=0.0)
    ours, theirs = (
        Posterior(kernel, X, y, 0.1),
        GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(X, y),
    )
    new = np.array([[0.0, 0.0], [2.0, 1.0]])
    mean, deviation = theirs.predict(new, return_std=True)
    np.testing.assert_allclose(ours.mean(new), mean, atol=1e-12)
    np.testing.assert_allclose(ours.mean_and_variance(new)[1], deviation**2, atol=1e-12)
    assert ours.log_marginal_likelihood() == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-12
    )
    np.testing.assert_allclose(ours.leave_one_out().mean[0], 0.0, atol=1e-12)


def test_one_point_without_prior_variance_among_many():
    """It is not in the sample that the contraction is chosen from, and an intercept would give it a
    variance.
    """
    X = np.random.default_rng(0).normal(size=(1500, 6))
    X[1] = 0.0
    kernel, y = MaxoutKernel(3, 4, bias_var=0.0), np.sin(X.sum(axis=1))
    ours = Posterior(kernel, X, y, 1e-2)
    assert ours.precision(np.array([1]))[0] == pytest.approx(100.0)
    expected = kernel(X[:3] + 0.1, X) @ np.linalg.solve(kernel(X) + 1e-2 * np.eye(1500), y)
    np.testing.assert_allclose(ours.mean(X[:3] + 0.1), expected, atol=1e-9)


def test_progress_adds_up():
    shares = []
    many = np.random.default_rng(0).normal(size=(488, 4))
    Posterior(MaxoutKernel(3, 4), many, many[:, 0], 0.1, progress=shares.append)
    assert sum(shares) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "rbf"}, "kernel must be a MaxoutKernel or a NetworkKernel, got 'rbf'"),
        ({"X": np.ones(3)}, "X must have 2 dimensions"),
        (
            {"y": np.ones(4)},
            r"y must have shape \(3,\) or \(3, targets\), a row for each row of X, "
            r"got \(4,\)",
        ),
        ({"y": np.array([1.0, np.nan, 2.0])}, "y must be finite, got nan"),
        ({"y": ["a", "b", "c"]}, "y must be numeric"),
        (
            {"noise_var": -1.0},
            r"noise_var must be a finite number at least 0 and at most 1e\+200, "
            r"got -1.0",
        ),
        ({"noise_var": np.ones(2)}, "noise_var must be a number or 3 numbers"),
        (
            {"signal_var": 0.0},
            r"signal_var must be a finite number above 0 and at most 1e\+200, "
            r"got 0.0",
        ),
        ({"policy": "hope"}, "policy must be one of 'relative', 'paper', got 'hope'"),
    ],
)
def test_bad_input(change, message):
    arguments = {
        "kernel": MaxoutKernel(2, 2),
        "X": np.eye(3),
        "y": np.arange(3.0),
        "noise_var": 0.1,
        "signal_var": 1.0,
    }
    with pytest.raises(InputError, match=message):
        Posterior(**{**arguments, **change})
    posterior = Posterior(**arguments)
    with pytest.raises(InputError, match="X must have 3 columns"):
        posterior.mean(np.ones((2, 4)))
    with pytest.raises(InputError, match="count must be a positive integer"):
        posterior.sample(np.eye(3), 0)
