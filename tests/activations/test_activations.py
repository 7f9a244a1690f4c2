import json
from itertools import combinations_with_replacement
from pathlib import Path

import mpmath
import numpy as np
import pytest

from mnngp import GELU, Abs, Erf, LeakyReLU, Maxout, NetworkKernel, ReLU, Tanh
from mnngp.activations import SmoothActivation
from mnngp.activations.degrees import Degrees
from mnngp.activations.smooth import MOST_TERMS
from mnngp.errors import AccuracyWarning, InputError
from mnngp.kernels.forward import advance, way_of
from mnngp.kernels.pointwise import inputs, walk
from mnngp.kernels.program import pack, side
from mnngp.networks.layers import Block
from tests.contracts import check_activation

ACTIVATIONS = [
    *(Maxout(rank) for rank in (1, 2, 3, 4, 8, 32, 256)),
    ReLU(),
    LeakyReLU(0.2),
    LeakyReLU(-0.5),
    Abs(),
    Erf(),
    Tanh(),
    GELU(),
]
REFERENCE, TANH_REFERENCE = (
    json.loads((Path(__file__).parents[1] / "reference" / f"{name}_reference.json").read_text())[
        "values"
    ]
    for name in ("maxout", "tanh")
)
RHO = np.linspace(-1.0, 1.0, 1001)
THETA = np.arccos(RHO)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
def test_contract(activation):
    check_activation(activation)


# --- maxout against closed forms ------------------------------------------------------------------


def test_rank_one_is_linear():
    np.testing.assert_allclose(Maxout(1).moment(RHO), RHO, atol=2e-16)
    np.testing.assert_array_equal(Maxout(1).derivative(RHO), 1.0)


def test_rank_two_is_the_arc_cosine_kernel():
    # Measured worst: 1.0e-15 for both.
    np.testing.assert_allclose(
        Maxout(2).moment(RHO), (np.sin(THETA) + (np.pi - THETA) * RHO) / np.pi, atol=5e-15
    )
    np.testing.assert_allclose(Maxout(2).derivative(RHO), 1.0 - THETA / np.pi, atol=5e-15)


def test_second_moments_of_ranks_three_and_four():
    assert Maxout(3).second_moment == pytest.approx(1.0 + np.sqrt(3.0) / (2.0 * np.pi), abs=1e-15)
    assert Maxout(4).second_moment == pytest.approx(1.0 + np.sqrt(3.0) / np.pi, abs=1e-15)


@pytest.mark.parametrize("rank", [2, 3, 4, 7, 16, 50, 256])
def test_anchors(rank):
    unit = Maxout(rank)
    tolerance = 1e-13 if rank <= 16 else 1e-12
    assert unit.moment(0.0) == pytest.approx(unit.mean**2, abs=tolerance)
    assert unit.derivative(0.0) == pytest.approx(1.0 / rank, abs=tolerance)
    assert unit.derivative(1.0) == pytest.approx(1.0, abs=tolerance)
    # F_q(-1) = -E[max · min], by a product of two one-dimensional distributions on a fine grid
    from scipy.special import ndtr

    x = np.arange(-9.0, 9.0, 1.0 / 64.0) + 1.0 / 128.0
    density = np.exp(-x * x / 2.0) / np.sqrt(2.0 * np.pi) / 64.0
    if rank > 3:  # (Φ(x) - Φ(y))^(q-2) is smooth across the diagonal only from there on
        between = np.clip(ndtr(x)[:, None] - ndtr(x), 0.0, 1.0) ** (rank - 2)
        direct = (
            -rank * (rank - 1) * (np.tril(between, -1) * np.outer(x * density, x * density)).sum()
        )
        assert unit.moment(-1.0) == pytest.approx(direct, abs=1e-5)
    assert unit.moment(-1.0) >= -1e-14  # so no correlation after the first layer is negative


def test_published_critical_weight_variances():
    published = {2: 1.0, 3: 0.78391, 4: 0.64461, 5: 0.55555}
    for rank, value in published.items():
        assert Maxout(rank).critical_weight_var == pytest.approx(value, abs=6e-6)


# --- maxout against high-precision values ---------------------------------------------------------


@pytest.mark.parametrize("rank", sorted(map(int, REFERENCE)))
def test_against_high_precision_reference(rank):
    unit, tolerance = Maxout(rank), 1e-13 if rank <= 16 else 1e-12
    for row in REFERENCE[str(rank)]:
        rho = float(row["rho"])
        assert unit.moment(rho) == pytest.approx(float(row["moment"]), abs=tolerance)
        assert unit.derivative(rho) == pytest.approx(float(row["derivative"]), abs=tolerance)
        if rho > 0.0 and rho != 1.0:
            assert unit.deficit(rho) == pytest.approx(float(row["deficit"]), rel=1e-10)


