"""A kernel matrix on disk, which survives the process that computes it.

A store is a folder. ``matrix.npy`` has all of the matrix from the beginning, mapped into memory;
``blocks.txt`` a line for each finished block, with a checksum, written when the block is on the
disk; ``about.json`` what the matrix is of. A line that is torn, or a block that does not have its
checksum, is computed again. Nothing in a store is run: it may come from a stranger.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import time
import zlib
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

import numpy as np

from mnngp import __version__
from mnngp._io import atomic_write
from mnngp._system.memory import format_bytes
from mnngp._typing import Matrix
from mnngp.errors import InputError
from mnngp.kernels.blocks import Blocks, Place

_FORMAT = 1
_ABOUT, _MATRIX, _BLOCKS, _LOCK = "about.json", "matrix.npy", "blocks.txt", "lock"
_LINE = re.compile(r"(\d{1,9}) (\d{1,9}) ([0-9a-f]{8})\n", re.ASCII)
_EVERY = 5.0  # seconds between two times that finished blocks are brought to the disk
_SHOWN = 60  # letters of what is different, and as many before it


class BlockStore(contextlib.AbstractContextManager["BlockStore"]):
    """An open store; nobody else has it.

    Attributes
    ----------
    size : int or None
        Of the blocks, as ``begin`` was told; None if the store is new.
    finished : set of places
    """

    def __init__(self, path: str | os.PathLike[str], blocks: Blocks, dtype: np.dtype[Any]) -> None:
        self.folder, self.blocks, self.dtype = _folder(path), blocks, dtype
        self.about = {
            "format": _FORMAT,
            "version": __version__,
            **blocks.fingerprint(),
            "shape": list(blocks.shape),
            "dtype": dtype.name,
        }
        self.size: int | None = None
        self.finished: set[Place] = set()
        self._pending: dict[Place, str] = {}
        self._committed = time.monotonic()
        self._open: list[IO[Any]] = []
        self.matrix: Matrix
        try:
            self._locked()
            if (self.folder / _ABOUT).exists():
                self._resume()
        except BaseException:
            self.close()
            raise

    def _locked(self) -> None:
        from mnngp._system.locks import lock  # not every platform has them

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._open.append(open(self.folder / _LOCK, "ab"))  # noqa: SIM115
        except OSError as error:
            raise InputError(f"store: {self.folder} cannot be written: {error.strerror}") from error
        if not lock(self._open[0], 0, 1):
            raise InputError(f"store: another process is at work in {self.folder}")

    def _resume(self) -> None:
        """Go on with what is there, if it is of the same matrix."""
        try:
            known = json.loads((self.folder / _ABOUT).read_text(encoding="utf-8"))
            size = known.pop("size")
            if not isinstance(size, int) or not 1 <= size <= max(1 << 16, *self.blocks.shape):
                raise ValueError(f"blocks of the size {size!r}")
            found = np.load(self.folder / _MATRIX, mmap_mode="r+", allow_pickle=False)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, EOFError) as error:
            raise InputError(
                f"store: {self.folder} is damaged ({error}); remove it, or name another folder"
            ) from error
        for name, value in self.about.items():
            if known.get(name) != value:
                there, here = _apart(str(known.get(name)), str(value))
                raise InputError(
                    f"store: {self.folder} holds another matrix, of another {name}: {there} there, "
                    f"{here} here; remove it, or name another folder"
                )
        if found.shape != self.blocks.shape or found.dtype != self.dtype:
            raise InputError(
                f"store: {self.folder} is damaged (a matrix {found.shape} of {found.dtype}); "
                "remove it, or name another folder"
            )
        self.size, self.matrix, self.grid = size, found, self.blocks.grid(size)
        self._read_record()

    def _read_record(self) -> None:
        """Which blocks are finished, and as they were then."""
        record = self.folder / _BLOCKS
        text = record.read_text(encoding="ascii", errors="replace") if record.exists() else ""
        places = set(self.grid)
        for line in text.splitlines(keepends=True):
            found = _LINE.fullmatch(line)
            place = (int(found[1]), int(found[2])) if found else None
            if found and place in places and self._checksums(place) == {found[3]}:
                self.finished.add(place)
        # a torn line must not spoil the next
        separated = not text or text.endswith("\n")
        self._open.append(open(record, "a", encoding="ascii"))  # noqa: SIM115
        if not separated:
            self._open[-1].write("\n")

    def begin(self, size: int) -> None:
        """Make a new store, for blocks of that size; it is there as a whole, or not at all."""
        rows, columns = self.blocks.shape
        needed = rows * columns * self.dtype.itemsize
        (self.folder / _MATRIX).unlink(missing_ok=True)
        (self.folder / _BLOCKS).unlink(missing_ok=True)
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise InputError(
                f"store: {self.folder} needs {format_bytes(needed)} for a matrix of {rows:,} × "
                f"{columns:,}, and {format_bytes(free)} are free there"
            )
        try:
            self.matrix = np.lib.format.open_memmap(
                self.folder / _MATRIX, mode="w+", dtype=self.dtype, shape=(rows, columns)
            )
            if hasattr(os, "posix_fallocate"):  # a disk that is full later would end the process
                with open(self.folder / _MATRIX, "rb+") as file:
                    os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # of the file system
                raise InputError(
                    f"store: {self.folder} cannot hold {format_bytes(needed)}: {error.strerror}"
                ) from error
        self.matrix.flush()  # type: ignore[attr-defined]
        self._open.append(open(self.folder / _BLOCKS, "a", encoding="ascii"))  # noqa: SIM115
        with atomic_write(self.folder / _ABOUT) as file:
            file.write(json.dumps(self.about | {"size": size}, indent=1).encode())
        self.size, self.grid = size, self.blocks.grid(size)

    def put(self, place: Place, values: Matrix) -> None:
        """Write a finished block; it is recorded within seconds, and by ``close`` at the latest."""
        self.grid.put(self.matrix, place, values)
        (self._pending[place],) = self._checksums(place)
        if time.monotonic() > self._committed + _EVERY:
            self.commit()

    def commit(self) -> None:
        """Bring all blocks to the disk, and then their record."""
        if self._pending:
            self.matrix.flush()  # type: ignore[attr-defined]
            record = self._open[-1]
            record.writelines(f"{i} {j} {check}\n" for (i, j), check in self._pending.items())
            record.flush()
            os.fsync(record.fileno())
            self.finished |= set(self._pending)
            self._pending = {}
        self._committed = time.monotonic()

    def _checksums(self, place: Place) -> set[str]:
        """Of a block, and of what stands beyond the diagonal: one if they are equal."""
        rows, columns = self.grid.slices(place)
        both = [self.matrix[rows, columns]]
        if self.grid.symmetric:
            both.append(self.matrix[columns, rows].T)
        return {f"{zlib.crc32(np.ascontiguousarray(one).data):08x}" for one in both}

    def result(self) -> Matrix:
        """The matrix; who changes it has a copy of what was changed, and the store stays."""
        self.commit()
        return np.asarray(np.load(self.folder / _MATRIX, mmap_mode="c", allow_pickle=False))

    def close(self) -> None:
        """Record what is finished, and let others have the store."""
        try:
            self.commit()
        finally:
            for file in reversed(self._open):
                file.close()
            self._open = []

    def __exit__(self, *error: object) -> None:
        self.close()


def _folder(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise InputError(f"store must be the path of a folder, got {path!r}")
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"store must be the path of a folder, and {folder} is a file")
    ours = {_ABOUT, _MATRIX, _BLOCKS, _LOCK}
    others = [one.name for one in folder.iterdir()] if folder.exists() else []
    others = [name for name in others if name not in ours and not name.startswith(f".{_ABOUT}.")]
    if others:
        raise InputError(
            f"store must be a folder of its own, and {folder} has other things in it, such as "
            f"{sorted(others)[0]}"
        )
    return folder


def _apart(one: str, other: str) -> list[str]:
    """Two texts, about where they begin to differ."""
    same = (a == b for a, b in zip(one, other, strict=False))
    start = max(0, sum(takewhile(bool, same)) - _SHOWN)
    shown = []
    for text in (one, other):
        part = text[start : start + 2 * _SHOWN]
        shown.append("…" * (start > 0) + part + "…" * (start + len(part) < len(text)))
    return shown
