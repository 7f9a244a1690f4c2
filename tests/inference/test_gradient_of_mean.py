"""The gradient of a posterior mean in its points, against central differences of the mean."""

from dataclasses import replace

import numpy as np
import pytest

from mnngp import GELU, Conv, Embedding, Flatten, Maxout, MaxoutKernel, NetworkKernel, ReLU, Tanh
from mnngp.errors import InputError, UnavailableError
from mnngp.inference import ConjugateGradients, Posterior

rng = np.random.default_rng(3)
X, NEW = rng.normal(size=(40, 4)), rng.normal(size=(9, 4))
Y = np.column_stack([np.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2, X[:, 2] - X[:, 0]])
TABLE = Embedding(0.7, (-2.0, 2.0), categories=((3, 6),), gaps=(2,))


def table(n):
    """A number, a number with gaps, a category of three levels (one row has none of them)."""
    gap, level = rng.integers(0, 2, n), rng.integers(0, 3, n)
    rows = np.column_stack([rng.normal(size=(n, 2)), gap, np.eye(3)[level]])
    rows[gap == 1, 1] = 0.4
    rows[0, 3:] = 0.0
    return rows


def differences(function, new, step):
    """Fourth order, in each column."""
    columns = []
    for column in range(new.shape[1]):
        move = np.zeros(new.shape[1])
        move[column] = step
        near = function(new + move) - function(new - move)
        far = function(new + 2.0 * move) - function(new - 2.0 * move)
        columns.append((8.0 * near - far) / (12.0 * step))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("new", [NEW, X[:9], 1e3 * NEW], ids=["new", "training", "far"])
@pytest.mark.parametrize(
    "kernel",
    [
        MaxoutKernel(1, 4, 1.0, 0.1),
        MaxoutKernel(3, 3, 0.7, 0.3),
        MaxoutKernel(3, 3, 0.05, 0.3),  # all correlations near one: the distance form
        MaxoutKernel(2, 2, 0.9, 0.0),
        MaxoutKernel(2, 2, [0.5, 1.0, 0.7], [0.2, 0.0, 0.1]),
        NetworkKernel([ReLU(), Tanh(), Maxout(2)], 1.5, 0.2),
        NetworkKernel([GELU()], 1.0, 0.0),
    ],
    ids=repr,
)
def test_of_linear_features(kernel, new):
    """The worst was 9e-10 of the largest, in the distance form of far points; else 5e-10."""
    posterior = Posterior(kernel, X, Y, 1e-2, signal_var=2.5)
    found = posterior.gradient(new)
    assert found.shape == (*new.shape, 2)
    step = 1e-3 * np.abs(new).max() / 3.0
    expected = differences(posterior.mean, new, step)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("new", [NEW, X[:9]], ids=["new", "training"])
@pytest.mark.parametrize(
    "kernel",
    [
        MaxoutKernel(1, 4, 1.0, 0.1, "ntk"),
        MaxoutKernel(3, 3, 0.7, 0.0, "ntk"),
        NetworkKernel([Tanh(), ReLU()], 1.5, 0.2, "ntk"),
    ],
    ids=repr,
)
def test_of_tangent_kernels(kernel, new):
    """They have a kink at each training point, where the mean of both sides is meant: there
    differences are right to the first order of the step only. The worst was 8e-8.
    """
    posterior = Posterior(kernel, X, Y, 1e-2)
    found, expected = posterior.gradient(new), differences(posterior.mean, new, 1e-5)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize(("bias_var", "weights"), [(0.0, ()), (0.2, ()), (0.2, (0.5, 3.0, 1.5))])
def test_of_an_embedding(kind, bias_var, weights):
    """Numbers beyond the limits, gaps and categories included; the worst was 1.3e-11."""
    rows, new = table(40), table(12)
    new[1, 0], new[2, 1] = 2.5, -2.2
    new[3, 2:] = 0.3, 0.2, 0.1, 0.4  # between the categories
    y = np.sin(2.0 * rows[:, 0]) + rows[:, 2] + rows[:, 3] - 2.0 * rows[:, 4]
    embedding = replace(TABLE, weights=weights)
    kernel = MaxoutKernel(2, 3, 0.8, bias_var, kind, embedding=embedding)
    posterior = Posterior(kernel, rows, y, 1e-2)
    found, expected = posterior.gradient(new), differences(posterior.mean, new, 1e-4)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-9 * np.abs(expected).max())
    assert found[1, 0] == 0.0
    assert found[2, 1] == 0.0
    assert (found[new[:, 2] == 1.0, 1] == 0.0).all()  # a gap has no value


@pytest.mark.parametrize("embedding", [None, Embedding(1.0)], ids=repr)
@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_in_single_precision(kind, embedding):
    """The worst was 6e-7."""
    parameters = (2, 3, 0.8, 0.1, kind)
    double, single = (
        Posterior(MaxoutKernel(*parameters, dtype=dtype, embedding=embedding), X, Y, 0.1)
        for dtype in ("float64", "float32")
    )
    expected = double.gradient(NEW)
    np.testing.assert_allclose(
        single.gradient(NEW), expected, rtol=0.0, atol=5e-6 * np.abs(expected).max()
    )


def test_of_prepared_points_and_of_one_target():
    posterior = Posterior(MaxoutKernel(2, 3), X, Y[:, 0], 0.01)
    found = posterior.gradient(X)
    assert found.shape == X.shape
    np.testing.assert_allclose(posterior.gradient(posterior.points), found, rtol=1e-12)
    with pytest.raises(InputError, match="X must have 4 columns"):
        posterior.gradient(X[:, :2])


def test_without_a_factor():
    kernel = MaxoutKernel(2, 3)
    factored, iterated = (
        Posterior(kernel, X, Y, 0.01, solver=solver)
        for solver in (None, ConjugateGradients(tolerance=1e-12))
    )
    np.testing.assert_allclose(iterated.gradient(NEW), factored.gradient(NEW), atol=1e-8)


def test_at_the_origin():
    """Without biases the function is homogeneous: a kink, of which a finite slope is given."""
    posterior = Posterior(MaxoutKernel(2, 3, 1.0, 0.0), X, Y, 0.01)
    assert np.isfinite(posterior.gradient(np.zeros((1, 4)))).all()


def test_of_images():
    kernel = NetworkKernel([Conv(3), ReLU(), Flatten()], image_shape=(4, 4))
    images = rng.normal(size=(5, 16))
    posterior = Posterior(kernel, images, images[:, 0], 0.1)
    with pytest.raises(UnavailableError, match="dense networks, not for convolutional ones"):
        posterior.gradient(images)
