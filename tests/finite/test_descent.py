"""Gradient descent of finite networks, and of the linear model that they become."""

import numpy as np
import pytest
import torch

from mnngp.errors import InputError
from mnngp.experiments.convergence.study import ANGLES, PLACES, circle
from mnngp.finite import MaxoutNetwork, gradient_descent
from mnngp.finite.tangent import linear_descent
from tests.finite.common import critical

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def test_descent_is_plain_gradient_descent():
    """Three networks at once go the way that each goes alone, by backpropagation; they are not
    changed themselves.
    """

    def made(seed):
        return MaxoutNetwork(6, 3, 2, 2, parametrization="ntk", seed=seed, dtype="float64")

    X, y, new = circle(ANGLES), np.sin(ANGLES), circle(PLACES[:5])
    networks = [made(seed) for seed in range(3)]
    together = gradient_descent(networks, X, y, step=0.05, record=[0, 3, 10], new=new)
    assert together.shape == (3, 3, 5)
    for index, network in enumerate(networks):
        np.testing.assert_array_equal(network.weights[1].detach(), made(index).weights[1].detach())
        for count in range(11):
            if count in (0, 3, 10):
                own = network(torch.tensor(new))[:, 0].detach()
                np.testing.assert_allclose(
                    together[[0, 3, 10].index(count), index], own, atol=1e-12
                )
            network.zero_grad()
            (0.5 * (network(torch.tensor(X))[:, 0] - torch.tensor(y)).square().sum()).backward()
            for parameter in network.parameters():
                parameter.data -= 0.05 * parameter.grad


def test_a_network_that_diverges_has_no_prediction():
    """Of two networks one begins far away, and takes steps too long for it; the other learns."""
    networks = [
        MaxoutNetwork(6, 2, 1, 2, weight_var=w, parametrization="ntk", seed=1) for w in (1.0, 1e8)
    ]
    found = gradient_descent(
        networks,
        circle(ANGLES),
        np.sin(ANGLES),
        step=0.05,
        record=[0, 2000],
        new=circle(PLACES[:5]),
    )
    assert np.isfinite(found[0]).all()
    assert np.isfinite(found[1, 0]).all()
    assert np.isnan(found[1, 1]).all()


@pytest.mark.parametrize("pace", [0.1, 1.7])
def test_what_is_predicted_is_descent_of_a_linear_model(pace):
    """Also for steps that overshoot, up to 2/λ_max, and for a point that is there twice."""
    kernel, X, y, new = (
        critical(3, 2, kind="ntk"),
        circle(ANGLES[[0, 1, 2, 2]]),
        np.sin(ANGLES),
        circle(PLACES[:5]),
    )
    theta = kernel(np.concatenate([X, new]))[:, :4]
    start = np.random.default_rng(0).normal(size=(2, 9))
    start[:, 3] = start[:, 2]
    outputs, step = start.copy(), pace / np.linalg.eigvalsh(theta[:4])[-1]
    for _ in range(25):
        outputs = outputs - step * (outputs[:, :4] - y) @ theta.T
    (found,) = linear_descent(kernel, X, y, new, start, step=step, record=[25])
    np.testing.assert_allclose(found, outputs[:, 4:], rtol=1e-12)


def test_descent_refuses_bad_input():
    X, y, new = circle(ANGLES), np.sin(ANGLES), circle(PLACES)
    one = [MaxoutNetwork(2, 2, 1, 2)]
    for record in ([1.7], 3, [], [-1]):
        with pytest.raises(
            InputError, match="record must be whole numbers of steps, 0 or more, got"
        ):
            gradient_descent(one[0], X, y, step=0.1, record=record, new=new)
    for networks, data, message in (
        (
            one,
            (X, y[:, None], new),
            r"y must have one number for each of the 4 rows of X, got shape \(4, 1\)",
        ),
        (
            one,
            (X, y, np.ones((4, 3))),
            r"new must have 2 columns, as many as the network has inputs, got shape \(4, 3\)",
        ),
        ([MaxoutNetwork(2, 2, 1, 2, 3)], (X, y, new), "networks must have one output, got 3"),
        (
            [],
            (X, y, new),
            "networks must be a MaxoutNetwork or a sequence of them, at least one, or",
        ),
        (
            [3],
            (X, y, new),
            "networks must be a MaxoutNetwork or a sequence of them, at least one, or",
        ),
    ):
        with pytest.raises(InputError, match=message):
            gradient_descent(networks, *data[:2], step=0.1, record=[1], new=data[2])
