"""Checks of single values in a model file; all raise ``InputError`` with the name of the entry."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from mnngp.errors import InputError

LARGEST_INT = (1 << 63) - 1
_LONGEST_TEXT = 1000
# as JSON cannot write them
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def whole(name: str, value: Any, low: int, high: int) -> int:
    """An int from low to high, and no bool."""
    if type(value) is not int or not low <= value <= high:
        raise InputError(
            f"{name} must be a whole number from {low} to {high:,} in a model file, got {value!r}"
        )
    return value


def dtype(name: str, value: Any) -> None:
    """Check that it is one of the two that kernels have."""
    # NumPy makes a type of many a text
    if isinstance(value, str) and len(value) <= 8 and value.lstrip("<>=|").isalnum():
        with contextlib.suppress(TypeError, ValueError):
            if np.dtype(value) in (np.float64, np.float32):
                return
    raise InputError(f"{name} must be 'float64' or 'float32', got {value!r}")


def scalars(name: str, value: Any, *, inside: bool = False) -> Any:
    """A number (finite or not), a short text, None, or a list of them."""
    if isinstance(value, list) and not inside:
        return [scalars(f"{name}[{i}]", item, inside=True) for i, item in enumerate(value)]
    if isinstance(value, str) and len(value) <= _LONGEST_TEXT:
        return _NOT_FINITE.get(value, value)
    number = isinstance(value, float) or (isinstance(value, int) and abs(value) <= LARGEST_INT)
    if value is None or number:
        return value
    raise InputError(f"{name} must be a number, a short text, or a list of them, got {value!r}")


def as_json(name: str, value: Any) -> Any:
    """A value as strict JSON has it."""
    if isinstance(value, np.ndarray | list | tuple):
        return [as_json(name, item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0.0 else "-Infinity"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"{name} cannot be saved, got {value!r}")


def all_as_json(values: dict[str, Any]) -> dict[str, Any]:
    """Named values as strict JSON has them."""
    return {name: as_json(name, value) for name, value in values.items()}


def shortened(text: object) -> str:
    """A text that was made of a stranger's, with an end."""
    return whole_text if len(whole_text := str(text)) <= 500 else f"{whole_text[:500]} …"
