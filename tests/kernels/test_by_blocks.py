"""Kernel matrices in blocks: the numbers of a plain call, stores that survive, clusters."""

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from mnngp import (
    AvgPool,
    Conv,
    Flatten,
    GlobalAvgPool,
    LeakyReLU,
    Maxout,
    MaxoutKernel,
    NetworkKernel,
    Tanh,
)
from mnngp._system import connection
from mnngp.activations import HomogeneousActivation, ReLU
from mnngp.errors import ClusterError, InputError
from mnngp.kernels import block_store, blocks, kernel_matrix
from tests.system.processes import ENVIRONMENT

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(75, 6, 5))
OTHERS = RNG.normal(size=(40, 6, 5))
SMALL = [Conv(3), Maxout(3), GlobalAvgPool()]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Of 16 and 32 images: there are several in all of these matrices."""
    monkeypatch.setattr(blocks, "_SECONDS", 1e-9)


@pytest.mark.parametrize(
    "kernel",
    [
        NetworkKernel(SMALL),
        NetworkKernel([Conv(3), Maxout(2), AvgPool(2, 1), Conv(3), LeakyReLU(0.1), Flatten()]),
        NetworkKernel(SMALL, kind="ntk", bias_var=0.0),
        NetworkKernel(SMALL, dtype="float32"),
    ],
    ids=["global", "inner", "ntk", "float32"],
)
def test_convolutional_networks_have_the_digits_of_a_plain_call(kernel):
    images = IMAGES.copy()
    images[3], images[40], images[70] = images[50], 0.0, images[50]  # repeated, black
    whole = kernel_matrix(kernel, images)
    np.testing.assert_array_equal(whole, kernel(images))
    np.testing.assert_array_equal(whole, whole.T)
    np.testing.assert_array_equal(kernel_matrix(kernel, images, OTHERS), kernel(images, OTHERS))


@pytest.mark.parametrize(
    "kernel",
    [
        NetworkKernel(SMALL, flips=True),
        NetworkKernel([Conv(3), Tanh(), Flatten()]),
        MaxoutKernel(3, 4),
        NetworkKernel([Tanh(), Maxout(2)], kind="ntk"),
    ],
    ids=["flips", "tanh", "dense", "dense tanh ntk"],
)
def test_other_networks_agree_up_to_rounding(kernel):
    spatial = isinstance(kernel, NetworkKernel) and kernel.convolutional
    X, Y = (part if spatial else part.reshape(len(part), -1) for part in (IMAGES, OTHERS))
    np.testing.assert_allclose(kernel_matrix(kernel, X), kernel(X), rtol=1e-12)
    np.testing.assert_allclose(kernel_matrix(kernel, X, Y), kernel(X, Y), rtol=1e-12)


def test_blocks_cover_the_matrix_once():
    for shape, symmetric in (((75, 75), True), ((75, 40), False), ((5, 200), False)):
        grid = blocks.Grid(shape, 32, symmetric)
        count = np.zeros(shape, dtype=int)
        for place in grid:
            rows, columns = grid.slices(place)
            count[rows, columns] += 1
        assert len(list(grid)) == len(grid)
        assert (count == (np.kron(*_upper(count)) if symmetric else 1)).all()
        assert sum(map(grid.pairs, grid)) == (75 * 76 // 2 if symmetric else count.size)


def _upper(count):
    """Ones on and above the diagonal of blocks, by hand."""
    rows = np.arange(len(count)) // 32
    return np.ones((1, 1), dtype=int), (rows[:, None] <= rows).astype(int)


def test_sizes_follow_the_time_of_a_pair(monkeypatch):
    """Five seconds a block, of whole sixteens: 320 rows at 50 µs a pair."""
    monkeypatch.setattr(blocks, "_SECONDS", 5.0)
    one = blocks.Blocks(MaxoutKernel(2, 2), RNG.normal(size=(3000, 3)))
    monkeypatch.setattr(one, "_time", lambda size: 50e-6 * size**2)
    size, pair = one.measured()
    assert size in {304, 320}
    assert pair == pytest.approx(50e-6)
    monkeypatch.setattr(one, "_time", lambda size: 1.0 * size**2)
    assert one.measured()[0] in (32, 48, 64, 96)  # at least some for each thread
    monkeypatch.setattr(one, "_time", lambda size: 1e-9 * size**2)
    assert one.measured()[0] == 2048


def test_odd_but_ordinary_input(tmp_path):
    kernel = NetworkKernel(SMALL, image_shape=(6, 5))
    flat = IMAGES.reshape(75, -1)
    np.testing.assert_array_equal(kernel_matrix(kernel, pd.DataFrame(flat)), kernel(flat))
    pixels = RNG.integers(0, 255, size=(40, 6, 5), dtype=np.uint8)
    np.testing.assert_array_equal(kernel_matrix(kernel, pixels), kernel(pixels))
    assert kernel_matrix(kernel, pixels[:1], pixels).shape == (1, 40)
    half = kernel_matrix(kernel, pixels, dtype="float32", store=tmp_path / "half")
    assert half.dtype == np.float32
    np.testing.assert_array_equal(half, kernel(pixels).astype(np.float32))
    # a store of bytes is that of the same numbers
    np.testing.assert_array_equal(
        half, kernel_matrix(kernel, pixels * 1.0, dtype="float32", store=tmp_path / "half")
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kernel": "rbf"}, "kernel must be a MaxoutKernel or a NetworkKernel, got 'rbf'"),
        ({"X": np.full((3, 6, 5), np.nan)}, "X .* nan"),
        ({"Y": np.zeros((3, 5, 5))}, r"Y must have images of the shape \(6, 5\), as X has"),
        ({"X": np.zeros((3, 2, 2)), "kernel": NetworkKernel([Conv(3, padding="valid"), Flatten()])}, "needs at least 3 × 3"),
        ({"dtype": "int8"}, "dtype must be .*float64"),
        ({"progress": "yes"}, "progress must be True, False, None or a function, got 'yes'"),
        ({"store": 3}, "store must be the path of a folder, got 3"),
        ({"client": 3}, "client must be an address, a distributed.Client or None, got 3"),
        ({"client": "here"}, "client must be an address such as 'tcp://10.0.0.1:8786', got 'here'"),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, text):
    with pytest.raises(InputError, match=f"(?i){text}"):
        kernel_matrix(**{"kernel": NetworkKernel(SMALL), "X": IMAGES} | arguments)


def test_progress_is_told_shares_of_what_is_left(tmp_path, capfd):
    kernel, shares = NetworkKernel(SMALL), []
    kernel_matrix(kernel, IMAGES, store=tmp_path / "k", progress=shares.append)
    assert len(shares) == 6
    assert sum(shares) == pytest.approx(1.0)
    forget(tmp_path / "k", 2)
    shares.clear()
    kernel_matrix(kernel, IMAGES, store=tmp_path / "k", progress=shares.append)
    assert len(shares) == 2
    assert sum(shares) == pytest.approx(1.0)
    shares.clear()
    kernel_matrix(kernel, IMAGES, store=tmp_path / "k", progress=shares.append)
    assert shares == [1.0]
    kernel_matrix(kernel, IMAGES, store=tmp_path / "m", progress=True)
    said = " ".join(capfd.readouterr().err.split())
    assert "75 × 75 numbers, 45 kB in " in said
    assert "6 blocks of 32 × 32; about 1 s" in said


# --- stores ---------------------------------------------------------------------------------------


def forget(folder, count):
    """Take the last lines off a record."""
    lines = (folder / "blocks.txt").read_text().splitlines(keepends=True)
    (folder / "blocks.txt").write_text("".join(lines[:-count]))


@pytest.fixture
def computed(monkeypatch):
    """Which blocks are computed."""
    places, plain = [], blocks.Blocks.block

    def block(self, size, place):
        places.append(place)
        return plain(self, size, place)

    monkeypatch.setattr(blocks.Blocks, "block", block)
    return places


def test_a_store_gives_the_matrix_at_once_and_is_not_changed_with_it(tmp_path, computed):
    kernel = NetworkKernel(SMALL)
    first = kernel_matrix(kernel, IMAGES, OTHERS, store=tmp_path / "k")
    assert len(computed) == 6
    first[0, 0] = 7.0  # a copy of a page
    second = kernel_matrix(kernel, IMAGES, OTHERS, store=str(tmp_path / "k"))
    assert len(computed) == 6
    np.testing.assert_array_equal(second, kernel(IMAGES, OTHERS))
    np.testing.assert_array_equal(np.load(tmp_path / "k" / "matrix.npy"), second)


def test_what_is_torn_or_damaged_is_computed_again(tmp_path, computed):
    kernel, folder = NetworkKernel(SMALL), tmp_path / "k"
    whole = kernel(IMAGES)
    kernel_matrix(kernel, IMAGES, store=folder)
    record = (folder / "blocks.txt").read_text()

    def again(expected):
        computed.clear()
        np.testing.assert_array_equal(kernel_matrix(kernel, IMAGES, store=folder), whole)
        assert sorted(computed) == expected

    again([])
    (folder / "blocks.txt").write_text(record[:-3])  # the last line is torn
    again([(2, 2)])
    (folder / "blocks.txt").write_text(record + "\0\0\0\n0 9 00000000\n1 1")  # of a power cut
    again([])
    matrix = np.load(folder / "matrix.npy", mmap_mode="r+")
    matrix[40, 3] = 0.5  # beyond the diagonal, of the block (0, 1)
    matrix.flush()
    again([(0, 1)])
    matrix[70, 71] = 0.5
    matrix.flush()
    again([(2, 2)])
    again([])


def test_the_store_of_something_else_is_refused(tmp_path):
    folder, kernel = tmp_path / "k", NetworkKernel(SMALL, weight_var=1.0 / 3.0)
    kernel_matrix(kernel, IMAGES, store=folder)

    def refused(text, kernel=kernel, X=IMAGES, Y=None, **options):
        with pytest.raises(InputError, match=text):
            kernel_matrix(kernel, X, Y, store=folder, **options)

    refused("holds another matrix, of another kernel", NetworkKernel(SMALL, weight_var=0.33333333))
    refused("another kernel: .*Maxout", NetworkKernel([Conv(3), Maxout(4), GlobalAvgPool()]))
    refused("another kernel: .*flips=False.* there", NetworkKernel(SMALL, 1.0 / 3.0, flips=True))
    changed = IMAGES.copy()
    changed[-1, -1, -1] += 1e-15
    refused("of another X: 75 × 6 × 5, .* there", X=changed)
    refused("of another Y: as X there, 40 × 6 × 5", Y=OTHERS)
    refused("of another dtype: float64 there, float32 here", dtype="float32")
    about = json.loads((folder / "about.json").read_text())
    (folder / "about.json").write_text(json.dumps(about | {"version": "0.0.1"}))
    refused("of another version: 0.0.1 there, .* here; remove it, or name another folder")
    (folder / "about.json").write_text("{")
    refused("is damaged")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        kernel_matrix(kernel, IMAGES, store=tmp_path / "file")
    with pytest.raises(InputError, match="has other things in it, such as file"):
        kernel_matrix(kernel, IMAGES, store=tmp_path)


class Leaky(HomogeneousActivation):
    """One that does not print its parameter, nor itself in a way that stays."""

    def __init__(self, slope):
        self.slope = slope

    @property
    def profile(self):
        return LeakyReLU(self.slope).profile if self.slope else ReLU().profile


def test_own_activations_are_told_apart_by_what_they_do(tmp_path, computed):
    X = RNG.normal(size=(70, 3))
    kernel_matrix(NetworkKernel([Leaky(0.1)]), X, store=tmp_path / "k")
    computed.clear()
    kernel_matrix(NetworkKernel([Leaky(0.1)]), X, store=tmp_path / "k")
    assert not computed
    with pytest.raises(InputError, match="another kernel"):
        kernel_matrix(NetworkKernel([Leaky(0.2)]), X, store=tmp_path / "k")


def test_a_disk_without_room_is_refused_before_any_work(tmp_path, computed, monkeypatch):
    monkeypatch.setattr(block_store.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(InputError, match="needs 45 kB for a matrix of 75 × 75, and 1 kB are free"):
        kernel_matrix(NetworkKernel(SMALL), IMAGES, store=tmp_path / "k")
    assert not computed


# One block takes some tenths of a second, and each is told of before it is begun.
SLOW = """
import sys, time
import numpy as np
from mnngp import MaxoutKernel
from mnngp.kernels import block_store, blocks, kernel_matrix
plain = blocks.Blocks.block
def block(self, size, place):
    print(*place, flush=True)
    time.sleep(float(sys.argv[2]))
    return plain(self, size, place)
