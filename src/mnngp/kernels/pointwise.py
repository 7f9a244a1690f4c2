"""What the recursion needs of each point: its variances through the layers.

With ``v_i`` the variance of point i before a layer and ``v'_i = b + w V(v_i)`` after it (``V(v) = M
v`` for a homogeneous activation; the paper's eq. (16) on the diagonal), the step of the distance
``u_ij`` is (docs/maths.md)

    β_i = √(b/v'_i),  α_i = √(w v_i/v'_i),   u'_ij = ¼ (β_i - β_j)² + ¼ M (α_i - α_j)² + ½ α_i α_j
    D(u_ij).

In the ordered phase all v_i run into one fixed point and u falls far below rounding; then ``β_i -
β_j`` taken from rounded numbers is noise that would swamp u. So each point carries its deviation
``e_i = v_i - v_ref`` from a reference point as a number of its own (it obeys a recursion of its
own, ``e' = w M e``), and the tables hold ``p_i = (β_i - β_ref)/2`` and ``r_i = √M (α_i -
α_ref)/2``, each with full relative accuracy.

The input itself is a linear layer: v_i = |x_i|²/d and ``u_ij = (1 - cos∠(x_i, x_j))/2`` before it.
Nothing of the data but these two is used, and neither depends on a hyperparameter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from mnngp._typing import Vector
from mnngp.activations import HomogeneousActivation, SmoothActivation
from mnngp.activations.hermite import Expansion
from mnngp.activations.profile import Profile, linear_profile
from mnngp.errors import ScaleError
from mnngp.kernels import forward
from mnngp.networks.network import Layer


def _nothing() -> Vector:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class Step:
    """One layer for given points: how it moves distances and tangents."""

    kind: int
    a: Vector
    p: Vector
    r: Vector
    beta: Vector  # √(b/v')
    second_moment: float  # M and P(1) of a homogeneous activation
    slope_at_one: float
    reach: float  # no distance before this step is larger
    profile: Profile | None = None
    table: Vector = field(default_factory=_nothing)
    # HERMITE: coefficients A_k of the reference point
    reference: Vector = field(default_factory=_nothing)
    deviation: Vector = field(default_factory=_nothing)  # HERMITE: A_ik - A_k, a row a degree
    expansion: Expansion | None = None  # HERMITE: what the coefficients come from
    variance: Vector = field(default_factory=_nothing)  # HERMITE: v before this step
    # HERMITE: √w/√v', so that A_ik = shrinkage_i c_k(v_i)
    shrinkage: Vector = field(default_factory=_nothing)


@dataclass
class Diagonal:
    """Where the points are after some layers: ``K_ii = variance_i · 4^exponent``.

    The power of four keeps variances of any depth inside floating point, without rounding.
    """

    variance: Vector
    reference: float
    deviation: Vector
    tangent: Vector  # Θ_ii / K_ii
    exponent: int = 0
    reach: float = 1.0

    def rescale(self, bias_var: float = 0.0) -> None:
        """Move a common power of four out of the variances, and of the bias to come, when they
        leave a comfortable range.
        """
        power = math.frexp(max(self.reference, float(self.variance.max())))[1]
        if bias_var > 0.0:
            power = max(power, math.frexp(bias_var)[1] - 2 * self.exponent)
        shift = power // 2 if abs(power) > 128 else 0
        if shift:
            self.variance = np.ldexp(self.variance, -2 * shift)
            self.deviation = np.ldexp(self.deviation, -2 * shift)
            self.reference = float(np.ldexp(self.reference, -2 * shift))
            self.exponent += shift


def inputs(square_lengths: Vector) -> Diagonal:
    """The points before the first layer, from ``|x_i|²/d``."""
    # the mean of the middle two may not overflow
    reference = 2.0 * float(np.median(square_lengths / 2.0))
    return Diagonal(
        variance=square_lengths,
        reference=reference,
        deviation=square_lengths - reference,
        tangent=np.zeros_like(square_lengths),
    )


def walk(points: Diagonal, layers: Sequence[Layer]) -> Iterator[Step]:
    """Take the points through the layers, in place, yielding each layer's step."""
    for layer in layers:
        if isinstance(layer.activation, SmoothActivation):
            yield _smooth_step(points, layer, layer.activation)
        else:
            points.rescale(layer.bias_var)
            yield _homogeneous_step(points, layer)


