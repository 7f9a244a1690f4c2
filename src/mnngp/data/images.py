"""Images for classification: scikit-learn's digits, MNIST, Fashion-MNIST and CIFAR-10."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp.data import image_files
from mnngp.data.published import CIFAR10, Collection, collection
from mnngp.errors import DataError, InputError, MissingExtraError
from mnngp.estimators.features import Scaling

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]
Content = TypeVar("Content")
VARIABLE = "MNNGP_DATA"
_ROWS = 4096  # images that are standardised at a time: the temporaries stay small


@dataclass(frozen=True, eq=False)
class Images:
    """A collection of images: ``X``, ``y`` to learn from, ``X_test``, ``y_test`` to test on.

    A row of ``X`` is an image, one byte a pixel: 0 to 255, for "digits" 0 to 16.
    ``row.reshape(shape)`` is the picture; that of CIFAR-10 is (3, 32, 32), a plane for each of red,
    green and blue. Labels are 0, 1, …, ``classes`` their names. The arrays are read-only.
    """

    name: str
    X: Pixels
    y: Labels
    X_test: Pixels
    y_test: Labels
    shape: tuple[int, ...]
    classes: tuple[str, ...]

    def pictures(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows of ``X`` or ``X_test`` as convolutional networks take them: channels come last.

        >>> digits = load("digits")
        >>> digits.pictures(digits.X_test[:5]).shape
        (5, 8, 8)
        """
        images = np.asarray(rows).reshape(-1, *self.shape)
        return images if len(self.shape) == 2 else np.moveaxis(images, 1, -1)

    def __repr__(self) -> str:
        return (
            f"Images({self.name!r}, {len(self.y)} to learn from, {len(self.y_test)} to test on, "
            f"shape {self.shape})"
        )


Found = tuple[Images, list[Path]]  # and the files it was read from


def load(name: str, folder: str | os.PathLike[str] | None = None, *, verify: bool = True) -> Images:
    """Read a collection: "digits" (a part of scikit-learn), "mnist", "fashion-mnist" or "cifar10".

    Parameters
    ----------
    name : str
        Of "digits" every third image (rows 2, 5, 8, … of scikit-learn's 1,797) is for testing, the
        other 1,198 are to learn from.
    folder : path, default=None
        Where the standard public files are, packed or not, by themselves or in the usual
        subfolders; torchvision's folders will do. None: what the environment variable
        ``MNNGP_DATA`` says, or else the user's cache, where ``fetch`` puts them.
    verify : bool, default=True
        Compare the files with the published digests. False: any data in these formats, of as many
        images as there are.

    Raises
    ------
    DataError
        A file is missing, damaged or not the published one; the text names it.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits
    Images('digits', 1198 to learn from, 599 to test on, shape (8, 8))
    >>> digits.X.shape, digits.X.dtype, digits.y[:5]
    ((1198, 64), dtype('uint8'), array([0, 1, 3, 4, 6]))
    """
    return located(collection(name), folder, verify)[0]


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


def standardised(X: Any) -> NDArray[np.float64]:
    """Images as the paper has them: each of mean zero and variance one, so that ⟨x, x⟩/d = 1.

    Choose the rows first: a row of bytes becomes eight times as large.

    >>> x = standardised(load("digits").X[:100])
    >>> bool(np.allclose((x**2).mean(axis=1), 1.0))
    True
    """
    pixels = _validation.points("X", X)
    result = np.empty(pixels.shape)
    for start in range(0, len(pixels), _ROWS):
        rows = pixels[start : start + _ROWS].astype(np.float64)
        result[start : start + _ROWS] = Scaling.of("sphere", rows, None)(rows)
    return result


