"""The kernel matrix on a CPU by the core's compiled passes, forward and back.

PyTorch's own operations pass over the whole matrix some fifty times a layer. Here all layers of a
strip run while it is in cache, and only the cosines are kept for the way back, whatever the depth.
What this cannot do (second derivatives, other devices, ``torch.func``) goes to ``fallback``, which
computes the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from mnngp._system import threads
from mnngp._typing import Matrix, Vector
from mnngp.activations import Activation
from mnngp.errors import ScaleError
from mnngp.interop.gpytorch import fallback
from mnngp.kernels import layout
from mnngp.kernels.adjoint import Layers
from mnngp.kernels.forward import REFINE, Task, transform
from mnngp.kernels.gradient import rates, vector_jacobian
from mnngp.kernels.points import Points
from mnngp.kernels.pointwise import Step, behind, inputs, walk
from mnngp.kernels.program import pack, side
from mnngp.kernels.strips import Program, Side
from mnngp.networks.layers import Block

# The types that there are compiled loops for.
_COMPILED = (torch.float64, torch.float32)
# The work at a layer of a pair, in what ``threads`` counts: threads are started for more than some
# milliseconds' work.
_EFFORT = 0.3


class Network(NamedTuple):
    """A network as far as it is not trained."""

    units: tuple[Activation, ...]
    tangent: bool


class OverflowingPointError(Exception):
    """The kernel of a point with itself is not finite; the argument that it belongs to."""


def matrix(
    network: Network,
    x1: Tensor,
    x2: Tensor,
    weight_var: Tensor,
    bias_var: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """The kernel matrix (..., n, m) in ``dtype``; symmetric if ``x2`` is the same object as ``x1``.

    The variances are (..., depth + 1). If points are finite and their kernel is not, there is an
    ``OverflowingPointError``.
    """
    parts = (x1, x2, weight_var, bias_var)
    finite = transformed() or all(torch.isfinite(part).all() for part in parts)
    usable = x1.dtype in _COMPILED and all(part.is_cpu for part in parts) and not transformed()
    if usable and finite:
        result = KernelMatrix.apply(network, x1 is x2, *parts)
        if dtype == x1.dtype:  # has been looked at
            return result
    else:
        result = _by_operations(network, *parts)
    if finite and not transformed():
        for name, x in (("x1", x1),) if x1 is x2 else (("x1", x1), ("x2", x2)):
            diagonal(network, x, None, weight_var, bias_var, dtype, name=name)
    return result.to(dtype)


def diagonal(
    network: Network,
    x1: Tensor,
    x2: Tensor | None,
    weight_var: Tensor,
    bias_var: Tensor,
    dtype: torch.dtype,
    *,
    name: str = "x1",
) -> Tensor:
    """The kernel of each point with itself, or with the one of ``x2`` in its place: (..., n)."""
    if x2 is not None:  # as many batches of one point on either side
        x1, x2 = x1[..., None, :], x2[..., None, :]
        weight_var, bias_var = weight_var[..., None, :], bias_var[..., None, :]
        return _by_operations(network, x1, x2, weight_var, bias_var)[..., 0, 0].to(dtype)
    points = fallback.points(x1, weight_var, bias_var, network.units)
    own = fallback.diagonal(points, network.units, tangent=network.tangent).to(dtype)
    parts = (x1, weight_var, bias_var)
    if not transformed() and not torch.isfinite(own).all():
        if not all(torch.isfinite(part).all() for part in parts):
            return own
        raise OverflowingPointError(name)
    return own


def _by_operations(
    network: Network, x1: Tensor, x2: Tensor, weight_var: Tensor, bias_var: Tensor
) -> Tensor:
    if x1 is x2:
        rows = cols = fallback.points(x1, weight_var, bias_var, network.units)
    else:  # together: smooth activations have as many degrees as the largest variance needs
        batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        both = [x.expand(*batch, *x.shape[-2:]) for x in (x1, x2)]
        points = fallback.points(torch.cat(both, dim=-2), weight_var, bias_var, network.units)
        rows, cols = points.split(x1.shape[-2])
    return fallback.matrix(rows, cols, network.units, tangent=network.tangent)


def same_points(x1: Tensor, x2: Tensor) -> bool:
    """Whether two inputs may be taken as one: then half of the matrix is enough.

    Equal inputs that are differentiated as two are two.
    """
    if x1 is x2:
        return True
    if x1.requires_grad or x2.requires_grad or transformed():
        return False
    return x1.shape == x2.shape and x1.dtype == x2.dtype and bool(torch.equal(x1, x2))


def transformed() -> bool:
    """Whether ``torch.func`` or forward mode is at work: compiled loops cannot read its tensors."""
    return bool(torch._C._are_functorch_transforms_active()) or forward_ad._current_level >= 0


class KernelMatrix(Function):  # type: ignore[misc]
    """From points and variances to the kernel matrix."""

    @staticmethod
    def forward(ctx: Any, network: Network, symmetric: bool, *parts: Tensor) -> Tensor:
        many = _Batches(network, symmetric, parts)
        cosines, out = parts[0].new_empty(many.shape), parts[0].new_empty(many.shape)
        many.evaluate(many.flat(cosines), many.flat(out))
        if symmetric:  # to the last bit what ``diagonal`` says
            points = fallback.points(parts[0], parts[2], parts[3], network.units)
            own = fallback.diagonal(points, network.units, tangent=network.tangent)
            out.diagonal(dim1=-2, dim2=-1).copy_(own)
        ctx.save_for_backward(cosines, *parts)
        ctx.network, ctx.symmetric = network, symmetric
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        cosines, *parts = ctx.saved_tensors
        needed = ctx.needs_input_grad[2:]
        with torch.autocast("cpu", enabled=False):  # as on the way forward
            zeros = any(
                need and (part == 0.0).any()
                for need, part in zip(needed[2:], parts[2:], strict=True)
            )
            if _again(gradient) or zeros:  # log of a variance of zero has no derivative
                found = _derivatives(ctx.network, parts, gradient, needed)
            else:
                many = _Batches(ctx.network, ctx.symmetric, parts)
                pulled = many.pull_back(many.flat(cosines), many.flat(gradient), any(needed[:2]))
                # What several batches share has the sum of their derivatives.
                found = [
                    many.tensor(one, part).sum_to_size(part.shape) if need else None
                    for one, part, need in zip(pulled, parts, needed, strict=True)
                ]
        return (None, None, *found)


def _again(gradient: Tensor) -> bool:
    """Whether a derivative is to be differentiated, or to be found for many gradients at once."""
    return (
        torch.is_grad_enabled()
        or transformed()
        or bool(torch._C._functorch.is_batchedtensor(gradient))
        or bool(torch._C._functorch.is_legacy_batchedtensor(gradient))
    )


def _derivatives(
    network: Network, parts: Sequence[Tensor], gradient: Tensor, needed: Sequence[bool]
) -> list[Tensor | None]:
    """By PyTorch's own operations, in the parts that need them."""
    twice = torch.is_grad_enabled()
    with torch.enable_grad():
        # Two may be the same tensor: as views each has its own derivative, and autograd adds the
        # two.
        views = [part.view_as(part) for part in parts]
        outputs = _by_operations(network, *views)
    wanted = [part for part, need in zip(views, needed, strict=True) if need]
    found = iter(torch.autograd.grad(outputs, wanted, gradient, create_graph=twice))
    return [next(found) if need else None for need in needed]


