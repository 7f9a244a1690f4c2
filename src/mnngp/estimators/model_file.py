"""Fitted models on disk, in an open format: a zip archive of ``model.json`` and NumPy arrays.

There is no pickle in it, so a file from a stranger cannot run code: the JSON is data (strict JSON:
a number that is not finite is one of the words "NaN", "Infinity" and "-Infinity"), and arrays of
objects are refused. What is read is checked before a model is made of it, in this order: the parts
of the archive, the digest of the header, every number in the header, and for each array its digest,
type, shape and values. So no file takes more time or memory than one of its length may. Nothing is
compressed, and arrays stay where they are read to: reading takes as much memory as the file is
long. ``save`` makes the same checks, so what is written can be read.

Predictions after a round trip are the same to the last bit: the factor and the weights are stored,
not recomputed. A model without a factor, solved by iteration or on a cluster, is stored without
one: predictions need the weights alone, and variances are solved for by conjugate gradients where
it is read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from mnngp import __version__, _validation
from mnngp._io import atomic_write
from mnngp.errors import InputError, ModelFileError
from mnngp.estimators import scaling
from mnngp.estimators.calibration import Calibration, Late
from mnngp.estimators.scaling import Scaling
from mnngp.inference.observations import Observations
from mnngp.inference.posterior import Posterior, Weights
from mnngp.inference.solvers import by_name
from mnngp.inference.solvers.cholesky import Factor, Report
from mnngp.inference.solvers.conjugate_gradients import (
    ConjugateGradients,
    Iteration,
    IterationReport,
)
from mnngp.inference.solvers.covariance import Covariance
from mnngp.inference.solvers.interface import Inverse
from mnngp.inference.solvers.packed import Packed
from mnngp.kernels import layout
from mnngp.kernels.points import Points
from mnngp.kernels.sklearn import MaxoutKernel

FORMAT, VERSION = "mnngp-model", 1
LARGEST_DEPTH = 10_000  # the kernel of a handful of points takes seconds then
LARGEST_RANK = 1_000_000
_LARGEST_INT = (1 << 63) - 1
_LARGEST_HEADER = 1 << 26
_LARGEST_NPY_HEADER = 1 << 10  # ours take 128 bytes
_MEMBER_HEADER = 30  # bytes before a part of a zip archive, at least
_LARGEST_UNIT = 1e154  # of targets: its square is a number
_PIECE = 1 << 20  # bytes read at a time, and numbers looked at
_KERNEL = ("depth", "rank", "weight_var", "bias_var", "kind", "dtype")
# as JSON cannot write them
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# the smallest number above zero, and the largest that is finite
_TINY, _MOST = 5e-324, float(np.finfo(np.float64).max)
Array = NDArray[Any]


@dataclass(frozen=True)
class _Form:
    """What an array in the file must be.

    Attributes
    ----------
    axes : str
        A letter for each: n places, d features, k targets, r rows with a weight, s features that
        are scaled, h × p the packed factor. Where a letter stands for the first time, the array's
        own shape says how many there are.
    low, high : float
        All values are between them, and so no NaN.
    dtype : str
        "float64", "int64", "kernel" for that of the kernel, or "labels" for what classes can be.
    when : "always", "classifier", "factored" or "known"
        When it is there.
    """

    axes: str
    low: float = -_MOST
    high: float = _MOST
    dtype: str = "float64"
    when: str = "always"


# A new array is a line here, and one each in _take_apart and _put_together.
_ARRAYS = {
    "directions": _Form("nd", -1.001, 1.001, dtype="kernel"),
    "square_lengths": _Form("n", low=0.0),
    "scaling_mean": _Form("s"),
    "scaling_scale": _Form("s", low=_TINY, high=math.inf),  # infinite for a constant column
    "y": _Form("nk"),
    "weight": _Form("n", low=_TINY),
    "within": _Form("nk", low=0.0),
    "part": _Form("n", low=_TINY),
    "row": _Form("r", low=0, dtype="int64"),
    "place": _Form("r", low=0, dtype="int64"),
    "row_y": _Form("rk"),
    "row_weight": _Form("r", low=_TINY),
    "offset": _Form("k", -_LARGEST_UNIT, _LARGEST_UNIT),
    "unit": _Form("k", _TINY, _LARGEST_UNIT),
    "noise_var": _Form("n", low=0.0),
    "deviation": _Form("n", low=_TINY),
    "alpha": _Form("nk"),
    "beta": _Form("k"),
    "t": _Form("n"),
    "classes": _Form("k", dtype="labels", when="classifier"),
    "factor": _Form("hp", dtype="kernel", when="factored"),
    "precision": _Form("n", when="known"),
}


def save(model: Any, path: Any, table: Mapping[str, Any] | None = None) -> None:
    """Write a fitted estimator, and what ``mnngp fit`` learned of the table that it was fitted
    to.
    """
    header, arrays = _take_apart(model)
    header["table"] = table if table is not None else getattr(model, "_table", None)
    header["arrays"] = dict.fromkeys(arrays, "0" * 64)
    try:
        known = _Sizes(_checked_header(_text(header), {type(model).__name__: type(model)}))
        for name in known.in_order(arrays):
            known.check(name, arrays[name])
        known.check_together(arrays)
    except InputError as error:
        raise InputError(f"the model cannot be saved: {_short(error)}") from error
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                digest = _Digest(member)
                # By rows or by columns as it is in memory: BLAS rounds differently for the other.
                whole = array if array.flags.forc else array.copy(order="K")
                np.lib.format.write_array(digest, whole, allow_pickle=False, version=(1, 0))
            header["arrays"][name] = digest.hash.hexdigest()
        text = _text(header)
        archive.writestr("model.json", text)
        archive.writestr("model.sha256", hashlib.sha256(text).hexdigest())


def restore(path: Any, classes: Mapping[str, type]) -> Any:
    """Read a model that ``save`` wrote, of one of the given classes."""
    path = Path(path)
    with _reading(path):
        archive = zipfile.ZipFile(path)
    with archive:
        members = _members(path, archive)
        text, digest = _read(path, archive, members["model.json"])
        if digest.encode() != _read(path, archive, members["model.sha256"])[0].tobytes():
            raise ModelFileError(
                f"{path} was changed or damaged: model.json does not match its digest"
            )
        try:
            header = _checked_header(text.tobytes(), classes)
            known, arrays = _Sizes(header), {}
            names = known.in_order(header["arrays"])
            for part in {"model.json", "model.sha256", *(f"{name}.npy" for name in names)} ^ set(
                members
            ):
                raise InputError(
                    f"{part} is {'not in its header' if part in members else 'missing'}"
                )
            for name in names:
                known.check_length(name, members[f"{name}.npy"].file_size)
                memory, digest = _read(path, archive, members[f"{name}.npy"])
                if digest != header["arrays"][name]:
                    raise ModelFileError(
                        f"{path} was changed or damaged: {name} does not match its digest"
                    )
                arrays[name] = _array(name, memory)
                known.check(name, arrays[name])
            known.check_together(arrays)
        # the latter in showing a value that is lists in lists in lists
        except (InputError, RecursionError) as error:
            raise ModelFileError(
                f"{path} does not hold a model that can be read: {_short(error)}"
            ) from error
    return _put_together(header, arrays, classes)


# --- the archive ----------------------------------------------------------------------------------


class _Digest:
    """A file that is hashed as it is written."""

    def __init__(self, file: Any) -> None:
        self.file, self.hash = file, hashlib.sha256()

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return int(self.file.write(data))


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What Python's zipfile raises on a file that is no archive, or a damaged one, as our error.
    Nothing else runs in here.
    """
    try:
        yield
    except (
        zipfile.BadZipFile,
        EOFError,
        ValueError,
        RuntimeError,
        OverflowError,
        struct.error,
        OSError,
    ) as error:
        # that one: a place before the file's beginning
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise ModelFileError(
            f"{path} is not a model file, or is cut off or damaged: {_short(error)}"
        ) from error


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The parts of the archive by name, if it is one that ``save`` may have written."""
    members = {member.filename: member for member in archive.infolist()}
    if not {"model.json", "model.sha256"} <= set(members):
        raise ModelFileError(f"{path} is not a model file: model.json is missing")
    length = path.stat().st_size
    for member in archive.infolist():
        if (
            member.compress_type != zipfile.ZIP_STORED
            or member.flag_bits
            or member.compress_size != member.file_size
        ):
            raise ModelFileError(
                f"{path} is not as it was written: {member.filename} is compressed or encrypted"
            )
    if sum(member.file_size for member in archive.infolist()) > length:
        raise ModelFileError(f"{path} is damaged: its parts are larger than the file")
    ordered = sorted(archive.infolist(), key=lambda member: member.header_offset)
    starts = [member.header_offset for member in ordered] + [archive.start_dir]
    for member, (start, end) in zip(ordered, pairwise(starts), strict=True):
        if start < 0 or start + _MEMBER_HEADER + len(member.filename) + member.file_size > end:
            raise ModelFileError(
                f"{path} is not as it was written: {member.filename} and another part overlap"
            )
    expected = {"model.json", "model.sha256", *(f"{name}.npy" for name in _ARRAYS)}
    for member in archive.infolist():
        if member.filename not in expected:
            raise ModelFileError(
                f"{path} has a part {_short(repr(member.filename))}, which this "
                f"mnngp {__version__} does not know"
            )
    if len(members) < len(archive.infolist()):
        raise ModelFileError(f"{path} is not as it was written: it has two parts of the same name")
    if members["model.json"].file_size > _LARGEST_HEADER or members["model.sha256"].file_size > 64:
        raise ModelFileError(
            f"{path}: model.json or its digest is too large to be a model's header"
        )
    return members


def _read(
    path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo
) -> tuple[NDArray[np.uint8], str]:
    """The bytes of a part of the archive, in memory of their own, and their digest."""
    try:
        memory = np.empty(member.file_size, dtype=np.uint8)
    except MemoryError as error:
        raise ModelFileError(
            f"{path}: {member.filename} takes {member.file_size:,} bytes, for "
            "which there is no memory"
        ) from error
    start, digest = 0, hashlib.sha256()
    with _reading(path), archive.open(member) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            memory[start : start + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
            start += len(piece)
    if start != len(memory):
        raise ModelFileError(f"{path} is damaged: {member.filename} is cut off")
    return memory, digest.hexdigest()


def _array(name: str, memory: NDArray[np.uint8]) -> Array:
    """The array that the bytes of a file in NumPy's format hold: the same memory."""
    text = io.BytesIO(memory[: _LARGEST_NPY_HEADER + 10].tobytes())
    try:
        version = np.lib.format.read_magic(text)
        if version != (1, 0):
            raise InputError(f"{name} must be in version 1.0 of NumPy's format, got {version}")
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(
            text, max_header_size=_LARGEST_NPY_HEADER
        )
    except InputError:
        raise
    # Python's parser in NumPy's, on a text that somebody forged: it raises all kinds of them
    except Exception as error:
        raise InputError(
            f"{name} is no array in NumPy's format: {type(error).__name__}: {error}"
        ) from error
    if dtype.hasobject or dtype.kind not in "biufUMm" or not dtype.isnative or not dtype.itemsize:
        raise InputError(f"{name} cannot be an array of {dtype}")
    data, length = memory[text.tell() :], math.prod(shape) * dtype.itemsize
    if text.tell() % 64 or any(size < 0 for size in shape):
        raise InputError(
            f"{name} must have a shape that can be, and begin at a multiple of 64 "
            f"bytes, got {shape} at {text.tell()}"
        )
    if length != len(data):
        raise InputError(f"{name} of the shape {shape} must take {length} bytes, got {len(data)}")
    return data.view(dtype).reshape(shape, order="F" if by_columns else "C")


