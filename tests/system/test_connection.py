"""Clusters that do not answer, end, or have other versions, in solves and sweeps: real processes,
on loopback.
"""

import copy
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import dask
import distributed  # noqa: F401  # its settings have to be there before ``hurried`` changes one
import joblib
import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import mnngp
from mnngp import MaxoutGPRegressor, MaxoutKernel
from mnngp._system import connection
from mnngp.commands.app import app
from mnngp.errors import ClusterError, InputError
from mnngp.inference import (
    ClusterConjugateGradients,
    ConjugateGradients,
    Posterior,
)
from mnngp.inference.solvers import tiles
from mnngp.inference.solvers.dask_conjugate_gradients import ClusterTiles, Session
from tests.system.processes import ENVIRONMENT

DASK = str(Path(sys.executable).with_name("dask"))
WORKER = ("worker", "--nthreads", "1", "--memory-limit", "0", "--no-nanny")
KERNEL = MaxoutKernel(3, 4, 0.6, 0.1)
GIVEN = {
    "depth": 3,
    "rank": 4,
    "weight_var": 0.6,
    "bias_var": 0.1,
    "kind": "nngp",
    "noise_var": 1e-2,
}


SWEEP = """
[data]
name = "digits"
train = 60
validation = 300
repeats = 3
[[family]]
activation = "maxout"
rank = [2, 3, 4]
depth = [1, 5]
weight_var = { from = 0.5, to = 4.0, count = 10 }
bias_var = [0.1, 0.5]
"""


