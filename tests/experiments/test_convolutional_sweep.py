"""Sweeps of convolutional networks: the protocol, the numbers of a cell, killed and resumed."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from mnngp import Conv, Flatten, Maxout, NetworkKernel, ReLU, data
from mnngp._system import connection
from mnngp.commands.app import app
from mnngp.errors import InputError
from mnngp.estimators import StationaryWhitening
from mnngp.experiments import cells, dask_runner, image_cells, runner, selection
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.store import Store
from mnngp.inference.posterior import Posterior
from mnngp.kernels.known import Known
from tests.experiments.sweeps import Counter, swept
from tests.system.processes import ENVIRONMENT

DATA = {"name": "digits", "train": [50], "validation": 60, "test": 40}
FAMILY = {
    "layers": ["Conv(3)", "Maxout(rank)", "Flatten()"],
    "rank": [2, 4],
    "weight_var": 1.0,
    "bias_var": 0.1,
}


def protocol_of(*families, **changes):
    return Protocol.of({"data": DATA | changes, "family": list(families) or [FAMILY]})


# --- the protocol ---------------------------------------------------------------------------------


def test_every_value_is_a_grid():
    family = FAMILY | {
        "flips": [False, True],
        "whitening": [False, 0.1],
        "noise_var": [1e-4, 1e-2, 1.0],
        "weight_var": [0.5, 1.0],
        "kind": "ntk",
        "dtype": "float32",
    }
    protocol = protocol_of(family)
    assert len(protocol) == 2 * 2 * 2 * 3 * 2
    assert len({group.key(1) for group in protocol.groups}) == len(protocol)
    assert Protocol.of(json.loads(protocol.canonical())) == protocol
    assert len(runner.units(protocol)) == len(protocol) // 3  # one kernel for all noises
    group = protocol.groups[-1]
    assert group.key(1) == (
        "50/0/Conv(3), Maxout(rank), Flatten()-4/ntk/1.0/0.1/1/flips, whitening 0.1, float32, "
        "noise_var 1.0"
    )
    kernel = group.kernel(1)
    assert (
        kernel.network
        == NetworkKernel(
            [Conv(3), Maxout(4), Flatten()], 1.0, 0.1, "ntk", "float32", flips=True
        ).network
    )
    assert kernel.image_shape == (8, 8)


def test_layers_are_written_as_in_python():
    layers = [
        "Conv(3, stride=2, padding='valid')", " Conv( (3, 1) ) ", "LeakyReLU(negative_slope=0.1)",
        "AvgPool(2, 1)", "Conv(1)", "Tanh()", "Conv(1)", "Maxout(rank=rank)", "GlobalAvgPool()",
    ]  # fmt: skip
    (group,) = protocol_of(FAMILY | {"layers": layers, "rank": 3}).groups
    assert str(group.kernel(3).layers) == (
        "[Conv(3, stride=2, padding='valid'), Conv((3, 1)), LeakyReLU(negative_slope=0.1), "
        "AvgPool(2, stride=1), Conv(1), Tanh(), Conv(1), Maxout(rank=3), GlobalAvgPool()]"
    )
    assert group.depths == (3,)
    cifar = Protocol.of({"data": DATA | {"name": "cifar10"}, "family": [FAMILY]}).groups[0]
    assert cifar.kernel(1).image_shape == (32, 32, 3)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"layers": []}, r"family\[0\]\.layers must hold at least one value"),
        ({"layers": ["Conv(3)", 3, "Flatten()"]}, r"family\[0\]\.layers\[1\] must be a layer .* got 3"),
        ({"layers": ["Conv(3)", "__import__('os')", "Flatten()"]}, r"layers\[1\] must be a layer .* Conv, AvgPool, .*; got \"__import__"),
        ({"layers": ["Conv(3", "Flatten()"]}, r"family\[0\]\.layers\[0\] must be a layer"),
        ({"layers": ["Conv", "Flatten()"]}, r"family\[0\]\.layers\[0\] must be a layer"),
        ({"layers": ["(" * 5000]}, r"family\[0\]\.layers\[0\] must be a layer"),
        ({"layers": ["Conv(print(3))", "Maxout(rank)", "Flatten()"]}, r"family\[0\]\.layers\[0\], 'Conv\(print\(3\)\)': an argument must be a number, .*got print\(3\)"),
        ({"layers": ["Conv(depth)", "Maxout(rank)", "Flatten()"]}, r"layers\[0\].* or rank, got depth"),
        ({"layers": ["Conv(0)", "Maxout(rank)", "Flatten()"]}, r"family\[0\]\.layers\[0\], 'Conv\(0\)': size must be a positive integer"),
        ({"layers": ["Conv(3, width=2)", "Maxout(rank)", "Flatten()"]}, r"family\[0\]\.layers\[0\], .*width"),
        ({"layers": ["Conv(3)", "AvgPool(9)", "Conv(3)", "Maxout(rank)", "Flatten()"]}, r"family\[0\]\.layers\[1\], AvgPool\(9\), needs at least 9 × 9 positions, and gets 8 × 8"),
        ({"layers": ["Conv(3)", "Maxout(rank)"]}, r"family\[0\]\.layers\[1\], Maxout\(rank=2\), is the last layer"),
        ({"layers": ["Maxout(rank)", "Flatten()"]}, r"family\[0\]\.layers\[0\], .* must stand behind a convolution"),
        ({"layers": ["Conv((3,))", "Maxout(rank)", "Flatten()"]}, r"family\[0\]\.layers\[0\], .*one dimension"),
        ({"layers": ["Conv(3)", "ReLU()", "Flatten()"]}, r"family\[0\]\.rank is for layers such as 'Maxout\(rank\)', there is none"),
        ({"kind": "finite"}, r"family\[0\]\.kind must be .*nngp.* got 'finite'"),
        ({"depth": 3}, r"family\[0\]\.depth is not known here"),
        ({"flips": "no"}, r"family\[0\]\.flips must be true or false, got 'no'"),
        ({"whitening": [0.1, True]}, r"family\[0\]\.whitening\[1\] must be a finite number"),
        ({"whitening": -1.0}, r"family\[0\]\.whitening must be a finite number at least 0"),
        ({"dtype": "float16"}, r"family\[0\]\.dtype must be"),
        ({"noise_var": [-1.0]}, r"family\[0\]\.noise_var\[0\] must be"),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error_that_names_the_key(changes, text):
    with pytest.raises(InputError, match=text):
        protocol_of(FAMILY | changes)


def test_a_missing_rank_is_named():
    family = {key: value for key, value in FAMILY.items() if key != "rank"}
    with pytest.raises(InputError, match=r"family\[0\]\.rank is missing"):
        protocol_of(family)


# --- cells ----------------------------------------------------------------------------------------


def test_known_matrices_give_the_posterior_of_the_kernel():
    """Mean, variance, evidence and leave-one-out, with the intercept of an ordered phase."""
    images = np.random.default_rng(0).normal(size=(40, 5, 5))
    y = np.random.default_rng(1).normal(size=(31, 2))
    for layers, variance in (([Conv(3), ReLU(), Flatten()], 2.0), ([Conv(3), Maxout(2)] * 3 + [Flatten()], 0.3)):  # fmt: skip
        for kind in ("nngp", "ntk"):
            kernel = NetworkKernel(layers, variance, 0.5, kind)
            K = kernel(images)
            known = Known.by(K[:31, :31], np.diag(K)[:31]), Known.by(K[31:, :31], np.diag(K)[31:])
            one = Posterior(kernel, images[:31], y, 1e-3)
            other = Posterior(kernel, known[0], y, 1e-3)
            for ours, plain in zip(other.mean_and_variance(known[1]), one.mean_and_variance(images[31:]), strict=True):  # fmt: skip
                np.testing.assert_allclose(ours, plain, rtol=1e-7, atol=1e-9)
            assert other.log_marginal_likelihood() == pytest.approx(one.log_marginal_likelihood())
            np.testing.assert_allclose(
                other.leave_one_out().mean, one.leave_one_out().mean, rtol=1e-6, atol=1e-8
            )


@pytest.mark.parametrize("whitening", [False, 0.1])
@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_a_cell_is_the_posterior_of_its_images(digits, tmp_path, whitening, kind):
    family = FAMILY | {"rank": 2, "whitening": whitening, "kind": kind, "noise_var": [1e-3, 1.0]}
    protocol = protocol_of(family)
    results = swept(tmp_path / "run.sqlite", protocol, digits)
    train, validation = cells.rows(protocol, protocol.groups[0].split, len(digits.y))
    sets = [digits.X[train], digits.X[validation], digits.X_test[:40]]
    images = [data.standardised(one).reshape(-1, 8, 8) for one in sets]
    if whitening:
        whitener = StationaryWhitening(whitening).fit(images[0])
        images = [whitener.transform(one) for one in images]
    targets = np.eye(10)[digits.y[train]] - 0.1
    for result in results:
        kernel = NetworkKernel([Conv(3), Maxout(2), Flatten()], 1.0, 0.1, kind)
        posterior = Posterior(kernel, images[0], targets, result.noise_var)
        right = posterior.mean(images[2]).argmax(axis=1) == digits.y_test[:40]
        assert result.test_accuracy == np.mean(right)
        right = posterior.mean(images[1]).argmax(axis=1) == digits.y[validation]
        assert result.validation_accuracy == np.mean(right)
        assert (result.depth, result.rank, result.attempts) == (1, 2, 1)
    assert {result.noise_var for result in results} == {1e-3, 1.0}
    assert not list(tmp_path.glob("*.blocks"))


def test_noises_share_a_kernel_and_progress_is_told(digits, tmp_path, monkeypatch):
    calls, plain = [], image_cells.kernel_matrix

    def kernel_matrix(kernel, *images, **options):
        calls.append(len(images))
        return plain(kernel, *images, **options)

    class Listener(Counter):
        told = 0.0

        def advanced(self, cells):
            self.told += cells

    monkeypatch.setattr(image_cells, "kernel_matrix", kernel_matrix)
    listener = Listener()
    protocol = protocol_of(FAMILY | {"rank": 2, "noise_var": [1e-4, 1e-2, 1.0]})
    swept(tmp_path / "run.sqlite", protocol, digits, listener)
    assert calls == [1, 2]
    assert listener.told == pytest.approx(3.0, abs=0.02)


def test_flips_and_single_precision_and_the_paper_s_noise(digits, tmp_path):
    """A network with flips gives mirror images the same; in float32 the noise is raised."""
    protocol = protocol_of(FAMILY | {"rank": 2, "flips": True, "dtype": "float32"})
    (result,) = swept(tmp_path / "run.sqlite", protocol, digits)
    assert result.status == "done"
    assert result.attempts >= 1
    assert result.noise_var == pytest.approx(1e-10 * 10.0 ** (result.attempts - 1))
    assert result.options == "flips, float32"
    assert result.test_accuracy > 0.5


def test_a_table_and_a_report_beside_a_dense_family(digits, tmp_path):
    dense = {"activation": "maxout", "rank": 2, "depth": 1, "weight_var": 1.0, "bias_var": 0.1}
    protocol = protocol_of(dense, FAMILY | {"whitening": [False, 0.1]}, FAMILY | {"kind": "ntk"})
    path = tmp_path / "run.sqlite"
    results = swept(path, protocol, digits)
    rows = [row for row in selection.rows(results) if row.rank is None]
    assert [len(row.candidates) for row in rows] == [1, 4, 2]
    told = CliRunner().invoke(app, ["table", str(path), "--format", "csv"])
    assert told.exit_code == 0, told.output
    assert "Conv(3), Maxout(rank), Flatten(), tangent kernel" in told.output
    assert "options" in told.output
    text = CliRunner().invoke(app, ["table", str(path), "--ranks"]).output
    assert "Conv(3), Maxout(rank), Flatten(), rank 4" in text
    page = tmp_path / "report.html"
    told = CliRunner().invoke(app, ["report", str(path), "-o", str(page)])
    assert told.exit_code == 0, told.output
    assert "Conv(3), Maxout(rank), Flatten()" in page.read_text()


def test_a_kernel_that_fails_is_recorded_and_tried_again(digits, tmp_path, monkeypatch):
    def fails(*arguments, **options):
        raise MemoryError("no room")

    protocol, path = protocol_of(), tmp_path / "run.sqlite"
    with monkeypatch.context() as patch:
        patch.setattr(image_cells, "kernel_matrix", fails)
        results = swept(path, protocol, digits)
    assert {result.error for result in results} == {"MemoryError: no room"}
    with Store.begin(path, protocol) as store:
        assert store.forget_failed() == 2
    assert {result.status for result in swept(path, protocol, digits)} == {"done"}


# --- killed, interrupted, on a cluster ------------------------------------------------------------

# Blocks of 32 images, of which each is told before it is begun, and takes some tenths of a second.
SLOW = """
import sys, time
from mnngp.kernels import block_store, blocks
seconds = float(sys.argv.pop())
plain = blocks.Blocks.block
def block(self, size, place):
    print(self.columns is None, *place, flush=True)
    time.sleep(seconds)
    return plain(self, size, place)
