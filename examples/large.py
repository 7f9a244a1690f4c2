r"""A large fit on a cluster

Conjugate gradients over tiles of the kernel, on the workers of Dask.

An exact Gaussian process factors a matrix of n × n numbers, which ends where memory ends. It need
not be factored: conjugate gradients only multiply it with vectors, and the tiles of the matrix may
live on many machines, or be computed anew when they are needed. The result is the same, up to a
tolerance that is stated and checked.

Needs `pip install "mnngp[experiments,dask]"`.
"""

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

from mnngp import MaxoutGPRegressor
from mnngp.inference import ClusterConjugateGradients

rng = np.random.default_rng(0)
X, X_new = rng.normal(size=(3000, 6)), rng.normal(size=(500, 6))
y = np.sin(X.sum(axis=1)) + 0.1 * rng.normal(size=3000)

# %%
# Two workers in this process, so that the example runs anywhere. In earnest, give the address of a
# scheduler instead, `ClusterConjugateGradients(scheduler="tcp://10.0.0.1:8786")`; the rest stays.
cluster = LocalCluster(
    n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
)
client = Client(cluster)
given = {"depth": 2, "rank": 4, "weight_var": 0.65, "bias_var": 0.1, "kind": "nngp"}
given |= {"noise_var": 0.01}

# %%
# What takes the time is the number of iterations, and what decides it is the *preconditioner*: a
# rough factor of the matrix, of a low rank. A higher one takes more memory and fewer iterations.
models = {}
for rank in (50, 150, 400):
    solver = ClusterConjugateGradients(rank=rank, scheduler=client)
    models[rank] = MaxoutGPRegressor(**given, solver=solver).fit(X, y)
    print(f"rank {rank:3}: {models[rank].report_.iterations} iterations")
predictions = models[400].predict(X_new)
client.close()
cluster.close()

# %%
# With 3,000 points the factorisation is still easy, so it can be asked who is right:
exact = MaxoutGPRegressor(**given, solver="cholesky").fit(X, y).predict(X_new)
print(f"largest difference from the factorisation: {np.abs(predictions - exact).max():.0e}")

fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.6), width_ratios=[1.4, 1])
for rank, model in models.items():
    left.semilogy(model.report_.history, label=f"preconditioner of rank {rank}")
left.axhline(1e-8, color="C5", ls=":", lw=1.2)
left.set(title="Relative residual", xlabel="iteration")
left.legend()
total = np.linspace(-8.0, 8.0, 200)
right.plot(X_new.sum(axis=1), predictions, ".", ms=4)
right.plot(total, np.sin(total), color="C5", lw=1.2, label="truth")
right.set(title="Predictions", xlabel="sum of the inputs")
right.legend(loc="lower left")
plt.show()

# %%
# Where there are few points, far out, predictions are poor; but they are those of the exact
# process. [Large data](../large.md) says what a fit will take before it begins, how memory is used,
# and how to run it on Slurm or Kubernetes.
