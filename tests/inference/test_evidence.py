"""The gradient of the evidence against differences and scikit-learn's."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor

from mnngp import Maxout, MaxoutKernel, NetworkKernel, ReLU
from mnngp.inference import Posterior, log_evidence_gradient


@pytest.mark.parametrize("lengths", ["equal", "unequal"])
@pytest.mark.parametrize(
    ("kind", "depth", "weight_var", "noise"),
    [
        ("nngp", 3, 1.0, 1e-2),
        ("ntk", 3, 1.0, 1e-2),
        ("nngp", 3, 0.05, 1e-6),
        ("nngp", 14, 0.05, 1e-19),
    ],
)
def test_evidence_gradient(table, lengths, kind, depth, weight_var, noise):
    """Against central differences, also in the ordered phase; measured: 1e-7 of the largest, by the
    differences' own error.
    """
    X, y, _ = table
    X = X / np.linalg.norm(X, axis=1, keepdims=True) if lengths == "equal" else X

    def posterior(theta):
        bias_var, weight_var, noise_var, signal_var = np.exp(theta)
        return Posterior(
            MaxoutKernel(depth, 3, weight_var, bias_var, kind), X, y, noise_var, signal_var
        )

    theta = np.log([0.3, weight_var, noise, 1.3])
    gradient = log_evidence_gradient(posterior(theta))
    for index, unit in enumerate(np.eye(4)):
        up, down = (
            posterior(theta + sign * 1e-4 * unit).log_marginal_likelihood() for sign in (1.0, -1.0)
        )
        assert gradient[index] == pytest.approx(
            (up - down) / 2e-4, rel=1e-6, abs=1e-6 * np.abs(gradient).max()
        )


def test_evidence_gradient_of_each_layer(table):
    X, y, _ = table
    kernel = NetworkKernel(
        [Maxout(3), ReLU()], weight_var=[0.5, 1.0, 2.0], bias_var=0.1, weight_var_bounds=(1e-3, 1e3)
    )
    gradient = log_evidence_gradient(Posterior(kernel, X, y, 0.1))
    theirs = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(X, y)
    np.testing.assert_allclose(
        gradient[:-2],
        theirs.log_marginal_likelihood(kernel.theta, eval_gradient=True)[1],
        rtol=1e-9,
    )