class _Batches:
    """Kernel matrices of several sets of points and variances, made one by one."""

    def __init__(self, network: Network, symmetric: bool, parts: Sequence[Tensor]) -> None:
        self.network, self.symmetric = network, symmetric
        x1, x2, w, b = parts
        batches = x1.shape[:-2], x2.shape[:-2], w.shape[:-1], b.shape[:-1]
        self.batch = torch.broadcast_shapes(*batches)
        self.count, n, m = math.prod(self.batch), x1.shape[-2], x2.shape[-2]
        self.shape = (*self.batch, n, m)
        self.dtype = np.dtype(str(x1.dtype).removeprefix("torch."))
        self.shared = w.numel() == w.shape[-1] and b.numel() == b.shape[-1]
        self.variances = [
            self.flat(part.double().expand(*self.batch, part.shape[-1]), 1) for part in (w, b)
        ]
        sides = [x1] if symmetric else [x1, x2]
        self.points = [self._points(name, x) for name, x in zip(("x1", "x2"), sides, strict=False)]
        # Of each point there are numbers of all its layers; points with the same variances are
        # taken through them together.
        groups = (
            [slice(0, self.count)] if self.shared else [slice(k, k + 1) for k in range(self.count)]
        )
        self.steps = [self._walk(group) for group in groups if self.count and n and m]

    def _points(self, name: str, x: Tensor) -> Points:
        rows = self.flat(x.expand(*self.batch, *x.shape[-2:]), 2)
        try:
            return Points.of(name, rows.reshape(-1, x.shape[-1]), self.dtype)
        except ScaleError:
            raise OverflowingPointError(name) from None

    def _walk(self, group: slice) -> tuple[list[Step], Vector]:
        """The layers of some batches: their steps, and the standard deviations behind them."""
        lengths = np.concatenate(
            [one.square_lengths.reshape(self.count, -1)[group].reshape(-1) for one in self.points]
        )
        w, b = (part[group.start] for part in self.variances)
        blocks = [
            Block(unit, *pair)
            for unit, *pair in zip((None, *self.network.units), w, b, strict=True)
        ]
        steps, behind_all = behind(lengths, blocks)
        with np.errstate(over="ignore"):
            deviation = np.ldexp(np.sqrt(behind_all.variance), behind_all.exponent)
            own = (deviation**2 * (behind_all.tangent if self.network.tangent else 1.0)).astype(
                self.dtype
            )
        if not np.isfinite(own).all():
            raise OverflowingPointError(
                "x1" if not np.isfinite(own[: len(lengths) // len(self.points)]).all() else "x2"
            )
        return steps, deviation

    def _sides(self, k: int) -> tuple[list[Step], Vector, list[tuple[Matrix, slice]]]:
        """Batch k: its steps, and of rows and columns the directions and where they stand."""
        steps, deviation = self.steps[0 if self.shared else k]
        count, inside = (self.count, k) if self.shared else (1, 0)
        start, found = 0, []
        for points in self.points:
            size = len(points) // self.count
            part = slice(start + inside * size, start + (inside + 1) * size)
            found.append((points.directions[k * size : (k + 1) * size], part))
            start += count * size
        return steps, deviation, found

    def _both(self, k: int) -> tuple[Side, Side]:
        steps, deviation, sides = self._sides(k)
        made = [side(steps, directions, deviation, part) for directions, part in sides]
        return made[0], made[-1]

    def program(self, k: int, *, derivatives: bool) -> Program:
        units, tangent = self.network
        if all(unit.homogeneous for unit in units):
            return _program(units, self.dtype, tangent, derivatives)
        return pack(self._sides(k)[0], self.dtype, tangent=tangent, derivatives=derivatives)

    def evaluate(self, cosines: Matrix, out: Matrix) -> None:
        """Kernel matrices, with the cosines they are made of."""
        if not self.steps:
            return
        task = Task(True, False, True, self.symmetric, self.dtype.type(2.0), self._refine)
        panels = layout.whole(*out.shape[1:], symmetric=self.symmetric)
        tasks = [(k, panel) for k in range(self.count) for panel in panels]
        made = [(self.program(k, derivatives=False), *self._both(k)) for k in range(self.count)]
        none = np.empty((0, 0), self.dtype)

        def one(place: tuple[int, layout.Panel]) -> None:
            # Not by PyTorch for the whole matrix: its idle threads spin for a while, and would take
            # the cores from ours.
            k, panel = place
            program, rows, cols = made[k]
            panel.gram(rows.points, cols.points, cosines[k])
            transform(cosines[k], none, out[k], panel, program, rows, cols, task)

        threads.parallel_for(one, tasks, work=_EFFORT * out.size * len(self.network.units))

    def pull_back(self, cosines: Matrix, pulled: Matrix, inputs: bool) -> list[Matrix]:
        """From the derivatives in kernel matrices to those in points and variances."""
        (batches, n, m), layers = cosines.shape, len(self.network.units) + 1
        d = self.points[0].directions.shape[1]
        of_x = [np.zeros((batches, rows, d)) for rows in (n, m)]
        of_variances = np.zeros((2, batches, layers))
        for k in range(self.count if self.steps else 0):
            steps, _, sides = self._sides(k)
            rows, cols = self._both(k)
            moving = [rates(steps, self.dtype, part) for _, part in sides]
            program = self.program(k, derivatives=True)
            compiled = Layers(
                program, rows, cols, moving[0], moving[-1], self.dtype.type(2.0), self._refine, True
            )
            found = vector_jacobian(
                compiled, cosines[k], pulled[k], symmetric=self.symmetric, inputs=inputs
            )
            of_variances[:, k] = found.variances
            if not inputs:
                continue
            # z = √(w/v) x behind the first affine map, of the size of one whatever x is
            shrinkage = [steps[0].shrinkage[part][:, None] / d for _, part in sides]
            z = [
                math.sqrt(d) * steps[0].a[part][:, None] * directions for directions, part in sides
            ]
            of_x[0][k] = shrinkage[0] * (found.gram @ z[-1] + 2.0 * found.rows[:, None] * z[0])
            of_x[1][k] = shrinkage[-1] * (found.gram.T @ z[0] + 2.0 * found.cols[:, None] * z[-1])
        with np.errstate(divide="ignore", invalid="ignore"):
            of_variances /= np.stack(self.variances)
        return [*of_x, *of_variances]

    @property
    def _refine(self) -> Any:
        return self.dtype.type(REFINE[self.dtype])

    def flat(self, tensor: Tensor, last: int = 2) -> Matrix:
        """The numbers of a tensor with all but its ``last`` dimensions made one."""
        array: Matrix = tensor.detach().contiguous().numpy()
        return array.reshape(self.count, *tensor.shape[-last:])

    def tensor(self, array: Matrix, like: Tensor) -> Tensor:
        return torch.from_numpy(array).to(like.dtype).reshape(*self.batch, *array.shape[1:])


@lru_cache(maxsize=128)
def _program(
    units: tuple[Activation, ...], dtype: np.dtype[Any], tangent: bool, derivatives: bool
) -> Program:
    """The layers for the compiled passes, whatever the points and variances are."""
    point, steps = inputs(np.ones(1)), []
    for step in walk(point, [Block(unit, 1.0, 0.0) for unit in (None, *units)]):
        steps.append(step)
        point.reach = 0.5 if point.reach <= 0.5 else 1.0  # the worst case, with biases too
    return pack(steps, dtype, tangent=tangent, derivatives=derivatives)
