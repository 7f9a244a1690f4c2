"""From tables to features: an encoder learns from the training rows what the columns are, and turns
any rows into numbers.
"""

from __future__ import annotations

import difflib
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mnngp._validation import one_of
from mnngp.data.table_files import polars
from mnngp.errors import InputError, ModelFileError

if TYPE_CHECKING:
    import polars as pl

Matrix = NDArray[np.float64]
TASKS = ("regression", "classification")
MOST_CATEGORIES = 100  # of one column; the rarer ones count as none of them
FEW_LABELS = 20  # whole numbers this few may be meant as classes
LARGEST = 1e150  # of a target: sums of squares must be finite
_MICROSECONDS = 86400e6  # in a day
_TICKS = {"ns": 86400e9, "us": 86400e6, "ms": 86400e3}  # in a day, of a duration
# A date in full and nothing else: a parser alone would take 22-03-01 for a day of the year 22.
_DATE = r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[ T][0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?)?$"
_DATES = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
)
_NEARLY = 0.9  # of a column's values are numbers, or dates: the others are mistakes
_FAR = 0.5  # of the width of the training values beyond either end
_EXACT = 2.0**53  # whole numbers up to here are told apart by floating point
_WHOLE = r"^[+-]?[0-9]{16,300}$"
_COMMA = r"^[+-]?[0-9]*,[0-9]+$"
_GROUPS = (
    r"^[+-]?[0-9]{1,3}(?:(?:,[0-9]{3})+(?:\.[0-9]*)?|(?:\.[0-9]{3})+(?:,[0-9]*)?|(?:[ "
    r"'’\u00a0\u202f][0-9]{3})+(?:[.,][0-9]*)?)$"
)
_OTHER_DATE = r"^(?:[0-9]{1,2}[/.-][0-9]{1,2}[/.-](?:[0-9]{4}|[0-9]{2})|[0-9]{4}[/.-][0-9]{1,2}[/.-][0-9]{1,2})(?:[ T].*)?$"
_WORDS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}