class Cluster:
    """A scheduler and a worker without a limit of memory, as ``dask`` starts them."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.folder = folder
        self.started = []
        self.scheduler = self.start("scheduler", "--port", self.address.rpartition(":")[2])
        self.worker = self.start(*WORKER, self.address)

    def start(self, *command):
        log = self.folder / f"{len(self.started)}.log"
        options = ("--host", "127.0.0.1", "--no-dashboard")
        with log.open("w") as file:
            process = subprocess.Popen(
                [DASK, *command, *options],
                env=ENVIRONMENT,
                stdout=file,
                stderr=file,
                cwd=self.folder,
            )
        self.started.append(process)
        return process

    def close(self):
        for process in self.started:
            process.kill()
        for process in self.started:
            process.wait(timeout=30)


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    """One cluster after the other: a new one if the last one has ended."""
    made = []

    def running():
        if not made or made[-1].scheduler.poll() is not None:
            made.append(Cluster(tmp_path_factory.mktemp("dask")))
            with client_of(made[-1]) as client:
                client.wait_for_workers(1, timeout=60)
        return made[-1]

    yield running
    for cluster in made:
        cluster.close()


@pytest.fixture
def cluster(clusters):
    return clusters()


@contextmanager
def client_of(cluster):
    end = time.monotonic() + 30.0
    while True:
        try:
            client = connection.client_at(cluster.address)
            break
        except ClusterError:  # it is starting
            assert time.monotonic() < end
            time.sleep(0.1)
    with client:
        yield client


@contextmanager
def hurried():
    """Two seconds of patience, where it has to come to its end."""
    with (
        pytest.MonkeyPatch.context() as patch,
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
    ):
        patch.setattr(connection, "PATIENCE", 2.0)
        patch.setattr(connection, "_LOOK", 0.2)
        yield


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(300, 4)), rng.normal(size=(5, 4))
    return X, np.sin(X.sum(axis=1)), new


@pytest.fixture(scope="module")
def exact(table):
    X, y, new = table
    return Posterior(KERNEL, X, y, 1e-2).mean_and_variance(new)


@pytest.fixture
def at_product(monkeypatch):
    """Something to be done at one of the products to come."""
    product = ClusterTiles._product

    def at(number, action):
        products = []

        def counted(self, v):
            products.append(v.shape)
            if len(products) == number:
                action()
            return product(self, v)

        monkeypatch.setattr(ClusterTiles, "_product", counted)

    return at


# --- a scheduler that does not answer -------------------------------------------------------------


def test_an_address_that_accepts_and_never_answers():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with (
            hurried(),
            pytest.raises(
                ClusterError,
                match=rf"no Dask scheduler at {address}: no "
                r"answer in 2 s; .* is stopped",
            ),
        ):
            connection.client_at(address)
        assert time.monotonic() - began < 10.0


def test_a_scheduler_is_stopped(cluster, table, exact, at_product, monkeypatch):
    """Before a solve, for a moment, and in the middle of one; when it goes on, so does the
    model.
    """
    X, y, new = table
    solver = ClusterConjugateGradients(scheduler=cluster.address, rank=20)

    def pause():
        cluster.scheduler.send_signal(signal.SIGSTOP)

    def go_on():
        cluster.scheduler.send_signal(signal.SIGCONT)

    def pause_for_a_moment():
        pause()
        threading.Timer(1.0, go_on).start()

    try:
        pause()
        with hurried(), pytest.raises(ClusterError, match="no answer in 2 s"):
            Posterior(KERNEL, X, y, 1e-2, solver=solver)
        go_on()
        # it is asked while it is stopped, and answers late
        monkeypatch.setattr(connection, "_LOOK", 0.1)
        at_product(3, pause_for_a_moment)
        ours = Posterior(KERNEL, X, y, 1e-2, solver=solver)
        np.testing.assert_allclose(ours.mean(new), exact[0], atol=1e-6)
        at_product(3, pause)
        began = time.monotonic()
        with (
            hurried(),
            pytest.raises(
                ClusterError,
                match=rf"at {cluster.address} has not answered "
                r"for 2 s.*; fit again .*'cg'",
            ),
        ):
            ours.mean_and_variance(new)
        assert time.monotonic() - began < 20.0
    finally:
        go_on()
    # on a new connection
    np.testing.assert_allclose(ours.mean_and_variance(new)[1], exact[1], atol=1e-6)


# --- versions -------------------------------------------------------------------------------------


def set_version(client, version):
    """On the workers."""

    def there():
        import mnngp

        mnngp.__version__ = version

    client.run(there)


def test_other_versions_are_refused(cluster, table, at_product):
    """Before a solve; and in the middle of one, as of a worker that joins."""
    X, y, _ = table
    refused = rf"worker at tcp://127\.0\.0\.1:\d+ has mnngp 0\.0\.1, and not mnngp {mnngp.__version__} as here: install the same"
    with client_of(cluster) as client:
        try:
            at_product(3, lambda: set_version(client, "0.0.1"))
            with pytest.raises(ClusterError, match=refused):
                Posterior(
                    KERNEL, X, y, 1e-2, solver=ClusterConjugateGradients(scheduler=client, rank=20)
                )
            with pytest.raises(ClusterError, match=refused):
                Posterior(KERNEL, X, y, 1e-2, solver=ClusterConjugateGradients(scheduler=client))
        finally:
            set_version(client, mnngp.__version__)
        assert list(client.run(connection.versions).values()) == [connection.versions()]


def test_a_worker_without_mnngp(cluster, table, tmp_path):
    """(One that joins in the middle cannot read its first task, ends, and others do it: that is
    Dask's doing.)
    """
    X, y, _ = table
    preload = tmp_path / "none.py"
    preload.write_text("import sys\nsys.modules['mnngp'] = None\n")
    with client_of(cluster) as client:
        joined = cluster.start(*WORKER, cluster.address, "--preload", str(preload))
        client.wait_for_workers(2, timeout=60)
        try:
            with pytest.raises(
                ClusterError,
                match=r"cannot compute this: .*mnngp.*\. Install "
                rf"mnngp {mnngp.__version__} there",
            ):
                Posterior(KERNEL, X, y, 1e-2, solver=ClusterConjugateGradients(scheduler=client))
        finally:
            joined.kill()
            end = time.monotonic() + 30.0
            while len(client.nthreads()) > 1:
                assert time.monotonic() < end
                time.sleep(0.1)


def test_what_has_to_agree():
    ours = {"mnngp": "1", "Python": "3.11", "NumPy": "2.1"}
    connection._agree("tcp://a:1", dict(ours), ours)
    with pytest.raises(
        ClusterError,
        match=r"tcp://a:1 has Python 3\.12 and NumPy 1\.26, and not Python 3\.11 and "
        r"NumPy 2\.1 as here",
    ):
        connection._agree("tcp://a:1", {"mnngp": "1", "Python": "3.12", "NumPy": "1.26"}, ours)


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        (" tcp://10.0.0.1:8786", "spaces around it"),
        ("tcp://10.0.0.1", "missing port"),
        ("10.0.0.1", "missing port"),
        ("tcp://10.0.0.1:99999", "no port that there is"),
        ("tcp://10.0.0.1:port", "invalid literal"),
        ("tcp://:8786", "it has no host"),
        ("http://10.0.0.1:8786", "unknown address scheme 'http'"),
    ],
)
def test_addresses_that_are_none(address, reason, monkeypatch, tmp_path):
    """Said where they are given, and before anything else."""
    said = rf"must be an address such as 'tcp://10\.0\.0\.1:8786', got .*{reason}"
    with pytest.raises(InputError, match=f"^scheduler {said}"):
        ClusterConjugateGradients(scheduler=address)
    with pytest.raises(InputError, match=f"^scheduler {said}"):
        Session(address)
    file = tmp_path / "run.toml"
    file.write_text(SWEEP)
    from mnngp.commands.sweep import sweep

    with pytest.raises(InputError, match=f"^--scheduler {said}"):
        sweep(file, tmp_path / "run.sqlite", None, None, address, False)
    assert not (tmp_path / "run.sqlite").exists()
    if address.strip():
        with (
            dask.config.set({"scheduler-address": address}),
            pytest.raises(InputError, match=f"^DASK_SCHEDULER_ADDRESS {said}"),
        ):
            Session()


@pytest.mark.parametrize("count", ["0", "-1", "two"])
def test_the_number_of_workers(count):
    result = CliRunner().invoke(app, ["sweep", "x.toml", "--workers", count])
    assert result.exit_code == 2
    assert "Invalid value for '--workers'" in result.output


def test_not_a_scheduler(cluster, table):
    X, y, _ = table
    with client_of(cluster) as client:
        (worker,) = client.nthreads()
    with pytest.raises(
        ClusterError, match=f"no Dask scheduler at {worker}: it is the address of a Worker"
    ):
        Posterior(KERNEL, X, y, 1e-2, solver=ClusterConjugateGradients(scheduler=worker))
    with pytest.raises(
        InputError,
        match=r"scheduler must be an address, a distributed\.Client or "
        r"None, got 7",
    ):
        ClusterConjugateGradients(scheduler=7)


# --- copies ---------------------------------------------------------------------------------------


def copies(model, folder):
    yield "pickle", pickle.loads(pickle.dumps(model))
    yield "deepcopy", copy.deepcopy(model)
    joblib.dump(model, folder / "model.joblib")
    yield "joblib", joblib.load(folder / "model.joblib")


def test_copies_have_the_memory_of_where_they_are(cluster, table, exact, tmp_path, monkeypatch):
    """A terabyte on the cluster; here there is what there is when it is used, and the copies need
    no cluster.
    """
    X, y, new = table
    budgets = []

    class Tiles(tiles.LocalTiles):
        def __init__(self, network, contraction, points, budget, progress):
            budgets.append(budget)
            super().__init__(network, contraction, points, budget, progress)

    with client_of(cluster) as client:
        solver = ClusterConjugateGradients(memory="1TB", scheduler=client)
        ours = Posterior(KERNEL, X, y, 1e-2, solver=solver)
        made = {("cluster", how): one for how, one in copies(ours, tmp_path)}
        here = Posterior(KERNEL, X, y, 1e-2, solver=ConjugateGradients(memory="1TB"))
        small = Posterior(KERNEL, X, y, 1e-2, solver=ConjugateGradients(memory="2MB"))
        made |= {("here", how): one for how, one in copies(here, tmp_path)}
        made |= {("small", how): one for how, one in copies(small, tmp_path)}
    assert client.status == "closed"
    monkeypatch.setattr(tiles, "LocalTiles", Tiles)
    # of the machine that they are on now
    monkeypatch.setattr("mnngp._system.memory.available", lambda: 10**7)
    for (name, how), one in made.items():
        np.testing.assert_allclose(one.mean(new), exact[0], atol=1e-6)
        np.testing.assert_allclose(one.mean_and_variance(new)[1], exact[1], atol=1e-6)
        rank = one.inverse.preconditioner.rank
        budget = 2 * 10**6 if name == "small" else 5 * 10**6
        assert budgets.pop() == budget - 16 * len(X) * rank, (name, how)
    assert not budgets


def test_estimators_with_a_client_are_copied(cluster, table, exact, tmp_path):
    """``clone`` as cross-validation does it; a fitted one predicts when the client is closed, and
    says what it cannot do.
    """
    X, y, new = table
    with client_of(cluster) as client:
        solver = ClusterConjugateGradients(scheduler=client, rank=20)
        model = clone(MaxoutGPRegressor(**GIVEN, solver=solver)).fit(X, y)
        assert model.solver.scheduler is client
        std = model.predict(new, return_std=True)[1]
        made = dict(copies(model, tmp_path))
        assert made["pickle"].solver.scheduler == made["joblib"].solver.scheduler == cluster.address
        again = made["pickle"].fit(X, y)  # on the cluster, by its address
        assert again.report_.where == "on 1 workers"
    mean = model.predict(new)
    for one in made.values():
        np.testing.assert_allclose(one.predict(new), mean, atol=1e-6)
        np.testing.assert_allclose(one.predict(new, return_std=True)[1], std, atol=1e-6)
    with pytest.raises(
        ClusterError,
        match=r"client of the cluster is closed; fit again on a "
        r"cluster that runs, or .*solver='cg'",
    ):
        model.predict(new, return_std=True)
    for refit in (model, copy.deepcopy(model), MaxoutGPRegressor(**GIVEN, solver=solver)):
        with pytest.raises(ClusterError, match="the client that is given as scheduler is closed"):
            refit.fit(X, y)


def test_two_solves_at_once_on_one_client(cluster, table, exact):
    X, y, new = table
    with client_of(cluster) as client:
        solver = ClusterConjugateGradients(scheduler=client, rank=20)
        found = {}

        def solve(number):
            found[number] = Posterior(KERNEL, X, (1 + number) * y, 1e-2, solver=solver).mean(new)

        threads = [threading.Thread(target=solve, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
    for number in range(3):
        np.testing.assert_allclose(found[number], (1 + number) * exact[0], atol=1e-5)


def test_memory_of_workers_without_a_limit(cluster):
    """What their machine has, shared by those on it; not what is free here."""

    def there(value):
        from mnngp._system import memory

        before = memory.available
        memory.available = before if value is None else lambda: value
        return before

    with client_of(cluster) as client:
        session = Session(client)
        ((address, worker),) = session.workers().items()
        before = client.run(there, 6 * 10**12)
        try:
            assert session.limits({address: worker}) == [6e12]
            assert session.limits(
                {address: worker, "another": {**worker, "memory_limit": 10**9}}
            ) == [6e12, 1e9]
        finally:
            client.run(
                lambda value: setattr(sys.modules["mnngp._system.memory"], "available", value),
                before[address],
            )


# --- the end --------------------------------------------------------------------------------------


def test_a_scheduler_is_stopped_in_a_sweep(cluster, tmp_path):
    """What is finished is kept; nobody else waits for what was not."""
    from mnngp import data
    from mnngp.experiments import dask_runner as sweeps
    from mnngp.experiments.protocol import Protocol
    from mnngp.experiments.records import Watcher
    from mnngp.experiments.store import Store

    file = tmp_path / "run.toml"
    file.write_text(SWEEP)
    protocol = Protocol.load(file)

    class Stopping(Watcher):
        def finished(self, results):
            cluster.scheduler.send_signal(signal.SIGSTOP)

    began = time.monotonic()
    try:
        with (
            Store.begin(tmp_path / "run.sqlite", protocol) as store,
            pytest.raises(
                ClusterError,
                match=r"has not answered for 2 s.*what is finished is "
                r"kept, and the same command goes on",
            ),
            sweeps.connected(scheduler=cluster.address) as client,
            hurried(),
        ):
            sweeps.run(protocol, store, data.load(protocol.dataset), client, Stopping())
        assert time.monotonic() - began < 40.0
    finally:
        cluster.scheduler.send_signal(signal.SIGCONT)
    with Store.open(tmp_path / "run.sqlite") as store:
        assert 0 < store.about()["done"] < len(protocol)


def test_the_scheduler_dies_in_a_solve(cluster, table, exact, at_product):
    X, y, new = table
    solver = ClusterConjugateGradients(scheduler=cluster.address, rank=20)
    # a client tries so long to get it back
    with dask.config.set({"distributed.comm.timeouts.connect": "4s"}):
        ours = Posterior(KERNEL, X, y, 1e-2, solver=solver)
    at_product(3, cluster.scheduler.kill)
    gone = rf"the scheduler at {cluster.address} is gone: it has ended, .*; fit again on a cluster that runs, or .*solver='cg'"
    with pytest.raises(ClusterError, match=gone):
        ours.mean_and_variance(new)
    np.testing.assert_allclose(ours.mean(new), exact[0], atol=1e-6)
    with pytest.raises(ClusterError, match=f"no Dask scheduler at {cluster.address}"):
        ours.mean_and_variance(new)  # another attempt
