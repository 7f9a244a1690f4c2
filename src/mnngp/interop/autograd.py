"""What the compiled functions of PyTorch's tensors share: when they are at work, and what takes
their place when they are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import forward_ad

COMPILED = (torch.float64, torch.float32)  # the types that there are compiled loops for


def transformed() -> bool:
    """Whether ``torch.func`` or forward mode is at work: a compiled loop can read neither batched
    tensors nor tangents.
    """
    return bool(torch._C._are_functorch_transforms_active()) or forward_ad._current_level >= 0


def again(gradients: Sequence[Tensor]) -> bool:
    """Whether a derivative is to be differentiated, now or later, or to be found for many gradients
    at once.
    """
    return torch.is_grad_enabled() or transformed() or any(_batched(one) for one in gradients)


def _batched(gradient: Tensor) -> bool:
    """Whether these are many gradients at once, in a tensor that holds no numbers of its own."""
    return bool(
        torch._C._functorch.is_batchedtensor(gradient)
        or torch._C._functorch.is_legacy_batchedtensor(gradient)
    )


def derivatives(
    function: Callable[..., Any],
    inputs: Sequence[Tensor],
    gradients: Sequence[Tensor],
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """Of ``function``, which consists of PyTorch's own operations, in the inputs that need them."""
    twice = torch.is_grad_enabled()
    with torch.enable_grad():
        # Two inputs may be the same tensor: as views each has its own derivative, and autograd adds
        # the two.
        parts = [part.view_as(part) for part in inputs]
        outputs = function(*parts)
    wanted = [part for part, need in zip(parts, needed, strict=True) if need]
    found = iter(torch.autograd.grad(outputs, wanted, gradients, create_graph=twice))
    return [next(found) if need else None for need in needed]


def flat(tensor: Tensor, batch: int) -> NDArray[Any]:
    """The numbers of a tensor with its ``batch`` leading dimensions made one; shared with it if it
    is contiguous.
    """
    array: NDArray[Any] = tensor.detach().contiguous().numpy()
    return array.reshape(math.prod(tensor.shape[:batch]), *tensor.shape[batch:])
