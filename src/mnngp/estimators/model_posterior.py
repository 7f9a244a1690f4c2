"""A posterior as numbers and arrays, for model files: all that was computed, and no more."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from mnngp._typing import Array
from mnngp.estimators.model_values import all_as_json
from mnngp.inference import ConjugateGradients, IterationReport, Posterior, Report
from mnngp.inference.posterior import Weights
from mnngp.inference.solvers.cholesky import Factor
from mnngp.inference.solvers.conjugate_gradients import Iteration
from mnngp.inference.solvers.covariance import Covariance
from mnngp.inference.solvers.interface import Inverse
from mnngp.inference.solvers.packed import Packed
from mnngp.kernels.points import Points
from mnngp.kernels.sklearn import DeepKernel


def take_apart(posterior: Posterior) -> tuple[dict[str, Any], dict[str, Array]]:
    """Entries of the header, and arrays."""
    inverse = posterior.inverse
    numbers = {
        "signal_var": posterior.signal_var,
        "contraction": posterior.contraction,
        "intercept_precision": None if np.isinf(posterior.c) else posterior.c,
        "factored": isinstance(inverse, Factor),
    }
    header = {**all_as_json(numbers), "report": all_as_json(asdict(posterior.report))}
    arrays = {
        "directions": posterior.points.directions,
        "square_lengths": posterior.points.square_lengths,
        "noise_var": posterior.noise_var,
        "deviation": posterior.deviation,
        "alpha": posterior.alpha,
        "beta": posterior.beta,
        "t": posterior.t,
    }
    if isinstance(inverse, Factor):
        arrays["factor"] = inverse.packed.memory
    if posterior.known_precision is not None:
        arrays["precision"] = posterior.known_precision
    return header, arrays


def put_together(kernel: DeepKernel, header: dict[str, Any], arrays: dict[str, Array]) -> Posterior:
    """The posterior of entries and arrays that were checked."""
    points = Points(arrays["directions"], arrays["square_lengths"])
    c = np.inf if header["intercept_precision"] is None else header["intercept_precision"]
    return Posterior.restored(
        kernel,
        points,
        arrays["y"],
        header["signal_var"],
        _inverse(
            Covariance(kernel.network, points, arrays["deviation"], arrays["noise_var"]),
            header,
            arrays,
        ),
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
