"""Many networks of one shape, computed as one.

A stack of N networks holds the affine maps of a layer in one tensor, and so computes a layer of all
networks in one product. The points stand in columns, so the maps are on the left, and a layer's q
maps of all units of all networks are

    Z_l = W_l H_{l-1} + b_l        (networks, rank · width, points)
    H_l = max over the rank of Z_l

Since networks that share their points have the same H_0, their first layers are one matrix product;
and the maximum is one of long rows of numbers.

The gradient of the loss, the mean squared error of each network, is written out: backwards through
the layers,

    dZ_l = dH_l on the map that is the maximum, 0 on the others
    dW_l = dZ_l H_{l-1}ᵀ,        db_l = dZ_l 1,        dH_{l-1} = W_lᵀ dZ_l

It is what ``backward`` of the modules gives (maps that tie share the gradient), without the graph:
dZ_l takes the place of Z_l, and memory is taken once. All parameters lie in one vector, its
gradient in another, so that an optimiser sees a single tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import torch

from mnngp.finite.maxout_network import MaxoutNetwork


@dataclass(frozen=True)
class Shape:
    """What networks must have in common to be computed as one."""

    width: int
    rank: int
    depth: int
    inputs: int
    outputs: int

    @classmethod
    def of(cls, network: MaxoutNetwork) -> Shape:
        return cls(network.width, network.rank, network.depth, network.inputs, network.outputs)

    @property
    def maps(self) -> list[tuple[int, int]]:
        """Rows and columns of the weights of each layer, and of the output."""
        rows = [self.rank * self.width] * self.depth + [self.outputs]
        return list(zip(rows, [self.inputs] + [self.width] * self.depth, strict=True))

    @property
    def parameters(self) -> int:
        return sum(rows * (columns + 1) for rows, columns in self.maps)

    def activations(self, points: int) -> int:
        """How many numbers the loss needs beside the parameters and their gradient."""
        units = (self.depth + 1) * self.width  # every H, and one dH
        return points * (sum(rows for rows, _ in self.maps) + units)


class Stack:
    """The parameters of networks, stacked: a copy, which ``store`` takes back.

    They are of one shape, parametrisation, dtype and device; standard deviations may differ.
    """

    def __init__(self, networks: Sequence[MaxoutNetwork]) -> None:
        first = networks[0]
        self.shape = Shape.of(first)
        self.count = len(networks)
        like = first.weights[0].detach()
        self._hold(like.new_empty(self.count * self.shape.parameters))
        for row, network in enumerate(networks):
            for place, parameter in self._pairs(row, network):
                place.copy_(parameter.detach())
        # (layers) of (weights and biases, networks, 1, 1)
        self.deviations: list[torch.Tensor] | None = None
        if first.parametrization == "ntk":
            pairs = like.new_tensor([network.deviations for network in networks])
            self.deviations = list(pairs.permute(1, 2, 0)[..., None, None])

    @staticmethod
    def numbers(network: MaxoutNetwork, points: int) -> int:
        """How many of them a network takes in training, on so many points at a time."""
        shape = Shape.of(network)
        # 4: the gradient and Adam's two moments
        return 4 * shape.parameters + shape.activations(points)

    @property
    def widest(self) -> int:
        """Numbers of a point in the largest layer of all that are computed at once."""
        return self.count * max(rows for rows, _ in self.shape.maps)

    def _hold(self, parameters: torch.Tensor) -> None:
        """These are the parameters of all networks; there are no gradient and no buffers yet."""
        self.parameters = parameters
        self.weights, self.biases = self.views(parameters)
        self._gradient: tuple[list[torch.Tensor], list[torch.Tensor]] = [], []
        self._memory = parameters.new_empty(0)
        # by the number of points
        self._buffers: dict[int, tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]] = {}

    def views(self, numbers: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Weights (networks, rows, columns) and biases (networks, rows, 1) in a vector of all."""
        count = len(numbers) // self.shape.parameters
        weights, biases = [], []
        for rows, columns in self.shape.maps:
            weight, bias, numbers = numbers.tensor_split(
                (count * rows * columns, count * rows * (columns + 1))
            )
            weights.append(weight.view(count, rows, columns))
            biases.append(bias.view(count, rows, 1))
        return weights, biases

    def _pairs(
        self, row: int, network: MaxoutNetwork
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for ours, theirs in ((self.weights, network.weights), (self.biases, network.biases)):
            for place, parameter in zip(ours, theirs, strict=True):
                yield place[row].view(parameter.shape), parameter

    def store(self, row: int, network: MaxoutNetwork) -> None:
        with torch.no_grad():
            for place, parameter in self._pairs(row, network):
                parameter.copy_(place)

    def keep(self, rows: list[int], state: dict[str, Any]) -> None:
        """Leave all other networks out, also where an optimiser's state has their parameters.

        What can be computed anew goes first, so that no more memory is in use than before.
        """
        old = self.parameters
        old.grad = None
        self._hold(old)
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and value.shape == old.shape:
                state[name] = self._rows_of(value, rows)
        self._hold(self._rows_of(old, rows))
        if self.deviations is not None:
            self.deviations = [pair[:, rows] for pair in self.deviations]
        self.count = len(rows)

    def _rows_of(self, numbers: torch.Tensor, rows: list[int]) -> torch.Tensor:
        result = numbers.new_empty(len(rows) * self.shape.parameters)
        for new, old in zip(self.views(result), self.views(numbers), strict=True):
            for place, values in zip(new, old, strict=True):
                place.copy_(values[rows])
        return result

    def outputs(self, X: torch.Tensor) -> torch.Tensor:
        """The networks' outputs (networks, outputs, points) for points (sets, points, inputs).

        There is one set for all networks, or as many as divide them into equal parts, one after the
        other.
        """
        columns = X.mT
        for layer in range(self.shape.depth):
            columns = self._maxima(self._affine(layer, columns))
        return self._affine(self.shape.depth, columns)

    def loss(self, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
        """The mean squared error of each network; ``parameters.grad`` becomes its gradient.

        Targets are (sets, points, outputs).
        """
        depth, points = self.shape.depth, X.shape[1]
        Z, H, dH = self._buffers.get(points) or self._make_buffers(points)
        weights, biases = self._gradients()
        for layer in range(depth + 1):
            self._affine(layer, H[layer - 1] if layer else X.mT, out=Z[layer])
            if layer < depth:
                self._maxima(Z[layer], out=H[layer])
        error = Z[depth].view(len(Y), -1, self.shape.outputs, points).sub_(Y.mT[:, None])
        losses = Z[depth].square().mean((1, 2))
        error.mul_(2.0 / (points * self.shape.outputs))
        for layer in range(depth, -1, -1):
            dZ = Z[layer]
            if layer < depth:
                maps = dZ.view(self.count, self.shape.rank, self.shape.width, points)
                maps.eq_(H[layer][:, None])  # which of them are the maximum,
                dH.div_(maps.sum(1))  # usually one
                maps.mul_(dH[:, None])
            torch.sum(dZ, 2, keepdim=True, out=biases[layer])
            if self.deviations is not None:
                weight_std, bias_std = self.deviations[layer]
                biases[layer].mul_(bias_std)
                dZ.mul_(weight_std)
            if layer:
                torch.bmm(dZ, H[layer - 1].mT, out=weights[layer])
                torch.bmm(self.weights[layer].mT, dZ, out=dH)
            else:
                torch.bmm(_sets(dZ, len(X)), X, out=_sets(weights[0], len(X)))
        return losses

    def _affine(
        self, layer: int, columns: torch.Tensor, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        weight, bias = self.weights[layer], self.biases[layer]
        sets = len(columns)
        if out is None:
            out = weight.new_empty(self.count, weight.shape[1], columns.shape[2])
        if self.deviations is None and sets == self.count:
            return torch.baddbmm(bias, weight, columns, out=out)
        torch.bmm(_sets(weight, sets), columns, out=_sets(out, sets))
        if self.deviations is not None:
            weight_std, bias_std = self.deviations[layer]
            out.mul_(weight_std)
            bias = bias * bias_std
        return out.add_(bias)

    def _maxima(self, Z: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        maps = Z.view(self.count, self.shape.rank, self.shape.width, Z.shape[2])
        return torch.amax(maps, 1) if out is None else torch.amax(maps, 1, out=out)

    def _gradients(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Of the weights and of the biases: places in ``parameters.grad``."""
        if self.parameters.grad is None:
            self.parameters.grad = torch.empty_like(self.parameters)
            self._gradient = self.views(self.parameters.grad)
        return self._gradient

    def _make_buffers(
        self, points: int
    ) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
        """Z of all layers and the output, H of all layers, and dH: views of one piece of memory."""
        shape = self.shape
        Z = [(self.count, rows, points) for rows, _ in shape.maps]
        H = [(self.count, shape.width, points)] * (shape.depth + 1)
        ends = list(accumulate(map(prod, Z + H), initial=0))
        if ends[-1] > len(self._memory):
            self._memory = self.parameters.new_empty(ends[-1])
            self._buffers.clear()  # they are places in the smaller piece
        parts = [
            self._memory[start:end].view(size)
            for (start, end), size in zip(pairwise(ends), Z + H, strict=True)
        ]
        self._buffers[points] = parts[: len(Z)], parts[len(Z) : -1], parts[-1]
        return self._buffers[points]


def _sets(tensor: torch.Tensor, sets: int) -> torch.Tensor:
    """The rows of all networks that share a set of points, one network after the other."""
    return tensor.view(sets, -1, tensor.shape[2])
