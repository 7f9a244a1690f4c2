"""What every activation and every kernel must satisfy, whatever it computes. Given only an
instance.
"""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from mnngp.errors import InputError


def check_activation(activation, *, slope_tolerance=1e-8, exact=True):
    """The contract of an activation; ``exact`` is false for the paper's table, which
    interpolates.
    """
    rho = np.concatenate([np.linspace(-1.0, 1.0, 201), [1.0 - 1e-12, -1.0 + 1e-12]])
    moment = activation.moment(rho)
    assert moment.shape == rho.shape
    assert moment.dtype == np.float64
    assert np.isfinite(moment).all()
    assert np.isfinite(activation.derivative(rho)).all()

    # moment(1) is the second moment, moment(0) the squared mean; Cauchy and Schwarz hold in
    # between.
    assert activation.moment(1.0) == pytest.approx(activation.second_moment, rel=1e-14)
    assert activation.moment(0.0) == pytest.approx(activation.mean**2, abs=1e-13)
    assert activation.critical_weight_var == pytest.approx(
        1.0 / activation.second_moment, rel=1e-15
    )
    assert np.all(np.abs(moment) <= activation.second_moment * (1.0 + 1e-13))

    # deficit is moment(1) - moment(ρ), and keeps its relative accuracy where that difference has
    # none.
    np.testing.assert_allclose(
        activation.deficit(rho),
        activation.second_moment - moment,
        atol=2e-14 * activation.second_moment,
    )
    if exact:
        gap = 2.0**-33  # 1 - gap is exact
        slope = (activation.derivative(1.0) + activation.derivative(1.0 - gap)) / 2.0
        assert activation.deficit(1.0 - gap) == pytest.approx(gap * slope, rel=1e-5)

    # derivative is the derivative.
    inside, step = np.linspace(-0.995, 0.995, 100), 1e-4
    ahead, behind = (activation.moment(inside + sign * step) for sign in (1, -1))
    further, further_behind = (activation.moment(inside + 2 * sign * step) for sign in (1, -1))
    central = (8.0 * (ahead - behind) - (further - further_behind)) / (12.0 * step)
    if exact:
        np.testing.assert_allclose(activation.derivative(inside), central, atol=slope_tolerance)

    # F(ρ) is a covariance: on the correlations of any points it makes a positive semi-definite
    # matrix.
    points = np.random.default_rng(1).normal(size=(25, 4))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    cosines = np.clip(points @ points.T, -1.0, 1.0)
    np.fill_diagonal(cosines, 1.0)
    if exact:
        assert (
            np.linalg.eigvalsh(activation.moment(cosines)).min() > -1e-12 * activation.second_moment
        )

    # Numbers give numbers, arrays of any shape their shape; values and types are kept from
    # changing.
    assert isinstance(activation.moment(0.5), float)
    assert activation.moment(np.zeros((2, 3))).shape == (2, 3)
    assert activation.moment([0, 1]).shape == (2,)
    assert pickle.loads(pickle.dumps(activation)) == activation
    assert hash(activation) == hash(pickle.loads(pickle.dumps(activation)))
    for bad in (1.5, -1.001, np.nan, [0.0, np.inf], "0.5", 0.5j, None):
        with pytest.raises(InputError, match="rho"):
            activation.moment(bad)


def check_kernel(kernel, *, tolerance=1e-12, features=5):
    """The contract of a kernel; ``tolerance`` is relative to its largest entry."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(31, features)), rng.normal(size=(17, features))
    X[3], X[4], X[5] = X[2], -X[2], 0.0
    square, cross, diagonal = kernel(X), kernel(X, Y), kernel.diag(X)
    dtype = np.dtype(kernel.dtype)
    scale = np.abs(square).max()
    close = {"atol": tolerance * scale, "rtol": 0.0}

    assert square.shape == (31, 31)
    assert cross.shape == (31, 17)
    assert square.dtype == cross.dtype == diagonal.dtype == dtype
    assert np.isfinite(square).all()
    assert np.array_equal(square, square.T)
    assert np.array_equal(np.diag(square), diagonal)
    np.testing.assert_allclose(kernel(X, X.copy()), square, **close)
    np.testing.assert_allclose(kernel(Y, X), cross.T, **close)
    np.testing.assert_allclose(kernel(np.concatenate([X, Y]))[:31, 31:], cross, **close)
    assert np.linalg.eigvalsh(square.astype(np.float64)).min() > -max(tolerance, 1e-12) * scale * 31

    # The same points in another dtype or layout.
    np.testing.assert_allclose(kernel(np.asfortranarray(X), Y[::-1]), cross[:, ::-1], **close)
    np.testing.assert_allclose(kernel(np.repeat(X, 2, axis=1)[:, ::2]), square, **close)
    whole = rng.integers(-3, 4, size=(9, features))
    for other in (whole.astype(np.int8), whole.astype(np.float32), whole.tolist()):
        np.testing.assert_allclose(kernel(other), kernel(whole.astype(float)), **close)
    np.testing.assert_allclose(kernel(whole > 0), kernel((whole > 0).astype(float)), **close)
    before = X.copy()
    kernel(X)
    assert np.array_equal(before, X)

    # A depth alone is what the path says, and a normalised kernel is the kernel.
    *_, (depth, last) = kernel.path(X, Y)
    assert depth == len(kernel._activations())
    np.testing.assert_allclose(last, cross, **close)
    normal, log_scale = kernel.normalized(X, Y)
    np.testing.assert_allclose(np.exp(log_scale) * normal.astype(np.float64), cross, **close)
    assert 0.25 <= np.abs(kernel.normalized(X)[0]).max() <= 4.0

    # The gradient is that of the same matrix, in log variances, and finite for equal, opposite and
    # zero points.
    with_gradient, gradient = kernel(X, eval_gradient=True)
    np.testing.assert_allclose(with_gradient, square, **close)
    assert gradient.shape == (31, 31, len(kernel.theta))
    assert np.isfinite(gradient).all()
    with pytest.raises(InputError, match="eval_gradient"):
        kernel(X, Y, eval_gradient=True)

    # scikit-learn's protocol.
    copy = clone(kernel)
    assert copy == kernel
    assert copy is not kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    moved = kernel.clone_with_theta(kernel.theta + 0.1)
    assert len(kernel.theta) == 0 or not np.allclose(moved(X), square)
    np.testing.assert_allclose((kernel + kernel)(X), 2.0 * square, **close)
    np.testing.assert_allclose((2.0 * kernel)(X), 2.0 * square, **close)
    assert not kernel.is_stationary()
    assert type(kernel).__name__ in repr(kernel)
