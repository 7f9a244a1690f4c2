"""What the page of benchmarks/tabular.py says of sets on which a peer is ahead: each claim is a
variant of the set's columns, on the same folds.

`python benchmarks/tabular_why.py` prints the accuracies that WHY in tabular_report.py quotes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, QuantileTransformer
from tabular_models import MODELS, OURS
from tabular_sets import fold_count, folds_of


def one_hot(*columns: int) -> Any:
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer((encoder, list(columns)), remainder="passthrough")


def normal_scores() -> Any:
    return QuantileTransformer(n_quantiles=200, output_distribution="normal")


# set: variants of its columns, and the models that see them
VARIANTS: dict[str, list[tuple[str, Callable[[], Any], tuple[str, ...]]]] = {
    # columns 1 and 2 are the instructor and the course
    "tae": [
        ("as it is", FunctionTransformer, ("forest", OURS)),
        ("codes one-hot", lambda: one_hot(1, 2), ("forest", OURS)),
    ],
    "bands": [
        ("as it is", FunctionTransformer, ("forest", OURS)),
        ("normal scores", normal_scores, ("forest", OURS)),
    ],
}


def main() -> None:
    for name, variants in VARIANTS.items():
        folds = list(folds_of(name, fold_count(name, None)))
        for title, build, models in variants:
            for model in models:
                scores = []
                for fold in folds:
                    change = build().fit(fold.X)
                    X, X_test = change.transform(fold.X), change.transform(fold.X_test)
                    fitted = MODELS[model].build("classification", X, fold.y).fit(X, fold.y)
                    scores.append(np.mean(fitted.predict(X_test) == fold.y_test))
                print(f"{name}, {title}, {MODELS[model].title}: {np.mean(scores):.3f}")


if __name__ == "__main__":
    main()
