"""The demonstration: handwritten digits, classified by infinitely wide networks, with a picture."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnngp import plots
from mnngp.activations import Activation, Maxout, ReLU, Tanh
from mnngp.kernels import NetworkKernel

Matrix = NDArray[np.float64]

DEPTHS = (1, 2, 3, 5, 7, 9)
TRAIN, NOISE, BIAS_VAR = 500, 1e-5, 0.1
# Activation, weight variance and scale of the inputs. By proposition 1 ReLU with twice the weight variance and inputs / √2
# is rank 2. The weight variances of all but tanh are critical.
FAMILIES: dict[str, tuple[Activation, float, float]] = {
    "maxout, rank 2": (Maxout(2), 1.0, 1.0),
    "maxout, rank 3": (Maxout(3), Maxout(3).critical_weight_var, 1.0),
    "maxout, rank 4": (Maxout(4), Maxout(4).critical_weight_var, 1.0),
    "ReLU": (ReLU(), 2.0, 0.5**0.5),
    "tanh": (Tanh(), 1.5, 1.0),
}


@dataclass
class Result:
    """What one family of networks did: test accuracy by depth, and the time for all depths."""

    name: str
    accuracy: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Digits:
    """Scikit-learn's digits, each image standardised by itself as in the paper, split in two."""

    train: Matrix
    train_labels: NDArray[np.int64]
    test: Matrix
    test_labels: NDArray[np.int64]

    @staticmethod
    def load(seed: int = 0) -> Digits:
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        images = (images - images.mean(axis=1, keepdims=True)) / images.std(axis=1, keepdims=True)
        order = np.random.default_rng(seed).permutation(len(images))
        first, rest = order[:TRAIN], order[TRAIN:]
        return Digits(images[first], labels[first], images[rest], labels[rest])

    @property
    def targets(self) -> Matrix:
        """One-hot minus 0.1, as in the paper."""
        return np.asarray(np.eye(10)[self.train_labels] - 0.1)


def posterior_mean(kernel: Matrix, cross: Matrix, targets: Matrix) -> Matrix:
    """The posterior mean at the test points: the paper's eq. (22), with the observed targets and a noise relative to the kernel."""
    from scipy.linalg import cho_factor, cho_solve

    noisy = kernel + NOISE * np.mean(np.diag(kernel)) * np.eye(len(kernel))
    return np.asarray(cross @ cho_solve(cho_factor(noisy, lower=True), targets))


def warm_up() -> None:
    """Compile what the demonstration needs, or load it from the disk: the first time takes some ten seconds."""
    points = np.eye(2)
    NetworkKernel([Maxout(2)])(points, points)


def run(data: Digits) -> Iterator[Result]:
    """Fit every family at every depth; one pass over the layers gives all depths."""
    for name, (activation, weight_var, scale) in FAMILIES.items():
        kernel = NetworkKernel([activation] * DEPTHS[-1], weight_var=weight_var, bias_var=BIAS_VAR)
        result, start = Result(name), time.perf_counter()
        train, test = scale * data.train, scale * data.test
        paths = zip(kernel.path(train, depths=DEPTHS), kernel.path(test, train, depths=DEPTHS), strict=True)
        for (depth, square), (_, cross) in paths:
            predicted = posterior_mean(square, cross, data.targets).argmax(axis=1)
            result.accuracy[depth] = float(np.mean(predicted == data.test_labels))
        result.seconds = time.perf_counter() - start
        yield result


def picture(data: Digits, results: list[Result], path: Path) -> None:
    """Draw accuracy by depth, F_q, a kernel matrix and some predictions, to a PNG file."""
    figure, axes = plots.new_figure(figsize=(11.0, 7.2), nrows=2, ncols=3)
    _draw_moments(axes[0, 0])
    _draw_accuracy(axes[0, 1], results)
    _draw_kernel(axes[0, 2], data)
    for ax in axes[1]:
        ax.remove()
    grid = figure.add_subfigure(axes[0, 0].get_gridspec()[1, :])
    _draw_predictions(grid, data)
    figure.savefig(path, dpi=120)


