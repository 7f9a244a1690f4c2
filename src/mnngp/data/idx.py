"""The IDX format of MNIST.

Two zeros, a type, the number of dimensions, each dimension as four bytes, then the bytes
themselves.

It is described at the foot of MNIST's home page. Here the type is always 8 (unsigned bytes).
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mnngp.data.integrity import check_digest, open_unpacked
from mnngp.errors import DataError

# bytes that a header may announce; EMNIST, the largest of this format, has 0.64 · 10⁹
LARGEST = 1 << 30


def names(stem: str) -> tuple[str, ...]:
    """The names that a file goes by.

    >>> names("t10k-labels-idx1-ubyte")[2]
    't10k-labels.idx1-ubyte'
    """
    dotted = stem.replace("-idx", ".idx")
    return stem, f"{stem}.gz", dotted, f"{dotted}.gz"


def read(
    path: Path, item: tuple[int, ...], count: int | None, digest: str | None
) -> NDArray[np.uint8]:
    """Read ``count`` items (any number if None) of the given shape, checked to the last byte."""
    dimensions = 1 + len(item)
    with open_unpacked(path) as file:
        header = file.read(4 * (1 + dimensions))
        if len(header) < 4 * (1 + dimensions):
            raise DataError(f"{path} is cut off: {len(header)} bytes are no IDX header")
        magic = bytes((0, 0, 8, dimensions))
        if header[:4] != magic:
            raise DataError(
                f"{path} is not an IDX file of this kind: it begins with "
                f"{header[:4].hex()}, not {magic.hex()}"
            )
        shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", header[4:])
        if shape[1:] != item:
            raise DataError(
                f"{path} must hold images of {_times(item)} pixels, it says {_times(shape[1:])}"
            )
        if shape[0] != (count or shape[0]) or shape[0] == 0:
            raise DataError(f"{path} must hold {count or 'some'} items, it says {shape[0]}")
        size = math.prod(shape)
        if size > LARGEST:
            raise DataError(
                f"{path} says that it holds {size} bytes, more than {LARGEST} are not read"
            )
        content = file.read(size + 1)
    if len(content) != size:
        raise DataError(
            f"{path} is {'too long' if len(content) > size else 'cut off'}: its header "
            f"says {size} bytes of data"
        )
    if digest is not None:
        check_digest(path, digest, header, content)
    return np.frombuffer(content, np.uint8).reshape(shape)


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
