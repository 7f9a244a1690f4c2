"""Points on a sphere: their kernel is a function of the angle alone, and one set of angles serves
every network.

Points of one length all take the same way through the layers, ``u ↦ u_L`` (and ``t_L`` for a
tangent kernel), whatever the depth. In the half angle φ, ``u = sin² φ``, that function has no
singularity at either end, and on the interval that nearly all pairs of a data set lie in a
Chebyshev series of some twenty terms gives it to rounding. So a sweep over hyperparameters computes
the angles once, and then one short series for each network and pair. The few pairs outside of the
interval, nearly equal points above all, are taken through the layers themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from mnngp._system import threads
from mnngp._system.compiled import compiled
from mnngp._typing import Array, Matrix, Vector
from mnngp.activations.chebyshev import Series
from mnngp.errors import MnngpError
from mnngp.kernels import blocks, layout
from mnngp.kernels.blocks import ALL, STRIP, distances, wanted
from mnngp.kernels.forward import Program, Tables, advance, chebyshev
from mnngp.kernels.points import Points
from mnngp.kernels.pointwise import inputs, walk
from mnngp.kernels.program import pack, tables
from mnngp.networks.network import Network

Window = tuple[float, float]
_FLOAT = np.dtype(np.float64)
_SAMPLE = 1 << 20  # pairs that a window is chosen from
_GROUP = 16  # pairs that are taken through the layers together
# A series to rounding; a little less where rounding itself, after a hundred layers, does not die
# out.
_FITS = ((1e-15, 64), (1e-14, 128), (1e-13, 256))


# --- compiled -------------------------------------------------------------------------------------


@compiled
def to_angles(
    state: Array,
    first: int,
    last: int,
    begin: int,
    end: int,
    row_shift: int,
    col_shift: int,
    part: int,
    row_points: Array,
    col_points: Array,
    refine: float,
    arcsine: Array,
) -> None:
    """Cosines to half angles, in place: ``φ = arcsin √u``, or ``π/2 - arcsin √(1-u)`` beyond 90°. A
    block as in ``transform``.
    """
    buffer = np.empty((5, STRIP))
    for left in range(begin, end, STRIP):
        right = min(left + STRIP, end)
        for i in range(first, last):
            start, stop = wanted(left, right, i + row_shift - col_shift, part)
            width = stop - start
            if width <= 0:
                continue
            u, near, x, value, work = (
                buffer[0, :width],
                buffer[1, :width],
                buffer[2, :width],
                buffer[3, :width],
                buffer[4, :width],
            )
            distances(
                state[i, start:stop],
                i + row_shift,
                start + col_shift,
                row_points,
                col_points,
                refine,
                u,
            )
            for j in range(width):
                near[j] = u[j] if u[j] <= 0.5 else 1.0 - u[j]
                x[j] = 8.0 * near[j] - 2.0
            chebyshev(x, arcsine, value, work)
            for j in range(width):
                angle = math.sqrt(near[j]) * value[j]
                state[i, start + j] = angle if u[j] <= 0.5 else 0.5 * math.pi - angle


@compiled
def through_layers(
    program: Program, row: Tables, cols: Tables, tangent: bool, u: Array, t: Array, buffer: Array
) -> None:
    """Distances through all layers, in place, with their tangents."""
    for start in range(0, u.shape[0], _GROUP):
        stop = min(start + _GROUP, u.shape[0])
        width = stop - start
        t[start:stop] = 0.0
        advance(
            program,
            row,
            cols,
            0,
            0,
            tangent,
            u[start:stop],
            t[start:stop],
            buffer[0, :width],
            buffer[1, :width],
            buffer[2, :width],
            buffer[3, :width],
            buffer[4, :width],
        )


@compiled
def to_entries(
    angles: Array,
    out: Array,
    first: int,
    last: int,
    begin: int,
    end: int,
    row_shift: int,
    col_shift: int,
    part: int,
    stretch: float,
    shift: float,
    series: Array,
    program: Program,
    row: Tables,
    cols: Tables,
    tangent: bool,
    offset: float,
    factor: float,
) -> None:
    """Half angles to ``offset + factor · u_L``, or ``… t_L``; ``out`` may be ``angles``."""
    buffer = np.empty((3, STRIP))
    far = np.empty((8, STRIP))
    for left in range(begin, end, STRIP):
        right = min(left + STRIP, end)
        for i in range(first, last):
            start, stop = wanted(left, right, i + row_shift - col_shift, part)
            width = stop - start
            if width <= 0:
                continue
            angle = angles[i, start:stop]
            x, value, work = buffer[0, :width], buffer[1, :width], buffer[2, :width]
            outside = 0
            for j in range(width):
                x[j] = stretch * angle[j] - shift
            for j in range(width):
                outside += 1 if abs(x[j]) > 2.0 else 0
            chebyshev(x, series, value, work)
            if outside > 0:
                count = 0
                for j in range(width):
                    if abs(x[j]) > 2.0:
                        far[0, count] = math.sin(angle[j]) ** 2
                        count += 1
                through_layers(program, row, cols, tangent, far[0, :count], far[1, :count], far[2:])
                count = 0
                for j in range(width):
                    if abs(x[j]) > 2.0:
                        value[j] = far[1, count] if tangent else far[0, count]
                        count += 1
            for j in range(width):
                out[i, start + j] = offset + factor * value[j]


# --- angles ---------------------------------------------------------------------------------------


def half_angles(x: Points, y: Points, out: Matrix | None = None) -> Matrix:
    """The half angles between all points of x and all of y."""
    angles = np.empty((len(x), len(y))) if out is None else out
    panels = layout.whole(*angles.shape, symmetric=False)
    threads.parallel_for(
        lambda panel: _angles(panel, x, y, angles), panels, work=angles.size * x.directions.shape[1]
    )
    return angles


def _angles(panel: layout.Panel, x: Points, y: Points, out: Matrix) -> None:
    panel.gram(x.directions, y.directions, out)
    to_angles(
        out,
        panel.first,
        panel.last,
        panel.begin,
        panel.end,
        panel.row_shift,
        panel.col_shift,
        panel.part,
        x.directions,
        y.directions,
        blocks.REFINE[_FLOAT],
        _arcsine(),
    )


@lru_cache(maxsize=1)
def _arcsine() -> Vector:
    """``arcsin(√w)/√w`` on [0, ½], which is smooth, as a series."""

    def function(w: Vector) -> Vector:
        root = np.sqrt(w)
        return np.arcsin(root) / root

    return _padded(Series.fit(function, 0.5, tolerance=2e-16).coefficients)


def _padded(coefficients: Vector) -> Vector:
    # the compiled recurrence takes 4k + 2
    return np.append(coefficients, np.zeros((2 - len(coefficients)) % 4))


def window(x: Points, y: Points) -> Window:
    """An interval that all half angles lie in but a few in 100,000: from rows of x that are spread
    evenly, and all of y.
    """
    rows = np.unique(
        np.linspace(0, len(x) - 1, min(len(x), max(16, _SAMPLE // len(y)))).astype(np.int64)
    )
    angles = half_angles(x.subset(rows), y).reshape(-1)
    angles.sort()
    few = min(8 + len(angles) // 100_000, len(angles) // 4)
    low, high = float(angles[few]), float(angles[-1 - few])
    if high - low < 1e-3:
        low, high = max(0.0, low - 1e-3), min(0.5 * math.pi, high + 1e-3)
    return low, high


@dataclass(frozen=True, eq=False)
class Sphere(Points):
    """Points of one length, with what many networks need of their angles.

    Attributes
    ----------
    directions, square_lengths : arrays
        As of ``Points``; the lengths are equal to the last digit.
    window : pair of floats
        Where nearly all half angles are: see ``window``.
    kept : array, packed (see ``layout``), or None
        The half angles of all pairs. None: they are computed anew for each network.
    """

    window: Window
    kept: Matrix | None = None
    _subsets: dict[bytes, Sphere] = field(default_factory=dict, repr=False)

    def subset(self, chosen: NDArray[np.int64]) -> Sphere:
        key = chosen.tobytes()  # the same few are asked for again and again
        if key not in self._subsets:
            self._subsets[key] = Sphere(
                self.directions[chosen], self.square_lengths[chosen], self.window
            )
        return self._subsets[key]

    @cached_property
    def square(self) -> Matrix:
        """The half angles of all pairs as a whole matrix; for a few points."""
        angles = half_angles(self, self)
        np.fill_diagonal(angles, self.window[0])  # the diagonal is known anyway
        return angles


def on_sphere(
    points: Points, interval: Window, *, square_length: float = 1.0, keep: bool = True
) -> Sphere:
    """Points whose lengths are equal up to rounding, which is taken off; ``keep`` their angles if
    memory allows n²/2 numbers.
    """
    lengths = np.full(len(points), square_length)
    if not np.allclose(points.square_lengths, lengths, rtol=1e-9, atol=0.0):
        raise MnngpError(f"the points must all have the squared length {square_length:g}")
    sphere = Sphere(points.directions, lengths, interval)
    if not keep:
        return sphere
    angles, panels = np.empty(layout.packed_shape(len(points))), layout.packed(len(points))
    threads.parallel_for(
        lambda panel: _angles(panel, sphere, sphere, angles),
        panels,
        work=angles.size * points.directions.shape[1],
    )
    return Sphere(points.directions, lengths, interval, angles)


# --- networks -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Curve:
    """What a network makes of the half angle between two points on a sphere: the distance u_L
    behind it, or the tangent t_L.
    """

    tangent: bool
    diagonal: float  # t_L of a point with itself; one without tangents
    stretch: float  # of the series' variable, 2x = stretch · φ - shift
    shift: float
    series: Vector
    program: Program
    row: Tables
    cols: Tables

    def entries(
        self,
        angles: Matrix,
        out: Matrix,
        *,
        contraction: float = 1.0,
        panel: layout.Panel | None = None,
    ) -> None:
        """The network's ``correlations``, from half angles (``kernels.matrix``)."""
        if self.tangent:
            self._run(angles, out, 0.0, 1.0 / self.diagonal, panel)
        else:
            self._run(angles, out, 1.0, -2.0 / contraction, panel)

    def distances(self, angles: Matrix, out: Matrix) -> None:
        """u_L."""
        self._run(angles, out, 0.0, 1.0, None)

    def _run(
        self, angles: Matrix, out: Matrix, offset: float, factor: float, panel: layout.Panel | None
    ) -> None:
        block = panel or layout.Panel(0, angles.shape[0], 0, angles.shape[1], part=ALL)
        to_entries(
            angles,
            out,
            block.first,
            block.last,
            block.begin,
            block.end,
            block.row_shift,
            block.col_shift,
            block.part,
            self.stretch,
            self.shift,
            self.series,
            self.program,
            self.row,
            self.cols,
            self.tangent,
            offset,
            factor,
        )


