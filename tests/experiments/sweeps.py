"""What the tests of sweeps share."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

from mnngp.experiments import runner
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.records import Watcher
from mnngp.experiments.store import Store

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


class Counter(Watcher):
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


def alter(path, *statements):
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(
            statement
        )
    connection.close()
