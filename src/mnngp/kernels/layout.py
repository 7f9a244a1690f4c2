"""Where the entries of a kernel matrix stand in memory: as a whole matrix, or packed.

LAPACK's rectangular full packed format keeps one triangle of a symmetric matrix, ``n (n+1)/2``
numbers, in a rectangle without gaps, such that each half of it is an ordinary matrix for BLAS
(Gustavson et al., ACM TOMS 37(2), 2010). In C order, with ``h = ⌈n/2⌉`` and ``e = 1`` if n is even
or else 0, the rectangle R has h rows and ``n + e`` columns:

    R[i, e + j] = A[i, j]               for i < h, j ≥ i            the first rows, upper triangle
    R[i, j]     = A[⌊n/2⌋ + i, h + j]   for h + j ≤ ⌊n/2⌋ + i       the last rows, lower triangle

which is what LAPACK calls ``transr='N', uplo='L'`` of the same memory read by columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mnngp._typing import Matrix

# Which entries of a panel are wanted: all, or those on one side of the matrix's diagonal.
ALL, LEFT, RIGHT = 0, 1, 2
# Rows a thread takes at a time: enough for a matrix product at full speed, few enough to balance.
TASK = 192


class Panel(NamedTuple):
    """Some rows of the memory, and which points its rows and columns stand for.

    Attributes
    ----------
    first, last, begin, end : int
        Rows and columns of the memory.
    row_shift, col_shift : int
        What to add to a row or column for the number of its point.
    part : ALL, LEFT or RIGHT
        Whether all entries are wanted, or only those left or right of the matrix's diagonal. What
        is on the other side of it is not touched if ``guarded``, and may be overwritten if not.
    """

    first: int
    last: int
    begin: int
    end: int
    row_shift: int = 0
    col_shift: int = 0
    part: int = ALL
    guarded: bool = False

    @property
    def size(self) -> int:
        """Entries of the memory that it spans."""
        return (self.last - self.first) * (self.end - self.begin)

    # Beside a small matrix OpenBLAS computes with whatever is in memory there, in single precision:
    # what the processor says of that is no value of ours, which are products of unit vectors.
    @np.errstate(invalid="ignore")
    def gram(self, rows: Matrix, cols: Matrix, out: Matrix) -> None:
        """Write the inner products of the points to their places."""
        first, last = self.first + self.row_shift, self.last + self.row_shift
        begin, end = self.begin + self.col_shift, self.end + self.col_shift
        if not self.guarded:
            np.matmul(
                rows[first:last],
                cols[begin:end].T,
                out=out[self.first : self.last, self.begin : self.end],
            )
            return
        # The square around the diagonal goes by way of a small matrix, the rest straight to its
        # place.
        begin, end = (begin, first) if self.part == LEFT else (last, end)
        target = out[self.first : self.last, begin - self.col_shift : end - self.col_shift]
        if target.size:
            np.matmul(rows[first:last], cols[begin:end].T, out=target)
        square = np.matmul(rows[first:last], cols[first:last].T)
        for k in range(last - first):
            columns = slice(0, k) if self.part == LEFT else slice(k + 1, last - first)
            start = first - self.col_shift
            out[self.first + k, start + columns.start : start + columns.stop] = square[k, columns]


def whole(rows: int, cols: int, *, symmetric: bool) -> list[Panel]:
    """The panels of an ordinary matrix; of a symmetric one the part left of the diagonal, which is
    then mirrored.
    """
    # the last rows of a triangle are the longest: begin with them
    starts = range(0, rows, TASK)[::-1]
    ends = [min(start + TASK, rows) for start in starts]
    if symmetric:
        return [
            Panel(start, end, 0, end, part=LEFT) for start, end in zip(starts, ends, strict=True)
        ]
    return [Panel(start, end, 0, cols) for start, end in zip(starts, ends, strict=True)]


def packed_shape(n: int) -> tuple[int, int]:
    """The shape of R."""
    return (n + 1) // 2, n + 1 - n % 2


def packed(n: int) -> list[Panel]:
    """The panels of a packed matrix."""
    half, odd = (n + 1) // 2, n % 2
    panels = []
    for start in range(0, half, TASK):  # the first rows are the longest
        end, shift = min(start + TASK, half), odd - 1
        panels.append(Panel(start, end, start - shift, n - shift, 0, shift, RIGHT, guarded=True))
    for start in range(odd, half, TASK)[::-1]:
        end = min(start + TASK, half)
        panels.append(Panel(start, end, 0, end - odd, n // 2, half, LEFT, guarded=True))
    return panels


def packed_diagonal(memory: Matrix, n: int) -> Iterator[tuple[slice, Matrix]]:
    """The two halves of the diagonal as views of R, each with the points it belongs to."""
    half, odd = (n + 1) // 2, n % 2
    columns, flat = memory.shape[1], memory.reshape(-1)
    yield slice(0, half), flat[1 - odd :: columns + 1][:half]
    yield slice(half, n), flat[odd * columns :: columns + 1][: n - half]


def pack(matrix: Matrix, out: Matrix) -> None:
    """Write one triangle of a symmetric matrix to R."""
    n = len(matrix)
    half, odd = (n + 1) // 2, n % 2
    for row in range(half):
        out[row, 1 - odd + row :] = matrix[row, row:]
        last = n // 2 + row
        out[row, : last - half + 1] = matrix[last, half : last + 1]
