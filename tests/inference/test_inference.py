"""Posteriors against scikit-learn's, refitting, differences, high precision, and what happens when
things go wrong.
"""

import contextlib
import math
import tracemalloc

import mpmath
import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mnngp import Erf, Maxout, MaxoutGPRegressor, MaxoutKernel, NetworkKernel, ReLU
from mnngp.activations import SmoothActivation
from mnngp.errors import AccuracyWarning, FactorizationError, InputError, ScaleError
from mnngp.inference import Posterior, log_evidence_gradient
from mnngp.inference import factor as factor_module
from mnngp.inference import packed as packed_module
from mnngp.inference.factor import contraction
from mnngp.inference.packed import Packed
from mnngp.kernels.evaluate import correlations, distances, packed_correlations


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(61, 4)), rng.normal(size=(23, 4))
    return X, np.column_stack([np.sin(X.sum(axis=1)), X[:, 0] ** 2]), new


# --- the packed factorisation ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 192, 193, 385, 500])
@pytest.mark.parametrize("block", [50, 4096])
def test_packed_against_dense(n, dtype, block, monkeypatch):
    monkeypatch.setattr(packed_module, "_BLOCK", block)
    rng = np.random.default_rng(n)
    kernel = MaxoutKernel(3, 3, dtype=dtype)
    x, _ = kernel._points(rng.normal(size=(n, 5)), None)
    matrix = Packed(n, dtype)
    packed_correlations(kernel.network, x, matrix.memory)
    dense = correlations(kernel.network, x).astype(np.float64) + 0.1 * np.eye(n)
    matrix.add_to_diagonal(np.full(n, 0.1))
    assert matrix.memory.size == n * (n + 1) // 2
    np.testing.assert_allclose(matrix.diagonal(), np.diag(dense), rtol=1e-6)
    shares = []
    assert matrix.factor(shares.append) == 0
    b = rng.normal(size=(n, 3))
    expected = np.linalg.solve(dense, b)
    # measured: 2e-13 in float64 and 4e-5 in float32, relative to the largest
    tolerance = (1e-11 if dtype == "float64" else 1e-3) * np.abs(expected).max()
    np.testing.assert_allclose(matrix.solve(b), expected, atol=tolerance)
    np.testing.assert_allclose(matrix.solve(b[:, 0]), expected[:, 0], atol=tolerance)
    half = np.asfortranarray(b.astype(dtype))
    matrix.forward(half)
    tolerance = 1e-9 if dtype == "float64" else 1e-3
    np.testing.assert_allclose(
        (half.astype(float) ** 2).sum(axis=0), (b * expected).sum(axis=0), rtol=tolerance
    )
    assert matrix.log_determinant() == pytest.approx(
        np.linalg.slogdet(dense)[1], rel=1e-4, abs=1e-5
    )
    inverse = np.diag(np.linalg.inv(dense))
    np.testing.assert_allclose(
        matrix.inverse().diagonal(), inverse, rtol=1e-10 if dtype == "float64" else 1e-3
    )
    if n > 100:
        assert sum(shares) == pytest.approx(1.0, abs=0.05)


def test_packed_in_several_passes(monkeypatch):
    """Tables that do not fit their memory cut the layers into runs, with distances and tangents
    kept in packed memory between.
    """
    from mnngp.kernels import evaluate as matrix_module

    X = np.random.default_rng(0).normal(size=(101, 3))
    for kind in ("nngp", "ntk"):
        kernel = NetworkKernel([Maxout(3), Erf(), ReLU()], kind=kind)
        x, _ = kernel._points(X, None)
        once, cut = Packed(101, "float64"), Packed(101, "float64")
        packed_correlations(kernel.network, x, once.memory)
        monkeypatch.setattr(matrix_module, "_TABLE_BYTES", 1)
        packed_correlations(kernel.network, x, cut.memory)
        monkeypatch.undo()
        np.testing.assert_allclose(cut.memory, once.memory, rtol=1e-14)


