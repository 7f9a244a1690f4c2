"""Data to learn from: public collections of images, and tables of one's own."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mnngp._system.extras import require
from mnngp.data.download import fetch
from mnngp.data.images import Images, data_folder, find, load, standardised
from mnngp.data.published import COLLECTIONS, NAMES, Collection, collection
from mnngp.tables.groups import ColumnGroup

if TYPE_CHECKING:
    from mnngp.data.encoder import Encoder
    from mnngp.data.table_files import read_table
    from mnngp.tables.table_encoder import TableEncoder

__all__ = [
    "COLLECTIONS",
    "NAMES",
    "Collection",
    "ColumnGroup",
    "Encoder",
    "Images",
    "TableEncoder",
    "collection",
    "data_folder",
    "fetch",
    "find",
    "load",
    "read_table",
    "standardised",
]


_NEED_POLARS = {
    "Encoder": "mnngp.data.encoder",
    "TableEncoder": "mnngp.tables.table_encoder",
    "read_table": "mnngp.data.table_files",
}


def __getattr__(name: str) -> Any:
    # Tables need polars, and images do not.
    if name not in _NEED_POLARS:
        raise AttributeError(f"module 'mnngp.data' has no attribute {name!r}")
    require("tables", "polars")
    return getattr(importlib.import_module(_NEED_POLARS[name]), name)
