"""Wide networks in training: gradient flow with the tangent kernel.

A network of infinite width, trained on ``½ Σ (f(x_i) - y_i)²`` by gradient flow of rate one for the
time t, stays a Gaussian process over its random initialisations (Lee et al., "Wide neural networks
of any depth evolve as linear models under gradient descent", 2019, eqs. 14 and 15). With Θ the
tangent kernel, K the NNGP kernel, both of the training points, and ``G = Θ_x Θ⁻¹ (1 - exp(-Θ t))``
for new points x:

    mean        G y
    covariance  K_xx + G K Gᵀ - G K_x - (G K_x)ᵀ

For t → ∞, G is kernel regression with Θ. Θ is taken apart into eigenvectors once; then every time
is a matrix product.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mnngp import _validation
from mnngp._system import threads
from mnngp._typing import Matrix
from mnngp.errors import InputError
from mnngp.inference.posterior import check_kernel, draw
from mnngp.kernels.sklearn import DeepKernel


class GradientFlow:
    """The infinitely wide network after training by gradient flow for any time.

    Parameters
    ----------
    kernel : MaxoutKernel or NetworkKernel
        Its ``kind`` does not matter: both kernels of the network are used.
    X : array of shape (n, d)
        The points to learn from.
    y : array of shape (n,) or (n, targets)
        What is observed there.
    ridge : float
        Strength of a pull of the parameters to their initialisation, ``ridge/2 |θ - θ₀|²`` added to
        the loss: Θ⁻¹ becomes ``(Θ + ridge)⁻¹``, and so in the exponent. Zero is the plain flow.

    Notes
    -----
    ``neural_tangents.predict.gradient_descent_mse_ensemble`` takes the mean of the squares: its
    time is ours times ``y.size``.

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp import MaxoutKernel
    >>> X = np.linspace(-2.0, 2.0, 10)[:, None]
    >>> flow = GradientFlow(MaxoutKernel(depth=3, rank=4, weight_var=0.5), X, np.sin(X[:, 0]))
    >>> for time in (0.0, 0.1, 10.0):
    ...     mean, covariance = flow.mean_and_covariance(X[:1], time)
    ...     print(mean.round(2), np.sqrt(covariance[0, 0]).round(2))
    [0.] 1.1
    [-0.19] 0.42
    [-0.95] 0.01
    """

    def __init__(self, kernel: DeepKernel, X: Any, y: Any, ridge: float = 0.0) -> None:
        check_kernel(kernel)
        self.ridge = _validation.real("ridge", ridge, low=0.0)
        self._nngp, self._ntk = (
            type(kernel)(**{**kernel.get_params(), "kind": kind, "dtype": "float64"})
            for kind in ("nngp", "ntk")
        )
        self._X = np.array(self._ntk.checked("X", X))
        targets, self._flat = _validation.targets(y, len(self._X))
        with threads.one_blas_thread(9.0 * len(self._X) ** 3):
            values, self._vectors = np.linalg.eigh(self._ntk(self._X))
        # What is below the rounding of the largest is not known to differ from zero: such
        # directions are not learnt at any time.
        zero = values < len(values) * np.finfo(np.float64).eps * float(values[-1])
        self.unresolved = int(np.sum(zero))
        self._values = np.where(zero, 0.0, values)
        self._targets = self._vectors.T @ targets
        self._prior: Matrix | None = None  # K between the eigenvectors

    def mean(self, X: Any, time: float = np.inf) -> Matrix:
        """The mean prediction over initialisations, after training for ``time``."""
        points = self._ntk.checked("X", X, like=self._X)
        return self._mean(self._gain(points, time))

    def mean_and_covariance(self, X: Any, time: float = np.inf) -> tuple[Matrix, Matrix]:
        """The mean prediction, and the covariance of the predictions over initialisations."""
        points = self._ntk.checked("X", X, like=self._X)
        gain = self._gain(points, time)
        if self._prior is None:
            self._prior = self._vectors.T @ self._nngp(self._X) @ self._vectors
        crossed = gain @ (self._vectors.T @ self._nngp(self._X, points))
        covariance = self._nngp(points) + gain @ self._prior @ gain.T - crossed - crossed.T
        covariance = 0.5 * (covariance + covariance.T)
        # where all is learnt, rounding is left
        np.fill_diagonal(covariance, np.maximum(np.diag(covariance), 0.0))
        return self._mean(gain), covariance

    def sample(self, X: Any, time: float = np.inf, count: int = 1, seed: Any = None) -> Matrix:
        """Trained networks: (m, count) or (m, targets, count)."""
        count = _validation.positive_int("count", count)
        mean, covariance = self.mean_and_covariance(X, time)
        return draw(mean, covariance, count, seed)

    def _mean(self, gain: Matrix) -> Matrix:
        result = gain @ self._targets
        return np.asarray(result[:, 0] if self._flat else result)

    def _gain(self, points: Matrix, time: float) -> Matrix:
        """G in the basis of Θ's eigenvectors."""
        if not (isinstance(time, int | float | np.number) and time >= 0.0):
            raise InputError(f"time must be a number of at least 0, or infinite, got {time!r}")
        values = self._values + self.ridge * (self._values > 0.0)
        with np.errstate(invalid="ignore"):
            learnt = -np.expm1(-values * time) / np.where(values > 0.0, values, 1.0)
        cross = self._ntk(points, self._X)
        return np.asarray((cross @ self._vectors) * np.where(values > 0.0, learnt, 0.0))
