"""The Cholesky factorisation in place, in half the memory of a matrix.

LAPACK's rectangular full packed format (``kernels.layout``) holds a symmetric matrix ``A = [[A11,
A21ᵀ], [A21, A22]]`` such that A11, A21 and A22 are ordinary matrices inside one rectangle: dpftrf
factors it in four calls, at full speed. Here the same four steps are cut into blocks, so that the
work can be seen and interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mnngp._typing import Matrix, Vector
from mnngp.inference.solvers import blas
from mnngp.inference.solvers.interface import Progress
from mnngp.kernels import layout

# columns: as fast as one call, a second or so between two reports at n = 50,000, and little for
# BLAS to copy
_BLOCK = 1024


class Packed:
    """A symmetric positive definite matrix of n rows in n (n+1)/2 numbers, and then its factor ``A
    = L Lᵀ``.
    """

    def __init__(self, n: int, dtype: Any, memory: Matrix | None = None) -> None:
        self.n = n
        self.memory: Matrix = (
            np.empty(layout.packed_shape(n), dtype=dtype) if memory is None else memory
        )
        half, columns = (n + 1) // 2, self.memory.T  # Fortran's order
        even = 1 - n % 2
        self.first = columns[even : even + half]  # A11, its lower triangle
        self.below = columns[even + half : even + n]  # A21
        self.second = columns[: n - half, n % 2 :]  # A22, its upper triangle

    def __reduce__(self) -> tuple[Any, ...]:
        return Packed, (self.n, self.memory.dtype, self.memory)  # the rest are views

    def diagonal(self) -> Vector:
        """A copy of the diagonal."""
        return np.concatenate([part for _, part in layout.packed_diagonal(self.memory, self.n)])

    def add_to_diagonal(self, values: Vector) -> None:
        for part, target in layout.packed_diagonal(self.memory, self.n):
            np.add(target, values[part], out=target, casting="same_kind")

    def factor(self, done: Progress | None = None) -> int:
        """Factor in place. Returns 0, or the number of the first leading block that is not positive
        definite.
        """

        def report(operations: float) -> None:  # multiplications with additions, of n³/3
            if done is not None:
                done(operations / (self.n**3 / 3.0))

        failed = _cholesky(self.first, lower=True, report=report)
        if failed:
            return failed
        for start in range(0, self.below.shape[0], _BLOCK):
            _solve_from_right(self.first, self.below[start : start + _BLOCK], report=report)
        _subtract_square(self.below, self.second, lower=False, report=report)
        failed = _cholesky(self.second, lower=False, report=report)
        return failed + len(self.first) if failed else 0

    # The factor is L = [[first, 0], [below, secondᵀ]].

    def forward(self, b: Matrix) -> None:
        """``b ← L⁻¹ b`` in place, for a matrix b in Fortran's order."""
        half = len(self.first)
        blas.solve_triangle(self.first, b[:half], lower=True)
        blas.subtract_product(self.below, b[:half], b[half:])
        blas.solve_triangle(self.second, b[half:], lower=False, transposed=True)

    def backward(self, b: Matrix) -> None:
        """``b ← L⁻ᵀ b`` in place."""
        half = len(self.first)
        blas.solve_triangle(self.second, b[half:], lower=False)
        blas.subtract_product(self.below, b[half:], b[:half], a_transposed=True)
        blas.solve_triangle(self.first, b[:half], lower=True, transposed=True)

    def solve(self, b: Matrix) -> Matrix:
        """``A⁻¹ b`` as a new array."""
        result = np.array(b, dtype=self.memory.dtype, order="F")
        columns = result.reshape(self.n, -1, order="F")
        self.forward(columns)
        self.backward(columns)
        return result

    def log_determinant(self) -> float:
        """Of A, from its factor."""
        return 2.0 * float(np.log(self.diagonal().astype(np.float64)).sum())

    def inverse(self) -> Packed:
        """``A⁻¹``, packed, in new memory."""
        from scipy.linalg.lapack import dpftri, spftri

        routine = dpftri if self.memory.dtype == np.float64 else spftri
        inverse, info = routine(self.n, self.memory.reshape(-1), transr="N", uplo="L")
        assert info == 0, info
        return Packed(self.n, self.memory.dtype, inverse.reshape(self.memory.shape))

    def dense(self) -> Matrix:
        """The symmetric matrix as an ordinary one, in float64; before it is factored."""
        half, result = len(self.first), np.empty((self.n, self.n))
        result[:half, :half] = np.tril(self.first)
        result[half:, half:] = np.triu(self.second).T
        result[half:, :half] = self.below
        result[:half, half:] = 0.0
        result += np.tril(result, -1).T
        return result


def _cholesky(a: Matrix, *, lower: bool, report: Callable[[float], None]) -> int:
    """Block by block, right-looking: LAPACK's own way, with reports."""
    for start in range(0, len(a), _BLOCK):
        stop = min(start + _BLOCK, len(a))
        size, rest = stop - start, len(a) - stop
        here = a[start:stop, start:stop]
        failed = blas.cholesky(here, lower=lower)
        if failed:
            return failed + start
        if lower:
            beside = a[stop:, start:stop]
            blas.solve_triangle(here, beside, lower=True, transposed=True, right=True)
        else:
            for first in range(stop, len(a), _BLOCK):  # see _solve_from_right
                blas.solve_triangle(
                    here, a[start:stop, first : first + _BLOCK], lower=False, transposed=True
                )
            beside = a[start:stop, stop:].T
        report(size**3 / 3.0 + size * size * rest)
        _subtract_square(beside, a[stop:, stop:], lower=lower, report=report)
    return 0


def _solve_from_right(a: Matrix, b: Matrix, *, report: Callable[[float], None]) -> None:
    """``b ← b a⁻ᵀ`` for a lower triangle, in blocks of columns.

    In one call OpenBLAS copies 256 rows of the triangle at a time to memory of each thread, which
    it then keeps: 10 MB at n = 10,000, where blocks take 2.
    """
    for start in range(0, len(a), _BLOCK):
        stop = min(start + _BLOCK, len(a))
        here = b[:, start:stop]
        blas.subtract_product(b[:, :start], a[start:stop, :start], here, b_transposed=True)
        blas.solve_triangle(
            a[start:stop, start:stop], here, lower=True, transposed=True, right=True
        )
        report(len(b) * (stop - start) * (stop + start))


def _subtract_square(a: Matrix, c: Matrix, *, lower: bool, report: Callable[[float], None]) -> None:
    """``c ← c - a aᵀ``, one triangle, in blocks of columns; ``a`` may be the transpose of a matrix
    in Fortran's order.

    Not in one call to BLAS: OpenBLAS 0.3.31's threaded dsyrk ends in a segmentation fault for some
    23,000 rows of a memory of 50,000, and nothing could be reported or interrupted meanwhile.
    """
    turned = a.strides[0] != a.itemsize
    for start in range(0, len(c), _BLOCK):
        stop = min(start + _BLOCK, len(c))
        rest = slice(stop, None) if lower else slice(0, start)
        here, other = (a[start:stop].T, a[rest].T) if turned else (a[start:stop], a[rest])
        blas.subtract_square(here, c[start:stop, start:stop], lower=lower, transposed=turned)
        blas.subtract_product(
            other, here, c[rest, start:stop], a_transposed=turned, b_transposed=not turned
        )
        report((stop - start) * (stop - start + 2.0 * other.shape[1 if turned else 0]) * a.shape[1])
