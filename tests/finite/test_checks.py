"""What cannot be trained is refused, and the error says why."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.nn.utils import parametrize, prune

from mnngp.errors import InputError
from mnngp.finite import MaxoutNetwork, Training, predict, train
from tests.finite.common import SHAPE, some_data, some_networks


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"optimizer": "lbfgs"}, r"optimizer must be one of 'adam', 'sgd', got 'lbfgs'"),
        ({"learning_rate": 0.0}, r"learning_rate must be a finite number above 0, got 0\.0"),
        ({"epochs": 0}, r"epochs must be a positive integer .*, got 0"),
        ({"batch_size": 2.0}, r"batch_size must be a positive integer .*, got 2\.0"),
        ({"patience": 0}, r"patience must be a positive integer .*, got 0"),
        ({"seed": -1}, r"seed must be a whole number .*, got -1"),
    ],
)
def test_a_training_says_what_is_wrong(change, text):
    with pytest.raises(InputError, match=text):
        Training(**change)


class _Louder(MaxoutNetwork):
    def forward(self, X):
        return 10.0 * super().forward(X)


def _with(change):
    network = MaxoutNetwork(**SHAPE)
    change(network)
    return network


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (_Louder(**SHAPE), "a forward of its own"),
        (_with(lambda n: n.register_forward_hook(lambda *_: None)), "forward hooks"),
        (
            _with(lambda n: prune.random_unstructured(n.weights, "1", 0.5)),
            "pruned or parametrised weights",
        ),
        (
            _with(lambda n: parametrize.register_parametrization(n.weights, "1", torch.nn.Tanh())),
            "pruned or parametrised",
        ),
        (_with(lambda n: n.weights.__setitem__(2, n.weights[1])), "parameters of it are tied"),
        (
            _with(lambda n: n.weights.__setitem__(2, torch.nn.Parameter(torch.ones(3)))),
            "the shapes that they were made with",
        ),
    ],
)
def test_networks_that_are_more_than_their_numbers_are_refused(network, reason):
    """What is stacked is the numbers: the rest would be left out without a word."""
    X, Y = some_data()
    for use in (
        lambda: train([MaxoutNetwork(**SHAPE), network], X, Y),
        lambda: predict([MaxoutNetwork(**SHAPE), network], X),
    ):
        with pytest.raises(
            InputError,
            match=r"networks\[1\] must compute what a MaxoutNetwork "
            rf"computes, but .*{reason}",
        ):
            use()


def test_numbers_of_numpy_become_pythons():
    training = Training(
        learning_rate=np.float64(1e-3),
        epochs=np.int64(2),
        batch_size=np.int32(7),
        patience=np.int64(3),
    )
    assert str(training) == "adam, learning rate 0.001, 2 epochs, batches of 7, patience 3"
    X, Y = some_data()
    network = MaxoutNetwork(**SHAPE)
    train(network, X, Y, training, validation=(X, Y))
    assert predict(network, X, batch_size=np.int64(3)).shape == (40, 2)


def test_train_says_what_is_wrong():
    with pytest.raises(
        InputError,
        match=r"learning_rate must be at most 6.55e\+04, as the "
        r"networks' dtype, got 100000\.0",
    ):
        train(MaxoutNetwork(**SHAPE).half(), *some_data(), Training("sgd", learning_rate=1e5))
    X, Y = some_data()
    good = some_networks()
    for networks, text in (
        (
            [],
            r"networks must be a MaxoutNetwork or a sequence of them, at least one, or the same of "
            r"ConvMaxoutNetwork, got \[\]",
        ),
        ([torch.nn.Linear(2, 2)], r"networks must be a MaxoutNetwork"),
        (
            torch.nn.Linear(2, 2),
            r"networks must be a MaxoutNetwork or a sequence of them, .* got Linear",
        ),
        (5, r"networks must be a MaxoutNetwork or a sequence of them, .* got 5"),
        ([good[0], good[0]], r"the same is there twice"),
        ([good[0], some_networks(1, rank=2)[0]], r"networks\[0\] has rank 3, networks\[1\] has 2"),
        (
            [good[0], some_networks(1, dtype="float32")[0]],
            r"networks\[0\] has dtype torch\.float64, networks\[1\] has torch\.float32",
        ),
    ):
        with pytest.raises(InputError, match=text):
            train(networks, X, Y)
    for points, targets, text in (
        (X[:, :3], Y, r"X must have 4 columns, as many as the networks have, got shape \(40, 3\)"),
        (X, Y[:, :1], r"Y must have 2 columns"),
        (
            X,
            Y[:, 0],
            r"Y must have 2 dimensions \(points, outputs\), such as one-hot rows "
            r"np\.eye\(2\)\[labels\] - 0\.1, got .*\(40,\)",
        ),
        (
            X,
            Y[:-1],
            r"Y must have a row for each row of X, \(1, 40\) \(sets, rows\), got \(1, 39\)",
        ),
        (X[0], Y, r"X must have 2 dimensions"),
        (np.where(X > 2.0, np.nan, X), Y, r"X must be finite"),
        (
            some_data(sets=3)[0],
            Y,
            r"X must have sets of points for equal parts of the 4 networks, "
            r"got shape \(3, 40, 4\)",
        ),
        (some_data(sets=2)[0], Y, r"Y must have a row for each row of X, \(2, 40\)"),
    ):
        with pytest.raises(InputError, match=text):
            train(good, points, targets)
    for wrong in ({"epochs": 1}, 5):
        with pytest.raises(
            InputError,
            match=r"training must be a Training, such as "
            r"Training\(epochs=10\), got",
        ):
            train(good, X, Y, wrong)
    for wrong, text in (
        ((X,), "tuple of length 1"),
        (X, "ndarray"),
        ([X, Y, Y], "list of length 3"),
    ):
        with pytest.raises(
            InputError,
            match=r"validation must be a pair \(X, Y\) of points and "
            rf"targets, got {text}",
        ):
            train(good, X, Y, validation=wrong)
    fixed = some_networks(2)
    fixed[1].biases[0].requires_grad_(False)
    with pytest.raises(
        InputError,
        match=r"requires_grad=False for biases\.0 of networks\[1\]: .* "
        r"write your own loop",
    ):
        train(fixed, X, Y)
    assert predict(fixed, X).shape == (2, 40, 2)
    with pytest.raises(
        InputError, match=r"patience=3 \(early stopping\) needs validation=\(X, Y\)"
    ):
        train(good, X, Y, Training(patience=3))
    with pytest.raises(
        InputError,
        match=r"validation must have as many sets of points as X, 2, "
        r"got 1",
    ):
        train(good, *some_data(sets=2), validation=(X, Y))
    with pytest.raises(InputError, match=r"batch_size must be a positive integer"):
        predict(good, X, batch_size=0)


WITHOUT_TORCH = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Blocked())
import numpy as np
import mnngp
from mnngp.errors import MissingExtraError
X = np.linspace(-1.0, 1.0, 12)[:, None]
mnngp.MaxoutKernel(depth=2, rank=3)(X)
mnngp.MaxoutGPRegressor(depth=2, rank=3, noise_var=0.1).fit(X, X[:, 0]).predict(X)
from mnngp.finite import Training
Training()
def network():
    from mnngp.finite import MaxoutNetwork
def training():
    from mnngp.finite import train
def top():
    mnngp.MaxoutNetwork
for attempt in (network, training, top):
    try:
        attempt()
    except MissingExtraError as error:
        assert isinstance(error, ImportError)
        assert str(error) == 'finite networks need PyTorch: pip install "mnngp[torch]"', error
    else:
        raise AssertionError(attempt)
print("well")
"""


def test_without_torch():
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert result.stdout == "well\n", result.stderr
