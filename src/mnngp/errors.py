"""The package's own exceptions and warnings.

Every exception is also of the built-in kind that a caller would expect (``ValueError``,
``ImportError``), so that code which knows nothing of this package still catches it.
"""


class MnngpError(Exception):
    """Base class of everything that this package raises on purpose."""


class InputError(MnngpError, ValueError):
    """An argument is not what it has to be; the text names it, its value and what is allowed."""


class ScaleError(MnngpError, ValueError):
    """A kernel is too large or too small for its floating point type."""


class FactorizationError(MnngpError, ArithmeticError):
    """A covariance matrix is not positive definite, whatever was added to it."""


class ModelFileError(MnngpError, ValueError):
    """A file does not hold a model that this version can read."""


class MissingExtraError(MnngpError, ImportError):
    """An optional part was asked for without the packages it needs."""


class AccuracyWarning(UserWarning):
    """A result is less accurate than usual; the text says by how much and what to do."""
