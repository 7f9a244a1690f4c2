"""Convolutional networks with finitely many channels: their formula, their kernel, their seeds."""

import copy

import numpy as np
import pytest
import torch
from scipy.special import erf, ndtr

from mnngp import (
    GELU,
    Abs,
    AvgPool,
    Conv,
    Erf,
    Flatten,
    GlobalAvgPool,
    LeakyReLU,
    Maxout,
    NetworkKernel,
    ReLU,
    Tanh,
)
from mnngp.errors import InputError
from mnngp.experiments.convergence.covariances import score
from mnngp.finite import ConvMaxoutNetwork, MaxoutNetwork, tangent_kernel
from mnngp.finite.sampling import network_seeds
from tests.finite.common import BOTH, numbers
from tests.kernels.convolution.plain import windows

pytestmark = pytest.mark.usefixtures("one_torch_thread")

IMAGES = np.random.default_rng(0).normal(size=(3, 6, 5, 2))
SIGNALS = np.random.default_rng(1).normal(size=(3, 11, 2))
LAYERS = [Conv(3), Maxout(3), Conv(3), Maxout(2), GlobalAvgPool()]


class Other(Maxout):
    """Of which nobody knows what it computes."""

    def __repr__(self):
        return f"Other(rank={self.rank})"


def circular(size, stride=1):
    return Conv(size, stride, padding="circular")


# layers, and variances where there is one for each map
CASES = {
    "rank 2": ([Conv(3), Maxout(2), Conv(3), Maxout(2), Flatten()], {}),
    "rank 3, global": (LAYERS, {}),
    "rank 4, valid": ([Conv(3, padding="valid"), Maxout(4), Conv(2), Maxout(4), Flatten()], {}),
    "circular, global": ([circular(3), Maxout(4), circular(2), Maxout(2), GlobalAvgPool()], {}),
    "larger than the image": ([circular((14, 3)), Maxout(3), circular(7), Flatten()], {}),
    "even windows": ([Conv((4, 2)), Maxout(3), Conv(2), Maxout(3), GlobalAvgPool()], {}),
    "strides": ([Conv(3, 2), Maxout(4), Conv(2, (1, 2)), Maxout(2), Flatten()], {}),
    "strides beyond the window": ([Conv(1, 2), Maxout(2), Conv(2, 3), Maxout(4), Flatten()], {}),
    "circular strides": ([circular(3, (2, 5)), Maxout(3), Flatten()], {}),
    "pooling": ([AvgPool(2, 1), Conv(3), Maxout(3), AvgPool(2), Conv(2), Tanh(), Flatten()], {}),
    "local pooling": ([Conv(3), Maxout(4), AvgPool(3, 1), Flatten()], {}),
    "variances": (LAYERS, {"weight_var": [0.5, 1.2, 0.8], "bias_var": [0.0, 0.3, 0.1]}),
    "others": ([Conv(2), ReLU(), Conv(2), Erf(), Conv(2), LeakyReLU(0.3), GlobalAvgPool()], {}),
    "and more": ([Conv(2), GELU(), Conv(2), Conv(2), Abs(), Flatten()], {}),
    "no convolution": ([AvgPool(2), Flatten()], {}),
}
SIGNAL_CASES = {
    "signals": ([Conv((3,)), Maxout(3), Conv(4, 2), Maxout(2), AvgPool(2), GlobalAvgPool()], {}),
    "signals, valid": ([Conv((3,), 2, padding="valid"), Maxout(4), Flatten()], {}),
}
EVERY = [
    *(pytest.param(*case, IMAGES, id=name) for name, case in CASES.items()),
    *(pytest.param(*case, SIGNALS, id=name) for name, case in SIGNAL_CASES.items()),
]
FUNCTIONS = {
    ReLU: lambda unit, z: np.maximum(z, 0.0),
    LeakyReLU: lambda unit, z: np.where(z > 0.0, z, unit.negative_slope * z),
    Abs: lambda unit, z: np.abs(z),
    Tanh: lambda unit, z: np.tanh(z),
    Erf: lambda unit, z: erf(z),
    GELU: lambda unit, z: z * ndtr(z),
    Maxout: lambda unit, z: z.reshape(len(z), unit.rank, -1, *z.shape[2:]).max(1),
}


