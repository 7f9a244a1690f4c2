"""Steps, packed as arrays for compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mnngp._typing import Matrix, Vector
from mnngp.activations.chebyshev import Series
from mnngp.activations.degrees import RUNGS
from mnngp.kernels import strips
from mnngp.kernels.pointwise import HermiteStep, HomogeneousStep, Step
from mnngp.kernels.strips import Program, Side

_TERMS = (9, 13, 17, 25)  # of a polynomial
_MOST = _TERMS[-1]
TOLERANCE = {np.dtype(np.float64): 1e-15, np.dtype(np.float32): 3e-8}


def padded(coefficients: Vector) -> Vector:
    """With zeros to the 4k + 2 coefficients that the compiled recurrence takes."""
    return np.append(coefficients, np.zeros((2 - len(coefficients)) % 4))


class _Packer:
    """Collects series into one array and remembers where each stands."""

    def __init__(self) -> None:
        self.parts: list[Vector] = []
        self.length = 0

    def add(self, numbers: Vector) -> tuple[int, int]:
        start = self.length
        self.parts.append(numbers)
        self.length += len(numbers)
        return start, self.length

    def packed(self, dtype: np.dtype[Any]) -> Matrix:
        return np.concatenate([*self.parts, np.zeros(1)]).astype(dtype)


def pack(
    steps: Sequence[Step],
    dtype: np.dtype[Any],
    *,
    tangent: bool = False,
    derivatives: bool = False,
    tolerance: float | None = None,
) -> Program:
    """Make a program of consecutive steps; each takes as few terms as its distances need."""
    tolerance = tolerance or TOLERANCE[dtype]
    order = int(tangent) + int(derivatives)  # 1 if slopes P are wanted, 2 if their derivatives are
    count = len(steps)
    kind = np.array([step.kind for step in steps], dtype=np.int64)
    moment_root, stretch, fall = np.zeros((3, count))
    power, power_terms = np.zeros((count, 6, _MOST)), np.zeros(count, dtype=np.int64)
    span = np.zeros((count, strips.SERIES, 2), dtype=np.int64)
    deviation_span = np.zeros((count, 2), dtype=np.int64)
    ladder = np.zeros((count, 3), dtype=np.int64)
    packer, deviations = _Packer(), 0
    for index, step in enumerate(steps):
        where = span[index]
        if isinstance(step, HermiteStep):
            degrees = step.expansion.degrees
            values = np.minimum(degrees.values, np.finfo(dtype).max / 4.0)
            where[strips.HERMITE_REFERENCE] = packer.add(step.reference)
            where[strips.HERMITE_DEGREES] = packer.add(values)
            ladder[index] = degrees.whole, RUNGS, degrees.odd
            deviation_span[index] = deviations, deviations + len(step.reference)
            deviations += len(step.reference)
            continue
        assert isinstance(step, HomogeneousStep)
        moment_root[index] = np.sqrt(step.second_moment)
        if step.table is not None:
            where[strips.TABLE_VALUES] = packer.add(step.table)
        if step.profile is not None:
            names = ("near", "near_slope")[: order + 1]
            near = [getattr(step.profile, name).chopped(tolerance) for name in names]
            if step.kind == strips.NEAR:
                reach = float(np.sqrt(step.reach))
                near = [step.profile.shorter(name, reach, tolerance) for name in names]
                far = []
            else:
                sides = (step.profile.far, step.profile.far_slope)[: order + 1]
                far = _with_derivative([series.chopped(tolerance) for series in sides], order)
                _add(packer, far, where, strips.H)
            near = _with_derivative(near, order)
            _add(packer, near, where, strips.G)
            power_terms[index], power[index] = _powers(near, far)
            stretch[index], fall[index] = 2.0 / near[0].upper, step.profile.fall / 2.0
    return Program(
        tangent,
        kind,
        moment_root.astype(dtype),
        stretch.astype(dtype),
        fall.astype(dtype),
        power.astype(dtype),
        power_terms,
        span,
        packer.packed(dtype),
        deviation_span,
        ladder,
    )


def _with_derivative(series: list[Series], order: int) -> list[Series]:
    return [*series, series[1].slope] if order > 1 else series


def _add(packer: _Packer, series: list[Series], where: Any, first: int) -> None:
    """Put a series, its slope and the slope's derivative, as far as wanted, beside each other."""
    for row, one in enumerate(series, start=first):
        where[row] = packer.add(padded(one.coefficients))


def _powers(near: Sequence[Series], far: Sequence[Series]) -> tuple[int, Vector]:
    """Series in powers of x, for the quick steps; none if they have too many terms."""
    rows = np.zeros((6, _MOST))
    longest = max(len(one.coefficients) for one in (*near, *far))
    if longest > _MOST:
        return 0, rows
    for first, series in ((0, near), (3, far)):
        for row, one in enumerate(series, start=first):
            rows[row, : len(one.coefficients)] = one.powers
    return next(terms for terms in _TERMS if longest <= terms), rows


def one_step(series: Sequence[tuple[int, Vector]], stretch: float, dtype: np.dtype[Any]) -> Program:
    """A program of one COLLAPSED step, from its series and their rows in ``Program.span``."""
    span, packer = np.zeros((1, strips.SERIES, 2), dtype=np.int64), _Packer()
    for row, coefficients in series:
        span[0, row] = packer.add(padded(coefficients))
    none = np.zeros(1, dtype=dtype)
    return Program(
        any(row == strips.G_SLOPE for row, _ in series),
        np.array([strips.COLLAPSED]),
        none,
        np.array([stretch], dtype=dtype),
        none,
        np.zeros((1, 6, _MOST), dtype=dtype),
        np.zeros(1, dtype=np.int64),
        span,
        packer.packed(dtype),
        np.zeros((1, 2), dtype=np.int64),
        np.zeros((1, 3), dtype=np.int64),
    )


def side(
    steps: Sequence[Step], directions: Matrix, scale: Vector, part: slice = slice(None)
) -> Side:
    """What the steps have of the points of ``part``, in the type of their directions."""
    dtype = directions.dtype
    a, p, r = (
        np.stack([getattr(step, name)[part] for step in steps]).astype(dtype) for name in "apr"
    )
    deviations = [step.deviation[:, part] for step in steps if isinstance(step, HermiteStep)]
    none = np.empty((0, a.shape[1]))
    deviation = np.concatenate([*deviations, none]).astype(dtype)
    return Side(directions, a, p, r, deviation, scale[part].astype(dtype))
