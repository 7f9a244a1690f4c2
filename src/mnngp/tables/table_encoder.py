"""From frames to matrices: what the columns are is learned from the training rows."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mnngp._typing import Matrix
from mnngp.errors import InputError, ModelFileError
from mnngp.tables import columns as kinds
from mnngp.tables.columns import Category, Number, quoted
from mnngp.tables.frames import as_table, column_names, known_frame
from mnngp.tables.groups import ColumnGroup
from mnngp.tables.parsing import keep_where, not_of_kind, parse_numbers, unreadable

Columns = Sequence[Number | Category]


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Columns of a frame as features: numbers, dates, text, categories, and gaps in any of them.

    Numbers stay numbers, a gap becomes the median, and a column that has gaps gets a second
    feature that says where. Dates and durations become days. Text, truth values
    and categories become a feature a category (at most 100, the most frequent), with one more for
    gaps if training had any; what is new later is none of them. Text of which nine in ten values
    are numbers, or dates like 2024-05-31, is taken as such: the others count as gaps. Columns that
    are constant, empty, or text that is almost everywhere different are left out; ``notes_`` says
    so. It is what the estimators and ``mnngp fit`` use by themselves.

    Attributes
    ----------
    groups_ : list of ColumnGroup
        For each column that was kept, which features it became and what kind it is.
    notes_ : tuple of str
        What was left out or may surprise, a line each.
    columns_ : tuple of Number and Category
        What was learned of each column that was kept.
    n_features_in_, feature_names_in_
        All columns of the frame; those that were left out may be missing later.

    Examples
    --------
    >>> import polars as pl
    >>> sizes = {"size": [1.0, 2.5, None], "colour": ["red", "blue", "red"], "unit": "cm"}
    >>> encoder = TableEncoder().fit(pl.DataFrame(sizes))
    >>> encoder.transform(pl.DataFrame({"colour": ["green", "blue"], "size": [None, 2.0]}))
    array([[1., 1., 0., 0.],
           [2., 0., 1., 0.]])
    >>> encoder.get_feature_names_out().tolist()
    ['size', 'size is missing', 'colour = blue', 'colour = red']
    >>> encoder.groups_[1]
    ColumnGroup(name='colour', kind='category', start=2, stop=4)
    >>> encoder.notes_
    ("column 'unit' is left out: it is always 'cm'",)
    """

    columns_: tuple[Number | Category, ...]
    notes_: tuple[str, ...]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what the columns of a frame (pandas, polars, or anything with Arrow's interface)
        are. A column that cannot be a feature, such as one of lists, is an error that names it.
        """
        frame = as_table(X)
        check_table(frame)
        columns, notes = learn(frame, frame.columns)
        if not columns:
            raise InputError(f"no column of the table can be a feature: {'; '.join(notes)}")
        return self._restore(columns, notes, frame.columns)

    def transform(self, X: Any) -> Matrix:
        """The features of all rows, (rows, features).

        Columns are found by their names, wherever they stand. A cell of a column of numbers or
        dates that cannot be read as such counts as a gap, unless most of them are like that.
        """
        frame = self._table(X)
        return encode(self.columns_, frame, strict=False)

    def surprises(self, X: Any) -> list[str]:
        """What in new rows was not there in training, a line each: categories, gaps, cells that
        cannot be read, and numbers and dates far outside of those of training.
        """
        frame = self._table(X)
        return list(surprises(self.columns_, frame))

    def get_feature_names_out(self, input_features: Any = None) -> np.typing.NDArray[Any]:
        """A name for each feature, such as ``colour = red`` and ``size is missing``."""
        check_is_fitted(self)
        if input_features is not None and list(input_features) != list(self.feature_names_in_):
            raise InputError(
                "input_features must be None or the columns of training, feature_names_in_, "
                f"got {input_features!r}"
            )
        names, taken = [], set[str]()
        for name in feature_names(self.columns_):
            unique, number = name, 1
            while unique in taken:  # the column "a is missing" beside that of the gaps of "a"
                number += 1
                unique = f"{name} ({number})"
            taken.add(unique)
            names.append(unique)
        return np.array(names, dtype=object)

    @property
    def groups_(self) -> list[ColumnGroup]:
        """For each column that was kept, which features it became and what kind it is."""
        check_is_fitted(self)
        groups, start = [], 0
        for column in self.columns_:
            stop = start + len(column.features)
            kind = "category"
            if isinstance(column, Number) and column.varies:
                kind = "number with gaps" if column.gaps else "number"
            groups.append(ColumnGroup(column.name, kind, start, stop))
            start = stop
        return groups

    def as_dict(self) -> dict[str, Any]:
        """What was learned in the types of JSON."""
        check_is_fitted(self)
        return {"columns": columns_as_dicts(self.columns_), "notes": list(self.notes_)}

    @classmethod
    def from_dict(cls, data: Any, names: Sequence[str] = ()) -> Self:
        """The encoder that ``as_dict`` gave, checked: the file may be a stranger's.

        ``names`` are all columns that were there, or none if only those that were kept are known.
        """
        columns, notes = columns_from_dicts(data)
        known = [column.name for column in columns]
        names = list(names) or known
        if len(set(names)) < len(names) or not set(known) <= set(names):
            raise ModelFileError(
                "feature_names must be those of the encoder's columns, and of others, once each"
            )
        return cls()._restore(columns, notes, names)

    @classmethod
    def of(cls, columns: Columns, notes: Sequence[str], names: Sequence[str]) -> Self:
        """What was learned already, and the names of all columns that were there."""
        return cls()._restore(columns, notes, names)

    def _restore(self, columns: Columns, notes: Sequence[str], names: Sequence[str]) -> Self:
        self.columns_, self.notes_ = tuple(columns), tuple(notes)
        self.feature_names_in_ = np.array(list(names), dtype=object)
        self.n_features_in_ = len(names)
        return self

    def _table(self, X: Any) -> pl.DataFrame:
        """The columns that are needed."""
        check_is_fitted(self)
        X = known_frame(X)
        known = [column.name for column in self.columns_]
        _check_all(known, column_names(X))
        frame = as_table(X, known)
        check_table(frame)
        return frame

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags


# --- what a command has in common with it ---------------------------------------------------------


def learn(
    frame: pl.DataFrame, names: Sequence[str], given: pl.Series | None = None
) -> tuple[tuple[Number | Category, ...], list[str]]:
    """What these columns are, and notes; ``given`` says which rows are there to learn from."""
    notes: list[str] = []
    rows = frame if given is None else frame.filter(given)
    learned = [
        kinds.learn_column(
            rows[name], frame[name] if given is None else keep_where(frame[name], given), notes
        )
        for name in names
    ]
    return tuple(column for column in learned if column is not None), notes


def feature_names(columns: Columns) -> list[str]:
    """The names of the features of all columns."""
    return [feature for column in columns for feature in column.features]


def encode(columns: Columns, frame: pl.DataFrame, *, strict: bool) -> Matrix:
    """The features of all rows, (rows, features)."""
    _check_all([column.name for column in columns], frame.columns)
    result, start = np.zeros((frame.height, len(feature_names(columns)))), 0
    for column in columns:
        end = start + len(column.features)
        column.fill(frame[column.name], result[:, start:end], strict)
        start = end
    return result


def plain_numbers(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Columns of numbers without gaps, for a model that has learned no others."""
    _check_all(names, frame.columns)
    made = []
    for name in names:
        column, values = frame[name], parse_numbers(frame[name])
        if values is None or unreadable(column, values).any():
            raise not_of_kind(column, dates=False)
        if values.null_count():
            row = values.is_null().arg_true()[0] + 1
            raise InputError(f"column {name!r} must have no gaps, as in training, row {row} is one")
        made.append(values)
    return pl.DataFrame(made)


def surprises(columns: Columns, frame: pl.DataFrame) -> Iterator[str]:
    """What in new rows was not there in training."""
    here = set(frame.columns)
    for column in columns:
        if column.name in here:
            yield from column.surprises(frame[column.name])


def check_table(frame: pl.DataFrame) -> None:
    """Raise if a table has no rows."""
    if frame.height == 0:
        raise InputError("the table must have at least one row, it has none")


def check_column(name: object, columns: Sequence[str], why: str = "") -> None:
    """Raise if a table has no such column."""
    if isinstance(name, str) and name in columns:
        return
    near = difflib.get_close_matches(str(name), columns, n=3, cutoff=0.5)
    known = f"it has {quoted(columns[:8])}{', …' * (len(columns) > 8)}"
    if near:
        known = f"did you mean {quoted(near)}?"
    raise InputError(f"the table has no column {name!r}{why}; {known}")


def _check_all(needed: Sequence[str], columns: Sequence[str]) -> None:
    here = set(columns)  # there may be thousands
    for name in needed:
        if name not in here:
            check_column(name, columns, ", which the model needs")


def columns_as_dicts(columns: Columns) -> list[dict[str, Any]]:
    """Columns in the types of JSON."""
    dicts = [asdict(column) for column in columns]
    for column in dicts:
        if "categories" in column:
            column["categories"] = list(column["categories"])
    return dicts


def columns_from_dicts(data: Any) -> tuple[tuple[Number | Category, ...], tuple[str, ...]]:
    """Columns and notes of a model file, checked."""
    if type(data) is not dict or not {"columns", "notes"} <= set(data):
        raise ModelFileError("the encoder must have the keys columns, notes")
    columns, notes = kinds.typed_fields(
        {key: data[key] for key in ("columns", "notes")},
        {"columns": list, "notes": list},
        "the encoder",
    )
    if not columns or not all(type(note) is str for note in notes):
        raise ModelFileError("the encoder must have columns, and its notes must be text")
    restored = tuple(kinds.column_from_dict(column) for column in columns)
    names = [column.name for column in restored]
    if len(set(names)) < len(names):
        raise ModelFileError("the encoder's columns must have names of their own")
    return restored, tuple(notes)
