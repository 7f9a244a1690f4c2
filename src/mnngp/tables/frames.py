"""Frames of pandas, polars and Arrow as one: a polars frame of numbers, dates, text and nulls.

pandas is never imported, and polars only where a frame needs more than to be recognised. Nothing
here needs pyarrow, which pandas would ask for to make a polars frame.
"""

from __future__ import annotations

import datetime
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from mnngp._system.extras import require
from mnngp.errors import InputError

if TYPE_CHECKING:
    import polars as pl

ALLOWED = "numbers, dates, durations, truth values or text"
_UNITS = ("ns", "us", "ms")  # of time, that polars knows
_INT64 = range(-(2**63), 2**63)
_WHOLE = 1e15  # floats below it that are whole are written as whole numbers
# What stands for a gap in cells of any type, by name: pandas may not be there to be asked.
_GAPS = ("NoneType", "NAType", "NaTType")
_WRITTEN = ("Interval", "Period")  # of pandas, whose texts say all
_KINDS: tuple[tuple[str, tuple[type, ...]], ...] = (  # the first that fits
    ("flag", (bool, np.bool_)),
    ("text", (str,)),
    ("time", (datetime.datetime, np.datetime64)),
    ("date", (datetime.date,)),
    ("duration", (datetime.timedelta, np.timedelta64)),
    ("whole", (Integral,)),
    ("number", (Real,)),
    ("written", (Decimal, datetime.time, uuid.UUID)),
)


def _of(X: object, package: str, *names: str) -> bool:
    """Whether X is of one of a package's classes, which it can only be if that was imported."""
    module = sys.modules.get(package)
    return module is not None and isinstance(X, tuple(getattr(module, name) for name in names))


def is_pandas(X: object) -> bool:
    """Whether X is a frame of pandas."""
    return _of(X, "pandas", "DataFrame")


def is_polars(X: object) -> bool:
    """Whether X is a frame of polars."""
    return _of(X, "polars", "DataFrame")


def is_frame(X: object) -> bool:
    """Whether X is a frame of pandas or polars, or has Arrow's interface for tables."""
    if is_pandas(X) or _of(X, "polars", "DataFrame", "LazyFrame"):
        return True
    if _of(X, "pandas", "Series") or _of(X, "polars", "Series"):
        return False
    return hasattr(X, "__arrow_c_stream__")


def known_frame(X: Any) -> Any:
    """A frame of pandas or polars as it is, and any other as one of polars."""
    if is_pandas(X) or is_polars(X):
        return X
    if not is_frame(X):
        raise InputError(
            "X must be a frame of pandas, polars or Arrow, whose columns have names, "
            f"got {type(X).__name__}"
        )
    require("frames of Arrow", "polars")
    import polars as pl

    if isinstance(X, pl.LazyFrame):
        raise InputError("X must be a frame that is computed, got a LazyFrame: X.collect() is one")
    try:
        return pl.DataFrame(X)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"X must be a frame, got a {type(X).__name__} that polars cannot read: {error}"
        ) from error


def is_plain(X: Any) -> bool:
    """Whether all columns of a frame of pandas or polars are numbers, or truth values, and no cell
    is missing: the frame is a matrix.
    """
    if X.shape[1] == 0:
        return False
    if is_pandas(X):
        plain = all(getattr(dtype, "kind", "O") in "biuf" for dtype in X.dtypes)
        return plain and not X.isna().to_numpy().any()
    from polars import Boolean

    return all(
        (column.dtype.is_integer() or column.dtype.is_float() or column.dtype == Boolean)
        and not column.null_count()
        and not (column.dtype.is_float() and column.is_nan().any())
        for column in X.get_columns()
    )


def column_names(X: Any) -> list[str]:
    """The names of a frame of pandas or polars as text: those of pandas may be anything."""
    return [str(name) for name in X.columns]


def first_of_text(X: Any) -> str:
    """The name of the first column of a frame of pandas or polars that does not hold numbers."""
    plain = (is_plain(X.iloc[:, [i]] if is_pandas(X) else X[:, [i]]) for i in range(X.shape[1]))
    return next((name for name, is_one in zip(column_names(X), plain, strict=True) if not is_one))


def as_table(X: Any, names: Iterable[str] | None = None) -> pl.DataFrame:
    """A frame as one of polars, whose columns are of types that ``columns`` can learn.

    Given ``names``, other columns are not looked at, and may be missing or of any type.

    Raises
    ------
    InputError
        A column holds what cannot be a feature, or its name occurs twice; the text names it.
    """
    X = known_frame(X)
    require("frames with text, dates or gaps", "polars")
    import polars as pl

    every = column_names(X)
    if not every:
        raise InputError("X must have at least one column, it has none")
    wanted = set(every if names is None else names)
    counts = Counter(every)
    twice = next((name for name in every if name in wanted and counts[name] > 1), None)
    if twice is not None:
        raise InputError(
            f"X has more than one column {twice!r}; every column needs a name of its own"
        )
    if is_pandas(X):
        made = [_of_pandas(n, X.iloc[:, i]) for i, n in enumerate(every) if n in wanted]
    else:
        made = [_of_polars(column) for column in X.get_columns() if column.name in wanted]
    return pl.DataFrame(made)


def _refused(name: str, what: str) -> InputError:
    return InputError(
        f"column {name!r} must hold {ALLOWED} to be a feature, got {what}; leave it out of X"
    )


def _of_polars(column: pl.Series) -> pl.Series:
    import polars as pl

    if column.dtype == pl.Object:
        return _of_objects(column.name, column.to_list())
    if column.dtype.is_nested() or column.dtype == pl.Binary:
        raise _refused(column.name, str(column.dtype))
    return column


