"""How networks of finite width are trained; known without PyTorch, so that runs can be read."""

from __future__ import annotations

from dataclasses import dataclass

from mnngp import _validation

OPTIMIZERS = ("adam", "sgd")


@dataclass(frozen=True)
class Training:
    """Mean squared error, minimised by steps over batches.

    By default as in the paper, which does not name its optimiser.

    Parameters
    ----------
    optimizer : {"adam", "sgd"}
        Adam, or plain gradient descent over batches.
    learning_rate : float
        Of every step.
    epochs : int
        How often every row is seen, at most.
    batch_size : int
        Rows of a step; the last step of an epoch takes what is left.
    patience : int, optional
        Early stopping: after so many epochs without a lower validation loss a network ends, with
        the parameters that had the lowest. None, the default: it is off.
    seed : int
        Of the order of the rows, which is the same for all networks that are trained together.

    Examples
    --------
    >>> print(Training(learning_rate=1e-3))
    adam, learning rate 0.001, 200 epochs, batches of 256
    """

    optimizer: str = "adam"
    learning_rate: float = 1e-5
    epochs: int = 200
    batch_size: int = 256
    patience: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _validation.one_of("optimizer", self.optimizer, OPTIMIZERS)
        rate = _validation.real("learning_rate", self.learning_rate, low=0.0, strict=True)
        # Python's own numbers, in place of NumPy's
        plain = {"learning_rate": rate, "seed": _validation.seed("seed", self.seed)}
        for name in ("epochs", "batch_size", "patience"):
            if (value := getattr(self, name)) is not None or name != "patience":
                plain[name] = _validation.positive_int(name, value)
        for name, number in plain.items():
            object.__setattr__(self, name, number)

    def __str__(self) -> str:
        text = (
            f"{self.optimizer}, learning rate {self.learning_rate!r}, {self.epochs} epochs, "
            f"batches of {self.batch_size}"
        )
        return text if self.patience is None else f"{text}, patience {self.patience}"
