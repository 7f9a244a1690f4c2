r"""A network becomes its Gaussian process

Outputs of random networks at two inputs, from two units a layer to two hundred.

The theorem says: draw the weights of a maxout network at random, and let its layers grow; then its
outputs at any inputs become jointly Gaussian, with the covariance that the kernel states. This
looks at it with thousands of networks. Nothing that is drawn knows the kernel.

Needs `pip install "mnngp[experiments,torch]"`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from mnngp import Maxout, MaxoutKernel
from mnngp.finite import draw_values

X = np.array([[1.0, 0.5, -0.3], [0.2, -1.0, 0.6]])  # two inputs
kernel = MaxoutKernel(depth=3, rank=3, weight_var=Maxout(3).critical_weight_var, bias_var=0.05)
K = kernel(X)
print(K.round(3))

# %%
# `draw_values` draws the outputs of finite networks at these inputs from their exact law.
widths = (2, 8, 200)
outputs = {width: draw_values(kernel, X, width, networks=20_000).outputs for width in widths}

# %%
# Each dot is a network. The ellipses are those of the Gaussian process: half of all networks should
# be inside of the first, 99 % inside of the second.
angle = np.linspace(0.0, 2.0 * np.pi, 200)
circle = np.linalg.cholesky(K) @ np.array([np.cos(angle), np.sin(angle)])
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.9), sharex=True, sharey=True)
for ax, (width, f) in zip(axes, outputs.items(), strict=True):
    ax.plot(*f[:1500].T, ".", ms=3.5, color="C0", alpha=0.5, mew=0, rasterized=True)
    inside = []
    for share in (0.5, 0.99):
        radius = np.sqrt(-2.0 * np.log(1.0 - share))
        ax.plot(*(radius * circle), color="C1", lw=1.5)
        inside.append(np.mean(np.sum(f.T * np.linalg.solve(K, f.T), axis=0) < radius**2))
    ax.set(title=f"width {width}", aspect="equal", xlabel="output at the first input")
    covariance = np.cov(f.T).round(3).tolist()
    print(f"width {width:3}: {inside[0]:.1%} and {inside[1]:.1%} inside, covariance {covariance}")
axes[0].set(ylabel="at the second", xlim=(-4, 4), ylim=(-4, 4))
plt.show()

# %%
# The covariance is nearly right at once; the *shape* is not. For given hidden units an output is
# Gaussian with a variance \(V\) that depends on them, so a narrow network has a variance of its
# own: many are small, some are large, and together they have a sharp peak and heavy tails. The
# excess kurtosis, \(3 \operatorname{Var}(V) / \operatorname{E}(V)^2\), measures that. It is zero
# for a Gaussian, and soon falls like one over the width.
grid = np.linspace(-5, 5, 201)[:, None]
fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.4))
for width in widths:
    V = draw_values(kernel, X[:1], width, networks=20_000).covariances[:, 0, 0] / K[0, 0]
    left.semilogy(grid, np.mean(norm.pdf(grid, scale=V**0.5), axis=1), label=f"width {width}")
left.semilogy(grid, norm.pdf(grid), color="C5", ls="--", label="Gaussian")
left.set(title="Density of one output", xlabel="output / standard deviation", ylim=(1e-5, 2))
left.legend()
many = np.array([2, 4, 8, 16, 32, 64, 128, 256])
excess = []
for width in many.tolist():
    V = draw_values(kernel, X[:1], width, networks=4000, seed=1).covariances[:, 0, 0]
    excess.append(3.0 * V.var() / V.mean() ** 2)
right.loglog(many, excess, "o-", color="C0")
right.loglog(many, excess[-1] * 256 / many, color="C5", ls="--", label="1 / width")
right.set(title="Excess kurtosis", xlabel="width", xticks=many, xticklabels=many)
right.minorticks_off()
right.legend()
plt.show()

# %%
# [Wide networks](../convergence.md) has the theorem as an experiment, with error bars and rates.
