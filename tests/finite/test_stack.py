"""Many networks computed as one: losses and gradients are those of autograd."""

import numpy as np
import pytest
import torch

from mnngp.finite import MaxoutNetwork
from mnngp.finite.stack import Stack
from tests.finite.common import BOTH, SHAPE, numbers, some_data, some_networks


@BOTH
@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("depth", [1, 4])
def test_loss_and_gradient_are_those_of_autograd(parametrization, rank, depth):
    networks = some_networks(parametrization=parametrization, rank=rank, depth=depth)
    X, Y = (torch.tensor(values) for values in some_data())
    stack = Stack(networks)
    losses = stack.loss(X[None], Y[None])
    gradients = Stack(networks)  # with the gradient for its parameters, to take it apart
    gradients.parameters.copy_(stack.parameters.grad)
    for row, network in enumerate(networks):
        loss = torch.nn.functional.mse_loss(network(X), Y)
        expected = torch.cat(
            [part.flatten() for part in torch.autograd.grad(loss, list(network.parameters()))]
        )
        gradients.store(row, network)
        # measured: 3e-16
        assert float(losses[row]) == pytest.approx(float(loss.detach()), rel=1e-13)
        # 6e-16
        np.testing.assert_allclose(
            numbers(network), expected.numpy(), rtol=0.0, atol=1e-13 * float(expected.abs().max())
        )


def test_gradient_is_that_of_differences():
    """Independent of autograd; away from the kinks central differences have an error of h²."""
    network = some_networks(1)[0]
    X, Y = (torch.tensor(values)[None] for values in some_data())
    stack = Stack([network])
    stack.loss(X, Y)
    gradient = stack.parameters.grad.clone()
    h, found = 1e-6, []
    for place in range(len(gradient)):
        values = []
        for sign in (1.0, -1.0):
            stack.parameters[place] += sign * h
            values.append(float(stack.loss(X, Y)))
            stack.parameters[place] -= sign * h
        found.append((values[0] - values[1]) / (2.0 * h))
    # measured: 1e-10; the largest is 0.4
    np.testing.assert_allclose(found, gradient.numpy(), rtol=0.0, atol=1e-8)


def test_maps_that_tie_share_the_gradient():
    """As the module's own maximum does."""
    network = MaxoutNetwork(**SHAPE, dtype="float64", seed=0)
    with torch.no_grad():
        for parameter in (*network.weights[:-1], *network.biases[:-1]):
            parameter[1] = parameter[0]
    X, Y = (torch.tensor(values) for values in some_data())
    stack = Stack([network])
    stack.loss(X[None], Y[None])
    loss = torch.nn.functional.mse_loss(network(X), Y)
    expected = torch.autograd.grad(loss, list(network.weights))
    for found, value in zip(stack.views(stack.parameters.grad)[0], expected, strict=True):
        np.testing.assert_allclose(found.flatten(), value.flatten(), rtol=0.0, atol=1e-15)
    assert torch.equal(expected[0][0], expected[0][1])