def _of_pandas(name: str, column: Any) -> pl.Series:
    import polars as pl

    pandas: Any = sys.modules["pandas"]
    if isinstance(column.dtype, pandas.SparseDtype):
        column = column.sparse.to_dense()
    dtype, kind = column.dtype, getattr(column.dtype, "kind", "O")
    if isinstance(dtype, pandas.CategoricalDtype):
        return _of_categories(name, column)
    if isinstance(dtype, pandas.ArrowDtype):
        return _of_polars(pl.Series(name, column.array.__arrow_array__()))
    if kind == "c":
        raise _refused(name, str(dtype))
    if isinstance(dtype, pandas.PeriodDtype):
        column = column.dt.to_timestamp()
        dtype, kind = column.dtype, "M"
    if kind == "M" and getattr(dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    if kind in "Mm":
        unit = np.datetime_data(column.dtype)[0]
        moment = "datetime64" if kind == "M" else "timedelta64"
        unit = unit if unit in _UNITS else "us"
        return pl.Series(name, column.to_numpy(dtype=f"{moment}[{unit}]"))
    if kind in "biuf":
        wanted = {"b": "bool", "f": "float64"}.get(kind, "int64" if kind == "i" else "uint64")
        if isinstance(dtype, np.dtype):
            return pl.Series(name, column.to_numpy(dtype=wanted))
        values = column.to_numpy(dtype=wanted, na_value=np.zeros(1, wanted)[0])
        return _with_nulls(pl.Series(name, values), column.isna().to_numpy())
    return _of_objects(name, column.astype(object).tolist())


def _with_nulls(column: pl.Series, missing: np.typing.NDArray[np.bool_]) -> pl.Series:
    import polars as pl

    if not missing.any():
        return column
    given = pl.Series(~missing)
    return pl.select(pl.when(given).then(column)).to_series().rename(column.name)


def _of_categories(name: str, column: Any) -> pl.Series:
    """A categorical column of pandas; categories that are not text are written as text."""
    import polars as pl

    from mnngp.tables.parsing import parse_text

    texts = parse_text(_of_pandas(name, column.cat.categories.to_series())).to_list()
    found = np.array([*texts, None], dtype=object)[column.cat.codes.to_numpy()]  # -1 is a gap
    return pl.Series(name, found.tolist(), dtype=pl.String).cast(pl.Categorical)


def _of_objects(name: str, values: Sequence[Any]) -> pl.Series:
    """Cells of any types: of one kind as such, of several as text."""
    import polars as pl

    cells = [None if _is_gap(value) else value for value in values]
    types: dict[type, int] = {}
    for row, cell in enumerate(cells):
        if cell is not None:
            types.setdefault(type(cell), row)
    kinds = frozenset(_kind(name, kind, row) for kind, row in types.items())
    convert, dtype = _AS.get(kinds, (_text, "String"))
    if dtype == "Int64" and not all(cell is None or int(cell) in _INT64 for cell in cells):
        convert, dtype = _text, "String"
    made = [None if cell is None else convert(cell) for cell in cells]
    unit = ("us",) if dtype in ("Datetime", "Duration") else ()
    return pl.Series(name, made, dtype=getattr(pl, dtype)(*unit))


def _is_gap(value: object) -> bool:
    if type(value).__name__ in _GAPS:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    odd = isinstance(value, float | np.floating | np.datetime64 | np.timedelta64)
    return odd and bool(value != value)  # noqa: PLR0124


def _kind(name: str, kind: type, row: int) -> str:
    if kind.__name__ in _WRITTEN and kind.__module__.partition(".")[0] == "pandas":
        return "written"
    for known, classes in _KINDS:
        if issubclass(kind, classes):
            return known
    raise _refused(name, f"a cell of type {kind.__name__} (row {row + 1})")


def _moment(cell: Any) -> datetime.datetime:
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    if hasattr(cell, "to_pydatetime"):  # of pandas
        cell = cell.to_pydatetime(warn=False)
    if not isinstance(cell, datetime.datetime):
        return datetime.datetime(cell.year, cell.month, cell.day)
    return cell if cell.tzinfo is None else cell.astimezone(datetime.UTC).replace(tzinfo=None)


def _duration(cell: Any) -> datetime.timedelta:
    if isinstance(cell, np.timedelta64):
        cell = cell.astype("timedelta64[us]").item()
    to_python: Any = getattr(cell, "to_pytimedelta", None)
    result: datetime.timedelta = cell if to_python is None else to_python()
    return result


def _text(cell: Any) -> str:
    """Of 1 and 1.0 it is the same; what is no text in UTF-8 is marked so."""
    if isinstance(cell, float | np.floating):
        number = float(cell)
        return str(int(number)) if abs(number) < _WHOLE and number.is_integer() else str(number)
    return str(cell).encode("utf-8", "replace").decode()


_AS: dict[frozenset[str], tuple[Callable[[Any], Any], str]] = {  # any others are text
    frozenset(): (bool, "Null"),
    frozenset({"flag"}): (bool, "Boolean"),
    frozenset({"whole"}): (int, "Int64"),
    frozenset({"number"}): (float, "Float64"),
    frozenset({"number", "whole"}): (float, "Float64"),
    frozenset({"date"}): (_moment, "Datetime"),
    frozenset({"time"}): (_moment, "Datetime"),
    frozenset({"time", "date"}): (_moment, "Datetime"),
    frozenset({"duration"}): (_duration, "Duration"),
}
