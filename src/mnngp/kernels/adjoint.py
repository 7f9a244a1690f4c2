"""The compiled adjoint: derivatives in all variances, and in the inputs, in one pass back.

A strip goes through the layers (``forward.advance``, which keeps its way) and back. For each pair
there are then the derivatives of an entry in u, in the tangent t, and in the logarithms λ_i and λ_j
of both points' variances; a layer takes them from behind it to before it, and leaves those in its
own log weight_var and log bias_var. With the tables of ``pointwise`` a layer moves, for any change,

    β̇ = ½ β (ġ_b - λ'),    α̇ = ½ α (ġ_w + λ - λ'),    λ' = β² ġ_b + W ġ_w + G λ,

so with X_i and Y_i what ``ladder.Sums`` says (X_i = α_i ∂u'/∂α_i and Y_i = X_i/2 for a homogeneous
layer) and c_i = β_i ∂u'/∂β_i / 2 the change of u' is

    u̇' = Σ_i [ c_i (ġ_b - λ'_i) + ½ X_i (ġ_w - λ'_i) + Y_i λ_i ] + slope u̇.

The derivative of an arccos never appears, and all are finite for equal, opposite and zero inputs.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mnngp._system.compiled import compiled
from mnngp._typing import Array
from mnngp.kernels.forward import Way, advance, distances, way_of
from mnngp.kernels.ladder import Sums, hermite_sums, ladder_of
from mnngp.kernels.strips import HERMITE, Program, Side

# Columns: more than on the way forward, because a call with so many arrays costs as much as fifty.
STRIP = 512
_MIRRORED = 8  # rows


class Rates(NamedTuple):
    """What the way back needs of the points beside a ``Side``."""

    beta: Array  # (steps, n)
    weight: Array  # (steps, n) W
    growth: Array  # (steps, n) G
    deviation: Array  # (Σ terms of HERMITE steps, n) derivatives of ``Side.deviation`` in log v


class Pull(NamedTuple):
    """Derivatives of an entry, for each pair of a strip."""

    u: Array
    t: Array
    row: Array  # in λ_i
    col: Array  # in λ_j
    weight: Array  # in log weight_var of the step that was passed
    bias: Array


class Layers(NamedTuple):
    """A network for two sets of points."""

    program: Program
    rows: Side
    cols: Side
    row_rates: Rates
    col_rates: Rates
    stretch: Any  # entries are scale_i scale_j (1 - stretch u), or … t
    refine: Any
    scaled: bool  # whether scale_i is √v_i, or does not move


@compiled
def pull_of(buffer: Array, width: int) -> Pull:
    """Views of six strips."""
    return Pull(
        buffer[0, :width],
        buffer[1, :width],
        buffer[2, :width],
        buffer[3, :width],
        buffer[4, :width],
        buffer[5, :width],
    )


@compiled
def sums_of(buffer: Array) -> Sums:
    """Views of eight strips."""
    b = buffer
    return Sums(b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7])


class Ends(NamedTuple):
    """What a step's rates say of the row's point, and of a strip's."""

    beta: Any
    weight: Any
    growth: Any
    p: Any


@compiled
def settle(j: int, gu: Any, x: Any, y: Any, row: Ends, col: Ends, pull: Pull) -> None:
    """Leave what a step owes to its own variances, and what it owes to the points before it.

    ``x`` and ``y`` are X and Y of both points, times the derivatives behind the step.
    """
    half = pull.u.dtype.type(0.5)
    part = half * gu * (row.p - col.p[j])
    mine, theirs = part * row.beta, part * col.beta[j]
    x_row, x_col = half * x[0], half * x[1]
    of_row = pull.row[j] - mine - x_row
    of_col = pull.col[j] + theirs - x_col
    pull.bias[j] = mine - theirs + of_row * row.beta * row.beta + of_col * col.beta[j] * col.beta[j]
    pull.weight[j] = x_row + x_col + of_row * row.weight + of_col * col.weight[j]
    pull.row[j] = y[0] + of_row * row.growth
    pull.col[j] = y[1] + of_col * col.growth[j]


