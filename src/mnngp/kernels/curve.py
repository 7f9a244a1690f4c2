"""A whole network as one function of the distance, for points that all take the same way.

Points of one length (or any points, without biases) see ``u ↦ u_L``, and ``t_L`` for a tangent
kernel, whatever the depth. That function is a short series, of which there are two: ``collapsed``
is good for every distance, to full relative accuracy; a ``Curve`` only on the interval of half
angles that nearly all pairs of a data set lie in, with half the terms, and takes the others through
the layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from mnngp._system.compiled import compiled, to_tuple
from mnngp._typing import Array, Matrix, Vector
from mnngp.activations.chebyshev import HALF_RANGE, Series
from mnngp.errors import MnngpError
from mnngp.kernels import strips
from mnngp.kernels.forward import advance, wanted, way_of
from mnngp.kernels.layout import Panel
from mnngp.kernels.pointwise import Diagonal, Step, behind
from mnngp.kernels.program import TOLERANCE, one_step, pack, padded, side
from mnngp.kernels.strips import Program, Side, chebyshev, polynomial
from mnngp.networks.network import Network

Window = tuple[float, float]
_FLOAT = np.dtype(np.float64)
_GROUP = 16  # pairs that are taken through the layers together
# columns: a call of ``by_powers`` puts its coefficients in place first, and a buffer stays in cache
_STRIP = 1024
# A series to rounding, and how many nodes it may take. What a longer one adds is mostly the
# rounding of the layers themselves, which does not die out: it is not worth terms.
_FITS = ((1e-15, 32), (4e-15, 32), (1e-14, 128), (1e-13, 256))
# Terms of a series in powers. Powers lose what their coefficients are larger than those of the
# Chebyshev series: little, if that is short. Their sums, relative to each other, may grow by this.
_TERMS = (17, 21, 25, 29)
_GROWTH = 4.0


@compiled
def through_layers(
    program: Program, row: Side, cols: Side, u: Array, t: Array, buffer: Array
) -> None:
    """Distances through all layers, in place, with their tangents."""
    way = way_of(buffer, 1)
    for start in range(0, u.shape[0], _GROUP):
        stop = min(start + _GROUP, u.shape[0])
        width = stop - start
        way.u[0, :width] = u[start:stop]
        way.t[0, :width] = 0.0
        advance(program, row, cols, 0, 0, width, way, 0)
        u[start:stop] = way.u[0, :width]
        t[start:stop] = way.t[0, :width]


class OneWay:
    """The way of one point, which stands for all, through the layers."""

    def __init__(self, steps: Sequence[Step], *, tangent: bool) -> None:
        self.tangent = tangent
        self.program = pack(steps, _FLOAT, tangent=tangent)
        self.row = side(steps, np.empty((1, 0)), np.ones(1), slice(0, 1))
        # with as many columns as are taken at a time: they are all the same
        self.cols = Side(*(np.repeat(part, _GROUP, axis=-1) for part in self.row))

    def __call__(self, u: Vector) -> tuple[Vector, Vector]:
        """Distances and tangents behind the network, for distances before it."""
        distance, tangent = u.copy(), np.empty_like(u)
        buffer = np.empty((8, _GROUP))
        through_layers(self.program, self.row, self.cols, distance, tangent, buffer)
        return distance, tangent


def collapsed(steps: Sequence[Step], dtype: np.dtype[Any], *, tangent: bool) -> Program | None:
    """Make one step of many; None where that does not work or pay.

    u_L is stored as the series of ``s / s_L`` in s = √u (and in √(1-u) on the far side): the
    reciprocal, because it is nearly a straight line at any depth, where s_L itself has a pole just
    outside of the interval.
    """
    run = OneWay(steps, tangent=tangent)

    def shrinkage(u: Vector) -> Vector:
        distance = run(u)[0]
        if distance.min() < np.finfo(np.float64).tiny:
            raise MnngpError("distances underflow")
        return np.sqrt(u / distance)

    def near(s: Vector) -> Vector:
        return np.square(s)

    def far(c: Vector) -> Vector:
        return 1.0 - np.square(c)

    found = []
    try:
        for first, to_u in ((strips.G, near), (strips.H, far)):
            series = _fit(lambda s, f=to_u: shrinkage(f(s)), dtype)  # type: ignore[misc]
            if np.abs(series).max() ** 2 > 1e-8 * np.finfo(dtype).max:
                return None  # the squared series would overflow
            found.append((first, series))
            if tangent:
                series = _fit(lambda s, f=to_u: run(f(s))[1], dtype)  # type: ignore[misc]
                found.append((first + strips.G_SLOPE - strips.G, series))
    except MnngpError:
        return None
    return one_step(found, 2.0 / float(HALF_RANGE), dtype)


def _fit(function: Callable[[Vector], Vector], dtype: np.dtype[Any]) -> Vector:
    return Series.fit(function, HALF_RANGE, tolerance=TOLERANCE[dtype], most=128).coefficients


class Chart(NamedTuple):
    """The series of a curve, on its interval: powers of ``x = stretch · φ - shift`` in [-1, 1]."""

    powers: Array  # as many as _TERMS has, lowest first; none if it is too long for them
    series: Array  # Chebyshev coefficients, 4k + 2 of them
    stretch: float
    shift: float


@compiled
def by_powers(angle: Array, chart: Chart, affine: tuple[float, float], out: Array) -> None:
    """Half angles to entries, in one pass that vectorises; ``out`` may be ``angle``.

    The loops differ in the number of coefficients alone, which have to be a tuple to be kept in
    registers: in an array they would be read again for every pair.
    """
    stretch, shift = chart.stretch, chart.shift
    offset, factor = affine
    terms = chart.powers.shape[0]
    if terms == 17:
        c17 = to_tuple(chart.powers, 17)
        for j in range(angle.shape[0]):
            out[j] = offset + factor * polynomial(c17, stretch * angle[j] - shift)
    elif terms == 21:
        c21 = to_tuple(chart.powers, 21)
        for j in range(angle.shape[0]):
            out[j] = offset + factor * polynomial(c21, stretch * angle[j] - shift)
    elif terms == 25:
        c25 = to_tuple(chart.powers, 25)
        for j in range(angle.shape[0]):
            out[j] = offset + factor * polynomial(c25, stretch * angle[j] - shift)
    else:
        c29 = to_tuple(chart.powers, 29)
        for j in range(angle.shape[0]):
            out[j] = offset + factor * polynomial(c29, stretch * angle[j] - shift)


@compiled
def by_series(
    angle: Array, chart: Chart, affine: tuple[float, float], out: Array, buffer: Array
) -> None:
    """The same for a series of any length."""
    stretch, shift = 2.0 * chart.stretch, 2.0 * chart.shift
    offset, factor = affine
    width = angle.shape[0]
    x, value = buffer[0, :width], buffer[1, :width]
    for j in range(width):
        x[j] = stretch * angle[j] - shift
    chebyshev(x, chart.series, value, buffer[2, :width])
    for j in range(width):
        out[j] = offset + factor * value[j]


@compiled
def to_entries(
    angles: Array,
    out: Array,
    panel: Panel,
    chart: Chart,
    layers: tuple[Program, Side, Side],
    affine: tuple[float, float],
) -> None:
    """Half angles to ``offset + factor · u_L``, or ``… t_L``; ``out`` may be ``angles``.

    Pairs that are not in the interval of the ``chart`` go through the ``layers``.
    """
    program, row, cols = layers
    offset, factor = affine
    buffer, far, where = np.empty((3, _STRIP)), np.empty((2, _STRIP)), np.empty(_STRIP, np.int64)
    group = np.empty((8, _GROUP))
    for left in range(panel.begin, panel.end, _STRIP):
        right = min(left + _STRIP, panel.end)
        for i in range(panel.first, panel.last):
            diagonal = i + panel.row_shift - panel.col_shift
            start, stop = wanted(left, right, diagonal, panel.part)
            if stop <= start:
                continue
            angle = angles[i, start:stop]
            outside = 0
            for j in range(stop - start):
                outside += 1 if abs(chart.stretch * angle[j] - chart.shift) > 1.0 else 0
            if outside > 0:  # before they are overwritten
                count = 0
                for j in range(stop - start):
                    if abs(chart.stretch * angle[j] - chart.shift) > 1.0:
                        where[count] = start + j
                        far[0, count] = math.sin(angle[j]) ** 2
                        count += 1
            if chart.powers.shape[0] > 0:
                by_powers(angle, chart, affine, out[i, start:stop])
            else:
                by_series(angle, chart, affine, out[i, start:stop], buffer)
            if outside > 0:
                u, t = far[0, :outside], far[1, :outside]
                through_layers(program, row, cols, u, t, group)
                for k in range(outside):
                    out[i, where[k]] = offset + factor * (t[k] if program.tangent else u[k])


@dataclass(frozen=True, eq=False)
class Curve:
    """What a network makes of the half angle between two points of one length: u_L, or t_L."""

    chart: Chart
    layers: tuple[Program, Side, Side]
    point: Diagonal  # where a point is behind the network

    @property
    def tangent(self) -> bool:
        return self.layers[0].tangent

    def correlations(
        self, angles: Matrix, out: Matrix, *, contraction: float = 1.0, panel: Panel | None = None
    ) -> None:
        """The network's correlations (see ``evaluate``), from half angles."""
        if self.tangent:
            self._run(angles, out, panel, (0.0, 1.0 / float(self.point.tangent[0])))
        else:
            self._run(angles, out, panel, (1.0, -2.0 / contraction))

    def distances(self, angles: Matrix, out: Matrix) -> None:
        """u_L."""
        self._run(angles, out, None, (0.0, 1.0))

    def _run(
        self, angles: Matrix, out: Matrix, panel: Panel | None, affine: tuple[float, float]
    ) -> None:
        if panel is None:  # a contiguous matrix, as one long row: rows may be short
            assert out.flags.c_contiguous
            panel, angles, out = Panel(0, 1, 0, out.size), angles.reshape(1, -1), out.reshape(1, -1)
        to_entries(angles, out, panel, self.chart, self.layers, affine)


