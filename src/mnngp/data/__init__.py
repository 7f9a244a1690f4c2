"""Data to learn from: public collections of images, and tables of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mnngp._system.extras import require
from mnngp.data.download import fetch
from mnngp.data.folder import data_folder
from mnngp.data.images import Images, find, load, standardised
from mnngp.data.published import COLLECTIONS, NAMES, Collection, collection

if TYPE_CHECKING:
    from mnngp.data.encoder import Encoder
    from mnngp.data.table_files import read_table

__all__ = [
    "COLLECTIONS",
    "NAMES",
    "Collection",
    "Encoder",
    "Images",
    "collection",
    "data_folder",
    "fetch",
    "find",
    "load",
    "read_table",
    "standardised",
]


def __getattr__(name: str) -> Any:
    # Tables need polars, and images do not.
    if name == "Encoder":
        require("tables", "polars")
        from mnngp.data.encoder import Encoder

        return Encoder
    if name == "read_table":
        require("tables", "polars")
        from mnngp.data.table_files import read_table

        return read_table
    raise AttributeError(f"module 'mnngp.data' has no attribute {name!r}")
