"""Derivatives of convolutional kernels in the variances, by differences of fourth order.

The kernel is smooth in the logarithm of a variance, and known to some 1e-15; with a step of 2e-3
the five-point formula has an error of some 1e-12 of the kernel, for four kernels a parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mnngp._typing import Matrix, Vector
from mnngp.kernels import evaluate, gradient
from mnngp.kernels.convolution.image_points import Images
from mnngp.kernels.gradient import ThetaIndex
from mnngp.networks.convolutional import ConvolutionalNetwork
from mnngp.networks.layers import Dense

_STEP = 2e-3
_FORMULA = ((1.0, 8.0), (-1.0, -8.0), (2.0, -1.0), (-2.0, 1.0))  # over twelve steps


def _moved(
    network: ConvolutionalNetwork, chosen: tuple[Vector, Vector], step: float
) -> ConvolutionalNetwork:
    """The network with some of its log variances moved."""
    factor = np.exp(step)
    weights, biases = (np.where(part, factor, 1.0) for part in chosen)
    affine = tuple(
        Dense(dense.weight_var * float(w), dense.bias_var * float(b))
        for dense, w, b in zip(network.affine, weights, biases, strict=True)
    )
    return replace(network, affine=affine)


def _derivative(
    function: Callable[[ConvolutionalNetwork], Matrix],
    network: ConvolutionalNetwork,
    chosen: tuple[Vector, Vector],
) -> Matrix:
    parts = [
        weight * function(_moved(network, chosen, steps * _STEP)) for steps, weight in _FORMULA
    ]
    return np.asarray(sum(parts[1:], parts[0]) / (12.0 * _STEP))


def _doubles(network: ConvolutionalNetwork, x: Images) -> tuple[ConvolutionalNetwork, Images]:
    """Differences of float32 would be noise."""
    pixels = x.pixels.astype(np.float64)
    return replace(network, dtype=np.dtype(np.float64)), Images.of_pixels(pixels, signal=x.signal)


@gradient.matrix_and_gradient.register(Images)
def _matrix_and_gradient(
    network: ConvolutionalNetwork, x: Images, theta_index: ThetaIndex, count: int
) -> tuple[Matrix, Matrix]:
    kernel, _ = evaluate.matrix(network, x, None)  # type: ignore[arg-type]
    planes = np.empty((count, *kernel.shape), dtype=network.dtype)
    exact, points = _doubles(network, x)
    for index in range(count):
        chosen = theta_index[0] == index, theta_index[1] == index
        planes[index] = _derivative(
            lambda moved: evaluate.matrix(moved, points, None)[0],  # type: ignore[arg-type]
            exact,
            chosen,
        )
    return kernel, np.moveaxis(planes, 0, -1)


@gradient.pulled_correlations.register(Images)
def _pulled_correlations(
    network: ConvolutionalNetwork, x: Images, pulled: Matrix, *, contraction: float = 1.0
) -> tuple[Vector, Vector]:
    exact, points = _doubles(network, x)
    count = len(network.affine)
    of_sum, of_diagonal = np.zeros((2, count)), np.zeros((2, count, len(x)))

    def both(moved: ConvolutionalNetwork) -> Vector:
        rho = evaluate.correlations(moved, points, contraction=contraction)  # type: ignore[arg-type]
        diagonal = evaluate.diagonal(moved, points)  # type: ignore[arg-type]
        return np.append(np.log(diagonal), np.sum(pulled * rho))

    for row in range(2):
        for layer in range(count):
            if row == 1 and network.affine[layer].bias_var == 0.0:
                continue
            chosen = np.zeros((2, count), dtype=bool)
            chosen[row, layer] = True
            found = _derivative(both, exact, (chosen[0], chosen[1]))
            of_sum[row, layer], of_diagonal[row, layer] = found[-1], found[:-1]
    return of_sum, of_diagonal