def test_a_matrix_that_is_not_positive_definite_is_noticed():
    for n, row in ((10, 2), (10, 8)):  # in either half
        matrix = Packed(n, "float64")
        matrix.memory[:] = 0.0
        diagonal = np.ones(n)
        diagonal[row] = -1.0
        matrix.add_to_diagonal(diagonal)
        assert matrix.factor() == row + 1


# --- the posterior --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("weight_var", [1.0, 0.05])
def test_posterior_against_scikit_learn(table, kind, weight_var):
    X, y, new = table
    kernel = MaxoutKernel(3, 3, weight_var, 0.3, kind)
    ours, theirs = (
        Posterior(kernel, X, y, 1e-3),
        GaussianProcessRegressor(kernel, alpha=1e-3, optimizer=None).fit(X, y),
    )
    mean, covariance = theirs.predict(new, return_cov=True)
    np.testing.assert_allclose(ours.mean(new), mean, atol=1e-9)
    for result, expected in zip(
        ours.mean_and_covariance(new), (mean, covariance[..., 0]), strict=True
    ):
        np.testing.assert_allclose(result, expected, atol=1e-9)
    np.testing.assert_allclose(
        ours.mean_and_variance(new)[1], np.diag(covariance[..., 0]), atol=1e-9
    )
    assert ours.log_marginal_likelihood() == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-9
    )
    assert (ours.report.contraction < 1e-3) == (kind == "nngp" and weight_var == 0.05)
    one = Posterior(kernel, X, y[:, 1], 1e-3)
    np.testing.assert_allclose(one.mean(new), mean[:, 1], atol=1e-9)


def test_signal_and_noise_of_each_target(table):
    X, y, new = table
    noise = np.random.default_rng(1).uniform(0.01, 0.1, size=len(X))
    ours = Posterior(MaxoutKernel(2, 4), X, y[:, 0], noise, signal_var=3.0)
    from sklearn.gaussian_process.kernels import ConstantKernel

    theirs = GaussianProcessRegressor(
        ConstantKernel(3.0) * MaxoutKernel(2, 4), alpha=noise, optimizer=None
    ).fit(X, y[:, 0])
    mean, deviation = theirs.predict(new, return_std=True)
    np.testing.assert_allclose(ours.mean(new), mean, atol=1e-11)
    np.testing.assert_allclose(np.sqrt(ours.mean_and_variance(new)[1]), deviation, atol=1e-9)
    assert ours.log_marginal_likelihood() == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-11
    )


def test_targets_are_divided_in_place(table):
    X, y, new = table
    units = np.arange(2.0, 2.0 + y.shape[1])
    ours, divided = (
        Posterior(MaxoutKernel(2, 4), X, targets, 0.1, signal_var=3.0) for targets in (y, y / units)
    )
    ours.precision()
    ours.divide_targets(units)
    np.testing.assert_allclose(
        ours.mean_and_variance(new)[1], divided.mean_and_variance(new)[1], rtol=1e-10
    )
    np.testing.assert_allclose(ours.mean(new), divided.mean(new), rtol=1e-10)
    np.testing.assert_allclose(
        ours.leave_one_out().log_density, divided.leave_one_out().log_density, rtol=1e-10
    )
    assert ours.log_marginal_likelihood() == pytest.approx(
        divided.log_marginal_likelihood(), rel=1e-11
    )


