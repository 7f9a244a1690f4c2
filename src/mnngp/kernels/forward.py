"""The compiled pieces of the recursion: one layer, on a strip of a row of the matrix.

A strip holds, for one point i and some points j, the distances ``u_ij = (1 - ρ_ij)/2`` and, for a
tangent kernel, the normalised tangents ``t_ij = Θ_ij / √(v_i v_j)``. A step of the recursion is

    u' = (p_i - p_j)² + (r_i - r_j)² + a_i a_j E(u),      t' = 1 - 2u' + a_i a_j P(u) t,

with E half the activation's deficit and P its slope (see ``layers.py`` for a, p and r). Every term
of u' is non-negative, so nothing cancels, and 1 - ρ keeps its relative accuracy at any depth.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from mnngp._system.compiled import compiled
from mnngp._typing import Array

# The kinds of a step.
LINEAR = 0  # E(u) = g u
NEAR = 1  # homogeneous, and no correlation before it is negative: one series
WHOLE = 2  # homogeneous, any correlation: two series
# smooth: Hermite coefficients, different for every point, of whole degrees and of real ones in
# octaves
HERMITE = 3
TABLE = 4  # the paper's table of F_q
COLLAPSED = 5  # a whole network in one step, for points of equal length

# The series of a step, as rows of ``Program.span``.
G, G_SLOPE, G_BEND, H, H_SLOPE, H_BEND, HERMITE_REFERENCE, HERMITE_DEGREES, TABLE_VALUES = range(9)
SERIES = 9


class Program(NamedTuple):
    """Some consecutive steps, as arrays that compiled code can read."""

    kind: Array  # (steps,)
    stretch: Array  # (steps,) 2 / upper end of the near series' interval
    fall: Array  # (steps,) half of F(1) - F(-1)
    power: Array  # (steps, 2, 17) G and P in powers of x = stretch·s - 1, lowest first
    # (steps,) 9 or 17: how many of them, 0: there are more, and they are summed as Chebyshev series
    power_terms: Array
    span: Array  # (steps, SERIES, 2) where each series stands in ``series``
    series: Array  # (…,) Chebyshev coefficients, 4k + 2 of each
    # (steps, 2) the rows of ``Tables.deviation`` that belong to a HERMITE step
    deviation_span: Array
    # (steps, 3) HERMITE: how many degrees are whole, how many real ones make an octave, whether
    # they are odd
    ladder: Array


class Tables(NamedTuple):
    """What the steps need of each point."""

    a: Array  # (steps, n)
    p: Array  # (steps, n)
    r: Array  # (steps, n)
    deviation: Array  # (Σ terms of HERMITE steps, n)


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
def polynomial_9(c: Array, x: Any) -> Any:
    """Nine terms, even and odd apart: two short chains instead of a long one keep the processor
    busy.
    """
    y = x * x
    even = (((c[8] * y + c[6]) * y + c[4]) * y + c[2]) * y + c[0]
    odd = ((c[7] * y + c[5]) * y + c[3]) * y + c[1]
    return even + x * odd


@compiled
def polynomial_17(c: Array, x: Any) -> Any:
    """Seventeen terms."""
    y = x * x
    even = (
        ((((((c[16] * y + c[14]) * y + c[12]) * y + c[10]) * y + c[8]) * y + c[6]) * y + c[4]) * y
        + c[2]
    ) * y + c[0]
    odd = (
        (((((c[15] * y + c[13]) * y + c[11]) * y + c[9]) * y + c[7]) * y + c[5]) * y + c[3]
    ) * y + c[1]
    return even + x * odd


@compiled
def terms_9(c: Array) -> Any:
    """The coefficients as scalars, which a loop keeps in registers."""
    return (c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8])


@compiled
def terms_17(c: Array) -> Any:
    """The same, all seventeen."""
    return (
        c[0],
        c[1],
        c[2],
        c[3],
        c[4],
        c[5],
        c[6],
        c[7],
        c[8],
        c[9],
        c[10],
        c[11],
        c[12],
        c[13],
        c[14],
        c[15],
        c[16],
    )


@compiled
def quick_step(
    program: Program,
    step: int,
    tangent: bool,
    u: Array,
    t: Array,
    a: Array,
    p: Array,
    r: Array,
    ai: Any,
    pi: Any,
    ri: Any,
) -> None:
    """A NEAR step in one pass that vectorises: the bulk of a deep kernel's time."""
    one = u.dtype.type(1.0)
    two = u.dtype.type(2.0)
    stretch = program.stretch[step]
    short = program.power_terms[step] == 9
    if short and not tangent:
        g = terms_9(program.power[step, 0])
        for j in range(u.shape[0]):
            x = math.sqrt(u[j]) * stretch - one
            dp = pi - p[j]
            dr = ri - r[j]
            u[j] = dp * dp + dr * dr + (ai * a[j] * u[j]) * polynomial_9(g, x)
    elif not tangent:
        g = terms_17(program.power[step, 0])
        for j in range(u.shape[0]):
            x = math.sqrt(u[j]) * stretch - one
            dp = pi - p[j]
            dr = ri - r[j]
            u[j] = dp * dp + dr * dr + (ai * a[j] * u[j]) * polynomial_17(g, x)
    elif short:
        g, h = terms_9(program.power[step, 0]), terms_9(program.power[step, 1])
        for j in range(u.shape[0]):
            x = math.sqrt(u[j]) * stretch - one
            dp = pi - p[j]
            dr = ri - r[j]
            both = ai * a[j]
            u[j] = dp * dp + dr * dr + (both * u[j]) * polynomial_9(g, x)
            t[j] = one - two * u[j] + (both * t[j]) * polynomial_9(h, x)
    else:
        g, h = terms_17(program.power[step, 0]), terms_17(program.power[step, 1])
        for j in range(u.shape[0]):
            x = math.sqrt(u[j]) * stretch - one
            dp = pi - p[j]
            dr = ri - r[j]
            both = ai * a[j]
            u[j] = dp * dp + dr * dr + (both * u[j]) * polynomial_17(g, x)
            t[j] = one - two * u[j] + (both * t[j]) * polynomial_17(h, x)


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
    program: Program,
    step: int,
    near: int,
    far: int,
    u: Array,
    x: Array,
    beyond: bool,
    value: Array,
    other: Array,
    work: Array,
) -> None:
    """The near series where ρ ≥ 0, the far one where ρ < 0."""
    span = program.span[step]
    half = u.dtype.type(0.5)
    chebyshev(x, program.series[span[near, 0] : span[near, 1]], value, work)
    if beyond:
        chebyshev(x, program.series[span[far, 0] : span[far, 1]], other, work)
        for j in range(u.shape[0]):
            value[j] = value[j] if u[j] <= half else other[j]


