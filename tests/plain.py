"""The recursion of the theorem, written as plainly as can be: the tests' own, for comparison with
the fused one.

``C⁰ = b + w <x, x'>/d``, ``C^{l+1} = b + w E[φ φ']``, ``Θ^{l+1} = C^{l+1} + w E[φ' φ'] Θ^l``.
"""

import numpy as np


def kernel(layers, X, Y, *, weight_var, bias_var, kind="nngp", gram=None):
    """``gram`` stands for ``<x, x'>/d`` of X and Y, one after the other, if it is something else."""
    weights, biases = (np.broadcast_to(value, len(layers) + 1) for value in (weight_var, bias_var))
    Z = np.concatenate([X, Y])
    C = biases[0] + weights[0] * (Z @ Z.T / Z.shape[1] if gram is None else gram)
    theta = C.copy()
    for activation, w, b in zip(layers, weights[1:], biases[1:], strict=True):
        v = np.diag(C)
        scale = np.sqrt(np.outer(v, v))
        rho = np.clip(C / np.where(scale > 0.0, scale, 1.0), -1.0, 1.0)
        np.fill_diagonal(rho, 1.0)
        moment, slope = moments(activation, v, rho)
        C = b + w * moment
        theta = C + w * slope * theta
    return (theta if kind == "ntk" else C)[: len(X), len(X) :]


def moments(activation, v, rho):
    if activation.homogeneous:
        return np.sqrt(np.outer(v, v)) * activation.moment(rho), activation.derivative(rho)
    # Gauss-Hermite quadrature over the two Gaussians, independent of the Hermite series.
    nodes, weights = np.polynomial.hermite_e.hermegauss(180)
    weights = weights / weights.sum()
    first = np.sqrt(v)[:, None, None, None] * nodes[:, None]
    second = np.sqrt(v)[None, :, None, None] * (
        rho[..., None, None] * nodes[:, None] + np.sqrt(1.0 - rho**2)[..., None, None] * nodes
    )
    grid = weights[:, None] * weights
    moment, slope = np.empty_like(rho), np.empty_like(rho)
    for i in range(len(v)):
        left = first[i]
        moment[i] = (grid * activation.function(left) * activation.function(second[i])).sum(
            axis=(1, 2)
        )
        slope[i] = (grid * activation.slope(left) * activation.slope(second[i])).sum(axis=(1, 2))
    return moment, slope


def printed_recursion(activation, X, *, depth, weight_var, bias_var):
    """Eq. (20) (label 18) as the paper prints it: the affine map stands twice in each layer from
    the second on.
    """
    K = X @ X.T / X.shape[1]
    for _ in range(depth):
        C = bias_var + weight_var * K
        v = np.diag(C)
        scale = np.sqrt(np.outer(v, v))
        K = bias_var + weight_var * scale * activation.moment(np.clip(C / scale, -1.0, 1.0))
    return K
