"""What each image has of its own: variances at every position, layer by layer.

With V the variance before a convolution, ``σ² = b + w/k² Σ V`` over its windows, and behind the
activation V is ``M σ²``, or ``Σ c_k(σ²)²`` of a smooth one. A pooling leaves the mean of V over its
window less 2E, where E is half the mean of the image's own distances D(p, p') in the window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mnngp._system import threads
from mnngp._typing import Matrix, Vector
from mnngp.activations import HomogeneousActivation, SmoothActivation
from mnngp.activations.hermite import Expansion
from mnngp.activations.profile import Profile, linear_profile
from mnngp.errors import ScaleError
from mnngp.kernels import strips
from mnngp.kernels.convolution.geometry import Plan, plan, sections
from mnngp.kernels.convolution.pairs import aligned, pairs_of_images, work_of
from mnngp.kernels.convolution.stages import Maps
from mnngp.kernels.convolution.vectors import LANES
from mnngp.kernels.pointwise import HermiteStep, HomogeneousStep, Step
from mnngp.kernels.program import pack
from mnngp.kernels.strips import Program
from mnngp.networks.convolutional import ConvolutionalNetwork, Place
from mnngp.networks.layers import Block, Conv, Pair

# Rounding of sums over positions is larger than the 3e-8 that dense layers have in float32.
_TOLERANCE = {np.dtype(np.float64): 1e-15, np.dtype(np.float32): 6e-8}
_BATCH = 32  # images that are taken through a network with themselves at a time: two blocks


@dataclass(frozen=True)
class Frame:
    """A network for images of one shape."""

    network: ConvolutionalNetwork
    shape: Pair
    signal: bool

    def plan(self, poolings: int | None = None) -> Plan:
        """What has to be done."""
        return plan(self.network, self.shape, self.signal, poolings)

    @property
    def smooth(self) -> bool:
        """Whether an activation is, and its coefficients depend on the variance."""
        return any(isinstance(one.activation, SmoothActivation) for one in self.network.blocks)


@dataclass(frozen=True, eq=False)
class Own:
    """Sums over each image's own pairs of positions, float64.

    Attributes
    ----------
    pooled : array (n, …)
        E behind each pooling.
    distance, tangent : arrays (n,)
        The readout of D and T of the image with itself.
    variance : array (n,)
        The readout of V at equal positions.
    """

    pooled: Matrix
    distance: Vector
    tangent: Vector
    variance: Vector

    def __getitem__(self, rows: slice | Vector) -> Own:
        return Own(self.pooled[rows], self.distance[rows], self.tangent[rows], self.variance[rows])


@dataclass(frozen=True, eq=False)
class Variances:
    """The variances of some images: (n, height, width) before and behind every convolution."""

    before: list[Matrix]
    behind: list[Matrix]
    last: Matrix


def variances(frame: Frame, pixels: Matrix, pooled: Matrix) -> Variances:
    """Through all layers for which ``pooled`` has what poolings take off."""
    v, index, start = np.mean(pixels.astype(np.float64) ** 2, axis=3), 0, 0
    before, behind = [], []
    network = frame.network
    for part in sections(network, frame.shape, frame.signal):
        for place in part.convolutions:
            block = network.blocks[index]
            scale = block.weight_var / (place.size[0] * place.size[1])
            before.append(v)
            behind.append(block.bias_var + scale * window_sums(v, place))
            v, index = _activated(block, behind[-1]), index + 1
        count = 0 if part.pool is None else part.pool.behind[0] * part.pool.behind[1]
        if part.pool is None or start + count > pooled.shape[1]:
            break
        less = pooled[:, start : start + count].reshape(-1, *part.pool.behind)
        v = window_sums(v, part.pool) / (part.pool.size[0] * part.pool.size[1]) - 2.0 * less
        v, start = np.maximum(v, 0.0), start + count
    return Variances(before, behind, v)


def window_sums(v: Matrix, place: Place) -> Matrix:
    """Sums over the windows of a layer, (n, height, width)."""
    circular = isinstance(place.layer, Conv) and place.layer.padding == "circular"
    (high, wide), (down, right) = place.behind, place.stride
    margins = [(0, 0)]
    for axis in (0, 1):
        seen = (place.behind[axis] - 1) * place.stride[axis] + place.size[axis]
        margins.append((place.pad[axis], max(0, seen - place.pad[axis] - place.before[axis])))
    padded = np.pad(v, margins, mode="wrap") if circular else np.pad(v, margins)
    total = np.zeros((len(v), high, wide))
    for y in range(place.size[0]):
        for x in range(place.size[1]):
            total += padded[
                :, y : y + (high - 1) * down + 1 : down, x : x + (wide - 1) * right + 1 : right
            ]
    return total


def _activated(block: Block, v: Matrix) -> Matrix:
    unit = block.activation
    if unit is None:
        return v
    if isinstance(unit, SmoothActivation):
        return unit.variance(v.reshape(-1)).reshape(v.shape)
    return _moment(block) * v


def _moment(block: Block) -> float:
    table = getattr(block.activation, "table", None)
    return float(table[-1]) if table is not None else _profile(block).second_moment


def _profile(block: Block) -> Profile:
    unit = block.activation
    return unit.profile if isinstance(unit, HomogeneousActivation) else linear_profile()


def steps(frame: Frame, largest: list[float]) -> list[Step]:
    """What each convolution's activation does; ``largest`` are the largest variances before it."""
    none, reach = np.empty(0), 1.0
    found: list[Step] = []
    common = {"a": none, "p": none, "r": none, "beta": none, "shrinkage": none}
    for block, most in zip(frame.network.blocks[:-1], largest, strict=True):
        unit = block.activation
        if isinstance(unit, SmoothActivation):
            expansion: Expansion = unit.expansion(most)
            terms = len(expansion.degrees.values)
            found.append(
                HermiteStep(
                    strips.HERMITE,
                    reach=reach,
                    expansion=expansion,
                    reference=np.zeros(terms),
                    deviation=np.empty((terms, 0)),
                    variance=none,
                    **common,
                )
            )
            reach = 1.0
            continue
        table: Vector | None = getattr(unit, "table", None)
        profile = None if table is not None else _profile(block)
        if table is not None:
            kind, nonnegative = strips.TABLE, bool(table.min() >= 0.0)
        elif profile is not None:
            near = strips.NEAR if reach <= 0.5 else strips.WHOLE
            kind, nonnegative = strips.LINEAR if profile.linear else near, profile.nonnegative
        found.append(
            HomogeneousStep(
                kind,
                reach=reach,
                second_moment=_moment(block),
                slope_at_one=0.0 if profile is None else profile.slope_at_one,
                profile=profile,
                table=table,
                **common,
            )
        )
        if profile is None or not profile.linear:
            reach = 0.5 if nonnegative else 1.0
    return found


