"""An image classifier by convolution

With few images it helps to know that pixels have neighbours.

A dense network sees an image as a list of numbers: shuffle the pixels, and it learns as well as
before. A convolutional network looks at small windows, the same way everywhere. With infinitely
many channels it is a Gaussian process too, and its kernel is exact. What is knowing about
neighbours worth?

Needs `pip install "mnngp[experiments]"`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import shuffle

from mnngp import AvgPool, Conv, Flatten, Maxout, MaxoutGPClassifier, NetworkKernel

digits = load_digits()
X, y = shuffle(digits.data / 8.0 - 1.0, digits.target, random_state=0)  # 8 × 8 pixels
X_new, y_new = X[-400:], y[-400:]

# %%
# Two convolutions with windows of 3 × 3 pixels and maxout units of rank 4; then neighbouring
# positions are averaged, so that a stroke may be a pixel further left, and a dense map reads all of
# them. Variances are fixed at the critical one; noise and signal are found by leave-one-out.
critical = Maxout(4).critical_weight_var
fixed = {"weight_var_bounds": "fixed", "bias_var_bounds": "fixed"}
convolutional = NetworkKernel(
    [Conv(3), Maxout(4), Conv(3), Maxout(4), AvgPool(3, 1), Flatten()],
    weight_var=critical,
    bias_var=0.01,
    image_shape=(8, 8),
    **fixed,
)
dense = NetworkKernel([Maxout(4), Maxout(4)], weight_var=critical, bias_var=0.01, **fixed)

# %%
# A third case has the pixels of all images shuffled, in one and the same way. The dense network
# cannot notice: inner products stay what they are. The convolutional one loses what it knows.
order = np.random.default_rng(0).permutation(64)
print("dense kernel changed by", np.abs(dense(X[:5]) - dense(X[:5, order])).max().round(12))
cases = {
    "convolutional": (convolutional, np.arange(64)),
    "dense": (dense, np.arange(64)),
    "convolutional, pixels shuffled": (convolutional, order),
}
counts, sets = [20, 40, 80, 160], 3
accuracy = {name: np.empty((len(counts), sets)) for name in cases}
for name, (kernel, pixels) in cases.items():
    for i, count in enumerate(counts):
        for k in range(sets):  # training sets that have no image in common
            train = slice(k * count, (k + 1) * count)
            model = MaxoutGPClassifier(kernel=kernel, normalize=None, random_state=0)
            model.fit(X[train][:, pixels], y[train])
            accuracy[name][i, k] = model.score(X_new[:, pixels], y_new)

# %%
fig, ax = plt.subplots(figsize=(6.4, 4.4))
for name, style in zip(cases, ("C0o-", "C1s-", "C0o:"), strict=True):
    mean, deviation = accuracy[name].mean(axis=1), accuracy[name].std(axis=1, ddof=1)
    ax.errorbar(counts, mean, deviation / sets**0.5, fmt=style, ms=5, capsize=3, label=name)
    print(f"{name:31}", " ".join(f"{one:.3f}" for one in mean))
ax.set(xscale="log", xticks=counts, xticklabels=counts, xlabel="training images", ylim=(None, 1))
ax.minorticks_off()
ax.set_title("Share of 400 new digits that are recognised")
ax.legend(loc="lower right")
plt.show()

# %%
# From forty images on, knowing about neighbours is worth nearly as much as twice as many images;
# with two of each digit there is too little to tell, and a convolution that looks at the wrong
# neighbours is worse than none. `MaxoutGPClassifier(image_shape=(8, 8))` chooses a convolutional
# network by itself; [Convolutional networks](../convolution.md) has more, up to CIFAR-10.
