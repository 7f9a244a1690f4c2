"""The sweep: all cells of a protocol that a store does not have yet.

The angles between the images of a split are computed once (``kernels.sphere``) and serve every network. What is left of a cell is
a short series for each pair of images, one factorisation, and one product. Variances are not computed: they would cost more than
all the rest.

*Log loss.* Probabilities are the softmax of a times the posterior means, with the one a ≥ 0 that has the least log loss on the
validation images; it is reported for them and for the test images.

*The same numbers, whoever computes them.* Each cell depends on the protocol alone: not on what else is computed, in which order, or
by how many processes. Up to ``SMALL`` training images a thread computes a cell by itself, and several run side by side; above, one
cell has all threads, and the last digits may depend on their number, as always with BLAS.
"""

from __future__ import annotations

import math
import threading
import time
import typing
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mnngp import __version__
from mnngp.data import Images, standardised
from mnngp.errors import AccuracyWarning, InputError, MnngpError
from mnngp.experiments.protocol import Group, Protocol, Split
from mnngp.experiments.store import Result, Store, commit, now
from mnngp.inference.posterior import Posterior
from mnngp.kernels import layout, sphere, threads
from mnngp.kernels.points import Points

Matrix = NDArray[Any]
Labels = NDArray[np.int64]
Finished = list[tuple[str, Result]]  # cells of one group, by their keys
SMALL = 2048  # training images up to which a cell is one thread's work
_CLASSES = 10
_KEPT = 1 << 31  # bytes of angles that are kept for all networks of a split; more are computed for each anew
_PART = 1 << 17  # pairs of images at a time, which stay in a core's cache; for many training images more,
_ROWS = layout.TASK  # because rows come in multiples of these: so products are the same, kept or not
_SHARPEST = 1e6
_POLL = 0.5  # seconds between two looks at what other processes have finished


class Watcher(typing.Protocol):
    """Is told how a sweep goes."""

    def begin(self, total: int, finished: Sequence[Result]) -> None:
        """There are so many cells, of which some are finished."""

    def preparing(self, split: Split) -> None:
        """The angles of a split are computed."""

    def finished(self, results: Sequence[Result]) -> None:
        """Cells have been committed, by us or by another process."""

    def waiting(self, cells: int) -> None:
        """All that is left is being computed by other processes."""


class _Nobody:
    """A watcher that does not mind."""

    def begin(self, total: int, finished: Sequence[Result]) -> None: ...

    def preparing(self, split: Split) -> None: ...

    def finished(self, results: Sequence[Result]) -> None: ...

    def waiting(self, cells: int) -> None: ...


@dataclass(frozen=True)
class Unit:
    """What is claimed, computed and committed together: a group, or one cell of it if that takes long. ``number`` is its lock."""

    number: int
    group: Group


class _Stopped(BaseException):
    """Somebody wants the sweep to end; not an error of a cell."""


def units(protocol: Protocol) -> list[Unit]:
    """All units of a protocol, in the order in which they are computed."""
    parts: list[Group] = []
    for group in protocol.groups:
        small = group.split.n_train <= SMALL
        parts += [group] if small else [group.at((depth,)) for depth in group.depths]
    return [Unit(number, part) for number, part in enumerate(parts)]


def run(protocol: Protocol, store: Store, images: Images, watcher: Watcher | None = None) -> None:
    """Compute and commit all cells that are not in the store; returns when none is open.

    Other processes may do the same with the same store. A cell that fails is recorded with its error. An interrupt (Ctrl-C) ends
    it: what was being computed is given up, what is committed stays, and the next call goes on.
    """
    if images.name != protocol.dataset:
        raise InputError(f"images must be those of the protocol, {protocol.dataset}, got {images.name}")
    with warnings.catch_warnings():
        # What had to be added to the noise is in each result.
        warnings.simplefilter("ignore", AccuracyWarning)
        _Sweep(protocol, store, images, watcher or _Nobody()).run()


