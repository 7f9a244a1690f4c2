"""Kernel matrices: the Gram matrix by BLAS, the layers by the compiled passes, panel by panel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mnngp._system import threads
from mnngp._typing import Matrix, Vector
from mnngp.errors import ScaleError
from mnngp.kernels import layout
from mnngp.kernels.curve import collapsed
from mnngp.kernels.forward import REFINE, Task, transform
from mnngp.kernels.points import ByKind, Points
from mnngp.kernels.pointwise import Diagonal, Step, behind, inputs, walk
from mnngp.kernels.program import pack, side
from mnngp.kernels.strips import Program
from mnngp.networks.layers import Block
from mnngp.networks.network import Network

_TABLE_BYTES = 1 << 25  # tables of the points for one pass over the matrix


@ByKind
def diagonal(network: Network, x: Points) -> Vector:
    """The kernel of each point with itself."""
    _, points = behind(x.square_lengths, network.blocks)
    return variances(network, points)


def variances(network: Network, points: Diagonal) -> Vector:
    """The kernel of points with themselves, from where they are behind the network."""
    return diagonal_values(network, points, scale_shift(network, points, normalized=False))


def matrix(
    network: Network, x: Points, y: Points | None, *, normalized: bool = False
) -> tuple[Matrix, float]:
    """The kernel matrix, with ``normalized`` divided by its scale; and the scale's logarithm."""
    ((_, result, log_scale),) = matrices(network, x, y, [network.depth], normalized=normalized)
    return result, log_scale


@ByKind
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
    run = _Evaluation(
        network, x, y, lambda points: kernel_values(network, points, normalized=normalized)
    )
    for depth, out in run.results(depths):
        assert run.values is not None  # of the last result
        yield depth, out, run.values.log_scale


@ByKind
def correlations(
    network: Network, x: Points, y: Points | None = None, *, contraction: float = 1.0
) -> Matrix:
    """The correlations ρ of the outputs less their common part: ``1 - (1 - ρ) / contraction``.

    With the contraction one they are the kernel divided by both standard deviations. A smaller one
    blows up the differences between points that the network has moved close together, to full
    relative accuracy: with ``K_ij = s_i s_j ρ_ij`` (see ``standard_deviations``) and κ the
    contraction, ``ρ = (1 - κ) + κ · correlations``. A point of variance zero has a zero row.
    """
    run = _Evaluation(
        network, x, y, lambda points: correlation_values(network, points, contraction)
    )
    ((_, out),) = run.results([network.depth])
    return out


@ByKind
def correlations_times(
    network: Network, x: Points, y: Points, weights: Matrix, *, contraction: float = 1.0
) -> Matrix:
    """``correlations(network, x, y) @ weights``; a kind of points may do without the whole."""
    rows = correlations(network, x, y, contraction=contraction)
    return np.asarray(rows @ weights.astype(rows.dtype, copy=False))


@ByKind
def packed_correlations(
    network: Network,
    x: Points,
    out: Matrix,
    *,
    contraction: float = 1.0,
    done: Callable[[float], object] | None = None,
) -> None:
    """The symmetric ``correlations``, in packed format (see ``layout``).

    ``done`` hears of each finished share of the work.
    """
    run = _Evaluation(
        network,
        x,
        None,
        lambda points: correlation_values(network, points, contraction),
        packed=out,
        done=done,
    )
    for _ in run.results([network.depth]):
        pass


@ByKind
def distances(network: Network, x: Points) -> Matrix:
    """``u = (1 - ρ)/2`` behind the network, of each pair, with full relative accuracy."""
    run = _Evaluation(network, x, None, None)
    for _ in run.by_layers([network.depth]):
        pass
    assert run.state is not None
    left = np.tril(run.state, -1)  # the rest of the memory was never written
    return left + left.T


def standard_deviations(network: Network, x: Points) -> Vector:
    """``√K_ii`` of each point."""
    return np.asarray(np.sqrt(diagonal(network, x).astype(np.float64)))


@dataclass(frozen=True)
class Values:
    """How distances or tangents become entries: ``scale_i scale_j (1 - stretch u_ij)``, or … t."""

    scale: Vector
    stretch: float
    diagonal: Vector
    scaled: bool  # with the standard deviations, or without them
    log_scale: float = 0.0


