"""Gradient flow: against an ODE solver, against simulated networks' linear dynamics, and in its two
limits.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from mnngp import MaxoutKernel, NetworkKernel, ReLU
from mnngp.errors import InputError
from mnngp.inference import GradientFlow


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    return rng.normal(size=(12, 3)), rng.normal(size=12), rng.normal(size=(4, 3))


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_mean_solves_the_differential_equation(problem, ridge):
    """The mean network starts at zero: g' = -Θ (g - y) - ridge g on the training points, and the
    new ones follow.
    """
    X, y, new = problem
    kernel = MaxoutKernel(2, 3, 0.7, 0.2, "ntk")
    theta, cross = kernel(X), kernel(new, X)
    # With a pull to the start, new points follow the weights a: f = Θ a, a' = -(f - y) - ridge a.
    solution = solve_ivp(
        lambda t, a: -(theta @ a - y) - ridge * a,
        (0.0, 0.8),
        np.zeros(12),
        rtol=1e-10,
        atol=1e-12,
        method="LSODA",
    )
    flow = GradientFlow(kernel, X, y, ridge)
    np.testing.assert_allclose(flow.mean(new, 0.8), cross @ solution.y[:, -1], atol=1e-7)


def test_distribution_over_initialisations(problem):
    """Draw initial functions, let each follow the flow, and compare their mean and covariance."""
    X, y, new = problem
    kernel = NetworkKernel([ReLU(), ReLU()], weight_var=1.5, bias_var=0.1)
    both = np.concatenate([X, new])
    prior, theta = (
        kernel(both),
        NetworkKernel([ReLU(), ReLU()], weight_var=1.5, bias_var=0.1, kind="ntk")(both),
    )
    start = np.random.default_rng(1).multivariate_normal(
        np.zeros(16), prior, size=40_000, method="eigh"
    )
    f, steps = start.copy(), 4000
    for _ in range(steps):  # Euler's method on f' = -Θ (f - y)
        f -= (1.0 / steps) * 0.5 * (f[:, :12] - y) @ theta[:12]
    mean, covariance = GradientFlow(kernel, X, y).mean_and_covariance(new, 0.5)
    error = np.sqrt(np.diag(covariance) / 40_000)
    assert np.all(np.abs(f[:, 12:].mean(axis=0) - mean) < 5.0 * error + 1e-3)
    np.testing.assert_allclose(
        np.cov(f[:, 12:].T), covariance, atol=0.03 * np.abs(covariance).max()
    )


def test_limits(problem):
    X, y, new = problem
    kernel = MaxoutKernel(3, 4, 0.6, 0.1, "ntk")
    flow = GradientFlow(kernel, X, np.column_stack([y, 2.0 * y]))
    nngp = MaxoutKernel(3, 4, 0.6, 0.1)
    mean, covariance = flow.mean_and_covariance(new, 0.0)
    np.testing.assert_allclose(mean, 0.0, atol=1e-14)
    np.testing.assert_allclose(covariance, nngp(new), rtol=1e-12)
    mean, covariance = flow.mean_and_covariance(new)  # kernel regression
    np.testing.assert_allclose(
        mean[:, 0], kernel(new, X) @ np.linalg.solve(kernel(X), y), rtol=1e-8
    )
    np.testing.assert_allclose(mean[:, 1], 2.0 * mean[:, 0])
    np.testing.assert_allclose(flow.mean(new, 1e9), flow.mean(new), rtol=1e-7)
    gain = np.linalg.solve(kernel(X), kernel(X, new)).T
    expected = nngp(new) + gain @ nngp(X) @ gain.T - gain @ nngp(X, new) - nngp(new, X) @ gain.T
    np.testing.assert_allclose(covariance, expected, atol=1e-10)
    assert flow.mean_and_covariance(X)[1].max() < 1e-10  # what is learnt is certain
    assert flow.sample(new, 1.0, 3, seed=0).shape == (4, 2, 3)
    assert flow.unresolved == 0


def test_equal_points_are_not_resolved(problem):
    X, y, _ = problem
    flow = GradientFlow(MaxoutKernel(2, 3), np.concatenate([X, X]), np.concatenate([y, y + 1.0]))
    assert flow.unresolved == 12
    np.testing.assert_allclose(flow.mean(X), y + 0.5, atol=1e-8)


def test_bad_input(problem):
    X, y, _ = problem
    with pytest.raises(
        InputError, match="time must be a number of at least 0, or infinite, got -1"
    ):
        GradientFlow(MaxoutKernel(2, 2), X, y).mean(X, -1)
    with pytest.raises(InputError, match="kernel must be"):
        GradientFlow("ntk", X, y)
    with pytest.raises(InputError, match="ridge must be a finite number at least 0"):
        GradientFlow(MaxoutKernel(2, 2), X, y, -0.1)
