"""Free memory: limits of containers, batch systems and shells, on made-up trees of Linux's files
and for real.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from mnngp import MaxoutGPRegressor, MaxoutKernel
from mnngp._system import memory
from mnngp.inference import ConjugateGradients, Posterior, costs
from mnngp.inference.solvers import by_name
from mnngp.inference.solvers.dask_conjugate_gradients import tile_budget

MB, GB = 10**6, 10**9
NONE = 9223372036854771712  # what version 1 has for no limit
V1_LINES = "11:cpuset:/\n9:cpu,cpuacct:{0}\n4:memory:{0}\n1:name=systemd:{0}\n0::/\n"


def tree(root, own, groups, files=()):
    """Linux's files: the process's groups, and ``folder: (limit, used, stat)`` of each of them."""
    written = {"proc/self/cgroup": own}
    for folder, (limit, used, stat) in groups.items():
        first = "memory.limit_in_bytes" in stat
        names = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes")
            if first
            else ("memory.max", "memory.current")
        )
        lines = [
            f"{name} {value}" for name, value in stat.items() if not name.startswith("memory.")
        ]
        for name, value in ((names[0], limit), (names[1], used), ("memory.stat", "\n".join(lines))):
            if value is not None:
                written[f"{folder}/{name}"] = f"{value}\n"
        written |= {
            f"{folder}/{name}": f"{value}\n"
            for name, value in stat.items()
            if name == "memory.high"
        }
    for name, text in {**written, **dict(files)}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def v2(anon, idle, busy=0, slab=0, **more):
    """memory.stat of version 2, with some of its other lines."""
    return {
        "anon": anon,
        "file": idle + busy,
        "kernel": 9,
        "inactive_anon": anon,
        "active_anon": 0,
        "inactive_file": idle,
        "active_file": busy,
        "unevictable": 0,
        "slab_reclaimable": slab,
        "slab_unreclaimable": 5,
        **more,
    }


def v1(idle, busy=0, above=NONE):
    """memory.stat of version 1: first the group's own processes, then everything below."""
    return {
        "memory.limit_in_bytes": 0,
        "cache": 1,
        "rss": 2,
        "inactive_file": 3,
        "active_file": 4,
        "total_cache": idle + busy,
        "hierarchical_memory_limit": above,
        "total_inactive_file": idle,
        "total_active_file": busy,
    }


