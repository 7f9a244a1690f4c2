"""The archive of a model file: parts, digests, and arrays in NumPy's format.

Nothing is compressed, and arrays stay where they are read to: reading takes as much memory as the
file is long.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import math
import struct
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp import __version__
from mnngp._io import atomic_write
from mnngp._typing import Array
from mnngp.errors import InputError, ModelFileError

HEADER, DIGEST = "model.json", "model.sha256"
LARGEST_HEADER = 1 << 26
PIECE = 1 << 20  # bytes read at a time
_LARGEST_NPY_HEADER = 1 << 10  # ours take 128 bytes
_MEMBER_HEADER = 30  # bytes before a part of a zip archive, at least
_DAMAGED = (  # what Python's zipfile raises
    zipfile.BadZipFile,
    EOFError,
    ValueError,
    RuntimeError,
    OverflowError,
    struct.error,
    OSError,
)


def array_part(name: str) -> str:
    """The name of the part that holds an array."""
    return f"{name}.npy"


def shortened(text: object) -> str:
    """A text that was made of a stranger's, with an end."""
    return whole_text if len(whole_text := str(text)) <= 500 else f"{whole_text[:500]} …"


# --- writing --------------------------------------------------------------------------------------


class _HashingFile:
    """A file that is hashed as it is written."""

    def __init__(self, file: Any) -> None:
        self.file, self.hash = file, hashlib.sha256()

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return int(self.file.write(data))


def write(
    path: Any, arrays: Mapping[str, Array], header: Callable[[dict[str, str]], bytes]
) -> None:
    """Arrays, and then the header that is made of their digests; a file of before stays till then.

    By rows or by columns as they are in memory: BLAS rounds differently for the other.
    """
    digests = {}
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(array_part(name), "w", force_zip64=True) as member:
                hashing = _HashingFile(member)
                contiguous = array if array.flags.forc else array.copy(order="K")
                np.lib.format.write_array(hashing, contiguous, allow_pickle=False, version=(1, 0))
            digests[name] = hashing.hash.hexdigest()
        text = header(digests)
        archive.writestr(HEADER, text)
        archive.writestr(DIGEST, hashlib.sha256(text).hexdigest())


# --- reading --------------------------------------------------------------------------------------


