"""A progress bar for work that takes more than a few seconds, on a terminal or in a notebook.

Nothing is shown before ``PATIENCE`` seconds have passed, so nobody has to know beforehand whether
the work is long. A thread of its own waits, draws and takes leave; the work itself only adds up
what is finished.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import multiprocessing
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Done = Callable[[float], None]
PATIENCE = 3.0  # seconds until a bar appears
_EVERY = 0.25  # seconds between two pictures of it
_OVERDUE = 3.0  # times the usual time between two steps
_WIDTH = 30  # characters of the bar in a notebook


@contextmanager
def bar(title: str, *, show: bool | None = None) -> Iterator[Stages]:
    """Show a bar on standard error or in the notebook; gives a function that opens a stage of it.

    A stage has a name and a share of the whole; what it returns is told of finished parts of the
    stage, which add up to one. ``show`` None: when ``PATIENCE`` seconds have passed and somebody is
    looking; True: at once, wherever standard error leads.
    """
    work, over = Stages(title), threading.Event()
    if not (_watched() if show is None else show):
        yield work
        return
    draw = _draw_in_notebook if _in_notebook() else _draw_on_terminal

    def watch() -> None:
        if show or not over.wait(PATIENCE):
            # a screen that is gone, or closed, is no reason to end the work
            with contextlib.suppress(OSError, ValueError):
                draw(work, over)

    # In the context of the cell that runs: newer kernels find the place of an output there. Not a
    # daemon: that might end without giving the cursor back, when nobody waits for it.
    thread = threading.Thread(
        target=contextvars.copy_context().run, args=(watch,), name="mnngp-progress"
    )
    try:
        thread.start()
        yield work
        work.finished = True
    finally:
        over.set()
        thread.join()


class Stages:
    """How far the work is: written where it is done, read where it is shown.

    Called, it opens a stage of the bar.
    """

    def __init__(self, title: str) -> None:
        self.title = self.name = title
        self.lines: list[str] = []
        self.finished = False
        self.started = time.monotonic()
        self.fraction = 0.0
        self._lock = threading.Lock()
        self._steps = deque([(self.started, 0.0)])  # when how much was finished

    def __call__(self, name: str, share: float) -> Done:
        self.name = f"{self.title}: {name}"

        def done(part: float) -> None:
            with self._lock:
                self.fraction = min(1.0, self.fraction + share * part)

        return done

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.lines.append(line)

    def looks(self, over: threading.Event) -> Iterator[None]:
        """A look now and then, and one when it is over, or when the interpreter ends."""
        while threading.main_thread().is_alive() and not over.wait(_EVERY):
            yield
        if self.finished:
            self.fraction = 1.0
        yield

    def time_left(self, now: float, over: bool) -> str:
        """Estimated from the later half of the time so far: shares are only roughly costs.

        Between two steps it counts down; when the next one is overdue, the time that went by counts
        as well.
        """
        if over:
            return f"{'took' if self.finished else 'stopped after'} {duration(now - self.started)}"
        if self.fraction > self._steps[-1][1]:
            self._steps.append((now, self.fraction))
        while len(self._steps) > 2 and self._steps[1][0] <= 0.5 * (self.started + now):
            self._steps.popleft()
        (then, before), (last, fraction) = self._steps[0], self._steps[-1]
        if fraction <= before:
            return "time left unknown"
        overdue = now - last > _OVERDUE * (last - then) / (len(self._steps) - 1)
        to_do = (1.0 - fraction) / (fraction - before)
        left = to_do * (now - then) if overdue else to_do * (last - then) - (now - last)
        return f"{duration(left)} left"


def _watched() -> bool:
    """Whether somebody looks at standard error; of processes side by side none is to draw."""
    if (
        threading.current_thread() is not threading.main_thread()
        or multiprocessing.parent_process() is not None
    ):
        return False
    return _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def _in_notebook() -> bool:
    """Whether this is a kernel of Jupyter: its shell has one, that of a terminal has none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _draw_on_terminal(work: Stages, over: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    texts = ("{task.description}", "{task.percentage:>3.0f}%", "{task.fields[left]}")
    name, share, left = (TextColumn(text, markup=False) for text in texts)
    with Progress(
        name, BarColumn(), share, left, console=Console(stderr=True), auto_refresh=False
    ) as progress:
        task, said = progress.add_task(work.title, total=1.0, left=""), 0
        for _ in work.looks(over):
            for line in work.lines[said:]:
                progress.console.print(line, markup=False, highlight=False)
                said += 1
            left_now = work.time_left(time.monotonic(), over.is_set())
            progress.update(
                task, description=work.name, completed=work.fraction, left=left_now, refresh=True
            )


def _draw_in_notebook(work: Stages, over: threading.Event) -> None:
    """Text in an output that is written anew: every front end can do it."""
    display: Callable[..., Any] = importlib.import_module("IPython.display").display
    handle: Any = None
    for _ in work.looks(over):
        done = round(_WIDTH * work.fraction)
        drawn = f"{work.name} {'━' * done}{'╌' * (_WIDTH - done)} {work.fraction:.0%}"
        text = "\n".join(
            [*work.lines, f"{drawn} {work.time_left(time.monotonic(), over.is_set())}"]
        )
        if handle is None:
            handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            handle.update({"text/plain": text}, raw=True)


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 99.5:
        return f"{max(1.0, seconds):.0f} s"
    minutes = seconds / 60.0
    return f"{minutes:.0f} min" if minutes < 99.5 else f"{minutes / 60.0:.1f} h"
