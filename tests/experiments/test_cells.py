"""Cells: their numbers are those of a plain posterior, and they say when they are inaccurate."""

import json
import warnings
from dataclasses import replace

import distributed
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

import mnngp
from mnngp.data import standardised
from mnngp.errors import AccuracyWarning, InputError, warn_of_accuracy
from mnngp.experiments import cells, dask_runner, runner
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.records import commit
from mnngp.experiments.store import Store
from mnngp.inference import Posterior
from mnngp.kernels import curve
from tests.experiments.sweeps import Counter, in_order, numbers, protocol_of, swept

FAMILIES = [
    {
        "activation": "maxout",
        "rank": [2, 3, 4],
        "depth": [1, 5, 21],
        "weight_var": [0.1, 0.776, 4.83],
        "bias_var": [0.069, 2.0],
    },
    {"activation": "relu", "depth": [1, 9], "weight_var": [0.5, 2.0], "bias_var": 0.3},
    {"activation": "tanh", "depth": [1, 6], "weight_var": [1.5, 4.0], "bias_var": [0.0, 0.3]},
    {
        "activation": "maxout",
        "kind": "ntk",
        "rank": [2, 4],
        "depth": [1, 9],
        "weight_var": [0.5, 1.5],
        "bias_var": 0.1,
    },
    {"activation": "erf", "kind": "ntk", "depth": 3, "weight_var": 1.5, "bias_var": 0.1},
    *(
        {"activation": name, "depth": 2, "weight_var": 1.0, "bias_var": 0.1}
        for name in ("gelu", "abs", "leaky_relu")
    ),
]


@pytest.fixture(scope="module")
def many(digits, tmp_path_factory):
    """Cells of all sorts, far into the ordered and the chaotic phase."""
    protocol = protocol_of(train=150, validation=300, test=599, family=FAMILIES)
    return protocol, swept(tmp_path_factory.mktemp("many") / "run.sqlite", protocol, digits)


def test_accuracies_are_those_of_a_plain_posterior(many, digits):
    protocol, results = many
    assert len(results) == len(protocol) == 54 + 4 + 8 + 8 + 1 + 3
    train, validation = cells.rows(protocol, next(protocol.splits), len(digits.y))
    X, others = (
        standardised(digits.X[train]),
        [standardised(digits.X[validation]), standardised(digits.X_test)],
    )
    labels, targets = [digits.y[validation], digits.y_test], np.eye(10)[digits.y[train]] - 0.1
    kernels = {
        group.key(depth): group.kernel(depth) for group in protocol.groups for depth in group.depths
    }
    for result, (key, kernel) in zip(in_order(protocol, results), kernels.items(), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            posterior = Posterior(kernel, X, targets, 1e-10, policy="paper")
        means = [posterior.mean(part) for part in others]
        accuracies = [
            np.mean(mean.argmax(axis=1) == label) for mean, label in zip(means, labels, strict=True)
        ]
        assert (result.validation_accuracy, result.test_accuracy) == tuple(accuracies), key
        assert (result.noise_var, result.attempts) == (
            posterior.noise_var[0],
            posterior.report.attempts,
        )
        sharpness = cells.SoftmaxLoss(means[0], labels[0]).sharpness()
        for mean, label, found in zip(
            means, labels, (result.validation_log_loss, result.test_log_loss), strict=True
        ):
            assert found == pytest.approx(cells.SoftmaxLoss(mean, label)(sharpness), rel=1e-6)


def test_a_family_may_have_noises_of_its_own(digits, tmp_path):
    """Each is a cell of a plain posterior with that noise; the others have the protocol's."""
    own = {"activation": "maxout", "rank": 3, "depth": [1, 2], "weight_var": 0.8, "bias_var": 0.1}
    families = [own | {"noise_var": [1e-3, 0.1]}, own | {"kind": "ntk"}]
    protocol = protocol_of(train=100, validation=300, test=599, family=families)
    assert Protocol.of(json.loads(protocol.canonical())) == protocol
    results = swept(tmp_path / "run.sqlite", protocol, digits)
    results.sort(key=lambda one: (-one.noise_var, one.depth))
    assert [(one.noise_var, one.options, one.kind) for one in results] == [
        *[(0.1, "noise_var 0.1", "nngp")] * 2,
        *[(1e-3, "noise_var 0.001", "nngp")] * 2,
        *[(1e-10, None, "ntk")] * 2,
    ]
    train, _ = cells.rows(protocol, next(protocol.splits), len(digits.y))
    X, targets = standardised(digits.X[train]), np.eye(10)[digits.y[train]] - 0.1
    for result in results[:4]:
        kernel = mnngp.MaxoutKernel(result.depth, 3, 0.8, 0.1)
        mean = Posterior(kernel, X, targets, result.noise_var).mean(standardised(digits.X_test))
        assert result.test_accuracy == np.mean(mean.argmax(axis=1) == digits.y_test)


def test_what_a_result_says(many):
    protocol, results = many
    result = in_order(protocol, results)[0]
    assert (result.dataset, result.n_train, result.n_validation, result.n_test) == (
        "digits",
        150,
        300,
        599,
    )
    assert (result.repeat, result.seed, result.activation, result.rank, result.kind) == (
        0,
        0,
        "maxout",
        2,
        "nngp",
    )
    assert (result.status, result.error, result.version, result.commit) == (
        "done",
        None,
        mnngp.__version__,
        commit(),
    )
    assert result.finished.startswith("20")
    assert result.finished.endswith("+00:00")
    assert 0.0 < result.seconds < 60.0
    assert {other.rank for other in results if other.activation != "maxout"} == {None}


def test_log_loss_is_the_least_there_is(many):
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(500, 10))
    labels = (mean + 0.7 * rng.normal(size=mean.shape)).argmax(axis=1)
    for scale in (1e-12, 1.0, 1e12):
        evidence = cells.SoftmaxLoss(scale * mean, labels)
        best = minimize_scalar(
            lambda a, e=evidence: e(a), bounds=(0.0, 100.0 / scale), method="bounded"
        ).fun
        found = evidence(evidence.sharpness())
        assert found <= best * (1.0 + 1e-12)
        assert found < np.log(10.0)


