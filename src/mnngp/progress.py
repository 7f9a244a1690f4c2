"""A progress bar for work that takes more than a few seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Done = Callable[[float], None]


@dataclass(frozen=True)
class Stages:
    """A function that opens a stage of the bar, and one that prints a line above it."""

    open: Callable[[str, float], Done]
    say: Callable[[str], None]

    def __call__(self, name: str, share: float) -> Done:
        return self.open(name, share)


@contextmanager
def bar(title: str, *, show: bool | None, long: bool) -> Iterator[Stages]:
    """Show a bar on standard error, and give a function that opens a stage of it.

    A stage has a name and a share of the whole; what it returns is told of finished parts of the stage, which add up to one.
    ``show`` None: if the work is ``long`` and somebody is looking.
    """
    if not (show if show is not None else long and sys.stderr.isatty()):
        yield Stages(lambda name, share: lambda part: None, lambda line: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn())
    lock = threading.Lock()
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=1.0)

        def stage(name: str, share: float) -> Done:
            progress.update(task, description=f"{title}: {name}")

            def done(part: float) -> None:
                with lock:
                    progress.advance(task, share * part)

            return done

        yield Stages(stage, lambda line: progress.console.print(line, markup=False, highlight=False))