@dataclass(frozen=True)
class Number:
    """A column of numbers, or of dates as days since 1970-01-01; gaps become the median, and are
    told apart if training had any.
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

    def fill(self, column: pl.Series, result: Matrix, strict: bool) -> None:
        values = self._read(column, strict)
        if self.varies:
            result[:, 0] = values.fill_null(self.median).to_numpy()
        if self.gaps:
            result[:, -1] = values.is_null().to_numpy()

    def _read(self, column: pl.Series, strict: bool) -> pl.Series:
        """Its values, with nulls for gaps and, unless it is strict, for what cannot be read; most
        cells have to be readable.
        """
        values = _days(column) if self.dates else _numbers(column)
        if values is None:
            raise InputError(_not_of_kind(column, self.dates))
        finite = _only(values, values.is_finite().fill_null(False))
        if strict or 2 * _unread(column, finite).sum() > _given(column).sum():
            if _unread(column, values).any():
                raise InputError(_not_of_kind(column, self.dates))
            _check_finite(values)
        return finite

    def surprises(self, column: pl.Series) -> list[str]:
        values = self._read(column, strict=False)
        lines = [] if self.gaps else _new_gaps(column, "the median stands in")
        unread = _unread(column, values)
        if unread.any():
            consequence = "counts as a gap" if unread.sum() == 1 else "count as gaps"
            stand_in = "" if self.gaps else ", for which the median stands in"
            cells = f"{_share(unread)} cannot be read as {self._kind} and {consequence}{stand_in}"
            lines.append(f"column {self.name!r}: {cells}, first {_cell(column, unread)}")
        far = self._far(values)
        if far.any():
            verb = "is" if far.sum() == 1 else "are"
            cells = (
                f"{_share(far)} {verb} far outside of {self._range}, what training had, first "
                f"{_cell(column, far)}"
            )
            lines.append(f"column {self.name!r}: {cells}")
        return lines

    @property
    def _kind(self) -> str:
        return "dates like 2024-05-31" if self.dates else "numbers"

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
    """A column of categories, a feature each that is 1 or 0; a gap is one more if training had any,
    what is new is none of them.
    """

    name: str
    categories: tuple[str, ...]
    gaps: bool

    @property
    def features(self) -> list[str]:
        return [f"{self.name} = {category}" for category in self.categories] + [
            f"{self.name} is missing"
        ] * self.gaps

    def fill(self, column: pl.Series, result: Matrix, strict: bool) -> None:
        library = polars()
        values = _words(column)
        codes = values.cast(library.Enum(list(self.categories)), strict=False).to_physical()
        rows = np.flatnonzero(codes.is_not_null().to_numpy())
        result[rows, codes.drop_nulls().to_numpy()] = 1.0
        if self.gaps:
            result[:, -1] = values.is_null().to_numpy()

    def surprises(self, column: pl.Series) -> list[str]:
        values = _words(column).drop_nulls()
        new = values.filter(~values.is_in(list(self.categories)))
        lines = [] if self.gaps else _new_gaps(column, "they are none of the categories")
        if len(new):
            rarely = " or had too rarely" * (len(self.categories) == MOST_CATEGORIES)
            lines.append(
                f"column {self.name!r}: {len(new)} of {len(column)} rows hold values that training "
                f"did not have{rarely} "
                f"({_first(new.unique().sort().to_list())}); it had {_first(self.categories)}"
            )
        return lines


@dataclass(frozen=True)
class Encoder:
    """What was learned of a table: which columns are features and how, and which one is to be
    predicted.

    Parameters
    ----------
    target : str
        The column that is to be predicted.
    task : "regression" or "classification"
        Whether it holds numbers or labels.
    columns : tuple of Number and Category
        The columns that become features, in the order of the table.
    notes : tuple of str
        What was left out or may surprise, a line each.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame({"size": [1.0, 2.5, None], "colour": ["red", "blue", "red"], "price": [10.0, 20.0, 15.0]})
    >>> encoder = Encoder.of(table, target="price")
    >>> encoder.features
    ['size', 'size is missing', 'colour = blue', 'colour = red']
    >>> encoder.encode(table)
    array([[1. , 0. , 0. , 1. ],
           [2.5, 0. , 1. , 0. ],
           [1. , 1. , 0. , 1. ]])
    >>> Encoder.from_dict(encoder.as_dict()) == encoder
    True
    """

    target: str
    task: str
    columns: tuple[Number | Category, ...]
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(
        frame: pl.DataFrame, target: str, task: str | None = None, drop: Sequence[str] = ()
    ) -> Encoder:
        """Learn from the training rows.

        Numbers stay numbers; a gap becomes the median (of two middle values the lower), and a
        column that has gaps gets a second feature that says where. Dates and durations become days.
        Text, booleans and categories become a feature a category. Columns that are constant, empty,
        or text that is almost everywhere different (names, identifiers) are left out; ``notes``
        says so. Whole numbers beyond 2^53 that floating point would round are identifiers, and
        text.

        Parameters
        ----------
        frame : polars.DataFrame
            As ``mnngp.data.read_table`` gives it. Columns of strings are numbers or dates if at
            least nine in ten of their values are; the others count as gaps, and ``notes`` says so.
        target : str
            The column to predict. Rows without it are left out.
        task : "regression", "classification" or None, default=None
            None: regression if the target holds numbers, else classification.
        drop : sequence of str, default=()
            Columns that are not to be features.
        """
        _check_table(frame)
        drop = (drop,) if isinstance(drop, str) else drop
        for name in (target, *drop):
            _check_column(name, frame)
        if target in drop:
            raise InputError(f"column {target!r} is the target and cannot be dropped")
        task = None if task is None else one_of("task", task, TASKS)
        notes: list[str] = []
        given = _given(frame[target])
        rows = frame.filter(given)
        if rows.height == 0:
            raise InputError(f"column {target!r} must have a value in some row, it has none")
        if rows.height < frame.height:
            notes.append(
                f"{frame.height - rows.height} of {frame.height} rows have no {target!r} "
                "and are left out"
            )
        task = _task(frame[target], task, notes)
        columns: list[Number | Category] = []
        for name in frame.columns:
            if name != target and name not in drop:
                column = _learn(rows[name], _only(frame[name], given), notes)
                columns += [] if column is None else [column]
        if not columns and drop and set(frame.columns) == {target, *drop}:
            raise InputError(f"no feature is left: all columns but {target!r} were dropped")
        if not columns:
            raise InputError(
                "no column of the table can be a feature: "
                + ("; ".join(notes) or f"there is only {target!r}")
            )
        return Encoder(target, task, tuple(columns), tuple(notes))

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return [feature for column in self.columns for feature in column.features]

    def encode(self, frame: pl.DataFrame, *, strict: bool = True) -> Matrix:
        """The features of all rows, (rows, features). Columns that were not learned are ignored,
        and may be missing.

        Parameters
        ----------
        frame : polars.DataFrame
            New rows.
        strict : bool, default=True
            A cell of a column of numbers or dates that cannot be read as such, or is infinite, is
            an error. False: it counts as a gap, of which ``surprises`` tells, unless most cells of
            the column are like that.
        """
        _check_table(frame)
        widths = [len(column.features) for column in self.columns]
        result, start = np.zeros((frame.height, sum(widths))), 0
        for column, width in zip(self.columns, widths, strict=True):
            _check_column(column.name, frame, ", which the model needs")
            column.fill(frame[column.name], result[:, start : start + width], strict)
            start += width
        return result

    def labelled(self, frame: pl.DataFrame, *, strict: bool = False) -> tuple[Matrix, NDArray[Any]]:
        """Features and targets of the rows that have a target: numbers for regression, labels as
        strings for classification.

        ``strict`` as for ``encode``; here it is False by default, for the rows to learn from, of
        which ``notes`` tells.
        """
        _check_table(frame)
        given, y = self._targets(frame)
        # All rows are encoded, those without a target as gaps, so that an error counts them as the
        # table does.
        known = [
            _only(frame[column.name], given)
            for column in self.columns
            if column.name in frame.columns
        ]
        return self.encode(frame.with_columns(known), strict=strict)[given.to_numpy()], y

    def scored(
        self, frame: pl.DataFrame, *, strict: bool = True
    ) -> tuple[Matrix, NDArray[Any]] | None:
        """As ``labelled``; None if the table has no targets that predictions could be compared
        with.

        That is, if the column is absent or empty, or, for regression, holds anything that is not a
        number, not finite or too large.
        """
        _check_table(frame)
        try:
            self._targets(frame)
        except InputError:
            return None
        return self.labelled(frame, strict=strict)

    def surprises(self, frame: pl.DataFrame) -> list[str]:
        """What in new rows the model was not taught, a line each.

        Categories that training did not have (they are encoded as none of those that it had), gaps
        in columns that had none, cells that cannot be read, numbers and dates that are beyond those
        of training by more than half of their range, and a target that is there but cannot be
        compared with predictions. For tables that ``encode`` accepts, strict or not.
        """
        _check_table(frame)
        lines = [
            line
            for column in self.columns
            if column.name in frame.columns
            for line in column.surprises(frame[column.name])
        ]
        if self.target in frame.columns and _given(frame[self.target]).any():
            try:
                self._targets(frame)
            except InputError as error:
                lines.append(f"{error}: predictions are not compared with it")
        return lines

    def _targets(self, frame: pl.DataFrame) -> tuple[pl.Series, NDArray[Any]]:
        """Which rows have a target, and their targets."""
        _check_column(self.target, frame)
        column = frame[self.target]
        given = _given(column)
        if not given.any():
            raise InputError(f"column {self.target!r} must have a value in some row, it has none")
        if self.task == "classification":
            return given, np.array(_texts(column.filter(given)).to_list(), dtype=str)
        return given, _target_numbers(column).to_numpy()[given.to_numpy()]

    def as_dict(self) -> dict[str, Any]:
        """The encoder in the types of JSON."""
        columns = [
            asdict(column)
            | ({"categories": list(column.categories)} if isinstance(column, Category) else {})
            for column in self.columns
        ]
        return {
            "target": self.target,
            "task": self.task,
            "columns": columns,
            "notes": list(self.notes),
        }

    @staticmethod
    def from_dict(data: Any) -> Encoder:
        """The encoder that ``as_dict`` gave, checked: the file it comes from may be a
        stranger's.
        """
        target, task, columns, notes = _fields(
            data, {"target": str, "task": str, "columns": list, "notes": list}, "the encoder"
        )
        if task not in TASKS:
            raise ModelFileError(
                f"the encoder's task must be one of {', '.join(TASKS)}, got {task!r}"
            )
        if not columns or not all(type(note) is str for note in notes):
            raise ModelFileError("the encoder must have columns, and its notes must be text")
        restored = tuple(_restored(column) for column in columns)
        names = [column.name for column in restored]
        if len(set(names)) < len(names) or target in names:
            raise ModelFileError(
                "the encoder's columns must have names of their own, and the target is none of them"
            )
        return Encoder(target, task, restored, tuple(notes))


def _learn(column: pl.Series, whole: pl.Series, notes: list[str]) -> Number | Category | None:
    """What a column of the training rows is; ``whole`` has gaps in the place of the other rows."""
    name = column.name
    library = polars()
    given = column.filter(_given(column))
    gaps = len(given) < len(column)
    if len(given) == 0:
        notes.append(f"column {name!r} is left out: it has no values")
        return None
    if given.dtype == library.Boolean or isinstance(
        given.dtype, library.Categorical | library.Enum
    ):
        return _learn_category(name, given, gaps, notes)
    numbers = _nearly(given, _numbers(given))
    days = None if numbers is not None else _nearly(given, _days(given))
    values = days if numbers is None else numbers
    hint = _hint(whole, numbers, days) if given.n_unique() > 1 else None
    if hint is not None:
        more: list[str] = []
        learned = _learn_category(name, given, gaps, more)
        outcome = (
            "is taken as text and left out"
            if learned is None
            else f"is taken as text, {len(learned.categories)} categories"
        )
        notes += [f"{hint}, so it {outcome}", *(more if learned else [])]
        return learned
    if values is None:
        return _learn_category(name, given, gaps, notes)
    _check_finite(None if numbers is None else _numbers(whole))
    if values.null_count():
        unread = _unread(whole, _days(whole) if numbers is None else _numbers(whole))
        kind = "dates" if numbers is None else "numbers"
        verb = "is none and counts as a gap" if unread.sum() == 1 else "are none and count as gaps"
        counted = f"{unread.sum()} of {len(given)} values {verb}, first {_cell(whole, unread)}"
        notes.append(f"column {name!r} holds {kind}, but {counted}")
        values, gaps = values.drop_nulls(), True
    varies = values.n_unique() > 1
    if not varies and not gaps:
        notes.append(f"column {name!r} is left out: it is always {given[0]}")
        return None
    if isinstance(column.dtype, library.Duration):
        notes.append(f"column {name!r} holds durations, which become days")
    if numbers is None:
        notes.append(f"column {name!r} holds dates, which become days since 1970-01-01")
    median = values.quantile(0.5, interpolation="lower")
    assert median is not None  # there are values
    ends = values.to_numpy()
    return Number(
        name, float(median), gaps, varies, numbers is None, float(ends.min()), float(ends.max())
    )


def _learn_category(name: str, given: pl.Series, gaps: bool, notes: list[str]) -> Category | None:
    counts = _words(given).rename("category").value_counts(name="count")
    categories = counts["category"].to_list()
    if len(categories) == 1 and not gaps:
        notes.append(f"column {name!r} is left out: it is always {categories[0]!r}")
        return None
    if _are_names(len(categories), len(given)):
        notes.append(
            f"column {name!r} is left out: {len(categories)} different texts in "
            f"{len(given)} rows are no categories"
        )
        return None
    if len(categories) > MOST_CATEGORIES:
        notes.append(
            f"column {name!r}: {MOST_CATEGORIES} of {len(categories)} categories are "
            "features, the most frequent ones"
        )
        # equally frequent ones: by name
        order = sorted(zip(-counts["count"].to_numpy(), categories, strict=True))
        categories = [category for _, category in order[:MOST_CATEGORIES]]
    return Category(name, tuple(sorted(categories)), gaps)


def _task(column: pl.Series, task: str | None, notes: list[str]) -> str:
    """What kind of prediction the values of the target call for."""
    name, library = column.name, polars()
    labels = column.dtype == library.Boolean or isinstance(
        column.dtype, library.Categorical | library.Enum
    )
    numbers = None if labels and task is None else _all_read(column, _numbers(column))
    if task == "regression" or (task is None and numbers is not None):
        values = _target_numbers(column).drop_nulls()
        different = values.unique()
        if len(different) == 1:
            raise InputError(
                f"column {name!r} is always {different[0]:.15g}: there is nothing to predict"
            )
        whole = bool((different == different.floor()).all())
        if task is None and whole and len(different) <= min(FEW_LABELS, len(values) / 2):
            notes.append(
                f"column {name!r} has only {len(different)} different values, whole numbers, and "
                "is predicted as a number; "
                f"if they are classes, say task='classification' (--task classification)"
            )
        rounded = _rounded_hint(column) if task is None else None
        if rounded is not None:
            notes.append(
                f"{rounded}; if they are classes, say task='classification' (--task classification)"
            )
        if isinstance(column.dtype, library.Duration):
            notes.append(f"column {name!r} holds durations, which become days")
        return "regression"
    different = _texts(column).drop_nulls().unique()
    if len(different) == 1:
        raise InputError(f"column {name!r} is always {different[0]!r}: there is nothing to predict")
    hint = _number_hint(column) if task is None else None
    if _are_names(len(different), column.count()):
        texts = _texts(column)
        none = texts.is_not_null() & ~_are_numbers(texts)
        example = _cell(texts, none if none.any() else texts.is_not_null())
        no_classes = (
            f"column {name!r} has {len(different)} different texts in {column.count()} rows, which "
            "are no classes"
        )
        raise InputError(
            f"{hint or f'{no_classes}, such as {example}'}; numbers must be written like 1234.5"
        )
    if hint is not None:
        notes.append(f"{hint}, so it is taken as text, {len(different)} classes")
    return "classification"


def _target_numbers(column: pl.Series) -> pl.Series:
    """A target as numbers that can be reckoned with, with nulls for gaps."""
    values = _all_read(column, _numbers(column))
    if values is None:
        raise InputError(_not_of_kind(column, dates=False))
    _check_finite(values)
    large = values.filter((values.abs() > LARGEST).fill_null(False))
    if len(large):
        raise InputError(
            f"column {column.name!r} is too large ({large[0]:g}); give it in other units"
        )
    return values


def _are_names(different: int, count: int) -> bool:
    """Whether texts are names of single rows rather than of groups."""
    return different > FEW_LABELS and 2 * different > count


def _given(column: pl.Series) -> pl.Series:
    """Where a column has a value; not-a-number is a gap."""
    given = column.is_not_null()
    return given & column.is_not_nan().fill_null(False) if column.dtype.is_float() else given


def _only(column: pl.Series, given: pl.Series) -> pl.Series:
    """A column with gaps elsewhere."""
    library = polars()
    kept: pl.Series = library.select(library.when(given).then(column)).to_series()
    return kept.rename(column.name)


def _numbers(column: pl.Series) -> pl.Series | None:
    """A column as numbers, with nulls for gaps and for text that is none; None if it is of a type
    that holds no numbers.
    """
    library = polars()
    if isinstance(column.dtype, library.Categorical | library.Enum):
        column = column.cast(library.String)
    if isinstance(column.dtype, library.Duration):
        return _durations(column)
    if not (
        column.dtype.is_numeric() or column.dtype in (library.String, library.Boolean, library.Null)
    ):
        return None
    return column.cast(library.Float64, strict=False).fill_nan(None)


def _durations(column: pl.Series) -> pl.Series:
    """A column of durations in days."""
    library = polars()
    assert isinstance(column.dtype, library.Duration)
    return column.to_physical().cast(library.Float64) / _TICKS[column.dtype.time_unit]


def _days(column: pl.Series) -> pl.Series | None:
    """A column of dates, or of text like 2024-05-31 12:30:00, as days since 1970-01-01; otherwise
    as ``_numbers``.
    """
    library = polars()
    if isinstance(column.dtype, library.Categorical | library.Enum):
        column = column.cast(library.String)
    if column.dtype == library.Null:
        return column.cast(library.Float64)
    if column.dtype == library.String:
        column = _parsed_dates(column)
    if not (column.dtype == library.Date or isinstance(column.dtype, library.Datetime)):
        return None
    return column.dt.epoch("us").cast(library.Float64) / _MICROSECONDS


def _parsed_dates(column: pl.Series) -> pl.Series:
    """Text as dates and times, with nulls for everything else."""
    library = polars()
    column = _only(column, column.str.contains(_DATE).fill_null(False))
    if column.null_count() == len(column):
        return column.cast(library.Datetime("us"))
    parsed = [column.str.to_datetime(form, time_unit="us", strict=False) for form in _DATES]
    dates: pl.Series = library.select(library.coalesce(parsed)).to_series()
    return dates.rename(column.name)


def _unread(column: pl.Series, values: pl.Series | None) -> pl.Series:
    """Which cells hold something that is not among the values that were read from them."""
    given = _given(column)
    return given if values is None else given & values.is_null()


def _all_read(column: pl.Series, values: pl.Series | None) -> pl.Series | None:
    """The values, if no cell was unreadable."""
    return None if _unread(column, values).any() else values


def _nearly(column: pl.Series, values: pl.Series | None) -> pl.Series | None:
    """The values, if nearly no cell was."""
    return (
        values
        if values is not None and values.count() >= max(1.0, _NEARLY * int(_given(column).sum()))
        else None
    )


def _are_numbers(column: pl.Series) -> pl.Series:
    """Which values of a column of text are numbers."""
    library = polars()
    return column.cast(library.Float64, strict=False).fill_nan(None).is_not_null()


def _number_hint(column: pl.Series) -> str | None:
    """What keeps a column of text from being numbers, if it looks as if it was meant to be."""
    if column.dtype != polars().String:
        return None
    plain = _are_numbers(column)
    if (
        0 < _NEARLY * column.count() <= plain.sum() < column.count()
        and _separator_hint(column) is None
    ):
        return (
            f"column {column.name!r} looks like numbers, but "
            f"{_cell(column, column.is_not_null() & ~plain)} is none"
        )
    return _separator_hint(column)


def _separator_hint(column: pl.Series) -> str | None:
    """Whether that is the way in which they are written."""
    if column.dtype != polars().String:
        return None
    enough = _NEARLY * column.count()
    plain = _are_numbers(column)
    comma, groups = (
        column.str.contains(form).fill_null(False) & ~plain for form in (_COMMA, _GROUPS)
    )
    readable = plain | comma | groups
    if plain.sum() < readable.sum() >= enough and (
        plain.sum() < enough or readable.sum() == column.count()
    ):
        sure = comma & ~groups
        what = (
            "decimal commas"
            if sure.any()
            else "thousands separators or decimal commas"
            if comma.any()
            else "thousands separators"
        )
        example = _cell(column, sure if sure.any() else comma | groups)
        return (
            f"column {column.name!r} looks like numbers with {what}, such as {example}, which are "
            "not understood"
        )
    return None


def _hint(column: pl.Series, numbers: pl.Series | None, days: pl.Series | None) -> str | None:
    """Why a column that may look like numbers or dates has to be text."""
    if days is not None:
        return None
    if numbers is None:
        return _separator_hint(column) or _date_hint(column)
    return (_separator_hint(column) if numbers.null_count() else None) or _rounded_hint(column)


def _rounded_hint(column: pl.Series) -> str | None:
    """Whether there are whole numbers that floating point does not tell apart from their
    neighbours.
    """
    library = polars()
    if column.dtype == library.String:
        large = column.str.contains(_WHOLE).fill_null(False)
    elif column.dtype.is_integer() or column.dtype.is_decimal():
        large = (column.cast(library.Float64).abs() >= _EXACT).fill_null(False)
    else:
        return None
    texts = column.filter(large).cast(library.String).to_list()
    for row, text in zip(np.flatnonzero(large.to_numpy()).tolist(), texts, strict=True):
        exact = Decimal(text)
        if Decimal(float(exact)) != exact:
            cell, fate = (
                f"{text} (row {row + 1})",
                "would be rounded and are most probably identifiers",
            )
            return (
                f"column {column.name!r} holds whole numbers beyond 2^53, such as {cell}, which "
                f"{fate}"
            )
    return None


def _date_hint(column: pl.Series) -> str | None:
    """Likewise for dates."""
    if column.dtype != polars().String:
        return None
    enough = _NEARLY * column.count()
    understood = _parsed_dates(column).is_not_null()
    dates = understood | column.str.contains(_OTHER_DATE).fill_null(False)
    if 0 < enough <= dates.sum() and understood.sum() < dates.sum():
        example = _cell(column, dates & ~understood)
        return (
            f"column {column.name!r} looks like dates, such as {example}, of which only the form "
            "2024-05-31 is understood"
        )
    return None


def _cell(column: pl.Series, where: pl.Series) -> str:
    """The first of the cells, and its row."""
    row = int(np.flatnonzero(where.to_numpy())[0])
    value = column[row]
    return f"{value!r} (row {row + 1})" if isinstance(value, str) else f"{value} (row {row + 1})"


def _share(where: pl.Series) -> str:
    return f"{where.sum()} of {len(where)} rows"


def _new_gaps(column: pl.Series, consequence: str) -> list[str]:
    """What to say of gaps in a column that had none."""
    gaps = len(column) - int(_given(column).sum())
    count = f"all {gaps}" if gaps == len(column) > 1 else f"{gaps} of {len(column)}"
    rows = f"{count} rows {'is a gap' if gaps == 1 else 'are gaps'}"
    return (
        [f"column {column.name!r}: {rows}, of which training had none; {consequence}"]
        if gaps
        else []
    )


def _texts(column: pl.Series) -> pl.Series:
    """A column as text; of the numbers 1 and 1.0 it is the same."""
    library = polars()
    if column.dtype.is_nested() or column.dtype in (library.Binary, library.Object):
        raise InputError(
            f"column {column.name!r} must hold numbers, dates or text, got {column.dtype}; "
            f"drop it (--drop {shlex.quote(column.name)} on the command line)"
        )
    if isinstance(column.dtype, library.Duration):
        column = _durations(column)
    if column.dtype.is_float():
        column = column.fill_nan(None)
        whole = column.cast(library.Int64, strict=False)
        same = (whole.cast(library.Float64) == column).fill_null(False)
        column = whole if same.sum() == column.count() else column
    return column.cast(library.String)


def _words(column: pl.Series) -> pl.Series:
    """A column as the names of categories: true and True are one."""
    return _texts(column).replace(_WORDS)


def _check_table(frame: object) -> None:
    if not isinstance(frame, polars().DataFrame):
        raise InputError(
            "frame must be a polars.DataFrame, as mnngp.data.read_table gives it, "
            f"got {type(frame).__name__}"
        )
    if frame.height == 0:
        raise InputError("the table must have at least one row, it has none")


def _check_column(name: object, frame: pl.DataFrame, why: str = "") -> None:
    if isinstance(name, str) and name in frame.columns:
        return
    near = difflib.get_close_matches(str(name), frame.columns, n=3, cutoff=0.5)
    known = (
        f"did you mean {_listed(near)}?"
        if near
        else f"it has {_listed(frame.columns[:8])}{', …' * (frame.width > 8)}"
    )
    raise InputError(f"the table has no column {name!r}{why}; {known}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _first(texts: Sequence[str]) -> str:
    return _listed(texts[:3]) + ", …" * (len(texts) > 3)


def _check_finite(values: pl.Series | None) -> None:
    if values is not None and not values.drop_nulls().is_finite().all():
        row = int(np.flatnonzero(values.is_infinite().fill_null(False).to_numpy())[0])
        raise InputError(f"column {values.name!r} must be finite, row {row + 1} has {values[row]}")


def _not_of_kind(column: pl.Series, dates: bool) -> str:
    """The first value that is not what its column has to be."""
    library = polars()
    wanted = "dates like 2024-05-31" if dates else "numbers"
    if not (
        column.dtype == library.String
        or isinstance(column.dtype, library.Categorical | library.Enum)
    ):
        return f"column {column.name!r} must hold {wanted}, got {column.dtype}"
    unread = _unread(column, _days(column) if dates else _numbers(column))
    row = int(np.flatnonzero(unread.to_numpy())[0])
    more = f", the first of {unread.sum()} such" * (unread.sum() > 1)
    return f"column {column.name!r} must hold {wanted}, row {row + 1} has {column[row]!r}{more}"


def _fields(data: Any, types: Mapping[str, type], what: str) -> list[Any]:
    """The values of a dictionary with exactly these keys and types."""
    if type(data) is not dict or set(data) != set(types):
        raise ModelFileError(f"{what} must have the keys {', '.join(types)}")
    for key, kind in types.items():
        if type(data[key]) is not kind:
            raise ModelFileError(
                f"{what}: {key} must be of type {kind.__name__}, got {type(data[key]).__name__}"
            )
    return [data[key] for key in types]


def _restored(data: Any) -> Number | Category:
    if type(data) is dict and "categories" in data:
        name, categories, gaps = _fields(
            data, {"name": str, "categories": list, "gaps": bool}, "a column of categories"
        )
        if not 1 <= len(categories) <= MOST_CATEGORIES:
            raise ModelFileError(
                f"column {name!r} must have 1 to {MOST_CATEGORIES} categories, "
                f"got {len(categories)}"
            )
        if not all(type(category) is str for category in categories) or len(set(categories)) < len(
            categories
        ):
            raise ModelFileError(f"the categories of column {name!r} must be different texts")
        return Category(name, tuple(categories), gaps)
    types = {"name": str, "median": float, "gaps": bool, "varies": bool, "dates": bool}
    # version 0.1 had none
    bounds = (
        {"low": float, "high": float} if type(data) is dict and {"low", "high"} & set(data) else {}
    )
    name, median, gaps, varies, dates, *ends = _fields(data, types | bounds, "a column of numbers")
    if not math.isfinite(median) or not (gaps or varies):
        raise ModelFileError(f"column {name!r} must have a finite median and at least one feature")
    if ends and not (
        math.isfinite(ends[0]) and ends[0] <= median <= ends[1] and math.isfinite(ends[1])
    ):
        raise ModelFileError(
            f"column {name!r} must have finite bounds around its median, got "
            f"{ends[0]} and {ends[1]}"
        )
    return Number(name, median, gaps, varies, dates, *ends)