def test_log_loss_at_the_ends():
    mean, labels = np.eye(10), np.arange(10)
    right = cells.SoftmaxLoss(mean, labels)
    assert right(right.sharpness()) < 1e-13  # certain, and finite
    wrong = cells.SoftmaxLoss(mean, (labels + 1) % 10)
    assert wrong.sharpness() == 0.0
    assert wrong(0.0) == pytest.approx(np.log(10.0))
    nothing = cells.SoftmaxLoss(np.zeros((10, 10)), labels)
    assert nothing.sharpness() == 0.0


def test_many_training_images_go_another_way_to_the_same_numbers(
    many, digits, tmp_path, monkeypatch
):
    """Above ``SMALL`` one cell has all threads and is committed alone; angles that are too many are
    not kept.
    """
    protocol, results = many
    monkeypatch.setattr(runner, "SMALL", 10)
    monkeypatch.setattr(cells, "_KEPT", 0)
    counter = Counter()
    others = numbers(swept(tmp_path / "run.sqlite", protocol, digits, counter))
    assert counter.computed == len(results)
    for key, values in numbers(results).items():
        assert others[key][:2] + others[key][3:4] == values[:2] + values[3:4]  # the accuracies
        assert others[key][2] == pytest.approx(values[2], rel=1e-6)


def test_it_does_not_matter_whether_angles_are_kept(digits, tmp_path, monkeypatch):
    protocol = protocol_of(test=599)
    kept = swept(tmp_path / "kept.sqlite", protocol, digits)
    monkeypatch.setattr(cells, "_KEPT", 0)
    assert numbers(swept(tmp_path / "anew.sqlite", protocol, digits)) == numbers(kept)


def test_threads_do_not_change_the_numbers(digits, tmp_path):
    protocol = protocol_of(repeats=2)
    with threadpool_limits(1, user_api="blas"):
        one = swept(tmp_path / "one.sqlite", protocol, digits)
    several = swept(tmp_path / "several.sqlite", protocol, digits)
    assert numbers(one) == numbers(several)


@pytest.fixture(scope="module")
def paper_sizes(digits, tmp_path_factory):
    """Cells with as many training images as in the paper, up to 1,000, by one thread."""
    families = [
        {"activation": name, "depth": [1, 21], "weight_var": [0.1, 2.8], "bias_var": 0.3}
        for name in ("maxout", "relu", "tanh")
    ]
    families[0]["rank"] = 3
    sizes = [100, 500, 1000]
    protocol = protocol_of(train=sizes, validation=198, test=599, repeats=2, family=families)
    with threadpool_limits(1, user_api="blas"):
        path = tmp_path_factory.mktemp("sizes") / "run.sqlite"
        return protocol, numbers(swept(path, protocol, digits))


