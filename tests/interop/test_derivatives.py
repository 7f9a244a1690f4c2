"""Derivatives exist where the function has them, and are finite everywhere."""

# First: it keeps a warning of linear_operator's import to itself.
from mnngp.interop.gpytorch import MaxoutKernel  # isort: skip


import gpytorch
import numpy as np
import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.autograd.functional import hessian, jacobian

from mnngp import Maxout
from tests.interop.shared import DOUBLE, inputs, kernel_of, touching, variances

# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "depth", "rank"), [("nngp", 1, 2), ("nngp", 3, 4), ("ntk", 2, 3)])
def test_gradcheck_and_gradgradcheck(kind, depth, rank):
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(count, 2, dtype=DOUBLE, generator=generator) for count in (3, 2))
    arguments = [part.clone().requires_grad_() for part in (x, y, *variances())]
    for compiled in (True, False):
        function = kernel_of(depth, rank, kind=kind, compiled=compiled)
        assert gradcheck(function, arguments)
        assert gradgradcheck(function, arguments, fast_mode=True)
        alone = [arguments[0], *arguments[2:]]
        assert gradcheck(lambda x, w, b, f=function: f(x, None, w, b), alone)
        assert gradgradcheck(lambda x, w, b, f=function: f(x, None, w, b), alone, fast_mode=True)


