"""Which features a column of a table became."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("number", "number with gaps", "category")


@dataclass(frozen=True)
class ColumnGroup:
    """The features [start, stop) that one column of a table became.

    Parameters
    ----------
    name : str
        Of the column.
    kind : "number", "number with gaps" or "category"
        One feature, its value; the value, and whether it is missing; or one feature for each
        category that is 1 or 0, the last one for gaps if training had any. A number that is always
        the same where it is not missing tells no more than a category does, and is one: a single
        feature, whether it is missing.
    start, stop : int
        Where its features begin and end.
    """

    name: str
    kind: str
    start: int
    stop: int