def test_a_fresh_run_gives_the_same_cells_to_the_last_digit(paper_sizes, digits, tmp_path):
    protocol, expected = paper_sizes
    assert len(expected) == len(protocol) == 72
    curve.curve.cache_clear()
    assert numbers(swept(tmp_path / "several.sqlite", protocol, digits)) == expected


def test_a_run_in_another_order_gives_the_same_cells_to_the_last_digit(
    paper_sizes, digits, tmp_path, monkeypatch
):
    """As where others have done a part, or a sweep goes on: cells know nothing of each other."""
    protocol, expected = paper_sizes
    monkeypatch.setattr(runner, "units", lambda protocol, units=runner.units: units(protocol)[::-1])
    monkeypatch.setattr(cells, "_KEPT", 0)
    assert numbers(swept(tmp_path / "reversed.sqlite", protocol, digits)) == expected


def test_images_of_another_collection(digits, tmp_path):
    message = "images must be those of the protocol, digits, got mnist"
    with (
        Store.begin(tmp_path / "run.sqlite", protocol_of()) as store,
        pytest.raises(InputError, match=message),
    ):
        runner.run(store.protocol, store, replace(digits, name="mnist"))


def test_a_cell_says_that_it_is_less_accurate_than_usual(digits, tmp_path, monkeypatch):
    """Several at once in threads: each has its own warnings, and nothing is printed."""
    monkeypatch.setattr(runner.threads, "count", lambda: 4)
    family = {
        "activation": "maxout",
        "rank": [2, 3],
        "depth": [1, 60],
        "weight_var": [1e-6, 2e-6],
        "bias_var": [0.1, 0.2],
    }
    protocol, path = protocol_of(train=40, family=[family]), tmp_path / "run.sqlite"
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        results = swept(path, protocol, digits)
    assert given == []
    assert len(results) == 16
    for result in results:
        if result.depth == 1:
            assert result.warning is None
        else:
            assert result.warning.startswith(
                "all correlations at depth 60 are one to the last digit of float64"
            )
            assert (result.status, result.attempts) == ("done", 1)
    with Store.open(path) as store:
        assert store.about()["inaccurate"] == 8
    on_cluster = tmp_path / "cluster.sqlite"
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
        ) as threads,
        distributed.Client(threads, set_as_default=False) as client,
        Store.begin(on_cluster, protocol) as store,
    ):
        dask_runner.run(protocol, store, digits, client)
        assert numbers(store.results()) == numbers(results)


@pytest.mark.parametrize("policy", ["paper", "relative"])
def test_noise_that_the_papers_policy_raised_is_no_warning(digits, tmp_path, policy):
    family = {
        "activation": "relu",
        "kind": "ntk",
        "depth": [30, 60],
        "weight_var": 0.01,
        "bias_var": 1.0,
    }
    mapping = {
        "data": {"name": "digits", "train": 60, "validation": 50, "test": 50},
        "family": [family],
    }
    protocol = Protocol.of(mapping | {"noise": {"policy": policy, "noise_var": 1e-18}})
    for result in swept(tmp_path / "run.sqlite", protocol, digits):
        assert result.attempts > 1
        assert result.noise_var > 1e-15
        if policy == "paper":
            assert result.warning is None
        else:
            assert "was added to the noise variance" in result.warning


def test_a_cell_that_fails_has_its_warnings_too(digits, tmp_path, monkeypatch):
    def broken(self, posterior, step):
        for layer in range(20):
            warn_of_accuracy(f"layer {layer // 2}\n is odd")
        raise ZeroDivisionError("oh \udcff dear")

    monkeypatch.setattr(cells, "mean_at", broken)
    results = swept(tmp_path / "run.sqlite", protocol_of(train=40), digits)
    assert {result.error for result in results} == {"ZeroDivisionError: oh ? dear"}
    assert {result.warning for result in results} == {
        "layer 0 is odd\nlayer 1 is odd\nlayer 2 is odd\n… and 7 more of the kind"
    }