@compiled
def homogeneous_values(
    program: Program,
    step: int,
    u: Array,
    order: int,
    e: Array,
    slope: Array,
    bend: Array,
    x: Array,
    far: Array,
    work: Array,
) -> None:
    """E on a strip; for ``order`` ≥ 1 also P; for ``order`` = 2 also dP/du · √(u (1-u)), which is
    finite at both ends.
    """
    one = u.dtype.type(1.0)
    half = u.dtype.type(0.5)
    zero = u.dtype.type(0.0)
    width = u.shape[0]
    kind = program.kind[step]
    span = program.span[step]
    if kind == LINEAR:
        g = program.series[span[G, 0]]
        for j in range(width):
            e[j] = g * u[j]
            slope[j] = g
        if order > 1:
            bend[:] = zero
        return
    if kind == TABLE:
        values = program.series[span[TABLE_VALUES, 0] : span[TABLE_VALUES, 1]]
        cells = values.shape[0] - 1
        top = values[cells]
        for j in range(width):
            place = (one - u[j]) * cells
            cell = min(max(int(place), 0), cells - 1)
            rise = values[cell + 1] - values[cell]
            fallen = top - (values[cell] + rise * u.dtype.type(place - cell))
            e[j] = half * fallen if fallen > zero else zero  # a coarse grid may find F(ρ) > F(1)
            slope[j] = rise * u.dtype.type(cells) * half
        if order > 1:
            bend[:] = zero
        return

    beyond = half_angle(program, step, u, x)
    two_sided(program, step, G, H, u, x, beyond, e, far, work)
    fall = program.fall[step]
    # a NEAR step may see ½ and a rounding: that is near, too
    border = half if beyond else u.dtype.type(2.0)
    for j in range(width):
        value = u[j] * e[j] if u[j] <= border else fall - (one - u[j]) * e[j]
        e[j] = value if value > zero else zero
    if order > 0:
        two_sided(program, step, G_SLOPE, H_SLOPE, u, x, beyond, slope, far, work)
    if order > 1:
        # P is a function of s = √u here, and of c = √(1-u) there: dP/du = P_s / 2s, or -P_c / 2c
        two_sided(program, step, G_BEND, H_BEND, u, x, beyond, bend, far, work)
        for j in range(width):
            bend[j] *= (
                half * math.sqrt(max(one - u[j], zero))
                if u[j] <= border
                else -half * math.sqrt(u[j])
            )


