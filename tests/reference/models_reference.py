"""Models as the first version (0.1.0, commit f27d051) wrote them, and what it predicted: later
versions must read them.

Run with that version: python tests/reference/models_reference.py tests/reference/models
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

import mnngp
from mnngp.inference import ConjugateGradients

folder = Path(sys.argv[1])
rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3)).round(1)
X[20:25] = X[:5]  # equal rows
y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)
two = np.column_stack([y, 1e3 * y**2])
weight = rng.integers(1, 4, size=40).astype(float)
new = rng.normal(size=(7, 3))
flowers, kinds = (part[::5] for part in load_iris(return_X_y=True))
quick = {"random_state": 0, "max_trials": 4}
models = {
    "regressor": (mnngp.MaxoutGPRegressor(**quick).fit(X, y, sample_weight=weight), new),
    "two-targets": (
        mnngp.MaxoutGPRegressor(**quick, dtype="float32", normalize="sphere").fit(X, two),
        new,
    ),
    "given": (mnngp.MaxoutGPRegressor(3, 4, 0.9, 0.2, "ntk", 0.01).fit(X, y), new),
    "iterated": (mnngp.MaxoutGPRegressor(**quick, solver=ConjugateGradients()).fit(X, y), new),
    "classifier": (
        mnngp.MaxoutGPClassifier(**quick).fit(flowers, np.array(["a", "b", "c"])[kinds]),
        flowers[::4],
    ),
}
predicted = {}
for name, (model, points) in models.items():
    model.save(folder / f"{name}.mnngp")
    predicted[f"{name} X"] = points
    if hasattr(model, "predict_proba"):
        predicted[f"{name} mean"], predicted[f"{name} std"] = (
            model.predict_proba(points),
            model.latent_mean_and_variance(points)[1],
        )
    else:
        predicted[f"{name} mean"], predicted[f"{name} std"] = model.predict(
            points, return_std=True, include_noise=True
        )
    if name != "iterated":
        predicted[f"{name} evidence"] = model.log_marginal_likelihood_
np.savez(folder / "predicted.npz", **predicted)