@pytest.mark.parametrize(("weight_var", "depth", "noise"), [(1.0, 3, 1e-2), (0.1, 12, 1e-15)])
def test_leave_one_out_is_refitting(table, weight_var, depth, noise):
    """The second is in the ordered phase, with a noise of the size of what is left of the
    signal.
    """
    X, y, _ = table
    kernel = MaxoutKernel(depth, 2, weight_var, 0.3)
    posterior = Posterior(kernel, X, y, noise)
    result = posterior.leave_one_out()
    for i in range(len(X)):
        rest = Posterior(kernel, np.delete(X, i, axis=0), np.delete(y, i, axis=0), noise)
        mean, variance = rest.mean_and_variance(X[i : i + 1])
        np.testing.assert_allclose(result.mean[i], mean[0], rtol=1e-7, atol=1e-9)
        assert result.variance[i] == pytest.approx(variance[0] + noise, rel=1e-7)
    density = -0.5 * (
        (y - result.mean) ** 2 / result.variance[:, None]
        + np.log(2.0 * np.pi * result.variance)[:, None]
    )
    np.testing.assert_allclose(result.log_density, density, rtol=1e-6)
    fresh = Posterior(kernel, X, y, noise)
    np.testing.assert_allclose(
        fresh.precision(np.array([5, 3])), posterior.precision()[[5, 3]], rtol=1e-7
    )


def test_chunks_do_not_matter(table, monkeypatch):
    X, y, new = table
    posterior = Posterior(MaxoutKernel(3, 4), X, y, 1e-2)
    mean, variance = posterior.mean_and_variance(np.tile(new, (10, 1)))
    monkeypatch.setattr(factor_module, "_CHUNK", 1)
    monkeypatch.setattr(factor_module, "_STEP", 17)
    assert posterior._factor.at_a_time == 17
    again, other = posterior.mean_and_variance(np.tile(new, (10, 1)))
    np.testing.assert_allclose(again, mean, rtol=1e-12)
    np.testing.assert_allclose(other, variance, rtol=1e-10)
    np.testing.assert_allclose(posterior.mean(np.tile(new, (10, 1))), mean, rtol=1e-12)
    np.testing.assert_allclose(
        posterior.precision(np.arange(len(X))), posterior.precision(), rtol=1e-10
    )


def test_new_points_are_held_one_part_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(100, 2000)), rng.normal(size=(1200, 2000))
    posterior = Posterior(MaxoutKernel(1, 2), X, X[:, 0], 0.1)
    monkeypatch.setattr(factor_module, "_CHUNK", 1)
    part = 8 * posterior._factor.at_a_time * 2000
    tracemalloc.start()
    try:
        posterior.mean(new)
        assert tracemalloc.get_traced_memory()[1] < 1.6 * part  # measured: 1.2, with two threads
    finally:
        tracemalloc.stop()


def test_single_precision(table):
    X, y, new = table
    double, single = (
        Posterior(MaxoutKernel(3, 4, dtype=dtype), X, y, 1e-2) for dtype in ("float64", "float32")
    )
    # measured: 3e-6 and 1e-6
    np.testing.assert_allclose(single.mean(new), double.mean(new), atol=1e-4)
    np.testing.assert_allclose(
        single.mean_and_variance(new)[1], double.mean_and_variance(new)[1], atol=1e-4
    )
    np.testing.assert_allclose(
        single.mean_and_covariance(new)[1], double.mean_and_covariance(new)[1], atol=1e-4
    )
    assert single._factor.packed.memory.dtype == np.float32


def test_samples_have_the_posterior_moments(table):
    X, y, new = table
    posterior = Posterior(MaxoutKernel(2, 3), X, y, 1e-2)
    mean, covariance = posterior.mean_and_covariance(new[:5])
    drawn = posterior.sample(new[:5], 20_000, seed=0)
    assert drawn.shape == (5, 2, 20_000)
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(drawn.mean(axis=2), mean, atol=5.0 * scale.max() / math.sqrt(20_000))
    for target in range(2):
        np.testing.assert_allclose(
            np.cov(drawn[:, target]), covariance, atol=0.05 * scale.max() ** 2
        )
    np.testing.assert_array_equal(drawn, posterior.sample(new[:5], 20_000, seed=0))
    assert Posterior(MaxoutKernel(2, 3), X, y[:, 0], 1e-2).sample(new, 3).shape == (23, 3)