class _Sweep:
    def __init__(self, protocol: Protocol, store: Store, images: Images, watcher: Watcher) -> None:
        self.protocol, self.store, self.images, self.watcher = protocol, store, images, watcher
        self.stop = threading.Event()
        self.commit = commit()
        self.open = units(protocol)
        self.known: set[str] = set()  # keys of finished cells
        self.last, self.looked = 0, 0.0  # the last of them, and when that was

    @cached_property
    def test(self) -> Points:
        """The test images, which all splits share."""
        return _points(self.images.X_test[: self.protocol.test])

    def run(self) -> None:
        self.watcher.begin(len(self.protocol), self._look())
        while self.open:
            split = self._next_split()
            if split is None:
                self.watcher.waiting(sum(len(unit.group.depths) for unit in self.open))
                time.sleep(_POLL)
            else:
                self._run_split(split)
            self.watcher.finished(self._look())

    def _look(self) -> list[Result]:
        """What have other processes finished?"""
        self.looked = time.monotonic()
        news = self.store.news(self.last)
        new = [result for _, key, result in news if key not in self.known]
        if news:
            self.last = news[-1][0]
            self.known |= {key for _, key, _ in news}
        if new:
            self.open = [unit for unit in self.open if not self._is_finished(unit)]
        return new

    def _is_finished(self, unit: Unit) -> bool:
        return all(unit.group.key(depth) in self.known for depth in unit.group.depths)

    def _next_split(self) -> Split | None:
        """A split with work left: one that nobody else is at, so that the angles are computed once, or else any."""
        contested = None
        for split in dict.fromkeys(unit.group.split for unit in self.open):
            numbers = [unit.number for unit in self.open if unit.group.split == split]
            first, count = numbers[0], numbers[-1] - numbers[0] + 1
            if self.store.claim(first, count):
                self.store.release(first, count)
                return split
            if contested is None and self._any_free(numbers):
                contested = split
        return contested

    def _any_free(self, numbers: list[int]) -> bool:
        for number in numbers:
            if self.store.claim(number):
                self.store.release(number)
                return True
        return False

    def _run_split(self, split: Split) -> None:
        """Compute what is claimable of a split, as many units at a time as there are threads for."""
        small = split.n_train <= SMALL
        workers = threads.count() if small else 1
        queue = self._claimed(split)
        ahead = [unit for _, unit in zip(range(workers), queue, strict=False)]
        if not ahead:
            return
        self.watcher.preparing(split)
        data = _Prepared(self.protocol, self.images, self.test, split)
        running: dict[Future[Finished], Unit] = {}
        pool = ThreadPoolExecutor(workers, thread_name_prefix="cell")
        with threadpool_limits(limits=1, user_api="blas") if small else nullcontext():
            try:
                while ahead or running:
                    running |= {pool.submit(self._compute, data, unit.group): unit for unit in ahead}
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        self._commit(running.pop(future), future.result())
                    ahead = [unit for _, unit in zip(range(workers - len(running)), queue, strict=False)]
            except BaseException:
                self.stop.set()  # the threads see it before their next step
                raise
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _claimed(self, split: Split) -> Iterator[Unit]:
        """Units of a split, claimed one by one. What others have finished is looked up after the claim: nothing is done twice."""
        for unit in [unit for unit in self.open if unit.group.split == split]:
            if not self.store.claim(unit.number):
                continue
            finished = self.store.has(unit.group)
            missing = tuple(depth for depth in unit.group.depths if depth not in finished)
            if missing:
                yield Unit(unit.number, unit.group.at(missing))
            else:
                self.store.release(unit.number)

    def _commit(self, unit: Unit, finished: Finished) -> None:
        self.store.add(finished)
        self.store.release(unit.number)
        self.known |= {key for key, _ in finished}
        self.open = [other for other in self.open if other.number != unit.number]
        others = self._look() if time.monotonic() > self.looked + _POLL else []
        self.watcher.finished([result for _, result in finished] + others)

    def _compute(self, data: _Prepared, group: Group) -> Finished:
        finished = []
        for depth in group.depths:
            start = time.perf_counter()
            try:
                outcome = data.cell(group, depth, self._step)
            except Exception as error:  # whatever it is: the other cells go on
                outcome = {"status": "failed", "error": f"{type(error).__name__}: {error}"}
            finished.append((group.key(depth), self._result(group, depth, time.perf_counter() - start, outcome)))
        return finished

    def _step(self, share: float = 0.0) -> None:
        if self.stop.is_set():
            raise _Stopped

    def _result(self, group: Group, depth: int, seconds: float, outcome: dict[str, Any]) -> Result:
        nothing = dict.fromkeys(
            ("validation_accuracy", "validation_log_loss", "test_accuracy", "test_log_loss", "noise_var", "attempts", "error")
        )
        return Result(
            dataset=self.protocol.dataset,
            n_train=group.split.n_train,
            n_validation=self.protocol.validation,
            n_test=self.protocol.test,
            repeat=group.split.repeat,
            seed=self.protocol.seed,
            activation=group.activation,
            rank=group.rank,
            kind=group.kind,
            depth=depth,
            weight_var=group.weight_var,
            bias_var=group.bias_var,
            seconds=seconds,
            version=__version__,
            commit=self.commit,
            finished=now(),
            **{"status": "done", **nothing, **outcome},
        )


