"""What the tests of interop share."""


# First: it keeps a warning of linear_operator's import to itself.

import numpy as np
import torch

from mnngp import Maxout
from mnngp.interop.gpytorch import autograd

DOUBLE = torch.float64


def inputs():
    """Two sets of points with equal, nearly equal, opposite and zero ones."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 5)), rng.normal(size=(15, 5))
    X[3], X[4], X[5] = X[2], -X[2], 0.0
    Y[0], Y[1], Y[2] = X[7], -X[8], X[9] + 1e-7
    return X, Y


def kernel_of(depth, rank, *, kind="nngp", compiled=True):
    """The kernel as a function of two sets of points and of the variances.

    Without the second set it is that of the points with themselves.
    """
    network = autograd.Network((Maxout(rank),) * depth, kind == "ntk")

    def function(x, y, weight_var, bias_var):
        w, b = (part.reshape(1).expand(depth + 1) for part in (weight_var, bias_var))
        if compiled:
            return autograd.matrix(network, x, x if y is None else y, w, b, x.dtype)
        return autograd._by_operations(network, x, x if y is None else y, w, b)

    return function


def variances(weight_var=0.9, bias_var=0.3):
    return tuple(torch.tensor(value, dtype=DOUBLE) for value in (weight_var, bias_var))


def touching(slope, value, rank, depth):
    """The kernel of two points with each ``F_q(ρ)`` replaced by a line, ``value + slope ρ``:
    smooth, and in closed form.
    """
    moment = Maxout(rank).second_moment

    def function(x, y, w, b=0.0):
        kernel, mine, theirs = (
            b + w * (one @ other) / len(x) for one, other in ((x, y), (x, x), (y, y))
        )
        for _ in range(depth):
            kernel = b + w * (value * (mine * theirs).sqrt() + slope * kernel)
            mine, theirs = b + w * moment * mine, b + w * moment * theirs
        return kernel

    return function
