"""The progress bar: when it appears, what it says, and what it leaves behind. On a real terminal (a
pseudo-terminal, that is).
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from mnngp._system import progress

pty = pytest.importorskip("pty")
HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"  # the cursor


def on_terminal(code, act=None, errors_to=None):
    """Run code with a terminal as its standard error, and return the exit code, what it printed and
    what was drawn.

    ``act``: what to do with the process once something was drawn.
    """
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=errors_to or slave,
        env=environment,
    )
    os.close(slave)
    drawn, limit = b"", time.monotonic() + 120.0
    while time.monotonic() < limit:
        if select.select([master], [], [], 0.05)[0]:
            try:
                piece = os.read(master, 65536)
            except OSError:  # Linux's way to say that nobody writes any more
                break
            if not piece:
                break
            drawn += piece
            if act is not None and "left" in drawn.decode(errors="ignore"):
                act(process)
                act = None
        elif process.poll() is not None:
            break
    printed = process.communicate(timeout=60)[0].decode()
    os.close(master)
    return process.returncode, printed, drawn.decode()


def words(drawn):
    """What is to be read, without what steers the terminal."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)


START = """
import time
from mnngp._system import progress
progress.PATIENCE = {patience}
def work(parts, seconds, title="work"):
    with progress.bar(title) as stage:
        stage.say("[what] it will take")
        done = stage("first", 0.5)
        for _ in range(parts):
            time.sleep(seconds / parts)
            done(1.0 / parts)
        stage("second", 0.5)(1.0)
"""


def test_a_bar_appears_when_it_takes_long_and_not_before():
    code = START.format(patience=0.3)
    assert on_terminal(code + "work(1, 0.0)")[2] == ""
    status, _, drawn = on_terminal(code + "work(10, 1.5)")
    assert status == 0
    said = words(drawn)
    assert "[what] it will take" in said  # also what was said before there was a bar
    assert re.search(r"work: first .* \d+% \d+ s left", said)
    assert "work: second" in said.splitlines()[-1]
    assert re.search(r"100% took \d+ s", said.splitlines()[-1])
    assert drawn.rindex(SHOWN) > drawn.rindex(HIDDEN)


def test_a_fit_of_any_size_shows_one():
    """300 rows, far below the 2,000 that it once took; the bar does not change what is found."""
    code = """
    import numpy as np, mnngp
    from mnngp._system import progress
    X = np.random.default_rng(0).normal(size=(300, 4))
    y = np.sin(X[:, 0]) + X[:, 1]
    progress.PATIENCE = 0.05
    print(repr(mnngp.MaxoutGPRegressor(random_state=0, max_trials=6).fit(X, y).predict(X[:3]).tolist()))
    progress.PATIENCE = 1e6
    print(repr(mnngp.MaxoutGPRegressor(random_state=0, max_trials=6).fit(X, y).predict(X[:3]).tolist()))
    """
    status, printed, drawn = on_terminal(code)
    assert status == 0
    assert len(set(printed.splitlines())) == 1
    assert "took" in words(drawn)
    assert words(drawn).count("\n") == 2  # what it will take and the bar, of the first one only
    assert "MaxoutGPRegressor: c" in words(drawn)


@pytest.mark.parametrize("end", ["raise ValueError('of the work')", "interrupt"])
def test_an_end_before_its_time_gives_the_cursor_back(end):
    if end == "interrupt":
        status, _, drawn = on_terminal(
            START.format(patience=0.1) + "work(100, 60.0)",
            act=lambda process: process.send_signal(signal.SIGINT),
        )
        assert status == -signal.SIGINT
    else:
        code = (
            "with progress.bar('work') as stage:\n    stage('first', 1.0)(0.25)\n    "
            f"time.sleep(0.6)\n    {end}\n"
        )
        status, _, drawn = on_terminal(START.format(patience=0.1) + code)
        assert status == 1
        assert "ValueError: of the work" in words(drawn)
        assert "25%" in words(drawn)
    assert re.search(r"stopped after \d+ s", words(drawn))
    assert HIDDEN in drawn
    assert drawn.rindex(SHOWN) > drawn.rindex(HIDDEN)
    assert drawn.rindex(SHOWN) < drawn.rindex("Traceback")


