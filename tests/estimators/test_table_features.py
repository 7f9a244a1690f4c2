"""What the first layer sees of a table: columns, or an embedding of them."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

import mnngp
from mnngp import Embedding, MaxoutGPClassifier, MaxoutGPRegressor, MaxoutKernel, NetworkKernel
from mnngp.data import TableEncoder
from mnngp.errors import InputError
from mnngp.estimators.table_features import embedding_versions
from mnngp.inference import Posterior

rng = np.random.default_rng(1)
X = rng.uniform(-2.0, 2.0, size=(300, 6))
STAIRS = np.floor(2.0 * X[:, 0]) % 2 + np.floor(2.0 * X[:, 1]) % 2  # of two columns, each by itself


@pytest.fixture(scope="module")
def fitted():
    return {
        features: MaxoutGPRegressor(features=features, random_state=0).fit(X[:200], STAIRS[:200])
        for features in ("auto", "linear", "embedding")
    }


def test_single_columns_are_told(fitted):
    """A linear first layer mixes all columns before anything can happen to one of them."""
    found = {name: model.score(X[200:], STAIRS[200:]) for name, model in fitted.items()}
    assert found["linear"] < 0.3
    assert found["embedding"] > 0.5
    assert found["auto"] > 0.5
    assert fitted["auto"].trials_[0]["features"] in ("columns", "ranks")
    assert fitted["linear"].kernel_.embedding is None
    assert {trial["features"] for trial in fitted["linear"].trials_} == {"linear"}
    assert all(trial["lengthscale"] for trial in fitted["embedding"].trials_)


def test_files_and_copies(fitted, tmp_path):
    wine, cultivars = load_wine(return_X_y=True)
    classifier = MaxoutGPClassifier(random_state=0).fit(wine[::2], cultivars[::2])
    assert classifier.kernel_.embedding.weights
    assert classifier.trials_[0]["weighted"]
    for model, new in ((fitted["embedding"], X), (classifier, wine)):
        model.save(tmp_path / "model.mnngp")
        for again in (mnngp.load(tmp_path / "model.mnngp"), pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(again.predict(new), model.predict(new))
            assert again.kernel_.network == model.kernel_.network
            assert again.trials_ == model.trials_
            assert again.n_features_in_ == new.shape[1]
            assert again.feature_relevance_.sum() == pytest.approx(1.0)


def test_what_matters_has_a_larger_share(fitted):
    """Two of six columns: the others get little, and the fit is better for it."""
    shares = np.array(fitted["auto"].kernel_.embedding.weights)
    assert shares[:2].min() > 2.0 * shares[2:].max()
    by_weight = {False: -np.inf, True: -np.inf}
    for trial in fitted["auto"].trials_:
        by_weight[trial["weighted"]] = max(by_weight[trial["weighted"]], trial["score"])
    assert by_weight[True] > by_weight[False]


def test_columns_stay_where_they_are_better():
    """A network behind an embedding has to learn first what a sum of columns is."""
    model = MaxoutGPRegressor(random_state=0).fit(X[:100], X[:100].sum(axis=1))
    assert model.kernel_.embedding is None
    assert {"columns", "ranks"} < {trial["features"] for trial in model.trials_}


def test_versions():
    table = np.column_stack(
        [rng.lognormal(size=500), rng.integers(0, 2, 500) * 5.0 + 1.0, np.full(500, 3.0)]
    )
    versions = embedding_versions(table, None)
    columns, ranks = versions["columns"](table), versions["ranks"](table)
    for version in versions.values():
        assert version.embedding.categories == ((1, 2),)  # two values are a category
    for rows in (columns, ranks):
        assert set(rows[:, 1]) == {0.0, 1.0}
        assert np.ptp(rows[:, 2]) == 0.0
    inside = np.abs((table[:, 0] - table[:, 0].mean()) / table[:, 0].std()) < 4.0
    standard = (table[:, 0] - table[:, 0].mean()) / table[:, 0].std()
    np.testing.assert_allclose(columns[inside, 0], standard[inside], atol=1e-12)
    assert columns[:, 0].max() <= 4.0
    # uniform ranks, of variance one
    assert ranks[:, 0].std() == pytest.approx(1.0, abs=0.01)
    assert np.all(np.diff(ranks[np.argsort(table[:, 0]), 0]) > 0.0)
    far = versions["ranks"](np.array([[1e9, -7.0, 0.0]]))
    assert far[0, 0] == pytest.approx(ranks[:, 0].max() + 1.0)  # unlike any that was seen
    assert far[0, 1] in (0.0, 1.0)


@pytest.mark.parametrize("version", ["columns", "ranks"])
def test_far_outside_less_is_known(version):
    """A row unlike any that was seen has a wider interval, not that of the outermost ones."""
    x = rng.uniform(0.0, 1.0, (80, 1))
    scaling = embedding_versions(x, None)[version]
    kernel = MaxoutKernel(2, 4, 0.6, 0.1, embedding=replace(scaling.embedding, lengthscale=0.5))
    posterior = Posterior(kernel, scaling(x), np.sin(4.0 * x[:, 0]), 1e-3)
    _, variance = posterior.mean_and_variance(scaling(np.array([[0.5], [0.98], [2.0], [9.0]])))
    assert variance[2] > 20.0 * variance[:2].max()
    assert variance[3] >= variance[2]


def test_gaps_and_categories_of_a_frame():
    frame = pd.DataFrame({"size": rng.normal(size=120), "kind": rng.choice(list("abc"), 120)})
    frame.loc[::7, "size"] = np.nan
    y = np.where((frame["kind"] == "a") ^ frame["size"].isna(), "yes", "no")
    model = MaxoutGPClassifier(features="embedding", random_state=0).fit(frame[:80], y[:80])
    embedding = model.kernel_.embedding
    assert embedding.gaps == (1,)
    assert embedding.categories == ((2, 5),)
    assert model.score(frame[80:], y[80:]) > 0.9
    odd = pd.DataFrame({"size": [np.nan, 99.0], "kind": ["new", None]})
    assert np.isfinite(model.predict_proba(odd)).all()


def test_a_column_of_two_values_with_gaps():
    """Where it is missing it is a gap, and not one of the two values as well."""
    frame = pd.DataFrame({"a": [0.0, 1.0, np.nan, 1.0, 0.0, np.nan], "b": [1.0, 2, 3, 4, 5, 6]})
    encoder = TableEncoder().fit(frame)
    rows = np.asarray(encoder.transform(frame), np.float64)
    for version in embedding_versions(rows, None, encoder.groups_).values():
        mapped = version.embedding(version(rows))
        V = mapped @ mapped.T / mapped.shape[1]
        np.testing.assert_allclose(np.diag(V), 1.0, rtol=1e-12)
        assert V[2, 5] > 0.5  # both gaps
        assert V[2, 0] < 0.5 + 1e-12  # a gap, and a value: nothing in common but b


def test_what_is_given_stays():
    given = {"depth": 2, "rank": 3, "weight_var": 0.8, "bias_var": 0.1, "kind": "nngp"}
    model = MaxoutGPRegressor(**given, random_state=0).fit(X[:50], STAIRS[:50])
    assert model.kernel_ == MaxoutKernel(**given)  # nothing was open
    embedded = MaxoutGPRegressor(**given, features="embedding", random_state=0)
    embedded.fit(X[:50], STAIRS[:50])
    assert (embedded.kernel_.depth, embedded.kernel_.rank) == (2, 3)
    assert embedded.kernel_.embedding is not None
    for other in ({"normalize": "sphere"}, {"normalize": None}):
        model = MaxoutGPRegressor(**other, random_state=0, max_trials=20).fit(X[:50], STAIRS[:50])
        assert {trial["features"] for trial in model.trials_} == {"linear"}
    kernel = NetworkKernel([Embedding(0.3), mnngp.Maxout(3)])
    model = MaxoutGPRegressor(kernel=kernel, random_state=0).fit(X[:200], STAIRS[:200])
    assert model.kernel_.embedding == Embedding(0.3)
    assert model.score(X[200:], STAIRS[200:]) > 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"features": "both"}, "features must be one of"),
        ({"features": "embedding", "kernel": MaxoutKernel()}, "features='embedding' and kernel"),
        ({"features": "embedding", "image_shape": (2, 3)}, "features='embedding' and image_shape"),
    ],
)
def test_bad_input(given, message):
    with pytest.raises(InputError, match=message):
        MaxoutGPRegressor(**given).fit(X, STAIRS)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_wide_tables_are_taken_as_they_are(dtype):
    """An embedding of hundreds of columns would take longer than all else, and says little."""
    wide = rng.normal(size=(60, 400))
    model = MaxoutGPRegressor(dtype=dtype, random_state=0, max_trials=20).fit(wide, wide[:, 0])
    assert {trial["features"] for trial in model.trials_} == {"linear"}
