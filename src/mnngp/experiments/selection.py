"""From finished cells to rows of a table: which hyperparameters are selected, and how they do.

The selected hyperparameters are those with the highest mean validation accuracy over the repeats; a
tie goes to the lower mean validation log loss, and then to the first in order of rank, depth, bias
and weight variance, so that it does not matter in which order cells were finished. Test images have
no say. A candidate counts once all of its repeats are done.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev
from typing import NamedTuple

from mnngp import _validation
from mnngp.errors import InputError
from mnngp.experiments.records import Result

_DATASETS = ("digits", "mnist", "fashion-mnist", "cifar10")  # in the order of the tables
_KINDS = ("nngp", "ntk", "finite")
_ACTIVATIONS = ("maxout", "relu", "tanh")
# data, size, kind, activation, and the width and rank that a row is limited to
_Key = tuple[str, int, str, str, int | None, int | None]


class Setting(NamedTuple):
    """Everything that a result depends on but the repeat."""

    dataset: str
    n_train: int
    activation: str
    kind: str
    rank: int | None
    depth: int
    bias_var: float
    weight_var: float
    width: int | None = None  # infinite
    training: str | None = None
    options: str | None = None  # what is not as usual

    @staticmethod
    def of(result: Result) -> Setting:
        return Setting(*(getattr(result, name) for name in Setting._fields))

    @property
    def order(self) -> tuple[object, ...]:
        first = row_order(self.dataset, self.n_train, self.kind, self.activation)
        shape = (self.width or 0, self.rank or 0, self.depth)
        rest = (self.training or "", self.options or "")
        return (*first, *shape, self.bias_var, self.weight_var, *rest)


@dataclass(frozen=True)
class Spread:
    """A mean over repeats.

    ``deviation`` is the standard deviation over the repeats, None for a single one.
    ``standard_error`` is that over the root of their number; for a single repeat, which shows no
    spread, it is the binomial one of the test images. (That one is too small where the training set
    matters more than the test images: below a thousand images or so.)
    """

    mean: float
    deviation: float | None
    standard_error: float
    repeats: int

    @staticmethod
    def of(accuracies: Sequence[float], images: int) -> Spread:
        count, average = len(accuracies), fmean(accuracies)
        if count == 1:
            binomial = math.sqrt(max(average * (1.0 - average), 0.0) / max(images, 1))
            return Spread(average, None, binomial, 1)
        deviation = stdev(accuracies, average)
        return Spread(average, deviation, deviation / math.sqrt(count), count)

    @property
    def single(self) -> float:
        """What one repeat is off by, typically."""
        return self.standard_error if self.deviation is None else self.deviation


@dataclass(frozen=True)
class Candidate:
    """One combination of hyperparameters, and its repeats, all done."""

    setting: Setting
    results: tuple[Result, ...]

    def _known(self, name: str) -> list[float]:
        """What the repeats have in a field, where they have something."""
        values = (getattr(result, name) for result in self.results)
        return [value for value in values if value is not None]

    def _mean(self, name: str) -> float | None:
        """The mean over the repeats, if there is a value everywhere."""
        values = self._known(name)
        return fmean(values) if values and len(values) == len(self.results) else None

    @cached_property
    def validation_accuracy(self) -> float | None:
        return self._mean("validation_accuracy")

    @cached_property
    def test_accuracy(self) -> Spread | None:
        values = self._known("test_accuracy")
        complete = len(values) == len(self.results)
        return Spread.of(values, self.results[0].n_test) if complete else None

    @cached_property
    def test_log_loss(self) -> float | None:
        return self._mean("test_log_loss")

    @property
    def noise_var(self) -> float | None:
        """The largest that a repeat needed."""
        return max(self._known("noise_var"), default=None)

    @property
    def raised(self) -> int:
        """How many repeats could not be factored with the noise asked for."""
        return sum((result.attempts or 1) > 1 for result in self.results)

    @property
    def warned(self) -> int:
        """How many repeats are less accurate than usual."""
        return sum(result.warning is not None for result in self.results)

    @property
    def warnings(self) -> list[str]:
        """Why they are, each reason once."""
        texts = (result.warning or "" for result in self.results)
        return list(dict.fromkeys(line for text in texts for line in text.splitlines()))

    @property
    def seconds(self) -> float | None:
        """Of one repeat, on average."""
        return self._mean("seconds")

    @property
    def merit(self) -> tuple[object, ...]:
        """Sorts candidates, the best first; what was not measured comes last."""
        accuracy, loss = self.validation_accuracy, self._mean("validation_log_loss")
        return (
            math.inf if accuracy is None else -accuracy,
            math.inf if loss is None else loss,
            self.setting.order,
        )


@dataclass(frozen=True)
class Row:
    """All candidates for one row: one activation at one number of training images.

    Maxout has a row over all of its ranks, which is what the paper reports, and one for each rank.
    Networks of finite width have one over all widths and ranks, one for each width, and one for
    each width and rank.
    """

    dataset: str
    n_train: int
    activation: str
    kind: str
    rank: int | None  # None: over all ranks, or of an activation that has none
    repeats: int
    candidates: tuple[Candidate, ...]  # complete ones, the best first
    incomplete: int  # candidates with repeats that are still to come
    failed: int  # candidates with a repeat that failed
    seconds: float  # of all cells, incomplete candidates included
    diverged: int = 0  # candidates with a repeat that diverged
    width: int | None = None  # None: infinite, or over all widths

    @property
    def partial(self) -> bool:
        """Whether it is of one rank or one width only, of several that there may be."""
        return self.rank is not None or self.width is not None

    @property
    def total(self) -> int:
        """How many candidates there are, whatever became of them."""
        return len(self.candidates) + self.incomplete + self.failed + self.diverged

    @property
    def inaccurate(self) -> int:
        """How many complete candidates have a repeat that is less accurate than usual."""
        return sum(candidate.warned > 0 for candidate in self.candidates)

    @property
    def best(self) -> Candidate | None:
        return self.candidates[0] if self.candidates else None


def rows(results: Iterable[Result], repeats: int | None = None) -> list[Row]:
    """Sort the results of one run, in any order, into rows in the order of the table.

    So many ``repeats`` make a candidate complete, and later ones are left out. By default as many
    as there are anywhere in the results; fewer, to look at a run that is under way.
    """
    results = list(results)
    if repeats is None:
        repeats = max((result.repeat + 1 for result in results), default=1)
    _validation.positive_int("repeats", repeats)
    cells: dict[Setting, dict[int, Result]] = defaultdict(dict)
    for result in results:
        if result.repeat >= repeats:
            continue
        setting = Setting.of(result)
        if result.repeat in cells[setting]:
            raise InputError(
                f"results must be of one run, but repeat {result.repeat} is twice "
                f"there for {setting}"
            )
        cells[setting][result.repeat] = result

    members: dict[_Key, dict[Setting, dict[int, Result]]] = defaultdict(dict)
    for setting in sorted(cells, key=lambda setting: setting.order):
        key = (setting.dataset, setting.n_train, setting.kind, setting.activation)
        for width, rank in ((None, None), (setting.width, None), (setting.width, setting.rank)):
            members[*key, width, rank][setting] = cells[setting]
    in_order = sorted(members, key=lambda key: (*row_order(*key[:4]), key[4] or 0, key[5] or 0))
    return [_row(key, repeats, members[key]) for key in in_order]


def _row(key: _Key, repeats: int, cells: dict[Setting, dict[int, Result]]) -> Row:
    dataset, n_train, kind, activation, width, rank = key
    candidates, seconds = [], 0.0
    counts: Counter[str] = Counter()  # of candidates that do not count
    for setting, by_repeat in cells.items():
        seconds += math.fsum(result.seconds or 0.0 for result in by_repeat.values())
        statuses = {result.status for result in by_repeat.values()}
        if statuses != {"done"}:
            counts["failed" if "failed" in statuses else "diverged"] += 1
        elif len(by_repeat) < repeats:
            counts["incomplete"] += 1
        else:
            results = tuple(by_repeat[repeat] for repeat in sorted(by_repeat))
            candidates.append(Candidate(setting, results))
    candidates.sort(key=lambda candidate: candidate.merit)
    row = (dataset, n_train, activation, kind, rank, repeats, tuple(candidates))
    return Row(*row, counts["incomplete"], counts["failed"], seconds, counts["diverged"], width)


def row_order(dataset: str, n_train: int, kind: str, activation: str) -> tuple[object, ...]:
    """Sorts rows: what is known in the order of the tables, the rest by name."""

    def rank(name: str, known: tuple[str, ...]) -> tuple[int, str]:
        return (known.index(name) if name in known else len(known), name)

    networks = (*rank(kind, _KINDS), *rank(activation, _ACTIVATIONS))
    return (*rank(dataset, _DATASETS), n_train, *networks)