def test_nothing_is_drawn_where_nobody_looks():
    """Workers of joblib have the terminal of their parent; side by side they would write into each
    other's lines.
    """
    code = START.format(patience=0.0) + textwrap.dedent(
        """
        import sys
        from joblib import Parallel, delayed
        def in_worker(number):
            from mnngp._system import progress
            progress.PATIENCE = 0.0
            with progress.bar("work") as stage:
                time.sleep(0.1)
            return sys.stderr.isatty(), progress._watched()
        print(progress._watched())
        for backend in ("loky", "threading"):
            print(*Parallel(n_jobs=2, backend=backend)(delayed(in_worker)(i) for i in range(2)))
        """
    )
    status, printed, drawn = on_terminal(code)
    assert (status, drawn) == (0, "")
    assert printed.splitlines() == [
        "True",
        "(True, False) (True, False)",
        "(True, False) (True, False)",
    ]


def test_nor_where_standard_error_leads_to_a_file(tmp_path):
    asked = "with progress.bar('asked for', show=True) as stage:\n    stage.say('a line')\n"
    with (tmp_path / "log").open("wb") as log:
        assert (
            on_terminal(START.format(patience=0.0) + "work(2, 0.6)\n" + asked, errors_to=log)[0]
            == 0
        )
    text = (tmp_path / "log").read_text()
    assert text.startswith("a line\nasked for ")
    assert len(text.splitlines()) == 2  # the line, and the bar as it was at the end
    assert "\x1b" not in text


# A kernel of Jupyter, as far as the bar can see it: a shell that has a kernel, standard error that
# is no terminal, and outputs that are made once and then written anew. ipywidgets is not there, and
# warnings are errors.
KERNEL = """
import json, sys, types, warnings
warnings.simplefilter("error")
outputs = []
class Handle:
    def update(self, data, raw=False):
        outputs.append(["update", data, raw])
def display(data, raw=False, display_id=None):
    outputs.append(["display", data, raw])
    return Handle() if display_id else None
shell = types.SimpleNamespace(kernel=object())
IPython = types.ModuleType("IPython")
IPython.get_ipython = lambda: shell
IPython.display = types.ModuleType("IPython.display")
IPython.display.display = display
sys.modules |= {"IPython": IPython, "IPython.display": IPython.display, "ipywidgets": None}
"""


def test_a_notebook_gets_an_output_that_is_written_anew(tmp_path):
    code = (
        KERNEL
        + START.format(patience=0.1)
        + "work(1, 0.0)\nwork(4, 1.2)\nprint(json.dumps(outputs))\n"
    )
    # IPython without a kernel is a terminal or a file like any other
    code += "shell.kernel = None\nassert not progress._watched()"
    with (tmp_path / "log").open("wb") as log:
        status, printed, _ = on_terminal(code, errors_to=log)
    assert (status, (tmp_path / "log").read_text()) == (0, "")
    outputs = json.loads(printed)
    assert [kind for kind, _, _ in outputs] == ["display"] + ["update"] * (len(outputs) - 1)
    assert all(raw and list(data) == ["text/plain"] for _, data, raw in outputs)
    texts = [data["text/plain"] for _, data, _ in outputs]
    assert all(text.startswith("[what] it will take\nwork: ") for text in texts)
    assert any(re.search(r"work: first ━+╌+ \d+% \d+ s left$", text) for text in texts)
    assert re.search(r"work: second ━{30} 100% took \d+ s$", texts[-1])


def test_time_left_follows_the_speed():
    """A second a step, five quick ones to the middle and fifty slow ones from there: the later half
    of the time is what counts.
    """
    work = progress.Stages("work")
    done, speeds = work("all", 1.0), [0.1] * 5 + [0.01] * 50
    for step, speed in enumerate(speeds, 1):
        done(speed)
        number, unit, _ = work.time_left(work.started + step, False).split()
        left = len(speeds) - step
        if step <= 5:  # at a steady speed it is exact
            assert float(number) == 10 - step
        if step > 10:
            assert (float(number), unit) == (max(1, left), "s")


def test_time_left_between_steps():
    work = progress.Stages("work")
    at = {seconds: work.started + seconds for seconds in (3.0, 4.0, 6.0, 17.0, 1000.0)}
    assert work.time_left(at[3.0], False) == "time left unknown"
    work("first", 0.25)(1.0)
    assert work.time_left(at[4.0], False) == "12 s left"
    assert work.time_left(at[6.0], False) == "10 s left"  # the next step is not due yet
    # it is overdue: a quarter took at least 17 s, not 4
    assert work.time_left(at[17.0], False) == "51 s left"
    assert work.time_left(at[1000.0], False) == "50 min left"
    times = [progress.duration(seconds) for seconds in (-3.0, 0.2, 59.4, 110.0, 3000.0, 7200.0)]
    assert times == ["1 s", "1 s", "59 s", "2 min", "50 min", "2.0 h"]
