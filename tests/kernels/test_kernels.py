import mpmath
import numpy as np
import pytest

from mnngp import (
    GELU,
    Abs,
    Erf,
    LeakyReLU,
    Maxout,
    MaxoutKernel,
    NetworkKernel,
    ReLU,
    Tanh,
)
from mnngp.activations import SmoothActivation
from mnngp.errors import AccuracyWarning, ScaleError
from mnngp.experiments.tabulated import TabulatedMaxout
from mnngp.kernels import evaluate
from mnngp.kernels.points import Points
from tests import plain
from tests.contracts import check_kernel

MIXED = [Maxout(4), Maxout(1), LeakyReLU(0.3), Abs(), ReLU()]
SMOOTH = [Maxout(3), Erf(), GELU(), Maxout(2)]
KERNELS = [
    MaxoutKernel(1, 2),
    MaxoutKernel(3, 4, weight_var=0.8, bias_var=0.3),
    MaxoutKernel(3, 4, weight_var=0.8, bias_var=0.3, kind="ntk"),
    MaxoutKernel(2, 1, bias_var=0.0),  # a linear network
    # no bias: a function of the angle alone
    MaxoutKernel(7, 64, weight_var=0.1756, bias_var=0.0, kind="ntk"),
    MaxoutKernel(2, 3, weight_var=[0.5, 1.0, 2.0], bias_var=[0.1, 0.2, 0.0]),
    MaxoutKernel(3, 3, weight_var_bounds="fixed", bias_var_bounds="fixed"),
    NetworkKernel(MIXED, weight_var=0.9, bias_var=0.2),
    NetworkKernel(MIXED, weight_var=0.9, bias_var=0.2, kind="ntk"),
    NetworkKernel([Tanh()] * 2, weight_var=1.5, bias_var=0.1),
    NetworkKernel(SMOOTH, weight_var=0.9, bias_var=0.2),
    NetworkKernel(SMOOTH, weight_var=0.9, bias_var=0.2, kind="ntk"),
    NetworkKernel([TabulatedMaxout(3, n_grid=201, n_rho=101)] * 2, weight_var=0.9, bias_var=0.2),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_contract(kernel):
    check_kernel(kernel)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_contract_in_single_precision(kernel):
    """Measured worst against float64, relative to the largest entry: 1e-6."""
    single = kernel.clone_with_theta(kernel.theta)
    single.dtype = "float32"
    check_kernel(single, tolerance=3e-6)
    X = np.random.default_rng(2).normal(size=(20, 6))
    np.testing.assert_allclose(single(X), kernel(X), atol=1e-5 * np.abs(kernel(X)).max())


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("equal_lengths", [False, True])
@pytest.mark.parametrize("bias_var", [0.2, 0.0])
@pytest.mark.parametrize(
    "layers", [[Maxout(3)], [Maxout(4)] * 6, MIXED, [Maxout(1)] * 2, [Tanh()] * 2, SMOOTH], ids=str
)
def test_against_the_plain_recursion(layers, bias_var, equal_lengths, kind):
    rng = np.random.default_rng(0)
    count = 8 if layers in ([Tanh()] * 2, SMOOTH) else 40
    X, Y = rng.normal(size=(count, 7)), rng.normal(size=(count // 2, 7))
    if equal_lengths:
        X, Y = (Z / np.linalg.norm(Z, axis=1, keepdims=True) for Z in (X, Y))
    expected = plain.kernel(layers, X, Y, weight_var=0.9, bias_var=bias_var, kind=kind)
    found = NetworkKernel(layers, weight_var=0.9, bias_var=bias_var, kind=kind)(X, Y)
    # Measured worst: 3e-14 of the scale, where a linear network's covariances pass zero.
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=2e-13 * np.abs(expected).max())


def test_variances_of_each_layer():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(9, 3)), rng.normal(size=(8, 3))
    w, b = [0.5, 2.0, 1.25, 0.7], [0.3, 0.0, 0.1, 0.2]
    layers = [Maxout(2), ReLU(), Maxout(5)]
    expected = plain.kernel(layers, X, Y, weight_var=w, bias_var=b)
    np.testing.assert_allclose(
        NetworkKernel(layers, weight_var=w, bias_var=b)(X, Y), expected, rtol=1e-13
    )


def test_path_gives_every_depth():
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(12, 4)), np.eye(5)):
        for kind in ("nngp", "ntk"):
            found = dict(MaxoutKernel(9, 3, kind=kind).path(X, depths=(9, 1, 5, 5)))
            assert list(found) == [1, 5, 9]
            for depth, K in found.items():
                np.testing.assert_allclose(K, MaxoutKernel(depth, 3, kind=kind)(X), rtol=2e-13)
    beyond = dict(MaxoutKernel(2, 3).path(X, depths=[4]))
    np.testing.assert_allclose(beyond[4], MaxoutKernel(4, 3)(X), rtol=1e-14)