def plainly(network, X):
    """The same network window by window: which positions they see is what the kernel's tests hold
    to neural-tangents.
    """
    kernel = network.kernel()
    signal = bool(kernel.network.of_signals)
    h = np.asarray(X, dtype=np.float64)
    h = (h[:, :, None, :] if signal else h).transpose(0, 3, 1, 2)
    places = iter(kernel.network.places(h.shape[2:], signal=signal))
    maps = iter(zip(network.weights, network.biases, strict=True))
    for layer in network.layers[:-1]:
        if type(layer) in FUNCTIONS:
            h = FUNCTIONS[type(layer)](layer, h)
            continue
        place = next(places)
        down, right = (
            windows(
                *(getattr(place, n)[axis] for n in ("behind", "stride", "size", "pad", "before")),
                isinstance(layer, Conv) and layer.padding == "circular",
            )
            for axis in (0, 1)
        )
        seen = np.einsum("aPy,bQx,ncyx->ncabPQ", down, right, h)
        if isinstance(layer, AvgPool):
            h = seen.mean(axis=(2, 3))
            continue
        weight, bias = (part.detach().numpy() for part in next(maps))
        weight = weight.reshape(-1, *weight.shape[-3:])
        h = np.einsum("mcab,ncabPQ->nmPQ", weight, seen) + bias.reshape(-1, 1, 1)
    h = h.reshape(len(h), -1) if network.layers[-1] == Flatten() else h.mean(axis=(2, 3))
    weight, bias = (part.detach().numpy() for part in next(maps))
    return h @ weight.T + bias


