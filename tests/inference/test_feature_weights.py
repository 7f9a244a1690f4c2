"""Shares of features by what a fit depends on, against the formula written out."""

import numpy as np
import pytest

from mnngp import Embedding, Maxout, MaxoutKernel
from mnngp.inference.feature_weights import feature_weights
from mnngp.inference.observations import Observations

rng = np.random.default_rng(5)
N = 60
LEVEL = rng.integers(0, 3, N)
GAP = rng.integers(0, 2, N)
X = np.column_stack([rng.uniform(-2.0, 2.0, (N, 2)), GAP, np.eye(3)[LEVEL]])
Y = np.column_stack([np.sin(3.0 * X[:, 0]), (LEVEL == 1) + 0.5 * GAP]) + 0.1 * rng.normal(
    size=(N, 2)
)
EMBEDDING = Embedding(0.8, (-2.0, 2.0), categories=((3, 6),), gaps=(2,))


def shares_of(kernel, data, noise):
    points = kernel.prepared("X", kernel.checked("X", data.X))
    return np.array(feature_weights(kernel, points, data, noise))


def slope(kernel, V):
    """The derivative of the kernel of two rows of one length in their inner product V.

    ``C⁰ = b + w V`` and ``C' = b + w v F(C/v)`` for the variance v: a product of ``w F'``.
    """
    unit, w, b = Maxout(kernel.rank), kernel.weight_var, kernel.bias_var
    C, v, result = b + w * V, b + w, np.full(V.shape, w)
    for _ in range(kernel.depth):
        rho = np.clip(C / v, -1.0, 1.0)
        result *= w * unit.derivative(rho)
        C, v = b + w * v * unit.moment(rho), b + w * v * unit.second_moment
    return result


@pytest.mark.parametrize("weights", [(), (1.0, 4.0, 2.0)])
def test_formula(weights):
    embedding = Embedding(0.8, (-2.0, 2.0), ((3, 6),), (2,), weights)
    kernel = MaxoutKernel(2, 4, 0.6, 0.1, embedding=embedding)
    weight = rng.uniform(0.5, 2.0, N)
    data, noise = Observations.of(X, Y, weight), 0.05
    mapped = embedding(data.X)
    rho = mapped @ mapped.T / mapped.shape[1]
    alpha = np.linalg.solve(kernel(data.X) + noise * np.diag(1.0 / data.weight), data.y)
    share = data.weight / data.weight.sum()
    centred = mapped - share @ mapped
    expected = []
    for block in embedding.blocks(X.shape[1]):
        covariance = (share[:, None] * centred[:, block]).T @ centred[:, block]
        total = 0.0
        for column in alpha.T:
            g = (slope(kernel, rho) * column) @ mapped[:, block] / mapped.shape[1]
            total += share @ np.einsum("ij,jk,ik->i", g, covariance, g)
        expected.append(np.sqrt(total))
    found = shares_of(kernel, data, noise)
    # a row with itself has V = 1 but for rounding, where F' has a root: 4e-9
    np.testing.assert_allclose(found, np.array(expected) / np.sum(expected), rtol=1e-7)


def test_what_nothing_depends_on_has_little():
    data = Observations.of(X, np.sin(3.0 * X[:, :1]))
    found = shares_of(MaxoutKernel(2, 4, 0.6, 0.1, embedding=EMBEDDING), data, 1e-3)
    assert found.sum() == pytest.approx(1.0)
    assert found[0] > 2.0 * found[1:].max()


def test_nothing_to_go_by():
    """A target that does not vary has a fit that depends on nothing: no shares at all."""
    data = Observations.of(X, np.zeros((N, 1)))
    assert shares_of(MaxoutKernel(embedding=EMBEDDING), data, 0.1).size == 0
