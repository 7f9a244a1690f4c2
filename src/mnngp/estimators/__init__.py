"""The scikit-learn estimators."""

from mnngp.estimators.base import MaxoutGPClassifier, MaxoutGPRegressor, load

__all__ = ["MaxoutGPClassifier", "MaxoutGPRegressor", "load"]
