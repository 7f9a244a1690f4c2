"""The encoder: what is learned of a table, and what becomes of new rows."""

import contextlib
import datetime
import json
import math
import time

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnngp import data
from mnngp.data import Encoder
from mnngp.errors import InputError, ModelFileError
from tests.data.samples import AGAIN, CSV, HALVES, RNG, numbered, table


def test_what_is_learned(tmp_path):
    frame = data.read_table(table(tmp_path, CSV))
    encoder = Encoder.of(frame, "price")
    assert encoder.features == [
        *(f"id = r00{i}" for i in (1, 2, 3, 4, 6)),  # six rows are too few to call them names
        "age",
        "age is missing",
        "city = Bern",
        "city = Rome",
        "city is missing",
        "when",
        "when is missing",
        "flag = false",
        "flag = true",
        "half is missing",
    ]
    assert encoder.task == "regression"
    assert encoder.notes == (
        "1 of 6 rows have no 'price' and are left out",
        "column 'when' holds dates, which become days since 1970-01-01",
        "column 'empty' is left out: it has no values",
        "column 'same' is left out: it is always 7",
    )
    X, y = encoder.labelled(frame)
    np.testing.assert_array_equal(y, [100.5, 200.0, 300.0, 400.0, 600.0])
    day = 19723.0  # 2024-01-01
    np.testing.assert_array_equal(
        X[:, 5:],
        [  # age, missing; Bern, Rome, missing; when, missing; false, true; half is missing
            [10, 0, 1, 0, 0, day, 0, 0, 1, 0],
            [20, 1, 0, 1, 0, day + 1, 0, 1, 0, 1],
            [30, 0, 0, 0, 1, day + 2, 0, 0, 1, 0],
            [20, 0, 1, 0, 0, day + 1, 1, 1, 0, 1],
            [50, 0, 1, 0, 0, day + 5.25, 0, 1, 0, 1],
        ],
    )
    everything = encoder.encode(frame)
    assert everything.shape == (6, 15)
    # Oslo is new
    np.testing.assert_array_equal(everything[4, 5:], [40, 0, 0, 0, 0, day + 4.5, 0, 0, 1, 0])
    assert everything.dtype == np.float64
    assert (
        Encoder.of(frame, "price", drop=["id", "when"]).features
        == encoder.features[5:10] + encoder.features[12:]
    )


def test_new_rows(tmp_path):
    encoder = Encoder.of(data.read_table(table(tmp_path, CSV)), "price", drop=["id"])
    new = table(tmp_path, "unasked;half;flag;when;city;age\nx;2;TRUE;;Nowhere;\n", "new.csv")
    np.testing.assert_array_equal(
        encoder.encode(data.read_table(new)), [[20, 1, 0, 0, 0, 19724, 1, 0, 1, 0]]
    )
    # the same rows, typed
    typed = pl.DataFrame(
        {
            "age": [10, 30],
            "city": pl.Series(["Bern", None], dtype=pl.Categorical),
            "when": [datetime.datetime(2024, 1, 5, 12), None],
            "flag": [True, None],
            "half": [1.0, math.nan],
        }
    )
    np.testing.assert_array_equal(
        encoder.encode(typed),
        [[10, 0, 1, 0, 0, 19727.5, 0, 0, 1, 0], [30, 0, 0, 0, 1, 19724, 1, 0, 0, 1]],
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            "age,city,when,flag\n1,a,2024-01-01,true",
            "has no column 'half', which the model needs; it has 'age', 'city'",
        ),
        (
            "Age,city,when,flag,half\n1,a,2024-01-01,true,1",
            "column 'age', which the model needs; did you mean 'Age'",
        ),
        (
            "age,city,when,flag,half\n1,a,,true,1\nold,a,,true,1",
            "column 'age' must hold numbers, row 2 has 'old'",
        ),
        (
            "age,city,when,flag,half\n1,a,,true,1\n-inf,a,,true,1",
            "column 'age' must be finite, row 2 has -inf",
        ),
        ("age,city,when,flag,half\n1,a,,true,1e400", "column 'half' must be finite, row 1 has inf"),
        (
            "age,city,when,flag,half\n1,a,2024-01-01,true,1\n1,a,soon,t,1",
            "column 'when' must hold dates like .*, row 2 has 'soon'",
        ),
    ],
)
def test_new_rows_that_do_not_fit(tmp_path, change, complaint):
    encoder = Encoder.of(data.read_table(table(tmp_path, CSV)), "price", drop=["id"])
    with pytest.raises(InputError, match=complaint):
        encoder.encode(data.read_table(table(tmp_path, change)))


