"""Kernels: from activations to covariance matrices."""

from mnngp.kernels.network_kernel import NetworkKernel
from mnngp.kernels.sklearn import MaxoutKernel

__all__ = ["MaxoutKernel", "NetworkKernel"]
