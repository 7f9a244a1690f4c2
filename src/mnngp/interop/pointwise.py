"""What the recursion needs of each point, and its first derivatives, by compiled loops.

For some dozens of points, as in Bayesian optimisation, PyTorch's many small operations, and their
way back, cost more than the whole kernel matrix. What this cannot do (second derivatives, other
devices, ``torch.func``) goes to ``recursion.points``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from mnngp._system.compiled import compiled
from mnngp._typing import Array
from mnngp.interop import autograd, recursion
from mnngp.interop.recursion import Points


def points(x: Tensor, weight_var: Tensor, bias_var: Tensor, rank: int, depth: int) -> Points:
    """As ``recursion.points``."""
    one_type = x.dtype == weight_var.dtype == bias_var.dtype
    if not one_type or x.dtype not in autograd.COMPILED or not x.is_cpu or autograd.transformed():
        return recursion.points(x, weight_var, bias_var, rank, depth)
    return Points(*Pointwise.apply(rank, depth, x, weight_var, bias_var))


class Pointwise(Function):  # type: ignore[misc]
    """From points and variances to directions, tables and scales."""

    @staticmethod
    def forward(
        ctx: Any, rank: int, depth: int, x: Tensor, weight_var: Tensor, bias_var: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.settings = rank, depth
        ctx.save_for_backward(x, weight_var, bias_var)
        batch = torch.broadcast_shapes(x.shape[:-2], weight_var.shape[:-2], bias_var.shape[:-2])
        n, d = x.shape[-2:]
        shapes = (n, d + 1), (depth, n), (depth, n), (depth, n), (n,)
        found = tuple(x.new_empty(*batch, *shape) for shape in shapes)
        direction, a, p, r, scale = (autograd.flat(part, len(batch)) for part in found)
        moment = recursion.profile(rank).second_moment
        push(*_arrays(batch, x, weight_var, bias_var), moment, direction, a, p, r, scale)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rank, depth = ctx.settings
        inputs = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):  # as on the way forward
            if autograd.again(gradients):
                return (
                    None,
                    None,
                    *autograd.derivatives(
                        lambda x, weight_var, bias_var: recursion.points(
                            x, weight_var, bias_var, rank, depth
                        ),
                        inputs,
                        gradients,
                        ctx.needs_input_grad[2:],
                    ),
                )
            batch = gradients[-1].shape[:-1]
            x, weight_var, bias_var = _arrays(batch, *inputs)
            direction, a, p, r, scale = (autograd.flat(part, len(batch)) for part in gradients)
            in_x, in_variances = np.empty_like(x), np.zeros((2, len(x)))
            moment = recursion.profile(rank).second_moment
            pull_back(
                x, weight_var, bias_var, moment, direction, a, p, r, scale, in_x, in_variances
            )
            found = in_x.reshape(*batch, *in_x.shape[1:]), *in_variances.reshape(2, *batch, 1, 1)
            # What several batches share has the sum of their derivatives.
            return (
                None,
                None,
                *(
                    torch.from_numpy(one).to(part.dtype).sum_to_size(part.shape)
                    for one, part in zip(found, inputs, strict=True)
                ),
            )


def _arrays(
    batch: torch.Size, x: Tensor, weight_var: Tensor, bias_var: Tensor
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Points (batches, n, d) and variances (batches,)."""
    w, b = (
        autograd.flat(part[..., 0, 0].double().expand(batch), len(batch))
        for part in (weight_var, bias_var)
    )
    return autograd.flat(x.expand(*batch, *x.shape[-2:]), len(batch)), w, b


