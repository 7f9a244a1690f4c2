"""The demonstration: digits, classified by infinitely wide networks; a picture and a report."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnngp import data as collections
from mnngp import plots
from mnngp._typing import Vector
from mnngp.activations import Activation, Maxout, ReLU, Tanh
from mnngp.estimators import MaxoutGPClassifier, MaxoutGPRegressor
from mnngp.experiments import report as page
from mnngp.experiments import runner
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.records import Result, Watcher
from mnngp.experiments.store import Store
from mnngp.inference import Posterior
from mnngp.kernels import NetworkKernel

DEPTHS = (1, 2, 3, 5, 7, 9)
TRAIN, NOISE, BIAS_VAR = 500, 1e-5, 0.1
# Activation, weight variance and scale of the inputs. By proposition 1 ReLU with twice the weight
# variance and inputs / √2 is rank 2. The weight variances of all but tanh are critical.
FAMILIES: dict[str, tuple[Activation, float, float]] = {
    "maxout, rank 2": (Maxout(2), 1.0, 1.0),
    "maxout, rank 3": (Maxout(3), Maxout(3).critical_weight_var, 1.0),
    "maxout, rank 4": (Maxout(4), Maxout(4).critical_weight_var, 1.0),
    "ReLU": (ReLU(), 2.0, 0.5**0.5),
    "tanh": (Tanh(), 1.5, 1.0),
}


# The paper's protocol with a small grid: the hyperparameters with the best mean validation accuracy
# are tested.
_GRID: dict[str, Any] = {"depth": [1, 3, 9], "bias_var": [0.03, 0.1, 0.3, 1.0]}
PROTOCOL: dict[str, Any] = {
    "title": "Digits: the paper's protocol, small",
    "data": {"name": "digits", "train": [100, 500], "validation": 500, "repeats": 2},
    "family": [
        {"activation": "maxout", "rank": [2, 3, 4], "weight_var": [0.25, 0.5, 1.0, 2.0], **_GRID},
        {"activation": "relu", "weight_var": [0.5, 1.0, 2.0, 4.0], **_GRID},
        {"activation": "tanh", "weight_var": [0.75, 1.0, 1.5, 3.0], **_GRID},
    ],
}


class FamilyAccuracy(NamedTuple):
    """What one family of networks did: test accuracy by depth, and the time for all depths."""

    name: str
    accuracy: dict[int, float]
    seconds: float


class Digits(NamedTuple):
    """Scikit-learn's digits, each image standardised by itself as in the paper, split in two."""

    train: Vector
    train_labels: NDArray[np.int64]
    test: Vector
    test_labels: NDArray[np.int64]
    raw_train: Vector
    raw_test: Vector

    @staticmethod
    def load(seed: int = 0) -> Digits:
        from sklearn.datasets import load_digits

        raw, labels = load_digits(return_X_y=True)
        images = (raw - raw.mean(axis=1, keepdims=True)) / raw.std(axis=1, keepdims=True)
        order = np.random.default_rng(seed).permutation(len(images))
        first, rest = order[:TRAIN], order[TRAIN:]
        return Digits(
            images[first], labels[first], images[rest], labels[rest], raw[first], raw[rest]
        )

    @property
    def targets(self) -> Vector:
        """One-hot minus 0.1, as in the paper."""
        return np.asarray(np.eye(10)[self.train_labels] - 0.1)


def warm_up() -> None:
    """Compile what the demonstration needs, or load it: the first time takes some ten seconds."""
    points = np.eye(2)
    for kind in ("nngp", "ntk"):
        NetworkKernel([Maxout(2)], kind=kind)(points, points)


def run(data: Digits) -> Iterator[FamilyAccuracy]:
    """Fit every family at every depth."""
    for name, (activation, weight_var, scale) in FAMILIES.items():
        accuracy, start = {}, time.perf_counter()
        images, test = scale * data.train, scale * data.test
        for depth in DEPTHS:
            kernel = NetworkKernel([activation] * depth, weight_var=weight_var, bias_var=BIAS_VAR)
            noise_var = NOISE * float(kernel.diag(images[:1])[0])
            means = Posterior(kernel, images, data.targets, noise_var).mean(test)
            accuracy[depth] = float(np.mean(means.argmax(axis=1) == data.test_labels))
        yield FamilyAccuracy(name, accuracy, time.perf_counter() - start)


