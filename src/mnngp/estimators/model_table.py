"""What a model file says of the table that a model was fitted to.

It is the entry ``table`` of the header: ``columns`` and ``notes`` of the encoder, and of ``mnngp
fit`` also ``target``, ``task`` and ``usual_std``, which ``mnngp predict`` checks when it needs
them. All checks raise ``InputError``, which is a ``ModelFileError`` where a file is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mnngp._system.extras import require
from mnngp.errors import InputError, ModelFileError

if TYPE_CHECKING:
    from mnngp.tables.table_encoder import TableEncoder


def describe(model: Any) -> dict[str, Any] | None:
    """The entry of a fitted model; None if it was fitted to a matrix."""
    table: dict[str, Any] | None = getattr(model, "table_", None)
    encoder = getattr(model, "encoder_", None)
    if encoder is None:
        return table
    known: dict[str, Any] = encoder.as_dict()
    return (table or {}) | known


def encoder_of(header: Mapping[str, Any]) -> TableEncoder | None:
    """The encoder that a header describes, everything checked; None if there is none."""
    if header["table"] is None:
        return None
    require("models of tables", "polars")
    from mnngp.tables.table_encoder import TableEncoder

    try:
        return TableEncoder.from_dict(header["table"], header["feature_names"])
    except ModelFileError as error:
        raise InputError(str(error)) from error


def check_width(header: Mapping[str, Any], width: int) -> None:
    """Raise if the features of the model are not those that its columns become."""
    encoder, names = encoder_of(header), header["feature_names"]
    if encoder is None:
        if names and len(names) != width:
            raise InputError(f"feature_names must be {width} names or none, got {len(names)}")
        return
    made = encoder.groups_[-1].stop
    if made != width:
        raise InputError(f"the columns of the encoder must become {width} features, got {made}")
