"""Kernel matrices: the Gram matrix by BLAS, the layers by the compiled recursion, panel by panel and in place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp.activations.series import Vector
from mnngp.errors import ScaleError
from mnngp.kernels import recursion, threads
from mnngp.kernels.layers import Diagonal, inputs, walk
from mnngp.kernels.points import Points
from mnngp.kernels.program import collapse, pack, tables
from mnngp.kernels.strips import Program, Tables
from mnngp.kernels.structure import Layer, Network

Matrix = NDArray[Any]
_TASK = 192  # rows a thread takes at a time: enough for a matrix product at full speed, few enough to balance
_TABLE_BYTES = 1 << 25  # tables of the points for one pass over the matrix


def diagonal(network: Network, x: Points) -> Vector:
    """The kernel of each point with itself."""
    points = inputs(x.square_lengths)
    for _ in walk(points, network.layers):
        pass
    return diagonal_values(network, points, scale_shift(network, points, normalized=False))


def matrix(network: Network, x: Points, y: Points | None, *, normalized: bool = False) -> tuple[Matrix, float]:
    """The kernel matrix; with ``normalized`` divided by its scale, whose logarithm is returned with it."""
    ((_, result, log_scale),) = matrices(network, x, y, [network.depth], normalized=normalized)
    return result, log_scale


def matrices(
    network: Network, x: Points, y: Points | None, depths: Sequence[int], *, normalized: bool = False
) -> Iterator[tuple[int, Matrix, float]]:
    """The kernel matrices of several depths (ascending), in one pass over the layers.

    The last one takes over the working memory; each of the others is an array of its own.
    """
    job = _Job(network, x, y, normalized)
    shortcut = _collapsed(network, job.lengths, depths)
    return job.by_shortcut(depths, shortcut) if shortcut else job.by_layers(depths)


class _Job:
    """One evaluation: the working memory, and the passes over it."""

    def __init__(self, network: Network, x: Points, y: Points | None, normalized: bool) -> None:
        self.network, self.normalized = network, normalized
        self.symmetric = y is None
        self.rows, self.cols = x.directions, (x if y is None else y).directions
        self.lengths = x.square_lengths if y is None else np.concatenate([x.square_lengths, y.square_lengths])
        self.row_part = slice(0, len(x))
        self.col_part = slice(0 if y is None else len(x), None)
        self.state: Matrix | None = None  # cosines, then distances
        self.tangents = np.empty((0, 0), dtype=network.dtype)

    def by_layers(self, depths: Sequence[int]) -> Iterator[tuple[int, Matrix, float]]:
        points, done = inputs(self.lengths), 0
        for depth in depths:
            parts = _split(self.network.layers[done : depth + 1], len(self.lengths))
            done = depth + 1
            for part in parts:
                steps = list(walk(points, part))
                program = pack(steps, self.network.dtype, order=int(self.network.tangent))
                rows = tables(steps, self.row_part, self.network.dtype)
                cols = rows if self.symmetric else tables(steps, self.col_part, self.network.dtype)
                emit = part is parts[-1]
                finished = emit and depth == depths[-1]
                result = self.run(program, rows, cols, points if emit else None, raw=self.state is None, save=not finished)
            yield depth, *result

    def by_shortcut(self, depths: Sequence[int], programs: Sequence[Program]) -> Iterator[tuple[int, Matrix, float]]:
        points, done = inputs(self.lengths), 0
        nothing = np.zeros((1, len(self.lengths)), dtype=self.network.dtype)
        unused = Tables(nothing, nothing, nothing, nothing[:0])
        for depth, program in zip(depths, programs, strict=True):
            for _ in walk(points, self.network.layers[done : depth + 1]):
                pass
            done = depth + 1
            yield depth, *self.run(program, unused, unused, points, raw=True, save=depth != depths[-1], keep_cosines=True)

    def run(
        self,
        program: Program,
        rows: Tables,
        cols: Tables,
        points: Diagonal | None,
        *,
        raw: bool,
        save: bool,
        keep_cosines: bool = False,
    ) -> tuple[Matrix, float]:
        """One pass over the matrix, panel by panel; with ``points`` (behind these steps) it writes the kernel.

        ``save``: the working memory is needed again.
        """
        network, emit = self.network, points is not None
        shift = 0
        scale = np.zeros(len(self.lengths), dtype=network.dtype)
        if points is not None:  # before any heavy work: a kernel that does not fit its type is an error
            shift = scale_shift(network, points, self.normalized)
            scale = (np.sqrt(points.variance) * 2.0 ** (points.exponent - shift)).astype(network.dtype)
        fresh = self.state is None
        if self.state is None:
            self.state = np.empty((len(self.rows), len(self.cols)), dtype=network.dtype)
        state = self.state
        if network.tangent and save and not keep_cosines and not self.tangents.size:
            self.tangents = np.empty_like(state)
        out = np.empty_like(state) if emit and save else state
        refine = network.dtype.type(recursion.REFINE[network.dtype])

        def task(first: int) -> None:
            last = min(first + _TASK, len(state))
            width = last if self.symmetric else state.shape[1]
            if fresh:
                np.matmul(self.rows[first:last], self.cols[:width].T, out=state[first:last, :width])
            recursion.transform(
                state, self.tangents, out, first, last, self.symmetric, raw, save and not keep_cosines, emit, network.tangent,
                program, rows, cols, scale[self.row_part], scale[self.col_part], self.rows, self.cols, refine,
            )  # fmt: skip

        starts = range(0, len(state), _TASK)
        work = state.size * (len(program.kind) + self.rows.shape[1] * fresh)
        threads.spread(task, starts[::-1], work=work)  # the last rows of a triangle are the longest: begin with them
        if points is not None and self.symmetric:
            np.fill_diagonal(out, diagonal_values(network, points, shift))
        return out, shift * math.log(4.0) if self.normalized else 0.0


def _split(layers: tuple[Layer, ...], points: int) -> list[tuple[Layer, ...]]:
    """Cut the layers into runs whose tables fit the memory set aside for them."""
    parts: list[list[Layer]] = [[]]
    used = 0
    for layer in layers:
        smooth = layer.activation is not None and not layer.activation.homogeneous
        needed = 8 * points * (512 if smooth else 3)
        if parts[-1] and used + needed > _TABLE_BYTES:
            parts.append([])
            used = 0
        parts[-1].append(layer)
        used += needed
    return [tuple(part) for part in parts]


def _collapsed(network: Network, lengths: Vector, depths: Sequence[int]) -> list[Program] | None:
    """One program a depth if all points see the same function of the distance: equal lengths, or no bias anywhere."""
    equal = np.ptp(lengths) <= 16.0 * np.finfo(network.dtype).eps * lengths.max()
    scale_free = all(
        layer.bias_var == 0.0 and (layer.activation is None or layer.activation.homogeneous) for layer in network.layers
    )
    if not (equal or scale_free) or not lengths.any():
        return None
    steps = list(walk(inputs(lengths[lengths > 0.0][:1]), network.layers[: depths[-1] + 1]))
    programs: list[Program] = []
    for depth in depths:
        program = collapse(steps[: depth + 1], network.dtype, tangent=network.tangent)
        if program is None:
            return None
        programs.append(program)
    return programs


def scale_shift(network: Network, points: Diagonal, normalized: bool) -> int:
    """The power of four that a normalised kernel is divided by; zero, or an error, for a plain one."""
    largest = float(points.variance.max()) * (float(points.tangent.max()) if network.tangent else 1.0)
    if largest == 0.0:
        return 0
    power = points.exponent + math.frexp(largest)[1] // 2
    if normalized:
        return power
    limits = np.finfo(network.dtype)
    if not limits.minexp < 2 * power - 2 <= 2 * power + 1 < limits.maxexp:
        raise ScaleError(
            f"the kernel is about 1e{2.0 * power * math.log10(2.0):.0f} at depth {network.depth}, which {network.dtype} cannot "
            f"hold: choose weight_var nearer the activation's critical_weight_var or a smaller depth, "
            + ("use dtype='float64', " if network.dtype == np.float32 else "")
            + "or call kernel.normalized(X), which returns the kernel without its scale and the scale's logarithm"
        )
    return 0


def diagonal_values(network: Network, points: Diagonal, shift: int) -> Vector:
    """The kernel's diagonal, divided by ``4**shift``."""
    values = points.variance * points.tangent if network.tangent else points.variance
    return np.ldexp(values, 2 * (points.exponent - shift)).astype(network.dtype)
