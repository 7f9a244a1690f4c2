"""The models of benchmarks/tabular.py: what each is, in which form it takes a table, and what it
says of the spread of a number.
"""

import inspect
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

CORES = 2
INNER_FOLDS = 5
# LightGBM's search: leaves of a tree; fewest rows of a leaf, with the fewest rows that a group of
# categories may have (its defaults are 20 and 100, made for larger sets)
LEAVES = (4, 12, 31)
FEWEST = ((5, 10), (20, 100))
RATE, SLOW_RATE = 0.1, 0.03
# A part of the columns for each tree and of the rows for each round, which boosting is rarely run
# without: on five of six sets of the group tune the log loss of cross-validation was lower with it,
# on phoneme 0.261 instead of 0.260, in no more time.
SUBSAMPLING = {"feature_fraction": 0.7, "bagging_fraction": 0.8, "bagging_freq": 1}


def inner_folds(y: np.ndarray, task: str) -> Any:
    if task == "regression":
        return KFold(INNER_FOLDS, shuffle=True, random_state=0)
    return StratifiedKFold(min(INNER_FOLDS, np.bincount(y).min()), shuffle=True, random_state=0)


def forest(task: str, X: np.ndarray, y: np.ndarray) -> Any:
    kind = RandomForestClassifier if task == "classification" else RandomForestRegressor
    return kind(500, random_state=0, n_jobs=CORES)


def svm(task: str, X: np.ndarray, y: np.ndarray) -> Any:
    grid = {"C": 10.0 ** np.arange(-1, 4), "gamma": 2.0 ** np.arange(-7, 4, 2) / X.shape[1]}
    if task == "classification":
        model, prefix, scoring = (
            make_pipeline(StandardScaler(), SVC(cache_size=500)),
            "svc__",
            "accuracy",
        )
    else:
        # Targets are standardised too: C and the tube's width are in their units.
        model = TransformedTargetRegressor(
            make_pipeline(StandardScaler(), SVR(cache_size=500)), transformer=StandardScaler()
        )
        prefix, scoring = "regressor__svr__", "neg_mean_squared_error"
    grid = {prefix + name: values for name, values in grid.items()}
    search = GridSearchCV(model, grid, scoring=scoring, cv=inner_folds(y, task), n_jobs=CORES)
    return search if y.ndim == 1 else MultiOutputRegressor(search)


def maxout(task: str, X: Any, y: np.ndarray) -> Any:
    import mnngp

    return (mnngp.MaxoutGPClassifier if task == "classification" else mnngp.MaxoutGPRegressor)(
        random_state=0
    )


