"""The convolutional recursion, written plainly: all pairs of positions of all pairs of images."""

import numpy as np

from mnngp import AvgPool, Conv, Flatten
from mnngp.activations import Activation


def windows(count, stride, size, pad, length, circular):
    """(size, count, length): which position each part of each window sees."""
    seen = np.zeros((size, count, length))
    for part in range(size):
        for window in range(count):
            place = window * stride - pad + part
            if circular or 0 <= place < length:
                seen[part, window, place % length] = 1.0
    return seen


def activated(unit, k, theta):
    """V, and T, of an activation of the package, by its moments or its Hermite coefficients."""
    sigma = np.sqrt(np.einsum("iiyxyx->iyx", k))
    both = sigma[:, None, :, :, None, None] * sigma[None, :, None, None, :, :]
    rho = np.clip(np.divide(k, both, out=np.zeros_like(k), where=both > 0), -1.0, 1.0)
    if unit.homogeneous:
        return both * unit.moment(rho), unit.derivative(rho) * theta
    expansion = unit.expansion(float((sigma**2).max()))
    c = expansion.coefficients((sigma**2).reshape(-1)).reshape(*sigma.shape, -1)
    v, slope = np.zeros_like(k), np.zeros_like(k)
    sign = np.sign(rho) if expansion.degrees.odd else np.abs(np.sign(rho))
    for index, degree in enumerate(expansion.degrees.values):
        products = np.einsum("iyx,jvw->ijyxvw", c[..., index], c[..., index])
        power = rho ** int(degree) if degree == int(degree) else sign * np.abs(rho) ** degree
        v += products * power
        if degree >= 1.0:
            lower = degree - 1.0
            below = (
                rho ** int(lower)
                if lower == int(lower)
                else (sign * np.sign(rho) * np.abs(rho) ** lower)
            )
            slope += degree * products * below
    return v, np.divide(slope, both, out=np.zeros_like(k), where=both > 0) * theta


def kernel_matrix(network, pixels, *, signal=False):
    """The kernel of images with each other, (n, n)."""
    images = np.asarray(pixels, dtype=np.float64)
    v = np.einsum("iyxc,jvwc->ijyxvw", images, images) / images.shape[3]
    t, k, theta = np.zeros_like(v), v, v
    places = iter(network.places(images.shape[1:3], signal=signal))
    maps = iter(network.affine)
    for layer in network.layers[:-1]:
        if isinstance(layer, Activation):
            v, t = activated(layer, k, theta)
            continue
        place = next(places)
        circular = isinstance(layer, Conv) and layer.padding == "circular"
        down, right = (
            windows(
                *(
                    getattr(place, name)[axis]
                    for name in ("behind", "stride", "size", "pad", "before")
                ),
                circular,
            )
            for axis in (0, 1)
        )
        if isinstance(layer, AvgPool):
            one, other = down.sum(axis=0), right.sum(axis=0)
            v, t = (
                np.einsum("Py,Qx,ijyxvw,Rv,Sw->ijPQRS", one, other, part, one, other, optimize=True)
                / np.prod(place.size) ** 2
                for part in (v, t)
            )
            continue
        dense = next(maps)
        summed = [
            np.einsum(
                "aPy,bQx,ijyxvw,aRv,bSw->ijPQRS", down, right, part, down, right, optimize=True
            )
            for part in (v, t)
        ]
        scale = dense.weight_var / np.prod(place.size)
        k = dense.bias_var + scale * summed[0]
        v, t = k, k + scale * summed[1]
        theta = t
    dense = next(maps)
    mean = "ijyxyx->ij" if isinstance(network.readout, Flatten) else "ijyxvw->ij"
    counts = v.shape[2] * v.shape[3]
    counts = counts if isinstance(network.readout, Flatten) else counts**2
    k = dense.bias_var + dense.weight_var * np.einsum(mean, v) / counts
    return k + dense.weight_var * np.einsum(mean, t) / counts if network.tangent else k
