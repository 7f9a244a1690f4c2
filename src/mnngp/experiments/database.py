"""SQLite for stores: how a file is opened, and its errors with their remedies."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from mnngp._io import writable
from mnngp.errors import InputError, MnngpError

REMEDY = "take a copy from before, or another file (-o)"
_PATIENCE = 60.0  # seconds to wait for another process that is writing


class StoreError(MnngpError, ValueError):
    """A file is not the store of this run, or cannot be read or written; it says what to do."""


class HotJournalError(StoreError):
    """A killed process left the file in the middle of a change, and it is open to be read only."""


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a file to be read ("ro"), written ("rw"), or made ("rwc")."""
    connection: sqlite3.Connection | None = None
    try:
        uri = f"file:{quote(str(path.absolute()))}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA synchronous = FULL")
        # the first look at the file itself
        connection.execute("SELECT count(*) FROM sqlite_master")
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if connection is not None:  # or Python 3.13 warns of it
            connection.close()
        raise _translated(path, "opened", error) from error
    return connection


def check_writable(path: Path) -> None:
    """SQLite opens a file that it may not write all the same, and complains late."""
    try:
        writable(path)
    except InputError as error:
        raise StoreError(str(error)) from error


@contextlib.contextmanager
def errors(path: Path, what: str) -> Iterator[None]:
    """SQLite's errors, as ours: ``path`` cannot be ``what``."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        raise _translated(path, what, error) from error


def _translated(path: Path, what: str, error: Exception) -> StoreError:
    """An error with its remedy, in one line."""
    name, text = getattr(error, "sqlite_errorname", ""), str(error)
    kept = "what is finished is kept, and the same command goes on"
    if name.startswith(("SQLITE_READONLY_ROLLBACK", "SQLITE_READONLY_RECOVERY")):
        return HotJournalError(
            f"{path} was left in the middle of a change; open it once where it can be written"
        )
    # of SQLite's own message
    decoding = isinstance(error, UnicodeDecodeError)
    if decoding or name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return StoreError(f"{path} is not the store of a run, or is damaged: {text}; {REMEDY}")
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        text += f"; {kept} when there is room"
    elif name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN")):
        text += "; is its folder writable?"
    elif name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        text = f"another process has kept it for {_PATIENCE:.0f} seconds; {kept}"
    return StoreError(f"{path} cannot be {what}: {text}")
