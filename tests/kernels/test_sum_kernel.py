"""Networks side by side: the kernel of their sum, in the plain and in the distance form."""

import numpy as np
import pytest

from mnngp import Conv, Embedding, Flatten, MaxoutKernel, NetworkKernel, ReLU
from mnngp.errors import InputError, UnavailableError
from mnngp.inference import Posterior
from mnngp.kernels import evaluate
from mnngp.kernels.sum_kernel import SumKernel

rng = np.random.default_rng(3)
SHARES, COLUMNS = (0.5, 2.0), ((0, 3), (3, 6))


def parts(kind="nngp", dtype="float64"):
    first = MaxoutKernel(3, 4, 0.6, 0.1, kind, dtype)
    return first, MaxoutKernel(12, 2, 1.0, 0.1, "nngp", dtype, embedding=Embedding(0.7))


def plain(kernels, X, Y):
    """Written down."""
    return sum(
        share * kernel(X[:, start:stop], Y[:, start:stop])
        for share, kernel, (start, stop) in zip(SHARES, kernels, COLUMNS, strict=True)
    )


@pytest.mark.parametrize("n", [30, 31])  # packed matrices of even and odd sizes differ
@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_kernel_and_posterior(n, kind):
    X, new = rng.normal(size=(n, 6)), rng.normal(size=(9, 6))
    kernels = parts(kind)
    kernel = SumKernel(kernels, SHARES, COLUMNS)
    K = plain(kernels, X, X)
    np.testing.assert_allclose(kernel(X), K, rtol=1e-12)
    np.testing.assert_allclose(kernel(X, new), plain(kernels, X, new), rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), np.diag(K), rtol=1e-12)
    y = rng.normal(size=(n, 2))
    posterior = Posterior(kernel, X, y, 0.1)
    assert (posterior.contraction < 1.0) == (kind == "nngp")
    rows, inverse = plain(kernels, new, X), np.linalg.inv(K + 0.1 * np.eye(n))
    mean, variance = posterior.mean_and_variance(new)
    np.testing.assert_allclose(mean, rows @ inverse @ y, rtol=1e-9, atol=1e-11)
    left = np.diag(plain(kernels, new, new)) - np.einsum("ij,jk,ik->i", rows, inverse, rows)
    np.testing.assert_allclose(variance, left, rtol=1e-9)
    _, determinant = np.linalg.slogdet(2.0 * np.pi * (K + 0.1 * np.eye(n)))
    expected = -0.5 * (np.sum(y * (inverse @ y)) + 2 * determinant)
    assert posterior.log_marginal_likelihood() == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(posterior.weights(), inverse @ y, rtol=1e-8, atol=1e-10)


def test_distances_keep_their_relative_accuracy():
    """In the ordered phase, where all correlations are one to the last digit."""
    kernel = SumKernel(
        [MaxoutKernel(60, 4, 0.3, 0.1), MaxoutKernel(60, 2, 0.5, 0.1, embedding=Embedding(0.7))]
    )
    X = rng.normal(size=(20, 4))
    points = kernel.prepared("X", X)
    u = evaluate.distances(kernel.network, points)
    assert 0.0 < u.max() < 1e-17
    kappa = 4.0 * float(u.max())
    stretched = evaluate.correlations(kernel.network, points, contraction=kappa)
    np.testing.assert_allclose(stretched, 1.0 - 2.0 * u / kappa, atol=1e-12)
    posterior = Posterior(kernel, X, X[:, 0], 1e-30)
    assert posterior.report.added == 0.0
    assert posterior.contraction < 1e-15


def test_gradient_of_the_mean():
    X, new = rng.normal(size=(40, 6)), rng.normal(size=(5, 6))
    kernel = SumKernel(parts(), SHARES, COLUMNS)
    posterior = Posterior(kernel, X, X[:, 0] * X[:, 4], 0.1)
    found, step = posterior.gradient(new), 1e-5
    for column, move in enumerate(step * np.eye(6)):
        difference = (posterior.mean(new + move) - posterior.mean(new - move)) / (2.0 * step)
        np.testing.assert_allclose(found[:, column], difference, atol=1e-8)


def test_single_precision():
    X = rng.normal(size=(20, 6))
    coarse, exact = (SumKernel(parts(dtype=dtype), SHARES, COLUMNS) for dtype in ("float32", float))
    assert coarse(X).dtype == np.float32
    np.testing.assert_allclose(coarse(X), exact(X), rtol=2e-6)
    assert Posterior(coarse, X, X[:, 0], 0.1).mean(X).dtype == np.float64


def test_it_is_seen():
    kernel = SumKernel(parts(), SHARES, COLUMNS)
    assert (kernel.depth, kernel.rank, kernel.kind) == ([3, 12], [4, 2], "nngp")
    assert repr(kernel).startswith("0.5 * MaxoutKernel(depth=3, rank=4")
    assert "\n+ 2 · (Embedding(0.7) → Dense" in str(kernel.network)
    assert not len(kernel.theta)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SumKernel([]), "kernels must be a list"),
        (lambda: SumKernel([ReLU()]), r"kernels\[0\] must be a MaxoutKernel"),
        (
            lambda: SumKernel([NetworkKernel([Conv(3), ReLU(), Flatten()])]),
            r"kernels\[0\] must be a MaxoutKernel, or a NetworkKernel without convolutions",
        ),
        (lambda: SumKernel(parts(), [1.0]), "shares must be 2 numbers"),
        (lambda: SumKernel(parts(), [1.0, 0.0]), r"shares\[1\] must be"),
        (lambda: SumKernel(parts(), columns=[(0, 1)]), "columns must be 2 pairs"),
        (lambda: SumKernel([parts()[0], parts(dtype="float32")[1]]), "one dtype"),
        (lambda: SumKernel(parts(), SHARES, COLUMNS)(np.ones((3, 5))), "must have 6 columns"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_what_it_does_not_do():
    kernel = SumKernel(parts(), SHARES, COLUMNS)
    for ask in (
        lambda: kernel(np.ones((3, 6)), eval_gradient=True),
        lambda: list(kernel.path(np.ones((3, 6)), depths=[1])),
    ):
        with pytest.raises(UnavailableError):
            ask()
