"""The scikit-learn estimators."""

from typing import Any

from mnngp.estimators import model_file
from mnngp.estimators.classifier import ClassificationLeaveOneOut, MaxoutGPClassifier
from mnngp.estimators.image_features import ImageStandardizer, StationaryWhitening, ZCAWhitening
from mnngp.estimators.regressor import MaxoutGPRegressor, RegressionLeaveOneOut
from mnngp.estimators.summary import ModelSummary

__all__ = [
    "ClassificationLeaveOneOut",
    "ImageStandardizer",
    "MaxoutGPClassifier",
    "MaxoutGPRegressor",
    "ModelSummary",
    "RegressionLeaveOneOut",
    "StationaryWhitening",
    "ZCAWhitening",
    "load",
]


def load(path: Any) -> Any:
    """Read a fitted model that its ``save``, or ``mnngp fit``, wrote.

    One that was fitted to a table predicts frames, whose columns it knows by name.

    Raises ``ModelFileError`` if the file is not such a model, damaged, or written by a newer
    version of the format.

    Examples
    --------
    >>> import numpy as np, tempfile, mnngp
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> model = mnngp.MaxoutGPRegressor(depth=2).fit(X, X[:, 0] ** 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.mnngp")
    ...     again = mnngp.load(f"{folder}/model.mnngp")
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    classes = (MaxoutGPClassifier, MaxoutGPRegressor)
    return model_file.load(path, {known.__name__: known for known in classes})
