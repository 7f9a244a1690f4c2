"""The layer recursion in PyTorch: any device, any batch shape, differentiable twice.

The quantities are those of the core (docs/maths.md, ``kernels.pointwise``). Of each point there
are, for each layer,

    a_i = √(w v_i / v'_i),   p_i = √(b / v'_i) / 2,   r_i = √M a_i / 2,        v' = b + w M v,

and a pair carries the distance ``u = (1 - ρ)/2`` and, for a tangent kernel, ``t = Θ / √(v v')``:

    u' = (p_i - p_j)² + (r_i - r_j)² + a_i a_j E(u),      t' = 1 - 2u' + a_i a_j P(u) t,

with E half the fall of F from F(1), and P its slope, from the core's own series; a smooth layer has
sums over Hermite degrees in their place. Two things are not left to automatic differentiation,
which finds 0 · ∞ at equal and at opposite points: E, whose slope is known to be P, and the first
distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from mnngp.activations import Activation, HomogeneousActivation, SmoothActivation
from mnngp.activations.chebyshev import HALF_RANGE
from mnngp.activations.hermite import Expansion
from mnngp.kernels.forward import REFINE
from mnngp.kernels.program import TOLERANCE

_CHUNK = 1 << 14  # numbers whose series are summed at a time: they stay in cache
# The core's settings, by PyTorch's names; half precision is computed as single.
_SETTINGS = {getattr(torch, str(dtype)): (TOLERANCE[dtype], REFINE[dtype]) for dtype in REFINE}
_VALUE, _SLOPE, _SECOND, _THIRD = range(4)  # E and its derivatives in u: P, P' and P''


class Layer(NamedTuple):
    """What one layer has of each point."""

    a: Tensor  # (..., n); of a smooth layer √w/√v'
    p: Tensor
    r: Tensor
    coefficients: Any = None  # (..., n, terms) A_ik of a smooth layer
    expansion: Expansion | None = None


class Points(NamedTuple):
    """What the recursion needs of each point."""

    # (..., n, d + 1) z_i / |z_i| of z = (√b, √(w/d) x), with |z_i|² the variance before the first
    # activation
    direction: Tensor
    layers: tuple[Layer, ...]
    scale: Tensor  # (..., n) the standard deviation behind the last layer

    def split(self, count: int) -> tuple[Points, Points]:
        """The first ``count`` points, and the others."""
        return self._some(slice(None, count)), self._some(slice(count, None))

    def _some(self, part: slice) -> Points:
        layers = tuple(
            Layer(a[..., part], p[..., part], r[..., part], c if c is None else c[..., part, :], e)
            for a, p, r, c, e in self.layers
        )
        return Points(self.direction[..., part, :], layers, self.scale[..., part])


def points(x: Tensor, weight_var: Tensor, bias_var: Tensor, units: Sequence[Activation]) -> Points:
    """Take points (..., n, d) through the layers, each alone; the variances are (..., depth + 1).

    The sum over layers gathers rounding errors: as in the core, it is in double precision.
    """
    if x.dtype != torch.float64 and x.device.type != "mps":  # which has no double precision
        exact = points(x.double(), weight_var.double(), bias_var.double(), units)
        rounded = tuple(
            Layer(a.to(x), p.to(x), r.to(x), c if c is None else c.to(x), e)
            for a, p, r, c, e in exact.layers
        )
        return Points(exact.direction.to(x), rounded, exact.scale.to(x))
    w, b = weight_var[..., None, :].unbind(-1), bias_var[..., None, :].unbind(-1)
    variance = b[0] + w[0] * x.square().mean(dim=-1)
    root = _root(variance)
    affine = (w[0] / _root(w[0]))[..., None] * x / x.shape[-1] ** 0.5
    bias = (b[0] / _root(b[0]))[..., None].expand(*affine.shape[:-1], 1)
    direction = torch.cat([bias, affine], dim=-1) / root[..., None]
    layers: list[Layer] = []
    for unit, weight, offset in zip(units, w[1:], b[1:], strict=True):
        root_w, root_b = weight / _root(weight), offset / _root(offset)
        if isinstance(unit, SmoothActivation):
            expansion = unit.expansion(float(variance.detach().max()))
            c = Coefficients.apply(variance, expansion)
            variance = offset + weight * c.square().sum(dim=-1)
            root = _root(variance)
            coefficients = (root_w / root)[..., None] * c
            p, r = 0.5 * root_b / root, 0.5 * coefficients[..., 0]
            layers.append(Layer(root_w / root, p, r, coefficients, expansion))
        else:
            moment = profile(unit).second_moment
            deviation = variance / root  # not √v: its derivative is infinite at a zero point
            variance = offset + weight * moment * variance
            root = _root(variance)
            a = root_w * deviation / root
            layers.append(Layer(a, 0.5 * (root_b / root).expand_as(a), 0.5 * moment**0.5 * a))
    return Points(direction, tuple(layers), variance / root)


def profile(unit: Activation) -> Any:
    """The correlation map of a homogeneous activation."""
    assert isinstance(unit, HomogeneousActivation)
    return unit.profile


def diagonal(of: Points, units: Sequence[Activation], *, tangent: bool) -> Tensor:
    """The kernel of each point with itself, (..., n)."""
    variance = of.scale.square()
    if not tangent:
        return variance
    total = torch.ones_like(variance)
    for unit, layer in zip(units, of.layers, strict=True):
        if layer.expansion is None:
            factor = profile(unit).slope_at_one * layer.a.square()
        else:
            degrees = torch.as_tensor(layer.expansion.degrees.values).to(layer.a)
            factor = (degrees * layer.coefficients.square()).sum(dim=-1)
        total = 1.0 + factor * total
    return variance * total


def matrix(rows: Points, cols: Points, units: Sequence[Activation], *, tangent: bool) -> Tensor:
    """The kernel matrix (..., n, m)."""
    _only_one_forward_mode()
    u = Distance.apply(rows.direction, cols.direction)
    t = 1.0 - 2.0 * u
    nonnegative = False  # whether no correlation before the layer is negative
    for unit, mine, theirs in zip(units, rows.layers, cols.layers, strict=True):
        apart_p = mine.p[..., :, None] - theirs.p[..., None, :]
        apart_r = mine.r[..., :, None] - theirs.r[..., None, :]
        if mine.expansion is None:
            both = mine.a[..., :, None] * theirs.a[..., None, :]
            fallen = both * Deficit.apply(u, _VALUE, unit, not nonnegative)
            slope = both * Deficit.apply(u, _SLOPE, unit, not nonnegative) if tangent else None
            nonnegative = profile(unit).nonnegative
        else:
            fallen, slope = _hermite(u, mine.coefficients, theirs.coefficients, mine.expansion)
            nonnegative = False
        u = apart_p.square() + apart_r.square() + fallen
        t = 1.0 - 2.0 * u + slope * t if tangent and slope is not None else 1.0 - 2.0 * u
    return rows.scale[..., :, None] * cols.scale[..., None, :] * t


def _hermite(
    u: Tensor, mine: Tensor, theirs: Tensor, expansion: Expansion
) -> tuple[Tensor, Tensor]:
    """The sums over Hermite degrees k ≥ 1 of a smooth layer, and their slope."""
    value, slope = torch.zeros_like(u), torch.zeros_like(u)
    rho = 1.0 - 2.0 * u
    for index, degree in enumerate(expansion.degrees.values[1:], start=1):
        one, other = mine[..., :, None, index], theirs[..., None, :, index]
        odd = expansion.degrees.odd if index >= expansion.degrees.whole else degree % 2 == 1
        size = rho.abs().clamp_min(torch.finfo(u.dtype).tiny)
        lower = size ** (degree - 1.0)
        power, signed = lower * size, torch.where(rho < 0.0, -1.0, 1.0)
        near = -torch.expm1(degree * torch.log1p(-2.0 * u.clamp_max(0.25)))
        fall = torch.where(u < 0.25, near, 1.0 - (signed * power if odd else power))
        value = value + 0.25 * (one - other).square() + 0.5 * one * other * fall
        slope = slope + degree * one * other * (lower if odd else signed * lower)
    return value, slope


class Coefficients(Function):  # type: ignore[misc]
    """The Hermite coefficients ``c_k(v)`` of a smooth activation, once differentiable."""

    @staticmethod
    def forward(ctx: Any, variance: Tensor, expansion: Expansion) -> Tensor:
        ctx.expansion = expansion
        ctx.save_for_backward(variance)
        return _of_variances(expansion.coefficients, variance)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():  # create_graph=True
            raise NotImplementedError(
                "second derivatives of kernels with smooth activations are not implemented: only "
                "of those with maxout, ReLU, leaky ReLU and the absolute value"
            )
        (variance,) = ctx.saved_tensors
        rates = _of_variances(ctx.expansion.rates, variance)
        return (gradient * rates).sum(dim=-1) / _root(variance).square(), None


def _of_variances(function: Any, variance: Tensor) -> Tensor:
    values = variance.detach().cpu().double().numpy()
    found = function(np.ascontiguousarray(values).reshape(-1))
    return torch.from_numpy(found.reshape(*values.shape, -1)).to(variance)


def _only_one_forward_mode() -> None:
    """Refuse what PyTorch gets wrong for every ``autograd.Function``.

    In forward mode over forward mode its jvp is a constant.
    """
    active = torch._C._functorch.get_interpreter_stack() or ()
    if sum(one.key() == torch._C._functorch.TransformType.Jvp for one in active) > 1:
        raise NotImplementedError(
            "forward mode over forward mode, which PyTorch gets wrong here: for second derivatives "
            "take torch.func.hessian, which is jacfwd(jacrev(f)), or jacrev(jacrev(f))"
        )


class Distance(Function):  # type: ignore[misc]
    """``u = (1 - z_i·z_j)/2`` of unit vectors, to full relative accuracy also where they nearly
    agree.

    The derivative is that of the formula as it stands. Its part along z_i drops out where z_i is
    made a unit vector.
    """

    @staticmethod
    def forward(rows: Tensor, cols: Tensor) -> Tensor:
        u = (0.5 - 0.5 * (rows @ cols.mT)).clamp_(0.0, 1.0)
        refine = _SETTINGS.get(u.dtype, _SETTINGS[torch.float32])[1]
        *batch, i, j = torch.nonzero((u < refine) | (1.0 - u < refine), as_tuple=True)
        for place in zip(*(part.split(_CHUNK) for part in (*batch, i, j)), strict=True):
            near = u[place] < 0.5
            one, other = rows[(*place[:-2], place[-2])], cols[(*place[:-2], place[-1])]
            square = torch.where(near[:, None], one - other, one + other).square().sum(dim=-1) / 4.0
            u[place] = torch.where(near, square, 1.0 - square)
        return u

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        rows, cols = ctx.saved_tensors
        return -0.5 * (gradient @ cols), -0.5 * (gradient.mT @ rows)

    @staticmethod
    def jvp(ctx: Any, rows_move: Tensor | None, cols_move: Tensor | None) -> Tensor:
        rows, cols = ctx.saved_tensors
        moves = [
            -0.5 * (one @ other.mT)  # type: ignore[union-attr]
            for one, other in ((rows_move, cols), (rows, cols_move))
            if None not in (one, other)
        ]
        return sum(moves[1:], moves[0])

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, int | None], rows: Tensor, cols: Tensor
    ) -> tuple[Tensor, int]:
        both = [
            side.expand(info.batch_size, *side.shape) if dim is None else side.movedim(dim, 0)
            for side, dim in zip((rows, cols), in_dims[:2], strict=True)
        ]
        return Distance.apply(*both), 0


class Deficit(Function):  # type: ignore[misc]
    """E of a distance, or P, P' or P'': each is the derivative of the one before.

    ``P'`` grows like 1/√u, but in second derivatives of the NNGP kernel it is multiplied by
    something of order u. Where u is below the square of the rounding unit, the product is below
    rounding: zero stands for it. Only a tangent kernel needs ``P''``.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(u: Tensor, order: int, unit: Activation, far: bool) -> Tensor:
        if not u.is_cpu or u.numel() <= _CHUNK:
            return _evaluate(u, order, unit, far)
        return torch.cat(
            [_evaluate(part, order, unit, far) for part in u.reshape(-1).split(_CHUNK)]
        ).reshape(u.shape)

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, int, Activation, bool], output: Tensor
    ) -> None:
        u, *ctx.settings = inputs
        ctx.save_for_backward(u)
        ctx.save_for_forward(u)

    @staticmethod
    def _derivative(ctx: Any) -> Tensor:
        order, unit, far = ctx.settings
        if order == _THIRD:
            raise NotImplementedError(
                "no more derivatives of this kernel are implemented: three of kind 'nngp', and "
                "two of kind 'ntk'"
            )
        (u,) = ctx.saved_tensors
        return Deficit.apply(u, order + 1, unit, far)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return gradient * Deficit._derivative(ctx), None, None, None

    @staticmethod
    def jvp(ctx: Any, move: Tensor, *_: None) -> Tensor:
        return move * Deficit._derivative(ctx)