# --- checks: all raise InputError, which is a ModelFileError where a file is read -----------------


class _Sizes:
    """What is known of the arrays, from the header and from those that were read already."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self.header = header
        self.kernel_dtype = np.dtype(header["kernel"]["dtype"])
        self.sizes: dict[str, int] = {}

    def in_order(self, given: Mapping[str, Any]) -> list[str]:
        """The names of the arrays, in the order of ``_ARRAYS``, if they are those that the header
        asks for.
        """
        there = {
            "always",
            *(["factored"] * self.header["factored"]),
            *(["classifier"] * ("calibration" in self.header)),
        }
        for name, form in _ARRAYS.items():
            if form.when in there and name not in given:
                raise InputError(f"the array {name} is missing")
        for name in given:
            if name not in _ARRAYS or _ARRAYS[name].when not in there | {"known"}:
                raise InputError(f"the array {_short(repr(name))} is none that such a model has")
        return [name for name in _ARRAYS if name in given]

    def dtype(self, name: str) -> np.dtype[Any] | None:
        """Of an array; None if there are several that it can have."""
        wanted = _ARRAYS[name].dtype
        if wanted == "labels":
            return None
        return self.kernel_dtype if wanted == "kernel" else np.dtype(wanted)

    def check_length(self, name: str, length: int) -> None:
        """Before an array is read: whether it takes much more than those before it ask for."""
        axes, dtype = _ARRAYS[name].axes, self.dtype(name)
        if dtype is None or not set(axes) <= set(self.sizes):
            return
        expected = math.prod(self.sizes[axis] for axis in axes) * dtype.itemsize
        if length > expected + _PIECE:
            raise InputError(f"{name} must take {expected:,} bytes and a header, got {length:,}")

    def check(self, name: str, array: Array) -> None:
        """Type, shape and values of an array."""
        form, dtype = _ARRAYS[name], self.dtype(name)
        if dtype is None:
            _check_labels(name, array)
        elif array.dtype != dtype:
            raise InputError(
                f"{name} cannot be an array of {array.dtype}, it must be one of {dtype}"
            )
        shape = array.shape
        if len(shape) == len(form.axes):
            shape = tuple(
                self.sizes.setdefault(axis, size)
                for axis, size in zip(form.axes, shape, strict=True)
            )
        if len(shape) != len(form.axes) or shape != array.shape:
            wanted = ", ".join(str(self.sizes.get(axis, axis)) for axis in form.axes) + "," * (
                len(form.axes) == 1
            )
            raise InputError(f"{name} must have the shape ({wanted}), got {array.shape}")
        if form.dtype == "kernel" and not array.flags.c_contiguous:
            raise InputError(f"{name} must be by rows: compiled code works on its memory")
        if name == "directions":
            n, d = shape
            half, columns = layout.packed_shape(n)
            self.sizes |= {
                "s": d if self.header["normalize"] == "standard" else 0,
                "h": half,
                "p": columns,
            }
        if 0 in shape and form.axes != "s":
            raise InputError(f"{name} must not be empty, got the shape {shape}")
        if dtype is not None:
            _check_values(name, array, form.low, form.high)

    def check_together(self, arrays: Mapping[str, Array]) -> None:
        """What arrays and header say of each other."""
        header, sizes = self.header, self.sizes
        row, place = arrays["row"], arrays["place"]
        most = 1_000_000 + 1000 * len(row)
        if not (row[1:] > row[:-1]).all() or row[-1] >= header["rows"] or header["rows"] > most:
            raise InputError(
                f"rows must be numbers that ascend, below rows = {header['rows']}, which with "
                f"{len(row)} rows of a weight above "
                f"zero is at most {most:,}"
            )
        if place.max() >= sizes["n"] or not np.bincount(place, minlength=sizes["n"]).all():
            raise InputError(
                f"rows must belong to {sizes['n']} places, each of them to one, and "
                "none must have no row"
            )
        if header["feature_names"] and len(header["feature_names"]) != sizes["d"]:
            raise InputError(
                f"feature_names must be {sizes['d']} names or none, got "
                f"{len(header['feature_names'])}"
            )
        if header.get("flat") and sizes["k"] != 1:
            raise InputError(f"flat must be false for {sizes['k']} targets, got true")
        for what in ("signal_var", "noise"):
            largest = header[what] * float(arrays["unit"].max()) ** 2
            if not math.isfinite(largest):
                raise InputError(
                    f"{what} must be finite in the units of the targets, got "
                    f"{header[what]} times the square of unit"
                )
        if header.get("classes_are_objects") and arrays["classes"].dtype.kind != "U":
            raise InputError(
                f"classes must be texts if they are objects, got {arrays['classes'].dtype}"
            )
        if "factor" in arrays:
            for part, diagonal in layout.packed_diagonal(arrays["factor"], sizes["n"]):
                if part.start < part.stop:
                    _check_values("the diagonal of factor", diagonal, _TINY, _MOST)
        else:
            with np.errstate(all="ignore"):
                noise = arrays["noise_var"] / (header["contraction"] * arrays["deviation"] ** 2)
            _check_values("noise_var relative to the kernel", noise, 0.0, _MOST)


def _check_values(name: str, array: Array, low: float, high: float) -> None:
    """Whether all numbers are in [low, high]; a piece at a time, so that it takes no memory."""
    flat = array.ravel(order="K")  # no copy
    for start in range(0, len(flat), _PIECE):
        piece = flat[start : start + _PIECE]
        least, most = piece.min().item(), piece.max().item()
        if not (low <= least and most <= high):  # also for NaN
            bound = {-_MOST: "", _TINY: " and above zero", 0.0: " and not negative"}.get(
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


def _checked_header(text: bytes, classes: Mapping[str, type]) -> dict[str, Any]:
    """The header, with everything in it in its bounds; no number is believed before."""
    try:
        header: Any = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"model.json is no JSON: {error}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"its format is not {FORMAT!r}")
    if header.get("version") != VERSION:
        raise InputError(
            f"it has version {header.get('version')!r} of the format (written by mnngp "
            f"{header.get('mnngp')!r}), this mnngp "
            f"{__version__} reads version {VERSION}: install a newer one"
        )
    header.setdefault("factored", True)  # the first files had no such entry
    types: dict[str, Any] = {
        "class": str,
        "parameters": dict,
        "kernel": dict,
        "report": dict,
        "factored": bool,
        "trials": list,
        "feature_names": list,
        "table": dict | None,
        "arrays": dict,
        "normalize": str | None,
    }
    for name in (*types, "signal_var", "contraction", "intercept_precision", "noise", "rows"):
        if name not in header:
            raise InputError(f"{name} is missing in model.json")
        if name in types and not isinstance(header[name], types[name]):
            raise InputError(
                f"{name} must be of type "
                f"{getattr(types[name], '__name__', types[name])}, got "
                f"{header[name]!r}"
            )
    if header["class"] not in classes:
        raise InputError(
            f"a model of class {header['class']!r} is not known to mnngp {__version__}"
        )
    _check_kernel(header["kernel"])
    _check_parameters(header["parameters"], classes[header["class"]])
    _validation.real("signal_var", header["signal_var"], low=0.0, strict=True)
    least = float(np.finfo(header["kernel"]["dtype"]).tiny)
    _validation.real("contraction", header["contraction"], low=least, high=1.0)
    if header["intercept_precision"] is not None:
        _validation.real("intercept_precision", header["intercept_precision"], low=0.0, strict=True)
    _validation.real("noise", header["noise"], low=0.0)
    _whole("rows", header["rows"], 1, _LARGEST_INT)
    if header["normalize"] not in scaling.WAYS:
        raise InputError(f"normalize must be one of {scaling.WAYS}, got {header['normalize']!r}")
    if not all(isinstance(name, str) for name in header["feature_names"]):
        raise InputError("feature_names must be texts")
    if not all(isinstance(digest, str) for digest in header["arrays"].values()):
        raise InputError("arrays must have a digest each")
    header["trials"] = [
        _checked_told(f"trials[{number}]", trial) for number, trial in enumerate(header["trials"])
    ]
    header["report"] = _checked_told("report", header["report"])
    _check_report(header["report"], factored=header["factored"])
    if issubclass(classes[header["class"]], ClassifierMixin):
        _check_calibration(header)
    elif "calibration" in header or not isinstance(header.get("flat"), bool):
        raise InputError(
            "a regressor must say whether its targets are flat, and has no calibration"
        )
    return dict(header)


def _check_kernel(kernel: dict[str, Any]) -> None:
    if set(kernel) != set(_KERNEL):
        raise InputError(f"kernel must have the keys {', '.join(_KERNEL)}, got {sorted(kernel)}")
    depth = _whole("kernel.depth", kernel["depth"], 1, LARGEST_DEPTH)
    _whole("kernel.rank", kernel["rank"], 1, LARGEST_RANK)
    _validation.variances("kernel.weight_var", kernel["weight_var"], depth + 1, zero=False)
    _validation.variances("kernel.bias_var", kernel["bias_var"], depth + 1, zero=True)
    _validation.one_of("kernel.kind", kernel["kind"], ("nngp", "ntk"))
    _check_dtype("kernel.dtype", kernel["dtype"])


def _check_parameters(parameters: dict[str, Any], kind: Any) -> None:
    """What the estimator was made with; a fit will look closer."""
    unknown = set(parameters) - set(kind().get_params(deep=False))
    if unknown:
        raise InputError(f"a {kind.__name__} has no parameter {sorted(unknown)[0]!r}")
    for name, value in parameters.items():
        _checked_plain(f"parameters.{name}", value)
        if value is not None and name in _PARAMETERS:
            _PARAMETERS[name](f"parameters.{name}", value)


def _check_dtype(name: str, value: Any) -> None:
    # NumPy makes a type of many a text
    if isinstance(value, str) and len(value) <= 8 and value.lstrip("<>=|").isalnum():
        with contextlib.suppress(TypeError, ValueError):
            if np.dtype(value) in (np.float64, np.float32):
                return
    raise InputError(f"{name} must be 'float64' or 'float32', got {value!r}")


def _check_report(report: dict[str, Any], *, factored: bool) -> None:
    """Whether it is one of a factorisation or of an iteration."""
    _validation.real("report.added", report.get("added"), low=0.0)
    _validation.real(
        "report.contraction", report.get("contraction"), low=0.0, high=1.0, strict=True
    )
    kind = Report if factored or "iterations" not in report else IterationReport
    for field in fields(kind):
        if field.name not in report:
            if field.default is MISSING:
                raise InputError(f"report.{field.name} is missing")
            continue
        value, wanted = (
            report[field.name],
            {"int": int, "str": str, "float": float | int}.get(str(field.type)),
        )
        # a tuple of numbers
        values = [value] if wanted is not None else value if isinstance(value, list) else [None]
        if not all(
            isinstance(item, wanted or float | int) and not isinstance(item, bool)
            for item in values
        ):
            raise InputError(f"report.{field.name} must be of type {field.type}, got {value!r}")
    unknown = set(report) - {field.name for field in fields(kind)}
    if unknown:
        raise InputError(
            f"report has an entry {sorted(unknown)[0]!r}, which this mnngp "
            f"{__version__} does not know"
        )


def _check_calibration(header: dict[str, Any]) -> None:
    names = [field.name for field in fields(Calibration)]
    calibration = header.get("calibration")
    if not isinstance(calibration, dict) or set(calibration) != set(names):
        raise InputError(f"calibration must have the keys {', '.join(names)}, got {calibration!r}")
    for name in names:
        above = name in ("sharpness", "unit")
        _validation.real(
            f"calibration.{name}",
            calibration[name],
            low=0.0,
            high=1.0 if name == "floor" else _MOST,
            strict=above,
        )
    if not isinstance(header.get("classes_are_objects"), bool):
        raise InputError(
            f"classes_are_objects must be true or false, got {header.get('classes_are_objects')!r}"
        )


def _checked_told(what: str, told: Any) -> dict[str, Any]:
    """What a fit says of itself: numbers and words, of which only depth and rank could cost
    somebody something.
    """
    if not isinstance(told, dict):
        raise InputError(f"{what} must have names and values, got {told!r}")
    checked = {
        name: _checked_plain(f"{what}.{_short(name)}", value) for name, value in told.items()
    }
    for name, most in {"depth": LARGEST_DEPTH, "rank": LARGEST_RANK}.items():
        if name in checked:
            _whole(f"{what}.{name}", checked[name], 0, most)
    return checked


def _checked_plain(name: str, value: Any, *, inside: bool = False) -> Any:
    """A number (finite or not), a short text, None, or a list of them."""
    if isinstance(value, list) and not inside:
        return [
            _checked_plain(f"{name}[{number}]", item, inside=True)
            for number, item in enumerate(value)
        ]
    if isinstance(value, str) and len(value) <= 1000:
        return _NOT_FINITE.get(value, value)
    if (
        value is None
        or isinstance(value, float)
        or (isinstance(value, int) and abs(value) <= _LARGEST_INT)
    ):
        return value
    raise InputError(f"{name} must be a number, a short text, or a list of them, got {value!r}")


def _whole(name: str, value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise InputError(
            f"{name} must be a whole number from {low} to {high:,} in a model file, got {value!r}"
        )
    return value


def _short(text: object) -> str:
    """A text that was made of a stranger's, with an end."""
    return shown if len(shown := str(text)) <= 500 else f"{shown[:500]} …"