def test_points_without_prior_variance():
    """Without biases the function is zero at zero, whatever was observed there."""
    X = np.array([[0.0, 0.0], [1.0, 0.5], [-1.0, 2.0], [0.3, -0.7]])
    y = np.array([5.0, 1.0, 2.0, 3.0])
    kernel = MaxoutKernel(2, 3, bias_var=0.0)
    ours, theirs = (
        Posterior(kernel, X, y, 0.1),
        GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(X, y),
    )
    new = np.array([[0.0, 0.0], [2.0, 1.0]])
    mean, deviation = theirs.predict(new, return_std=True)
    np.testing.assert_allclose(ours.mean(new), mean, atol=1e-12)
    np.testing.assert_allclose(ours.mean_and_variance(new)[1], deviation**2, atol=1e-12)
    assert ours.log_marginal_likelihood() == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-12
    )
    np.testing.assert_allclose(ours.leave_one_out().mean[0], 0.0, atol=1e-12)


def test_one_point_without_prior_variance_among_many():
    """It is not in the sample that the contraction is chosen from, and an intercept would give it a
    variance.
    """
    X = np.random.default_rng(0).normal(size=(1500, 6))
    X[1] = 0.0
    kernel, y = MaxoutKernel(3, 4, bias_var=0.0), np.sin(X.sum(axis=1))
    ours = Posterior(kernel, X, y, 1e-2)
    assert ours.precision(np.array([1]))[0] == pytest.approx(100.0)
    expected = kernel(X[:3] + 0.1, X) @ np.linalg.solve(kernel(X) + 1e-2 * np.eye(1500), y)
    np.testing.assert_allclose(ours.mean(X[:3] + 0.1), expected, atol=1e-9)


# --- the evidence's gradient ----------------------------------------------------------------------


@pytest.mark.parametrize("lengths", ["equal", "unequal"])
@pytest.mark.parametrize(
    ("kind", "depth", "weight_var", "noise"),
    [
        ("nngp", 3, 1.0, 1e-2),
        ("ntk", 3, 1.0, 1e-2),
        ("nngp", 3, 0.05, 1e-6),
        ("nngp", 14, 0.05, 1e-19),
    ],
)
def test_evidence_gradient(table, lengths, kind, depth, weight_var, noise):
    """Against central differences, also in the ordered phase; measured: 1e-7 of the largest, by the
    differences' own error.
    """
    X, y, _ = table
    X = X / np.linalg.norm(X, axis=1, keepdims=True) if lengths == "equal" else X

    def posterior(theta):
        bias_var, weight_var, noise_var, signal_var = np.exp(theta)
        return Posterior(
            MaxoutKernel(depth, 3, weight_var, bias_var, kind), X, y, noise_var, signal_var
        )

    theta = np.log([0.3, weight_var, noise, 1.3])
    gradient = log_evidence_gradient(posterior(theta))
    for index, unit in enumerate(np.eye(4)):
        up, down = (
            posterior(theta + sign * 1e-4 * unit).log_marginal_likelihood() for sign in (1.0, -1.0)
        )
        assert gradient[index] == pytest.approx(
            (up - down) / 2e-4, rel=1e-6, abs=1e-6 * np.abs(gradient).max()
        )


def test_evidence_gradient_of_each_layer(table):
    X, y, _ = table
    kernel = NetworkKernel(
        [Maxout(3), ReLU()], weight_var=[0.5, 1.0, 2.0], bias_var=0.1, weight_var_bounds=(1e-3, 1e3)
    )
    gradient = log_evidence_gradient(Posterior(kernel, X, y, 0.1))
    theirs = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(X, y)
    np.testing.assert_allclose(
        gradient[:-2],
        theirs.log_marginal_likelihood(kernel.theta, eval_gradient=True)[1],
        rtol=1e-9,
    )


# --- the ordered phase ----------------------------------------------------------------------------


