"""Points as several networks side by side see them, and the kernel of their sum.

With ``K = Σ_p w_p K_p``, standard deviations s_p and ``S² = Σ_p w_p s_p²``, each point has a unit
vector ``r_p = √w_p s_p / S``, and the correlation of two points is ``ρ = Σ_p r_p r'_p ρ_p``. Then
``1 - Σ_p r_p r'_p = ½ |r - r'|²``, so that in the distance form

    u  =  ¼ |r - r'|² + Σ_p r_p r'_p u_p,
    1 - 2u/κ  =  Σ_p r_p r'_p (1 - 2u_p/κ) - ½ |r - r'|² (1/κ - 1),

in which nothing cancels but what is small in either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp._typing import Matrix, Vector
from mnngp.errors import InputError
from mnngp.kernels import evaluate, layout
from mnngp.kernels.points import GivenPoints, Points
from mnngp.networks.network_sum import NetworkSum


@dataclass(frozen=True, eq=False)
class SumPoints(GivenPoints):
    """The points of each network, in ``parts``, and the rows that they came from."""

    parts: tuple[Points, ...]

    def __getitem__(self, rows: slice) -> SumPoints:
        return self._some(rows, tuple(part[rows] for part in self.parts))

    def subset(self, chosen: NDArray[np.int64]) -> SumPoints:
        return self._some(chosen, tuple(part.subset(chosen) for part in self.parts))

    def _some(self, rows: Any, parts: tuple[Points, ...]) -> SumPoints:
        given = self.given[rows]
        return SumPoints(given, self.square_lengths[rows], given, parts)

    @staticmethod
    def of_parts(given: NDArray[Any], parts: Sequence[Points]) -> SumPoints:
        """Put them together; a point is at the origin if it is for all networks."""
        lengths = np.sum([part.square_lengths for part in parts], axis=0)
        return SumPoints(given, lengths, given, tuple(parts))

    def units(self, network: NetworkSum) -> Matrix:
        """R of each point, (networks, n); zeros where the function has no variance."""
        variances = self.variances(network)
        total = variances.sum(axis=0)
        return np.asarray(np.sqrt(variances / np.where(total > 0.0, total, 1.0)))

    def variances(self, network: NetworkSum) -> Matrix:
        """The variance of each network's part, (networks, n)."""
        each = zip(network.networks, network.shares, self.parts, strict=True)
        return np.array(
            [share * evaluate.diagonal(one, part).astype(np.float64) for one, share, part in each]
        )


@evaluate.diagonal.register(SumPoints)
def _diagonal(network: NetworkSum, x: SumPoints) -> Vector:
    return np.asarray(x.variances(network).sum(axis=0).astype(network.dtype))


@evaluate.matrices.register(SumPoints)
def _matrices(
    network: NetworkSum,
    x: SumPoints,
    y: SumPoints | None,
    depths: Sequence[int],
    *,
    normalized: bool = False,
) -> Iterator[tuple[int, Matrix, float]]:
    if list(depths) != [network.depth] or normalized:
        raise InputError(
            "a sum of networks has one depth and one scale: path and normalized are for each"
        )
    total: Any = 0.0
    for index, (one, share) in enumerate(zip(network.networks, network.shares, strict=True)):
        other = None if y is None else y.parts[index]
        total = total + one.dtype.type(share) * evaluate.matrix(one, x.parts[index], other)[0]
    yield network.depth, total, 0.0


@evaluate.correlations.register(SumPoints)
def _correlations(
    network: NetworkSum, x: SumPoints, y: SumPoints | None = None, *, contraction: float = 1.0
) -> Matrix:
    rows = x.units(network)
    cols = rows if y is None else y.units(network)
    result = np.zeros((len(x), cols.shape[1]))
    for index, one in enumerate(network.networks):
        other = None if y is None else y.parts[index]
        part = evaluate.correlations(one, x.parts[index], other, contraction=contraction)
        result += np.multiply.outer(rows[index], cols[index]) * part
        if contraction < 1.0:
            away = np.subtract.outer(rows[index], cols[index])
            result -= (0.5 * (1.0 / contraction - 1.0)) * away**2
    return result.astype(network.dtype, copy=False)


@evaluate.packed_correlations.register(SumPoints)
def _packed_correlations(
    network: NetworkSum,
    x: SumPoints,
    out: Matrix,
    *,
    contraction: float = 1.0,
    done: Callable[[float], object] | None = None,
) -> None:
    units, n, parts = x.units(network), len(x), len(network.networks)
    memory, stretch = np.empty_like(out), 0.5 * (1.0 / contraction - 1.0)
    out[:] = 0.0
    share = None if done is None else (lambda part: done(part / parts))
    for index, one in enumerate(network.networks):
        r = units[index]
        evaluate.packed_correlations(
            one, x.parts[index], memory, contraction=contraction, done=share
        )
        for row, columns, i, j in layout.packed_rows(n):
            target = out[row, columns]
            target += r[i] * r[j] * memory[row, columns]
            if contraction < 1.0:
                target -= stretch * (r[i] - r[j]) ** 2


@evaluate.distances.register(SumPoints)
def _distances(network: NetworkSum, x: SumPoints) -> Matrix:
    units = x.units(network)
    result = np.zeros((len(x), len(x)))
    for index, one in enumerate(network.networks):
        r = units[index]
        u = evaluate.distances(one, x.parts[index]).astype(np.float64)
        result += np.multiply.outer(r, r) * u + 0.25 * np.subtract.outer(r, r) ** 2
    return result
