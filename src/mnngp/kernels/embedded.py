"""Points whose features are embedded one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp.kernels.points import GivenPoints, Points
from mnngp.networks.embedding import Embedding


@dataclass(frozen=True, eq=False)
class EmbeddedPoints(GivenPoints):
    """Points of an embedding; all have one length.

    Attributes
    ----------
    directions, square_lengths : arrays
        Of the explicit map.
    given : array (n, d)
        The features before it.
    """

    @staticmethod
    def embed(
        name: str, rows: NDArray[Any], embedding: Embedding, dtype: np.dtype[Any]
    ) -> EmbeddedPoints:
        """The points of rows that were checked."""
        given = np.ascontiguousarray(rows, dtype=dtype)
        mapped = Points.of(name, embedding(given), dtype)
        # lengths differ by rounding only
        return EmbeddedPoints(mapped.directions, np.ones(len(rows)), given)

    def __getitem__(self, rows: slice) -> EmbeddedPoints:
        return EmbeddedPoints(self.directions[rows], self.square_lengths[rows], self.given[rows])

    def subset(self, chosen: NDArray[np.int64]) -> EmbeddedPoints:
        return EmbeddedPoints(
            self.directions[chosen], self.square_lengths[chosen], self.given[chosen]
        )
