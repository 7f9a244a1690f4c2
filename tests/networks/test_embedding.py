"""The embedding of single features: its explicit map against the plain formula."""

from dataclasses import replace

import numpy as np
import pytest

from mnngp import Conv, Embedding, Flatten, Maxout, MaxoutKernel, NetworkKernel, ReLU, Tanh
from mnngp.errors import InputError
from mnngp.inference import Posterior
from tests import plain

rng = np.random.default_rng(7)
X, Y = rng.normal(size=(23, 4)), rng.uniform(-3.5, 3.5, size=(11, 4))
TABLE = Embedding(0.7, (-3.0, 3.0), categories=((3, 6),), gaps=(2,))


def table(n):
    """A number, a number with gaps, a category of three levels (one row has none of them)."""
    gap, level = rng.integers(0, 2, n), rng.integers(0, 3, n)
    rows = np.column_stack([rng.normal(size=(n, 2)), gap, np.eye(3)[level]])
    rows[gap == 1, 1] = 0.4  # anything
    rows[0, 3:] = 0.0
    return rows


def gaussian(a, b, lengthscale):
    return np.exp(-((a[:, None] - b) ** 2) / (2.0 * lengthscale**2))


def formula(Z, embedding):
    """The weighted mean over the features, written down: numbers first, then categories."""
    shown = np.clip(Z, *embedding.limits)
    parts, used, categories = [], set(embedding.gaps), []
    for start, stop in embedding.categories:
        level = np.where(Z[:, start:stop].any(axis=1), Z[:, start:stop].argmax(axis=1), -1)
        categories.append((level[:, None] == level).astype(float))
        used |= set(range(start, stop))
    for j in sorted(set(range(Z.shape[1])) - used):
        part = gaussian(shown[:, j], shown[:, j], embedding.lengthscale)
        if j + 1 in embedding.gaps:
            gap = Z[:, j + 1]
            part = part * np.outer(1.0 - gap, 1.0 - gap) + np.outer(gap, gap)
        parts.append(part)
    return np.average(parts + categories, axis=0, weights=embedding.weights or None)


@pytest.mark.parametrize("lengthscale", [0.05, 0.3, 1.0, 3.0, 40.0])
def test_explicit_map(lengthscale):
    embedding = Embedding(lengthscale)
    rows = embedding(X)
    assert rows.shape == (len(X), embedding.width(X.shape[1]))
    expected = formula(X, embedding)
    np.testing.assert_allclose(rows @ rows.T / rows.shape[1], expected, rtol=0.0, atol=2e-13)


def test_the_map_is_short():
    """Columns a feature, on ranks: what ../networks/embedding.py and the guide say."""
    widths = [Embedding(ell, (-(3**0.5), 3**0.5)).width(1) for ell in (0.3, 1.0, 3.0)]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] <= 40
    assert widths[2] <= 10


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("layers", [[Maxout(3)] * 4, [ReLU(), Maxout(4)], [Tanh(), Maxout(2)]])
def test_kernels_above_it(kind, layers):
    Z = np.concatenate([X, Y])
    expected = plain.kernel(
        layers, X, Y, weight_var=0.7, bias_var=0.1, kind=kind, gram=formula(Z, Embedding(0.8))
    )
    kernel = NetworkKernel([Embedding(0.8), *layers], 0.7, 0.1, kind)
    # a saturating activation is a series of 1e-10 beside the quadrature of plain.py
    smooth = any(isinstance(layer, Tanh) for layer in layers)
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-8 if smooth else 1e-12)
    np.testing.assert_allclose(kernel.diag(X), np.diag(kernel(X)), rtol=1e-14)


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("weights", [(), (0.5, 3.0, 1.5), (2.0, 0.0, 1e-9)])
def test_categories_gaps_and_weights(kind, weights):
    Z, embedding = table(40), replace(TABLE, weights=weights)
    kernel = MaxoutKernel(3, 4, 0.6, 0.1, kind, embedding=embedding)
    expected = plain.kernel(
        [Maxout(4)] * 3,
        Z,
        Z,
        weight_var=0.6,
        bias_var=0.1,
        kind=kind,
        gram=np.tile(formula(Z, embedding), (2, 2)),
    )
    np.testing.assert_allclose(kernel(Z), expected, rtol=1e-12)


def test_weights_are_shares():
    """A common factor says nothing, and a feature of weight zero is not there."""
    one, other = Embedding(0.7, weights=(1.0, 2.0, 3.0, 4.0)), Embedding(0.7, weights=(2, 4, 6, 8))
    np.testing.assert_allclose(one(X), other(X), rtol=1e-14)
    alone = Embedding(0.7, weights=(0.0, 1.0, 1.0, 0.0))
    np.testing.assert_allclose(
        MaxoutKernel(embedding=alone)(X),
        MaxoutKernel(embedding=Embedding(0.7))(X[:, 1:3]),
        rtol=1e-12,
    )
    blocks = TABLE.blocks(6)
    assert sorted(np.concatenate(blocks)) == list(range(TABLE.width(6)))
    assert len(blocks) == TABLE.features(6) == 3


