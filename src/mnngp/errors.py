"""The package's own exceptions and warnings.

Every exception is also of the built-in kind that a caller would expect (``ValueError``,
``ImportError``), so that code which knows nothing of this package still catches it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = [
    "AccuracyWarning",
    "ClusterError",
    "ConvergenceError",
    "DataError",
    "FactorizationError",
    "InputError",
    "MissingExtraError",
    "MnngpError",
    "ModelFileError",
    "NoiseWarning",
    "ScaleError",
    "UnavailableError",
]

# packages that stand between a user's line and the reason for a warning
_BETWEEN = ("mnngp", "sklearn", "joblib", "numba")


class MnngpError(Exception):
    """Base class of everything that this package raises on purpose."""


class InputError(MnngpError, ValueError):
    """An argument is not what it has to be; the text names it, its value and what is allowed."""


class ScaleError(MnngpError, ValueError):
    """A kernel is too large or too small for its floating point type."""


class FactorizationError(MnngpError, ArithmeticError):
    """A covariance matrix is not positive definite, whatever was added to it."""


class ConvergenceError(MnngpError, ArithmeticError):
    """An iteration did not reach its tolerance; the text says how far it came and what to do."""


class UnavailableError(MnngpError, AttributeError):
    """A result that this way of solving does not give; the text says which one does.

    It is an ``AttributeError``, so that ``hasattr(model, "loo_")`` tells.
    """


class ClusterError(MnngpError, RuntimeError):
    """A cluster has no workers, or loses them faster than the work can be done again."""


class ModelFileError(MnngpError, ValueError):
    """A file does not hold a model that this version can read."""


class DataError(MnngpError, ValueError):
    """A file of data is missing, damaged or not what it should be; the text says what to do."""


class MissingExtraError(MnngpError, ImportError):
    """An optional part was asked for without the packages it needs."""


class AccuracyWarning(UserWarning):
    """A result is less accurate than usual; the text says by how much and what to do."""


class NoiseWarning(AccuracyWarning):
    """A covariance matrix could not be factored until its noise variance was raised."""


_collected: ContextVar[list[tuple[type[AccuracyWarning], str]] | None] = ContextVar(
    "collected", default=None
)


@contextmanager
def collect_warnings() -> Iterator[list[tuple[type[AccuracyWarning], str]]]:
    """Collect what is warned of inside, for the caller to pass on, instead of giving it.

    Of this thread alone, and in spite of all filters: ``warnings.catch_warnings`` is the whole
    process's.
    """
    collected: list[tuple[type[AccuracyWarning], str]] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


def warn_of_accuracy(text: str, category: type[AccuracyWarning] = AccuracyWarning) -> None:
    """Give an ``AccuracyWarning`` at the line that called the package, from however deep inside.

    (For our own frames ``skip_file_prefixes`` would do, from Python 3.12 on.)
    """
    if (collected := _collected.get()) is not None:
        collected.append((category, text))
        return
    frame, level = sys._getframe(1), 2
    while (
        frame.f_back is not None
        and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
