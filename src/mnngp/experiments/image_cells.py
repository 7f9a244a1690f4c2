"""Cells of convolutional networks: their kernels in blocks, and posteriors from these.

Each image is standardised by itself, as for dense networks, and keeps its shape; with a whitening
it is then whitened by what the training images of its split say. The kernels are the long part:
they are computed block by block, which a sweep that was killed goes on with, and serve all cells
that differ in the noise alone. On a cluster the blocks are computed by the workers.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mnngp import __version__
from mnngp._typing import Matrix
from mnngp.data import standardised
from mnngp.estimators import StationaryWhitening
from mnngp.experiments.protocol import Group
from mnngp.inference.posterior import Posterior
from mnngp.kernels import kernel_matrix
from mnngp.kernels.known import Known
from mnngp.kernels.points import Points

Step = Callable[..., None]
_KERNEL = 0.95  # of the work of a cell, about


@dataclass(frozen=True)
class InBlocks:
    """Where blocks are kept until their cells are committed, and which workers compute them."""

    folder: Path
    client: Any = None  # of a Dask cluster

    def of(self, group: Group) -> Path:
        """The place of a kernel; another version of mnngp has another."""
        name = f"{__version__}/{replace(group, noise_var=None).key(group.depths[0])}"
        return self.folder / hashlib.sha256(name.encode()).hexdigest()[:24]

    def remove(self, group: Group) -> None:
        """They are not needed any more."""
        if group.form == "convolutional":
            shutil.rmtree(self.of(group), ignore_errors=True)
            with suppress(OSError):  # there are others
                self.folder.rmdir()

    def remove_others(self, known: Sequence[Path]) -> None:
        """Remove what no cell of the protocol is to have, such as that of an older version."""
        for path in set(self.folder.iterdir()) - set(known):
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            self.folder.rmdir()


class Pictures:
    """The images of a split, in the shape that convolutions take.

    Parameters
    ----------
    pixels : pair of arrays
        Rows of the training images, and of those to predict.
    planes : tuple of int
        The shape of an image as it is published: (height, width), or (channels, height, width).
    """

    def __init__(self, pixels: tuple[Matrix, Matrix], planes: tuple[int, ...]) -> None:
        self.pixels, self.planes = pixels, planes
        self.lock = threading.Lock()
        self.kept: tuple[float | None, tuple[Matrix, Matrix]] | None = None

    def prepared(self, whitening: float | None) -> tuple[Matrix, Matrix]:
        """Training and other images; the last ones that were asked for are kept."""
        with self.lock:
            if self.kept is None or self.kept[0] != whitening:
                rows = [self._shaped(part) for part in self.pixels]
                if whitening is not None:
                    whitener = StationaryWhitening(whitening).fit(rows[0])
                    rows = [whitener.transform(part) for part in rows]
                self.kept = whitening, (rows[0], rows[1])
            return self.kept[1]

    def _shaped(self, pixels: Matrix) -> Matrix:
        images = standardised(pixels).reshape(-1, *self.planes)
        return images if len(self.planes) == 2 else np.moveaxis(images, 1, -1)

    def means(
        self,
        groups: Sequence[Group],
        targets: Matrix,
        noise: tuple[float, str],
        blocks: InBlocks,
        step: Step,
    ) -> Iterator[tuple[Matrix, Posterior]]:
        """The predictions of groups that share a kernel; ``noise`` is the protocol's variance and
        policy, for those that do not have their own.
        """
        first, folder = groups[0], blocks.of(groups[0])
        assert first.convolution is not None
        train, others = self.prepared(first.convolution.whitening)
        kernel = first.kernel(first.depths[0])
        n, m = len(train), len(others)
        among, count = (n + 1) / (n + 1 + 2 * m), len(groups)

        def matrix(name: str, share: float, *images: Matrix) -> Matrix:
            return kernel_matrix(
                kernel,
                *images,
                store=folder / name,
                client=blocks.client,
                progress=lambda part: step(_KERNEL * count * share * part),
            )

        known = matrix("train", among, train)
        points = Known.by(known, np.diag(known).astype(np.float64))
        beside = Known.by(
            matrix("others", 1.0 - among, others, train), kernel.diag(others).astype(np.float64)
        )
        whole = replace(first, convolution=replace(first.convolution, dtype="float64"))
        for group in groups:
            own = group.noise_var
            posterior = Posterior(
                whole.kernel(first.depths[0]),
                points,
                targets,
                noise[0] if own is None else own,
                policy=noise[1],
                progress=lambda part: step((1.0 - _KERNEL) * part),
            )
            yield mean_at(posterior, [beside], step), posterior


def mean_at(posterior: Posterior, others: Sequence[Points], step: Step) -> Matrix:
    """The posterior means at other images, a chunk of them at a time."""
    means, size = [], posterior.inverse.chunk_size
    for some in others:
        for start in range(0, len(some), size):
            step()
            means.append(posterior.mean(some[start : start + size]))
    return np.concatenate(means)
