"""Writing files: checked before any work, and never half."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mnngp.errors import InputError

PAGES, PICTURES = (".html", ".htm"), (".png", ".pdf", ".svg")


def writable(
    path: str | os.PathLike[str], *inputs: str | os.PathLike[str], suffixes: Sequence[str] = ()
) -> Path:
    """The path, if a file can be written there that is none of the inputs.

    It has to end in one of the suffixes, if any are given.

    What is written under a name must be what the name says. The suffix "" is no suffix at all.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file to write")
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: the folder {path.parent} does not exist")
    if path.exists() and not path.is_file():
        raise InputError(f"{path} cannot be written: it is not an ordinary file")
    if path.exists() and not os.access(path, os.W_OK):
        raise InputError(f"{path} cannot be written: it is read-only")
    if not os.access(path.parent, os.W_OK):
        raise InputError(
            f"{path} cannot be written: the folder {path.parent.absolute()} is read-only"
        )
    for given in map(Path, inputs):
        if path.exists() and given.exists() and path.samefile(given):
            raise InputError(f"{path} cannot be written: it is the file that is read")
    if suffixes and path.suffix.lower() not in suffixes:
        named = [suffix for suffix in suffixes if suffix]
        allowed = " or ".join(filter(None, [", ".join(named[:-1]), named[-1]]))
        raise InputError(
            f"{path} must end in {allowed}{', or have no suffix' * ('' in suffixes)}; "
            "nothing else is written here"
        )
    return path


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A temporary file beside ``path``, which takes its place when everything is written."""
    path = writable(path)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # a new file's usual rights; mkstemp gives them to the owner alone
        with contextlib.suppress(OSError):
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
