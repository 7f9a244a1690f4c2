"""From tables to features: what the columns are is learned from the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mnngp._typing import Vector
from mnngp._validation import one_of
from mnngp.errors import InputError, ModelFileError
from mnngp.tables import columns as kinds
from mnngp.tables import table_encoder
from mnngp.tables.columns import Category, Number
from mnngp.tables.parsing import has_value, keep_where, parse_text
from mnngp.tables.table_encoder import TableEncoder

TASKS = ("regression", "classification")


@dataclass(frozen=True)
class Encoder:
    """What was learned of a table: which columns are features, and which one is to be predicted.

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
    >>> columns = {"size": [1.0, 2.5, None], "colour": ["red", "blue", "red"], "price": [9, 8, 7]}
    >>> table = pl.DataFrame(columns)
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
            table_encoder.check_column(name, frame.columns)
        if target in drop:
            raise InputError(f"column {target!r} is the target and cannot be dropped")
        task = None if task is None else one_of("task", task, TASKS)
        notes: list[str] = []
        given = _rows_with_target(frame, target)
        without = frame.height - int(given.sum())
        if without:
            notes.append(f"{without} of {frame.height} rows have no {target!r} and are left out")
        task = kinds.learn_task(frame[target], task, notes)
        names = [name for name in frame.columns if name != target and name not in drop]
        columns, more = table_encoder.learn(frame, names, given)
        notes += more
        if not columns and drop and set(frame.columns) == {target, *drop}:
            raise InputError(f"no feature is left: all columns but {target!r} were dropped")
        if not columns:
            reason = "; ".join(notes) or f"there is only {target!r}"
            raise InputError(f"no column of the table can be a feature: {reason}")
        return Encoder(target, task, columns, tuple(notes))

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return table_encoder.feature_names(self.columns)

    def encode(self, frame: pl.DataFrame, *, strict: bool = True) -> Vector:
        """The features of all rows, (rows, features).

        Columns that were not learned are ignored, and may be missing.

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
        return table_encoder.encode(self.columns, frame, strict=strict)

    def without_target(self, frame: pl.DataFrame, drop: Sequence[str] = ()) -> TableEncoder:
        """What was learned of the other columns, for a model that is to predict frames.

        ``frame`` and ``drop`` are those that it was learned from.
        """
        names = [name for name in frame.columns if name != self.target and name not in drop]
        return TableEncoder.of(self.columns, self.notes, names)

    def labelled(self, frame: pl.DataFrame, *, strict: bool = False) -> tuple[Vector, NDArray[Any]]:
        """Features and targets of the rows that have a target.

        Targets are numbers for regression, labels as strings for classification. ``strict`` as for
        ``encode``; here it is False by default, for the rows to learn from, of which ``notes``
        tells.
        """
        _check_table(frame)
        given, y = self._targets(frame)
        # Rows without a target are encoded as gaps, so that errors count rows as the table does.
        names = [column.name for column in self.columns if column.name in frame.columns]
        known = frame.with_columns(keep_where(frame[name], given) for name in names)
        return self.encode(known, strict=strict)[given.to_numpy()], y

    def scored(
        self, frame: pl.DataFrame, *, strict: bool = True
    ) -> tuple[Vector, NDArray[Any]] | None:
        """As ``labelled``; None if the table has no targets to compare predictions with.

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
        lines = list(table_encoder.surprises(self.columns, frame))
        if self.target in frame.columns and has_value(frame[self.target]).any():
            try:
                self._targets(frame)
            except InputError as error:
                lines.append(f"{error}: predictions are not compared with it")
        return lines

    def _targets(self, frame: pl.DataFrame) -> tuple[pl.Series, NDArray[Any]]:
        """Which rows have a target, and their targets."""
        table_encoder.check_column(self.target, frame.columns)
        given = _rows_with_target(frame, self.target)
        column = frame[self.target]
        if self.task == "classification":
            return given, np.array(parse_text(column.filter(given)).to_list(), dtype=str)
        return given, kinds.target_numbers(column).to_numpy()[given.to_numpy()]

    def as_dict(self) -> dict[str, Any]:
        """The encoder in the types of JSON."""
        columns = table_encoder.columns_as_dicts(self.columns)
        return asdict(self) | {"columns": columns, "notes": list(self.notes)}

    @staticmethod
    def from_dict(data: Any) -> Encoder:
        """The encoder that ``as_dict`` gave, checked: the file may be a stranger's."""
        types = {"target": str, "task": str, "columns": list, "notes": list}
        target, task, *_ = kinds.typed_fields(data, types, "the encoder")
        if task not in TASKS:
            raise ModelFileError(
                f"the encoder's task must be one of {', '.join(TASKS)}, got {task!r}"
            )
        columns, notes = table_encoder.columns_from_dicts(data)
        if target in [column.name for column in columns]:
            raise ModelFileError(
                "the encoder's columns must have names of their own, and the target is none of them"
            )
        return Encoder(target, task, columns, notes)


def _check_table(frame: object) -> None:
    if not isinstance(frame, pl.DataFrame):
        raise InputError(
            "frame must be a polars.DataFrame, as mnngp.data.read_table gives it, "
            f"got {type(frame).__name__}"
        )
    table_encoder.check_table(frame)


def _rows_with_target(frame: pl.DataFrame, target: str) -> pl.Series:
    given = has_value(frame[target])
    if not given.any():
        raise InputError(f"column {target!r} must have a value in some row, it has none")
    return given