@lru_cache(maxsize=32)
def curve(network: Network, square_length: float, interval: Window) -> Curve:
    """The curve of a network on a sphere, a series on the interval."""
    point = inputs(np.array([square_length]))
    steps = list(walk(point, network.layers))
    tangent = network.tangent
    program = pack(steps, _FLOAT, order=int(tangent))
    row = tables(steps, slice(0, 1), _FLOAT)
    cols = Tables(*(np.repeat(part, _GROUP, axis=1) for part in row))

    def value(angle: Vector) -> Vector:
        u, t = np.sin(angle) ** 2, np.empty_like(angle)
        through_layers(program, row, cols, tangent, u, t, np.empty((5, _GROUP)))
        return t if tangent else u

    low, high = interval
    series = _fit(lambda rest: value(low + rest), high - low)
    stretch = 4.0 / (high - low)
    # Without a series everything is outside of the interval, and goes through the layers.
    shift = stretch * low + 2.0 if series is not None else math.inf
    coefficients = np.zeros(2) if series is None else _padded(series.coefficients)
    return Curve(
        tangent,
        float(point.tangent[0]) if tangent else 1.0,
        stretch,
        shift,
        coefficients,
        program,
        row,
        cols,
    )


def _fit(function: Callable[[Vector], Vector], upper: float) -> Series | None:
    for tolerance, most in _FITS:
        try:
            return Series.fit(function, upper, tolerance=tolerance, most=most)
        except MnngpError:
            continue
    return None


def packed_correlations(
    network: Network,
    x: Sphere,
    out: Matrix,
    contraction: float,
    done: Callable[[float], object] | None = None,
) -> None:
    """``kernels.matrix.packed_correlations`` of points on a sphere."""
    line = curve(network, float(x.square_lengths[0]), x.window)
    panels = layout.packed(len(x))
    total = sum(panel.size for panel in panels)

    def task(panel: layout.Panel) -> None:
        if x.kept is None:
            _angles(panel, x, x, out)
        line.entries(out if x.kept is None else x.kept, out, contraction=contraction, panel=panel)
        if done is not None:
            done(panel.size / total)

    threads.parallel_for(
        task, panels, work=out.size * (8 if x.kept is not None else x.directions.shape[1])
    )
    for _, target in layout.packed_diagonal(out, len(x)):
        target[:] = 1.0


def square_distances(network: Network, x: Sphere) -> Matrix:
    """``kernels.matrix.distances`` of points on a sphere."""
    u = np.empty((len(x), len(x)))
    curve(network, float(x.square_lengths[0]), x.window).distances(x.square, u)
    np.fill_diagonal(u, 0.0)
    return u
