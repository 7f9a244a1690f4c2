"""Tables as they come: frames of pandas, polars and Arrow go into the estimators."""

import json
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import mnngp
from mnngp import MaxoutGPClassifier, MaxoutGPRegressor
from mnngp._system import memory
from mnngp.errors import InputError, ModelFileError
from tests import without
from tests.estimators.model_files import rewrite
from tests.tables.everything import KINDS, LEFT_OUT, cells, frame, targets

TRAIN, NEW = cells(100), cells(30, seed=1, gaps=0.2, new=True)
Y, LABELS = targets(TRAIN)
FIXED = {"depth": 1, "rank": 2, "weight_var": 1.0, "bias_var": 0.1, "kind": "nngp"}
QUICK = {**FIXED, "noise_var": 0.05}


@pytest.fixture(scope="module")
def fitted():
    """The two estimators, fitted to the table in polars."""
    table = frame("polars", TRAIN)
    return (
        MaxoutGPRegressor(**QUICK).fit(table, pl.Series("y", Y)),
        MaxoutGPClassifier(**QUICK).fit(table, pl.Series("label", LABELS)),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_one_line_to_fit_and_one_to_predict(kind, fitted):
    table, new = frame(kind, TRAIN), frame(kind, NEW)
    model = MaxoutGPClassifier(max_trials=2, random_state=0).fit(table, LABELS)
    probability = model.predict_proba(new)
    assert probability.shape == (30, 2)
    assert model.n_features_in_ == 20
    assert list(model.feature_names_in_) == list(TRAIN)
    assert [group.name for group in model.encoder_.groups_] == [
        name for name in TRAIN if name not in LEFT_OUT
    ]
    assert model.score(table, LABELS) > 0.9
    # to the last bit, but for durations that pandas 2 counts in nanoseconds: at most 3e-15
    regressor, classifier = (clone(one) for one in fitted)
    np.testing.assert_allclose(
        regressor.fit(table, Y).predict(new, return_std=True),
        fitted[0].predict(frame("polars", NEW), return_std=True),
        atol=1e-13,
    )
    np.testing.assert_allclose(
        classifier.fit(table, LABELS).predict_proba(new),
        fitted[1].predict_proba(frame("polars", NEW)),
        atol=1e-13,
    )


def test_tables_of_pyarrow(fitted):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(frame("polars", TRAIN))
    model = MaxoutGPRegressor(**QUICK).fit(table, pyarrow.chunked_array([Y]))
    new = frame("polars", NEW)
    np.testing.assert_array_equal(model.predict(pyarrow.table(new)), fitted[0].predict(new))
    labels = pyarrow.array(LABELS).dictionary_encode()
    assert list(MaxoutGPClassifier(**QUICK).fit(table, labels).classes_) == ["high", "low"]
    plain = pyarrow.table({"a": Y, "b": Y**2})
    assert MaxoutGPRegressor(**QUICK).fit(plain, Y).encoder_ is None


def test_every_method_takes_a_frame(fitted):
    regressor, classifier = fitted
    new = frame("pandas", NEW)
    assert regressor.predict(new[:1]).shape == (1,)
    assert regressor.predict(new, return_cov=True)[1].shape == (30, 30)
    assert regressor.sample_y(new, 2).shape == (30, 2)
    assert classifier.decision_function(new).shape == (30,)
    assert set(classifier.predict(new)) <= {"high", "low"}
    assert classifier.predict_log_proba(new).shape == (30, 2)
    mean, _ = classifier.latent_mean_and_variance(new)
    assert mean.shape == (30, 2)
    assert np.isfinite(regressor.score(new, targets(NEW)[0]))


def test_pickles_and_files(fitted, tmp_path):
    new, path = frame("pandas", NEW), tmp_path / "model.mnngp"
    for model in fitted:
        expected = model.predict(new)
        model.save(path)
        read = mnngp.load(path)
        read.save(tmp_path / "again.mnngp")
        for again in (
            pickle.loads(pickle.dumps(model)),
            read,
            mnngp.load(tmp_path / "again.mnngp"),
        ):
            np.testing.assert_array_equal(again.predict(new), expected)
            np.testing.assert_array_equal(again.predict(frame("polars", NEW)), expected)
            assert again.encoder_.groups_ == model.encoder_.groups_
            assert again.encoder_.notes_ == model.encoder_.notes_
            assert list(again.feature_names_in_) == list(TRAIN)
            assert again.n_features_in_ == 20


def test_a_strangers_table(fitted, tmp_path):
    """No file can do more than be refused."""
    path = tmp_path / "model.mnngp"
    fitted[0].save(path)
    good = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("model.json"))
    table, names = header["table"], header["feature_names"]
    for change, complaint in (
        ({"table": {}}, "must have the keys columns, notes"),
        ({"table": table | {"columns": table["columns"][1:]}}, "must become .* features, got"),
        ({"table": table | {"columns": [{"name": "x"}]}}, "a column of numbers must have the keys"),
        ({"table": table | {"notes": [["x"]]}}, "notes must be text"),
        ({"feature_names": names[2:]}, "feature_names must be those of the encoder's columns"),
        ({"table": None}, "feature_names must be .* names or none, got 20"),
    ):
        path.write_bytes(good)
        rewrite(path, lambda header, members, change=change: header.update(change))
        with pytest.raises(ModelFileError, match=complaint):
            mnngp.load(path)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_among_scikit_learns_tools(kind, fitted):
    table, labels = frame(kind, TRAIN), pd.Series(LABELS)
    if kind == "polars":
        labels = pl.Series(LABELS)
    model = MaxoutGPClassifier(**QUICK)
    scores = cross_val_score(model, table, labels, cv=3, n_jobs=2)
    assert scores.mean() > 0.7
    pipeline = make_pipeline(FunctionTransformer(), model).fit(table, labels)
    new = frame(kind, NEW)
    expected = fitted[1].predict_proba(new)
    np.testing.assert_allclose(pipeline.predict_proba(new), expected, atol=1e-13)
    encoded = make_pipeline(mnngp.data.TableEncoder(), model).fit(table, labels)
    np.testing.assert_allclose(encoded.predict_proba(new), expected, atol=1e-13)
    search = GridSearchCV(model, {"noise_var": [0.05, 0.5]}, cv=2).fit(table, labels)
    assert search.best_estimator_.encoder_ is not None


