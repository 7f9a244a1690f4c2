"""Derivatives of functions ``Σ_j α_j k(x, x_j)`` in their points x, by one adjoint pass.

The compiled adjoint gives for each pair the derivatives of its entry in the covariance behind the
first affine map, ``C_ij = b + w x_i·x_j / d``, and in the logarithm of v_i = C_ii. They do not
depend on the weights α, so one pass serves all targets; the chain rule from C and v to x_i is two
products of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mnngp._system import threads
from mnngp._system.compiled import compiled
from mnngp._typing import Array, Matrix, Vector
from mnngp.kernels.adjoint import STRIP, Layers, begin, pull_gram, pull_of, pull_step
from mnngp.kernels.embedded import EmbeddedPoints
from mnngp.kernels.evaluate import correlation_values
from mnngp.kernels.forward import REFINE, way_of
from mnngp.kernels.gradient import rates
from mnngp.kernels.points import ByKind, Points
from mnngp.kernels.pointwise import Diagonal, Step, behind
from mnngp.kernels.program import pack, side
from mnngp.networks.network import Network

_TASK = 64  # rows a thread takes at a time
# The work at a layer of a pair, in what ``threads`` counts.
_EFFORT = 4.0


@ByKind
def mean_gradient(
    network: Network,
    x: Points,
    y: Points,
    alpha: Matrix,
    beta: Vector,
    *,
    contraction: float = 1.0,
    held: bool = False,
) -> Matrix:
    """The derivatives of ``s_x (β + Σ_j A_xj α_j)`` in x, (m, d, targets).

    A are the ``correlations`` of x with y and s the ``standard_deviations``; ``alpha`` is (n,
    targets), ``beta`` (targets,). Where the function has a kink (a maxout network's tangent kernel
    has one at each point of y) it is the mean of both sides.

    ``held`` is for embedded points, which have one length as long as indicators are 0 or 1: then
    the derivatives are those at this length, so that the difference of two indicators' is what a
    step from one category to the other changes, to the first order in 1/f. Else they are those of
    the function between the categories, where rows are brought to that length.
    """
    pairs = _Pairs(network, x, y, contraction)
    parts = [
        pairs.along(weights) + pairs.outward(weights, intercept)
        for weights, intercept in zip(alpha.T, beta, strict=True)
    ]
    return np.stack(parts, axis=-1)


@mean_gradient.register(EmbeddedPoints)
def _embedded(
    network: Network,
    x: EmbeddedPoints,
    y: Points,
    alpha: Matrix,
    beta: Vector,
    *,
    contraction: float = 1.0,
    held: bool = False,
) -> Matrix:
    """In the features before the map, at one length: neither β moves nor a variance."""
    embedding = network.embedding
    assert embedding is not None  # or else there are no such points
    lengths = np.linalg.norm(embedding(x.given), axis=1)
    shrinkage = np.sqrt(x.directions.shape[1]) / lengths
    unit = x.directions.astype(np.float64)
    parts = []
    for of_map in map_gradients(network, x, y, alpha, contraction=contraction):
        if held:
            parts.append(embedding.pull_back(x.given, of_map))
            continue
        outward = np.einsum("ij,ij->i", unit, of_map)  # the row itself has one length
        across = (of_map - unit * outward[:, None]) * shrinkage[:, None]
        parts.append(embedding.pull_back(x.given, across))
    return np.stack(parts, axis=-1)


def map_gradients(
    network: Network, x: EmbeddedPoints, y: Points, alpha: Matrix, *, contraction: float = 1.0
) -> Iterator[Matrix]:
    """As ``mean_gradient``, in the columns of the explicit map at one length, (m, width): one
    target after another.
    """
    pairs = _Pairs(network, x, y, contraction)
    return (pairs.along(weights) for weights in alpha.T)


class _Pairs:
    """The derivatives of all entries ``A_ij``, times and over s_i where that moves."""

    def __init__(self, network: Network, x: Points, y: Points, contraction: float) -> None:
        count = len(x)
        steps, points = behind(np.concatenate([x.square_lengths, y.square_lengths]), network.blocks)
        self.steps, self.rows, self.cols = steps, slice(0, count), slice(count, None)
        self.x, self.y = x, y
        layers = _layers(network, steps, points, (x, y), contraction)
        cosines = np.matmul(x.directions, y.directions.T)
        self.gram, self.own = np.empty_like(cosines), np.empty_like(cosines)

        def task(first: int) -> None:
            entries(layers, cosines, first, min(first + _TASK, count), self.gram, self.own)

        work = _EFFORT * cosines.size * len(steps)
        threads.parallel_for(task, range(0, count, _TASK), work=work)
        deviation = np.ldexp(np.sqrt(points.variance[self.rows]), points.exponent)
        # of f in C, over √v_i √v_j; z = √(w/v) x is of the size of one whatever x is
        width = x.directions.shape[1]
        self.scale = (deviation * steps[0].shrinkage[self.rows] / width)[:, None]
        self.growth = np.prod([step.growth[self.rows] for step in steps[1:]], axis=0)

    def along(self, weights: Vector) -> Matrix:
        """By what the covariances with y have of x: (m, width)."""
        z = self._z(self.y, self.cols).astype(self.gram.dtype)
        weighed = self.gram * weights.astype(self.gram.dtype)
        return np.asarray(self.scale * (weighed @ z), dtype=np.float64)

    def outward(self, weights: Vector, intercept: float) -> Matrix:
        """By what the variance at x has of it, (m, width): in the direction of each row."""
        of_variance = self.own @ weights + 0.5 * intercept * self.growth
        return np.asarray(self.scale * (2.0 * of_variance[:, None] * self._z(self.x, self.rows)))

    def _z(self, points: Points, part: slice) -> Matrix:
        lengths = np.sqrt(points.directions.shape[1]) * self.steps[0].a[part]
        return np.asarray(lengths[:, None] * points.directions)


def _layers(
    network: Network,
    steps: Sequence[Step],
    points: Diagonal,
    sides: tuple[Points, Points],
    contraction: float,
) -> Layers:
    """The network for rows whose scale moves with their variance, and columns whose does not."""
    dtype, count = network.dtype, len(sides[0])
    values = correlation_values(network, points, contraction)
    scale = values.scale.copy()
    scale[:count] = points.variance[:count] > 0.0  # s itself is multiplied with in the end
    parts = slice(0, count), slice(count, None)
    rows, cols = (
        side(steps, one.directions, scale, part) for one, part in zip(sides, parts, strict=True)
    )
    return Layers(
        pack(steps, dtype, tangent=network.tangent, derivatives=True),
        rows,
        cols,
        rates(steps, dtype, parts[0]),
        rates(steps, dtype, parts[1]),
        dtype.type(values.stretch),
        dtype.type(REFINE[dtype]),
        True,
    )


@compiled
def entries(layers: Layers, cosines: Array, first: int, last: int, gram: Array, own: Array) -> None:
    """The derivatives of each entry of some rows in C_ij, over √v_i √v_j, and in log v_i.

    The latter with the covariances held fixed.
    """
    steps = layers.program.kind.shape[0]
    way = way_of(np.empty((5 * (steps + 1) + 3, STRIP), cosines.dtype), steps + 1)
    pulls = np.empty((6, STRIP), cosines.dtype)
    for j0 in range(0, cosines.shape[1], STRIP):
        end = min(j0 + STRIP, cosines.shape[1])
        width = end - j0
        for i in range(first, last):
            pull = pull_of(pulls, width)
            pull.weight[:] = 1.0
            begin(layers, cosines[i, j0:end], i, j0, way, pull)
            for step in range(steps - 1, 0, -1):
                pull_step(layers, step, i, j0, way, pull)
            pull_gram(way.u[1, :width], pull)
            for j in range(width):
                gram[i, j0 + j] = pull.weight[j]
                own[i, j0 + j] = pull.row[j] + (pull.bias[j] - pull.col[j])
