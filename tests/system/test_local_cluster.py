"""A cluster of processes on this machine: workers that die as they start, and an interrupt."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import distributed
import psutil
import pytest

from tests.system.processes import ENVIRONMENT

SOLVES = """
import os, threading, time
import numpy as np, psutil
from mnngp import MaxoutKernel
from mnngp.errors import ClusterError
from mnngp.inference import ClusterConjugateGradients, Posterior
from mnngp.inference.solvers import dask_conjugate_gradients as cluster

def kill(number):
    seen = set()
    while len(seen) < number:
        for child in psutil.Process().children(recursive=True):
            if child.pid not in seen and "spawn_main" in " ".join(child.cmdline()):
                seen.add(child.pid)
                child.kill()
                print("killed", flush=True)
                break
        time.sleep(0.01)

def solve(**options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    return Posterior(MaxoutKernel(3, 4), X, np.sin(X.sum(axis=1)), 1e-2, solver=ClusterConjugateGradients(rank=20, **options))

heard, product = set(), cluster.ClusterTiles._product

def looking(self, v):
    for one in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        for found in one.net_connections("inet"):
            heard.update((end.ip for end in (found.laddr, found.raddr) if end))
    return product(self, v)

def slow(self, v):
    print("product", flush=True)
    time.sleep(0.2)
    return product(self, v)

if __name__ == "__main__":
    os.cpu_count = lambda: 1  # one worker
    killer = threading.Thread(target=kill, args=(2,))
    killer.start()
    try:
        solve()
    except ClusterError as error:
        print(error, flush=True)
    killer.join()
    threading.Thread(target=kill, args=(1,)).start()
    cluster.ClusterTiles._product = looking
    ours = solve()
    print(ours.report.where, sorted(heard), flush=True)
    cluster.ClusterTiles._product = slow
    solve(scheduler=ours.inverse.operator.session.client)
"""


@pytest.mark.skipif(
    tuple(map(int, distributed.__version__.split(".")[:2])) < (2026, 7),
    reason="it waited for ever for a worker that dies at once",
)
def test_workers_are_killed_as_they_start_and_a_solve_is_interrupted(tmp_path):
    """Started again once, without a word; every socket of a solve is on loopback; an interrupt
    leaves no process behind.
    """
    script = tmp_path / "solves.py"
    script.write_text(SOLVES)
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
    )
    try:
        said = [process.stdout.readline().rstrip() for _ in range(6)]
        family = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers get it, too
        errors = process.communicate(timeout=60)[1]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    refused = (
        "a worker on this machine died while it started, 2 times; is there memory for 1 processes? "
        "(In a script, what starts "
    )
    refused += "them has to stand below if __name__ == '__main__':)"
    assert said == [
        "killed",
        "killed",
        refused,
        "killed",
        "on 1 workers ['127.0.0.1']",
        "product",
    ], errors
    assert errors.startswith("Traceback")
    assert errors.count("Traceback") == 1, errors
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert family
    assert not psutil.wait_procs(family, timeout=10)[1]