@lru_cache(maxsize=32)
def curve(network: Network, square_length: float, interval: Window) -> Curve:
    """The curve of a network for points of this length, a series on the interval."""
    steps, point = behind(np.array([square_length]), network.blocks)
    run, (low, high) = OneWay(steps, tangent=network.tangent), interval
    series = None
    for tolerance, most in _FITS:
        try:
            series = Series.fit(
                lambda rest: run(np.sin(low + rest) ** 2)[int(network.tangent)],
                high - low,
                tolerance=tolerance,
                most=most,
            )
            break
        except MnngpError:
            continue
    stretch = 2.0 / (high - low)
    # Without a series everything is outside of the interval, and goes through the layers.
    shift = stretch * low + 1.0 if series is not None else math.inf
    series = series or Series(np.zeros(2), high - low)
    chart = Chart(_powers(series), padded(series.coefficients), stretch, shift)
    return Curve(chart, (run.program, run.row, run.cols), point)


def _powers(series: Series) -> Vector:
    """A series in powers, with zeros to a number of them that there is a loop for."""
    short = len(series.coefficients) <= _TERMS[-1]
    if not short or np.abs(series.powers).sum() > _GROWTH * np.abs(series.coefficients).sum():
        return np.empty(0)
    terms = next(terms for terms in _TERMS if len(series.powers) <= terms)
    return np.append(series.powers, np.zeros(terms - len(series.powers)))
