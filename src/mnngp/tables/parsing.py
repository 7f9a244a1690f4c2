"""What the cells of a column say: numbers, dates, durations or text, with nulls for gaps.

And, where a column looks like numbers or dates but is taken as text, why.
"""

from __future__ import annotations

import shlex
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from mnngp.errors import InputError

CATEGORICAL = (pl.Categorical, pl.Enum)
_DAY = {"ns": 86400e9, "us": 86400e6, "ms": 86400e3}  # by the unit of time
# A date in full and nothing else: a parser alone would take 22-03-01 for a day of the year 22.
_DATE = r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[ T][0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?)?$"
_TIMES = ("", " %H:%M:%S%.f", "T%H:%M:%S%.f", " %H:%M", "T%H:%M")
NEARLY_ALL = 0.9  # of a column's values are numbers, or dates: the others are mistakes
_EXACT = 2.0**53  # whole numbers up to here are told apart by floating point
_WHOLE = r"^[+-]?[0-9]{16,300}$"
_COMMA = r"^[+-]?[0-9]*,[0-9]+$"
_GROUPS = (
    r"^[+-]?[0-9]{1,3}(?:(?:,[0-9]{3})+(?:\.[0-9]*)?|(?:\.[0-9]{3})+(?:,[0-9]*)?"
    r"|(?:[ '’\u00a0\u202f][0-9]{3})+(?:[.,][0-9]*)?)$"
)
_OTHER_DATE = (
    r"^(?:[0-9]{1,2}[/.-][0-9]{1,2}[/.-](?:[0-9]{4}|[0-9]{2})"
    r"|[0-9]{4}[/.-][0-9]{1,2}[/.-][0-9]{1,2})(?:[ T].*)?$"
)
_BOOLEANS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}


def has_value(column: pl.Series) -> pl.Series:
    """Where a column has a value; not-a-number is a gap."""
    given = column.is_not_null()
    return given & column.is_not_nan().fill_null(False) if column.dtype.is_float() else given


def keep_where(column: pl.Series, where: pl.Series) -> pl.Series:
    """A column with nulls elsewhere."""
    return pl.select(pl.when(where).then(column)).to_series().rename(column.name)


def parse_numbers(column: pl.Series) -> pl.Series | None:
    """A column as numbers, nulls for text that is none; None if its type holds no numbers."""
    if column.dtype in CATEGORICAL:
        column = column.cast(pl.String)
    if isinstance(column.dtype, pl.Duration):
        return duration_days(column)
    if not (column.dtype.is_numeric() or column.dtype in (pl.String, pl.Boolean, pl.Null)):
        return None
    return column.cast(pl.Float64, strict=False).fill_nan(None)


def parse_days(column: pl.Series) -> pl.Series | None:
    """A column of dates, or text like 2024-05-31 12:30:00, as days since 1970-01-01.

    Nulls and None as for ``parse_numbers``.
    """
    if column.dtype in CATEGORICAL:
        column = column.cast(pl.String)
    if column.dtype == pl.Null:
        return column.cast(pl.Float64)
    if column.dtype == pl.String:
        column = parse_dates(column)
    if column.dtype not in (pl.Date, pl.Datetime):
        return None
    return column.dt.epoch("us").cast(pl.Float64) / _DAY["us"]


def parse_dates(column: pl.Series) -> pl.Series:
    """Text as dates and times, with nulls for everything else."""
    column = keep_where(column, column.str.contains(_DATE).fill_null(False))
    if column.null_count() == len(column):
        return column.cast(pl.Datetime("us"))
    forms = (f"%Y-%m-%d{time}" for time in _TIMES)
    parsed = [column.str.to_datetime(form, time_unit="us", strict=False) for form in forms]
    return pl.select(pl.coalesce(parsed)).to_series().rename(column.name)


def duration_days(column: pl.Series) -> pl.Series:
    """A column of durations in days."""
    assert isinstance(column.dtype, pl.Duration)
    return column.to_physical().cast(pl.Float64) / _DAY[column.dtype.time_unit]


def parse_text(column: pl.Series) -> pl.Series:
    """A column as text; of the numbers 1 and 1.0 it is the same."""
    if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object):
        raise InputError(
            f"column {column.name!r} must hold numbers, dates or text, got {column.dtype}; "
            f"drop it (--drop {shlex.quote(column.name)} on the command line)"
        )
    if isinstance(column.dtype, pl.Duration):
        column = duration_days(column)
    if column.dtype.is_float():
        column = column.fill_nan(None)
        whole = column.cast(pl.Int64, strict=False)
        same = (whole.cast(pl.Float64) == column).fill_null(False)
        column = whole if same.sum() == column.count() else column
    return column.cast(pl.String)


def parse_categories(column: pl.Series) -> pl.Series:
    """A column as the names of categories: true and True are one."""
    return parse_text(column).replace(_BOOLEANS)


