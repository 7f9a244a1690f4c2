"""What a convolutional kernel takes, and what it refuses; depth, flips, derivatives, posteriors."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from mnngp import (
    AvgPool,
    Conv,
    Flatten,
    GlobalAvgPool,
    Maxout,
    MaxoutKernel,
    NetworkKernel,
    ReLU,
)
from mnngp._system import threads
from mnngp.data import standardised
from mnngp.errors import InputError
from mnngp.inference import Posterior, log_evidence_gradient
from mnngp.kernels.convolution import image_points

RNG = np.random.default_rng(1)
IMAGES = RNG.normal(size=(6, 8, 8, 3))
LAYERS = [Conv(3), Maxout(4), Conv(3), Maxout(4), GlobalAvgPool()]


# --- shapes ---------------------------------------------------------------------------------------


def test_rows_of_pixels():
    kernel = NetworkKernel(LAYERS, image_shape=(8, 8, 3))
    expected = NetworkKernel(LAYERS)(IMAGES)
    np.testing.assert_array_equal(kernel(IMAGES.reshape(6, -1)), expected)
    np.testing.assert_array_equal(kernel(IMAGES), expected)
    np.testing.assert_array_equal(
        kernel(IMAGES[:2].reshape(2, -1), IMAGES), NetworkKernel(LAYERS)(IMAGES[:2], IMAGES)
    )


@pytest.mark.parametrize("n", [1, 7, 16, 17, 45])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_symmetric_to_the_last_digit(n, dtype, monkeypatch):
    """However the rows of a block are shared out, and as the pairs of two sets are."""
    images = np.random.default_rng(n).normal(size=(n, 6, 6, 2)).astype(dtype)
    kernel = NetworkKernel(LAYERS, dtype=dtype)
    whole = kernel(images)
    np.testing.assert_array_equal(whole, whole.T)
    monkeypatch.setattr(image_points, "_TASK", 1.0)  # a task for each row
    monkeypatch.setattr(threads, "_SMALL", 0.0)  # in threads, however little there is to do
    np.testing.assert_array_equal(kernel(images), whole)
    apart = kernel(images, images.copy())
    upper = np.triu_indices(n, 1)
    np.testing.assert_array_equal(apart[upper], whole[upper])
    # the others are the same pairs the other way round
    np.testing.assert_allclose(apart, whole, rtol=1e-6 if dtype == "float32" else 1e-13)


def test_one_channel():
    one = IMAGES[..., :1]
    expected = NetworkKernel(LAYERS)(one)
    np.testing.assert_array_equal(NetworkKernel(LAYERS)(one[..., 0]), expected)
    flat = NetworkKernel(LAYERS, image_shape=(8, 8))
    for images in (one, one[..., 0], one.reshape(6, -1)):
        np.testing.assert_array_equal(flat(images), expected)


@pytest.mark.parametrize("padding", ["same", "valid", "circular"])
def test_signals(padding):
    signals = RNG.normal(size=(5, 20, 3))
    readout = [AvgPool(2), Conv(3, padding=padding), ReLU(), GlobalAvgPool()]
    columns = [AvgPool((2, 1)), Conv((3, 1), padding=padding), ReLU(), GlobalAvgPool()]
    kernel = NetworkKernel([Conv(3, padding=padding), Maxout(3), *readout])
    image = NetworkKernel([Conv((3, 1), padding=padding), Maxout(3), *columns])
    expected = image(signals[:, :, None, :])
    np.testing.assert_allclose(kernel(signals), expected, rtol=1e-13)
    said = NetworkKernel([Conv((3,), padding=padding), Maxout(3), *readout], image_shape=(20, 3))
    np.testing.assert_array_equal(said(signals.reshape(5, -1)), kernel(signals))


def test_integers_and_other_layouts():
    pixels = RNG.integers(0, 255, size=(5, 8, 8, 3)).astype(np.uint8)
    kernel = NetworkKernel(LAYERS)
    expected = kernel(pixels.astype(float))
    np.testing.assert_array_equal(kernel(pixels), expected)
    np.testing.assert_array_equal(kernel(np.asfortranarray(pixels)), expected)
    np.testing.assert_array_equal(kernel(pixels.tolist()), expected)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "text"),
    [
        ([Conv(3), ReLU()], r"layers\[1\], ReLU\(\), is the last layer.*readout"),
        (
            [Conv(3), Flatten(), ReLU()],
            r"layers\[1\], Flatten\(\), is a readout and must be the last",
        ),
        ([ReLU(), Flatten()], r"layers\[0\], ReLU\(\), must stand behind a convolution.*first"),
        ([AvgPool(2), ReLU(), Flatten()], r"layers\[1\].*behind AvgPool\(2\)"),
        ([Conv(3), ReLU(), ReLU(), Flatten()], r"layers\[2\].*behind ReLU\(\)"),
        ([Conv(3), "relu", Flatten()], r"layers\[1\] must be a layer.*'relu'"),
        (
            [Conv(3), ReLU(), Conv(3, padding="circular"), ReLU(), Flatten()],
            r"layers\[2\].*layers\[0\].*'circular' goes with itself only",
        ),
    ],
)
def test_no_network(layers, text):
    with pytest.raises(InputError, match=text):
        NetworkKernel(layers)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Conv(0), "size must be a positive integer"),
        (lambda: Conv((3, 0)), r"size\[1\] must be a positive integer"),
        (lambda: Conv((3, 3, 3)), "size must be a positive integer or a pair"),
        (lambda: Conv(3, stride=-1), "stride must be a positive integer"),
        (lambda: Conv(3, padding="full"), "padding must be one of 'same', 'valid', 'circular'"),
        (lambda: AvgPool(2.5), "size must be a positive integer"),
        (lambda: NetworkKernel(LAYERS, flips="yes"), "flips must be True or False"),
        (lambda: NetworkKernel(LAYERS, [1.0, 2.0]), "weight_var must be one number, or 3 numbers"),
        (lambda: NetworkKernel([ReLU()], flips=True), "flips is for networks with convolutions"),
        (lambda: NetworkKernel([ReLU()], image_shape=(8, 8)), "image_shape is for networks with"),
        (lambda: NetworkKernel(LAYERS, image_shape=(8,)), "image_shape must be None or"),
        (
            lambda: NetworkKernel([Conv(3), AvgPool(9), Flatten()], image_shape=(8, 8)),
            r"layers\[1\], AvgPool\(9\), needs at least 9 × 9 positions, and gets 8 × 8",
        ),
    ],
)
def test_bad_arguments(make, text):
    with pytest.raises(InputError, match=text):
        make()


@pytest.mark.parametrize(
    ("layers", "images", "text"),
    [
        ([Conv(3, padding="valid"), Conv(7, padding="valid"), Flatten()], IMAGES, r"layers\[1\].*6 × 6"),
        ([AvgPool(2), AvgPool(2), AvgPool(3), Flatten()], IMAGES, r"layers\[2\].*gets 2 × 2"),
        ([Conv(3, 3, "circular"), Flatten()], IMAGES, r"layers\[0\].*stride that divides the 8 × 8"),
        (LAYERS, IMAGES.reshape(6, -1), r"shape \(n, height, width, channels\).*image_shape"),
        (LAYERS, IMAGES[None], r"X must have the shape"),
        (LAYERS, IMAGES[:0], "at least one image"),
        (LAYERS, np.where(IMAGES > 2.5, np.nan, IMAGES), r"X must be finite, got X\[\d, \d, \d, \d\]"),
        (LAYERS, IMAGES.astype(str), "X must be numeric"),
    ],
)  # fmt: skip
def test_bad_images(layers, images, text):
    with pytest.raises(InputError, match=text):
        NetworkKernel(layers)(images)


def test_images_of_two_shapes():
    with pytest.raises(InputError, match="Y must have images of the shape"):
        NetworkKernel(LAYERS)(IMAGES, IMAGES[:, :7])
    with pytest.raises(InputError, match="as image_shape says"):
        NetworkKernel(LAYERS, image_shape=(8, 7, 3))(IMAGES)


# --- properties -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_depth_fifty(kind, dtype):
    """Finite and positive semi-definite; the distances keep their digits in single precision."""
    layers = [*[Conv(3), Maxout(4)] * 50, GlobalAvgPool()]
    weight = Maxout(4).critical_weight_var
    kernel = NetworkKernel(layers, weight, 0.05, kind, dtype)
    K = kernel(IMAGES)
    assert np.isfinite(K).all()
    values = np.linalg.eigvalsh(K.astype(np.float64))
    eps = np.finfo(dtype).eps
    assert values.min() > -8.0 * len(K) * eps * values.max()
    if dtype == "float32":
        exact = NetworkKernel(layers, weight, 0.05, kind)(IMAGES)
        assert np.abs(K / exact - 1.0).max() < 2e-5


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("bias_var", [0.1, 0.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_equal_black_and_constant_images(kind, bias_var, dtype):
    """Equal images are equal to the last digit; a black one without biases has no variance."""
    images = IMAGES[:4].copy()
    images[1], images[2], images[3] = images[0], 0.0, 1.0
    kernel = NetworkKernel(LAYERS, 0.7, bias_var, kind, dtype)
    K = kernel(images)
    assert K[0, 1] == K[0, 0] == K[1, 1] == kernel(images[:1])[0, 0]
    assert (K[2, 2] == 0.0) == (bias_var == 0.0)
    if bias_var == 0.0:
        assert not K[2].any()
    # pairs in the other order are added up in another order
    np.testing.assert_allclose(
        kernel(images, images.copy()), K, rtol=0.0, atol=8.0 * np.finfo(dtype).eps * K.max()
    )


def test_path():
    kernel = NetworkKernel(LAYERS, [0.7, 0.8, 0.9])
    found = dict(kernel.path(IMAGES))
    shallow = NetworkKernel([Conv(3), Maxout(4), GlobalAvgPool()], [0.7, 0.9])
    np.testing.assert_array_equal(found[1], shallow(IMAGES))
    np.testing.assert_array_equal(found[2], kernel(IMAGES))


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("stride", [1, 2])  # with two an image of eight columns is not mirrored
def test_flips(kind, stride):
    layers = [Conv(3, stride), Maxout(4), Conv(3), Maxout(3), GlobalAvgPool()]
    plain = NetworkKernel(layers, 0.8, 0.1, kind)
    both = np.concatenate([IMAGES, IMAGES[:, :, ::-1]])
    K = plain(both)
    n = len(IMAGES)
    expected = (K[:n, :n] + K[:n, n:] + K[n:, :n] + K[n:, n:]) / 4.0
    kernel = NetworkKernel(layers, 0.8, 0.1, kind, flips=True)
    np.testing.assert_allclose(kernel(IMAGES), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel(IMAGES[:2], IMAGES[1:]), expected[:2, 1:], rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(IMAGES), np.diag(expected), rtol=1e-12)
    np.testing.assert_allclose(kernel(IMAGES[:, :, ::-1]), kernel(IMAGES), rtol=1e-12)


def test_scikit_learn_protocol():
    from sklearn.base import clone

    kernel = NetworkKernel(LAYERS, image_shape=(8, 8, 3), flips=True)
    assert clone(kernel) == kernel
    assert "flips=True" in repr(kernel)
    assert "image_shape" not in repr(NetworkKernel(LAYERS))
    assert str(kernel.network).startswith("Conv(3) (1, 0.1) → Maxout(rank=4)")
    moved = kernel.clone_with_theta(kernel.theta + 0.1)
    np.testing.assert_allclose(moved.theta, kernel.theta + 0.1)


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_derivatives(kind):
    """Against central differences with another step; the formula's error is some 1e-11."""
    kernel = NetworkKernel(LAYERS, [0.6, 0.7, 0.8], [0.1, 0.0, 0.3], kind, bias_var_bounds="fixed")
    K, gradient = kernel(IMAGES, eval_gradient=True)
    np.testing.assert_array_equal(K, kernel(IMAGES))
    assert gradient.shape == (6, 6, 3)
    # the readout's weight variance is a factor; measured 6e-13
    np.testing.assert_allclose(gradient[..., 2], K - 0.3, rtol=1e-11)
    for index in range(3):
        step = np.zeros(3)
        step[index] = 1e-5
        upper, lower = (
            kernel.clone_with_theta(kernel.theta + sign * step)(IMAGES) for sign in (1.0, -1.0)
        )
        np.testing.assert_allclose(
            gradient[..., index], (upper - lower) / 2e-5, rtol=1e-7, atol=1e-9
        )


