"""Sweeps on a Dask cluster: a scheduler and workers started as users start them, killed as clusters
kill them.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

import mnngp
from mnngp import data
from mnngp.commands.app import app
from mnngp.errors import InputError
from mnngp.experiments import runner
from mnngp.experiments.database import StoreError
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.store import Store

BIN = Path(sys.executable).parent
CONFIG = """
[data]
name = "digits"
train = [60, 120]
validation = 300
repeats = 2
[[family]]
activation = "maxout"
rank = [2, 3, 4]
depth = [1, 5, 9]
weight_var = { from = 0.5, to = 4.0, count = 5 }
bias_var = [0.1, 0.5]
[[family]]
activation = "tanh"
depth = [1, 3]
weight_var = 1.5
bias_var = 0.1
"""
CELLS = 2 * 2 * (3 * 3 * 5 * 2 + 2)
SMALL = CONFIG.replace("repeats = 2", "repeats = 1").replace("count = 5", "count = 1")
FINITE = """
[[family]]
kind = "finite"
width = 5
rank = 2
depth = 1
weight_std = [0.1, 0.5]
bias_std = 0.1
epochs = 20
"""
ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def started(*command, cwd=None, start_new_session=False, **environment):
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        start_new_session=start_new_session,
        env=os.environ | ALONE | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def outcome(process, seconds=300.0):
    """What a process says until it ends by itself, and its exit code. One that does not end is
    killed, and the test fails.
    """
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        pytest.fail(f"it did not end in {seconds:g} seconds, and had said: {ended(process)}")
    return said, process.returncode


def ended(process):
    """Kill a process that was started here, if it is still there, and return what it said."""
    process.kill()
    return process.communicate()[0]


class Cluster:
    """``dask scheduler`` and some ``dask worker``, each a process on the loopback interface."""

    def __init__(self, folder):
        self.file = folder / "scheduler.json"
        self.scheduler = started(
            BIN / "dask",
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--no-show",
            "--scheduler-file",
            self.file,
            cwd=folder,
        )
        self.workers = []
        self.folder = folder

    @property
    def address(self):
        # all of it is written
        waiting_for(lambda: self.file.exists() and self.file.read_text().rstrip().endswith("}"))
        return json.loads(self.file.read_text())["address"]

    def add_worker(self, *options, **environment):
        worker = started(
            BIN / "dask",
            "worker",
            self.address,
            "--host",
            "127.0.0.1",
            "--nthreads",
            "1",
            "--no-nanny",
            "--no-dashboard",
            "--local-directory",
            self.folder,
            *options,
            cwd=self.folder,
            **environment,
        )
        self.workers.append(worker)
        return worker

    def with_workers(self, count):
        """Have so many workers, and none that a test left behind."""
        alive = [worker for worker in self.workers if worker.poll() is None][:count]
        for worker in self.workers:
            if worker not in alive:
                ended(worker)
        self.workers = alive
        while len(self.workers) < count:
            self.add_worker()
        return self

    def close(self):
        for process in [*self.workers, self.scheduler]:
            process.kill()
        for process in [*self.workers, self.scheduler]:
            process.communicate()


@contextmanager
def cluster_in(folder, workers=2):
    cluster = Cluster(folder)
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.close()


def waiting_for(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "that took too long"
        time.sleep(0.1)


def numbers(path):
    """What must be the same whoever computes it, to the last bit."""
    with Store.open(path) as store:
        return {
            key: (
                r.status,
                r.validation_accuracy,
                r.validation_log_loss,
                r.test_accuracy,
                r.test_log_loss,
                r.noise_var,
                r.attempts,
            )
            for _, key, r in store.news(0)
        }


def finished(path):
    if not path.exists():
        return 0
    try:
        with Store.open(path) as store:
            return store.about()["done"]
    except StoreError:  # it is just being made
        return 0


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A scheduler for all tests that do not end it."""
    with cluster_in(tmp_path_factory.mktemp("dask"), workers=0) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "run.toml"
    path.write_text(CONFIG)
    return path


def alone(config, path):
    """The numbers of the same sweep in one process, this one."""
    protocol = Protocol.load(config)
    with Store.begin(path, protocol) as store:
        runner.run(protocol, store, data.load(protocol.dataset))
    return numbers(path)


