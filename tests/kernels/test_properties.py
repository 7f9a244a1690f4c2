"""Properties that hold for all inputs, tried on inputs that Hypothesis makes up."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mnngp import Maxout, MaxoutKernel, ReLU, theory

RANKS = st.integers(1, 12)
# of smaller ones the kernel may be below what its type holds, and is refused (test_depth.py)
NUMBERS = st.floats(-1e3, 1e3).map(lambda number: number if abs(number) > 1e-100 else 0.0)
POINTS = hnp.arrays(
    float, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=7), elements=NUMBERS
)
WEIGHTS, BIASES = st.floats(0.05, 5.0), st.one_of(st.just(0.0), st.floats(1e-6, 3.0))
KINDS = st.sampled_from(["nngp", "ntk"])


def kernels():
    return st.builds(
        MaxoutKernel,
        depth=st.integers(1, 8),
        rank=RANKS,
        weight_var=WEIGHTS,
        bias_var=BIASES,
        kind=KINDS,
    )


@settings(deadline=None, max_examples=60)
@given(rank=st.integers(2, 12), rho=hnp.arrays(float, 5, elements=st.floats(-1.0, 1.0)))
def test_maps_are_increasing_convex_and_bounded(rank, rho):
    unit, rho = Maxout(rank), np.sort(rho)
    moment, slope = unit.moment(rho), unit.derivative(rho)
    assert np.all(np.diff(moment) >= -1e-13)
    assert np.all(np.diff(slope) >= -1e-13)
    assert np.all((slope >= -1e-13) & (slope <= 1.0 + 1e-13))  # a probability
    assert np.all((moment >= -1e-13) & (moment <= unit.second_moment))


@settings(deadline=None, max_examples=60)
@given(kernel=kernels(), X=POINTS)
def test_matrices_are_covariances(kernel, X):
    K = kernel(X)
    assert np.isfinite(K).all()
    assert np.array_equal(K, K.T)
    assert np.array_equal(np.diag(K), kernel.diag(X))
    assert np.all(
        np.abs(K) <= np.outer(np.sqrt(np.diag(K)), np.sqrt(np.diag(K))) * (1.0 + 1e-12) + 1e-300
    )
    normal = kernel.normalized(X)[0]
    assert np.linalg.eigvalsh(normal).min() >= -1e-12 * len(X)


@settings(deadline=None, max_examples=40)
@given(kernel=kernels(), X=POINTS, seed=st.integers(0, 10))
def test_order_and_rotation_do_not_matter(kernel, X, seed):
    rng = np.random.default_rng(seed)
    K = kernel(X)
    order = rng.permutation(len(X))
    tolerance = 1e-11 * np.abs(K).max() + 1e-300
    np.testing.assert_allclose(
        kernel(X[order]), K[np.ix_(order, order)], rtol=1e-12, atol=tolerance
    )
    rotation, _ = np.linalg.qr(rng.normal(size=(X.shape[1], X.shape[1])))
    np.testing.assert_allclose(kernel(X @ rotation), K, rtol=1e-9, atol=tolerance)


@settings(deadline=None, max_examples=40)
@given(
    depth=st.integers(1, 8),
    rank=RANKS,
    weight_var=WEIGHTS,
    kind=KINDS,
    X=POINTS,
    power=st.integers(-20, 20),
)
def test_without_bias_scaling_the_inputs_scales_the_kernel(depth, rank, weight_var, kind, X, power):
    kernel = MaxoutKernel(depth, rank, weight_var=weight_var, bias_var=0.0, kind=kind)
    scale, X = 2.0**power, np.where(np.abs(X) < 1e-120, 0.0, X)  # whose squares are numbers
    np.testing.assert_allclose(kernel(scale * X), scale**2 * kernel(X), rtol=1e-12)


@settings(deadline=None, max_examples=40)
@given(depth=st.integers(1, 25), weight_var=WEIGHTS, bias_var=BIASES, kind=KINDS, X=POINTS)
def test_proposition_1(depth, weight_var, bias_var, kind, X):
    from mnngp import NetworkKernel

    maxout = MaxoutKernel(depth, 2, weight_var=weight_var, bias_var=bias_var, kind=kind)
    relu = NetworkKernel(
        [ReLU()] * depth, weight_var=2.0 * weight_var, bias_var=bias_var, kind=kind
    )
    expected = relu(X / np.sqrt(2.0))
    np.testing.assert_allclose(maxout(X), expected, rtol=1e-11, atol=1e-13 * np.abs(expected).max())


@settings(deadline=None, max_examples=40)
@given(rank=RANKS, weight_var=WEIGHTS, bias_var=BIASES, rho=st.floats(-1.0, 1.0))
def test_correlations_stay_correlations(rank, weight_var, bias_var, rho):
    profile = theory.depth_profile(
        Maxout(rank), 15, weight_var=weight_var, bias_var=bias_var, correlation=rho
    )
    assert np.all(profile.distance >= 0.0)
    assert np.all(np.abs(profile.correlation) <= 1.0 + 1e-15)
    # points only come closer
    assert np.all(profile.distance[1:] <= profile.distance[:-1] * (1.0 + 1e-9) + 1e-15)