@compiled
def pull_homogeneous(
    layers: Layers, step: int, i: int, j0: int, way: Way, ends: tuple[Ends, Ends], pull: Pull
) -> None:
    """A homogeneous step, from E and P that the way forward has kept."""
    one = pull.u.dtype.type(1.0)
    two = pull.u.dtype.type(2.0)
    half = pull.u.dtype.type(0.5)
    zero = pull.u.dtype.type(0.0)
    least = pull.u.dtype.type(np.finfo(pull.u.dtype).eps) ** 2
    width = pull.u.shape[0]
    u, t, tangent = way.u[step], way.t[step], layers.program.tangent
    value, slope, second = way.value[step], way.slope[step], way.second[step]
    root, ai, ri = layers.program.moment_root[step], layers.rows.a[step, i], layers.rows.r[step, i]
    a, r = layers.cols.a[step, j0 : j0 + width], layers.cols.r[step, j0 : j0 + width]
    row, col = ends
    if not tangent:
        for j in range(width):
            lean, both, gu = root * (ri - r[j]), ai * a[j], pull.u[j]
            x_row = gu * (both * value[j] + ai * lean)
            x_col = gu * (both * value[j] - a[j] * lean)
            settle(j, gu, (x_row, x_col), (half * x_row, half * x_col), row, col, pull)
            pull.u[j] = gu * both * slope[j]
        return
    for j in range(width):  # t' = 1 - 2u' + slope t
        lean, both = root * (ri - r[j]), ai * a[j]
        steep, gu, gt = both * slope[j], pull.u[j] - two * pull.t[j], pull.t[j] * t[j]
        x_row = gu * (both * value[j] + ai * lean) + gt * steep
        x_col = gu * (both * value[j] - a[j] * lean) + gt * steep
        settle(j, gu, (x_row, x_col), (half * x_row, half * x_col), row, col, pull)
        product = u[j] * (one - u[j])
        # dP/du has a pole at equal points; what it is multiplied by goes to zero faster
        bend = both * second[j] / math.sqrt(product) if product > least else zero
        pull.u[j] = gu * steep + gt * bend
        pull.t[j] *= steep


@compiled
def pull_hermite(
    layers: Layers, step: int, i: int, j0: int, way: Way, ends: tuple[Ends, Ends], pull: Pull
) -> None:
    """A smooth step, from its sums over degrees."""
    two = pull.u.dtype.type(2.0)
    zero = pull.u.dtype.type(0.0)
    program, width, t = layers.program, pull.u.shape[0], way.t[step]
    first, last = program.deviation_span[step, 0], program.deviation_span[step, 1]
    mine = layers.rows.deviation[first:last, i], layers.row_rates.deviation[first:last, i]
    theirs = layers.cols.deviation[first:last], layers.col_rates.deviation[first:last]
    sums = sums_of(np.empty((8, width), pull.u.dtype))
    hermite_sums(ladder_of(program, step), mine, theirs, j0, way.u[step, :width], sums, way.work)
    row, col = ends
    for j in range(width):
        gu = pull.u[j] - two * pull.t[j]  # t' = 1 - 2u' + slope t
        gt = pull.t[j] * t[j] if program.tangent else zero  # where t may be anything
        x = (
            gu * sums.x_row[j] + gt * sums.slope[j],
            gu * sums.x_col[j] + gt * sums.slope[j],
        )
        y = gu * sums.y_row[j] + gt * sums.q_row[j], gu * sums.y_col[j] + gt * sums.q_col[j]
        pull.t[j] *= sums.slope[j]
        settle(j, gu, x, y, row, col, pull)
        pull.u[j] = gu * sums.slope[j] + gt * sums.second[j]


@compiled
def pull_step(layers: Layers, step: int, i: int, j0: int, way: Way, pull: Pull) -> None:
    """Take the derivatives from behind a step to before it, in place."""
    mine, theirs, end = layers.row_rates, layers.col_rates, j0 + pull.u.shape[0]
    row = Ends(
        mine.beta[step, i], mine.weight[step, i], mine.growth[step, i], layers.rows.p[step, i]
    )
    col = Ends(
        theirs.beta[step, j0:end],
        theirs.weight[step, j0:end],
        theirs.growth[step, j0:end],
        layers.cols.p[step, j0:end],
    )
    if layers.program.kind[step] == HERMITE:
        pull_hermite(layers, step, i, j0, way, (row, col), pull)
    else:
        pull_homogeneous(layers, step, i, j0, way, (row, col), pull)