@compiled
def push(
    x: Array,
    weight_var: Array,
    bias_var: Array,
    moment: float,
    direction: Array,
    a: Array,
    p: Array,
    r: Array,
    scale: Array,
) -> None:
    """The formulas of ``recursion.points``, in double precision."""
    d = x.shape[2]
    for k in range(x.shape[0]):
        w, b = weight_var[k], bias_var[k]
        root_w, root_b, affine = math.sqrt(w), math.sqrt(b), math.sqrt(w / d)
        for i in range(x.shape[1]):
            square = 0.0
            for j in range(d):
                square += float(x[k, i, j]) * float(x[k, i, j])
            variance = b + w * (square / d)
            deviation = math.sqrt(variance)
            inverse = 1.0 / deviation if variance != 0.0 else 1.0
            direction[k, i, 0] = root_b * inverse
            for j in range(d):
                direction[k, i, j + 1] = affine * x[k, i, j] * inverse
            for layer in range(a.shape[1]):
                before = deviation
                variance = b + w * moment * variance
                deviation = math.sqrt(variance)
                inverse = 1.0 / deviation if variance != 0.0 else 1.0
                ratio = root_w * before * inverse
                a[k, layer, i] = ratio
                p[k, layer, i] = 0.5 * root_b * inverse
                r[k, layer, i] = 0.5 * math.sqrt(moment) * ratio
            scale[k, i] = deviation


@compiled
def pull_back(
    x: Array,
    weight_var: Array,
    bias_var: Array,
    moment: float,
    in_direction: Array,
    in_a: Array,
    in_p: Array,
    in_r: Array,
    in_scale: Array,
    in_x: Array,
    in_variances: Array,
) -> None:
    """From the derivatives in what ``push`` finds to those in the points and the variances.

    A point of variance zero (the zero point without biases) has a cone there: zero stands for its
    slopes, as they do not matter.
    """
    d, depth = x.shape[2], in_a.shape[1]
    variances = np.empty(depth + 1)
    for k in range(x.shape[0]):
        w, b = weight_var[k], bias_var[k]
        root_w, root_b, affine = math.sqrt(w), math.sqrt(b), math.sqrt(w / d)
        of_w, of_b, of_root_w, of_root_b = 0.0, 0.0, 0.0, 0.0
        for i in range(x.shape[1]):
            square = 0.0
            for j in range(d):
                square += float(x[k, i, j]) * float(x[k, i, j])
            variances[0] = b + w * (square / d)
            if variances[0] == 0.0:
                in_x[k, i] = 0.0
                continue
            for layer in range(depth):
                variances[layer + 1] = b + w * moment * variances[layer]
            of_deviation = float(in_scale[k, i])  # behind the layer
            for layer in range(depth - 1, -1, -1):
                before, deviation = math.sqrt(variances[layer]), math.sqrt(variances[layer + 1])
                # r = √M a / 2, a = √w before / deviation, p = √b / (2 deviation)
                of_a = (in_a[k, layer, i] + 0.5 * math.sqrt(moment) * in_r[k, layer, i]) / deviation
                of_p = 0.5 * in_p[k, layer, i] / deviation
                of_root_w += before * of_a
                of_root_b += of_p
                # deviation² = b + w M before²
                of_variance = (
                    of_deviation - (root_w * before * of_a + root_b * of_p) / deviation
                ) / (2.0 * deviation)
                of_b += of_variance
                of_w += moment * variances[layer] * of_variance
                of_deviation = root_w * of_a + 2.0 * before * (w * moment * of_variance)
            # direction = (√b, √(w/d) x) / deviation
            deviation = math.sqrt(variances[0])
            first, along = float(in_direction[k, i, 0]) / deviation, 0.0
            for j in range(d):
                # of the size of one, whatever x is
                along += float(in_direction[k, i, j + 1]) * (affine * x[k, i, j] / deviation)
            of_root_b += first
            of_root_w += along / root_w if w != 0.0 else 0.0
            of_variance = (of_deviation - (along + root_b * first) / deviation) / (2.0 * deviation)
            of_b += of_variance
            of_w += square / d * of_variance
            for j in range(d):
                in_x[k, i, j] = (
                    affine * in_direction[k, i, j + 1] / deviation
                    + 2.0 * w / d * of_variance * x[k, i, j]
                )
        in_variances[0, k] = of_w + (of_root_w / (2.0 * root_w) if w != 0.0 else 0.0)
        in_variances[1, k] = of_b + (of_root_b / (2.0 * root_b) if b != 0.0 else 0.0)
