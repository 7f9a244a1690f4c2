"""Compiled sums over Hermite degrees, on a strip: what a smooth layer does to a pair of points.

With A_ik the normalised Hermite coefficients of point i (``pointwise``), the step of the distance
and its slope are

    Σ_k ¼ (A_ik - A_jk)² + ½ A_ik A_jk (1 - ρ^k),        Σ_k k A_ik A_jk ρ^(k-1).

A_ik is the reference point's coefficient plus the deviation of point i. Of the degrees the first
``whole`` are 0, 1, and others that rise by one or two; the rest are real ones, ``rungs`` an octave
(``activations.degrees``), whose powers are squared from octave to octave.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from mnngp._system.compiled import compiled
from mnngp._typing import Array
from mnngp.kernels.strips import HERMITE_DEGREES, HERMITE_REFERENCE, Program


class Ladder(NamedTuple):
    """The degrees of one layer, and the reference point's coefficients."""

    reference: Array  # (terms,)
    degree: Array  # (terms,)
    whole: int
    rungs: int
    odd: int  # whether real degrees stand for odd ones, or for even ones


class Sums(NamedTuple):
    """The adjoint of a step, a number a pair each; the smooth one's sums are over degrees k.

    With ``h_i = ∂u'/∂A_ik`` and ``B_ik = ∂A_ik / ∂ log v_i`` at a fixed variance behind the layer:
    """

    slope: Array  # ∂u'/∂u, Σ k A_ik A_jk ρ^(k-1)
    second: Array  # its derivative in u
    x_row: Array  # Σ h_i A_ik, twice the derivative in log weight_var through point i alone
    x_col: Array
    y_row: Array  # Σ h_i B_ik, the derivative in log v_i
    y_col: Array
    q_row: Array  # ∂ slope / ∂ log v_i, Σ k A_jk B_ik ρ^(k-1)
    q_col: Array


@compiled
def ladder_of(program: Program, step: int) -> Ladder:
    """The degrees of a HERMITE step."""
    first, degrees = program.span[step, HERMITE_REFERENCE], program.span[step, HERMITE_DEGREES]
    return Ladder(
        program.series[first[0] : first[1]],
        program.series[degrees[0] : degrees[1]],
        program.ladder[step, 0],
        program.ladder[step, 1],
        program.ladder[step, 2],
    )


@compiled
def first_power(u: Array, degree: float, power: Array, rest: Array) -> None:
    """``|ρ|^degree``, and one minus it with full relative accuracy where ρ is near ±1."""
    one = u.dtype.type(1.0)
    two = u.dtype.type(2.0)
    half = u.dtype.type(0.5)
    for j in range(u.shape[0]):
        close = u[j] if u[j] <= half else max(one - u[j], u.dtype.type(0.0))
        rest[j] = -math.expm1(degree * math.log1p(-two * close))
        power[j] = one - rest[j]


@compiled
def double_degree(power: Array, rest: Array) -> None:
    """The power's square; from one minus it as long as that is the more accurate of the two."""
    one = power.dtype.type(1.0)
    two = power.dtype.type(2.0)
    half = power.dtype.type(0.5)
    for j in range(power.shape[0]):
        square = power[j] * power[j]
        rest[j] *= two - rest[j]
        power[j] = one - rest[j] if rest[j] < half else square


