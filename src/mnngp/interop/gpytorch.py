"""A GPyTorch kernel: ``pip install "mnngp[gpytorch]"``. It works wherever a
``gpytorch.kernels.Kernel`` does, in BoTorch too.
"""

from __future__ import annotations

import contextlib
import math
import sys
import warnings
from typing import Any

import numpy as np

from mnngp import _validation
from mnngp.errors import InputError, MissingExtraError, ScaleError
from mnngp.kernels.sklearn import MaxoutKernel as CoreKernel

try:
    import torch

    with warnings.catch_warnings():
        # linear_operator, on import, still asks for what newer versions of PyTorch have deprecated.
        warnings.filterwarnings("ignore", ".*torch.jit.script.* is deprecated", DeprecationWarning)
        import gpytorch
except ImportError as error:
    raise MissingExtraError(
        'mnngp.interop.gpytorch needs PyTorch and GPyTorch: pip install "mnngp[gpytorch]"'
    ) from error

from gpytorch.constraints import GreaterThan, Interval, Positive
from gpytorch.priors import LogNormalPrior, Prior
from linear_operator.utils.errors import NanError
from torch import Tensor

from mnngp.interop import autograd, fused, pointwise, recursion
from mnngp.interop.recursion import Points


class OverflowingKernelError(ScaleError, NanError):  # type: ignore[misc]
    """A kernel is too large for its floating point type. BoTorch's line searches step back from a
    ``NanError``.
    """


class NegativeVarianceError(InputError, NanError):  # type: ignore[misc]
    """A variance that an optimiser has made negative; as above, BoTorch's line searches step
    back.
    """


class ConstraintError(InputError, RuntimeError):
    """A value that a constraint does not allow: after a ``RuntimeError`` with certain words BoTorch
    draws from a prior again.
    """