class Reader:
    """An archive that is being read; everything that is wrong with it is a ``ModelFileError``."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, arrays: Collection[str]) -> None:
        self.path, self._archive = path, archive
        self._members = self._checked_members({HEADER, DIGEST, *map(array_part, arrays)})

    def header(self) -> bytes:
        """The text of the header, after its digest was compared."""
        text, digest = self._read(HEADER)
        if digest.encode() != self._read(DIGEST)[0].tobytes():
            raise ModelFileError(
                f"{self.path} was changed or damaged: {HEADER} does not match its digest"
            )
        return text.tobytes()

    def check_parts(self, arrays: Collection[str]) -> None:
        """Raise if the arrays in the archive are not those that the header names."""
        for part in {HEADER, DIGEST, *map(array_part, arrays)} ^ set(self._members):
            problem = "not in its header" if part in self._members else "missing"
            raise InputError(f"{part} is {problem}")

    def length(self, name: str) -> int:
        """Bytes of an array and its header."""
        return self._members[array_part(name)].file_size

    def array(self, name: str, digest: str) -> Array:
        """An array, after its digest was compared."""
        memory, found = self._read(array_part(name))
        if found != digest:
            raise ModelFileError(
                f"{self.path} was changed or damaged: {name} does not match its digest"
            )
        return _parse_array(name, memory)

    def _checked_members(self, known: Collection[str]) -> Mapping[str, zipfile.ZipInfo]:
        """The parts of the archive by name, if it is one that ``write`` may have written."""
        path, every = self.path, self._archive.infolist()
        members = {member.filename: member for member in every}
        if not {HEADER, DIGEST} <= set(members):
            raise ModelFileError(f"{path} is not a model file: {HEADER} is missing")
        for member in every:
            stored = member.compress_type == zipfile.ZIP_STORED and not member.flag_bits
            if not stored or member.compress_size != member.file_size:
                raise ModelFileError(
                    f"{path} is not as it was written: {member.filename} is compressed or encrypted"
                )
        if sum(member.file_size for member in every) > path.stat().st_size:
            raise ModelFileError(f"{path} is damaged: its parts are larger than the file")
        ordered = sorted(every, key=lambda member: member.header_offset)
        starts = [member.header_offset for member in ordered] + [self._archive.start_dir]
        for member, (start, end) in zip(ordered, pairwise(starts), strict=True):
            if start < 0 or start + _MEMBER_HEADER + len(member.filename) + member.file_size > end:
                raise ModelFileError(
                    f"{path} is not as it was written: {member.filename} and another part overlap"
                )
        for member in every:
            if member.filename not in known:
                raise ModelFileError(
                    f"{path} has a part {shortened(repr(member.filename))}, which this "
                    f"mnngp {__version__} does not know"
                )
        if len(members) < len(every):
            raise ModelFileError(
                f"{path} is not as it was written: it has two parts of the same name"
            )
        if members[HEADER].file_size > LARGEST_HEADER or members[DIGEST].file_size > 64:
            raise ModelFileError(
                f"{path}: {HEADER} or its digest is too large to be a model's header"
            )
        return members

    def _read(self, part: str) -> tuple[NDArray[np.uint8], str]:
        """The bytes of a part, in memory of their own, and their digest."""
        member = self._members[part]
        try:
            memory = np.empty(member.file_size, dtype=np.uint8)
        except MemoryError as error:
            raise ModelFileError(
                f"{self.path}: {part} takes {member.file_size:,} bytes, for which there is no "
                "memory"
            ) from error
        start, digest = 0, hashlib.sha256()
        with _damage_is_an_error(self.path), self._archive.open(member) as file:
            while piece := file.read(PIECE):
                digest.update(piece)
                memory[start : start + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
                start += len(piece)
        if start != len(memory):
            raise ModelFileError(f"{self.path} is damaged: {part} is cut off")
        return memory, digest.hexdigest()


@contextlib.contextmanager
def reading(path: Any, arrays: Collection[str]) -> Iterator[Reader]:
    """An archive that may have ``arrays`` in it."""
    path = Path(path)
    with _damage_is_an_error(path):
        archive = zipfile.ZipFile(path)
    with archive:
        yield Reader(path, archive, arrays)


@contextlib.contextmanager
def _damage_is_an_error(path: Path) -> Iterator[None]:
    """What zipfile raises on a file that is no archive, or a damaged one, as our error.

    Nothing else runs in here.
    """
    try:
        yield
    except _DAMAGED as error:
        # that one: an offset before the file's beginning
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise ModelFileError(
            f"{path} is not a model file, or is cut off or damaged: {shortened(error)}"
        ) from error


def _parse_array(name: str, memory: NDArray[np.uint8]) -> Array:
    """The array that the bytes of a file in NumPy's format hold: the same memory."""
    text = io.BytesIO(memory[: _LARGEST_NPY_HEADER + 10].tobytes())
    try:
        version = np.lib.format.read_magic(text)
        if version != (1, 0):
            raise InputError(f"{name} must be in version 1.0 of NumPy's format, got {version}")
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(
            text, max_header_size=_LARGEST_NPY_HEADER
        )
    except InputError:
        raise
    # Python's parser in NumPy's, on a text that somebody forged: it raises all kinds of them
    except Exception as error:
        raise InputError(
            f"{name} is no array in NumPy's format: {type(error).__name__}: {error}"
        ) from error
    if dtype.hasobject or dtype.kind not in "biufUMm" or not dtype.isnative or not dtype.itemsize:
        raise InputError(f"{name} cannot be an array of {dtype}")
    data, length = memory[text.tell() :], math.prod(shape) * dtype.itemsize
    if text.tell() % 64 or any(size < 0 for size in shape):
        raise InputError(
            f"{name} must have a shape that can be, and begin at a multiple of 64 bytes, "
            f"got {shape} at {text.tell()}"
        )
    if length != len(data):
        raise InputError(f"{name} of the shape {shape} must take {length} bytes, got {len(data)}")
    return data.view(dtype).reshape(shape, order="F" if by_columns else "C")