@compiled
def signed_inverse(u: Array, odd: int, inverse: Array) -> None:
    """``σ/ρ``, where ``ρ^κ = σ |ρ|^κ`` for a real κ that stands for odd or for even degrees.

    It is zero at ρ = 0.
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
def hermite_values(
    ladder: Ladder,
    mine: Array,
    theirs: Array,
    j0: int,
    u: Array,
    value: Array,
    slope: Array,
    work: Array,
) -> None:
    """The sum over k ≥ 1 of the step, and its slope.

    ``mine`` (terms,) are the deviations of the row's point, ``theirs`` (terms, n) those of the
    columns', of which the strip begins with j0. Degree 0 does not depend on ρ: it is in ``Side.r``.
    """
    one = u.dtype.type(1.0)
    two = u.dtype.type(2.0)
    half = u.dtype.type(0.5)
    quarter = u.dtype.type(0.25)
    width, terms = u.shape[0], ladder.reference.shape[0]
    power, rest, inverse = work[0, :width], work[1, :width], work[2, :width]
    value[:] = u.dtype.type(0.0)
    slope[:] = u.dtype.type(0.0)
    for rung in range(min(ladder.rungs, terms - ladder.whole)):
        first_power(u, ladder.degree[ladder.whole + rung], power, rest)
        for k in range(ladder.whole + rung, terms, ladder.rungs):
            here, degree = ladder.reference[k], ladder.degree[k]
            own, other = mine[k], theirs[k, j0 : j0 + width]
            for j in range(width):
                apart = own - other[j]
                product = (here + own) * (here + other[j])
                fallen = one + power[j] if ladder.odd > 0 and u[j] > half else rest[j]
                value[j] += quarter * apart * apart + half * product * fallen
                slope[j] += degree * product * power[j]
            double_degree(power, rest)
    signed_inverse(u, ladder.odd, inverse)
    for j in range(width):
        slope[j] *= inverse[j]
        power[j] = one  # ρ^(k-1)
        rest[j] = one  # (1 - ρ^k) / (1 - ρ) = 1 + ρ + … + ρ^(k-1)
    for k in range(1, ladder.whole):
        here, degree = ladder.reference[k], ladder.degree[k]
        by_two = k + 1 < ladder.whole and ladder.degree[k + 1] - degree > one
        own, other = mine[k], theirs[k, j0 : j0 + width]
        for j in range(width):
            apart = own - other[j]
            product = (here + own) * (here + other[j])
            value[j] += quarter * apart * apart + product * u[j] * rest[j]
            slope[j] += degree * product * power[j]
            rho = one - two * u[j]
            power[j] *= rho
            rest[j] += power[j]
            if by_two:
                power[j] *= rho
                rest[j] += power[j]


@compiled
def add_term(
    apart: float,
    mine: tuple[float, float],
    theirs: tuple[float, float],
    fall: float,
    j: int,
    to: Sums,
) -> None:
    """One degree's share of the sums that do not carry a power of ρ; A and B of either point."""
    half = to.x_row.dtype.type(0.5)
    of_mine = half * (apart + theirs[0] * fall)
    of_theirs = half * (mine[0] * fall - apart)
    to.x_row[j] += of_mine * mine[0]
    to.y_row[j] += of_mine * mine[1]
    to.x_col[j] += of_theirs * theirs[0]
    to.y_col[j] += of_theirs * theirs[1]


@compiled
def hermite_sums(
    ladder: Ladder,
    mine: tuple[Array, Array],
    theirs: tuple[Array, Array],
    j0: int,
    u: Array,
    to: Sums,
    work: Array,
) -> None:
    """The adjoint of ``hermite_values``; ``mine`` and ``theirs`` are deviations and their rates B.

    Degree 0 is in it.
    """
    one = u.dtype.type(1.0)
    two = u.dtype.type(2.0)
    half = u.dtype.type(0.5)
    zero = u.dtype.type(0.0)
    width, terms = u.shape[0], ladder.reference.shape[0]
    power, rest, lower = work[0, :width], work[1, :width], work[2, :width]
    for part in to:
        part[:] = zero
    signed_inverse(u, ladder.odd, lower)
    for rung in range(min(ladder.rungs, terms - ladder.whole)):
        first_power(u, ladder.degree[ladder.whole + rung], power, rest)
        for k in range(ladder.whole + rung, terms, ladder.rungs):
            here, degree = ladder.reference[k], ladder.degree[k]
            one_side = here + mine[0][k], mine[1][k]
            deviation, rate = theirs[0][k, j0 : j0 + width], theirs[1][k, j0 : j0 + width]
            for j in range(width):
                other = here + deviation[j], rate[j]
                fallen = one + power[j] if ladder.odd > 0 and u[j] > half else rest[j]
                add_term(mine[0][k] - deviation[j], one_side, other, fallen, j, to)
                below = degree * power[j] * lower[j]  # k ρ^(k-1)
                product = one_side[0] * other[0]
                to.slope[j] += below * product
                to.q_row[j] += below * one_side[1] * other[0]
                to.q_col[j] += below * one_side[0] * other[1]
                if below != zero:
                    to.second[j] -= two * product * (degree - one) * below / (one - two * u[j])
            double_degree(power, rest)
    for j in range(width):
        lower[j] = zero  # ρ^(k-2)
        power[j] = rest[j] = one
    for k in range(ladder.whole):
        here, degree = ladder.reference[k], ladder.degree[k]
        one_side = here + mine[0][k], mine[1][k]
        by_two = 0 < k < ladder.whole - 1 and ladder.degree[k + 1] - degree > one
        deviation, rate = theirs[0][k, j0 : j0 + width], theirs[1][k, j0 : j0 + width]
        for j in range(width):
            other = here + deviation[j], rate[j]
            fallen = two * u[j] * rest[j] if k > 0 else zero
            add_term(mine[0][k] - deviation[j], one_side, other, fallen, j, to)
            if k == 0:
                continue
            below = degree * power[j]
            product = one_side[0] * other[0]
            to.slope[j] += below * product
            to.q_row[j] += below * one_side[1] * other[0]
            to.q_col[j] += below * one_side[0] * other[1]
            to.second[j] -= two * product * degree * (degree - one) * lower[j]
            rho = one - two * u[j]
            lower[j] = power[j]
            power[j] *= rho
            rest[j] += power[j]
            if by_two:
                lower[j] = power[j]
                power[j] *= rho
                rest[j] += power[j]