@pytest.fixture(scope="module")
def expected(config):
    found = alone(config, config.with_name("alone.sqlite"))
    assert len(found) == CELLS
    return found


def sweep(config, path, *options, **arguments):
    return started(BIN / "mnngp", "sweep", config, "-o", path, *options, **arguments)


def test_workers_and_a_driver_are_killed_and_the_numbers_are_those_of_one_process(
    config, expected, shared, tmp_path
):
    path, cluster = tmp_path / "run.sqlite", shared.with_workers(2)
    driver = sweep(config, path, "--scheduler", cluster.address)
    waiting_for(lambda: finished(path) > 20)
    cluster.workers[0].send_signal(signal.SIGKILL)
    cluster.add_worker()  # a new node in the place of the dead one: it is given the images, too
    before = finished(path)
    waiting_for(lambda: finished(path) > before + 60)
    ended(driver)
    kept = numbers(path)
    assert before < len(kept) < CELLS
    said, code = outcome(sweep(config, path, "--scheduler", cluster.address))
    assert code == 0, said
    assert f"{CELLS} of {CELLS} cells are done" in said
    assert numbers(path) == expected
    assert kept.items() <= expected.items()


def test_two_sweeps_share_a_cluster(config, expected, shared, tmp_path):
    """Each has its own images on the workers: neither computes with those of the other, nor takes
    them away.
    """
    other, cluster = tmp_path / "other.toml", shared.with_workers(2)
    other.write_text(
        SMALL.replace("repeats = 1", "repeats = 1\nseed = 1").replace("count = 1", "count = 2")
    )
    paths = [tmp_path / "run.sqlite", tmp_path / "other.sqlite"]
    drivers = [
        sweep(file, path, "--scheduler", cluster.address)
        for file, path in zip((config, other), paths, strict=True)
    ]
    for driver in drivers:
        said, code = outcome(driver)
        assert code == 0, said
    assert numbers(paths[0]) == expected
    assert numbers(paths[1]) == alone(other, tmp_path / "alone.sqlite")


def test_the_only_worker_dies_and_another_comes(config, expected, shared, tmp_path):
    """Dask by itself would leave the units waiting for the first one."""
    path, cluster = tmp_path / "run.sqlite", shared.with_workers(1)
    running = sweep(config, path, "--scheduler", cluster.address)
    waiting_for(lambda: finished(path) > 20)
    ended(cluster.workers.pop())
    time.sleep(2.0)  # there is none
    cluster.add_worker()
    said, code = outcome(running)
    assert code == 0, said
    assert numbers(path) == expected


def test_another_version_on_a_worker_is_refused(config, shared, tmp_path):
    old = tmp_path / "old.py"
    old.write_text("import mnngp\nmnngp.__version__ = '0.0.1'\n")
    shared.with_workers(0).add_worker("--preload", old)
    said, code = outcome(sweep(config, tmp_path / "run.sqlite", "--scheduler", shared.address))
    shared.with_workers(0)
    assert code == 1
    assert (
        f"has mnngp 0.0.1, and not mnngp {mnngp.__version__} as here: install the same everywhere"
        in said
    )
    assert "Traceback" not in said


def test_an_interrupt_ends_it_and_the_workers(config, tmp_path):
    path = tmp_path / "run.sqlite"
    driver = sweep(config, path, "--workers", "2", start_new_session=True)
    waiting_for(lambda: finished(path) > 20)
    os.killpg(driver.pid, signal.SIGINT)  # as a terminal does: the workers get it, too
    said, code = outcome(driver)
    assert code == 130, said
    assert "the same command goes on" in said
    assert "Traceback" not in said


def test_a_dead_scheduler_loses_nothing(config, expected, tmp_path):
    path = tmp_path / "run.sqlite"
    with cluster_in(tmp_path, workers=1) as cluster:
        # so long it tries to get the connection back; Dask's default is half a minute
        patience = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "6s"}
        driver = sweep(config, path, "--scheduler", cluster.address, **patience)
        waiting_for(lambda: finished(path) > 20)
        cluster.scheduler.send_signal(signal.SIGKILL)
        said, code = outcome(driver)
        assert code == 1
        assert (
            f"error: the scheduler at {cluster.address} is gone: it has ended, or the connection "
            "to it; " in said
        ), said
        assert said.endswith("what is finished is kept, and the same command goes on\n"), said
        assert "Traceback" not in said
    kept = finished(path)
    assert 20 < kept < CELLS
    said, code = outcome(sweep(config, path))
    assert code == 0, said
    assert numbers(path) == expected


