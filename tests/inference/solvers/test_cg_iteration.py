"""The iteration on plain matrices."""

import numpy as np
import pytest

from mnngp.errors import (
    ConvergenceError,
    FactorizationError,
)
from mnngp.inference.solvers.cg_iteration import MARGIN, conjugate_gradients
from tests.inference.problems import spectrum


def test_columns_leave_when_they_have_converged():
    A = spectrum(120, 1.0, 1e3)
    rng = np.random.default_rng(1)
    eigenvector = np.linalg.eigh(A)[1][:, :1]
    b = np.column_stack([eigenvector, rng.normal(size=(120, 2)), np.zeros(120)])
    widths = []

    def product(v):
        widths.append(v.shape[1])
        return A @ v

    x, residual, how = conjugate_gradients(product, b, lambda v: v, tolerance=1e-10, most=500)
    np.testing.assert_allclose(x, np.linalg.solve(A, b), atol=1e-8)
    np.testing.assert_allclose(residual, b - A @ x, atol=1e-14)
    assert max(how.residuals) <= 1e-10
    assert widths[0] == 3  # the zero column has nothing to do
    assert widths[1] == 2  # an eigenvector is solved in one step
    assert how.history[-1] <= MARGIN * 1e-10 < how.history[-2]


def test_what_does_not_converge_is_an_error():
    A, b = spectrum(200, 1e-8, 1.0), np.ones((200, 1))
    with pytest.raises(
        ConvergenceError,
        match=r"residual of .* in 20 iterations, and not the "
        r"tolerance of 1e-08.*noise_var",
    ):
        conjugate_gradients(lambda v: A @ v, b, lambda v: v, tolerance=1e-8, most=20)
    A = spectrum(50, 1e-2, 1.0)

    def rounded(v):
        return (A @ v).astype(np.float32).astype(np.float64)

    with pytest.raises(
        ConvergenceError, match="by rounding: the tolerance of 1e-12 is out of reach"
    ):
        conjugate_gradients(
            rounded,
            np.random.default_rng(0).normal(size=(50, 1)),
            lambda v: v,
            tolerance=1e-12,
            most=10_000,
        )
    with pytest.raises(FactorizationError, match="a direction of curvature"):
        conjugate_gradients(lambda v: -v, b, lambda v: v, tolerance=1e-8, most=20)
