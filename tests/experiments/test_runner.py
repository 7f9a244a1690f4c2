"""Going on with a sweep, and sharing it between processes."""

import os
import signal
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from mnngp.experiments import cells, runner
from mnngp.experiments.database import StoreError
from mnngp.experiments.store import Store
from tests.experiments.sweeps import Counter, in_order, numbers, protocol_of, swept

# From Python 3.12 on a fork is warned of where there are threads, such as BLAS's.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


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
    plain = cells.mean_at

    def broken(posterior, others, step):
        if posterior.kernel.weight_var == 0.5:
            raise ZeroDivisionError("oh dear")
        mean = plain(posterior, others, step)
        return mean if len(posterior.kernel.layers) == 1 else np.full_like(mean, np.nan)

    monkeypatch.setattr(cells, "mean_at", broken)
    results = swept(tmp_path / "run.sqlite", protocol_of(), digits)
    errors = {(result.weight_var, result.depth): result.error for result in results}
    assert errors[0.5, 1] == errors[0.5, 5] == "ZeroDivisionError: oh dear"
    assert errors[1.5, 5] == "MnngpError: the posterior means are not finite"
    assert errors[1.5, 1] is None


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