def test_processes_on_this_machine_listen_on_loopback_alone(tmp_path):
    """With networks that are trained: the numbers are those of one process here as well."""
    path, config = tmp_path / "run.sqlite", tmp_path / "run.toml"
    config.write_text(SMALL + FINITE)
    driver = sweep(config, path, "--workers", "2")
    waiting_for(lambda: finished(path) > 0)
    family = [psutil.Process(driver.pid), *psutil.Process(driver.pid).children(recursive=True)]
    heard = {
        connection.laddr.ip
        for one in family
        for connection in one.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    said, code = outcome(driver)
    assert code == 0, said
    assert heard == {"127.0.0.1"}
    assert numbers(path) == alone(config, tmp_path / "alone.sqlite")
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family)


DEADLY = """
import os, signal
from mnngp.experiments import cells
if not hasattr(cells, "plain"):
    cells.plain = cells._Infinite.cell
def cell(self, group, depth, step):
    if group.activation == "tanh" and group.split.n_train == 60:
        os.kill(os.getpid(), signal.SIGKILL)
    return cells.plain(self, group, depth, step)
cells._Infinite.cell = cell
"""


def test_a_unit_that_kills_workers_is_recorded(shared, tmp_path):
    """Four workers in a row: it is the unit, not the machines. The others go on."""
    deadly, small, path = tmp_path / "deadly.py", tmp_path / "small.toml", tmp_path / "run.sqlite"
    deadly.write_text(DEADLY)
    small.write_text(SMALL)
    cluster = shared.with_workers(0)
    running, workers = sweep(small, path, "--scheduler", cluster.address), []
    # who starts the workers starts others for those that died
    while running.poll() is None and len(workers) < 9:
        if sum(worker.poll() is None for worker in workers) < 3:
            workers.append(cluster.add_worker("--preload", deadly))
        time.sleep(0.2)
    said, code = outcome(running)
    assert sum(worker.poll() is not None for worker in workers) == 4  # three are allowed
    shared.with_workers(0)
    assert code == 1, said
    assert "error: 2 cells failed" in said
    with Store.open(path) as store:
        failed = [r for r in store.results() if r.status == "failed"]
        assert {(r.activation, r.n_train) for r in failed} == {("tanh", 60)}
        assert all(r.error.startswith("KilledWorker: 4 workers died") for r in failed)
        assert store.about()["done"] == len(store.protocol) - 2


def test_what_is_refused_before_any_work(config, tmp_path):
    path = tmp_path / "run.sqlite"
    command = ["sweep", str(config), "-o", str(path)]
    both = CliRunner().invoke(
        app, [*command, "--workers", "2", "--scheduler", "tcp://127.0.0.1:8786"]
    )
    assert both.exit_code == 2
    assert "give one of them" in both.output
    empty = CliRunner().invoke(app, [*command, "--scheduler", ""])
    assert isinstance(empty.exception, InputError)
    assert (
        str(empty.exception)
        == "--scheduler must be an address such as 'tcp://10.0.0.1:8786', got '': it is empty"
    )
    said, code = outcome(sweep(config, path, "--scheduler", "tcp://127.0.0.1:9"))
    assert code == 1
    assert "error: there is no Dask scheduler at tcp://127.0.0.1:9" in said
    assert "Traceback" not in said


def test_without_dask_it_says_so(config, tmp_path):
    blocked = (
        "import sys; sys.modules['distributed'] = sys.modules['dask'] = None; from mnngp.commands.app "
        "import main; main()"
    )

    def command(*arguments):
        return subprocess.run(
            [sys.executable, "-c", blocked, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )

    refused = command("sweep", config, "--workers", 2)
    assert refused.returncode == 1
    assert refused.stderr == 'error: a cluster needs Dask: pip install "mnngp[dask]"\n'
    assert not (tmp_path / "run.sqlite").exists()
    assert command("phase").returncode == 0
