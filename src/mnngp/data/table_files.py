"""Tables on disk: CSV and its relatives, and Parquet."""

from __future__ import annotations

import codecs
import csv
import io
import os
from itertools import islice
from pathlib import Path

import polars as pl

from mnngp.data import parquet
from mnngp.errors import DataError, InputError

TEXT, TABBED, PARQUET = (".csv", ".txt", ".data"), (".tsv", ".tab"), (".parquet", ".pq")
_NOT_A_NUMBER, _NULL = ("NaN", "nan", "NAN", "-nan"), ("NULL", "Null", "null", "None")
GAPS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "?", *_NOT_A_NUMBER, *_NULL)
_SEPARATORS = (",", ";", "\t", "|")
_SAMPLE, _RECORDS = 1 << 16, 20  # characters and records that the separator is guessed from


def read_table(path: str | os.PathLike[str]) -> pl.DataFrame:
    """Read a table from a CSV file (.csv, .tsv, .txt) or a Parquet file.

    A CSV file has a header, is UTF-8 (with or without a mark at its beginning), and is separated by
    commas, semicolons, tabs or bars. Its columns are text with spaces around it removed and gaps
    (nothing, ``NA``, ``NaN``, ``null``, ``?``, …) as nulls; what they mean is for the ``Encoder``
    to learn, from the rows that a model is fitted to. All lines have as many fields as the header,
    blank ones aside. An unnamed first column that counts the rows, as pandas writes it, is left
    out. Text in a Parquet file has a type already: those columns are categories.

    Raises
    ------
    DataError
        The file is missing, empty, damaged, or not of these kinds; the text says what and where.
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path must be the path of a file, got {path!r}")
    path = Path(path)
    suffix = path.suffix.lower()
    if not path.exists():
        raise DataError(f"{path} is not there")
    if not path.is_file():
        raise DataError(f"{path} is not a file")
    if suffix not in TEXT + TABBED + PARQUET:
        raise DataError(
            f"{path} must end in one of {', '.join(TEXT + TABBED + PARQUET)}; save the "
            "table as one of these"
        )
    try:
        frame = _parquet(path) if suffix in PARQUET else _text(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except (
        parquet.DamagedError,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
    ) as error:
        reason = str(error).strip().partition("\n")[0]
        raise DataError(f"{path} is damaged or not a table: {reason}") from error
    if frame.width == 0 or frame.height == 0:
        raise DataError(f"{path} is empty: it has {frame.width} columns and {frame.height} rows")
    return frame


def _parquet(path: Path) -> pl.DataFrame:
    data = path.read_bytes()
    rows, names = parquet.check(data)
    frame = pl.read_parquet(io.BytesIO(data), hive_partitioning=False)
    if (frame.height, frame.columns) != (rows, names):
        raise parquet.DamagedError("not all of its columns and rows can be read")
    return frame.with_columns(pl.col(pl.String).cast(pl.Categorical))


def _text(path: Path) -> pl.DataFrame:
    lines = _decoded(path)
    text = _without_blank_lines(lines)
    if not text.strip():
        raise DataError(f"{path} is empty")
    separator = "\t" if path.suffix.lower() in TABBED else _separator(text)
    names = _header(path, text, separator)
    _check_widths(path, lines, separator, len(names))
    frame: pl.DataFrame = pl.read_csv(
        io.BytesIO(text.encode()), separator=separator, infer_schema_length=0
    )
    if frame.width != len(names):
        raise DataError(f"{path}: the header has {len(names)} columns, the table {frame.width}")
    frame.columns = [str(number) for number in range(len(names))]
    frame = frame.with_columns(pl.all().str.strip_chars())
    frame = frame.with_columns(pl.when(~pl.all().is_in(GAPS)).then(pl.all()))
    if not names[0] and frame["0"].to_list() in (
        [str(i + first) for i in range(frame.height)] for first in (0, 1)
    ):
        frame, names = frame.drop("0"), names[1:]
    if "" in names:
        raise DataError(f"{path}: column {names.index('') + 1} has no name")
    frame.columns = names
    return frame


def _decoded(path: Path) -> str:
    """The text of a file, its lines ending in a line feed."""
    data = path.read_bytes()
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path} is not UTF-8 text: byte {data[error.start]:#04x} in line "
            f"{number}; save it as UTF-8"
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _without_blank_lines(text: str) -> str:
    kept, quoted = [], False
    for line in text.split("\n"):
        if line.strip(" ") or quoted:
            kept.append(line)
        quoted ^= line.count('"') % 2 == 1  # an empty line within quotes is a part of the text
    return "\n".join(kept)


def _separator(text: str) -> str:
    """The separator that divides the first lines into equally many fields, and into the most."""
    sample = text[:_SAMPLE]
    scores = {}
    for separator in _SEPARATORS:
        try:
            widths = [
                len(record)
                for record in islice(csv.reader(io.StringIO(sample), delimiter=separator), _RECORDS)
            ]
        except csv.Error:
            continue
        if len(sample) < len(text) and len(widths) > 1:
            widths.pop()  # the sample may end within this record
        if widths[0] > 1:
            scores[separator] = (len(set(widths)) == 1, widths[0])
    return max(scores, key=scores.__getitem__, default=",")


def _header(path: Path, text: str, separator: str) -> list[str]:
    try:
        names = [name.strip() for name in next(csv.reader(io.StringIO(text), delimiter=separator))]
    except csv.Error as error:
        raise DataError(f"{path}: the header cannot be read: {error}") from error
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise DataError(
            f"{path} has more than one column {', '.join(map(repr, twice))}; every "
            "column needs a name of its own"
        )
    return names


def _check_widths(path: Path, text: str, separator: str, width: int) -> None:
    """Every line has as many fields as the header; lines are counted as an editor does."""
    reader = csv.reader(io.StringIO(text), delimiter=separator)
    line = 1
    try:
        for record in reader:
            if len(record) != width and (len(record) > 1 or (record and record[0].strip(" "))):
                fields = f"{len(record)} field{'s' * (len(record) > 1)}"
                short = "; a gap is written as an empty field" if len(record) < width else ""
                raise DataError(f"{path}: line {line} has {fields}, the header has {width}{short}")
            line = reader.line_num + 1
    except csv.Error:
        return  # what polars says of it
