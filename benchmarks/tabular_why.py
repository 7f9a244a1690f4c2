"""What the page of benchmarks/tabular.py says of sets on which a peer is ahead: each claim is a
variant of the set's columns or of a model, on the same folds.

`python benchmarks/tabular_why.py` prints the accuracies, or R² of numbers, that WHY in
tabular_report.py quotes; `python benchmarks/tabular_why.py bupa` those of one set.
"""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import r2_score
from sklearn.preprocessing import OneHotEncoder
from tabular_models import CORES
from tabular_sets import Fold, fold_count, folds_of, task_of

from mnngp import MaxoutGPClassifier, MaxoutGPRegressor

Inputs = tuple[Any, Any]


@dataclass(frozen=True)
class Variant:
    title: str
    inputs: Callable[[Fold], Inputs]
    build: Callable[[], Any]


def as_it_is(fold: Fold) -> Inputs:
    return fold.inputs("frame")


def as_matrix(fold: Fold) -> Inputs:
    return fold.inputs("matrix")


def as_categories(fold: Fold) -> Inputs:
    """Every column's numbers as names of what they stand for."""

    def named(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.astype(str).astype("category")

    return named(fold.frame), named(fold.frame_test)


def one_hot(fold: Fold) -> Inputs:
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(fold.X)
    return encoder.transform(fold.X), encoder.transform(fold.X_test)


def ours(**parameters: Any) -> Callable[[], Any]:
    return lambda: MaxoutGPClassifier(random_state=0, **parameters)


def regressor(**parameters: Any) -> Callable[[], Any]:
    return lambda: MaxoutGPRegressor(random_state=0, **parameters)


def forest(**parameters: Any) -> Callable[[], Any]:
    return lambda: RandomForestClassifier(500, random_state=0, n_jobs=CORES, **parameters)


def forest_of_numbers(**parameters: Any) -> Callable[[], Any]:
    return lambda: RandomForestRegressor(500, random_state=0, n_jobs=CORES, **parameters)


def shallow(*depths: int) -> list[Variant]:
    return [
        Variant(f"forest, trees of depth {depth}", as_matrix, forest(max_depth=depth))
        for depth in depths
    ]


BOTH = [
    Variant("forest", as_matrix, forest()),
    Variant("maxout", as_it_is, ours()),
]
NUMBERS = [
    Variant("forest", as_matrix, forest_of_numbers()),
    Variant("forest, leaves of 5 and more", as_matrix, forest_of_numbers(min_samples_leaf=5)),
    Variant("maxout", as_it_is, regressor()),
    Variant("maxout, no warp", as_it_is, regressor(warp=None)),
    Variant("maxout, standardised columns", as_it_is, regressor(features="linear")),
    Variant("maxout, standardised, no warp", as_it_is, regressor(features="linear", warp=None)),
    Variant("maxout, embedding", as_it_is, regressor(features="embedding")),
    Variant("maxout, embedding, no warp", as_it_is, regressor(features="embedding", warp=None)),
]
VARIANTS = {
    "tae": [
        *BOTH,
        Variant("forest, columns one-hot", one_hot, forest()),
        Variant("maxout, columns as categories", as_categories, ours()),
    ],
    "bupa": [
        *BOTH,
        Variant("maxout, standardised columns", as_it_is, ours(features="linear")),
        Variant("maxout, embedding", as_it_is, ours(features="embedding")),
        *shallow(2, 4, 8),
    ],
    "r-airquality": NUMBERS,
    "r-biochemists": NUMBERS,
    "r-doctor": [
        *NUMBERS,
        Variant("maxout, noise variance 0.6", as_it_is, regressor(noise_var=0.6)),
    ],
}


def score(name: str, predicted: np.ndarray, fold: Fold) -> float:
    """Accuracy, or R² as in the comparison: of the fold's test part."""
    if task_of(name) == "classification":
        return float(np.mean(predicted == fold.y_test))
    return float(r2_score(fold.y_test, predicted))


def main(names: list[str]) -> None:
    for name in names:
        folds = list(folds_of(name, fold_count(name, None)))
        for variant in VARIANTS[name]:
            scores, said = [], Counter()
            for fold in folds:
                X, X_test = variant.inputs(fold)
                fitted = variant.build().fit(X, fold.y)
                scores.append(score(name, fitted.predict(X_test), fold))
                if hasattr(fitted, "warp_"):
                    said[type(fitted.warp_).__name__] += 1
            warps = ", ".join(f"{warp} {count}" for warp, count in said.items())
            notes = f" (warps: {warps})" if warps else ""
            print(f"{name}, {variant.title}: {np.mean(scores):.3f}{notes}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(VARIANTS))