def test_columns_without_any_value_in_new_rows():
    encoder = Encoder.of(
        pl.DataFrame(
            {"x": [1.0, 3.0], "c": ["a", "b"], "d": ["2024-01-01", "2024-01-03"], "y": [1.5, 2.5]}
        ),
        "y",
    )
    np.testing.assert_array_equal(
        encoder.encode(pl.DataFrame({"x": [None], "c": [None], "d": [None]})), [[1, 0, 0, 19723]]
    )


def test_targets_of_new_rows():
    encoder = Encoder.of(numbered(y=[0.5 * i for i in range(100)]), "y")
    X, y = encoder.labelled(pl.DataFrame({"x": [1, 2, 3], "y": [1.5, None, math.nan]}))
    assert (X.tolist(), y.tolist()) == ([[1.0]], [1.5])
    for column, complaint in [
        ({}, "the table has no column 'y'"),
        ({"y": ["high"]}, "column 'y' must hold numbers, row 1 has 'high'"),
        ({"y": [math.inf]}, "column 'y' must be finite, row 1 has inf"),
        ({"y": [None]}, "must have a value in some row"),
    ]:
        with pytest.raises(InputError, match=complaint):
            encoder.labelled(pl.DataFrame({"x": [1]} | column))


def test_targets_that_cannot_be_scored():
    numbers = Encoder.of(numbered(y=HALVES), "y")
    x = {"x": [1, 2]}
    X, y = numbers.scored(pl.DataFrame(x | {"y": [None, "2.5"]}))
    assert (X.tolist(), y.tolist()) == ([[2.0]], [2.5])
    for values in (
        [1.5, math.inf],
        ["1.5", "high"],
        [1.5, 1e200],
        [datetime.date(2024, 1, 1)] * 2,
        [[1.0], [2.0]],
    ):
        assert numbers.scored(pl.DataFrame(x | {"y": values})) is None
        assert len(numbers.surprises(pl.DataFrame(x | {"y": values}))) == 1
    for column in ({}, {"y": [None, None]}, {"y": [math.nan, None]}):
        assert numbers.scored(pl.DataFrame(x | column)) is None
        assert numbers.surprises(pl.DataFrame(x | column)) == []
    assert numbers.surprises(pl.DataFrame(x | {"y": ["1", "high"]})) == [
        "column 'y' must hold numbers, row 2 has 'high': predictions are not compared with it"
    ]
    labels = Encoder.of(numbered(y=["a", "b"] * 50), "y")
    assert labels.scored(pl.DataFrame(x | {"y": [None, "new"]}))[1].tolist() == ["new"]
    assert labels.scored(pl.DataFrame(x | {"y": [[1], [2]]})) is None
    with pytest.raises(InputError, match="has no column 'x', which the model needs"):
        labels.scored(pl.DataFrame({"y": ["a"]}))


def test_what_is_new_to_the_model_is_said(tmp_path):
    text = "a,flag,city,g,y\n" + "".join(
        f"{i},{i % 2 == 0},{'ABCDE'[i % 5]},{i if i % 7 else ''},{i / 2}\n" for i in range(60)
    )
    frame = data.read_table(table(tmp_path, text))
    encoder = Encoder.of(frame, "y")
    assert encoder.surprises(frame) == []
    new = {
        "a": [None] * 60,
        "flag": [0, 1] * 30,
        "city": ["A"] * 55 + ["R", "Q", "U", "S", None],
        "g": [None] * 60,
    }
    assert encoder.surprises(pl.DataFrame(new)) == [
        "column 'a': all 60 rows are gaps, of which training had none; the median stands in",
        "column 'flag': 60 of 60 rows hold values that training did not have ('0', '1'); it had "
        "'false', 'true'",
        "column 'city': 1 of 60 rows is a gap, of which training had none; they are none of the "
        "categories",
        "column 'city': 4 of 60 rows hold values that training did not have ('Q', 'R', 'S', …); it "
        "had 'A', 'B', 'C', …",
    ]
    good = {"a": [1.0, math.nan], "flag": [True, False], "city": ["A", "B"], "g": [None, 1]}
    assert encoder.surprises(pl.DataFrame(good)) == [
        "column 'a': 1 of 2 rows is a gap, of which training had none; the median stands in"
    ]
    assert encoder.surprises(pl.DataFrame(good | {"a": [1, 2], "flag": ["TRUE", "yes"]})) == [
        "column 'flag': 1 of 2 rows hold values that training did not have ('yes'); it had "
        "'false', 'true'"
    ]
    many = pl.DataFrame({"c": [f"c{i % 150:03}" for i in range(400)], "y": range(400)})
    (line,) = Encoder.of(many, "y").surprises(many)
    assert line.startswith(
        "column 'c': 100 of 400 rows hold values that training did not have or "
        "had too rarely ('c100', "
    )