def find(name: str, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Where ``load`` would read a collection from, a folder or an archive; None if it is not there.

    Nothing is read or checked.
    """
    sources = _sources(collection(name), data_folder(folder), verify=True)
    return next((source.place for source in sources if not source.missing), None)


@dataclass(frozen=True)
class _Source:
    """A folder or an archive that holds a collection, or a part of it."""

    place: Path
    missing: list[str]
    read: Callable[[], Found]


def located(chosen: Collection, folder: str | os.PathLike[str] | None, verify: bool) -> Found:
    """A collection, and the files that it was read from."""
    if not chosen.files:
        return _digits(chosen), []
    root = data_folder(folder)
    sources = _sources(chosen, root, verify)
    complete = [source.read for source in sources if not source.missing]
    if complete:
        return _first_success(complete)
    if sources:
        missing = ", ".join(sources[0].missing)
        raise DataError(
            f"{chosen.name} in {sources[0].place} is not complete, {missing} is "
            f"missing; {what_to_do(chosen, root)}"
        )
    where = f"is not in {root}" if root.is_dir() else f"was to be in {root}, which is not a folder"
    raise DataError(f"{chosen.name} {where}; {what_to_do(chosen, root)}")


def _first_success(attempts: Iterable[Callable[[], Content]]) -> Content:
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


def _sources(chosen: Collection, root: Path, verify: bool) -> list[_Source]:
    if not chosen.files:
        return []
    if chosen.name == CIFAR10.name:
        return _cifar_sources(root, verify)
    return _idx_sources(chosen, root, verify)


def what_to_do(chosen: Collection, root: Path) -> str:
    """Where the files have to be, in one line."""
    names = ", ".join(Path(place).name for place in chosen.served)
    where = root / Path(next(iter(chosen.served))).parent
    command = f'mnngp data fetch {chosen.name} --data-dir "{root}"'
    return f"put {names} from {chosen.home} into {where}, or: {command}"


def _digits(chosen: Collection) -> Images:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    test = np.arange(len(labels)) % 3 == 2
    pixels = pixels.astype(np.uint8)
    return _images(chosen, pixels[~test], labels[~test], pixels[test], labels[test])


def _images(
    chosen: Collection, X: Pixels, y: NDArray[Any], X_test: Pixels, y_test: NDArray[Any]
) -> Images:
    parts = X, y.astype(np.int64), X_test, y_test.astype(np.int64)
    for part in parts:
        part.flags.writeable = False
    return Images(chosen.name, *parts, chosen.shape, chosen.classes)


def _idx_sources(chosen: Collection, root: Path, verify: bool) -> list[_Source]:
    """The subfolders that hold any of the four files."""
    sources = []
    for folder in (root / name for name in chosen.folders):
        files = {
            stem: [
                folder / name for name in image_files.idx_names(stem) if (folder / name).is_file()
            ]
            for stem in chosen.files
        }
        if any(files.values()):
            missing = [stem for stem, paths in files.items() if not paths]
            sources.append(_Source(folder, missing, partial(_read_idx, chosen, files, verify)))
    return sources


def _read_idx(chosen: Collection, files: dict[str, list[Path]], verify: bool) -> Found:
    arrays, used = [], []
    for stem, paths in files.items():
        attempts = [partial(read_part, chosen, stem, path, verify) for path in paths]
        array, path = _first_success(attempts)
        arrays.append(array)
        used.append(path)
    for images, labels, path in zip(arrays[::2], arrays[1::2], used[1::2], strict=True):
        if len(images) != len(labels):
            raise DataError(
                f"{path} must hold {len(images)} labels, one for each image, it holds {len(labels)}"
            )
    X, y, X_test, y_test = arrays
    return _images(chosen, X.reshape(len(X), -1), y, X_test.reshape(len(X_test), -1), y_test), used


def read_part(chosen: Collection, stem: str, path: Path, verify: bool) -> tuple[Pixels, Path]:
    """One of the four files of MNIST or Fashion-MNIST."""
    count = chosen.train if stem.startswith("train") else chosen.test
    item = chosen.shape if "images" in stem else ()
    array = image_files.read_idx(
        path, item, count if verify else None, chosen.files[stem] if verify else None
    )
    if not item and array.max() >= len(chosen.classes):
        raise DataError(f"{path}: labels must be 0 to {len(chosen.classes) - 1}, got {array.max()}")
    return array, path


def _cifar_sources(root: Path, verify: bool) -> list[_Source]:
    """Folders first, which are quicker to read than archives."""
    folders, archives = [], []
    for version in image_files.VERSIONS:
        for place in (root / name for name in CIFAR10.folders):
            for folder in (place / version.folder, place):
                missing = [name for name in version.digests if not (folder / name).is_file()]
                if len(missing) < len(version.digests):
                    read = partial(read_cifar, version, folder, verify)
                    folders.append(_Source(folder, missing, read))
            archive = place / version.archive
            if archive.is_file():
                archives.append(_Source(archive, [], partial(read_cifar, version, archive, verify)))
    return folders + archives


def read_cifar(version: image_files.Version, source: Path, verify: bool) -> Found:
    """CIFAR-10 from one folder or archive."""
    *train, (X_test, y_test) = version.read(source, verify)
    X, y = (np.concatenate([batch[part] for batch in train]) for part in (0, 1))
    used = [source] if source.is_file() else [source / name for name in version.digests]
    return _images(CIFAR10, X, y, np.ascontiguousarray(X_test), y_test), used
