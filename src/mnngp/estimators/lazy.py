"""Results that are computed when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

_Value = TypeVar("_Value")


class Lazy(Generic[_Value]):
    """A value that is computed once; threads that ask for it meanwhile wait."""

    def __init__(self, value: _Value | None = None) -> None:
        self._value = value
        self._lock = threading.Lock()

    def get(self, compute: Callable[[], _Value]) -> _Value:
        """The value, by ``compute`` if it is not known yet."""
        with self._lock:
            if self._value is None:
                self._value = compute()
            return self._value

    def __reduce__(self) -> Any:
        return Lazy, (self._value,)  # a lock stays where it is


class LazyResults:
    """Annotated attributes that are computed together when one of them is first asked for.

    Asking whether there are any costs nothing.
    """

    def __init__(self, compute: Callable[[], dict[str, Any]]) -> None:
        self._compute = compute

    def __getattr__(self, name: str) -> Any:
        if name not in type(self).__annotations__ or "_compute" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        vars(self).update(self._compute())
        return vars(self)[name]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).__annotations__}

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).__annotations__]

    def __repr__(self) -> str:
        numbers = {
            name: value for name, value in self.__getstate__().items() if isinstance(value, float)
        }
        text = ", ".join(f"{name}={value:.4g}" for name, value in numbers.items())
        return f"{type(self).__name__}({text})"
