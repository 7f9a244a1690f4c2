"""Columns of a table as an embedding takes them: each through a piecewise linear function.

Two versions are compared: columns standardised, and ranks among the training values, which follow
skewed amounts and are not moved by outliers. A column of two values is a category in both, and
what a table's encoder says of categories and gaps is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mnngp._typing import Matrix, Vector
from mnngp.estimators.features import Scaling
from mnngp.inference.image_networks import FEATURES, ImageSpace
from mnngp.inference.search_space import LINEAR, MaxoutSpace, SearchSpace
from mnngp.networks.embedding import Embedding

VERSIONS = ("columns", "ranks")
_WIDEST = 4.0  # standard deviations from the mean; what is beyond is taken for it
_KNOTS = 256  # of the ranks of a column, at most
_BEYOND = 1.0  # of a rank: where values that are two standard deviations beyond all others have it
WIDEST_MAP = 3000  # columns of an explicit map; its inner products would take longer than all else


@dataclass(frozen=True, eq=False)
class Curves(Scaling):
    """Each column through a piecewise linear function: that of ``knots`` and ``values``, (q, d).

    ``embedding`` takes what comes out, with whatever lengthscale.
    """

    knots: Matrix
    values: Matrix
    embedding: Embedding

    def __call__(self, X: Matrix) -> Matrix:
        columns = zip(X.T, self.knots.T, self.values.T, strict=True)
        return np.stack([np.interp(*column) for column in columns], axis=1)


def feature_versions(
    estimator: Any, space: SearchSpace, X: Matrix, weight: Vector | None
) -> tuple[SearchSpace, dict[str, Scaling]]:
    """What the kernels of an estimator may stand behind, by name, and the space with all of them.

    By what is left open: with ``features="auto"`` an embedding is compared with standardised
    columns unless the kernel is given, or rows are to be taken otherwise.
    """
    if isinstance(space, ImageSpace):
        return space, {FEATURES[0]: Scaling.of("sphere", X, weight)}
    linear: dict[str, Scaling] = {LINEAR: Scaling.of(estimator.normalize, X, weight)}
    wanted = estimator.features == "embedding"
    open_ = estimator.normalize == "standard" and not space.complete
    if not isinstance(space, MaxoutSpace) or not (
        wanted or (estimator.features == "auto" and open_)
    ):
        return space, linear
    encoder = getattr(estimator, "encoder_", None)
    versions = embedding_versions(X, weight, () if encoder is None else encoder.groups_)
    if not wanted:
        versions = {
            name: one
            for name, one in versions.items()
            if one.embedding.width(X.shape[1]) <= WIDEST_MAP
        }
    embeddings = {name: one.embedding for name, one in versions.items()}
    space = MaxoutSpace(space.given, space.dtype, embeddings, linear=not wanted)
    return space, {**({} if wanted else linear), **versions}


def embedding_versions(
    X: Matrix, weight: Vector | None, groups: Sequence[Any] = ()
) -> dict[str, Curves]:
    """What is learned of the columns, for each of ``VERSIONS``.

    ``groups`` are those of a table's encoder: which columns are indicators of what.
    """
    if weight is not None:  # rows of weight zero are as if they were not there
        X, weight = X[weight > 0.0], weight[weight > 0.0]
    share = np.full(len(X), 1.0 / len(X)) if weight is None else weight / weight.sum()
    tables = [_ranks(column, share) for column in X.T]
    gaps = tuple(group.stop - 1 for group in groups if group.kind == "number with gaps")
    categories = [(group.start, group.stop) for group in groups if group.kind == "category"]
    known = {j for start, stop in categories for j in range(start, stop)} | set(gaps)
    # a number with gaps stays one: as a category it would be there where it is missing
    numbers = known | {gap - 1 for gap in gaps}
    pairs = [j for j, (values, _) in enumerate(tables) if len(values) == 2 and j not in numbers]
    categories = sorted(categories + [(j, j + 1) for j in pairs])
    indicators = known | set(pairs)
    linear = Scaling.of("standard", X, weight)
    bound = {"columns": _WIDEST, "ranks": math.sqrt(3.0) + _BEYOND}
    versions = {}
    for name in VERSIONS:
        curves = []
        for j, (places, ranks) in enumerate(tables):
            if j in indicators:
                ends = np.array([0.0, 1.0])
                curves.append((ends if j in known else places, ends))
            elif name == "ranks":
                curves.append(_with_ends(places, ranks, linear.scale[j]))
            else:
                curves.append(_line(linear.mean[j], linear.scale[j]))
        embedding = Embedding(1.0, (-bound[name], bound[name]), tuple(categories), gaps)
        none = np.empty(0)
        longest = max(len(places) for places, _ in curves)
        knots, values = (
            np.stack([_pad(curve[part], longest) for curve in curves], axis=1) for part in (0, 1)
        )
        versions[name] = Curves(name, none, none, knots, values, embedding)
    return versions


def _ranks(column: Vector, share: Vector) -> tuple[Vector, Vector]:
    """Values, and the share of rows below each and half of its own, from -√3 to √3."""
    values, group = np.unique(column, return_inverse=True)
    own = np.bincount(group, weights=share)
    middle = math.sqrt(12.0) * (np.cumsum(own) - 0.5 * own - 0.5)
    if len(values) > _KNOTS:
        some = np.unique(np.linspace(0, len(values) - 1, _KNOTS).astype(np.int64))
        values, middle = values[some], middle[some]
    return values, middle


def _with_ends(places: Vector, ranks: Vector, scale: float) -> tuple[Vector, Vector]:
    """Ranks that go on a little beyond the values that training had: what is far outside is not
    taken for the outermost of them, and the lengthscale says how much less is known there.
    """
    if not math.isfinite(scale):
        return places, ranks
    ends = np.array([-2.0, 2.0]) * scale
    outer = places[0] + ends[0], places[-1] + ends[1]
    beyond = ranks[0] - _BEYOND, ranks[-1] + _BEYOND
    return (
        np.concatenate([outer[:1], places, outer[1:]]),
        np.concatenate([beyond[:1], ranks, beyond[1:]]),
    )


def _line(mean: float, scale: float) -> tuple[Vector, Vector]:
    """Standardised, up to the widest; nothing of a column without variation."""
    if not math.isfinite(scale):
        return np.array([mean, mean]), np.zeros(2)
    ends = np.array([-_WIDEST, _WIDEST])
    return mean + scale * ends, ends


def _pad(values: Vector, length: int) -> Vector:
    return np.concatenate([values, np.full(length - len(values), values[-1])])
