"""Columns of frames as features, for pipelines of scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from mnngp.data import ColumnGroup, Encoder, TableEncoder
from mnngp.errors import InputError, ModelFileError
from tests.tables.everything import KINDS, LEFT_OUT, cells, frame, targets

TRAIN, NEW = cells(100), cells(30, seed=1, gaps=0.2, new=True)
SMALL = pl.DataFrame(
    {"size": [1.0, 2.5, None], "colour": ["red", "blue", "red"], "unit": "cm", "x": [1, 2, 4]}
)


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_columns(kind):
    encoder = TableEncoder().fit(frame(kind, TRAIN))
    assert encoder.n_features_in_ == 20
    assert list(encoder.feature_names_in_) == list(TRAIN)
    kept = [group.name for group in encoder.groups_]
    assert kept == [name for name in TRAIN if name not in LEFT_OUT]
    left_out = [note for note in encoder.notes_ if "left out" in note]
    assert len(left_out) == 4
    for name, note in zip(LEFT_OUT, left_out, strict=True):
        assert repr(name) in note
    for group in encoder.groups_:
        names = encoder.get_feature_names_out()[group.start : group.stop]
        if group.kind == "number with gaps":
            assert list(names) == [group.name, f"{group.name} is missing"]
        else:
            assert group.kind == "category"
            assert all(name.startswith(group.name) for name in names)
    kinds = {group.name: (group.kind, group.stop - group.start) for group in encoder.groups_}
    assert kinds["flag"] == ("category", 3)  # false, true, and gaps
    assert kinds["sometimes"] == ("category", 1)  # always 7.5 if it is there: only gaps tell
    assert kinds["text numbers"] == kinds["text dates"] == ("number with gaps", 2)
    features = encoder.transform(frame(kind, NEW))
    assert features.shape == (30, encoder.groups_[-1].stop)
    assert np.isfinite(features).all()
    reference = TableEncoder().fit(frame("polars", TRAIN))
    np.testing.assert_array_equal(features, reference.transform(frame("polars", NEW)))
    assert list(reference.get_feature_names_out()) == list(encoder.get_feature_names_out())


def test_groups():
    assert TableEncoder().fit(SMALL).groups_ == [
        ColumnGroup("size", "number with gaps", 0, 2),
        ColumnGroup("colour", "category", 2, 4),
        ColumnGroup("x", "number", 4, 5),
    ]
    gaps = SMALL.with_columns(colour=pl.Series([None, "red", "blue"]))
    assert TableEncoder().fit(gaps).groups_[1] == ColumnGroup("colour", "category", 2, 5)


def test_columns_are_found_by_name():
    encoder = TableEncoder().fit(SMALL)
    expected = encoder.transform(SMALL)
    turned = SMALL.select(pl.lit([1]).alias("more"), *SMALL.columns[::-1]).drop("unit")
    np.testing.assert_array_equal(encoder.transform(turned), expected)
    for lost, complaint in (
        (SMALL.drop("colour"), "no column 'colour', which the model needs; it has 'size'"),
        (SMALL.rename({"colour": "color"}), "no column 'colour', .* did you mean 'color'"),
        (SMALL.head(0), "at least one row"),
        (SMALL.with_columns(x=pl.Series(["a", "b", "4"])), "column 'x' must hold numbers"),
    ):
        with pytest.raises(InputError, match=complaint):
            encoder.transform(lost)


def test_surprises_are_no_errors_but_told():
    encoder = TableEncoder().fit(SMALL)
    new = pd.DataFrame({"size": [1.0, 900.0], "colour": [None, "mauve"], "x": [None, 2.0]})
    np.testing.assert_array_equal(
        encoder.transform(new), [[1.0, 0.0, 0.0, 0.0, 2.0], [900.0, 0.0, 0.0, 0.0, 2.0]]
    )
    told = "\n".join(encoder.surprises(new))
    for part in ("'size': 1 of 2 rows is far outside", "('mauve')", "'x': 1 of 2 rows is a gap"):
        assert part in told


def test_nothing_to_learn_from():
    for table, complaint in (
        (pl.DataFrame({"a": ["x", "x"]}), "no column of the table can be a feature: column 'a' is"),
        (pd.DataFrame({"a": []}), "at least one row"),
        (pd.DataFrame({"a": [1.0, np.inf], "b": ["x", "y"]}), "column 'a' must be finite, row 2"),
    ):
        with pytest.raises(InputError, match=complaint):
            TableEncoder().fit(table)
    with pytest.raises(NotFittedError):
        TableEncoder().transform(SMALL)
    assert not hasattr(TableEncoder(), "groups_")


def test_as_a_transformer():
    table = frame("pandas", TRAIN).set_index(pd.RangeIndex(100, 200))
    y, _ = targets(TRAIN)
    encoder = TableEncoder().fit(table)
    for again in (pickle.loads(pickle.dumps(encoder)), clone(encoder).fit(table)):
        np.testing.assert_array_equal(again.transform(table), encoder.transform(table))
    names = encoder.get_feature_names_out()
    assert list(encoder.get_feature_names_out(list(TRAIN))) == list(names)
    with pytest.raises(InputError, match="input_features must be None or"):
        encoder.get_feature_names_out(["a"])
    shown = encoder.set_output(transform="pandas").transform(table)
    assert list(shown.columns) == list(names)
    assert list(shown.index) == list(table.index)
    assert isinstance(encoder.set_output(transform="polars").transform(table), pl.DataFrame)
    model = make_pipeline(TableEncoder(), Ridge()).fit(table, y)
    assert model.score(table, y) > 0.9
    assert model.predict(frame("polars", NEW)).shape == (30,)


def test_names_of_features_are_unique():
    table = pl.DataFrame({"a": [1.0, None, 2.0], "a is missing": [1.0, 2.0, 3.0]})
    names = TableEncoder().fit(table).get_feature_names_out()
    assert list(names) == ["a", "a is missing", "a is missing (2)"]


def test_as_a_dictionary():
    """It goes to model files, and comes from those of strangers."""
    encoder = TableEncoder().fit(SMALL)
    data, names = encoder.as_dict(), encoder.feature_names_in_
    again = TableEncoder.from_dict(data, names)
    assert again.columns_ == encoder.columns_
    assert again.notes_ == encoder.notes_
    assert list(again.feature_names_in_) == list(names)
    assert TableEncoder.from_dict(data).n_features_in_ == 3  # those that are known
    one = data["columns"][0]
    for change, given, complaint in (
        ({"columns": []}, names, "must have columns"),
        ({"columns": [one, one]}, names, "names of their own"),
        ({"columns": [one | {"median": float("nan")}]}, names, "finite median"),
        ({"columns": [one | {"code": "x"}]}, names, "must have the keys"),
        ({"notes": [1]}, names, "notes must be text"),
        ({"notes": "x"}, names, "notes must be of type list"),
        ({}, ["size"], "feature_names must be those of the encoder's columns"),
        ({}, [*names, "size"], "once each"),
    ):
        with pytest.raises(ModelFileError, match=complaint):
            TableEncoder.from_dict(data | change, given)
    with pytest.raises(ModelFileError, match="must have the keys columns, notes"):
        TableEncoder.from_dict([])


def test_it_is_the_encoder_of_the_command_line():
    encoder = Encoder.of(SMALL, "x", drop=["unit"])
    same = encoder.without_target(SMALL, drop=["unit"])
    assert list(same.feature_names_in_) == ["size", "colour"]
    np.testing.assert_array_equal(same.transform(SMALL), encoder.encode(SMALL))