def _evaluate(u: Tensor, order: int, unit: Activation, far: bool) -> Tensor:
    """E, P, P' or P'', from the series in √u and, beyond u = ½, in √(1-u)."""
    near_series, far_series, fall = _series(
        unit, order, _SETTINGS.get(u.dtype, _SETTINGS[torch.float32])[0]
    )
    if not far:
        return _near(u, order, near_series)
    beyond = u > 0.5
    # for rank 1, u may round to more than one
    rest = torch.where(beyond, (1.0 - u).clamp_min(0.0), 0.5)
    other = _near(rest, order, far_series)
    # F(1) - F(ρ) is the whole fall less what is left of it; a derivative in u is one in 1 - u, with
    # its sign changed.
    other = fall / 2.0 - other if order == _VALUE else -other if order == _SECOND else other
    return torch.where(beyond, other, _near(torch.where(beyond, 0.5, u), order, near_series))


def _near(u: Tensor, order: int, series: tuple[tuple[float, ...], ...]) -> Tensor:
    """On one side, with s = √u: ``u G(s)``, ``P(s)``, ``P_s / 2s`` or ``(P_ss - P_s / s) /
    4s²``.
    """
    s = u.sqrt()
    if order == _VALUE:
        return u * _clenshaw(s, series[0])
    if order == _SLOPE:
        return _clenshaw(s, series[0])
    small = s <= torch.finfo(u.dtype).eps
    away = torch.where(small, 1.0, s)
    value = _clenshaw(s, series[0]) / (2.0 * away)
    if order == _THIRD:
        value = (_clenshaw(s, series[1]) / 2.0 - value) / (2.0 * away.square())
    return torch.where(small, 0.0, value)


def _clenshaw(s: Tensor, series: tuple[float, ...]) -> Tensor:
    """A Chebyshev series on [0, √½]."""
    double = s * (4.0 / float(HALF_RANGE)) - 2.0
    value, before = torch.zeros_like(s), torch.zeros_like(s)
    for coefficient in series[:0:-1]:
        value, before = double * value - before + coefficient, value
    return 0.5 * double * value - before + series[0]


@lru_cache(maxsize=512)
def _series(unit: Activation, order: int, tolerance: float) -> list[Any]:
    """The series that ``_near`` sums, for the near side and for the far one, and the whole fall."""
    of = profile(unit)
    sides = []
    for side in (of.near, of.far) if order == _VALUE else (of.near_slope, of.far_slope):
        series = side.chopped(tolerance)
        needed = [series] if order <= _SLOPE else [series.slope]
        if order == _THIRD:
            needed.append(series.slope.slope)
        sides.append(tuple(tuple(map(float, one.coefficients)) for one in needed))
    return [*sides, of.fall]


def _root(variance: Tensor) -> Tensor:
    """The square root, with one for zero: what is divided by it is zero as well."""
    return torch.where(variance > 0.0, variance, 1.0).sqrt()