def test_columns_are_found_by_name(fitted):
    regressor, _ = fitted
    new = frame("pandas", NEW)
    expected = regressor.predict(new)
    turned = new[new.columns[::-1]].drop(columns=list(LEFT_OUT)).assign(more=[[1]] * 30)
    np.testing.assert_array_equal(regressor.predict(turned), expected)
    with pytest.raises(InputError, match="no column 'colour', which the model needs"):
        regressor.predict(new.drop(columns="colour"))
    with pytest.raises(InputError, match="column 'float' must hold numbers"):
        regressor.predict(new.assign(float="much"))
    with pytest.raises(InputError, match="at least one row"):
        regressor.predict(new[:0])


def test_arrays_have_no_names(fitted):
    regressor, _ = fitted
    new = frame("pandas", NEW)
    features = regressor.encoder_.transform(new)
    np.testing.assert_array_equal(regressor.predict(features), regressor.predict(new))
    wanted = r"X must be a frame with the columns of training \('whole', 'unsigned', .*, …\), or an array"
    for given, complaint in (
        (new.to_numpy(), r"got ndarray of the shape \(30, 20\)"),
        (features[0], "got ndarray of the shape"),
        (np.full_like(features, np.nan), "got one with NaN"),
        (features.astype(object) + 1j, "got one that holds other than numbers"),
    ):
        with pytest.raises(InputError, match=f"{wanted}.*{complaint}"):
            regressor.predict(given)


