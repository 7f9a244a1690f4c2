"""The log evidence with its gradient, for choosing hyperparameters by ascent.

With ``C = signal K + noise`` and B = C⁻¹ the derivative is ``½ Σ αᵀ Ċ α - ½ tr(B Ċ)``, summed over
the targets (Rasmussen and Williams, eq. 5.9). The kernel's derivative is ``K̇_ij = K_ij (λ_i +
λ_j)/2 + s_i s_j ρ̇_ij`` with λ = ∂ log K_ii. The first term needs no matrix:

    tr(B (λ_i + λ_j)/2 ∘ signal K) = Σ_i λ_i (B (C - noise))_ii = Σ_i λ_i (1 - B_ii noise_i)

and the second only ``ρ̇ = κ · (derivative of the contracted correlations)``, so both keep their
digits in the ordered phase.
"""

from __future__ import annotations

import numpy as np

from mnngp._typing import Vector
from mnngp.errors import UnavailableError
from mnngp.inference.posterior import Posterior
from mnngp.inference.solvers.cholesky import Factor
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
    >>> posterior = Posterior(MaxoutKernel(depth=3, rank=4), X, np.sin(X[:, 0]), noise_var=1e-4)
    >>> log_evidence_gradient(posterior).round(2)
    array([ 8.84,  2.38, -3.52,  4.03])
    """
    p = posterior
    if not isinstance(p.inverse, Factor):
        raise UnavailableError(
            "the evidence's gradient needs a factor on this machine: use the "
            "Posterior without a solver"
        )
    kappa, sigma = p.contraction, p.deviation
    targets = p.targets.shape[1]
    inverse = p.inverse.matrix()
    inverse -= np.outer(p.t, p.t) / p.c
    own = np.diag(inverse).copy()
    # B = inverse / κσσ, B y = α / κσ. In the units of the factored matrix, κ and σ drop out.
    share = p.noise_var / (kappa * sigma**2)  # of the noise
    noise = 0.5 * float(np.sum(share * (np.sum(p.alpha**2, axis=1) / kappa - targets * own)))
    # of everything together: C scaled
    whole = 0.5 * (float(p.quadratic().sum()) - targets * len(sigma))
    z = p.targets / sigma[:, None]
    fit = np.sum(p.alpha * (z - share[:, None] * p.alpha), axis=1) / kappa
    # the derivative of the evidence in the contracted correlations, in place of the inverse
    inverse *= -targets
    inverse += (p.alpha / kappa) @ p.alpha.T
    moved, growth = pulled_correlations(p.network, p.points, inverse, contraction=kappa)
    size = fit - targets * (1.0 - own * share)
    result = 0.5 * summed(moved + growth @ size, *p.kernel.free_variances)
    return np.array([*result, noise, whole - noise])
