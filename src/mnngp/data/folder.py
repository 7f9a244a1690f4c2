"""Where the data is: a folder that is named, or ``MNNGP_DATA``, or the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

from mnngp.errors import InputError, MissingExtraError

VARIABLE = "MNNGP_DATA"


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder to look in: the argument, else ``MNNGP_DATA``, else the user's cache folder.

    >>> data_folder("data").name
    'data'
    """
    if folder is not None:
        if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
            raise InputError(f"folder must be the path of a folder, got {folder!r}")
        return Path(folder).expanduser()
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    try:
        import pooch
    except ImportError as error:
        raise MissingExtraError(
            f"say where the data is, by folder=... or {VARIABLE}, or install pooch for a cache: "
            'pip install "mnngp[experiments]"'
        ) from error
    return Path(pooch.os_cache("mnngp"))
