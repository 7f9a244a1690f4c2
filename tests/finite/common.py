"""What the tests of finite networks share."""

import numpy as np
import torch

from mnngp import Maxout, MaxoutKernel
from mnngp.finite import MaxoutNetwork

SHAPE = {"width": 6, "rank": 3, "depth": 3, "inputs": 4, "outputs": 2}


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
