"""Sweeps: the numbers are those of a plain posterior, and nothing that happens to a long run loses
or repeats a cell.
"""

import contextlib
import itertools
import json
import os
import pty
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter as Counted
from dataclasses import replace
from pathlib import Path

import distributed
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

import mnngp
from mnngp.data import load, standardised
from mnngp.errors import AccuracyWarning, InputError, warn_of_accuracy
from mnngp.experiments import cells, dask_runner, runner
from mnngp.experiments.database import StoreError
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.provenance import commit
from mnngp.experiments.records import Result
from mnngp.experiments.store import Store
from mnngp.inference import Posterior
from tests import made_up
from tests.made_up import sealed

# From Python 3.12 on a fork is warned of where there are threads, such as BLAS's.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
MNNGP = Path(sys.executable).with_name("mnngp")
SMALL = """
title = "Digits [bold]for tests[/bold]"
[data]
name = "digits"
train = [40, 80]
validation = 200
repeats = {repeats}
test = 200
[[family]]
activation = "maxout"
rank = [2, 4]
depth = [1, 5]
weight_var = {weights}
bias_var = [0.1, 1.0]
[[family]]
activation = "tanh"
depth = 3
weight_var = 1.5
bias_var = 0.1
"""


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def protocol_of(**changes):
    data = {"name": "digits", "train": [40, 80], "validation": 200, "repeats": 1, "test": 200}
    family = {
        "activation": "maxout",
        "rank": 4,
        "depth": [1, 5],
        "weight_var": [0.5, 1.5],
        "bias_var": 0.1,
    }
    families = changes.pop("family", [family])
    return Protocol.of({"data": data | changes, "family": families})


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(SMALL.format(repeats=1, weights=[1.0, 2.0]))
    return path


def numbers(results):
    """What must be the same whoever computes it, by cell."""
    return {
        (r.n_train, r.repeat, r.activation, r.rank, r.kind, r.depth, r.weight_var, r.bias_var): (
            r.status,
            r.validation_accuracy,
            r.validation_log_loss,
            r.test_accuracy,
            r.test_log_loss,
            r.noise_var,
            r.attempts,
            r.warning,
        )
        for r in results
    }


def swept(path, protocol, images, watcher=None):
    with Store.begin(path, protocol) as store:
        runner.run(protocol, store, images, watcher)
        return store.results()


def in_order(protocol, results):
    """Results in the order of the protocol; threads finish them in any."""
    place = {
        key: index
        for index, key in enumerate(
            group.key(depth) for group in protocol.groups for depth in group.depths
        )
    }

    def key(r):
        return next(
            group.key(r.depth)
            for group in protocol.groups
            if (
                group.split.n_train,
                group.split.repeat,
                group.activation,
                group.rank,
                group.kind,
                group.weight_var,
                group.bias_var,
            )
            == (r.n_train, r.repeat, r.activation, r.rank, r.kind, r.weight_var, r.bias_var)
        )

    return sorted(results, key=lambda r: place[key(r)])


class Counter:
    """A watcher that counts the cells which are computed here."""

    def __init__(self):
        self.found = self.computed = 0
        self.phases = []

    def begin(self, total, finished):
        self.total, self.found = total, len(finished)

    def preparing(self, split):
        self.phases.append(split)

    def finished(self, results):
        self.computed += len(results)

    def waiting(self, cells):
        self.phases.append(cells)


# --- the numbers ----------------------------------------------------------------------------------

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
        sharpness = cells.Evidence(means[0], labels[0]).sharpness()
        for mean, label, found in zip(
            means, labels, (result.validation_log_loss, result.test_log_loss), strict=True
        ):
            assert found == pytest.approx(cells.Evidence(mean, label).log_loss(sharpness), rel=1e-6)


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
        evidence = cells.Evidence(scale * mean, labels)
        best = minimize_scalar(
            lambda a, e=evidence: e.log_loss(a), bounds=(0.0, 100.0 / scale), method="bounded"
        ).fun
        found = evidence.log_loss(evidence.sharpness())
        assert found <= best * (1.0 + 1e-12)
        assert found < np.log(10.0)


def test_log_loss_at_the_ends():
    mean, labels = np.eye(10), np.arange(10)
    right = cells.Evidence(mean, labels)
    assert right.log_loss(right.sharpness()) < 1e-13  # certain, and finite
    wrong = cells.Evidence(mean, (labels + 1) % 10)
    assert wrong.sharpness() == 0.0
    assert wrong.log_loss(0.0) == pytest.approx(np.log(10.0))
    nothing = cells.Evidence(np.zeros((10, 10)), labels)
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


def test_images_of_another_collection(digits, tmp_path):
    message = "images must be those of the protocol, digits, got mnist"
    with (
        Store.begin(tmp_path / "run.sqlite", protocol_of()) as store,
        pytest.raises(InputError, match=message),
    ):
        runner.run(store.protocol, store, replace(digits, name="mnist"))


# --- less accurate than usual ---------------------------------------------------------------------


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

    monkeypatch.setattr(cells._Infinite, "_mean", broken)
    results = swept(tmp_path / "run.sqlite", protocol_of(train=40), digits)
    assert {result.error for result in results} == {"ZeroDivisionError: oh ? dear"}
    assert {result.warning for result in results} == {
        "layer 0 is odd\nlayer 1 is odd\nlayer 2 is odd\n… and 7 more of the kind"
    }


# --- going on -------------------------------------------------------------------------------------


