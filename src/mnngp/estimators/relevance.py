"""How much the prediction depends on each column: the mean squared gradient, in closed form.

With m(x) the posterior mean, t the features as the kernel has them before any embedding's map
(standardised columns, ranks, indicators), and g(x) = ∂m/∂t for the features of one column,

    r = mean over training rows of  g(x)ᵀ S g(x),    S the covariance of these features,

summed over the classes or targets: how much m would vary about x, in the first order, if this
column alone were drawn anew from the training values. For a number S is its variance, which is one
if the column is standardised: r is the mean square of ∂m/∂t. For a category with the level c in a
share p_c of the rows S is ``diag(p) - p pᵀ``, and

    gᵀ S g = Σ_c p_c (g_c - ḡ)²,    ḡ = Σ_c p_c g_c,

with one more level, of g = 0, for rows that have none of the features: what all levels have in
common does not count. It does not matter in which units the features are. A number with gaps has a
part in the rows that have it, and one by whether it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp._typing import Matrix, Vector
from mnngp.errors import UnavailableError
from mnngp.estimators.process import FittedProcess
from mnngp.inference.posterior import Posterior
from mnngp.kernels.embedded import EmbeddedPoints
from mnngp.kernels.input_gradient import mean_gradient
from mnngp.tables.groups import ColumnGroup

MOST_ROWS = 2000  # that gradients are taken at; of more rows, random ones
_FEWEST_ROWS = 200
_WORK = 1e10  # multiplications, some seconds: beyond it there are fewer rows


def feature_relevance(estimator: Any) -> Vector:
    """The relevance of each column that a fitted estimator was given, in the order of the columns.

    They add up to one, unless the prediction does not depend on anything: then all are zero.
    """
    if getattr(estimator.kernel_, "convolutional", False):
        raise UnavailableError(
            "feature_relevance_ is there for dense networks, not for convolutional ones, got "
            f"kernel_={estimator.kernel_!r}"
        )
    encoder = getattr(estimator, "encoder_", None)  # models that were pickled before had none
    found = np.zeros(estimator.n_features_in_)
    groups = _groups(estimator) if encoder is None else encoder.groups_
    each = squared_gradients(estimator.process_, groups, one_unit=hasattr(estimator, "classes_"))
    if encoder is None:
        found[:] = each
    else:  # the others were left out: they have none
        place = {name: number for number, name in enumerate(encoder.feature_names_in_)}
        found[[place[group.name] for group in groups]] = each
    found /= float(found.sum()) or 1.0
    found.flags.writeable = False  # it is kept, and not computed again
    return found


def column_names(estimator: Any) -> list[str]:
    """The names of the columns, or those that scikit-learn gives to columns without one."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [f"x{number}" for number in range(estimator.n_features_in_)]
    return [str(name) for name in names]


def squared_gradients(
    process: FittedProcess, groups: Sequence[ColumnGroup], *, one_unit: bool
) -> Vector:
    """The r of each group of features; each target in units of its variance, or all of one."""
    posterior, data = process.posterior, process.data
    features, share = _features(posterior), data.weight / data.weight.sum()
    chosen = _some_rows(posterior)
    gradient = np.sqrt(posterior.signal_var) * _gradient(posterior, chosen)
    variance = np.average((data.y - np.average(data.y, axis=0, weights=share)) ** 2, 0, share)
    if one_unit:
        variance[:] = variance.mean()
    gradient /= np.sqrt(np.where(variance > 0.0, variance, np.inf))
    mean = share @ features
    share_of_chosen = share[chosen] / share[chosen].sum()
    found = np.empty(len(groups))
    for number, group in enumerate(groups):
        part = slice(group.start, group.stop)
        centred = features[:, part] - mean[part]
        covariance = centred.T @ (share[:, None] * centred)
        own = gradient[:, part]
        if group.kind == "number with gaps":  # where it is missing, its stand-in means nothing
            own[:, ::2] *= (centred[chosen, 1] <= 0.0)[:, None, None]
        moved = np.einsum("ijt,jk,ikt->i", own, covariance, own, optimize=True)
        found[number] = max(float(share_of_chosen @ moved), 0.0)
    return found


def _gradient(posterior: Posterior, chosen: NDArray[np.int64]) -> Matrix:
    """As ``Posterior.gradient``, (rows, features, targets), for a signal variance of one.

    Of indicators it is what a step from one category to another changes.
    """
    size, points = posterior.inverse.chunk_size, posterior.points
    parts = [
        mean_gradient(
            posterior.network,
            points.subset(chosen[start : start + size]),
            points,
            posterior.alpha,
            posterior.beta,
            contraction=posterior.contraction,
            held=True,
        )
        for start in range(0, len(chosen), size)
    ]
    return np.concatenate(parts)


def _groups(estimator: Any) -> list[ColumnGroup]:
    """Each column by itself."""
    names = column_names(estimator)
    return [ColumnGroup(name, "number", j, j + 1) for j, name in enumerate(names)]


def _features(posterior: Posterior) -> Matrix:
    """The distinct training rows as the kernel was given them."""
    points = posterior.points
    if isinstance(points, EmbeddedPoints):
        return np.asarray(points.given, dtype=np.float64)
    lengths = np.sqrt(points.square_lengths * points.directions.shape[1])
    return np.asarray(lengths[:, None] * points.directions)


def _some_rows(posterior: Posterior) -> NDArray[np.int64]:
    """All distinct rows, or random ones, the same at each call."""
    points, (n, targets) = posterior.points, posterior.targets.shape
    width = points.directions.shape[1]
    layers = 20.0 * len(posterior.network.blocks)  # a pair takes some twenty at each
    affordable = int(_WORK / (n * (targets * width + layers)))
    most = min(n, MOST_ROWS, max(_FEWEST_ROWS, affordable))
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))
