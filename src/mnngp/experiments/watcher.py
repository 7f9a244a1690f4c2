"""Who is told how a sweep goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mnngp.experiments.protocol import Split
    from mnngp.experiments.records import Result


class Watcher:
    """Is told how a sweep goes. This one does not mind: subclasses do."""

    def begin(self, total: int, finished: Sequence[Result]) -> None:
        """There are so many cells, of which some are finished."""

    def preparing(self, split: Split) -> None:
        """The angles of a split are computed."""

    def finished(self, results: Sequence[Result]) -> None:
        """Cells have been committed, by us or by another process."""

    def waiting(self, cells: int) -> None:
        """All that is left is being computed by other processes."""

    def no_workers(self) -> None:
        """The cluster has no workers yet, or any more."""
