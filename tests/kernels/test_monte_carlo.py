"""The theorem against real networks: finite maxout networks, sampled, at depths 1 to 3, scored in
standard errors.

For given hidden units the output is Gaussian with covariance ``b + w <h, h'>/width``; its mean over
networks estimates the kernel with a bias of order 1/width. The same score rejects the recursion as
printed in eq. (20), label 18.
"""

import numpy as np
import pytest

from mnngp import Maxout, MaxoutKernel
from tests.plain import printed_recursion

WIDTH, NETWORKS = 512, 160
X = np.array([[1.0, -0.5, 0.3, 0.8], [0.2, 1.1, -0.4, 0.5], [-0.7, 0.4, 1.5, -0.2]])


def sample_covariances(rank, depth, weight_var, bias_var, seed):
    """One conditional covariance matrix a network, and the mean square of the backpropagated
    gradient a layer.
    """
    rng = np.random.default_rng(seed)
    covariances = np.empty((NETWORKS, len(X), len(X)))
    for index in range(NETWORKS):
        hidden = X
        for _ in range(depth):
            fan_in = hidden.shape[1]
            weights = rng.normal(scale=np.sqrt(weight_var / fan_in), size=(fan_in, WIDTH * rank))
            biases = rng.normal(scale=np.sqrt(bias_var), size=WIDTH * rank)
            hidden = (hidden @ weights + biases).reshape(len(X), WIDTH, rank).max(axis=2)
        covariances[index] = bias_var + weight_var * hidden @ hidden.T / WIDTH
    return covariances


def scores(covariances, kernel):
    upper = np.triu_indices(len(X))
    error = covariances.std(axis=0, ddof=1) / np.sqrt(len(covariances))
    return ((covariances.mean(axis=0) - kernel) / error)[upper]


@pytest.mark.parametrize(("rank", "depth"), [(2, 1), (3, 1), (4, 2), (3, 3)])
def test_networks_have_the_kernel_of_the_theorem(rank, depth):
    weight_var, bias_var = 0.9, 0.3
    covariances = sample_covariances(rank, depth, weight_var, bias_var, seed=10 * rank + depth)
    kernel = MaxoutKernel(depth, rank, weight_var=weight_var, bias_var=bias_var)(X)
    assert np.abs(scores(covariances, kernel)).max() < 4.0
    printed = printed_recursion(
        Maxout(rank), X, depth=depth, weight_var=weight_var, bias_var=bias_var
    )
    if depth == 1:  # the two recursions agree there
        np.testing.assert_allclose(printed, kernel, rtol=1e-12)
    else:
        assert np.abs(scores(covariances, printed)).max() > 10.0


def test_gradients_shrink_as_the_theory_says():
    """Backpropagation by hand through sampled rank-4 networks: squared gradients change by
    ``gradient_slope`` a layer.
    """
    from mnngp import theory

    rank, depth, width, networks = 4, 4, 256, 60
    unit = Maxout(rank)
    weight_var = unit.critical_weight_var
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(networks):
        hidden, active = rng.normal(size=width), []
        for _ in range(depth):
            weights = rng.normal(scale=np.sqrt(weight_var / width), size=(width, rank, width))
            values = weights @ hidden
            chosen = values.argmax(axis=1)
            active.append(weights[np.arange(width), chosen])
            hidden = values.max(axis=1)
        gradient = rng.normal(size=width)
        before = gradient @ gradient
        for weights in reversed(active):
            gradient = gradient @ weights
        ratios.append(gradient @ gradient / before)
    point = theory.fixed_point(unit, weight_var=weight_var)
    error = np.std(ratios, ddof=1) / np.sqrt(networks)
    assert abs(np.mean(ratios) - point.gradient_slope**depth) < 4.0 * error
    assert abs(np.mean(ratios) - point.variance_slope**depth) > 10.0 * error


def test_tangent_kernel_of_a_wide_network():
    """The empirical tangent kernel of a one-layer network: gradients in all parameters, against the
    analytic one.
    """
    rank, width, networks, weight_var, bias_var = 3, 2048, 40, 0.9, 0.3
    rng = np.random.default_rng(1)
    samples = []
    for _ in range(networks):
        first = rng.normal(size=(X.shape[1], width, rank))
        bias = rng.normal(size=(width, rank))
        second = rng.normal(size=width)
        # NTK parametrisation: z = √(w/d) x·W + √b β, out = √(w/width) h·V + √b β'
        values = (
            np.einsum("nd,dkq->nkq", X, first) * np.sqrt(weight_var / X.shape[1])
            + np.sqrt(bias_var) * bias
        )
        hidden, chosen = values.max(axis=2), values.argmax(axis=2)
        same = chosen[:, None] == chosen[None]
        inner = (second**2 * same).sum(axis=2) * weight_var / width
        inputs = weight_var * X @ X.T / X.shape[1] + bias_var
        samples.append(weight_var * hidden @ hidden.T / width + bias_var + inner * inputs)
    kernel = MaxoutKernel(1, rank, weight_var=weight_var, bias_var=bias_var, kind="ntk")(X)
    assert np.abs(scores(np.array(samples), kernel)).max() < 4.0