def _homogeneous_step(points: Diagonal, layer: Layer) -> Step:
    activation, w = layer.activation, layer.weight_var
    b = float(np.ldexp(layer.bias_var, -2 * points.exponent))
    profile: Profile | None
    table = _nothing()
    given = getattr(activation, "table", None)
    if given is not None:
        profile, table = None, given
        moment, slope_at_one = (
            float(table[-1]),
            float(table[-1] - table[-2]) * (len(table) - 1) / 2.0,
        )
        largest_fall, nonnegative, kind = (
            float(table[-1] - table.min()),
            bool(table.min() >= 0.0),
            forward.TABLE,
        )
    else:
        profile = (
            activation.profile
            if isinstance(activation, HomogeneousActivation)
            else linear_profile()
        )
        moment, slope_at_one = profile.second_moment, profile.slope_at_one
        largest_fall = profile.largest_fall(points.reach)
        nonnegative = profile.nonnegative
        kind = (
            forward.LINEAR
            if profile.linear
            else forward.NEAR
            if points.reach <= 0.5
            else forward.WHOLE
        )

    v, e, ref = points.variance, points.deviation, points.reference
    v_next, e_next, ref_next = b + w * moment * v, w * moment * e, b + w * moment * ref
    root, root_ref = _safe_sqrt(v_next), _safe_sqrt(ref_next)
    a, a_ref = np.sqrt(w * v) / root, np.sqrt(w * ref) / root_ref
    # α² - α_ref² = w b e / (v' v'_ref): a difference of squares gives the difference without
    # cancellation
    product = root * root_ref
    away = w * (b / product) * (e / product) / np.maximum(a + a_ref, np.finfo(float).tiny)
    p = -(e_next / product) * (np.sqrt(b) / (root + root_ref)) / 2.0
    r = np.sqrt(moment) * away / 2.0
    reach_next = (
        np.ptp(p) ** 2 + np.ptp(r) ** 2 + 0.5 * float(a.max()) ** 2 * largest_fall * (1.0 + 1e-9)
    )
    step = Step(
        kind, a, p, r, np.sqrt(b) / root, moment, slope_at_one, points.reach, profile, table
    )

    points.tangent = 1.0 + a * a * slope_at_one * points.tangent
    points.variance, points.deviation, points.reference = v_next, e_next, float(ref_next)
    points.reach = float(min(reach_next, 0.5 if nonnegative else 1.0))
    return step


def _smooth_step(points: Diagonal, layer: Layer, activation: SmoothActivation) -> Step:
    w, b = layer.weight_var, layer.bias_var
    with np.errstate(over="ignore"):
        v = np.ldexp(points.variance, 2 * points.exponent)
        ref = float(np.ldexp(points.reference, 2 * points.exponent))
    _check_finite("before", activation, v, ref)
    e = np.ldexp(points.deviation, 2 * points.exponent)
    points.exponent = 0

    expansion = activation.expansion(float(max(v.max(), ref)))
    c_ref = expansion.coefficients(np.array([ref]))[0]
    near = (np.abs(e) <= 0.5 * ref) & (ref > 0.0)
    if near.all():
        c_off = expansion.deviations(v, e, ref)
        c = c_ref + c_off
    else:
        c = expansion.coefficients(v)
        c_off = c - c_ref
        if near.any():
            c_off[near] = expansion.deviations(v[near], e[near], ref)
    with np.errstate(over="ignore"):
        ref_next = b + w * float(c_ref @ c_ref)
        e_next = w * ((c_off * (2.0 * c_ref + c_off)).sum(axis=1))
        v_next = b + w * (c**2).sum(axis=1)
    _check_finite("behind", activation, v_next, ref_next, e_next)
    root, root_ref = _safe_sqrt(v_next), _safe_sqrt(ref_next)
    # 1/√v' - 1/√v'_ref, in an order that does not overflow
    inverse_off = -e_next / (root + root_ref) / root_ref / root
    shrinkage = np.sqrt(w) / root
    if near.all():
        reference = np.sqrt(w) * c_ref / root_ref
        deviation = shrinkage[:, None] * c_off + np.sqrt(w) * c_ref * inverse_off[:, None]
    # a sum of reference and deviation would leave a rounding of the largest coefficients in the
    # smallest
    else:
        reference = np.zeros_like(c_ref)
        deviation = shrinkage[:, None] * c
    slope = (expansion.degrees.values * (reference + deviation) ** 2).sum(axis=1)
    # The constant's coefficient, k = 0, does not depend on ρ: it goes where a homogeneous layer has
    # α.
    step = Step(
        forward.HERMITE,
        a=np.zeros_like(v),
        p=np.sqrt(b) * inverse_off / 2.0,
        r=deviation[:, 0] / 2.0,
        beta=np.sqrt(b) / root,
        second_moment=0.0,
        slope_at_one=0.0,
        reach=points.reach,
        reference=reference,
        deviation=np.ascontiguousarray(deviation.T),
        expansion=expansion,
        variance=v,
        shrinkage=shrinkage,
    )

    # an error for a tangent kernel (``matrix.scale_shift``), and nothing for any other
    with np.errstate(over="ignore"):
        points.tangent = 1.0 + slope * points.tangent
    points.variance, points.deviation, points.reference = v_next, e_next, float(ref_next)
    # An odd series keeps negative correlations negative; one with a mean need not make them
    # positive either.
    points.reach = 1.0
    return step


def _check_finite(where: str, activation: SmoothActivation, *variances: Vector | float) -> None:
    if not all(np.isfinite(part).all() for part in variances):
        raise ScaleError(
            f"the variance {where} {activation!r} overflows float64; scale the features down, or "
            "choose a smaller weight_var for "
            "the layers before it"
        )


def _safe_sqrt(v: Vector | float) -> Vector:
    """The square root, with one for zero: a point of variance zero has a zero row, whatever is
    divided by.
    """
    return np.sqrt(np.where(np.asarray(v) > 0.0, v, 1.0))