def test_random_units():
    """The Gaussian is what infinitely many random periodic units of a feature are."""
    a, ell, count = np.array([-1.0, 0.3, 2.0]), 0.8, 400_000
    omega, phase = rng.normal(size=count) / ell, rng.uniform(0.0, 2.0 * np.pi, count)
    units = np.sqrt(2.0) * np.cos(np.outer(a, omega) + phase)
    sampled = units @ units.T / count
    error = np.sqrt(((units[:, None] * units) ** 2).mean(axis=2) / count)
    assert (np.abs(sampled - gaussian(a, a, ell)) < 4.0 * error).all()


def test_what_is_beyond_the_limits_is_taken_for_them():
    kernel = MaxoutKernel(2, embedding=Embedding(1.0, (-1.0, 1.0)))
    np.testing.assert_array_equal(kernel([[5.0]], [[0.2]]), kernel([[1.0]], [[0.2]]))


def test_single_precision():
    exact = MaxoutKernel(4, 3, 0.8, 0.1, embedding=Embedding(0.5))
    coarse = MaxoutKernel(4, 3, 0.8, 0.1, dtype="float32", embedding=Embedding(0.5))
    assert coarse(X).dtype == np.float32
    np.testing.assert_allclose(coarse(X), exact(X), rtol=2e-6)


def test_posterior():
    kernel = MaxoutKernel(2, 4, 0.6, 0.1, embedding=TABLE)
    Z, new = table(50), table(9)
    y = rng.normal(size=50)
    posterior = Posterior(kernel, Z, y, 0.1)
    expected = kernel(new, Z) @ np.linalg.solve(kernel(Z) + 0.1 * np.eye(50), y)
    np.testing.assert_allclose(posterior.mean(new), expected, rtol=1e-10)


def test_gradient_in_the_variances():
    kernel = MaxoutKernel(2, 4, 0.6, 0.1, embedding=Embedding(1.0))
    _, gradient = kernel(X, eval_gradient=True)
    step = 1e-5
    for place in range(len(kernel.theta)):
        move = np.zeros(len(kernel.theta))
        move[place] = step
        up, down = (kernel.clone_with_theta(kernel.theta + s * move)(X) for s in (1, -1))
        np.testing.assert_allclose(gradient[..., place], (up - down) / (2.0 * step), atol=1e-8)


def test_it_is_seen():
    kernel = NetworkKernel([Embedding(0.5), Maxout(4)])
    assert repr(kernel.layers[0]) == "Embedding(0.5)"
    assert str(kernel.network).startswith("Embedding(0.5) → Dense(1, 0.1) → Maxout(rank=4)")
    assert kernel.network != NetworkKernel([Maxout(4)]).network
    assert "Embedding(2)" in repr(MaxoutKernel(embedding=Embedding(2.0)))
    assert "mbedding" not in repr(MaxoutKernel())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Embedding(0.0), "lengthscale must be"),
        (lambda: Embedding(1.0, (2.0, 1.0)), "a lower and a higher number"),
        (lambda: Embedding(0.001), "at most 200 lengthscales apart"),
        (lambda: Embedding(1.0, 3.0), "limits must be a pair"),
        (lambda: Embedding(1.0, categories=((3, 2),)), "start < stop"),
        (lambda: NetworkKernel([Maxout(4), Embedding(1.0)]), r"layers\[1\] cannot be an embedding"),
        (lambda: NetworkKernel([Embedding(1.0)]), "at least one activation"),
        (
            lambda: NetworkKernel([Embedding(1.0), Conv(3), ReLU(), Flatten()]),
            r"layers\[0\] cannot be an embedding",
        ),
        (lambda: Embedding(1.0, weights=(1.0, -1.0)), r"weights\[1\] must be"),
        (lambda: Embedding(1.0, weights=(0.0, 0.0)), "weights must not all be zero"),
        (lambda: Embedding(1.0, weights=[1.0]), "weights must be a tuple"),
        (lambda: Embedding(1.0, weights=(1e308, 1e308)), r"weights\[0\] must be"),
        (lambda: Embedding(1.0, gaps=(0,)), "gaps must be columns from 1 on"),
        (lambda: Embedding(1.0, gaps=(1, 2)), "each behind a number of its own"),
        (lambda: Embedding(1.0, gaps=(1, 1)), "each behind a number of its own"),
        (lambda: Embedding(1.0, categories=((0, 2),), gaps=(2,)), "behind a number of its own"),
        (lambda: Embedding(1.0, weights=(1.0, 2.0))(X), "weights must be 4 numbers"),
        (lambda: MaxoutKernel(embedding=1.0), "embedding must be None or an Embedding"),
        (lambda: MaxoutKernel(embedding=TABLE)(X), "more than 5 columns"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()