def unreadable(column: pl.Series, values: pl.Series | None) -> pl.Series:
    """Which cells hold something that is not among the values that were read from them."""
    given = has_value(column)
    return given if values is None else given & values.is_null()


def check_finite(values: pl.Series) -> None:
    """Raise an ``InputError`` that names the first infinite value."""
    infinite = values.is_infinite().fill_null(False)
    if infinite.any():
        row = infinite.arg_true()[0]
        raise InputError(f"column {values.name!r} must be finite, row {row + 1} has {values[row]}")


def first_cell(column: pl.Series, where: pl.Series) -> str:
    """The first of the cells, and its row."""
    row = where.arg_true()[0]
    if column.dtype in (pl.Date, pl.Datetime):  # Python's end with the year 9999
        unit: Any = getattr(column.dtype, "time_unit", "D")
        return f"{np.datetime64(column.to_physical()[row], unit)} (row {row + 1})"
    value = column[row]
    return f"{value!r} (row {row + 1})" if isinstance(value, str) else f"{value} (row {row + 1})"


def not_of_kind(column: pl.Series, dates: bool) -> InputError:
    """An error that names the first value that is not what its column has to be."""
    wanted = "dates like 2024-05-31" if dates else "numbers"
    if column.dtype != pl.String and column.dtype not in CATEGORICAL:
        return InputError(f"column {column.name!r} must hold {wanted}, got {column.dtype}")
    bad = unreadable(column, parse_days(column) if dates else parse_numbers(column))
    row = bad.arg_true()[0]
    more = f", the first of {bad.sum()} such" * (bad.sum() > 1)
    return InputError(
        f"column {column.name!r} must hold {wanted}, row {row + 1} has {column[row]!r}{more}"
    )


def text_hint(column: pl.Series, numbers: pl.Series | None, days: pl.Series | None) -> str | None:
    """Why a column has to be text, from what could be read of it as numbers and as dates."""
    if days is not None:
        return None
    if numbers is None:
        return separator_hint(column) or date_hint(column)
    return (separator_hint(column) if numbers.null_count() else None) or rounding_hint(column)


def number_hint(column: pl.Series) -> str | None:
    """What keeps a column of text from being numbers, if it looks as if it was meant to be."""
    if column.dtype != pl.String:
        return None
    separators, plain = separator_hint(column), _are_numbers(column)
    if separators is None and 0 < NEARLY_ALL * column.count() <= plain.sum() < column.count():
        example = first_cell(column, column.is_not_null() & ~plain)
        return f"column {column.name!r} looks like numbers, but {example} is none"
    return separators


def separator_hint(column: pl.Series) -> str | None:
    """Whether numbers are written with decimal commas or thousands separators."""
    if column.dtype != pl.String:
        return None
    enough, plain = NEARLY_ALL * column.count(), _are_numbers(column)
    comma, groups = (
        column.str.contains(form).fill_null(False) & ~plain for form in (_COMMA, _GROUPS)
    )
    readable = plain | comma | groups
    if not plain.sum() < readable.sum() >= enough:
        return None
    if plain.sum() >= enough and readable.sum() < column.count():
        return None
    decimal = comma & ~groups
    if decimal.any():
        what = "decimal commas"
    else:
        what = "thousands separators" + " or decimal commas" * bool(comma.any())
    example = first_cell(column, decimal if decimal.any() else comma | groups)
    return (
        f"column {column.name!r} looks like numbers with {what}, such as {example}, which are "
        "not understood"
    )


def rounding_hint(column: pl.Series) -> str | None:
    """Whether there are whole numbers that floating point does not tell from their neighbours."""
    if column.dtype == pl.String:
        large = column.str.contains(_WHOLE).fill_null(False)
    elif column.dtype.is_integer() or column.dtype.is_decimal():
        large = (column.cast(pl.Float64).abs() >= _EXACT).fill_null(False)
    else:
        return None
    texts = column.filter(large).cast(pl.String).to_list()
    for row, text in zip(large.arg_true().to_list(), texts, strict=True):
        exact = Decimal(text)
        if Decimal(float(exact)) != exact:
            return (
                f"column {column.name!r} holds whole numbers beyond 2^53, such as {text} "
                f"(row {row + 1}), which would be rounded and are most probably identifiers"
            )
    return None


def date_hint(column: pl.Series) -> str | None:
    """Whether dates are written in a form that is not understood."""
    if column.dtype != pl.String:
        return None
    understood = parse_dates(column).is_not_null()
    dates = understood | column.str.contains(_OTHER_DATE).fill_null(False)
    if 0 < NEARLY_ALL * column.count() <= dates.sum() and understood.sum() < dates.sum():
        example = first_cell(column, dates & ~understood)
        return (
            f"column {column.name!r} looks like dates, such as {example}, of which only the form "
            "2024-05-31 is understood"
        )
    return None


def _are_numbers(column: pl.Series) -> pl.Series:
    """Which cells of a column of text are numbers as they stand."""
    numbers = parse_numbers(column)
    assert numbers is not None  # of text
    return numbers.is_not_null()