def references(frame: Frame) -> list[float]:
    """A standard deviation behind each convolution that is typical of the network.

    Differences of standard deviations are taken of what they are off it: where a deep network has
    moved all of them together, that keeps the digits of their differences.
    """
    v, found = np.ones((1, 1, 1)), []
    for block in frame.network.blocks[:-1]:
        v = np.minimum(block.bias_var + block.weight_var * v, 1e100)
        found.append(float(np.sqrt(v[0, 0, 0])))
        v = _activated(block, v)
    return found


def largest_variances(frame: Frame, sets: list[tuple[Matrix, Matrix]]) -> list[float]:
    """The largest variance behind each convolution, where a smooth activation needs to know.

    ``sets`` are pixels, and what poolings take off.
    """
    found = np.ones(len(frame.network.blocks) - 1)
    for pixels, pooled in sets if frame.smooth else []:
        for rows in batches(len(pixels)):
            for index, part in enumerate(variances(frame, pixels[rows], pooled[rows]).behind):
                found[index] = max(found[index], part.max())
    return [float(value) for value in found]


def batches(count: int, size: int = 8 * _BATCH) -> Iterator[slice]:
    """Slices of at most ``size``."""
    return (slice(start, start + size) for start in range(0, count, size))


def program(frame: Frame, largest: list[float]) -> Program:
    """The steps, packed."""
    network = frame.network
    return pack(
        steps(frame, largest),
        network.dtype,
        tangent=network.tangent,
        tolerance=_TOLERANCE[network.dtype],
    )


def tables(frame: Frame, pixels: Matrix, pooled: Matrix, largest: list[float]) -> Maps:
    """What the compiled pass needs of some images, (n, …) each."""
    n, dtype = len(pixels), frame.network.dtype
    found = variances(frame, pixels, pooled)
    with np.errstate(over="ignore", divide="ignore"):
        sigmas = [np.sqrt(part).reshape(n, -1) for part in found.behind]
        off = [sigma - ref for sigma, ref in zip(sigmas, references(frame), strict=False)]
        inverse = [np.where(sigma > 0.0, 1.0 / (np.sqrt(2.0) * sigma), 0.0) for sigma in sigmas]
    hermite: list[Matrix] = []
    start = np.zeros(len(largest), dtype=np.int64)
    for index, step in enumerate(steps(frame, largest)[: len(sigmas)]):
        if isinstance(step, HermiteStep):
            start[index] = sum(part.shape[1] for part in hermite)
            c = step.expansion.coefficients(found.behind[index].reshape(-1))
            positions = sigmas[index].shape[1]
            hermite.append(c.reshape(n, positions, -1).transpose(0, 2, 1).reshape(n, -1))
    channels = pixels.shape[3]
    flat = pixels.reshape(n, -1, channels).transpose(0, 2, 1) / np.sqrt(2.0 * channels)
    none = np.empty((n, 0))

    def flat_maps(parts: list[Matrix]) -> Matrix:
        return np.concatenate([*parts, none], axis=1).astype(dtype)

    result = Maps(
        np.ascontiguousarray(flat, dtype=dtype),
        flat_maps([0.5 * part.reshape(n, -1) for part in found.before]),
        flat_maps(off),
        flat_maps(inverse),
        flat_maps(hermite),
        start,
        pooled.astype(dtype),
    )
    if not all(np.isfinite(part).all() for part in (result.before, result.off, result.inverse)):
        raise ScaleError(
            f"the variances in {frame.network} do not fit {dtype}: scale the pixels to the size of "
            "one, or choose weight_var nearer the activation's critical_weight_var"
        )
    return result