def test_frames_of_numbers_are_matrices():
    """As they were: no encoder, the names in their order, and nothing is left out."""
    X = np.column_stack([Y, Y**2, np.ones(100), Y > 0.0])
    names = ["a", "b", "one", "positive"]
    expected = MaxoutGPRegressor(**QUICK).fit(X, Y).predict(X)
    for make in (pd.DataFrame, pl.DataFrame):
        table = make(dict(zip(names, X.T, strict=True)))
        model = MaxoutGPRegressor(**QUICK).fit(table, Y)
        assert model.encoder_ is None
        assert list(model.feature_names_in_) == names
        # frames are by columns, and sums of columns have another order: at most 3e-15
        np.testing.assert_allclose(model.predict(table), expected, atol=1e-13)
        gap, text = [1.0, None, 2.0], ["x", "y", "z"]
        new = table.head(3)
        with_gap = new.assign(b=gap) if make is pd.DataFrame else new.with_columns(b=pl.Series(gap))
        with pytest.raises(InputError, match=r"X must have no gaps, .* in column 'b' \(row 2\)"):
            model.predict(with_gap)
        of_text = (
            new.assign(b=text) if make is pd.DataFrame else new.with_columns(b=pl.Series(text))
        )
        with pytest.raises(
            InputError, match="column 'b' must hold numbers, as in training, got 'x'"
        ):
            model.predict(of_text)


def test_arrays_with_gaps_and_text():
    for X, complaint in (
        (
            np.where(np.eye(100) > 0.0, np.nan, 1.0),
            "X must have no gaps, it contains NaN; gaps and",
        ),
        (
            np.array([["a", 1.0]] * 100, dtype=object),
            "X must be numbers, got 'a'; gaps and text are",
        ),
    ):
        with pytest.raises(InputError, match=complaint):
            MaxoutGPRegressor(**QUICK).fit(X, Y)


def test_a_fit_forgets_the_table_of_before(fitted, tmp_path):
    fitted[0].save(tmp_path / "model.mnngp")
    model = mnngp.load(tmp_path / "model.mnngp")
    with pytest.raises(InputError, match="column 'x' must hold"):
        model.fit(pd.DataFrame({"x": [[1], [2]]}), [1.0, 2.0])
    assert model.encoder_.n_features_in_ == 20  # a fit that failed leaves it as it was
    model.fit(Y[:, None], Y)
    assert model.encoder_ is None
    assert not hasattr(model, "feature_names_in_")
    model.save(tmp_path / "model.mnngp")
    assert mnngp.load(tmp_path / "model.mnngp").predict(Y[:2, None]).shape == (2,)


def test_names_that_are_none():
    table = pd.DataFrame({0: Y, 1: LABELS}, index=pd.date_range("2024-01-01", periods=100))
    model = MaxoutGPRegressor(**QUICK).fit(table, Y)
    assert list(model.feature_names_in_) == ["0", "1"]
    assert model.predict(table[[1, 0]][:1]).shape == (1,)
    for columns, complaint in ((["a", "a"], "more than one column 'a'"), (["1", 1], "column '1'")):
        with pytest.raises(InputError, match=complaint):
            MaxoutGPRegressor(**QUICK).fit(table.set_axis(columns, axis=1), Y)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (pl.Series(LABELS), ["high", "low"]),
        (pl.Series(LABELS, dtype=pl.Categorical), ["high", "low"]),
        (pl.Series(LABELS, dtype=pl.Enum(["low", "high"])), ["high", "low"]),
        (pl.Series(LABELS == "low"), [False, True]),
        (pd.Series(LABELS), ["high", "low"]),
        (pd.Series(LABELS, dtype="string"), ["high", "low"]),
        (pd.Series(LABELS, dtype="category"), ["high", "low"]),
        (pd.Series(LABELS == "low", dtype="boolean"), [False, True]),
        (pd.Series(LABELS == "low", dtype="Int64"), [0, 1]),
    ],
)
def test_labels_in_a_series(labels, classes, tmp_path):
    table = frame("polars", TRAIN)
    model = MaxoutGPClassifier(**QUICK).fit(table, labels)
    assert model.classes_.tolist() == classes
    assert model.score(table, labels) > 0.9
    model.save(tmp_path / "model.mnngp")
    assert mnngp.load(tmp_path / "model.mnngp").classes_.tolist() == classes