@pytest.mark.parametrize(("layers", "variances", "X"), EVERY)
def test_the_module_is_the_formula(layers, variances, X):
    network = ConvMaxoutNetwork(
        4, layers, X.shape[1:], outputs=2, **variances, seed=1, dtype="float64"
    )
    found = network(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(found, plainly(network, X), rtol=0.0, atol=1e-12)  # measured: 9e-16
    ntk = ConvMaxoutNetwork(
        4,
        layers,
        X.shape[1:],
        outputs=2,
        **variances,
        parametrization="ntk",
        seed=1,
        dtype="float64",
    )
    np.testing.assert_allclose(ntk(torch.tensor(X)).detach().numpy(), found, rtol=0.0, atol=1e-12)


def drawn(layers, variances, X, channels=128, networks=100):
    """Of one network's outputs, for given hidden units, the covariance: over many networks."""
    samples = []
    for seed in network_seeds(0, networks):
        network = ConvMaxoutNetwork(channels, layers, X.shape[1:], **variances, seed=seed)
        with torch.no_grad():
            H = network.hidden(torch.tensor(X, dtype=torch.float32)).double().numpy()
        weight_std, bias_std = network.deviations[-1]
        samples.append(bias_std**2 + weight_std**2 * H @ H.T)
    return np.stack(samples), network


@pytest.mark.parametrize(
    ("layers", "variances", "X"), [case for case in EVERY if case.id != "no convolution"]
)
def test_many_channels_have_the_kernel(layers, variances, X):
    """Within four standard errors, one is 0.4 to 1.2 % of the kernel; the worst found is 1.9."""
    samples, network = drawn(layers, variances, X)
    assert score(samples, network.kernel()(X)) < 4.0
    assert score(samples, 1.1 * network.kernel()(X)) > 4.0


def test_an_image_of_one_pixel_is_the_dense_network():
    X = np.random.default_rng(2).normal(size=(5, 4))
    layers = [Conv(1), Maxout(3), Conv(1), Maxout(3), GlobalAvgPool()]
    network = ConvMaxoutNetwork(7, layers, (1, 1, 4), 2, seed=3, dtype="float64")
    dense = MaxoutNetwork(7, 3, 2, inputs=4, outputs=2, seed=3, dtype="float64")
    np.testing.assert_allclose(
        network(torch.tensor(X)).detach(), dense(torch.tensor(X)).detach(), atol=1e-14
    )
    np.testing.assert_allclose(tangent_kernel(network, X), tangent_kernel(dense, X), rtol=1e-12)


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_the_critical_weight_variance_keeps_activations_through_twenty_layers(rank):
    """Zeros beyond the border take some away, as the kernel says; a circle has no border."""
    X = np.random.default_rng(3).normal(size=(2, 4, 4, 3))
    variances = {"weight_var": Maxout(rank).critical_weight_var, "bias_var": 0.0}
    kept, _ = drawn([*[circular(3), Maxout(rank)] * 20, Flatten()], variances, X, 48, 24)
    mean = np.diagonal(kept, axis1=1, axis2=2) / variances["weight_var"] / np.mean(X**2, (1, 2, 3))
    error = mean.std(axis=0, ddof=1) / np.sqrt(len(mean))
    assert error.max() < 0.2  # measured: 0.10 to 0.18
    assert np.all(np.abs(mean.mean(axis=0) - 1.0) < 4.0 * error)
    lost, network = drawn([*[Conv(3), Maxout(rank)] * 20, Flatten()], variances, X, 48, 24)
    exact = network.kernel().diag(X)
    assert score(np.diagonal(lost, axis1=1, axis2=2), exact) < 4.0
    assert np.all(exact < 0.1 * np.mean(X**2, (1, 2, 3)))


@BOTH
@pytest.mark.parametrize("name", ["rank 3, global", "strides", "pooling", "variances"])
def test_the_tangent_kernel_is_the_product_of_all_gradients(name, parametrization):
    layers, variances = CASES[name]
    network = ConvMaxoutNetwork(
        5,
        layers,
        (6, 5, 2),
        2,
        **variances,
        parametrization=parametrization,
        seed=1,
        dtype="float64",
    )
    for output in (0, 1):
        rows = []
        for image in torch.tensor(IMAGES):
            gradient = torch.autograd.grad(network(image[None])[0, output], network.parameters())
            rows.append(np.concatenate([part.flatten() for part in gradient]))
        expected = np.stack(rows) @ np.stack(rows).T
        np.testing.assert_allclose(
            tangent_kernel(network, IMAGES, output=output), expected, rtol=1e-11
        )
        np.testing.assert_allclose(
            tangent_kernel(network, IMAGES[:2], IMAGES, output=output), expected[:2], rtol=1e-11
        )
    assert all(parameter.grad is None for parameter in network.parameters())


def test_the_tangent_kernel_in_parts(monkeypatch):
    network = ConvMaxoutNetwork(5, LAYERS, (6, 5, 2), seed=1, dtype="float64")
    expected = tangent_kernel(network, IMAGES)
    monkeypatch.setattr("mnngp.finite.tangent._BLOCK", 300)
    np.testing.assert_allclose(tangent_kernel(network, IMAGES), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["rank 2", "rank 3, global", "circular, global", "strides"])
def test_tangent_kernels_of_many_channels(name):
    """The mean is within four standard errors of the analytic one (worst found: 1.9, and 1.5 %)."""
    layers, _ = CASES[name]
    kernel = NetworkKernel(layers, weight_var=0.8, kind="ntk", image_shape=(6, 5, 2))
    samples = np.stack(
        [
            tangent_kernel(ConvMaxoutNetwork.of_kernel(kernel, 128, seed), IMAGES)
            for seed in network_seeds(0, 20)
        ]
    )
    exact = kernel(IMAGES)
    assert score(samples, exact) < 4.0
    assert np.linalg.norm(samples.mean(0) - exact) < 0.05 * np.linalg.norm(exact)
    assert ConvMaxoutNetwork.of_kernel(kernel, 3, 0).kernel("ntk") == kernel


def test_images_as_the_kernel_takes_them():
    """As images, without the axis of one channel, as rows; integers and others' numbers."""
    pixels = np.random.default_rng(4).integers(0, 255, size=(4, 6, 5, 1)).astype(np.uint8)
    network = ConvMaxoutNetwork(3, LAYERS, (6, 5), seed=0)
    expected = tangent_kernel(network, pixels)
    for same in (pixels[..., 0], pixels.reshape(4, -1), pixels.tolist(), np.asfortranarray(pixels)):
        np.testing.assert_array_equal(tangent_kernel(network, same), expected)
    floats = torch.tensor(pixels, dtype=torch.float32)
    for same in (floats[..., 0], floats.flatten(1)):
        assert torch.equal(network(same), network(floats))
    column = ConvMaxoutNetwork(3, [Conv((3, 1)), Maxout(2), Flatten()], (11, 1, 2), seed=0)
    signal = ConvMaxoutNetwork(3, [Conv((3,)), Maxout(2), Flatten()], (11, 2), seed=0)
    X = torch.tensor(SIGNALS, dtype=torch.float32)
    assert torch.equal(signal(X), column(X[:, :, None, :]))
    assert torch.equal(signal(X.flatten(1)), signal(X))


def test_seeds_and_copies():
    def made(**change):
        return ConvMaxoutNetwork(4, LAYERS, (6, 5, 2), **{"seed": 3} | change)

    assert np.array_equal(numbers(made()), numbers(made()))
    assert not np.array_equal(numbers(made()), numbers(made(seed=4)))
    assert numbers(made(dtype="float64")).dtype == np.float64
    with torch.random.fork_rng(devices=[]):
        found = []
        for seed in (5, 5, 6):
            torch.manual_seed(seed)
            found.append(numbers(made(seed=None)))
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    again = made(seed=9)
    again.load_state_dict(made().state_dict())
    X = torch.tensor(IMAGES, dtype=torch.float32)
    for other in (again, copy.deepcopy(made())):
        assert torch.equal(other(X), made()(X))


def test_a_network_knows_its_kernel_and_shows_its_shape():
    given = {"weight_var": [0.5, 1.0, 2.0], "bias_var": np.float64(0.2)}
    network = ConvMaxoutNetwork(4, LAYERS, (6, 5, 2), **given)
    assert network.kernel("ntk") == NetworkKernel(
        LAYERS, [0.5, 1.0, 2.0], 0.2, kind="ntk", image_shape=(6, 5, 2)
    )
    shown = f"channels=4, layers={LAYERS}, image_shape=(6, 5, 2), outputs=1"
    assert f"{shown}, parametrization='standard', weight_var=[0.5, 1.0, 2.0], bias_var=0.2" in str(
        network
    )
    wide = ConvMaxoutNetwork(100, LAYERS, (6, 5, 2), outputs=200, **given, seed=1)
    squares = [0.5 / 18, 1.0 / 900, 2.0 / 100]
    for values, square in zip(wide.weights, squares, strict=True):
        error = square * np.sqrt(2.0 / values.numel())
        assert abs(float(values.detach().square().mean()) - square) <= 5.0 * error


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"channels": 0}, r"channels must be a positive integer .*, got 0"),
        ({"outputs": 1.5}, r"outputs must be a positive integer .*, got 1\.5"),
        ({"image_shape": None}, r"image_shape must be the shape of the images, such as \(28, 28\)"),
        ({"image_shape": (6,)}, r"image_shape must be None or \(height, width\) or .*got \(6,\)"),
        ({"image_shape": 6}, r"image_shape must be None or \(height, width\) or .*got 6"),
        ({"layers": [Maxout(3)]}, r"layers must have convolutions .* there is MaxoutNetwork"),
        ({"layers": 5}, r"layers must be a list of at least one activation.*got 5"),
        ({"layers": [Conv(3), Maxout(3)]}, r"layers\[1\].*is the last layer: a convolutional"),
        (
            {"layers": [Conv(3), Other(3), Flatten()]},
            r"layers\[1\] must be one of Maxout, ReLU, .*, got Other\(rank=3\)",
        ),
        (
            {"layers": [Conv(7, padding="valid"), Flatten()]},
            r"layers\[0\], Conv\(7, padding='valid'\), needs at least 7 × 7 positions",
        ),
        ({"weight_var": [1.0, 1.0]}, r"weight_var must be one number, or 3 numbers"),
        ({"bias_var": -1.0}, r"bias_var must be .* at least 0"),
        ({"parametrization": "mup"}, r"parametrization must be one of 'standard', 'ntk', got"),
        ({"dtype": "float16"}, r"dtype must be one of 'float32', 'float64', got 'float16'"),
        ({"seed": -1}, r"seed must be a whole number .*, got -1"),
    ],
)
def test_a_network_says_what_is_wrong(change, text):
    usual = {"channels": 3, "layers": LAYERS, "image_shape": (6, 5, 2)}
    with pytest.raises(InputError, match=text):
        ConvMaxoutNetwork(**usual | change)


def test_wrong_images_and_kernels_are_refused():
    network = ConvMaxoutNetwork(3, LAYERS, (6, 5, 2))
    text = r"X must have the shape \(n, 6, 5, 2\) or \(n, 60\), as image_shape says, got "
    with pytest.raises(InputError, match=text + r"\(3, 6, 5, 1\)"):
        network(torch.zeros(3, 6, 5, 1))
    with pytest.raises(InputError, match=text + r"\(3, 6, 5\)"):
        tangent_kernel(network, IMAGES[..., 0])
    with pytest.raises(InputError, match=r"X must be finite"):
        tangent_kernel(network, np.where(IMAGES > 2.0, np.nan, IMAGES))
    for kernel, text in (
        (3, "kernel must be a NetworkKernel with convolutions, got 3"),
        (NetworkKernel([Maxout(2)]), "kernel must be a NetworkKernel with convolutions, got"),
        (NetworkKernel(LAYERS), "kernel must have an image_shape, and flips=False"),
        (NetworkKernel(LAYERS, image_shape=(6, 5), flips=True), "flips=False"),
    ):
        with pytest.raises(InputError, match=text):
            ConvMaxoutNetwork.of_kernel(kernel, 3, seed=0)
