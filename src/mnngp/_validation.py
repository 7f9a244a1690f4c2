"""Checks of arguments: each error names the argument, its value and what is allowed."""

from __future__ import annotations

import contextlib
import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp.errors import InputError

Array = NDArray[Any]
LARGEST_VARIANCE = 1e200  # a layer must not overflow before its scale can be taken out


def positive_int(name: str, value: object) -> int:
    """Return ``value`` as an int, or raise: a rank, a depth, a number of points."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral) or value < 1:
        raise InputError(f"{name} must be a positive integer (1, 2, 3, ...), got {value!r}")
    return int(value)


def seed(name: str, value: object) -> int:
    """Return ``value`` as an int that every random generator takes, and a database holds."""
    if (
        isinstance(value, bool | np.bool_)
        or not isinstance(value, Integral)
        or not 0 <= int(value) < 2**63
    ):
        raise InputError(f"{name} must be a whole number from 0 to 2⁶³ - 1, got {value!r}")
    return int(value)


def real(
    name: str, value: object, *, low: float, high: float = math.inf, strict: bool = False
) -> float:
    """Return ``value`` as a finite float in [low, high] (``strict``: above low), or raise."""
    number = math.nan
    if isinstance(value, Real | np.floating) and not isinstance(value, bool | np.bool_):
        with contextlib.suppress(OverflowError):  # an integer beyond floating point
            number = float(value)
    inside = low < number <= high if strict else low <= number <= high
    if not (math.isfinite(number) and inside):
        bound = f"{'above' if strict else 'at least'} {low:g}" + (
            f" and at most {high:g}" if high < math.inf else ""
        )
        raise InputError(f"{name} must be a finite number {bound}, got {value!r}")
    return number


def variances(name: str, value: object, count: int, *, zero: bool) -> NDArray[np.float64]:
    """Return one variance for each of ``count`` affine maps, from a scalar or a sequence."""
    if isinstance(value, Real | np.floating) and not isinstance(value, bool | np.bool_):
        return np.full(count, real(name, value, low=0.0, high=LARGEST_VARIANCE, strict=not zero))
    if not isinstance(value, list | tuple | np.ndarray):
        raise InputError(f"{name} must be a number or a sequence of {count} numbers, got {value!r}")
    if (isinstance(value, np.ndarray) and value.ndim != 1) or len(value) != count:
        raise InputError(
            f"{name} must be one number, or {count} numbers for {count - 1} hidden layers (one for "
            f"the affine map before each activation, and one for the output), got {value!r}"
        )
    limits = {"low": 0.0, "high": LARGEST_VARIANCE, "strict": not zero}
    return np.array([real(f"{name}[{i}]", v, **limits) for i, v in enumerate(value)])  # type: ignore[arg-type]


def bounds(name: str, value: object) -> None:
    """Check the bounds of a hyperparameter: "fixed", a pair for all elements, or one for each."""
    if isinstance(value, str) and value == "fixed":
        return
    with contextlib.suppress(ValueError, TypeError):
        pairs = np.atleast_2d(np.asarray(value, dtype=np.float64))
        if (
            pairs.ndim == 2
            and pairs.shape[1] == 2
            and np.isfinite(pairs).all()
            and np.all((pairs[:, 0] > 0.0) & (pairs[:, 0] <= pairs[:, 1]))
        ):
            return
    raise InputError(
        f"{name} must be 'fixed' or a pair of finite numbers 0 < low <= high, got {value!r}"
    )


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def real_array(name: str, value: Any) -> Array:
    """Return ``value`` as a numeric array (bool, integer or float), refusing everything else."""
    if hasattr(value, "toarray"):  # scipy.sparse matrices and arrays
        raise InputError(
            f"{name} is sparse ({type(value).__name__}); pass a dense array, e.g. {name}.toarray()"
        )
    if np.ma.is_masked(value):
        raise InputError(f"{name} is a masked array with masked entries; fill or drop them first")
    try:
        array = np.asarray(value)
        if (
            array.dtype.kind == "O"
            and hasattr(value, "dtypes")
            and all(getattr(column, "kind", "O") in "biuf" for column in value.dtypes)
        ):
            array = value.to_numpy(dtype=np.float64)  # a frame of numeric columns of several types
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} cannot be made an array: {error}") from error
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"{name} must be numeric (bool, integer or float), got dtype {array.dtype}"
            + ("; convert the columns to numbers first" if array.dtype.kind in "OSUV" else "")
        )
    return array


def points(name: str, value: Any, columns: int | None = None) -> Array:
    """Return ``value`` as a finite numeric matrix, a row a point.

    The array keeps its dtype and layout; nothing is copied.
    """
    array = real_array(name, value)
    if array.ndim != 2:
        raise InputError(
            f"{name} must have 2 dimensions (points, features), got shape {array.shape}"
            + (f"; for a single feature use {name}.reshape(-1, 1)" if array.ndim == 1 else "")
        )
    if 0 in array.shape:
        raise InputError(
            f"{name} must have at least one point and one feature, got shape {array.shape}"
        )
    if columns is not None and array.shape[1] != columns:
        raise InputError(f"{name} must have {columns} columns, as X has, got shape {array.shape}")
    _check_finite(name, array)
    return array


def _check_finite(name: str, array: Array) -> None:
    # a finite sum has finite terms, and is quicker to look at
    with np.errstate(over="ignore", invalid="ignore"):
        suspect = array.dtype.kind == "f" and not np.isfinite(array.sum(dtype=np.float64))
    if suspect and not np.isfinite(array).all():
        place = tuple(int(index) for index in np.argwhere(~np.isfinite(array))[0])
        raise InputError(
            f"{name} must be finite, got {name}[{', '.join(map(str, place))}] = {array[place]}"
        )


def image_shape(value: object, signals: bool | None) -> tuple[int, ...] | None:
    """Return the shape of an image as (height, width, channels), that of a signal as (T, 1, C)."""
    if value is None:
        return None
    allowed = "(length, channels)" if signals else "(height, width) or (height, width, channels)"
    if not isinstance(value, tuple | list) or not 2 <= len(value) <= (2 if signals else 3):
        raise InputError(f"image_shape must be None or {allowed}, got {value!r}")
    shape = tuple(positive_int(f"image_shape[{i}]", part) for i, part in enumerate(value))
    if signals:
        return (shape[0], 1, shape[1])
    return shape if len(shape) == 3 else (*shape, 1)


def images(
    name: str, value: Any, shape: tuple[int, ...] | None, signals: bool | None
) -> tuple[Array, bool]:
    """Return ``value`` as finite images (n, height, width, channels), and whether it has signals.

    Those are images of one column. ``shape`` is from ``image_shape``, ``signals`` says what windows
    are for. Where neither tells, three dimensions are images of one channel (n, height, width),
    unless they are more than twice as high as wide: those are signals (n, length, channels).
    """
    array = real_array(name, value)
    if 0 in array.shape:
        raise InputError(f"{name} must have at least one image and one pixel, got {array.shape}")
    if shape is not None:
        whole = (shape[0], shape[2]) if signals else shape
        flat, plain = (math.prod(shape),), shape[:2] if shape[2] == 1 and not signals else whole
        if array.shape[1:] not in {whole, plain, flat}:
            raise InputError(
                f"{name} must have the shape (n, {', '.join(map(str, whole))}) or (n, {flat[0]}), "
                f"as image_shape says, got {array.shape}"
            )
        array = array.reshape(len(array), *shape)
    elif array.ndim == 3:
        if signals is None:
            signals = array.shape[1] > 2 * array.shape[2]
        array = array[:, :, None, :] if signals else array[..., None]
    elif array.ndim != 4 or signals:
        kinds = "(n, length, channels)" if signals else "(n, height, width, channels)"
        raise InputError(
            f"{name} must have the shape {kinds}, got {array.shape}"
            + ("; for flat rows say image_shape=..." if array.ndim == 2 else "")
        )
    _check_finite(name, array)
    return array, bool(signals)


def targets(y: Any, n: int) -> tuple[NDArray[np.float64], bool]:
    """Targets as a matrix (n, targets), and whether they were a vector."""
    values = np.asarray(real_array("y", y), dtype=np.float64)
    if values.ndim not in (1, 2) or len(values) != n or 0 in values.shape:
        raise InputError(
            f"y must have shape ({n},) or ({n}, targets), a row for each row of X, "
            f"got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise InputError(f"y must be finite, got {values[~np.isfinite(values)][0]}")
    return values.reshape(n, -1), values.ndim == 1


def noise(noise_var: Any, n: int) -> NDArray[np.float64]:
    """The variance of the noise of each of n targets."""
    if np.ndim(noise_var) == 0:
        return np.full(n, real("noise_var", noise_var, low=0.0, high=LARGEST_VARIANCE))
    values = np.asarray(real_array("noise_var", noise_var), dtype=np.float64)
    if values.shape != (n,):
        raise InputError(f"noise_var must be a number or {n} numbers, got shape {values.shape}")
    right = (values >= 0.0) & (values <= LARGEST_VARIANCE)
    if not right.all():
        raise InputError(
            f"noise_var must be from 0 to {LARGEST_VARIANCE:g}, "
            f"got {values[~right][0]:g} at {int(np.argmin(right))}"
        )
    return values


def correlations(name: str, value: Any) -> NDArray[np.float64]:
    """Return ``value`` as correlations in [-1, 1]; rounding of 1e-12 past the ends is taken off."""
    array = np.asarray(real_array(name, value), dtype=np.float64)
    if not np.all(np.abs(array) <= 1.0 + 1e-12):  # also false for NaN
        worst = array[~(np.abs(array) <= 1.0 + 1e-12)].flat[0]
        raise InputError(f"{name} must be correlations in [-1, 1], got {worst}")
    return np.clip(array, -1.0, 1.0)