class OneThread(BaseEstimator):
    """A model whose fits and predictions run in one thread.

    Boosting's threads wait for each other after every split by spinning: beside other work on the
    same cores two of them took more than ten times as long as one (LightGBM on letter, 137 s
    against 10 s).
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: np.ndarray) -> Self:
        with threadpool_limits(1, "openmp"):
            self.fitted_ = clone(self.model).fit(X, y)
        self.classes_ = getattr(self.fitted_, "classes_", None)
        return self

    def predict(self, X: Any) -> np.ndarray:
        with threadpool_limits(1, "openmp"):
            return self.fitted_.predict(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        with threadpool_limits(1, "openmp"):
            return self.fitted_.predict_proba(X)


def boosting(task: str, X: pd.DataFrame, y: np.ndarray) -> Any:
    """scikit-learn's, with its defaults: 100 rounds, and no early stopping below 10,000 rows.
    Categories are its own matter, too (categorical_features="from_dtype").
    """
    if task == "classification":
        return OneThread(HistGradientBoostingClassifier(random_state=0))
    model = HistGradientBoostingRegressor(random_state=0)
    return OneThread(model if y.ndim == 1 else MultiOutputRegressor(model))


def cross_validate(
    task: str, settings: dict[str, Any], X: pd.DataFrame, y: np.ndarray
) -> tuple[float, int, float]:
    """The mean score that early stopping found, after how many rounds, and (of numbers) the
    deviation of what the folds' models say of the rows that they have not seen.
    """
    import lightgbm

    folds = list(inner_folds(y, task).split(X, y))
    found = lightgbm.cv(
        settings,
        lightgbm.Dataset(X, y, params=settings, free_raw_data=False),
        num_boost_round=round(100 / settings["learning_rate"]),
        folds=folds,
        callbacks=[lightgbm.early_stopping(round(3 / settings["learning_rate"]), verbose=False)],
        return_cvbooster=True,
    )
    boosters = found.pop("cvbooster").boosters
    scores = next(values for name, values in found.items() if name.endswith("-mean"))
    deviation = np.nan
    if task == "regression":
        residuals = [
            y[test] - booster.predict(X.iloc[test], num_iteration=len(scores))
            for booster, (_, test) in zip(boosters, folds, strict=True)
        ]
        deviation = float(np.sqrt(np.mean(np.concatenate(residuals) ** 2)))
    return scores[-1], len(scores), deviation


class TunedLightGBM(BaseEstimator):
    """LightGBM with a small search by 5-fold cross-validation, of the log loss or the squared
    error, with early stopping: leaves and fewest rows at a learning rate of 0.1, then the best of
    them at 0.03. The rounds of the last fit, on all rows, are those that cross-validation stopped
    at. Candidates run side by side, each in one thread.
    """

    def __init__(self, task: str) -> None:
        self.task = task

    def settings(self, y: np.ndarray) -> dict[str, Any]:
        common = {"verbosity": -1, "num_threads": 1, "seed": 0, "feature_pre_filter": False}
        common |= SUBSAMPLING
        if self.task == "regression":
            return common | {"objective": "regression", "metric": "l2"}
        count = int(y.max()) + 1
        if count == 2:
            return common | {"objective": "binary", "metric": "binary_logloss"}
        return common | {
            "objective": "multiclass",
            "metric": "multi_logloss",
            "num_class": count,
        }

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> Self:
        import lightgbm

        candidates = [
            self.settings(y)
            | {
                "learning_rate": RATE,
                "num_leaves": leaves,
                "min_data_in_leaf": rows,
                "min_data_per_group": group,
            }
            for leaves in LEAVES
            for rows, group in FEWEST
        ]
        found = Parallel(CORES)(
            delayed(cross_validate)(self.task, settings, X, y) for settings in candidates
        )
        best = min(range(len(found)), key=lambda index: found[index][0])
        slow = candidates[best] | {"learning_rate": SLOW_RATE}
        candidates.append(slow)
        found.append(cross_validate(self.task, slow, X, y))
        best = min((best, len(found) - 1), key=lambda index: found[index][0])
        settings, (_, rounds, self.deviation_) = candidates[best], found[best]
        self.booster_ = lightgbm.train(
            settings, lightgbm.Dataset(X, y, params=settings), num_boost_round=rounds
        )
        self.best_params_ = {"rounds": rounds} | {
            name: settings[name] for name in ("learning_rate", "num_leaves", "min_data_in_leaf")
        }
        self.classes_ = None if self.task == "regression" else np.arange(int(y.max()) + 1)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        if self.task == "regression":
            return self.booster_.predict(X)
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        found = self.booster_.predict(X)
        return np.column_stack([1.0 - found, found]) if found.ndim == 1 else found


def lightgbm(task: str, X: pd.DataFrame, y: np.ndarray) -> Any:
    model = TunedLightGBM(task)
    return model if y.ndim == 1 else MultiOutputRegressor(model)


@dataclass(frozen=True)
class Model:
    title: str
    package: str
    form: str  # in which it takes a table: "matrix" or "frame"
    build: Callable[[str, Any, np.ndarray], Any]
    probabilities: bool = True


MODELS = {
    "forest": Model("forest", "scikit-learn", "matrix", forest),
    "svm": Model("SVM", "scikit-learn", "matrix", svm, probabilities=False),
    "boosting": Model("HistGB", "scikit-learn", "frame", boosting),
    "lightgbm": Model("LightGBM", "lightgbm", "frame", lightgbm),
    "maxout": Model("maxout", "mnngp", "frame", maxout),
}
OURS = "maxout"
TITLES = {name: model.title for name, model in MODELS.items()}


def git_state() -> str:
    """The last commit that changed the package, and whether it is as it was then. Not the last one
    of all: results are committed while a run goes on.
    """

    def git(*command: str) -> str:
        return subprocess.run(
            ["git", *command],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parent.parent,
            check=False,
        ).stdout.strip()

    return git("log", "-1", "--format=%h", "--", "src") + (
        "-dirty" if git("status", "--porcelain", "src") else ""
    )


def code_of(model: str) -> str:
    """What computes a row: rows of different dates may stand in one file."""
    package = MODELS[model].package
    state = f" ({git_state()})" if model == OURS else ""
    return f"{package} {version(package)}{state}"


def residual_deviation(model: Any, X: Any, y: np.ndarray) -> Any:
    """The root of the mean square of what cross-validation leaves, for models that only say a mean:
    with it they have a Gaussian density, the same width everywhere.
    """
    if hasattr(model, "deviation_"):
        return model.deviation_
    if isinstance(model, MultiOutputRegressor):
        parts = zip(model.estimators_, y.T, strict=True)
        return np.array([residual_deviation(part, X, target) for part, target in parts])
    fitted = getattr(model, "best_estimator_", model)
    found = cross_val_predict(clone(fitted), X, y, cv=inner_folds(y, "regression"))
    return np.sqrt(np.mean((y - found) ** 2, axis=0))


def predictive_deviation(model: Any, X: Any, y: np.ndarray, X_test: Any) -> Any:
    """The deviation of a new observation at each row of X_test, or one for all.

    A forest's is the spread of its trees: they are grown to single targets, so it holds the noise
    as well.
    """
    if isinstance(model, RandomForestRegressor):
        return np.std([tree.predict(X_test) for tree in model.estimators_], axis=0)
    if "include_noise" in inspect.signature(model.predict).parameters:
        return model.predict(X_test, return_std=True, include_noise=True)[1]
    return residual_deviation(model, X, y)