def test_going_on_computes_what_is_missing_and_nothing_else(digits, tmp_path):
    protocol = protocol_of(repeats=2)
    whole = in_order(protocol, swept(tmp_path / "whole.sqlite", protocol, digits))
    path = tmp_path / "run.sqlite"
    with Store.begin(path, protocol) as store:
        unit = runner.units(protocol)[3]
        chosen = [(key, result) for key, result in zip(unit.names(), whole[6:8], strict=True)]
        store.add(chosen[:1])
    counter = Counter()
    rest = swept(path, protocol, digits, counter)
    assert (counter.total, counter.found, counter.computed) == (16, 1, 15)
    assert numbers(rest) == numbers(whole)
    assert rest[0] == whole[6]
    counter = Counter()
    again = swept(path, protocol, digits, counter)
    assert (counter.found, counter.computed, counter.phases) == (16, 0, [])
    assert again == rest


def test_a_changed_configuration_is_refused_with_the_difference(digits, tmp_path):
    path = tmp_path / "run.sqlite"
    Store.begin(path, protocol_of()).close()
    content = path.read_bytes()
    with pytest.raises(
        StoreError,
        match=r"is the store of another configuration(?s:.*)\n  "
        r"data.repeats: 1 → 3",
    ):
        Store.begin(path, protocol_of(repeats=3))
    family = {
        "activation": "relu",
        "depth": 1,
        "bias_var": 0.0,
        "weight_var": {"from": 1.0, "to": 2.0, "count": 100},
    }
    with pytest.raises(StoreError, match=r"… and 9\d more"):
        Store.begin(path, protocol_of(family=[family]))
    assert path.read_bytes() == content


def test_failing_cells_are_recorded_and_the_rest_goes_on(digits, tmp_path, monkeypatch):
    family = {
        "activation": "maxout",
        "rank": 2,
        "depth": [1, 5],
        "weight_var": [1.0, 1e200],
        "bias_var": 0.1,
    }
    protocol = protocol_of(family=[family])
    path = tmp_path / "run.sqlite"
    results = swept(path, protocol, digits)
    failed = [result for result in results if result.status == "failed"]
    assert {(result.weight_var, result.depth) for result in failed} == {(1e200, 1), (1e200, 5)}
    assert all(result.error.startswith("ScaleError: the kernel is about 1e") for result in failed)
    assert all(result.test_accuracy is result.noise_var is None for result in failed)
    assert len(results) == len(protocol)
    counter = Counter()
    assert swept(path, protocol, digits, counter) == results  # a failed cell is finished
    with Store.open(path, readonly=False) as store:
        assert store.about()["failed"] == 4
        assert store.forget_failed() == 4
        assert (store.about()["failed"], store.about()["open"]) == (0, 4)
    again = swept(path, protocol, digits, counter)
    assert counter.computed == 4
    assert numbers(again) == numbers(results)


def test_whatever_a_cell_raises_is_its_own_affair(digits, tmp_path, monkeypatch):
    plain = cells._Infinite._mean

    def broken(self, posterior, step):
        if posterior.kernel.weight_var == 0.5:
            raise ZeroDivisionError("oh dear")
        mean = plain(self, posterior, step)
        return mean if len(posterior.kernel.layers) == 1 else np.full_like(mean, np.nan)

    monkeypatch.setattr(cells._Infinite, "_mean", broken)
    results = swept(tmp_path / "run.sqlite", protocol_of(), digits)
    errors = {(result.weight_var, result.depth): result.error for result in results}
    assert errors[0.5, 1] == errors[0.5, 5] == "ZeroDivisionError: oh dear"
    assert errors[1.5, 5] == "MnngpError: the posterior means are not finite"
    assert errors[1.5, 1] is None


# --- processes that are killed, and several at once -----------------------------------------------

