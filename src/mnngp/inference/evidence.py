"""The log evidence with its gradient, for choosing hyperparameters by ascent.

With ``C = signal K + noise`` and B = C⁻¹ the derivative is ``½ Σ αᵀ Ċ α - ½ tr(B Ċ)``, summed over
the targets (Rasmussen and Williams, eq. 5.9). The kernel's derivative is ``K̇_ij = K_ij (λ_i +
λ_j)/2 + s_i s_j ρ̇_ij`` with λ = ∂ log K_ii. The first term needs no matrix:

    tr(B (λ_i + λ_j)/2 ∘ signal K) = Σ_i λ_i (B (C - noise))_ii = Σ_i λ_i (1 - B_ii noise_i)

and the second only ``ρ̇ = κ · (derivative of the contracted correlations)``, so both keep their
digits in the ordered phase.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mnngp._typing import Vector
from mnngp.errors import UnavailableError
from mnngp.inference.factor import Factor
from mnngp.inference.posterior import Posterior
from mnngp.kernels import layout
from mnngp.kernels.gradient import pulled_correlations, summed


def log_evidence_gradient(posterior: Posterior) -> Vector:
    """The derivative of ``posterior.log_marginal_likelihood()`` in logarithms.

    The order is that of ``kernel.theta`` (bias_var, then weight_var, as far as they are free), then
    noise_var, then signal_var. Takes some n² numbers, however many hyperparameters there are.

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp import MaxoutKernel
    >>> X = np.linspace(-2.0, 2.0, 30)[:, None]
    >>> log_evidence_gradient(Posterior(MaxoutKernel(depth=3, rank=4), X, np.sin(X[:, 0]), noise_var=1e-4)).round(2)
    array([ 8.84,  2.38, -3.52,  4.03])
    """
    p = posterior
    if not isinstance(p._factor, Factor):
        raise UnavailableError(
            "the evidence's gradient needs a factor on this machine: use the "
            "Posterior without a solver"
        )
    kappa, sigma = p._factor.contraction, p._deviation
    targets = p._y.shape[1]
    inverse = _whole(p._factor.packed.inverse().memory, len(sigma))
    inverse -= np.outer(p._t, p._t) / p._c
    own = np.diag(inverse).copy()
    # B = inverse / κσσ, B y = α / κσ. In the units of the factored matrix, κ and σ drop out.
    share = p.noise_var / (kappa * sigma**2)  # of the noise
    noise = 0.5 * float(np.sum(share * (np.sum(p._alpha**2, axis=1) / kappa - targets * own)))
    # of everything together: C scaled
    whole = 0.5 * (float(p.quadratic().sum()) - targets * len(sigma))
    z = p._y / sigma[:, None]
    fit = np.sum(p._alpha * (z - share[:, None] * p._alpha), axis=1) / kappa
    # the derivative of the evidence in the contracted correlations, in place of the inverse
    inverse *= -targets
    inverse += (p._alpha / kappa) @ p._alpha.T
    moved, growth = pulled_correlations(p._network, p._points, inverse, contraction=kappa)
    size = fit - targets * (1.0 - own * share)
    result = 0.5 * summed(moved + growth @ size, *p.kernel.free_variances)
    return np.array([*result, noise, whole - noise])


def _whole(memory: Any, n: int) -> Any:
    """A packed matrix as an ordinary one, in float64."""
    half, even = (n + 1) // 2, 1 - n % 2
    result = np.zeros((n, n))
    result[:half] = np.triu(memory[:, even : even + n])
    last = np.tril(memory[n % 2 :, : n - half])
    result[half:, half:] = last.T
    np.fill_diagonal(result[half:, half:], np.diag(last))
    result += np.triu(result, 1).T
    assert layout.packed_shape(n) == memory.shape
    return result
