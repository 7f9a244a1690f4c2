"""Image files as they are published: IDX (MNIST) and the two formats of CIFAR-10.

They may be a stranger's, and are read with care: never more than expected, digests are compared.

*IDX.* Two zeros, a type (here always 8, unsigned bytes), the number of dimensions, each dimension
as four bytes, then the bytes themselves; described at the foot of MNIST's home page.

*CIFAR-10.* Binary and Python, in a folder or in the published archive. Members of an archive are
read by their exact names and nothing is extracted, so nothing can be written anywhere. The Python
version is a pickle. It is read by an interpreter that knows no callable at all, and checked before
anything is made of it.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import math
import pickle
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mnngp.data.published import CIFAR10, CIFAR10_PYTHON, Digests, owner
from mnngp.errors import DataError

_GZIP = b"\x1f\x8b"
# bytes that a header may announce; EMNIST, the largest of this format, has 0.64 · 10⁹
_LARGEST_IDX = 1 << 30
PIXELS = 3 * 32 * 32
RECORD = 1 + PIXELS
_LARGEST_BATCH = 1 << 26  # a batch is 31 MB in both versions
_LARGEST_ARCHIVE = 1 << 28  # 186 MB unpacked
_MOST_MEMBERS = 64  # there are nine

Batch = tuple[NDArray[np.uint8], NDArray[np.uint8]]  # pixels, labels


@contextlib.contextmanager
def open_unpacked(path: Path) -> Iterator[BufferedIOBase]:
    """The content of a file, unpacked while it is read if it is gzip (whatever its name says).

    Gzip's own checksum is compared when the reader meets the end: read one byte more than you
    expect.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            yield gzip.GzipFile(fileobj=file) if packed else file
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path} is cut off or damaged: {error}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def check_digest(path: Path | str, digest: str, *content: bytes) -> None:
    """Raise unless the content has the published digest, "algorithm:hexadecimal"."""
    algorithm, _, wanted = digest.partition(":")
    found = hashlib.new(algorithm, usedforsecurity=False)
    for part in content:
        found.update(part)
    if found.hexdigest() == wanted:
        return
    other = owner(f"{algorithm}:{found.hexdigest()}")
    title = {"sha256": "SHA-256", "md5": "MD5"}[algorithm]
    raise DataError(
        f"{path} is not the published file{f' but {other}' if other else ''}: {title} "
        f"{found.hexdigest()}, published {wanted}; "
        f"replace it, or read data of your own in this format with verify=False"
    )


def idx_names(stem: str) -> tuple[str, ...]:
    """The names that a file goes by.

    >>> idx_names("t10k-labels-idx1-ubyte")[2]
    't10k-labels.idx1-ubyte'
    """
    dotted = stem.replace("-idx", ".idx")
    return stem, f"{stem}.gz", dotted, f"{dotted}.gz"


def read_idx(
    path: Path, item: tuple[int, ...], count: int | None, digest: str | None
) -> NDArray[np.uint8]:
    """Read ``count`` items (any number if None) of the given shape, checked to the last byte."""
    dimensions = 1 + len(item)
    with open_unpacked(path) as file:
        header = file.read(4 * (1 + dimensions))
        if len(header) < 4 * (1 + dimensions):
            raise DataError(f"{path} is cut off: {len(header)} bytes are no IDX header")
        magic = bytes((0, 0, 8, dimensions))
        if header[:4] != magic:
            raise DataError(
                f"{path} is not an IDX file of this kind: it begins with "
                f"{header[:4].hex()}, not {magic.hex()}"
            )
        shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", header[4:])
        if shape[1:] != item:
            raise DataError(
                f"{path} must hold images of {_times(item)} pixels, it says {_times(shape[1:])}"
            )
        if shape[0] != (count or shape[0]) or shape[0] == 0:
            raise DataError(f"{path} must hold {count or 'some'} items, it says {shape[0]}")
        size = math.prod(shape)
        if size > _LARGEST_IDX:
            raise DataError(
                f"{path} says that it holds {size} bytes, more than {_LARGEST_IDX} are not read"
            )
        content = file.read(size + 1)
    if len(content) != size:
        raise DataError(
            f"{path} is {'too long' if len(content) > size else 'cut off'}: its header "
            f"says {size} bytes of data"
        )
    if digest is not None:
        check_digest(path, digest, header, content)
    return np.frombuffer(content, np.uint8).reshape(shape)


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