class MaxoutKernel(gpytorch.kernels.Kernel):  # type: ignore[misc]
    """The kernel of an infinitely wide maxout network, with trainable variances.

    Parameters
    ----------
    depth : int
        Number of hidden layers.
    rank : int
        Number of linear maps a unit takes the maximum of.
    weight_var : float or Tensor
        Initial variance of the weights (times the fan-in), the same in all layers: a number, or one
        for each batch.
    bias_var : float or Tensor
        Initial variance of the biases. Zero is a network without biases, which has no such
        parameter: it stays zero.
    kind : "nngp" or "ntk"
        The covariance of the network at its random initialisation, or its tangent kernel.
    ard_num_dims : int, optional
        Number of input dimensions that get a lengthscale each, by which the inputs are divided: 1
        in the beginning. None by default: inputs are taken as they are.
    batch_shape : torch.Size or sequence of int, optional
        Gives each batch variances of its own.
    active_dims : sequence of int, optional
        The input dimensions to look at.
    weight_var_prior, bias_var_prior, lengthscale_prior : gpytorch.priors.Prior, optional
        Without biases there is none for them.
    weight_var_constraint, bias_var_constraint, lengthscale_constraint :
    gpytorch.constraints.Interval, optional
        ``Positive()`` by default. An ``initial_value`` of a constraint comes before the values
        above, as elsewhere in GPyTorch.

    Notes
    -----
    All derivatives are finite. The NNGP kernel has first and second ones everywhere but at a zero
    input without biases, also where two inputs agree. The tangent kernel has a kink there, and zero
    stands for what is infinite. On a CPU, values and first derivatives come from the core's
    compiled loops; elsewhere, and for second derivatives, from PyTorch's operations.

    Examples
    --------
    >>> kernel = MaxoutKernel(depth=5, rank=4, weight_var=0.64, bias_var=0.1)
    >>> X = torch.eye(2, dtype=torch.float64)
    >>> kernel.double()(X).to_dense().detach().numpy().round(4)
    array([[0.8981, 0.8882],
           [0.8882, 0.8981]])
    >>> kernel.to_core()
    MaxoutKernel(depth=5, rank=4, weight_var=0.64, bias_var=0.1, kind='nngp')
    """

    def __init__(
        self,
        depth: int = 5,
        rank: int = 4,
        weight_var: float | Tensor = 1.0,
        bias_var: float | Tensor = 0.1,
        kind: str = "nngp",
        *,
        ard_num_dims: int | None = None,
        batch_shape: Any = None,
        active_dims: Any = None,
        weight_var_prior: Prior | None = None,
        weight_var_constraint: Interval | None = None,
        bias_var_prior: Prior | None = None,
        bias_var_constraint: Interval | None = None,
        lengthscale_prior: Prior | None = None,
        lengthscale_constraint: Interval | None = None,
    ) -> None:
        _validation.positive_int("depth", depth)
        _validation.positive_int("rank", rank)
        _validation.one_of("kind", kind, ("nngp", "ntk"))
        if ard_num_dims is not None:
            _validation.positive_int("ard_num_dims", ard_num_dims)
        elif lengthscale_prior is not None or lengthscale_constraint is not None:
            raise InputError(
                "lengthscale_prior and lengthscale_constraint need ard_num_dims: "
                "without it there is no lengthscale"
            )
        super().__init__(
            ard_num_dims=ard_num_dims,
            batch_shape=None if batch_shape is None else _shape("batch_shape", batch_shape),
            active_dims=active_dims,
            lengthscale_prior=lengthscale_prior,
            lengthscale_constraint=lengthscale_constraint,
        )
        self.depth, self.rank, self.kind = int(depth), int(rank), kind
        self._register_variance("weight_var", weight_var_prior, weight_var_constraint)
        self.has_biases = not _zeros("bias_var", _first(bias_var_constraint, bias_var))
        if self.has_biases:
            self._register_variance("bias_var", bias_var_prior, bias_var_constraint)
        else:
            for name, part in (
                ("bias_var_prior", bias_var_prior),
                ("bias_var_constraint", bias_var_constraint),
            ):
                if part is not None:
                    raise InputError(
                        f"{name} must be None for bias_var=0, which is not trained, got {part!r}"
                    )
        self._start(weight_var, bias_var)

    @classmethod
    def from_core(cls, kernel: CoreKernel, **arguments: Any) -> MaxoutKernel:
        """The GPyTorch kernel that a ``mnngp.MaxoutKernel`` is, in its floating point type.

        Parameters
        ----------
        kernel : mnngp.MaxoutKernel
            With one weight variance and one bias variance for all layers.
        **arguments
            Further arguments of this class, such as constraints and priors.
        """
        if not isinstance(kernel, CoreKernel):
            raise InputError(f"kernel must be a mnngp.MaxoutKernel, got {kernel!r}")
        for name in ("weight_var", "bias_var"):
            if not isinstance(getattr(kernel, name), int | float):
                raise InputError(f"kernel must have one {name} for all layers, got {kernel!r}")
        ours = cls(
            kernel.depth, kernel.rank, kernel.weight_var, kernel.bias_var, kernel.kind, **arguments
        )
        ours.to(getattr(torch, np.dtype(kernel.dtype).name))
        ours._start(kernel.weight_var, kernel.bias_var)  # once more: the type has changed
        return ours

    def to_core(self) -> CoreKernel:
        """The ``mnngp.MaxoutKernel`` with the variances that this kernel has now; it has neither
        batches nor lengthscales.
        """
        if self.batch_shape or self.has_lengthscale or self.active_dims is not None:
            raise InputError(
                "a mnngp.MaxoutKernel has no batch_shape, no lengthscales and no active_dims"
            )
        variances = (self.weight_var.item(), self.bias_var.item())
        return CoreKernel(
            self.depth,
            self.rank,
            *variances,
            kind=self.kind,
            dtype=str(self.dtype).removeprefix("torch."),
        )

    def extra_repr(self) -> str:
        """What stands in front of the parts when the kernel is printed."""
        return f"depth={self.depth}, rank={self.rank}, kind={self.kind!r}"

    # --- parameters -------------------------------------------------------------------------------

    @property
    def has_lengthscale(self) -> bool:
        """Whether inputs are divided by lengthscales."""
        return self.ard_num_dims is not None

    @property
    def is_stationary(self) -> bool:
        """Whether the kernel depends on differences of points only: it does not."""
        return False

    @property
    def weight_var(self) -> Tensor:
        """The variance of the weights, of shape ``(*batch_shape, 1, 1)``."""
        return self.raw_weight_var_constraint.transform(self.raw_weight_var)

    @weight_var.setter
    def weight_var(self, value: float | Tensor) -> None:
        self._set_weight_var(self, value)

    @property
    def bias_var(self) -> Tensor:
        """The variance of the biases, of shape ``(*batch_shape, 1, 1)``."""
        if not self.has_biases:
            return torch.zeros_like(self.raw_weight_var)
        return self.raw_bias_var_constraint.transform(self.raw_bias_var)

    @bias_var.setter
    def bias_var(self, value: float | Tensor) -> None:
        self._set_bias_var(self, value)

    # Priors are given these: methods, unlike lambdas, can be pickled.

    def _get_weight_var(self, module: MaxoutKernel) -> Tensor:
        return module.weight_var

    def _set_weight_var(self, module: MaxoutKernel, value: float | Tensor) -> None:
        module._set_variance("weight_var", value)

    def _get_bias_var(self, module: MaxoutKernel) -> Tensor:
        return module.bias_var

    def _set_bias_var(self, module: MaxoutKernel, value: float | Tensor) -> None:
        zero = _zeros("bias_var", value)
        if zero and module.has_biases:
            raise _out_of_bounds(
                "bias_var",
                value,
                "positive; for a network without biases make a kernel with bias_var=0",
            )
        if not (zero or module.has_biases):
            raise _out_of_bounds(
                "bias_var",
                value,
                "0, as the kernel was made; for a network with biases make another one",
            )
        if module.has_biases:
            module._set_variance("bias_var", value)

    def _register_variance(
        self, name: str, prior: Prior | None, constraint: Interval | None
    ) -> None:
        constraint = Positive() if constraint is None else constraint
        if not isinstance(constraint, Interval):
            raise InputError(
                f"{name}_constraint must be a gpytorch.constraints.Interval, got {constraint!r}"
            )
        if not (prior is None or isinstance(prior, Prior)):
            raise InputError(f"{name}_prior must be a gpytorch.priors.Prior, got {prior!r}")
        self.register_parameter(
            f"raw_{name}", torch.nn.Parameter(torch.zeros(*self.batch_shape, 1, 1))
        )
        if prior is not None:
            self.register_prior(
                f"{name}_prior", prior, getattr(self, f"_get_{name}"), getattr(self, f"_set_{name}")
            )
        self.register_constraint(f"raw_{name}", constraint)

    def _start(self, weight_var: float | Tensor, bias_var: float | Tensor) -> None:
        """Give the parameters their first values."""
        values = {"weight_var": weight_var, "bias_var": bias_var, "lengthscale": 1.0}
        for name, value in values.items():
            if hasattr(self, f"raw_{name}"):
                setattr(self, name, _first(getattr(self, f"raw_{name}_constraint"), value))

    def _set_variance(self, name: str, value: float | Tensor) -> None:
        raw, constraint = getattr(self, f"raw_{name}"), getattr(self, f"raw_{name}_constraint")
        tensor = _tensor(name, value).to(raw)
        if tensor.shape == self.batch_shape:
            tensor = tensor[..., None, None]
        if not (constraint.check(tensor) and torch.isfinite(tensor).all() and (tensor > 0.0).all()):
            raise _out_of_bounds(
                name, value, f"finite, positive and as its constraint {constraint} allows"
            )
        if self._strict_init:  # else samples are loaded, and their number becomes a batch dimension
            try:
                tensor = tensor.expand_as(raw)
            except RuntimeError as error:
                shape = tuple(self.batch_shape)
                raise InputError(
                    f"{name} must be a number or of the batch shape {shape}, got shape "
                    f"{tuple(tensor.shape)}"
                ) from error
        inverse = constraint.inverse_transform(tensor)
        if not torch.isfinite(inverse).all():
            raise _out_of_bounds(
                name,
                value,
                f"inside of its constraint {constraint}, not on its bound, where it "
                "could not be trained",
            )
        self.initialize(**{f"raw_{name}": inverse})

    # --- evaluation -------------------------------------------------------------------------------

    def forward(
        self,
        x1: Tensor,
        x2: Tensor,
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **params: Any,
    ) -> Tensor:
        """The kernel matrix (..., n, m) of points (..., n, d) and (..., m, d), or its diagonal
        (..., n).
        """
        if last_dim_is_batch:
            raise InputError(
                "last_dim_is_batch=True is not supported (GPyTorch is removing it): give the "
                "kernel a batch_shape, and the inputs "
                "a batch dimension"
            )
        if x1.shape[-1] == 0:
            raise InputError(f"x1 must have at least one feature, got shape {tuple(x1.shape)}")
        evaluate = type(self)._evaluate
        # torch.compile may be at work, and cannot look into compiled loops
        if "torch._dynamo" in sys.modules:
            evaluate = torch.compiler.disable(evaluate)
        # half precision would be too coarse for distances
        with torch.autocast(x1.device.type, enabled=False):
            result: Tensor = evaluate(self, x1, x2, diag)
        return result

    def _evaluate(self, x1: Tensor, x2: Tensor, diag: bool) -> Tensor:
        same = fused.same_points(x1, x2)
        dtype = torch.promote_types(
            torch.promote_types(x1.dtype, x2.dtype), self.raw_weight_var.dtype
        )
        # half precision is computed as single, integers as the parameters
        inside = torch.promote_types(dtype, torch.float32)
        x1, x2, weight_var, bias_var = (
            part.to(inside) for part in (x1, x2, self.weight_var, self.bias_var)
        )
        if self.has_lengthscale:
            x1, x2 = x1 / self.lengthscale, x2 if same else x2 / self.lengthscale
        tangent = self.kind == "ntk"
        if diag and not same:  # pairs: as many batches of one point on either side
            x1, x2 = x1[..., None, :], x2[..., None, :]
            weight_var, bias_var = weight_var[..., None, :, :], bias_var[..., None, :, :]
        rows = self._points("x1", x1, weight_var, bias_var, dtype)
        if diag and same:
            return recursion.diagonal(rows, self.rank, tangent=tangent).to(dtype)
        cols = rows if same else self._points("x2", x2, weight_var, bias_var, dtype)
        kernel = fused.matrix(rows, cols, self.rank, tangent=tangent).to(dtype)
        return kernel[..., 0, 0] if diag else kernel

    def _points(
        self, name: str, x: Tensor, weight_var: Tensor, bias_var: Tensor, dtype: torch.dtype
    ) -> Points:
        """The points behind the layers. If finite points have a kernel that is not, in ``dtype``,
        there is an error.
        """
        found = pointwise.points(x, weight_var, bias_var, self.rank, self.depth)
        if autograd.transformed():
            return found
        for parameter, value in (("weight_var", weight_var), ("bias_var", bias_var)):
            # an optimiser has stepped over a bound that is not a transformation
            if (value < 0.0).any():
                raise NegativeVarianceError(
                    f"{parameter} must not be negative, got {value.detach().min().item():.3g}"
                )
        own = recursion.diagonal(found, self.rank, tangent=self.kind == "ntk").detach().to(dtype)
        if not torch.isfinite(own).all() and all(
            torch.isfinite(part).all() for part in (x, weight_var, bias_var)
        ):
            largest, type_ = x.detach().abs().max().item(), str(dtype).removeprefix("torch.")
            raise OverflowingKernelError(
                f"the kernel of {name} with itself overflows {type_} at depth {self.depth}: {name} "
                "has entries up to "
                f"{largest:.3g}, and weight_var is {weight_var.detach().max().item():.3g}; scale "
                "the features to the size of one, "
                "or choose a smaller weight_var or depth"
            )
        return found


