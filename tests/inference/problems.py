"""Kernels, parameters and matrices that several modules are tested on."""

import numpy as np

from mnngp import MaxoutKernel

GIVEN = {
    "depth": 3,
    "rank": 4,
    "weight_var": 0.6,
    "bias_var": 0.1,
    "kind": "nngp",
    "noise_var": 1e-2,
}
KERNELS = {  # each with the noise
    "plain": (MaxoutKernel(3, 4, 0.6, 0.1), 1e-2),
    "tangent": (MaxoutKernel(3, 4, 0.6, 0.1, "ntk"), 1e-2),
    "ordered": (MaxoutKernel(14, 2, 0.1, 0.3), 1e-15),
    "little noise": (MaxoutKernel(3, 4, 0.6, 0.1), 1e-5),
}


def spectrum(n, low, high, seed=0):
    """A matrix with eigenvalues from low to high."""
    basis, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))
    return (basis * np.geomspace(low, high, n)) @ basis.T