@compiled
def ladder_start(u: Array, degree: Any, power: Array, rest: Array) -> None:
    """``|ρ|^degree``, and one minus it with full relative accuracy where ρ is near ±1."""
    one = u.dtype.type(1.0)
    two = u.dtype.type(2.0)
    half = u.dtype.type(0.5)
    for j in range(u.shape[0]):
        close = u[j] if u[j] <= half else max(one - u[j], u.dtype.type(0.0))
        rest[j] = -math.expm1(degree * math.log1p(-two * close))
        power[j] = one - rest[j]


@compiled
def ladder_double(power: Array, rest: Array) -> None:
    """Twice the degree: the power's square; from one minus it as long as that is the more accurate
    of the two.
    """
    one = power.dtype.type(1.0)
    two = power.dtype.type(2.0)
    half = power.dtype.type(0.5)
    for j in range(power.shape[0]):
        square = power[j] * power[j]
        rest[j] *= two - rest[j]
        power[j] = one - rest[j] if rest[j] < half else square


@compiled
def signed_inverse(u: Array, odd: int, inverse: Array) -> None:
    """``σ/ρ``, where ``ρ^κ = σ |ρ|^κ`` for real κ that stand for odd degrees or for even ones; zero
    at ρ = 0.
    """
    one = u.dtype.type(1.0)
    two = u.dtype.type(2.0)
    half = u.dtype.type(0.5)
    zero = u.dtype.type(0.0)
    for j in range(u.shape[0]):
        rho = one - two * u[j]
        value = one / rho if rho != zero else zero
        inverse[j] = -value if odd > 0 and u[j] > half else value


@compiled
def ladder_values(
    u: Array,
    i: int,
    j0: int,
    reference: Array,
    degree: Array,
    whole: int,
    rungs: int,
    odd: int,
    row_deviation: Array,
    col_deviation: Array,
    q: Array,
    slope: Array,
    power: Array,
    rest: Array,
    inverse: Array,
) -> None:
    """``hermite_values`` over the real degrees: the powers of each rung of the first octave are
    squared from octave to octave.
    """
    one = u.dtype.type(1.0)
    half = u.dtype.type(0.5)
    quarter = u.dtype.type(0.25)
    zero = u.dtype.type(0.0)
    width = u.shape[0]
    for j in range(width):
        q[j] = zero
        slope[j] = zero
    for rung in range(min(rungs, reference.shape[0] - whole)):
        ladder_start(u, degree[whole + rung], power, rest)
        for k in range(whole + rung, reference.shape[0], rungs):
            here = reference[k]
            mine_off = row_deviation[k, i]
            mine = here + mine_off
            much = degree[k]
            theirs_off = col_deviation[k, j0 : j0 + width]
            for j in range(width):
                apart = mine_off - theirs_off[j]
                product = mine * (here + theirs_off[j])
                fallen = one + power[j] if odd > 0 and u[j] > half else rest[j]
                q[j] += quarter * apart * apart + half * product * fallen
                slope[j] += much * product * power[j]
            ladder_double(power, rest)
    signed_inverse(u, odd, inverse)
    for j in range(width):
        slope[j] *= inverse[j]


