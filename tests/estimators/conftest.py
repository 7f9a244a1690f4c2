"""A small regression; small models and their files."""

import numpy as np
import pytest

from mnngp import MaxoutGPClassifier, MaxoutGPRegressor
from tests.estimators.model_files import LABELS, NAMES, QUICK, X


@pytest.fixture(scope="module")
def wave():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(60, 2))
    return (
        X,
        np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=60),
        rng.uniform(-2.0, 2.0, size=(20, 2)),
    )


@pytest.fixture(scope="module")
def small_model():
    return MaxoutGPRegressor(**QUICK).fit(X[:, :3], X[:, 3])


@pytest.fixture
def saved(tmp_path, small_model):
    path = tmp_path / "model.mnngp"
    small_model.save(path)
    return path


@pytest.fixture(scope="module")
def small_classifier():
    model = MaxoutGPClassifier(1, 2, 1.0, 0.1, "nngp", 0.1).fit(
        X[::5], NAMES.astype(object)[LABELS[::5]]
    )
    assert len(model.loo_.prediction) == 30  # and with it the precision
    return model