def test_stated_error_holds_between_the_nodes():
    """The series against the quadrature itself on a much finer grid, all over [-1, 1]; all ranks
    share that grid.
    """
    from mnngp.activations.maxout import both_below

    ranks, theta = (2, 3, 4, 8, 16, 17, 64, 100, 256), np.linspace(0.0, np.pi, 83)
    direct = np.array(
        [
            [rank * (below ** (rank - 1) @ weight) for rank in ranks]
            for below, weight in both_below(theta, 301)
        ]
    )
    for rank, values in zip(ranks, direct.T, strict=True):
        worst = np.abs(Maxout(rank).derivative(np.cos(theta)) - values).max()
        # the finer sum has its own rounding
        assert worst <= Maxout(rank).error + 1e-14 + 1e-16 * rank, rank
        assert Maxout(rank).error <= (1e-13 if rank <= 16 else 1e-12)


def test_monte_carlo():
    rng = np.random.default_rng(0)
    count = 400_000
    for rank in (3, 5):
        for rho in (-0.8, 0.4):
            first = rng.normal(size=(count, rank))
            second = rho * first + np.sqrt(1.0 - rho**2) * rng.normal(size=(count, rank))
            product = first.max(axis=1) * second.max(axis=1)
            same = first.argmax(axis=1) == second.argmax(axis=1)
            for sample, value in (
                (product, Maxout(rank).moment(rho)),
                (same, Maxout(rank).derivative(rho)),
            ):
                assert abs(sample.mean() - value) < 4.5 * sample.std() / np.sqrt(count)


# --- the other activations ------------------------------------------------------------------------


def test_homogeneous_closed_forms():
    relu = (np.sin(THETA) + (np.pi - THETA) * RHO) / (2.0 * np.pi)
    np.testing.assert_allclose(ReLU().moment(RHO), relu, atol=5e-15)
    np.testing.assert_allclose(Abs().moment(RHO), 4.0 * relu - RHO, atol=5e-15)
    slope = 0.3  # max(z, 0) - slope · max(-z, 0)
    mirrored = (np.sin(THETA) - THETA * RHO) / (2.0 * np.pi)  # E[max(z, 0) max(-z', 0)]
    np.testing.assert_allclose(
        LeakyReLU(slope).moment(RHO), (1.0 + slope**2) * relu - 2.0 * slope * mirrored, atol=5e-15
    )
    assert ReLU().critical_weight_var == 2.0


def test_erf_closed_form():
    """Williams (1997): E[erf(z) erf(z')] = 2/π arcsin(2ρ/3) at unit variance."""
    np.testing.assert_allclose(
        Erf().moment(RHO), 2.0 / np.pi * np.arcsin(2.0 * RHO / 3.0), atol=1e-15
    )
    slope = 4.0 / np.pi / np.sqrt(9.0 - 4.0 * RHO**2)
    np.testing.assert_allclose(Erf().derivative(RHO), slope, atol=2e-14)


# --- at any variance ------------------------------------------------------------------------------


def one_layer(activation, v, w, u):
    """``(1 - κ)/2``, ``E[φφ']`` and ``E[φ'φ']`` by the compiled step, κ the correlation behind the
    layer; no bias, weight one.
    """
    double = np.dtype(float)
    points = inputs(np.array([v, w]))
    steps = list(walk(points, [Block(activation, 1.0, 0.0)]))
    both = side(steps, np.zeros((2, 1)), np.ones(2))
    way = way_of(np.empty((8, 1)), 1)
    way.u[0], way.t[0] = u, 1.0
    advance(pack(steps, double, tangent=True), both, both, 0, 1, 1, way, 0)
    distance, tangent = way.u[0], way.t[0]
    scale, correlation = float(np.sqrt(points.variance).prod()), 1.0 - 2.0 * distance[0]
    return (
        distance[0],
        scale * correlation,
        scale * (tangent[0] - correlation) / np.sqrt(v) / np.sqrt(w),
    )


