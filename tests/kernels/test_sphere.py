"""Points of one length: angles and short series against the recursion over the layers."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from mnngp import GELU, Abs, Erf, Maxout, MaxoutKernel, NetworkKernel, ReLU, Tanh
from mnngp.activations.chebyshev import Series
from mnngp.errors import MnngpError
from mnngp.inference.solvers.covariance import contraction
from mnngp.kernels import curve, layout, sphere
from mnngp.kernels.evaluate import correlations, diagonal, distances, packed_correlations
from mnngp.kernels.points import Points
from mnngp.kernels.pointwise import behind

NETWORKS = [
    *(MaxoutKernel(depth, rank, 0.78, 0.62) for depth, rank in [(1, 2), (17, 4), (40, 3)]),
    MaxoutKernel(21, 4, 4.83, 0.07),  # chaotic
    MaxoutKernel(21, 2, 0.1, 2.0),  # ordered: distances of 1e-24
    MaxoutKernel(5, 4, 1.0, 0.0),
    MaxoutKernel(9, 3, 1.5, 0.5, kind="ntk"),
    NetworkKernel([ReLU()] * 9, 1.8, 0.8, kind="ntk"),
    NetworkKernel([Abs(), Maxout(3), ReLU()], [0.5, 1.0, 2.0, 1.0], 0.1),
    NetworkKernel([Tanh()] * 5, 3.0, 0.3),
    NetworkKernel([Erf()] * 12, 1.5, 0.1, kind="ntk"),
    NetworkKernel([GELU()] * 4, 1.5, 0.1),
    NetworkKernel([Erf(), Tanh(), GELU()], [50.0, 30.0, 20.0, 1.0], 0.3),  # real degrees
]


def points(n=120, d=9, seed=0):
    """On a sphere, with what is hard: copies, near copies, opposites."""
    x = np.random.default_rng(seed).normal(size=(n, d)) + 0.5
    x[1], x[2], x[3], x[4] = x[0], x[0] + 1e-9, -x[0], -x[0] + 1e-9
    x /= np.linalg.norm(x, axis=1, keepdims=True) / np.sqrt(d)
    return Points(Points.of("X", x, np.dtype(float)).directions, np.ones(n))


def unpacked(memory, n):
    result = np.zeros((n, n))
    for panel in layout.packed(n):
        for i in range(panel.first, panel.last):
            for j in range(panel.begin, panel.end):
                row, column = i + panel.row_shift, j + panel.col_shift
                if (row < column) if panel.part == layout.RIGHT else (row > column):
                    result[row, column] = result[column, row] = memory[i, j]
    for part, values in layout.packed_diagonal(memory, n):
        result[np.arange(n)[part], np.arange(n)[part]] = values
    return result


def test_angles_against_high_precision():
    x = points(12, 5)
    found = sphere.half_angles(x, x)
    with mpmath.workdps(40):
        rows = [[mpmath.mpf(float(value)) for value in row] for row in x.directions]
        for i, a in enumerate(rows):
            for j, b in enumerate(rows):
                apart = mpmath.sqrt(mpmath.fsum((p - q) ** 2 for p, q in zip(a, b, strict=True)))
                other = mpmath.sqrt(mpmath.fsum((p + q) ** 2 for p, q in zip(a, b, strict=True)))
                exact = float(mpmath.atan2(apart, other))
                # measured: 4e-16, and 1e-8 next to opposite points, where u and not 1 - u is known
                # to the last digit
                assert abs(found[i, j] - exact) <= (3e-8 if exact > 1.57 else 1e-15)


@pytest.mark.parametrize("kernel", NETWORKS, ids=repr)
@pytest.mark.parametrize("keep", [True, False])
def test_curves_against_the_recursion(kernel, keep):
    x = points()
    network, n = kernel.network, len(x)
    window = sphere.window(x.subset(np.arange(60, 120)), x.subset(np.arange(60)))
    assert 0.1 < window[0] < window[1] < 1.5  # copies and opposites are outside
    ball = sphere.on_sphere(x, window, keep=keep)
    kappa = contraction(network, x)
    assert contraction(network, ball) == pytest.approx(kappa, rel=1e-9)
    expected = correlations(network, x, contraction=kappa)
    memory, shares = np.empty(layout.packed_shape(n)), []
    packed_correlations(network, ball, memory, contraction=kappa, done=shares.append)
    np.testing.assert_allclose(unpacked(memory, n), expected, atol=1e-14)  # measured: 1.2e-15
    assert sum(shares) == pytest.approx(1.0)
    np.testing.assert_allclose(diagonal(network, ball), diagonal(network, x), rtol=1e-14)
    if not network.tangent:
        found, u = distances(network, ball), distances(network, x)
        np.testing.assert_allclose(found, u, atol=1e-14 * u.max())  # measured: 2.2e-15
    some = ball.beside(x[:30], keep=keep)
    cross = correlations(network, some, ball, contraction=kappa)
    np.testing.assert_allclose(cross[:, 30:], expected[:30, 30:], atol=1e-14)
    part = correlations(network, some[10:20], ball, contraction=kappa)
    np.testing.assert_array_equal(part, cross[10:20])


@pytest.mark.parametrize(
    ("network", "terms"),
    [
        (MaxoutKernel(1, 2, 0.1, 2.0).network, 17),
        (MaxoutKernel(9, 3, 1.5, 0.3).network, 21),
        (MaxoutKernel(1, 2, 4.8, 0.07).network, 25),
        (MaxoutKernel(21, 2, 4.8, 0.07).network, 29),
        (NetworkKernel([Tanh()] * 100, 3.14, 0.97).network, 0),
    ],
)
def test_powers_are_as_good_as_the_chebyshev_series(network, terms):
    """For each number of them there is a loop; a long series stays as it is."""
    low, high = 0.148, 0.843
    line = curve.curve(network, 1.0, (low, high))
    assert len(line.chart.powers) == terms
    angles = np.linspace(low, high, 5000).reshape(2, -1)
    found, series = np.empty_like(angles), np.empty_like(angles)
    line.distances(angles, found)
    replace(line, chart=line.chart._replace(powers=np.empty(0))).distances(angles, series)
    # measured: 5e-16
    np.testing.assert_allclose(found, series, rtol=0.0, atol=2e-15 * series.max())
    if terms:
        steps, _ = behind(np.ones(1), network.blocks)
        exact = curve.OneWay(steps, tangent=False)(np.sin(angles.ravel()) ** 2)[0]
        # measured: 3e-15, as of the Chebyshev series
        np.testing.assert_allclose(found.ravel(), exact, rtol=0.0, atol=1e-14 * exact.max())


def test_powers_that_would_lose_digits_are_not_taken():
    """Those of T_24 are as large as 10⁸, and the series is one."""
    assert curve._powers(Series(np.eye(25)[24], 1.0)).size == 0
    assert curve._powers(Series(np.eye(25)[1], 1.0)).size == 25


def test_without_a_series_everything_goes_through_the_layers(monkeypatch):
    x, network = points(), MaxoutKernel(13, 3, 1.5, 0.2).network
    monkeypatch.setattr(curve, "_FITS", ())
    curve.curve.cache_clear()
    ball = sphere.on_sphere(x, sphere.window(x, x))
    memory = np.empty(layout.packed_shape(len(x)))
    packed_correlations(network, ball, memory)
    np.testing.assert_allclose(unpacked(memory, len(x)), correlations(network, x), atol=1e-14)
    curve.curve.cache_clear()


def test_deep_and_chaotic_smooth_networks_need_a_short_series():
    """100 layers of tanh: the recursion takes half a minute for 1,000 points, because no series
    holds from copies on.
    """
    x = points(40)
    window = sphere.window(x, x)
    network = NetworkKernel([Tanh()] * 100, 3.1413793103448278, 0.9655172413793104).network
    assert len(curve.curve(network, 1.0, window).chart.series) < 130
    memory = np.empty(layout.packed_shape(40))
    packed_correlations(network, sphere.on_sphere(x, window), memory)
    # measured: 1e-16
    np.testing.assert_allclose(unpacked(memory, 40), correlations(network, x), atol=1e-14)


def test_one_pair_and_one_point():
    x = points(6).subset(np.array([0, 5]))
    low, high = sphere.window(x, x)
    assert 0.0 <= low < high <= np.pi / 2
    kernel = MaxoutKernel(3, 2)
    for n in (1, 2, 3):
        few = points(6).subset(np.array([0, 5, 3])[:n])
        ball = sphere.on_sphere(few, sphere.window(few, few))
        memory = np.empty(layout.packed_shape(n))
        packed_correlations(kernel.network, ball, memory)
        np.testing.assert_allclose(
            unpacked(memory, n), correlations(kernel.network, few), atol=1e-14
        )


def test_other_lengths_are_refused():
    x = points(20)
    with pytest.raises(MnngpError, match="must all have the squared length 1"):
        sphere.on_sphere(Points(x.directions, np.linspace(1.0, 2.0, 20)), (0.1, 1.0))


def test_float32_goes_the_usual_way():
    x = points(50)
    kernel = MaxoutKernel(3, 2, dtype="float32")
    single = Points(x.directions.astype(np.float32), x.square_lengths)
    ball = sphere.Sphere(single.directions, single.square_lengths, (0.1, 1.5))
    np.testing.assert_array_equal(
        distances(kernel.network, ball), distances(kernel.network, single)
    )