@dataclass(frozen=True)
class Version:
    """One of the published versions: where its files are, and how a batch is read from one."""

    folder: str
    archive: str
    digests: Digests
    batch: Callable[[str, bytes], Batch]

    def read(self, source: Path, verify: bool) -> list[Batch]:
        """All six batches, in order, of a folder or an archive."""
        found: dict[str, Batch] = {}
        for name, place, content in self._contents(source):
            if name in found:
                raise DataError(f"{source} holds {name} twice")
            if verify:
                check_digest(place, self.digests[name], content)
            found[name] = self.batch(place, content)
        missing = [name for name in self.digests if name not in found]
        if missing:
            raise DataError(f"{source} is not complete: {', '.join(missing)} is missing")
        return [found[name] for name in self.digests]

    def _contents(self, source: Path) -> Iterator[tuple[str, str, bytes]]:
        if source.is_file():
            yield from self._members(source)
            return
        long = "is too long for a batch of CIFAR-10: more than"
        for name in self.digests:
            yield name, str(source / name), _bounded(source / name, _LARGEST_BATCH, long)

    def _members(self, source: Path) -> Iterator[tuple[str, str, bytes]]:
        wanted = {f"{self.folder}/{name}": name for name in self.digests}
        long = "is not CIFAR-10: it unpacks to more than"
        content = io.BytesIO(_bounded(source, _LARGEST_ARCHIVE, long))
        try:
            with tarfile.open(fileobj=content, mode="r:") as archive:
                for number, member in enumerate(archive):
                    if number >= _MOST_MEMBERS:
                        raise DataError(
                            f"{source} is not CIFAR-10: it has more than {_MOST_MEMBERS} members"
                        )
                    if member.name not in wanted:
                        continue
                    place = f"{source}:{member.name}"
                    file = archive.extractfile(member) if member.isreg() else None
                    if file is None or member.size > _LARGEST_BATCH:
                        raise DataError(f"{place} is not a file of CIFAR-10")
                    yield wanted[member.name], place, file.read()
        except tarfile.TarError as error:
            raise DataError(f"{source} is cut off or damaged: {error}") from error


def _bounded(path: Path, most: int, otherwise: str) -> bytes:
    """The content of a file that may be of any size, unpacked, if it is not too long."""
    content = bytearray()
    with open_unpacked(path) as file:
        while piece := file.read(1 << 20):
            content += piece
            if len(content) > most:
                raise DataError(f"{path} {otherwise} {most} bytes")
    return bytes(content)


def _binary(place: str, content: bytes) -> Batch:
    """Records of a label and 3,072 pixels, the red plane first."""
    if not content or len(content) % RECORD:
        raise DataError(
            f"{place} is cut off or too long: {len(content)} bytes are not a whole "
            f"number of records of {RECORD}"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    return records[:, 1:], _labels(place, records[:, 0])


def _labels(place: str, labels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if labels.max() >= len(CIFAR10.classes):
        raise DataError(
            f"{place}: labels must be 0 to {len(CIFAR10.classes) - 1}, got {labels.max()}"
        )
    return labels


class _Inert:
    """Stands for whatever a pickle asks for by name: keeps what it is given, and does nothing.

    NumPy's own functions for this trust what they are given; a false dtype reads beyond its memory.
    """

    __slots__ = ("arguments", "state")

    def __init__(self, *arguments: Any) -> None:
        self.arguments, self.state = arguments, None

    def __setstate__(self, state: Any) -> None:
        self.state = state


# The interpreter in Python, not in C: that one allocates whatever place in its memo a file names.
class _Reader(pickle._Unpickler):
    """Reads plain objects, and arrays as ``_Inert``; the names below are all it knows."""

    NAMES = (
        *(("numpy", "ndarray"), ("numpy", "dtype"), ("numpy.core.multiarray", "_reconstruct")),
        ("numpy._core.multiarray", "_reconstruct"),  # as NumPy 2 writes it
    )

    def __init__(self, place: str, content: bytes) -> None:
        super().__init__(io.BytesIO(content), fix_imports=False, encoding="bytes")
        self.place = place

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.NAMES:
            raise DataError(
                f"{self.place} asks for {module}.{name}, which CIFAR-10 does not need: it may be "
                "malicious and was not run"
            )
        return _Inert

    def get_extension(self, code: int) -> None:  # names by number, past find_class
        raise DataError(
            f"{self.place} asks for the extension {code}, which CIFAR-10 does not "
            "need: it may be malicious"
        )


def _pickled(place: str, content: bytes) -> Batch:
    """A dictionary with the array ``data`` and the list ``labels``; the rest is left alone."""
    try:
        batch = _Reader(place, content).load()
    except DataError:
        raise
    except Exception as error:  # a pickle can fail in any way
        raise DataError(
            f"{place} is not a batch of CIFAR-10, or is cut off or damaged: "
            f"{type(error).__name__}: {error}"
        ) from error
    match batch:
        case {b"data": _Inert(state=state), b"labels": list(labels)}:
            pass
        case _:
            raise DataError(f"{place} is not a batch of CIFAR-10: data or labels are missing")
    match state:
        case (
            int(),
            (int(count), int(width)),
            _Inert(arguments=(b"u1" | "u1", *_)),
            int(by_columns),
            bytes(pixels),
        ):
            order: Literal["F", "C"] = "F" if by_columns else "C"
        case _:
            raise DataError(f"{place} is not a batch of CIFAR-10: data must be a matrix of bytes")
    if count < 1 or width != PIXELS or len(pixels) != count * width:
        raise DataError(
            f"{place}: data must be a matrix with {PIXELS} columns, it says {count} × {width} and "
            f"has {len(pixels)} bytes"
        )
    small = (type(label) is int and 0 <= label <= 255 for label in labels)
    if len(labels) != count or not all(small):
        raise DataError(
            f"{place}: labels must be {count} small whole numbers, one an image, got "
            f"{len(labels)} entries"
        )
    matrix = np.frombuffer(pixels, np.uint8).reshape((count, width), order=order)
    return matrix, _labels(place, np.array(labels, np.uint8))


BINARY = Version("cifar-10-batches-bin", "cifar-10-binary.tar.gz", CIFAR10.files, _binary)
PYTHON = Version("cifar-10-batches-py", "cifar-10-python.tar.gz", CIFAR10_PYTHON, _pickled)
VERSIONS = (BINARY, PYTHON)
