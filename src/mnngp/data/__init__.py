"""Data to learn from: public collections of images, and tables of one's own."""

from __future__ import annotations

from mnngp.data.download import fetch
from mnngp.data.encoder import Encoder
from mnngp.data.folder import data_folder
from mnngp.data.images import Images, find, load, standardised
from mnngp.data.published import COLLECTIONS, NAMES, Collection, collection
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
