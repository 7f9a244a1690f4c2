"""Products by tiles against those of the matrix."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from mnngp import MaxoutKernel
from mnngp.inference.solvers import tiles
from mnngp.kernels.evaluate import correlations


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_tiles_multiply_like_the_matrix(large_table, monkeypatch, dtype):
    """Kept, some of them kept, or none, by one thread or several."""
    X = large_table[0][:501]
    kernel = MaxoutKernel(3, 3, dtype=dtype)
    network, (x, _) = kernel.network, kernel.points(X, None)
    matrix, v = (
        correlations(network, x, contraction=0.5).astype(float),
        np.random.default_rng(0).normal(size=(501, 3)),
    )
    monkeypatch.setattr(tiles, "TILE", 200)
    patch = tiles.Patch(network, 0.5, 501, 501, symmetric=True)
    assert sum(patch.sizes()) == 3 * 200**2 + 101 * 501
    results = []
    for numbers in (0, 90_000, 10**9):
        count = patch.fitting(numbers)
        shares = []
        kept = patch.first(x, x, count, shares.append)
        assert sum(shares) == pytest.approx(1.0 if count else 0.0)
        results.append(patch.product((x, x), kept, v, v)[0])
    assert patch.fitting(90_000) == 2
    with threadpool_limits(limits=3, user_api="blas"):
        results.append(patch.product(None, kept, np.tile(v, 20), np.tile(v, 20))[0][:, :3])
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], atol=1e-12)  # but for the order of sums
    # measured: 6e-6, 3e-13
    np.testing.assert_allclose(results[0], matrix @ v, atol=1e-4 if dtype == "float32" else 1e-11)
    corner = tiles.Patch(network, 0.5, 250, 251, symmetric=False)
    for half, expected in zip(
        corner.product((x[251:], x[:251]), (), v[:251], v[251:]),
        (matrix[251:, :251] @ v[:251], matrix[:251, 251:] @ v[251:]),
        strict=True,
    ):
        np.testing.assert_allclose(half, expected, atol=1e-4 if dtype == "float32" else 1e-11)
