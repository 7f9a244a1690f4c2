"""The compiled recursion over matrices, forward and backward.

Forward is the core's. Backward takes the derivative of a number in the kernel to those in the
cosines and in what each point has (scale, a, p, r): the adjoint of ``forward.advance``. A strip goes
through the layers once more while it is in cache, and back.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mnngp._system.compiled import compiled
from mnngp._typing import Array
from mnngp.kernels import blocks, forward
from mnngp.kernels.forward import Program, Tables


@compiled
def push(
    cosines: Array,
    out: Array,
    batch_first: int,
    batch_last: int,
    first: int,
    last: int,
    symmetric: bool,
    tangent: bool,
    program: Program,
    row_points: Array,
    rows: Tables,
    row_scale: Array,
    col_points: Array,
    cols: Tables,
    col_scale: Array,
    refine: Any,
) -> None:
    """Some rows of some kernel matrices; of symmetric ones what is left of the diagonal, and its
    mirror image.
    """
    for k in range(batch_first, batch_last):
        blocks.transform(
            cosines[k],
            cosines[k, :0],
            out[k],
            first,
            last,
            0,
            last if symmetric else out.shape[2],
            0,
            0,
            blocks.LEFT if symmetric else blocks.ALL,
            symmetric,
            True,
            False,
            True,
            tangent,
            program,
            Tables(rows.a[k], rows.p[k], rows.r[k], rows.deviation[k]),
            Tables(cols.a[k], cols.p[k], cols.r[k], cols.deviation[k]),
            row_scale[k],
            col_scale[k],
            out.dtype.type(2.0),
            row_points[k],
            col_points[k],
            refine,
        )


@compiled
def total(values: Array) -> Any:
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
def pull_step(
    ai: Any,
    pi: Any,
    ri: Any,
    a: Array,
    p: Array,
    r: Array,
    value: Array,
    slope: Array,
    gu: Array,
    in_a: Array,
    in_p: Array,
    in_r: Array,
    work: Array,
) -> tuple[Any, Any, Any]:
    """Back through ``u' = (p_i - p_j)² + (r_i - r_j)² + a_i a_j E(u)``: from the derivative in u'
    to that in u, in place.

    Those of the columns are added to ``in_a``, ``in_p`` and ``in_r``, those of the row are
    returned.
    """
    two = gu.dtype.type(2.0)
    width = gu.shape[0]
    for j in range(width):
        part = two * gu[j] * (pi - p[j])
        in_p[j] -= part
        work[j] = part
    of_p = total(work[:width])
    for j in range(width):
        part = two * gu[j] * (ri - r[j])
        in_r[j] -= part
        work[j] = part
    of_r = total(work[:width])
    for j in range(width):
        part = gu[j] * value[j]
        in_a[j] += ai * part
        work[j] = a[j] * part
        gu[j] *= ai * a[j] * slope[j]
    return total(work[:width]), of_p, of_r


@compiled
def pull_tangent(
    ai: Any,
    a: Array,
    u: Array,
    slope: Array,
    bend: Array,
    t: Array,
    gu: Array,
    gt: Array,
    in_a: Array,
    work: Array,
) -> Any:
    """Back through ``a_i a_j P(u) t``, a term of t': adds to the derivative in u and takes gt to
    that in t, in place.
    """
    one = u.dtype.type(1.0)
    zero = u.dtype.type(0.0)
    eps = u.dtype.type(np.finfo(u.dtype).eps)
    width = u.shape[0]
    for j in range(width):
        part = gt[j] * slope[j] * t[j]
        in_a[j] += ai * part
        work[j] = a[j] * part
        both = gt[j] * ai * a[j]
        product = u[j] * (one - u[j])
        # dP/du has a pole at equal points, where zero stands for it
        gu[j] += both * t[j] * bend[j] / math.sqrt(product) if product > eps * eps else zero
        gt[j] = both * slope[j]
    return total(work[:width])


@compiled
def pull_scale(
    pull: Array,
    k: int,
    i: int,
    left: int,
    symmetric: bool,
    mine: Any,
    theirs: Array,
    t: Array,
    gu: Array,
    gt: Array,
    in_scale: Array,
    work: Array,
) -> Any:
    """Back through ``K = scale_i scale_j t``, in which the distances' t is 1 - 2u: to the
    derivatives in t and in u.

    Of a symmetric matrix an entry stands for its mirror image too; one on the diagonal for itself.
    """
    two = gu.dtype.type(2.0)
    width = gu.shape[0]
    for j in range(width):
        gt[j] = pull[k, i, left + j]
    if symmetric:
        for j in range(width):
            gt[j] += pull[k, left + j, i] if left + j < i else gu.dtype.type(0.0)
    for j in range(width):
        part = gt[j] * t[j]
        in_scale[j] += part * mine
        work[j] = part * theirs[j]
        gt[j] *= mine * theirs[j]
        gu[j] = -two * gt[j]
    return total(work)


@compiled
def push_strip(
    program: Program,
    tangent: bool,
    k: int,
    i: int,
    left: int,
    rows: Tables,
    cols: Tables,
    us: Array,
    ts: Array,
    values: Array,
    slopes: Array,
    bends: Array,
    buffer: Array,
) -> None:
    """Take a strip through the layers and keep all of the way: u and t before and behind each, and
    its E, P and P'.
    """
    one = us.dtype.type(1.0)
    two = us.dtype.type(2.0)
    width = us.shape[1]
    for step in range(program.kind.shape[0]):
        value, slope, u, t = values[step], slopes[step], us[step + 1], ts[step + 1]
        forward.homogeneous_values(
            program,
            step,
            us[step],
            2 if tangent else 1,
            value,
            slope,
            bends[step],
            buffer[0],
            buffer[1],
            buffer[2],
        )
        ai, pi, ri = rows.a[k, step, i], rows.p[k, step, i], rows.r[k, step, i]
        a, p, r = cols.a[k, step, left:], cols.p[k, step, left:], cols.r[k, step, left:]
        for j in range(width):
            dp = pi - p[j]
            dr = ri - r[j]
            u[j] = dp * dp + dr * dr + ai * a[j] * value[j]
            t[j] = one - two * u[j]
        if tangent:
            for j in range(width):
                t[j] += ai * a[j] * slope[j] * ts[step, j]


@compiled
def pull_back(
    cosines: Array,
    pull: Array,
    out: Array,
    batch_first: int,
    batch_last: int,
    first: int,
    last: int,
    symmetric: bool,
    tangent: bool,
    program: Program,
    row_points: Array,
    rows: Tables,
    row_scale: Array,
    col_points: Array,
    cols: Tables,
    col_scale: Array,
    refine: Any,
    of_rows: Array,
    of_cols: Array,
) -> None:
    """From the derivatives in some rows of kernels, ``pull``, to those in cosines, ``out``, and in
    scale, a, p, r of the points.

    Of symmetric matrices only the lower triangle is looked at, and carries the derivatives of both.
    """
    two = out.dtype.type(2.0)
    half = out.dtype.type(0.5)
    steps, size = program.kind.shape[0], blocks.STRIP
    way = np.zeros((5, steps + 1, size), out.dtype)
    buffer = np.empty((5, size), out.dtype)
    for k in range(batch_first, batch_last):
        for left in range(0, out.shape[2], size):
            for i in range(first, last):
                right = min(left + size, i + 1 if symmetric else out.shape[2])
                width = right - left
                if width <= 0:
                    continue
                us, ts, values = way[0, :, :width], way[1, :, :width], way[2, :, :width]
                slopes, bends = way[3, :, :width], way[4, :, :width]
                work, gu, gt = buffer[2, :width], buffer[3, :width], buffer[4, :width]
                blocks.distances(
                    cosines[k, i, left:right], i, left, row_points[k], col_points[k], refine, us[0]
                )
                push_strip(
                    program,
                    tangent,
                    k,
                    i,
                    left,
                    rows,
                    cols,
                    us,
                    ts,
                    values,
                    slopes,
                    bends,
                    buffer[:3, :width],
                )
                of_rows[k, 0, i] += pull_scale(
                    pull,
                    k,
                    i,
                    left,
                    symmetric,
                    row_scale[k, i],
                    col_scale[k, left:right],
                    ts[steps],
                    gu,
                    gt,
                    of_cols[k, 0, left:right],
                    work,
                )
                for step in range(steps - 1, -1, -1):
                    ai, a = rows.a[k, step, i], cols.a[k, step, left:right]
                    row = 1 + 3 * step
                    in_a, in_p, in_r = (
                        of_cols[k, row, left:right],
                        of_cols[k, row + 1, left:right],
                        of_cols[k, row + 2, left:right],
                    )
                    in_row = of_rows[k, row : row + 3, i]
                    of_a, of_p, of_r = pull_step(
                        ai,
                        rows.p[k, step, i],
                        rows.r[k, step, i],
                        a,
                        cols.p[k, step, left:right],
                        cols.r[k, step, left:right],
                        values[step],
                        slopes[step],
                        gu,
                        in_a,
                        in_p,
                        in_r,
                        work,
                    )
                    in_row[0] += of_a
                    in_row[1] += of_p
                    in_row[2] += of_r
                    if tangent:
                        in_row[0] += pull_tangent(
                            ai, a, us[step], slopes[step], bends[step], ts[step], gu, gt, in_a, work
                        )
                        if step > 0:  # behind every step t is 1 - 2u and more
                            for j in range(width):
                                gu[j] -= two * gt[j]
                for j in range(width):
                    out[k, i, left + j] = -half * gu[j]