_PARAMETERS: dict[str, Callable[[str, Any], object]] = {  # those that may not be any number or text
    "depth": lambda name, value: _whole(name, value, 1, LARGEST_DEPTH),
    "rank": lambda name, value: _whole(name, value, 1, LARGEST_RANK),
    "weight_var": lambda name, value: _validation.variances(name, value, _count(value), zero=False),
    "bias_var": lambda name, value: _validation.variances(name, value, _count(value), zero=True),
    "kind": lambda name, value: _validation.one_of(name, value, ("nngp", "ntk")),
    "noise_var": lambda name, value: _validation.real(name, value, low=0.0),
    "signal_var": lambda name, value: _validation.real(name, value, low=0.0, strict=True),
    "normalize": lambda name, value: _validation.one_of(name, value, ("standard", "sphere")),
    "dtype": _check_dtype,
    "max_trials": lambda name, value: _whole(name, value, 1, _LARGEST_INT),
    "random_state": lambda name, value: _whole(name, value, 0, 2**32 - 1),
    "solver": lambda name, value: _validation.one_of(name, value, by_name.NAMES),
    "n_jobs": lambda name, value: _whole(name, value, -_LARGEST_INT, _LARGEST_INT),
}


def _count(value: Any) -> int:
    """Of the variances that there are, at most one for each affine map of the deepest network."""
    return min(len(value), LARGEST_DEPTH + 1) if isinstance(value, list) else 1