def beside_each_other(maps: Maps, *, repeated: bool = False) -> Maps:
    """Blocks of ``LANES`` images side by side, the last block filled up with the last image.

    Or each image ``repeated`` in all lanes of a block of its own.
    """
    count = len(maps.before)
    if repeated:
        chosen = np.repeat(np.arange(count), LANES).reshape(-1, LANES)
    else:
        chosen = np.minimum(np.arange(-(-count // LANES) * LANES), count - 1).reshape(-1, LANES)

    def lanes(part: Matrix) -> Matrix:
        moved = np.moveaxis(part[chosen], 1, -1)
        to = aligned(moved.size, part.dtype).reshape(moved.shape)
        to[...] = moved
        return np.asarray(to.reshape(*moved.shape[:-2], -1))

    parts = {name: getattr(maps, name) for name in Maps._fields if name != "hermite_start"}
    return maps._replace(**{name: lanes(part) for name, part in parts.items()})


def joined(parts: list[Maps]) -> Maps:
    """The blocks of all parts."""
    if len(parts) == 1:
        return parts[0]
    names = [name for name in Maps._fields if name != "hermite_start"]
    return parts[0]._replace(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    )


def own(frame: Frame, pixels: Matrix) -> Own:
    """Take each image through the network with itself."""
    network, n = frame.network, len(pixels)
    pooled, whole = np.empty((n, 0)), frame.plan()
    for pooling in range(len(whole.pools)):
        _, left = _with_partners(frame, frame.plan(pooling + 1), (pixels, pooled))
        pooled = np.concatenate([pooled, 0.5 * left], axis=1)
    marginal = np.outer(whole.down.sum(axis=0), whole.right.sum(axis=0)).astype(np.float64)
    variance = np.concatenate(
        [
            np.einsum("nyx,yx->n", variances(frame, pixels[rows], pooled[rows]).last, marginal)
            for rows in batches(n)
        ]
    )
    if len(whole.wanted) == 1 and not network.tangent:  # D(p, p) is zero
        return Own(pooled, np.zeros(n), np.zeros(n), variance)
    sums = with_partners(frame, (pixels, pooled))
    return Own(pooled, sums[0], sums[1], variance)


def with_partners(frame: Frame, *sides: tuple[Matrix, Matrix]) -> Matrix:
    """The readout of D and T of each image with its partner, (2, n).

    Of both sides the pixels, and what poolings take off.
    """
    return _with_partners(frame, frame.plan(), *sides)[0]


def _with_partners(
    frame: Frame, part: Plan, *sides: tuple[Matrix, Matrix]
) -> tuple[Matrix, Matrix]:
    """What a plan makes of each image and its partner, or of each image alone.

    The readout (2, n), and what its last pooling leaves (n, positions).
    """
    n, dtype = len(sides[0][0]), frame.network.dtype
    most = largest_variances(frame, list(sides))
    packed, positions = program(frame, most), 0
    if len(part.down) == 1 and len(part.pools):
        positions = int(np.prod(part.pool_shape[-1]))
    sums, left = np.empty((2, n)), np.empty((n, positions))

    def task(rows: slice) -> None:
        mine, theirs = (
            tables(frame, pixels[rows], pooled[rows], most) for pixels, pooled in (sides * 2)[:2]
        )
        images, theirs = len(mine.before), beside_each_other(theirs, repeated=frame.smooth)
        if not frame.smooth:  # whose pass takes one image at a time
            mine = beside_each_other(mine)
        count = len(theirs.before)
        out = np.empty((2, count, LANES), dtype=dtype)
        stored = np.empty((count, positions * LANES), dtype=dtype)
        wanted = np.repeat(np.arange(count), 2).reshape(-1, 2)
        memory = work_of(part, packed)
        pairs_of_images(part, packed, mine, theirs, wanted, memory, out, stored)
        each = stored.reshape(count, positions, LANES)
        if frame.smooth:
            sums[:, rows], left[rows] = out[:, :, 0], each[:, :, 0]
        else:
            sums[:, rows] = out.reshape(2, -1)[:, :images]
            left[rows] = each.transpose(0, 2, 1).reshape(count * LANES, positions)[:images]

    work = part.updates * n * (LANES if frame.smooth else 1)
    threads.parallel_for(task, list(batches(n, _BATCH)), work=work)
    return sums, left
