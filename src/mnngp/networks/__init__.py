"""What a network is, as data: layers in the order in which the data takes them."""

from mnngp.networks.layers import Block, Dense
from mnngp.networks.network import Network

__all__ = ["Block", "Dense", "Network"]
