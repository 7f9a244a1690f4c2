"""The store of a run: one SQLite file with its protocol and every finished cell.

A cell is committed once, when it is finished, together with the others of its group: a process that
is killed loses what it was working on and nothing else. The journal is SQLite's plain one, with
full synchronisation: unlike a write-ahead log it leaves one file, and works where the file system
has locks but no shared memory (NFS).

Who works on what is not in the store but in locks of the operating system, a byte of the file
``RUN.sqlite.lock`` for each group. They go with the process that holds them, however it ends:
nothing stays claimed by the dead, and there is no clock or heartbeat.

*Damage.* Every row has a checksum over all that is in it, and the table ``total`` the number of
cells and the sum of their checksums. Both are compared with what is read: a changed bit, in a value
or in SQLite's own pages, is an error and never another number. A checksum is no signature, and a
store may come from a stranger. Only a file with exactly our tables is opened, and what it holds is
data: values are checked as they are read, the protocol as one from a file, and nothing in it is
run.

*Formats.* 1: cells without ``width`` and ``training``. 2: without ``warning`` and checksums, and
numbered by SQLite, which gives a number again once the newest cells are deleted. 3: the present
one, where a number is given once. Older ones are read as they are, and brought to the present one
when they are opened to be added to.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from mnngp import __version__
from mnngp.errors import MnngpError
from mnngp.experiments.protocol import Group, Protocol

_APPLICATION = 0x6D6E6E67  # "mnng" in the file's header
_VERSION = 3
_PATIENCE = 60.0  # seconds to wait for another process that is writing
_SHOWN = 12  # differences of protocols
_REMEDY = "take a copy from before, or another file (-o)"
_RETRY = "mnngp sweep --retry-failed computes what is damaged again"


class StoreError(MnngpError, ValueError):
    """A file is not the store of this run, or cannot be read or written; the text says what to
    do.
    """


@dataclass(frozen=True)
class Result:
    """One finished cell: what it was, and how it went.

    ``seconds`` is the time of the cell alone, without the angles that all cells of its split share.
    ``noise_var`` is the noise variance that was used in the end, after ``attempts`` factorisations.
    A failed cell has an ``error`` and no accuracies; so has a network whose training ``diverged``.
    Of networks of finite ``width``, ``weight_var`` and ``bias_var`` are the squares of the standard
    deviations, and ``seconds`` the share in what those trained together took. ``warning`` says why
    a cell is less accurate than usual, a line a reason. Noise that the paper's policy has raised is
    none: ``noise_var`` and ``attempts`` tell.
    """

    dataset: str
    n_train: int
    n_validation: int
    n_test: int
    repeat: int
    seed: int
    activation: str
    rank: int | None
    kind: str
    depth: int
    weight_var: float
    bias_var: float
    status: str
    validation_accuracy: float | None
    validation_log_loss: float | None
    test_accuracy: float | None
    test_log_loss: float | None
    noise_var: float | None
    attempts: int | None
    seconds: float | None
    version: str
    commit: str | None
    finished: str
    error: str | None
    width: int | None = None  # infinite
    training: str | None = None
    warning: str | None = None


STATUS = ("done", "failed", "diverged")
_COLUMNS = [one.name for one in fields(Result)]
_SINCE = {"width": 2, "training": 2, "warning": 3}  # the formats that columns came with
_ABOUT = ("protocol", "title", "created", "version", "commit", "machine")
_TYPES = {str: "TEXT", int: "INTEGER", float: "REAL"}
_NAMES = {kind.__name__: kind for kind in _TYPES}
# may it be empty?
_KINDS = [
    (_NAMES[str(one.type).removesuffix(" | None")], "None" in str(one.type))
    for one in fields(Result)
]
_DECLARED = {
    name: f'"{name}" {_TYPES[kind]}' + ("" if optional else " NOT NULL")
    for name, (kind, optional) in zip(_COLUMNS, _KINDS, strict=True)
}


def _columns(version: int) -> list[str]:
    return [name for name in _COLUMNS if _SINCE.get(name, 1) <= version]


def _tables(version: int = _VERSION) -> dict[str, str]:
    """The tables of a store, as SQLite remembers them."""
    columns = ", ".join(_DECLARED[name] for name in _columns(version))
    if version < 3:
        return {
            "run": "CREATE TABLE run (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
            "cell": f"CREATE TABLE cell (key TEXT PRIMARY KEY, {columns})",
        }
    number = "number INTEGER PRIMARY KEY AUTOINCREMENT"
    return {
        "run": "CREATE TABLE run (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum TEXT NOT "
        "NULL)",
        "cell": f"CREATE TABLE cell ({number}, key TEXT NOT NULL UNIQUE, {columns}, checksum TEXT "
        "NOT NULL)",
        "total": "CREATE TABLE total (cells INTEGER NOT NULL, checksum TEXT NOT NULL)",
    }


def _checksum(row: Sequence[Any]) -> str:
    """Of a row as it is read. Damage agrees with it once in 2⁶⁴ times."""
    return hashlib.blake2b(json.dumps(row, default=repr).encode(), digest_size=8).hexdigest()


def _sum(rows: Iterable[Sequence[Any]]) -> str:
    """Of the checksums of rows, which are their last values, in any order."""
    return f"{sum(int(row[-1], 16) for row in rows) % 2**64:016x}"


def _row(key: str, result: Result) -> list[Any]:
    """A cell as SQLite will give it back, and its checksum. What is REAL comes back as a float, and
    zero without its sign.
    """
    values = zip(_KINDS, astuple(result), strict=True)
    row = [
        key,
        *(
            float(value) + 0.0 if kind is float and value is not None else value
            for (kind, _), value in values
        ),
    ]
    return [*row, _checksum(row)]


def _is_sound(row: Sequence[Any]) -> bool:
    """Whether what was read is what was written."""
    return bool(_checksum(row[:-1]) == row[-1])


class Store:
    """An open store. ``Store.open`` reads one; ``Store.begin`` makes one for a protocol, or goes on
    with it.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._version = _VERSION
        self._locks: IO[bytes] | None = None

    # --- opening ----------------------------------------------------------------------------------

    @staticmethod
    def open(path: str | os.PathLike[str], readonly: bool = True) -> Store:
        """Open the store of a run, to read what there is (``readonly=False``: also to add to it).

        Another process may be adding to it meanwhile.
        """
        path = Path(path)
        if not path.is_file():
            raise StoreError(
                f"{path} is not there" if not path.exists() else f"{path} is not a file"
            )
        try:
            store = Store(path, _connect(path, "ro" if readonly else "rw"))
        # the writer was killed: SQLite puts the file in order if it may write
        except _HotJournalError:
            store = Store(path, _connect(path, "rw"))
        with store._closed_on_error():
            with store._transaction("read", "DEFERRED"):  # another process may be upgrading it
                store._check()
            if not readonly:
                store._upgrade()
        return store

    @staticmethod
    def begin(path: str | os.PathLike[str], protocol: Protocol) -> Store:
        """A store to add results of a protocol to: a new one, or the one that is there if its
        protocol is the same.
        """
        path = Path(path)
        if path.is_dir():
            raise StoreError(f"{path} is a folder; name a file for the store")
        if not path.parent.is_dir():
            raise StoreError(f"{path} must be in a folder that exists")
        _writable(path)
        store = Store(path, _connect(path, "rwc"))
        with store._closed_on_error():
            store._create(protocol)
            changes = store.protocol.differences(protocol)
            if changes:
                rest = [f"… and {len(changes) - _SHOWN} more"] if len(changes) > _SHOWN else []
                raise StoreError(
                    f"{path} is the store of another configuration; go on with the old one, or "
                    "name another file (-o):\n  " + "\n  ".join(changes[:_SHOWN] + rest)
                )
            store._upgrade()
        return store

    def _create(self, protocol: Protocol) -> None:
        """Make the tables, if there are none: all at once, so that there is a complete store or
        nothing.
        """
        with self._transaction():
            if self._value("SELECT count(*) FROM sqlite_master") or self._value(
                "PRAGMA application_id"
            ):
                self._check()
                return
            about = {
                "protocol": protocol.canonical(),
                "title": protocol.title,
                "created": now(),
                "version": __version__,
                "commit": commit() or "",
                "machine": machine(),
            }
            self._fill(about, [])
            self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")

    def _fill(self, about: Mapping[str, str], cells: Iterable[tuple[int, str, Result]]) -> None:
        """Make the tables of the present format, with all that goes into them."""
        for table in _tables().values():
            self._connection.execute(table)
        run = [(name, about[name], _checksum([name, about[name]])) for name in _ABOUT]
        self._connection.executemany("INSERT INTO run VALUES (?, ?, ?)", run)
        rows = [[number, *_row(key, result)] for number, key, result in cells]
        self._connection.executemany(
            f"INSERT INTO cell VALUES ({', '.join('?' * (len(_COLUMNS) + 3))})", rows
        )
        self._connection.execute("INSERT INTO total VALUES (?, ?)", (len(rows), _sum(rows)))
        self._connection.execute(f"PRAGMA user_version = {_VERSION}")

    def _upgrade(self) -> None:
        """Make sure of a store that is to be added to: its format is the present one, its pages and
        its index are in order.
        """
        with self._transaction():
            self._is_of(self._value("PRAGMA user_version"))  # another process may have been quicker
            if self._version < _VERSION:
                about, cells = self._run(), [self._cell(row) for row in self._rows(0)]
                for name in _tables(self._version):
                    self._connection.execute(f"DROP TABLE {name}")
                self._fill(dict.fromkeys(_ABOUT, "") | about, cells)
                self._is_of(_VERSION)
            if self._value("PRAGMA integrity_check") != "ok":
                self._connection.execute("REINDEX")
                if (found := self._value("PRAGMA integrity_check")) != "ok":
                    raise StoreError(
                        f"{self.path} is damaged: {' '.join(found.split())}; {_REMEDY}"
                    )

    def _check(self) -> None:
        """Whether this is a store that we can read, with nothing in it but what we put there."""
        with self._errors("read"):
            if self._value("PRAGMA application_id") != _APPLICATION:
                raise StoreError(f"{self.path} is a database, but not the store of a run")
            version = self._value("PRAGMA user_version")
            if not 1 <= version <= _VERSION:
                raise StoreError(
                    f"{self.path} has the format {version}, mnngp {__version__} reads 1 to "
                    f"{_VERSION}" + ("; a newer mnngp reads it" if version > _VERSION else "")
                )
            found = self._connection.execute(
                "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
            ).fetchall()
            expected = _tables(version) | (
                {} if version < 3 else {"sqlite_sequence": "CREATE TABLE sqlite_sequence(name,seq)"}
            )
            if sorted(found) != sorted(("table", name, sql) for name, sql in expected.items()):
                raise StoreError(
                    f"{self.path} does not have the tables of a store; it was changed "
                    f"or damaged; {_REMEDY}"
                )
            self._is_of(version)
        _ = self.protocol

    def _is_of(self, version: int) -> None:
        """Go by a format. A damaged letter is an error of the checksum, which names the cell; or
        else of SQLite.
        """
        self._version = version
        self._connection.text_factory = (
            (lambda text: text.decode(errors="replace")) if version > 2 else str
        )

    # --- reading ----------------------------------------------------------------------------------

    @cached_property
    def protocol(self) -> Protocol:
        """What is run."""
        about = self._run()
        try:
            mapping = json.loads(about["protocol"])
            return Protocol.of({**mapping, "title": about["title"]})
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise StoreError(
                f"{self.path} does not hold a protocol that mnngp {__version__} knows: {error}"
            ) from error

    def results(self) -> list[Result]:
        """All finished cells, in the order in which they were finished."""
        return [result for _, _, result in self.news(0)]

    def news(self, after: int) -> list[tuple[int, str, Result]]:
        """What was finished after the cell with that number: numbers, keys and results. No number
        is given twice.
        """
        with self._transaction("read", "DEFERRED"):  # the cells and their total are of one moment
            rows = self._rows(after)
            total = self._total() if after == 0 and self._version > 2 else None
        cells = [self._cell(row) for row in rows]
        if total is not None and total != (len(rows), _sum(rows)):
            raise StoreError(
                f"{self.path} does not hold just the {total[0]} cells that were stored: it was "
                f"changed or damaged; {_RETRY}"
            )
        return cells

    def keys(self) -> set[str]:
        """The names of all finished cells."""
        with self._errors("read"):
            return {str(key) for (key,) in self._connection.execute("SELECT key FROM cell")}

    def has(self, group: Group) -> set[int]:
        """The depths of a group that are finished."""
        keys = {group.key(depth): depth for depth in group.depths}
        with self._errors("read"):
            marks = ", ".join("?" * len(keys))
            found = self._connection.execute(
                f"SELECT key FROM cell WHERE key IN ({marks})", list(keys)
            ).fetchall()
        return {keys[key] for (key,) in found}

    def about(self, results: Iterable[Result] | None = None) -> dict[str, Any]:
        """When and where the run began (created, version, commit, machine), and how far it is, in
        cells.

        With the ``results`` of a moment, how far it was then. ``inaccurate`` are those of the done
        cells that have a warning.
        """
        run = self._run()
        about: dict[str, Any] = {
            name: run.get(name) or None
            for name in ("title", "created", "version", "commit", "machine")
        }
        results = self.results() if results is None else list(results)
        count = Counter(result.status for result in results)
        inaccurate = sum(
            result.status == "done" and result.warning is not None for result in results
        )
        finished, cells = {status: count[status] for status in STATUS}, len(self.protocol)
        return about | {
            "cells": cells,
            **finished,
            "open": max(0, cells - len(results)),
            "inaccurate": inaccurate,
        }

    def _run(self) -> dict[str, str]:
        checksum = ", checksum" if self._version > 2 else ""
        with self._errors("read"):
            rows = self._connection.execute(f"SELECT name, value{checksum} FROM run").fetchall()
        if checksum and (not all(map(_is_sound, rows)) or {row[0] for row in rows} != set(_ABOUT)):
            raise StoreError(
                f"{self.path}: what it says of its run is not what was stored: it was "
                f"changed or damaged; {_REMEDY}"
            )
        return {str(name): str(value) for name, value, *_ in rows}

    def _rows(self, after: int) -> list[tuple[Any, ...]]:
        """What the table of cells holds: numbers, keys, values and, where there are some,
        checksums.
        """
        names = [f'"{name}"' for name in _columns(self._version)] + ["checksum"] * (
            self._version > 2
        )
        query = f"SELECT rowid, key, {', '.join(names)} FROM cell WHERE rowid > ? ORDER BY rowid"
        return self._connection.execute(query, (after,)).fetchall()

    def _total(self) -> tuple[int, str]:
        """How many cells there are, and the sum of their checksums."""
        rows = self._connection.execute("SELECT cells, checksum FROM total").fetchall()
        if (
            len(rows) != 1
            or not isinstance(rows[0][0], int)
            or not re.fullmatch("[0-9a-f]{16}", str(rows[0][1]))
        ):
            raise StoreError(
                f"{self.path} does not say how many cells it holds: it was changed or "
                f"damaged; {_RETRY}"
            )
        cells, checksum = rows[0]
        return cells, str(checksum)

    def _cell(self, row: Sequence[Any]) -> tuple[int, str, Result]:
        number, key, *values = row
        if self._version > 2:
            if not _is_sound(row[1:]):
                raise StoreError(
                    f"{self.path}: the cell {key!r} does not have its checksum: it "
                    f"was changed or damaged; {_RETRY}"
                )
            values.pop()
        return number, str(key), self._result(values)

    def _result(self, row: Sequence[Any]) -> Result:
        for name, (kind, optional), value in zip(_COLUMNS, _KINDS, row, strict=False):
            right = type(value) is kind and not (
                isinstance(value, float) and not math.isfinite(value)
            )
            if not right and not (value is None and optional):
                raise StoreError(
                    f"{self.path} holds {name} = {value!r}, which is not of type {kind.__name__}; "
                    "it was changed or damaged"
                )
        result = Result(*row)  # older formats have fewer columns, and the rest their defaults
        if min(result.weight_var, result.bias_var) < 0.0 or (result.kind == "finite") != (
            result.width is not None
        ):
            raise StoreError(
                f"{self.path} holds a network that cannot be: {result}; it was changed or damaged"
            )
        if result.status not in STATUS or (result.status == "done") == (
            result.test_accuracy is None
        ):
            raise StoreError(
                f"{self.path} holds a cell with the status {result.status!r}; it was "
                "changed or damaged"
            )
        return result

    # --- writing ----------------------------------------------------------------------------------

    def add(self, results: Iterable[tuple[str, Result]]) -> None:
        """Commit finished cells with their keys, all or none; what is there already stays."""
        columns = ", ".join(f'"{name}"' for name in ("key", *_COLUMNS, "checksum"))
        insert = (
            f"INSERT INTO cell ({columns}) VALUES ({', '.join('?' * (len(_COLUMNS) + 2))}) ON "
            "CONFLICT DO NOTHING"
        )
        rows = [_row(key, result) for key, result in results]
        with self._transaction():
            cells, checksum = self._total()
            new = [row for row in rows if self._connection.execute(insert, row).rowcount]
            self._set_total(cells + len(new), _sum([(checksum,), *new]))

    def forget_failed(self) -> int:
        """Open cells again that failed, or are not as they were stored. Returns how many there
        were.
        """
        status = 2 + _COLUMNS.index("status")
        with self._transaction():
            rows = self._rows(0)
            kept = [row for row in rows if _is_sound(row[1:]) and row[status] != "failed"]
            gone = {row[0] for row in rows} - {row[0] for row in kept}
            self._connection.executemany(
                "DELETE FROM cell WHERE number = ?", [(number,) for number in gone]
            )
            self._set_total(len(kept), _sum(kept))
        return len(gone)

    def _set_total(self, cells: int, checksum: str) -> None:
        self._connection.execute("DELETE FROM total")
        self._connection.execute("INSERT INTO total VALUES (?, ?)", (cells, checksum))

    def claim(self, start: int, count: int = 1) -> bool:
        """Try to get the locks of some groups, by their numbers. They are kept until ``release`` or
        the end of the process.
        """
        with self._errors("locked"):
            if self._locks is None:
                self._locks = open(f"{self.path.resolve()}.lock", "ab")  # noqa: SIM115
            return _lock(self._locks, start, count)

    def release(self, start: int, count: int = 1) -> None:
        if self._locks is not None:
            _unlock(self._locks, start, count)

    def close(self) -> None:
        self._connection.close()
        if self._locks is not None:
            self._locks.close()
            self._locks = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- SQLite -----------------------------------------------------------------------------------

    def _value(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()[0]

    @contextlib.contextmanager
    def _transaction(self, what: str = "written", lock: str = "IMMEDIATE") -> Iterator[None]:
        with self._errors(what):
            self._connection.execute(f"BEGIN {lock}")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """SQLite's errors, as ours."""
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise _translated(self.path, what, error) from error

    @contextlib.contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


class _HotJournalError(StoreError):
    """A killed process left the file in the middle of a change, and it was opened to be read
    only.
    """


def _connect(path: Path, mode: str) -> sqlite3.Connection:
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


def _translated(path: Path, what: str, error: Exception) -> StoreError:
    """An error with its remedy, in one line."""
    name, text = getattr(error, "sqlite_errorname", ""), str(error)
    kept = "what is finished is kept, and the same command goes on"
    if name.startswith(("SQLITE_READONLY_ROLLBACK", "SQLITE_READONLY_RECOVERY")):
        return _HotJournalError(
            f"{path} was left in the middle of a change; open it once where it can be written"
        )
    # of SQLite's own message
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or isinstance(
        error, UnicodeDecodeError
    ):
        return StoreError(f"{path} is not the store of a run, or is damaged: {text}; {_REMEDY}")
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        text += f"; {kept} when there is room"
    elif name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN")):
        text += "; is its folder writable?"
    elif name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        text = f"another process has kept it for {_PATIENCE:.0f} seconds; {kept}"
    return StoreError(f"{path} cannot be {what}: {text}")


def _writable(path: Path) -> None:
    """SQLite opens a file that it may not write all the same, and complains late."""
    if path.exists() and not os.access(path, os.W_OK):
        raise StoreError(f"{path} cannot be written: it is read-only")
    if not os.access(path.parent, os.W_OK):
        raise StoreError(
            f"{path} cannot be written: the folder {path.parent.absolute()} is read-only"
        )


# --- locks of the operating system ----------------------------------------------------------------

if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes], start: int, count: int) -> bool:
        file.seek(start)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, count)
        except OSError:
            return False
        return True

    def _unlock(file: IO[bytes], start: int, count: int) -> None:
        file.seek(start)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, count)

else:
    import fcntl

    def _lock(file: IO[bytes], start: int, count: int) -> bool:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, start)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _unlock(file: IO[bytes], start: int, count: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_UN, count, start)


# --- where and with what --------------------------------------------------------------------------


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine() -> str:
    """Operating system, processor and cores; no names of hosts or users."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next(
            line.partition(":")[2].strip() for line in lines if line.startswith("model name")
        )
    return (
        f"{platform.system()} {platform.machine()}, {processor}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}"
    )


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The commit of the package's sources if they are a checkout, with "+" if they were changed
    since; or None.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parents[1]), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=20.0
        ).stdout.strip()

    try:
        # an environment may lie in a checkout of something else
        git("ls-files", "--error-unmatch", "__init__.py")
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None
