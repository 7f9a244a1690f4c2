"""What the recursion needs of each point: its variances through the layers.

With ``v_i`` the variance of point i before a layer and ``v'_i = b + w V(v_i)`` after it
(``V(v) = M v`` for a homogeneous activation; the paper's eq. (16) on the diagonal), the step of the
distance ``u_ij`` is (docs/maths.md)

    β_i = √(b/v'_i),  α_i = √(w v_i/v'_i),
    u'_ij = ¼ (β_i - β_j)² + ¼ M (α_i - α_j)² + ½ α_i α_j D(u_ij).

In the ordered phase all v_i run into one fixed point and u falls far below rounding; then
``β_i - β_j`` taken from rounded numbers is noise that would swamp u. So each point carries its
deviation ``e_i = v_i - v_ref`` from a reference point as a number of its own (it obeys a recursion
of its own, ``e' = w M e``), and the tables hold ``p_i = (β_i - β_ref)/2`` and
``r_i = √M (α_i - α_ref)/2``, each with full relative accuracy.

The input itself is a linear layer: v_i = |x_i|²/d and ``u_ij = (1 - cos∠(x_i, x_j))/2`` before it.
Nothing of the data but these two is used, and neither depends on a hyperparameter.

Derivatives are in logarithms. With λ = ∂ log v and ġ_w, ġ_b how much log w and log b move, a layer
takes λ to ``λ' = β² ġ_b + W ġ_w + G λ``; W and G are both M α² for a homogeneous activation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mnngp._typing import Vector
from mnngp.activations import HomogeneousActivation, SmoothActivation
from mnngp.activations.hermite import Expansion
from mnngp.activations.profile import Profile, linear_profile
from mnngp.errors import ScaleError
from mnngp.kernels import strips
from mnngp.networks.layers import Block


@dataclass(frozen=True, eq=False)
class Step(ABC):
    """One layer for given points: how it moves distances and tangents."""

    kind: int
    a: Vector
    p: Vector
    r: Vector
    beta: Vector  # √(b/v')
    shrinkage: Vector  # √(w/v')
    reach: float  # no distance before this step is larger

    @property
    @abstractmethod
    def weight_share(self) -> Vector:
        """W, the derivative of log v' in log w."""

    @property
    @abstractmethod
    def growth(self) -> Vector:
        """G, the derivative of log v' in log v."""

    @property
    @abstractmethod
    def tangent_factor(self) -> Vector:
        """F of ``T' = 1 + f T``, where ``T = Θ_ii / K_ii``."""

    @property
    @abstractmethod
    def tangent_growth(self) -> Vector:
        """The derivative of f in log v, v' held fixed."""


@dataclass(frozen=True, eq=False)
class HomogeneousStep(Step):
    """A step of a homogeneous activation, by its profile or by a table of F."""

    second_moment: float  # M
    slope_at_one: float  # P(1)
    profile: Profile | None
    table: Vector | None

    @cached_property
    def weight_share(self) -> Vector:
        return self.second_moment * self.a**2

    @property
    def growth(self) -> Vector:
        return self.weight_share

    @cached_property
    def tangent_factor(self) -> Vector:
        return self.slope_at_one * self.a**2

    @property
    def tangent_growth(self) -> Vector:
        return self.tangent_factor


@dataclass(frozen=True, eq=False)
class HermiteStep(Step):
    """A step of a smooth activation, by its normalised coefficients ``A_ik = √(w/v'_i) c_k(v_i)``.

    A_ik is ``reference_k + deviation_ki``.
    """

    expansion: Expansion
    reference: Vector  # (terms,)
    deviation: Vector  # (terms, n)
    variance: Vector  # v before this step

    @cached_property
    def rates(self) -> Vector:
        """``∂A_ik / ∂ log v_i`` with v' held fixed, (terms, n)."""
        return np.ascontiguousarray(
            (self.shrinkage[:, None] * self.expansion.rates(self.variance)).T
        )

    @property
    def _coefficients(self) -> Vector:
        return self.reference[:, None] + self.deviation

    @cached_property
    def weight_share(self) -> Vector:
        return np.asarray(np.sum(self._coefficients**2, axis=0))

    @cached_property
    def growth(self) -> Vector:
        return np.asarray(2.0 * np.sum(self._coefficients * self.rates, axis=0))

    @cached_property
    def tangent_factor(self) -> Vector:
        return np.asarray(self.expansion.degrees.values @ self._coefficients**2)

    @cached_property
    def tangent_growth(self) -> Vector:
        rates = self._coefficients * self.rates
        return np.asarray(2.0 * self.expansion.degrees.values @ rates)


@dataclass
class Diagonal:
    """Where the points are after some layers: ``K_ii = variance_i · 4^exponent``.

    The power of four keeps variances of any depth inside floating point, without rounding.
    """

    variance: Vector
    reference: float
    deviation: Vector
    tangent: Vector  # T = Θ_ii / K_ii
    exponent: int = 0
    reach: float = 1.0

    def rescale(self, bias_var: float = 0.0) -> None:
        """Move a common power of four out of the variances when they leave a comfortable range.

        The bias to come counts among them.
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


def walk(points: Diagonal, blocks: Sequence[Block]) -> Iterator[Step]:
    """Take the points through the blocks, in place, yielding each one's step."""
    for block in blocks:
        if isinstance(block.activation, SmoothActivation):
            yield _smooth_step(points, block, block.activation)
        else:
            points.rescale(block.bias_var)
            yield _homogeneous_step(points, block)


