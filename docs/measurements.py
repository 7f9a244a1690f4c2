"""What several figures and tables of the documentation show, measured once: scikit-learn's bundled
sets, nothing downloaded.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from mnngp import MaxoutGPClassifier, MaxoutKernel
from mnngp.experiments import demonstration as demo
from mnngp.inference import Posterior
from mnngp.kernels.evaluate import distances

BINS = 15
SPLITS = 3
# and how many rows are learnt from
SETS = {"digits": (load_digits, 300), "breast cancer": (load_breast_cancer, 150)}
DEPTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 17, 21, 30, 50, 75, 100)
ORDERED = {"rank": 2, "weight_var": 0.1, "bias_var": 0.34}
PAPER_NOISE = 1e-10


@dataclass(frozen=True, eq=False)
class Probabilities:
    """What one method said of held-out rows: confidence in its most probable label, whether that
    was right, and scores.
    """

    confidence: np.ndarray
    right: np.ndarray
    log_loss: float

    @property
    def accuracy(self) -> float:
        """Share of rows whose most probable label is the right one."""
        return float(self.right.mean())

    @property
    def bins(self) -> np.ndarray:
        """The bin of each row, of equally wide ones."""
        return np.minimum((self.confidence * BINS).astype(int), BINS - 1)

    @property
    def calibration_error(self) -> float:
        """The expected calibration error: mean distance of confidence and accuracy over the
        bins.
        """
        gaps = [
            abs(np.sum(self.right[self.bins == k] - self.confidence[self.bins == k]))
            for k in range(BINS)
        ]
        return float(np.sum(gaps) / len(self.right))


def of_probabilities(probability: np.ndarray, label: np.ndarray) -> Probabilities:
    """Scores of probabilities; a forest says zero at times, so the log loss is cut off at 1e-6 as
    in the benchmark.
    """
    given = np.maximum(probability[np.arange(len(label)), label], 1e-6)
    return Probabilities(
        probability.max(axis=1), probability.argmax(axis=1) == label, -float(np.mean(np.log(given)))
    )


def softmax_of_means(
    model: MaxoutGPClassifier, X: np.ndarray, y: np.ndarray, new: np.ndarray
) -> np.ndarray:
    """What one would do without calibration: the classifier's own posterior means,
    exponentiated.
    """
    scaler = StandardScaler().fit(X)
    targets = np.eye(y.max() + 1)[y] - 0.1
    offset = targets.mean(axis=0)
    posterior = Posterior(
        model.kernel_, scaler.transform(X), targets - offset, model.noise_var_, model.signal_var_
    )
    odds = np.exp(posterior.mean(scaler.transform(new)) + offset)
    return odds / odds.sum(axis=1, keepdims=True)


@cache
def calibration() -> dict[str, dict[str, Probabilities]]:
    """For each set and method, the held-out rows of several random splits together."""
    results: dict[str, dict[str, Probabilities]] = {}
    for name, (load, count) in SETS.items():
        X, y = load(return_X_y=True)
        found: dict[str, list[np.ndarray]] = {
            "predict_proba": [],
            "softmax of the mean": [],
            "random forest, 500 trees": [],
        }
        labels = []
        for seed in range(SPLITS):
            train, test, train_y, test_y = train_test_split(
                X, y, train_size=count, stratify=y, random_state=seed
            )
            model = MaxoutGPClassifier(random_state=0).fit(train, train_y)
            forest = RandomForestClassifier(500, random_state=seed).fit(train, train_y)
            probabilities = (
                model.predict_proba(test),
                softmax_of_means(model, train, train_y, test),
                forest.predict_proba(test),
            )
            for method, probability in zip(found, probabilities, strict=True):
                found[method].append(probability)
            labels.append(test_y)
        results[name] = {
            method: of_probabilities(np.concatenate(parts), np.concatenate(labels))
            for method, parts in found.items()
        }
    return results


@dataclass(frozen=True)
class Ordered:
    """One depth in the ordered phase: test accuracies by four ways."""

    depth: int
    distance: float  # the mean of u = (1 - ρ)/2 over all pairs of training points
    plain: float  # a Cholesky factor of the matrix as it is, and the paper's noise
    plain_in_distances: float  # the same process in the distance form
    scaled: float  # a Cholesky factor of the matrix times the signal variance that was found
    scaled_noise: float  # what the noise had to be raised to for that
    found: float  # the distance form with that signal variance: what the classifier does by itself


def plain_accuracy(
    data: demo.Digits, depth: int, signal: float, offset: np.ndarray | float
) -> tuple[float, float]:
    """A Cholesky factor of signal · K + noise; the noise is the paper's, and ten times more
    whenever that fails.
    """
    kernel, noise = MaxoutKernel(depth, **ORDERED), PAPER_NOISE
    K = signal * kernel(data.train)
    while True:
        try:
            factor = np.linalg.cholesky(K + noise * np.eye(len(K)))
            break
        except np.linalg.LinAlgError:
            noise *= 10.0
    weights = np.linalg.solve(factor.T, np.linalg.solve(factor, data.targets - offset))
    mean = signal * kernel(data.test, data.train) @ weights + offset
    return float(np.mean(mean.argmax(axis=1) == data.test_labels)), noise


@cache
def ordered_phase() -> list[Ordered]:
    """Digits at a weight variance of 0.1, depth by depth."""
    data, rows = demo.Digits.load(), []
    for depth in DEPTHS:
        kernel = MaxoutKernel(depth, **ORDERED)
        u = distances(kernel.network, kernel.points(data.train)[0])
        given = {
            "depth": depth,
            **ORDERED,
            "kind": "nngp",
            "noise_var": PAPER_NOISE,
            "normalize": "sphere",
        }
        same, found = (
            MaxoutGPClassifier(**given, signal_var=signal).fit(data.train, data.train_labels)
            for signal in (1.0, None)
        )
        scaled, noise = plain_accuracy(data, depth, found.signal_var_, data.targets.mean(axis=0))
        rows.append(
            Ordered(
                depth,
                float(u[np.tril_indices(len(u), -1)].mean()),
                plain_accuracy(data, depth, 1.0, 0.0)[0],
                same.score(data.test, data.test_labels),
                scaled,
                noise,
                found.score(data.test, data.test_labels),
            )
        )
    return rows