blocks.Blocks.block, blocks._SECONDS, block_store._EVERY = block, 1e-9, 0.0
from mnngp.commands.app import main
main()
"""
TOML = """
[data]
name = "digits"
train = 80
validation = 60
test = 40
[[family]]
layers = ["Conv(3)", "Maxout(rank)", "Flatten()"]
rank = [2, 4]
weight_var = 1.0
bias_var = 0.1
noise_var = 0.01
"""


def losses(results):
    return {(one.activation, one.rank): one.test_log_loss for one in results}


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_is_stopped_in_a_kernel_and_goes_on(digits, tmp_path, stop):
    config, path = tmp_path / "run.toml", tmp_path / "run.sqlite"
    config.write_text(TOML)

    def sweep(seconds):
        command = [sys.executable, "-c", SLOW, "sweep", str(config), "-o", str(path), str(seconds)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )

    process = sweep(0.3)
    before = [process.stdout.readline() for _ in range(9)]  # six of the training images, three more
    process.send_signal(stop)
    rest, errors = process.communicate(timeout=100)
    assert process.returncode == (130 if stop == signal.SIGINT else -stop), errors
    before += rest.splitlines(keepends=True)[:-1] if stop == signal.SIGINT else []
    assert (tmp_path / "run.sqlite.blocks").is_dir()
    process = sweep(0.0)
    after, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    again = [line for line in after.splitlines() if line in {one.strip() for one in before}]
    # of the first cell only the block that it was at; the second has the same places
    count = 6 + 3 * 4
    assert len(after.splitlines()) - 1 in range(2 * count - 9, 2 * count - 6), (before, after)
    assert len(again) <= count + 1
    assert not (tmp_path / "run.sqlite.blocks").exists()
    with Store.open(path) as store:
        found = losses(store.results())
    plain = swept(tmp_path / "plain.sqlite", Protocol.load(config), digits)
    assert found == pytest.approx(losses(plain), rel=1e-9)


def test_blocks_on_workers_give_the_same_numbers(digits, tmp_path):
    dense = {"activation": "maxout", "rank": 2, "depth": 1, "weight_var": 1.0, "bias_var": 0.1}
    protocol, path = protocol_of(FAMILY, dense), tmp_path / "run.sqlite"
    client, cluster = connection.local(2, memory_limit=0)
    with cluster, client, Store.begin(path, protocol) as store:
        dask_runner.run(protocol, store, digits, client)
        found = losses(store.results())
    assert len(found) == len(protocol)
    assert found == pytest.approx(losses(swept(tmp_path / "plain.sqlite", protocol, digits)))
    assert not (tmp_path / "run.sqlite.blocks").exists()


def test_what_a_killed_sweep_left_is_removed(digits, tmp_path):
    """Of another version, or of cells that were committed before it was killed."""
    left = tmp_path / "run.sqlite.blocks"
    (left / "0123").mkdir(parents=True)
    protocol = protocol_of(FAMILY | {"rank": 2})
    swept(tmp_path / "run.sqlite", protocol, digits)
    assert not left.exists()
    image_cells.InBlocks(left).of(protocol.groups[0]).mkdir(parents=True)
    swept(tmp_path / "run.sqlite", protocol, digits)
    assert not left.exists()
