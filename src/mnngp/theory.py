"""What depth does to variances, correlations and gradients: maps, fixed points, phases.

A point of variance v before a layer has ``v' = b + w V(v)`` behind it, and two points of one
variance and correlation ρ have ``ρ' = (b + w E[φ φ'])/v'`` (b, w the variances of biases and
weights). Three slopes say how a deep network behaves where v has settled:

* ``variance_slope = w V'(v)``: what a layer does to a small change of the input *along* the input;
* ``gradient_slope = w E[φ'²]``: what it does to a small change *across* the input, and to the
  squared gradient on its way back;
* ``correlation_slope = dρ'/dρ`` at ρ = 1: what it does to the distance 1 - ρ of two close points.

The phase is *ordered* if the larger of the first two is below one, *critical* if it is one,
*chaotic* above. For ReLU the two are the same. For maxout of rank 3 and more they are not: V' = M =
E max² > 1 = E[φ'²]. So the weight variance 1/M that keeps activations (``critical_weight_var``)
lets gradients fall by 1/M a layer, and one that keeps gradients lets activations grow by M.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from mnngp import _validation
from mnngp._typing import Vector
from mnngp.activations import Activation, HomogeneousActivation, SmoothActivation
from mnngp.errors import InputError

_CRITICAL = 1e-9  # a slope this near to one is one
# times the variances of weights and biases: a variance without a fixed point below has none
_LARGEST = 1e8
_INFINITE = 1e30  # a variance at which an activation that is known at any is what it is at infinity


@dataclass(frozen=True)
class FixedPoint:
    """Where a deep network ends up.

    Attributes
    ----------
    variance : float
        What the variance tends to from one; ``inf`` if it grows without end.
    correlation : float
        What the correlation of two points tends to.
    variance_slope, gradient_slope, correlation_slope : float
        The slopes there (see the module).
    phase : str
        "ordered", "critical" or "chaotic".
    """

    variance: float
    correlation: float
    variance_slope: float
    gradient_slope: float
    correlation_slope: float
    phase: str

    @property
    def depth_scale(self) -> float:
        """Over how many layers 1 - ρ changes by e; ``inf`` where that is not exponential."""
        slope = self.correlation_slope
        if abs(slope - 1.0) <= _CRITICAL:
            return math.inf
        return 1.0 / abs(math.log(slope)) if slope > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class DepthProfile:
    """Two points on their way through a network.

    Index l is behind the l-th hidden layer, 0 behind the first affine map.

    Attributes
    ----------
    variance : array (depth + 1,)
        Of a pre-activation, the same for both.
    correlation : array (depth + 1,)
        Of the two.
    distance : array (depth + 1,)
        ``1 - correlation``, accurate also where the correlation has rounded to one.
    gradient : array (depth + 1,)
        Mean square of the output's gradient at that layer, relative to the output's own.
    """

    variance: Vector
    correlation: Vector
    distance: Vector
    gradient: Vector


def variance_map(
    activation: Activation, variance: Any, *, weight_var: float, bias_var: float
) -> Any:
    """The variance behind a layer, ``b + w V(v)``; a number for a number, an array for an array.

    Examples
    --------
    >>> from mnngp import Maxout
    >>> unit = Maxout(4)
    >>> round(variance_map(unit, 2.0, weight_var=unit.critical_weight_var, bias_var=0.0), 12)
    2.0
    """
    w, b = _variances(activation, weight_var, bias_var)
    v = _validation.real_array("variance", variance).astype(np.float64)
    if not np.all((v >= 0.0) & np.isfinite(v)):
        raise InputError(f"variance must be finite and at least 0, got {variance!r}")
    result = b + w * _mean_square(activation, v)
    return float(result) if np.ndim(variance) == 0 else result


def correlation_map(
    activation: Activation,
    rho: Any,
    *,
    weight_var: float,
    bias_var: float,
    variance: float | None = None,
) -> Any:
    """The correlation behind a layer, of two points of one variance (the fixed one by default).

    Examples
    --------
    >>> from mnngp import Maxout
    >>> correlation_map(Maxout(2), [0.0, 1.0], weight_var=1.0, bias_var=0.0).round(6)
    array([0.31831, 1.     ])
    """
    w, b = _variances(activation, weight_var, bias_var)
    if variance is None:
        v = _finite(activation, _fixed_variance(activation, w, b))
    else:
        v = _validation.real("variance", variance, low=0.0)
    result = 1.0 - _distance_map(activation, 1.0 - _validation.correlations("rho", rho), w, b, v)
    return float(result) if np.ndim(rho) == 0 else result


def fixed_point(activation: Activation, *, weight_var: float, bias_var: float = 0.0) -> FixedPoint:
    """Where variances and correlations tend to, how fast, and the phase.

    Examples
    --------
    >>> from mnngp import Maxout, Tanh
    >>> point = fixed_point(Maxout(4), weight_var=0.5, bias_var=0.1)
    >>> point.phase, round(point.variance, 6)
    ('ordered', 0.445761)
    >>> round(point.variance_slope, 6), round(point.gradient_slope, 6)
    (0.775664, 0.5)
    >>> fixed_point(Tanh(), weight_var=2.0, bias_var=0.0).phase
    'chaotic'
    """
    w, b = _variances(activation, weight_var, bias_var)
    variance = _fixed_variance(activation, w, b)
    v = _finite(activation, variance)
    variance_slope = w * _variance_slope(activation, v)
    gradient_slope = w * _slope_square(activation, v)
    correlation_slope = _weight_over_variance(activation, w, b, v) * _slope_square(activation, v)
    multiplier = max(variance_slope, gradient_slope)
    phase = "ordered" if multiplier < 1.0 else "chaotic"
    if abs(multiplier - 1.0) <= _CRITICAL:
        phase = "critical"
    correlation = 1.0
    # the map is convex and crosses the diagonal once below one
    if correlation_slope > 1.0 + _CRITICAL:

        def excess(gap: float) -> float:
            return float(_distance_map(activation, gap, w, b, v)) - gap

        correlation = 0.0 if excess(1.0) >= -1e-14 else 1.0 - brentq(excess, 1e-9, 1.0)
    return FixedPoint(
        variance, correlation, variance_slope, gradient_slope, correlation_slope, phase
    )


def critical_weight_var(activation: Activation, *, bias_var: float = 0.0) -> float:
    """The weight variance between the ordered and the chaotic phase.

    ``1 / E φ²`` for homogeneous activations at any bias, the number to initialise a deep maxout
    network with (weights of variance ``critical_weight_var / fan_in``); for smooth ones it depends
    on the bias.

    Examples
    --------
    >>> from mnngp import Maxout, Tanh
    >>> [round(critical_weight_var(Maxout(rank)), 5) for rank in (2, 3, 4, 5)]
    [1.0, 0.78391, 0.64461, 0.55555]
    >>> round(critical_weight_var(Tanh(), bias_var=0.05), 4)
    1.761
    """
    _, b = _variances(activation, 1.0, bias_var)
    if activation.homogeneous:
        return activation.critical_weight_var

    def excess(log_w: float) -> float:
        w = math.exp(log_w)
        v = _finite(activation, _fixed_variance(activation, w, b))
        return max(w * _variance_slope(activation, v), w * _slope_square(activation, v)) - 1.0

    grid = np.linspace(math.log(1e-3), math.log(1e3), 40)
    above = next((i for i, log_w in enumerate(grid) if excess(log_w) > 0.0), 0)
    if above == 0:
        raise InputError(
            f"{activation!r} has no critical weight variance between 0.001 and 1000 "
            f"at bias_var={bias_var!r}"
        )
    found = math.exp(brentq(excess, grid[above - 1], grid[above], xtol=1e-13))
    # Without bias variance zero is a fixed point, until it is no longer stable.
    return min(found, 1.0 / _slope_square(activation, 0.0)) if b == 0.0 else found


def depth_profile(
    activation: Activation,
    depth: int,
    *,
    weight_var: float,
    bias_var: float = 0.0,
    variance: float = 1.0,
    correlation: float = 0.5,
) -> DepthProfile:
    """Variance, correlation and gradient through ``depth`` layers, of two inputs.

    Their ``|x|²/d`` is ``variance``, for both.

    Examples
    --------
    >>> from mnngp import Maxout
    >>> unit = Maxout(4)
    >>> profile = depth_profile(unit, 30, weight_var=unit.critical_weight_var)
    >>> bool(np.allclose(profile.variance, profile.variance[0]))
    True
    >>> f"{profile.distance[-1]:.1e}", f"{profile.gradient[0]:.1e}"
    ('2.1e-07', '1.9e-06')
    """
    w, b = _variances(activation, weight_var, bias_var)
    count = _validation.positive_int("depth", depth)
    v = _validation.real("variance", variance, low=0.0, strict=True)
    gap = 1.0 - _validation.real("correlation", correlation, low=-1.0, high=1.0)
    # The affine map of the inputs is a linear layer: V(v) = v, E[φφ'] = ρ v.
    gap, v = w * v * gap / (b + w * v), b + w * v
    variances, gaps, slopes = [v], [gap], []
    for _ in range(count):
        slopes.append(w * _slope_square(activation, v))
        gap = float(_distance_map(activation, gap, w, b, v))
        v = b + w * float(_mean_square(activation, v))
        variances.append(v)
        gaps.append(gap)
    with np.errstate(over="ignore"):  # infinite is what it is
        gradient = np.append(np.cumprod(slopes[::-1])[::-1], 1.0)
    return DepthProfile(np.array(variances), 1.0 - np.array(gaps), np.array(gaps), gradient)


def _variances(activation: Any, weight_var: Any, bias_var: Any) -> tuple[float, float]:
    if not isinstance(activation, Activation):
        raise InputError(
            f"activation must be an activation, such as Maxout(4) or ReLU(), got {activation!r}"
        )
    w = _validation.real("weight_var", weight_var, low=0.0, strict=True)
    return w, _validation.real("bias_var", bias_var, low=0.0)


def _mean_square(activation: Activation, v: Any) -> Any:
    """``V(v) = E φ(√v z)²``."""
    if isinstance(activation, SmoothActivation):
        return activation.variance(np.atleast_1d(v)).reshape(np.shape(v))
    return activation.second_moment * v


def _mean_square_ratio(activation: Activation, v: float) -> float:
    """``V(v)/v``; at zero, where tanh, erf and GELU are linear, the slope's square."""
    if activation.homogeneous:
        return activation.second_moment
    return float(_mean_square(activation, v)) / v if v > 0.0 else _slope_square(activation, v)


