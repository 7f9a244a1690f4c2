"""Posteriors and estimators by conjugate gradients against the Cholesky factorisation."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import mnngp
from mnngp import MaxoutGPClassifier, MaxoutGPRegressor, MaxoutKernel
from mnngp.errors import (
    ConvergenceError,
    UnavailableError,
)
from mnngp.inference import (
    ConjugateGradients,
    Posterior,
    log_evidence_gradient,
)
from tests.inference.problems import GIVEN, KERNELS


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("room", [None, 0])
def test_posterior_by_conjugate_gradients(large_table, name, room):
    X, y, new = (part[:600] for part in large_table)
    kernel, noise = KERNELS[name]
    noises = noise * np.random.default_rng(0).uniform(0.5, 2.0, size=600)
    exact, ours = (
        Posterior(kernel, X, y, noises),
        Posterior(kernel, X, y, noises, solver=ConjugateGradients(memory=room, rank=75)),
    )
    (mean, variance), (m, v) = exact.mean_and_variance(new), ours.mean_and_variance(new)
    # measured, relative to the largest: 3e-8 of means, 4e-8 of variances
    np.testing.assert_allclose(m, mean, atol=1e-6 * np.abs(mean).max())
    np.testing.assert_allclose(v, variance, atol=1e-6 * variance.max())
    np.testing.assert_allclose(
        ours.mean_and_covariance(new)[1],
        exact.mean_and_covariance(new)[1],
        atol=1e-6 * variance.max(),
    )
    np.testing.assert_allclose(
        ours.precision(np.array([7, 3])), exact.precision(np.array([7, 3])), rtol=1e-7
    )
    assert ours.quadratic() == pytest.approx(exact.quadratic(), rel=1e-6)
    report = ours.report
    assert max(report.residuals) <= 1e-8
    assert len(report.residuals) == 3
    assert len(report.history) == report.iterations
    assert report.kept == (0 if room == 0 else report.total)
    assert ("computed anew" in str(report)) == (room == 0)
    assert (report.contraction < 1e-5) == (name == "ordered")


def test_single_precision_and_points_without_variance(large_table):
    X, y, new = large_table[0][:500].copy(), large_table[1][:500], large_table[2]
    X[1] = 0.0
    single = MaxoutKernel(3, 4, 0.6, 0.1, dtype="float32")
    exact, ours = (
        Posterior(MaxoutKernel(3, 4, 0.6, 0.1), X, y, 1e-2),
        Posterior(single, X, y, 1e-2, solver=ConjugateGradients()),
    )
    np.testing.assert_allclose(ours.mean(new), exact.mean(new), atol=2e-3)  # measured: 2e-4
    bare = MaxoutKernel(2, 3, bias_var=0.0)
    exact, ours = (
        Posterior(bare, X, y, 1e-2),
        Posterior(bare, X, y, 1e-2, solver=ConjugateGradients()),
    )
    np.testing.assert_allclose(ours.mean(new), exact.mean(new), atol=1e-6)


def test_progress_and_scale(large_table):
    X, y, new = (part[:400] for part in large_table)
    shares = []
    posterior = Posterior(
        MaxoutKernel(2, 3), X, y, 1e-2, solver=ConjugateGradients(), progress=shares.append
    )
    assert sum(shares) == pytest.approx(1.0, abs=0.01)
    before = posterior.mean_and_variance(new)
    posterior.divide_targets(np.full(y.shape[1], 2.0))
    np.testing.assert_allclose(posterior.mean(new), 0.5 * before[0], rtol=1e-9)
    np.testing.assert_allclose(posterior.mean_and_variance(new)[1], before[1], rtol=1e-9)
    again = pickle.loads(pickle.dumps(posterior))
    assert again.inverse.operator is None  # tiles are made again, if anybody asks
    np.testing.assert_allclose(again.mean_and_variance(new)[1], before[1], rtol=1e-6)


def test_what_an_iteration_does_not_give(large_table):
    X, y, _ = (part[:300] for part in large_table)
    posterior = Posterior(MaxoutKernel(2, 3), X, y, 1e-2, solver=ConjugateGradients())
    for wanted in (
        posterior.leave_one_out,
        posterior.log_marginal_likelihood,
        lambda: log_evidence_gradient(posterior),
    ):
        with pytest.raises(UnavailableError, match="factor"):
            wanted()
    with pytest.raises(ConvergenceError, match="in 3 iterations"):
        Posterior(MaxoutKernel(2, 3), X, y, 1e-9, solver=ConjugateGradients(max_iterations=3))


def test_regressor_by_conjugate_gradients(large_table, tmp_path):
    X, y, new = (part[:500] for part in large_table)
    exact, ours = (
        MaxoutGPRegressor(**GIVEN).fit(X, y),
        clone(MaxoutGPRegressor(**GIVEN, solver="cg")).fit(X, y),
    )
    for one, other in zip(
        ours.predict(new, return_std=True), exact.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)
    np.testing.assert_allclose(ours.sample_y(new, 2), exact.sample_y(new, 2), atol=1e-3)
    assert hasattr(exact, "loo_")
    assert not hasattr(ours, "loo_")
    with pytest.raises(UnavailableError, match="use solver='cholesky'"):
        _ = ours.log_marginal_likelihood_
    ours.save(tmp_path / "model.mnngp")
    again = mnngp.load(tmp_path / "model.mnngp")
    np.testing.assert_array_equal(again.predict(new), ours.predict(new))
    np.testing.assert_allclose(
        again.predict(new, return_std=True)[1], ours.predict(new, return_std=True)[1], atol=1e-6
    )
    assert again.report_ == ours.report_
    assert (tmp_path / "model.mnngp").stat().st_size < 500 * 500 * 4  # no factor


def test_chosen_on_a_part_and_solved_with_all(large_table):
    """Kernels are compared on 1,000 places, and again on all; the solver is for the last fit
    alone.
    """
    X, y, new = large_table
    settings = {"max_trials": 3, "random_state": 0}
    exact, ours = (
        MaxoutGPRegressor(**settings, solver=way).fit(X, y[:, 0])
        for way in ("cholesky", ConjugateGradients(rank=200))
    )
    assert ours.trials_[0]["depth"] == exact.trials_[0]["depth"]
    assert ours.kernel_.theta.tolist() == exact.kernel_.theta.tolist()
    assert ours.noise_var_ == pytest.approx(exact.noise_var_, rel=1e-6)
    np.testing.assert_allclose(ours.predict(new), exact.predict(new), atol=1e-5)


def test_classifier_by_conjugate_gradients(large_table, tmp_path):
    X, y, new = (
        large_table[0][:600],
        np.digitize(large_table[1][:600, 0], (-0.3, 0.3)),
        large_table[2],
    )
    exact, ours = (
        MaxoutGPClassifier(**GIVEN, solver=way, random_state=0).fit(X, y)
        for way in ("cholesky", "cg")
    )
    np.testing.assert_array_equal(ours.predict(new), exact.predict(new))
    # calibrated on 256 rows and not on all of them
    np.testing.assert_allclose(ours.predict_proba(new), exact.predict_proba(new), atol=0.1)
    ours.save(tmp_path / "model.mnngp")
    np.testing.assert_array_equal(
        mnngp.load(tmp_path / "model.mnngp").predict(new), ours.predict(new)
    )