# --- from a model to the parts of a file, and back ------------------------------------------------


def _text(header: dict[str, Any]) -> bytes:
    """The header in JSON that every reader takes."""
    try:
        text = json.dumps(header, indent=1, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"the header must be numbers, texts, lists and tables of them: {error}"
        ) from error
    if len(text) > _LARGEST_HEADER:
        raise InputError(
            f"the header must take at most {_LARGEST_HEADER:,} bytes, got {len(text):,}"
        )
    return text


def _take_apart(model: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    posterior, data = model._posterior, model._data
    factor: Inverse = posterior.inverse
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "mnngp": __version__,
        "class": type(model).__name__,
        "parameters": {
            key: _plain(key, value) for key, value in model.get_params(deep=False).items()
        },
        "kernel": {key: _plain(key, getattr(model.kernel_, key)) for key in _KERNEL},
        "normalize": model._scaling.way,
        "signal_var": _plain("signal_var", posterior.signal_var),
        "contraction": _plain("contraction", factor.contraction),
        "report": {key: _plain(key, value) for key, value in asdict(factor.report).items()},
        "factored": isinstance(factor, Factor),
        "intercept_precision": None
        if np.isinf(posterior.c)
        else _plain("intercept_precision", posterior.c),
        "noise": _plain("noise", model._noise),
        "rows": model._n_rows,
        "trials": [
            {key: _plain(key, value) for key, value in trial.items()} for trial in model.trials_
        ],
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
    }
    arrays = {
        "scaling_mean": model._scaling.mean,
        "scaling_scale": model._scaling.scale,
        "offset": model._offset,
        "unit": model._unit,
        "directions": posterior.points.directions,
        "square_lengths": posterior.points.square_lengths,
        "y": data.y,
        "weight": data.weight,
        "within": data.within,
        "part": data.part,
        "place": data.place,
        "row": data.row.astype(np.int64, copy=False),
        "row_y": data.row_y,
        "row_weight": data.row_weight,
        "noise_var": factor.noise_var,
        "deviation": posterior.deviation,
        "alpha": posterior.alpha,
        "beta": posterior.beta,
        "t": posterior.t,
    }
    if isinstance(factor, Factor):
        arrays["factor"] = factor.packed.memory
    if posterior.known_precision is not None:
        arrays["precision"] = posterior.known_precision
    if hasattr(model, "classes_"):
        header["calibration"] = {
            key: _plain(key, value) for key, value in asdict(model._calibration()).items()
        }
        arrays["classes"], header["classes_are_objects"] = (
            model.classes_,
            model.classes_.dtype.kind == "O",
        )
        if header["classes_are_objects"]:
            if not all(isinstance(label, str) for label in model.classes_):
                raise InputError(
                    "labels must be numbers or strings for the model to be saved, got other objects"
                )
            arrays["classes"] = model.classes_.astype(str)
            if arrays["classes"].tolist() != model.classes_.tolist():
                raise InputError(
                    "labels must not end in NUL for the model to be saved: the texts "
                    "of a NumPy array cannot"
                )
    else:
        header["flat"] = model._flat
    return header, arrays


