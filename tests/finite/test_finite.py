"""Finite networks: the module, what training them does, and that together is as good as alone."""

import copy
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn.utils import parametrize, prune  # noqa: E402

from mnngp import MaxoutKernel  # noqa: E402
from mnngp.errors import InputError  # noqa: E402
from mnngp.finite import History, MaxoutNetwork, Training, predict, tangent_kernel, train  # noqa: E402
from mnngp.finite import training as module  # noqa: E402
from mnngp.finite.stack import Stack  # noqa: E402

SHAPE = {"width": 6, "rank": 3, "depth": 3, "inputs": 4, "outputs": 2}
BOTH = pytest.mark.parametrize("parametrization", ["standard", "ntk"])


def some_data(points=40, sets=None, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(points, 4) if sets is None else (sets, points, 4))
    return X, np.stack([np.sin(X.sum(-1)), X[..., 0] * X[..., 1]], axis=-1)


def some_networks(count=4, *, parametrization="standard", dtype="float64", **change):
    """Of different initialisations: the paper's, since they are trained in one group."""
    stds = np.linspace(0.2, 0.6, count)
    return [
        MaxoutNetwork(
            **SHAPE | change,
            weight_std=std,
            bias_std=0.3,
            parametrization=parametrization,
            seed=seed,
            dtype=dtype,
        )
        for seed, std in enumerate(stds)
    ]


def numbers(network):
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


# The module.


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


# The stack: loss and gradient of many.


@BOTH
@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("depth", [1, 4])
def test_loss_and_gradient_are_those_of_autograd(parametrization, rank, depth):
    networks = some_networks(parametrization=parametrization, rank=rank, depth=depth)
    X, Y = (torch.tensor(values) for values in some_data())
    stack = Stack(networks)
    losses = stack.loss(X[None], Y[None])
    gradients = Stack(networks)  # with the gradient for its parameters, to take it apart
    gradients.parameters.copy_(stack.parameters.grad)
    for row, network in enumerate(networks):
        loss = torch.nn.functional.mse_loss(network(X), Y)
        expected = torch.cat(
            [part.flatten() for part in torch.autograd.grad(loss, list(network.parameters()))]
        )
        gradients.store(row, network)
        # measured: 3e-16
        assert float(losses[row]) == pytest.approx(float(loss.detach()), rel=1e-13)
        # 6e-16
        np.testing.assert_allclose(
            numbers(network), expected.numpy(), rtol=0.0, atol=1e-13 * float(expected.abs().max())
        )


def test_gradient_is_that_of_differences():
    """Independent of autograd; away from the kinks central differences have an error of h²."""
    network = some_networks(1)[0]
    X, Y = (torch.tensor(values)[None] for values in some_data())
    stack = Stack([network])
    stack.loss(X, Y)
    gradient = stack.parameters.grad.clone()
    h, found = 1e-6, []
    for place in range(len(gradient)):
        values = []
        for sign in (1.0, -1.0):
            stack.parameters[place] += sign * h
            values.append(float(stack.loss(X, Y)))
            stack.parameters[place] -= sign * h
        found.append((values[0] - values[1]) / (2.0 * h))
    # measured: 1e-10; the largest is 0.4
    np.testing.assert_allclose(found, gradient.numpy(), rtol=0.0, atol=1e-8)


def test_maps_that_tie_share_the_gradient():
    """As the module's own maximum does."""
    network = MaxoutNetwork(**SHAPE, dtype="float64", seed=0)
    with torch.no_grad():
        for parameter in (*network.weights[:-1], *network.biases[:-1]):
            parameter[1] = parameter[0]
    X, Y = (torch.tensor(values) for values in some_data())
    stack = Stack([network])
    stack.loss(X[None], Y[None])
    loss = torch.nn.functional.mse_loss(network(X), Y)
    expected = torch.autograd.grad(loss, list(network.weights))
    for found, value in zip(stack.views(stack.parameters.grad)[0], expected, strict=True):
        np.testing.assert_allclose(found.flatten(), value.flatten(), rtol=0.0, atol=1e-15)
    assert torch.equal(expected[0][0], expected[0][1])


# Training.


