r"""The ordered phase

Very deep networks think that all inputs are alike. One can still learn from them.

With small weights each layer makes any two inputs more alike: their correlation \(\rho\) tends to
one, exponentially fast. This is the *ordered phase*. After some tens of layers \(1 - \rho\) is
below \(10^{-16}\), what a floating point number near one can hold, and a kernel matrix is all ones
to a computer. The paper sees deep networks fail there. Is it the network that fails, or the
arithmetic?

Needs `pip install "mnngp[experiments]"`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.datasets import load_digits
from sklearn.utils import shuffle

from mnngp import Maxout, MaxoutGPClassifier, MaxoutKernel, theory

unit = Maxout(3)
variances = {"weight_var": 0.5 * unit.critical_weight_var, "bias_var": 0.1}
print(theory.fixed_point(unit, **variances).phase)

# %%
# `theory.depth_profile` follows two inputs through the layers. It carries the distance
# \(1 - \rho\) itself, not \(\rho\), so it goes on below the rounding.
profile = theory.depth_profile(unit, 100, **variances)

# %%
# Digits, 400 to learn from. First as everybody would do it: the kernel matrix, its Cholesky factor,
# a little noise. Then with the estimator, which works with distances from end to end
# ([how](../maths.md#inference)), and with the same small noise, relative to what varies.
X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
train, new = slice(0, 400), slice(400, None)
targets = np.eye(10)[y[train]] - 0.1
depths = [1, 2, 4, 7, 10, 15, 20, 30, 50, 100]
plain, distances = [], []
for depth in depths:
    kernel = MaxoutKernel(depth, rank=3, **variances)
    factor = cho_factor(kernel(X[train]) + 1e-10 * np.eye(400))
    means = kernel(X[new], X[train]) @ cho_solve(factor, targets)
    plain.append(np.mean(means.argmax(axis=1) == y[new]))
    model = MaxoutGPClassifier(kernel=kernel.clone_with_theta(kernel.theta), normalize=None)
    distances.append(model.fit(X[train], y[train]).score(X[new], y[new]))

# %%
