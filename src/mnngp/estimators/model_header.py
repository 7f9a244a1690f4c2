"""The header of a model file: JSON, of which no number is believed before it is in its bounds.

It is strict JSON: a number that is not finite is one of the texts "NaN", "Infinity" and
"-Infinity". All checks raise ``InputError``, which is a ``ModelFileError`` where a file is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from mnngp import __version__, _validation
from mnngp.errors import InputError
from mnngp.estimators import model_kernel, model_table, warp
from mnngp.estimators.calibration import Calibration
from mnngp.estimators.features import NORMALIZATIONS
from mnngp.estimators.model_archive import LARGEST_HEADER, shortened
from mnngp.estimators.model_kernel import (
    LARGEST_DEPTH,
    LARGEST_INT,
    LARGEST_RANK,
    as_json,
    check_dtype,
    scalars,
    whole,
)
from mnngp.estimators.parameters import check_class_weight
from mnngp.estimators.table_features import VERSIONS
from mnngp.inference import IterationReport, Report
from mnngp.inference.solvers import by_name

# Version 2 knows kernels of any layers, and weights of classes.
FORMAT, VERSION = "mnngp-model", 2
_READ = (1, 2)
_NORMALIZATIONS = (*NORMALIZATIONS, "whitened", *VERSIONS)  # what may stand before a kernel
_TYPES: dict[str, Any] = {
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
_NUMBERS = ("signal_var", "contraction", "intercept_precision", "noise", "rows")


def as_text(header: Mapping[str, Any]) -> bytes:
    """The header in JSON that every reader takes."""
    try:
        text = json.dumps(header, indent=1, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"the header must be numbers, texts, lists and tables of them: {error}"
        ) from error
    if len(text) > LARGEST_HEADER:
        raise InputError(
            f"the header must take at most {LARGEST_HEADER:,} bytes, got {len(text):,}"
        )
    return text


def checked(text: bytes, classes: Mapping[str, type]) -> dict[str, Any]:
    """The header, with everything in it in its bounds, as this version writes it."""
    header = _parsed(text)
    version = header["version"]
    header.setdefault("factored", True)  # the first files had no such entry
    for name in (*_TYPES, *_NUMBERS):
        if name not in header:
            raise InputError(f"{name} is missing in model.json")
        wanted = _TYPES.get(name, object)
        if not isinstance(header[name], wanted):
            raise InputError(
                f"{name} must be of type {getattr(wanted, '__name__', wanted)}, "
                f"got {header[name]!r}"
            )
    if header["class"] not in classes:
        raise InputError(
            f"a model of class {header['class']!r} is not known to mnngp {__version__}"
        )
    kind = classes[header["class"]]
    header["kernel"] = model_kernel.checked("kernel", header["kernel"], version)
    header["parameters"] = _checked_parameters(header["parameters"], kind)
    _check_numbers(header)
    if header["normalize"] not in _NORMALIZATIONS:
        raise InputError(f"normalize must be one of {_NORMALIZATIONS}, got {header['normalize']!r}")
    if not all(isinstance(name, str) for name in header["feature_names"]):
        raise InputError("feature_names must be texts")
    model_table.encoder_of(header)  # raises where something of it is not allowed
    if not all(isinstance(digest, str) for digest in header["arrays"].values()):
        raise InputError("arrays must have a digest each")
    header["trials"] = [
        _checked_trial(f"trials[{number}]", trial) for number, trial in enumerate(header["trials"])
    ]
    header["report"] = _checked_found("report", header["report"])
    _check_report(header["report"], factored=header["factored"])
    if issubclass(kind, ClassifierMixin):
        _check_calibration(header)
    elif "calibration" in header or not isinstance(header.get("flat"), bool):
        raise InputError(
            "a regressor must say whether its targets are flat, and has no calibration"
        )
    if warp.from_dicts(header.setdefault("warps", [])) and issubclass(kind, ClassifierMixin):
        raise InputError(f"warps must be those of a regressor's targets, got {header['warps']!r}")
    return header


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        header: Any = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"model.json is no JSON: {error}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"its format is not {FORMAT!r}")
    version = header.get("version")
    if type(version) is not int or version not in _READ:
        raise InputError(
            f"it has version {version!r} of the format (written by mnngp {header.get('mnngp')!r}), "
            f"this mnngp {__version__} reads versions up to {VERSION}: install a newer one"
        )
    return header


def _check_numbers(header: Mapping[str, Any]) -> None:
    _validation.real("signal_var", header["signal_var"], low=0.0, strict=True)
    least = float(np.finfo(header["kernel"]["dtype"]).tiny)
    _validation.real("contraction", header["contraction"], low=least, high=1.0)
    if header["intercept_precision"] is not None:
        _validation.real("intercept_precision", header["intercept_precision"], low=0.0, strict=True)
    _validation.real("noise", header["noise"], low=0.0)
    whole("rows", header["rows"], 1, LARGEST_INT)


# --- what the estimator was made with -------------------------------------------------------------


def plain_parameters(model: Any) -> dict[str, Any]:
    """The parameters of an estimator as JSON has them."""
    parameters = model.get_params(deep=False)
    parameters["dtype"] = str(np.dtype(parameters["dtype"]))
    if parameters["kernel"] is not None:
        parameters["kernel"] = model_kernel.describe(parameters["kernel"])
    if isinstance(parameters.get("class_weight"), Mapping):  # JSON has no labels but texts
        parameters["class_weight"] = [list(pair) for pair in parameters["class_weight"].items()]
    if isinstance(parameters["random_state"], np.random.RandomState):
        parameters["random_state"] = None  # a generator has no open form; it has done its work
    if not isinstance(parameters["solver"], str):
        # its settings were for the fit
        parameters["solver"] = by_name.name_of(parameters["solver"], 0, np.float64)
    return {
        name: value if name == "kernel" else as_json(name, value)
        for name, value in parameters.items()
    }


def _checked_parameters(parameters: dict[str, Any], kind: Any) -> dict[str, Any]:
    """What the estimator was made with; a fit will look closer."""
    unknown = set(parameters) - set(kind().get_params(deep=False))
    if unknown:
        raise InputError(f"a {kind.__name__} has no parameter {sorted(unknown)[0]!r}")
    return {
        name: _checked_parameter(name, f"parameters.{name}", value)
        for name, value in parameters.items()
    }


def _checked_parameter(name: str, where: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "kernel":
        described = model_kernel.checked(where, value, VERSION)
        model_kernel.build(described)  # raises where its parts do not go together
        return described
    if name == "class_weight" and value != "balanced":
        return _class_weight(where, value)
    if name == "solver" and value == "dask-cholesky":  # of earlier versions
        return "dask"
    if name == "image_shape":
        model_kernel.check_image_shape(where, value)
        return tuple(value)
    scalars(where, value)
    if name in _PARAMETERS:
        _PARAMETERS[name](where, value)
    return value


def _class_weight(name: str, pairs: Any) -> dict[Any, Any]:
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list) and len(pair) == 2 for pair in pairs
    ):
        raise InputError(f"{name} must be 'balanced' or pairs of labels and weights, got {pairs!r}")
    labels = [scalars(f"{name}[{i}]", pair[0], inside=True) for i, pair in enumerate(pairs)]
    class_weight = dict(zip(labels, (pair[1] for pair in pairs), strict=True))
    check_class_weight(class_weight)
    return class_weight


def _variances(name: str, value: Any, *, zero: bool) -> None:
    """At most one for each affine map of the deepest network."""
    count = min(len(value), LARGEST_DEPTH + 1) if isinstance(value, list) else 1
    _validation.variances(name, value, count, zero=zero)


_PARAMETERS: dict[str, Callable[[str, Any], object]] = {  # those that may not be any number or text
    "depth": partial(whole, low=1, high=LARGEST_DEPTH),
    "rank": partial(whole, low=1, high=LARGEST_RANK),
    "weight_var": partial(_variances, zero=False),
    "bias_var": partial(_variances, zero=True),
    "kind": partial(_validation.one_of, allowed=("nngp", "ntk")),
    "noise_var": partial(_validation.real, low=0.0),
    "signal_var": partial(_validation.real, low=0.0, strict=True),
    "features": partial(_validation.one_of, allowed=("auto", "linear", "embedding")),
    "normalize": partial(_validation.one_of, allowed=("standard", "sphere")),
    "dtype": check_dtype,
    "max_trials": partial(whole, low=1, high=LARGEST_INT),
    "fit_seconds": partial(_validation.real, low=0.0, strict=True),
    "random_state": partial(whole, low=0, high=2**32 - 1),
    "solver": partial(_validation.one_of, allowed=by_name.NAMES),
    "warp": partial(_validation.one_of, allowed=warp.NAMES),
    "n_jobs": partial(whole, low=-LARGEST_INT, high=LARGEST_INT),
}

# --- what a fit found -----------------------------------------------------------------------------


def _checked_found(name: str, found: Any) -> dict[str, Any]:
    """Numbers and texts, of which only depth and rank could cost somebody something."""
    if not isinstance(found, dict):
        raise InputError(f"{name} must have names and values, got {found!r}")
    values = {key: scalars(f"{name}.{shortened(key)}", value) for key, value in found.items()}
    for key, most in {"depth": LARGEST_DEPTH, "rank": LARGEST_RANK}.items():
        if key in values:
            whole(f"{name}.{key}", values[key], 0, most)
    return values


def _checked_trial(name: str, trial: Any) -> dict[str, Any]:
    values = _checked_found(name, trial)
    if "places" in values:  # what version 1 called it
        values["n_rows"] = values.pop("places")
    return values


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
        value, number = report[field.name], float | int
        wanted = {"int": int, "str": str, "float": number}.get(str(field.type))
        values = [value] if wanted is not None else value if isinstance(value, list) else [None]
        if any(isinstance(one, bool) or not isinstance(one, wanted or number) for one in values):
            raise InputError(f"report.{field.name} must be of type {field.type}, got {value!r}")
    unknown = set(report) - {field.name for field in fields(kind)}
    if unknown:
        raise InputError(
            f"report has an entry {sorted(unknown)[0]!r}, which this mnngp "
            f"{__version__} does not know"
        )


def _check_calibration(header: Mapping[str, Any]) -> None:
    names, calibration = [field.name for field in fields(Calibration)], header.get("calibration")
    if not isinstance(calibration, dict) or set(calibration) != set(names):
        raise InputError(f"calibration must have the keys {', '.join(names)}, got {calibration!r}")
    for name in names:
        _validation.real(
            f"calibration.{name}",
            calibration[name],
            low=0.0,
            high=1.0 if name == "floor" else float(np.finfo(np.float64).max),
            strict=name in ("sharpness", "unit"),
        )
    if not isinstance(header.get("classes_are_objects"), bool):
        raise InputError(
            f"classes_are_objects must be true or false, got {header.get('classes_are_objects')!r}"
        )
