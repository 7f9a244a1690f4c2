"""Tables on disk: CSV in many clothes, Parquet, and what is no table."""

import base64
import contextlib
import datetime
import io
import struct
import sys

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnngp import data
from mnngp.data import Encoder
from mnngp.errors import DataError, InputError, MissingExtraError
from tests.data.samples import AGAIN, table

EXPECTED = {"a": ["1", "2", None], "b c": ["x", None, "y;,\t|z"]}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_csv(tmp_path, separator, mark, end):
    lines = ["a , b c", "1,x", " 2 ,NA", ',"y;,\t|z"', ""]
    text = end.join(line.replace(",", separator, 1) for line in lines)
    if separator != ",":
        text = text.replace(f'{separator}"y;{separator}\t', f'{separator}"y;,\t')
    frame = data.read_table(table(tmp_path, mark + text.encode()))
    assert frame.to_dict(as_series=False) == EXPECTED
    assert frame.dtypes == [pl.String, pl.String]


def test_csv_in_other_clothes(tmp_path):
    assert data.read_table(table(tmp_path, "a,b\tc\n1,5\t2\n", "t.TSV")).to_dict(
        as_series=False
    ) == {
        "a,b": ["1,5"],
        "c": ["2"],
    }
    assert data.read_table(table(tmp_path, "ä,b\n1,ß\n".encode("utf-16"))).to_dict(
        as_series=False
    ) == {
        "ä": ["1"],
        "b": ["ß"],
    }
    assert data.read_table(table(tmp_path, "a;b\n1,5;2,5\n")).to_dict(as_series=False) == {
        "a": ["1,5"],
        "b": ["2,5"],
    }
    assert data.read_table(table(tmp_path, "a\n1\n2")).to_dict(as_series=False) == {"a": ["1", "2"]}
    blank = data.read_table(table(tmp_path, 'a,b\n\n1,2\n\n"x\n\ny",4\n,\n\n\n'))
    # blank lines are not rows, a line of gaps is
    assert blank.rows() == [("1", "2"), ("x\n\ny", "4"), (None, None)]
    assert data.read_table(table(tmp_path, "a,b,c\n1,2,\n  \n1,2,3\n")).rows() == [
        ("1", "2", None),
        ("1", "2", "3"),
    ]
    quoted = data.read_table(table(tmp_path, '"a ""b""","c,d"\n"1","2"\n'))
    assert quoted.to_dict(as_series=False) == {'a "b"': ["1"], "c,d": ["2"]}
    assert (
        data.read_table(
            table(
                tmp_path,
                "a,b\n"
                + "\n".join(["?", "nan", "null", "N/A", "", "None"]).replace("\n", ",1\n")
                + ",1\n",
            )
        )["a"].to_list()
        == [None] * 6
    )


def test_an_index_that_pandas_wrote_is_left_out(tmp_path):
    assert data.read_table(table(tmp_path, ",a\n0,5\n1,6\n")).to_dict(as_series=False) == {
        "a": ["5", "6"]
    }
    with pytest.raises(DataError, match="column 1 has no name"):
        data.read_table(table(tmp_path, ",a\n7,5\n1,6\n"))
    with pytest.raises(DataError, match="column 2 has no name"):
        data.read_table(table(tmp_path, "a,,b\n0,5,1\n1,6,1\n"))


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("t.csv", b"", "t.csv is empty"),
        ("t.csv", b"\xef\xbb\xbf\n\n", "t.csv is empty"),
        ("t.csv", b"a,b\n", "is empty: it has 2 columns and 0 rows"),
        ("t.csv", b"a,b,a, b\n1,2,3,4\n", "has more than one column 'a', 'b'"),
        (
            "t.csv",
            b"a,b\n1,2\n3,\xe9\n",
            "is not UTF-8 text: byte 0xe9 in line 3; save it as UTF-8",
        ),
        ("t.csv", b"a,b\n1,2,3\n", r"t\.csv: line 2 has 3 fields, the header has 2$"),
        ("t.csv", b'a,b,y\n\n"1\n\n1",2,3\n3,4,5,6\n', "line 6 has 4 fields, the header has 3$"),
        (
            "t.csv",
            b"\r\n\r\na;b;y\r\n1;2;3\r\n\r\n3;4\r\n",
            "line 6 has 2 fields, the header has 3; a gap is written as an empty field",
        ),
        ("t.tsv", b"a\tb\n1\n", "line 2 has 1 field, the header has 2; a gap"),
        ("t.csv", b'a,b\n1,"2\n3,4\n', "is damaged or not a table"),
        ("t.parquet", b"", "is damaged or not a table"),
        ("t.parquet", b"PAR1 nonsense PAR1", "is damaged or not a table"),
        ("t.xlsx", b"PK", r"must end in one of \.csv, "),
    ],
)
def test_files_that_are_no_tables(tmp_path, name, content, complaint):
    with pytest.raises(DataError, match=complaint):
        data.read_table(table(tmp_path, content, name))


def test_paths_that_are_no_tables(tmp_path):
    for name in ("nowhere.csv", "nowhere.xlsx", "nowhere"):
        with pytest.raises(DataError, match=f"{name} is not there"):
            data.read_table(tmp_path / name)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder\.csv is not a file"):
        data.read_table(tmp_path / "folder.csv")
    with pytest.raises(InputError, match="path must be the path of a file, got 3"):
        data.read_table(3)


