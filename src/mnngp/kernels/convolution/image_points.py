"""Images as a kind of points, for which the functions of ``evaluate`` have versions here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp._system import threads
from mnngp._typing import Matrix, Vector
from mnngp.kernels import evaluate
from mnngp.kernels.convolution.maps import (
    Frame,
    Own,
    batches,
    beside_each_other,
    joined,
    largest_variances,
    own,
    program,
    tables,
    with_partners,
)
from mnngp.kernels.convolution.pairs import pairs_of_images, work_of
from mnngp.kernels.convolution.stages import Maps
from mnngp.kernels.convolution.vectors import LANES
from mnngp.kernels.points import Points
from mnngp.networks.convolutional import ConvolutionalNetwork

_TILE = 1 << 25  # bytes of the tables of a tile's rows
_BATCH = 4 * LANES  # images whose tables a thread makes at a time
_TASK = 3e8  # updates of a task: some tenths of a second


@dataclass(frozen=True, eq=False)
class Images(Points):
    """Images, (n, height, width, channels); signals have a width of one.

    ``directions`` are the pixels as they are, (n, height · width · channels).
    """

    pixels: Matrix
    signal: bool = False
    _own: dict[ConvolutionalNetwork, Own] = field(default_factory=dict, repr=False)
    _flipped: dict[ConvolutionalNetwork, tuple[Vector, Vector, Vector]] = field(
        default_factory=dict, repr=False
    )

    @staticmethod
    def of_pixels(pixels: NDArray[Any], *, signal: bool = False) -> Images:
        """Images that are checked already."""
        flat = pixels.reshape(len(pixels), -1)
        lengths = np.einsum("ij,ij->i", flat, flat, dtype=np.float64) / flat.shape[1]
        return Images(flat, lengths, pixels, signal)

    @property
    def rows(self) -> NDArray[Any]:
        return self.pixels[:, :, 0] if self.signal else self.pixels

    def __getitem__(self, rows: slice) -> Images:
        return self._some(rows)

    def subset(self, chosen: NDArray[np.int64]) -> Images:
        return self._some(chosen)

    def _some(self, rows: Any) -> Images:
        known = {network: part[rows] for network, part in self._own.items()}
        return Images(
            self.directions[rows], self.square_lengths[rows], self.pixels[rows], self.signal, known
        )

    @cached_property
    def mirrored(self) -> Images:
        """The mirror images; of signals the same backwards."""
        turned = self.pixels[:, ::-1] if self.signal else self.pixels[:, :, ::-1]
        return Images.of_pixels(np.ascontiguousarray(turned), signal=self.signal)

    def frame(self, network: ConvolutionalNetwork) -> Frame:
        """The network for images of this shape."""
        return Frame(network, self.pixels.shape[1:3], self.signal)

    def own(self, network: ConvolutionalNetwork) -> Own:
        """What the network makes of each image alone."""
        if network not in self._own:
            self._own[network] = own(self.frame(network), self.pixels)
        return self._own[network]


Done = Callable[[float], object] | None


class _Readouts:
    """The readout of D and of T for all pairs, (2, n, m); of a symmetric matrix half the pairs."""

    def __init__(
        self, network: ConvolutionalNetwork, x: Images, y: Images | None, done: Done
    ) -> None:
        self.frame, self.done, self.symmetric = x.frame(network), done, y is None
        self.rows, self.cols = x, x if y is None else y
        self.pooled = x.own(network).pooled, self.cols.own(network).pooled
        self.largest = largest_variances(
            self.frame,
            list(zip((x.pixels, self.cols.pixels), self.pooled, strict=True)),
        )
        self.program, self.plan = program(self.frame, self.largest), self.frame.plan()
        self.out = np.empty((2, len(x), len(self.cols)), dtype=network.dtype)

    def run(self) -> Matrix:
        n, m = self.out.shape[1:]
        tile = LANES * max(1, _TILE // (LANES * self._bytes()))
        for left in range(0, m, tile):
            right = min(left + tile, m)
            cols = beside_each_other(self._tables(1, slice(left, right)))
            for top in range(0, min(n, right) if self.symmetric else n, tile):
                bottom = min(top + tile, n)
                rows = self._tables(0, slice(top, bottom))
                tasks = list(self._tasks((top, bottom), (left, right)))
                run = partial(self._task, rows, cols, top, left)
                work = self.plan.updates * (bottom - top) * (right - left)
                threads.parallel_for(run, tasks, work=work)
        return self.out

    def _bytes(self) -> int:
        """Of the tables of an image."""
        sample = tables(self.frame, self.rows.pixels[:1], self.pooled[0][:1], self.largest)
        return int(sum(part.nbytes for part in sample))

    def _tables(self, side: int, part: slice) -> Maps:
        pixels, pooled = (self.rows, self.cols)[side].pixels[part], self.pooled[side][part]
        some = list(batches(len(pixels), _BATCH))
        found: dict[int, Maps] = {}

        def make(rows: slice) -> None:
            found[rows.start] = tables(self.frame, pixels[rows], pooled[rows], self.largest)

        threads.parallel_for(make, some, work=20.0 * pixels.size * len(self.frame.network.blocks))
        return joined([found[rows.start] for rows in some])

    def _tasks(self, rows: tuple[int, int], cols: tuple[int, int]) -> Iterator[tuple[slice, int]]:
        """Some rows and a block of columns each, where there is something of it to do."""
        height = max(1, int(_TASK / (self.plan.updates * LANES)))
        height = min(height, -(-(rows[1] - rows[0]) // threads.count()))
        for left in range(*cols, LANES):
            bottom = min(rows[1], left + LANES) if self.symmetric else rows[1]
            for top in range(rows[0], bottom, height):
                yield slice(top, min(top + height, bottom)), left

    def _task(self, rows: Maps, cols: Maps, top: int, left: int, task: tuple[slice, int]) -> None:
        part, column = task
        wanted = np.empty((part.stop - part.start, 2), dtype=np.int64)
        wanted[:, 0] = np.arange(part.start, part.stop) - top
        wanted[:, 1] = (column - left) // LANES
        found = np.empty((2, len(wanted), LANES), dtype=self.out.dtype)
        nothing = np.empty((len(wanted), 0), dtype=self.out.dtype)
        memory = work_of(self.plan, self.program)
        pairs_of_images(self.plan, self.program, rows, cols, wanted, memory, found, nothing)
        self._put(found, part, column)
        if self.done is not None:
            self.done(self._share(part, column))

    def _put(self, found: Matrix, part: slice, column: int) -> None:
        """Write some rows of a block of columns; of a symmetric matrix, what is above the diagonal.

        So no two tasks write to one place, and both halves are the same to the last digit.
        """
        stop = min(column + LANES, self.out.shape[2])
        above = slice(part.start, min(part.stop, column) if self.symmetric else part.stop)
        count = max(0, above.stop - above.start)
        self.out[:, above, column:stop] = found[:, :count, : stop - column]
        if not self.symmetric:
            return
        self.out[:, column:stop, above] = found[:, :count, : stop - column].transpose(0, 2, 1)
        for row in range(max(part.start, column), part.stop):
            values = found[:, row - part.start, row - column : stop - column]
            self.out[:, row, row:stop] = self.out[:, row:stop, row] = values

    def _share(self, rows: slice, column: int) -> float:
        """What part of all a task is."""
        n, m = self.out.shape[1:]
        count = (rows.stop - rows.start) * (min(column + LANES, m) - column)
        return float(count / (n * (n + LANES) / 2.0 if self.symmetric else n * m))


@dataclass(frozen=True, eq=False)
class _Gaussian:
    """What is known of the outputs of some images with others.

    Attributes
    ----------
    variance, other_variance : arrays (n,), (m,)
        K_ii.
    distance : array (n, m)
        ``½ K_ii + ½ K_jj - K_ij``, in the kernel's type.
    tangent : array (n, m)
        What the tangent kernel adds to K_ij.
    """

    variance: Vector
    other_variance: Vector
    distance: Matrix
    tangent: Matrix

    @property
    def covariance(self) -> Matrix:
        dtype = self.distance.dtype
        half = 0.5 * self.variance.astype(dtype), 0.5 * self.other_variance.astype(dtype)
        result = np.asarray(half[0][:, None] + half[1] - self.distance)
        result[self.variance == 0.0] = 0.0  # to the last digit
        result[:, self.other_variance == 0.0] = 0.0
        return result

    @property
    def u(self) -> Matrix:
        """``(1 - ρ)/2`` of the covariance, and ½ where a variance is zero."""
        roots = [np.sqrt(part) for part in (self.variance, self.other_variance)]
        apart = (roots[0][:, None] - roots[1]).astype(self.distance.dtype)
        both = (roots[0][:, None] * roots[1]).astype(self.distance.dtype)
        u = np.divide(
            self.distance - 0.5 * apart**2, 2.0 * both, out=np.full_like(both, 0.5), where=both > 0
        )
        return np.asarray(np.clip(u, 0.0, 1.0))


def _alone(network: ConvolutionalNetwork, x: Images) -> tuple[Vector, Vector]:
    """K_ii, and what the tangent kernel adds to it."""
    if network.flips:
        return _flipped_alone(network, x)[:2]
    dense, sums = network.affine[-1], x.own(network)
    variance = dense.bias_var + dense.weight_var * (sums.variance - sums.distance)
    return np.maximum(variance, 0.0), dense.weight_var * sums.tangent


def _gaussian(
    network: ConvolutionalNetwork, x: Images, y: Images | None, done: Done = None
) -> _Gaussian:
    if network.flips:
        return _flipped(network, x, y, done)
    other, weight = x if y is None else y, network.affine[-1].weight_var
    found = _Readouts(network, x, y, done).run()
    halves = [0.5 * side.own(network).distance for side in (x, other)]
    less = (halves[0][:, None] + halves[1]).astype(found.dtype)
    distance, tangent = weight * np.maximum(found[0] - less, 0.0), weight * found[1]
    if y is None:
        np.fill_diagonal(distance, 0.0)
        np.fill_diagonal(tangent, _alone(network, x)[1])
    return _Gaussian(_alone(network, x)[0], _alone(network, other)[0], distance, tangent)


# --- the mean over flips --------------------------------------------------------------------------


def _flipped_alone(network: ConvolutionalNetwork, x: Images) -> tuple[Vector, Vector, Vector]:
    """K_ii, its tangent's part, and half the mean distance of an image from its two versions."""
    if network in x._flipped:
        return x._flipped[network]
    plain, weight = replace(network, flips=False), network.affine[-1].weight_var
    sides = [(side.pixels, side.own(plain).pooled) for side in (x, x.mirrored)]
    between = with_partners(x.frame(plain), *sides)
    own_distance = [0.5 * side.own(plain).distance for side in (x, x.mirrored)]
    distance = weight * np.maximum(between[0] - own_distance[0] - own_distance[1], 0.0)
    pairs = [_alone(plain, side) for side in (x, x.mirrored)]
    variance, tangent = (0.5 * (one + other) for one, other in zip(*pairs, strict=True))
    x._flipped[network] = (
        np.maximum(variance - 0.5 * distance, 0.0),
        0.5 * (tangent + weight * between[1]),
        0.25 * distance,
    )
    return x._flipped[network]


