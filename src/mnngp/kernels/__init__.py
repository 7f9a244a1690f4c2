"""Kernels: from activations to covariance matrices."""

from mnngp.kernels.sklearn import MaxoutKernel, NetworkKernel

__all__ = ["MaxoutKernel", "NetworkKernel"]
