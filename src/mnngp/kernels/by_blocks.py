"""Kernel matrices of many points, in blocks: with progress, on disk, on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from mnngp._system import memory
from mnngp._system.progress import bar, duration
from mnngp._typing import Matrix
from mnngp.errors import InputError
from mnngp.kernels.block_store import BlockStore
from mnngp.kernels.blocks import Blocks, Place
from mnngp.kernels.sklearn import DeepKernel
from mnngp.networks.network import as_dtype


def kernel_matrix(
    kernel: DeepKernel,
    X: Any,
    Y: Any = None,
    *,
    store: str | os.PathLike[str] | None = None,
    client: Any = None,
    progress: bool | Callable[[float], object] | None = None,
    dtype: Any = None,
) -> Matrix:
    """The kernel matrix of ``X`` with ``Y`` (with itself if Y is None), block by block.

    It is ``kernel(X, Y)`` for what takes hours: the same numbers, with convolutional networks of
    homogeneous activations and without flips to the last digit, else up to rounding.

    Memory: the result, unless there is a store; the data, and as much again of it as 0.5 GB hold;
    and what the kernel takes for a block, of some thousand images at most.

    Parameters
    ----------
    kernel : MaxoutKernel or NetworkKernel
        Any of this package.
    X, Y : arrays
        As for a call of the kernel.
    store : path of a folder, optional
        Finished blocks are kept there: the same call goes on after Ctrl-C, ``kill -9`` or a power
        cut, and gives the matrix at once when it is complete. The store of another kernel, other
        data or another version of mnngp is refused. The result is a map of its file.
    client : distributed.Client or str, optional
        Have blocks computed by the workers of a Dask cluster; a string is its scheduler's address.
    progress : bool or callable, optional
        Whether to show a progress bar; by default when three seconds have passed, on a terminal or
        in a notebook. A function is told each finished share; the shares add up to one.
    dtype : "float64" or "float32", optional
        Of the result; the kernel's by default, which is that of the computation.

    Returns
    -------
    K : array (n, m)
        The kernel matrix, exactly symmetric for ``Y = None``.

    Examples
    --------
    >>> from mnngp import Conv, GlobalAvgPool, Maxout, NetworkKernel
    >>> kernel = NetworkKernel([Conv(3), Maxout(4), GlobalAvgPool()])
    >>> images = np.random.default_rng(0).normal(size=(100, 8, 8))
    >>> K = kernel_matrix(kernel, images)
    >>> bool(np.array_equal(K, kernel(images)))
    True
    """
    blocks = Blocks(kernel, X, Y)
    kept = blocks.network.dtype if dtype is None else as_dtype(dtype)
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise InputError(f"progress must be True, False, None or a function, got {progress!r}")
    heard = progress if callable(progress) else (lambda share: None)
    show = False if callable(progress) else progress
    with ExitStack() as stack:
        stored = None if store is None else stack.enter_context(BlockStore(store, blocks, kept))
        if stored is not None and len(stored.finished) == len(blocks.grid(stored.size or 1)):
            heard(1.0)
            return stored.result()
        stages = stack.enter_context(bar("kernel matrix", show=show))
        engine: Any = _Here(blocks)
        if client is not None:
            from mnngp.kernels.dask_blocks import on_cluster

            engine = stack.enter_context(on_cluster(blocks, client))
        stages("timing a block", 0.0)
        size, seconds = engine.measured()
        if stored is None:
            target: Any = _InMemory(blocks, size, kept)
        else:
            target = stored
            if stored.size is None:
                stored.begin(size)
        to_do = [place for place in target.grid if place not in target.finished]
        pairs = [target.grid.pairs(place) for place in to_do]
        stages.say(_foretold(target, len(to_do), seconds * sum(pairs), kept.itemsize))
        done = stages(f"{len(to_do):,} blocks", 1.0)
        for place, values in engine.computed(target.size, to_do):
            target.put(place, values)
            share = target.grid.pairs(place) / sum(pairs)
            done(share)
            heard(share)
        result: Matrix = target.result()
        return result


def _foretold(target: Any, to_do: int, seconds: float, itemsize: int) -> str:
    """What it will take, in a line."""
    rows, columns = target.grid.shape
    needed = memory.format_bytes(rows * columns * itemsize)
    where = f"in {target.folder}" if isinstance(target, BlockStore) else "in memory"
    there = len(target.grid) - to_do
    known = f", {there:,} of them finished before" if there else ""
    return (
        f"{rows:,} × {columns:,} numbers, {needed} {where}: {len(target.grid):,} blocks of "
        f"{target.size:,} × {target.size:,}{known}; about {duration(seconds)}"
    )


class _Here:
    """Blocks, computed by this process."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks, self.measured = blocks, blocks.measured

    def computed(self, size: int, places: list[Place]) -> Any:
        return ((place, self.blocks.block(size, place)) for place in places)


class _InMemory:
    """What ``BlockStore`` is on disk."""

    def __init__(self, blocks: Blocks, size: int, dtype: np.dtype[Any]) -> None:
        self.size, self.grid = size, blocks.grid(size)
        self.finished: set[Place] = set()
        self.matrix = np.empty(blocks.shape, dtype=dtype)

    def put(self, place: Place, values: Matrix) -> None:
        self.grid.put(self.matrix, place, values)

    def result(self) -> Matrix:
        return self.matrix
