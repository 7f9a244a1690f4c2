"""A regression with its band

What a fitted process knows, what it does not know, and what it says about noise.

A Gaussian process does not fit a curve: it keeps all functions of its prior that agree with the
data. Their mean is the prediction. Their spread says how much the data leave open, and it has to be
wide where there are none. Noise is another matter: it stays however many data there are.

Needs `pip install "mnngp[experiments]"`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mnngp import MaxoutGPRegressor


def truth(x):
    return np.sin(2.0 * x) + 0.4 * x


rng = np.random.default_rng(1)
X = np.concatenate([rng.uniform(-3.0, -0.6, 60), rng.uniform(0.9, 2.4, 30)])[:, None]
y = truth(X[:, 0]) + 0.25 * rng.normal(size=len(X))

# %%
# Nothing needs to be said about the network or the noise: both are chosen by predicting each point
# from all others.
model = MaxoutGPRegressor(random_state=0).fit(X, y)
print(model.kernel_)
print(f"noise: a standard deviation of {model.noise_var_**0.5:.2f}; it was 0.25")

# %%
# `return_std` is about the function. `predict_quantiles` is about the next observation, which has
# noise on top. `sample_y` draws whole functions.
line = np.linspace(-4.5, 4.5, 181)[:, None]
mean, std = model.predict(line, return_std=True)
low, high = model.predict_quantiles(line, [0.025, 0.975]).T
functions = model.sample_y(line, n_samples=4, random_state=0)

fig, ax = plt.subplots(figsize=(7.2, 4.4))
x = line[:, 0]
ax.fill_between(x, low, high, color="C0", alpha=0.14, lw=0, label="95 % of new observations")
ax.fill_between(
    x, mean - 1.96 * std, mean + 1.96 * std, color="C0", alpha=0.28, lw=0, label="95 % of functions"
)
ax.plot(x, functions, color="C0", lw=0.7, alpha=0.8)
ax.plot(x, mean, color="C0", lw=2.4, label="mean")
ax.plot(x, truth(x), color="C1", ls="--", label="truth")
ax.plot(X[:, 0], y, "o", ms=4.5, color="C5", label="data")
ax.set(title="The band opens where there are no data", xlim=(-4.5, 4.5), ylim=(-5.5, 5.5))
ax.legend(ncols=2, loc="upper left")
plt.show()

# %%
# In the gap in the middle the band is wider than the noise, and beyond the data it opens like a
# trumpet, since the functions of the prior go on as straight lines in directions that nobody knows.
#
# Are the intervals right? On new data from the same places, 95 % should fall inside. It is asked of
# three models: that of all 90 points, and those of every other point of them.
X_new = np.concatenate([rng.uniform(-3.0, -0.6, 1300), rng.uniform(0.9, 2.4, 700)])[:, None]
y_new = truth(X_new[:, 0]) + 0.25 * rng.normal(size=len(X_new))
for name, rows in {
    "all": slice(None),
    "half": slice(0, None, 2),
    "others": slice(1, None, 2),
}.items():
    part = MaxoutGPRegressor(random_state=0).fit(X[rows], y[rows])
    low, high = part.predict_quantiles(X_new, [0.025, 0.975]).T
    inside = np.mean((y_new > low) & (y_new < high))
    print(f"{name:6} {inside:.1%} inside, noise {part.noise_var_**0.5:.2f}")

# %%
# With few points the noise is hard to tell from the function. It may then be taken for too small,
# and the intervals hold less than they promise.
