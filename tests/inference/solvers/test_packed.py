"""The packed Cholesky factorisation against NumPy's on dense matrices."""

import numpy as np
import pytest

from mnngp import Erf, Maxout, MaxoutKernel, NetworkKernel, ReLU
from mnngp.inference.solvers import packed as packed_module
from mnngp.inference.solvers.packed import Packed
from mnngp.kernels.evaluate import correlations, packed_correlations


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 192, 193, 385, 500])
@pytest.mark.parametrize("block", [50, 4096])
def test_packed_against_dense(n, dtype, block, monkeypatch):
    monkeypatch.setattr(packed_module, "_BLOCK", block)
    rng = np.random.default_rng(n)
    kernel = MaxoutKernel(3, 3, dtype=dtype)
    x, _ = kernel.points(rng.normal(size=(n, 5)), None)
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
        x, _ = kernel.points(X, None)
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