def test_without_polars(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(
        MissingExtraError,
        match=r"tables need polars: pip install "
        r"\"mnngp\[experiments\]\"",
    ):
        data.read_table(tmp_path / "table.csv")


def test_parquet_keeps_its_types(tmp_path):
    path = tmp_path / "[a]*.parquet"  # not a pattern
    frame = pl.DataFrame(
        {
            "n": [1, None],
            "code": ["007", "12"],
            "flag": [True, None],
            "day": [datetime.date(2024, 1, 2)] * 2,
        }
    )
    frame.write_parquet(path)
    again = data.read_table(path)
    assert again.dtypes == [pl.Int64, pl.Categorical, pl.Boolean, pl.Date]
    assert Encoder.of(again.with_columns(y=pl.Series([1.5, 2.5])), "y").features == [
        "n is missing",
        "code = 007",
        "code = 12",
        "flag = true",
        "flag is missing",
    ]


def parquet(frame, **options):
    buffer = io.BytesIO()
    frame.write_parquet(buffer, **options)
    return buffer.getvalue()


def changed(content, position, value):
    return content[:position] + bytes([value]) + content[position + 1 :]


FIFTY = pl.DataFrame({"n": range(50), "t": [f"text {i % 5}" for i in range(50)]})


@settings(AGAIN, max_examples=200)
@given(position=st.integers(0, 10**6), value=st.integers(0, 255), cut=st.booleans())
def test_damaged_parquet_never_fails_otherwise(tmp_path, position, value, cut):
    content = parquet(FIFTY)
    position %= len(content)
    content = content[:position] if cut else changed(content, position, value)
    with contextlib.suppress(DataError):
        frame = data.read_table(table(tmp_path, content, "t.parquet"))
        assert not cut  # what is cut off is never read, what is changed is a whole table at most
        assert frame.shape == (50, 2)
        assert frame.columns == ["n", "t"]


def test_counts_in_damaged_parquet(tmp_path):
    """Of a negative number of values in a page polars allocates 2e18 bytes, which ends the process."""
    content = parquet(FIFTY)
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    pages = [i + 2 for i in range(footer) if content.startswith(b"\x2c\x15\x64", i)]
    counts = [i + 1 for i in range(footer, len(content)) if content.startswith(b"\x16\x64", i)]
    assert len(pages) == 2
    assert len(counts) == 4  # of the file, of both columns, of the group of rows
    for position in pages + counts:
        for value in (0, 1, 2, 98, 99, 101, 102, 127):
            with pytest.raises(DataError, match=r"t\.parquet is damaged or not a table: "):
                data.read_table(table(tmp_path, changed(content, position, value), "t.parquet"))


def test_names_rows_and_scales_in_damaged_parquet(tmp_path):
    """Whichever byte is changed: they are the same, or it is an error."""
    frame = pl.DataFrame({"first": range(9), "price": pl.Series(range(9)).cast(pl.Decimal(9, 2))})
    content = parquet(frame)
    scheme = content.index(b"ARROW:schema")  # from where polars 1.28 takes the scale
    noticed = 0
    for position, byte in enumerate(content):
        for value in {byte ^ 1, byte ^ 8, (byte + 1) % 256}:
            try:
                again = data.read_table(
                    table(tmp_path, changed(content, position, value), "t.parquet")
                )
            except DataError:
                noticed += 1
            else:
                assert again.columns == frame.columns
                assert again.height == 9
                assert getattr(again["price"].dtype, "scale", 2) == 2 or position > scheme
    assert noticed > len(content)


def test_checksums_in_parquet(tmp_path):
    """1.5, 2.5 and 4.0, written by pyarrow 26 with write_page_checksum=True."""
    content = base64.b85decode(
        "P(e~L6#x}H6+9K4``3~W92Eu?02Kxm1{?qY00IC200sd7000000Qf%u0000000ck)0000001!YG1Q{$f02l^yV`yb<"
        "VHE-Z6$&K+7y)<y76us{85|}692E)~B?bT)7y)<{02T%oZWeAP2uU0j02Kfg0suTI1{o#*1^@s67H$>>CI}X804N}E"
        "VRCVGWppiLaBwYQa&m8XAa-SPb7^mGATl;CFfK6}92@`u0D1rb08l|vF#"
    )
    assert data.read_table(table(tmp_path, content, "t.parquet"))["x"].to_list() == [1.5, 2.5, 4.0]
    values = content.index(struct.pack("<3d", 1.5, 2.5, 4.0))
    for position in range(values, values + 24):
        damaged = table(tmp_path, changed(content, position, content[position] ^ 1), "t.parquet")
        with pytest.raises(DataError, match="a page is not what its checksum is of"):
            data.read_table(damaged)


def test_text_in_parquet_is_utf_8(tmp_path):
    for dtype in (pl.String, pl.Categorical):
        content = parquet(FIFTY.with_columns(pl.col("t").cast(dtype)), compression="uncompressed")
        position = content.index(b"text 3") + 4
        with pytest.raises(DataError, match=r"is damaged or not a table: .*(?i:utf-?8)"):
            data.read_table(table(tmp_path, changed(content, position, 0xE0), "t.parquet"))


@settings(AGAIN, max_examples=200)
@given(
    st.binary(max_size=200) | st.text(alphabet='ab1,;\t|\n\r" \x00ä', max_size=80).map(str.encode)
)
def test_any_bytes_are_a_table_or_an_error(tmp_path, content):
    with contextlib.suppress(DataError):
        frame = data.read_table(table(tmp_path, content))
        assert frame.height > 0
        assert all(dtype == pl.String for dtype in frame.dtypes)