@BOTH
@pytest.mark.parametrize(
    "training",
    [Training("adam", 1e-3, 20, 16, seed=1), Training("sgd", 1e-2, 20, 64)],
    ids=["adam", "sgd"],
)
def test_training_is_the_plain_loop(parametrization, training):
    X, Y = some_data()
    networks, others = (some_networks(parametrization=parametrization) for _ in range(2))
    histories = train(networks, X, Y, training)
    for network, other, history in zip(networks, others, histories, strict=True):
        # measured: 7e-16
        np.testing.assert_allclose(history.loss, plainly(other, X, Y, training), rtol=1e-12)
        np.testing.assert_allclose(numbers(network), numbers(other), rtol=0.0, atol=1e-12)  # 5e-16
        assert (history.epochs, history.kept, history.diverged, history.validation_loss) == (
            20,
            20,
            False,
            [],
        )


def test_training_is_that_of_linear_layers():
    X, Y = some_data()
    network = some_networks(1)[0]
    plain = of_layers(network)
    training = Training("adam", 1e-3, 30, 16)
    (history,) = train(network, X, Y, training)
    # measured: 2e-16
    np.testing.assert_allclose(history.loss, plainly(plain, X, Y, training), rtol=1e-12)
    np.testing.assert_allclose(
        predict(network, X), plain(torch.tensor(X)).detach().numpy(), rtol=0.0, atol=1e-12
    )


def test_a_linear_network_finds_least_squares():
    """Rank 1 has no maximum: the network is linear, and the best it can do is known."""
    X, Y = some_data(points=60)
    network = MaxoutNetwork(8, 1, 1, 4, 2, dtype="float64", seed=0)
    (history,) = train(network, X, Y, Training("sgd", 0.1, 1500, 60))
    columns = np.column_stack([X, np.ones(len(X))])
    best = columns @ np.linalg.lstsq(columns, Y, rcond=None)[0]
    np.testing.assert_allclose(predict(network, X), best, rtol=0.0, atol=1e-10)  # measured: 2e-15
    assert history.loss[-1] == pytest.approx(np.mean((best - Y) ** 2), rel=1e-12)


