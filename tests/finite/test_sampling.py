"""Networks at a few points, drawn in two ways that have one law."""

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

from mnngp.errors import InputError
from mnngp.experiments.convergence.study import POINTS
from mnngp.finite import MaxoutNetwork, draw_values, draw_weights
from mnngp.finite.sampling import network_seeds, passing_network
from tests.finite.common import critical

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 5, 17, 101])
def test_a_network_in_blocks_is_the_network(width, dtype):
    """The same random numbers, whatever the block; sums are taken in another order (worst found:
    2e-6, 2e-15).
    """
    weight_var, bias_var = [0.8, 1.2, 0.5, 0.7], [0.2, 0.0, 0.1, 0.3]
    network = MaxoutNetwork(
        width, 3, 3, 4, weight_var=weight_var, bias_var=bias_var, seed=3, dtype=dtype
    )
    X = torch.tensor(POINTS).to(network.weights[0])
    for block in (1, 100, 5000, 10**7):
        hidden, output = passing_network(
            POINTS, width, 3, weight_var, bias_var, seed=3, dtype=dtype, block=block
        )
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(hidden, network.hidden(X).detach(), atol=tolerance)
        np.testing.assert_allclose(output, network(X).detach()[:, 0], atol=tolerance)


@pytest.mark.parametrize(("rank", "depth", "width"), [(3, 2, 4), (2, 3, 6)])
def test_values_and_weights_have_one_law(rank, depth, width):
    """Kolmogorov and Smirnov find no difference between the two ways in any entry, and find it if
    the width is another.
    """
    kernel, networks = critical(rank, depth), 1500
    values, weights = (
        way(kernel, POINTS, width, networks, seed=5) for way in (draw_values, draw_weights)
    )
    other = draw_values(kernel, POINTS, width + 3, networks, seed=5)
    for i, j in zip(*np.triu_indices(len(POINTS)), strict=True):
        assert ks_2samp(values.covariances[:, i, j], weights.covariances[:, i, j]).pvalue > 1e-3
        assert ks_2samp(other.covariances[:, i, j], weights.covariances[:, i, j]).pvalue < 1e-4
    for i in range(len(POINTS)):
        assert ks_2samp(values.outputs[:, i], weights.outputs[:, i]).pvalue > 1e-3


def test_draws_are_reproducible_and_take_their_points():
    kernel = critical(3, 2)
    for way in (draw_values, draw_weights):
        first, again, other = (way(kernel, POINTS, 20, 3, seed=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first.covariances, again.covariances)
        np.testing.assert_array_equal(first.outputs, again.outputs)
        assert not np.any(first.covariances == other.covariances)
    twice = draw_values(kernel, POINTS[[0, 0, 1]], 20, 3, seed=1)  # a singular covariance
    np.testing.assert_allclose(twice.outputs[:, 0], twice.outputs[:, 1], atol=1e-6)
    assert len(set(network_seeds(0, 1000))) == 1000


def test_sampling_refuses_bad_input():
    kernel = critical(2, 1)
    with pytest.raises(InputError, match="width must be a positive integer"):
        draw_values(kernel, POINTS, 0, 5)
    with pytest.raises(InputError, match="kernel must be a MaxoutKernel, got 3"):
        draw_weights(3, POINTS, 5, 2)
