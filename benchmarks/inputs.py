"""The inputs that both sides of a benchmark make for themselves."""

import numpy as np


def make_inputs(n: int, d: int, lengths: str) -> np.ndarray:
    """Gaussian points of unequal lengths, or each standardised by itself like the paper's images."""
    X = np.random.default_rng(0).normal(size=(n, d))
    if lengths == "unequal":
        return X * np.random.default_rng(1).uniform(0.5, 1.5, size=(n, 1))
    X -= X.mean(axis=1, keepdims=True)
    return X / X.std(axis=1, keepdims=True)