def _put_together(
    header: dict[str, Any], arrays: dict[str, Array], classes: Mapping[str, type]
) -> Any:
    model: Any = classes[header["class"]](**header["parameters"])
    kernel: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in header["kernel"].items()
    }
    model.kernel_ = MaxoutKernel(**kernel)
    width = arrays["directions"].shape[1]
    model._scaling = Scaling(header["normalize"], arrays["scaling_mean"], arrays["scaling_scale"])
    model._offset, model._unit = arrays["offset"], arrays["unit"]
    parts = ("y", "weight", "within", "part", "place", "row", "row_y", "row_weight")
    model._data = Observations(np.empty((0, width)), *(arrays[name] for name in parts))
    model._noise, model._n_rows = header["noise"], header["rows"]
    points = Points(arrays["directions"], arrays["square_lengths"])
    c = np.inf if header["intercept_precision"] is None else header["intercept_precision"]
    model._posterior = Posterior.restored(
        model.kernel_,
        points,
        arrays["y"],
        header["signal_var"],
        _inverse(header, arrays, model.kernel_, points),
        Weights(arrays["deviation"], arrays["alpha"], arrays["beta"], arrays["t"], c),
        arrays.get("precision"),
    )
    model._describe(header["trials"])
    model.n_features_in_ = width
    model._table = header["table"]  # the encoder of a table checks it when it is asked
    if header["feature_names"]:
        model.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    if "calibration" in header:
        model.classes_ = (
            arrays["classes"].astype(object) if header["classes_are_objects"] else arrays["classes"]
        )
        model._calibrated = Late(Calibration(**header["calibration"]))
    else:
        model._flat = header["flat"]
    return model


def _inverse(
    header: dict[str, Any], arrays: dict[str, Array], kernel: MaxoutKernel, points: Points
) -> Inverse:
    """The factor, or what solves without one."""
    kappa, noise = header["contraction"], arrays["noise_var"]
    if header["factored"]:
        packed = Packed(len(noise), arrays["factor"].dtype, arrays["factor"])
        return Factor(kappa, noise, packed, Report(**header["report"]))
    told: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in header["report"].items()
    }
    # A factor on a cluster has another report.
    report = IterationReport(**told) if "iterations" in told else IterationReport.of_factor(kappa)
    covariance = Covariance(kernel.network, points, arrays["deviation"], noise)
    return Iteration(ConjugateGradients(), covariance, kappa, report=report)


def _plain(name: str, value: Any) -> Any:
    """A value as strict JSON has it."""
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(name, item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0.0 else "-Infinity"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if name == "dtype":
        return str(np.dtype(value))
    if name == "solver":
        return by_name.name_of(value, 0, np.float64)  # its settings were for the fit
    if name == "random_state":
        return None  # a generator has no open form; it has done its work
    raise InputError(f"{name} cannot be saved, got {value!r}")