def _variance_slope(activation: Activation, v: float) -> float:
    """``V'(v)``."""
    if isinstance(activation, SmoothActivation) and v > 0.0:
        return float(activation.variance_slope(np.array([v]))[0])
    return _mean_square_ratio(activation, v)


def _slope_square(activation: Activation, v: float) -> float:
    """``E φ'(√v z)²``."""
    if isinstance(activation, SmoothActivation):
        return float(activation.slope_variance(np.array([v]))[0])
    return float(activation.derivative(1.0))


def _fixed_variance(activation: Activation, w: float, b: float) -> float:
    """The fixed point of the variance map that a network runs into from variance one."""
    if activation.homogeneous:
        slope = w * activation.second_moment
        if slope < 1.0 - _CRITICAL:
            return b / (1.0 - slope)
        # at the critical point every variance is one
        return 1.0 if b == 0.0 and slope <= 1.0 + _CRITICAL else math.inf

    def excess(log_v: float) -> float:  # relative to v, of any size
        v = math.exp(log_v)
        return b / v + w * float(_mean_square(activation, v)) / v - 1.0

    low, high, step = 0.0, 0.0, math.log(2.0)
    while excess(high) > 0.0:  # the variance grows from here
        low, high = high, high + step
        if high > math.log(_LARGEST * max(1.0, w, b)):
            return math.inf
    while excess(low) <= 0.0:  # it shrinks from here, but not below b
        low, high = low - step, low
        if b == 0.0 and low < math.log(1e-12):
            return 0.0
    return math.exp(brentq(excess, low, high, xtol=1e-16, rtol=4.0 * np.finfo(float).eps))


