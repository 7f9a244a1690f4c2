"""The columns of a table: how they are learned from training rows, and what they become.

There are two kinds that become features: numbers (or dates) and categories. What kind of prediction
the target calls for is learned here, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from mnngp._typing import Vector
from mnngp.errors import InputError, ModelFileError
from mnngp.tables import parsing

MOST_CATEGORIES = 100  # of one column; the rarer ones count as none of them
FEW_LABELS = 20  # whole numbers this few may be meant as classes
LARGEST_TARGET = 1e150  # sums of squares must be finite
_FAR = 0.5  # of the width of the training values beyond either end


@dataclass(frozen=True)
class Number:
    """A column of numbers, or of dates as days since 1970-01-01.

    Gaps become the median, and are told apart if training had any.
    """

    name: str
    median: float
    gaps: bool
    varies: bool = True  # False: all its values are the same, and only the gaps tell something
    dates: bool = False
    low: float | None = None  # of the training values; None in files of version 0.1
    high: float | None = None

    @property
    def features(self) -> list[str]:
        return [self.name] * self.varies + [f"{self.name} is missing"] * self.gaps

    def fill(self, column: pl.Series, result: Vector, strict: bool) -> None:
        values = self._read(column, strict)
        if self.varies:
            result[:, 0] = values.fill_null(self.median).to_numpy()
        if self.gaps:
            result[:, -1] = values.is_null().to_numpy()

    def _read(self, column: pl.Series, strict: bool) -> pl.Series:
        """Its values; unless ``strict``, cells that cannot be read are gaps if they are few."""
        values = parsing.parse_days(column) if self.dates else parsing.parse_numbers(column)
        if values is None:
            raise parsing.not_of_kind(column, self.dates)
        finite = parsing.keep_where(values, values.is_finite().fill_null(False))
        bad = parsing.unreadable(column, finite)
        if strict or 2 * bad.sum() > parsing.has_value(column).sum():
            if parsing.unreadable(column, values).any():
                raise parsing.not_of_kind(column, self.dates)
            parsing.check_finite(values)
        return finite

    def surprises(self, column: pl.Series) -> list[str]:
        values = self._read(column, strict=False)
        lines = [] if self.gaps else _new_gaps(column, "the median stands in")
        bad = parsing.unreadable(column, values)
        if bad.any():
            kind = "dates like 2024-05-31" if self.dates else "numbers"
            consequence = "counts as a gap" if bad.sum() == 1 else "count as gaps"
            stand_in = "" if self.gaps else ", for which the median stands in"
            lines.append(
                f"column {self.name!r}: {_share(bad)} cannot be read as {kind} and "
                f"{consequence}{stand_in}, first {parsing.first_cell(column, bad)}"
            )
        far = self._far(values)
        if far.any():
            lines.append(
                f"column {self.name!r}: {_share(far)} {'is' if far.sum() == 1 else 'are'} far "
                f"outside of {self._range}, what training had, first "
                f"{parsing.first_cell(column, far)}"
            )
        return lines

    def _far(self, values: pl.Series) -> pl.Series:
        """Which values are beyond what training had by more than half of its width."""
        if self.low is None or self.high is None or not self.varies:
            return values.is_null() & False
        margin = _FAR * self.high - _FAR * self.low
        return ((values < self.low - margin) | (values > self.high + margin)).fill_null(False)

    @property
    def _range(self) -> str:
        ends = (self.low or 0.0, self.high or 0.0)
        if self.dates:
            return " to ".join(str(np.datetime64(math.floor(end), "D")) for end in ends)
        return " to ".join(f"{end:.10g}" for end in ends)


@dataclass(frozen=True)
class Category:
    """A column of categories, a feature each that is 1 or 0.

    A gap is one more category if training had any; what is new is none of them.
    """

    name: str
    categories: tuple[str, ...]
    gaps: bool

    @property
    def features(self) -> list[str]:
        names = [f"{self.name} = {category}" for category in self.categories]
        return names + [f"{self.name} is missing"] * self.gaps

    def fill(self, column: pl.Series, result: Vector, strict: bool) -> None:
        values = parsing.parse_categories(column)
        codes = values.cast(pl.Enum(list(self.categories)), strict=False).to_physical()
        result[codes.is_not_null().arg_true().to_numpy(), codes.drop_nulls().to_numpy()] = 1.0
        if self.gaps:
            result[:, -1] = values.is_null().to_numpy()

    def surprises(self, column: pl.Series) -> list[str]:
        values = parsing.parse_categories(column).drop_nulls()
        new = values.filter(~values.is_in(list(self.categories)))
        lines = [] if self.gaps else _new_gaps(column, "they are none of the categories")
        if len(new):
            rarely = " or had too rarely" * (len(self.categories) == MOST_CATEGORIES)
            lines.append(
                f"column {self.name!r}: {len(new)} of {len(column)} rows hold values that training "
                f"did not have{rarely} ({_first_names(new.unique().sort().to_list())}); it had "
                f"{_first_names(self.categories)}"
            )
        return lines


def quoted(names: Iterable[str]) -> str:
    """Names in quotes, with commas between them."""
    return ", ".join(map(repr, names))


def _first_names(names: Sequence[str]) -> str:
    return quoted(names[:3]) + ", …" * (len(names) > 3)


def _share(where: pl.Series) -> str:
    return f"{where.sum()} of {len(where)} rows"


def _new_gaps(column: pl.Series, consequence: str) -> list[str]:
    """What to say of gaps in a column that had none."""
    gaps = len(column) - int(parsing.has_value(column).sum())
    if not gaps:
        return []
    count = f"all {gaps}" if gaps == len(column) > 1 else f"{gaps} of {len(column)}"
    rows = f"{count} rows {'is a gap' if gaps == 1 else 'are gaps'}"
    return [f"column {column.name!r}: {rows}, of which training had none; {consequence}"]


def learn_column(column: pl.Series, whole: pl.Series, notes: list[str]) -> Number | Category | None:
    """What a column of the training rows is; None if it is left out.

    ``whole`` has gaps in the place of the other rows, so that rows are counted as the table does.
    """
    name = column.name
    given = column.filter(parsing.has_value(column))
    gaps = len(given) < len(column)
    if len(given) == 0:
        notes.append(f"column {name!r} is left out: it has no values")
        return None
    if given.dtype == pl.Boolean or given.dtype in parsing.CATEGORICAL:
        return _learn_category(given, gaps, notes)
    numbers = _nearly_all(given, parsing.parse_numbers(given))
    days = None if numbers is not None else _nearly_all(given, parsing.parse_days(given))
    hint = parsing.text_hint(whole, numbers, days) if given.n_unique() > 1 else None
    if hint is not None:
        more: list[str] = []
        learned = _learn_category(given, gaps, more)
        if learned is None:
            notes.append(f"{hint}, so it is taken as text and left out")
        else:
            notes += [
                f"{hint}, so it is taken as text, {len(learned.categories)} categories",
                *more,
            ]
        return learned
    values = days if numbers is None else numbers
    if values is None:
        return _learn_category(given, gaps, notes)
    return _learn_number(given, whole, values, numbers is None, gaps, notes)


def _learn_number(
    given: pl.Series, whole: pl.Series, values: pl.Series, dates: bool, gaps: bool, notes: list[str]
) -> Number | None:
    name = given.name
    read = parsing.parse_days(whole) if dates else parsing.parse_numbers(whole)
    assert read is not None  # as values are
    parsing.check_finite(read)
    if values.null_count():
        bad = parsing.unreadable(whole, read)
        verb = "is none and counts as a gap" if bad.sum() == 1 else "are none and count as gaps"
        notes.append(
            f"column {name!r} holds {'dates' if dates else 'numbers'}, but {bad.sum()} of "
            f"{len(given)} values {verb}, first {parsing.first_cell(whole, bad)}"
        )
        values, gaps = values.drop_nulls(), True
    varies = values.n_unique() > 1
    if not varies and not gaps:
        notes.append(f"column {name!r} is left out: it is always {given[0]}")
        return None
    if isinstance(given.dtype, pl.Duration):
        notes.append(f"column {name!r} holds durations, which become days")
    if dates:
        notes.append(f"column {name!r} holds dates, which become days since 1970-01-01")
    array = values.to_numpy()
    median = values.quantile(0.5, interpolation="lower")
    assert median is not None  # there are values
    return Number(name, float(median), gaps, varies, dates, float(array.min()), float(array.max()))


def _learn_category(given: pl.Series, gaps: bool, notes: list[str]) -> Category | None:
    name = given.name
    counts = parsing.parse_categories(given).rename("category").value_counts(name="count")
    if len(counts) == 1 and not gaps:
        notes.append(f"column {name!r} is left out: it is always {counts['category'][0]!r}")
        return None
    if _are_identifiers(len(counts), len(given)):
        notes.append(
            f"column {name!r} is left out: {len(counts)} different texts in "
            f"{len(given)} rows are no categories"
        )
        return None
    if len(counts) > MOST_CATEGORIES:
        notes.append(
            f"column {name!r}: {MOST_CATEGORIES} of {len(counts)} categories are "
            "features, the most frequent ones"
        )
        # equally frequent ones: by name
        counts = counts.sort(["count", "category"], descending=[True, False])
    return Category(name, tuple(sorted(counts["category"][:MOST_CATEGORIES].to_list())), gaps)


def learn_task(column: pl.Series, task: str | None, notes: list[str]) -> str:
    """What kind of prediction the values of the target call for: regression or classification."""
    labels = column.dtype == pl.Boolean or column.dtype in parsing.CATEGORICAL
    if task is None:
        readable = not parsing.unreadable(column, parsing.parse_numbers(column)).any()
        regression = not labels and readable
    else:
        regression = task == "regression"
    if regression:
        _check_regression(column, task, notes)
        return "regression"
    _check_classification(column, task, notes)
    return "classification"


def _check_regression(column: pl.Series, task: str | None, notes: list[str]) -> None:
    name = column.name
    values = target_numbers(column).drop_nulls()
    different = values.unique()
    if len(different) == 1:
        raise InputError(
            f"column {name!r} is always {different[0]:.15g}: there is nothing to predict"
        )
    if task is None:
        remedy = "if they are classes, say task='classification' (--task classification)"
        whole = bool((different == different.floor()).all())
        if whole and len(different) <= min(FEW_LABELS, len(values) / 2):
            notes.append(
                f"column {name!r} has only {len(different)} different values, whole numbers, and "
                f"is predicted as a number; {remedy}"
            )
        rounded = parsing.rounding_hint(column)
        if rounded is not None:
            notes.append(f"{rounded}; {remedy}")
    if isinstance(column.dtype, pl.Duration):
        notes.append(f"column {name!r} holds durations, which become days")


def _check_classification(column: pl.Series, task: str | None, notes: list[str]) -> None:
    name, texts = column.name, parsing.parse_text(column)
    different = texts.drop_nulls().unique()
    if len(different) == 1:
        raise InputError(f"column {name!r} is always {different[0]!r}: there is nothing to predict")
    hint = parsing.number_hint(column) if task is None else None
    if _are_identifiers(len(different), column.count()):
        if hint is None:
            odd = parsing.unreadable(texts, parsing.parse_numbers(texts))
            example = parsing.first_cell(texts, odd if odd.any() else texts.is_not_null())
            hint = (
                f"column {name!r} has {len(different)} different texts in {column.count()} rows, "
                f"which are no classes, such as {example}"
            )
        raise InputError(f"{hint}; numbers must be written like 1234.5")
    if hint is not None:
        notes.append(f"{hint}, so it is taken as text, {len(different)} classes")


def target_numbers(column: pl.Series) -> pl.Series:
    """A target as numbers that can be reckoned with, with nulls for gaps."""
    values = parsing.parse_numbers(column)
    if values is None or parsing.unreadable(column, values).any():
        raise parsing.not_of_kind(column, dates=False)
    parsing.check_finite(values)
    large = values.filter((values.abs() > LARGEST_TARGET).fill_null(False))
    if len(large):
        raise InputError(
            f"column {column.name!r} is too large ({large[0]:g}); give it in other units"
        )
    return values


def _nearly_all(column: pl.Series, values: pl.Series | None) -> pl.Series | None:
    """The values, if nearly no cell was unreadable."""
    if values is None:
        return None
    enough = max(1.0, parsing.NEARLY_ALL * int(parsing.has_value(column).sum()))
    return values if values.count() >= enough else None


def _are_identifiers(different: int, count: int) -> bool:
    """Whether texts are names of single rows rather than of groups."""
    return different > FEW_LABELS and 2 * different > count


def typed_fields(data: Any, types: Mapping[str, type], what: str) -> list[Any]:
    """The values of a dictionary of a model file, with exactly these keys and types."""
    if type(data) is not dict or set(data) != set(types):
        raise ModelFileError(f"{what} must have the keys {', '.join(types)}")
    for key, kind in types.items():
        if type(data[key]) is not kind:
            raise ModelFileError(
                f"{what}: {key} must be of type {kind.__name__}, got {type(data[key]).__name__}"
            )
    return [data[key] for key in types]


def column_from_dict(data: Any) -> Number | Category:
    """A column as a model file describes it, checked."""
    if type(data) is dict and "categories" in data:
        types = {"name": str, "categories": list, "gaps": bool}
        name, categories, gaps = typed_fields(data, types, "a column of categories")
        if not 1 <= len(categories) <= MOST_CATEGORIES:
            raise ModelFileError(
                f"column {name!r} must have 1 to {MOST_CATEGORIES} categories, "
                f"got {len(categories)}"
            )
        texts = {category for category in categories if type(category) is str}
        if len(texts) < len(categories):
            raise ModelFileError(f"the categories of column {name!r} must be different texts")
        return Category(name, tuple(categories), gaps)
    types = {"name": str, "median": float, "gaps": bool, "varies": bool, "dates": bool}
    if type(data) is dict and {"low", "high"} & set(data):  # version 0.1 had none
        types |= {"low": float, "high": float}
    name, median, gaps, varies, dates, *ends = typed_fields(data, types, "a column of numbers")
    if not math.isfinite(median) or not (gaps or varies):
        raise ModelFileError(f"column {name!r} must have a finite median and at least one feature")
    if ends and not -math.inf < ends[0] <= median <= ends[1] < math.inf:
        raise ModelFileError(
            f"column {name!r} must have finite bounds around its median, got "
            f"{ends[0]} and {ends[1]}"
        )
    return Number(name, median, gaps, varies, dates, *ends)
