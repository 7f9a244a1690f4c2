"""The kernel of several networks side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mnngp import _validation
from mnngp.activations import Activation
from mnngp.errors import InputError, UnavailableError
from mnngp.kernels.sklearn import DeepKernel
from mnngp.networks.network_sum import NetworkSum

if TYPE_CHECKING:
    from mnngp.kernels.points import Points


_OF_EACH = ("depth", "rank", "weight_var", "bias_var", "kind")


def in_common(values: list[Any]) -> Any:
    """The value, if all are equal, or else all of them."""
    return values[0] if all(value == values[0] for value in values) else values


class SumKernel(DeepKernel):
    """The kernel of independent networks side by side, whose outputs are added.

    The estimators choose such a sum of a network behind standardised columns and one behind an
    embedding: a function that is partly the one and partly the other.

    Parameters
    ----------
    kernels : sequence of MaxoutKernel
        One for each network, fully connected, of one dtype.
    shares : sequence of float, optional
        What each is multiplied by; one by default.
    columns : sequence of (start, stop), optional
        Which columns each network sees; all by default.

    Examples
    --------
    >>> from mnngp import Embedding, MaxoutKernel
    >>> smooth, single = MaxoutKernel(2), MaxoutKernel(1, embedding=Embedding(0.5))
    >>> X = np.array([[0.0, 1.0], [1.0, 0.5]])
    >>> both = SumKernel([smooth, single], shares=[0.5, 0.5])
    >>> bool(np.allclose(both(X), 0.5 * smooth(X) + 0.5 * single(X)))
    True
    """

    def __init__(
        self,
        kernels: Sequence[DeepKernel],
        shares: Sequence[float] | None = None,
        columns: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self.kernels = kernels
        self.shares = shares
        self.columns = columns
        self._network()

    @property
    def dtype(self) -> Any:
        """Of the computation."""
        return self.kernels[0].dtype

    @property
    def rest(self) -> tuple[Any, Any]:
        """What there is beside the kernels."""
        return self.shares, self.columns

    def __getattr__(self, name: str) -> Any:
        """``depth``, ``rank``, ``weight_var``, ``bias_var`` and ``kind``: what all kernels have, or
        a list of what each has.
        """
        if name in _OF_EACH and "kernels" in vars(self):
            return in_common([getattr(kernel, name) for kernel in self.kernels])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def theta(self) -> NDArray[np.float64]:
        """Nothing is left to an optimiser."""
        return np.empty(0)

    @theta.setter
    def theta(self, theta: NDArray[np.float64]) -> None:
        if len(theta):
            raise UnavailableError("a SumKernel has no free hyperparameters")

    @property
    def hyperparameters(self) -> list[Any]:
        return []

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The three parameters."""
        return {"kernels": self.kernels, "shares": self.shares, "columns": self.columns}

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """The kernel matrix, as of every kernel; a gradient there is none."""
        if eval_gradient:
            raise UnavailableError("a SumKernel has no gradient: its kernels have, each its own")
        return super().__call__(X, Y)

    def __repr__(self) -> str:
        each = zip(self._shares(), self.kernels, strict=True)
        return " + ".join(f"{share:.4g} * {kernel!r}" for share, kernel in each)

    def _activations(self, depth: int | None = None) -> tuple[Activation, ...]:
        return tuple(unit for kernel in self.kernels for unit in kernel._activations())

    def _shares(self) -> tuple[float, ...]:
        given = (1.0,) * len(self.kernels) if self.shares is None else tuple(self.shares)
        if len(given) != len(self.kernels):
            raise InputError(f"shares must be {len(self.kernels)} numbers, got {self.shares!r}")
        return tuple(
            _validation.real(f"shares[{i}]", share, low=0.0, strict=True)
            for i, share in enumerate(given)
        )

    def _network(self, depth: int | None = None) -> Any:
        if not isinstance(self.kernels, list | tuple) or len(self.kernels) < 1:
            raise InputError(f"kernels must be a list of kernels, got {self.kernels!r}")
        for index, kernel in enumerate(self.kernels):
            known = isinstance(kernel, DeepKernel) and not isinstance(kernel, SumKernel)
            if not known or getattr(kernel, "convolutional", False):
                raise InputError(
                    f"kernels[{index}] must be a MaxoutKernel, or a NetworkKernel without "
                    f"convolutions, got {kernel!r}"
                )
        if len({np.dtype(kernel.dtype) for kernel in self.kernels}) > 1:
            raise InputError("kernels must all have one dtype")
        if self.columns is not None and len(self.columns) != len(self.kernels):
            raise InputError(
                f"columns must be {len(self.kernels)} pairs (start, stop), got {self.columns!r}"
            )
        if depth is not None:
            raise UnavailableError("a SumKernel has no path of depths: its kernels have")
        return NetworkSum(tuple(kernel.network for kernel in self.kernels), self._shares())

    def prepared(self, name: str, rows: NDArray[Any]) -> Points:
        """Data that is checked, as points."""
        from mnngp.kernels.sum_points import SumPoints

        columns = self.columns or [(0, rows.shape[1])] * len(self.kernels)
        if max(stop for _, stop in columns) > rows.shape[1]:
            raise InputError(
                f"{name} must have {max(stop for _, stop in columns)} columns, as the kernel says, "
                f"got {rows.shape[1]}"
            )
        given = np.ascontiguousarray(rows, dtype=np.dtype(self.dtype))
        each = zip(self.kernels, columns, strict=True)
        parts = [kernel.prepared(name, given[:, start:stop]) for kernel, (start, stop) in each]
        return SumPoints.of_parts(given, parts)
