"""What training does, and that together is as good as alone."""

import copy
import threading

import numpy as np
import pytest
import torch

from mnngp.errors import InputError
from mnngp.finite import History, MaxoutNetwork, Training, predict, tangent_kernel, train
from mnngp.finite import training as module
from mnngp.finite.stack import Shape, Stack
from tests.finite.common import BOTH, SHAPE, numbers, of_layers, plainly, some_data, some_networks


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
    monkeypatch.setattr(module, "_MEMORY", 3 * 8 * (4 * Shape.of(parts[0]).parameters + 16 * 100))
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