@compiled
def begin(layers: Layers, cosine: Array, i: int, j0: int, way: Way, pull: Pull) -> None:
    """Take a strip through the layers, and start its derivatives; the entries go to ``pull.bias``.

    ``pull.weight`` holds what the derivative of each entry counts.
    """
    one = pull.u.dtype.type(1.0)
    half = pull.u.dtype.type(0.5)
    zero = pull.u.dtype.type(0.0)
    program, width = layers.program, pull.u.shape[0]
    way.t[0, :width] = zero
    distances(
        cosine, layers.rows.points, i, layers.cols.points, j0, layers.refine, way.u[0, :width]
    )
    order = 2 if program.tangent else 1
    advance(program, layers.rows, layers.cols, i, j0, width, way, order)
    u, t = way.u[program.kind.shape[0]], way.t[program.kind.shape[0]]
    mine, theirs = layers.rows.scale[i], layers.cols.scale[j0 : j0 + width]
    for j in range(width):
        scale = mine * theirs[j]
        if program.tangent:
            pull.bias[j] = scale * t[j]
            pull.t[j] = scale * pull.weight[j]
            pull.u[j] = zero
        else:
            pull.bias[j] = scale * (one - layers.stretch * u[j])
            pull.u[j] = -layers.stretch * scale * pull.weight[j]
            pull.t[j] = zero
        own = half * pull.bias[j] * pull.weight[j] if layers.scaled else zero
        pull.row[j] = own
        pull.col[j] = own


@compiled
def total_of(values: Array) -> Any:
    """The sum, in four chains: one alone would wait for each addition to end."""
    zero = values.dtype.type(0.0)
    a, b, c, d = zero, zero, zero, zero
    whole = values.shape[0] - values.shape[0] % 4
    for j in range(0, whole, 4):
        a += values[j]
        b += values[j + 1]
        c += values[j + 2]
        d += values[j + 3]
    for j in range(whole, values.shape[0]):
        a += values[j]
    return (a + b) + (c + d)


@compiled
def gradient_strip(
    layers: Layers, cosine: Array, i: int, j0: int, way: Way, total: Array, theta_index: Array
) -> bool:
    """The derivatives of a strip of row i, added up in ``total``; the entries go to its last row.

    Returns whether all are finite.
    """
    pulls, found = total[:6], total[6:]
    width, last = cosine.shape[0], found.shape[0] - 1
    pull = pull_of(pulls, width)
    pull.weight[:] = 1.0
    begin(layers, cosine, i, j0, way, pull)
    found[:last, :width] = 0.0
    found[last, :width] = pull.bias
    for step in range(layers.program.kind.shape[0] - 1, -1, -1):
        pull_step(layers, step, i, j0, way, pull)
        if theta_index[0, step] >= 0:
            row = found[theta_index[0, step]]
            for j in range(width):
                row[j] += pull.weight[j]
        if theta_index[1, step] >= 0:
            row = found[theta_index[1, step]]
            for j in range(width):
                row[j] += pull.bias[j]
    finite = True
    for k in range(last):
        finite = finite and math.isfinite(total_of(found[k, :width]))
    return finite


@compiled
def mirror(matrix: Array, j0: int, top: int, bottom: int) -> None:
    """Copy some rows of a strip to the other side of the diagonal."""
    for j in range(j0, min(j0 + STRIP, bottom)):
        for i in range(max(top, j + 1), bottom):
            matrix[j, i] = matrix[i, j]


@compiled
def touch(memory: Array) -> None:
    """Have the system hand over new memory, page by page.

    Columns would otherwise ask for pages here and there, which takes twice as long.
    """
    for index in range(0, memory.shape[0], 512):
        memory[index] = memory.dtype.type(0.0)