def closed_form(activation, v, w, u):
    """``E[φφ']`` and ``E[φ'φ']``: Williams (1997) for erf, and what Stein's lemma makes of z Φ(z)
    for GELU.
    """
    v, w, u = map(mpmath.mpf, (v, w, u))
    c = (1 - 2 * u) * mpmath.sqrt(v * w)
    if activation == Erf():
        a = (1 + 2 * v) * (1 + 2 * w)
        return 2 / mpmath.pi * mpmath.asin(2 * c / mpmath.sqrt(a)), 4 / mpmath.pi / mpmath.sqrt(
            a - 4 * c**2
        )
    a = (1 + v) * (1 + w)
    root, arcsine, even = (
        mpmath.sqrt(a - c**2),
        mpmath.asin(c / mpmath.sqrt(a)),
        v * w + c**2 * (1 - v * w) / a,
    )
    slope = arcsine + c * (1 + 2 * (1 - v * w) / a + even / root**2) / root
    return c / 4 + (c * arcsine + even / root) / (2 * mpmath.pi), mpmath.mpf(1) / 4 + slope / (
        2 * mpmath.pi
    )


@pytest.mark.parametrize("activation", [Erf(), GELU()], ids=repr)
def test_closed_forms_at_any_variance(activation):
    """Measured worst: 2e-15 of √(E φ² E φ'²), and 9e-15 of E[φ'φ'] (of that at |ρ| where ρ < 0:
    GELU's goes to zero there).
    """
    variances = (1e-300, 1e-12, 0.3, 2.0, 40.0, 1e6, 1e30, 1e200)
    distances = (0.0, 1e-60, 1e-16, 1e-6, 0.01, 0.45, 0.5, 0.8, 1.0 - 2.0**-20, 1.0 - 2.0**-40, 1.0)
    for v, w in combinations_with_replacement(variances, 2):
        with mpmath.workdps(
            60 + int(np.log10(w) * 2) + (300 if v < 1e-100 else 0) if w > 1.0 else 360
        ):
            scale = mpmath.sqrt(
                closed_form(activation, v, v, 0)[0] * closed_form(activation, w, w, 0)[0]
            )
            for u in distances:
                _, moment, slope = one_layer(activation, v, w, u)
                exact, exact_slope = closed_form(activation, v, w, u)
                assert abs(moment - exact) <= 1e-14 * scale, (v, w, u)
                mirrored = (
                    exact_slope if u <= 0.5 else closed_form(activation, v, w, 1 - mpmath.mpf(u))[1]
                )
                assert abs(slope - exact_slope) <= 3e-14 * mirrored, (v, w, u)


def test_tanh_at_any_variance():
    """Against Fourier integrals (reference/tanh_reference.py), relative. Measured worst: 8e-15 for
    both.
    """
    for row in TANH_REFERENCE:
        for u, sign in ((row["u"], 1.0), (1.0 - row["u"], -1.0)):
            if 0.0 < row["u"] < 1e-16 and sign < 0.0:
                continue  # 1 - u is rounded
            _, moment, slope = one_layer(Tanh(), row["v"], row["w"], u)
            assert moment == pytest.approx(sign * float(row["moment"]), rel=3e-14), row
            assert slope == pytest.approx(float(row["derivative"]), rel=3e-14), row


@pytest.mark.parametrize("activation", [Erf(), Tanh(), GELU()], ids=repr)
def test_variances_and_slopes_are_those_of_the_coefficients(activation):
    """Three closed forms against the series, whose coefficients and rates are computed apart.
    Measured worst: 8e-15.
    """
    for v in (0.0, 1e-300, 1e-8, 0.3, 1.0, 3.0, 100.0, 1e8, 1e30, 1e200):
        at = np.array([v])
        expansion = activation.expansion(v)
        coefficients, rates = expansion.coefficients(at)[0], expansion.rates(at)[0]
        assert activation.variance(at)[0] == pytest.approx(coefficients @ coefficients, rel=3e-14)
        if v > 0.0:
            degrees = expansion.degrees.values
            assert activation.slope_variance(at)[0] == pytest.approx(
                degrees @ coefficients**2 / v, rel=3e-14
            )
            assert activation.variance_slope(at)[0] == pytest.approx(
                2.0 * coefficients @ rates / v, rel=3e-14
            )
    assert activation.variance_slope(np.zeros(1))[0] == pytest.approx(
        activation.slope(np.zeros(1))[0] ** 2
    )
    assert activation.error < 1e-13


