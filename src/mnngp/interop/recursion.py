"""The layer recursion in PyTorch: any device, any batch shape, differentiable twice.

The quantities are those of the core (docs/maths.md). Of each point there are, for each layer,

    a_i = √(w v_i / v'_i),   p_i = √(b / v'_i) / 2,   r_i = √M a_i / 2,        v' = b + w M v,

and a pair carries the distance ``u = (1 - ρ)/2`` and, for a tangent kernel, ``t = Θ / √(v v')``:

    u' = (p_i - p_j)² + (r_i - r_j)² + a_i a_j E(u),      t' = 1 - 2u' + a_i a_j P(u) t,

with E half the fall of F_q from F_q(1), and P its slope, from the core's own series. Two things are
not left to automatic differentiation, which finds 0 · ∞ at equal and at opposite points: E, whose
slope is known to be P, and the first distance.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from mnngp.activations import Maxout
from mnngp.activations.chebyshev import HALF_RANGE
from mnngp.activations.profile import Profile
from mnngp.kernels.blocks import REFINE
from mnngp.kernels.program import TOLERANCE

_CHUNK = 1 << 14  # numbers whose series are summed at a time: they stay in cache
# The core's settings, by PyTorch's names; half precision is computed as single.
_SETTINGS = {getattr(torch, str(dtype)): (TOLERANCE[dtype], REFINE[dtype]) for dtype in REFINE}
_VALUE, _SLOPE, _BEND, _TURN = range(4)  # E and its derivatives in u: P, P' and P''


class Points(NamedTuple):
    """What the recursion needs of each point; the layers stand in a dimension before the points."""

    # (..., n, d + 1) z_i / |z_i| of z = (√b, √(w/d) x), with |z_i|² the variance before the first
    # layer
    direction: Tensor
    a: Tensor  # (..., depth, n)
    p: Tensor
    r: Tensor
    scale: Tensor  # (..., n) the standard deviation behind the last layer


def profile(rank: int) -> Profile:
    """The correlation map of rank-q maxout."""
    return Maxout(rank).profile


def points(x: Tensor, weight_var: Tensor, bias_var: Tensor, rank: int, depth: int) -> Points:
    """Take points (..., n, d) through the layers, each alone; the variances have two dimensions of
    size one at their end.

    The sum over layers gathers rounding errors: as in the core, it is in double precision.
    """
    if x.dtype != torch.float64 and x.device.type != "mps":  # which has no double precision
        exact = points(x.double(), weight_var.double(), bias_var.double(), rank, depth)
        return Points(*(part.to(x.dtype) for part in exact))
    moment = profile(rank).second_moment
    w, b = weight_var[..., 0], bias_var[..., 0]
    root_w, root_b = w / _root(w), b / _root(b)
    variance = b + w * x.square().mean(dim=-1)
    root = _root(variance)
    affine = root_w[..., None] * x / x.shape[-1] ** 0.5
    bias = root_b[..., None].expand(*affine.shape[:-1], 1)
    direction = torch.cat([bias, affine], dim=-1) / root[..., None]
    layers = []
    for _ in range(depth):
        # not √v: its derivative is infinite for a zero point without bias
        deviation = variance / root
        variance = b + w * moment * variance
        root = _root(variance)
        a = root_w * deviation / root
        layers.append((a, 0.5 * (root_b / root).expand_as(a), 0.5 * moment**0.5 * a))
    a, p, r = (torch.stack(rows, dim=-2) for rows in zip(*layers, strict=True))
    return Points(direction, a, p, r, variance / root)


def diagonal(of: Points, rank: int, *, tangent: bool) -> Tensor:
    """The kernel of each point with itself, (..., n)."""
    variance = of.scale.square()
    if not tangent:
        return variance
    slope_at_one, total = profile(rank).slope_at_one, torch.ones_like(variance)
    for layer in range(of.a.shape[-2]):
        total = 1.0 + slope_at_one * of.a[..., layer, :].square() * total
    return variance * total


def matrix(rows: Points, cols: Points, rank: int, *, tangent: bool) -> Tensor:
    """The kernel matrix (..., n, m); both sides have the same batch shape."""
    _only_one_forward_mode()
    u = Distance.apply(rows.direction, cols.direction)
    t = 1.0 - 2.0 * u
    for layer in range(rows.a.shape[-2]):
        mine, theirs = (
            [part[..., layer, :] for part in (side.a, side.p, side.r)] for side in (rows, cols)
        )
        both, apart_p, apart_r = (
            operation(one[..., :, None], other[..., None, :])
            for operation, one, other in zip(
                (torch.mul, torch.sub, torch.sub), mine, theirs, strict=True
            )
        )
        # For rank 2 and more no correlation behind a layer is negative: the far series is for the
        # first layer.
        far = layer == 0 or rank == 1
        fallen = Deficit.apply(u, _VALUE, rank, far)
        slope = Deficit.apply(u, _SLOPE, rank, far) if tangent else None
        u = apart_p.square() + apart_r.square() + both * fallen
        t = 1.0 - 2.0 * u if slope is None else 1.0 - 2.0 * u + both * slope * t
    return rows.scale[..., :, None] * cols.scale[..., None, :] * t


def _only_one_forward_mode() -> None:
    """Refuse what PyTorch gets wrong for every ``autograd.Function``: in forward mode over forward
    mode its jvp is a constant.
    """
    active = torch._C._functorch.get_interpreter_stack() or ()
    if sum(one.key() == torch._C._functorch.TransformType.Jvp for one in active) > 1:
        raise NotImplementedError(
            "forward mode over forward mode, which PyTorch gets wrong here: for second derivatives "
            "take torch.func.hessian, "
            "which is jacfwd(jacrev(f)), or jacrev(jacrev(f))"
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
    def forward(u: Tensor, order: int, rank: int, far: bool) -> Tensor:
        if not u.is_cpu or u.numel() <= _CHUNK:
            return _evaluate(u, order, rank, far)
        return torch.cat(
            [_evaluate(part, order, rank, far) for part in u.reshape(-1).split(_CHUNK)]
        ).reshape(u.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, int, bool], output: Tensor) -> None:
        u, *ctx.settings = inputs
        ctx.save_for_backward(u)
        ctx.save_for_forward(u)

    @staticmethod
    def _derivative(ctx: Any) -> Tensor:
        order, rank, far = ctx.settings
        if order == _TURN:
            raise NotImplementedError(
                "no more derivatives of a MaxoutKernel are implemented: three of kind 'nngp', and "
                "two of kind 'ntk'"
            )
        (u,) = ctx.saved_tensors
        return Deficit.apply(u, order + 1, rank, far)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return gradient * Deficit._derivative(ctx), None, None, None

    @staticmethod
    def jvp(ctx: Any, move: Tensor, *_: None) -> Tensor:
        return move * Deficit._derivative(ctx)


def _evaluate(u: Tensor, order: int, rank: int, far: bool) -> Tensor:
    """E, P, P' or P'', from the series in √u and, beyond u = ½, in √(1-u)."""
    near_series, far_series, fall = _series(
        rank, order, _SETTINGS.get(u.dtype, _SETTINGS[torch.float32])[0]
    )
    if not far:
        return _near(u, order, near_series)
    beyond = u > 0.5
    # for rank 1, u may round to more than one
    rest = torch.where(beyond, (1.0 - u).clamp_min(0.0), 0.5)
    other = _near(rest, order, far_series)
    # F(1) - F(ρ) is the whole fall less what is left of it; a derivative in u is one in 1 - u, with
    # its sign changed.
    other = fall / 2.0 - other if order == _VALUE else -other if order == _BEND else other
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
    if order == _TURN:
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
def _series(rank: int, order: int, tolerance: float) -> list[Any]:
    """The series that ``_near`` sums, for the near side and for the far one, and the whole fall."""
    of = profile(rank)
    sides = []
    for side in (of.near, of.far) if order == _VALUE else (of.near_slope, of.far_slope):
        series = side.chopped(tolerance)
        needed = (
            [series]
            if order <= _SLOPE
            else [series.slope]
            if order == _BEND
            else [series.slope, series.slope.slope]
        )
        sides.append(tuple(tuple(map(float, one.coefficients)) for one in needed))
    return [*sides, of.fall]


def _root(variance: Tensor) -> Tensor:
    """The square root, with one for zero: what is divided by it is zero as well."""
    return torch.where(variance > 0.0, variance, 1.0).sqrt()