def high_precision_posterior(X, y, new, *, depth, weight_var, bias_var, noise_var):
    """Rank 2 in 250 digits, by the plain recursion and plain Gaussian elimination."""
    mp = mpmath.mp
    with mpmath.workdps(250):
        Z = [[mp.mpf(float(v)) for v in row] for row in np.concatenate([X, new])]
        w, b, d = mp.mpf(weight_var), mp.mpf(bias_var), len(Z[0])
        size = len(Z)
        K = [
            [b + w * sum(p * q for p, q in zip(Z[i], Z[j], strict=True)) / d for j in range(size)]
            for i in range(size)
        ]
        for _ in range(depth):
            old = K
            K = [[None] * size for _ in range(size)]
            for i in range(size):
                for j in range(size):
                    scale = mp.sqrt(old[i][i] * old[j][j])
                    rho = min(old[i][j] / scale, mp.mpf(1)) if i != j else mp.mpf(1)
                    # F_2(ρ) = (√(1-ρ²) + ρ (π - arccos ρ)) / π + ... by max(a, b) = (a + b)/2 + |a
                    # - b|/2
                    gap = (mp.sqrt(1 - rho**2) + rho * mp.asin(rho)) / mp.pi
                    K[i][j] = b + w * scale * (rho / 2 + gap)
        n = len(X)
        A = mp.matrix(
            [[K[i][j] + (mp.mpf(noise_var) if i == j else 0) for j in range(n)] for i in range(n)]
        )
        inverse = A**-1
        mean, variance = [], []
        for m in range(n, size):
            k = mp.matrix([K[m][j] for j in range(n)])
            solved = inverse * k
            mean.append(float(sum(solved[j] * mp.mpf(float(y[j])) for j in range(n))))
            variance.append(K[m][m] - sum(solved[j] * k[j] for j in range(n)))
        vector = mp.matrix([mp.mpf(float(v)) for v in y])
        evidence = (
            -((vector.T * inverse * vector)[0] + mp.log(mp.det(A)) + n * mp.log(2 * mp.pi)) / 2
        )
        return np.array(mean), np.array([float(v) for v in variance]), float(evidence)


@pytest.mark.parametrize("lengths", ["equal", "unequal"])
@pytest.mark.parametrize("depth", [5, 21, 80])
def test_distance_form_against_high_precision(lengths, depth):
    """Distances of 1e-7, 1e-23 and 1e-82: the plain matrix has no digit left from the second on."""
    rng = np.random.default_rng(3)
    X, new = rng.normal(size=(7, 3)), rng.normal(size=(3, 3))
    if lengths == "equal":
        X, new = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (X, new))
    y = rng.normal(size=7)
    noise = 1e-3 * 0.1**depth
    posterior = Posterior(MaxoutKernel(depth, 2, 0.1, 0.34), X, y, noise)
    assert posterior.report.contraction < 1e-3
    mean, variance, evidence = high_precision_posterior(
        X, y, new, depth=depth, weight_var=0.1, bias_var=0.34, noise_var=noise
    )
    ours, ours_variance = posterior.mean_and_variance(new)
    np.testing.assert_allclose(ours, mean, rtol=1e-8, atol=1e-9)  # measured: 1e-11
    np.testing.assert_allclose(ours_variance, variance, rtol=1e-7)  # measured: 2e-10
    assert posterior.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-8)
    covariance = posterior.mean_and_covariance(new)[1]
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=1e-7)