@compiled
def hermite_values(
    u: Array,
    i: int,
    j0: int,
    reference: Array,
    degree: Array,
    whole: int,
    rungs: int,
    odd: int,
    row_deviation: Array,
    col_deviation: Array,
    q: Array,
    slope: Array,
    x: Array,
    far: Array,
    work: Array,
) -> None:
    """For a HERMITE step ``Σ_k ¼ (A_ik - A_jk)² + A_ik A_jk (1 - ρ^k)/2`` over k ≥ 1, and its slope
    ``Σ_k k A_ik A_jk ρ^(k-1)``.

    A_ik is the reference point's coefficient plus the deviation of point i. Of the degrees k the
    first ``whole`` are 0, 1, and others that rise by one or two.
    """
    one = u.dtype.type(1.0)
    two = u.dtype.type(2.0)
    quarter = u.dtype.type(0.25)
    width = u.shape[0]
    ladder_values(
        u,
        i,
        j0,
        reference,
        degree,
        whole,
        rungs,
        odd,
        row_deviation,
        col_deviation,
        q,
        slope,
        x,
        work,
        far,
    )
    for j in range(width):
        x[j] = one  # ρ^(k-1)
        work[j] = one  # (1 - ρ^k) / (1 - ρ) = 1 + ρ + … + ρ^(k-1)
    for k in range(1, whole):
        here = reference[k]
        mine_off = row_deviation[k, i]
        mine = here + mine_off
        much = degree[k]
        by_two = k + 1 < whole and degree[k + 1] - much > one
        theirs_off = col_deviation[k, j0 : j0 + width]
        for j in range(width):
            apart = mine_off - theirs_off[j]
            product = mine * (here + theirs_off[j])
            q[j] += quarter * apart * apart + product * u[j] * work[j]
            slope[j] += much * product * x[j]
            rho = one - two * u[j]
            x[j] *= rho
            work[j] += x[j]
            if by_two:
                x[j] *= rho
                work[j] += x[j]


@compiled
def advance(
    program: Program,
    rows: Tables,
    cols: Tables,
    i: int,
    j0: int,
    tangent: bool,
    u: Array,
    t: Array,
    e: Array,
    slope: Array,
    x: Array,
    far: Array,
    work: Array,
) -> None:
    """Take the strip of row i from column j0 on through all steps of the program."""
    one = u.dtype.type(1.0)
    two = u.dtype.type(2.0)
    zero = u.dtype.type(0.0)
    width = u.shape[0]
    for step in range(program.kind.shape[0]):
        kind = program.kind[step]
        span = program.span[step]
        a = cols.a[step, j0 : j0 + width]
        p = cols.p[step, j0 : j0 + width]
        r = cols.r[step, j0 : j0 + width]
        ai, pi, ri = rows.a[step, i], rows.p[step, i], rows.r[step, i]
        if kind == NEAR and program.power_terms[step] > 0:
            quick_step(program, step, tangent, u, t, a, p, r, ai, pi, ri)
        elif kind == COLLAPSED:
            # The series are those of s / s_L, whose square divides u, and of t_L.
            beyond = half_angle(program, step, u, x)
            two_sided(program, step, G, H, u, x, beyond, e, far, work)
            if tangent:
                two_sided(program, step, G_SLOPE, H_SLOPE, u, x, beyond, t, far, work)
            for j in range(width):
                u[j] = u[j] / (e[j] * e[j])
        elif kind == HERMITE:
            first, last = program.deviation_span[step, 0], program.deviation_span[step, 1]
            reference = program.series[span[HERMITE_REFERENCE, 0] : span[HERMITE_REFERENCE, 1]]
            degree = program.series[span[HERMITE_DEGREES, 0] : span[HERMITE_DEGREES, 1]]
            whole, rungs, odd = (
                program.ladder[step, 0],
                program.ladder[step, 1],
                program.ladder[step, 2],
            )
            hermite_values(
                u,
                i,
                j0,
                reference,
                degree,
                whole,
                rungs,
                odd,
                rows.deviation[first:last],
                cols.deviation[first:last],
                e,
                slope,
                x,
                far,
                work,
            )
            for j in range(width):
                dp = pi - p[j]
                dr = ri - r[j]
                value = dp * dp + dr * dr + e[j]
                u[j] = value if value > zero else zero
                t[j] = one - two * u[j] + slope[j] * t[j]
        else:
            homogeneous_values(program, step, u, int(tangent), e, slope, slope, x, far, work)
            for j in range(width):
                dp = pi - p[j]
                dr = ri - r[j]
                both = ai * a[j]
                u[j] = dp * dp + dr * dr + both * e[j]
                t[j] = one - two * u[j] + both * slope[j] * t[j]
