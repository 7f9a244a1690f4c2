"""The network itself: its formula, its initialisations, its seeds."""

import numpy as np
import pytest
import torch

from mnngp import MaxoutKernel
from mnngp.errors import InputError
from mnngp.finite import MaxoutNetwork, predict
from tests.finite.common import SHAPE, numbers, of_layers, some_data, some_networks


def test_the_module_is_the_formula():
    network = some_networks(1)[0]
    X, _ = some_data()
    h = X
    for weight, bias in zip(network.weights, network.biases, strict=True):
        maps = (
            [(w, b) for w, b in zip(weight, bias, strict=True)]
            if weight.ndim == 3
            else [(weight, bias)]
        )
        h = np.max([h @ w.detach().numpy().T + b.detach().numpy() for w, b in maps], axis=0)
    found = network(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(found, h, rtol=0.0, atol=1e-13)  # measured: 1e-15
    np.testing.assert_allclose(
        of_layers(network)(torch.tensor(X)).detach().numpy(), h, rtol=0.0, atol=1e-13
    )


def test_parametrisations_begin_with_the_same_function():
    X, _ = some_data()
    standard, ntk = (
        predict(some_networks(parametrization=name), X) for name in ("standard", "ntk")
    )
    np.testing.assert_allclose(standard, ntk, rtol=0.0, atol=1e-13)  # measured: 2e-15
    raw = np.concatenate(
        [numbers(network) for network in some_networks(parametrization="ntk", width=50)]
    )
    assert abs(raw.std() - 1.0) < 5.0 / np.sqrt(2.0 * len(raw))


def test_initialisations():
    """Variances over fan-in, or standard deviations as they are; each layer its own where asked
    for.
    """
    wide = {"width": 300, "rank": 2, "depth": 2, "inputs": 100, "outputs": 50}
    variances = {"weight_var": [0.5, 1.0, 2.0], "bias_var": [0.1, 0.2, 0.0]}
    scaled, network = (
        MaxoutNetwork(**wide, **variances, seed=1),
        MaxoutNetwork(**wide, weight_std=0.01, bias_std=0.5, seed=1),
    )
    expected = [0.5 / 100, 1.0 / 300, 2.0 / 300, 0.1, 0.2, 0.0], [0.01**2] * 3 + [0.5**2] * 3
    for one, squares in zip((scaled, network), expected, strict=True):
        for values, square in zip((*one.weights, *one.biases), squares, strict=True):
            # of the mean square of so many normal numbers
            error = square * np.sqrt(2.0 / values.numel())
            assert abs(float(values.detach().square().mean()) - square) <= 5.0 * error
    assert network.kernel() == MaxoutKernel(2, 2, weight_var=[0.01, 0.03, 0.03], bias_var=0.25)
    assert MaxoutNetwork(**wide).kernel("ntk") == MaxoutKernel(
        2, 2, weight_var=1.0, bias_var=0.1, kind="ntk"
    )


def test_seeds():
    a, b, c = (MaxoutNetwork(**SHAPE, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(numbers(a), numbers(b))
    assert not np.array_equal(numbers(a), numbers(c))
    assert not np.array_equal(numbers(MaxoutNetwork(**SHAPE)), numbers(MaxoutNetwork(**SHAPE)))
    assert numbers(a).dtype == np.float32
    assert numbers(MaxoutNetwork(**SHAPE, dtype="float64")).dtype == np.float64
    for name in ("float32", "float64"):
        one, other = (
            MaxoutNetwork(**SHAPE, seed=3, dtype=dtype) for dtype in (name, getattr(torch, name))
        )
        assert np.array_equal(numbers(one), numbers(other))
        assert numbers(one).dtype == numbers(other).dtype == name


def test_without_a_seed_pytorchs_own_decides():
    with torch.random.fork_rng(devices=[]):
        found = []
        for seed in (5, 5, 6):
            torch.manual_seed(seed)
            found.append([numbers(MaxoutNetwork(**SHAPE)) for _ in range(2)])
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0][0], found[0][1])
    assert not np.array_equal(found[0][0], found[2][0])


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, "weight_var=1.0, bias_var=0.1"),
        (
            {"weight_var": np.array([1.0, 2.0, 0.5, 1.0]), "bias_var": np.float64(0.2)},
            "weight_var=[1.0, 2.0, 0.5, 1.0], bias_var=0.2",
        ),
        ({"weight_std": 0.3}, "weight_std=0.3, bias_std=0.0"),
    ],
)
def test_a_network_shows_its_initialisation(given, shown):
    assert f"parametrization='standard', {shown}" in str(MaxoutNetwork(**SHAPE, **given))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"width": 0}, r"width must be a positive integer .*, got 0"),
        ({"rank": 2.5}, r"rank must be a positive integer .*, got 2\.5"),
        ({"dtype": "float16"}, r"dtype must be one of 'float32', 'float64', got 'float16'"),
        (
            {"dtype": torch.bfloat16},
            r"dtype must be one of 'float32', 'float64', got "
            r"torch\.bfloat16",
        ),
        (
            {"parametrization": "mup"},
            r"parametrization must be one of 'standard', 'ntk', got 'mup'",
        ),
        ({"weight_std": 0.1, "weight_var": 1.0}, r"exclude each other, got weight_var=1\.0"),
        ({"bias_std": 0.1}, r"weight_std is missing"),
        ({"weight_std": -1.0}, r"weight_std must be a finite number above 0, got -1\.0"),
        ({"weight_var": [1.0, 1.0]}, r"weight_var must be one number, or 4 numbers"),
        ({"seed": -1}, r"seed must be a whole number .*, got -1"),
    ],
)
def test_a_network_says_what_is_wrong(change, text):
    with pytest.raises(InputError, match=text):
        MaxoutNetwork(**SHAPE | change)