def _draw_moments(ax: Any) -> None:
    rho = np.linspace(-1.0, 1.0, 301)
    for rank, color in zip((1, 2, 3, 4, 8), ("#9aa5b1", "#1b6ca8", "#2a9d8f", "#c8553d", "#6a4c93"), strict=True):
        ax.plot(rho, Maxout(rank).moment(rho), color=color, label=f"q = {rank}")
    ax.set(title="What a layer does: F_q(ρ)", xlabel="correlation ρ before the layer", ylabel="E[max h · max h']")
    ax.legend(fontsize=8, frameon=False)


def _draw_accuracy(ax: Any, results: list[Result]) -> None:
    styles = {"ReLU": {"ls": "--", "marker": "s", "color": "#222222"}, "tanh": {"ls": ":", "marker": "^", "color": "#888888"}}
    colors = iter(("#1b6ca8", "#2a9d8f", "#c8553d"))
    for result in results:
        style = styles.get(result.name) or {"marker": "o", "color": next(colors)}
        ax.plot(list(result.accuracy), list(result.accuracy.values()), ms=4, label=result.name, **style)
    ax.set(title=f"Test accuracy, {TRAIN} to learn from", xlabel="hidden layers", ylim=(0.95, 1.0))
    ax.legend(fontsize=8, frameon=False)


def _draw_kernel(ax: Any, data: Digits) -> None:
    order = np.argsort(data.train_labels[:300], kind="stable")
    kernel = NetworkKernel([Maxout(4)] * 5, weight_var=Maxout(4).critical_weight_var, bias_var=BIAS_VAR)
    image = ax.imshow(kernel(data.train[:300][order]), cmap="magma", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    ax.set(title="Kernel, 300 digits by class", xticks=[], yticks=[])


def _draw_predictions(figure: Any, data: Digits, count: int = 9) -> None:
    """The surest, and the least sure, of the test images, with the posterior's three-sigma bars for all classes."""
    from scipy.linalg import cho_factor, cho_solve

    kernel = NetworkKernel([Maxout(4)] * 5, weight_var=Maxout(4).critical_weight_var, bias_var=BIAS_VAR)
    square, cross = kernel(data.train), kernel(data.test, data.train)
    factor = cho_factor(square + NOISE * np.mean(np.diag(square)) * np.eye(len(square)), lower=True)
    mean = cross @ cho_solve(factor, data.targets) + 0.1
    deviation = np.sqrt(np.maximum(kernel.diag(data.test) - np.einsum("ij,ji->i", cross, cho_solve(factor, cross.T)), 0.0))
    margin = np.diff(np.sort(mean, axis=1)[:, -2:], axis=1)[:, 0]
    unsure = np.argsort(margin)
    shown = np.concatenate([unsure[-3:], unsure[: count - 3]])
    axes = figure.subplots(2, count, gridspec_kw={"height_ratios": [1, 1.3]})
    for column, index in enumerate(shown):
        axes[0, column].imshow(data.test[index].reshape(8, 8), cmap="gray_r")
        axes[0, column].set_axis_off()
        right = mean[index].argmax() == data.test_labels[index]
        axes[0, column].set_title(f"{data.test_labels[index]}", color="#222222" if right else "#c8553d")
        axes[1, column].barh(
            range(10), mean[index], xerr=3.0 * deviation[index], color="#1b6ca8" if right else "#c8553d", error_kw={"lw": 0.8}
        )
        axes[1, column].set(xlim=(-0.5, 1.4), yticks=range(10) if column == 0 else [], xticks=[0, 1])
        axes[1, column].invert_yaxis()
    figure.suptitle(
        "Three of the surest and six of the least sure test images: posterior mean ± 3σ for each digit (red: wrong)", fontsize=10.5
    )
