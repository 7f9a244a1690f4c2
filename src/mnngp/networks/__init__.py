"""What a network is, as data: layers in the order in which the data takes them."""

from mnngp.networks.convolutional import ConvolutionalNetwork
from mnngp.networks.embedding import Embedding
from mnngp.networks.layers import AvgPool, Block, Conv, Dense, Flatten, GlobalAvgPool
from mnngp.networks.network import Network

__all__ = [
    "AvgPool",
    "Block",
    "Conv",
    "ConvolutionalNetwork",
    "Dense",
    "Embedding",
    "Flatten",
    "GlobalAvgPool",
    "Network",
]