# A process that has everything loaded, and forks another for each line: starting Python twenty
# times would take a minute.
ZYGOTE = """
import json, os, random, resource, sys, time
from mnngp.commands import app
from mnngp.data import load
from mnngp.experiments import cells, runner
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.store import Store
digits = load("digits")
warm = Protocol.of({"data": {"name": "digits", "train": 20, "validation": 20, "test": 20}, "family": [
    {"activation": "maxout", "rank": 2, "depth": 2, "weight_var": 1.0, "bias_var": 0.1}]})
with Store.begin(sys.argv[1], warm) as store:
    runner.run(warm, store, digits)
plain = cells._Infinite.cell

def command(arguments, seed, chance, delay, output):
    # The command line, with cells of which some fail, and more looks at the store than usual.
    generator = random.Random(seed)
    def cell(self, group, depth, step):
        time.sleep(generator.uniform(0.0, 0.01))
        if generator.random() < chance:
            raise RuntimeError("by chance")
        return plain(self, group, depth, step)
    cells._Infinite.cell, runner._POLL, sys.argv = cell, 0.01, ["mnngp", *arguments]
    file = os.open(output, os.O_CREAT | os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)
    time.sleep(delay)
    try:
        app.main()
    except SystemExit as end:
        return end.code or 0

print("ready", flush=True)
for line in sys.stdin:
    task = json.loads(line)
    if "commands" in task:
        children = []
        for each in task["commands"]:
            children.append(os.fork())
            if not children[-1]:
                code = 99
                try:
                    code = command(**each)
                finally:
                    os._exit(code)
        print(json.dumps(children), flush=True)
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]), flush=True)
        continue
    child = os.fork()
    if not child:
        code = 1
        try:
            if task["limit"]:
                resource.setrlimit(resource.RLIMIT_FSIZE, (task["limit"], task["limit"]))
            protocol = Protocol.load(task["config"])
            with Store.begin(task["store"], protocol) as store:
                runner.run(protocol, store, digits)
            code = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    print(child, flush=True)
    status = os.waitpid(child, 0)[1]
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


class Zygote:
    def __init__(self, folder):
        self.errors = open(folder / "errors.txt", "w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-c", ZYGOTE, str(folder / "warm.sqlite")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self.process.stdout.readline() == "ready\n", self.said()

    def sweep(self, config, path, *, kill_after=None, limit=None):
        """Run a sweep in a process of its own, and kill it after some seconds. Returns its exit
        code.
        """
        self.process.stdin.write(
            json.dumps({"config": str(config), "store": str(path), "limit": limit}) + "\n"
        )
        self.process.stdin.flush()
        child = int(self.process.stdout.readline())
        timer = None
        if kill_after is not None:
            timer = threading.Timer(kill_after, os.kill, (child, signal.SIGKILL))
            timer.start()
        code = int(self.process.stdout.readline())
        if timer is not None:
            timer.cancel()
            timer.join()
        return code

    def commands(self, commands, *, seconds):
        """Run the command line in several processes at once. Returns their exit codes; after so
        many seconds they are killed.
        """
        self.process.stdin.write(json.dumps({"commands": commands}) + "\n")
        self.process.stdin.flush()
        children = json.loads(self.process.stdout.readline())

        def kill():
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

        timer = threading.Timer(seconds, kill)
        timer.start()
        codes = json.loads(self.process.stdout.readline())
        timer.cancel()
        timer.join()
        return codes

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
        self.errors.close()


@pytest.fixture(scope="module")
def zygote(tmp_path_factory):
    process = Zygote(tmp_path_factory.mktemp("zygote"))
    yield process
    process.close()


def test_twenty_kills_lose_and_repeat_nothing(zygote, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(SMALL.format(repeats=5, weights=[0.5, 1.0, 2.0]))
    whole, path = tmp_path / "whole.sqlite", tmp_path / "run.sqlite"
    start = time.monotonic()
    assert zygote.sweep(config, whole) == 0, zygote.said()
    once = time.monotonic() - start
    generator, kills, seen = random.Random(4), 0, []
    while kills < 20:
        # Longer until something is finished: on a busy machine the first cells take their time.
        code = zygote.sweep(
            config, path, kill_after=generator.uniform(0.0, once / (16.0 if seen else 4.0))
        )
        assert code in (-signal.SIGKILL, 0), zygote.said()
        if code == 0:
            break
        kills += 1
        if path.exists() and path.stat().st_size:
            # readable at any time, and what was there is there, to the letter
            with Store.open(path) as store:
                results = store.results()
            assert results[: len(seen)] == seen
            seen = results
    assert kills == 20
    assert 0 < len(seen) < 250
    assert zygote.sweep(config, path) == 0, zygote.said()
    with Store.open(path) as store, Store.open(whole) as reference:
        results, expected = store.results(), reference.results()
        assert store.about()["open"] == 0
    assert results[: len(seen)] == seen
    assert len(results) == len(expected) == len(Protocol.load(config)) == 250
    assert numbers(results) == numbers(expected)


def test_claims_end_with_the_process_that_made_them(tmp_path):
    path = tmp_path / "run.sqlite"
    protocol = protocol_of()
    with Store.begin(path, protocol) as store:
        ready, done = os.pipe()
        child = os.fork()
        if not child:
            try:
                other = Store.begin(path, protocol)
                assert other.claim(1)
                assert other.claim(3)
                os.write(done, b"x")
                time.sleep(60.0)
            finally:
                os._exit(1)
        os.read(ready, 1)
        assert [store.claim(number) for number in range(5)] == [True, False, True, False, True]
        assert not store.claim(0, 5)
        store.release(0, 5)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert store.claim(0, 5)
        os.close(ready)
        os.close(done)


def environment(**more):
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", **more}


def mnngp_sweep(*arguments, code=0, **options):
    command = [MNNGP, "sweep", *map(str, arguments)]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment(),
        **options,
    )
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result


def test_two_processes_share_the_work(zygote, config, tmp_path):
    def command(name, number):
        arguments, output = (
            ["sweep", str(config), "-o", str(tmp_path / name), "--json"],
            str(tmp_path / f"{name}-{number}.txt"),
        )
        return {
            "arguments": arguments,
            "seed": number,
            "chance": 0.0,
            "delay": 0.0,
            "output": output,
        }

    both = [command("both.sqlite", number) for number in range(2)]
    assert zygote.commands(both, seconds=120.0) == [0, 0]
    for one in both:
        facts = json.loads(Path(one["output"]).read_text().splitlines()[-1])
        assert (facts["done"], facts["failed"], facts["inaccurate"], facts["cells"]) == (
            34,
            0,
            0,
            34,
        )
    assert zygote.commands([command("one.sqlite", 0)], seconds=120.0) == [0]
    with Store.open(tmp_path / "both.sqlite") as store, Store.open(tmp_path / "one.sqlite") as one:
        assert numbers(store.results()) == numbers(one.results())
        assert len(store.results()) == 34


def test_two_processes_do_not_repeat_each_others_cells(digits, tmp_path, monkeypatch):
    """Here in two forks, which count the cells that they compute; each of them takes long enough
    for both to get some.
    """
    protocol, path = protocol_of(repeats=2), tmp_path / "run.sqlite"
    computed = tmp_path / "computed.txt"
    plain = cells._Infinite.cell

    def slow(self, group, depth, step):
        with open(computed, "a") as file:
            file.write(f"{os.getpid()} {group.key(depth)}\n")
        time.sleep(0.05)
        return plain(self, group, depth, step)

    monkeypatch.setattr(cells._Infinite, "cell", slow)
    children = []
    for _ in range(2):
        child = os.fork()
        if not child:
            code = 1
            try:
                with threadpool_limits(1, user_api="blas"):
                    swept(path, protocol, digits)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    lines = [line.split() for line in computed.read_text().splitlines()]
    assert len(lines) == len({key for _, key in lines}) == len(protocol)
    assert len({process for process, _ in lines}) == 2


FAILING = """
[data]
name = "digits"
train = [20, 30]
validation = 20
test = 20
[[family]]
activation = "maxout"
rank = [2, 3]
depth = [1, 2]
weight_var = [1.0, 2.0, 3.0]
bias_var = 0.1
"""


@pytest.mark.parametrize("seed", range(6))
def test_processes_that_retry_beside_each_other_end(zygote, tmp_path, seed):
    """What failed in one is opened again by the next, at any moment: each of them ends, and the
    store has each cell once.

    When numbers were given again, 9 of 24 such trials had a process that never ended.
    """
    config, path, generator = tmp_path / "run.toml", tmp_path / "run.sqlite", random.Random(seed)
    config.write_text(FAILING)

    def command(number, chance, delay, *options):
        arguments = ["sweep", str(config), "-o", str(path), *options]
        output = str(tmp_path / f"{number}.txt")
        return {
            "arguments": arguments,
            "seed": f"{seed}, {number}",
            "chance": chance,
            "delay": delay,
            "output": output,
        }

    def said():
        return [output.read_text()[-2000:] for output in tmp_path.glob("*.txt")]

    delays = (generator.uniform(0.0, 0.5) for _ in range(3))
    commands = [
        command(0, 0.6, 0.0),
        *(command(i, 0.4, delay, "--retry-failed") for i, delay in enumerate(delays, 1)),
    ]
    # 1: there are failed cells
    assert set(zygote.commands(commands, seconds=60.0)) <= {0, 1}, said()
    protocol = Protocol.load(config)
    expected = sorted(group.key(depth) for group in protocol.groups for depth in group.depths)
    with Store.open(path) as store:
        before = store.news(0)
    assert sorted(key for _, key, _ in before) == expected
    assert zygote.commands([command(4, 0.0, 0.0, "--retry-failed")], seconds=60.0) == [0], said()
    with Store.open(path) as store:
        after = store.news(0)
    assert sorted(key for _, key, _ in after) == expected
    assert {result.status for _, _, result in after} == {"done"}
    assert [cell for cell in before if cell[2].status == "done"] == after[
        : sum(cell[2].status == "done" for cell in before)
    ]


def test_what_the_store_has_is_finished_whoever_said_so(digits, tmp_path, monkeypatch):
    """A process that missed what another finished does not wait for it."""
    protocol, path = protocol_of(), tmp_path / "run.sqlite"
    results = swept(path, protocol, digits)

    class Watcher(Counter):
        def finished(self, results):
            super().finished(results)
            self.phases.append("looked")
            assert len(self.phases) < 10

    monkeypatch.setattr(Store, "news", lambda self, after: [])
    watcher = Watcher()
    with Store.begin(path, protocol) as store:
        runner.run(protocol, store, digits, watcher)
        assert (watcher.found, watcher.computed) == (0, 0)
        monkeypatch.undo()
        assert store.results() == results


def test_cells_that_another_process_opens_again_are_waited_for(digits, tmp_path):
    """It ends when the store has all cells, not when each of them was there once."""
    family = {
        "activation": "maxout",
        "rank": 2,
        "depth": [1, 5],
        "weight_var": [1.0, 1e200],
        "bias_var": 0.1,
    }
    protocol, path = protocol_of(family=[family]), tmp_path / "run.sqlite"

    class Watcher(Counter):
        opened = 0

        def finished(self, results):
            super().finished(results)
            with Store.open(path, readonly=False) as store:
                if not self.opened and not store.about()["open"]:
                    self.opened = store.forget_failed()

    watcher = Watcher()
    results = swept(path, protocol, digits, watcher)
    assert (watcher.opened, watcher.computed) == (4, len(protocol) + 4)
    assert len(results) == len(protocol)


def test_a_process_waits_for_what_others_compute_and_takes_over_if_they_die(digits, tmp_path):
    protocol, path = protocol_of(), tmp_path / "run.sqlite"
    ready, done = os.pipe()
    child = os.fork()
    if not child:
        try:
            other = Store.begin(path, protocol)
            assert other.claim(2)
            os.write(done, b"x")
            time.sleep(60.0)
        finally:
            os._exit(1)
    os.read(ready, 1)

    class Watcher(Counter):
        def waiting(self, cells):
            super().waiting(cells)
            os.kill(child, signal.SIGKILL)

    watcher = Watcher()
    assert len(swept(path, protocol, digits, watcher)) == len(protocol)
    assert 2 in watcher.phases  # two cells were waited for
    os.waitpid(child, 0)
    os.close(ready)
    os.close(done)


def test_a_store_is_read_while_another_process_adds_to_it_and_forgets(tmp_path):
    """What is read is of one moment: the cells, and their number and sum."""
    path, enough = tmp_path / "run.sqlite", tmp_path / "enough"
    done, failed = made_up.result(), made_up.failure("no")
    Store.begin(path, protocol_of()).close()
    child = os.fork()
    if not child:
        code = 1
        try:
            with Store.begin(path, protocol_of()) as store:
                for number in itertools.takewhile(lambda _: not enough.exists(), range(10_000)):
                    store.add([(f"{number} done", done), (f"{number} failed", failed)])
                    store.forget_failed()
                    time.sleep(0.01)  # a reader waits its turn
            code = 0
        finally:
            os._exit(code)
    seen = [[]]
    with Store.open(path) as store:
        while len(seen) < 10 and len(seen[-1]) < 5000:
            found = store.results()
            assert [one for one in found if one == done] == found[: len(found) - (failed in found)]
            seen += [found] if found != seen[-1] else []
            assert store.about()["done"] >= found.count(done)
        enough.touch()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert store.results().count(done) >= seen[-1].count(done)


# --- full disks, folders that cannot be written ---------------------------------------------------


def test_a_full_disk_ends_in_an_error_and_a_store_that_goes_on(zygote, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(SMALL.format(repeats=2, weights=[0.5, 1.0, 2.0]))
    whole, path = tmp_path / "whole.sqlite", tmp_path / "run.sqlite"
    assert zygote.sweep(config, whole) == 0
    limit = whole.stat().st_size * 3 // 4
    assert zygote.sweep(config, path, limit=limit) == 1
    message = zygote.said().splitlines()[-1]
    assert message.startswith(f"StoreError: {path} cannot be written: ")
    assert message.endswith(
        "what is finished is kept, and the same command goes on when there is room"
    )
    with Store.open(path) as store:
        kept = store.results()
    assert 0 < len(kept) < 100
    assert zygote.sweep(config, path) == 0
    with Store.open(path) as store, Store.open(whole) as reference:
        assert store.results()[: len(kept)] == kept
        assert numbers(store.results()) == numbers(reference.results())


def test_a_disk_that_is_full_from_the_start(tmp_path):
    with Store.begin(tmp_path / "run.sqlite", protocol_of()) as store:
        store._connection.execute("PRAGMA max_page_count = 1")  # SQLite takes what there is already
        row = Result(
            "d",
            1,
            1,
            1,
            0,
            0,
            "relu",
            None,
            "nngp",
            1,
            1.0,
            0.0,
            "failed",
            *[None] * 7,
            "1",
            None,
            "now",
            "x" * 100_000,
        )
        with pytest.raises(
            StoreError,
            match="cannot be written: database or disk is full; what is finished is kept",
        ):
            store.add([("key", row)])
        assert store.results() == []
        store._connection.execute("PRAGMA max_page_count = 10000")
        store.add([("key", row)])
        assert store.results() == [row]


def as_nobody(function):
    """Call a function in a process without root's rights, and return what it returns or raises, as
    text.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
            text = str(function())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with open(read, "rb") as file:
        return file.read().decode()


