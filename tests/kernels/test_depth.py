"""Great depth: relative accuracy, scales that do not fit."""

import mpmath
import numpy as np
import pytest

from mnngp import (
    Maxout,
    MaxoutKernel,
)
from mnngp.errors import ScaleError
from mnngp.kernels.points import Points

# --- great depth ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize(
    ("rank", "weight_var", "bias_var"),
    [(2, 1.0, 0.0), (2, 0.5, 0.3), (4, 0.6446, 0.1), (3, 0.1, 0.34), (2, 1.5, 0.1)],
)
def test_depth_one_thousand(rank, weight_var, bias_var, kind):
    X = np.random.default_rng(0).normal(size=(50, 6))
    kernel = MaxoutKernel(1000, rank, weight_var=weight_var, bias_var=bias_var, kind=kind)
    K = kernel(X)
    assert np.isfinite(K).all()
    assert np.array_equal(K, K.T)
    assert np.array_equal(np.diag(K), kernel.diag(X))
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues[0] >= -1e-12 * eigenvalues[-1]


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_single_precision_at_depth_one_thousand(kind):
    X = np.random.default_rng(0).normal(size=(50, 6))
    for weight_var, bias_var in ((1.0, 0.0), (0.6, 0.1), (1.02, 0.1)):
        single, double = (
            MaxoutKernel(1000, 2, weight_var=weight_var, bias_var=bias_var, kind=kind, dtype=dtype)
            for dtype in ("float32", "float64")
        )
        np.testing.assert_allclose(single(X), double(X), rtol=1e-5)


def test_a_kernel_that_does_not_fit_its_type_says_so():
    X = np.random.default_rng(0).normal(size=(5, 3))
    large = {"depth": 60, "rank": 4, "weight_var": 4.83, "bias_var": 0.1}
    double = MaxoutKernel(**large)(X)
    single = MaxoutKernel(**large, dtype="float32")
    for call in (single, single.diag, lambda Z: single(Z, eval_gradient=True)):
        with pytest.raises(ScaleError, match=r"float32 cannot hold.*dtype='float64'.*normalized"):
            call(X)
    K, log_scale = single.normalized(X)
    np.testing.assert_allclose(K * np.exp(log_scale), double, rtol=1e-5)

    # too small, by so much that a factor of its derivative overflows, or its distances underflow
    for depth in (1000, 2000):
        small = MaxoutKernel(depth, 4, weight_var=0.01, bias_var=0.0)
        with pytest.raises(ScaleError, match="float64 cannot hold"):
            small(X)

    for weight_var in (4.83, 0.2):  # too large, and too small
        deep = MaxoutKernel(1000, 4, weight_var=weight_var, bias_var=0.0)
        with pytest.raises(ScaleError, match="float64 cannot hold"):
            deep(X)
        K, log_scale = deep.normalized(X)
        assert np.isfinite(K).all()
        # without bias every layer multiplies by w M, and the first by w
        expected = 1000 * np.log(weight_var * Maxout(4).second_moment) + np.log(
            weight_var * (X**2).mean(axis=1)
        )
        np.testing.assert_allclose(np.log(np.diag(K)) + log_scale, expected, rtol=1e-13)


def test_distances_keep_their_relative_accuracy_in_the_ordered_phase():
    """At depth 100 all correlations are one to 1e-100; the distance carried inside must still be
    right, relative to itself.

    The reference is the same recursion in 250-digit arithmetic, with the closed form of rank 2.
    """
    from mnngp.kernels.forward import advance, way_of
    from mnngp.kernels.pointwise import behind
    from mnngp.kernels.program import pack, side

    X = np.random.default_rng(3).normal(size=(4, 5))
    X[1] = X[0] * (1.0 + 1e-9)  # nearly equal, in direction and length
    depth, w, b = 100, 0.1, 0.34
    kernel = MaxoutKernel(depth, 2, weight_var=w, bias_var=b)
    points = Points.of("X", X, np.dtype(float))
    steps, _ = behind(points.square_lengths, kernel.network.blocks)
    program, both = pack(steps, np.dtype(float)), side(steps, points.directions, np.ones(4))
    found = np.maximum(
        np.array([((row - points.directions) ** 2).sum(axis=1) / 4.0 for row in points.directions]),
        0.0,
    )
    for i in range(4):
        way = way_of(np.zeros((8, 4)), 1)
        way.u[0] = found[i]
        advance(program, both, both, i, 0, 4, way, 0)
        found[i] = way.u[0]

    with mpmath.workdps(250):
        w_, b_ = mpmath.mpf(w), mpmath.mpf(b)
        rows = [[mpmath.mpf(float(x)) for x in row] for row in X]
        C = [
            [b_ + w_ * sum(p * q for p, q in zip(r, s, strict=True)) / 5 for s in rows]
            for r in rows
        ]
        for _ in range(depth):
            new = [[None] * 4 for _ in range(4)]
            for i in range(4):
                for j in range(4):
                    scale = mpmath.sqrt(C[i][i] * C[j][j])
                    angle = mpmath.acos(min(C[i][j] / scale, mpmath.mpf(1)))
                    new[i][j] = (
                        b_
                        + w_
                        * scale
                        * (mpmath.sin(angle) + (mpmath.pi - angle) * mpmath.cos(angle))
                        / mpmath.pi
                    )
            C = new
        for i in range(4):
            for j in range(i):
                exact = float((1 - C[i][j] / mpmath.sqrt(C[i][i] * C[j][j])) / 2)
                assert 0.0 < exact < 1e-90
                assert found[i, j] == pytest.approx(exact, rel=1e-6 if (i, j) == (1, 0) else 1e-11)
