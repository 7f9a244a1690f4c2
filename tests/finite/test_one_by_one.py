"""Training convolutional networks: as a loop over modules does it, one of them or many."""

import copy

import numpy as np
import pytest
import torch

from mnngp import AvgPool, Conv, Flatten, GlobalAvgPool, Maxout
from mnngp.errors import InputError
from mnngp.finite import (
    ConvMaxoutNetwork,
    MaxoutNetwork,
    Training,
    gradient_descent,
    predict,
    tangent_kernel,
    train,
)
from mnngp.finite import training as module
from mnngp.finite.tangent import linear_descent
from tests.finite.common import BOTH, numbers, plainly

pytestmark = pytest.mark.usefixtures("one_torch_thread")

LAYERS = [Conv(3), Maxout(3), AvgPool(2), Conv(2), Maxout(2), GlobalAvgPool()]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 4, 4, 2))
Y = np.stack([np.sin(X.sum((1, 2, 3))), X[:, 0, 0, 0]], axis=-1)


def made(count, **change):
    options = {"outputs": 2, "dtype": "float64"} | change
    return [
        ConvMaxoutNetwork(4, LAYERS, (4, 4, 2), weight_var=var, seed=seed, **options)
        for seed, var in enumerate(np.linspace(0.5, 1.5, count))
    ]


@BOTH
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_training_is_a_plain_loop(parametrization, optimizer):
    """Three at once, each as if it were alone."""
    networks, others = (made(3, parametrization=parametrization) for _ in range(2))
    training = Training(optimizer, 1e-2, epochs=5, batch_size=8)
    histories = train(networks, X, Y, training)
    for network, other, history in zip(networks, others, histories, strict=True):
        losses = plainly(other, X, Y, training)
        np.testing.assert_allclose(history.loss, losses, rtol=1e-10)
        np.testing.assert_allclose(numbers(network), numbers(other), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            predict(network, X), other(torch.tensor(X)).detach(), rtol=1e-9, atol=1e-12
        )
    assert predict(networks, X, batch_size=3).shape == (3, 20, 2)
    np.testing.assert_array_equal(predict(networks, X.reshape(20, -1)), predict(networks, X))


def test_early_stopping_divergence_and_parts(monkeypatch):
    """A network that diverges, or ends early, does the others no harm."""
    networks, alone = made(4, outputs=1), made(4, outputs=1)
    with torch.no_grad():
        for group in (networks, alone):
            group[1].weights[0].mul_(1e200)
    y, validation = Y[:12, 0], (X[12:], Y[12:, 0])
    training = Training(learning_rate=3e-2, epochs=60, batch_size=12, patience=4)
    histories = train(networks, X[:12], y, training, validation=validation)
    assert [history.diverged for history in histories] == [False, True, False, False]
    assert len({history.epochs for history in histories}) > 2
    for network, other, history in zip(networks, alone, histories, strict=True):
        (own,) = train(other, X[:12], y, training, validation=validation)
        assert (own.epochs, own.kept, own.diverged) == (
            history.epochs,
            history.kept,
            history.diverged,
        )
        np.testing.assert_allclose(numbers(network), numbers(other), rtol=1e-8, atol=1e-11)
    parts = made(3)
    whole = made(3)
    train(whole, X, Y, Training(epochs=2))
    monkeypatch.setattr(module, "_MEMORY", 1)
    train(parts, X, Y, Training(epochs=2))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(numbers(one), numbers(other))


def test_sets_of_images():
    """The first half of the networks learns the first set, as images or as rows."""
    sets, targets = np.stack([X[:9], X[9:18]]), np.stack([Y[:9], Y[9:18]])
    training = Training(learning_rate=1e-2, epochs=3)
    expected = made(4)
    train(expected[:2], sets[0], targets[0], training)
    train(expected[2:], sets[1], targets[1], training)
    for points in (sets, sets.reshape(2, 9, -1)):
        networks = made(4)
        train(networks, points, targets, training)
        for network, other in zip(networks, expected, strict=True):
            np.testing.assert_allclose(numbers(network), numbers(other), rtol=1e-12)
        assert predict(networks, points).shape == (4, 9, 2)


