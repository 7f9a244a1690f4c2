"""The relevance of columns: right order, noise near zero, and what it is made of."""

import pickle

import numpy as np
import polars as pl
import pytest

import mnngp
from mnngp import (
    Conv,
    Embedding,
    Flatten,
    MaxoutGPClassifier,
    MaxoutGPRegressor,
    MaxoutKernel,
    NetworkKernel,
    ReLU,
)
from mnngp.errors import InputError, UnavailableError
from mnngp.estimators import relevance

rng = np.random.default_rng(5)
N = 150
X = rng.normal(size=(N, 3))
Y = np.sin(X[:, 0]) + 0.1 * X[:, 1] + 0.02 * rng.normal(size=N)
GIVEN = {"depth": 1, "rank": 4, "weight_var": 0.6446, "bias_var": 0.1, "kind": "nngp"}
LEVEL = rng.integers(0, 3, N)
FRAME = pl.DataFrame(
    {
        "same": ["cm"] * N,
        "kind": np.array(["clay", "sand", "peat"])[LEVEL],
        "noise": rng.normal(size=N),
        "noisy kind": np.array(["u", "v"])[rng.integers(0, 2, N)],
        "x": X[:, 0],
        "gaps": [None if j % 3 == 0 else float(value) for j, value in enumerate(X[:, 1])],
    }
)
OF_FRAME = X[:, 0] + 1.5 * (LEVEL == 1) + 0.5 * np.where(np.arange(N) % 3 == 0, 2.0, X[:, 1])


@pytest.mark.parametrize("features", ["linear", "embedding"])
def test_order_of_columns(features):
    """The squares of the slopes are 0.57 on average (cos x for normal x) and 0.01."""
    model = MaxoutGPRegressor(**GIVEN, features=features, random_state=0).fit(X, Y)
    found = model.feature_relevance_
    assert found.shape == (3,)
    assert found.sum() == pytest.approx(1.0)
    assert found.argsort().tolist() == [2, 1, 0]
    assert found[0] > 0.95
    assert 0.005 < found[1] < 0.04
    assert found[2] < 0.02
    assert model.feature_relevance_ is found  # computed once
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 0.0


@pytest.mark.parametrize("features", ["linear", "embedding"])
def test_columns_of_a_frame(features):
    model = MaxoutGPRegressor(**GIVEN, features=features, random_state=0).fit(FRAME, OF_FRAME)
    found = dict(zip(model.feature_names_in_, model.feature_relevance_, strict=True))
    assert list(found) == FRAME.columns
    assert found["same"] == 0.0  # it was left out
    assert sum(found.values()) == pytest.approx(1.0)
    assert min(found["x"], found["kind"], found["gaps"]) > 5.0 * max(
        found["noise"], found["noisy kind"]
    )
    assert found["x"] > found["kind"]


def test_of_classes():
    labels = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.5, 0.5])]
    model = MaxoutGPClassifier(**GIVEN, noise_var=0.1, random_state=0).fit(X, labels)
    assert model.feature_relevance_.argmax() == 0
    assert model.feature_relevance_[2] < 0.06


def test_it_is_the_mean_squared_gradient():
    """Of standardised columns, from the public parts."""
    model = MaxoutGPRegressor(**GIVEN, features="linear", noise_var=0.01).fit(X, Y)
    process = model.process_
    gradient = process.posterior.gradient(process.scaling(X))[..., 0]
    expected = np.mean(gradient**2, axis=0)
    np.testing.assert_allclose(model.feature_relevance_, expected / expected.sum(), rtol=1e-9)


def test_a_category_by_its_levels():
    """Σ p (g - ḡ)² over the levels, and one of g = 0 for rows that have none of them."""
    frame = pl.DataFrame({"x": X[:, 0], "kind": FRAME["kind"]})
    model = MaxoutGPRegressor(**GIVEN, features="linear", noise_var=0.01).fit(frame, OF_FRAME)
    encoded, process = model.encoder_.transform(frame), model.process_
    part = model.encoder_.groups_[1]
    gradient = process.posterior.gradient(process.scaling(encoded))[..., 0] / process.scaling.scale
    levels, share = gradient[:, part.start : part.stop], encoded.mean(axis=0)[part.start :]
    centred = levels - (levels @ share)[:, None]
    expected = np.array([np.mean(gradient[:, 0] ** 2 * X[:, 0].var()), np.mean(centred**2 @ share)])
    np.testing.assert_allclose(model.feature_relevance_, expected / expected.sum(), rtol=1e-9)


def test_a_linear_function_of_indicators():
    """y = z + 2 b, of a Boolean b: the variances of both parts, 1 and 4 p (1 - p)."""
    b = rng.integers(0, 2, N).astype(float)
    rows = np.column_stack([X[:, 0], b])
    expected = np.array([X[:, 0].var(), 4.0 * b.var()])
    expected /= expected.sum()
    for features in ("linear", "embedding"):
        model = MaxoutGPRegressor(**GIVEN, features=features).fit(rows, X[:, 0] + 2.0 * b)
        np.testing.assert_allclose(model.feature_relevance_, expected, atol=0.12)


