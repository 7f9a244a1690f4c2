"""Write maxout_reference.json: the dual activation of maxout units to twenty digits, and its
derivative.

For ``q`` independent pairs ``(h_i, h'_i)`` of unit Gaussians with correlation ``ρ``, and the maxima
``M = max h_i`` and ``M' = max h'_i``, the file holds

    moment      F(ρ) = E[M M'],
    derivative  P(ρ) = F'(ρ) = P(argmax h = argmax h'),
    deficit     D(ρ) = F(1) - F(ρ) = E[(M - M')²] / 2.

Nothing here is shared with the library, which integrates P over ρ in float64, and has P from Owen's
T function. The deficit is an expectation over the joint density of the maxima,

    q φ₂(x, y) Φ₂(x, y)^(q-1) + q (q-1) ∂ₓΦ₂ ∂ᵧΦ₂ Φ₂^(q-2),

of a square, so that all terms are positive and it is relatively accurate also where it vanishes.
The coordinates are ``x = c a + s b``, ``y = c a - s b``, with c, s the cosine and sine of θ/2, and
ρ = cos θ. In them

    (x - y)² / 2 = 2 s² b²,   φ₂(x, y) dx dy = φ(a) φ(b) da db,   dx dy = 2 c s da db,
    ∂ₓΦ₂ = φ(x) Φ(s a - c b),   ∂ᵧΦ₂ = φ(y) Φ(s a + c b),   dΦ₂/da = c (∂ₓΦ₂ + ∂ᵧΦ₂),   Φ₂ = 0 at a
    = -∞.

The last two give Φ₂ along each line of constant b as an indefinite integral: Gauss-Legendre panels
in ``a`` with their integration matrix. In ``b``, the trapezoidal rule converges geometrically. All
of it is arithmetic on Python's integers in fixed point (numpy loops over them); mpmath supplies the
tables and constants.

The script asserts that halving the step and the panels changes nothing, that the differences of D
between neighbouring ρ are the integrals of P (another formula, with only the first of the two terms
above), and the closed forms that there are.

Run ``python tests/reference/maxout_reference.py``; it needs numpy and mpmath, and about a quarter
of an hour on one core.
"""

import json
import sys
import time
from functools import cache
from itertools import pairwise
from pathlib import Path

import mpmath
import numpy as np
from mpmath import mp, mpf

RANKS = (2, 3, 4, 5, 8, 16, 32, 64, 128, 256)
CORRELATIONS = (
    *(
        -1 + 1e-12,
        -0.999,
        -0.99,
        -0.9,
        -0.6,
        -0.25,
        0.0,
        0.1,
        0.3,
        0.5,
        0.7,
        0.9,
        0.97,
        0.99,
        0.999,
        0.9999,
    ),
    *(1 - 1e-6, 1 - 1e-8, 1 - 1e-10, 1 - 1e-12, 1 - 2.0**-53),
)
BITS = 140  # after the binary point: a rounding of 1e-42
mp.prec = 180

RADIUS = 11  # exp(-RADIUS²/2) = 5e-27 bounds what is cut off
STEP = mpf(1) / 12  # of the trapezoidal rule in b
WIDTH = mpf(1)  # of the panels in a
NODES = 24  # in a panel

# the table of Φ has a spacing of 2^-4, and a Taylor series of so many terms at each entry
TABLE_LOG2 = 4
TABLE_TERMS = 23
TABLE_END = 13  # beyond, Φ is 0 or 1: Φ(-13) = 6e-39

TOLERANCE = mpf("1e-20")


def fixed(value):
    """An mpmath number as an integer in units of 2^-BITS."""
    return int(mp.nint(mp.ldexp(value, BITS)))


def fixed_array(values):
    return np.array([fixed(v) for v in values], dtype=object)


def real(value):
    """An integer in units of 2^-BITS as an mpmath number."""
    return mp.ldexp(mpf(int(value)), -BITS)