blocks.Blocks.block, blocks._SECONDS, block_store._EVERY = block, 1e-9, float(sys.argv[3])
kernel_matrix(MaxoutKernel(2, 3), np.random.default_rng(1).normal(size=(200, 4)), store=sys.argv[1])
"""


def slow(folder, seconds, every):
    return subprocess.Popen(
        [sys.executable, "-c", SLOW, str(folder), str(seconds), str(every)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def places(lines):
    return [tuple(map(int, line.split())) for line in lines]


@pytest.mark.parametrize(("stop", "every"), [(signal.SIGKILL, 0.0), (signal.SIGINT, 60.0)])
def test_a_process_is_killed_or_interrupted_and_goes_on(tmp_path, stop, every):
    """What was finished is not computed again; Ctrl-C records what waits to be recorded, too."""
    folder = tmp_path / "k"
    process = slow(folder, 0.2, every)
    before = [process.stdout.readline() for _ in range(9)]
    with pytest.raises(InputError, match="another process is at work"):
        kernel_matrix(MaxoutKernel(2, 3), np.zeros((2, 4)), store=folder)
    process.send_signal(stop)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert ("KeyboardInterrupt" in errors) == (stop == signal.SIGINT)
    before = places([*before, *rest.splitlines()])
    recorded = places(
        line.rsplit(" ", 1)[0] for line in (folder / "blocks.txt").read_text().splitlines()
    )
    assert recorded == before[: len(recorded)]
    assert len(before) - len(recorded) == 1  # the one that it was at
    process = slow(folder, 0.0, every)
    after, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    every_place = list(blocks.Grid((200, 200), 32, True))
    assert places(after.splitlines()) == every_place[len(recorded) :]
    X = np.random.default_rng(1).normal(size=(200, 4))
    found = kernel_matrix(MaxoutKernel(2, 3), X, store=folder)
    np.testing.assert_allclose(found, MaxoutKernel(2, 3)(X), rtol=1e-12)


# --- clusters -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    client, cluster = connection.local(2, memory_limit=0)
    with cluster, client:
        client.run(few_seconds)
        yield client


def few_seconds():
    """On a worker: small blocks, as here."""
    from mnngp.kernels import blocks

    blocks._SECONDS = 1e-9


def test_workers_compute_the_same_and_one_of_them_dies(client, tmp_path):
    kernel, X = NetworkKernel(SMALL), np.random.default_rng(2).normal(size=(600, 6, 5))
    np.testing.assert_array_equal(
        kernel_matrix(kernel, IMAGES, OTHERS, client=client), kernel(IMAGES, OTHERS)
    )
    shares, processes = [], dict(client.run(os.getpid))
    victim = next(iter(processes.values()))

    def told(share):
        shares.append(share)
        if len(shares) == 30:
            os.kill(victim, signal.SIGKILL)

    found = kernel_matrix(kernel, X, client=client, store=tmp_path / "k", progress=told)
    assert len(shares) == 19 * 20 // 2
    assert victim not in client.run(os.getpid).values()
    np.testing.assert_array_equal(found, kernel(X))
    left = client.run(lambda dask_worker: [*dask_worker.plugins])
    assert not [name for names in left.values() for name in names if "mnngp" in name]


def test_an_address_will_do_and_a_cluster_without_end_is_left(client):
    kernel, address = NetworkKernel(SMALL), client.scheduler.address
    np.testing.assert_array_equal(kernel_matrix(kernel, IMAGES, client=address), kernel(IMAGES))
    stopped = []

    def told(share):
        stopped.append(share)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kernel_matrix(kernel, IMAGES, client=client, progress=told)
    assert len(stopped) == 1
    with pytest.raises(ClusterError, match=r"there is no Dask scheduler at tcp://127\.0\.0\.1:9"):
        kernel_matrix(kernel, IMAGES, client="tcp://127.0.0.1:9")