ROOT2, ROOT1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"
TREES = {
    # Docker with version 2: the container sees its own group as the top.
    "docker": ("0::/\n", {ROOT2: (500 * MB, 200 * MB, v2(200 * MB, 0))}, 300 * MB),
    "full of page cache": (
        "0::/\n",
        {ROOT2: (500 * MB, 500 * MB, v2(100 * MB, 400 * MB))},
        400 * MB,
    ),
    "cache in use, slab": (
        "0::/\n",
        {ROOT2: (500 * MB, 500 * MB, v2(200 * MB, 100 * MB, 140 * MB, 60 * MB))},
        200 * MB,
    ),
    "no limit": ("0::/\n", {ROOT2: ("max", 500 * MB, v2(100 * MB, 400 * MB))}, None),
    "no statistics": ("0::/\n", {ROOT2: (500 * MB, 200 * MB, {})}, 300 * MB),
    "throttled": (
        "0::/\n",
        {ROOT2: ("max", 200 * MB, v2(200 * MB, 0, **{"memory.high": 450 * MB}))},
        250 * MB,
    ),
    "beyond its limit": (
        "0::/\n",
        {ROOT2: (500 * MB, 510 * MB, v2(510 * MB, 0))},
        -10 * MB,
    ),
    "outside of its namespace": (
        "0::/../other\n",
        {ROOT2: (500 * MB, 0, {})},
        500 * MB,
    ),
    # systemd: the limit may be on any slice above.
    "slice": (
        "0::/user.slice/user-1000.slice/session-2.scope\n",
        {
            f"{ROOT2}/user.slice": ("max", 9 * GB, v2(9 * GB, 0)),
            f"{ROOT2}/user.slice/user-1000.slice": (2 * GB, 1900 * MB, v2(600 * MB, 1300 * MB)),
            f"{ROOT2}/user.slice/user-1000.slice/session-2.scope": (
                "max",
                100 * MB,
                v2(100 * MB, 0),
            ),
        },
        1400 * MB,
    ),
    "slurm": (
        "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n",
        {
            f"{ROOT2}/system.slice/slurmstepd.scope/job_7": (4 * GB, 3 * GB, v2(3 * GB, 0)),
            f"{ROOT2}/system.slice/slurmstepd.scope/job_7/step_0": (4 * GB, 2 * GB, v2(2 * GB, 0)),
            f"{ROOT2}/system.slice/slurmstepd.scope/job_7/step_0/user/task_0": (
                "max",
                2 * GB,
                v2(2 * GB, 0),
            ),
        },
        1 * GB,
    ),
    "slurm, version 1": (
        V1_LINES.format("/slurm/uid_1000/job_7/step_batch/task_0"),
        {
            ROOT1: (NONE, 30 * GB, v1(5 * GB)),
            f"{ROOT1}/slurm/uid_1000": (NONE, 9 * GB, v1(0)),
            f"{ROOT1}/slurm/uid_1000/job_7": (3 * GB, 2900 * MB, v1(800 * MB, 200 * MB, 3 * GB)),
            f"{ROOT1}/slurm/uid_1000/job_7/step_batch": (3 * GB, 1 * GB, v1(0, 0, 3 * GB)),
            f"{ROOT1}/slurm/uid_1000/job_7/step_batch/task_0": (NONE, 1 * GB, v1(0, 0, 3 * GB)),
        },
        1000 * MB,
    ),
    # Docker with version 1: the process's path is the host's, and the container sees nothing but
    # its own folder, at the top.
    "docker, version 1": (
        V1_LINES.format("/docker/0a1b2c"),
        {ROOT1: (512 * MB, 512 * MB, v1(300 * MB, 0, 512 * MB))},
        300 * MB,
    ),
    "a pod, version 1: the limit above is not in sight": (
        V1_LINES.format("/"),
        {ROOT1: (NONE, 100 * MB, v1(20 * MB, 0, 512 * MB))},
        432 * MB,
    ),
    "both versions": (
        V1_LINES.format("/job"),
        {f"{ROOT1}/job": (700 * MB, 100 * MB, v1(0)), "sys/fs/cgroup/unified": (None, None, {})},
        600 * MB,
    ),
    "a group that a mount shows from the middle": (
        "0::/pod/box/job\n",
        {f"{ROOT2}/box/job": ("max", 0, {}), f"{ROOT2}/box": (500 * MB, 0, {})},
        500 * MB,
    ),
    "a name with a space": ("0::/a b\n", {f"{ROOT2}/a b": (500 * MB, 0, {})}, 500 * MB),
    "garbage": (
        "\n::\nx:y\n0::/\n",
        {ROOT2: ("12 apples", "\0", {"inactive_file": "?"})},
        None,
    ),
    "no control groups": ("", {}, None),
}


@pytest.mark.parametrize("name", TREES)
def test_what_a_control_group_leaves(tmp_path, name):
    own, groups, expected = TREES[name]
    root = tree(tmp_path, own, groups)
    assert min(memory.left(root), default=NONE) == expected or (
        expected is None and min(memory.left(root), default=NONE) > 10**15
    )


def test_folders_instead_of_files_set_no_limit(tmp_path):
    """Reading them fails, as reading a file without the right to does."""
    assert not list(memory.left(tmp_path / "nothing"))
    for name in ("proc/self/cgroup", "proc/self/limits"):
        (tmp_path / name).mkdir(parents=True)
    assert not list(memory.left(tmp_path))
    own, groups, _ = TREES["docker"]
    root = tree(tmp_path / "other", own, groups)
    (root / ROOT2 / "memory.max").unlink()
    (root / ROOT2 / "memory.max").mkdir()
    assert not list(memory.left(root))


def test_limits_of_the_shell(tmp_path):
    limits = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             {:<20} unlimited            bytes     \n"
        "Max address space         {:<20} unlimited            bytes     \n"
    )
    status = "Name:\tpython\nVmPeak:\t 900000 kB\nVmSize:\t 800000 kB\nVmData:\t 300000 kB\n"
    for data, space, expected in [
        ("unlimited", "unlimited", []),
        (10**9, "unlimited", [10**9 - 307_200_000]),
        (10**9, 10**9, [10**9 - 307_200_000, 10**9 - 819_200_000]),
    ]:
        root = tree(
            tmp_path,
            "",
            {},
            {"proc/self/limits": limits.format(data, space), "proc/self/status": status}.items(),
        )
        assert list(memory.left(root)) == expected


