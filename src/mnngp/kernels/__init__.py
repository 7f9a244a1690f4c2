"""Kernels: from activations to covariance matrices."""

from mnngp.kernels.by_blocks import kernel_matrix
from mnngp.kernels.network_kernel import NetworkKernel
from mnngp.kernels.sklearn import MaxoutKernel

__all__ = ["MaxoutKernel", "NetworkKernel", "kernel_matrix"]
