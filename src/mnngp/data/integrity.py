"""Files of strangers, read with care: never more than expected, and digests are compared."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import TypeVar

from mnngp.data import published
from mnngp.errors import DataError

Content = TypeVar("Content")
_GZIP = b"\x1f\x8b"


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
    other = published.owner(f"{algorithm}:{found.hexdigest()}")
    title = {"sha256": "SHA-256", "md5": "MD5"}[algorithm]
    raise DataError(
        f"{path} is not the published file{f' but {other}' if other else ''}: {title} "
        f"{found.hexdigest()}, published {wanted}; "
        f"replace it, or read data of your own in this format with verify=False"
    )


def first_success(attempts: Iterable[Callable[[], Content]]) -> Content:
    """What the first attempt gives that succeeds: a damaged copy does no harm beside a good one.

    If all fail, the first failure is raised; there has to be at least one attempt.
    """
    failures = []
    for attempt in attempts:
        try:
            return attempt()
        except DataError as error:
            failures.append(error)
    raise failures[0]