def test_available_is_the_machines_or_less_and_never_nothing(tmp_path, monkeypatch):
    assert memory.available(tmp_path) == pytest.approx(psutil.virtual_memory().available, rel=0.2)
    assert memory.available() <= psutil.virtual_memory().total
    own, groups, _ = TREES["full of page cache"]
    assert memory.available(tree(tmp_path, own, groups)) == 400 * MB
    own, groups, _ = TREES["beyond its limit"]
    assert memory.available(tree(tmp_path, own, groups)) == 256 * 2**20

    def refuse():
        raise PermissionError("/proc/meminfo")

    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    assert memory.available(tmp_path / "nothing") == 256 * 2**20


@pytest.fixture
def starved(tmp_path, monkeypatch):
    """A container that has nothing left."""
    own, groups, _ = TREES["beyond its limit"]
    root, read = tree(tmp_path, own, groups), memory.available
    monkeypatch.setattr(memory, "available", lambda: read(root))


GIVEN = {
    "depth": 2,
    "rank": 3,
    "weight_var": 0.9,
    "bias_var": 0.1,
    "kind": "nngp",
    "noise_var": 0.01,
}


@pytest.mark.usefixtures("starved")
def test_no_estimate_of_memory_stops_a_fit(capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = np.sin(X.sum(axis=1)) + 0.1 * rng.normal(size=1200)
    # the progress prints a plan
    small = MaxoutGPRegressor(**GIVEN, progress=True).fit(X[:30], y[:30])
    assert small.loo_.mean.shape == (30,)
    assert MaxoutGPRegressor(**GIVEN).fit(X, y).loo_.mean.shape == (1200,)
    assert "n = 30" in costs.describe_here("cholesky", 30, 3, 2, 1, "float64")
    assert by_name.name_of("auto", by_name.ALWAYS, np.float64) == "cholesky"
    assert by_name.name_of("auto", 20_000, np.float64) == "cg"
    assert tile_budget([memory.available()], 0) > 0  # of a worker without a limit


@pytest.mark.usefixtures("starved")
def test_the_preconditioner_is_not_given_up(monkeypatch):
    """Without it this noise takes more than a thousand iterations; a budget that was given is kept
    to all the same.
    """
    monkeypatch.setattr(memory, "available", lambda: 0)
    assert ConjugateGradients().rank_for(100_000) == 64
    assert ConjugateGradients().rank_for(80) == 10
    assert ConjugateGradients(memory=0).rank_for(100_000) == 0
    X = np.random.default_rng(0).normal(size=(800, 5))
    y = np.sin(X.sum(axis=1))
    assert (
        Posterior(
            MaxoutKernel(3, 4), X, y, 1e-5, solver=ConjugateGradients(max_iterations=500)
        ).report.rank
        == 64
    )


def test_a_users_own_zero_is_refused():
    with pytest.raises(ValueError, match="memory must be above zero, got 0"):
        costs.Workload(30, 3, memory=0)


LIMITED = """
import resource, numpy as np
from mnngp import MaxoutGPRegressor
from mnngp._system import memory
from mnngp.inference.solvers import by_name
assert by_name.name_of("auto", 30_000, np.float64) == "cholesky" or memory.available() < 8e9
X = np.random.default_rng(0).normal(size=(300, 3))
model = MaxoutGPRegressor(depth=2, rank=3, weight_var=0.9, bias_var=0.1, kind="nngp", noise_var=0.01)
model.fit(X, X[:, 0])  # everything is loaded
used = 1024 * next(int(line.split()[1]) for line in open("/proc/self/status", encoding="utf-8") if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (used + 600_000_000, resource.RLIM_INFINITY))
free = memory.available()
assert 500_000_000 < free <= 600_000_000, free
assert by_name.name_of("auto", 30_000, np.float64) == "cg"
assert model.fit(X, X[:, 0]).loo_ is not None
block = np.ones(free - 20_000_000, dtype=np.uint8)  # as much as was said there is
assert memory.available() == 256 * 2**20
print("fine")
"""


@pytest.mark.skipif(
    not Path("/proc/self/limits").exists(), reason="Linux alone tells and keeps to this limit"
)
def test_under_a_real_limit_of_the_address_space():
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout.strip() == "fine", done.stderr
