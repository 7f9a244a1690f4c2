"""The tangent kernel of a finite network."""

import numpy as np
import pytest
import torch

from mnngp.errors import InputError
from mnngp.experiments.convergence.study import POINTS
from mnngp.finite import MaxoutNetwork
from mnngp.finite.tangent import tangent_kernel

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.mark.parametrize("parametrization", ["ntk", "standard"])
def test_tangent_kernel_is_the_product_of_all_gradients(parametrization):
    variances = {"weight_var": [0.8, 1.1, 0.6], "bias_var": [0.2, 0.1, 0.0]}
    network = MaxoutNetwork(
        7, 3, 2, 4, outputs=2, **variances, parametrization=parametrization, seed=1, dtype="float64"
    )
    for output in (0, 1):
        gradients = [
            torch.autograd.grad(network(point)[output], list(network.parameters()))
            for point in torch.tensor(POINTS)
        ]
        rows = np.stack(
            [np.concatenate([part.flatten() for part in gradient]) for gradient in gradients]
        )
        expected = rows @ rows.T
        np.testing.assert_allclose(
            tangent_kernel(network, POINTS, output=output), expected, rtol=1e-12
        )
        np.testing.assert_allclose(
            tangent_kernel(network, POINTS[:2], POINTS, output=output), expected[:2], rtol=1e-12
        )
    assert all(parameter.grad is None for parameter in network.parameters())
    with torch.no_grad():
        np.testing.assert_array_equal(
            tangent_kernel(network, POINTS, output=1), tangent_kernel(network, POINTS, output=1)
        )


def test_the_tangent_kernel_refuses_bad_input():
    with pytest.raises(
        InputError, match="network must be a MaxoutNetwork or a ConvMaxoutNetwork, got int"
    ):
        tangent_kernel(3, POINTS)
    with pytest.raises(InputError, match="output must be one of 0 to 0, got 1"):
        tangent_kernel(MaxoutNetwork(2, 2, 1, 4), POINTS, output=1)
    with pytest.raises(
        InputError, match="X must have 4 columns, as many as the network has inputs, got shape"
    ):
        tangent_kernel(MaxoutNetwork(2, 2, 1, 4), POINTS[:, :2])
