"""The arrays of a model file: type, shape and values of each, and what they say of each other.

All checks raise ``InputError``, which is a ``ModelFileError`` where a file is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mnngp._typing import Array
from mnngp.errors import InputError
from mnngp.estimators import model_kernel, model_table
from mnngp.estimators.model_archive import PIECE, shortened
from mnngp.estimators.table_features import VERSIONS
from mnngp.kernels import layout

# the smallest number above zero, and the largest that is finite
TINY, MOST = 5e-324, float(np.finfo(np.float64).max)
_LARGEST_UNIT = 1e154  # of targets: its square is a number
_LARGEST_MAP = 1 << 31  # numbers that embedded features may become


@dataclass(frozen=True)
class Form:
    """What an array in the file must be.

    It is an attribute of the ``FittedProcess``. Its axes have a letter each: n unique inputs, d
    features, k targets, r rows with a weight, s features that are scaled, c channels of images that
    are whitened, q knots of columns that are embedded, h × p the packed factor.
    Where a letter stands for the first time, the array's own shape says how many there are.
    """

    attribute: str
    axes: str
    low: float = -MOST  # all values are between the two, and so no NaN
    high: float = MOST
    dtype: str = "float64"  # or "int64", "kernel" for that of the kernel, "labels" for classes
    # or for a "classifier", if it is "factored", if images are "whitened" or columns "embedded", or
    # where it is "known"
    when: str = "always"


# A new array is a line here, and one where ``model_file`` makes a model of them.
FORMS = {
    "directions": Form("posterior.points.stored", "nd", -1.001, 1.001, dtype="kernel"),
    "square_lengths": Form("posterior.points.square_lengths", "n", low=0.0),
    "scaling_mean": Form("scaling.mean", "s"),
    "scaling_scale": Form("scaling.scale", "s", low=TINY, high=math.inf),  # of a constant column
    "filters": Form("scaling.filters", "dc", when="whitened"),
    "knots": Form("scaling.knots", "qd", when="embedded"),
    "values": Form("scaling.values", "qd", low=-10.0, high=10.0, when="embedded"),
    "y": Form("data.y", "nk"),
    "weight": Form("data.weight", "n", low=TINY),
    "within": Form("data.within", "nk", low=0.0),
    "part": Form("data.held_out_weight", "n", low=TINY),
    "row": Form("data.row", "r", low=0, dtype="int64"),
    "place": Form("data.group", "r", low=0, dtype="int64"),
    "row_y": Form("data.row_y", "rk"),
    "row_weight": Form("data.row_weight", "r", low=TINY),
    "offset": Form("offset", "k", -_LARGEST_UNIT, _LARGEST_UNIT),
    "unit": Form("unit", "k", TINY, _LARGEST_UNIT),
    "noise_var": Form("posterior.noise_var", "n", low=0.0),
    "deviation": Form("posterior.deviation", "n", low=TINY),
    "alpha": Form("posterior.alpha", "nk"),
    "beta": Form("posterior.beta", "k"),
    "t": Form("posterior.t", "n"),
    "classes": Form("", "k", dtype="labels", when="classifier"),
    "factor": Form("posterior.inverse.packed.memory", "hp", dtype="kernel", when="factored"),
    "precision": Form("posterior.known_precision", "n", when="known"),
}


class ArrayChecks:
    """What is known of the arrays, from the header and from those that were checked already."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self.header = header
        self.kernel_dtype = np.dtype(header["kernel"]["dtype"])
        self.sizes: dict[str, int] = {}

    def in_order(self, given: Mapping[str, Any]) -> list[str]:
        """The given names in the order of ``FORMS``, if they are those that the header asks for."""
        there = {"always"}
        if self.header["factored"]:
            there.add("factored")
        if self.header["normalize"] == "whitened":
            there.add("whitened")
        if self.header["normalize"] in VERSIONS:
            there.add("embedded")
        if "calibration" in self.header:
            there.add("classifier")
        for name, form in FORMS.items():
            if form.when in there and name not in given:
                raise InputError(f"the array {name} is missing")
        for name in given:
            if name not in FORMS or FORMS[name].when not in there | {"known"}:
                raise InputError(f"the array {shortened(repr(name))} is none that such a model has")
        return [name for name in FORMS if name in given]

    def dtype(self, name: str) -> np.dtype[Any] | None:
        """Of an array; None if there are several that it can have."""
        wanted = FORMS[name].dtype
        if wanted == "labels":
            return None
        return self.kernel_dtype if wanted == "kernel" else np.dtype(wanted)

    def check_length(self, name: str, length: int) -> None:
        """Before an array is read: whether it takes much more than those before it ask for."""
        axes, dtype = FORMS[name].axes, self.dtype(name)
        if dtype is None or not set(axes) <= set(self.sizes):
            return
        expected = math.prod(self.sizes[axis] for axis in axes) * dtype.itemsize
        if length > expected + PIECE:
            raise InputError(f"{name} must take {expected:,} bytes and a header, got {length:,}")

    def check(self, name: str, array: Array) -> None:
        """Type, shape and values of an array."""
        form, dtype = FORMS[name], self.dtype(name)
        if dtype is None:
            _check_labels(name, array)
        elif array.dtype != dtype:
            raise InputError(
                f"{name} cannot be an array of {array.dtype}, it must be one of {dtype}"
            )
        self._check_shape(name, array.shape)
        if form.dtype == "kernel" and not array.flags.c_contiguous:
            raise InputError(f"{name} must be by rows: compiled code works on its memory")
        if name == "directions":
            n, d = array.shape
            half, columns = layout.packed_shape(n)
            scaled = d if self.header["normalize"] == "standard" else 0
            self.sizes |= {"s": scaled, "h": half, "p": columns}
            embedding = model_kernel.build(self.header["kernel"]).embedding
            if embedding is not None:
                form = replace(form, low=-MOST, high=MOST)  # features, as they are
                if n * embedding.width(d) > _LARGEST_MAP:
                    raise InputError(
                        f"directions must be fewer, or their embedding shorter: {n} rows of "
                        f"{embedding.width(d)} numbers are too many"
                    )
                embedding.scale(d)  # raises if there are not as many weights as features
            shape = self.header["kernel"].get("image_shape")
            if shape is not None:
                self.sizes["c"] = shape[2] if len(shape) == 3 else 1
                form = replace(form, low=-MOST, high=MOST)  # pixels, as they are
                if math.prod(shape) != d:
                    raise InputError(f"directions must have {math.prod(shape)} pixels, got {d}")
        if 0 in array.shape and form.axes != "s":
            raise InputError(f"{name} must not be empty, got the shape {array.shape}")
        if dtype is not None:
            _check_values(name, array, form.low, form.high)

    def _check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """Compare with the sizes that are known, and learn the others."""
        axes = FORMS[name].axes
        if len(shape) == len(axes):
            for axis, size in zip(axes, shape, strict=True):
                self.sizes.setdefault(axis, size)
            if shape == tuple(self.sizes[axis] for axis in axes):
                return
        wanted = ", ".join(str(self.sizes.get(axis, axis)) for axis in axes)
        raise InputError(
            f"{name} must have the shape ({wanted}{',' * (len(axes) == 1)}), got {shape}"
        )

    def check_together(self, arrays: Mapping[str, Array]) -> None:
        """What arrays and header say of each other."""
        header, sizes = self.header, self.sizes
        self._check_rows(arrays["row"], arrays["place"])
        model_table.check_width(header, sizes["d"])
        if header.get("flat") and sizes["k"] != 1:
            raise InputError(f"flat must be false for {sizes['k']} targets, got true")
        if len(header["warps"]) not in (0, sizes["k"]):
            raise InputError(
                f"warps must be none, or one for each of {sizes['k']} targets, "
                f"got {len(header['warps'])}"
            )
        for what in ("signal_var", "noise"):
            if not math.isfinite(header[what] * float(arrays["unit"].max()) ** 2):
                raise InputError(
                    f"{what} must be finite in the units of the targets, got {header[what]} times "
                    "the square of unit"
                )
        if header.get("classes_are_objects") and arrays["classes"].dtype.kind != "U":
            raise InputError(
                f"classes must be texts if they are objects, got {arrays['classes'].dtype}"
            )
        if "factor" in arrays:
            for _, diagonal in layout.packed_diagonal(arrays["factor"], sizes["n"]):
                _check_values("the diagonal of factor", diagonal, TINY, MOST)
        else:
            with np.errstate(all="ignore"):
                noise = arrays["noise_var"] / (header["contraction"] * arrays["deviation"] ** 2)
            _check_values("noise_var relative to the kernel", noise, 0.0, MOST)

    def _check_rows(self, row: Array, group: Array) -> None:
        """Whether rows are numbered as they can be, and each unique input has one."""
        n, rows = self.sizes["n"], self.header["rows"]
        most = 1_000_000 + 1000 * len(row)
        if not (row[1:] > row[:-1]).all() or row[-1] >= rows or rows > most:
            raise InputError(
                f"rows must be numbers that ascend, below rows = {rows}, which with {len(row)} "
                f"rows of a weight above zero is at most {most:,}"
            )
        if group.max() >= n or not np.bincount(group, minlength=n).all():
            raise InputError(
                f"rows must belong to {n} unique inputs, each to one, and none must have no row"
            )


