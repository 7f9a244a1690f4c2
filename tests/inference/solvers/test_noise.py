"""Noise that has to be added, what is said about it, and giving up."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mnngp import MaxoutGPRegressor, MaxoutKernel, NetworkKernel
from mnngp.activations import SmoothActivation
from mnngp.errors import AccuracyWarning, FactorizationError, ScaleError
from mnngp.inference import Posterior
from mnngp.inference.solvers.packed import Packed


def test_noise_that_had_to_be_added_is_reported(table):
    X, y, new = table
    twice, targets = np.concatenate([X, X]), np.concatenate([y, y])
    with pytest.warns(
        AccuracyWarning,
        match=r"of the kernel.s scale was added to the noise "
        r"variance \(.* attempts; ",
    ):
        posterior = Posterior(MaxoutKernel(3, 4), twice, targets, 0.0)
    assert 0.0 < posterior.report.added < 1e-10
    assert posterior.report.attempts > 1
    assert posterior.report.condition > 1e6
    np.testing.assert_allclose(posterior.noise_var, posterior.report.added)
    np.testing.assert_allclose(
        posterior.mean(new), Posterior(MaxoutKernel(3, 4), X, y, 1e-12).mean(new), atol=1e-3
    )


class Steep(SmoothActivation):
    """An activation of one's own: its series is cut where it is too long."""

    def function(self, z):
        return np.tanh(z)

    def slope(self, z):
        return 1.0 - np.tanh(z) ** 2


def test_warnings_point_at_the_line_that_called_the_package(table):
    """Not at a line of the package, nor at scikit-learn's in between."""
    X, y, _ = table
    near = np.concatenate([X, X + 1e-9])
    fixed = MaxoutGPRegressor(3, 4, 1.0, 0.1, "nngp", 0.0)
    pipeline = make_pipeline(StandardScaler(), fixed)
    calls = [
        lambda: Posterior(MaxoutKernel(3, 4), near, near[:, 0]),
        lambda: Posterior(MaxoutKernel(2000, 2, 0.05, 0.3), X, y, 0.1),
        lambda: fixed.fit(near, near[:, 0]),
        lambda: pipeline.fit(near, near[:, 0]),
        lambda: MaxoutGPRegressor(2000, 2, 0.05, 0.3, "nngp").fit(X, y),
        lambda: NetworkKernel([Steep()])(1e3 * X),
    ]
    for call in calls:
        with pytest.warns(AccuracyWarning) as caught:
            call()
        assert {(warning.filename, warning.lineno) for warning in caught} == {
            (__file__, call.__code__.co_firstlineno)
        }


def test_the_papers_policy_multiplies_by_ten(table, monkeypatch):
    X, y, _ = table
    tried = []
    factor = Packed.factor

    def stubborn(self, done=None):
        tried.append(self.diagonal()[0])
        return 1 if len(tried) < 4 else factor(self, done)

    monkeypatch.setattr(Packed, "factor", stubborn)
    with pytest.warns(AccuracyWarning, match="4 attempts"):
        posterior = Posterior(MaxoutKernel(3, 4), X, y, 1e-10, policy="paper")
    np.testing.assert_allclose(posterior.noise_var, 1e-7, rtol=1e-6)
    assert posterior.report.added == pytest.approx(1e-7 - 1e-10)


def test_a_scale_that_does_not_fit_has_a_remedy_for_estimators(table):
    X, y, _ = table
    with pytest.raises(
        ScaleError,
        match=r"X\[0\] is too long.*an estimator does with "
        r"normalize='standard'",
    ):
        MaxoutGPRegressor(normalize=None).fit(1e200 * X, y)
    MaxoutGPRegressor(max_trials=1).fit(1e200 * X, y)
    with pytest.raises(
        ScaleError,
        match=r"float64 cannot hold: choose weight_var nearer .* or "
        r"scale the features",
    ):
        MaxoutGPRegressor(depth=100, weight_var=1e10).fit(X, y)


def test_giving_up_is_an_error(table, monkeypatch):
    X, y, _ = table
    monkeypatch.setattr(Packed, "factor", lambda self, done=None: 1)
    with pytest.raises(FactorizationError, match="not positive definite, not even with"):
        Posterior(MaxoutKernel(3, 4), X, y)
