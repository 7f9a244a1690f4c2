"""Small models and their files."""

import pytest

from mnngp import MaxoutGPClassifier, MaxoutGPRegressor
from tests.estimators.model_files import LABELS, NAMES, QUICK, X


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