@pytest.mark.parametrize("odd", [True, False])
def test_few_degrees_stand_for_all(odd):
    """``Σ y^k/k`` and its derivative over the odd or the even k, for y from 0 to 1 - 2^-46.
    Measured worst: 7e-15, relative.
    """
    gap = 2.0 ** -np.arange(0.0, 47.0)
    y = 1.0 - gap
    degrees = Degrees.up_to(1e16, odd=odd)
    assert degrees.whole < len(degrees.values) < 320
    assert np.all(degrees.weights > 0.0)
    squares = degrees.weights / np.maximum(degrees.values, 1.0)
    squares[: 1 if odd else 2] = 0.0
    total = 0.5 * np.log((2.0 - gap) / gap) if odd else -0.5 * np.log(gap * (2.0 - gap))
    slope = (1.0 if odd else y) / (gap * (2.0 - gap))
    np.testing.assert_allclose(degrees.sum(squares, y), total, rtol=2e-14)
    np.testing.assert_allclose(degrees.slope(squares, y), slope, rtol=2e-14)
    sign = -1.0 if odd else 1.0
    np.testing.assert_allclose(degrees.sum(squares, -y), sign * degrees.sum(squares, y), rtol=1e-15)
    np.testing.assert_allclose(
        degrees.slope(squares, -y), -sign * degrees.slope(squares, y), rtol=1e-15
    )
    # Near one the fall is the gap times a slope; away from it the difference of two sums.
    near = np.array([1e-300, 1e-40, 1e-20])
    np.testing.assert_allclose(
        degrees.deficit(squares, near), near * (degrees.values @ squares), rtol=1e-3
    )
    at_one = degrees.sum(squares, np.ones(1))
    np.testing.assert_allclose(
        degrees.deficit(squares, gap), at_one - degrees.sum(squares, y), rtol=1e-13
    )


def test_another_function_is_not_taken_for_the_one_above_it():
    class Half(Tanh):
        def function(self, z):
            return np.tanh(z / 2.0)

        def slope(self, z):
            return 0.5 / np.cosh(z / 2.0) ** 2

    assert Tanh().exact
    assert not Half().exact
    # tanh(z/2) at variance v is tanh at v/4
    _, moment, slope = one_layer(Half(), 4.0, 2.0, 0.2)
    _, expected, expected_slope = one_layer(Tanh(), 1.0, 0.5, 0.2)
    assert moment == pytest.approx(expected, rel=1e-13)
    assert slope == pytest.approx(expected_slope / 4.0, rel=1e-12)


class Plain(SmoothActivation):
    """Tanh as a user would write it: only its function and slope are known."""

    def function(self, z):
        return np.tanh(z)

    def slope(self, z):
        return 1.0 - np.tanh(z) ** 2


def test_a_series_has_at_most_the_most_terms():
    """At this variance the last term there is is the first that is enough."""
    variance = 6.763293882313718
    count, remainder = Plain().terms(variance)
    assert count == MOST_TERMS
    assert remainder < 1e-13
    for v in np.linspace(6.5, 7.0, 40):
        assert Plain().terms(v)[0] <= MOST_TERMS
    X = np.array([[1.0], [0.5]])
    found, expected = (
        NetworkKernel([unit], weight_var=[variance, 1.0], bias_var=0.0)(X)
        for unit in (Plain(), Tanh())
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


# --- any other activation -------------------------------------------------------------------------


@pytest.mark.parametrize("activation", [Erf(), Tanh(), GELU()], ids=repr)
@pytest.mark.parametrize("variance", [0.01, 1.0, 6.0])
def test_hermite_remainder_is_honest(activation, variance):
    """What the series leaves out at ρ = 1 is what it says."""
    terms, remainder = activation.terms(variance)
    squares = activation.hermite(np.array([variance]), terms)[0] ** 2
    total = activation.variance(np.array([variance]))[0]
    slope_total = variance * activation.slope_variance(np.array([variance]))[0]
    assert abs(squares.sum() - total) <= 1e-13 * total
    assert (
        abs(np.arange(terms) @ squares - slope_total) <= max(2.0 * remainder, 1e-13) * slope_total
    )


def test_hermite_series_says_when_it_is_not_accurate():
    class Steep(Tanh):
        def function(self, z):
            return super().function(50.0 * z)

        def slope(self, z):
            return 50.0 * super().slope(50.0 * z)

    assert isinstance(Steep(), SmoothActivation)
    with pytest.warns(AccuracyWarning, match="leaves out"):
        Steep().moment(0.5)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, -1, 2.0, "2", None, True, np.nan, [2]])
def test_rank_must_be_a_positive_integer(rank):
    with pytest.raises(InputError, match=r"rank must be a positive integer .* got"):
        Maxout(rank)


def test_numpy_integers_are_integers():
    assert Maxout(np.int64(3)) == Maxout(3)


def test_other_parameters_are_checked():
    with pytest.raises(InputError, match="negative_slope"):
        LeakyReLU(np.inf)