class _Prepared:
    """The images of a split, as points on a sphere, and the angles between them."""

    def __init__(self, protocol: Protocol, images: Images, test: Points, split: Split) -> None:
        train, validation = rows(protocol, split, len(images.y))
        self.policy, self.noise_var = protocol.policy, protocol.noise_var
        self.targets = np.eye(_CLASSES)[images.y[train]] - 0.1
        self.labels = np.concatenate([images.y[validation], images.y_test[: len(test)]])
        self.others = _points(images.X[validation]), test
        points = _points(images.X[train])
        several = sum(len(group.depths) for group in protocol.groups if group.split == split) > 1
        keep = several and 8 * len(train) * (len(train) // 2 + len(self.labels)) <= _KEPT
        self.points = sphere.on_sphere(points, sphere.window(self.others[0], points), keep=keep)
        self.angles = [sphere.half_angles(some, points) for some in self.others] if keep else None

    def cell(self, group: Group, depth: int, step: Any) -> dict[str, Any]:
        """Fit, predict and score."""
        posterior = self._posterior(group, depth, step)
        mean = self._mean(posterior, step)
        if not np.isfinite(mean).all():
            raise MnngpError("the posterior means are not finite")
        right = mean.argmax(axis=1) == self.labels
        parts = slice(0, len(self.others[0])), slice(len(self.others[0]), None)
        validation, test = (Evidence(mean[part], self.labels[part]) for part in parts)
        sharpness = validation.sharpness()
        return {
            "validation_accuracy": float(np.mean(right[parts[0]])),
            "validation_log_loss": validation.log_loss(sharpness),
            "test_accuracy": float(np.mean(right[parts[1]])),
            "test_log_loss": test.log_loss(sharpness),
            "noise_var": float(posterior.noise_var[0]),
            "attempts": posterior.report.attempts,
        }

    def _posterior(self, group: Group, depth: int, step: Any) -> Posterior:
        noise = np.full(len(self.points), self.noise_var)
        return Posterior.on(group.kernel(depth), self.points, self.targets, noise, policy=self.policy, progress=step)

    def _mean(self, posterior: Posterior, step: Any) -> Matrix:
        """The posterior means at the other images, a part of them at a time."""
        curve = sphere.curve(posterior._network, float(self.points.square_lengths[0]), self.points.window)
        result, n = np.empty((len(self.labels), _CLASSES)), len(self.points)

        def task(part: tuple[int, int, int]) -> None:
            step()
            which, start, stop = part
            some = self.others[which]
            if self.angles is not None:
                angles = self.angles[which][start:stop]
            else:
                angles = sphere.half_angles(Points(some.directions[start:stop], some.square_lengths[start:stop]), self.points)
            kernel = np.empty_like(angles)
            curve.entries(angles, kernel, contraction=posterior.report.contraction)
            place = start + which * len(self.others[0])
            result[place : place + len(kernel)] = posterior._mean(kernel, np.full(len(kernel), posterior._deviation[0]))

        height = _ROWS * max(1, _PART // (n * _ROWS))
        parts = [
            (which, start, min(start + height, len(some)))
            for which, some in enumerate(self.others)
            for start in range(0, len(some), height)
        ]
        threads.spread(task, parts, work=len(result) * n)
        return result


def rows(protocol: Protocol, split: Split, count: int) -> tuple[Labels, Labels]:
    """Which of ``count`` original training images train, and which validate."""
    generator = np.random.default_rng(np.random.SeedSequence([protocol.seed, split.repeat]))
    order = generator.permutation(count)
    return order[: split.n_train], order[split.n_train : split.n_train + protocol.validation]


def _points(pixels: Matrix) -> Points:
    return Points.of("X", standardised(pixels), np.dtype(np.float64))


# --- probabilities ------------------------------------------------------------------------------------------------------


class Evidence:
    """Posterior means and the right labels, as the log loss of ``softmax(a · mean)`` needs them, whatever a is."""

    def __init__(self, mean: Matrix, labels: Labels) -> None:
        gaps = np.ascontiguousarray(mean.T)  # a class a row: sums over classes are quick
        gaps -= gaps.max(axis=0)
        self.gaps, self.own = gaps, gaps[labels, np.arange(len(labels))]

    def log_loss(self, a: float) -> float:
        return float(np.mean(np.log(np.exp(a * self.gaps).sum(axis=0)) - a * self.own))

    def slopes(self, a: float) -> tuple[float, float]:
        """First and second derivative of the log loss in a."""
        odds = np.exp(a * self.gaps)
        total = odds.sum(axis=0)
        odds *= self.gaps
        expected = odds.sum(axis=0) / total
        odds *= self.gaps
        return float(np.mean(expected - self.own)), float(np.mean(odds.sum(axis=0) / total - expected**2))

    def sharpness(self) -> float:
        """The a ≥ 0 with the least log loss, by Newton's method inside a bracket: the loss is convex in a.

        It ends where no more than 10⁻¹⁴ can be gained: if no label is wrong, there is always a little.
        """
        widest = -float(self.gaps.min())
        if widest == 0.0 or self.slopes(0.0)[0] >= 0.0:
            return 0.0
        low, high, a = 0.0, _SHARPEST / widest, 4.0 / widest
        for _ in range(100):
            slope, bend = self.slopes(a)
            if slope * slope <= 1e-14 * bend:
                break
            low, high = (a, high) if slope < 0.0 else (low, a)
            newton = a - slope / bend if bend > 0.0 else math.inf
            a = newton if low < newton < high else 0.5 * (low + high)
        return a
