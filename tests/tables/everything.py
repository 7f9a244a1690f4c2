"""A table with columns of all kinds, as frames of pandas, polars and Arrow."""

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl

KINDS = ("pandas", "polars", "arrow")
SIZES = ["small", "medium", "large"]
LEFT_OUT = ("nothing", "always", "name", "number of the row")
BERLIN = ZoneInfo("Europe/Berlin")


class Arrow:
    """Anything with Arrow's interface for tables, and with nothing else."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self.frame.__arrow_c_stream__(requested_schema)


def cells(n, seed=0, gaps=0.05, new=False):
    """Twenty columns as lists, with None for gaps; ``new``: with categories that were not there."""
    rng = np.random.default_rng(seed)
    begin = datetime.datetime(2020, 1, 1)
    hours = [begin + datetime.timedelta(hours=int(hour)) for hour in rng.integers(0, 20000, n)]
    more = ["mauve"] * new
    columns = {
        "whole": rng.integers(-5, 6, n).tolist(),
        "unsigned": rng.integers(0, 200, n).tolist(),
        "float": rng.normal(size=n).tolist(),
        "single": rng.normal(size=n).astype(np.float32).tolist(),
        "nullable": rng.integers(0, 9, n).tolist(),
        "colour": rng.choice(["red", "green", "blue", *more], n).tolist(),
        "category": rng.choice(["a", "b", "c", *more], n).tolist(),
        "size": rng.choice(SIZES, n).tolist(),
        "flag": rng.choice([True, False], n).tolist(),
        "date": [hour.date() for hour in hours],
        "moment": hours,
        "zoned": [hour.replace(tzinfo=BERLIN) for hour in hours[::-1]],
        "duration": [datetime.timedelta(minutes=int(m)) for m in rng.integers(0, 5000, n)],
        "text numbers": [f"{value:.3f}" for value in rng.normal(size=n)],
        "text dates": [f"{hour:%Y-%m-%d}" for hour in hours],
        "sometimes": [7.5] * n,
    }
    for column in columns.values():
        for row in np.flatnonzero(rng.random(n) < gaps):
            column[row] = None
    columns["nothing"] = [None] * n
    columns["always"] = ["the same"] * n
    columns["name"] = [f"person {seed} {i}" for i in range(n)]
    columns["number of the row"] = [2**60 + 1 + i for i in range(n)]
    return columns


def frame(kind, columns):
    """The columns as a frame that has their types."""
    if kind == "pandas":
        table = pd.DataFrame({name: pd.Series(cells) for name, cells in columns.items()})
        for name, dtype in {
            "nullable": "Int64",
            "category": "category",
            "size": pd.CategoricalDtype(SIZES, ordered=True),
            "flag": "boolean",
            "date": object,
            "moment": "datetime64[ns]",
        }.items():
            if name in columns:
                table[name] = table[name].astype(dtype)
        return table
    types = {
        "unsigned": pl.UInt8,
        "single": pl.Float32,
        "category": pl.Categorical,
        "size": pl.Enum(SIZES),
    }
    table = pl.DataFrame(columns, strict=False, schema_overrides=types)
    return Arrow(table) if kind == "arrow" else table


def targets(columns):
    """Numbers and labels that the columns tell something of."""
    x = np.array([value or 0.0 for value in columns["float"]])
    red = np.array([colour == "red" for colour in columns["colour"]])
    y = x + 2.0 * red
    return y, np.where(y > 1.0, "high", "low")
