"""Smooth activations, at any variance."""

import mpmath
import numpy as np
import pytest

from mnngp import (
    GELU,
    Erf,
    Maxout,
    NetworkKernel,
    ReLU,
    Tanh,
)
from mnngp.activations import SmoothActivation
from mnngp.errors import AccuracyWarning, ScaleError
from mnngp.kernels import evaluate
from mnngp.kernels.points import Points
from tests.contracts import check_kernel

# --- smooth activations at large variances --------------------------------------------------------


class Plain(SmoothActivation):
    """Tanh as a user would write it: only its function and slope are known."""

    def function(self, z):
        return np.tanh(z)

    def slope(self, z):
        return 1.0 - np.tanh(z) ** 2


def test_smooth_networks_warn_where_the_series_is_not_accurate():
    X = 100.0 * np.random.default_rng(0).normal(size=(5, 3))
    with pytest.warns(AccuracyWarning, match=r"Plain.* at variance .*standardise"):
        NetworkKernel([Plain()])(X)


def exact_erf_network(X, depth, w, b):
    """NNGP, NTK and ``(1 - ρ)/2`` by Williams' closed form, in the precision that mpmath is set
    to.
    """
    w, b = mpmath.mpf(w), mpmath.mpf(b)
    rows = [[mpmath.mpf(float(x)) for x in row] for row in X]
    n, two = range(len(X)), 2 / mpmath.pi
    C = [
        [b + w * sum(p * q for p, q in zip(r, s, strict=True)) / len(r) for s in rows] for r in rows
    ]
    T = C
    for _ in range(depth):
        root = [
            [mpmath.sqrt((1 + 2 * C[i][i]) * (1 + 2 * C[j][j]) - 4 * C[i][j] ** 2) for j in n]
            for i in n
        ]
        slope = [[2 * two / root[i][j] for j in n] for i in n]
        C = [[b + w * two * mpmath.atan2(2 * C[i][j], root[i][j]) for j in n] for i in n]
        T = [[C[i][j] + w * slope[i][j] * T[i][j] for j in n] for i in n]
    u = [[(1 - C[i][j] / mpmath.sqrt(C[i][i] * C[j][j])) / 2 for j in n] for i in n]
    return tuple(np.array([[float(value) for value in row] for row in M]) for M in (C, T, u))


@pytest.mark.parametrize(
    ("scale", "weight_var"), [(1.0, 1.5), (30.0, 4.0), (1e4, 300.0), (1e7, 1e4)]
)
def test_deep_erf_networks_at_large_variances(scale, weight_var):
    """Against the closed form with 120 digits, relative to √(K_ii K_jj), for variances to 1e18.

    Measured worst: 1.2e-14, and in float32 6e-7.
    """
    rng = np.random.default_rng(0)
    X = (
        scale
        * rng.normal(size=(9, 6))
        * np.array([1.0, 1.0, 0.5, 0.1, 1e-3, 1e-8, 1.0, 1.0, 0.0])[:, None]
    )
    X[6], X[7] = X[0] * (1.0 + 1e-6), 3.0 * X[1]
    depth, b = 3, 0.1
    with mpmath.workdps(120):
        nngp, ntk, _ = exact_erf_network(X, depth, weight_var, b)
    for kind, expected in (("nngp", nngp), ("ntk", ntk)):
        kernel = NetworkKernel([Erf()] * depth, weight_var, b, kind)
        size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        for found in (
            kernel(X),
            kernel(X, X.copy()),
            kernel(X, eval_gradient=True)[0],
            dict(kernel.path(X))[depth],
        ):
            assert np.abs((found - expected) / size).max() < 1e-12
        np.testing.assert_allclose(kernel.diag(X), np.diag(expected), rtol=1e-13)
        single = NetworkKernel([Erf()] * depth, weight_var, b, kind, dtype="float32")(X)
        assert np.abs((single - expected) / size).max() < 3e-6


