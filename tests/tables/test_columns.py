"""Columns of numbers, dates and categories: what new rows may hold."""

import datetime
import math

import numpy as np
import polars as pl
import pytest

from mnngp import data
from mnngp.data import Encoder
from mnngp.errors import InputError
from tests.data.samples import HALVES, numbered


def test_typed_columns_that_do_not_fit():
    encoder = Encoder.of(
        pl.DataFrame({"x": [1.0, 2.0], "d": ["2024-01-01", "2024-01-02"], "y": [1.5, 2.5]}), "y"
    )
    good = {"x": [1.0], "d": ["2024-01-01"]}
    for change, complaint in [
        ({"x": [datetime.date(2024, 1, 1)]}, "column 'x' must hold numbers, got Date"),
        ({"x": [[1.0]]}, r"column 'x' must hold numbers, got List\(Float64\)"),
        ({"d": [3]}, "column 'd' must hold dates like 2024-05-31, got Int64"),
    ]:
        with pytest.raises(InputError, match=complaint):
            encoder.encode(pl.DataFrame(good | change))
    for column in ([[1], [2]], [{"a": 1}, {"a": 2}], [b"a", b"b"]):
        with pytest.raises(
            InputError,
            match=r"'x y' must hold numbers, dates or text, got .*; drop it \(--drop "
            r"'x y' on the command line\)",
        ):
            Encoder.of(pl.DataFrame({"x y": column, "y": [1.5, 2.5]}), "y")
    with pytest.raises(InputError, match=r"frame must be a polars\.DataFrame"):
        encoder.encode([[1.0]])
    with pytest.raises(InputError, match="must have at least one row"):
        encoder.encode(pl.DataFrame(good).head(0))


DAYS = [f"2024-05-{i:02}" for i in range(1, 31)]