@compiled
def gradient_rows(
    layers: Layers,
    cosines: Array,
    kernel: Array,
    planes: Array,
    theta_index: Array,
    first: int,
    last: int,
    finite: Array,
) -> None:
    """Some rows of a symmetric matrix, left of the diagonal and mirrored, with their derivatives.

    ``theta_index`` (2, steps) says to which of the ``planes`` (count, n, n) the derivatives in the
    log weight_var and the log bias_var of each step are added; -1: to none. ``finite`` (n,) hears
    of rows with derivatives that are not.
    """
    steps, count = layers.program.kind.shape[0], planes.shape[0]
    way = way_of(np.empty((5 * (steps + 1) + 3, STRIP), planes.dtype), steps + 1)
    total = np.empty((7 + count, STRIP), planes.dtype)
    for j0 in range(0, last, STRIP):
        # Few rows at a time are mirrored while they are in cache, a whole cache line of each.
        for top in range(first, last, _MIRRORED):
            bottom = min(top + _MIRRORED, last)
            for i in range(top, bottom):
                end = min(j0 + STRIP, i)
                if end <= j0:
                    continue
                row = cosines[i, j0:end]
                finite[i] &= gradient_strip(layers, row, i, j0, way, total, theta_index)
                for k in range(count):
                    planes[k, i, j0:end] = total[6 + k, : end - j0]
                kernel[i, j0:end] = total[6 + count, : end - j0]
            mirror(kernel, j0, top, bottom)
            for k in range(count):
                mirror(planes[k], j0, top, bottom)


class Found(NamedTuple):
    """Where the derivatives of a number go, that is a function of a kernel matrix."""

    variances: Array  # (2, steps) in log weight_var and log bias_var
    gram: Array  # (n, m) in the covariance behind the first affine map, over √v_i √v_j; or nothing
    rows: Array  # (n,) in the logarithm of the variances there, the covariances held fixed
    cols: Array  # (m,)


@compiled
def pull_gram(u: Array, pull: Pull) -> None:
    """From derivatives in u = (1 - C_ij/√(v_i v_j))/2, and in λ at fixed u, to those in C and λ.

    They go to ``pull.weight``, and with those of the columns' points to ``pull.bias``.
    """
    one = u.dtype.type(1.0)
    two = u.dtype.type(2.0)
    half = u.dtype.type(0.5)
    for j in range(u.shape[0]):
        gu = half * (pull.u[j] - two * pull.t[j])
        pull.weight[j] = -gu
        pull.bias[j] = pull.col[j] + half * (one - two * u[j]) * gu


@compiled
def pull_rows(
    layers: Layers, cosines: Array, pulled: Array, symmetric: bool, first: int, last: int, to: Found
) -> None:
    """From derivatives in some rows of a kernel matrix, ``pulled``, to those in all it is made of.

    A symmetric matrix is its lower triangle, whose entries stand for their mirror images too.
    """
    steps = layers.program.kind.shape[0]
    dtype = pulled.dtype
    inputs = to.gram.shape[0] > 0
    way = way_of(np.empty((5 * (steps + 1) + 3, STRIP), dtype), steps + 1)
    pulls = np.empty((6, STRIP), dtype)
    for j0 in range(0, pulled.shape[1], STRIP):
        for i in range(first, last):
            end = min(j0 + STRIP, i + 1 if symmetric else pulled.shape[1])
            width = end - j0
            if width <= 0:
                continue
            pull = pull_of(pulls, width)
            for j in range(width):
                pull.weight[j] = pulled[i, j0 + j]
            if symmetric:
                for j in range(width):
                    pull.weight[j] += pulled[j0 + j, i] if j0 + j < i else dtype.type(0.0)
            begin(layers, cosines[i, j0:end], i, j0, way, pull)
            for step in range(steps - 1, -1, -1):
                if step == 0 and inputs:
                    pull_gram(way.u[1, :width], pull)
                    for j in range(width):
                        to.cols[j0 + j] += pull.bias[j]
                        to.gram[i, j0 + j] = pull.weight[j]
                    to.rows[i] += total_of(pull.row) - total_of(pull.col) + total_of(pull.bias)
                pull_step(layers, step, i, j0, way, pull)
                to.variances[0, step] += total_of(pull.weight)
                to.variances[1, step] += total_of(pull.bias)
