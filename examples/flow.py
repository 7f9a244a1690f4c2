r"""Training as gradient flow

The tangent kernel says what a wide network will have learned, at every moment.

A Gaussian process conditions on the data. A network is trained, by gradient descent, for a while.
For infinite width that can be computed as well: the network moves along its *tangent kernel*
\(\Theta\), and after the time \(t\) its mean prediction over all initialisations is

\[ f_t(x) = \Theta(x, X)\, \Theta(X, X)^{-1} \left(1 - e^{-\Theta(X, X)\, t}\right) y . \]

Directions in which \(\Theta\) has large eigenvalues are learned first. That is why networks that
are stopped early are smooth.

Needs `pip install "mnngp[experiments,torch]"`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mnngp import Maxout, MaxoutKernel
from mnngp.finite import MaxoutNetwork, gradient_descent
from mnngp.inference import GradientFlow

X = np.array([-2.2, -1.6, -1.1, -0.5, 0.5, 1.0, 1.7, 2.3])[:, None]
y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 0]
line = np.linspace(-3.2, 3.2, 129)[:, None]
settings = {"weight_var": Maxout(2).critical_weight_var, "bias_var": 0.5}

# %%
# Infinite width: mean and spread over initialisations, at four times.
flow = GradientFlow(MaxoutKernel(depth=2, rank=2, **settings), X, y)
times = (0.0, 0.1, 1.0, 20.0)

# %%
# Finite width: three networks, trained by gradient descent, all parameters of them. A step of size
# \(\eta\) is the time \(\eta\), so the same four moments are 0, 5, 50 and 1,000 steps.
shape = {"width": 400, "rank": 2, "depth": 2, "inputs": 1, "parametrization": "ntk"}
networks = [MaxoutNetwork(**shape, **settings, seed=seed) for seed in range(3)]
step = 0.02
steps = [round(time / step) for time in times]
trained = gradient_descent(networks, X, y, step=step, record=steps, new=line)

# %%
fig, axes = plt.subplots(2, 2, figsize=(7.2, 5.4), sharex=True, sharey=True)
for ax, time, functions in zip(axes.flat, times, trained, strict=True):
    mean, covariance = flow.mean_and_covariance(line, time)
    band = 1.96 * np.sqrt(np.diag(covariance))
    ax.fill_between(line[:, 0], mean - band, mean + band, color="C0", alpha=0.22, lw=0)
    ax.plot(line[:, 0], mean, color="C0", lw=2.2, label="infinite width: mean, 95 %")
    for k, function in enumerate(functions):
        label = "three networks of width 400" if k == 0 else None
        ax.plot(line[:, 0], function, color="C1", lw=1.0, label=label)
    ax.plot(X[:, 0], y, "o", ms=5, color="C5")
    ax.set(title=f"after {round(time / step):,} steps", ylim=(-3, 3), xlim=(-3.2, 3.2))
fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %%
# At first there is the prior. Then the coarse shape is learned, then the rest. The spread does not
# vanish where there are no data, and it is not that of a posterior: it is how much trained networks
# differ because they were initialised differently. A width of 400 is not infinite: the networks
# stay close to the band, and not always inside of it. ([The mathematics](../maths.md))
inside = np.abs(trained[-1] - mean) < band + 1e-3
print(f"at the end {np.mean(inside):.0%} of the three networks' curves are inside of the band")
