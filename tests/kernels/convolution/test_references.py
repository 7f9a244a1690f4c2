"""Convolutional kernels against neural-tangents, the plain recursion, and sampled networks."""

import json
from pathlib import Path

import numpy as np
import pytest

from mnngp import (
    GELU,
    AvgPool,
    Conv,
    Erf,
    Flatten,
    GlobalAvgPool,
    LeakyReLU,
    Maxout,
    MaxoutKernel,
    NetworkKernel,
    ReLU,
    Tanh,
)
from tests.kernels.convolution.plain import kernel_matrix

REFERENCE = json.loads(
    (Path(__file__).parents[2] / "reference" / "convolution_reference.json").read_text()
)
UNITS = {"relu": ReLU(), "leaky_relu": LeakyReLU(0.25), "erf": Erf(), "gelu": GELU()}
CASES = [pytest.param(case, id=case["name"]) for case in REFERENCE["cases"]]


def layer_of(description):
    if description[0] == "conv":
        return Conv(*description[1:])
    if description[0] == "pool":
        return AvgPool(*description[1:])
    return {**UNITS, "global": GlobalAvgPool(), "flatten": Flatten()}[description]


def relative(found, expected):
    """Differences relative to √(K_ii K_jj)."""
    scale = np.sqrt(np.diag(expected))
    return np.abs(found - expected) / np.outer(scale, scale)


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("case", CASES)
def test_neural_tangents(case, kind):
    """Measured worst: 2e-15 off the diagonal (6e-13 for the nearly equal images' tangents).

    The tangent kernel's diagonal is left out: neural-tangents has lost half of its digits there.
    """
    images = np.array(REFERENCE["images"][str(case["channels"])])
    kernel = NetworkKernel(
        [layer_of(layer) for layer in case["layers"]], case["weight_var"], case["bias_var"], kind
    )
    error = relative(kernel(images), np.array(case[kind]))
    if kind == "ntk":
        np.fill_diagonal(error, 0.0)
    assert error.max() < 1e-12


LAYERS = {
    "ranks": [Conv(3), Maxout(4), Conv(3), Maxout(3), GlobalAvgPool()],
    "flat": [Conv(3), Maxout(5), Conv(3), Maxout(4), Flatten()],
    "strides": [Conv((3, 2), stride=(2, 1)), Maxout(4), Conv(3, 2), Maxout(3), GlobalAvgPool()],
    "wide windows": [Conv(7), Maxout(3), Conv((1, 5)), Maxout(3), GlobalAvgPool()],
    "pooling first": [AvgPool(2), Conv(3), Maxout(4), Flatten()],
    "poolings": [Conv(3), Maxout(4), AvgPool((2, 3)), Conv(2), Tanh(), AvgPool(2, 1), GlobalAvgPool()],
    "circular stride": [
        Conv(3, 2, "circular"), Maxout(3), Conv(3, padding="circular"), Maxout(3), GlobalAvgPool(),
    ],
    "circular poolings": [
        Conv(3, padding="circular"), Maxout(4), AvgPool(2), Conv(3), Maxout(3), Flatten(),
    ],
    "linear": [Conv(3), Conv(3), Maxout(4), GlobalAvgPool()],
    "smooth": [Conv(3), Erf(), Conv(3, padding="valid"), GELU(), GlobalAvgPool()],
}  # fmt: skip
IMAGES = np.random.default_rng(3).normal(size=(19, 6, 8, 2))
IMAGES[4] = 0.0
IMAGES[5] = IMAGES[2]


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("name", LAYERS)
def test_plain_recursion(name, kind):
    """Nineteen images: blocks of sixteen and the rest; rows that are few, and others."""
    layers = LAYERS[name]
    count = 1 + sum(isinstance(layer, Conv) for layer in layers)
    kernel = NetworkKernel(
        layers, list(np.linspace(0.6, 1.2, count)), list(np.linspace(0.05, 0.3, count)), kind
    )
    expected = kernel_matrix(kernel.network, IMAGES)
    found, scale = kernel(IMAGES), np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # the plain recursion's own tangents at ρ = 1 have half of the digits
    tolerance = np.where(expected > 0.999 * scale, 1e-8, 1e-13) if kind == "ntk" else 1e-13
    assert np.all(np.abs(found - expected) <= tolerance * scale)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(kernel.diag(IMAGES), np.diag(found), rtol=1e-14)
    for rows in (slice(0, 3), slice(2, 19)):
        part = kernel(IMAGES[rows], IMAGES[1:])
        assert np.all(np.abs(part - found[rows, 1:]) <= 1e-8 * scale[rows, 1:])
    single = NetworkKernel(layers, kernel.weight_var, kernel.bias_var, kind, "float32")(IMAGES)
    assert single.dtype == np.float32
    assert relative(single, found).max() < 2e-6


def test_one_pixel_is_a_dense_network():
    points = np.random.default_rng(0).normal(size=(5, 4))
    kernel = NetworkKernel([Conv(1), Maxout(4), Conv(1), Maxout(4), Flatten()], 0.7, 0.2)
    dense = MaxoutKernel(2, 4, 0.7, 0.2)
    np.testing.assert_allclose(kernel(points[:, None, None, :]), dense(points), rtol=1e-13)


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("readout", [GlobalAvgPool(), Flatten()])
def test_sampled_networks(rank, readout):
    """Finite networks of 256 channels, 300 of them: within four standard errors.

    For given channels the output has the covariance ``b + w <h, h'>``, of means or of all positions.
    """
    rng, channels, networks = np.random.default_rng(rank), 256, 300
    images = rng.normal(size=(3, 5, 4, 2))
    weight, bias = 0.8, 0.2
    found = np.empty((networks, 3, 3))
    for index in range(networks):
        hidden = images
        for _ in range(2):
            padded = np.pad(hidden, ((0, 0), (1, 1), (1, 1), (0, 0)))
            patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
            patches = patches.reshape(*hidden.shape[:3], -1)
            scale = np.sqrt(weight / patches.shape[-1])
            weights = rng.normal(scale=scale, size=(patches.shape[-1], channels * rank))
            sums = patches @ weights + rng.normal(scale=np.sqrt(bias), size=channels * rank)
            hidden = sums.reshape(*sums.shape[:3], channels, rank).max(axis=4)
        hidden = (
            hidden.mean(axis=(1, 2))
            if isinstance(readout, GlobalAvgPool)
            else hidden.reshape(3, -1)
        )
        found[index] = bias + weight * hidden @ hidden.T / hidden.shape[1]
    kernel = NetworkKernel([Conv(3), Maxout(rank), Conv(3), Maxout(rank), readout], weight, bias)
    error = found.std(axis=0, ddof=1) / np.sqrt(networks)
    assert np.abs((found.mean(axis=0) - kernel(images)) / error).max() < 4.0
