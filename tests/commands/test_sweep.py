"""The command that runs a protocol."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

from mnngp.experiments.protocol import Protocol
from mnngp.experiments.store import Store
from tests.experiments.sweeps import MNNGP, SMALL, environment, mnngp_sweep, numbers


def test_command(config, tmp_path):
    first = mnngp_sweep(config, cwd=tmp_path)
    assert first.stdout.startswith("34 of 34 cells are done, in run.sqlite")
    assert first.stderr.startswith("Digits [bold]for tests[/bold]: 34 cells\n")
    assert "cells · " in first.stderr
    assert "a second" in first.stderr
    assert "left · best 0." in first.stderr
    again = mnngp_sweep(config, "--json", cwd=tmp_path)
    facts = json.loads(again.stdout)
    assert again.stderr == ""
    assert facts["path"] == "run.sqlite"
    assert (facts["done"], facts["failed"]) == (34, 0)
    assert facts["seconds"] < 60.0


def test_command_says_what_is_wrong(config, tmp_path):
    assert "error: " in mnngp_sweep(tmp_path / "none.toml", code=1).stderr
    Store.begin(tmp_path / "run.sqlite", Protocol.load(config)).close()
    config.write_text(config.read_text().replace("repeats = 1", "repeats = 3"))
    refused = mnngp_sweep(config, "-o", tmp_path / "run.sqlite", code=1)
    assert refused.stderr.startswith(
        f"error: {tmp_path}/run.sqlite is the store of another configuration"
    )
    assert "\n  data.repeats: 1 → 3" in refused.stderr
    config.write_text(config.read_text().replace("depth = 3", "depth = 0"))
    assert mnngp_sweep(config, code=1).stderr == (
        f"error: {config}: family[1].depth must be a positive integer (1, 2, 3, ...), got 0\n"
    )
    config.write_text(
        config.read_text().replace("depth = 0", "depth = 3").replace('"digits"', '"mnist"')
    )
    missing = mnngp_sweep(config, "-o", tmp_path / "other.sqlite", "--data-dir", tmp_path, code=1)
    assert missing.stderr.startswith("error: mnist is not in ")


def test_command_with_failing_cells(config, tmp_path):
    config.write_text(SMALL.format(repeats=1, weights=[1.0, 1e200]))
    path = tmp_path / "run.sqlite"
    first = mnngp_sweep(config, "-o", path, "--json", code=1)
    assert json.loads(first.stdout)["failed"] == 16
    assert (
        "failed: maxout-2, depth 5, weight_var 1e+200, bias_var 0.1: ScaleError: " in first.stderr
    )
    assert first.stderr.endswith(
        "error: 16 cells failed; mnngp sweep --retry-failed tries them again\n"
    )
    with Store.open(path) as store:
        before = store.results()
    command = [
        sys.executable,
        "-m",
        "mnngp",
        "sweep",
        str(config),
        "-o",
        str(path),
        "--retry-failed",
    ]
    both = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        )
        for _ in "12"
    ]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [1, 1], outputs
    with Store.open(path) as store:
        assert numbers(store.results()) == numbers(before)
        assert store.results() != before


def test_interrupted(config, tmp_path):
    config.write_text(SMALL.format(repeats=20, weights=[0.5, 1.0, 2.0]))
    path = tmp_path / "run.sqlite"
    process = subprocess.Popen(
        [MNNGP, "sweep", str(config), "-o", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    for _ in range(600):
        time.sleep(0.1)
        if path.exists() and path.stat().st_size:
            with Store.open(path) as store:
                if store.about()["done"] > 10:
                    break
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - start < 10.0
    assert process.returncode == 130, err
    assert out == ""
    assert err.endswith(f"stopped; what is finished is in {path}, and the same command goes on\n")
    assert "Traceback" not in err
    with Store.open(path) as store:
        assert 10 < store.about()["done"] < 1000


def test_live_display(config, tmp_path):
    """On a terminal: a bar, the rate, the time left, the best so far, drawn anew several times a
    second.
    """
    config.write_text(SMALL.format(repeats=6, weights=[0.5, 1.0, 1e200]))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [MNNGP, "sweep", str(config), "-o", str(tmp_path / "run.sqlite")],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=environment(TERM="xterm", COLUMNS="150"),
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait(60) == 1
    text = shown.decode()
    for expected in (
        "Digits [bold]for tests[/bold]",
        "━",
        "a second",
        " left",
        "best validation accuracy 0.",
        "training images, repeat",
        "failed",
    ):
        assert expected in text, expected