def kernel_with_priors(
    ard_num_dims: int,
    depth: int = 3,
    rank: int = 4,
    *,
    batch_shape: Any = None,
    active_dims: Any = None,
) -> gpytorch.kernels.ScaleKernel:
    """A scaled ``MaxoutKernel`` with a lengthscale for each input, for few points: its parameters
    have priors.

    A few dozen points say little about five and more parameters: without priors the likelihood has
    maxima where all is noise, and others where biases vanish and the function is a cone around the
    origin. The priors are for inputs within about ±½ (``Normalize(d, center=0.0)``) and outputs of
    variance one (``Standardize(1)``), of any number of dimensions. The bounds of the parameters are
    for BoTorch's ``fit_gpytorch_mll``, which keeps them; other optimisers may step over them.

    Parameters
    ----------
    ard_num_dims : int
        Number of input dimensions that are looked at.
    depth, rank : int
        Number of hidden layers, and of linear maps a unit takes the maximum of.
    batch_shape : torch.Size or sequence of int, optional
        Gives each batch parameters of its own.
    active_dims : sequence of int, optional
        The input dimensions to look at.
    """
    batch = torch.Size() if batch_shape is None else _shape("batch_shape", batch_shape)
    if active_dims is not None and len(active_dims) != ard_num_dims:
        raise InputError(
            f"ard_num_dims must be the number of active_dims, {len(active_dims)}, got "
            f"{ard_num_dims!r}"
        )
    weight_var, bias_var = _around(2.0, spread=0.5, low=1e-3), _around(2.0, spread=0.5, low=1e-3)
    lengthscale, outputscale = (
        _around(1.0, spread=0.5, low=0.025),
        _around(1.0, spread=1.0, low=1e-3),
    )
    kernel = MaxoutKernel(
        depth,
        rank,
        ard_num_dims=ard_num_dims,
        batch_shape=batch,
        active_dims=active_dims,
        weight_var_prior=weight_var[0],
        weight_var_constraint=weight_var[1],
        bias_var_prior=bias_var[0],
        bias_var_constraint=bias_var[1],
        lengthscale_prior=lengthscale[0],
        lengthscale_constraint=lengthscale[1],
    )
    return gpytorch.kernels.ScaleKernel(
        kernel,
        batch_shape=batch,
        outputscale_prior=outputscale[0],
        outputscale_constraint=outputscale[1],
    )


