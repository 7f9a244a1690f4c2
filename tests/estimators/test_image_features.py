"""Standardised and whitened images, beside the plain formulas."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.fft import idctn
from scipy.linalg import sqrtm
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from mnngp.errors import InputError
from mnngp.estimators import ImageStandardizer, StationaryWhitening, ZCAWhitening

DIGITS = load_digits().data


@parametrize_with_checks(
    [
        ImageStandardizer(),
        ZCAWhitening(),
        ZCAWhitening(0.0, standardize=True),
        StationaryWhitening(),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def plainly(train, new, regularization):
    """The formula, with all eigenvectors."""
    mean = train.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(train.T, bias=True))
    values = np.maximum(values, 0.0)
    root = (values + regularization * values.mean()) ** -0.5
    return (new - mean) @ (vectors * root) @ vectors.T


@pytest.mark.parametrize("count", [2, 5, 40, 63, 64, 65, 500])
@pytest.mark.parametrize("regularization", [1e-3, 0.1, 10.0])
def test_whitening_is_the_plain_formula(count, regularization):
    """Fewer images than pixels, as many, and more; measured 3e-12 at most."""
    train, new = DIGITS[:count], DIGITS[500:600]
    model = ZCAWhitening(regularization).fit(train)
    expected = plainly(train, new, regularization)
    np.testing.assert_allclose(model.transform(new), expected, atol=1e-10 * np.abs(expected).max())
    directions = model.components_
    np.testing.assert_allclose(directions @ directions.T, np.eye(len(directions)), atol=1e-8)


def test_whitened_images_are_white():
    X = np.random.default_rng(0).normal(size=(400, 30)) @ np.random.default_rng(1).normal(
        size=(30, 30)
    )
    for regularization in (0.0, 1e-9):
        white = ZCAWhitening(regularization).fit_transform(X)
        np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(30), atol=1e-4)
        assert np.abs(white.mean(axis=0)).max() < 1e-10
    again = ZCAWhitening(0.0).fit_transform(white)
    np.testing.assert_allclose(again, white, atol=1e-4)  # U Uᵀ, no rotation


def test_without_regularisation_what_does_not_vary_is_left_out():
    """Some pixels of the digits are always black, and ten images span nine directions."""
    white = ZCAWhitening(0.0).fit_transform(DIGITS)
    assert np.abs(white[:, DIGITS.std(axis=0) == 0.0]).max() < 1e-8  # measured 2e-10
    few = ZCAWhitening(0.0).fit(DIGITS[:10])
    assert few.components_.shape == (9, 64)
    variances = np.linalg.eigvalsh(np.cov(few.transform(DIGITS[:10]).T, bias=True))
    np.testing.assert_allclose(variances[-9:], 1.0, atol=1e-8)
    np.testing.assert_allclose(variances[:-9], 0.0, atol=1e-8)


@pytest.mark.parametrize("regularization", [0.0, 0.1])
@pytest.mark.parametrize("copies", [1, 3, 100])
def test_one_image_or_copies_of_it(regularization, copies):
    """There is nothing to divide by; 0.1 has no exact mean."""
    train = np.repeat(0.1 + DIGITS[:1], copies, axis=0)
    model = ZCAWhitening(regularization).fit(train)
    assert len(model.components_) == 0
    np.testing.assert_allclose(model.transform(DIGITS), DIGITS - train[0], atol=1e-12)


def test_weights_count_images():
    twice = np.concatenate([DIGITS[:20], DIGITS[:5]])
    weight = np.r_[np.full(5, 2.0), np.ones(15), np.zeros(10)]
    a, b = ZCAWhitening().fit(twice), ZCAWhitening().fit(DIGITS[:30], sample_weight=weight)
    np.testing.assert_allclose(a.transform(DIGITS), b.transform(DIGITS), atol=1e-11)


def test_standardised_before():
    both = make_pipeline(ImageStandardizer(), ZCAWhitening()).fit(DIGITS[:50])
    one = ZCAWhitening(standardize=True).fit(DIGITS[:50])
    np.testing.assert_array_equal(one.transform(DIGITS), both.transform(DIGITS))


def test_an_image_is_standardised_by_itself():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(3.0, 2.0, size=(4, 12)), np.full((1, 12), 0.1)])
    found = ImageStandardizer().fit(X).transform(X)
    expected = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
    np.testing.assert_allclose(found[:4], expected[:4], atol=1e-13)
    assert (found[4] == 0.0).all()


@pytest.mark.parametrize("model", [ImageStandardizer(), ZCAWhitening(standardize=True)])
class TestBoth:
    def test_images_and_rows(self, model):
        images = np.random.default_rng(0).normal(size=(9, 4, 5, 3))
        rows = images.reshape(9, -1)
        fitted = clone(model).fit(images)
        assert fitted.n_features_in_ == 60
        np.testing.assert_array_equal(
            fitted.transform(images).reshape(9, -1), fitted.transform(rows)
        )
        with pytest.raises(InputError, match=r"shape \(4, 5, 3\), as in fit, got \(5, 4, 3\)"):
            fitted.transform(images.transpose(0, 2, 1, 3))
        by_rows = clone(model).fit(rows)
        np.testing.assert_array_equal(by_rows.transform(images), fitted.transform(images))
        with pytest.raises(ValueError, match="60 features"):
            by_rows.transform(images[:, 1:])

    def test_types(self, model):
        whole = DIGITS.astype(np.uint8)
        fitted = clone(model).fit(whole)
        assert fitted.transform(whole).dtype == np.float64
        single = clone(model).fit(whole.astype(np.float32)).transform(whole.astype(np.float32))
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, fitted.transform(whole), atol=2e-5)

    def test_names_and_frames(self, model):
        frame = pd.DataFrame(DIGITS[:20]).rename(columns=lambda number: f"pixel {number}")
        fitted = clone(model).set_output(transform="pandas").fit(frame)
        assert fitted.transform(frame).columns.tolist() == frame.columns.tolist()
        assert fitted.get_feature_names_out()[63] == "pixel 63"

    def test_pickled(self, model):
        fitted = clone(model).fit(DIGITS[:50])
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.transform(DIGITS), fitted.transform(DIGITS))

    def test_what_is_no_image(self, model):
        with pytest.raises(ValueError, match="NaN"):
            clone(model).fit(np.where(DIGITS == 3.0, np.nan, DIGITS))
        with pytest.raises(ValueError, match="NaN"):
            clone(model).fit(DIGITS).transform(np.full((2, 8, 8), np.nan))


def test_parameters_are_checked():
    with pytest.raises(InputError, match="regularization must be a finite number at least 0, got"):
        ZCAWhitening(-0.1).fit(DIGITS)
    with pytest.raises(InputError, match="standardize must be True or False, got 'yes'"):
        ZCAWhitening(standardize="yes").fit(DIGITS)


class TestStationary:
    def test_images_of_a_stationary_process_become_white(self):
        """Cosines with given variances, two channels that are correlated: exact up to sampling."""
        rng = np.random.default_rng(0)
        n, side = 4000, 6
        spectrum = 1.0 / (1.0 + np.add.outer(np.arange(side), np.arange(side)) ** 2)
        mix = np.array([[1.0, 0.0], [0.8, 0.6]])
        waves = rng.normal(size=(n, side, side, 2)) @ mix.T * np.sqrt(spectrum)[..., None]
        images = idctn(waves, axes=(1, 2), norm="ortho")
        model = StationaryWhitening(0.0).fit(images[: n // 2])
        rows = model.transform(images[n // 2 :]).reshape(n // 2, -1)
        covariance = rows.T @ rows / len(rows)
        # 2,000 samples: entries have a standard error of 0.022, variances of 0.045 with the fit's
        np.testing.assert_allclose(covariance, np.eye(len(covariance)), atol=0.2)

    @pytest.mark.parametrize("regularization", [0.0, 0.1])
    def test_is_the_plain_formula(self, regularization):
        rng = np.random.default_rng(1)
        images, new = rng.normal(size=(30, 4, 5, 3)), rng.normal(size=(3, 4, 5, 3))

        def cosines(m):
            k, x = np.meshgrid(np.arange(m), np.arange(m), indexing="ij")
            rows = np.cos(np.pi * (x + 0.5) * k / m) * np.sqrt(2.0 / m)
            rows[0] /= np.sqrt(2.0)
            return rows

        down, right = cosines(4), cosines(5)
        waves = np.einsum("ay,bx,nyxc->nabc", down, right, images)
        moments = np.einsum("nabc,nabd->abcd", waves, waves) / 30
        added = regularization * np.trace(moments, axis1=2, axis2=3).mean() / 3
        expected = np.empty_like(new)
        white = np.empty_like(images)
        for source, to in ((new, expected), (images, white)):
            changed = np.einsum("ay,bx,nyxc->nabc", down, right, source)
            for a in range(4):
                for b in range(5):
                    root = np.linalg.inv(sqrtm(moments[a, b] + added * np.eye(3)))
                    changed[:, a, b] = changed[:, a, b] @ root
            to[:] = np.einsum("ay,bx,nabc->nyxc", down, right, changed)
        expected /= np.sqrt(np.mean(white**2))
        found = StationaryWhitening(regularization).fit(images)
        np.testing.assert_allclose(found.transform(new), expected, atol=1e-12)
        again = StationaryWhitening(regularization, image_shape=(4, 5, 3)).fit(
            images.reshape(30, -1)
        )
        np.testing.assert_array_equal(
            again.transform(new.reshape(3, -1)), found.transform(new).reshape(3, -1)
        )

    def test_few_images_come_out_as_large_as_new_ones(self):
        """What a covariance of all pixels does not do."""
        sizes = {}
        for model in (StationaryWhitening(0.1, image_shape=(8, 8)), ZCAWhitening(0.1)):
            model.fit(DIGITS[:40])
            known, new = (np.mean(model.transform(X) ** 2) for X in (DIGITS[:40], DIGITS[40:]))
            sizes[type(model)] = new / known
        assert 0.8 < sizes[StationaryWhitening] < 1.25 < sizes[ZCAWhitening]

    def test_odd_images(self):
        one = StationaryWhitening().fit(DIGITS[:1].reshape(1, 8, 8))
        assert np.isfinite(one.transform(DIGITS[:3].reshape(3, 8, 8))).all()
        black = StationaryWhitening().fit(np.zeros((3, 4, 4)))
        assert (black.transform(np.ones((2, 4, 4))) == 0.0).all()
        with pytest.raises(
            InputError, match=r"X must have 63 pixels, as image_shape=\(9, 7\) says"
        ):
            StationaryWhitening(image_shape=(9, 7)).fit(DIGITS)
        with pytest.raises(InputError, match="regularization must be"):
            StationaryWhitening(-1.0).fit(DIGITS)