def test_other_units_and_weights():
    """Neither the units of columns that are not standardised matter, nor copies of rows."""
    kernel = MaxoutKernel(1, 4, 0.6446, 0.1, weight_var_bounds="fixed", bias_var_bounds="fixed")
    plain = MaxoutGPRegressor(kernel=kernel, normalize=None, noise_var=0.01).fit(X, Y)
    twice = MaxoutGPRegressor(kernel=kernel, normalize=None, noise_var=0.01)
    twice.fit(X, Y, sample_weight=np.full(N, 2.0))
    np.testing.assert_allclose(plain.feature_relevance_, twice.feature_relevance_, atol=0.01)
    sphere = MaxoutGPRegressor(kernel=kernel, normalize="sphere", noise_var=0.1).fit(X, Y)
    assert sphere.feature_relevance_.sum() == pytest.approx(1.0)


def test_several_targets_each_in_its_unit():
    both = np.column_stack([X[:, 0], 1e6 * X[:, 1]])
    model = MaxoutGPRegressor(**GIVEN, features="linear").fit(X, both)
    np.testing.assert_allclose(model.feature_relevance_, [0.5, 0.5, 0.0], atol=0.05)


def test_after_a_file_and_a_pickle(tmp_path):
    model = MaxoutGPRegressor(**GIVEN, features="embedding", noise_var=0.01).fit(FRAME, OF_FRAME)
    model.save(tmp_path / "model.mnngp")
    before = pickle.loads(pickle.dumps(model))
    expected = model.feature_relevance_
    for other in (mnngp.load(tmp_path / "model.mnngp"), before, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.feature_relevance_, expected)
    del vars(before)["_relevance"]  # as in a pickle of an earlier version
    np.testing.assert_array_equal(before.feature_relevance_, expected)
    model.fit(FRAME.select("x", "noise", "kind"), OF_FRAME)
    assert len(model.feature_relevance_) == 3


def test_of_some_rows(monkeypatch):
    model = MaxoutGPRegressor(**GIVEN, features="linear", noise_var=0.01).fit(X, Y)
    expected = model.feature_relevance_
    monkeypatch.setattr(relevance, "MOST_ROWS", 60)
    np.testing.assert_allclose(relevance.feature_relevance(model), expected, atol=0.03)


def test_nothing_depends_on_anything():
    with pytest.warns(mnngp.errors.AccuracyWarning, match="all targets are the same"):
        model = MaxoutGPRegressor(**GIVEN).fit(X, np.ones(N))
    assert model.feature_relevance_.tolist() == [0.0, 0.0, 0.0]


def test_not_of_images_nor_before_a_fit():
    with pytest.raises(Exception, match="not fitted"):
        MaxoutGPRegressor().feature_relevance_  # noqa: B018
    kernel = NetworkKernel([Conv(3), ReLU(), Flatten()], 2.0, 0.1, image_shape=(4, 4))
    model = MaxoutGPRegressor(kernel=kernel, noise_var=0.1, signal_var=1.0, max_trials=1)
    model.fit(rng.normal(size=(6, 16)), np.arange(6.0))
    with pytest.raises(UnavailableError, match="feature_relevance_ is there for dense networks"):
        model.feature_relevance_  # noqa: B018


def test_of_an_embedding_of_ones_own():
    kernel = NetworkKernel([Embedding(1.0), ReLU()], 2.0, 0.1)
    model = MaxoutGPRegressor(kernel=kernel, noise_var=0.01, max_trials=2).fit(X, Y)
    assert model.feature_relevance_.argsort().tolist() == [2, 1, 0]


def test_picture():
    pytest.importorskip("matplotlib")
    from mnngp import plots

    wide = np.hstack([X, rng.normal(size=(N, 22))])
    model = MaxoutGPRegressor(**GIVEN, features="linear", noise_var=0.01).fit(wide, Y)
    ax = plots.relevance(model).axes[0]
    assert len(ax.patches) == 21
    labels = [one.get_text() for one in ax.get_yticklabels()]
    assert labels[0] == "x0"
    assert labels[-1] == "5 others together"
    lengths = [bar.get_width() for bar in ax.patches]
    assert lengths[:20] == sorted(lengths[:20], reverse=True)
    assert sum(lengths) == pytest.approx(1.0)
    with pytest.raises(InputError, match="most must be a positive integer"):
        plots.relevance(model, most=0)


def test_picture_of_names_that_are_no_mathematics(tmp_path):
    pytest.importorskip("matplotlib")
    from mnngp import plots

    names = {"$\\frac": X[:, 0], "a\nb" * 30: X[:, 1], "_": ["a", "b", "c"] * (N // 3)}
    model = MaxoutGPRegressor(**GIVEN, features="linear", noise_var=0.01)
    model.fit(pl.DataFrame(names), Y)
    plots.relevance(model).savefig(tmp_path / "relevance.png")
    assert (tmp_path / "relevance.png").stat().st_size > 1000
