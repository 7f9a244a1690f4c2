"""Frames of pandas, polars and Arrow: what they are read as, and what is refused by name."""

import datetime
import uuid
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mnngp.errors import InputError
from mnngp.tables import frames
from tests.tables.everything import Arrow, cells, frame

UTC = datetime.UTC


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_all_kinds_say_the_same(kind):
    """But for types that mean the same to the encoder: what is not is compared as it is used."""
    columns = cells(40)
    read, known = (frames.as_table(frame(one, columns)) for one in (kind, "polars"))
    assert read.columns == known.columns
    for name in known.columns:
        one, other = read[name], known[name]
        assert one.is_null().to_list() == other.is_null().to_list() or one.dtype.is_float()
        if other.dtype in (pl.Categorical, pl.Enum):
            one, other = one.cast(pl.String), other.cast(pl.String)
        if other.dtype == pl.Datetime or name == "date":
            one, other = (some.dt.epoch("us") for some in (one, other.cast(pl.Datetime("us"))))
        if one.dtype.is_float():
            one, other = one.fill_nan(None), other.cast(pl.Float64)
        assert one.to_list() == other.to_list()


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([True, None, np.bool_(False)], pl.Boolean, [True, None, False]),
        ([1, np.int8(2), None], pl.Int64, [1, 2, None]),
        ([1, 2.5, np.nan], pl.Float64, [1.0, 2.5, None]),
        ([Fraction(1, 2), 1.0, pd.NA], pl.Float64, [0.5, 1.0, None]),
        ([2**70, None, 1], pl.String, [str(2**70), None, "1"]),
        ([1, "a", None, 2.0], pl.String, ["1", "a", None, "2"]),
        ([True, "a", 1.5], pl.String, ["True", "a", "1.5"]),
        ([Decimal("1.50"), Decimal("NaN"), None], pl.String, ["1.50", None, None]),
        (
            [pd.Timestamp(2020, 1, 2), pd.NaT],
            pl.Datetime("us"),
            [datetime.datetime(2020, 1, 2), None],
        ),
        (
            [datetime.date(2020, 1, 2), np.datetime64("2020-01-03T12"), np.datetime64("NaT")],
            pl.Datetime("us"),
            [datetime.datetime(2020, 1, 2), datetime.datetime(2020, 1, 3, 12), None],
        ),
        (
            [datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))],
            pl.Datetime("us"),
            [datetime.datetime(2020, 1, 1, 22)],
        ),
        (
            [pd.Timedelta(1, "D"), np.timedelta64(1, "h"), None],
            pl.Duration("us"),
            [datetime.timedelta(1), datetime.timedelta(hours=1), None],
        ),
        ([datetime.time(1), uuid.UUID(int=1)], pl.String, ["01:00:00", str(uuid.UUID(int=1))]),
        ([pd.Interval(0, 1), None], pl.String, ["(0, 1]", None]),
        (["\ud800", "b"], pl.String, ["?", "b"]),
        ([None, np.nan], pl.Null, [None, None]),
    ],
)
def test_cells_of_any_type(values, dtype, expected):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    for table in (
        pd.DataFrame({"x": pd.Series(array, dtype=object)}),
        pl.DataFrame([pl.Series("x", values, dtype=pl.Object)]),
    ):
        column = frames.as_table(table)["x"]
        assert column.dtype == dtype
        assert column.to_list() == expected


def test_types_of_pandas():
    table = frames.as_table(
        pd.DataFrame(
            {
                "sparse": pd.arrays.SparseArray([0, 0, 1]),
                "period": pd.period_range("2020-01", periods=3, freq="M"),
                "number categories": pd.Categorical([1.0, None, 2.0]),
                "string": pd.array(["a", None, "b"], dtype="string"),
                "half": np.array([1, 2, 3], dtype=np.float16),
                "large": pd.array([2**63 + 1, None, 1], dtype="UInt64"),
                "old": np.array(["0001-01-01", "NaT", "9999-12-31"], dtype="datetime64[s]"),
            },
            index=["x", "y", "z"],
        )
    )
    assert table["sparse"].to_list() == [0, 0, 1]
    assert table["period"].dt.month().to_list() == [1, 2, 3]
    assert table["number categories"].cast(pl.String).to_list() == ["1", None, "2"]
    assert table["string"].to_list() == ["a", None, "b"]
    assert table["half"].to_list() == [1.0, 2.0, 3.0]
    assert table["large"].to_list() == [2**63 + 1, None, 1]
    assert table["old"].dt.year().to_list() == [1, None, 9999]


@pytest.mark.parametrize(
    ("table", "got"),
    [
        (pd.DataFrame({"x y": [[1], [2]]}), r"a cell of type list \(row 1\)"),
        (pd.DataFrame({"x y": [None, {"a": 1}]}), r"a cell of type dict \(row 2\)"),
        (pd.DataFrame({"x y": [np.zeros((2, 2)), None]}), "a cell of type ndarray"),
        (pd.DataFrame({"x y": [b"a", b"b"]}), "a cell of type bytes"),
        (pd.DataFrame({"x y": [1j, 2.0]}), "complex128"),
        (pd.DataFrame({"x y": pd.Series([1j, "a"], dtype=object)}), "a cell of type complex"),
        (pd.DataFrame({"x y": [object(), None]}), "a cell of type object"),
        (pl.DataFrame({"x y": [[1], [2]]}), r"List\(Int64\)"),
        (pl.DataFrame({"x y": np.zeros((2, 3))}), "Array"),
        (pl.DataFrame({"x y": [{"a": 1}, {"a": 2}]}), "Struct"),
        (pl.DataFrame({"x y": [b"a", b"b"]}), "Binary"),
        (Arrow(pl.DataFrame({"x y": [b"a", b"b"]})), "Binary"),
    ],
)
def test_what_cannot_be_a_feature(table, got):
    with pytest.raises(
        InputError, match=f"column 'x y' must hold numbers, dates, .* got .*{got}.*; leave it out"
    ):
        frames.as_table(table)
    assert frames.as_table(table, ["others"]).width == 0  # columns that are not needed are not read


def test_frames_that_are_none():
    one = pd.DataFrame({"a": [1], "b": ["x"]})
    for table, complaint in (
        (np.eye(2), "must be a frame of pandas, polars or Arrow, .* got ndarray"),
        (pl.Series([1]), "got Series"),
        (pd.Series([1]), "got Series"),
        (one.set_axis(["a", "a"], axis=1), "more than one column 'a'"),
        (one.set_axis([1, "1"], axis=1), "more than one column '1'"),
        (one[[]], "at least one column"),
        (pl.DataFrame({"a": [1]}).lazy(), r"X\.collect\(\)"),
    ):
        with pytest.raises(InputError, match=complaint):
            frames.as_table(table)


def test_plain_frames():
    """Those that are a matrix, and are taken as one."""
    plain = {"a": [1.5, 2.0], "b": [1, 2], "c": [True, False]}
    for make in (pd.DataFrame, pl.DataFrame):
        assert frames.is_plain(make(plain))
        for more in (["x", "y"], [1.0, float("nan")], [None, 1.0], [Decimal(1), Decimal(2)]):
            assert not frames.is_plain(make({**plain, "d": more}))
    assert frames.is_plain(pd.DataFrame(plain).convert_dtypes())
    assert not frames.is_plain(pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}))
    assert not frames.is_plain(pd.DataFrame({"a": pd.Categorical([1, 2])}))