def test_numbers_in_a_series():
    X = np.column_stack([Y, Y**2])
    expected = MaxoutGPRegressor(**QUICK).fit(X, Y).predict(X)
    for y in (pl.Series(Y), pd.Series(Y), pd.Series(Y, dtype="Float64")):
        model = MaxoutGPRegressor(**QUICK).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), expected)
        assert model.score(X, y) > 0.9
    for make in (pl.DataFrame, pd.DataFrame):
        several = MaxoutGPRegressor(**QUICK).fit(X, make({"y": Y, "z": -Y}))
        assert several.predict(X).shape == (100, 2)
    for y in (pl.Series([None, *Y[1:]]), pd.Series([None, *Y[1:]]), pd.Series([None, *LABELS[1:]])):
        with pytest.raises(InputError, match="y must have a value in every row, row 1 has none"):
            MaxoutGPRegressor(**QUICK).fit(X, y)
    with pytest.raises(InputError, match=r"y must be numbers, got '(low|high)'"):
        MaxoutGPRegressor(**QUICK).fit(X, pl.Series(LABELS))


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA, pd.NaT], ids=str)
def test_gaps_among_the_labels_of_an_array(gap):
    X, labels = Y[:, None], [*LABELS[:3], gap, *LABELS[4:]]
    for y in (labels, np.array(labels, dtype=object)):
        with pytest.raises(InputError, match="y must have a value in every row, row 4 has none"):
            MaxoutGPClassifier(**QUICK).fit(X, y)


def test_sparse_matrices(monkeypatch):
    X = np.where(np.random.default_rng(0).random((100, 5)) < 0.3, 1.0, 0.0)
    expected = MaxoutGPRegressor(**QUICK).fit(X, Y).predict(X)
    for sparse in (scipy.sparse.csr_matrix(X), scipy.sparse.coo_array(X)):
        np.testing.assert_array_equal(
            MaxoutGPRegressor(**QUICK).fit(sparse, Y).predict(sparse), expected
        )
    table = pd.DataFrame.sparse.from_spmatrix(scipy.sparse.csr_matrix(X), columns=list("abcde"))
    model = MaxoutGPRegressor(**QUICK).fit(table, Y)
    assert model.encoder_ is None
    np.testing.assert_allclose(model.predict(table), expected, atol=1e-12)  # at most 2e-14
    monkeypatch.setattr(memory, "available", lambda: 7000)
    with pytest.raises(InputError, match=r"dense it takes 4 kB, .*TruncatedSVD"):
        MaxoutGPRegressor(**QUICK).fit(sparse, Y)


def test_without_polars(tmp_path):
    """Frames of numbers need nothing else; others, and models of them, say what they need."""
    MaxoutGPRegressor(**QUICK).fit(frame("pandas", TRAIN), Y).save(tmp_path / "model.mnngp")
    code = f"""
import mnngp, numpy as np, pandas as pd
x = np.linspace(0.0, 1.0, 20)
model = mnngp.MaxoutGPRegressor(**{QUICK!r}).fit(pd.DataFrame({{"x": x}}), pd.Series(x))
print(model.encoder_, *model.feature_names_in_)
for use in (lambda: model.fit(pd.DataFrame({{"x": x, "c": ["a", "b"] * 10}}), x),
            lambda: mnngp.load({str(tmp_path / "model.mnngp")!r})):
    try:
        use()
    except mnngp.errors.MissingExtraError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=without.environment(tmp_path / "without", "polars"),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.splitlines() == [
        "None x",
        'frames with text, dates or gaps need polars: pip install "mnngp[experiments]"',
        'models of tables need polars: pip install "mnngp[experiments]"',
    ]
