"""Data that several modules are tested on."""

import numpy as np
import pytest


def _table(n, d, new):
    rng = np.random.default_rng(0)
    X, others = rng.normal(size=(n, d)), rng.normal(size=(new, d))
    return X, np.column_stack([np.sin(X.sum(axis=1)), X[:, 0] ** 2]), others


@pytest.fixture(scope="session")
def table():
    """Points, two targets, and new points."""
    return _table(61, 4, 23)


@pytest.fixture(scope="session")
def large_table():
    """More than a tile."""
    return _table(1100, 6, 30)
