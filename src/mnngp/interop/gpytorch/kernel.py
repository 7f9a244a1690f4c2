"""The kernels of wide networks as modules with trainable variances."""

from __future__ import annotations

import contextlib
import sys
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self, TypeAlias

import gpytorch
import numpy as np
import torch
from gpytorch.constraints import Interval, Positive
from gpytorch.priors import Prior
from linear_operator.utils.errors import NanError
from torch import Tensor

from mnngp import _validation
from mnngp.activations import Activation
from mnngp.errors import InputError, ScaleError
from mnngp.interop.gpytorch import autograd
from mnngp.networks.embedding import Embedding

Variances: TypeAlias = "float | Sequence[float] | Tensor"


class OverflowingKernelError(ScaleError, NanError):  # type: ignore[misc]
    """A kernel is too large for its type. BoTorch's line searches step back from a ``NanError``."""


class NegativeVarianceError(InputError, NanError):  # type: ignore[misc]
    """A variance that an optimiser has made negative; BoTorch's line searches step back."""


class ConstraintError(InputError, RuntimeError):
    """A value that a constraint does not allow.

    After a ``RuntimeError`` with certain words BoTorch draws from a prior again.
    """


@dataclass
class Options:
    """What every kernel here takes by keyword; see ``MaxoutKernel``."""

    ard_num_dims: int | None = None
    batch_shape: Any = None
    active_dims: Any = None
    weight_var_prior: Prior | None = None
    weight_var_constraint: Interval | None = None
    bias_var_prior: Prior | None = None
    bias_var_constraint: Interval | None = None
    lengthscale_prior: Prior | None = None
    lengthscale_constraint: Interval | None = None
    embedding: Embedding | None = None


