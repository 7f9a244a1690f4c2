"""Many finite maxout networks at a few points, drawn in two ways that have the same law.

*By weights.* Every weight of a network is drawn. At width 5,000, rank 8 and depth 5 these are 800
million numbers, so they are drawn in blocks of rows, used, and forgotten: the memory does not grow
with the square of the width. The numbers are those of ``MaxoutNetwork`` with the same seed.

*By values.* For given units of the layer before, ``H`` of shape (points, fan_in), each of the
``rank · width`` affine maps of the next layer takes the values ``√(w/fan_in) H ω + √b β`` at the
points, with ω and β standard normal. These are independent Gaussian vectors with the covariance

    C = b + w H Hᵀ/fan_in

(eq. 4 of the paper before any limit is taken), so they are drawn from it directly:
``rank · width · points`` numbers a layer instead of ``rank · width²``. Nothing is approximated, and
F_q appears nowhere: it is the law of a real network's values at these points, at every width.

Either way the output is, for given ``H_L``, Gaussian with the covariance C of the last layer. Its
mean over networks estimates the covariance of the outputs with less noise than the outputs
themselves do (Rao and Blackwell); both are returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mnngp import _validation
from mnngp._system.progress import Done
from mnngp._typing import Vector
from mnngp.errors import InputError
from mnngp.finite.finite_network import real_array, torch_dtype
from mnngp.kernels import MaxoutKernel

BLOCK = 2**21  # numbers that are held at a time: some megabytes


@dataclass(frozen=True, eq=False)
class Draws:
    """Networks at ``n`` points.

    Attributes
    ----------
    covariances : array of shape (networks, n, n)
        Of a network's outputs, for given hidden units: ``b + w H Hᵀ/width``.
    outputs : array of shape (networks, n)
        The first output of each network.
    """

    covariances: Vector
    outputs: Vector


def draw_values(
    kernel: MaxoutKernel,
    X: Any,
    width: int,
    networks: int,
    *,
    seed: int = 0,
    progress: Done = lambda part: None,
) -> Draws:
    """Draw the values of networks at the rows of ``X`` from their exact law, layer by layer.

    Parameters
    ----------
    kernel : MaxoutKernel
        Says rank, depth and variances; not one of its moments is used.
    X : array of shape (n, d)
        A few points: a layer takes the eigenvectors of an n by n matrix.
    width, networks : int
        Units of each hidden layer, and how many networks.
    seed : int
        Equal seeds give equal draws.
    progress : callable
        Is told of finished parts, which add up to one.

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp import MaxoutKernel
    >>> kernel = MaxoutKernel(depth=3, rank=4, weight_var=0.6)
    >>> X = np.array([[1.0, 0.5], [-0.3, 2.0]])
    >>> draws = draw_values(kernel, X, width=5000, networks=200)
    >>> print((draws.covariances.mean(axis=0) / kernel(X)).round(2))
    [[1. 1.]
     [1. 1.]]
    """
    points, weight_var, bias_var = setting(kernel, X)
    width = _validation.positive_int("width", width)
    networks = _validation.positive_int("networks", networks)
    rng = np.random.default_rng(_validation.seed("seed", seed))
    # of a layer at a time; narrow networks many at a time
    units = max(1, BLOCK // (len(points) * kernel.rank))
    batch = max(1, min(networks, units // width))
    covariances = np.empty((networks, len(points), len(points)))
    first = bias_var[0] + weight_var[0] * points @ points.T / points.shape[1]
    for start in range(0, networks, batch):
        count = min(batch, networks - start)
        C = np.broadcast_to(first, (count, *first.shape))
        for w, b in zip(weight_var[1:], bias_var[1:], strict=True):
            root, squares = _root(C).astype(np.float32), np.zeros(C.shape)
            for unit in range(0, width, units):
                some = min(units, width - unit)
                # single precision for the draws alone: 1e-7 of a value, where networks differ by
                # 1e-2
                shape = (count, len(points), kernel.rank * some)
                values = root @ rng.standard_normal(shape, dtype=np.float32)
                values = values.reshape(count, len(points), kernel.rank, some)
                hidden = values.max(axis=2).astype(np.float64)
                squares += hidden @ hidden.transpose(0, 2, 1)
            C = b + w * squares / width
        covariances[start : start + count] = C
        progress(count / networks)
    noise = rng.standard_normal((networks, len(points), 1))
    return Draws(covariances, (_root(covariances) @ noise)[..., 0])


def draw_weights(
    kernel: MaxoutKernel,
    X: Any,
    width: int,
    networks: int,
    *,
    seed: int = 0,
    progress: Done = lambda part: None,
) -> Draws:
    """Draw networks weight by weight, without keeping them; see ``draw_values`` for the arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp import MaxoutKernel
    >>> draws = draw_weights(MaxoutKernel(depth=2, rank=3), np.eye(2), width=100, networks=5)
    >>> draws.covariances.shape, draws.outputs.shape
    ((5, 2, 2), (5, 2))
    """
    points, weight_var, bias_var = setting(kernel, X)
    width = _validation.positive_int("width", width)
    networks = _validation.positive_int("networks", networks)
    covariances = np.empty((networks, len(points), len(points)))
    outputs = np.empty((networks, len(points)))
    for index, own in enumerate(network_seeds(seed, networks)):
        hidden, output = passing_network(points, width, kernel.rank, weight_var, bias_var, seed=own)
        covariances[index] = bias_var[-1] + weight_var[-1] * hidden @ hidden.T / width
        outputs[index] = output
        progress(1.0 / networks)
    return Draws(covariances, outputs)


def network_seeds(seed: int, count: int) -> list[int]:
    """Seeds of ``count`` networks that do not overlap."""
    sequence = np.random.SeedSequence(_validation.seed("seed", seed))
    return [int(state >> np.uint64(1)) for state in sequence.generate_state(count, np.uint64)]


def weight_count(kernel: MaxoutKernel, width: int, inputs: int) -> int:
    """How many weights a network has."""
    return int(kernel.rank * width * (inputs + (kernel.depth - 1) * width) + width)


def passing_network(
    X: Any,
    width: int,
    rank: int,
    weight_var: Any,
    bias_var: Any,
    *,
    seed: int,
    dtype: str | torch.dtype = "float32",
    block: int = BLOCK,
) -> tuple[Vector, Vector]:
    """The hidden units and the output of a ``MaxoutNetwork`` that never exists as a whole.

    ``weight_var`` and ``bias_var`` are those of each affine map, so they also say the depth; at
    most ``block`` weights are held at a time. The last hidden layer is of shape (n, width), the
    output of shape (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp.finite import MaxoutNetwork
    >>> hidden, output = passing_network(np.eye(3), 50, 2, [1.0, 0.5], [0.1, 0.1], seed=7)
    >>> network = MaxoutNetwork(50, 2, 1, inputs=3, weight_var=[1.0, 0.5], bias_var=0.1, seed=7)
    >>> bool(np.allclose(output, network(torch.eye(3)).detach()[:, 0], atol=1e-6))
    True
    """
    kind = torch_dtype(dtype)
    generator = torch.Generator().manual_seed(_validation.seed("seed", seed))
    hidden = torch.tensor(X, dtype=kind, device="cpu")
    last = len(weight_var) - 1
    for index, (w, b) in enumerate(zip(weight_var, bias_var, strict=True)):
        maps = rank * width if index < last else 1
        values = _drawn_product(hidden, maps, float(np.sqrt(w / hidden.shape[1])), generator, block)
        # As in MaxoutNetwork, a layer's biases are drawn after all of its weights.
        bias = torch.empty(maps, dtype=kind, device="cpu").normal_(generator=generator)
        values += bias.mul_(float(np.sqrt(b)))
        if index == last:
            return hidden.double().numpy(), values[:, 0].double().numpy()
        hidden = values.unflatten(1, (rank, width)).amax(1)
    raise InputError("weight_var must have a number for each affine map, got none")


def _drawn_product(
    hidden: torch.Tensor, maps: int, deviation: float, generator: torch.Generator, block: int
) -> torch.Tensor:
    """``H Wᵀ`` for a matrix W that is drawn in blocks of rows."""
    fan_in = hidden.shape[1]
    result = hidden.new_empty(hidden.shape[0], maps)
    # PyTorch fills in groups of 16, and redraws the last 16 of an odd number: whole groups, and a
    # last block that is long enough, give the numbers that one call would.
    rows = max(16, block // fan_in // 16 * 16)
    start = 0
    while start < maps:
        count = rows if maps - start >= rows + 16 else maps - start
        weight = hidden.new_empty(count, fan_in).normal_(generator=generator).mul_(deviation)
        result[:, start : start + count] = hidden @ weight.T
        start += count
    return result


def _root(C: Vector) -> Vector:
    """A with ``A Aᵀ = C``, for each of several C that may be singular, as for equal points."""
    values, vectors = np.linalg.eigh(C)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])


def setting(kernel: MaxoutKernel, X: Any) -> tuple[Vector, Vector, Vector]:
    """The points, and the variances of each affine map."""
    if not isinstance(kernel, MaxoutKernel):
        raise InputError(f"kernel must be a MaxoutKernel, got {kernel!r}")
    points = np.asarray(_validation.points("X", real_array("X", X)), dtype=np.float64)
    depth = _validation.positive_int("depth", kernel.depth)
    _validation.positive_int("rank", kernel.rank)
    weight_var = _validation.variances("weight_var", kernel.weight_var, depth + 1, zero=False)
    bias_var = _validation.variances("bias_var", kernel.bias_var, depth + 1, zero=True)
    return points, weight_var, bias_var