def _check_values(name: str, array: Array, low: float, high: float) -> None:
    """Whether all numbers are in [low, high]."""
    if array.size == 0:
        return
    least, most = array.min().item(), array.max().item()
    if not (low <= least and most <= high):  # also for NaN
        bound = {-MOST: "", TINY: " and above zero", 0.0: " and not negative"}.get(
            low, f" and from {low} to {high}"
        )
        raise InputError(f"{name} must be finite{bound}, got values from {least} to {most}")


def _check_labels(name: str, array: Array) -> None:
    """Whether an array holds labels as ``np.unique`` gives them."""
    raw, kind = np.ascontiguousarray(array).reshape(-1), array.dtype.kind
    if kind not in "biufUMm" or not array.dtype.itemsize:
        raise InputError(f"{name} must be numbers, dates or texts, got {array.dtype}")
    # Not every byte is a bool, nor every number of 32 bits a character.
    if (kind == "b" and raw.size and raw.view(np.uint8).max() > 1) or (
        kind == "U" and raw.size and raw.view(np.uint32).max() > 0x10FFFF
    ):
        raise InputError(f"{name} must be of {array.dtype}, got bytes that are none")
    if kind == "f" and not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    if array.ndim == 1 and not np.array_equal(np.unique(array), array, equal_nan=kind in "Mm"):
        raise InputError(f"{name} must be in ascending order, each label once")
