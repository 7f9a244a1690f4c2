"""A posterior as numbers and arrays, for model files: all that was computed, and no more."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from mnngp._typing import Array
from mnngp.estimators.model_values import all_as_json
from mnngp.inference.factor import Factor, Inverse, Report
from mnngp.inference.large import ConjugateGradients, Iteration, IterationReport, System
from mnngp.inference.packed import Packed
from mnngp.inference.posterior import Posterior
from mnngp.kernels.points import Points
from mnngp.kernels.sklearn import DeepKernel


def take_apart(posterior: Posterior) -> tuple[dict[str, Any], dict[str, Array]]:
    """Entries of the header, and arrays."""
    factor: Inverse = posterior._factor
    precision = posterior._c
    header = {
        **all_as_json({"signal_var": posterior.signal_var, "contraction": factor.contraction}),
        "report": all_as_json(asdict(factor.report)),
        "factored": isinstance(factor, Factor),
        **all_as_json({"intercept_precision": None if np.isinf(precision) else precision}),
    }
    arrays = {
        "directions": posterior._points.directions,
        "square_lengths": posterior._points.square_lengths,
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
    return header, arrays


def put_together(kernel: DeepKernel, header: dict[str, Any], arrays: dict[str, Array]) -> Posterior:
    """The posterior of entries and arrays that were checked."""
    points = Points(arrays["directions"], arrays["square_lengths"])
    precision = header["intercept_precision"]
    return Posterior.restored(
        kernel,
        points,
        arrays["y"],
        header["signal_var"],
        _inverse(kernel, points, header, arrays),
        deviation=arrays["deviation"],
        alpha=arrays["alpha"],
        beta=arrays["beta"],
        t=arrays["t"],
        c=np.inf if precision is None else precision,
        precision=arrays.get("precision"),
    )


def _inverse(
    kernel: DeepKernel, points: Points, header: dict[str, Any], arrays: dict[str, Array]
) -> Inverse:
    """The factor, or what solves without one."""
    kappa, noise, report = header["contraction"], arrays["noise_var"], header["report"]
    if header["factored"]:
        packed = Packed(len(noise), arrays["factor"].dtype, arrays["factor"])
        return Factor(kappa, noise, packed, Report(**report))
    relative = noise / (kappa * arrays["deviation"] ** 2)
    solver = ConjugateGradients()
    system = System(solver, kernel.network, points, kappa, relative, progress=None)
    if "iterations" in report:
        tuples: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in report.items()
        }
        system.first = IterationReport(**tuples)
    else:  # that of a factor on a cluster, which is not in the file
        system.first = IterationReport.of_factor(kappa)
    return Iteration(kappa, noise, system)