def test_settings_of_pytorch_do_not_matter():
    def found(network):
        train(network, X, Y, Training(epochs=3, batch_size=16))
        return numbers(network), predict(network, X), tangent_kernel(network, X[:5])

    (expected,) = (found(network) for network in made(1, dtype="float32"))
    with torch.device("meta"):
        (one,) = made(1, dtype="float32")
    for setting in (
        torch.device("meta"),
        torch.inference_mode(),
        torch.autocast("cpu", dtype=torch.bfloat16),
    ):
        network = copy.deepcopy(one)
        with setting:
            again = found(network)
        for ours, theirs in zip(again, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_hooks_and_forwards_of_ones_own_are_trained():
    """A module computes itself: what is said to it is heard."""

    class Louder(ConvMaxoutNetwork):
        def forward(self, X):
            return 10.0 * super().forward(X)

    network, plain = Louder(4, LAYERS, (4, 4, 2), seed=0), made(1, dtype="float32", outputs=1)[0]
    plain.load_state_dict(network.state_dict())
    np.testing.assert_allclose(predict(network, X), 10.0 * predict(plain, X), rtol=1e-6)
    first, last = (train(network, X, Y[:, 0], Training(epochs=30))[0].loss[k] for k in (0, -1))
    assert last < first


def test_descent_approaches_the_tangent_kernels_predictor():
    """With 1,000 channels a network goes where the linear model of the analytic kernel does
    (measured: within 3 %, on a way more than ten times as long).
    """
    layers = [Conv(3), Maxout(2), Flatten()]
    network = ConvMaxoutNetwork(
        1000, layers, (4, 4, 2), weight_var=0.8, parametrization="ntk", seed=0
    )
    y, new = np.array([0.0, 1.0, -1.0]), X[3:8]
    tangent = network.kernel("ntk")
    step = 0.2 / np.linalg.eigvalsh(tangent(X[:3]))[-1]
    (found,) = gradient_descent(network, X[:3], y, step=step, record=[60], new=new)
    start = predict(network, X[:8])[:, 0].astype(float)[None]
    (expected,) = linear_descent(tangent, X[:3], y, new, start, step=step, record=[60])
    assert np.linalg.norm(found - expected) < 0.05 * np.linalg.norm(expected)
    assert np.linalg.norm(found - start[:, 3:]) > 0.3 * np.linalg.norm(expected)


def test_what_is_refused():
    networks = made(2)
    for group, text in (
        ([networks[0], MaxoutNetwork(4, 2, 1, 32)], "or the same of ConvMaxoutNetwork, got"),
        (
            [networks[0], ConvMaxoutNetwork(5, LAYERS, (4, 4, 2), 2, dtype="float64")],
            r"same channels, layers, image_shape, .* has channels 4, networks\[1\] has 5",
        ),
        (
            [networks[0], ConvMaxoutNetwork(4, LAYERS[3:], (4, 4, 2), 2, dtype="float64")],
            r"networks\[0\] has layers \[Conv\(3\), .*, networks\[1\] has \[Conv\(2\), ",
        ),
    ):
        with pytest.raises(InputError, match=text):
            train(group, X, Y)
    for points, text in (
        (X[:, :3], r"X must have the shape \(n, 4, 4, 2\) or \(n, 32\), .*got \(20, 3, 4, 2\)"),
        (X[0, 0, 0], r"X must have the shape .*got \(2,\)"),
        (np.where(X > 2.0, np.nan, X), r"X must be finite"),
        (np.stack([X] * 3), r"X must have sets of points for equal parts of the 2 networks"),
    ):
        with pytest.raises(InputError, match=text):
            train(networks, points, Y)