def _flipped(network: ConvolutionalNetwork, x: Images, y: Images | None, done: Done) -> _Gaussian:
    """A mean over both versions of both images; over those of one if the network mirrors them."""
    plain, other = replace(network, flips=False), x if y is None else y
    pairs: list[tuple[Images, Images | None]] = [(x, y), (x, other.mirrored)]
    if not network.mirrors(x.pixels.shape[1:3], signal=x.signal):
        pairs += [(x.mirrored, other), (x.mirrored, None if y is None else y.mirrored)]
    part = None if done is None else (lambda share: done(share / len(pairs)))
    found = [_gaussian(plain, *pair, part) for pair in pairs]
    distance = np.mean([each.distance for each in found], axis=0, dtype=network.dtype)
    tangent = np.mean([each.tangent for each in found], axis=0, dtype=network.dtype)
    mine, theirs = (_flipped_alone(network, side) for side in (x, other))
    distance -= (mine[2][:, None] + theirs[2]).astype(network.dtype)
    distance = np.maximum(distance, 0.0)
    if y is None:
        distance = 0.5 * (distance + distance.T)  # pairs with mirror images were all computed
        tangent = 0.5 * (tangent + tangent.T)
        np.fill_diagonal(distance, 0.0)
        np.fill_diagonal(tangent, mine[1])
    return _Gaussian(mine[0], theirs[0], distance, tangent)


