"""The ordered phase: the distance form against high precision, and where there is nothing left."""

import contextlib

import mpmath
import numpy as np
import pytest

from mnngp import MaxoutKernel
from mnngp.errors import AccuracyWarning
from mnngp.inference import Posterior
from mnngp.inference.solvers.covariance import contraction
from mnngp.kernels.evaluate import distances


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
    u = distances(kernel.network, kernel.points(X, None)[0]).mean()

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
    x, _ = kernel.points(np.random.default_rng(0).normal(size=(50, 10)) * 10.0, None)
    assert contraction(kernel.network, x) == 1.0
