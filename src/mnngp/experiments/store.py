"""The store of a run: one SQLite file with its protocol and every finished cell.

A cell is committed once, when it is finished, together with the others of its group: a process that
is killed loses what it was working on and nothing else. The journal is SQLite's plain one, with
full synchronisation: unlike a write-ahead log it leaves one file, and works where the file system
has locks but no shared memory (NFS).

Who works on what is not in the store but in locks, a byte of the file ``RUN.sqlite.lock`` for
each group.

*Damage.* Every row has a checksum over all that is in it, and the table ``total`` the number of
cells and the sum of their checksums. Both are compared with what is read: a changed bit, in a value
or in SQLite's own pages, is an error and never another number. A checksum is no signature, and a
store may come from a stranger. Only a file with exactly our tables is opened, and what it holds is
data: values are checked as they are read, the protocol as one from a file, and nothing in it is
run.

*Formats.* Older ones (``records``) are read as they are, and brought to the present one when they
are opened to be added to.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from mnngp import __version__
from mnngp._system.locks import lock, unlock
from mnngp.errors import InputError
from mnngp.experiments import database, records
from mnngp.experiments.database import REMEDY, HotJournalError, StoreError
from mnngp.experiments.protocol import Group, Protocol
from mnngp.experiments.records import Result

_APPLICATION = 0x6D6E6E67  # "mnng" in the file's header
_SHOWN = 12  # differences of protocols
_DAMAGED = "it was changed or damaged"
_RETRY = "mnngp sweep --retry-failed computes what is damaged again"


class Store(contextlib.AbstractContextManager["Store"]):
    """An open store: ``Store.open`` reads one, ``Store.begin`` makes one or goes on with it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._version = records.FORMAT
        self._locks: IO[bytes] | None = None

    # --- opening ----------------------------------------------------------------------------------

    @staticmethod
    def open(path: str | os.PathLike[str], readonly: bool = True) -> Store:
        """Open the store of a run, to read what there is (``readonly=False``: also to add to it).

        Another process may be adding to it meanwhile.
        """
        path = Path(path)
        if not path.is_file():
            raise StoreError(f"{path} is not {'a file' if path.exists() else 'there'}")
        try:
            store = Store(path, database.connect(path, "ro" if readonly else "rw"))
        # the writer was killed: SQLite puts the file in order if it may write
        except HotJournalError:
            store = Store(path, database.connect(path, "rw"))
        with store._closed_on_error():
            with store._transaction("read", "DEFERRED"):  # another process may be upgrading it
                store._check()
            if not readonly:
                store._upgrade()
        return store

    @staticmethod
    def begin(path: str | os.PathLike[str], protocol: Protocol) -> Store:
        """A store to add results to: a new one, or the one there is if its protocol is the same."""
        path = Path(path)
        database.check_writable(path)
        store = Store(path, database.connect(path, "rwc"))
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
        """Make the tables, if there are none: all at once, so there is a whole store or nothing."""
        with self._transaction():
            existing = self._value("SELECT count(*) FROM sqlite_master")
            if existing or self._value("PRAGMA application_id"):
                self._check()
                return
            of_protocol = (protocol.canonical(), protocol.title)
            of_us = (records.now(), __version__, records.commit() or "", records.machine())
            self._fill(dict(zip(records.ABOUT, (*of_protocol, *of_us), strict=True)), [])
            self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")

    def _fill(self, about: Mapping[str, str], cells: Iterable[tuple[int, str, Result]]) -> None:
        """Make the tables of the present format, with all that goes into them."""
        for table in records.tables().values():
            self._connection.execute(table)
        run = [(name, about[name], records.checksum([name, about[name]])) for name in records.ABOUT]
        self._connection.executemany("INSERT INTO run VALUES (?, ?, ?)", run)
        rows = [[number, *records.as_row(key, result)] for number, key, result in cells]
        marks = ", ".join("?" * (len(records.columns()) + 3))
        self._connection.executemany(f"INSERT INTO cell VALUES ({marks})", rows)
        self._set_total(len(rows), records.checksum_of_all(rows))
        self._connection.execute(f"PRAGMA user_version = {records.FORMAT}")

    def _upgrade(self) -> None:
        """Bring the store to the present format, and its pages and its index in order."""
        with self._transaction():
            self._is_of(self._value("PRAGMA user_version"))  # another process may have been quicker
            if self._version < records.FORMAT:
                about, cells = self._run(), [self._cell(row) for row in self._rows(0)]
                for name in records.tables(self._version):
                    self._connection.execute(f"DROP TABLE {name}")
                self._fill(dict.fromkeys(records.ABOUT, "") | about, cells)
                self._is_of(records.FORMAT)
            if self._value("PRAGMA integrity_check") != "ok":
                self._connection.execute("REINDEX")
                if (found := self._value("PRAGMA integrity_check")) != "ok":
                    raise self._error(f" is damaged: {' '.join(found.split())}; {REMEDY}")

    def _check(self) -> None:
        """Whether this is a store that we can read, with nothing in it but what we put there."""
        with database.errors(self.path, "read"):
            if self._value("PRAGMA application_id") != _APPLICATION:
                raise self._error(" is a database, but not the store of a run")
            version = self._value("PRAGMA user_version")
            if not 1 <= version <= records.FORMAT:
                newer = "; a newer mnngp reads it" if version > records.FORMAT else ""
                reads = f"mnngp {__version__} reads 1 to {records.FORMAT}"
                raise self._error(f" has the format {version}, {reads}{newer}")
            query = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
            expected = records.tables(version)
            if version > 2:
                expected["sqlite_sequence"] = "CREATE TABLE sqlite_sequence(name,seq)"
            known = sorted(("table", name, sql) for name, sql in expected.items())
            if sorted(self._connection.execute(query)) != known:
                raise self._error(f" does not have the tables of a store; {_DAMAGED}; {REMEDY}")
            self._is_of(version)
        _ = self.protocol

    def _is_of(self, version: int) -> None:
        """Go by a format.

        A damaged letter is an error of the checksum, which names the cell; or else of SQLite.
        """
        self._version = version
        self._connection.text_factory = (
            (lambda text: text.decode(errors="replace")) if version > 2 else str
        )

    # --- reading ----------------------------------------------------------------------------------

    @cached_property
    def protocol(self) -> Protocol:
        about = self._run()
        try:
            mapping = json.loads(about["protocol"])
            return Protocol.of({**mapping, "title": about["title"]})
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise self._error(
                f" does not hold a protocol that mnngp {__version__} knows: {error}"
            ) from error

    def repeats(self, asked: int | None) -> int:
        """As many as are asked for, or as the run has, which are the most."""
        if asked is not None and asked > self.protocol.repeats:
            raise InputError(
                f"repeats must be at most {self.protocol.repeats}, as many as the run has, "
                f"got {asked}"
            )
        return asked or self.protocol.repeats

    def results(self) -> list[Result]:
        """All finished cells, in the order in which they were finished."""
        return [result for _, _, result in self.news(0)]

    def news(self, after: int) -> list[tuple[int, str, Result]]:
        """Numbers, keys and results of what was finished after the cell with that number.

        No number is given twice.
        """
        with self._transaction("read", "DEFERRED"):  # the cells and their total are of one moment
            rows = self._rows(after)
            total = self._total() if after == 0 and self._version > 2 else None
        cells = [self._cell(row) for row in rows]
        if total is not None and total != (len(rows), records.checksum_of_all(rows)):
            raise self._error(
                f" does not hold just the {total[0]} cells that were stored: {_DAMAGED}; {_RETRY}"
            )
        return cells

    def keys(self) -> set[str]:
        with database.errors(self.path, "read"):
            return {str(key) for (key,) in self._connection.execute("SELECT key FROM cell")}

    def missing(self, group: Group) -> tuple[int, ...]:
        """The depths of a group that are not finished."""
        keys = {group.key(depth): depth for depth in group.depths}
        query = f"SELECT key FROM cell WHERE key IN ({', '.join('?' * len(keys))})"
        with database.errors(self.path, "read"):
            for (key,) in self._connection.execute(query, list(keys)):
                del keys[key]
        return tuple(keys.values())

    def about(self, results: Iterable[Result] | None = None) -> dict[str, Any]:
        """When and where the run began (created, version, commit, machine), and how far it is.

        With the ``results`` of a moment, how far it was then, in cells. ``inaccurate`` are those of
        the done cells that have a warning.
        """
        run = self._run()
        names = ("title", "created", "version", "commit", "machine")
        results, cells = self.results() if results is None else list(results), len(self.protocol)
        count = Counter(result.status for result in results)
        return {
            **{name: run.get(name) or None for name in names},
            "cells": cells,
            **{status: count[status] for status in records.STATUS},
            "open": max(0, cells - len(results)),
            "inaccurate": sum(one.status == "done" and one.warning is not None for one in results),
        }

    def _run(self) -> dict[str, str]:
        checked = ", checksum" if self._version > 2 else ""
        with database.errors(self.path, "read"):
            rows = self._connection.execute(f"SELECT name, value{checked} FROM run").fetchall()
        if checked and (
            not all(map(records.is_sound, rows)) or {row[0] for row in rows} != set(records.ABOUT)
        ):
            raise self._error(
                f": what it says of its run is not what was stored: {_DAMAGED}; {REMEDY}"
            )
        return {str(name): str(value) for name, value, *_ in rows}

    def _rows(self, after: int) -> list[tuple[Any, ...]]:
        """Numbers, keys, values and, where there are some, checksums of cells."""
        names = [f'"{name}"' for name in records.columns(self._version)]
        names += ["checksum"] * (self._version > 2)
        query = f"SELECT rowid, key, {', '.join(names)} FROM cell WHERE rowid > ? ORDER BY rowid"
        return self._connection.execute(query, (after,)).fetchall()

    def _total(self) -> tuple[int, str]:
        """How many cells there are, and the sum of their checksums."""
        rows = self._connection.execute("SELECT cells, checksum FROM total").fetchall()
        if len(rows) == 1:
            cells, added = rows[0]
            if isinstance(cells, int) and re.fullmatch("[0-9a-f]{16}", str(added)):
                return cells, str(added)
        raise self._error(f" does not say how many cells it holds: {_DAMAGED}; {_RETRY}")

    def _cell(self, row: Sequence[Any]) -> tuple[int, str, Result]:
        number, key, *values = row
        if self._version > 2:
            if not records.is_sound(row[1:]):
                raise self._error(
                    f": the cell {key!r} does not have its checksum: {_DAMAGED}; {_RETRY}"
                )
            values.pop()
        try:
            return number, str(key), records.as_result(values)
        except ValueError as error:
            raise self._error(f" holds {error}; {_DAMAGED}") from error

    # --- writing ----------------------------------------------------------------------------------

    def add(self, results: Iterable[tuple[str, Result]]) -> None:
        """Commit finished cells with their keys, all or none; what is there already stays."""
        names = ", ".join(f'"{name}"' for name in ("key", *records.columns(), "checksum"))
        marks = ", ".join("?" * (len(records.columns()) + 2))
        insert = f"INSERT INTO cell ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING"
        rows = [records.as_row(key, result) for key, result in results]
        with self._transaction():
            cells, added = self._total()
            new = [row for row in rows if self._connection.execute(insert, row).rowcount]
            self._set_total(cells + len(new), records.checksum_of_all([(added,), *new]))

    def forget_failed(self) -> int:
        """Open cells again that failed, or are not as they were stored; how many there were."""
        status = 2 + records.columns().index("status")
        with self._transaction():
            rows = self._rows(0)
            kept = [row for row in rows if records.is_sound(row[1:]) and row[status] != "failed"]
            gone = {row[0] for row in rows} - {row[0] for row in kept}
            numbers = [(number,) for number in gone]
            self._connection.executemany("DELETE FROM cell WHERE number = ?", numbers)
            self._set_total(len(kept), records.checksum_of_all(kept))
        return len(gone)

    def _set_total(self, cells: int, added: str) -> None:
        self._connection.execute("DELETE FROM total")
        self._connection.execute("INSERT INTO total VALUES (?, ?)", (cells, added))

    def claim(self, start: int, count: int = 1) -> bool:
        """Try to get the locks of some groups, by their numbers.

        They are kept until ``release`` or the end of the process.
        """
        with database.errors(self.path, "locked"):
            if self._locks is None:
                self._locks = open(f"{self.path.resolve()}.lock", "ab")  # noqa: SIM115
            return lock(self._locks, start, count)

    def release(self, start: int, count: int = 1) -> None:
        if self._locks is not None:
            unlock(self._locks, start, count)

    def close(self) -> None:
        self._connection.close()
        if self._locks is not None:
            self._locks.close()
            self._locks = None

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- SQLite -----------------------------------------------------------------------------------

    def _value(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()[0]

    @contextlib.contextmanager
    def _transaction(self, what: str = "written", lock: str = "IMMEDIATE") -> Iterator[None]:
        """All of it or nothing. ``lock`` is SQLite's: IMMEDIATE to write, DEFERRED to read."""
        with database.errors(self.path, what):
            self._connection.execute(f"BEGIN {lock}")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                raise

    def _error(self, text: str) -> StoreError:
        return StoreError(f"{self.path}{text}")

    @contextlib.contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise
