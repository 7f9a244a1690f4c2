"""The study for convolutional networks: what a growing number of channels does.

As for dense networks, the covariance of one network's outputs for given hidden units is measured,
``K̂ = b + w H Hᵀ/fan_in`` with what the readout leaves of an image in a row of H, and the tangent
kernel. Networks are drawn weight by weight: they are ``ConvMaxoutNetwork``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

from mnngp import _validation
from mnngp._system.progress import Done
from mnngp._typing import Vector
from mnngp.activations import Maxout
from mnngp.errors import InputError
from mnngp.experiments.convergence.covariances import (
    KernelAgreement,
    distances,
    not_zero,
    several_networks,
)
from mnngp.experiments.convergence.study import (
    FEWEST,
    MOST,
    Settings,
    Stage,
    Study,
    Task,
    distinct,
    run_tasks,
)
from mnngp.finite.conv_network import ConvMaxoutNetwork
from mnngp.finite.finite_network import input_tensor
from mnngp.finite.sampling import network_seeds
from mnngp.finite.tangent import tangent_kernel
from mnngp.kernels import NetworkKernel
from mnngp.networks import Conv, Flatten, GlobalAvgPool

READOUTS = {"flatten": Flatten(), "global": GlobalAvgPool()}
SHAPE = (8, 8)
_WEIGHTS = 2**25  # to spend on the tangent kernels of a number of channels


def image_agreement(
    kernel: NetworkKernel,
    X: Any,
    channels: int,
    networks: int,
    *,
    seed: int = 0,
    progress: Done = lambda part: None,
) -> KernelAgreement:
    """Draw networks of one number of channels and compare their covariances with the kernel.

    Parameters
    ----------
    kernel : NetworkKernel
        With convolutions and an ``image_shape``; says layers and variances.
    X : array of images
        A few.
    channels, networks : int
        Of each convolution, and how many networks: two or more, for a standard error.
    seed, progress
        As for ``draw_values``.

    Examples
    --------
    >>> from mnngp import Conv, GlobalAvgPool, Maxout, NetworkKernel
    >>> layers = [Conv(3), Maxout(4), Conv(3), Maxout(4), GlobalAvgPool()]
    >>> kernel = NetworkKernel(layers, weight_var=0.6, image_shape=(5, 5))
    >>> X = np.random.default_rng(0).normal(size=(2, 5, 5))
    >>> found = image_agreement(kernel, X, channels=100, networks=50)
    >>> found.score < 4.0, found.error < 0.05
    (True, True)
    """

    def covariance(network: ConvMaxoutNetwork) -> Vector:
        with torch.no_grad():
            H = network.hidden(input_tensor("X", X, network)).double().numpy()
        weight_std, bias_std = network.deviations[-1]
        return np.asarray(bias_std**2 + weight_std**2 * H @ H.T)

    return _agreement(
        kernel, "nngp", covariance, X, channels, network_seeds(seed, networks), progress
    )


def image_tangent_agreement(
    kernel: NetworkKernel,
    X: Any,
    channels: int,
    networks: int,
    *,
    seed: int = 0,
    progress: Done = lambda part: None,
) -> KernelAgreement:
    """The same of tangent kernels, with the one that belongs to the kernel."""

    def tangent(network: ConvMaxoutNetwork) -> Vector:
        return tangent_kernel(network, X)

    return _agreement(kernel, "ntk", tangent, X, channels, network_seeds(seed, networks), progress)


def _agreement(
    kernel: NetworkKernel,
    kind: str,
    sample: Callable[[ConvMaxoutNetwork], Vector],
    X: Any,
    channels: int,
    seeds: Sequence[int],
    progress: Done,
) -> KernelAgreement:
    """Networks of these seeds beside the kernel of this kind."""
    several_networks(len(seeds))
    ConvMaxoutNetwork.of_kernel(kernel, 1, seed=0)  # or an error that says why there is none
    exact = NetworkKernel(**{**kernel.get_params(), "kind": kind})(X)
    not_zero(np.diag(exact))
    samples = np.empty((len(seeds), *exact.shape))
    for index, seed in enumerate(seeds):
        samples[index] = sample(ConvMaxoutNetwork.of_kernel(kernel, channels, seed))
        progress(1.0 / len(seeds))
    rank = max((one.rank for one in kernel.layers if isinstance(one, Maxout)), default=1)
    depth = kernel.network.depth
    return KernelAgreement(rank, depth, channels, len(seeds), **distances(samples, exact))


def image_study(
    readout: str = "global",
    ranks: Sequence[int] = (2, 4),
    depths: Sequence[int] = (1, 3),
    channels: Sequence[int] = (4, 16, 64, 256),
    *,
    stage: Stage = lambda name, share: lambda part: None,
    **settings: Any,
) -> Study:
    """Draw convolutional networks of several ranks, depths and numbers of channels.

    They have windows of 3×3 pixels, and zeros beyond the border; the images are three digits of
    8×8 pixels.

    Parameters
    ----------
    readout : {"global", "flatten"}
        The mean over all positions, or all of them.
    ranks, depths, channels : sequences of int
        All combinations are drawn.
    stage, **settings
        As for ``convergence_study``, but for ``draw`` and ``descent_up_to``; 100 networks of the
        largest number of channels by default.

    Examples
    --------
    >>> found = image_study("flatten", [3], [2], [8, 32], networks=20, tangent_up_to=0)
    >>> for name, rank, depth, exponent, std in found.exponents():
    ...     print(f"{name}, rank {rank}, depth {depth}: squared error as channels^{exponent:.0f}")
    kernel, rank 3, depth 2: squared error as channels^-1
    """
    last = READOUTS[_validation.one_of("readout", readout, tuple(READOUTS))]
    ranks, depths, channels = (
        distinct(*each) for each in (("rank", ranks), ("depth", depths), ("channels", channels))
    )
    wrong = sorted(settings.keys() & {"draw", "descent_up_to"})
    if wrong:
        raise InputError(f"{wrong[0]} is for dense networks, got {settings[wrong[0]]!r}")
    chosen = Settings(**{"networks": 100, **settings})
    several_networks(chosen.networks)
    channels, tasks = sorted(channels), []
    X = load_digits().images[:3] / 8.0 - 1.0
    for rank, depth in ((rank, depth) for rank in ranks for depth in depths):
        dense = chosen.kernel(rank, depth)
        layers: list[Any] = [*[Conv(3), Maxout(rank)] * depth, last]
        kernel = NetworkKernel(layers, dense.weight_var, dense.bias_var, image_shape=SHAPE)
        for width in channels:
            size = 9 * rank * width * (1 + (depth - 1) * width)
            count = chosen.networks * min(MOST, channels[-1] // width)
            # a network takes some time however small it is
            tasks.append(Task(image_agreement, kernel, X, width, count, count * (size + 1e5)))
            if width <= chosen.tangent_up_to:
                count = int(np.clip(_WEIGHTS // size, FEWEST, max(FEWEST, chosen.networks)))
                cost = count * (3.0 * size + 3e5)
                tasks.append(Task(image_tangent_agreement, kernel, X, width, count, cost))
    names: dict[Callable[..., Any], str] = {
        image_agreement: "covariances",
        image_tangent_agreement: "tangent kernels",
    }
    seed, threads = _validation.seed("seed", chosen.seed), torch.get_num_threads()
    # layers this small would keep several waiting for each other
    torch.set_num_threads(1)
    try:
        rows = run_tasks(tasks, names, seed, stage)
    finally:
        torch.set_num_threads(threads)
    return Study(rows[image_agreement], rows[image_tangent_agreement], width="channels")
