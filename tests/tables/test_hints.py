"""Columns that look like numbers and are not."""

import polars as pl
import pytest

from mnngp import data
from mnngp.data import Encoder
from tests.data.samples import HALVES, numbered


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        (
            [f"{i},{i % 10}4" for i in range(30)],
            "looks like numbers with decimal commas, such as '0,04' (row 2), which are not "
            "understood, "
            "so it is taken as text and left out",
        ),
        (
            ["1.234,5", "12", "999,5", "7,25"],
            "looks like numbers with decimal commas, such as '999,5' (row 4), which are not "
            "understood, "
            "so it is taken as text, 4 categories",
        ),
        (
            ["999", "1,511", "12,000"],
            "looks like numbers with thousands separators or decimal commas, such as '1,511' (row "
            "3), which are not understood, "
            "so it is taken as text, 3 categories",
        ),
        (
            ["999", "1,511.5", "12,000,000", "1'000", "2\u202f000"],
            "looks like numbers with thousands separators, such as '1,511.5' (row 3), which are "
            "not understood, "
            "so it is taken as text, 5 categories",
        ),
        (
            [f"{1 + i % 28:02}/05/{2000 + i}" for i in range(30)],
            "looks like dates, such as '01/05/2000' (row 2), of which only the form 2024-05-31 is "
            "understood, "
            "so it is taken as text and left out",
        ),
        (
            ["2024-05-31T12:00:00Z", "2024-06-01T12:00:00Z"],
            "looks like dates, such as '2024-05-31T12:00:00Z' (row 2), of which only the form "
            "2024-05-31 is understood, "
            "so it is taken as text, 2 categories",
        ),
        (
            [*(f"{i}" for i in range(900, 1000)), "1,000"],
            "looks like numbers with thousands separators or decimal commas, such as '1,000' (row "
            "102), which are not understood, "
            "so it is taken as text and left out",
        ),
        (
            [f"{20 + i}-03-01" for i in range(30)],
            "looks like dates, such as '20-03-01' (row 2), of which only the form 2024-05-31 is "
            "understood, "
            "so it is taken as text and left out",
        ),
        (["1,5"] * 10, "is left out: it is always '1,5'"),
        ([*"12345678", "x", "z"], None),
        (["red", "4,5", "blue"], None),
        (["a", "b", None], None),
    ],
)
def test_columns_that_look_like_numbers_say_why_they_are_none(cells, note):
    n = len(cells)
    frame = pl.DataFrame(
        {"x": range(n + 1), "a": ["left out", *cells], "y": [None, *(0.5 * i for i in range(n))]}
    )
    notes = Encoder.of(frame, "y").notes[1:]  # the first counts the row without a target
    assert notes == (() if note is None else (f"column 'a' {note}",))


def test_whole_numbers_beyond_2_to_the_53_are_not_merged(tmp_path):
    start = 2**53 + 1  # which floating point rounds to its neighbour
    assert float(start) == float(start - 1)
    groups = [start + i % 3 for i in range(60)]
    rows = [start + i for i in range(60)]
    frame = pl.DataFrame({"g": groups, "row": rows, "y": HALVES[:60]})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    reason = "which would be rounded and are most probably identifiers, so it is taken as text"
    for name in ("t.csv", "t.parquet"):
        read = data.read_table(tmp_path / name)
        encoder = Encoder.of(read, "y")
        assert encoder.features == [f"g = {start + i}" for i in range(3)]
        assert encoder.encode(read).sum(axis=0).tolist() == [20, 20, 20]
        assert encoder.notes == (
            f"column 'g' holds whole numbers beyond 2^53, such as {start} (row 1), {reason}, 3 "
            "categories",
            f"column 'row' holds whole numbers beyond 2^53, such as {start} (row 1), {reason} and "
            "left out",
        )
    # what floating point holds exactly, such as times in nanoseconds, stays a number
    times = pl.DataFrame(
        {"t": [1_700_000_000_000_000_000 + 10**9 * i for i in range(30)], "y": HALVES[:30]}
    )
    assert Encoder.of(times, "y").notes == ()
    assert Encoder.of(times.cast(pl.String), "y").features == ["t"]
    decimals = times.with_columns(
        t=pl.Series([str(start + i) for i in range(30)]).cast(pl.Decimal(30, 2))
    )
    assert (
        "beyond 2^53, such as 9007199254740993.00 (row 1)"
        in Encoder.of(decimals.with_columns(x=pl.Series(HALVES[:30])), "y").notes[0]
    )


def test_targets_beyond_2_to_the_53():
    frame = numbered(y=[2**53 + 1 + i % 2 for i in range(100)])
    assert Encoder.of(frame, "y").notes[-1] == (
        "column 'y' holds whole numbers beyond 2^53, such as 9007199254740993 (row 1), which would "
        "be rounded and are most "
        "probably identifiers; if they are classes, say task='classification' (--task "
        "classification)"
    )
    labels = Encoder.of(frame, "y", "classification").labelled(frame)[1]
    assert labels[:2].tolist() == ["9007199254740993", "9007199254740994"]


def test_a_target_that_looks_like_numbers_is_not_silently_classes():
    frame = numbered(y=["0", "1"] * 49 + ["0", "x"])
    assert Encoder.of(frame, "y").notes == (
        "column 'y' looks like numbers, but 'x' (row 100) is none, so it is taken as text, 3 "
        "classes",
    )
    assert Encoder.of(frame, "y", "classification").notes == ()