@pytest.mark.parametrize("depth", [13, 21])
def test_neither_remedy_alone_is_enough_in_the_ordered_phase(table, depth):
    """Signal one: the noise hides what points differ by, and the exact posterior is as flat as the
    plain one. A signal that fits the noise: rounding ends the plain factorisation, and only
    distances are left.
    """
    X, y, _ = table
    kernel = MaxoutKernel(depth, 2, 0.1, 0.34)
    u = distances(kernel.network, kernel._points(X, None)[0]).mean()

    def plain(signal):
        matrix, noise = signal * kernel(X), 1e-10
        while True:  # the paper's policy
            with contextlib.suppress(np.linalg.LinAlgError):
                factor = np.linalg.cholesky(matrix + noise * np.eye(len(X)))
                return matrix @ np.linalg.solve(factor.T, np.linalg.solve(factor, y))
            noise *= 10.0

    def missed(mean):
        return np.mean((mean - y) ** 2) / np.mean(np.var(y, axis=0))

    def exact(signal):
        return Posterior(kernel, X, y, 1e-10, signal).mean(X)

    # measured: 1e-5, of targets of one
    np.testing.assert_allclose(exact(1.0), plain(1.0), atol=1e-3)
    fitting = 1e-7 / u
    # measured at depth 13: 1.00, 0.18, 4e-4
    assert missed(exact(1.0)) > 0.95
    assert missed(plain(fitting)) > 0.1
    assert missed(exact(fitting)) < 0.001


def test_a_prior_without_any_variation_is_said():
    X = np.random.default_rng(0).normal(size=(5, 3))
    with pytest.warns(AccuracyWarning, match="constant function"):
        posterior = Posterior(MaxoutKernel(2000, 2, 0.05, 0.3), X, np.arange(5.0), 0.1)
    np.testing.assert_allclose(posterior.mean(X), posterior.mean(X)[0])
    with pytest.warns(AccuracyWarning, match="dtype='float64'"):
        Posterior(MaxoutKernel(60, 2, 0.05, 0.3, dtype="float32"), X, np.arange(5.0), 0.1)
    # distances among the numbers below the normal ones, where 1/κ overflows
    for size in (1e-155, 1e-160, 1e-162):
        with pytest.warns(AccuracyWarning, match="features should be of the size of one"):
            posterior = Posterior(MaxoutKernel(1, 2), size * X, np.arange(5.0), 0.1)
        assert posterior.report.contraction == 1.0
        assert np.isfinite(posterior.mean(size * X)).all()


def test_contraction_is_one_where_points_are_apart():
    kernel = MaxoutKernel(1, 2)
    x, _ = kernel._points(np.random.default_rng(0).normal(size=(50, 10)) * 10.0, None)
    assert contraction(kernel.network, x) == 1.0


# --- noise, and what is said about it -------------------------------------------------------------


def test_noise_that_had_to_be_added_is_reported(table):
    X, y, new = table
    twice, targets = np.concatenate([X, X]), np.concatenate([y, y])
    with pytest.warns(
        AccuracyWarning,
        match=r"of the kernel.s scale was added to the noise "
        r"variance \(.* attempts; ",
    ):
        posterior = Posterior(MaxoutKernel(3, 4), twice, targets, 0.0)
    assert 0.0 < posterior.report.added < 1e-10
    assert posterior.report.attempts > 1
    assert posterior.report.condition > 1e6
    np.testing.assert_allclose(posterior.noise_var, posterior.report.added)
    np.testing.assert_allclose(
        posterior.mean(new), Posterior(MaxoutKernel(3, 4), X, y, 1e-12).mean(new), atol=1e-3
    )


class Steep(SmoothActivation):
    """An activation of one's own: its series is cut where it is too long."""

    def function(self, z):
        return np.tanh(z)

    def slope(self, z):
        return 1.0 - np.tanh(z) ** 2


def test_warnings_point_at_the_line_that_called_the_package(table):
    """Not at a line of the package, nor at scikit-learn's in between."""
    X, y, _ = table
    near = np.concatenate([X, X + 1e-9])
    fixed = MaxoutGPRegressor(3, 4, 1.0, 0.1, "nngp", 0.0)
    pipeline = make_pipeline(StandardScaler(), fixed)
    calls = [
        lambda: Posterior(MaxoutKernel(3, 4), near, near[:, 0]),
        lambda: Posterior(MaxoutKernel(2000, 2, 0.05, 0.3), X, y, 0.1),
        lambda: fixed.fit(near, near[:, 0]),
        lambda: pipeline.fit(near, near[:, 0]),
        lambda: MaxoutGPRegressor(2000, 2, 0.05, 0.3, "nngp").fit(X, y),
        lambda: NetworkKernel([Steep()])(1e3 * X),
    ]
    for call in calls:
        with pytest.warns(AccuracyWarning) as caught:
            call()
        assert {(warning.filename, warning.lineno) for warning in caught} == {
            (__file__, call.__code__.co_firstlineno)
        }