class _Evaluation:
    """The working memory, and the passes over it."""

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
        lengths = [x.square_lengths] + ([] if y is None else [y.square_lengths])
        self.lengths = np.concatenate(lengths)
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
            parts = _split(self.network.blocks[done : depth + 1], len(self.lengths))
            done = depth + 1
            for part in parts:
                steps = list(walk(points, part))
                program = pack(steps, self.network.dtype, tangent=self.network.tangent)
                emit = part is parts[-1] and self.wanted is not None
                last = emit and depth == depths[-1]
                result = self.run(program, steps, points if emit else None, keep=not last)
            yield depth, result

    def by_shortcut(
        self, depths: Sequence[int], programs: Sequence[Program]
    ) -> Iterator[tuple[int, Matrix]]:
        points, done = inputs(self.lengths), 0
        for depth, program in zip(depths, programs, strict=True):
            steps = list(walk(points, self.network.blocks[done : depth + 1]))
            done = depth + 1
            # Each depth is one step from the cosines, which are kept.
            yield (
                depth,
                self.run(program, steps[:1], points, keep=depth != depths[-1], cosines=True),
            )

    def run(
        self,
        program: Program,
        steps: Sequence[Step],
        points: Diagonal | None,
        *,
        keep: bool,
        cosines: bool = False,
    ) -> Matrix:
        """One pass over the matrix; with ``points`` (behind these steps) it writes what is wanted.

        ``keep``: the working memory is needed again; with ``cosines`` as it is.
        """
        network, emit = self.network, points is not None
        scale, stretch = np.zeros(len(self.lengths)), 2.0
        if points is not None and self.wanted is not None:
            # before any heavy work: a kernel that does not fit its type is an error
            self.values = self.wanted(points)
            scale, stretch = self.values.scale, self.values.stretch
        rows = side(steps, self.rows, scale, self.row_part)
        cols = rows if self.symmetric else side(steps, self.cols, scale, self.col_part)
        fresh, self.fresh = self.fresh, False
        if self.state is None:
            self.state = np.empty(self.shape, dtype=network.dtype)
        state = self.state
        save = keep and not cosines
        if network.tangent and save and not self.tangents.size:
            self.tangents = np.empty_like(state)
        out = np.empty_like(state) if emit and keep else state
        task = Task(
            raw=fresh or cosines,
            save=save,
            emit=emit,
            mirror=self.symmetric and not self.packed,
            stretch=network.dtype.type(stretch),
            refine=network.dtype.type(REFINE[network.dtype]),
        )
        total = sum(panel.size for panel in self.panels)
        share = len(steps) / len(network.blocks) if not cosines else 1.0

        def one_panel(panel: layout.Panel) -> None:
            if fresh:
                panel.gram(self.rows, self.cols, state)
            transform(state, self.tangents, out, panel, program, rows, cols, task)
            if self.done is not None:
                self.done(share * panel.size / total)

        work = state.size * (len(program.kind) + self.rows.shape[1] * fresh)
        threads.parallel_for(one_panel, self.panels, work=work)
        if self.values is not None and emit and self.symmetric:
            if self.packed:
                for part, target in layout.packed_diagonal(out, len(self.rows)):
                    target[:] = self.values.diagonal[part]
            else:
                np.fill_diagonal(out, self.values.diagonal)
        return out


def _split(blocks: Sequence[Block], points: int) -> list[Sequence[Block]]:
    """Cut the blocks into runs whose tables fit the memory set aside for them."""
    parts: list[list[Block]] = [[]]
    used = 0
    for block in blocks:
        needed = 8 * points * (3 if block.homogeneous else 512)
        if parts[-1] and used + needed > _TABLE_BYTES:
            parts.append([])
            used = 0
        parts[-1].append(block)
        used += needed
    return list(parts)


def _collapsed(network: Network, lengths: Vector, depths: Sequence[int]) -> list[Program] | None:
    """One program a depth if all points see the same function of the distance.

    That is so for equal lengths, and if there is no bias anywhere.
    """
    equal = np.ptp(lengths) <= 16.0 * np.finfo(network.dtype).eps * lengths.max()
    scale_free = all(block.bias_var == 0.0 and block.homogeneous for block in network.blocks)
    if not (equal or scale_free) or not lengths.any():
        return None
    steps, _ = behind(lengths[lengths > 0.0][:1], network.blocks[: depths[-1] + 1])
    programs: list[Program] = []
    for depth in depths:
        program = collapsed(steps[: depth + 1], network.dtype, tangent=network.tangent)
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
