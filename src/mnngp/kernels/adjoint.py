"""Kernel matrices with their derivatives in the logarithms of the variances.

The derivative is carried forward beside the distance, through the same steps: with ``dE/du = P``
the derivative of an ``arccos`` never appears, and everything is finite for equal, opposite and zero
inputs. Of each point only ``λ_i = ∂ log v_i`` is needed:

    λ' = β² ġ_b + M α² (ġ_w + λ),     β̇ = ½ β (ġ_b - λ'),     α̇ = ½ α (ġ_w + λ - λ'),

where ġ_b and ġ_w say how much log bias_var and log weight_var of this layer move (1 or 0).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mnngp._system import threads
from mnngp._system.compiled import compiled
from mnngp._typing import Array, Matrix, Vector
from mnngp.errors import ScaleError
from mnngp.kernels import blocks, forward
from mnngp.kernels.evaluate import Values, correlation_values, kernel_values, matrix
from mnngp.kernels.forward import HERMITE, HERMITE_DEGREES, HERMITE_REFERENCE, Program, Tables
from mnngp.kernels.points import Points
from mnngp.kernels.pointwise import Diagonal, Step, inputs, walk
from mnngp.kernels.program import pack, tables
from mnngp.networks.network import Network

_TASK = 64  # rows a thread takes at a time

Direction = tuple[Vector, Vector]
"""For each layer how much log weight_var and log bias_var move."""


def matrix_and_gradient(
    network: Network, x: Points, directions: Sequence[Direction]
) -> tuple[Matrix, Matrix]:
    """The symmetric kernel matrix, and its derivative in each direction along the last axis."""
    if not directions:
        kernel, _ = matrix(network, x, None)
        return kernel, np.empty((*kernel.shape, 0), dtype=network.dtype)
    kernel, gradient, _ = _evaluate(
        network, x, directions, lambda points: kernel_values(network, points, normalized=False)
    )
    return kernel, np.moveaxis(gradient, 0, -1)


def correlations_gradient(
    network: Network, x: Points, directions: Sequence[Direction], *, contraction: float = 1.0
) -> tuple[Matrix, Matrix]:
    """The derivative of ``matrix.correlations`` in each direction, and that of ``log K_ii``;
    directions are the first axis.

    Together they are the derivative of the kernel, but where the correlations are one up to
    rounding these have their digits.
    """
    if not network.tangent:
        _, gradient, growth = _evaluate(
            network, x, directions, lambda points: correlation_values(network, points, contraction)
        )
        return gradient, growth
    kernel, gradient, growth = _evaluate(
        network, x, directions, lambda points: kernel_values(network, points, normalized=False)
    )
    deviation = np.sqrt(np.maximum(np.diag(kernel), np.finfo(network.dtype).tiny))
    both = np.outer(deviation, deviation)
    for index, rate in enumerate(growth):
        gradient[index] -= kernel * (0.5 * (rate[:, None] + rate))
    gradient /= both
    return gradient, growth


def _evaluate(
    network: Network,
    x: Points,
    directions: Sequence[Direction],
    wanted: Callable[[Diagonal], Values],
) -> tuple[Matrix, Matrix, Matrix]:
    """What is wanted, its derivatives, and those of log K_ii."""
    points = inputs(x.square_lengths)
    steps = list(walk(points, network.layers))
    values = wanted(points)
    scale, stretch = values.scale.astype(network.dtype), network.dtype.type(values.stretch)
    program, table = (
        pack(steps, network.dtype, order=2 if network.tangent else 1),
        tables(steps, slice(None), network.dtype),
    )
    cosines = np.matmul(x.directions, x.directions.T)
    refine = network.dtype.type(blocks.REFINE[network.dtype])
    kernel = np.empty_like(cosines)
    gradient = np.empty((len(directions), *cosines.shape), dtype=network.dtype)
    rates_of_diagonal = np.empty((len(directions), len(x)))
    alongs = [
        step.shrinkage[:, None] * step.expansion.rates(step.variance) if step.expansion else None
        for step in steps
    ]
    for direction, slab, on_diagonal in zip(directions, gradient, rates_of_diagonal, strict=True):
        rates, growth, on_diagonal[:] = _rates(network, steps, alongs, direction)
        moved = growth if values.scaled else np.zeros_like(growth)

        def task(
            first: int, rates: Tables = rates, moved: Vector = moved, slab: Matrix = slab
        ) -> None:
            last = min(first + _TASK, len(x))
            transform(
                cosines,
                kernel,
                slab,
                first,
                last,
                network.tangent,
                program,
                table,
                rates,
                scale,
                moved,
                stretch,
                x.directions,
                refine,
            )

        threads.parallel_for(
            task, range(0, len(x), _TASK)[::-1], work=4.0 * kernel.size * len(steps)
        )
        with np.errstate(over="ignore"):
            np.fill_diagonal(slab, values.diagonal * on_diagonal if values.scaled else 0.0)
        if not np.isfinite(slab).all():
            raise ScaleError(
                f"the kernel's gradient is too large for {network.dtype}: scale the "
                "features or the variances down"
            )
    np.fill_diagonal(kernel, values.diagonal)
    return kernel, gradient, rates_of_diagonal


def _rates(
    network: Network, steps: Sequence[Step], alongs: Sequence[Vector | None], direction: Direction
) -> tuple[Tables, Vector, Vector]:
    """The derivatives of the steps' tables, of log v behind them, and of the logarithm of the
    kernel's diagonal.

    ``alongs`` are the derivatives of the Hermite coefficients in log v before their step,
    normalised as they are.
    """
    growth = np.zeros_like(steps[0].a)  # λ
    tangent, tangent_rate = np.zeros_like(growth), np.zeros_like(growth)
    rows: dict[str, list[Vector]] = {
        "a": [],
        "p": [],
        "r": [],
        "deviation": [np.empty((0, len(growth)))],
    }
    for step, along, weight, bias in zip(steps, alongs, *direction, strict=True):
        if step.expansion is not None and along is not None:
            coefficients = (step.reference[:, None] + step.deviation).T
            after = (
                step.beta**2 * bias
                + (coefficients**2).sum(axis=1) * weight
                + 2.0 * growth * (coefficients * along).sum(axis=1)
            )
            change = 0.5 * coefficients * (weight - after)[:, None] + along * growth[:, None]
            degree = step.expansion.degrees.values
            factor, factor_rate = coefficients**2 @ degree, 2.0 * (coefficients * change) @ degree
            a_rate, r_rate = np.zeros_like(growth), change[:, 0] / 2.0
            rows["deviation"].append(change.T)
        else:
            moment = step.second_moment
            after = step.beta**2 * bias + moment * step.a**2 * (weight + growth)
            a_rate = 0.5 * step.a * (weight + growth - after)
            r_rate = math.sqrt(moment) * a_rate / 2.0
            factor, factor_rate = (
                step.slope_at_one * step.a**2,
                2.0 * step.slope_at_one * step.a * a_rate,
            )
        rows["a"].append(a_rate)
        rows["p"].append(0.5 * step.beta * (bias - after) / 2.0)
        rows["r"].append(r_rate)
        if network.tangent:
            tangent_rate = factor_rate * tangent + factor * tangent_rate
            tangent = 1.0 + factor * tangent
        growth = after
    on_diagonal = growth + tangent_rate / tangent if network.tangent else growth
    a, p, r = (np.stack(rows[name]).astype(network.dtype) for name in ("a", "p", "r"))
    rates = Tables(a, p, r, np.concatenate(rows["deviation"]).astype(network.dtype))
    return rates, growth.astype(network.dtype), on_diagonal


@compiled
def ladder_gradient(
    u: Array,
    du: Array,
    i: int,
    j0: int,
    reference: Array,
    degree: Array,
    whole: int,
    rungs: int,
    odd: int,
    deviation: Array,
    rate: Array,
    q: Array,
    dq: Array,
    slope: Array,
    dslope: Array,
    power: Array,
    rest: Array,
    inverse: Array,
) -> None:
    """As ``forward.ladder_values``, with the derivatives of both sums."""
    one = u.dtype.type(1.0)
    two = u.dtype.type(2.0)
    half = u.dtype.type(0.5)
    quarter = u.dtype.type(0.25)
    zero = u.dtype.type(0.0)
    width = u.shape[0]
    for j in range(width):
        q[j] = dq[j] = slope[j] = dslope[j] = zero
    forward.signed_inverse(u, odd, inverse)
    for rung in range(min(rungs, reference.shape[0] - whole)):
        forward.ladder_start(u, degree[whole + rung], power, rest)
        for k in range(whole + rung, reference.shape[0], rungs):
            much = degree[k]
            for j in range(width):
                apart = deviation[k, i] - deviation[k, j0 + j]
                apart_rate = rate[k, i] - rate[k, j0 + j]
                mine = reference[k] + deviation[k, i]
                theirs = reference[k] + deviation[k, j0 + j]
                product = mine * theirs
                product_rate = rate[k, i] * theirs + mine * rate[k, j0 + j]
                fallen = one + power[j] if odd > 0 and u[j] > half else rest[j]
                lower = power[j] * inverse[j]  # ρ^(κ-1)
                q[j] += quarter * apart * apart + half * product * fallen
                dq[j] += (
                    half * (apart * apart_rate + product_rate * fallen)
                    + much * product * lower * du[j]
                )
                slope[j] += much * product * lower
                bend = lower / (one - two * u[j]) if lower != zero else zero
                dslope[j] += much * (
                    product_rate * lower - two * product * (much - one) * bend * du[j]
                )
            forward.ladder_double(power, rest)


@compiled
def hermite_gradient(
    u: Array,
    du: Array,
    i: int,
    j0: int,
    reference: Array,
    degree: Array,
    whole: int,
    rungs: int,
    odd: int,
    deviation: Array,
    rate: Array,
    q: Array,
    dq: Array,
    slope: Array,
    dslope: Array,
    power: Array,
    lower_power: Array,
    total: Array,
) -> None:
    """As ``forward.hermite_values``, with the derivatives of both sums."""
    one = u.dtype.type(1.0)
    two = u.dtype.type(2.0)
    half = u.dtype.type(0.5)
    quarter = u.dtype.type(0.25)
    zero = u.dtype.type(0.0)
    width = u.shape[0]
    ladder_gradient(
        u,
        du,
        i,
        j0,
        reference,
        degree,
        whole,
        rungs,
        odd,
        deviation,
        rate,
        q,
        dq,
        slope,
        dslope,
        power,
        total,
        lower_power,
    )
    for j in range(width):
        lower_power[j] = zero  # ρ^(k-2)
        power[j] = total[j] = one
    for k in range(1, whole):
        much = degree[k]
        below = much - one
        by_two = k + 1 < whole and degree[k + 1] - much > one
        for j in range(width):
            apart = deviation[k, i] - deviation[k, j0 + j]
            apart_rate = rate[k, i] - rate[k, j0 + j]
            mine = reference[k] + deviation[k, i]
            theirs = reference[k] + deviation[k, j0 + j]
            product = mine * theirs
            product_rate = rate[k, i] * theirs + mine * rate[k, j0 + j]
            q[j] += quarter * apart * apart + product * u[j] * total[j]
            dq[j] += (
                half * apart * apart_rate
                + product_rate * u[j] * total[j]
                + product * much * power[j] * du[j]
            )
            slope[j] += much * product * power[j]
            dslope[j] += much * (
                product_rate * power[j] - two * product * below * lower_power[j] * du[j]
            )
            rho = one - two * u[j]
            lower_power[j] = power[j]
            power[j] *= rho
            total[j] += power[j]
            if by_two:
                lower_power[j] = power[j]
                power[j] *= rho
                total[j] += power[j]


@compiled
def weigh(
    ai: Any,
    ai_rate: Any,
    a: Array,
    a_rate: Array,
    du: Array,
    e: Array,
    de: Array,
    slope: Array,
    dslope: Array,
) -> None:
    """E and P of a homogeneous step times ``a_i a_j``, with their derivatives; ``dslope`` holds
    that of P before.
    """
    for j in range(e.shape[0]):
        both = ai * a[j]
        both_rate = ai_rate * a[j] + ai * a_rate[j]
        dslope[j] = both_rate * slope[j] + both * dslope[j]
        de[j] = both_rate * e[j] + both * slope[j] * du[j]
        e[j] *= both
        slope[j] *= both


@compiled
def spread_apart(pi: Any, pi_rate: Any, p: Array, p_rate: Array, e: Array, de: Array) -> None:
    """Add ``(p_i - p_j)²``, and its derivative."""
    two = e.dtype.type(2.0)
    for j in range(e.shape[0]):
        apart = pi - p[j]
        e[j] += apart * apart
        de[j] += two * apart * (pi_rate - p_rate[j])


@compiled
def transform(
    cosines: Array,
    kernel: Array,
    slab: Array,
    first: int,
    last: int,
    tangent: bool,
    program: Program,
    table: Tables,
    rates: Tables,
    scale: Array,
    growth: Array,
    stretch: Any,
    points: Array,
    refine: Any,
) -> None:
    """Rows ``first`` to ``last``, left of the diagonal and mirrored: the kernel, and its derivative
    to ``slab``.
    """
    one = cosines.dtype.type(1.0)
    two = cosines.dtype.type(2.0)
    half = cosines.dtype.type(0.5)
    # u (1-u) from below: u itself is accurate at zero, but 1-u is rounded, and c ≥ √eps is then as
    # good.
    tiny = cosines.dtype.type(np.finfo(cosines.dtype).tiny)
    eps = cosines.dtype.type(np.finfo(cosines.dtype).eps)
    size = blocks.STRIP
    buffer = np.empty((13, size), cosines.dtype)
    for j0 in range(0, last, size):
        for i in range(first, last):
            end = min(j0 + size, i)
            width = end - j0
            if width <= 0:
                continue
            u, du, t, dt = (
                buffer[0, :width],
                buffer[1, :width],
                buffer[2, :width],
                buffer[3, :width],
            )
            e, de, slope, dslope = (
                buffer[4, :width],
                buffer[5, :width],
                buffer[6, :width],
                buffer[7, :width],
            )
            x, far, work = buffer[8, :width], buffer[9, :width], buffer[10, :width]
            blocks.distances(cosines[i, j0:end], i, j0, points, points, refine, u)
            buffer[1:4] = 0.0
            for step in range(program.kind.shape[0]):
                if program.kind[step] == HERMITE:
                    span = program.span[step, HERMITE_REFERENCE]
                    start, stop = program.deviation_span[step, 0], program.deviation_span[step, 1]
                    degrees = program.span[step, HERMITE_DEGREES]
                    ladder = program.ladder[step]
                    hermite_gradient(
                        u,
                        du,
                        i,
                        j0,
                        program.series[span[0] : span[1]],
                        program.series[degrees[0] : degrees[1]],
                        ladder[0],
                        ladder[1],
                        ladder[2],
                        table.deviation[start:stop],
                        rates.deviation[start:stop],
                        e,
                        de,
                        slope,
                        dslope,
                        x,
                        far,
                        work,
                    )
                else:
                    forward.homogeneous_values(
                        program, step, u, 2 if tangent else 1, e, slope, dslope, x, far, work
                    )
                    if tangent:
                        for j in range(width):
                            dslope[j] *= du[j] / math.sqrt(max(u[j], tiny) * max(one - u[j], eps))
                    weigh(
                        table.a[step, i],
                        rates.a[step, i],
                        table.a[step, j0:end],
                        rates.a[step, j0:end],
                        du,
                        e,
                        de,
                        slope,
                        dslope,
                    )
                spread_apart(
                    table.p[step, i],
                    rates.p[step, i],
                    table.p[step, j0:end],
                    rates.p[step, j0:end],
                    e,
                    de,
                )
                spread_apart(
                    table.r[step, i],
                    rates.r[step, i],
                    table.r[step, j0:end],
                    rates.r[step, j0:end],
                    e,
                    de,
                )
                for j in range(width):
                    u[j] = e[j]
                    du[j] = de[j]
                if tangent:
                    for j in range(width):
                        dt[j] = -two * du[j] + dslope[j] * t[j] + slope[j] * dt[j]
                        t[j] = one - two * u[j] + slope[j] * t[j]
            mine, my_growth = scale[i], growth[i]
            theirs, their_growth = scale[j0:end], growth[j0:end]
            target, target_rate = kernel[i, j0:end], slab[i, j0:end]
            if not tangent:
                for j in range(width):
                    t[j] = one - stretch * u[j]
                    dt[j] = -stretch * du[j]
            for j in range(width):
                both = mine * theirs[j]
                target[j] = both * t[j]
                target_rate[j] = both * (t[j] * half * (my_growth + their_growth[j]) + dt[j])
        for j in range(j0, min(j0 + size, last)):
            for i in range(max(first, j + 1), last):
                kernel[j, i] = kernel[i, j]
                slab[j, i] = slab[i, j]
