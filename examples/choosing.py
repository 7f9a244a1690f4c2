"""Choosing by itself

Depth, rank, variances and noise from the data, without a validation set.

A network has settings that nobody knows beforehand. The usual way is to put data aside and try. A
Gaussian process can do better: what it would predict for each training point from all the others
has a closed form, so every setting is judged on all the data at the price of one fit.

Needs `pip install "mnngp[experiments]"`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.metrics import root_mean_squared_error

from mnngp import Maxout, MaxoutGPRegressor

# a smooth function of five columns, five more that mean nothing, and noise
X, y = make_friedman1(n_samples=1200, noise=1.0, random_state=0)
X, y, X_new, y_new = X[:200], y[:200], X[200:], y[200:]

# %%
# First by hand: networks of all these shapes. What is given stays, and the noise is chosen. `loo_`
# has the predictions of the training rows, each made from all others.
trials = []
for depth in (1, 2, 3, 4, 6, 8, 12, 16):
    for rank in (2, 3, 4, 8):
        model = MaxoutGPRegressor(
            depth, rank, weight_var=Maxout(rank).critical_weight_var, bias_var=0.1, kind="nngp"
        ).fit(X, y)
        error = root_mean_squared_error(y_new, model.predict(X_new))
        trials.append((depth, rank, model.loo_.rmse, error))
depths, ranks, promised, found = np.array(trials).T
print(f"correlation of promised and found errors: {np.corrcoef(promised, found)[0, 1]:.2f}")

# %%
# Then by itself: nothing is given.
model = MaxoutGPRegressor(random_state=0).fit(X, y)
own = root_mean_squared_error(y_new, model.predict(X_new))
print(f"by hand {found[promised.argmin()]:.2f}, by itself {own:.2f}, best possible 1.00")
print(f"{len(model.trials_)} kernels tried; the best was")
print(model.kernel_)

# %%
fig, ax = plt.subplots(figsize=(6.4, 4.6))
for rank, marker in zip((2, 3, 4, 8), "osD^", strict=True):
    some = ranks == rank
    ax.scatter(promised[some], found[some], s=18 + 5 * depths[some], marker=marker, alpha=0.75)
    ax.plot([], [], marker, color=f"C{'osD^'.index(marker)}", label=f"rank {rank}")
ax.plot(model.loo_.rmse, own, "*", ms=16, color="C4", label="chosen by itself")
ends = np.array([1.6, 2.4])
ax.plot(ends, ends, color="C5", ls=":", lw=1.2, zorder=0)
ax.set_title("What leave-one-out promises, and what new data show")
ax.set(xlabel="error by leave-one-out, from 200 rows", ylabel="error on 1,000 new rows")
ax.legend()
plt.show()

# %%
# Larger marks are deeper networks. The promise is too modest for all of them, but the order is
# right: who is best by leave-one-out is nearly the best on new rows. Most of what the search gains
# comes from what no network of the grid has: a first layer that sees each column through an
# embedding, weighted by its relevance ([User guide](../guide.md#what-the-first-layer-sees)).
# `model.summary()` says it all in words, `model.trials_` lists what was tried.