def test_rows_are_counted_as_the_table_does():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, math.inf], "y": [None, math.nan, 1.5, 2.5]})
    with pytest.raises(InputError, match="column 'x' must be finite, row 4 has inf"):
        Encoder.of(frame, "y")
    encoder = Encoder.of(frame.with_columns(x=pl.Series([1.0, 2.0, 3.0, 4.0])), "y")
    with pytest.raises(InputError, match="column 'x' must hold numbers, row 4 has 'many'"):
        encoder.labelled(frame.with_columns(x=pl.Series(["1", "2", "3", "many"])), strict=True)
    with pytest.raises(InputError, match="column 'y' must hold numbers, row 3 has 'b'"):
        encoder.labelled(pl.DataFrame({"x": [1, 2, 3], "y": [None, "1", "b"]}))


def test_rows_without_a_target_may_hold_anything(tmp_path):
    frame = data.read_table(
        table(tmp_path, "x,d,c,y\n1,2024-01-01,a,1.5\n2,2024-01-02,b,2.5\ntotal,both,,\ninf,,c,\n")
    )
    encoder = Encoder.of(frame, "y")
    assert encoder.features == ["x", "d", "c = a", "c = b"]
    X, y = encoder.labelled(frame)
    assert (X[:, 0].tolist(), y.tolist()) == ([1.0, 2.0], [1.5, 2.5])


CELLS = {
    pl.Float64: st.floats() | st.none(),
    pl.Int64: st.integers(-(2**63), 2**63 - 1) | st.none(),
    pl.String: st.none()
    | st.text(max_size=4)
    | st.sampled_from(["1", "2.5", "2024-01-02", "nan", "inf"]),
    pl.Boolean: st.booleans() | st.none(),
    pl.Date: st.dates() | st.none(),
    pl.Datetime("us"): st.datetimes() | st.none(),
    pl.Duration("us"): st.timedeltas(datetime.timedelta(-100000), datetime.timedelta(100000))
    | st.none(),
    pl.Time: st.times() | st.none(),
}


@st.composite
def frames(draw):
    rows = draw(st.integers(1, 12))
    kinds = draw(st.lists(st.sampled_from(list(CELLS)), min_size=2, max_size=5))
    values = [draw(st.lists(CELLS[kind], min_size=rows, max_size=rows)) for kind in kinds]
    return pl.DataFrame(
        [
            pl.Series(f"c{i}", column, dtype=kind)
            for i, (kind, column) in enumerate(zip(kinds, values, strict=True))
        ]
    )


@settings(AGAIN, max_examples=150)
@given(frames(), frames())
def test_any_table_gives_finite_features_or_an_error(frame, other):
    with contextlib.suppress(InputError):
        encoder = Encoder.of(frame, "c0")
        X, y = encoder.labelled(frame)  # what was learned from can be encoded
        assert X.shape == (len(y), len(encoder.features))
        assert np.isfinite(X).all()
        assert (
            Encoder.from_dict(json.loads(json.dumps(encoder.as_dict(), allow_nan=False))) == encoder
        )
        with contextlib.suppress(InputError):
            assert np.isfinite(encoder.encode(other)).all()
        assert np.isfinite(encoder.encode(other, strict=False)).all()
        assert all(isinstance(line, str) for line in encoder.surprises(other))
        if (compared := encoder.scored(other)) is not None:
            np.testing.assert_array_equal(compared[1], encoder.labelled(other)[1])


def test_columns_of_any_name():
    names = ["count", "category", "", "literal", "index", "*", "^.*$", "a b"]
    frame = pl.DataFrame({name: ["u", "v", "w"] for name in names} | {"y": [0.5, 1.5, 2.5]})
    encoder = Encoder.of(frame, "y")
    np.testing.assert_array_equal(encoder.encode(frame), np.tile(np.eye(3), len(names)))
    assert Encoder.of(frame, "count", drop="*").task == "classification"


def test_labels_keep_their_spelling():
    frame = numbered(c=["True", "FALSE"] * 50, y=["True", "False"] * 50)
    encoder = Encoder.of(frame, "y")
    assert encoder.labelled(frame)[1][:2].tolist() == ["True", "False"]
    assert encoder.features == ["x", "c = false", "c = true"]


def test_large_numbers_stay_finite():
    frame = pl.DataFrame(
        {
            "x": [1.7e308, -1.7e308, None, 2.0**80],
            "k": [2**62, -(2**62), 0, 1],
            "y": [0.5, 1.5, 2.5, 3.5],
        }
    )
    assert np.isfinite(Encoder.of(frame, "y").encode(frame)).all()


