"""The public files from their homes, through pooch, which compares their digests."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnngp._system.extras import require
from mnngp._system.progress import Done, bar
from mnngp.data.images import data_folder, located, what_to_do
from mnngp.data.published import Collection, collection
from mnngp.errors import DataError, InputError

_PATIENCE = 30.0  # seconds without an answer


def fetch(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
    *,
    home: str | None = None,
) -> list[Path]:
    """Download a collection into the data folder, unless it is there already, and return its files.

    Parameters
    ----------
    name : str
        "mnist", "fashion-mnist" or "cifar10". For "digits" there is nothing to do.
    folder : path, default=None
        As for ``load``; made if it does not exist.
    progress : bool, default=True
        Show a bar for each file, on the standard error stream.
    home : str, default=None
        Address of another server that has the same files. They are checked all the same.

    Raises
    ------
    DataError
        No connection, or what came is not the published file (nothing of it is kept). The text says
        what to put where by hand.
    """
    chosen = collection(name)
    if home is not None and not str(home).startswith(("http://", "https://")):
        raise InputError(
            f"home must be an address that begins with http:// or https://, got {home!r}"
        )
    with contextlib.suppress(DataError):
        return located(chosen, folder, verify=True)[1]
    root = data_folder(folder)
    for place, digest in chosen.served.items():
        url = f"{(home or chosen.home).rstrip('/')}/{Path(place).name}"
        _download(chosen, url, root / place, digest, root, progress)
    return [root / place for place in chosen.served]


def _download(
    chosen: Collection, url: str, path: Path, digest: str, root: Path, progress: bool
) -> None:
    require("downloads", "pooch")
    import pooch
    import requests.exceptions as failures

    by_hand = what_to_do(chosen, root).partition(", or:")[0]
    try:
        with _quiet(pooch.get_logger()), bar(path.name, show=progress) as stage:
            # As it is, not unpacked on the way; pooch's own pieces of 1 kB are slow.
            unchanged = {"Accept-Encoding": "identity"}
            shown = _Bar(stage("download", 1.0))
            downloader = pooch.HTTPDownloader(
                progressbar=shown, chunk_size=1 << 16, timeout=_PATIENCE, headers=unchanged
            )
            pooch.retrieve(
                url, known_hash=digest, fname=path.name, path=path.parent, downloader=downloader
            )
    except failures.RequestException as error:
        raise DataError(
            f"{chosen.name} could not be downloaded ({_reason(error, url)}); {by_hand}"
        ) from error
    except ValueError as error:  # pooch has compared the digests, and taken the file away
        raise DataError(
            f"{chosen.name} could not be downloaded ({url}: "
            f"{str(error).partition('. ')[0]}); {by_hand}"
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from error
    # pooch's temporary file was its owner's alone; whoever may read the folder may read this
    with contextlib.suppress(OSError):
        path.chmod(path.parent.stat().st_mode & 0o666)


def _reason(error: Any, url: str) -> str:
    if error.response is not None:
        return f"{url}: the server answers {error.response.status_code}"
    kinds = {
        "ConnectionError": "no connection",
        "ConnectTimeout": "no answer",
        "ReadTimeout": "no answer",
        "ProxyError": "no connection by way of the proxy",
        "SSLError": "the server's certificate is not trusted",
    }
    return f"{url}: {kinds.get(type(error).__name__, 'the connection broke off')}"


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Pooch tells its log where it writes; here the result says that."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


class _Bar:
    """What pooch takes for a progress bar.

    ``total`` is zero if the server does not say; the last piece counts as a whole one.
    """

    def __init__(self, done: Done) -> None:
        self._done, self._bytes, self.total = done, 0, 0

    def update(self, size: int) -> None:
        size = min(size, self.total - self._bytes)
        self._bytes += size
        self._done(size / max(1, self.total))

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass
