"""Points whose kernel is known as a matrix: a kind of points that computes nothing.

For matrices that took long, and were kept (``by_blocks``). What is left of a distance is what
their digits hold: ``1 - ρ`` has the absolute accuracy of the matrix, not a relative one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mnngp._typing import Matrix, Vector
from mnngp.kernels import evaluate, layout
from mnngp.kernels.points import Points
from mnngp.networks.network import Network


@dataclass(frozen=True, eq=False)
class Known(Points):
    """Training points, whose kernel with each other is known, or other points beside them.

    Attributes
    ----------
    matrix : array (m, n)
        The kernel of these points with the training points; of these themselves (n, n).
    variance : array (m,)
        The kernel of each point with itself.
    """

    matrix: Matrix
    variance: Vector

    @staticmethod
    def by(matrix: Matrix, variance: Vector) -> Known:
        """Points by their kernel alone."""
        return Known(np.empty((len(matrix), 0)), variance, matrix, variance)

    def __getitem__(self, rows: slice) -> Known:
        return Known.by(self.matrix[rows], self.variance[rows])

    def subset(self, chosen: NDArray[np.int64]) -> Known:
        """Some of the training points."""
        return Known.by(self.matrix[np.ix_(chosen, chosen)], self.variance[chosen])


@evaluate.diagonal.register(Known)
def _diagonal(network: Network, x: Known) -> Vector:
    return x.variance


@evaluate.correlations.register(Known)
def _correlations(
    network: Network, x: Known, y: Known | None = None, *, contraction: float = 1.0
) -> Matrix:
    roots = [np.sqrt(side.variance) for side in (x, x if y is None else y)]
    alive = [root > 0.0 for root in roots]
    scale = [1.0 / np.where(lives, root, 1.0) for lives, root in zip(alive, roots, strict=True)]
    result = np.multiply(x.matrix, scale[0][:, None], dtype=network.dtype)
    result *= scale[1].astype(network.dtype)
    result -= 1.0  # ρ - 1
    result /= network.dtype.type(contraction)
    result += 1.0
    if y is None:
        np.fill_diagonal(result, 1.0)
    result[~alive[0]] = 0.0
    result[:, ~alive[1]] = 0.0
    return result


@evaluate.packed_correlations.register(Known)
def _packed_correlations(
    network: Network,
    x: Known,
    out: Matrix,
    *,
    contraction: float = 1.0,
    done: Callable[[float], object] | None = None,
) -> None:
    layout.pack(_correlations(network, x, contraction=contraction), out)
    if done is not None:
        done(1.0)


@evaluate.distances.register(Known)
def _distances(network: Network, x: Known) -> Matrix:
    return np.asarray(np.clip((1.0 - _correlations(network, x)) / 2.0, 0.0, 1.0))