def _finite(activation: Activation, v: float) -> float:
    """A number for an endless variance, at which the activation is nearly what it is there."""
    if isinstance(activation, SmoothActivation) and math.isinf(v):
        return _INFINITE if activation.exact else _LARGEST
    return v


def _weight_over_variance(activation: Activation, w: float, b: float, v: float) -> float:
    """``w v / v'``, with its limits at v = 0 (then b = 0) and at infinity."""
    share = 0.0 if b == 0.0 or math.isinf(v) else b / v
    return w / (share + w * _mean_square_ratio(activation, v))


def _distance_map(activation: Activation, gap: Any, w: float, b: float, v: float) -> Vector:
    """``1 - ρ'`` from ``1 - ρ`` without cancellation, for two points of variance v."""
    gap = np.asarray(gap, dtype=np.float64)
    factor = _weight_over_variance(activation, w, b, v)
    if isinstance(activation, HomogeneousActivation):
        return np.asarray(factor * activation.profile.deficit(gap / 2.0))
    if not isinstance(activation, SmoothActivation):
        return np.asarray(factor * activation.deficit(1.0 - gap))
    if v == 0.0:
        return np.asarray(factor * _slope_square(activation, v) * gap)
    expansion = activation.expansion(v)
    return np.asarray(
        factor / v * expansion.degrees.deficit(expansion.coefficients(np.array([v]))[0] ** 2, gap)
    )
