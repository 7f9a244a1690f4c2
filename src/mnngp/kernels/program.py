"""Steps, packed as arrays for compiled code; and a whole network collapsed into one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mnngp._typing import Matrix, Vector
from mnngp.activations.chebyshev import HALF_RANGE, Series
from mnngp.activations.degrees import RUNGS
from mnngp.errors import MnngpError
from mnngp.kernels import forward
from mnngp.kernels.forward import Program, Tables
from mnngp.kernels.pointwise import Step

TOLERANCE = {np.dtype(np.float64): 1e-15, np.dtype(np.float32): 3e-8}


class _Packer:
    """Collects series into one array and remembers where each stands."""

    def __init__(self) -> None:
        self.parts: list[Vector] = []
        self.length = 0

    def add(self, coefficients: Vector, *, padded: bool = True) -> tuple[int, int]:
        if padded:  # the compiled recurrence takes 4k + 2 coefficients
            coefficients = np.append(coefficients, np.zeros((2 - len(coefficients)) % 4))
        start = self.length
        self.parts.append(coefficients)
        self.length += len(coefficients)
        return start, self.length

    def packed(self, dtype: np.dtype[Any]) -> Matrix:
        return np.concatenate([*self.parts, np.zeros(1)]).astype(dtype)


def pack(steps: Sequence[Step], dtype: np.dtype[Any], *, order: int) -> Program:
    """Make a program of consecutive steps; each takes as few terms as its distances need.

    ``order``: 0 for the distances alone, 1 if the slopes P are wanted, 2 if their derivatives are.
    """
    tolerance = TOLERANCE[dtype]
    count = len(steps)
    kind = np.array([step.kind for step in steps], dtype=np.int64)
    stretch, fall = np.zeros(count), np.zeros(count)
    power, power_terms = np.zeros((count, 2, 17)), np.zeros(count, dtype=np.int64)
    span = np.zeros((count, forward.SERIES, 2), dtype=np.int64)
    deviation_span, ladder = (
        np.zeros((count, 2), dtype=np.int64),
        np.zeros((count, 3), dtype=np.int64),
    )
    packer, deviations = _Packer(), 0
    for index, step in enumerate(steps):
        where = span[index]
        if step.kind == forward.TABLE:
            where[forward.TABLE_VALUES] = packer.add(step.table, padded=False)
        elif step.expansion is not None:
            degrees = step.expansion.degrees
            where[forward.HERMITE_REFERENCE] = packer.add(step.reference, padded=False)
            where[forward.HERMITE_DEGREES] = packer.add(
                np.minimum(degrees.values, np.finfo(dtype).max / 4.0), padded=False
            )
            ladder[index] = degrees.whole, RUNGS, degrees.odd
            deviation_span[index] = deviations, deviations + len(step.reference)
            deviations += len(step.reference)
        elif step.profile is not None:
            names = ("near", "near_slope")[: order + 1]
            near = [getattr(step.profile, name).chopped(tolerance) for name in names]
            if step.kind == forward.NEAR:
                reach = float(np.sqrt(step.reach))
                near = [step.profile.shorter(name, reach, tolerance) for name in names]
                power_terms[index], power[index] = _powers(near)
            else:
                far = [
                    series.chopped(tolerance)
                    for series in (step.profile.far, step.profile.far_slope)[: order + 1]
                ]
                far += [far[1].slope] if order > 1 else []
                where[forward.H : forward.H + len(far)] = [
                    packer.add(series.coefficients) for series in far
                ]
            near += [near[1].slope] if order > 1 else []
            where[forward.G : forward.G + len(near)] = [
                packer.add(series.coefficients) for series in near
            ]
            stretch[index], fall[index] = 2.0 / near[0].upper, step.profile.fall / 2.0
    return Program(
        kind,
        stretch.astype(dtype),
        fall.astype(dtype),
        power.astype(dtype),
        power_terms,
        span,
        packer.packed(dtype),
        deviation_span,
        ladder,
    )


def _powers(series: Sequence[Series]) -> tuple[int, Vector]:
    """G, and P if it is given, in powers of x, for the quick steps; none if they have too many
    terms.
    """
    rows = np.zeros((2, 17))
    longest = max(len(one.coefficients) for one in series)
    if longest > 17:
        return 0, rows
    for row, one in zip(rows, series, strict=False):
        row[: len(one.coefficients)] = one.powers
    return (9 if longest <= 9 else 17), rows


def tables(steps: Sequence[Step], part: slice, dtype: np.dtype[Any]) -> Tables:
    """The per-point numbers of the steps, for the points of ``part``."""
    deviations = [step.deviation[:, part] for step in steps if step.kind == forward.HERMITE]
    empty = np.empty((0, len(steps[0].a[part])))
    a, p, r = (
        np.stack([getattr(step, name)[part] for step in steps]).astype(dtype)
        for name in ("a", "p", "r")
    )
    return Tables(a, p, r, np.concatenate([*deviations, empty]).astype(dtype))


def collapse(steps: Sequence[Step], dtype: np.dtype[Any], *, tangent: bool) -> Program | None:
    """Make one step of many, for points that all have the same tables; None where that does not
    work or pay.

    Then u_L is one function of u. It is stored as the series of ``s / s_L`` in s = √u (and in
    √(1-u) on the far side): the reciprocal, because it is nearly a straight line at any depth,
    where s_L itself has a pole just outside of the interval.
    """
    program = pack(steps, np.dtype(np.float64), order=int(tangent))
    one_point = tables(steps, slice(0, 1), np.dtype(np.float64))
    one_point = Tables(one_point.a, *(np.zeros_like(part) for part in one_point[1:]))

    def run(u: Vector) -> tuple[Vector, Vector]:
        """Distances and tangents behind the network, for distances before it."""
        many = Tables(*(np.repeat(part, len(u), axis=1) for part in one_point))
        distance, theta = u.copy(), np.zeros_like(u)
        forward.advance(
            program, one_point, many, 0, 0, tangent, distance, theta, *np.empty((5, len(u)))
        )
        return distance, theta

    def shrinkage(u: Vector) -> Vector:
        behind = run(u)[0]
        if not behind.all():
            raise MnngpError("distances underflow")
        return np.sqrt(u / behind)

    span = np.zeros((1, forward.SERIES, 2), dtype=np.int64)
    packer = _Packer()
    sides = {
        (forward.G, forward.G_SLOPE): np.square,
        (forward.H, forward.H_SLOPE): lambda c: 1.0 - np.square(c),
    }
    try:
        for (row, tangent_row), to_u in sides.items():
            series = Series.fit(
                lambda s, f=to_u: shrinkage(f(s)),  # type: ignore[misc]
                HALF_RANGE,
                tolerance=TOLERANCE[dtype],
                most=128,
            )
            if np.abs(series.coefficients).max() ** 2 > 1e-8 * np.finfo(dtype).max:
                return None  # the squared series would overflow
            span[0, row] = packer.add(series.coefficients)
            if tangent:
                series = Series.fit(
                    lambda s, f=to_u: run(f(s))[1],  # type: ignore[misc]
                    HALF_RANGE,
                    tolerance=TOLERANCE[dtype],
                    most=128,
                )
                span[0, tangent_row] = packer.add(series.coefficients)
    except MnngpError:
        return None
    return Program(
        kind=np.array([forward.COLLAPSED]),
        stretch=np.array([2.0 / HALF_RANGE], dtype=dtype),
        fall=np.zeros(1, dtype=dtype),
        power=np.zeros((1, 2, 17), dtype=dtype),
        power_terms=np.zeros(1, dtype=np.int64),
        span=span,
        series=packer.packed(dtype),
        deviation_span=np.zeros((1, 2), dtype=np.int64),
        ladder=np.zeros((1, 3), dtype=np.int64),
    )
