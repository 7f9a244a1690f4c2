"""What columns are taken for, which task a target calls for, and tables that are refused."""

import datetime
import math

import numpy as np
import polars as pl
import pytest

from mnngp.data import Encoder
from mnngp.errors import InputError
from tests.data.samples import HALVES, numbered


def test_names_are_left_out_and_rare_categories_too():
    names = numbered(name=[f"person {i}" for i in range(100)], y=[0.5 * i for i in range(100)])
    encoder = Encoder.of(names, "y")
    assert encoder.features == ["x"]
    assert encoder.notes == (
        "column 'name' is left out: 100 different texts in 100 rows are no categories",
    )
    many = pl.DataFrame(
        {"c": [f"c{i % 150:03}" for i in range(400)], "y": [0.5 * i for i in range(400)]}
    )
    encoder = Encoder.of(many, "y")
    assert len(encoder.features) == 100
    assert encoder.features[:2] == ["c = c000", "c = c001"]  # those of three rows, not of two
    assert encoder.notes == (
        "column 'c': 100 of 150 categories are features, the most frequent ones",
    )
    assert encoder.encode(many).sum() == 300


@pytest.mark.parametrize(
    ("values", "task", "expected"),
    [
        ([0.5 * i for i in range(100)], None, "regression"),
        (["a", "b"] * 50, None, "classification"),
        ([True, False] * 50, None, "classification"),
        (pl.Series(["1", "2"] * 50, dtype=pl.Categorical), None, "classification"),
        (["1.5", "2"] * 50, None, "regression"),
        ([0, 1] * 50, None, "regression"),
        ([0, 1] * 50, "classification", "classification"),
        ([True, False] * 50, "regression", "regression"),
        ([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)] * 50, None, "classification"),
    ],
)
def test_tasks(values, task, expected):
    frame = numbered(y=values)
    encoder = Encoder.of(frame, "y", task)
    assert encoder.task == expected
    _, y = encoder.labelled(frame)
    if expected == "regression":
        np.testing.assert_array_equal(y, [float(value) for value in values])
    else:
        texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
        assert y.tolist() == texts
        assert y.dtype.kind == "U"


def test_labels_are_the_same_whatever_their_type():
    for values in (["1", "0"], [1, 0], [1.0, 0.0]):
        assert (
            Encoder.of(numbered(y=values * 50), "y", "classification").labelled(
                numbered(y=values * 50)
            )[1][0]
            == "1"
        )
    assert (
        "if they are classes, say task='classification' (--task classification)"
        in Encoder.of(numbered(y=[1, 0] * 50), "y").notes[0]
    )


@pytest.mark.parametrize(
    ("frame", "target", "options", "complaint"),
    [
        (
            numbered(price=HALVES),
            "prise",
            {},
            "the table has no column 'prise'; did you mean 'price'",
        ),
        (numbered(price=HALVES), "zzz", {}, "the table has no column 'zzz'; it has 'x', 'price'"),
        (
            numbered(price=HALVES),
            "price",
            {"drop": ["xx"]},
            "the table has no column 'xx'; did you mean 'x'",
        ),
        (numbered(price=HALVES), 3, {}, "the table has no column 3; it has"),
        (
            numbered(price=HALVES),
            "price",
            {"task": "guess"},
            "task must be one of 'regression', 'classification', got 'guess'",
        ),
        (
            numbered(price=HALVES),
            "price",
            {"drop": ["x"]},
            "no feature is left: all columns but 'price' were dropped",
        ),
        (
            pl.DataFrame({"price": HALVES}),
            "price",
            {},
            "no column of the table can be a feature: there is only 'price'",
        ),
        (
            numbered(c=["a"] * 100, y=HALVES),
            "y",
            {"drop": ["x"]},
            "can be a feature: column 'c' is left out: it is always 'a'",
        ),
        (
            numbered(price=HALVES),
            "price",
            {"drop": ["price"]},
            "column 'price' is the target and cannot be dropped",
        ),
        (numbered(y=[3] * 100), "y", {}, "column 'y' is always 3: there is nothing to predict"),
        (
            numbered(y=["3", "3.0"] * 50),
            "y",
            {"task": "regression"},
            "column 'y' is always 3: there is nothing to predict",
        ),
        (
            numbered(y=[3] * 100),
            "y",
            {"task": "classification"},
            "column 'y' is always '3': there is nothing to predict",
        ),
        (
            numbered(y=[1.0, -5e300] * 50),
            "y",
            {},
            r"column 'y' is too large \(-5e\+300\); give it "
            r"in other units",
        ),
        (
            numbered(y=[None] * 100),
            "y",
            {},
            "column 'y' must have a value in some row, it has none",
        ),
        (
            numbered(y=[math.nan] * 100),
            "y",
            {},
            "column 'y' must have a value in some row, it has none",
        ),
        (numbered(y=["a"] * 100), "y", {}, "column 'y' is always 'a': there is nothing to predict"),
        (
            numbered(y=[f"{i},5" for i in range(100)]),
            "y",
            {},
            r"'y' looks like numbers with decimal commas, such as '0,5' \(row 1\), which are not "
            r"understood; .*like 1234.5",
        ),
        (
            numbered(y=[None, *(f"{i}" for i in range(98)), "abc"]),
            "y",
            {},
            r"column 'y' looks like numbers, but 'abc' \(row 100\) is none; numbers must be "
            r"written like 1234.5",
        ),
        (
            numbered(y=["1", "2"] + [f"no. {i}" for i in range(98)]),
            "y",
            {},
            r"has 100 different texts in 100 rows, which are no classes, such as 'no. 0' \(row "
            r"3\); .*like 1234.5",
        ),
        (
            numbered(y=pl.Series([str(i) for i in range(100)], dtype=pl.Categorical)),
            "y",
            {},
            r"has 100 different texts in 100 rows, which are no classes, such as '0' \(row 1\)",
        ),
        (
            numbered(y=["a", "b"] * 50),
            "y",
            {"task": "regression"},
            "column 'y' must hold numbers, row 1 has 'a'",
        ),
        (numbered(y=[1.0, math.inf] * 50), "y", {}, "column 'y' must be finite, row 2 has inf"),
        (
            numbered(z=[1.0, math.inf] * 50, y=[1.5, 2.5] * 50),
            "y",
            {},
            "column 'z' must be finite, row 2 has inf",
        ),
        (numbered(y=[1.0] * 100).head(0), "y", {}, "the table must have at least one row"),
    ],
)
def test_tables_that_nothing_can_be_learned_from(frame, target, options, complaint):
    with pytest.raises(InputError, match=complaint):
        Encoder.of(frame, target, **options)
