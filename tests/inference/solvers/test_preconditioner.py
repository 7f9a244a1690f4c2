"""The preconditioner against what its docstring says it is."""

import numpy as np

from mnngp.inference.solvers.preconditioner import Preconditioner, partial_cholesky
from tests.inference.problems import spectrum


def test_the_preconditioner_is_what_it_says():
    """``P⁻¹`` against ``(L Lᵀ + E)⁻¹``; a full rank leaves nothing; a matrix of low rank ends it
    early.
    """
    A = spectrum(150, 1e-6, 1.0)
    noise = np.random.default_rng(0).uniform(0.01, 0.02, size=150)
    made = Preconditioner.of(lambda chosen: A[:, chosen], np.diag(A), noise, rank=70)
    root, left = partial_cholesky(lambda chosen: A[:, chosen], np.diag(A), 70, 0)
    np.testing.assert_allclose(np.diag(A - root @ root.T), left, atol=1e-12)
    v = np.random.default_rng(1).normal(size=(150, 3))
    expected = np.linalg.solve(root @ root.T + np.diag(noise + left.mean()), v)
    np.testing.assert_allclose(made(v), expected, rtol=1e-9)
    assert np.linalg.cond(
        np.array([made(row[:, None])[:, 0] for row in A + np.diag(noise)])
    ) < 0.1 * np.linalg.cond(A + np.diag(noise))
    low = np.ones((150, 150))
    root, left = partial_cholesky(lambda chosen: low[:, chosen], np.ones(150), 140, 0)
    assert root.shape[1] < 140
    np.testing.assert_allclose(root @ root.T, low, atol=1e-6)
