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
# `theory.depth_profile` follows two inputs through the layers. It carries the distance \(1 - \rho\)
# itself, not \(\rho\), so it goes on below the rounding.
profile = theory.depth_profile(unit, 100, **variances)

# %%
# Digits, 300 to learn from. First as everybody would do it: the kernel matrix, some noise on its
# diagonal, a Cholesky factorisation. It gets the noise that serves it best, by the new images
# themselves, which is more than fair.
X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
train, new = slice(0, 300), slice(300, None)
targets = np.eye(10)[y[train]] - 0.1


def plain(depth):
    kernel, best = MaxoutKernel(depth, rank=3, **variances), 0.0
    K, K_new = kernel(X[train]), kernel(X[new], X[train])
    for noise in np.logspace(-16, 0, 9):
        try:
            means = K_new @ cho_solve(cho_factor(K + noise * np.eye(300)), targets)
        except np.linalg.LinAlgError:  # not positive definite
            continue
        best = max(best, np.mean(means.argmax(axis=1) == y[new]))
    return best


# %%
# Then the estimator, which works with distances from end to end ([how](../maths.md#inference)), and
# finds its noise from the training images.
def by_distances(depth):
    model = MaxoutGPClassifier(depth, rank=3, **variances, kind="nngp", normalize=None)
    return model.fit(X[train], y[train]).score(X[new], y[new])


depths = [1, 2, 5, 10, 20, 30, 40, 50, 70, 100]
found = {"kernel matrix": [plain(depth) for depth in depths]}
found["distances (mnngp)"] = [by_distances(depth) for depth in depths]

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.8))
left.semilogy(profile.distance, color="C0")
left.axhline(2.0**-53, color="C5", ls=":", lw=1.2)
left.text(100, 2.0**-52, "rounding of numbers near one", ha="right", va="bottom", size=8)
left.set(title="1 - correlation of two inputs", xlabel="hidden layers")
for (name, accuracy), style in zip(found.items(), ("C1s-", "C0o-"), strict=True):
    right.plot(depths, accuracy, style, ms=5, label=name)
right.axhline(0.1, color="C5", ls=":", lw=1.2)
right.text(0, 0.11, "guessing", va="bottom", size=8)
right.set(title="Share of digits recognised", xlabel="hidden layers", ylim=(0, 1))
right.legend(loc="center right", bbox_to_anchor=(1.0, 0.6))
plt.show()

# %%
# It is the arithmetic. The tiny distances still have a shape, and one can learn from it at any
# depth; what is lost is only what was never written down. (Nor is anything gained by such depth: a
# network of one or two layers does as well.)
