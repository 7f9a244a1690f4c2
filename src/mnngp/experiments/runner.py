"""The sweep: all cells of a protocol that a store does not have yet.

``cells`` says what a cell computes; this is about who computes which, and when.

*The same numbers, whoever computes them.* Each cell depends on the protocol alone: not on what else
is computed, in which order, or by how many processes. Up to ``SMALL`` training images a thread
computes a cell by itself, and several run side by side; above, one cell has all threads, and the
last digits may depend on their number, as always with BLAS.

*Kernels that take hours.* Those of convolutional networks are computed in blocks, which stay in a
folder beside the store, ``RUN.sqlite.blocks``, until their cells are committed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, fields, replace
from itertools import compress, islice
from pathlib import Path
from typing import Any

from mnngp import __version__
from mnngp._system import threads
from mnngp.data import Images
from mnngp.errors import InputError
from mnngp.experiments.cells import Outcome, Prepared, Test, limited
from mnngp.experiments.image_cells import InBlocks
from mnngp.experiments.protocol import FORMS, Group, Protocol, Split
from mnngp.experiments.records import Result, Watcher, commit, now
from mnngp.experiments.store import Store

Finished = list[tuple[str, Result]]  # cells of one group, by their keys
SMALL = 2048  # training images up to which a cell is one thread's work
_PARAMETERS = 1 << 26  # of finite networks that are trained together, of which there are at most
_MOST_TOGETHER = 256
_INPUTS = 3072  # of the largest images
_OF_A_GROUP = ("activation", "rank", "kind", "weight_var", "bias_var", "width", "options")
_POLL = 0.5  # seconds between two looks at what other processes have finished


@dataclass(frozen=True)
class Unit:
    """What is claimed, computed and committed together. ``number`` is its lock.

    A group, or one cell of it if that takes long; of networks of finite width as many cells of one
    shape as are trained together, of convolutional ones those that share a kernel.
    """

    number: int
    groups: tuple[Group, ...]

    @property
    def split(self) -> Split:
        return self.groups[0].split

    def __len__(self) -> int:
        """The number of cells."""
        return sum(len(group.depths) for group in self.groups)

    def names(self) -> Iterator[str]:
        return (group.key(depth) for group in self.groups for depth in group.depths)


class _Stopped(BaseException):
    """Somebody wants the sweep to end; not an error of a cell."""


def units(protocol: Protocol) -> list[Unit]:
    """All units of a protocol, in the order in which they are computed."""
    parts: list[list[Group]] = []
    # what is trained together, as far as it is not full
    shapes: dict[Any, list[Group]] = {}
    for group in protocol.groups:
        if group.convolution is not None:
            if (kernel := replace(group, noise_var=None)) not in shapes:
                shapes[kernel] = []
                parts.append(shapes[kernel])
            shapes[kernel].append(group)
            continue
        if group.width is None and group.split.n_train <= SMALL:
            parts.append([group])
            continue
        for depth in group.depths:
            shape = (group.split, group.width, group.rank, depth, group.training)
            most = _together(group, depth)
            if len(shapes.get(shape, ())) in (0, most):
                shapes[shape] = []
                parts.append(shapes[shape])
            shapes[shape].append(group.at((depth,)))
    return [Unit(number, tuple(part)) for number, part in enumerate(parts)]


def _together(group: Group, depth: int) -> int:
    """How many networks are trained at once: small ones gain by company, large ones need memory."""
    if group.width is None:
        return 1
    parameters = group.width * (group.rank or 1) * (_INPUTS + group.width * (depth - 1))
    return max(1, min(_MOST_TOGETHER, _PARAMETERS // parameters))


def run(protocol: Protocol, store: Store, images: Images, watcher: Watcher | None = None) -> None:
    """Compute and commit all cells that are not in the store; returns when none is open.

    Other processes may do the same with the same store. A cell that fails is recorded with its
    error. An interrupt (Ctrl-C) ends it: what was being computed is given up, what is committed
    stays, and the next call goes on.
    """
    Sweep(protocol, store, images, watcher).run()


class Sweep:
    """Who computes what: all open units, on this machine. ``cluster`` has another way."""

    def __init__(
        self, protocol: Protocol, store: Store, images: Images, watcher: Watcher | None
    ) -> None:
        if images.name != protocol.dataset:
            raise InputError(
                f"images must be those of the protocol, {protocol.dataset}, got {images.name}"
            )
        self.protocol, self.store, self.images = protocol, store, images
        self.watcher = watcher or Watcher()
        self.test = Test(protocol, images)
        self.blocks = InBlocks(Path(f"{store.path}.blocks"))
        self.stop = threading.Event()
        self.commit = commit()
        self.open = units(protocol)
        self.known: set[str] = set()  # keys of finished cells
        self.last, self.looked = 0, 0.0  # the last of them, and when that was

    def run(self) -> None:
        """Until the store has all cells.

        It alone knows what is finished, and another process may open failed ones again.
        """
        self.watcher.begin(len(self.protocol), self._look())
        while self.open or self._opened_again():
            if not self._run_open() and self.open:
                self.watcher.waiting(sum(map(len, self.open)))
                time.sleep(_POLL)
            self.watcher.finished(self._look())
        self._tidy()

    def _opened_again(self) -> bool:
        """Whether cells that were finished are not in the store any more; they are open then."""
        finished = self.store.keys()
        self.known &= finished
        self.open = [unit for unit in units(self.protocol) if not finished.issuperset(unit.names())]
        return bool(self.open)

    def _run_open(self) -> bool:
        """Compute units that nobody else is computing; whether there were any."""
        split = self._next_split()
        if split is not None:
            self._run_split(split)
        return split is not None

    def _look(self) -> list[Result]:
        """What have other processes finished?"""
        self.looked = time.monotonic()
        news = self.store.news(self.last)
        new = [result for _, key, result in news if key not in self.known]
        if news:
            self.last = news[-1][0]
            self.known |= {key for _, key, _ in news}
        if new:
            self.open = [unit for unit in self.open if not self.known.issuperset(unit.names())]
        return new

    def _next_split(self) -> Split | None:
        """A split with work left: one that nobody else is at, if there is one.

        So the angles are computed once.
        """
        contested = None
        for split in dict.fromkeys(unit.split for unit in self.open):
            numbers = [unit.number for unit in self.open if unit.split == split]
            first, count = numbers[0], numbers[-1] - numbers[0] + 1
            if self.store.claim(first, count):
                self.store.release(first, count)
                return split
            free = None if contested else next(filter(self.store.claim, numbers), None)
            if free is not None:
                self.store.release(free)
                contested = split
        return contested

    def _run_split(self, split: Split) -> None:
        """Compute what is claimable of a split."""
        self._run_forms(split, ("dense", "finite"))
        self._run_forms(split, ("convolutional",))

    def _run_forms(self, split: Split, wanted: Collection[str]) -> None:
        """Units of some forms, as many at a time as there are threads.

        A convolutional one has all threads for its blocks, whose numbers are the same for any.
        """
        groups = [group for unit in self.open if unit.split == split for group in unit.groups]
        groups = [group for group in groups if group.form in wanted]
        forms = {group.form for group in groups}
        small = split.n_train <= SMALL and "convolutional" not in forms
        workers = threads.count() if small else 1
        finite = [group for group in groups if group.width is not None]
        if any(_together(group, max(group.depths)) == 1 for group in finite):
            workers = 1  # each may take gigabytes
        queue = self._claimed(split, wanted)
        ahead = list(islice(queue, workers))
        if not ahead:
            return
        self.watcher.preparing(split)
        data = Prepared(self.protocol, self.images, self.test, split, forms, self.blocks)
        running: dict[Future[Finished], Unit] = {}
        pool = ThreadPoolExecutor(workers, thread_name_prefix="cell")
        with limited(small, forms):
            try:
                while ahead or running:
                    running |= {pool.submit(self._compute, data, unit): unit for unit in ahead}
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        self._commit(running.pop(future), future.result())
                    ahead = list(islice(queue, workers - len(running)))
            except BaseException:
                self.stop.set()  # the threads see it before their next step
                raise
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
                for unit in [*ahead, *running.values()]:  # given up: others may have them
                    self.store.release(unit.number)

    def _claimed(self, split: Split, forms: Collection[str] = FORMS) -> Iterator[Unit]:
        """Units of a split, claimed one by one; those of some forms only.

        What others have finished is looked up after the claim: nothing is done twice.
        """
        mine = (unit.split == split and unit.groups[0].form in forms for unit in self.open)
        for unit in list(compress(self.open, mine)):
            if not self.store.claim(unit.number):
                continue
            missing = [group.at(self.store.missing(group)) for group in unit.groups]
            if any(group.depths for group in missing):
                yield Unit(unit.number, tuple(group for group in missing if group.depths))
            else:
                self._close(unit)

    def _commit(self, unit: Unit, finished: Finished) -> None:
        self.store.add(finished)
        self.known |= {key for key, _ in finished}
        self._close(unit)
        others = self._look() if time.monotonic() > self.looked + _POLL else []
        self.watcher.finished([result for _, result in finished] + others)

    def _close(self, unit: Unit) -> None:
        """The store has all of a unit."""
        self.blocks.remove(unit.groups[0])
        self.store.release(unit.number)
        self.open = [other for other in self.open if other.number != unit.number]

    def _tidy(self) -> None:
        """Remove blocks that a killed process left behind, whose cells are committed."""
        if not self.blocks.folder.is_dir():
            return
        kept = []
        for unit in units(self.protocol):
            if unit.groups[0].form == "convolutional" and self.store.claim(unit.number):
                self.blocks.remove(unit.groups[0])
                self.store.release(unit.number)
            elif unit.groups[0].form == "convolutional":  # another process computes it again
                kept.append(self.blocks.of(unit.groups[0]))
        if self.blocks.folder.is_dir():
            self.blocks.remove_others(kept)

    def _compute(self, data: Prepared, unit: Unit) -> Finished:
        return self._results(data.outcomes(unit.groups, self._step))

    def _step(self, share: float = 0.0) -> None:
        if self.stop.is_set():
            raise _Stopped
        if share:
            self.watcher.advanced(share)

    def _results(self, computed: Iterable[tuple[Group, int, Outcome, float]]) -> Finished:
        return [(one[0].key(one[1]), self._result(*one)) for one in computed]

    def _result(self, group: Group, depth: int, outcome: Outcome, seconds: float) -> Result:
        known: dict[str, Any] = {
            **{name: getattr(group, name) for name in _OF_A_GROUP},
            "dataset": self.protocol.dataset,
            "n_train": group.split.n_train,
            "n_validation": self.protocol.validation,
            "n_test": self.protocol.test,
            "repeat": group.split.repeat,
            "seed": self.protocol.seed,
            "depth": depth,
            "training": None if group.training is None else str(group.training),
            "seconds": seconds,
            "version": __version__,
            "commit": self.commit,
            "finished": now(),
        }
        nothing: dict[str, Any] = dict.fromkeys(field.name for field in fields(Result))
        return Result(**nothing | known | {"status": "done"} | outcome)
