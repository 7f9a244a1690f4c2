"""Networks side by side, whose outputs are added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mnngp.networks.layers import Block
from mnngp.networks.network import Network


@dataclass(frozen=True)
class NetworkSum:
    """Independent networks; the output is the sum of theirs, so the covariance is as well.

    Attributes
    ----------
    networks : tuple of Network
        Of one floating point type.
    shares : tuple of float
        What the covariance of each is multiplied by.
    """

    networks: tuple[Network, ...]
    shares: tuple[float, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the computation."""
        return self.networks[0].dtype

    @property
    def tangent(self) -> bool:
        """Whether the tangent kernel of any is meant."""
        return any(network.tangent for network in self.networks)

    @property
    def depth(self) -> int:
        """That of the deepest."""
        return max(network.depth for network in self.networks)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The steps of all recursions."""
        return tuple(block for network in self.networks for block in network.blocks)

    def __str__(self) -> str:
        return "\n+ ".join(
            f"{share:.4g} · ({network})"
            for share, network in zip(self.shares, self.networks, strict=True)
        )
