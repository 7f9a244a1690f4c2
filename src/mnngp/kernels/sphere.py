"""Points on a sphere: a kind of points whose kernel is a function of the angle alone.

The angles serve every network, so a sweep over hyperparameters computes them once, and then one
short series for each network and pair (``curve``). In the half angle φ, ``u = sin² φ``, that
function has no singularity at either end.
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
from mnngp.kernels import evaluate, layout
from mnngp.kernels.curve import Curve, Window, curve
from mnngp.kernels.forward import REFINE, STRIP, distances, wanted
from mnngp.kernels.layout import Panel
from mnngp.kernels.points import Points
from mnngp.kernels.program import padded
from mnngp.kernels.strips import chebyshev
from mnngp.networks.network import Network

_SAMPLE = 1 << 20  # pairs that a window is chosen from
# pairs whose correlations stay in a core's cache until they are multiplied, by a routine of BLAS
# that does not pack so few first; rows for which its call is worth it
_CACHED = 1 << 16
_FEWEST = 16


@compiled
def to_angles(
    state: Array, panel: Panel, rows: Array, cols: Array, refine: float, arcsine: Array
) -> None:
    """Cosines to half angles: ``φ = arcsin √u``, or ``π/2 - arcsin √(1-u)`` beyond 90°."""
    buffer = np.empty((5, STRIP))
    for left in range(panel.begin, panel.end, STRIP):
        right = min(left + STRIP, panel.end)
        for i in range(panel.first, panel.last):
            row = i + panel.row_shift
            start, stop = wanted(left, right, row - panel.col_shift, panel.part)
            width = stop - start
            if width <= 0:
                continue
            u, near, x, value = (
                buffer[0, :width],
                buffer[1, :width],
                buffer[2, :width],
                buffer[3, :width],
            )
            distances(state[i, start:stop], rows, row, cols, start + panel.col_shift, refine, u)
            for j in range(width):
                near[j] = u[j] if u[j] <= 0.5 else 1.0 - u[j]
                x[j] = 8.0 * near[j] - 2.0
            chebyshev(x, arcsine, value, buffer[4, :width])
            for j in range(width):
                angle = math.sqrt(near[j]) * value[j]
                state[i, start + j] = angle if u[j] <= 0.5 else 0.5 * math.pi - angle


@lru_cache(maxsize=1)
def _arcsine() -> Vector:
    """``arcsin(√w)/√w`` on [0, ½], which is smooth, as a series."""

    def function(w: Vector) -> Vector:
        root = np.sqrt(w)
        return np.arcsin(root) / root

    return padded(Series.fit(function, 0.5, tolerance=2e-16).coefficients)


def _angles(panel: Panel, x: Points, y: Points, out: Matrix) -> None:
    panel.gram(x.directions, y.directions, out)
    to_angles(out, panel, x.directions, y.directions, REFINE[np.dtype(np.float64)], _arcsine())


def half_angles(x: Points, y: Points) -> Matrix:
    """The half angles between all points of x and all of y."""
    angles = np.empty((len(x), len(y)))
    panels = layout.whole(*angles.shape, symmetric=False)
    work = angles.size * x.directions.shape[1]
    threads.parallel_for(lambda panel: _angles(panel, x, y, angles), panels, work=work)
    return angles


def window(x: Points, y: Points) -> Window:
    """An interval that all half angles lie in but a few in 100,000.

    From rows of x that are spread evenly, and all of y.
    """
    count = min(len(x), max(16, _SAMPLE // len(y)))
    rows = np.unique(np.linspace(0, len(x) - 1, count).astype(np.int64))
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

    def beside(self, points: Points, *, keep: bool) -> Beside:
        """Other points of the same length, as rows beside these; ``keep`` the angles between."""
        lengths = _equal_lengths(points, float(self.square_lengths[0]))
        angles = half_angles(points, self) if keep else None
        return Beside(points.directions, lengths, self, angles)

    def curve(self, network: Network) -> Curve:
        """What a network makes of the angles of these points."""
        return curve(network, float(self.square_lengths[0]), self.window)

    @cached_property
    def square(self) -> Matrix:
        """The half angles of all pairs as a whole matrix; for a few points."""
        angles = half_angles(self, self)
        np.fill_diagonal(angles, self.window[0])  # the diagonal is known anyway
        return angles


@dataclass(frozen=True, eq=False)
class Beside(Points):
    """Points of the same length as others on a sphere, with the angles between them if kept."""

    others: Sphere
    angles: Matrix | None

    def __getitem__(self, rows: slice) -> Beside:
        angles = None if self.angles is None else self.angles[rows]
        return Beside(self.directions[rows], self.square_lengths[rows], self.others, angles)

    @property
    def work(self) -> int:
        """Loop steps for a pair."""
        return 8 if self.angles is not None else self.directions.shape[1]

    def half_angles(self) -> Matrix:
        """Those with the others, kept or not; of one panel, if they are not to be in threads."""
        return half_angles(self, self.others) if self.angles is None else self.angles


def _equal_lengths(points: Points, square_length: float) -> Vector:
    lengths = np.full(len(points), square_length)
    if not np.allclose(points.square_lengths, lengths, rtol=1e-9, atol=0.0):
        raise MnngpError(f"the points must all have the squared length {square_length:g}")
    return lengths


def on_sphere(
    points: Points, interval: Window, *, square_length: float = 1.0, keep: bool = True
) -> Sphere:
    """Points whose lengths are equal up to rounding, which is taken off.

    ``keep`` their angles if memory allows n²/2 numbers.
    """
    sphere = Sphere(points.directions, _equal_lengths(points, square_length), interval)
    if not keep:
        return sphere
    angles, panels = np.empty(layout.packed_shape(len(points))), layout.packed(len(points))
    work = angles.size * points.directions.shape[1]
    threads.parallel_for(lambda panel: _angles(panel, sphere, sphere, angles), panels, work=work)
    return Sphere(sphere.directions, sphere.square_lengths, interval, angles)


# --- the fast paths of ``evaluate`` ---------------------------------------------------------------


@evaluate.diagonal.register(Beside)
@evaluate.diagonal.register(Sphere)
def _diagonal(network: Network, x: Sphere | Beside) -> Vector:
    points = x.others if isinstance(x, Beside) else x
    return np.repeat(evaluate.variances(network, points.curve(network).point), len(x))


@evaluate.packed_correlations.register(Sphere)
def _packed_correlations(
    network: Network,
    x: Sphere,
    out: Matrix,
    *,
    contraction: float = 1.0,
    done: Callable[[float], object] | None = None,
) -> None:
    if network.dtype != np.float64:
        evaluate.packed_correlations.generic(network, x, out, contraction=contraction, done=done)
        return
    line, panels = x.curve(network), layout.packed(len(x))
    total = sum(panel.size for panel in panels)

    def task(panel: Panel) -> None:
        if x.kept is None:
            _angles(panel, x, x, out)
        angles = out if x.kept is None else x.kept
        line.correlations(angles, out, contraction=contraction, panel=panel)
        if done is not None:
            done(panel.size / total)

    work = out.size * (8 if x.kept is not None else x.directions.shape[1])
    threads.parallel_for(task, panels, work=work)
    for _, target in layout.packed_diagonal(out, len(x)):
        target[:] = 1.0


@evaluate.distances.register(Sphere)
def _distances(network: Network, x: Sphere) -> Matrix:
    if network.dtype != np.float64:
        return evaluate.distances.generic(network, x)
    u = np.empty((len(x), len(x)))
    x.curve(network).distances(x.square, u)
    np.fill_diagonal(u, 0.0)
    return u


@evaluate.correlations.register(Beside)
def _correlations(
    network: Network, x: Beside, y: Points | None = None, *, contraction: float = 1.0
) -> Matrix:
    if y is not x.others or network.dtype != np.float64:
        return evaluate.correlations.generic(network, x, y, contraction=contraction)
    line, angles = x.others.curve(network), x.half_angles()
    out = np.empty_like(angles) if angles is x.angles else angles
    panels = layout.whole(*out.shape, symmetric=False)

    def task(panel: Panel) -> None:
        line.correlations(angles, out, contraction=contraction, panel=panel)

    threads.parallel_for(task, panels, work=out.size * x.work)
    return out


@evaluate.correlations_times.register(Beside)
def _correlations_times(
    network: Network, x: Beside, y: Points, weights: Matrix, *, contraction: float = 1.0
) -> Matrix:
    if y is not x.others or network.dtype != np.float64:
        return evaluate.correlations_times.generic(network, x, y, weights, contraction=contraction)
    line, result = x.others.curve(network), np.empty((len(x), weights.shape[1]))
    height = max(_FEWEST, _CACHED // len(y))
    # whole panels, so that angles are the same whether they are kept or not
    size = layout.TASK * max(1, height // layout.TASK)

    def task(start: int) -> None:
        angles = x[start : start + size].half_angles()
        out = np.empty((min(height, len(angles)), len(y)))
        for first in range(0, len(angles), height):
            some = angles[first : first + height]
            line.correlations(some, out[: len(some)], contraction=contraction)
            np.matmul(out[: len(some)], weights, out=result[start + first :][: len(some)])

    threads.parallel_for(task, range(0, len(x), size), work=len(x) * len(y) * x.work)
    return result
