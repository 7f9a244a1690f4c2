"""Kernels of infinitely wide networks, as scikit-learn ``Kernel`` objects."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from mnngp import _validation
from mnngp._typing import Matrix
from mnngp.activations import Activation, Maxout
from mnngp.errors import InputError
from mnngp.networks.embedding import Embedding
from mnngp.networks.network import Network, as_dtype

if TYPE_CHECKING:
    from mnngp.kernels.points import Points

Bounds = tuple[float, float] | str


class DeepKernel(Kernel):  # type: ignore[misc]
    """What all kernels of deep networks share; the subclasses say which activations there are.

    The compiled code is imported on first evaluation, so that making a kernel is quick.
    """

    weight_var: float | Sequence[float]
    bias_var: float | Sequence[float]
    kind: str
    dtype: Any
    weight_var_bounds: Bounds
    bias_var_bounds: Bounds
    embedding: Embedding | None = None  # of kernels that were pickled before there were any

    @abstractmethod
    def _activations(self, depth: int | None = None) -> tuple[Activation, ...]:
        """The activations of the network, or of one of another depth; raises where there is no
        such.
        """

    # --- evaluation -------------------------------------------------------------------------------

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """The kernel matrix of ``X`` with ``Y`` (with itself if Y is None).

        Parameters
        ----------
        X : array (n, d)
            Points, a row a point: real numbers of any dtype and layout.
        Y : array (m, d), optional
            Other points.
        eval_gradient : bool
            Whether to return the derivative in ``theta`` (logarithms of the free variances) as
            well. Only for ``Y = None``.

        Returns
        -------
        K : array (n, m)
            The kernel matrix, exactly symmetric for ``Y = None``.
        K_gradient : array (n, n, len(theta))
            Its derivatives in ``theta``, the logarithms; only with ``eval_gradient``.
        """
        network = self._network()
        if eval_gradient and Y is not None:
            raise InputError(
                "eval_gradient=True needs Y=None: the gradient is that of the symmetric matrix k(X)"
            )
        x, y = self.points(X, Y)
        if eval_gradient:
            from mnngp.kernels.gradient import matrix_and_gradient

            return matrix_and_gradient(network, x, *self.free_variances)
        from mnngp.kernels.evaluate import matrix

        return matrix(network, x, y)[0]

    def diag(self, X: Any) -> Matrix:
        """The kernel of each point with itself, ``np.diag(k(X))`` without the matrix."""
        network = self._network()
        x, _ = self.points(X, None)
        from mnngp.kernels.evaluate import diagonal

        return diagonal(network, x)

    def path(
        self, X: Any, Y: Any = None, depths: Sequence[int] | None = None
    ) -> Iterator[tuple[int, Matrix]]:
        """Kernel matrices of several depths, in one pass over the layers.

        Parameters
        ----------
        X, Y : arrays
            As for a call.
        depths : sequence of int, optional
            Depths wanted; all up to this kernel's own by default. They come in ascending order.

        Yields
        ------
        depth, K : int, array (n, m)
            The matrix is the caller's to keep or change.
        """
        own = len(self._activations())
        if depths is not None and (
            not isinstance(depths, Sequence | np.ndarray | range) or isinstance(depths, str)
        ):
            raise InputError(f"depths must be a sequence of positive integers, got {depths!r}")
        wanted = sorted(
            {
                _validation.positive_int("depths", depth)
                for depth in (range(1, own + 1) if depths is None else depths)
            }
        )
        if not wanted:
            raise InputError("depths must hold at least one positive integer, got none")
        network = self._network(wanted[-1])
        x, y = self.points(X, Y)
        from mnngp.kernels.evaluate import matrices

        return ((depth, kernel) for depth, kernel, _ in matrices(network, x, y, wanted))

    def normalized(self, X: Any, Y: Any = None) -> tuple[Matrix, float]:
        """The kernel matrix without its scale: ``k(X, Y) = exp(log_scale) · K``.

        For kernels that do not fit their floating point type (great depth far from the critical
        weight variance). The largest entry of K's diagonal is between ½ and 2, and a posterior mean
        with a noise that is relative to the scale is the same.

        Returns
        -------
        K : array (n, m)
            The scaled matrix.
        log_scale : float
            The logarithm of what it was divided by.
        """
        network = self._network()
        x, y = self.points(X, Y)
        from mnngp.kernels.evaluate import matrix

        return matrix(network, x, y, normalized=True)

    # --- the scikit-learn protocol ----------------------------------------------------------------

    def is_stationary(self) -> bool:
        """Whether the kernel depends on differences of points only: it does not."""
        return False

    @property
    def hyperparameter_weight_var(self) -> Hyperparameter:
        return _hyperparameter("weight_var", self.weight_var, self._bounds_that_fit())

    @property
    def hyperparameter_bias_var(self) -> Hyperparameter:
        # A bias variance of zero has no logarithm: it stays what it is.
        return _hyperparameter(
            "bias_var",
            self.bias_var,
            "fixed" if np.any(np.equal(self.bias_var, 0.0)) else self.bias_var_bounds,
        )

    def __repr__(self) -> str:
        parameters = self.get_params()
        shown = {name: value for name, value in parameters.items() if not name.endswith("_bounds")}
        usual = {
            "dtype": np.dtype(np.float64),
            "image_shape": None,
            "flips": False,
            "embedding": None,
        }
        for name, value in usual.items():
            if (
                name in shown
                and (np.dtype(shown[name]) if name == "dtype" else shown[name]) == value
            ):
                del shown[name]
        listed = ", ".join(f"{name}={_short(value)}" for name, value in shown.items())
        return f"{type(self).__name__}({listed})"

    def _bounds_that_fit(self) -> Any:
        """The bounds of weight_var, less where a deep kernel overflows: an optimiser that walks
        there would end in an error.

        A kernel grows by at most ``weight_var · E φ²`` a layer.
        """
        if isinstance(self.weight_var_bounds, str):
            return self.weight_var_bounds
        activations = self._activations()
        growth = max([1.0, *(unit.second_moment for unit in set(activations) if unit.homogeneous)])
        digits = 250.0 if as_dtype(self.dtype) == np.float64 else 28.0
        largest = 10.0 ** (digits / (len(activations) + 1)) / growth
        pairs = np.array(self.weight_var_bounds, dtype=np.float64)
        pairs[..., 1] = np.maximum(np.minimum(pairs[..., 1], largest), pairs[..., 0])
        return pairs

    @property
    def network(self) -> Network:
        """The network whose kernel this is, as data; its parameters are checked on the way."""
        return self._network()

    # --- from parameters to the engine ------------------------------------------------------------

    def _network(self, depth: int | None = None) -> Network:
        """Check all parameters and put the network together, or one of another depth."""
        own = self._activations()
        _validation.bounds("weight_var_bounds", self.weight_var_bounds)
        _validation.bounds("bias_var_bounds", self.bias_var_bounds)
        others = self.weight_var, self.bias_var, self.kind, self.dtype, self._embedding()
        network = Network.of(own, *others)
        if depth is None or depth <= len(own):
            return network.up_to(len(own) if depth is None else depth)
        activations = self._activations(depth)
        if np.ndim(self.weight_var) or np.ndim(self.bias_var):
            raise InputError(
                f"depths must be at most {len(own)}, for which weight_var and bias_var have "
                f"values, got {depth}"
            )
        return Network.of(activations, *others)

    def _embedding(self) -> Embedding | None:
        """What stands in front of the first layer, checked."""
        if not (self.embedding is None or isinstance(self.embedding, Embedding)):
            raise InputError(
                f"embedding must be None or an Embedding, such as Embedding(1.0), got "
                f"{self.embedding!r}"
            )
        return self.embedding

    def points(self, X: Any, Y: Any = None) -> tuple[Points, Points | None]:
        """The data as the engine sees it, checked; None for Y if it is X."""
        rows = self.checked("X", X)
        others = None if Y is None or Y is X else self.checked("Y", Y, like=rows)
        # Both are checked before either is worked on.
        return self.prepared("X", rows), None if others is None else self.prepared("Y", others)

    def checked(self, name: str, X: Any, like: Any = None) -> NDArray[Any]:
        """Data that this kernel takes, as an array whose rows are points; ``like`` other such."""
        return _validation.points(name, X, None if like is None else like.shape[1])

    def prepared(self, name: str, rows: NDArray[Any]) -> Points:
        """Data that is checked, as points."""
        from mnngp.kernels.embedded import EmbeddedPoints
        from mnngp.kernels.points import Points

        if self.embedding is not None:
            return EmbeddedPoints.embed(name, rows, self.embedding, as_dtype(self.dtype))
        return Points.of(name, rows, as_dtype(self.dtype))

    @property
    def free_variances(self) -> tuple[NDArray[np.int64], int]:
        """Which element of ``theta`` moves weight_var and bias_var of each layer, (2, layers).

        The number of elements comes with it; -1 stands for a variance that is fixed. In ``theta``
        bias_var stands before weight_var.
        """
        layers, count = len(self._network().blocks), 0
        theta_index = np.full((2, layers), -1, dtype=np.int64)
        for row, hyperparameter in (
            (1, self.hyperparameter_bias_var),
            (0, self.hyperparameter_weight_var),
        ):
            if not hyperparameter.fixed:
                each = hyperparameter.n_elements > 1
                theta_index[row] = count + np.arange(layers) * each
                count += hyperparameter.n_elements
        return theta_index, count


class MaxoutKernel(DeepKernel):
    """The kernel of an infinitely wide maxout network with ``depth`` hidden layers of rank
    ``rank``.

    Parameters
    ----------
    depth : int
        Number of hidden layers, L in the paper.
    rank : int
        Number of linear maps a unit takes the maximum of, q in the paper.
    weight_var : float, or sequence of depth + 1 floats
        Variance of the weights (times the fan-in), σ_w² in the paper: one for all layers, or one
        for the affine map before each activation and one for the output.
    bias_var : float, or sequence of depth + 1 floats
        Variance of the biases, σ_b² in the paper, likewise.
    kind : "nngp" or "ntk"
        The covariance of the network at its random initialisation, or its tangent kernel.
    dtype : "float64" or "float32"
        Type of the computation and of the result. The data may have any.
    weight_var_bounds : pair of floats or "fixed"
        For optimisers of ``theta``, as in scikit-learn. The upper bound of a deep network's weight
        variance is lowered to where the kernel still fits its type.
    bias_var_bounds : pair of floats or "fixed"
        Likewise. A bias variance of zero is always fixed.
    embedding : Embedding, optional
        In front of the first layer: each feature by itself, before any layer mixes them.

    Examples
    --------
    >>> import numpy as np
    >>> kernel = MaxoutKernel(depth=5, rank=4, weight_var=0.64, bias_var=0.1)
    >>> kernel
    MaxoutKernel(depth=5, rank=4, weight_var=0.64, bias_var=0.1, kind='nngp')
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> kernel(X).round(6)
    array([[0.898101, 0.888192],
           [0.888192, 0.898101]])
    >>> [depth for depth, K in kernel.path(X, depths=(1, 5, 9))]
    [1, 5, 9]
    """

    def __init__(
        self,
        depth: int = 5,
        rank: int = 4,
        weight_var: float | Sequence[float] = 1.0,
        bias_var: float | Sequence[float] = 0.1,
        kind: str = "nngp",
        dtype: Any = "float64",
        weight_var_bounds: Bounds = (1e-5, 1e5),
        bias_var_bounds: Bounds = (1e-5, 1e5),
        embedding: Embedding | None = None,
    ) -> None:
        self.depth = depth
        self.rank = rank
        self.weight_var = weight_var
        self.bias_var = bias_var
        self.kind = kind
        self.dtype = dtype
        self.weight_var_bounds = weight_var_bounds
        self.bias_var_bounds = bias_var_bounds
        self.embedding = embedding
        self._network()

    def _activations(self, depth: int | None = None) -> tuple[Activation, ...]:
        return (Maxout(self.rank),) * _validation.positive_int(
            "depth", self.depth if depth is None else depth
        )


def _hyperparameter(name: str, value: Any, bounds: Any) -> Hyperparameter:
    count = len(value) if np.ndim(value) else 1
    return Hyperparameter(name, "numeric", bounds, count)


def _short(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, list | tuple | np.ndarray) and len(value) > 6:
        return f"[{', '.join(map(_short, value[:3]))}, … {len(value)} in all]"
    if isinstance(value, list | tuple | np.ndarray):
        return f"[{', '.join(map(_short, value))}]"
    return repr(value)
