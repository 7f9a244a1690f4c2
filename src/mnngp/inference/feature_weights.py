"""Shares of the features of an embedding, by how much a first fit depends on each.

With m(x) the posterior mean, φ the explicit map of an embedding, and g(x) = ∂m/∂φ in the columns
of the map that one feature j has,

    r_j = mean over training rows of  g(x)ᵀ S_j g(x),    S_j the covariance of these columns,

summed over the targets: how much m would vary about x, in the first order, if this feature alone
were drawn anew from the training rows. The next embedding has the shares ``s_j ∝ √r_j``. The root
is what keeps a feature that a first fit overlooked; with r itself, with a second round, or with
shares that a descent finds by leave-one-out, predictions of new rows were no better or worse
(``benchmarks/results/features.md``). Labels have been seen by then: leave-one-out of a network
behind such features is a little too good, and no judge between them and others.
"""

from __future__ import annotations

import numpy as np

from mnngp.errors import collect_warnings
from mnngp.inference.observations import Observations
from mnngp.inference.posterior import Posterior
from mnngp.kernels.embedded import EmbeddedPoints
from mnngp.kernels.input_gradient import map_gradients
from mnngp.kernels.sklearn import DeepKernel

_MOST_ROWS, _FEWEST_ROWS = 200, 64  # that gradients are taken at
_WORK = 4e8  # multiplications, some tenths of a second: beyond it there are fewer rows


def feature_weights(
    kernel: DeepKernel, points: EmbeddedPoints, data: Observations, noise_ratio: float
) -> tuple[float, ...]:
    """The shares for the features of the kernel's embedding, up to a factor.

    They are none if the fit depends on nothing.
    """
    with collect_warnings():
        posterior = Posterior(kernel, points, data.y, noise_ratio / data.weight)
    (n, width), targets = points.directions.shape, data.y.shape[1]
    most = int(np.clip(_WORK / (n * width * targets), _FEWEST_ROWS, _MOST_ROWS))
    chosen = np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
    share = data.weight / data.weight.sum()
    mapped = np.sqrt(width) * points.directions.astype(np.float64)
    mapped -= share @ mapped
    embedding = kernel.embedding
    assert embedding is not None  # or else there are no such points
    blocks = embedding.blocks(points.given.shape[1])
    covariances = [(share[:, None] * mapped[:, block]).T @ mapped[:, block] for block in blocks]
    relevance, own = np.zeros(len(blocks)), share[chosen]
    for gradient in map_gradients(
        posterior.network,
        points.subset(chosen),
        points,
        posterior.alpha,
        contraction=posterior.contraction,
    ):
        for j, (block, covariance) in enumerate(zip(blocks, covariances, strict=True)):
            part = gradient[:, block]
            relevance[j] += own @ np.einsum("ij,ij->i", part @ covariance, part)
    weights = np.sqrt(np.maximum(relevance, 0.0))
    total = float(weights.sum())
    if not (np.isfinite(total) and total > 0.0):
        return ()
    return tuple((weights / total).tolist())