# --- versions of ``evaluate`` ---------------------------------------------------------------------


@evaluate.diagonal.register(Images)
def _diagonal(network: ConvolutionalNetwork, x: Images) -> Vector:
    variance, tangent = _alone(network, x)
    return np.asarray(variance + tangent if network.tangent else variance).astype(network.dtype)


@evaluate.matrices.register(Images)
def _matrices(
    network: ConvolutionalNetwork,
    x: Images,
    y: Images | None,
    depths: Sequence[int],
    *,
    normalized: bool = False,
) -> Iterator[tuple[int, Matrix, float]]:
    for depth in depths:
        part = network.up_to(depth)
        found = _gaussian(part, x, y)
        result = found.covariance + found.tangent if network.tangent else found.covariance
        shift = 0
        if normalized:
            largest = float(max(found.variance.max(), found.other_variance.max()))
            shift = math.frexp(largest)[1] // 2 if largest > 0.0 else 0
            result = np.ldexp(result, -2 * shift)
        yield depth, result, shift * math.log(4.0)


@evaluate.correlations.register(Images)
def _correlations(
    network: ConvolutionalNetwork,
    x: Images,
    y: Images | None = None,
    *,
    contraction: float = 1.0,
    done: Done = None,
) -> Matrix:
    found = _gaussian(network, x, y, done)
    if network.tangent:
        roots = [np.sqrt(_diagonal(network, side)) for side in (x, x if y is None else y)]
        both = roots[0][:, None] * roots[1]
        theta = found.covariance + found.tangent
        rho = np.divide(theta, both, out=np.zeros_like(theta), where=both > 0.0)
        return np.asarray(1.0 - (1.0 - rho) / network.dtype.type(contraction))
    result = 1.0 - network.dtype.type(2.0 / contraction) * found.u
    dead = found.variance[:, None] * found.other_variance == 0.0
    return np.asarray(np.where(dead, network.dtype.type(0.0), result))


@evaluate.packed_correlations.register(Images)
def _packed_correlations(
    network: ConvolutionalNetwork,
    x: Images,
    out: Matrix,
    *,
    contraction: float = 1.0,
    done: Done = None,
) -> None:
    whole = _correlations(network, x, contraction=contraction, done=done)
    half, odd = (len(x) + 1) // 2, len(x) % 2
    for row in range(half):
        out[row, 1 - odd + row :] = whole[row, row:]
        last = len(x) // 2 + row
        out[row, : last - half + 1] = whole[last, half : last + 1]


@evaluate.distances.register(Images)
def _distances(network: ConvolutionalNetwork, x: Images) -> Matrix:
    return _gaussian(network, x, None).u
