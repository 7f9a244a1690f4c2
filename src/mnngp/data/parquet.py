"""Parquet files are checked before polars reads them: what is said twice agrees, sizes are so.

There is no checksum of the whole. Of a file with one changed byte polars may read fewer rows, or
columns of another name, or ask for more memory than there is, which ends the process. That values
have changed is noticed where pages have checksums: polars writes none, pyarrow if it is told to.
"""

from __future__ import annotations

import zlib
from typing import Any

_MAGIC = b"PAR1"
_DICTIONARY = 2
# By the type of a page: the field of its header that begins with the number of values.
_COUNTED = {0: 5, _DICTIONARY: 7, 3: 8}


class DamagedError(Exception):
    """What is wrong with a Parquet file."""


def check(data: bytes) -> tuple[int, list[str]]:
    """The number of rows and the names of the columns of a file that does not contradict itself.

    Raises
    ------
    DamagedError
        It does.
    """
    try:
        return _check(data)
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError("its metadata cannot be read") from error


def _check(data: bytes) -> tuple[int, list[str]]:
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    magic = data[:4] == data[-4:] == _MAGIC and end >= 4
    _agree(magic, "it does not begin and end as a Parquet file does")
    thrift = _Thrift(data, end)
    footer = thrift.struct()
    _agree(thrift.at == len(data) - 8, "its metadata is not of the length that it says")
    (root, *schema), rows, groups = footer[2], footer[3], footer[4]
    names, leaves, inside = [], [], 0
    for element in schema:  # each is followed by those within it, if there are
        if not inside:
            names.append(element[4].decode())
        within = element.get(5, 0)
        inside += within - (inside > 0)
        if not within:
            leaves.append(element)
    _agree(len(names) == root.get(5, 0) and not inside, "its columns are not as many as it says")
    for group in groups:
        for chunk, leaf in zip(group[1], leaves, strict=True):
            _check_column(data, chunk[3], leaf, group[3])
    _agree(sum(group[3] for group in groups) == rows, "its rows are not as many as it says")
    return rows, names


def _check_column(data: bytes, column: dict[int, Any], leaf: dict[int, Any], rows: int) -> None:
    name, path, count = leaf[4].decode(), column[3], column[5]
    scale = leaf.get(10, {}).get(5, {}).get(1, leaf.get(7))  # of a decimal
    same = (column[1], path[-1], scale) == (leaf[1], leaf[4], leaf.get(7, scale))
    _agree(same, f"column {name!r} has two names or types")
    _agree(len(path) > 1 or count == rows, f"column {name!r} has {count} values in {rows} rows")
    if count:
        values = _values(data, column)
        _agree(values == count, f"column {name!r} has {values} values, not {count} as it says")


def _values(data: bytes, column: dict[int, Any]) -> int:
    """How many values the pages of a column have."""
    at = min(column[9], column.get(11) or column[9])
    end, values = at + column[7], 0
    _agree(0 < at <= end <= len(data), "pages are beyond the end of the file")
    while at < end:
        thrift = _Thrift(data, at)
        header = thrift.struct()
        kind, size, count = header[1], header[3], header[_COUNTED[header[1]]][1]
        _agree(min(header[2], size, count) >= 0, "a page has a negative size")
        at = thrift.at + size
        if 4 in header:
            checksum = zlib.crc32(data[thrift.at : at])
            _agree(checksum == header[4] % 2**32, "a page is not what its checksum is of")
        values += count if kind != _DICTIONARY else 0
    _agree(at == end, "pages are longer than their column")
    return values


def _agree(condition: bool, otherwise: str) -> None:
    if not condition:
        raise DamagedError(otherwise)


class _Thrift:
    """Metadata, which is in Thrift's compact protocol. A struct is a dict by number of field."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def count(self) -> int:
        value = 0
        for shift in range(0, 64, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a number of more than 64 bits")

    def integer(self) -> int:
        value = self.count()
        return (value >> 1) ^ -(value & 1)

    def binary(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while byte := self.byte():
            number = number + (byte >> 4) if byte >> 4 else self.integer()
            kind = byte & 0xF
            fields[number] = kind == 1 if kind in {1, 2} else self.value(kind)  # truth has no value
        return fields

    def items(self) -> list[Any]:
        byte = self.byte()
        size = byte >> 4 if byte >> 4 < 0xF else self.count()
        return [self.value(byte & 0xF) for _ in range(size)]

    def value(self, kind: int) -> Any:
        match kind:
            case 1 | 2 | 3:
                return self.byte()
            case 4 | 5 | 6:
                return self.integer()
            case 7:
                return self.binary(8)
            case 8:
                return self.binary(self.count())
            case 9 | 10:
                return self.items()
            case 12:
                return self.struct()
        raise ValueError("a type that Parquet does not use")