def test_posterior():
    """By its formula; with evidence and its gradient."""
    y = RNG.normal(size=6)
    kernel = NetworkKernel(LAYERS)
    posterior = Posterior(kernel, IMAGES, y, 0.1)
    K, new = kernel(IMAGES), RNG.normal(size=(4, 8, 8, 3))
    expected = kernel(new, IMAGES) @ np.linalg.solve(K + 0.1 * np.eye(6), y)
    np.testing.assert_allclose(posterior.mean(new), expected, rtol=1e-9, atol=1e-12)
    _, variance = posterior.mean_and_variance(new)
    exact = kernel.diag(new) - np.einsum(
        "ij,ji->i", kernel(new, IMAGES), np.linalg.solve(K + 0.1 * np.eye(6), kernel(IMAGES, new))
    )
    np.testing.assert_allclose(variance, exact, rtol=1e-8)
    gradient = log_evidence_gradient(posterior)
    for index in range(len(kernel.theta)):
        values = []
        for sign in (1.0, -1.0):
            theta = kernel.theta.copy()
            theta[index] += sign * 1e-5
            moved = Posterior(kernel.clone_with_theta(theta), IMAGES, y, 0.1)
            values.append(moved.log_marginal_likelihood())
        np.testing.assert_allclose(gradient[index], (values[0] - values[1]) / 2e-5, rtol=1e-5)
    with pytest.raises(InputError, match="X must have images of the shape"):
        posterior.mean(new[:, :5])


def test_dense_kernels_refuse_images():
    with pytest.raises(InputError, match="2 dimensions"):
        MaxoutKernel()(IMAGES)


def test_many_images_need_no_more_noise():
    """A few of them do not tell how far distances may be stretched before all are factored.

    128 of these images are positive definite with κ = 0.17, all 1,200 only with 0.53.
    """
    digits = load_digits()
    images = standardised(digits.data[:1200]).reshape(-1, 8, 8)
    layers = [Conv(3), Maxout(4), Conv(3), Maxout(4), AvgPool(3, 1), Flatten()]
    kernel = NetworkKernel(layers, Maxout(4).critical_weight_var, 0.01)
    posterior = Posterior(kernel, images, digits.target[:1200] - 4.5, 1e-4)
    assert (posterior.noise_var == 1e-4).all()
    assert posterior.report.added == 0.0
    assert posterior.report.attempts == 2
    plain = kernel(images) + 1e-4 * np.eye(1200)
    expected = kernel(images[:5] + 0.1, images) @ np.linalg.solve(plain, digits.target[:1200] - 4.5)
    np.testing.assert_allclose(posterior.mean(images[:5] + 0.1), expected, rtol=1e-7)
