"""A table of a TOML file, read value by value: an error names the key."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from mnngp import _validation
from mnngp.errors import InputError

MOST = 1_000_000  # values of a range, and cells
_REQUIRED: Any = object()


class Table:
    """One table of the file, read value by value: an error names the key.

    ``name`` is how errors call it, ``known`` are the keys it may have.
    """

    def __init__(self, name: str, values: Any, known: Collection[str]) -> None:
        if not isinstance(values, Mapping):
            written = "" if name.endswith("]") else f", [{name}]"
            raise InputError(f"{name} must be a table{written}, got {values!r}")
        self.prefix, self.values = f"{name}." if name else "", values
        for key in values:
            if key not in known:
                raise InputError(
                    f"{self.prefix}{key} is not known here; there are {', '.join(sorted(known))}"
                )

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def get(self, key: str, default: Any = _REQUIRED) -> Any:
        """A value; without a default it must be there."""
        if key not in self.values and default is _REQUIRED:
            raise InputError(f"{self.prefix}{key} is missing")
        return self.values.get(key, default)

    def table(self, key: str, known: Collection[str]) -> Table:
        return Table(f"{self.prefix}{key}", self.get(key), known)

    def choice(self, key: str, allowed: Collection[str], default: Any = _REQUIRED) -> str:
        return _validation.one_of(self.prefix + key, self.get(key, default), tuple(allowed))

    def integer(self, key: str, default: Any = _REQUIRED) -> int:
        return _validation.positive_int(self.prefix + key, self.get(key, default))

    def integers(self, key: str, most: int | None = None) -> tuple[int, ...]:
        """One positive integer or several, ascending and each once."""
        numbers = {_validation.positive_int(name, item) for name, item in self.items(key)}
        if most is not None and max(numbers) > most:
            raise InputError(f"{self.prefix}{key} must be at most {most:,}, got {max(numbers):,}")
        return tuple(sorted(numbers))

    def reals(self, key: str, default: Any = _REQUIRED, **limits: Any) -> tuple[float, ...]:
        """A number, several, or a range; ascending and each once.

        ``limits`` are those of ``_validation.real``.
        """
        limits = {"low": 0.0, "high": _validation.LARGEST_VARIANCE, **limits}
        if not isinstance(self.get(key, default), Mapping):
            items = self.items(key, default)
            return tuple(sorted({_validation.real(name, item, **limits) for name, item in items}))
        inner = self.table(key, ("from", "to", "count"))
        low, high = (
            _validation.real(inner.prefix + end, inner.get(end), **limits) for end in ("from", "to")
        )
        if (count := inner.integer("count")) > MOST:
            raise InputError(f"{inner.prefix}count must be at most {MOST:,}, got {count:,}")
        return tuple(sorted(set(np.linspace(low, high, count).tolist())))

    def items(self, key: str, default: Any = _REQUIRED) -> list[tuple[str, Any]]:
        """The values of a list, or the one value, with their names."""
        value, name = self.get(key, default), self.prefix + key
        if not isinstance(value, list):
            return [(name, value)]
        if not value:
            raise InputError(f"{name} must hold at least one value, got none")
        return [(f"{name}[{index}]", item) for index, item in enumerate(value)]


def leaves(value: Any, key: str = "", *, lists: bool = False) -> Iterator[tuple[str, Any]]:
    """The values of nested tables and lists, with their dotted keys.

    With ``lists`` a list that holds no table is a value.
    """
    inner: Iterable[tuple[str, Any]]
    if isinstance(value, Mapping):
        inner = ((f"{key}.{name}" if key else name, item) for name, item in value.items())
    elif isinstance(value, list) and not (lists and not any(isinstance(i, Mapping) for i in value)):
        inner = ((f"{key}[{index}]", item) for index, item in enumerate(value))
    else:
        yield key, value
        return
    for name, item in inner:
        yield from leaves(item, name, lists=lists)