@pytest.mark.parametrize("rank", [2, 4])
@pytest.mark.parametrize("depth", [1, 3, 6])
def test_derivatives_at_equal_points(rank, depth):
    """There F_q may be replaced by its tangent at one: what is left out is of third order in the
    distance of the points.
    """
    x = torch.tensor([0.3, -1.2, 0.8], dtype=DOUBLE)
    full = kernel_of(depth, rank)
    line = touching(1.0, Maxout(rank).second_moment - 1.0, rank, depth)
    zero = torch.zeros_like(x)
    # Measured worst: 3e-14, and 4e-10 at the distance of 1e-9. The last distance has a square that
    # underflows.
    for one, other, tolerance in (
        (x, x.clone(), 1e-12),
        (x, x + 1e-9, 1e-8),
        (zero, zero + 1e-100, 1e-12),
        (zero, zero + 1e-170, 1e-12),
    ):
        arguments = (one, other, *variances())
        for derivative in (jacobian, hessian):
            found = derivative(lambda x, y, w, b: full(x[None], y[None], w, b)[0, 0], arguments)
            expected = derivative(line, arguments)
            torch.testing.assert_close(found, expected, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_derivatives_at_opposite_points(rank):
    """Without biases the first layer meets ρ = -1: there the tangent is that at minus one."""
    unit = Maxout(rank)
    slope = unit.derivative(-1.0)
    x, (weight_var, _) = torch.tensor([0.3, -1.2, 0.8], dtype=DOUBLE), variances()
    line = touching(slope, unit.moment(-1.0) + slope, rank, 1)
    full = kernel_of(1, rank)
    for y in (-x, -0.7 * x):
        for derivative in (jacobian, hessian):
            found = derivative(
                lambda x, y, w: full(x[None], y[None], w, torch.zeros((), dtype=DOUBLE))[0, 0],
                (x, y, weight_var),
            )
            expected = derivative(line, (x, y, weight_var))
            # measured worst: 2e-15
            torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("depth", [1, 4])
def test_second_derivatives_near_equal_points(depth):
    """Against central differences of the first derivative, at distances from 1e-1 to 1e-5."""
    full, (weight_var, bias_var) = kernel_of(depth, 3), variances()
    x = torch.tensor([0.3, -1.2], dtype=DOUBLE)

    def slope(y):
        return jacobian(lambda y: full(x[None], y[None], weight_var, bias_var)[0, 0], y)

    for distance in (1e-1, 1e-3, 1e-5):
        y = x + distance * torch.tensor([0.6, 0.8], dtype=DOUBLE)
        step = 1e-3 * distance
        moves = step * torch.eye(2, dtype=DOUBLE)
        expected = torch.stack(
            [(slope(y + move) - slope(y - move)) / (2.0 * step) for move in moves]
        )
        found = hessian(lambda y: full(x[None], y[None], weight_var, bias_var)[0, 0], y)
        # Rounding of the differences: 1e-16 / step, and their own error, step² / distance.
        torch.testing.assert_close(
            found, expected, rtol=0.0, atol=1e-15 / step + 20.0 * step**2 / distance
        )


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize(("bias_var", "dtype"), [(0.0, torch.float32), (0.1, torch.float64)])
def test_everything_is_finite(kind, bias_var, dtype):
    """At equal, opposite and zero inputs, first derivatives and second ones."""
    x, y = (torch.from_numpy(part).to(dtype).requires_grad_() for part in inputs())
    kernel = MaxoutKernel(3, 3, 0.8, bias_var, kind).to(dtype)
    leaves = [x, *(part for part in kernel.parameters() if part.requires_grad)]
    assert len(leaves) == (2 if bias_var == 0.0 else 3)
    for value, own in ((kernel(x).to_dense(), leaves), (kernel(x, y).to_dense(), [*leaves, y])):
        first = torch.autograd.grad(value.square().sum(), own, create_graph=True)
        second = torch.autograd.grad(sum(part.square().sum() for part in first), own)
        assert all(torch.isfinite(part).all() for part in (value, *first, *second))


def test_gradient_of_the_matrix_of_points_with_themselves():
    """As half of it is computed; and as the sum of the two sides' when they are two tensors of the
    same values.
    """
    x = torch.from_numpy(inputs()[0])
    kernel = MaxoutKernel(3, 4).double()
    weight = torch.randn(20, 20, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    one, left, right = (x.clone().requires_grad_() for _ in range(3))
    (kernel(one).to_dense() * weight).sum().backward()
    own = kernel.raw_weight_var.grad.clone()
    kernel.zero_grad()
    (kernel(left, right).to_dense() * weight).sum().backward()
    torch.testing.assert_close(one.grad, left.grad + right.grad, rtol=0.0, atol=1e-12)
    torch.testing.assert_close(kernel.raw_weight_var.grad, own, rtol=1e-13, atol=0.0)
    (gradient,) = torch.autograd.grad(kernel(one, diag=True).sum(), one)
    (through_matrix,) = torch.autograd.grad(kernel(one).to_dense().trace(), one)
    torch.testing.assert_close(through_matrix, gradient, rtol=1e-13, atol=1e-13)


# PyTorch's own forward mode compiles parts of itself by what it has deprecated.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated:DeprecationWarning")
def test_function_transforms():
    x = torch.from_numpy(inputs()[0])
    (w, b), full = variances(), kernel_of(2, 3)

    def value(x, y):
        return full(x[None], y[None], w, b)[0, 0]

    pairs = torch.func.vmap(torch.func.vmap(value, (None, 0)), (0, None))(x, x)
    torch.testing.assert_close(pairs, full(x, None, w, b), rtol=0.0, atol=1e-13)
    by_rows = torch.func.vmap(torch.func.grad(value))(x[:4], x[4:8])
    for row, one, other in zip(by_rows, x[:4], x[4:8], strict=True):
        torch.testing.assert_close(
            row, jacobian(lambda one, other=other: value(one, other), one), rtol=0.0, atol=1e-13
        )
    forward = torch.func.hessian(value)(x[0], x[1])
    torch.testing.assert_close(
        forward, hessian(lambda one: value(one, x[1]), x[0]), rtol=0.0, atol=1e-12
    )


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated:DeprecationWarning")
@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_many_gradients_at_once(kind):
    """By vmap over backward, and by forward mode: the same as one after the other."""
    x, y = (torch.from_numpy(part[:6]) for part in inputs())
    kernel = MaxoutKernel(2, 3, kind=kind).double().requires_grad_(False)
    for made in (
        lambda one: kernel(one, y).to_dense(),
        lambda one: kernel(one).to_dense(),
        lambda one: kernel(one, x, diag=True),
        lambda one: kernel(x, one, diag=True),
    ):
        expected = jacobian(made, x)
        for options in ({}, {"strategy": "forward-mode"}):
            torch.testing.assert_close(
                jacobian(made, x, vectorize=True, **options), expected, rtol=0.0, atol=1e-13
            )


def test_gradients_that_are_batched_or_dual_behind_a_plain_kernel():
    """The graph is made first, and only its way back is transformed: the derivative is linear in
    the gradient.
    """
    x, y = (torch.from_numpy(part[:6]) for part in inputs())
    x.requires_grad_()
    value = MaxoutKernel(2, 3).double()(x, y).to_dense()
    many = torch.randn(3, *value.shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    one_by_one = [
        torch.autograd.grad(value, x, gradient, retain_graph=True)[0] for gradient in many
    ]
    together = torch.vmap(
        lambda gradient: torch.autograd.grad(value, x, gradient, retain_graph=True)[0]
    )(many)
    torch.testing.assert_close(together, torch.stack(one_by_one), rtol=0.0, atol=1e-13)
    with forward_ad.dual_level():
        (found,) = torch.autograd.grad(value, x, forward_ad.make_dual(many[0], many[1]))
        torch.testing.assert_close(
            forward_ad.unpack_dual(found).tangent, one_by_one[1], rtol=0.0, atol=1e-13
        )


def test_forward_mode_over_forward_mode_is_refused():
    """PyTorch would give wrong numbers without a word, for every autograd.Function."""
    x, y = (torch.from_numpy(part[0]) for part in inputs())
    kernel = MaxoutKernel(2, 3).double()
    with pytest.raises(
        NotImplementedError,
        match=r"for second derivatives take "
        r"torch\.func\.hessian",
    ):
        torch.func.jacfwd(
            torch.func.jacfwd(lambda one: kernel(one[None], y[None]).to_dense()[0, 0])
        )(x)


def test_opposite_points_of_a_linear_network():
    """Distances of rank 1 without biases round to more than one from the second layer on."""
    x = torch.from_numpy(inputs()[0])
    kernel = MaxoutKernel(3, 1, 0.7, 0.0).double()
    found = torch.vmap(lambda one: kernel(one[None], -0.7 * one[None]).to_dense()[0, 0])(x)
    np.testing.assert_allclose(found.detach(), -0.7 * kernel(x, diag=True).detach(), rtol=1e-13)


@pytest.mark.filterwarnings("ignore")
def test_compiled_by_pytorch():
    x, y = (torch.from_numpy(part) for part in inputs())
    theirs, kernel = gpytorch.kernels.RBFKernel().double(), MaxoutKernel(2, 3).double()
    try:
        torch.compile(lambda one: theirs(one, y).to_dense(), backend="eager")(x)
    except RecursionError:  # PyTorch 2.6
        pytest.skip("this PyTorch cannot compile GPyTorch's own kernels")
    found = []
    for transform in (
        lambda function: function,
        lambda function: torch.compile(function, backend="eager"),
    ):
        leaf = x.clone().requires_grad_()
        value = transform(lambda one: 2.0 * kernel(one, y).to_dense())(leaf)
        found.append((value.detach(), *torch.autograd.grad(value.sum(), leaf)))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_how_many_derivatives():
    x, y = (torch.tensor(row, dtype=DOUBLE) for row in ([0.3, -1.2], [0.5, 0.4]))
    for kind, most in (("nngp", 3), ("ntk", 2)):
        leaf = x.clone().requires_grad_()
        value = kernel_of(2, 3, kind=kind)(leaf[None], y[None], *variances()).sum()
        for _ in range(most):
            (slope,) = torch.autograd.grad(value, leaf, create_graph=True)
            assert torch.isfinite(slope).all()
            value = slope.sum()
        with pytest.raises(
            NotImplementedError, match="three of kind 'nngp', and two of kind 'ntk'"
        ):
            torch.autograd.grad(value, leaf)