@pytest.mark.parametrize(
    ("cells", "odd", "kind"),
    [
        ([f"{i / 7}" for i in range(30)], ["abc"], "numbers"),
        ([*"123123123"], ["x"], "numbers"),
        ([f"{i}" for i in range(40)], ["0x1F", "1_000", "5 kg"], "numbers"),
        (DAYS, ["soon"], "dates"),
        (DAYS, ["22-03-01"], "dates"),  # not a day of the year 22
        (DAYS, ["2024-02-30", "31/05/2024", "2024-05-31T12:00:00Z"], "dates"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_mistake_among_many_is_a_gap_and_said(cells, odd, kind, first):
    mixed = [*odd, *cells] if first else [*cells, *odd]
    frame = pl.DataFrame({"a": mixed, "y": [0.5 * i for i in range(len(mixed))]})
    encoder = Encoder.of(frame, "y")
    verb = "is none and counts as a gap" if len(odd) == 1 else "are none and count as gaps"
    row = 1 if first else len(cells) + 1
    note = (
        f"column 'a' holds {kind}, but {len(odd)} of {len(mixed)} values {verb}, first {odd[0]!r} "
        f"(row {row})"
    )
    assert encoder.notes[0] == note
    assert encoder.features == ["a", "a is missing"]
    X, _ = encoder.labelled(frame)
    plain, _ = Encoder.of(pl.DataFrame({"a": cells, "y": range(len(cells))}), "y").labelled(
        pl.DataFrame({"a": cells, "y": range(len(cells))})
    )
    where = np.isin(mixed, cells)
    np.testing.assert_array_equal(X[where, 0], plain[:, 0])
    np.testing.assert_array_equal(X[:, 1], ~where)


def test_one_bad_cell_does_not_stop_a_prediction():
    """It is a gap, and told with its column, the number of such cells, the first row and its
    value.
    """
    frame = pl.DataFrame({"d": DAYS, "n": range(30), "g": ["1", None] * 15, "y": HALVES[:30]})
    encoder = Encoder.of(frame, "y")
    new = pl.DataFrame(
        {
            "d": ["2024-05-03", "22-03-01", "2024-05-05"],
            "n": ["1", "2,5", "inf"],
            "g": ["1", "1", "1"],
        }
    )
    with pytest.raises(
        InputError, match="column 'd' must hold dates like 2024-05-31, row 2 has '22-03-01'"
    ):
        encoder.encode(new)
    with pytest.raises(InputError, match="column 'n' must hold numbers, row 2 has '2,5'"):
        # two of three: something else than a mistake
        encoder.encode(new.with_columns(d=pl.lit("2024-05-03")), strict=False)
    for cells in (["old", "1,5", "1"], pl.Series(["a", "b", "1"], dtype=pl.Categorical)):
        with pytest.raises(
            InputError,
            match=r"column 'n' must hold numbers, row 1 has '\w+', the "
            r"first of 2 such",
        ):
            encoder.encode(
                new.with_columns(n=cells if isinstance(cells, pl.Series) else pl.Series(cells)),
                strict=False,
            )
    for cells in (["inf"] * 3, [math.inf] * 3):
        with pytest.raises(InputError, match="column 'n' must be finite, row 1 has inf"):
            encoder.encode(new.with_columns(n=pl.Series(cells)), strict=False)
    new = new.with_columns(n=pl.Series(["1", "2", "inf"]))
    median = 19858.0  # 2024-05-15
    np.testing.assert_array_equal(
        encoder.encode(new, strict=False)[:, :2], [[median - 12, 1], [median, 2], [median - 10, 14]]
    )
    assert encoder.surprises(new) == [
        "column 'd': 1 of 3 rows cannot be read as dates like 2024-05-31 and counts as a gap, for "
        "which the median stands in, "
        "first '22-03-01' (row 2)",
        "column 'n': 1 of 3 rows cannot be read as numbers and counts as a gap, for which the "
        "median stands in, "
        "first 'inf' (row 3)",
    ]
    known = frame.head(4).with_columns(
        g=pl.Series(["1", "one", "1", "1"]), d=pl.lit(None, dtype=pl.String)
    )
    assert (
        encoder.surprises(known)[1] == "column 'g': 1 of 4 rows cannot be read as numbers and "
        "counts as a gap, first 'one' (row 2)"
    )
    assert encoder.encode(known, strict=False)[:, -1].tolist() == [0, 1, 0, 0]
    X, y = encoder.scored(new.with_columns(y=pl.Series([1.0, 2.0, None])), strict=False)
    assert (X[:, 0].tolist(), y.tolist()) == ([median - 12, median], [1.0, 2.0])


@pytest.mark.parametrize(
    "form",
    [
        "2022-03-01",
        "2022-3-1",
        "2022-03-01 06:00",
        "2022-03-01T06:00",
        "2022-03-01 06:00:00",
        "2022-03-01T6:00:00.250",
    ],
)
def test_forms_of_a_date(form):
    encoder = Encoder.of(pl.DataFrame({"d": ["2022-01-01", form], "y": [1.5, 2.5]}), "y")
    day = (datetime.date(2022, 3, 1) - datetime.date(1970, 1, 1)).days
    expected = day + (0.25 if ":" in form else 0.0) + (0.25 / 86400 if "." in form else 0.0)
    assert encoder.encode(pl.DataFrame({"d": [form]}))[0, 0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "form",
    [
        "22-03-01",
        "02022-03-01",
        "+2022-03-01",
        "2022-02-29",
        "2022-03-01 x",
        "2022-03-01Z",
        "01-03-2022",
        "2022-03-01 25:00",
    ],
)
def test_what_is_no_date(form):
    encoder = Encoder.of(pl.DataFrame({"d": ["2022-01-01", "2022-01-03"], "y": [1.5, 2.5]}), "y")
    with pytest.raises(InputError, match=r"column 'd' must hold dates like 2024-05-31, row 2 has"):
        encoder.encode(pl.DataFrame({"d": ["2022-01-01", form]}))


@pytest.mark.parametrize(
    ("dtype", "late", "shown"),
    [
        (pl.Date, 5_000_000, "15659-07-15"),
        (pl.Datetime("us"), 10**18, "33658-09-27T01:46:40.000000"),
        (pl.Datetime("ms", "UTC"), 10**15, "33658-09-27T01:46:40.000"),
    ],
)
def test_dates_that_python_does_not_have(dtype, late, shown):
    days = pl.Series("when", range(10)).cast(pl.Int32).cast(pl.Date).cast(dtype)
    encoder = Encoder.of(pl.DataFrame([days, pl.Series("y", range(10)) / 2]), "y")
    unit = pl.Int32 if dtype == pl.Date else pl.Int64
    new = pl.DataFrame({"when": pl.Series([late], dtype=unit).cast(dtype)})
    assert encoder.surprises(new) == [
        "column 'when': 1 of 1 rows is far outside of 1970-01-01 to 1970-01-10, what training had, "
        f"first {shown} (row 1)"
    ]


def test_values_far_outside_of_training_are_said():
    frame = pl.DataFrame(
        {
            "age": [18, 90, 40],
            "when": ["2023-01-01", "2023-12-31", "2023-06-01"],
            "y": [0.5, 1.5, 2.5],
        }
    )
    encoder = Encoder.of(frame, "y")
    # half of the width, and no more
    near = pl.DataFrame({"age": ["-18", "126", "18"], "when": ["2022-07-03", "2024-06-30", None]})
    assert encoder.surprises(near) == [
        "column 'when': 1 of 3 rows is a gap, of which training had none; the median stands in"
    ]
    far = pl.DataFrame(
        {
            "age": [40.0, 900.0, -50.0],
            "when": [datetime.date(2023, 5, 1), datetime.date(22, 3, 1), None],
        }
    )
    assert encoder.surprises(far) == [
        "column 'age': 2 of 3 rows are far outside of 18 to 90, what training had, first 900.0 "
        "(row 2)",
        "column 'when': 1 of 3 rows is a gap, of which training had none; the median stands in",
        "column 'when': 1 of 3 rows is far outside of 2023-01-01 to 2023-12-31, what training had, "
        "first 0022-03-01 (row 2)",
    ]
    old = encoder.as_dict()
    for column in old["columns"]:  # as version 0.1 wrote it
        del column["low"], column["high"]
    assert len(Encoder.from_dict(old).surprises(far)) == 1
    np.testing.assert_array_equal(Encoder.from_dict(old).encode(far), encoder.encode(far))


def test_ordinary_rows_are_not_said_to_be_far():
    """Half of the range beyond the largest of 500 is at 4.5 standard deviations and more, or at 10
    times an exponential's mean.
    """
    rng = np.random.default_rng(1)
    for draw, most in ((rng.normal, 0), (rng.exponential, 1)):
        train, new = (
            pl.DataFrame({f"c{i}": draw(size=n) for i in range(10)} | {"y": rng.normal(size=n)})
            for n in (500, 100)
        )
        assert len(Encoder.of(train, "y").surprises(new)) <= most


def test_durations_become_days(tmp_path):
    hours = [datetime.timedelta(hours=12 * i) for i in range(4)]
    frame = pl.DataFrame({"d": [*hours[:3], None], "y": hours})
    for unit in ("ms", "us", "ns"):
        frame.cast({"d": pl.Duration(unit), "y": pl.Duration(unit)}).write_parquet(
            tmp_path / "t.parquet"
        )
        again = data.read_table(tmp_path / "t.parquet")
        encoder = Encoder.of(again, "y")
        X, y = encoder.labelled(again)
        assert (X.tolist(), y.tolist()) == ([[0, 0], [0.5, 0], [1, 0], [0.5, 1]], [0, 0.5, 1, 1.5])
        assert "column 'd' holds durations, which become days" in encoder.notes
    texts = Encoder.of(numbered(c=["a", "b"] * 50, y=HALVES), "y")
    assert (
        "training did not have ('0.5'); it had 'a', 'b'"
        in texts.surprises(pl.DataFrame({"x": [1], "c": hours[1:2]}))[0]
    )
    assert texts.encode(pl.DataFrame({"x": [1], "c": hours[1:2]})).tolist() == [[1, 0, 0]]
