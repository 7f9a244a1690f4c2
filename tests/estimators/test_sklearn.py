"""The kernels where people use kernels: scikit-learn's Gaussian processes and support vector
machines.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

from mnngp import Maxout, MaxoutKernel, NetworkKernel, ReLU


@pytest.fixture(scope="module")
def wave():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(40, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.05 * rng.normal(size=40)


def test_regressor_optimises_the_variances(wave):
    X, y = wave
    kernel = ConstantKernel() * MaxoutKernel(2, 3) + WhiteKernel(0.01, (1e-5, 1.0))
    start = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    fitted = GaussianProcessRegressor(kernel).fit(X, y)
    assert fitted.log_marginal_likelihood_value_ > start.log_marginal_likelihood_value_ + 10.0
    assert fitted.score(X, y) > 0.98
    mean, deviation = fitted.predict(X, return_std=True)
    assert mean.shape == deviation.shape == y.shape


def test_evidence_gradient_of_the_regressor(wave):
    X, y = wave
    kernel = NetworkKernel(
        [Maxout(4), ReLU()], weight_var=[0.5, 1.0, 2.0], bias_var=0.1, kind="ntk"
    ) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    _, gradient = model.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    for index, unit in enumerate(np.eye(len(kernel.theta))):
        up, down = (
            model.log_marginal_likelihood(kernel.theta + sign * 1e-5 * unit) for sign in (1, -1)
        )
        assert gradient[index] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-6)


def test_classifier():
    X, y = load_iris(return_X_y=True)
    kernel = MaxoutKernel(2, 2, weight_var_bounds=(0.01, 1e3), bias_var_bounds="fixed")
    model = GaussianProcessClassifier(kernel).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.93


def test_support_vector_machine():
    X, y = load_digits(return_X_y=True)
    model = SVC(kernel=MaxoutKernel(3, 3)).fit(X[:600], y[:600])
    assert model.score(X[600:1200], y[600:1200]) > 0.95


def test_adds_and_multiplies_with_other_kernels(wave):
    X, _ = wave
    ours = MaxoutKernel(2, 3)
    for other in (RBF(), DotProduct(), WhiteKernel()):
        np.testing.assert_allclose((ours + other)(X), ours(X) + other(X))
        np.testing.assert_allclose((other * ours)(X), other(X) * ours(X))
    K, gradient = (ours * RBF() + WhiteKernel())(X, eval_gradient=True)
    assert gradient.shape == (*K.shape, 4)


def test_model_selection_over_kernels(wave):
    X, y = wave
    grid = {"kernel__k1__rank": [2, 4], "kernel__k1__depth": [1, 3]}
    search = GridSearchCV(
        GaussianProcessRegressor(MaxoutKernel() + WhiteKernel(0.01), optimizer=None), grid, cv=3
    ).fit(X, y)
    assert set(search.best_params_) == set(grid)
    scores = cross_val_score(
        GaussianProcessRegressor(MaxoutKernel(2, 3) + WhiteKernel(0.01), optimizer=None),
        X,
        y,
        cv=3,
        n_jobs=2,
    )
    assert np.isfinite(scores).all()


def test_frames_go_in(wave):
    X, _ = wave
    np.testing.assert_array_equal(MaxoutKernel(2, 3)(pd.DataFrame(X)), MaxoutKernel(2, 3)(X))
    mixed = pd.DataFrame(
        {"a": [0.5, 1.5], "b": [True, False], "c": pd.array([1, 2], dtype="Int64")}
    )
    np.testing.assert_array_equal(
        MaxoutKernel(2, 3)(mixed), MaxoutKernel(2, 3)(np.array([[0.5, 1.0, 1.0], [1.5, 0.0, 2.0]]))
    )
    with pytest.raises(ValueError, match="X must be numeric"):
        MaxoutKernel(2, 3)(pd.DataFrame({"a": [0.5], "b": ["1.5"]}))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_deep_kernels_can_be_optimised(wave, dtype):
    """The optimiser tries the bounds: there the kernel must still fit its type."""
    X, y = wave
    kernel = MaxoutKernel(100, 4, weight_var=0.6446, dtype=dtype)
    at_bound = kernel.clone_with_theta(kernel.bounds[:, 1])
    assert np.isfinite(at_bound(X)).all()
    if dtype == "float64":
        GaussianProcessRegressor(kernel, alpha=1e-2).fit(X, y)


def test_parameters_are_set_and_checked_again():
    kernel = MaxoutKernel(2, 3)
    kernel.set_params(rank=5, depth=4, weight_var=0.25)
    assert kernel == MaxoutKernel(4, 5, weight_var=0.25)
    kernel.set_params(rank=0)
    with pytest.raises(ValueError, match="rank"):
        kernel(np.eye(2))
