"""Compiled pieces of a layer, on a strip of a row of the matrix.

A strip holds, for one point i and some points j, the distances ``u_ij = (1 - ρ_ij)/2``. What a
layer of a homogeneous activation needs of them are half its deficit E(u), its slope P(u) and, for
derivatives of tangent kernels, the derivative of P. They come from the series in √u, or in √(1-u)
beyond 90°, that ``activations.profile`` has made (``program`` packs them).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from mnngp._system.compiled import compiled, to_tuple
from mnngp._typing import Array

# The kinds of a step.
LINEAR = 0  # E(u) = g u
NEAR = 1  # homogeneous, and no correlation before it is negative: one series
WHOLE = 2  # homogeneous, any correlation: two series
HERMITE = 3  # smooth: Hermite coefficients, different for every point
TABLE = 4  # homogeneous, by a table of F: the paper's way
COLLAPSED = 5  # a whole network in one step, for points of equal length

QUICK = 17  # terms up to which powers are quicker than a Chebyshev series in strips

# The series of a step, as rows of ``Program.span``; that of the far side stands FAR behind.
G, G_SLOPE, G_SECOND, H, H_SLOPE, H_SECOND, HERMITE_REFERENCE, HERMITE_DEGREES, TABLE_VALUES = (
    range(9)
)
FAR = H - G
SERIES = 9


class Program(NamedTuple):
    """Some consecutive layers ("steps"), as arrays that compiled code can read."""

    tangent: bool  # whether tangents are carried beside the distances
    kind: Array  # (steps,)
    moment_root: Array  # (steps,) √M of a homogeneous step
    stretch: Array  # (steps,) 2 / upper end of the near series' interval
    fall: Array  # (steps,) half of F(1) - F(-1)
    # (steps, 6, 25) G, P and P' in powers of x = stretch·s - 1, lowest first; then the far ones
    power: Array
    power_terms: Array  # (steps,) 9, 13, 17 or 25 of them; 0: too many
    span: Array  # (steps, SERIES, 2) where each series stands in ``series``
    series: Array  # (…,) Chebyshev coefficients, 4k + 2 of each
    deviation_span: Array  # (steps, 2) the rows of ``Side.deviation`` that a HERMITE step has
    ladder: Array  # (steps, 3) HERMITE: how many degrees are whole, real ones an octave, odd or not


class Side(NamedTuple):
    """What the recursion needs of the points that stand for rows, or for columns."""

    points: Array  # (n, d) directions
    a: Array  # (steps, n)
    p: Array  # (steps, n)
    r: Array  # (steps, n)
    deviation: Array  # (Σ terms of HERMITE steps, n)
    scale: Array  # (n,) what entries are multiplied by


class Quick(NamedTuple):
    """The series of a step in powers of x, as ``Program`` has them."""

    power: Array  # (6, 25)
    terms: int
    stretch: Any


@compiled
def quick_of(program: Program, step: int) -> Quick:
    """Those of a NEAR step, if they are few enough."""
    return Quick(program.power[step], program.power_terms[step], program.stretch[step])


@compiled
def chebyshev(double_x: Array, series: Array, value: Array, work: Array) -> None:
    """Clenshaw's recurrence on a strip, four coefficients a pass; ``double_x`` is 2x, and there are
    4k + 2 coefficients.
    """
    count = series.shape[0]
    last = series[count - 1]
    zero = series.dtype.type(0.0)
    half = series.dtype.type(0.5)
    for j in range(value.shape[0]):
        value[j] = last
        work[j] = zero
    for k in range(count - 2, 3, -4):
        c3, c2, c1, c0 = series[k], series[k - 1], series[k - 2], series[k - 3]
        for j in range(value.shape[0]):
            x = double_x[j]
            above = x * value[j] + (c3 - work[j])
            below = x * above + (c2 - value[j])
            above = x * below + (c1 - above)
            work[j] = above
            value[j] = x * above + (c0 - below)
    constant = series[0]
    for j in range(value.shape[0]):
        value[j] = half * double_x[j] * value[j] + (constant - work[j])


@compiled
def polynomial(c: tuple[Any, ...], x: Any) -> Any:
    """An odd number of terms, lowest first, even and odd powers apart: two short chains instead of
    a long one keep the processor busy.

    The coefficients are a tuple, whose elements a loop keeps in registers.
    """
    y = x * x
    last = len(c) - 1
    even, odd = c[last] * y + c[last - 2], c[last - 1] * y + c[last - 3]
    for k in range(last - 4, 0, -2):
        even = even * y + c[k]
        odd = odd * y + c[k - 1]
    even = even * y + c[0]
    return even + x * odd


@compiled
def quick_step(quick: Quick, tangent: bool, u: Array, t: Array, mine: Any, theirs: Any) -> None:
    """A NEAR step in one pass that vectorises: the bulk of a deep kernel's time.

    ``mine`` and ``theirs`` are a, p and r of the row's point and of the columns'. What is handed
    over is little, and all loops stand here: a whole ``Program``, or coefficients, as arguments
    would take longer to hand over than some columns to compute.
    """
    one = u.dtype.type(1.0)
    two = u.dtype.type(2.0)
    power, stretch = quick.power, quick.stretch
    ai, pi, ri = mine
    a, p, r = theirs
    if quick.terms == 9 and not tangent:
        g = to_tuple(power[0], 9)
        for j in range(u.shape[0]):
            x = math.sqrt(u[j]) * stretch - one
            dp = pi - p[j]
            dr = ri - r[j]
            u[j] = dp * dp + dr * dr + (ai * a[j] * u[j]) * polynomial(g, x)
    elif not tangent:
        g17 = to_tuple(power[0], 17)
        for j in range(u.shape[0]):
            x = math.sqrt(u[j]) * stretch - one
            dp = pi - p[j]
            dr = ri - r[j]
            u[j] = dp * dp + dr * dr + (ai * a[j] * u[j]) * polynomial(g17, x)
    elif quick.terms == 9:
        g, h = to_tuple(power[0], 9), to_tuple(power[1], 9)
        for j in range(u.shape[0]):
            x = math.sqrt(u[j]) * stretch - one
            dp = pi - p[j]
            dr = ri - r[j]
            both = ai * a[j]
            u[j] = dp * dp + dr * dr + (both * u[j]) * polynomial(g, x)
            t[j] = one - two * u[j] + (both * t[j]) * polynomial(h, x)
    else:
        g17, h17 = to_tuple(power[0], 17), to_tuple(power[1], 17)
        for j in range(u.shape[0]):
            x = math.sqrt(u[j]) * stretch - one
            dp = pi - p[j]
            dr = ri - r[j]
            both = ai * a[j]
            u[j] = dp * dp + dr * dr + (both * u[j]) * polynomial(g17, x)
            t[j] = one - two * u[j] + (both * t[j]) * polynomial(h17, x)


@compiled
def half_angle(program: Program, step: int, u: Array, x: Array) -> bool:
    """Twice the series' variable on a strip: of √u where ρ ≥ 0, of √(1-u) where ρ < 0. Returns
    whether there is any such.

    A NEAR step has none but by rounding, and extrapolates by that much.
    """
    one = u.dtype.type(1.0)
    two = u.dtype.type(2.0)
    half = u.dtype.type(0.5)
    zero = u.dtype.type(0.0)
    stretch = two * program.stretch[step]
    if program.kind[step] == NEAR:
        for j in range(u.shape[0]):
            x[j] = math.sqrt(u[j]) * stretch - two
        return False
    for j in range(u.shape[0]):
        close = u[j] if u[j] <= half else one - u[j]
        x[j] = math.sqrt(close if close > zero else zero) * stretch - two
    count = 0
    for j in range(u.shape[0]):
        count += 1 if u[j] > half else 0
    return count > 0


@compiled
def two_sided(
    program: Program, step: int, near: int, u: Array, beyond: bool, value: Array, work: Array
) -> None:
    """The near series where ρ ≥ 0, the far one where ρ < 0; ``work[0]`` is from ``half_angle``."""
    span = program.span[step]
    half = u.dtype.type(0.5)
    chebyshev(work[0], program.series[span[near, 0] : span[near, 1]], value, work[2])
    if beyond:
        far = span[near + FAR]
        chebyshev(work[0], program.series[far[0] : far[1]], work[1], work[2])
        for j in range(u.shape[0]):
            value[j] = value[j] if u[j] <= half else work[1, j]


@compiled
def near_values(g: Any, h: Any, stretch: Any, u: Array, value: Array, slope: Array) -> None:
    """E and P of a NEAR step, in one pass that vectorises."""
    one = u.dtype.type(1.0)
    for j in range(u.shape[0]):
        x = math.sqrt(u[j]) * stretch - one
        value[j] = u[j] * polynomial(g, x)
        slope[j] = polynomial(h, x)


@compiled
def near_second(h: Any, stretch: Any, u: Array, second: Array) -> None:
    """What ``homogeneous_values`` says of the second, of a NEAR step: dP/du = P_s / 2s."""
    one = u.dtype.type(1.0)
    half = u.dtype.type(0.5)
    for j in range(u.shape[0]):
        x = math.sqrt(u[j]) * stretch - one
        second[j] = half * math.sqrt(one - u[j]) * polynomial(h, x)


@compiled
def quick_values(
    quick: Quick, order: int, u: Array, value: Array, slope: Array, second: Array
) -> None:
    """E and P of a NEAR step, and its second if ``order`` is 2."""
    power, stretch = quick.power, quick.stretch
    if quick.terms == 9:
        near_values(to_tuple(power[0], 9), to_tuple(power[1], 9), stretch, u, value, slope)
        if order > 1:
            near_second(to_tuple(power[2], 9), stretch, u, second)
    else:
        near_values(to_tuple(power[0], 17), to_tuple(power[1], 17), stretch, u, value, slope)
        if order > 1:
            near_second(to_tuple(power[2], 17), stretch, u, second)


@compiled
def homogeneous_values(
    program: Program,
    step: int,
    u: Array,
    order: int,
    value: Array,
    slope: Array,
    second: Array,
    work: Array,
) -> None:
    """E on a strip; P if ``order`` ≥ 1; dP/du · √(u (1-u)), finite at both ends, if it is 2."""
    one = u.dtype.type(1.0)
    half = u.dtype.type(0.5)
    zero = u.dtype.type(0.0)
    width = u.shape[0]
    kind = program.kind[step]
    span = program.span[step]
    if kind == LINEAR:
        g = program.series[span[G, 0]]
        for j in range(width):
            value[j] = g * u[j]
            slope[j] = g
        if order > 1:
            second[:] = zero
        return
    if kind == TABLE:
        table = program.series[span[TABLE_VALUES, 0] : span[TABLE_VALUES, 1]]
        cells = table.shape[0] - 1
        for j in range(width):
            place = (one - u[j]) * cells
            cell = min(max(int(place), 0), cells - 1)
            rise = table[cell + 1] - table[cell]
            fallen = table[cells] - (table[cell] + rise * u.dtype.type(place - cell))
            value[j] = (
                half * fallen if fallen > zero else zero
            )  # a coarse grid may have F(ρ) > F(1)
            slope[j] = rise * u.dtype.type(cells) * half
        if order > 1:
            second[:] = zero
        return

    if kind == NEAR and order > 0 and 0 < program.power_terms[step] <= QUICK:
        quick_values(quick_of(program, step), order, u, value, slope, second)
        return
    beyond = half_angle(program, step, u, work[0])
    two_sided(program, step, G, u, beyond, value, work)
    fall = program.fall[step]
    # a NEAR step may see ½ and a rounding: that is near, too
    border = half if beyond else u.dtype.type(2.0)
    for j in range(width):
        e = u[j] * value[j] if u[j] <= border else fall - (one - u[j]) * value[j]
        value[j] = e if e > zero else zero
    if order > 0:
        two_sided(program, step, G_SLOPE, u, beyond, slope, work)
    if order > 1:
        # P is a function of s = √u here, and of c = √(1-u) there: dP/du = P_s / 2s, or -P_c / 2c
        two_sided(program, step, G_SECOND, u, beyond, second, work)
        for j in range(width):
            rest = half * math.sqrt(max(one - u[j], zero))
            second[j] *= rest if u[j] <= border else -half * math.sqrt(u[j])
