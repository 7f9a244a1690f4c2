"""What a cell computes: fit a network to the training images of a split, and score it on the
others.

*Infinite width.* The angles between the images of a split are computed once (``kernels.sphere``)
and serve every network. What is left of a cell is a short series for each pair of images, one
factorisation, and one product. Variances are not computed: they would cost more than all the rest.

*Convolutional networks.* See ``image_cells``.

*Finite width.* Networks of one shape are trained together (``mnngp.finite``). All networks of a
repeat begin with the same random numbers, times their standard deviations, and see the training
images in the same order: what differs between them is what the protocol says.

*Log loss.* Probabilities are the softmax of a times the posterior means, or outputs, with the one a
≥ 0 that has the least log loss on the validation images; it is reported for them and for the test
images.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mnngp import finite
from mnngp._system import threads
from mnngp._typing import Matrix
from mnngp.data import Images, standardised
from mnngp.errors import ClusterError, MnngpError, NoiseWarning, collect_warnings
from mnngp.estimators.calibration import SoftmaxLoss
from mnngp.experiments.image_cells import InBlocks, Pictures, mean_at
from mnngp.experiments.protocol import Group, Protocol, Split
from mnngp.inference.posterior import Posterior
from mnngp.kernels import sphere
from mnngp.kernels.points import Points

Labels = NDArray[np.int64]
Stop = Callable[..., None]  # is called now and then, and raises if somebody wants the sweep to end
Outcome = dict[str, Any]  # the fields of a result that are not known before
_CLASSES = 10
# bytes of angles that are kept for all networks of a split; more are computed for each anew
_KEPT = 1 << 31
_TOLD = 3  # warnings of a cell


class Test:
    """The test images, which all splits share."""

    def __init__(self, protocol: Protocol, images: Images) -> None:
        self.pixels, self.labels = images.X_test[: protocol.test], images.y_test[: protocol.test]

    @cached_property
    def points(self) -> Points:
        return _points(self.pixels)

    @cached_property
    def inputs(self) -> Matrix:
        return _inputs(self.pixels)


class Prepared:
    """The images of a split, and what its cells share.

    ``forms`` are those of the networks to come: what others would need is not computed. ``blocks``
    are for convolutional ones.
    """

    def __init__(
        self,
        protocol: Protocol,
        images: Images,
        test: Test,
        split: Split,
        forms: Collection[str],
        blocks: InBlocks | None = None,
    ) -> None:
        self.images = _Split(protocol, images, test, split)
        self.infinite = _Infinite(protocol, self.images) if "dense" in forms else None
        self.finite = _Finite(protocol, self.images) if "finite" in forms else None
        self.pictures, self.blocks = None, blocks
        if "convolutional" in forms:
            self.pictures = Pictures(self.images.pixels, images.shape)
        self.noise = protocol.noise_var, protocol.policy
        # The paper raises the noise where a matrix cannot be factored; ``noise_var`` and
        # ``attempts`` tell. Else it is a warning.
        self.expected: tuple[type[NoiseWarning], ...] = (
            (NoiseWarning,) if protocol.policy == "paper" else ()
        )

    def outcomes(
        self, groups: Sequence[Group], step: Stop
    ) -> Iterator[tuple[Group, int, Outcome, float]]:
        """Compute the cells of some groups: each with its depth, its outcome and its seconds.

        Networks of finite width must be of one shape, convolutional ones of one kernel; each takes
        its share of the time. What fails is an outcome, too.
        """
        together = groups[0].form != "dense"
        pairs = [(group, depth) for group in groups for depth in group.depths]
        for cells in [pairs] if together else [[pair] for pair in pairs]:
            start = time.perf_counter()
            outcomes = self._caught(cells, step)
            seconds = (time.perf_counter() - start) / len(cells)
            for (group, depth), outcome in zip(cells, outcomes, strict=True):
                yield group, depth, outcome, seconds

    def _caught(self, cells: list[tuple[Group, int]], step: Stop) -> list[Outcome]:
        """What becomes of cells, with what was warned of; an error is an outcome, whatever it is:
        the other cells go on.
        """
        with collect_warnings() as warned:
            try:
                outcomes = self._computed(cells, step)
            except ClusterError:  # not of a cell
                raise
            except Exception as error:
                # without lone surrogates
                text = f"{type(error).__name__}: {error}".encode(errors="replace").decode()
                outcomes = [{"status": "failed", "error": text}] * len(cells)
        lines = [text for category, text in warned if not issubclass(category, self.expected)]
        return [outcome | {"warning": _text(lines)} for outcome in outcomes]

    def _computed(self, cells: list[tuple[Group, int]], step: Stop) -> list[Outcome]:
        groups, form = [group for group, _ in cells], cells[0][0].form
        if self.finite is not None and form == "finite":
            return self.finite.cells(groups, step)
        if self.pictures is not None and self.blocks is not None and form == "convolutional":
            found = self.pictures.means(groups, self.images.targets, self.noise, self.blocks, step)
            return [self.images.scores(mean) | _noise(posterior) for mean, posterior in found]
        assert self.infinite is not None  # forms says so
        return [self.infinite.cell(group, depth, step) for group, depth in cells]


def _text(warned: Iterable[str]) -> str | None:
    """Warnings as one text, a line for each. A deep network may have one for each layer: the first
    ones tell.
    """
    lines = list(dict.fromkeys(" ".join(text.split()) for text in warned))
    more = [f"… and {len(lines) - _TOLD} more of the kind"] if len(lines) > _TOLD else []
    return "\n".join(lines[:_TOLD] + more) or None


@contextmanager
def limited(small: bool, forms: Collection[str]) -> Iterator[None]:
    """The threads of the libraries that compute cells: one if a cell is ``small``, and several run
    side by side.

    PyTorch has its own count, which threads that begin inside inherit.
    """
    with threadpool_limits(limits=1, user_api="blas") if small else nullcontext():
        if "finite" not in forms:
            yield
            return
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(threads.count())
        try:
            yield
        finally:
            torch.set_num_threads(before)


class _Split:
    """Which images train, validate and test; targets and labels."""

    def __init__(self, protocol: Protocol, images: Images, test: Test, split: Split) -> None:
        train, validation = rows(protocol, split, len(images.y))
        self.split, self.test = split, test
        self.train, self.validation = images.X[train], images.X[validation]
        self.targets = _targets(images.y[train])
        self.labels = np.concatenate([images.y[validation], test.labels])

    @property
    def pixels(self) -> tuple[Matrix, Matrix]:
        """Those to learn from, and the others."""
        return self.train, np.concatenate([self.validation, self.test.pixels])

    def scores(self, mean: Matrix) -> Outcome:
        """Accuracies and log losses of predictions for the other images."""
        if not np.isfinite(mean).all():
            raise MnngpError("the posterior means are not finite")
        right = mean.argmax(axis=1) == self.labels
        count = len(self.validation)
        parts = slice(0, count), slice(count, None)
        validation, test = (SoftmaxLoss(mean[part], self.labels[part]) for part in parts)
        sharpness = validation.sharpness()
        return {
            "validation_accuracy": float(np.mean(right[parts[0]])),
            "validation_log_loss": validation(sharpness),
            "test_accuracy": float(np.mean(right[parts[1]])),
            "test_log_loss": test(sharpness),
        }


class _Infinite:
    """The images as points on a sphere, and the angles between them."""

    def __init__(self, protocol: Protocol, images: _Split) -> None:
        self.policy, self.noise_var = protocol.policy, protocol.noise_var
        self.images = images
        others = _points(images.validation), images.test.points
        points = _points(images.train)
        groups = (group for group in protocol.groups if group.split == images.split)
        several = sum(len(group.depths) for group in groups if group.form == "dense") > 1
        keep = several and 8 * len(points) * (len(points) // 2 + len(images.labels)) <= _KEPT
        self.points = sphere.on_sphere(points, sphere.window(others[0], points), keep=keep)
        self.others = [self.points.beside(some, keep=keep) for some in others]

    def cell(self, group: Group, depth: int, step: Stop) -> Outcome:
        noise = self.noise_var if group.noise_var is None else group.noise_var
        known = (self.points, self.images.targets, noise)
        posterior = Posterior(group.kernel(depth), *known, policy=self.policy, progress=step)
        return self.images.scores(mean_at(posterior, self.others, step)) | _noise(posterior)


class _Finite:
    def __init__(self, protocol: Protocol, images: _Split) -> None:
        finite.require_torch()
        self.images = images
        self.X, self.validation = _inputs(images.train), _inputs(images.validation)
        seeds = (np.random.SeedSequence([protocol.seed, images.split.repeat, i]) for i in (1, 2))
        self.start, self.order = (int(seed.generate_state(1)[0]) for seed in seeds)

    def cells(self, groups: Sequence[Group], step: Stop) -> list[Outcome]:
        """Train networks of one shape together, and score each."""
        first = groups[0]
        if first.training is None or first.width is None:
            raise MnngpError(f"not a network of finite width: {first}")
        shape = (first.width, first.rank or 1, first.depths[0], self.X.shape[1], _CLASSES)
        networks = [
            finite.MaxoutNetwork(
                *shape,
                weight_std=math.sqrt(group.weight_var),
                bias_std=math.sqrt(group.bias_var),
                seed=self.start,
            )
            for group in groups
        ]
        validation = None
        if first.training.patience is not None:
            validation = self.validation, _targets(self.images.labels[: len(self.validation)])
        training = replace(first.training, seed=self.order)
        histories = finite.train(
            networks, self.X, self.images.targets, training, validation=validation, stop=step
        )
        step()
        others = (self.validation, self.images.test.inputs)
        outputs = [finite.predict(networks, some) for some in others]
        scored: list[Outcome] = []
        for history, own in zip(histories, np.concatenate(outputs, axis=1), strict=True):
            # from before: early stopping has kept it
            best = first.training.patience is not None and history.kept > 0
            if (history.diverged and not best) or not np.isfinite(own).all():
                error = (
                    f"its loss or its outputs were not finite after {history.kept} of "
                    f"{first.training.epochs} epochs"
                )
                scored.append({"status": "diverged", "error": error})
            else:
                scored.append(self.images.scores(own.astype(np.float64)))
        return scored


def _noise(posterior: Posterior) -> Outcome:
    """What it was in the end."""
    return {"noise_var": float(posterior.noise_var[0]), "attempts": posterior.report.attempts}


def rows(protocol: Protocol, split: Split, count: int) -> tuple[Labels, Labels]:
    """Which of ``count`` original training images train, and which validate."""
    generator = np.random.default_rng(np.random.SeedSequence([protocol.seed, split.repeat]))
    order = generator.permutation(count)
    return order[: split.n_train], order[split.n_train : split.n_train + protocol.validation]


def _targets(labels: Labels) -> Matrix:
    """0.9 for the class, -0.1 elsewhere."""
    return np.asarray(np.eye(_CLASSES)[labels] - 0.1)


def _inputs(pixels: Matrix) -> Matrix:
    return standardised(pixels).astype(np.float32)


def _points(pixels: Matrix) -> Points:
    return Points.of("X", standardised(pixels), np.dtype(np.float64))