def times(first, second):
    return (first * second) >> BITS


# --------------------------------------------------------------------------------------------------
# The normal distribution
# ---------------------------------------------------------------------------------------------------------------------------


@cache
def normal_tables():
    """Taylor coefficients of φ and Φ at the multiples of 2^-TABLE_LOG2, each as (terms,
    entries).
    """
    count = TABLE_END << TABLE_LOG2
    density, cumulative = [], []
    for k in range(-count, count + 1):
        z = mp.ldexp(mpf(k), -TABLE_LOG2)
        derivatives = [mp.npdf(z), -z * mp.npdf(z)]
        for n in range(1, TABLE_TERMS):
            derivatives.append(-z * derivatives[n] - n * derivatives[n - 1])
        density.append(
            [fixed(d / mp.factorial(n)) for n, d in enumerate(derivatives[:TABLE_TERMS])]
        )
        cumulative.append(
            [
                fixed(mp.ncdf(z)),
                *(
                    fixed(d / mp.factorial(n + 1))
                    for n, d in enumerate(derivatives[: TABLE_TERMS - 1])
                ),
            ]
        )
    return tuple(np.array(t, dtype=object).T for t in (density, cumulative))


def normal(kind, z):
    """φ (``kind`` 0) or Φ (1) of an array of fixed-point numbers."""
    table = normal_tables()[kind]
    shift = BITS - TABLE_LOG2
    end = TABLE_END << BITS
    z = np.clip(z, -end, end)
    nearest = (z + (1 << (shift - 1))) >> shift
    offset = z - (nearest << shift)
    index = nearest.astype(np.int64) + (TABLE_END << TABLE_LOG2)
    result = table[-1][index]
    for coefficients in table[-2::-1]:
        result = times(result, offset) + coefficients[index]
    return result


# --------------------------------------------------------------------------------------------------
# Quadrature
# ---------------------------------------------------------------------------------------------------------------------------


def legendre(n, t):
    """P_0(t), ..., P_n(t)."""
    values = [mpf(1), t]
    for k in range(1, n):
        values.append(((2 * k + 1) * t * values[k] - k * values[k - 1]) / (k + 1))
    return values[: n + 1]


@cache
def gauss(n):
    """Nodes and weights on [-1, 1]."""
    nodes, weights = [], []
    for i in range(n):
        t = -mp.cos(mp.pi * (i + mpf(3) / 4) / (n + mpf(1) / 2))
        for _ in range(8):
            below, value = legendre(n, t)[-2:]
            slope = n * (below - t * value) / (1 - t * t)
            t -= value / slope
        nodes.append(t)
        weights.append(2 / ((1 - t * t) * slope**2))
    return nodes, weights


@cache
def integration_matrix(n):
    """``matrix @ f(nodes)`` is the integral of f from -1 to each node, for polynomials of degree
    below n.
    """
    nodes, weights = gauss(n)
    polynomials = [legendre(n, t) for t in nodes]
    return np.array(
        [
            [
                fixed(
                    w / 2 * (1 + t + mp.fsum(pj[k] * (pi[k + 1] - pi[k - 1]) for k in range(1, n)))
                )
                for w, pj in zip(weights, polynomials, strict=True)
            ]
            for t, pi in zip(nodes, polynomials, strict=True)
        ],
        dtype=object,
    )


def panels(c, width):
    """Ends of the panels in a, for both terms of the density.

    The first decays like exp(-a²/2). The second has a step of unit width at a = 0, and decays to
    the right like exp(-c² a²): as ρ → -1, the panels grow from the one scale to the other.
    """
    ends = [mpf(-RADIUS) + i * width for i in range(int(2 * RADIUS / width) + 1)]
    while ends[-1] * c < 8:  # exp(-64) = 2e-28
        ends.append(ends[-1] + min(2 * (ends[-1] - ends[-2]), width / (4 * c)))
    return ends


