"""Data to learn from: public collections of images, and tables of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mnngp._system.extras import require
from mnngp.data.download import fetch
from mnngp.data.images import Images, data_folder, find, load, standardised
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
    if name not in ("Encoder", "read_table"):
        raise AttributeError(f"module 'mnngp.data' has no attribute {name!r}")
    require("tables", "polars")
    from mnngp.data import encoder, table_files

    return getattr(encoder if name == "Encoder" else table_files, name)
