"""The theorem as an experiment: the covariances of finite networks beside the kernel.

Of the covariance of one network's outputs for given hidden units, ``K̂ = b + w H_L H_Lᵀ/width``,
four things are measured:

* its mean over networks against the kernel of the theorem, entry by entry, in standard errors; and
  against the recursion as the paper prints it, which the same score rejects;
* its squared distance from the kernel, ``E ‖K̂ - K‖² / ‖K‖²``, which falls like 1/width;
* the excess kurtosis of the outputs. An output is Gaussian with the random variance
  ``V = K̂(x, x)``, so it is ``3 Var(V) / E(V)²``, and it is also known exactly at every width
  (``exact_kurtosis``);
* the distance of the outputs' distribution from the Gaussian one.

The variances have no bias at any width: ``E V_{l+1} = b + w M E V_l`` is the kernel's own
recursion. Covariances of different points have one, of order 1/width, from the second hidden layer
on: F_q of a random correlation is not F_q of its mean.

The tangent kernels of ``mnngp.finite.tangent`` are measured in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from mnngp import _validation
from mnngp._system.progress import Done
from mnngp._typing import Vector
from mnngp.activations import Maxout
from mnngp.activations.maxout import maximum_moment
from mnngp.errors import InputError
from mnngp.finite.maxout_network import MaxoutNetwork
from mnngp.finite.sampling import Draws, draw_values, draw_weights, network_seeds, setting
from mnngp.finite.tangent import analytic, tangent_kernel
from mnngp.kernels import MaxoutKernel

WAYS = {"values": draw_values, "weights": draw_weights}


@dataclass(frozen=True, eq=False)
class KernelAgreement:
    """How far the kernels K̂ of networks of one width are from the analytic one, K."""

    rank: int
    depth: int
    width: int
    networks: int
    error: float  # ‖mean K̂ - K‖/‖K‖, in Frobenius norms
    score: float  # the largest entry of |mean K̂ - K| in standard errors
    squared_error: float  # E ‖K̂ - K‖² / ‖K‖² of one network
    squared_error_std: float  # the standard error of this mean


@dataclass(frozen=True, eq=False)
class Agreement(KernelAgreement):
    """How far networks of one width are from the Gaussian process."""

    printed_score: float  # of the recursion as printed
    output_score: float  # of the mean of f fᵀ over the outputs f themselves
    kurtosis: float  # excess kurtosis of the output at the first point, measured
    exact_kurtosis: float  # and as it must be at this width
    distance: float  # the largest one of the distribution function there from the Gaussian one
    draws: Draws  # what all this is from


def agreement(
    kernel: MaxoutKernel,
    X: Any,
    width: int,
    networks: int,
    *,
    draw: str = "values",
    seed: int = 0,
    progress: Done = lambda part: None,
) -> Agreement:
    """Draw networks of one width and compare them with the kernel.

    Parameters
    ----------
    kernel : MaxoutKernel
        Of kind "nngp", with one ``weight_var`` and one ``bias_var`` for all layers, as the printed
        recursion has them.
    X : array of shape (n, d)
        A few points.
    width, networks : int
        Units of each hidden layer, and how many networks: two or more, for a standard error.
    draw : {"values", "weights"}
        Which of the two ways of ``mnngp.finite.sampling``.
    seed, progress
        As for ``draw_values``.

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp import MaxoutKernel
    >>> X = np.array([[1.0, -0.5, 0.3], [0.2, 1.1, -0.4]])
    >>> kernel = MaxoutKernel(depth=3, rank=4, weight_var=0.6, bias_var=0.2)
    >>> found = agreement(kernel, X, width=2000, networks=200)
    >>> found.score < 4.0, found.printed_score > 10.0
    (True, True)
    """
    way = WAYS[_validation.one_of("draw", draw, tuple(WAYS))]
    several_networks(networks)
    points, *_ = setting(kernel, X)
    if kernel.kind != "nngp":
        raise InputError(
            f'kernel must be of kind "nngp", got {kernel!r}; for tangent kernels '
            "there is tangent_agreement"
        )
    exact = kernel(points)
    not_zero(np.diag(exact))
    draws = way(kernel, X, width, networks, seed=seed, progress=progress)
    variance = draws.covariances[:, 0, 0]
    grid = np.linspace(-5.0, 5.0, 201) * np.sqrt(exact[0, 0])
    mixture = np.array([ndtr(value / np.sqrt(variance)).mean() for value in grid])
    return Agreement(
        rank=kernel.rank,
        depth=kernel.depth,
        width=width,
        networks=networks,
        **distances(draws.covariances, exact),
        printed_score=score(draws.covariances, printed_kernel(kernel, X)),
        output_score=score(draws.outputs[:, :, None] * draws.outputs[:, None, :], exact),
        kurtosis=float(3.0 * variance.var(ddof=1) / variance.mean() ** 2),
        exact_kurtosis=float(exact_kurtosis(kernel, X, width)[0]),
        distance=float(np.abs(mixture - ndtr(grid / np.sqrt(exact[0, 0]))).max()),
        draws=draws,
    )


def tangent_agreement(
    kernel: MaxoutKernel,
    X: Any,
    width: int,
    networks: int,
    *,
    seed: int = 0,
    progress: Done = lambda part: None,
) -> KernelAgreement:
    """Draw networks in the parametrisation "ntk" and compare their tangent kernels with theirs.

    The arguments are those of ``draw_values``; the networks are whole ones, one at a time in
    memory.

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp import MaxoutKernel
    >>> kernel = MaxoutKernel(depth=2, rank=3, weight_var=0.7)
    >>> found = tangent_agreement(kernel, np.eye(3), width=200, networks=30)
    >>> found.error < 0.03, found.squared_error < 0.03
    (True, True)
    """
    points, *_ = setting(kernel, X)
    several_networks(networks)
    exact = analytic(kernel)(points)
    not_zero(np.diag(exact))
    samples = np.empty((networks, *exact.shape))
    for index, own in enumerate(network_seeds(seed, networks)):
        network = MaxoutNetwork.of_kernel(kernel, width, points.shape[1], own)
        samples[index] = tangent_kernel(network, points)
        progress(1.0 / networks)
    found = distances(samples, exact)
    return KernelAgreement(kernel.rank, kernel.depth, width, networks, **found)


def several_networks(networks: int) -> None:
    """Refuse a single network: it shows no standard error."""
    if _validation.positive_int("networks", networks) < 2:
        raise InputError("networks must be 2 or more, for a standard error, got 1")


def not_zero(variances: Vector) -> None:
    """Where the kernel is zero all networks are, and errors relative to it have no meaning."""
    if not np.all(variances):
        row = int(np.argmin(variances != 0.0))
        raise InputError(
            "X must have no point where the kernel is zero (the origin, if bias_var "
            f"is 0), got such a one: X[{row}]"
        )


def distances(samples: Vector, exact: Vector) -> dict[str, float]:
    """Of the samples' mean and, squared, of a single sample from what is exact."""
    squares = np.sum((samples - exact) ** 2, axis=(1, 2)) / np.sum(exact**2)
    return {
        "error": float(np.linalg.norm(samples.mean(axis=0) - exact) / np.linalg.norm(exact)),
        "score": score(samples, exact),
        "squared_error": float(squares.mean()),
        "squared_error_std": float(squares.std(ddof=1) / np.sqrt(len(samples))),
    }


