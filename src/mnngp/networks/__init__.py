"""What a network is, as data."""

from mnngp.networks.network import Layer, Network

__all__ = ["Layer", "Network"]
