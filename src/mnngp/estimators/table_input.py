"""What the estimators are given, as numbers: frames are encoded, sparse matrices made dense."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from mnngp._system import memory
from mnngp._system.extras import require
from mnngp._typing import Matrix
from mnngp.errors import InputError
from mnngp.tables import frames

if TYPE_CHECKING:
    from mnngp.tables.table_encoder import TableEncoder

_IN_FRAMES = (
    "gaps and text are taken in frames (pandas, polars, Arrow), whose columns have names and types"
)


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """Features of a table, and the encoder that made them: for who has encoded it already."""

    encoder: TableEncoder
    features: Matrix


def learned(estimator: Any, X: Any) -> Any:
    """What X becomes before a fit; ``encoder_`` is how, or None if it is a matrix as it stands."""
    vars(estimator).pop("table_", None)  # of a file that the estimator was read from
    estimator.encoder_ = None
    if isinstance(X, EncodedTable):
        estimator.encoder_ = X.encoder
        return X.features
    X = matrix_or_frame(X)
    if estimator.image_shape is not None or not frames.is_frame(X) or frames.is_plain(X):
        return X
    require("frames with text, dates or gaps", "polars")
    from mnngp.tables.table_encoder import TableEncoder

    estimator.encoder_ = TableEncoder().fit(X)
    return np.asarray(estimator.encoder_.transform(X))


def name_features(estimator: Any) -> None:
    """The columns of the frame are what went in, not what they became."""
    if estimator.encoder_ is not None:
        estimator.n_features_in_ = estimator.encoder_.n_features_in_
        estimator.feature_names_in_ = estimator.encoder_.feature_names_in_


def encoded(estimator: Any, X: Any) -> Matrix | None:
    """The features of new rows, for an estimator that was fitted to a table; else None.

    An array has no names: it can only be the features themselves.
    """
    encoder = getattr(estimator, "encoder_", None)  # models that were pickled before had none
    if encoder is None:
        return None
    if isinstance(X, EncodedTable):
        return X.features
    if frames.is_frame(X):
        return np.asarray(encoder.transform(X), dtype=np.float64)
    features, shape = encoder.groups_[-1].stop, np.shape(X)
    names = ", ".join(map(repr, encoder.feature_names_in_[:8]))
    more = ", …" * (encoder.n_features_in_ > 8)
    wanted = (
        f"X must be a frame with the columns of training ({names}{more}), or an array (rows, "
        f"{features}) of the features that encoder_.transform makes of one"
    )
    if len(shape) != 2 or shape[1] != features:
        raise InputError(f"{wanted}, got {type(X).__name__} of the shape {shape}")
    try:
        given = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{wanted}, got one that holds other than numbers: {error}") from error
    if not np.isfinite(given).all():
        raise InputError(f"{wanted}, got one with NaN or infinity")
    return given


def matrix_or_frame(X: Any) -> Any:
    """Sparse matrices as dense ones, and frames of Arrow as such of polars."""
    if frames.is_pandas(X):
        sparse = [hasattr(dtype, "fill_value") for dtype in X.dtypes]
        return X.sparse.to_dense() if sparse and all(sparse) else X
    if frames.is_frame(X):
        return frames.known_frame(X)
    return dense(X)


def dense(X: Any) -> Any:
    """A sparse matrix as a dense one, if there is memory for it; anything else as it is."""
    if not issparse(X):
        return X
    need, free = 8 * int(np.prod(X.shape, dtype=object)), memory.available()
    if 2 * need > free:  # the features are standardised in a copy
        raise InputError(
            f"X is sparse, and kernels need all of its {X.shape[1]:,} columns: dense it takes "
            f"{memory.format_bytes(need)}, half of the free memory is "
            f"{memory.format_bytes(free / 2)}; make fewer columns of it, such as with "
            "sklearn.decomposition.TruncatedSVD"
        )
    return X.toarray()


@contextlib.contextmanager
def hints(X: Any) -> Iterator[None]:
    """What scikit-learn says of gaps and text in a matrix, with what to do about them."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        text, known = str(error), frames.is_pandas(X) or frames.is_polars(X)
        if text.startswith("Input X contains NaN"):
            where = _first_gap(X) if known else f"; {_IN_FRAMES}"
            raise InputError(f"X must have no gaps, it contains NaN{where}") from error
        if text.startswith("could not convert string to float"):
            what = f"got {text.partition(':')[2].strip()}"
            if known:
                where = f"column {frames.first_of_text(X)!r}"
                raise InputError(f"{where} must hold numbers, as in training, {what}") from error
            raise InputError(f"X must be numbers, {what}; {_IN_FRAMES}") from error
        raise


def _first_gap(X: Any) -> str:
    for number, name in enumerate(X.columns):
        if frames.is_pandas(X):
            gaps = X.iloc[:, number].isna().to_numpy()
        else:
            gaps = (X[:, number].is_null() | X[:, number].cast(float).is_nan()).to_numpy()
        if gaps.any():
            return (
                f" in column {name!r} (row {int(gaps.argmax()) + 1}): what a gap means is learned "
                "from those of training, of which there were none; fill it in"
            )
    return ""


def targets(y: Any) -> Any:
    """Series of pandas, polars and Arrow as arrays; a gap is an error that says where."""
    module = type(y).__module__.partition(".")[0]
    if module == "pandas" and hasattr(y, "to_frame") and y.ndim == 1:
        _check_no_gaps(y.isna().to_numpy())
        numpy_dtype = getattr(y.dtype, "numpy_dtype", None)  # of a nullable type
        return y.to_numpy() if numpy_dtype is None else y.to_numpy(dtype=numpy_dtype)
    if module == "polars" or (module == "pyarrow" and hasattr(y, "to_pylist")):
        return _polars_targets(y)
    if isinstance(y, list | tuple) or (isinstance(y, np.ndarray) and y.dtype.kind == "O"):
        _check_no_gaps(np.array([_is_gap(one) for one in y], dtype=bool))
    return y


def _is_gap(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")  # of pandas


def _polars_targets(y: Any) -> Any:
    import polars as pl

    if not isinstance(y, pl.Series | pl.DataFrame):
        y = pl.DataFrame(y) if hasattr(y, "column_names") else pl.Series(y)
    if isinstance(y, pl.DataFrame):
        return y.to_numpy()
    _check_no_gaps(y.is_null().to_numpy())
    if y.dtype in (pl.String, pl.Categorical, pl.Enum):
        return np.array(y.cast(pl.String).to_list(), dtype=object)
    return (y.cast(pl.Float64) if y.dtype.is_decimal() else y).to_numpy()


def _check_no_gaps(missing: Any) -> None:
    if missing.any():
        row = int(missing.argmax()) + 1
        raise InputError(
            f"y must have a value in every row, row {row} has none: leave such rows out"
        )
