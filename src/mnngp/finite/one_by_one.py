"""Networks that are computed one after the other, each by its own module and by autograd.

To ``train`` it is what a ``Stack`` is: all parameters in one tensor, which an optimiser changes in
one step. Convolutions have so much to compute that computing many at once would gain little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.func import functional_call

from mnngp.finite.finite_network import FiniteNetwork


class OneByOne:
    """The parameters of networks, a row each: a copy, which ``store`` takes back."""

    def __init__(self, networks: Sequence[FiniteNetwork]) -> None:
        self.networks = list(networks)
        self.parameters = torch.stack(
            [
                torch.cat([parameter.detach().reshape(-1) for parameter in network.parameters()])
                for network in networks
            ]
        )

    @staticmethod
    def numbers(network: FiniteNetwork, points: int) -> int:
        """How many of them a network takes in training: here those of its parameters."""
        # 4: the gradient and Adam's two moments
        return 4 * int(sum(parameter.numel() for parameter in network.parameters()))

    @property
    def widest(self) -> int:
        """Numbers of a point in the largest layer of all that are computed at once."""
        network = self.networks[0]
        with torch.no_grad():
            _, values = network._traced(network.weights[0].new_zeros(1, network.inputs))
        return int(max(value.numel() for value in values))

    def _named(self, row: int, numbers: torch.Tensor) -> dict[str, torch.Tensor]:
        """The parameters of a network by their names: places in its row of numbers."""
        named = dict(self.networks[row].named_parameters())
        parts = numbers.split([parameter.numel() for parameter in named.values()])
        return {
            name: part.view(parameter.shape)
            for (name, parameter), part in zip(named.items(), parts, strict=True)
        }

    def store(self, row: int, network: FiniteNetwork) -> None:
        with torch.no_grad():
            for name, place in self._named(row, self.parameters[row]).items():
                network.get_parameter(name).copy_(place)

    def keep(self, rows: list[int], state: dict[str, Any]) -> None:
        """Leave all other networks out, also where an optimiser's state has their parameters."""
        old = self.parameters
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and value.shape == old.shape:
                state[name] = value[rows]
        self.networks = [self.networks[row] for row in rows]
        self.parameters = old[rows]

    def outputs(self, X: torch.Tensor) -> torch.Tensor:
        """The networks' outputs (networks, outputs, points) for points (sets, points, inputs)."""
        return torch.stack(
            [
                self._output(row, self._named(row, self.parameters[row]), self._of(row, X)).mT
                for row in range(len(self.networks))
            ]
        )

    def loss(self, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
        """The mean squared error of each network; ``parameters.grad`` becomes its gradient."""
        if self.parameters.grad is None:
            self.parameters.grad = torch.empty_like(self.parameters)
        losses = []
        for row in range(len(self.networks)):
            # whatever the caller has switched on or off; of clones, since autograd takes no tensor
            # that was made in inference mode
            with torch.inference_mode(False), torch.enable_grad(), self._own_precision():
                named = self._named(row, self.parameters[row].clone())
                named = {name: part.requires_grad_() for name, part in named.items()}
                points, targets = self._of(row, X).clone(), self._of(row, Y).clone()
                error = self._output(row, named, points) - targets
                loss = error.square().mean()
                gradients = torch.autograd.grad(loss, list(named.values()))
            places = self._named(row, self.parameters.grad[row])
            for place, gradient in zip(places.values(), gradients, strict=True):
                place.copy_(gradient)
            losses.append(loss.detach())
        return torch.stack(losses)

    def _output(
        self, row: int, named: dict[str, torch.Tensor], points: torch.Tensor
    ) -> torch.Tensor:
        with self._own_precision():
            return functional_call(self.networks[row], named, (points,))

    def _own_precision(self) -> Any:
        return torch.autocast(self.parameters.device.type, enabled=False)

    def _of(self, row: int, sets: torch.Tensor) -> torch.Tensor:
        """The set of points, or targets, of a network."""
        return sets[row * len(sets) // len(self.networks)]
