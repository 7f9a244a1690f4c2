"""Calibration

When the classifier says 80 %, is it right in 80 of 100 cases?

A classifier that is right is good; one that knows when it is not is better. Of all predictions
that are made with a probability of 80 %, four in five should be right. `MaxoutGPClassifier` learns
to say so from leave-one-out predictions, which a Gaussian process has in closed form: no data are
put aside for it.

Needs `pip install "mnngp[experiments]"`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.utils import shuffle

from mnngp import MaxoutGPClassifier

X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
train, new = slice(0, 150), slice(150, None)  # few, so that there is something to doubt

# %%
# Beside the classifier stand a random forest, and the plain softmax of the classifier's posterior
# means, which are regressions on zeros and ones: their order is right, and their size says little.
model = MaxoutGPClassifier(normalize="sphere", random_state=0).fit(X[train], y[train])
forest = RandomForestClassifier(500, random_state=0).fit(X[train], y[train])
probabilities = {
    "maxout process, calibrated": model.predict_proba(X[new]),
    "its means, softmax": softmax(model.decision_function(X[new]), axis=1),
    "random forest": forest.predict_proba(X[new]),
}

# %%
# The predictions are sorted by their probability and put into ten groups of one size. A point is a
# group: how sure it was, and how often it was right.
fig, ax = plt.subplots(figsize=(6.0, 5.2))
ax.plot([0, 1], [0, 1], color="C5", ls=":", lw=1.2)
for (name, p), marker in zip(probabilities.items(), "os^", strict=True):
    sure, right = p.max(axis=1), p.argmax(axis=1) == y[new]
    groups = np.array_split(np.argsort(sure), 10)
    x, share = (np.array([part[group].mean() for group in groups]) for part in (sure, right))
    ax.plot(x, share, marker=marker, ms=6, label=name)
    print(
        f"{name:27} accuracy {right.mean():.3f}, log loss {log_loss(y[new], p):.2f}, "
        f"calibration error {np.abs(x - share).mean():.3f}"
    )
ax.set(title="Digits, learned from 150 images", xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal")
ax.set(xlabel="probability of the predicted digit", ylabel="share that was right")
ax.legend(loc="lower right")
plt.show()

# %%
# Below the diagonal a model promises too much, above it too little. The forest and the plain
# softmax are right far more often than they dare to say. The calibrated probabilities are much
# closer, and, learned from 150 images, a little too sure where there is doubt. They can be used as
# they are, for instance to leave an image to a person.
#
# These are the images that the classifier was least sure of:
p = probabilities["maxout process, calibrated"]
fig, axes = plt.subplots(2, 5, figsize=(7.2, 3.6))
for ax, k in zip(axes.flat, np.argsort(p.max(axis=1)), strict=False):
    first, second = np.argsort(-p[k])[:2]
    ax.imshow(X[new][k].reshape(8, 8), cmap="gray")
    ax.set_title(f"{first}: {p[k, first]:.0%}, {second}: {p[k, second]:.0%}", fontsize=9)
    ax.set(xticks=[], yticks=[], xlabel=f"it is a {y[new][k]}")
    ax.spines[:].set_visible(False)
plt.show()
