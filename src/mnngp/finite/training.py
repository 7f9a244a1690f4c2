"""Training networks of finite width on the mean squared error, one or many at once.

Networks of one shape are trained as one ``Stack``: they see the same batches, and what an optimiser
does to a parameter depends on that parameter alone, so each goes its own way as if it were by
itself. For small networks that saves nearly all the time, which goes into starting operations.
Convolutional networks are computed one by one, and stepped as one.

*Loss.* The squared error, averaged over points and outputs; that of an epoch is averaged over its
batches, each as it was before its step.

*Divergence.* When the loss of a network is not finite any more it is left as it was before that
step, and reported; the others go on.

*Vanishing numbers.* Small weights in deep networks make gradients too small for normal floating
point, and on some processors arithmetic on those is many times slower. In a step they are taken as
zero, which they are beside Adam's ε = 1e-8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from mnngp import _validation
from mnngp._system.progress import Done
from mnngp._typing import Matrix
from mnngp.finite.checks import Data, as_group, input_sets, training_data
from mnngp.finite.finite_network import FiniteNetwork
from mnngp.finite.maxout_network import MaxoutNetwork
from mnngp.finite.one_by_one import OneByOne
from mnngp.finite.schedule import Training
from mnngp.finite.stack import Stack

# bytes for networks that are trained at once, beside the data; more networks are trained part by
# part
_MEMORY = 1 << 31
_CHUNK = 1 << 24  # numbers in a layer of all networks when predicting


@dataclass
class History:
    """What became of a network.

    Attributes
    ----------
    loss : list of float
        The mean squared error of each epoch: over its batches, each before its step. The last is
        not finite if it diverged.
    validation_loss : list of float
        That of the validation points after each epoch, if there are any.
    kept : int
        How many epochs the parameters have seen that the network has now: all of them, or those up
        to the best validation loss.
    diverged : bool
        The loss ceased to be finite. The network has the parameters with which that happened or,
        with early stopping, the best before.
    """

    loss: list[float] = field(default_factory=list)
    validation_loss: list[float] = field(default_factory=list)
    kept: int = 0
    diverged: bool = False

    @property
    def epochs(self) -> int:
        """How many there were, the one in which it diverged included."""
        return len(self.loss)


def train(
    networks: FiniteNetwork | Sequence[FiniteNetwork],
    X: Any,
    Y: Any,
    training: Training = Training(),  # noqa: B008  (it cannot be changed)
    *,
    validation: tuple[Any, Any] | None = None,
    progress: Done | None = None,
    stop: Callable[[], None] | None = None,
) -> list[History]:
    """Train networks in place, all at once.

    Parameters
    ----------
    networks : MaxoutNetwork or ConvMaxoutNetwork, or a sequence of them
        Of one width, rank, depth, number of inputs and outputs, parametrisation, dtype and device
        (convolutional ones of the same channels, layers and image shape); they may differ in their
        initialisation. All of their parameters are trained. More than fit into 2 GB are trained
        part by part.
    X, Y : arrays or tensors (points, inputs), (points, outputs)
        Shared by all networks; with one output Y may be (points,). Or (sets, points, inputs),
        (sets, points, outputs): several sets of points, each for an equal part of the networks, the
        first for the first of them and so on. Of convolutional networks points are images, or rows
        of their pixels.
    training : Training
        Optimiser, learning rate, epochs, batches, early stopping; the default is the paper's.
    validation : pair of arrays or tensors, optional
        Other points and targets, of as many sets; needed for early stopping.
    progress : callable, optional
        Is told what part of the work an epoch was; the parts add up to one.
    stop : callable, optional
        Is called before each step. What it raises ends the training, as Ctrl-C does: the networks
        then have the parameters of their last finished step or, with early stopping, the best so
        far.

    Returns
    -------
    list of History
        One for each network.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> networks = [MaxoutNetwork(20, rank=3, depth=2, inputs=1, seed=seed) for seed in range(8)]
    >>> histories = train(networks, X, np.sin(4.0 * X), Training(learning_rate=0.01, epochs=300))
    >>> max(history.loss[-1] for history in histories) < 0.01
    True
    >>> predict(networks, X).shape
    (8, 50, 1)
    """
    group = as_group(networks)
    data, judge = training_data(group, X, Y, training, validation)
    histories: list[History] = []
    with torch.no_grad():
        for some, sets in _parts(group, min(training.batch_size, data[0].shape[1]), len(data[0])):
            part, share = group[some], (some.stop - some.start) / len(group)
            # not kept in a variable: its memory is free before the next part takes its own
            histories += _Run(part, _of(data, sets), training, judge and _of(judge, sets)).run(
                _share(progress, share), stop
            )
    return histories


def predict(
    networks: FiniteNetwork | Sequence[FiniteNetwork], X: Any, batch_size: int | None = None
) -> Matrix:
    """The outputs of networks of one shape.

    Parameters
    ----------
    networks : MaxoutNetwork or ConvMaxoutNetwork, or a sequence of them
        As in ``train``.
    X : array or tensor (points, inputs), or (sets, points, inputs)
        As in ``train``.
    batch_size : int, optional
        Points at a time. None: as many as take some 100 MB.

    Returns
    -------
    array (networks, points, outputs)
        What the networks say of each point; (points, outputs) for a single network.
    """
    group = as_group(networks)
    points = input_sets("X", X, group)
    if batch_size is not None:
        batch_size = _validation.positive_int("batch_size", batch_size)
    with torch.no_grad():
        parts = _parts(group, 1, len(points))
        result = np.concatenate(
            [_outputs(_stacked(group[some]), points[sets], batch_size) for some, sets in parts]
        )
    return result[0] if isinstance(networks, FiniteNetwork) else result


class _Run:
    """The training of networks that fit into memory together."""

    def __init__(
        self, networks: Sequence[FiniteNetwork], data: Data, training: Training, judge: Data | None
    ) -> None:
        self.networks, self.data, self.training, self.judge = networks, data, training, judge
        self.histories = [History() for _ in networks]
        self.best = [float("inf")] * len(networks)  # validation losses
        self.rows = list(range(len(networks)))  # which networks the stack has
        self.going = set(self.rows)  # which of them are not finished
        self.stack = _stacked(networks)
        self.flushed = _denormals_are_zero()
        self._optimise({})

    def _optimise(self, state: dict[str, Any]) -> None:
        """Make an optimiser for the stack's parameters, with this state if there is one."""
        parameters = self.stack.parameters
        self.optimizer = _optimizer(self.training, parameters)
        if state:
            self.optimizer.state[parameters] = state

    def run(self, progress: Done, stop: Callable[[], None] | None) -> list[History]:
        epochs = self.training.epochs
        generator = torch.Generator().manual_seed(int(self.training.seed))
        try:
            for epoch in range(1, epochs + 1):
                self._epoch(generator, stop)
                if self.judge is not None:
                    self._validate(self.judge)
                if not self.going:
                    progress((epochs - epoch + 1) / epochs)
                    break
                self._leave_out_finished()
                progress(1.0 / epochs)
        # what was learnt until an interrupt is not lost; a step changes all parameters in one
        # operation
        finally:
            self._store_unfinished()
        return self.histories

    def _epoch(self, generator: torch.Generator, stop: Callable[[], None] | None) -> None:
        count, total = self.data[0].shape[1], np.zeros(len(self.rows))
        here = [(row, index) for row, index in enumerate(self.rows) if index in self.going]
        for X, Y in _batches(self.data, self.training.batch_size, generator):
            if stop is not None:
                stop()
            total += self._step(X, Y) * (X.shape[1] / count)
        for row, index in here:
            self.histories[index].loss.append(float(total[row]))

    def _step(self, X: torch.Tensor, Y: torch.Tensor) -> Matrix:
        """Make the losses of a batch smaller; what they were before."""
        # of this thread, and not for the caller's functions, where NumPy would warn of it
        torch.set_flush_denormal(True)
        try:
            loss: Matrix = self.stack.loss(X, Y).cpu().numpy()
            for row in np.flatnonzero(~np.isfinite(loss)).tolist():
                self._diverged(row)
            self.optimizer.step()
        finally:
            torch.set_flush_denormal(self.flushed)
        return loss

    def _diverged(self, row: int) -> None:
        index = self.rows[row]
        if index in self.going:
            if self.training.patience is None:
                self._store(row)
            self.going.remove(index)
            self.histories[index].diverged = True

    def _validate(self, judge: Data) -> None:
        """What the networks make of other points; those that get no better are finished."""
        X, Y = judge
        outputs = torch.from_numpy(_outputs(self.stack, X, None))
        targets = Y.cpu().repeat_interleave(len(outputs) // len(Y), 0)
        losses = (outputs - targets).square().mean((1, 2)).tolist()
        for row, (index, loss) in enumerate(zip(self.rows, losses, strict=True)):
            if index not in self.going:
                continue
            history = self.histories[index]
            history.validation_loss.append(loss)
            if self.training.patience is None:
                continue
            if loss < self.best[index]:
                self.best[index] = loss
                self._store(row)
            elif history.epochs - history.kept >= self.training.patience:
                self.going.remove(index)

    def _store(self, row: int) -> None:
        """The network gets the parameters that its row has now."""
        index = self.rows[row]
        self.stack.store(row, self.networks[index])
        self.histories[index].kept = self.histories[index].epochs

    def _store_unfinished(self) -> None:
        """The same for all unfinished networks; early stopping has given them their best."""
        if self.training.patience is None:
            for row, index in enumerate(self.rows):
                if index in self.going:
                    self._store(row)

    def _leave_out_finished(self) -> None:
        """Networks that share their points need not stay in the stack until all are finished."""
        rows = [row for row, index in enumerate(self.rows) if index in self.going]
        if len(rows) == len(self.rows) or len(self.data[0]) > 1:
            return
        # and no rows for now: an interrupt in between must not take one network's for another's
        self._store_unfinished()
        kept, self.rows = [self.rows[row] for row in rows], []
        state = self.optimizer.state[self.stack.parameters]
        self.stack.keep(rows, state)
        self.rows = kept
        self._optimise(state)


def _optimizer(training: Training, parameters: torch.Tensor) -> torch.optim.Optimizer:
    if training.optimizer == "sgd":
        return torch.optim.SGD([parameters], lr=training.learning_rate)
    try:
        # one pass over memory instead of ten
        return torch.optim.Adam([parameters], lr=training.learning_rate, fused=True)
    except RuntimeError:  # not for this device in this version of PyTorch
        return torch.optim.Adam([parameters], lr=training.learning_rate)


def _batches(data: Data, size: int, generator: torch.Generator) -> Iterator[Data]:
    """The points of an epoch in random order; all at once they need none."""
    X, Y = data
    count = X.shape[1]
    if count <= size:
        yield data
        return
    order = torch.randperm(count, generator=generator, device="cpu").to(X.device)
    for chosen in order.split(size):
        yield X[:, chosen], Y[:, chosen]


def _kind(network: FiniteNetwork) -> Any:
    return Stack if isinstance(network, MaxoutNetwork) else OneByOne


def _stacked(networks: Sequence[FiniteNetwork]) -> Any:
    """The networks as one."""
    return _kind(networks[0])(networks)


def _outputs(stack: Stack | OneByOne, X: torch.Tensor, batch_size: int | None) -> Matrix:
    """(networks, points, outputs), some points at a time."""
    size = batch_size or max(1, _CHUNK // stack.widest)
    return np.concatenate(
        [stack.outputs(some).mT.cpu().numpy() for some in X.split(size, dim=1)], axis=1
    )


def _parts(
    networks: Sequence[FiniteNetwork], points: int, sets: int
) -> Iterator[tuple[slice, slice]]:
    """Networks that fit into memory together, and their sets: whole ones, or a part of one."""
    numbers = _kind(networks[0]).numbers(networks[0], points)
    fit = max(1, _MEMORY // (numbers * networks[0].weights[0].element_size()))
    of_a_set = len(networks) // sets
    if fit >= of_a_set:
        for start, stop in _even(sets, fit // of_a_set):
            yield slice(start * of_a_set, stop * of_a_set), slice(start, stop)
    else:
        for one in range(sets):
            for start, stop in _even(of_a_set, fit):
                yield slice(one * of_a_set + start, one * of_a_set + stop), slice(one, one + 1)


def _even(count: int, largest: int) -> Iterator[tuple[int, int]]:
    """Divide ``count`` things into as few parts as possible, nearly equal ones."""
    parts = -(-count // largest)
    for part in range(parts):
        yield part * count // parts, (part + 1) * count // parts


def _denormals_are_zero() -> bool:
    """Whether this thread takes them as zero; there is no other way to ask."""
    return bool(torch.full((1,), 1e-38, dtype=torch.float32, device="cpu") * 1e-3 == 0.0)


def _of(data: Data, sets: slice) -> Data:
    return data[0][sets], data[1][sets]


def _share(progress: Done | None, share: float) -> Done:
    return lambda part: None if progress is None else progress(share * part)
