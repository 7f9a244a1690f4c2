"""The two kinds of columns that become features: numbers (or dates) and categories."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from mnngp._typing import Vector
from mnngp.data import parsing
from mnngp.errors import ModelFileError

MOST_CATEGORIES = 100  # of one column; the rarer ones count as none of them
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
                f"did not have{rarely} "
                f"({_first_names(new.unique().sort().to_list())}); it had "
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
