"""BLAS and LAPACK on parts of larger arrays, in place.

SciPy's Python wrappers copy an array that is not contiguous, and hold the interpreter's lock. Its C
pointers to the same routines do neither, so that a long factorisation can show its progress and be
interrupted.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from mnngp._typing import Matrix

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]


@cache
def _routine(name: str, arguments: int) -> Any:
    from scipy.linalg import cython_blas, cython_lapack

    home = cython_lapack if name[1:] == "potrf" else cython_blas
    capsule = home.__pyx_capi__[name]
    address = _get_pointer(capsule, _get_name(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address)


def _call(name: str, dtype: np.dtype[Any], *arguments: Any) -> None:
    """Call a routine in Fortran's way, everything by reference. Floats are of the arrays' type."""
    number = ctypes.c_double if dtype == np.float64 else ctypes.c_float
    passed = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            passed.append(ctypes.c_void_p(argument.ctypes.data))
        elif isinstance(argument, str):
            passed.append(ctypes.cast(ctypes.c_char_p(argument.encode()), ctypes.c_void_p))
        elif isinstance(argument, float):
            passed.append(ctypes.cast(ctypes.pointer(number(argument)), ctypes.c_void_p))
        elif isinstance(argument, int):
            passed.append(ctypes.cast(ctypes.pointer(ctypes.c_int(argument)), ctypes.c_void_p))
        else:
            passed.append(ctypes.cast(ctypes.pointer(argument), ctypes.c_void_p))
    _routine(("d" if dtype == np.float64 else "s") + name, len(passed))(*passed)


def _stride(a: Matrix) -> int:
    """The leading dimension of a matrix in Fortran's order, which ``a`` has to be in (a view of
    larger memory or not).
    """
    assert a.strides[0] == a.itemsize or a.shape[0] <= 1
    return int(max(a.strides[1] // a.itemsize if a.shape[1] > 1 else 1, a.shape[0], 1))


# All matrices below are in Fortran's order: columns are contiguous. ``lower`` says which triangle
# of a is used.


def cholesky(a: Matrix, *, lower: bool) -> int:
    """Factor a in place; returns the number of the leading block that is not positive definite, or
    0.
    """
    info = ctypes.c_int(0)
    if a.size:
        _call("potrf", a.dtype, "L" if lower else "U", len(a), a, _stride(a), info)
    return int(info.value)


def solve_triangle(
    a: Matrix, b: Matrix, *, lower: bool, transposed: bool = False, right: bool = False
) -> None:
    """``b ← a⁻¹ b``, or ``a⁻ᵀ b``; from the right ``b a⁻¹`` or ``b a⁻ᵀ``."""
    if a.size and b.size:
        _call(
            "trsm",
            a.dtype,
            "R" if right else "L",
            "L" if lower else "U",
            "T" if transposed else "N",
            "N",
            *b.shape,
            1.0,
            a,
            _stride(a),
            b,
            _stride(b),
        )


def subtract_square(a: Matrix, c: Matrix, *, lower: bool, transposed: bool = False) -> None:
    """``c ← c - a aᵀ``, or ``c - aᵀ a``, one triangle of it."""
    if a.size and c.size:
        inner, triangle, turned = (
            a.shape[0] if transposed else a.shape[1],
            "L" if lower else "U",
            "T" if transposed else "N",
        )
        _call(
            "syrk",
            a.dtype,
            triangle,
            turned,
            len(c),
            inner,
            -1.0,
            a,
            _stride(a),
            1.0,
            c,
            _stride(c),
        )


def subtract_product(
    a: Matrix, b: Matrix, c: Matrix, *, a_transposed: bool = False, b_transposed: bool = False
) -> None:
    """``c ← c - a b``, with either transposed."""
    if a.size and b.size and c.size:
        inner = a.shape[0] if a_transposed else a.shape[1]
        _call(
            "gemm",
            a.dtype,
            "T" if a_transposed else "N",
            "T" if b_transposed else "N",
            *c.shape,
            inner,
            -1.0,
            a,
            _stride(a),
            b,
            _stride(b),
            1.0,
            c,
            _stride(c),
        )
