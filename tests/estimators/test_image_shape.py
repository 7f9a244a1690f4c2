"""``image_shape=``: estimators that choose a convolutional network."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score

import mnngp
from mnngp import MaxoutGPClassifier, MaxoutGPRegressor, NetworkKernel
from mnngp.errors import AccuracyWarning, InputError, ModelFileError
from mnngp.estimators import StationaryWhitening
from tests.estimators.model_files import replaced, rewrite, with_value

DIGITS = load_digits()
X, Y = DIGITS.data, DIGITS.target
QUICK = {"image_shape": (8, 8), "fit_seconds": 30.0, "max_trials": 3, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return MaxoutGPClassifier(image_shape=(8, 8), fit_seconds=20.0, random_state=0).fit(
        X[:200], Y[:200]
    )


@pytest.fixture(scope="module")
def quick():
    return MaxoutGPClassifier(**QUICK).fit(X[:60], Y[:60])


def photographs(n, rng):
    """Colour images of two kinds: a bright spot in the upper half or in the lower one, anywhere."""
    images = rng.normal(0.0, 0.3, size=(n, 7, 9, 3))
    label = rng.integers(2, size=n)
    down, right = rng.integers(3, size=n) + 4 * label, rng.integers(9, size=n)
    images[np.arange(n), down, right] += 3.0
    return images, label


class TestChoice:
    def test_better_than_dense(self, model):
        """Measured 0.87 and 0.84, of digits by other writers than the first 200; a busy machine tries
        fewer networks, so that there is time for five times as many."""
        dense = MaxoutGPClassifier(random_state=0).fit(X[:200], Y[:200])
        found = model.score(X[200:600], Y[200:600])
        assert found > dense.score(X[200:600], Y[200:600]) + 0.02
        assert model.kernel_.convolutional
        assert model.kernel_.dtype == "float64"
        assert model.loo_.accuracy > 0.95

    def test_trials(self, model):
        rows = [trial["n_rows"] for trial in model.trials_]
        assert rows == sorted(rows, reverse=True)
        assert {trial["features"] for trial in model.trials_} <= {"standardised", "whitened"}
        assert any(trial["flips"] for trial in model.trials_)
        assert not model.trials_[0]["flips"]  # of digits
        best = max(trial["score"] for trial in model.trials_ if trial["n_rows"] == rows[0])
        assert model.trials_[0]["score"] == best
        assert model.trials_[0]["layers"] == [repr(layer) for layer in model.kernel_.layers]

    def test_about_the_time_that_was_said(self, model):
        """Rounds are estimated, so half as much again may be; two threads add up."""
        assert sum(trial["seconds"] for trial in model.trials_) < 3.0 * 3.0

    def test_at_most_so_many(self, quick):
        assert len(quick.trials_) <= 3

    def test_what_cannot_be_paid_is_left_out(self):
        one = MaxoutGPClassifier(**{**QUICK, "fit_seconds": 1e-6}).fit(X[:60], Y[:60])
        assert len({tuple(trial["layers"]) for trial in one.trials_}) == 1

    def test_seeds_decide(self, quick):
        again = MaxoutGPClassifier(**QUICK).fit(X[:60], Y[:60])
        np.testing.assert_array_equal(again.predict_proba(X[60:90]), quick.predict_proba(X[60:90]))

    def test_it_says_what_it_does(self, capfd):
        MaxoutGPClassifier(**QUICK, progress=True).fit(X[:60], Y[:60])
        said = capfd.readouterr().err
        assert "comparing 3 networks on" in said
        assert "of 60 images: " in said


class TestImages:
    def test_arrays_and_rows(self, quick):
        images = X.reshape(-1, 8, 8)
        again = MaxoutGPClassifier(**QUICK).fit(images[:60], Y[:60])
        for new in (X[60:80], images[60:80], images[60:80, ..., None], pd.DataFrame(X[60:80])):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # names of a frame's columns
                np.testing.assert_array_equal(again.predict(new), quick.predict(X[60:80]))

    def test_colours_that_are_not_square(self):
        rng = np.random.default_rng(0)
        images, label = photographs(80, rng)
        model = MaxoutGPClassifier(image_shape=(7, 9, 3), fit_seconds=4.0, random_state=0)
        new, expected = photographs(100, rng)
        assert model.fit(images, label).score(new, expected) > 0.9
        assert model.n_features_in_ == 7 * 9 * 3

    def test_numbers_and_several_targets(self):
        images, label = photographs(60, np.random.default_rng(0))
        y = np.column_stack([label + 0.1 * images[:, 0, 0, 0], -2.0 * label])
        options = {**QUICK, "image_shape": (7, 9, 3)}
        model = MaxoutGPRegressor(**options).fit(images, y)
        mean, std = model.predict(images, return_std=True)
        assert mean.shape == std.shape == y.shape
        assert model.score(images, y) > 0.8
        assert np.isfinite(model.log_marginal_likelihood_)
        given = MaxoutGPRegressor(**options, noise_var=0.1).fit(images, y[:, 0])
        assert given.noise_var_ == pytest.approx(0.1)
        assert given.score(images, y[:, 0]) > 0.5

    @pytest.mark.parametrize("shape", [(64, 1), (1, 64), (2, 32), (1, 1, 64), (4, 4, 4)])
    def test_odd_shapes(self, shape):
        model = MaxoutGPClassifier(**{**QUICK, "image_shape": shape}).fit(X[:40], Y[:40])
        assert model.predict(X[40:45]).shape == (5,)

    def test_images_that_repeat_and_weights(self):
        """A weight of two is an image given twice, and brightness and contrast are nothing."""
        weight = np.r_[np.full(10, 2.0), np.ones(40), np.zeros(5)]
        twice = np.concatenate([X[:50], 2.0 * X[:10] + 3.0])
        labels = np.concatenate([Y[:50], Y[:10]])
        a = MaxoutGPClassifier(**QUICK).fit(X[:55], Y[:55], sample_weight=weight)
        b = MaxoutGPClassifier(**QUICK).fit(twice, labels)
        assert len(b.process_.posterior.points) == 50
        np.testing.assert_allclose(a.decision_function(X[60:80]), b.decision_function(X[60:80]))

    def test_class_weights_and_labels_of_any_kind(self):
        names = np.array(["even", "odd"], dtype=object)[Y % 2]
        model = MaxoutGPClassifier(**QUICK, class_weight="balanced").fit(X[:60], names[:60])
        assert model.score(X[60:160], names[60:160]) > 0.8
        np.testing.assert_allclose(model.predict_proba(X[:5]).sum(axis=1), 1.0)

    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_one_image_or_a_few(self, count):
        with pytest.warns(AccuracyWarning, match="no kernel can be chosen"):
            model = MaxoutGPClassifier(**QUICK).fit(X[:count], Y[:count])
        assert model.predict(X[:20]).shape == (20,)

    def test_one_class_and_black_images(self):
        model = MaxoutGPClassifier(**QUICK).fit(np.r_[X[:9], np.zeros((2, 64))], np.zeros(11))
        assert (model.predict(np.zeros((3, 64))) == 0.0).all()

    def test_single_precision_and_bytes(self, quick):
        model = MaxoutGPClassifier(**QUICK, dtype="float32").fit(X[:60].astype(np.uint8), Y[:60])
        assert model.kernel_.dtype == "float32"
        assert np.mean(model.predict(X[60:160]) == quick.predict(X[60:160])) > 0.95


class TestScikitLearn:
    def test_clone_and_search(self):
        base = MaxoutGPClassifier(**QUICK)
        assert clone(base).get_params() == base.get_params()
        search = GridSearchCV(base, {"max_trials": [1, 2]}, cv=2, n_jobs=2).fit(X[:60], Y[:60])
        assert search.best_estimator_.kernel_.convolutional
        assert (cross_val_score(base, X[:60].reshape(-1, 8, 8), Y[:60], cv=2) > 0.4).all()

    def test_a_fit_that_fails_changes_nothing(self, quick):
        model = pickle.loads(pickle.dumps(quick))
        with pytest.raises(ValueError, match="NaN"):
            model.fit(np.where(X == 3.0, np.nan, X), Y)
        np.testing.assert_array_equal(model.predict(X[60:80]), quick.predict(X[60:80]))


class TestRefused:
    @pytest.mark.parametrize(
        ("given", "match"),
        [
            ({"kernel": NetworkKernel([mnngp.Maxout(2)])}, "image_shape and kernel cannot both be"),
            ({"depth": 3}, "image_shape and depth cannot both be given.*got .*depth=3"),
            ({"kind": "ntk"}, "image_shape and kind cannot both"),
            ({"normalize": "sphere"}, "image_shape and normalize cannot both"),
            ({"fit_seconds": 0.0}, "fit_seconds must be a finite number above 0, got 0.0"),
            ({"fit_seconds": "long"}, "fit_seconds must be .* got 'long'"),
            ({"image_shape": 8}, r"image_shape must be None or \(height, width\).*got 8"),
            ({"image_shape": (8, 8, 1, 1)}, "image_shape must be"),
            ({"image_shape": (8, 8.0)}, r"image_shape\[1\] must be a positive integer"),
            ({"image_shape": "8x8"}, "image_shape must be"),
            ({"image_shape": (7, 8)}, r"X must have the shape \(n, 7, 8, 1\) or \(n, 56\)"),
            ({"dtype": "float16"}, "float16"),
        ],
    )
    def test_parameters(self, given, match):
        with pytest.raises(InputError, match=match):
            MaxoutGPClassifier(**{**QUICK, **given}).fit(X[:30], Y[:30])

    def test_data(self, quick):
        with pytest.raises(InputError, match=r"as image_shape says, got \(3, 4, 16\)"):
            quick.predict(X[:3].reshape(3, 4, 16))
        with pytest.raises(ValueError, match="63 features"):
            quick.predict(X[:3, 1:])
        with pytest.raises(ValueError, match="NaN"):
            quick.predict(np.full((2, 8, 8), np.nan))
        with pytest.raises(ValueError, match="inconsistent"):
            MaxoutGPClassifier(**QUICK).fit(X[:30].reshape(-1, 8, 8), Y[:29])


def under_clouds(n, rng):
    """A faint pattern in images of strong and smooth clouds, or its negative: two kinds."""
    high, wide = np.meshgrid(np.arange(6.0), np.arange(6.0), indexing="ij")
    label = rng.integers(2, size=n)
    waves = np.stack([np.cos(np.pi * a * high / 6.0 + b * wide) for a in (1, 2) for b in (0, 0.5)])
    clouds = np.einsum("nk,khw->nhw", rng.normal(size=(n, 4)), waves)
    pattern = 0.1 * (2.0 * label - 1.0)[:, None, None] * np.sign(np.sin(high * wide + 1.0))
    return clouds + pattern + 0.03 * rng.normal(size=(n, 6, 6)), label


@pytest.fixture(scope="module")
def images():
    return under_clouds(300, np.random.default_rng(0))


@pytest.fixture(scope="module")
def whitened(images):
    model = MaxoutGPClassifier(**{**QUICK, "image_shape": (6, 6)})
    return model.fit(images[0][:200], images[1][:200])


class TestWhitening:
    def test_is_what_the_transformer_does(self, whitened, images):
        assert whitened.process_.scaling.normalize == "whitened"
        assert whitened.trials_[0]["features"] == "whitened"
        rows = images[0].reshape(300, 36)
        whitening = StationaryWhitening(0.1, standardize=True, image_shape=(6, 6))
        expected = whitening.fit(rows[:200]).transform(rows)
        np.testing.assert_allclose(whitened.process_.scaling(rows), expected, atol=1e-10)
        assert whitened.score(images[0][200:], images[1][200:]) > 0.8

    def test_a_file_keeps_it(self, whitened, images, tmp_path):
        new = images[0][200:]
        whitened.save(tmp_path / "model.mnngp")
        again = mnngp.load(tmp_path / "model.mnngp")
        for method in ("predict_proba", "decision_function"):
            np.testing.assert_array_equal(
                getattr(again, method)(new), getattr(whitened, method)(new)
            )
        copied = pickle.loads(pickle.dumps(whitened))
        np.testing.assert_array_equal(copied.predict_proba(new), whitened.predict_proba(new))

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            (replaced("filters", with_value(np.nan)), "filters must be finite"),
            (replaced("filters", lambda rows: rows[:-1]), "filters must have the shape"),
            (replaced("filters", lambda rows: np.hstack([rows, rows])), "filters must have the"),
            (lambda header, _: header.update(normalize="sphere"), "'filters' is none that such"),
            (lambda header, _: header.update(normalize="magic"), "normalize must be one of"),
        ],
    )
    def test_changed_files_are_refused(self, whitened, tmp_path, change, match):
        path = tmp_path / "model.mnngp"
        whitened.save(path)
        rewrite(path, change)
        with pytest.raises(ModelFileError, match=match):
            mnngp.load(path)


class TestFiles:
    def test_round_trip(self, quick, tmp_path):
        quick.save(tmp_path / "model.mnngp")
        again = mnngp.load(tmp_path / "model.mnngp")
        assert again.get_params() == quick.get_params()
        assert again.trials_ == quick.trials_
        assert again.kernel_ == quick.kernel_
        images = X[60:90].reshape(-1, 8, 8)
        np.testing.assert_array_equal(again.predict_proba(images), quick.predict_proba(X[60:90]))
        clone(again).fit(X[:30], Y[:30])

    @pytest.mark.parametrize("shape", [[8], [8, 8, 1, 1], [8, -8], "8x8", [8, 8.5], [8, 10**9]])
    def test_shapes_are_checked(self, quick, tmp_path, shape):
        path = tmp_path / "model.mnngp"
        quick.save(path)
        rewrite(path, lambda header, _: header["parameters"].update(image_shape=shape))
        with pytest.raises(ModelFileError, match=r"parameters\.image_shape must be"):
            mnngp.load(path)