class Powers:
    """Integer powers of an array in fixed point, each computed once."""

    def __init__(self, base):
        self._known = {0: np.full(base.shape, 1 << BITS, dtype=object), 1: base}

    def __getitem__(self, exponent):
        if exponent not in self._known:
            square = times(self[exponent // 2], self[exponent // 2])
            self._known[exponent] = times(square, self[1]) if exponent % 2 else square
        return self._known[exponent]


def half_angle(rho):
    """Cosine and sine of θ/2, for the very number that the float is."""
    return mp.sqrt((1 + mpf(rho)) / 2), mp.sqrt((1 - mpf(rho)) / 2)


def evaluate(c, s, refine=1):
    """``{rank: (P, D)}`` at the angle with cos θ/2 = c and sin θ/2 = s, where c > 0 and s > 0."""
    width, step = WIDTH / refine, STEP / refine
    t, weights = gauss(NODES)
    ends = panels(c, width)
    half_widths = [(v - u) / 2 for u, v in pairwise(ends)]
    a = [u + h * (1 + ti) for u, h in zip(ends[:-1], half_widths, strict=True) for ti in t]
    # and as much to the left of zero
    b = [(j + mpf(1) / 2) * step for j in range(int(RADIUS / step))]
    a_fixed, b_fixed = fixed_array(a)[None, :], fixed_array(b)[:, None]
    ca, sa = times(fixed(c), a_fixed), times(fixed(s), a_fixed)
    cb, sb = times(fixed(c), b_fixed), times(fixed(s), b_fixed)

    by_x = times(normal(0, ca + sb), normal(1, sa - cb))
    by_y = times(normal(0, ca - sb), normal(1, sa + cb))
    slope = (by_x + by_y).reshape(len(b), len(half_widths), NODES)
    within = slope @ integration_matrix(NODES).T >> BITS
    whole = slope @ fixed_array(weights) >> BITS
    scale = fixed_array([c * h for h in half_widths])
    whole = np.cumsum(times(whole, scale), axis=1)
    before = np.concatenate([np.zeros((len(b), 1), dtype=object), whole[:, :-1]], axis=1)
    both_below = (before[:, :, None] + times(within, scale[:, None])).reshape(len(b), -1)

    # The Jacobian 2 c s enters without its s, which is put back last: no small numbers here as ρ →
    # 1.
    node_weights = [h * w for h in half_widths for w in weights]
    gaussian_weights = fixed_array([w * mp.npdf(v) for w, v in zip(node_weights, a, strict=True)])
    plain_weights = fixed_array([2 * c * w for w in node_weights])
    b_weights = [2 * step * mp.npdf(v) for v in b]
    powers = Powers(both_below)
    product = times(by_x, by_y)
    result = {}
    for q in RANKS:
        same = [real(v) for v in powers[q - 1] @ gaussian_weights >> BITS]
        different = [real(v) for v in times(product, powers[q - 2]) @ plain_weights >> BITS]
        first = mp.fsum(v**2 * w * f for v, w, f in zip(b, b_weights, same, strict=True))
        second = mp.fsum(v**2 * 2 * step * f for v, f in zip(b, different, strict=True))
        result[q] = q * mp.fdot(b_weights, same), 2 * s**2 * (q * first + q * (q - 1) * s * second)
    return result


# --------------------------------------------------------------------------------------------------
# The ends, where one of the two variables is gone
# ---------------------------------------------------------------------------------------------------------------------------


def maximum_moments(step):
    """``{rank: (E[M], E[M²])}``, by the trapezoidal rule."""
    count = int(12 / step)
    x = [j * step for j in range(-count, count + 1)]
    density, below = [mp.npdf(v) for v in x], [mp.ncdf(v) for v in x]
    return {
        q: tuple(
            q
            * step
            * mp.fsum(v**k * f * p ** (q - 1) for v, f, p in zip(x, density, below, strict=True))
            for k in (1, 2)
        )
        for q in RANKS
    }


def deficits_at_minus_one(width, step):
    """``{rank: E[(max + min)²] / 2}``, for M' = -min h_i at ρ = -1.

    The joint density of the maximum u + v and the minimum v - u, u > 0, is q (q-1) φ φ (Φ(u + v) -
    Φ(v - u))^(q-2).
    """
    t, weights = gauss(NODES)
    u = [width * (i + (1 + ti) / 2) for i in range(int(8 / width)) for ti in t]
    v = [(j + mpf(1) / 2) * step for j in range(int(8 / step))]
    u_fixed, v_fixed = fixed_array(u)[None, :], fixed_array(v)[:, None]
    powers = Powers(normal(1, v_fixed + u_fixed) - normal(1, v_fixed - u_fixed))
    u_weights = fixed_array(
        [width / 2 * w * mp.exp(-(x**2)) for x, w in zip(u, weights * int(8 / width), strict=True)]
    )
    result = {}
    for q in RANKS:
        lines = [real(f) for f in powers[q - 2] @ u_weights >> BITS]
        # 2 v² for the square, 2 for the Jacobian, 2 for both signs of v, 1 / (2 π) from the two
        # densities
        result[q] = (
            q
            * (q - 1)
            * 4
            / mp.pi
            * step
            * mp.fsum(x**2 * mp.exp(-(x**2)) * f for x, f in zip(v, lines, strict=True))
        )
    return result


# --------------------------------------------------------------------------------------------------
# Checks
# ---------------------------------------------------------------------------------------------------------------------------


def check(what, error, tolerance=TOLERANCE):
    if not abs(error) <= tolerance:
        raise AssertionError(
            f"{what}: off by {mp.nstr(error, 3)}, which is more than {mp.nstr(tolerance, 3)}"
        )
    return abs(error)


def check_normal():
    z = [mpf(k) / 7 for k in range(-95, 95)]
    for kind, exact in enumerate((mp.npdf, mp.ncdf)):
        for value, at in zip(normal(kind, fixed_array(z)), z, strict=True):
            check(f"the normal distribution at {at}", real(value) - exact(at), mpf("1e-37"))


def check_closed_forms(values, moments):
    check("F_3(1)", moments[3][1] - (1 + mp.sqrt(3) / (2 * mp.pi)))
    check("F_4(1)", moments[4][1] - (1 + mp.sqrt(3) / mp.pi))
    for rho, value in values.items():
        theta = 2 * mp.atan2(*reversed(half_angle(rho)))
        probability, deficit = value[2]
        check(f"P_2({rho})", probability - (1 - theta / mp.pi))
        # 1 - cos θ - (sin θ - θ cos θ) / π, which is of order θ² as a difference of terms of order
        # θ
        exact = 1 - (mp.sin(theta) + (mp.pi - theta) * mp.cos(theta)) / mp.pi
        check(f"D_2({rho})", deficit - exact, TOLERANCE * exact)
    for q in RANKS:
        check(f"P_{q}(0)", values[0.0][q][0] - mpf(1) / q)
        check(f"F_{q}(0)", moments[q][1] - values[0.0][q][1] - moments[q][0] ** 2)


def check_integrals(values):
    """The differences of D between neighbouring ρ, against ∫ P sin θ dθ; relative to the larger D.
    Returns the worst.
    """
    worst = mpf(0)
    correlations = (*sorted(values), 1.0)
    for low, high in pairwise(correlations):
        end, start = (2 * mp.atan2(*reversed(half_angle(rho))) for rho in (low, high))
        length = end - start
        t, weights = gauss(
            20 if length > 0.3 else 16 if length > 0.1 else 10 if length > 0.01 else 7
        )
        integral = dict.fromkeys(RANKS, mpf(0))
        for ti, w in zip(t, weights, strict=True):
            theta = start + length * (1 + ti) / 2
            for q, (probability, _) in evaluate(mp.cos(theta / 2), mp.sin(theta / 2)).items():
                integral[q] += length / 2 * w * mp.sin(theta) * probability
        for q in RANKS:
            deficit = values[low][q][1]
            beyond = values[high][q][1] if high < 1.0 else 0
            error = (deficit - beyond - integral[q]) / deficit
            worst = max(worst, check(f"the integral of P_{q} from {low} to {high}", error))
        print(f"integral from {low!r} to {high!r}: worst so far {mp.nstr(worst, 3)}", flush=True)
    return worst


def main():
    began = time.perf_counter()
    check_normal()

    moments, finer = maximum_moments(mpf(1) / 16), maximum_moments(mpf(1) / 32)
    for q in RANKS:
        for value, other in zip(moments[q], finer[q], strict=True):
            check(f"moments of the maximum of {q}", value - other)

    at_minus_one, finer = (
        deficits_at_minus_one(WIDTH / 4, STEP),
        deficits_at_minus_one(WIDTH / 8, STEP / 2),
    )
    for q in RANKS:
        check(f"D_{q}(-1)", at_minus_one[q] - finer[q])
    at_minus_one = finer

    values, halving = {}, mpf(0)
    for rho in CORRELATIONS:
        coarse, fine = evaluate(*half_angle(rho)), evaluate(*half_angle(rho), refine=2)
        for q in RANKS:
            halving = max(halving, check(f"halving for P_{q}({rho})", coarse[q][0] - fine[q][0]))
            halving = max(
                halving, check(f"halving for D_{q}({rho})", coarse[q][1] / fine[q][1] - 1)
            )
        values[rho] = fine
        print(
            f"rho = {rho!r}: halving so far {mp.nstr(halving, 3)}, "
            f"{time.perf_counter() - began:.0f} s",
            flush=True,
        )

    check_closed_forms(values, moments)
    # P = 0 at ρ = -1, and less than θ' = π - θ near it, so that D changes by less than θ'^3 / 3
    for q in RANKS:
        angle = 2 * half_angle(-1 + 1e-12)[0]
        check(f"D_{q} next to -1", at_minus_one[q] - values[-1 + 1e-12][q][1], angle**3 / 3)
    integrals = check_integrals(values)

    def row(rho, moment, derivative, deficit):
        # What is below the accuracy of P (it is of order θ'^(q-1) next to -1) is noise: not
        # written.
        derivative = mpf(0) if abs(derivative) < mpf("1e-38") else derivative
        numbers = {"moment": moment, "derivative": derivative, "deficit": deficit}
        return {"rho": repr(rho), **{name: mp.nstr(number, 20) for name, number in numbers.items()}}

    table = {}
    for q in RANKS:
        whole = moments[q][1]
        rows = [row(-1.0, whole - at_minus_one[q], mpf(0), at_minus_one[q])]
        rows += [row(rho, whole - values[rho][q][1], *values[rho][q]) for rho in sorted(values)]
        rows.append(row(1.0, whole, mpf(1), mpf(0)))
        table[str(q)] = rows
    origin = (
        "tests/reference/maxout_reference.py, which explains the method: quadrature of the joint "
        "density of the two maxima in "
        f"{BITS}-bit fixed point, with mpmath {mpmath.__version__}, Python "
        f"{sys.version.split()[0]}. rho is the exact value of "
        "the float64. Halving all steps changes the values (absolutely; the deficit relatively) by "
        "at most "
        f"{mp.nstr(halving, 2)}; the differences of the deficit are the integrals of the "
        f"derivative to {mp.nstr(integrals, 2)} "
        "of the deficit; all closed forms hold to 1e-20."
    )
    path = Path(__file__).with_suffix(".json")
    path.write_text(
        json.dumps({"origin": origin, "values": table}, indent=1) + "\n", encoding="utf-8"
    )
    print(f"{path}: {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
