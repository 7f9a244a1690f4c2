"""Processes that are killed, run out of disk, or share a store: no cell is lost or repeated."""

import itertools
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from mnngp.experiments.protocol import Protocol
from mnngp.experiments.store import Store
from tests import made_up
from tests.experiments.sweeps import SMALL, numbers, protocol_of

# From Python 3.12 on a fork is warned of where there are threads, such as BLAS's.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


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