def _around(median: float, *, spread: float, low: float) -> tuple[LogNormalPrior, GreaterThan]:
    """A prior, and a bound instead of a transformation: where a softplus rounds to zero, a
    log-normal prior is an error.
    """
    return LogNormalPrior(math.log(median), spread), GreaterThan(
        low, transform=None, initial_value=median
    )


def _shape(name: str, value: Any) -> torch.Size:
    with contextlib.suppress(TypeError):
        shape = torch.Size(value)
        if all(size >= 0 for size in shape):
            return shape
    raise InputError(f"{name} must be a torch.Size or another sequence of sizes, got {value!r}")


def _out_of_bounds(name: str, value: Any, allowed: str) -> ConstraintError:
    return ConstraintError(
        f"{name} must be {allowed}, got {value!r}, which is out of bounds of "
        "its current constraints"
    )


def _first(constraint: Any, value: Any) -> Any:
    """The first value of a parameter: the ``initial_value`` of its constraint comes before what is
    given.
    """
    if not isinstance(constraint, Interval) or constraint.initial_value is None:
        return value
    return constraint.transform(constraint.initial_value)


def _tensor(name: str, value: Any) -> Tensor:
    """Variances as a tensor of real numbers: one number, or one for each batch."""
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value):
        value = torch.from_numpy(np.array(_validation.real_array(name, value), dtype=np.float64))
    elif not torch.is_tensor(value):
        value = _validation.real(name, value, low=0.0, high=_validation.LARGEST_VARIANCE)
    return torch.as_tensor(value, dtype=torch.float64 if not torch.is_tensor(value) else None)


def _zeros(name: str, value: Any) -> bool:
    """Whether all variances are zero; not only some."""
    zero = _tensor(name, value) == 0.0
    if zero.any() and not zero.all():
        raise InputError(
            f"{name} must be positive for all batches, or 0 for all (no biases), got {value!r}"
        )
    return bool(zero.all())
