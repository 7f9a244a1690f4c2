"""Choosing among convolutional networks, within a stated time.

The kernel of a pair of images takes from a hundredth of a millisecond to ten, as a network will
have it: so what each will take is estimated before, from the steps of its recursion and a rate that
is measured. All networks are compared by leave-one-out on a few images, the best few of them, also
with flips, on more, and the last two on as many as the time allows. Networks that are too dear, for
the first round or for the kernel of all images in the end, are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp._system import threads
from mnngp._typing import Matrix
from mnngp.errors import collect_warnings
from mnngp.inference.choice import Trial, trial_of
from mnngp.inference.costs import duration
from mnngp.inference.image_networks import Candidate, ImageSpace
from mnngp.inference.observations import Observations
from mnngp.inference.scoring import Objective

# images that networks are compared on: few sizes, so that a machine that is a little slower today
# chooses the same
_SIZES = (50, 70, 100, 140, 200, 280, 400, 560, 800, 1100, 1600, 2000)
_SURVIVORS = (4, 2)  # networks that are compared again, and those of them at the end
_SHARES = (0.35, 0.5, 1.0)  # of the time that is left, for each round
_DECOMPOSITION = 1e-9  # seconds, times the cube of the images
_MEASURED_ON = 24  # images
Say = Callable[[str], object]


@dataclass(frozen=True)
class ImageTrial(Trial):
    """One network that was tried."""

    def expected(self, images: int, dtype: Any) -> float:
        """Seconds that the kernel of so many images will take, as far as this trial tells."""
        return _slower(dtype) * self.seconds * (images / max(1, self.n_rows)) ** 2 / threads.count()

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "flips": self.kernel.get_params()["flips"]}


class ImageChoice:
    """What is compared, and what it takes.

    ``versions`` are the images of the data as each kind of features has them.
    """

    def __init__(
        self,
        data: Observations,
        versions: Mapping[str, Matrix],
        objective: Objective,
        order: NDArray[np.int64],
        jobs: int,
    ) -> None:
        self.data, self.versions, self.objective = data, versions, objective
        self.order, self.jobs = order, jobs
        self.rate = 0.0  # seconds for a step of the recursion
        self.slower: dict[Candidate, float] = {}  # than that, each one, where it is known
        self.found: dict[tuple[Candidate, int], ImageTrial] = {}

    def among(
        self,
        space: ImageSpace,
        seconds: tuple[float, float],
        budget: int,
        say: Say,
        done: Callable[[float], Any],
    ) -> list[ImageTrial]:
        """At most ``budget`` networks, the best first.

        The comparison takes about as many ``seconds`` as the first, and the kernel of all images,
        of the best, the second.
        """
        contenders = space.candidates(self.versions)[:budget]
        self._measure(contenders[0])
        began, size = time.perf_counter(), min(_SIZES[0], len(self.data))
        for number, share in enumerate(_SHARES):
            left = share * (seconds[0] - (time.perf_counter() - began))
            contenders = self._fitting(contenders, seconds[1] / _slower(space.dtype))
            contenders = self._affordable(contenders, size, left)
            size = self._size(contenders, size, left)
            expected = self._together(contenders, size)
            if expected > 0.0:
                say(
                    f"comparing {len(contenders)} networks on {size:,} of {len(self.data):,} "
                    f"images: {duration(expected)}"
                )
            ranked = self._round(contenders, size, lambda part: done(part / len(_SHARES)))
            if number < len(_SURVIVORS):
                contenders = ranked[: _SURVIVORS[number]]
            if number == 0:
                contenders += [one.flipped for one in ranked[:2]][: budget - len(self.found)]
        return sorted(self._last(), key=lambda trial: (-trial.n_rows, -trial.score))

    def _measure(self, candidate: Candidate) -> None:
        """Seconds for a step of the recursion, in one thread, when all is compiled."""
        some = self.versions[candidate.features][self.order[:_MEASURED_ON]]
        some = np.resize(some, (_MEASURED_ON, some.shape[1]))

        def evaluate(rows: Matrix) -> float:
            began = time.perf_counter()
            candidate.kernel(rows)
            return time.perf_counter() - began

        took = threads.parallel_map(evaluate, [some[:2], some, some, some], 1)[1:]
        self.rate = min(took) / (candidate.updates * _pairs(_MEASURED_ON))

    def _seconds(self, candidate: Candidate, size: int) -> float:
        """What a network takes on so many images; nothing if that is known."""
        if (candidate, size) in self.found:
            return 0.0
        steps = candidate.updates * _pairs(size)
        slower = self.slower.get(candidate, 1.0)
        return slower * self.rate * steps + _DECOMPOSITION * size**3

    def _together(self, candidates: Sequence[Candidate], size: int) -> float:
        each = [self._seconds(candidate, size) for candidate in candidates]
        return max(sum(each) / self.jobs, *each)

    def _fitting(self, candidates: list[Candidate], seconds: float) -> list[Candidate]:
        """Those whose kernel of all images takes no longer, or else the cheapest.

        One that did well may take up to twice as long as it seemed to.
        """
        known = {candidate for candidate, _ in self.found}
        steps = self.rate * _pairs(len(self.data))
        took = {
            one: self.slower.get(one, 1.0) * steps * one.updates / (2.0 if one in known else 1.0)
            for one in candidates
        }
        most = max(seconds * threads.count(), min(took.values()))
        return [one for one in candidates if took[one] <= most]

    def _affordable(
        self, candidates: list[Candidate], size: int, seconds: float
    ) -> list[Candidate]:
        """Without the dearest, as long as all together take too long."""
        cheap = sorted(candidates, key=lambda one: self._seconds(one, size))
        while len(cheap) > 1 and self._together(cheap, size) > seconds:
            cheap.pop()
        return [one for one in candidates if one in cheap]

    def _size(self, candidates: list[Candidate], least: int, seconds: float) -> int:
        """The most images that there is time for."""
        n = len(self.data)
        sizes = [size for size in _SIZES if least < size < n] + [min(n, _SIZES[-1])]
        within = [size for size in sizes if self._together(candidates, size) <= seconds]
        return max(within, default=least)

    def _round(
        self, candidates: list[Candidate], size: int, done: Callable[[float], Any]
    ) -> list[Candidate]:
        """The candidates by their scores, the best first."""
        chosen = np.sort(self.order[:size])
        few = self.data.subset(chosen)
        data = {
            name: replace(few, X=self.versions[name][chosen])
            for name in {candidate.features for candidate in candidates}
        }

        def one(candidate: Candidate) -> ImageTrial:
            kernel, mine = candidate.kernel, data[candidate.features]
            with collect_warnings():  # what is chosen in the end says it again
                points = kernel.prepared("X", kernel.checked("X", mine.X))
                result = trial_of(kernel, points, mine, self.objective)
            done(1.0 / len(candidates))
            return ImageTrial(**{**vars(result), "features": candidate.features})

        new = [candidate for candidate in candidates if (candidate, size) not in self.found]
        new.sort(key=lambda one: -one.updates)  # so that no thread waits for a long one at the end
        for candidate, trial in zip(new, threads.parallel_map(one, new, self.jobs), strict=True):
            self.slower[candidate] = 1.0
            self.slower[candidate] = trial.seconds / self._seconds(candidate, size)
            self.slower.setdefault(candidate.flipped, self.slower[candidate])
            self.found[candidate, size] = trial
        return sorted(candidates, key=lambda one: -self.found[one, size].score)

    def _last(self) -> list[ImageTrial]:
        """The trial of each network on the most images."""
        last: dict[Candidate, ImageTrial] = {}
        for (candidate, size), trial in self.found.items():
            if candidate not in last or size > last[candidate].n_rows:
                last[candidate] = trial
        return list(last.values())


def _slower(dtype: Any) -> float:
    """Than single precision."""
    return 2.0 if np.dtype(dtype) == np.float64 else 1.0


def _pairs(images: int) -> float:
    return 0.5 * images * (images + 1)


def in_strata(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """A random order, of which every beginning has each label in its proportion."""
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        place[members] = (rng.permutation(len(members)) + rng.random(len(members))) / len(members)
    return np.argsort(place, kind="stable")