def test_matrices_of_the_path_are_the_callers():
    X = np.random.default_rng(0).normal(size=(6, 3))
    kept = []
    for _, K in MaxoutKernel(4, 3).path(X):
        kept.append(K.copy())
        K[:] = np.nan
    assert np.isfinite(kept).all()


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("rank", [2, 3, 8])
def test_the_short_cut_for_equal_lengths_is_exact(monkeypatch, rank, kind):
    """The network collapsed into one series against the layers one by one, to rounding, at all
    depths.
    """
    X = np.random.default_rng(0).normal(size=(60, 9))
    X /= np.linalg.norm(X, axis=1, keepdims=True) / 3.0
    kernel = MaxoutKernel(
        100, rank, weight_var=Maxout(rank).critical_weight_var, bias_var=0.05, kind=kind
    )
    quick = dict(kernel.path(X, depths=(1, 5, 21, 100)))
    used = evaluate._collapsed(kernel.network, np.ones(3), [100])
    assert used is not None
    monkeypatch.setattr(evaluate, "_collapsed", lambda *_: None)
    for depth, K in kernel.path(X, depths=(1, 5, 21, 100)):
        np.testing.assert_allclose(quick[depth], K, rtol=2e-13, atol=1e-14 * K.max())


def test_no_bias_takes_the_short_cut_for_any_lengths():
    network = MaxoutKernel(5, 3, bias_var=0.0).network
    assert evaluate._collapsed(network, np.array([1.0, 2.0, 0.0]), [5]) is not None
    assert (
        evaluate._collapsed(MaxoutKernel(5, 3, bias_var=0.1).network, np.array([1.0, 2.0]), [5])
        is None
    )


def test_layers_that_do_not_fit_the_table_memory_are_done_in_parts(monkeypatch):
    X = np.random.default_rng(0).normal(size=(20, 4))
    for kind in ("nngp", "ntk"):
        kernel = NetworkKernel([Maxout(3)] * 4 + [Tanh()] + [Maxout(2)] * 4, kind=kind)
        whole = kernel(X)
        monkeypatch.setattr(evaluate, "_TABLE_BYTES", 1)
        np.testing.assert_allclose(kernel(X), whole, rtol=1e-14)
        monkeypatch.undo()


def test_threads_do_not_change_the_result():
    from threadpoolctl import threadpool_limits

    X = np.random.default_rng(0).normal(size=(700, 30))
    kernel = MaxoutKernel(4, 3)
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            results.append(kernel(X))
    assert np.array_equal(*results)


def test_thread_limits_hold_and_are_given_back(monkeypatch):
    from threadpoolctl import threadpool_info, threadpool_limits

    from mnngp._system import threads

    seen = []
    executor = threads.ThreadPoolExecutor
    monkeypatch.setattr(
        threads, "ThreadPoolExecutor", lambda count: seen.append(count) or executor(count)
    )
    X = np.random.default_rng(0).normal(size=(600, 20))
    with threadpool_limits(1, user_api="blas"):
        MaxoutKernel(3, 3)(X)
        assert not seen
    with threadpool_limits(2, user_api="blas"):
        before = [pool["num_threads"] for pool in threadpool_info()]
        MaxoutKernel(3, 3)(X)
        assert [pool["num_threads"] for pool in threadpool_info()] == before
    assert set(seen) == {2}


def test_overlapping_callers_give_the_cores_back():
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_info

    X = np.random.default_rng(0).normal(size=(600, 20))
    kernel = MaxoutKernel(3, 3)
    once = kernel(X)
    before = [pool["num_threads"] for pool in threadpool_info()]
    with ThreadPoolExecutor(4) as pool:
        for other in pool.map(kernel, [X] * 40):
            assert np.array_equal(once, other)
    assert [pool["num_threads"] for pool in threadpool_info()] == before


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
        way = way_of(np.zeros((8, 4)), 1, 4)
        way.u[0] = found[i]
        advance(program, both, both, i, 0, way, 0)
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
