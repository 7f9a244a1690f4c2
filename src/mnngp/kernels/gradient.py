"""Kernel matrices with their derivatives, and derivatives of functions of kernel matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mnngp._system import threads
from mnngp._typing import Matrix, Vector
from mnngp.errors import ScaleError
from mnngp.kernels.adjoint import Found, Layers, Rates, gradient_rows, pull_rows, touch
from mnngp.kernels.evaluate import (
    Values,
    correlation_values,
    correlations,
    kernel_values,
    matrix,
)
from mnngp.kernels.forward import REFINE
from mnngp.kernels.points import ByKind, Points
from mnngp.kernels.pointwise import HermiteStep, Step, behind, pull_back
from mnngp.kernels.program import pack, side
from mnngp.networks.network import Network

_TASK = 64  # rows a thread takes at a time
# The work at a layer of a pair, in what ``threads`` counts.
_EFFORT = 4.0

ThetaIndex = Any
"""(2, steps): to which element of theta the weight_var and bias_var of a step belong; -1: none."""


@ByKind
def matrix_and_gradient(
    network: Network, x: Points, theta_index: ThetaIndex, count: int
) -> tuple[Matrix, Matrix]:
    """The symmetric kernel matrix, and ``count`` derivatives of it along the last axis."""
    if not count:
        kernel, _ = matrix(network, x, None)
        return kernel, np.empty((*kernel.shape, 0), dtype=network.dtype)
    steps, points = behind(x.square_lengths, network.blocks)
    values = kernel_values(network, points, normalized=False)
    layers = _layers(network, steps, x, values)
    cosines = np.matmul(x.directions, x.directions.T)
    kernel, planes = np.empty_like(cosines), np.empty((count, *cosines.shape), network.dtype)
    threads.parallel_for(lambda plane: touch(plane.reshape(-1)), list(planes), work=planes.size)
    finite = np.ones(len(x), dtype=np.bool_)

    def task(first: int) -> None:
        last = min(first + _TASK, len(x))
        gradient_rows(layers, cosines, kernel, planes, theta_index, first, last, finite)

    work = _EFFORT * cosines.size * len(steps)
    threads.parallel_for(task, range(0, len(x), _TASK)[::-1], work=work)
    rates = pull_back(steps, np.ones(len(x)), _of_tangent(network, points.tangent))
    np.fill_diagonal(kernel, values.diagonal)
    with np.errstate(over="ignore"):
        on_diagonal = values.diagonal * summed(rates, theta_index, count)
    for plane, derivative in zip(planes, on_diagonal, strict=True):
        np.fill_diagonal(plane, derivative)
    if not (finite.all() and np.isfinite(on_diagonal.astype(network.dtype)).all()):
        raise ScaleError(
            f"the kernel's gradient is too large for {network.dtype}: scale the features "
            "or the variances down"
        )
    return kernel, np.moveaxis(planes, 0, -1)


@ByKind
def pulled_correlations(
    network: Network, x: Points, pulled: Matrix, *, contraction: float = 1.0
) -> tuple[Vector, Vector]:
    """The derivatives of ``Σ pulled_ij · correlations_ij`` and of ``log K_ii``.

    For symmetric ``pulled``. Together they are the derivatives of functions of the kernel, but
    where the correlations are one up to rounding these have their digits.

    Returns
    -------
    of_sum : array (2, steps)
        In log weight_var and log bias_var of every layer.
    of_diagonal : array (2, steps, n)
    """
    steps, points = behind(x.square_lengths, network.blocks)
    layers = _layers(network, steps, x, correlation_values(network, points, contraction))
    cosines = np.matmul(x.directions, x.directions.T)
    pulled = pulled.astype(network.dtype, copy=False)
    of_sum = vector_jacobian(layers, cosines, pulled, symmetric=True).variances
    of_tangent = _of_tangent(network, points.tangent)
    if of_tangent is not None:  # the correlations are t_ij / √(T_i T_j)
        weighed = np.einsum("ij,ij->i", pulled, correlations(network, x))
        of_sum -= pull_back(steps, np.zeros(len(x)), of_tangent * weighed).sum(axis=2)
    return of_sum, pull_back(steps, np.ones(len(x)), of_tangent)


def vector_jacobian(
    layers: Layers, cosines: Matrix, pulled: Matrix, *, symmetric: bool, inputs: bool = False
) -> Found:
    """From the derivatives of a number in the entries of a kernel matrix to those in what it is of.

    Every task has sums of its own, so that the result does not depend on the threads.
    """
    (n, m), steps = cosines.shape, len(layers.program.kind)
    starts = range(0, n, _TASK)
    variances = np.zeros((len(starts), 2, steps))
    rows, cols = np.zeros(n), np.zeros((len(starts), m if inputs else 0))
    gram = np.zeros(cosines.shape if inputs else (0, 0), cosines.dtype)

    def task(index: int) -> None:
        start = starts[index]
        found = Found(variances[index], gram, rows, cols[index])
        pull_rows(layers, cosines, pulled, symmetric, start, min(start + _TASK, n), found)

    work = _EFFORT * cosines.size * steps
    threads.parallel_for(task, range(len(starts))[::-1], work=work)
    return Found(variances.sum(axis=0), gram, rows, cols.sum(axis=0))


def summed(rates: Vector, theta_index: ThetaIndex, count: int) -> Vector:
    """Derivatives (2, steps, …) in all variances, added up for each parameter."""
    result = np.zeros((count, *rates.shape[2:]))
    for index, rate in zip(
        theta_index.reshape(-1), rates.reshape(-1, *rates.shape[2:]), strict=True
    ):
        if index >= 0:
            result[index] += rate
    return result


def rates(steps: Sequence[Step], dtype: np.dtype[Any], part: slice = slice(None)) -> Rates:
    """What the way back needs of the points of ``part``."""
    beta, weight, growth = (
        np.stack([getattr(step, name)[part] for step in steps]).astype(dtype)
        for name in ("beta", "weight_share", "growth")
    )
    deviations = [step.rates[:, part] for step in steps if isinstance(step, HermiteStep)]
    none = np.empty((0, beta.shape[1]))
    return Rates(beta, weight, growth, np.concatenate([*deviations, none]).astype(dtype))


def _layers(network: Network, steps: Sequence[Step], x: Points, values: Values) -> Layers:
    """The network for one set of points with itself."""
    dtype = network.dtype
    own, moving = side(steps, x.directions, values.scale), rates(steps, dtype)
    return Layers(
        pack(steps, dtype, tangent=network.tangent, derivatives=True),
        own,
        own,
        moving,
        moving,
        dtype.type(values.stretch),
        dtype.type(REFINE[dtype]),
        values.scaled,
    )


def _of_tangent(network: Network, tangent: Vector) -> Vector | None:
    """The derivative of log T in T."""
    return 1.0 / tangent if network.tangent else None
