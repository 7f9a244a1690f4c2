"""Fitted models on disk, in an open format: a zip archive of ``model.json`` and NumPy arrays.

There is no pickle in it, so a file from a stranger cannot run code: the JSON is data, and arrays of
objects are refused. What is read is checked before a model is made of it, in this order: the parts
of the archive, the digest of the header, every number in the header, and for each array its digest,
type, shape and values. So no file takes more time or memory than one of its length may. ``save``
makes the same checks, so what is written can be read.

Predictions after a round trip are the same to the last bit: the factor and the weights are stored,
not recomputed. A model without a factor, solved by iteration or on a cluster, is stored without
one: predictions need the weights alone, and variances are solved for by conjugate gradients where
it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from operator import attrgetter
from typing import Any

import numpy as np

from mnngp import __version__
from mnngp._typing import Array
from mnngp.errors import InputError, ModelFileError
from mnngp.estimators import (
    model_archive,
    model_header,
    model_kernel,
    model_table,
    table_input,
    warp,
)
from mnngp.estimators.calibration import Calibration
from mnngp.estimators.features import Scaling, Whitened
from mnngp.estimators.model_archive import shortened
from mnngp.estimators.model_arrays import FORMS, ArrayChecks
from mnngp.estimators.model_kernel import all_as_json
from mnngp.estimators.process import FittedProcess
from mnngp.estimators.table_features import VERSIONS, Curves
from mnngp.inference import ConjugateGradients, IterationReport, Posterior, Report
from mnngp.inference.observations import Observations
from mnngp.inference.posterior import Weights
from mnngp.inference.solvers.cholesky import Factor
from mnngp.inference.solvers.conjugate_gradients import Iteration
from mnngp.inference.solvers.covariance import Covariance
from mnngp.inference.solvers.interface import Inverse
from mnngp.inference.solvers.packed import Packed
from mnngp.kernels.points import Points
from mnngp.kernels.sklearn import DeepKernel
from mnngp.networks.embedding import Embedding

# the arrays of ``Observations`` after its X, in the order of its fields
_OBSERVATIONS = ("y", "weight", "within", "part", "place", "row", "row_y", "row_weight")


def save(model: Any, path: Any, table: Mapping[str, Any] | None = None) -> None:
    """Write a fitted estimator; ``table`` is what is to be said of the table it was fitted to, if
    that is more than the model itself knows.
    """
    header, arrays = _take_apart(model)
    header["table"] = table if table is not None else model_table.describe(model)
    header["arrays"] = dict.fromkeys(arrays, "0" * 64)
    try:
        text = model_header.as_text(header)
        checks = ArrayChecks(model_header.checked(text, {type(model).__name__: type(model)}))
        for name in checks.in_order(arrays):
            checks.check(name, arrays[name])
        checks.check_together(arrays)
    except InputError as error:
        raise InputError(f"the model cannot be saved: {shortened(error)}") from error
    model_archive.write(
        path, arrays, lambda digests: model_header.as_text({**header, "arrays": digests})
    )


def load(path: Any, classes: Mapping[str, type]) -> Any:
    """Read a model that ``save`` wrote, of one of the given classes."""
    with model_archive.reading(path, FORMS) as archive:
        text = archive.header()
        try:
            header = model_header.checked(text, classes)
            checks, arrays = ArrayChecks(header), {}
            names = checks.in_order(header["arrays"])
            archive.check_parts(names)
            for name in names:
                checks.check_length(name, archive.length(name))
                arrays[name] = archive.array(name, header["arrays"][name])
                checks.check(name, arrays[name])
            checks.check_together(arrays)
        # the latter in showing a value that is lists in lists in lists
        except (InputError, RecursionError) as error:
            raise ModelFileError(
                f"{path} does not hold a model that can be read: {shortened(error)}"
            ) from error
    return _put_together(header, arrays, classes)


def _take_apart(model: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """A model as a header and arrays."""
    process: FittedProcess = model.process_
    posterior = process.posterior
    numbers = {
        "signal_var": posterior.signal_var,
        "contraction": posterior.contraction,
        "intercept_precision": None if np.isinf(posterior.c) else posterior.c,
        "noise": process.noise_var,
    }
    header: dict[str, Any] = {
        "format": model_header.FORMAT,
        "version": model_header.VERSION,
        "mnngp": __version__,
        "class": type(model).__name__,
        "parameters": model_header.plain_parameters(model),
        "kernel": model_kernel.describe(model.kernel_),
        "normalize": process.scaling.normalize,
        **all_as_json(numbers),
        "factored": isinstance(posterior.inverse, Factor),
        "report": all_as_json(asdict(posterior.report)),
        "rows": process.n_rows,
        "trials": [all_as_json(trial) for trial in model.trials_],
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
    }
    arrays: dict[str, Array] = {
        name: attrgetter(form.attribute)(process)
        for name, form in FORMS.items()
        if form.when == "always"
        or (form.when == "factored" and header["factored"])
        or form.when == process.scaling.normalize
        or (form.when == "embedded" and isinstance(process.scaling, Curves))
    }
    arrays["row"] = arrays["row"].astype(np.int64, copy=False)
    if posterior.known_precision is not None:
        arrays["precision"] = posterior.known_precision
    if hasattr(model, "classes_"):
        header["calibration"] = all_as_json(asdict(model.calibration_))
        header["classes_are_objects"] = model.classes_.dtype.kind == "O"
        arrays["classes"] = _plain_labels(model.classes_)
    else:
        header["flat"] = process.flat
        header["warps"] = [one.as_dict() for one in process.warps]
    return header, arrays


def _plain_labels(classes: Array) -> Array:
    """Labels as an array without objects."""
    if classes.dtype.kind != "O":
        return classes
    if not all(isinstance(label, str) for label in classes):
        raise InputError(
            "labels must be numbers or strings for the model to be saved, got other objects"
        )
    texts = classes.astype(str)
    if texts.tolist() != classes.tolist():
        raise InputError(
            "labels must not end in NUL for the model to be saved: the texts of a NumPy array "
            "cannot"
        )
    return texts


def _put_together(
    header: dict[str, Any], arrays: dict[str, Array], classes: Mapping[str, type]
) -> Any:
    """The model of a header and arrays that were checked."""
    parameters = dict(header["parameters"])
    if parameters.get("kernel") is not None:
        parameters["kernel"] = model_kernel.build(parameters["kernel"])
    model: Any = classes[header["class"]](**parameters)
    kernel = model_kernel.build(header["kernel"])
    width = arrays["directions"].shape[1]
    data = Observations(np.empty((0, width)), *(arrays[name] for name in _OBSERVATIONS))
    process = FittedProcess(
        _scaling(header["normalize"], kernel, arrays),
        arrays["offset"],
        arrays["unit"],
        data,
        _posterior(kernel, header, arrays),
        header["noise"],
        header["rows"],
        flat=header.get("flat", False),
        warps=warp.from_dicts(header.get("warps", [])),
    )
    if "calibration" in header:
        model.classes_ = arrays["classes"]
        if header["classes_are_objects"]:
            model.classes_ = arrays["classes"].astype(object)
        model.restore(kernel, process, header["trials"], Calibration(**header["calibration"]))
    else:
        model.restore(kernel, process, header["trials"])
    model.n_features_in_ = width
    model.table_ = header["table"]
    model.encoder_ = model_table.encoder_of(header)
    if model.encoder_ is not None:
        table_input.name_features(model)
    elif header["feature_names"]:
        model.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    return model


def _scaling(normalize: str | None, kernel: DeepKernel, arrays: dict[str, Array]) -> Scaling:
    mean, scale = arrays["scaling_mean"], arrays["scaling_scale"]
    if normalize in VERSIONS:
        rest = arrays["knots"], arrays["values"], kernel.embedding or Embedding()
        return Curves(normalize, mean, scale, *rest)
    if normalize != "whitened":
        return Scaling(normalize, mean, scale)
    return Whitened(normalize, mean, scale, kernel.image_shape, arrays["filters"])


def _posterior(kernel: DeepKernel, header: dict[str, Any], arrays: dict[str, Array]) -> Posterior:
    points = Points(arrays["directions"], arrays["square_lengths"])
    if kernel.embedding is not None or getattr(kernel, "convolutional", False):
        points = kernel.prepared("X", arrays["directions"])
    covariance = Covariance(kernel.network, points, arrays["deviation"], arrays["noise_var"])
    c = np.inf if header["intercept_precision"] is None else header["intercept_precision"]
    return Posterior.restored(
        kernel,
        points,
        arrays["y"],
        header["signal_var"],
        _inverse(covariance, header, arrays),
        Weights(arrays["deviation"], arrays["alpha"], arrays["beta"], arrays["t"], c),
        arrays.get("precision"),
    )


def _inverse(covariance: Covariance, header: dict[str, Any], arrays: dict[str, Array]) -> Inverse:
    """The factor, or what solves without one."""
    kappa, noise, report = header["contraction"], arrays["noise_var"], header["report"]
    if header["factored"]:
        packed = Packed(len(noise), arrays["factor"].dtype, arrays["factor"])
        return Factor(kappa, noise, packed, Report(**report))
    if "iterations" not in report:  # factored on a cluster, by an earlier version
        done = IterationReport(kappa, 0, (), (), 0, 0, 0, "on a cluster", 0.0)
    else:
        tuples = {name: tuple(report[name]) for name in ("residuals", "history")}
        done = IterationReport(**{**report, **tuples})
    return Iteration(ConjugateGradients(), covariance, kappa, report=done)
