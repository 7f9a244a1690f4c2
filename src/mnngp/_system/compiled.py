"""How loops are compiled: by Numba, without the GIL, and kept on disk between processes."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.caching import FunctionCache
from numba.np.unsafe.ndarray import to_fixed_tuple as to_tuple  # unsafe: lengths are not checked

__all__ = ["UNCOUNTED", "compiled", "to_tuple", "uncounted"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _fingerprint() -> str:
    """A hash of all sources that compiled code stands in."""
    digest = hashlib.sha256()
    for source in sorted((Path(__file__).parents[1] / "kernels").rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


_SOURCES = _fingerprint()


class _PackageCache(FunctionCache):  # type: ignore[misc]
    """Numba's disk cache, less three of its traps.

    It notices a change of the file that a function stands in, but not of those that its callees
    stand in: after an update, old code would run. It lets a full or read-only disk end the call,
    and so does what an earlier version left there, if that names a class which is gone.
    """

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), _SOURCES)

    @contextlib.contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            pass
        except Exception:  # whatever unpickling what is no longer there may raise
            with contextlib.suppress(OSError):
                self._cache_file.flush()


# ``_nrt`` is always said: a function would take it over from the first that calls it.
_OPTIONS = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy", "_nrt": True}
UNCOUNTED = {**_OPTIONS, "_nrt": False}  # of ``uncounted``, for functions that Numba overloads


def compiled(function: _Function) -> _Function:
    """Compile ``function`` on first call, for the types that it is called with.

    ``contract`` lets multiplications and additions be fused; no other liberty is taken with
    floating point: the order of sums, zeros, infinities and NaN are as written.
    """
    return _dispatcher(function, _OPTIONS)


def uncounted(function: _Function) -> _Function:
    """The same for a function inside of compiled code that counts no references.

    Counting takes an atomic instruction for each array of each call, which may be longer than what
    the call is for. Such a function must not make arrays, and returns none to one that counts.
    """
    return _dispatcher(function, UNCOUNTED)


def _dispatcher(function: _Function, options: dict[str, Any]) -> _Function:
    dispatcher = numba.njit(**options)(function)
    with contextlib.suppress(RuntimeError):  # no folder can be written: compile in every process
        dispatcher._cache = _PackageCache(function)
    return dispatcher  # type: ignore[no-any-return]