def score(samples: Vector, exact: Vector) -> float:
    """The largest entry of ``|mean - exact|``, in standard errors of the mean; 0 without error."""
    off = np.abs(samples.mean(axis=0) - exact)
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    with np.errstate(divide="ignore"):
        return float(np.max(np.divide(off, error, where=off > 0.0, out=np.zeros_like(off))))


def printed_kernel(kernel: MaxoutKernel, X: Any) -> Vector:
    """Eq. (20), label 18, as the paper prints it, to be rejected.

    The affine map stands twice in each layer from the second on.
    """
    points, (weight_var, *weights), (bias_var, *biases) = setting(kernel, X)
    if any(other != weight_var for other in weights) or any(other != bias_var for other in biases):
        raise InputError(
            f"the recursion is printed for one weight_var and one bias_var, got {kernel!r}"
        )
    unit = Maxout(kernel.rank)
    K = points @ points.T / points.shape[1]
    for _ in range(kernel.depth):
        C = bias_var + weight_var * K
        scale = np.sqrt(np.outer(np.diag(C), np.diag(C)))
        K = bias_var + weight_var * scale * unit.moment(np.clip(C / scale, -1.0, 1.0))
    return np.asarray(K)


def exact_kurtosis(
    kernel: MaxoutKernel, X: Any, width: int | Sequence[int] | NDArray[Any]
) -> Vector:
    """The excess kurtosis of an output at each point; for a single point, at each of some widths.

    For given V_l the units of the next layer are independent, √V_l times the maximum m of ``rank``
    standard normals, hence

        E(V_{l+1} | V_l)   = b + w M V_l                        M = E m²
        Var(V_{l+1} | V_l) = w² V_l² (E m⁴ - M²)/width

    and the first two moments of V follow from those of the layer before.

    Examples
    --------
    >>> import numpy as np
    >>> from mnngp import MaxoutKernel
    >>> kernel = MaxoutKernel(depth=1, rank=2, bias_var=0.0)
    >>> print(exact_kurtosis(kernel, np.eye(1), width=[6, 600]).round(4))
    [1.   0.01]
    """
    points, weight_var, bias_var = setting(kernel, X)
    if np.ndim(width) == 0:
        _validation.positive_int("width", width)
    else:
        for index, value in enumerate(width):  # type: ignore[arg-type]
            _validation.positive_int(f"width[{index}]", value)
        if len(points) > 1:
            raise InputError(
                f"width must be one number for {len(points)} points, or X a single "
                f"point, got {width!r}"
            )
    widths = np.asarray(width, dtype=np.float64)
    second, fourth = Maxout(kernel.rank).second_moment, maximum_moment(kernel.rank, 4)
    mean = bias_var[0] + weight_var[0] * np.sum(points**2, axis=1) / points.shape[1] + 0.0 * widths
    not_zero(mean)
    square = mean**2
    for w, b in zip(weight_var[1:], bias_var[1:], strict=True):
        growth = second**2 + (fourth - second**2) / widths
        square = b**2 + 2.0 * b * w * second * mean + w**2 * growth * square
        mean = b + w * second * mean
    return np.asarray(3.0 * (square / mean**2 - 1.0))


def power_law(
    widths: Sequence[float], values: Sequence[float], errors: Sequence[float]
) -> tuple[float, float]:
    """The exponent of a power law by least squares on logarithms, and its standard error.

    ``errors`` are the standard errors of the values.

    Examples
    --------
    >>> exponent, error = power_law([5, 50, 500], [0.4, 0.04, 0.004], [0.04, 0.004, 0.0004])
    >>> print(f"{exponent:.3f} ± {error:.3f}")
    -1.000 ± 0.031
    """
    logs = np.log(np.asarray(widths, dtype=np.float64))
    if len(np.unique(logs)) < 2:
        raise InputError(f"an exponent needs two widths or more, got {list(widths)!r}")
    centred = logs - logs.mean()
    parts = centred / np.sum(centred**2)  # the exponent is linear in the logarithms of the values
    relative = np.asarray(errors, dtype=np.float64) / np.asarray(values)
    return float(parts @ np.log(values)), float(np.linalg.norm(parts * relative))
