"""Kernels: from activations to covariance matrices."""

from mnngp.kernels.network import MaxoutKernel, NetworkKernel

__all__ = ["MaxoutKernel", "NetworkKernel"]
