"""Equal, opposite, zero, tiny and huge points."""

import numpy as np
import pytest

from mnngp import (
    Abs,
    LeakyReLU,
    Maxout,
    MaxoutKernel,
    NetworkKernel,
    ReLU,
    Tanh,
)
from mnngp.errors import ScaleError
from mnngp.experiments.tabulated import TabulatedMaxout
from mnngp.kernels.points import Points
from tests import plain

# --- hard points ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bias_var", [0.2, 0.0])
@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_duplicate_opposite_zero_tiny_and_huge_points(bias_var, kind):
    base = np.array([0.3, -1.2, 0.7])
    X = np.array(
        [
            base,
            base,
            -base,
            0.0 * base,
            1e-300 * base,
            5e-324 * np.sign(base),
            1e150 * base,
            base * (1.0 + 1e-15),
        ]
    )
    kernel = MaxoutKernel(3, 3, weight_var=0.5, bias_var=bias_var, kind=kind)
    K, gradient = kernel(X, eval_gradient=True)
    assert np.isfinite(K).all()
    assert np.isfinite(gradient).all()
    assert K[0, 1] == pytest.approx(K[0, 0], rel=1e-15)
    assert K[0, 7] == pytest.approx(K[0, 0], rel=1e-14)
    # 1e-600 is nothing beside the bias, or beside itself
    np.testing.assert_allclose(K[3], K[4], rtol=1e-14)
    expected = plain.kernel(
        [Maxout(3)] * 3, X[:4], X[:4], weight_var=0.5, bias_var=bias_var, kind=kind
    )
    np.testing.assert_allclose(K[:3, :3], expected[:3, :3], rtol=1e-12)
    if bias_var:
        np.testing.assert_allclose(K[:4, :4], expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize(
    "activation",
    [Maxout(2), ReLU(), Abs(), LeakyReLU(-1.0 + 1e-11), LeakyReLU(-0.5), LeakyReLU(3.0)],
    ids=repr,
)
@pytest.mark.parametrize(
    "bias_var", [[0.0, 0.0, 0.1], [0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.0, 0.1, 0.0]], ids=str
)
def test_opposite_points_and_biases_in_some_layers(activation, bias_var, kind):
    """After a ReLU layer without bias opposite points have correlation zero: u is ½ and a
    rounding.
    """
    x = np.array([0.3, -1.2, 0.7])
    X = np.array([x, -x, 2.0 * x, [1.0, 0.2, -0.1]])
    for points in (X, X[:, :1]):
        kernel = NetworkKernel([activation] * 2, weight_var=0.9, bias_var=bias_var, kind=kind)
        expected = plain.kernel(
            [activation] * 2, points, points, weight_var=0.9, bias_var=bias_var, kind=kind
        )
        # the plain recursion takes a square root of rounding at ρ = ±1
        tolerance = 3e-8 if kind == "ntk" else 1e-13
        for found in (
            kernel(points),
            kernel(points, eval_gradient=True)[0],
            kernel(points, points.copy()),
        ):
            np.testing.assert_allclose(
                found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max()
            )


def test_exactly_opposite_points_are_exactly_opposite():
    X = np.random.default_rng(0).normal(size=(1, 50))
    K = NetworkKernel([Abs()] * 3, bias_var=0.0, kind="ntk")(np.concatenate([X, -X]))
    assert K[0, 1] == pytest.approx(K[0, 0], rel=1e-14)  # |z| does not know the sign


@pytest.mark.parametrize(
    ("weight_var", "bias_var", "depth"),
    [(0.1, 0.3, 100), (0.5, 0.1, 300), (1e-5, 0.1, 21), (0.1, 0.3, 1000)],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_equal_lengths_in_the_ordered_phase(weight_var, bias_var, depth, dtype):
    X = np.random.default_rng(0).normal(size=(20, 6))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    for kind in ("nngp", "ntk"):
        K = MaxoutKernel(
            depth, 2, weight_var=weight_var, bias_var=bias_var, dtype=dtype, kind=kind
        )(X)
        variance = bias_var / (1.0 - weight_var)
        np.testing.assert_allclose(
            K, variance / (1.0 - weight_var) if kind == "ntk" else variance, rtol=1e-5
        )


def test_variances_that_leave_floating_point_within_the_network():
    X = np.random.default_rng(0).normal(size=(5, 4))
    for scale in (1e-155, 1e-158, 1e-161):
        np.testing.assert_allclose(
            MaxoutKernel(2, 3)(scale * X), MaxoutKernel(2, 3)(0.0 * X), rtol=1e-13
        )
    late = MaxoutKernel(600, 2, weight_var=0.1, bias_var=[0.0] * 600 + [0.1])
    np.testing.assert_allclose(late(X), 0.1, rtol=1e-13)
    with pytest.raises(ScaleError, match=r"variance before Tanh\(\) overflows"):
        NetworkKernel([Maxout(2)] * 400 + [Tanh()], weight_var=[10.0] * 401 + [1.0])(X)
    with pytest.raises(ScaleError, match="cannot hold"):
        MaxoutKernel(2, 3, weight_var=1e150)(X)


def test_the_papers_coarse_grid_makes_no_nan():
    X = np.random.default_rng(0).normal(size=(3, 4))
    close = np.concatenate([X, X * (1.0 + 1e-9), X + 1e-7])
    layers = [TabulatedMaxout(4, n_grid=51, r_max=100.0, n_rho=101), ReLU()]
    assert np.isfinite(NetworkKernel(layers)(close)).all()


def test_a_zero_point_in_a_smooth_network_without_bias():
    X = np.array([[0.0, 0.0], [1.0, 2.0], [0.5, -1.0]])
    K, gradient = NetworkKernel([Tanh()] * 2, bias_var=0.0)(X, eval_gradient=True)
    np.testing.assert_array_equal(K[0], 0.0)
    assert np.isfinite(gradient).all()


def test_points_too_long_for_floating_point():
    with pytest.raises(ScaleError, match=r"X\[1\] is too long"):
        MaxoutKernel()(np.array([[1.0, 2.0], [1e200, 0.0]]))


def test_directions_of_tiny_points_are_kept():
    """Without bias the correlation depends on the directions alone, also of points whose squares
    underflow.
    """
    X = np.random.default_rng(0).normal(size=(6, 4))
    kernel = MaxoutKernel(2, 3, bias_var=0.0)
    first, *others = (kernel.normalized(scale * X)[0] for scale in (1.0, 1e-100, 1e-150, 1e140))
    for other in others:
        correlation = [K / np.sqrt(np.outer(np.diag(K), np.diag(K))) for K in (first, other)]
        np.testing.assert_allclose(*correlation, rtol=1e-13)


def test_nearly_equal_points_are_told_apart():
    """1 - cos has no digit left at a distance of 1e-9; the difference has."""
    X = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0 + 1e-9]])
    from mnngp.kernels import forward

    points = Points.of("X", X, np.dtype(float))
    u = np.empty(1)
    cosine = points.directions[:1] @ points.directions[1]
    forward.distances(cosine, points.directions, 0, points.directions, 1, 1e-3, u)
    # sin²(angle/2) with the angle from the cross product
    angle = np.linalg.norm(np.cross(X[0], X[1] - X[0])) / (X[0] @ X[0])
    assert u[0] == pytest.approx(angle**2 / 4.0, rel=1e-6)