@BOTH
@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_together_is_as_alone(parametrization, dtype, limit, optimizer):
    """Measured: 1e-15 and 2e-7. 50 steps of 0.01 move a parameter by up to 0.5."""
    X, Y = some_data()
    training = Training(optimizer, 1e-2, 25, 16)
    together, alone = (
        some_networks(dtype=dtype, parametrization=parametrization) for _ in range(2)
    )
    histories = train(together, X, Y, training)
    for network, other, history in zip(together, alone, histories, strict=True):
        (single,) = train(other, X, Y, training)
        np.testing.assert_allclose(history.loss, single.loss, rtol=limit)
        np.testing.assert_allclose(numbers(network), numbers(other), rtol=0.0, atol=limit)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_memory_may_divide_them(monkeypatch, optimizer):
    X, Y = some_data()
    training = Training(optimizer, 1e-2, 10, 16)
    whole, parts = some_networks(7), some_networks(7)
    expected, shares = train(whole, X, Y, training), []
    monkeypatch.setattr(
        module, "_MEMORY", 3 * 8 * (4 * module.Shape.of(parts[0]).parameters + 16 * 100)
    )
    counts = [some.stop - some.start for some, _ in module._parts(parts, 16, 1)]
    assert counts == [2, 2, 3]
    found = train(parts, X, Y, training, progress=shares.append)
    for network, other in zip(parts, whole, strict=True):
        np.testing.assert_allclose(numbers(network), numbers(other), rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(
        [history.loss for history in found], [history.loss for history in expected], rtol=1e-12
    )
    assert len(shares) == 30
    assert sum(shares) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(predict(parts, X), predict(whole, X), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("memory", [1 << 31, 1])
def test_sets_of_points(monkeypatch, memory):
    """Several sets, each for an equal part of the networks, are several trainings."""
    monkeypatch.setattr(module, "_MEMORY", memory)
    X, Y = some_data(sets=3)
    together, apart = some_networks(6), some_networks(6)
    training = Training(learning_rate=1e-2, epochs=10, batch_size=16)
    histories = train(together, X, Y, training)
    found = predict(together, X)
    for one in range(3):
        some = slice(2 * one, 2 * one + 2)
        expected = train(apart[some], X[one], Y[one], training)
        np.testing.assert_allclose(
            [h.loss for h in histories[some]], [h.loss for h in expected], rtol=1e-12
        )
        np.testing.assert_allclose(found[some], predict(apart[some], X[one]), rtol=0.0, atol=1e-11)


def test_the_same_numbers_again():
    """Bit for bit: same seeds, same machine, same number of threads."""
    X, Y = some_data()
    runs = []
    for seed in (0, 0, 1):
        networks = some_networks(dtype="float32")
        histories = train(
            networks, X, Y, Training(learning_rate=1e-2, epochs=10, batch_size=16, seed=seed)
        )
        runs.append(
            (
                np.concatenate([numbers(network) for network in networks]),
                [history.loss for history in histories],
            )
        )
    assert np.array_equal(runs[0][0], runs[1][0])
    assert runs[0][1] == runs[1][1]
    assert not np.array_equal(runs[0][0], runs[2][0])  # the order of the batches is another


def test_one_network_and_tensors():
    X, Y = some_data()
    one, other = some_networks(1)[0], some_networks(1)[0]
    training = Training(learning_rate=1e-2, epochs=5)
    a, b = train(one, X, Y, training), train([other], torch.tensor(X), torch.tensor(Y), training)
    assert a == b
    assert np.array_equal(numbers(one), numbers(other))
    assert predict(one, X).shape == (40, 2)
    assert predict([other], X).shape == (1, 40, 2)
    np.testing.assert_allclose(
        predict(one, X), one(torch.tensor(X)).detach().numpy(), rtol=0.0, atol=1e-14
    )
    np.testing.assert_allclose(predict(one, X, batch_size=7), predict(one, X), rtol=0.0, atol=1e-14)
    assert all(parameter.requires_grad and parameter.grad is None for parameter in one.parameters())


# Networks that end before the others.


@BOTH
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("sets", [None, 3])
def test_a_network_that_diverges_does_the_others_no_harm(parametrization, optimizer, sets):
    """float32 ends at 3e38, and that is where 1e6 per layer leads; the others must go on as if it
    was not there.
    """
    X, Y = some_data(sets=sets)
    change = {"dtype": "float32", "depth": 8, "parametrization": parametrization}
    training = Training(optimizer, 1e-3 if optimizer == "adam" else 1e-6, 12, 16)

    def three():
        middle = MaxoutNetwork(
            **SHAPE | {"depth": 8},
            weight_std=1e6,
            dtype="float32",
            parametrization=parametrization,
            seed=1,
        )
        return [some_networks(3, **change)[0], middle, some_networks(3, **change)[2]]

    together, alone = three(), three()
    before = numbers(together[1])
    histories = train(together, X, Y, training)
    assert [history.diverged for history in histories] == [False, True, False]
    assert [history.epochs for history in histories] == [12, 1, 12]
    assert histories[1].kept == 0
    assert not np.isfinite(histories[1].loss[0])
    assert np.array_equal(numbers(together[1]), before)
    for one in (0, 2):
        mine = (X, Y) if sets is None else (X[one], Y[one])
        (single,) = train(alone[one], *mine, training)
        # measured: the same numbers
        np.testing.assert_allclose(histories[one].loss, single.loss, rtol=1e-5)
        np.testing.assert_allclose(numbers(together[one]), numbers(alone[one]), rtol=0.0, atol=1e-5)


def test_divergence_in_the_middle():
    """Too large a step: the parameters kept are those of the last finite loss, and the rest of the
    group is left in peace.
    """
    X, Y = some_data()
    networks = [*some_networks(2, dtype="float32", parametrization="ntk")]
    networks[1] = MaxoutNetwork(**SHAPE, weight_std=8.0, parametrization="ntk", seed=5)
    histories = train(networks, X, Y, Training("sgd", 1e-2, 40, 16))
    assert [history.diverged for history in histories] == [False, True]
    assert 1 <= histories[1].epochs < 40
    assert histories[0].loss[-1] < histories[0].loss[0]
    assert all(
        history.diverged for history in train(networks[1], X, Y, Training("sgd", 1.0, 40, 16))
    )


def test_early_stopping_keeps_the_best():
    X, Y = some_data(points=12)
    judge = some_data(points=50, seed=1)
    training = Training(learning_rate=0.02, epochs=200, batch_size=6, patience=5)
    networks, shares = some_networks(), []
    histories = train(networks, X, Y, training, validation=judge, progress=shares.append)
    assert sum(shares) == pytest.approx(1.0, abs=1e-12)
    assert len({history.epochs for history in histories}) > 1  # they do not end together
    for network, history, other in zip(networks, histories, some_networks(), strict=True):
        best = int(np.argmin(history.validation_loss))
        assert history.kept == best + 1
        assert history.epochs == min(history.kept + 5, 200) < 200
        # measured by hand, and the same network trained alone for so many epochs
        assert np.mean((predict(network, judge[0]) - judge[1]) ** 2) == pytest.approx(
            history.validation_loss[best], rel=1e-12
        )
        train(other, X, Y, Training(learning_rate=0.02, epochs=history.kept, batch_size=6))
        np.testing.assert_allclose(numbers(network), numbers(other), rtol=0.0, atol=1e-11)


def test_validation_without_early_stopping_only_watches():
    X, Y = some_data()
    watched, others = some_networks(), some_networks()
    training = Training(learning_rate=1e-2, epochs=8, batch_size=16)
    histories = train(watched, X, Y, training, validation=(X, Y))
    train(others, X, Y, training)
    for network, other, history in zip(watched, others, histories, strict=True):
        assert np.array_equal(numbers(network), numbers(other))
        assert len(history.validation_loss) == 8
        assert history.validation_loss[-1] == pytest.approx(
            np.mean((predict(network, X) - Y) ** 2), rel=1e-12
        )


@pytest.mark.parametrize("patience", [None, 3])
def test_a_diverged_network_and_early_stopping(patience):
    X, Y = some_data()
    networks = [*some_networks(1, dtype="float32"), MaxoutNetwork(**SHAPE, weight_std=1e12, seed=1)]
    training = Training(learning_rate=1e-3, epochs=6, batch_size=16, patience=patience)
    good, bad = train(networks, X, Y, training, validation=(X, Y))
    assert (good.diverged, good.epochs, good.kept) == (False, 6, 6)
    assert bad == History([bad.loss[0]], [], 0, True)


@pytest.mark.parametrize("way", [np.flip, np.asfortranarray, "read-only", ">f8", np.longdouble])
def test_arrays_of_any_layout(way):
    """PyTorch takes no negative strides, and warns of arrays that cannot be written to; warnings
    are errors here.
    """
    X, Y = some_data()

    def laid_out(values):
        if way == "read-only":
            values = values.copy()
            values.flags.writeable = False
            return values
        return (
            way(values, 0)
            if way is np.flip
            else way(values)
            if way is np.asfortranarray
            else values.astype(way)
        )

    plain = [np.ascontiguousarray(laid_out(values), dtype=np.float64) for values in (X, Y)]
    one, other = some_networks(1)[0], some_networks(1)[0]
    assert train(one, laid_out(X), laid_out(Y), Training(epochs=2)) == train(
        other, *plain, Training(epochs=2)
    )
    assert np.array_equal(predict(one, laid_out(X)), predict(other, plain[0]))
    assert np.array_equal(
        tangent_kernel(one, laid_out(X), laid_out(X)), tangent_kernel(other, plain[0], plain[0])
    )


def test_dtypes_that_training_takes():
    X, Y = some_data()
    half, brain = (
        MaxoutNetwork(**SHAPE, seed=0).to(dtype) for dtype in (torch.float16, torch.bfloat16)
    )
    train(half, X, Y, Training(epochs=1))
    assert predict(half, X).dtype == np.float16
    for call in (lambda: train(brain, X, Y), lambda: predict(brain, X)):
        with pytest.raises(
            InputError,
            match=r"networks must be of dtype torch\.float16, .*, got "
            r"torch\.bfloat16",
        ):
            call()
    network, rough = MaxoutNetwork(**SHAPE, seed=0), torch.tensor(X).bfloat16()
    assert np.array_equal(predict(network, rough), predict(network, rough.float()))


def test_one_output_takes_a_vector():
    X, Y = some_data()
    one, other = (some_networks(1, outputs=1)[0] for _ in range(2))
    judge = {"validation": (X, Y[:, 0])}
    assert train(one, X, Y[:, 0], Training(epochs=2), **judge) == train(
        other, X, Y[:, :1], Training(epochs=2), **judge
    )
    assert np.array_equal(numbers(one), numbers(other))


@BOTH
def test_stop_ends_it(parametrization):
    """After seven steps: two epochs of three steps, and one step."""
    X, Y = some_data()
    networks, calls = some_networks(parametrization=parametrization), []

    def stop():
        calls.append(len(calls))
        if len(calls) == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(networks, X, Y, Training(learning_rate=1e-2, epochs=8, batch_size=16), stop=stop)
    assert calls == list(range(8))
    for network, other in zip(
        networks, some_networks(parametrization=parametrization), strict=True
    ):
        optimizer, generator = (
            torch.optim.Adam(other.parameters(), lr=1e-2),
            torch.Generator().manual_seed(0),
        )
        batches = [
            chosen for _ in range(3) for chosen in torch.randperm(40, generator=generator).split(16)
        ]
        for chosen in batches[:7]:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(
                other(torch.tensor(X[chosen])), torch.tensor(Y[chosen])
            ).backward()
            optimizer.step()
        np.testing.assert_allclose(numbers(network), numbers(other), rtol=0.0, atol=1e-12)


def test_an_interrupt_while_a_network_is_left_out(monkeypatch):
    """The stack has other rows then: no network may get another's parameters."""
    X, Y = some_data()
    training = Training(learning_rate=1e-3, epochs=4, batch_size=16)
    networks = [MaxoutNetwork(**SHAPE, weight_std=1e12, seed=1), *some_networks(2, dtype="float32")]
    expected, keep = some_networks(2, dtype="float32"), Stack.keep
    train(expected, X, Y, Training(learning_rate=1e-3, epochs=1, batch_size=16))

    def interrupted(*arguments):
        keep(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Stack, "keep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(networks, X, Y, training)
    for network, other in zip(networks[1:], expected, strict=True):
        np.testing.assert_allclose(numbers(network), numbers(other), rtol=0.0, atol=1e-5)


def test_an_interrupt_with_early_stopping_leaves_the_best():
    X, Y = some_data()
    network, other, parts = some_networks(1)[0], some_networks(1)[0], []

    def told(part):
        parts.append(part)
        if len(parts) == 2:
            raise KeyboardInterrupt

    training = Training(learning_rate=1e-3, epochs=9, patience=5)
    with pytest.raises(KeyboardInterrupt):
        train(network, X, Y, training, validation=(X, Y), progress=told)
    train(other, X, Y, Training(learning_rate=1e-3, epochs=2))
    assert np.array_equal(numbers(network), numbers(other))


# Surroundings.


def test_denormal_numbers_are_as_before(monkeypatch):
    """Zero within a step, and not in what the caller's functions compute, nor afterwards, whatever
    happens.
    """
    X, Y = some_data()
    ask, within, between = module._denormals_are_zero, [], []
    monkeypatch.setattr(module._Run, "_diverged", lambda self, row: within.append(ask()))
    bad = MaxoutNetwork(**SHAPE, weight_std=1e12, seed=0)
    train(bad, X, Y, Training(epochs=2), stop=lambda: between.append(ask()))
    assert (within, between, ask()) == ([True] * 2, [False] * 2, False)
    monkeypatch.setattr(module._Run, "_diverged", lambda self, row: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        train(bad, X, Y, Training(epochs=1))
    assert not ask()


def test_threads_do_not_disturb_each_other():
    X, Y = some_data()
    results = {}

    def work(number):
        networks = some_networks(dtype="float32")
        train(networks, X, Y, Training(learning_rate=1e-2, epochs=20, batch_size=16))
        results[number] = np.concatenate([numbers(network) for network in networks])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(np.array_equal(results[0], result) for result in results.values())


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


def test_settings_of_pytorch_do_not_matter():
    """A default device or dtype, inference mode, autocast."""
    X, Y = some_data()

    def found(network):
        train(network, X, Y, Training(epochs=3, batch_size=16))
        return numbers(network), predict(network, X), tangent_kernel(network, X[:5])

    expected = found(MaxoutNetwork(**SHAPE, seed=0))
    with torch.device("meta"):
        made = MaxoutNetwork(**SHAPE, seed=0)
    for setting in (
        torch.device("meta"),
        torch.inference_mode(),
        torch.autocast("cpu", dtype=torch.bfloat16),
    ):
        network = copy.deepcopy(made)
        with setting:
            again = found(network)
        for one, other in zip(again, expected, strict=True):
            np.testing.assert_array_equal(one, other)


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
        ([], r"networks must be a MaxoutNetwork or a sequence of them, at least one, got \[\]"),
        ([torch.nn.Linear(2, 2)], r"networks must be a MaxoutNetwork"),
        (
            torch.nn.Linear(2, 2),
            r"networks must be a MaxoutNetwork or a sequence of them, at least "
            r"one, got Linear",
        ),
        (5, r"networks must be a MaxoutNetwork or a sequence of them, at least one, got 5"),
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
