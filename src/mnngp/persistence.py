"""Fitted models on disk, in an open format: a zip archive of ``model.json`` and NumPy arrays.

There is no pickle in it, so a file from a stranger cannot run code: the JSON is data, arrays of objects are refused, and what is
read is checked (format, version, sizes, digests, shapes) before a model is made of it. Nothing in it is compressed, so that reading
takes no more memory than the file is long. Predictions after a round trip are the same to the last bit: the factor and the weights
are stored, not recomputed. A model without a factor, solved by iteration or on a cluster, is stored without one: predictions need
the weights alone, and variances are solved for by conjugate gradients where it is read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp import __version__
from mnngp.calibration import Calibration, Late
from mnngp.errors import InputError, ModelFileError
from mnngp.files import replacing
from mnngp.inference import solvers
from mnngp.inference.factor import Factor, Inverse, Report
from mnngp.inference.large import ConjugateGradients, Iteration, IterationReport, System
from mnngp.inference.packed import Packed
from mnngp.inference.posterior import Posterior
from mnngp.kernels import layout
from mnngp.kernels.network import MaxoutKernel
from mnngp.kernels.points import Points
from mnngp.observations import Observations
from mnngp.scaling import Scaling

FORMAT, VERSION = "mnngp-model", 1
_KERNEL = ("depth", "rank", "weight_var", "bias_var", "kind", "dtype")
_LARGEST_HEADER = 1 << 26
_PIECE = 1 << 20  # bytes read at a time
_KINDS = {"place": "i", "row": "i", "classes": "biufUMm"}  # of the arrays that are not of floats
Array = NDArray[Any]


def save(model: Any, path: Any, table: Mapping[str, Any] | None = None) -> None:
    """Write a fitted estimator, and what ``mnngp fit`` learned of the table that it was fitted to."""
    header, arrays = _take_apart(model)
    header["table"] = table if table is not None else getattr(model, "_table", None)
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        header["arrays"] = {}
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                digest = _Digest(member)
                np.lib.format.write_array(digest, np.ascontiguousarray(array), allow_pickle=False, version=(1, 0))
            header["arrays"][name] = digest.hexdigest()
        text = json.dumps(header, indent=1).encode()
        archive.writestr("model.json", text)
        archive.writestr("model.sha256", hashlib.sha256(text).hexdigest())


def restore(path: Any, classes: Mapping[str, type]) -> Any:
    """Read a model that ``save`` wrote, of one of the given classes."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _put_together(*_read(path, archive), classes)
    except (zipfile.BadZipFile, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # that one: a place before the file's beginning
            raise
        raise ModelFileError(f"{path} is not a model file, or is cut off or damaged: {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, EOFError, RuntimeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path} does not hold a complete model: {type(error).__name__}: {error}") from error


class _Digest:
    """A file that is hashed as it is written or read."""

    def __init__(self, file: Any) -> None:
        self.file, self.hash, self.count = file, hashlib.sha256(), 0

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return int(self.file.write(data))

    def read(self, size: int = -1, /) -> bytes:
        data: bytes = self.file.read(size)
        self.hash.update(data)
        self.count += len(data)
        return data

    def hexdigest(self) -> str:
        return self.hash.hexdigest()


def _read(path: Path, archive: zipfile.ZipFile) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header and the arrays, checked."""
    if not {"model.json", "model.sha256"} <= set(archive.namelist()):
        raise ModelFileError(f"{path} is not a model file: model.json is missing")
    for member in archive.infolist():
        if member.compress_type != zipfile.ZIP_STORED:
            raise ModelFileError(f"{path} is not as it was written: {member.filename} is compressed")
    if sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
        raise ModelFileError(f"{path} is damaged: its parts are larger than the file")
    if max(archive.getinfo(name).file_size for name in ("model.json", "model.sha256")) > _LARGEST_HEADER:
        raise ModelFileError(f"{path}: model.json is too large to be a model's header")
    text = archive.read("model.json")
    if hashlib.sha256(text).hexdigest() != archive.read("model.sha256").decode("ascii", "replace"):
        raise ModelFileError(f"{path} was changed or damaged: model.json does not match its digest")
    header = json.loads(text)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not a model file: its format is not {FORMAT!r}")
    if header.get("version") != VERSION:
        raise ModelFileError(
            f"{path} has version {header.get('version')!r} of the format (written by mnngp {header.get('mnngp')!r}), this mnngp "
            f"{__version__} reads version {VERSION}: install a newer one"
        )
    arrays: dict[str, Array] = {}
    for name, digest in header["arrays"].items():
        member = archive.getinfo(f"{name}.npy")
        with archive.open(member) as file:
            reader = _Digest(file)
            arrays[name] = _read_array(name, reader, member.file_size)
        if reader.hexdigest() != digest:
            raise ModelFileError(f"{path} was changed or damaged: {name} does not match its digest")
    return header, arrays


def _read_array(name: str, file: _Digest, size: int) -> Array:
    """An array of a file in NumPy's format that is ``size`` bytes long, read to where it stays."""
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ModelFileError(f"{name} must be in version 1.0 of NumPy's format, got {version}")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in _KINDS.get(name, "f"):
        raise ModelFileError(f"{name} cannot be an array of {dtype}")
    length = math.prod(shape) * dtype.itemsize
    if length != size - file.count:
        raise ModelFileError(f"{name} of the shape {shape} must take {length} bytes, got {size - file.count}")
    memory = np.empty(length, dtype=np.uint8)
    for start in range(0, length, _PIECE):
        piece = file.read(min(_PIECE, length - start))
        memory[start : start + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
    if file.count != size:
        raise ModelFileError(f"{name} is cut off")
    return memory.view(dtype).reshape(shape, order="F" if by_columns else "C")


def _take_apart(model: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    posterior, data = model._posterior, model._data
    factor: Inverse = posterior._factor
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "mnngp": __version__,
        "class": type(model).__name__,
        "parameters": {key: _plain(key, value) for key, value in model.get_params(deep=False).items()},
        "kernel": {key: _plain(key, getattr(model.kernel_, key)) for key in _KERNEL},
        "normalize": model._scaling.way,
        "signal_var": posterior.signal_var,
        "contraction": factor.contraction,
        "report": asdict(factor.report),
        "factored": isinstance(factor, Factor),
        "intercept_precision": None if np.isinf(posterior._c) else posterior._c,
        "noise": model._noise,
        "rows": model._n_rows,
        "trials": [{key: _plain(key, value) for key, value in trial.items()} for trial in model.trials_],
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
    }
    arrays = {
        "scaling_mean": model._scaling.mean,
        "scaling_scale": model._scaling.scale,
        "offset": model._offset,
        "unit": model._unit,
        "directions": posterior._points.directions,
        "square_lengths": posterior._points.square_lengths,
        "y": data.y,
        "weight": data.weight,
        "within": data.within,
        "part": data.part,
        "place": data.place,
        "row": data.row,
        "row_y": data.row_y,
        "row_weight": data.row_weight,
        "noise_var": factor.noise_var,
        "deviation": posterior._deviation,
        "alpha": posterior._alpha,
        "beta": posterior._beta,
        "t": posterior._t,
    }
    if isinstance(factor, Factor):
        arrays["factor"] = factor.packed.memory
    if posterior._precision is not None:
        arrays["precision"] = posterior._precision
    if hasattr(model, "classes_"):
        header["calibration"] = asdict(model._calibration())
        header["classes_are_objects"] = model.classes_.dtype.kind == "O"
        if model.classes_.dtype.kind == "O" and not all(isinstance(label, str) for label in model.classes_):
            raise InputError("labels must be numbers or strings for the model to be saved, got other objects")
        arrays["classes"] = model.classes_.astype(str) if model.classes_.dtype.kind == "O" else model.classes_
    else:
        header["flat"] = model._flat
    return header, arrays


def _put_together(header: dict[str, Any], arrays: dict[str, Array], classes: Mapping[str, type]) -> Any:
    if header["class"] not in classes:
        raise ModelFileError(f"a model of class {header['class']!r} is not known to mnngp {__version__}")
    model: Any = classes[header["class"]](**header["parameters"])
    kernel: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in header["kernel"].items()}
    model.kernel_ = MaxoutKernel(**kernel)
    n, width = arrays["directions"].shape
    k, rows = arrays["y"].shape[1], len(arrays["row"])
    dtype = np.dtype(header["kernel"]["dtype"])
    shapes = {
        "square_lengths": (n,), "weight": (n,), "part": (n,), "noise_var": (n,), "deviation": (n,), "t": (n,),
        "y": (n, k), "within": (n, k), "alpha": (n, k), "beta": (k,), "offset": (k,), "unit": (k,),
        "place": (rows,), "row_y": (rows, k), "row_weight": (rows,),
    }  # fmt: skip
    if header.get("factored", True):
        shapes["factor"] = layout.packed_shape(n)
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ModelFileError(f"{name} must have the shape {shape}, got {arrays[name].shape}")
    for name in ("factor", "directions"):
        if name in arrays and arrays[name].dtype != dtype:
            raise ModelFileError(f"{name} must be of {dtype}, got {arrays[name].dtype}")
    if rows and not (arrays["place"].min() >= 0 and arrays["place"].max() < n and arrays["row"].max() < header["rows"]):
        raise ModelFileError("rows refer to places that are not there")

    model._scaling = Scaling(header["normalize"], arrays["scaling_mean"], arrays["scaling_scale"])
    model._offset, model._unit = arrays["offset"], arrays["unit"]
    parts = ("y", "weight", "within", "part", "place", "row", "row_y", "row_weight")
    model._data = Observations(np.empty((0, width)), *(arrays[name] for name in parts))
    model._noise, model._n_rows = header["noise"], header["rows"]
    model._posterior = Posterior.restored(
        model.kernel_,
        Points(arrays["directions"], arrays["square_lengths"]),
        arrays["y"],
        header["signal_var"],
        _inverse(header, arrays, model.kernel_),
        deviation=arrays["deviation"],
        alpha=arrays["alpha"],
        beta=arrays["beta"],
        t=arrays["t"],
        c=np.inf if header["intercept_precision"] is None else header["intercept_precision"],
        precision=arrays.get("precision"),
    )
    model._describe(header["trials"])
    model.n_features_in_ = width
    model._table = header["table"]  # the encoder of a table checks it when it is asked
    if header["feature_names"]:
        model.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    if "calibration" in header:
        model.classes_ = arrays["classes"].astype(object) if header["classes_are_objects"] else arrays["classes"]
        model._calibrated = Late(Calibration(**header["calibration"]))
    else:
        model._flat = header["flat"]
    return model


def _inverse(header: dict[str, Any], arrays: dict[str, Array], kernel: MaxoutKernel) -> Inverse:
    """The factor, or what solves without one."""
    kappa, noise = header["contraction"], arrays["noise_var"]
    if header.get("factored", True):
        packed = Packed(len(noise), arrays["factor"].dtype, arrays["factor"])
        return Factor(kappa, noise, packed, Report(**header["report"]))
    points = Points(arrays["directions"], arrays["square_lengths"])
    system = System(
        ConjugateGradients(), kernel._network(), points, kappa, noise / (kappa * arrays["deviation"] ** 2), progress=None
    )
    told: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in header["report"].items()}
    # A factor on a cluster has another report.
    system.first = IterationReport(**told) if "iterations" in told else IterationReport.of_factor(kappa)
    return Iteration(kappa, noise, system)


def _plain(name: str, value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(name, item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if name == "dtype":
        return str(np.dtype(value))
    if name == "solver":
        return solvers.word(value, 0, np.float64)  # its settings were for the fit
    if name == "random_state":
        return None  # a generator has no open form; it has done its work
    raise InputError(f"{name} cannot be saved, got {value!r}")
