"""What the columns of a training table are, and what kind of prediction its target calls for."""

from __future__ import annotations

import polars as pl

from mnngp.data import parsing
from mnngp.data.columns import MOST_CATEGORIES, Category, Number
from mnngp.errors import InputError

FEW_LABELS = 20  # whole numbers this few may be meant as classes
LARGEST_TARGET = 1e150  # sums of squares must be finite


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
