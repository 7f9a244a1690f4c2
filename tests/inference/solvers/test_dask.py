"""Solvers on a cluster as users start one; workers that die."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import mnngp
from mnngp import MaxoutGPRegressor
from mnngp._system import connection
from mnngp.errors import ClusterError
from mnngp.inference import ClusterConjugateGradients, Posterior
from mnngp.inference.solvers import dask_conjugate_gradients as cluster_module
from tests.inference.problems import GIVEN, KERNELS

DASK = str(Path(sys.executable).with_name("dask"))


ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(mnngp.__file__).parents[1].absolute()),
    "OMP_NUM_THREADS": "1",
}


@pytest.fixture(scope="module")
def dask_cluster(tmp_path_factory):
    """A scheduler and two workers of 1 GB, in processes of their own, on loopback."""
    folder = tmp_path_factory.mktemp("dask")
    file = folder / "scheduler.json"
    options = ["--host", "127.0.0.1", "--scheduler-file", str(file), "--no-dashboard"]
    started = []

    def start(*command):
        with (folder / f"{len(started)}.log").open("w") as log:
            started.append(
                subprocess.Popen(
                    [DASK, *command, *options], env=ENVIRONMENT, stdout=log, stderr=log, cwd=folder
                )
            )

    start("scheduler", "--port", "0")
    try:
        deadline = time.monotonic() + 30.0
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        for _ in range(2):
            start(
                "worker",
                "--nthreads",
                "1",
                "--memory-limit",
                "1GB",
                "--local-directory",
                str(folder),
            )
        from distributed import Client

        with Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            yield client
    finally:
        for process in [
            child for one in started for child in psutil.Process(one.pid).children(recursive=True)
        ] + started:
            process.kill()
        for process in started:
            process.wait(timeout=30)


@pytest.fixture(scope="module")
def expected(large_table):
    X, y, new = large_table
    return Posterior(KERNELS["plain"][0], X, y, 1e-2).mean_and_variance(new)


@pytest.mark.parametrize("room", [None, "8.8MB", 0])
def test_conjugate_gradients_on_a_cluster(large_table, expected, dask_cluster, room):
    X, y, new = large_table
    shares = []
    solver = ClusterConjugateGradients(
        scheduler=dask_cluster.scheduler.address, memory=room, rank=150
    )
    ours = Posterior(KERNELS["plain"][0], X, y, 1e-2, solver=solver, progress=shares.append)
    np.testing.assert_allclose(ours.mean(new), expected[0], atol=1e-6 * np.abs(expected[0]).max())
    assert ours.report.where == "on 2 workers"
    assert (ours.report.kept == ours.report.total) == (room is None)
    assert (ours.report.kept == 0) == (room == 0)
    assert ours.report.kept <= 8_800_000 or room is None
    assert sum(shares) <= 1.01
    if room is None:
        np.testing.assert_allclose(
            ours.mean_and_variance(new[:3])[1], expected[1][:3], atol=1e-6 * expected[1].max()
        )


def test_an_estimator_on_the_active_client(large_table, dask_cluster, tmp_path):
    X, y, new = (part[:600] for part in large_table)
    exact = MaxoutGPRegressor(**GIVEN).fit(X, y).predict(new)
    with dask_cluster.as_current():
        model = MaxoutGPRegressor(**GIVEN, solver="dask").fit(X, y)
        np.testing.assert_allclose(model.predict(new), exact, atol=1e-6)
        model.save(tmp_path / "model.mnngp")
        again = mnngp.load(tmp_path / "model.mnngp")
        np.testing.assert_array_equal(again.predict(new), model.predict(new))
        assert np.isfinite(again.predict(new[:2], return_std=True)[1]).all()  # solved for here


# of 9.7 MB of tiles
@pytest.mark.parametrize(("victims", "room"), [("one", None), ("all that hold the data", "8.8MB")])
def test_workers_are_killed_in_the_middle(
    large_table, expected, dask_cluster, victims, room, monkeypatch
):
    """kill -9, as the kernel does it to a process that takes too much; its nanny starts another.

    What one worker held is computed again by Dask, from data that another has. If no worker has
    them, they are sent again.
    """
    X, y, new = large_table
    dask_cluster.wait_for_workers(2, timeout=60)
    processes = dask_cluster.run(os.getpid)
    products, killed, product = [], [], cluster_module.ClusterTiles._product

    def kill():
        for process in killed:
            os.kill(process, signal.SIGKILL)

    def counted(self, v):
        products.append(v.shape)
        if len(products) == 4:
            holders = dask_cluster.who_has([self.points[0]])[self.points[0].key]
            killed.extend(
                [processes[address] for address in holders][: 1 if victims == "one" else None]
            )
            threading.Timer(0.02, kill).start()  # while its tasks run
        return product(self, v)

    monkeypatch.setattr(cluster_module.ClusterTiles, "_product", counted)
    solver = ClusterConjugateGradients(scheduler=dask_cluster, memory=room, rank=100)
    ours = Posterior(KERNELS["plain"][0], X, y, 1e-2, solver=solver)
    assert killed
    for process in killed:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    if victims != "one":  # a product was repeated; the last one is for the true residual
        assert len(products) > ours.report.iterations + 1
    np.testing.assert_allclose(ours.mean(new), expected[0], atol=1e-6 * np.abs(expected[0]).max())


def test_no_scheduler_and_no_worker(large_table, tmp_path, monkeypatch):
    X, y, _ = (part[:50] for part in large_table)
    monkeypatch.setattr(connection, "PATIENCE", 0.3)
    with pytest.raises(ClusterError, match=r"there is no Dask scheduler at tcp://127\.0\.0\.1:1"):
        Posterior(
            KERNELS["plain"][0],
            X,
            y,
            1e-2,
            solver=ClusterConjugateGradients(scheduler="tcp://127.0.0.1:1"),
        )
    from distributed import Client

    with (
        Client(
            n_workers=0, processes=False, dashboard_address="127.0.0.1:0", set_as_default=False
        ) as empty,
        pytest.raises(
            ClusterError,
            match=r"has had no worker for 0\.3 s; fit again on a cluster "
            r"that runs",
        ),
    ):
        Posterior(
            KERNELS["plain"][0], X, y, 1e-2, solver=ClusterConjugateGradients(scheduler=empty)
        )