class DeepKernel(gpytorch.kernels.Kernel):  # type: ignore[misc]
    """What the kernels of all networks share; subclasses say which activations there are."""

    _core: ClassVar[Any]  # the kernel of ``mnngp`` that this one is

    def __init__(
        self,
        units: Sequence[Activation],
        weight_var: Variances,
        bias_var: Variances,
        kind: str,
        options: Options,
    ) -> None:
        _validation.one_of("kind", kind, ("nngp", "ntk"))
        if options.ard_num_dims is not None:
            _validation.positive_int("ard_num_dims", options.ard_num_dims)
        elif options.lengthscale_prior is not None or options.lengthscale_constraint is not None:
            raise InputError(
                "lengthscale_prior and lengthscale_constraint need ard_num_dims: "
                "without it there is no lengthscale"
            )
        batch = options.batch_shape
        super().__init__(
            ard_num_dims=options.ard_num_dims,
            batch_shape=None if batch is None else as_shape("batch_shape", batch),
            active_dims=options.active_dims,
            lengthscale_prior=options.lengthscale_prior,
            lengthscale_constraint=options.lengthscale_constraint,
        )
        self.kind = kind
        self.embedding = options.embedding
        self._units = tuple(units)
        bias_var_first = _first(options.bias_var_constraint, bias_var)
        self.has_biases = not _zeros("bias_var", bias_var_first)
        self._register_variance("weight_var", weight_var, options)
        if self.has_biases:
            self._register_variance("bias_var", bias_var, options)
        else:
            for name in ("bias_var_prior", "bias_var_constraint"):
                part = getattr(options, name)
                if part is not None:
                    raise InputError(
                        f"{name} must be None for bias_var=0, which is not trained, got {part!r}"
                    )
        self._start(weight_var, bias_var)

    @property
    def depth(self) -> int:
        """The number of hidden layers."""
        return len(self._units)

    @abstractmethod
    def _shape(self) -> dict[str, Any]:
        """What says which layers there are, by the names that both libraries' kernels take."""

    @classmethod
    def from_core(cls, kernel: Any, **options: Any) -> Self:
        """The GPyTorch kernel that a kernel of ``mnngp`` is, in its floating point type.

        Parameters
        ----------
        kernel : mnngp.MaxoutKernel or mnngp.NetworkKernel
            The one of this class's name.
        **options
            Constraints, priors and so on, as of this class.
        """
        if not isinstance(kernel, cls._core):
            raise InputError(f"kernel must be a mnngp.{cls._core.__name__}, got {kernel!r}")
        given = {
            name: value
            for name, value in kernel.get_params().items()
            if name not in {"dtype", "image_shape", "flips"} and not name.endswith("_bounds")
        }
        ours = cls(**given, **options)
        ours.to(getattr(torch, np.dtype(kernel.dtype).name))
        ours._start(kernel.weight_var, kernel.bias_var)  # once more: the type has changed
        return ours

    def to_core(self) -> Any:
        """The kernel of ``mnngp`` with the variances that this one has now.

        It has neither batches nor lengthscales.
        """
        if self.batch_shape or self.has_lengthscale or self.active_dims is not None:
            raise InputError(
                f"a mnngp.{type(self).__name__} has no batch_shape, no lengthscales "
                "and no active_dims"
            )
        found = {name: getattr(self, name)[0].tolist() for name in ("weight_var", "bias_var")}
        variances = {name: one[0] if len(one) == 1 else one for name, one in found.items()}
        dtype = str(self.dtype).removeprefix("torch.")
        return self._core(**self._shape(), **variances, kind=self.kind, dtype=dtype)

    def extra_repr(self) -> str:
        """What stands in front of the parts when the kernel is printed."""
        return ", ".join(
            f"{name}={value!r}" for name, value in {**self._shape(), "kind": self.kind}.items()
        )

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
        """The variances of the weights, ``(*batch_shape, 1, 1 or depth + 1)``."""
        return self.raw_weight_var_constraint.transform(self.raw_weight_var)

    @weight_var.setter
    def weight_var(self, value: Variances) -> None:
        self._set_variance("weight_var", value)

    @property
    def bias_var(self) -> Tensor:
        """The variances of the biases, likewise."""
        if not self.has_biases:
            return torch.zeros_like(self.raw_weight_var[..., :1])
        return self.raw_bias_var_constraint.transform(self.raw_bias_var)

    @bias_var.setter
    def bias_var(self, value: Variances) -> None:
        zero = _zeros("bias_var", value)
        if zero and self.has_biases:
            allowed = "positive; for a network without biases make a kernel with bias_var=0"
            raise _out_of_bounds("bias_var", value, allowed)
        if not (zero or self.has_biases):
            allowed = "0, as the kernel was made; for a network with biases make another one"
            raise _out_of_bounds("bias_var", value, allowed)
        if self.has_biases:
            self._set_variance("bias_var", value)

    def _register_variance(self, name: str, value: Variances, options: Options) -> None:
        prior = getattr(options, f"{name}_prior")
        constraint = getattr(options, f"{name}_constraint")
        constraint = Positive() if constraint is None else constraint
        if not isinstance(constraint, Interval):
            raise InputError(
                f"{name}_constraint must be a gpytorch.constraints.Interval, got {constraint!r}"
            )
        if not (prior is None or isinstance(prior, Prior)):
            raise InputError(f"{name}_prior must be a gpytorch.priors.Prior, got {prior!r}")
        shape = tuple(_tensor(name, value).shape)
        each = shape == (*self.batch_shape, self.depth + 1)  # one for each layer
        raw = torch.zeros(*self.batch_shape, 1, self.depth + 1 if each else 1)
        self.register_parameter(f"raw_{name}", torch.nn.Parameter(raw))
        if prior is not None:
            # these, unlike lambdas, can be pickled
            reading, writing = partial(_read, name), partial(_write, name)
            self.register_prior(f"{name}_prior", prior, reading, writing)
        self.register_constraint(f"raw_{name}", constraint)

    def _start(self, weight_var: Variances, bias_var: Variances) -> None:
        """Give the parameters their first values."""
        values = {"weight_var": weight_var, "bias_var": bias_var, "lengthscale": 1.0}
        for name, value in values.items():
            if hasattr(self, f"raw_{name}"):
                setattr(self, name, _first(getattr(self, f"raw_{name}_constraint"), value))

    def _set_variance(self, name: str, value: Variances) -> None:
        raw, constraint = getattr(self, f"raw_{name}"), getattr(self, f"raw_{name}_constraint")
        tensor = _tensor(name, value).to(raw)
        if tensor.shape == self.batch_shape:
            tensor = tensor[..., None, None]
        elif raw.shape[-1] > 1 and tensor.shape == (*self.batch_shape, raw.shape[-1]):
            tensor = tensor[..., None, :]
        if not (constraint.check(tensor) and torch.isfinite(tensor).all() and (tensor > 0.0).all()):
            allowed = f"finite, positive and as its constraint {constraint} allows"
            raise _out_of_bounds(name, value, allowed)
        if self._strict_init:  # else samples are loaded, and their number becomes a batch dimension
            try:
                tensor = tensor.expand_as(raw)
            except RuntimeError as error:
                shape = tuple(self.batch_shape)
                each = f", or with {self.depth + 1} at its end, one for each layer"
                raise InputError(
                    f"{name} must be a number or of the batch shape {shape}{each}, got shape "
                    f"{tuple(tensor.shape)}"
                ) from error
        inverse = constraint.inverse_transform(tensor)
        if not torch.isfinite(inverse).all():
            allowed = f"inside of its constraint {constraint}, not on its bound"
            raise _out_of_bounds(name, value, f"{allowed}, where it could not be trained")
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
        """The kernel matrix (..., n, m) of points (..., n, d) and (..., m, d), or its diagonal."""
        if last_dim_is_batch:
            raise InputError(
                "last_dim_is_batch=True is not supported (GPyTorch is removing it): give the "
                "kernel a batch_shape, and the inputs a batch dimension"
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
        same = autograd.same_points(x1, x2)
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
        if self.embedding is not None:
            x1, x2 = _embedded(self.embedding, x1), x2 if same else _embedded(self.embedding, x2)
        weight_var, bias_var = (
            part[..., 0, :].expand(*part.shape[:-2], self.depth + 1)
            for part in (weight_var, bias_var)
        )
        if not autograd.transformed():
            for name, value in (("weight_var", weight_var), ("bias_var", bias_var)):
                # an optimiser has stepped over a bound that is not a transformation
                if (value < 0.0).any():
                    raise NegativeVarianceError(
                        f"{name} must not be negative, got {value.detach().min().item():.3g}"
                    )
        network = autograd.Network(self._units, self.kind == "ntk")
        try:
            if diag:
                return autograd.diagonal(
                    network, x1, None if same else x2, weight_var, bias_var, dtype
                )
            return autograd.matrix(network, x1, x1 if same else x2, weight_var, bias_var, dtype)
        except autograd.OverflowingPointError as error:
            (name,) = error.args
            largest = (x1 if name == "x1" else x2).detach().abs().max().item()
            weight, type_ = weight_var.detach().max().item(), str(dtype).removeprefix("torch.")
            raise OverflowingKernelError(
                f"the kernel of {name} with itself overflows {type_} at depth {self.depth}: {name} "
                f"has entries up to {largest:.3g}, and weight_var is {weight:.3g}; scale the "
                "features to the size of one, or choose a smaller weight_var or depth"
            ) from None


def _embedded(embedding: Embedding, x: Tensor) -> Tensor:
    """What ``embedding(x)`` is, with derivatives."""
    nodes, weights = (torch.tensor(part).to(x) for part in embedding.basis())
    numbers = embedding.numbers(x.shape[-1])
    away = x[..., numbers].clamp(*embedding.limits)[..., None] - nodes
    mapped = torch.exp(-0.5 * (away / embedding.lengthscale) ** 2) @ weights
    present = torch.ones_like(x)
    for gap in embedding.gaps:
        present[..., gap - 1] = 1.0 - x[..., gap]
    parts = [(mapped * present[..., numbers, None]).flatten(-2), x[..., list(embedding.gaps)]]
    for start, stop in embedding.categories:
        indicators = x[..., start:stop]
        parts += [indicators, 1.0 - indicators.sum(-1, keepdim=True)]
    rows = torch.cat(parts, dim=-1)
    return rows * torch.tensor(embedding.scale(x.shape[-1])).to(x)


def _read(name: str, kernel: DeepKernel) -> Tensor:
    return getattr(kernel, name)


def _write(name: str, kernel: DeepKernel, value: Variances) -> None:
    setattr(kernel, name, value)


def as_shape(name: str, value: Any) -> torch.Size:
    """A batch shape, checked."""
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