CONTEST = ("classifier", "accuracy", "log loss", "seconds to fit")


class Contest(NamedTuple):
    """A classifier on the raw pixels, with nothing chosen by hand."""

    name: str
    model: Any
    accuracy: float
    log_loss: float
    seconds: float

    def row(self) -> tuple[str, ...]:
        """What the columns of ``CONTEST`` say of it."""
        return (self.name, f"{self.accuracy:.3f}", f"{self.log_loss:.3f}", f"{self.seconds:.1f}")


def contest(data: Digits) -> list[Contest]:
    """Our estimator beside a random forest, both with their defaults."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import log_loss

    models = {
        # there is a display already
        "MaxoutGPClassifier()": MaxoutGPClassifier(random_state=0, progress=False),
        "random forest": RandomForestClassifier(500, random_state=0),
    }
    results = []
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(data.raw_train, data.train_labels)
        seconds = time.perf_counter() - start
        accuracy = float(model.score(data.raw_test, data.test_labels))
        loss = float(log_loss(data.test_labels, model.predict_proba(data.raw_test)))
        results.append(Contest(name, model, accuracy, loss, seconds))
    return results


class Guess(NamedTuple):
    """What the classifier says of a test image: the two most probable digits."""

    image: int  # its row
    truth: int
    first: int
    probability: float
    second: int
    second_probability: float


def guesses(data: Digits, model: MaxoutGPClassifier, surest: int, least: int) -> list[Guess]:
    """Of the surest and the least sure test images."""
    probability = model.predict_proba(data.raw_test)
    unsure = np.argsort(probability.max(axis=1))
    result = []
    for index in [*unsure[len(unsure) - surest :].tolist(), *unsure[:least].tolist()]:
        odds, truth = probability[index].tolist(), int(data.test_labels[index])
        second, first = np.argsort(odds)[-2:].tolist()
        result.append(Guess(index, truth, first, odds[first], second, odds[second]))
    return result


class _Counting(Watcher):
    """Tells how many cells are finished, and how many there are."""

    def __init__(self, told: Callable[[int, int], object]) -> None:
        self.told, self.done, self.total = told, 0, 0

    def begin(self, total: int, finished: Sequence[Result]) -> None:
        self.total = total

    def finished(self, results: Sequence[Result]) -> None:
        self.done += len(results)
        self.told(self.done, self.total)


def report(
    data: Digits,
    results: list[FamilyAccuracy],
    contest: list[Contest],
    path: Path,
    told: Callable[[int, int], object],
) -> None:
    """Run a small sweep, and write its report with what was done before it."""
    drawn = io.BytesIO()
    picture(data, results, contest[0].model, drawn)
    sections = [
        page.Section(
            "Nothing chosen by hand",
            f"{TRAIN} digits to learn from, raw pixels. The classifier chose "
            f"{contest[0].model.kernel_!r} by leave-one-out, "
            f"which estimated an accuracy of {contest[0].model.loo_.accuracy:.3f}.",
            CONTEST,
            [one.row() for one in contest],
        ),
        page.Section(
            "What it looks like",
            picture=drawn.getvalue(),
            description="F_q for several ranks, accuracy by depth, a regression with its band, "
            "nine digits with probabilities",
        ),
    ]
    protocol = Protocol.of(PROTOCOL)
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.begin(Path(folder) / "demo.sqlite", protocol) as store,
    ):
        runner.run(protocol, store, collections.load("digits"), _Counting(told))
        page.write(store, path, sections=sections)


def picture(
    data: Digits,
    results: list[FamilyAccuracy],
    classifier: MaxoutGPClassifier,
    path: Path | io.BytesIO,
) -> None:
    """Draw F_q, accuracy by depth, a regression with its band and some predictions, as PNG."""
    figure, axes = plots.new_figure(figsize=(11.0, 7.2), nrows=2, ncols=3)
    _draw_moments(axes[0, 0])
    _draw_accuracy(axes[0, 1], results)
    _draw_regression(axes[0, 2])
    for ax in axes[1]:
        ax.remove()
    grid = figure.add_subfigure(axes[0, 0].get_gridspec()[1, :])
    _draw_predictions(grid, data, classifier)
    figure.savefig(path, dpi=120, format="png")


def _draw_moments(ax: Any) -> None:
    rho = np.linspace(-1.0, 1.0, 301)
    colors = ("#9aa5b1", "#1b6ca8", "#2a9d8f", "#c8553d", "#6a4c93")
    for rank, color in zip((1, 2, 3, 4, 8), colors, strict=True):
        ax.plot(rho, Maxout(rank).moment(rho), color=color, label=f"q = {rank}")
    ax.set(title="What a layer does: F_q(ρ)", xlabel="correlation ρ before the layer")
    ax.set_ylabel("E[max h · max h']")
    ax.legend(fontsize=8, frameon=False)


def _draw_accuracy(ax: Any, results: list[FamilyAccuracy]) -> None:
    maxout = (("o-", "#1b6ca8"), ("o-", "#2a9d8f"), ("o-", "#c8553d"))
    styles = (*maxout, ("s--", "#222222"), ("^:", "#888888"))
    for result, (line, color) in zip(results, styles, strict=True):
        depths, accuracies = zip(*result.accuracy.items(), strict=True)
        ax.plot(depths, accuracies, line, color=color, ms=4, label=result.name)
    ax.set(title=f"Test accuracy, {TRAIN} to learn from", xlabel="hidden layers", ylim=(0.95, 1.0))
    ax.legend(fontsize=8, frameon=False)


def _draw_regression(ax: Any) -> None:
    """Noisy points with a gap: the band is wide where nothing is known."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(-3.0, -0.8, 25), rng.uniform(0.9, 3.0, 25)])[:, None]
    y = np.sin(2.0 * x[:, 0]) + 0.15 * rng.normal(size=50)
    model = MaxoutGPRegressor(random_state=0, progress=False).fit(x, y)
    line = np.linspace(-5.0, 5.0, 300)[:, None]
    mean, deviation = model.predict(line, return_std=True, include_noise=True)
    band = mean - 1.96 * deviation, mean + 1.96 * deviation
    ax.fill_between(line[:, 0], *band, color="#1b6ca8", alpha=0.18, lw=0, label="95 %")
    ax.plot(line, mean, color="#1b6ca8", label="mean")
    ax.plot(x, y, ".", color="#222222", ms=4)
    kernel = model.kernel_
    title = f"Chosen: {kernel.kind}, rank {kernel.rank}, depth {kernel.depth}"
    ax.set(title=title, xlabel="x", ylim=(-4.0, 4.0))
    ax.legend(fontsize=8, frameon=False, loc="upper left")


def _draw_predictions(
    figure: Any, data: Digits, model: MaxoutGPClassifier, surest: int = 3, least: int = 6
) -> None:
    """The surest, and the least sure, of the test images, with the probabilities of all classes."""
    probability = model.predict_proba(data.raw_test)
    axes = figure.subplots(2, surest + least, gridspec_kw={"height_ratios": [1, 1.3]})
    for column, guess in enumerate(guesses(data, model, surest, least)):
        (image, bars), right = axes[:, column], guess.first == guess.truth
        image.imshow(data.raw_test[guess.image].reshape(8, 8), cmap="gray_r")
        image.set_axis_off()
        image.set_title(f"{guess.truth}", color="#222222" if right else "#c8553d")
        bars.barh(range(10), probability[guess.image], color="#1b6ca8" if right else "#c8553d")
        bars.set(xlim=(0.0, 1.0), yticks=range(10) if column == 0 else [], xticks=[0, 1])
        bars.invert_yaxis()
    figure.suptitle(
        "Three of the surest and six of the least sure test images: the probability of each digit "
        "(red: wrong)",
        fontsize=10.5,
    )