def test_an_encoder_through_json(tmp_path):
    frame = data.read_table(table(tmp_path, CSV))
    encoder = Encoder.of(frame, "price")
    again = Encoder.from_dict(json.loads(json.dumps(encoder.as_dict(), allow_nan=False)))
    assert again == encoder
    np.testing.assert_array_equal(again.encode(frame), encoder.encode(frame))


NUMBER = {"name": "x", "median": 1.0, "gaps": False, "varies": True, "dates": False}


CHOICE = {"name": "c", "categories": ["a", "b"], "gaps": False}


STORED = {"target": "y", "task": "regression", "columns": [NUMBER, CHOICE], "notes": []}


@pytest.mark.parametrize(
    ("data_", "complaint"),
    [
        (None, "the encoder must have the keys target, task, columns, notes"),
        ([STORED], "the encoder must have the keys"),
        ({}, "the encoder must have the keys"),
        (STORED | {"more": 1}, "the encoder must have the keys"),
        (STORED | {"target": 3}, "the encoder: target must be of type str, got int"),
        (STORED | {"task": "guess"}, "task must be one of regression, classification, got 'guess'"),
        (STORED | {"columns": []}, "must have columns"),
        (STORED | {"notes": [3]}, "notes must be text"),
        (STORED | {"columns": [3]}, "a column of numbers must have the keys"),
        (STORED | {"columns": [NUMBER, NUMBER]}, "names of their own"),
        (STORED | {"target": "x"}, "the target is none of them"),
        (
            STORED | {"columns": [NUMBER | {"median": math.nan}]},
            "column 'x' must have a finite median",
        ),
        (STORED | {"columns": [NUMBER | {"median": "1"}]}, "median must be of type float, got str"),
        (STORED | {"columns": [NUMBER | {"varies": False}]}, "at least one feature"),
        (
            STORED | {"columns": [NUMBER | {"low": 0.0}]},
            "a column of numbers must have the keys .*, low, high",
        ),
        (
            STORED | {"columns": [NUMBER | {"low": 0.0, "high": "2"}]},
            "high must be of type float, got str",
        ),
        (
            STORED | {"columns": [NUMBER | {"low": 2.0, "high": 3.0}]},
            "finite bounds around its median, got 2.0 and 3.0",
        ),
        (
            STORED | {"columns": [NUMBER | {"low": 0.0, "high": math.inf}]},
            "finite bounds around its median",
        ),
        (STORED | {"columns": [NUMBER | {"gaps": 1}]}, "gaps must be of type bool, got int"),
        (
            STORED | {"columns": [CHOICE | {"categories": []}]},
            "column 'c' must have 1 to 100 categories, got 0",
        ),
        (
            STORED | {"columns": [CHOICE | {"categories": [str(i) for i in range(101)]}]},
            "1 to 100 categories, got 101",
        ),
        (
            STORED | {"columns": [CHOICE | {"categories": ["a", "a"]}]},
            "the categories of column 'c' must be different texts",
        ),
        (STORED | {"columns": [CHOICE | {"categories": ["a", 1]}]}, "must be different texts"),
        (
            STORED | {"columns": [CHOICE | {"categories": "ab"}]},
            "categories must be of type list, got str",
        ),
        (
            STORED | {"columns": [CHOICE | {"median": 1.0}]},
            "a column of categories must have the keys",
        ),
    ],
)
def test_stored_encoders_are_checked(data_, complaint):
    assert Encoder.from_dict(STORED).features == ["x", "c = a", "c = b"]
    with pytest.raises(ModelFileError, match=complaint):
        Encoder.from_dict(data_)


def test_large_tables_are_quick(tmp_path):
    """5,000 rows and 300 columns take a second to read, learn and encode; a loop over cells would
    take a minute.
    """
    n = 5000
    columns = {f"n{i}": RNG.normal(size=n) for i in range(200)}
    columns |= {f"c{i}": RNG.choice(["red", "green", "blue"], n) for i in range(80)}
    columns |= {f"i{i}": [f"name {row}" for row in range(n)] for i in range(20)}
    frame = pl.DataFrame(columns | {"y": RNG.normal(size=n)})
    frame.write_csv(tmp_path / "large.csv")
    start = time.perf_counter()
    read = data.read_table(tmp_path / "large.csv")
    encoder = Encoder.of(read, "y")
    X = encoder.encode(read)
    assert time.perf_counter() - start < 20.0
    assert X.shape == (n, 200 + 3 * 80)
    np.testing.assert_allclose(X[:, 7], frame["n7"].to_numpy())
    assert len(encoder.notes) == 20
