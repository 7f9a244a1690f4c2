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
    """Call a routine in Fortran's way, everything by reference.

    Floats are of the arrays' type. Behind each matrix its leading dimension is passed.
    """
    number = ctypes.c_double if dtype == np.float64 else ctypes.c_float
    passed: list[ctypes.c_void_p] = []

    def add(value: Any) -> None:
        passed.append(ctypes.cast(value, ctypes.c_void_p))

    for argument in arguments:
        if isinstance(argument, np.ndarray):
            passed.append(ctypes.c_void_p(argument.ctypes.data))
            add(ctypes.pointer(ctypes.c_int(_leading_dimension(argument))))
        elif isinstance(argument, str):
            add(ctypes.c_char_p(argument.encode()))
        elif isinstance(argument, float):
            add(ctypes.pointer(number(argument)))
        elif isinstance(argument, int):
            add(ctypes.pointer(ctypes.c_int(argument)))
        else:
            add(ctypes.pointer(argument))
    _routine(("d" if dtype == np.float64 else "s") + name, len(passed))(*passed)


def _leading_dimension(a: Matrix) -> int:
    """Of a matrix in Fortran's order, which may be a view of larger memory."""
    assert a.strides[0] == a.itemsize or a.shape[0] <= 1
    return int(max(a.strides[1] // a.itemsize if a.shape[1] > 1 else 1, a.shape[0], 1))


# All matrices below are in Fortran's order: columns are contiguous. ``lower`` says which triangle
# of a is used.
_TRIANGLE = {True: "L", False: "U"}  # lower
_TRANSPOSE = {True: "T", False: "N"}  # transposed


def cholesky(a: Matrix, *, lower: bool) -> int:
    """Factor in place; returns 0, or the first leading block that is not positive definite."""
    info = ctypes.c_int(0)
    if a.size:
        _call("potrf", a.dtype, _TRIANGLE[lower], len(a), a, info)
    return int(info.value)


def solve_triangle(
    a: Matrix, b: Matrix, *, lower: bool, transposed: bool = False, right: bool = False
) -> None:
    """``b ← a⁻¹ b``, or ``a⁻ᵀ b``; from the right ``b a⁻¹`` or ``b a⁻ᵀ``."""
    if a.size and b.size:
        form = ("R" if right else "L", _TRIANGLE[lower], _TRANSPOSE[transposed], "N")
        _call("trsm", a.dtype, *form, *b.shape, 1.0, a, b)


def subtract_square(a: Matrix, c: Matrix, *, lower: bool, transposed: bool = False) -> None:
    """``c ← c - a aᵀ``, or ``c - aᵀ a``, one triangle of it."""
    if a.size and c.size:
        form, inner = (_TRIANGLE[lower], _TRANSPOSE[transposed]), a.shape[0 if transposed else 1]
        _call("syrk", a.dtype, *form, len(c), inner, -1.0, a, 1.0, c)


def subtract_product(
    a: Matrix, b: Matrix, c: Matrix, *, a_transposed: bool = False, b_transposed: bool = False
) -> None:
    """``c ← c - a b``, with either transposed."""
    if a.size and b.size and c.size:
        form = _TRANSPOSE[a_transposed], _TRANSPOSE[b_transposed]
        inner = a.shape[0 if a_transposed else 1]
        _call("gemm", a.dtype, *form, *c.shape, inner, -1.0, a, b, 1.0, c)
