r"""Depth and rank as priors

Functions that networks of infinite width compute before they have seen any data.

Draw all weights of a very wide network at random, and it computes a random function. For infinite
width this function is a draw from a Gaussian process, whose covariance \(K(x, x')\) is known
exactly. So a choice of depth and rank is a prior: it says which functions are likely before there
are data. Drawing a few is the quickest way to see what was chosen.

Needs `pip install "mnngp[experiments]"`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mnngp import Maxout, MaxoutKernel

# %%
# A unit of a maxout network is the maximum of `rank` linear maps. Weights have the critical
# variance, at which a signal neither dies nor explodes on its way through the layers; the kernel is
# one call.
line = np.linspace(-3.0, 3.0, 121)[:, None]


def covariance(depth, rank):
    return MaxoutKernel(depth, rank, Maxout(rank).critical_weight_var, bias_var=0.3)(line)


# %%
# A draw is a matrix root of \(K\) times standard normal numbers. All panels get the same numbers,
# so that they differ in the prior alone, and each is divided by the standard deviation at zero.
numbers = np.random.default_rng(3).standard_normal((len(line), 5))


def draws(K):
    values, vectors = np.linalg.eigh(K)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root @ numbers / np.sqrt(K[60, 60])


ranks, depths = (2, 4, 16), (1, 3, 9)
fig, axes = plt.subplots(3, 3, figsize=(7.2, 6.2), sharex=True, sharey=True)
for row, rank in zip(axes, ranks, strict=True):
    for ax, depth in zip(row, depths, strict=True):
        K = covariance(depth, rank)
        deviation = np.sqrt(np.diag(K) / K[60, 60])
        ax.fill_between(line[:, 0], -2 * deviation, 2 * deviation, color="C5", alpha=0.18, lw=0)
        ax.plot(line[:, 0], draws(K), lw=1.2)
        ax.set_title(f"rank {rank}, depth {depth}")
axes[0, 0].set(ylim=(-6, 6), xlim=(-3, 3))
plt.show()

# %%
# The grey band has 95 % of all functions. All of these priors know where zero is, and believe in
# functions that become straight lines far out. More layers give a function more places to bend; but
# they, and a higher rank even more, also make it all alike: most of the function is then a
# constant, the same for every input.
#
# Why? How alike two inputs are for a network is the correlation of its outputs. Here is what depth
# and rank do to two inputs of equal length, by the angle between them:
angle = np.linspace(0.0, np.pi, 181)
circle = np.column_stack([np.cos(angle), np.sin(angle)])
fig, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), sharey=True)
for depth in (1, 3, 9, 27):
    K = MaxoutKernel(depth, 2, Maxout(2).critical_weight_var, bias_var=0.0)(circle)
    axes[0].plot(np.degrees(angle), K[0] / K[0, 0], label=f"depth {depth}")
for rank in (2, 3, 4, 16):
    K = MaxoutKernel(3, rank, Maxout(rank).critical_weight_var, bias_var=0.0)(circle)
    axes[1].plot(np.degrees(angle), K[0] / K[0, 0], label=f"rank {rank}")
axes[0].set(title="Correlation of outputs, rank 2", xlabel="angle of the inputs (degrees)")
axes[1].set(title="Correlation of outputs, depth 3", xlabel="angle of the inputs (degrees)")
for ax in axes:
    ax.set(xticks=[0, 45, 90, 135, 180], ylim=(0.0, 1.02))
    ax.legend()
plt.show()

# %%
# Both push all correlations towards one. That is no fault by itself: a constant costs a Gaussian
# process nothing, and what counts is the shape of what remains. But it is why a number of layers
# has to be chosen with care, and why [the ordered phase](ordered.md) is hard for computers. Which
# depth and rank suit the data is for the data to say: [Choosing by itself](choosing.md).
