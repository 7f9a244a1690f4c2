"""Why a column that looks like numbers or dates is taken as text."""

from __future__ import annotations

from decimal import Decimal

import polars as pl

from mnngp.data.parsing import first_cell, parse_dates, parse_numbers

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