@pytest.fixture
def public():
    """A folder that everybody can read."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
        os.chmod(folder, 0o755)


def test_a_folder_that_cannot_be_written(public):
    protocol, path = protocol_of(), public / "run.sqlite"
    os.chmod(public, 0o555)
    assert (
        as_nobody(lambda: Store.begin(path, protocol)) == f"StoreError: {path} cannot be written: "
        f"the folder {public} is read-only"
    )
    os.chmod(public, 0o755)
    Store.begin(path, protocol).close()
    os.chmod(path, 0o444)
    os.chmod(public, 0o777)
    assert (
        as_nobody(lambda: Store.begin(path, protocol))
        == f"StoreError: {path} cannot be written: it is read-only"
    )
    os.chmod(public, 0o555)
    # reading is no problem
    assert as_nobody(lambda: Store.open(path).about()["open"]) == str(len(protocol))


def test_a_writer_that_was_killed_in_the_middle_of_a_commit(public):
    protocol, path = protocol_of(), public / "run.sqlite"
    Store.begin(path, protocol).close()
    content = path.read_bytes()
    child = os.fork()
    if not child:
        try:
            store = Store.begin(path, protocol)
            # so that pages are written before the end
            store._connection.execute("PRAGMA cache_size = 1")
            with store._transaction():
                for number in range(200):
                    store._connection.execute(
                        "INSERT INTO run VALUES (?, ?, '')", (str(number), "x" * 5000)
                    )
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    assert path.read_bytes() != content
    assert path.with_name("run.sqlite-journal").exists()
    os.chmod(path, 0o444)
    os.chmod(public, 0o555)
    assert "was left in the middle of a change; open it once where it can be written" in as_nobody(
        lambda: Store.open(path)
    )
    os.chmod(public, 0o755)
    os.chmod(path, 0o644)
    with Store.open(path) as store:
        assert store.about()["open"] == len(protocol)
    assert path.read_bytes() == content


# --- files that are not ours ----------------------------------------------------------------------


def test_files_that_are_not_stores(tmp_path):
    path, protocol = tmp_path / "run.sqlite", protocol_of()
    with pytest.raises(StoreError, match=r"run.sqlite is not there"):
        Store.open(path)
    with pytest.raises(StoreError, match="is a folder; name a file"):
        Store.begin(tmp_path, protocol)
    with pytest.raises(StoreError, match="must be in a folder that exists"):
        Store.begin(tmp_path / "none" / "run.sqlite", protocol)
    path.write_text("What is this? " * 1000)
    for opened in (Store.open, lambda name: Store.begin(name, protocol)):
        with pytest.raises(
            StoreError, match="is not the store of a run, or is damaged: file is not a database"
        ):
            opened(path)
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cell (a, b)")
    connection.close()
    for opened in (Store.open, lambda name: Store.begin(name, protocol)):
        with pytest.raises(StoreError, match="is a database, but not the store of a run"):
            opened(path)
    path.write_bytes(b"")  # what a process leaves that is killed at the very beginning
    Store.begin(path, protocol).close()
    with Store.open(path) as store:
        assert store.protocol == protocol


def alter(path, *statements):
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(
            statement
        )
    connection.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "PRAGMA user_version = 4",
            "has the format 4, mnngp .* reads 1 to 3; a newer mnngp reads it",
        ),
        ("PRAGMA user_version = 2", "does not have the tables of a store"),
        (
            "CREATE TRIGGER t AFTER INSERT ON cell BEGIN DELETE FROM cell; END",
            "does not have the tables of a store",
        ),
        ("CREATE VIEW v AS SELECT * FROM cell", "does not have the tables of a store"),
        ("DROP TABLE cell", "does not have the tables of a store"),
        (
            "DELETE FROM run WHERE name = 'protocol'",
            "what it says of its run is not what was stored",
        ),
        (
            "DELETE FROM run WHERE name = 'machine'",
            "what it says of its run is not what was stored",
        ),
        ("UPDATE run SET value = '[]' WHERE name = 'protocol'", "does not hold a protocol"),
        (
            "UPDATE run SET value = replace(value, 'digits', 'x') WHERE name = 'protocol'",
            "does not hold a protocol.*data.name",
        ),
        (
            ("UPDATE run SET value = ? WHERE name = 'protocol'", ("[" * 100_000,)),
            "does not hold a protocol",
        ),
    ],
)
def test_stores_that_were_tampered_with(tmp_path, statement, message):
    path = tmp_path / "run.sqlite"
    Store.begin(path, protocol_of()).close()
    alter(path, statement)
    if "UPDATE" in str(statement):
        with pytest.raises(
            StoreError,
            match=r"what it says of its run is not what was stored.*; "
            r"take a copy",
        ):
            Store.open(path)
        sealed(path)
    with pytest.raises(StoreError, match=message):
        Store.open(path)


@pytest.mark.parametrize("value", ["'a text'", "1e999", "NULL", "x'00'"])
def test_values_that_were_tampered_with(tmp_path, digits, value):
    path, protocol = tmp_path / "run.sqlite", protocol_of(train=40)
    swept(path, protocol, digits)
    alter(path, f"UPDATE cell SET test_accuracy = {value} WHERE depth = 5")
    with (
        Store.open(path) as store,
        pytest.raises(
            StoreError, match=r"the cell '40/0/maxout-4/.*/5' does not have its checksum"
        ),
    ):
        store.results()
    sealed(path)
    with (
        Store.open(path) as store,
        pytest.raises(
            StoreError,
            match=r"holds .*; it was changed or "
            r"damaged",
        ),
    ):
        store.results()


def test_a_damaged_store(tmp_path, digits):
    path, protocol = tmp_path / "run.sqlite", protocol_of()
    swept(path, protocol, digits)
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    with (
        pytest.raises(
            StoreError,
            match=r"is not the store of a run, or is damaged|it was changed "
            r"or damaged|does not",
        ),
        Store.open(path) as store,
    ):
        store.results()


@pytest.fixture(scope="module")
def whole(digits, tmp_path_factory):
    """The store of cells of which some failed, and one is less accurate than usual."""
    deep = {
        "activation": "maxout",
        "rank": 2,
        "depth": [1, 60],
        "weight_var": 1e-6,
        "bias_var": 0.1,
    }
    others = {
        "activation": "maxout",
        "rank": [2, 3],
        "depth": [1, 2],
        "weight_var": [1.0, 1e200],
        "bias_var": [0.1, 0.5],
    }
    protocol, path = (
        protocol_of(train=[20, 30], family=[deep, others]),
        tmp_path_factory.mktemp("whole") / "run.sqlite",
    )
    results = swept(path, protocol, digits)
    assert {(result.status, result.warning is None) for result in results} == {
        ("done", True),
        ("done", False),
        ("failed", True),
    }
    return path


def contents(opened):
    with opened as store:
        return store.protocol, store.about(), store.results(), [key for _, key, _ in store.news(0)]


@pytest.mark.parametrize("seed", range(2))
def test_a_flipped_bit_is_an_error_or_changes_nothing(whole, tmp_path, seed):
    """Wherever it is, in values or in SQLite's own pages; also where the store is then opened to be
    added to.
    """
    content, expected = whole.read_bytes(), contents(Store.open(whole))
    generator, path, count = random.Random(seed), tmp_path / "run.sqlite", Counted()
    for bit in generator.sample(range(8 * len(content)), 200):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        for opened in (Store.open, lambda name: Store.begin(name, expected[0])):
            try:
                found = contents(opened(path))
            except StoreError:
                count["error"] += 1
            else:
                count["same"] += 1
                assert found == expected, f"bit {bit % 8} of byte {bit // 8}"
    assert min(count["error"], count["same"]) > 40  # both happen, in about equal shares


def test_cells_that_are_lost_or_doubled(whole, tmp_path):
    path = tmp_path / "run.sqlite"
    path.write_bytes(whole.read_bytes())
    alter(path, "DELETE FROM cell WHERE number = 7")
    for look in (Store.results, Store.about):
        with (
            Store.open(path) as store,
            pytest.raises(StoreError, match="does not hold just the 36 cells that were stored"),
        ):
            look(store)
    alter(path, "UPDATE total SET cells = 35")
    with (
        Store.open(path) as store,
        pytest.raises(StoreError, match="does not hold just the 35 cells"),
    ):
        store.results()
    alter(path, "DELETE FROM total")
    with (
        Store.open(path) as store,
        pytest.raises(StoreError, match="does not say how many cells it holds"),
    ):
        store.results()


def test_what_is_damaged_is_computed_again(whole, digits, tmp_path):
    """Without the cells that are as they were stored; what is lost does not cost the whole run."""
    path, before = tmp_path / "run.sqlite", contents(Store.open(whole))
    path.write_bytes(whole.read_bytes())
    alter(
        path,
        "UPDATE cell SET test_accuracy = test_accuracy + 0.01 WHERE number = 2",
        "UPDATE cell SET key = 'x' || key WHERE number = 3",
        "DELETE FROM cell WHERE number = 4",
    )
    protocol, failed = before[0], before[1]["failed"]
    with pytest.raises(
        StoreError, match="mnngp sweep --retry-failed computes what is damaged again"
    ):
        swept(path, protocol, digits)
    with Store.begin(path, protocol) as store:
        assert store.forget_failed() == failed + len(
            [one for one in before[2][1:3] if one.status != "failed"]
        )
    counter = Counter()
    results = swept(path, protocol, digits, counter)
    assert numbers(results) == numbers(before[2])
    assert counter.found == len(
        [one for one in before[2] if one.status != "failed" and one not in before[2][1:4]]
    )
    kept = [one for one in before[2] if one in results]
    assert len(kept) >= counter.found


# --- stores of before -----------------------------------------------------------------------------

# by mnngp at commit f27d051: 2 cells done, 2 failed
FORMAT_2 = Path(__file__).parents[1] / "reference" / "store-format-2.sqlite"


def test_a_store_of_format_2_is_read_as_it_is(tmp_path):
    path = tmp_path / "run.sqlite"
    path.write_bytes(FORMAT_2.read_bytes())
    with Store.open(path) as store:
        results, about = store.results(), store.about()
        assert store.protocol.title == "As format 2 was"
    assert [
        (one.depth, one.status, one.test_log_loss) for one in results if one.status == "done"
    ] == [
        (1, "done", 1.6769819509760127),
        (5, "done", 1.5745508717753416),
    ]
    assert (about["done"], about["failed"], about["open"], about["inaccurate"]) == (2, 2, 0, 0)
    assert path.read_bytes() == FORMAT_2.read_bytes()


def test_a_store_of_format_2_goes_on_with_checksums(digits, tmp_path):
    path = tmp_path / "run.sqlite"
    path.write_bytes(FORMAT_2.read_bytes())
    with Store.open(path) as reader:  # before, and while, it is changed by another
        before, protocol, keys = reader.news(0), reader.protocol, reader.keys()
        Store.begin(path, protocol).close()
        assert (reader.news(0), reader.protocol, reader.keys()) == (before, protocol, keys)
    with Store.begin(path, protocol) as store:
        assert store._value("PRAGMA user_version") == 3
        assert store.news(0) == before
        assert store.about()["created"] == "2026-11-17T09:24:02+00:00"
        assert store.forget_failed() == 2
    assert numbers(swept(path, protocol, digits)) == numbers(result for _, _, result in before)
    alter(path, "UPDATE cell SET test_accuracy = 0.99 WHERE number = 1")
    with Store.open(path) as store, pytest.raises(StoreError, match="does not have its checksum"):
        store.results()


def test_a_store_of_format_2_that_is_damaged_stays_as_it_is(tmp_path):
    path = tmp_path / "run.sqlite"
    path.write_bytes(FORMAT_2.read_bytes())
    alter(path, "UPDATE cell SET test_accuracy = 'a text' WHERE depth = 5")
    content = path.read_bytes()
    with Store.open(path) as store:
        protocol = store.protocol
        with pytest.raises(StoreError, match=r"holds test_accuracy = 'a text'"):
            store.results()
    for opened in (lambda: Store.begin(path, protocol), lambda: Store.open(path, readonly=False)):
        with pytest.raises(
            StoreError,
            match=r"holds test_accuracy = 'a text', which is not of "
            r"type float",
        ):
            opened()
        assert path.read_bytes() == content


def test_a_letter_of_format_2_that_is_damaged(tmp_path):
    path = tmp_path / "run.sqlite"
    path.write_bytes(
        FORMAT_2.read_bytes().replace(
            b"ScaleError: the kernel is about 1e4", b"ScaleError: the \xffernel is about 1e4"
        )
    )
    with Store.open(path) as store, pytest.raises(StoreError, match="Could not decode to UTF-8"):
        store.results()


def test_no_number_is_given_twice(digits, tmp_path):
    path, protocol = tmp_path / "run.sqlite", protocol_of(train=40)
    results = swept(path, protocol, digits)
    with Store.begin(path, protocol) as store:
        cells_ = store.news(0)
        last = cells_[-1][0]
        store.add([("new", replace(results[0], status="failed", test_accuracy=None, error="no"))])
        ((number, key, _),) = store.news(last)
        assert (number, key) == (last + 1, "new")
        assert store.forget_failed() == 1
        # the second is there already
        store.add([("newer", results[0]), (cells_[0][1], results[1])])
        ((number, key, _),) = store.news(last)
        assert (number, key) == (last + 2, "newer")
        assert store.news(0) == [*cells_, (last + 2, "newer", results[0])]


def test_values_come_back_as_they_were_stored(tmp_path):
    """An integer for a real number, and a zero with a sign, are not what SQLite gives back."""
    row = Result(
        "d",
        1,
        1,
        1,
        0,
        0,
        "relu",
        None,
        "nngp",
        1,
        1,
        -0.0,
        "done",
        *[0.5, -0.0, 1, 0.1, 0, 1, 5e-324],
        "1",
        None,
        "now",
        "é\0x",
    )
    with Store.begin(tmp_path / "run.sqlite", protocol_of()) as store:
        store.add([("key", row)])
        assert store.results() == [row]
        assert store.about()["done"] == 1


def test_the_commit_is_that_of_the_packages_sources(tmp_path, monkeypatch):
    found = commit()
    assert found is None or len(found.rstrip("+")) == 40
    commit.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))  # no git
    assert commit() is None
    commit.cache_clear()


# --- the command ----------------------------------------------------------------------------------


def test_command(config, tmp_path):
    first = mnngp_sweep(config, cwd=tmp_path)
    assert first.stdout.startswith("34 of 34 cells are done, in run.sqlite")
    assert first.stderr.startswith("Digits [bold]for tests[/bold]: 34 cells\n")
    assert "cells · " in first.stderr
    assert "a second" in first.stderr
    assert "left · best 0." in first.stderr
    again = mnngp_sweep(config, "--json", cwd=tmp_path)
    facts = json.loads(again.stdout)
    assert again.stderr == ""
    assert facts["path"] == "run.sqlite"
    assert (facts["done"], facts["failed"]) == (34, 0)
    assert facts["seconds"] < 60.0


def test_command_says_what_is_wrong(config, tmp_path):
    assert "error: " in mnngp_sweep(tmp_path / "none.toml", code=1).stderr
    Store.begin(tmp_path / "run.sqlite", Protocol.load(config)).close()
    config.write_text(config.read_text().replace("repeats = 1", "repeats = 3"))
    refused = mnngp_sweep(config, "-o", tmp_path / "run.sqlite", code=1)
    assert refused.stderr.startswith(
        f"error: {tmp_path}/run.sqlite is the store of another configuration"
    )
    assert "\n  data.repeats: 1 → 3" in refused.stderr
    config.write_text(config.read_text().replace("depth = 3", "depth = 0"))
    assert mnngp_sweep(config, code=1).stderr == (
        f"error: {config}: family[1].depth must be a positive integer (1, 2, 3, ...), got 0\n"
    )
    config.write_text(
        config.read_text().replace("depth = 0", "depth = 3").replace('"digits"', '"mnist"')
    )
    missing = mnngp_sweep(config, "-o", tmp_path / "other.sqlite", "--data-dir", tmp_path, code=1)
    assert missing.stderr.startswith("error: mnist is not in ")


def test_command_with_failing_cells(config, tmp_path):
    config.write_text(SMALL.format(repeats=1, weights=[1.0, 1e200]))
    path = tmp_path / "run.sqlite"
    first = mnngp_sweep(config, "-o", path, "--json", code=1)
    assert json.loads(first.stdout)["failed"] == 16
    assert (
        "failed: maxout-2, depth 5, weight_var 1e+200, bias_var 0.1: ScaleError: " in first.stderr
    )
    assert first.stderr.endswith(
        "error: 16 cells failed; mnngp sweep --retry-failed tries them again\n"
    )
    with Store.open(path) as store:
        before = store.results()
    command = [
        sys.executable,
        "-m",
        "mnngp",
        "sweep",
        str(config),
        "-o",
        str(path),
        "--retry-failed",
    ]
    both = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        )
        for _ in "12"
    ]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [1, 1], outputs
    with Store.open(path) as store:
        assert numbers(store.results()) == numbers(before)
        assert store.results() != before


def test_interrupted(config, tmp_path):
    config.write_text(SMALL.format(repeats=20, weights=[0.5, 1.0, 2.0]))
    path = tmp_path / "run.sqlite"
    process = subprocess.Popen(
        [MNNGP, "sweep", str(config), "-o", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    for _ in range(600):
        time.sleep(0.1)
        if path.exists() and path.stat().st_size:
            with Store.open(path) as store:
                if store.about()["done"] > 10:
                    break
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - start < 10.0
    assert process.returncode == 130, err
    assert out == ""
    assert err.endswith(f"stopped; what is finished is in {path}, and the same command goes on\n")
    assert "Traceback" not in err
    with Store.open(path) as store:
        assert 10 < store.about()["done"] < 1000


def test_live_display(config, tmp_path):
    """On a terminal: a bar, the rate, the time left, the best so far, drawn anew several times a
    second.
    """
    config.write_text(SMALL.format(repeats=6, weights=[0.5, 1.0, 1e200]))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [MNNGP, "sweep", str(config), "-o", str(tmp_path / "run.sqlite")],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=environment(TERM="xterm", COLUMNS="150"),
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait(60) == 1
    text = shown.decode()
    for expected in (
        "Digits [bold]for tests[/bold]",
        "━",
        "a second",
        " left",
        "best validation accuracy 0.",
        "training images, repeat",
        "failed",
    ):
        assert expected in text, expected
