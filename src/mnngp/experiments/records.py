"""A finished cell, how it stands in a row of SQLite, where it was made, and who is told of it.

*Formats.* 1: cells without ``width`` and ``training``. 2: without ``warning`` and checksums, and
numbered by SQLite, which gives a number again once the newest cells are deleted. 3: without
``options``. 4: the present one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mnngp.experiments.protocol import Split

FORMAT = 4
STATUS = ("done", "failed", "diverged")
ABOUT = ("protocol", "title", "created", "version", "commit", "machine")  # what is said of a run


@dataclass(frozen=True)
class Result:
    """One finished cell: what it was, and how it went.

    ``seconds`` is the time of the cell alone, without the angles that all cells of its split share.
    ``noise_var`` is the noise variance that was used in the end, after ``attempts`` factorisations.
    A failed cell has an ``error`` and no accuracies; so has a network whose training ``diverged``.
    Of networks of finite ``width``, ``weight_var`` and ``bias_var`` are the squares of the standard
    deviations, and ``seconds`` the share in what those trained together took. ``warning`` says why
    a cell is less accurate than usual, a line a reason. Noise that the paper's policy has raised is
    none: ``noise_var`` and ``attempts`` tell. Of a convolutional network ``activation`` is all of
    its layers and ``depth`` the number of activations; ``options`` is what is not as usual.
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
    options: str | None = None


class _Column(NamedTuple):
    """A column of the table of cells: a field of ``Result``."""

    name: str
    kind: type
    optional: bool
    since: int  # the format that it came with


_SINCE = {"width": 2, "training": 2, "warning": 3, "options": 4}
_KINDS = {"str": str, "int": int, "float": float}
_SQL = {str: "TEXT", int: "INTEGER", float: "REAL"}
_COLUMNS = []
for one in fields(Result):
    kind, _, optional = str(one.type).partition(" | ")
    _COLUMNS.append(_Column(one.name, _KINDS[kind], bool(optional), _SINCE.get(one.name, 1)))


def columns(version: int = FORMAT) -> list[str]:
    """The columns that a format has of a result, in their order."""
    return [column.name for column in _COLUMNS if column.since <= version]


def tables(version: int = FORMAT) -> dict[str, str]:
    """The tables of a store, as SQLite remembers them."""
    cell = ", ".join(
        f'"{name}" {_SQL[kind]}' + ("" if optional else " NOT NULL")
        for name, kind, optional, since in _COLUMNS
        if since <= version
    )
    if version < 3:
        return {
            "run": "CREATE TABLE run (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
            "cell": f"CREATE TABLE cell (key TEXT PRIMARY KEY, {cell})",
        }
    number, checked = "number INTEGER PRIMARY KEY AUTOINCREMENT", "checksum TEXT NOT NULL"
    return {
        "run": f"CREATE TABLE run (name TEXT PRIMARY KEY, value TEXT NOT NULL, {checked})",
        "cell": f"CREATE TABLE cell ({number}, key TEXT NOT NULL UNIQUE, {cell}, {checked})",
        "total": f"CREATE TABLE total (cells INTEGER NOT NULL, {checked})",
    }


def checksum(row: Sequence[Any]) -> str:
    """Of a row as it is read. Damage agrees with it once in 2⁶⁴ times."""
    return hashlib.blake2b(json.dumps(row, default=repr).encode(), digest_size=8).hexdigest()


def checksum_of_all(rows: Iterable[Sequence[Any]]) -> str:
    """The sum of the checksums of rows, which are their last values, in any order."""
    return f"{sum(int(row[-1], 16) for row in rows) % 2**64:016x}"


def is_sound(row: Sequence[Any]) -> bool:
    """Whether what was read is what was written."""
    return bool(checksum(row[:-1]) == row[-1])


def as_row(key: str, result: Result) -> list[Any]:
    """A cell as SQLite will give it back, and its checksum.

    What is REAL comes back as a float, and zero without its sign.
    """
    row: list[Any] = [key]
    for column, value in zip(_COLUMNS, astuple(result), strict=True):
        row.append(float(value) + 0.0 if column.kind is float and value is not None else value)
    return [*row, checksum(row)]


def as_result(row: Sequence[Any]) -> Result:
    """A cell from its columns; a ``ValueError`` says which value cannot be.

    Older formats have fewer columns, and the rest their defaults.
    """
    for (name, kind, optional, _), value in zip(_COLUMNS, row, strict=False):
        finite = not isinstance(value, float) or math.isfinite(value)
        if not (type(value) is kind and finite) and not (value is None and optional):
            raise ValueError(f"{name} = {value!r}, which is not of type {kind.__name__}")
    result = Result(*row)
    if min(result.weight_var, result.bias_var) < 0.0 or (result.kind == "finite") != (
        result.width is not None
    ):
        raise ValueError(f"a network that cannot be: {result}")
    if result.status not in STATUS or (result.status == "done") == (result.test_accuracy is None):
        raise ValueError(f"a cell with the status {result.status!r}")
    return result


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine() -> str:
    """Operating system, processor and cores; no names of hosts or users."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line for line in lines if line.startswith("model name"))
        processor = model.partition(":")[2].strip()
    system = f"{platform.system()} {platform.machine()}, {processor}"
    return f"{system}, {os.cpu_count()} cores, Python {platform.python_version()}"


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The commit of the package's sources, with "+" if they were changed; None if there is none."""

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


class Watcher:
    """Is told how a sweep goes. This one does not mind: subclasses do."""

    def begin(self, total: int, finished: Sequence[Result]) -> None:
        """There are so many cells, of which some are finished."""

    def preparing(self, split: Split) -> None:
        """The angles of a split are computed."""

    def finished(self, results: Sequence[Result]) -> None:
        """Cells have been committed, by us or by another process."""

    def advanced(self, cells: float) -> None:
        """So much of a cell, or of several, was computed here; a thread may say so."""

    def waiting(self, cells: int) -> None:
        """All that is left is being computed by other processes."""

    def no_workers(self) -> None:
        """The cluster has no workers yet, or any more."""