def test_the_papers_policy_multiplies_by_ten(table, monkeypatch):
    X, y, _ = table
    tried = []
    factor = Packed.factor

    def stubborn(self, done=None):
        tried.append(self.diagonal()[0])
        return 1 if len(tried) < 4 else factor(self, done)

    monkeypatch.setattr(Packed, "factor", stubborn)
    with pytest.warns(AccuracyWarning, match="4 attempts"):
        posterior = Posterior(MaxoutKernel(3, 4), X, y, 1e-10, policy="paper")
    np.testing.assert_allclose(posterior.noise_var, 1e-7, rtol=1e-6)
    assert posterior.report.added == pytest.approx(1e-7 - 1e-10)


def test_a_scale_that_does_not_fit_has_a_remedy_for_estimators(table):
    X, y, _ = table
    with pytest.raises(
        ScaleError,
        match=r"X\[0\] is too long.*an estimator does with "
        r"normalize='standard'",
    ):
        MaxoutGPRegressor(normalize=None).fit(1e200 * X, y)
    MaxoutGPRegressor(max_trials=1).fit(1e200 * X, y)
    with pytest.raises(
        ScaleError,
        match=r"float64 cannot hold: choose weight_var nearer .* or "
        r"scale the features",
    ):
        MaxoutGPRegressor(depth=100, weight_var=1e10).fit(X, y)


def test_giving_up_is_an_error(table, monkeypatch):
    X, y, _ = table
    monkeypatch.setattr(Packed, "factor", lambda self, done=None: 1)
    with pytest.raises(FactorizationError, match="not positive definite, not even with"):
        Posterior(MaxoutKernel(3, 4), X, y)


def test_progress_adds_up():
    shares = []
    many = np.random.default_rng(0).normal(size=(488, 4))
    Posterior(MaxoutKernel(3, 4), many, many[:, 0], 0.1, progress=shares.append)
    assert sum(shares) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "rbf"}, "kernel must be a MaxoutKernel or a NetworkKernel, got 'rbf'"),
        ({"X": np.ones(3)}, "X must have 2 dimensions"),
        (
            {"y": np.ones(4)},
            r"y must have shape \(3,\) or \(3, targets\), a row for each row of X, "
            r"got \(4,\)",
        ),
        ({"y": np.array([1.0, np.nan, 2.0])}, "y must be finite, got nan"),
        ({"y": ["a", "b", "c"]}, "y must be numeric"),
        (
            {"noise_var": -1.0},
            r"noise_var must be a finite number at least 0 and at most 1e\+200, "
            r"got -1.0",
        ),
        ({"noise_var": np.ones(2)}, "noise_var must be a number or 3 numbers"),
        (
            {"signal_var": 0.0},
            r"signal_var must be a finite number above 0 and at most 1e\+200, "
            r"got 0.0",
        ),
        ({"policy": "hope"}, "policy must be one of 'relative', 'paper', got 'hope'"),
    ],
)
def test_bad_input(change, message):
    arguments = {
        "kernel": MaxoutKernel(2, 2),
        "X": np.eye(3),
        "y": np.arange(3.0),
        "noise_var": 0.1,
        "signal_var": 1.0,
    }
    with pytest.raises(InputError, match=message):
        Posterior(**{**arguments, **change})
    posterior = Posterior(**arguments)
    with pytest.raises(InputError, match="X must have 3 columns"):
        posterior.mean(np.ones((2, 4)))
    with pytest.raises(InputError, match="count must be a positive integer"):
        posterior.sample(np.eye(3), 0)