def test_distances_of_a_smooth_network_keep_their_relative_accuracy_in_the_ordered_phase():
    """Large biases, small weights: variances near 100, and distances below 1e-50 behind 40 layers.
    Measured worst: 3.3e-13.
    """
    X = np.random.default_rng(3).normal(size=(4, 5))
    X[1] = X[0] * (1.0 + 1e-9)
    depth, w, b = 40, 1.0, 100.0
    kernel = NetworkKernel([Erf()] * depth, w, b)
    with mpmath.workdps(250):
        _, _, exact = exact_erf_network(X, depth, w, b)
    found = evaluate.distances(kernel.network, Points.of("X", X, np.dtype(float)))
    for i in range(4):
        for j in range(i):
            assert 0.0 < exact[i, j] < 1e-50
            assert found[i, j] == pytest.approx(
                exact[i, j], rel=1e-6 if (i, j) == (1, 0) else 1e-11
            )


def test_wide_networks_with_large_weights():
    """Sampled networks of three smooth activations, in standard errors; their pre-activations have
    variances of some 30 to 600.
    """
    layers, weight_var, bias_var, width, networks = (
        [GELU(), Tanh(), Erf()],
        [40.0, 30.0, 50.0, 2.0],
        0.5,
        400,
        150,
    )
    X = np.array([[1.0, -0.5, 0.3, 0.8], [0.9, -0.4, 0.4, 0.8], [-0.7, 0.4, 1.5, -0.2]])
    rng = np.random.default_rng(7)
    samples = np.empty((networks, 3, 3))
    for index in range(networks):
        hidden = X
        for activation, w in zip(layers, weight_var, strict=False):
            weights = rng.normal(scale=np.sqrt(w / hidden.shape[1]), size=(hidden.shape[1], width))
            hidden = activation.function(
                hidden @ weights + rng.normal(scale=np.sqrt(bias_var), size=width)
            )
        samples[index] = bias_var + weight_var[-1] * hidden @ hidden.T / width
    kernel = NetworkKernel(layers, weight_var, bias_var)(X)
    error = samples.std(axis=0, ddof=1) / np.sqrt(networks)
    assert np.abs((samples.mean(axis=0) - kernel) / error).max() < 4.0


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize(
    "layers", [[Erf()] * 2, [Tanh()] * 2, [GELU()] * 2, [GELU(), Erf(), Maxout(2), Tanh()]], ids=str
)
def test_contract_at_large_variances(layers, kind):
    check_kernel(
        NetworkKernel(
            layers,
            weight_var=[1e5, 300.0, 2.0, 3.0, 1.5][: len(layers) + 1],
            bias_var=0.2,
            kind=kind,
        )
    )


@pytest.mark.parametrize(
    ("layers", "weight_var", "kind", "dtype", "message"),
    [
        ([GELU()] * 6, 1e60, "nngp", "float64", r"variance behind GELU\(\) overflows"),
        (
            [Maxout(2)] * 400 + [Tanh()],
            10.0,
            "nngp",
            "float64",
            r"variance before Tanh\(\) "
            r"overflows",
        ),
        (
            [Erf()] * 12,
            1e60,
            "ntk",
            "float64",
            "tangent kernel at depth 12 .* cannot hold their ratio",
        ),
        (
            [Erf()] * 3,
            1e60,
            "ntk",
            "float32",
            "tangent kernel at depth 3 .* cannot hold their ratio",
        ),
        ([ReLU()] * 3, 1e200, "nngp", "float64", "float64 cannot hold"),
        ([Erf()], 1e-50, "nngp", "float32", "float32 cannot hold"),
    ],
)
def test_a_scale_error_comes_alone(layers, weight_var, kind, dtype, message):
    """Warnings are errors here: that NumPy overflowed on the way would be one."""
    kernel = NetworkKernel(layers, weight_var, bias_var=0.0, kind=kind, dtype=dtype)
    X = np.random.default_rng(0).normal(size=(4, 3))
    for call in (
        kernel,
        kernel.diag,
        lambda Z: kernel(Z, eval_gradient=True),
        lambda Z: kernel(Z, Z[:2]),
    ):
        with pytest.raises(ScaleError, match=message):
            call(X)
    with pytest.raises(ScaleError, match=r"cannot hold|overflows"):  # of one depth or another
        list(kernel.path(X))


def test_a_gradient_that_does_not_fit_says_so():
    X = 1e154 * np.ones((2, 3))
    kernel = NetworkKernel([ReLU()] * 3, weight_var=1.0, bias_var=0.0, kind="ntk")
    assert np.isfinite(kernel(X)).all()
    with pytest.raises(ScaleError, match="gradient is too large for float64"):
        kernel(X, eval_gradient=True)
