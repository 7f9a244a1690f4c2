"""Kernel matrices: the Gram matrix by BLAS, the layers by the compiled recursion, panel by panel
and in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mnngp._system import threads
from mnngp._typing import Matrix, Vector
from mnngp.errors import ScaleError
from mnngp.kernels import blocks, layout, sphere
from mnngp.kernels.forward import Program, Tables
from mnngp.kernels.points import Points
from mnngp.kernels.pointwise import Diagonal, inputs, walk
from mnngp.kernels.program import collapse, pack, tables
from mnngp.kernels.sphere import Sphere
from mnngp.networks.network import Layer, Network

_TABLE_BYTES = 1 << 25  # tables of the points for one pass over the matrix


def diagonal(network: Network, x: Points) -> Vector:
    """The kernel of each point with itself."""
    if isinstance(x, Sphere) and len(x) > 1:
        return np.repeat(diagonal(network, Points(x.directions[:1], x.square_lengths[:1])), len(x))
    points = inputs(x.square_lengths)
    for _ in walk(points, network.layers):
        pass
    return diagonal_values(network, points, scale_shift(network, points, normalized=False))


def matrix(
    network: Network, x: Points, y: Points | None, *, normalized: bool = False
) -> tuple[Matrix, float]:
    """The kernel matrix; with ``normalized`` divided by its scale, whose logarithm is returned with
    it.
    """
    ((_, result, log_scale),) = matrices(network, x, y, [network.depth], normalized=normalized)
    return result, log_scale


def matrices(
    network: Network,
    x: Points,
    y: Points | None,
    depths: Sequence[int],
    *,
    normalized: bool = False,
) -> Iterator[tuple[int, Matrix, float]]:
    """The kernel matrices of several depths (ascending), in one pass over the layers.

    The last one takes over the working memory; each of the others is an array of its own.
    """
    job = _Job(network, x, y, lambda points: kernel_values(network, points, normalized=normalized))
    for depth, out in job.results(depths):
        assert job.values is not None  # of the last result
        yield depth, out, job.values.log_scale


def correlations(
    network: Network, x: Points, y: Points | None = None, *, contraction: float = 1.0
) -> Matrix:
    """The correlations ``ρ_ij`` of the network's outputs, less their common part: ``1 - (1 - ρ_ij)
    / contraction``.

    With the contraction one they are the kernel divided by both standard deviations. A smaller one
    blows up the differences between points that the network has moved close together, to full
    relative accuracy: with ``K_ij = s_i s_j ρ_ij`` (see ``standard_deviations``) and κ the
    contraction, ``ρ = (1 - κ) + κ · correlations``. A point of variance zero has a zero row.
    """
    job = _Job(network, x, y, lambda points: correlation_values(network, points, contraction))
    ((_, out),) = job.results([network.depth])
    return out


def packed_correlations(
    network: Network,
    x: Points,
    out: Matrix,
    *,
    contraction: float = 1.0,
    done: Callable[[float], object] | None = None,
) -> None:
    """The symmetric ``correlations``, in packed format (see ``layout``); ``done`` hears of each
    finished share of the work.
    """
    if isinstance(x, Sphere) and network.dtype == np.float64:
        sphere.packed_correlations(network, x, out, contraction, done)
        return
    job = _Job(
        network,
        x,
        None,
        lambda points: correlation_values(network, points, contraction),
        packed=out,
        done=done,
    )
    for _ in job.results([network.depth]):
        pass


def distances(network: Network, x: Points) -> Matrix:
    """``u = (1 - ρ)/2`` behind the network, of each pair, with full relative accuracy."""
    if isinstance(x, Sphere) and network.dtype == np.float64:
        return sphere.square_distances(network, x)
    job = _Job(network, x, None, None)
    for _ in job.by_layers([network.depth]):
        pass
    assert job.state is not None
    left = np.tril(job.state, -1)  # the rest of the memory was never written
    return left + left.T


def standard_deviations(network: Network, x: Points) -> Vector:
    """``√K_ii`` of each point."""
    return np.sqrt(diagonal(network, x).astype(np.float64))


@dataclass(frozen=True)
class Values:
    """How distances or tangents become the entries that are wanted: ``scale_i scale_j (1 - stretch
    u_ij)``, or with tangents.
    """

    scale: Vector
    stretch: float
    diagonal: Vector
    scaled: bool  # with the standard deviations, or without them
    log_scale: float = 0.0


class _Job:
    """One evaluation: the working memory, and the passes over it."""

    def __init__(
        self,
        network: Network,
        x: Points,
        y: Points | None,
        wanted: Callable[[Diagonal], Values] | None,
        *,
        packed: Matrix | None = None,
        done: Callable[[float], object] | None = None,
    ) -> None:
        self.network, self.wanted, self.done = network, wanted, done
        self.symmetric = y is None
        self.rows, self.cols = x.directions, (x if y is None else y).directions
        self.lengths = (
            x.square_lengths if y is None else np.concatenate([x.square_lengths, y.square_lengths])
        )
        self.row_part = slice(0, len(x))
        self.col_part = slice(0 if y is None else len(x), None)
        self.packed = packed is not None
        self.shape = (len(self.rows), len(self.cols)) if packed is None else packed.shape
        self.panels = (
            layout.packed(len(x))
            if self.packed
            else layout.whole(*self.shape, symmetric=self.symmetric)
        )
        self.state: Matrix | None = packed  # cosines, then distances
        self.fresh = True
        self.tangents = np.empty((0, 0), dtype=network.dtype)
        self.values: Values | None = None

    def results(self, depths: Sequence[int]) -> Iterator[tuple[int, Matrix]]:
        shortcut = _collapsed(self.network, self.lengths, depths)
        return self.by_shortcut(depths, shortcut) if shortcut else self.by_layers(depths)

    def by_layers(self, depths: Sequence[int]) -> Iterator[tuple[int, Matrix]]:
        points, done = inputs(self.lengths), 0
        for depth in depths:
            parts = _split(self.network.layers[done : depth + 1], len(self.lengths))
            done = depth + 1
            for part in parts:
                steps = list(walk(points, part))
                program = pack(steps, self.network.dtype, order=int(self.network.tangent))
                rows = tables(steps, self.row_part, self.network.dtype)
                cols = rows if self.symmetric else tables(steps, self.col_part, self.network.dtype)
                emit = part is parts[-1] and self.wanted is not None
                finished = emit and depth == depths[-1]
                share = 1.0 / len(parts)
                result = self.run(
                    program,
                    rows,
                    cols,
                    points if emit else None,
                    raw=self.fresh,
                    save=not finished,
                    share=share,
                )
            yield depth, result

    def by_shortcut(
        self, depths: Sequence[int], programs: Sequence[Program]
    ) -> Iterator[tuple[int, Matrix]]:
        points, done = inputs(self.lengths), 0
        nothing = np.zeros((1, len(self.lengths)), dtype=self.network.dtype)
        unused = Tables(nothing, nothing, nothing, nothing[:0])
        for depth, program in zip(depths, programs, strict=True):
            for _ in walk(points, self.network.layers[done : depth + 1]):
                pass
            done = depth + 1
            yield (
                depth,
                self.run(
                    program,
                    unused,
                    unused,
                    points,
                    raw=True,
                    save=depth != depths[-1],
                    keep_cosines=True,
                ),
            )

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
        share: float = 1.0,
    ) -> Matrix:
        """One pass over the matrix, panel by panel; with ``points`` (behind these steps) it writes
        what is wanted.

        ``save``: the working memory is needed again.
        """
        network, emit = self.network, points is not None
        scale, stretch = np.zeros(len(self.lengths), dtype=network.dtype), network.dtype.type(2.0)
        if points is not None and self.wanted is not None:
            # before any heavy work: a kernel that does not fit its type is an error
            self.values = self.wanted(points)
            scale, stretch = (
                self.values.scale.astype(network.dtype),
                network.dtype.type(self.values.stretch),
            )
        fresh, self.fresh = self.fresh, False
        if self.state is None:
            self.state = np.empty(self.shape, dtype=network.dtype)
        state = self.state
        if network.tangent and save and not keep_cosines and not self.tangents.size:
            self.tangents = np.empty_like(state)
        out = np.empty_like(state) if emit and save else state
        refine = network.dtype.type(blocks.REFINE[network.dtype])
        mirror = self.symmetric and not self.packed
        total = sum(panel.size for panel in self.panels)

        def task(panel: layout.Panel) -> None:
            if fresh:
                panel.gram(self.rows, self.cols, state)
            blocks.transform(
                state,
                self.tangents,
                out,
                panel.first,
                panel.last,
                panel.begin,
                panel.end,
                panel.row_shift,
                panel.col_shift,
                panel.part,
                mirror,
                raw,
                save and not keep_cosines,
                emit,
                network.tangent,
                program,
                rows,
                cols,
                scale[self.row_part],
                scale[self.col_part],
                stretch,
                self.rows,
                self.cols,
                refine,
            )
            if self.done is not None:
                self.done(share * panel.size / total)

        work = state.size * (len(program.kind) + self.rows.shape[1] * fresh)
        threads.parallel_for(task, self.panels, work=work)
        if self.values is not None and emit and self.symmetric:
            if self.packed:
                for part, target in layout.packed_diagonal(out, len(self.rows)):
                    target[:] = self.values.diagonal[part]
            else:
                np.fill_diagonal(out, self.values.diagonal)
        return out


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
    """One program a depth if all points see the same function of the distance: equal lengths, or no
    bias anywhere.
    """
    equal = np.ptp(lengths) <= 16.0 * np.finfo(network.dtype).eps * lengths.max()
    scale_free = all(
        layer.bias_var == 0.0 and (layer.activation is None or layer.activation.homogeneous)
        for layer in network.layers
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


def kernel_values(network: Network, points: Diagonal, *, normalized: bool) -> Values:
    """The kernel itself, or divided by its scale."""
    shift = scale_shift(network, points, normalized)
    scale = np.sqrt(points.variance) * 2.0 ** (points.exponent - shift)
    return Values(
        scale,
        2.0,
        diagonal_values(network, points, shift),
        True,
        shift * math.log(4.0) if normalized else 0.0,
    )


def correlation_values(network: Network, points: Diagonal, contraction: float) -> Values:
    """The kernel divided by the standard deviations, less a constant."""
    alive = (points.variance > 0.0).astype(np.float64)
    scale = alive / np.sqrt(points.tangent) if network.tangent else alive
    return Values(scale, 2.0 / contraction, alive, False)


def scale_shift(network: Network, points: Diagonal, normalized: bool) -> int:
    """The power of four that a normalised kernel is divided by; zero, or an error, for a plain
    one.
    """
    limits = np.finfo(network.dtype)
    variance, tangent = (
        float(points.variance.max()),
        float(points.tangent.max()) if network.tangent else 1.0,
    )
    if variance == 0.0:
        return 0
    if not tangent < float(limits.max) / 16.0:
        raise ScaleError(
            f"the tangent kernel at depth {network.depth} is so much larger than the covariance "
            f"that {network.dtype} cannot hold "
            "their ratio: choose a smaller weight_var or depth"
        )
    # their product may overflow
    (mantissa, first), (other, second) = math.frexp(variance), math.frexp(tangent)
    power = points.exponent + (first + second + math.frexp(mantissa * other)[1]) // 2
    if normalized:
        return power
    if not limits.minexp < 2 * power - 2 <= 2 * power + 1 < limits.maxexp:
        raise ScaleError(
            f"the kernel is about 1e{2.0 * power * math.log10(2.0):.0f} at depth {network.depth}, "
            f"which {network.dtype} cannot "
            "hold: choose weight_var nearer the activation's critical_weight_var or a smaller "
            "depth, "
            + ("use dtype='float64', " if network.dtype == np.float32 else "")
            + "or scale the features to the size of one (an estimator does with "
            "normalize='standard'). The kernel alone can be had "
            "without its scale: kernel.normalized(X) returns it, and the scale's logarithm"
        )
    return 0


def diagonal_values(network: Network, points: Diagonal, shift: int) -> Vector:
    """The kernel's diagonal, divided by ``4**shift``."""
    values = np.ldexp(points.variance, 2 * (points.exponent - shift))
    return (values * points.tangent if network.tangent else values).astype(network.dtype)
