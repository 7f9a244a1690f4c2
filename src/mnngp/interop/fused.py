"""The kernel matrix on a CPU by the core's compiled loop, and its first derivatives by that of
``adjoint``.

PyTorch's own operations pass over the whole matrix some fifty times a layer. Here all layers of a
strip run while it is in cache, and only the cosines are kept for the way back, whatever the depth.
What this cannot do (second derivatives, other devices, ``torch.func``) goes to
``recursion.matrix``, which computes the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from mnngp._system import threads
from mnngp.activations.profile import Profile, linear_profile
from mnngp.interop import autograd, recursion
from mnngp.interop.adjoint import pull_back, push
from mnngp.interop.recursion import Points
from mnngp.kernels import forward
from mnngp.kernels.blocks import REFINE
from mnngp.kernels.forward import Program, Tables
from mnngp.kernels.pointwise import Step
from mnngp.kernels.program import pack

_TASK = 64  # rows a thread takes at a time
# The work at a layer of a pair, in what ``threads`` counts: threads are started for more than some
# milliseconds' work.
_FORWARD, _BACKWARD = 0.3, 1.0
Place = tuple[int, int, int, int]  # batches from, to, and rows from, to


def same_points(x1: Tensor, x2: Tensor) -> bool:
    """Whether two inputs may be taken as one: then half of the matrix is enough.

    Equal inputs that are differentiated as two are two.
    """
    if x1 is x2:
        return True
    if (
        x1.requires_grad
        or x2.requires_grad
        or x1.shape != x2.shape
        or x1.dtype != x2.dtype
        or autograd.transformed()
    ):
        return False
    return bool(torch.equal(x1, x2))


def matrix(rows: Points, cols: Points, rank: int, *, tangent: bool) -> Tensor:
    """The kernel matrix (..., n, m). ``cols`` that is the same object as ``rows`` makes it exactly
    symmetric.
    """
    symmetric = cols is rows
    if rows.scale.shape[:-1] != cols.scale.shape[:-1]:
        batch = torch.broadcast_shapes(rows.scale.shape[:-1], cols.scale.shape[:-1])
        rows, cols = _expanded(rows, batch), _expanded(cols, batch)
    if (
        rows.scale.dtype != cols.scale.dtype
        or rows.scale.dtype not in autograd.COMPILED
        or not rows.scale.is_cpu
        or autograd.transformed()
    ):
        return recursion.matrix(rows, cols, rank, tangent=tangent)
    return Recursion.apply(rank, tangent, symmetric, *rows, *cols)


def _expanded(points: Points, batch: Any) -> Points:
    depth = len(points.scale.shape[:-1])
    return Points(*(part.expand(*batch, *part.shape[depth:]) for part in points))


class Recursion(Function):  # type: ignore[misc]
    """From directions, tables and scales of the points to the kernel matrix."""

    @staticmethod
    def forward(ctx: Any, rank: int, tangent: bool, symmetric: bool, *points: Tensor) -> Tensor:
        rows, cols = Points(*points[:5]), Points(*points[5:])
        cosines = rows.direction.new_empty(*rows.scale.shape, cols.scale.shape[-1])
        ctx.save_for_backward(cosines, *points)
        ctx.settings = rank, tangent, symmetric
        out = torch.empty_like(cosines)
        mine = _arrays(rows, tangent)
        theirs = mine if symmetric else _arrays(cols, tangent)
        values, result = (
            autograd.flat(part, len(rows.scale.shape[:-1])) for part in (cosines, out)
        )
        program = _program(rank, rows.a.shape[-2], values.dtype, tangent, 0)
        refine = _refine(values.dtype)
        across = theirs[0].swapaxes(1, 2)

        def task(place: Place) -> None:
            # Not by PyTorch for the whole matrix: its idle threads spin for a while, and would take
            # the cores from ours.
            some, here = slice(*place[:2]), slice(*place[2:])
            np.matmul(mine[0][some, here], across[some], out=values[some, here])
            push(values, result, *place, symmetric, tangent, program, *mine, *theirs, refine)

        _spread(task, values, program, _FORWARD)
        if symmetric:
            out.diagonal(dim1=-2, dim2=-1).copy_(recursion.diagonal(rows, rank, tangent=tangent))
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        cosines, *points = ctx.saved_tensors
        rank, tangent, symmetric = ctx.settings
        with torch.autocast("cpu", enabled=False):  # as on the way forward
            if autograd.again([gradient]):
                return (
                    None,
                    None,
                    None,
                    *autograd.derivatives(
                        lambda *parts: recursion.matrix(
                            Points(*parts[:5]), Points(*parts[5:]), rank, tangent=tangent
                        ),
                        points,
                        [gradient],
                        ctx.needs_input_grad[3:],
                    ),
                )
            rows, cols = Points(*points[:5]), Points(*points[5:])
            return (
                None,
                None,
                None,
                *_pulled_back(cosines, gradient, rows, cols, rank, tangent, symmetric),
            )


def _pulled_back(
    cosines: Tensor,
    gradient: Tensor,
    rows: Points,
    cols: Points,
    rank: int,
    tangent: bool,
    symmetric: bool,
) -> tuple[Tensor, ...]:
    """From the derivative in the kernel to those in directions, tables and scales, of the rows and
    then of the columns.
    """
    values, pull = (autograd.flat(part, len(rows.scale.shape[:-1])) for part in (cosines, gradient))
    depth, (batches, n, m) = rows.a.shape[-2], values.shape
    mine = _arrays(rows, tangent)
    theirs = mine if symmetric else _arrays(cols, tangent)
    program = _program(rank, depth, values.dtype, tangent, 2 if tangent else 1)
    refine = _refine(values.dtype)
    steps, parts = len(program.kind), -(-n // _TASK)
    out = np.zeros_like(values)
    # Of each side the derivatives in the scale, and in a, p and r of each step. Every task has sums
    # over its own rows, so that the result does not depend on the threads.
    of_rows = np.zeros((batches, 3 * steps + 1, n), values.dtype)
    of_cols = np.zeros((batches, parts, 3 * steps + 1, m), values.dtype)
    _spread(
        lambda place: pull_back(
            values,
            pull,
            out,
            *place,
            symmetric,
            tangent,
            program,
            *mine,
            *theirs,
            refine,
            of_rows,
            of_cols[:, place[2] // _TASK],
        ),
        values,
        program,
        _BACKWARD,
    )
    moves = torch.from_numpy(out).reshape(cosines.shape)
    results: list[Tensor] = []
    for direction, side, found in (
        (moves @ cols.direction, rows, of_rows),
        (moves.mT @ rows.direction, cols, of_cols.sum(axis=1)),
    ):
        of_steps = torch.from_numpy(found[:, 1:]).reshape(
            *side.a.shape[:-2], steps, 3, side.a.shape[-1]
        )
        scale = torch.from_numpy(found[:, 0]).reshape(side.scale.shape)
        results += [direction, *of_steps[..., steps - depth :, :, :].unbind(dim=-2), scale]
    return tuple(results)


def _spread(
    task: Callable[[Place], None], values: NDArray[Any], program: Program, effort: float
) -> None:
    """Call ``task`` on shares of the work. Small batches are taken together."""
    batches, n, _ = values.shape
    if 0 in values.shape:
        return
    group = max(1, _TASK // n)
    shares = [
        (batch, min(batch + group, batches), row, min(row + _TASK, n))
        for batch in range(0, batches, group)
        for row in range(0, n, _TASK)
    ]
    threads.parallel_for(task, shares, work=effort * values.size * len(program.kind))


def _arrays(points: Points, tangent: bool) -> tuple[NDArray[Any], Tables, NDArray[Any]]:
    """Directions, tables and scales. A tangent kernel begins with a step that leaves u alone and
    makes t of it, 1 - 2u.
    """
    batch = len(points.scale.shape[:-1])
    direction, a, p, r, scale = (autograd.flat(part, batch) for part in points)
    if tangent:
        first = np.zeros_like(a[:, :1])
        a, p, r = (
            np.concatenate([start, part], axis=1)
            for start, part in ((first + 1.0, a), (first, p), (first, r))
        )
    none = np.empty((len(a), 0, a.shape[2]), a.dtype)
    return direction, Tables(a, p, r, none), scale


def _refine(dtype: np.dtype[Any]) -> Any:
    return dtype.type(REFINE[dtype])


@lru_cache(maxsize=128)
def _program(rank: int, depth: int, dtype: np.dtype[Any], tangent: bool, order: int) -> Program:
    """The layers for the compiled loops, with the terms that this many derivatives need."""
    profile = recursion.profile(rank)
    first, later = (
        (forward.LINEAR, forward.LINEAR) if profile.linear else (forward.WHOLE, forward.NEAR)
    )
    steps = [_step(forward.LINEAR, linear_profile(), 1.0)] if tangent else []
    steps += [_step(first, profile, 1.0)] + [_step(later, profile, 0.5)] * (depth - 1)
    return pack(steps, dtype, order=max(order, int(tangent)))


def _step(kind: int, profile: Profile, reach: float) -> Step:
    none = np.empty(0)
    return Step(
        kind, none, none, none, none, profile.second_moment, profile.slope_at_one, reach, profile
    )
