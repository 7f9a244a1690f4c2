"""What the tests of finite networks share."""

import numpy as np
import pytest
import torch

from mnngp import Maxout, MaxoutKernel
from mnngp.finite import MaxoutNetwork

SHAPE = {"width": 6, "rank": 3, "depth": 3, "inputs": 4, "outputs": 2}
BOTH = pytest.mark.parametrize("parametrization", ["standard", "ntk"])


def critical(rank, depth, bias_var=0.1, kind="nngp"):
    """The kernel at the critical weight variance."""
    return MaxoutKernel(depth, rank, Maxout(rank).critical_weight_var, bias_var, kind=kind)


def some_data(points=40, sets=None, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(points, 4) if sets is None else (sets, points, 4))
    return X, np.stack([np.sin(X.sum(-1)), X[..., 0] * X[..., 1]], axis=-1)


def some_networks(count=4, *, parametrization="standard", dtype="float64", **change):
    """Of different initialisations: the paper's, since they are trained in one group."""
    return [
        MaxoutNetwork(
            **SHAPE | change,
            weight_std=std,
            bias_std=0.3,
            parametrization=parametrization,
            seed=seed,
            dtype=dtype,
        )
        for seed, std in enumerate(np.linspace(0.2, 0.6, count))
    ]


def numbers(network):
    """All parameters of a network, as one vector."""
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()]).numpy()


def of_layers(network):
    """The same function from torch.nn.Linear layers and torch.maximum alone."""

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.maps = torch.nn.ModuleList()
            for weight, bias in zip(network.weights[:-1], network.biases[:-1], strict=True):
                self.maps.append(
                    torch.nn.ModuleList([linear(w, b) for w, b in zip(weight, bias, strict=True)])
                )
            self.last = linear(network.weights[-1], network.biases[-1])

        def forward(self, x):
            for maps in self.maps:
                values = [affine(x) for affine in maps]
                x = values[0]
                for value in values[1:]:
                    x = torch.maximum(x, value)
            return self.last(x)

    def linear(weight, bias):
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
        with torch.no_grad():
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
        return layer

    return Plain()


def plainly(network, X, Y, training):
    """A loop as everybody writes it; the losses of the epochs."""
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[training.optimizer]
    optimizer = kind(network.parameters(), lr=training.learning_rate)
    X, Y, losses = torch.tensor(X), torch.tensor(Y), []
    generator = torch.Generator().manual_seed(training.seed)
    for _ in range(training.epochs):
        order = (
            torch.randperm(len(X), generator=generator)
            if len(X) > training.batch_size
            else torch.arange(len(X))
        )
        total = 0.0
        for chosen in order.split(training.batch_size):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(network(X[chosen]), Y[chosen])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(chosen) / len(X)
        losses.append(total)
    return losses