def behind(square_lengths: Vector, blocks: Sequence[Block]) -> tuple[list[Step], Diagonal]:
    """All steps of the points, and where they are behind the last."""
    points = inputs(square_lengths)
    return list(walk(points, blocks)), points


def pull_back(
    steps: Sequence[Step], of_variance: Vector, of_tangent: Vector | None = None
) -> Vector:
    """The derivatives of a number a point in log weight_var and log bias_var of every step.

    Parameters
    ----------
    steps : sequence of Step
        From the inputs on.
    of_variance, of_tangent : arrays (n,)
        Its derivatives in log v and in T behind the last step.

    Returns
    -------
    array (2, steps, n)
        In log weight_var, and in log bias_var.
    """
    tangents = [np.zeros_like(of_variance)]
    for step in steps:
        tangents.append(1.0 + step.tangent_factor * tangents[-1])
    result = np.empty((2, len(steps), len(of_variance)))
    for index in reversed(range(len(steps))):
        step = steps[index]
        result[0, index], before = 0.0, np.zeros_like(of_variance)
        if of_tangent is not None:  # f is in proportion to w/v'
            pull = of_tangent * tangents[index]
            result[0, index] = pull * step.tangent_factor
            before = pull * step.tangent_growth
            of_variance = of_variance - pull * step.tangent_factor
            of_tangent = of_tangent * step.tangent_factor
        result[0, index] += of_variance * step.weight_share
        result[1, index] = of_variance * step.beta**2
        of_variance = of_variance * step.growth + before
    return result


def _homogeneous_step(points: Diagonal, block: Block) -> HomogeneousStep:
    activation, w = block.activation, block.weight_var
    b = float(np.ldexp(block.bias_var, -2 * points.exponent))
    profile: Profile | None = None
    table: Vector | None = getattr(activation, "table", None)
    if table is not None:
        moment = float(table[-1])
        slope_at_one = float(table[-1] - table[-2]) * (len(table) - 1) / 2.0
        largest_fall, nonnegative = float(table[-1] - table.min()), bool(table.min() >= 0.0)
        kind = strips.TABLE
    else:
        profile = (
            activation.profile
            if isinstance(activation, HomogeneousActivation)
            else linear_profile()
        )
        moment, slope_at_one = profile.second_moment, profile.slope_at_one
        largest_fall = profile.largest_fall(points.reach)
        nonnegative = profile.nonnegative
        near = strips.NEAR if points.reach <= 0.5 else strips.WHOLE
        kind = strips.LINEAR if profile.linear else near

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
    with np.errstate(over="ignore"):  # a kernel that no type can hold is refused as a whole
        shrinkage = np.ldexp(np.sqrt(w) / root, -points.exponent)
    step = HomogeneousStep(
        kind,
        a,
        p,
        r,
        np.sqrt(b) / root,
        shrinkage,
        points.reach,
        moment,
        slope_at_one,
        profile,
        table,
    )

    points.tangent = 1.0 + a * a * slope_at_one * points.tangent
    points.variance, points.deviation, points.reference = v_next, e_next, float(ref_next)
    points.reach = float(min(reach_next, 0.5 if nonnegative else 1.0))
    return step


def _smooth_step(points: Diagonal, block: Block, activation: SmoothActivation) -> HermiteStep:
    w, b = block.weight_var, block.bias_var
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
        # points of one length have none, and to find that out takes most of the time of a step
        c_off = expansion.deviations(v, e, ref) if e.any() else np.zeros((len(v), len(c_ref)))
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
    else:
        # a sum of reference and deviation would leave a rounding of the largest coefficients in the
        # smallest
        reference = np.zeros_like(c_ref)
        deviation = shrinkage[:, None] * c
    step = HermiteStep(
        strips.HERMITE,
        a=np.zeros_like(v),
        p=np.sqrt(b) * inverse_off / 2.0,
        # The constant's coefficient, k = 0, does not depend on ρ: it goes where a homogeneous
        # layer has α.
        r=deviation[:, 0] / 2.0,
        beta=np.sqrt(b) / root,
        shrinkage=shrinkage,
        reach=points.reach,
        expansion=expansion,
        reference=reference,
        deviation=np.ascontiguousarray(deviation.T),
        variance=v,
    )

    # overflow: an error for a tangent kernel (``evaluate.scale_shift``), and nothing for any other
    with np.errstate(over="ignore"):
        points.tangent = 1.0 + step.tangent_factor * points.tangent
    points.variance, points.deviation, points.reference = v_next, e_next, float(ref_next)
    # An odd series keeps negative correlations negative; one with a mean need not make them
    # positive either.
    points.reach = 1.0
    return step


def _check_finite(where: str, activation: SmoothActivation, *variances: Vector | float) -> None:
    if not all(np.isfinite(part).all() for part in variances):
        raise ScaleError(
            f"the variance {where} {activation!r} overflows float64; scale the features down, "
            "or choose a smaller weight_var for the layers before it"
        )


def _safe_sqrt(v: Vector | float) -> Vector:
    """The square root, with one for zero: a point of variance zero has a zero row, whatever."""
    return np.sqrt(np.where(np.asarray(v) > 0.0, v, 1.0))
