"""The GPyTorch kernel: the core's values, derivatives that exist where the function has them, and
both libraries' ways.
"""

# First: it keeps a warning of linear_operator's import to itself.
from mnngp.interop.gpytorch import MaxoutKernel, kernel_with_priors  # isort: skip

import copy
import pickle
import subprocess
import sys
import unittest

import gpytorch
import numpy as np
import pytest
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.kernels.infinite_width_bnn import InfiniteWidthBNNKernel
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.optim.utils import sample_all_priors
from botorch.test_functions import Branin
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.priors import GammaPrior, NormalPrior
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase
from linear_operator.utils.errors import NanError
from sklearn.gaussian_process import GaussianProcessRegressor
from threadpoolctl import threadpool_limits
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.autograd.functional import hessian, jacobian

import mnngp
from mnngp import Maxout
from mnngp.errors import InputError, ScaleError
from mnngp.interop.gpytorch import autograd

DOUBLE = torch.float64


def inputs():
    """Two sets of points with equal, nearly equal, opposite and zero ones."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 5)), rng.normal(size=(15, 5))
    X[3], X[4], X[5] = X[2], -X[2], 0.0
    Y[0], Y[1], Y[2] = X[7], -X[8], X[9] + 1e-7
    return X, Y


def kernel_of(depth, rank, *, kind="nngp", compiled=True):
    """The kernel as a function of two sets of points and of the variances.

    Without the second set it is that of the points with themselves.
    """
    network = autograd.Network((Maxout(rank),) * depth, kind == "ntk")

    def function(x, y, weight_var, bias_var):
        w, b = (part.reshape(1).expand(depth + 1) for part in (weight_var, bias_var))
        if compiled:
            return autograd.matrix(network, x, x if y is None else y, w, b, x.dtype)
        return autograd._by_operations(network, x, x if y is None else y, w, b)

    return function


def variances(weight_var=0.9, bias_var=0.3):
    return tuple(torch.tensor(value, dtype=DOUBLE) for value in (weight_var, bias_var))


class TestContract(BaseKernelTestCase, unittest.TestCase):
    """GPyTorch's own tests of a kernel."""

    kind = "nngp"

    def create_kernel_no_ard(self, **arguments):
        return MaxoutKernel(depth=2, rank=3, kind=self.kind, **arguments)

    def create_kernel_ard(self, num_dims, **arguments):
        return MaxoutKernel(depth=2, rank=3, kind=self.kind, ard_num_dims=num_dims, **arguments)


class TestContractOfTangent(TestContract):
    kind = "ntk"


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("depth", [1, 3, 12])
@pytest.mark.parametrize("bias_var", [0.0, 0.1])
def test_equals_the_core(kind, depth, bias_var):
    X, Y = inputs()
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    for rank in (1, 2, 4, 16):
        core = mnngp.MaxoutKernel(depth, rank, 0.8, bias_var, kind)
        kernel = MaxoutKernel.from_core(core)
        with torch.no_grad():
            square, cross = kernel(x).to_dense(), kernel(x, y).to_dense()
            diagonal, pairs = kernel(x, diag=True), kernel(x[:15], y, diag=True)
        # Measured worst: 7e-15 of the largest entry.
        close = {"rtol": 0.0, "atol": 1e-13 * np.abs(core(X)).max()}
        np.testing.assert_allclose(square, core(X), **close)
        np.testing.assert_allclose(cross, core(X, Y), **close)
        np.testing.assert_allclose(diagonal, core.diag(X), **close)
        np.testing.assert_allclose(pairs, np.diag(core(X[:15], Y)), **close)
        assert torch.equal(square, square.mT)
        assert torch.equal(square.diagonal(), diagonal)


@pytest.mark.parametrize(
    ("kind", "dtype"), [("nngp", torch.float64), ("ntk", torch.float64), ("ntk", torch.float32)]
)
def test_both_ways_are_the_same(kind, dtype):
    """The compiled loops and PyTorch's operations, in values and first derivatives."""
    x, y = (torch.from_numpy(part).to(dtype) for part in inputs())
    if kind == "ntk":
        # the tangent kernel has a kink where points agree, and beside it derivatives of any
        # direction
        y[2] += 0.1
    for rank, depth, bias_var in ((1, 2, 0.1), (2, 3, 0.0), (4, 5, 0.1)):
        for other in (None, y):
            sets = [x] if other is None else [x, other]
            leaves = [
                part.to(dtype, copy=True).requires_grad_()
                for part in (*sets, *variances(0.8, bias_var))
            ]
            found = []
            for compiled in (True, False):
                function = kernel_of(depth, rank, kind=kind, compiled=compiled)
                kernel = function(leaves[0], None if other is None else leaves[1], *leaves[-2:])
                weight = torch.randn(kernel.shape, generator=torch.Generator().manual_seed(0)).to(
                    dtype
                )
                # without biases, they have no variance to train
                trained = leaves if bias_var else leaves[:-1]
                found.append((kernel.detach(), *torch.autograd.grad(kernel, trained, weight)))
            for one, two in zip(*found, strict=True):
                # Measured worst: 71 rounding units of the largest.
                torch.testing.assert_close(
                    one, two, rtol=0.0, atol=200 * torch.finfo(dtype).eps * float(two.abs().max())
                )


@pytest.mark.parametrize("bias_var", [0.0, 0.3])
def test_batches_both_ways(bias_var):
    """As above, in batches, of which some share points or variances."""
    network = autograd.Network((Maxout(3),) * 4, False)
    generator = torch.Generator().manual_seed(0)
    shapes = ((7, 3), ()), ((2, 7, 3), ()), ((7, 3), (4,)), ((4, 1, 7, 3), (2,)), ((0, 3), ())
    for of_points, of_variances in shapes:
        x = torch.randn(of_points, dtype=DOUBLE, generator=generator, requires_grad=True)
        w = torch.full((*of_variances, 5), 0.8, dtype=DOUBLE, requires_grad=True)
        b = torch.full((*of_variances, 5), bias_var, dtype=DOUBLE, requires_grad=bias_var > 0.0)
        leaves = [part for part in (x, w, b) if part.requires_grad]
        one, two = (
            autograd.matrix(network, x, x, w, b, DOUBLE),
            autograd._by_operations(network, x, x, w, b),
        )
        weights = torch.randn(two.shape, dtype=DOUBLE, generator=generator)
        derivatives = [torch.autograd.grad(found, leaves, weights) for found in (one, two)]
        for mine, theirs in zip((one, *derivatives[0]), (two, *derivatives[1]), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("scale", [1e-155, 1e-120, 1e110, 1e150])
def test_gradients_of_tiny_and_huge_points(scale):
    """Without biases the kernel is homogeneous: of degree two, and its gradient of degree one."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(n, 3, dtype=DOUBLE, generator=generator) for n in (5, 4))
    kernel, found = MaxoutKernel(3, 4, 0.8, 0.0).double(), []
    for factor in (1.0, scale):
        leaf = (factor * x).requires_grad_()
        found.append(
            torch.autograd.grad(kernel(leaf, factor * y).to_dense().sum(), leaf)[0] / factor
        )
    # Measured: 1e-15. At 1e-155 a square, 1e-310, is a denormal of 14 digits.
    torch.testing.assert_close(
        found[1], found[0], rtol=1e-11 if scale < 1e-150 else 1e-13, atol=0.0
    )


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_threads_change_nothing(kind):
    # enough work for threads, both ways
    x = torch.randn(900, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    kernel, weight, found = (
        MaxoutKernel(2, 3, kind=kind).double(),
        torch.randn(900, 900, dtype=DOUBLE),
        [],
    )
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            leaf = x.clone().requires_grad_()
            value = kernel(leaf).to_dense()
            found.append(
                (value.detach(), *torch.autograd.grad(value, [leaf, kernel.raw_weight_var], weight))
            )
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-13 * float(one.abs().max()))


def test_single_precision():
    X = inputs()[0].astype(np.float32)
    for depth, rank, kind in ((3, 2, "nngp"), (8, 4, "nngp"), (3, 4, "ntk"), (50, 8, "nngp")):
        kernel = MaxoutKernel(depth, rank, 0.7, 0.1, kind)
        core = mnngp.MaxoutKernel(
            depth, rank, kernel.weight_var.item(), kernel.bias_var.item(), kind
        )
        found = kernel(torch.from_numpy(X)).to_dense()
        assert found.dtype == torch.float32
        # Measured worst: 2e-7 of the largest entry, also for other ranks at depth 50.
        np.testing.assert_allclose(
            found.detach(),
            core(X.astype(np.float64)),
            rtol=0.0,
            atol=8e-7 * core(X.astype(np.float64)).max(),
        )


def test_mixed_types_are_promoted():
    kernel, x = MaxoutKernel(2, 2), torch.tensor([[1, 0], [2, -1], [0, 3]])
    single = kernel(x.float()).to_dense()
    assert kernel(x.double()).to_dense().dtype == DOUBLE
    for other in (x, x.to(torch.int32), x.bfloat16()):
        assert torch.equal(kernel(other).to_dense(), single)
        assert torch.equal(kernel(other, diag=True), single.diagonal())
    torch.testing.assert_close(kernel(x, x.double()).to_dense(), kernel(x.double()).to_dense())
    half = copy.deepcopy(kernel).bfloat16()(x.bfloat16()).to_dense()
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), single, rtol=0.03, atol=0.0)  # of rounded variances


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_autocast_changes_nothing(kind):
    x, y = (torch.from_numpy(part) for part in inputs())
    kernel = MaxoutKernel(2, 3, kind=kind).double()

    def found():
        leaf = x.clone().requires_grad_()
        square, cross = kernel(leaf).to_dense(), kernel(leaf, y).to_dense()
        return (
            square,
            cross,
            *torch.autograd.grad(square.sum() + cross.sum(), [leaf, kernel.raw_weight_var]),
        )

    expected = found()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(torch.equal(one, other) for one, other in zip(found(), expected, strict=True))


def test_overflow_is_an_error():
    """As the core's; NaN in the inputs or the parameters stays NaN, as with other kernels of
    GPyTorch.
    """
    x = torch.from_numpy(inputs()[0])
    kernel = MaxoutKernel(3, 2).double()
    with pytest.raises(
        ScaleError,
        match=r"of x1 with itself overflows float64 at depth 3: x1 has "
        r"entries up to .*e\+160, ",
    ):
        kernel(1e160 * x).to_dense()
    with pytest.raises(ScaleError, match="kernel of x2 with itself"):
        kernel(x, 1e160 * x).to_dense()
    with pytest.raises(ScaleError, match="overflows float32"):
        MaxoutKernel(3, 2)(1e20 * x.float(), diag=True)
    with pytest.raises(ScaleError, match="overflows float16"):
        MaxoutKernel(2, 3).half()(torch.full((2, 2), 300.0).half()).to_dense()
    with pytest.raises(NanError, match="weight_var is 1e"):  # from which a line search steps back
        kernel.initialize(weight_var=torch.tensor(1e90, dtype=DOUBLE))(x).to_dense()
    kernel.weight_var = 1.0
    x[0, 0] = torch.nan
    assert torch.isnan(kernel(x, diag=True)).tolist() == [True] + 19 * [False]


def test_no_features():
    with pytest.raises(InputError, match=r"x1 must have at least one feature, got shape \(3, 0\)"):
        MaxoutKernel()(torch.ones(3, 0)).to_dense()


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


def touching(slope, value, rank, depth):
    """The kernel of two points with each ``F_q(ρ)`` replaced by a line, ``value + slope ρ``:
    smooth, and in closed form.
    """
    moment = Maxout(rank).second_moment

    def function(x, y, w, b=0.0):
        kernel, mine, theirs = (
            b + w * (one @ other) / len(x) for one, other in ((x, y), (x, x), (y, y))
        )
        for _ in range(depth):
            kernel = b + w * (value * (mine * theirs).sqrt() + slope * kernel)
            mine, theirs = b + w * moment * mine, b + w * moment * theirs
        return kernel

    return function


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


# --- beside BoTorch's kernel of ReLU networks -----------------------------------------------------


def relu_and_maxout(depth, x, y):
    """BoTorch's kernel and, by proposition 1, the same as rank-2 maxout with half the weight
    variance at √2 times the points.
    """
    theirs, ours = InfiniteWidthBNNKernel(depth).double(), MaxoutKernel(depth, 2).double()
    theirs.weight_var, theirs.bias_var = (
        torch.tensor([[1.8]], dtype=DOUBLE),
        torch.tensor([[0.3]], dtype=DOUBLE),
    )
    ours.weight_var, ours.bias_var = 0.9, 0.3
    found = []
    for kernel, factor, share in ((theirs, 1.0, 1.0), (ours, np.sqrt(2.0), 0.5)):
        leaf = x.clone().requires_grad_()
        value = kernel(factor * leaf, factor * y).to_dense()
        in_x, in_weight, in_bias = torch.autograd.grad(
            value.square().sum(), [leaf, kernel.raw_weight_var, kernel.raw_bias_var]
        )
        # From the raw parameters to the variances of the ReLU network.
        in_weight, in_bias = (
            share * in_weight / kernel.raw_weight_var.sigmoid(),
            in_bias / kernel.raw_bias_var.sigmoid(),
        )
        found.append(tuple(part.detach() for part in (value, in_x, in_weight, in_bias)))
    return found


@pytest.mark.parametrize("depth", [1, 3, 7])
def test_proposition_1(depth):
    # No point meets itself, where BoTorch's arc cosine is cut off.
    x = torch.randn(12, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    for theirs, ours in zip(*relu_and_maxout(depth, x[:6], x[6:]), strict=True):
        # measured worst: 1e-15
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=1e-13 * float(theirs.abs().max()))


def test_what_the_cut_off_costs():
    """BoTorch keeps ρ from one by 1e-7: points that are closer look the same, and at equal points
    second derivatives are lost.
    """
    x = torch.randn(6, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    theirs, ours = (value for value, *_ in relu_and_maxout(3, x, x.clone()))
    core = mnngp.MaxoutKernel(3, 2, 0.9, 0.3)(np.sqrt(2.0) * x.numpy())
    np.testing.assert_allclose(ours, core, rtol=1e-13)
    assert 1e-8 < float((theirs - ours).abs().max()) < 1e-5

    one = x[0]
    relu = InfiniteWidthBNNKernel(1).double()
    relu.weight_var, relu.bias_var = (torch.tensor([[value]], dtype=DOUBLE) for value in (1.8, 0.3))
    line = touching(1.0, 0.0, 2, 1)  # exact at equal points
    exact = hessian(
        lambda x, y: line(np.sqrt(2.0) * x, np.sqrt(2.0) * y, *variances()), (one, one.clone())
    )[0][1]
    cut = hessian(lambda x, y: relu(x[None], y[None]).to_dense()[0, 0], (one, one.clone()))[0][1]
    full = kernel_of(1, 2)
    root = np.sqrt(2.0)
    found = hessian(
        lambda x, y: full(root * x[None], root * y[None], *variances())[0, 0], (one, one.clone())
    )[0][1]
    torch.testing.assert_close(found, exact, rtol=0.0, atol=1e-12)
    assert float((cut - exact).abs().max()) > 0.1 * float(exact.abs().max())


# --- GPyTorch's ways ------------------------------------------------------------------------------


class Regression(gpytorch.models.ExactGP):
    def __init__(self, x, y, kernel, noise_var):
        super().__init__(
            x,
            y,
            gpytorch.likelihoods.GaussianLikelihood(
                noise_constraint=gpytorch.constraints.Positive()
            ).double(),
        )
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), kernel
        self.likelihood.noise = torch.tensor(noise_var, dtype=DOUBLE)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def test_marginal_likelihood_is_scikit_learns_and_falls():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(40, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.05 * rng.normal(size=40)
    core = mnngp.MaxoutKernel(3, 3, 0.8, 0.3)
    process = GaussianProcessRegressor(core, alpha=0.01, optimizer=None).fit(X, y)
    value, in_theta = process.log_marginal_likelihood(core.theta, eval_gradient=True)

    kernel = MaxoutKernel.from_core(core)
    model = Regression(torch.from_numpy(X), torch.from_numpy(y), kernel, 0.01)
    likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    model.train()
    with gpytorch.settings.fast_computations(False, False, False):
        loss = -40 * likelihood(model(*model.train_inputs), model.train_targets)
        loss.backward()
        assert loss.item() == pytest.approx(-value, rel=1e-10)
        ours = [
            # in the logarithm of the variance, as scikit-learn's
            -(raw.grad * of / raw.sigmoid()).item()
            for raw, of in (
                (kernel.raw_bias_var, kernel.bias_var),
                (kernel.raw_weight_var, kernel.weight_var),
            )
        ]
        np.testing.assert_allclose(ours, in_theta, rtol=1e-8)  # measured: 5e-15

        optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(15):
            optimiser.zero_grad()
            after = -40 * likelihood(model(*model.train_inputs), model.train_targets)
            after.backward()
            optimiser.step()
        assert after.item() < loss.item() - 5.0
        model.eval()
        new = torch.from_numpy(rng.uniform(-1.5, 1.5, size=(50, 2)))
        error = model(new).mean - torch.sin(2.0 * new[:, 0]) - new[:, 1].square()
    assert error.square().mean().item() < 0.05  # of 1.0 that the function varies


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_the_way_to_second_derivatives_has_the_same_first_ones(kind, symmetric):
    """``create_graph`` goes another way. (gradgradcheck would not notice a factor: it compares that
    way with itself.)
    """
    torch.manual_seed(0)
    X, Y, weight = (
        torch.randn(*shape, dtype=DOUBLE) for shape in ((6, 3), (5, 3), (6, 6 if symmetric else 5))
    )
    X.requires_grad_()
    kernel = MaxoutKernel(3, 4, 0.8, 0.3, kind=kind).double()
    variables = [X, kernel.raw_weight_var, kernel.raw_bias_var]

    def total():
        return (kernel(X, None if symmetric else Y).to_dense() * weight).sum()

    plain, again = (
        torch.autograd.grad(total(), variables, create_graph=graph) for graph in (False, True)
    )
    for one, other in zip(plain, again, strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=1e-12, atol=1e-12)  # measured: 2e-14
    # And the second one in the weight variance is that of differences of the first: central ones
    # are good to 1e-9 here.
    (second,) = torch.autograd.grad(again[1].sum(), [kernel.raw_weight_var])
    slopes, step, centre = [], 1e-5, kernel.raw_weight_var.detach().clone()
    for sign in (1.0, -1.0):
        kernel.raw_weight_var.data = centre + sign * step
        slopes.append(torch.autograd.grad(total(), [kernel.raw_weight_var])[0])
    torch.testing.assert_close(second, (slopes[0] - slopes[1]) / (2.0 * step), rtol=1e-6, atol=0.0)


def test_bayesian_optimisation_of_branin():
    """Eight points at random, then sixteen chosen: close to the optimum, where as many at random do
    not come.
    """
    problem = Branin(negate=True).to(DOUBLE)
    torch.manual_seed(0)
    low, high = problem.bounds
    at_random = low + (high - low) * torch.rand(24, 2, dtype=DOUBLE)
    x = at_random[:8]
    for _ in range(16):
        y = problem(x)[:, None]
        scaled = Normalize(2, bounds=problem.bounds, center=0.0)
        model = SingleTaskGP(
            x,
            y,
            covar_module=kernel_with_priors(2),
            input_transform=scaled,
            outcome_transform=Standardize(1),
        )
        # warnings are errors: it converges
        fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model))
        new, _ = optimize_acqf(
            LogExpectedImprovement(model, y.max()),
            problem.bounds,
            q=1,
            num_restarts=4,
            raw_samples=64,
        )
        x = torch.cat([x, new])
    assert problem.optimal_value - float(problem(x).max()) < 1.0  # measured: 0.06
    assert problem.optimal_value - float(problem(at_random).max()) > 5.0


def test_the_kernel_with_priors():
    """Each parameter begins at the median of its prior, far from its bound, and has a batch
    dimension of its own.
    """
    kernel = kernel_with_priors(3, depth=2, rank=5, batch_shape=(2,), active_dims=[0, 1, 3])
    assert (kernel.base_kernel.depth, kernel.base_kernel.rank) == (2, 5)
    assert kernel(torch.rand(7, 4)).to_dense().shape == (2, 7, 7)
    priors = list(kernel.named_priors())
    assert len(priors) == len(list(kernel.parameters())) == 4
    for _, module, prior, value, _ in priors:
        torch.testing.assert_close(value(module), prior.loc.exp().expand_as(value(module)))
        assert value(module).shape[0] == 2
    sample_all_priors(kernel)
    with pytest.raises(InputError, match=r"^ard_num_dims must be"):
        kernel_with_priors(0)
    with pytest.raises(InputError, match=r"^batch_shape must be"):
        kernel_with_priors(2, batch_shape=2.5)
    with pytest.raises(
        InputError,
        match=r"^ard_num_dims must be the number of active_dims, 2, got "
        r"6",
    ):
        kernel_with_priors(6, active_dims=[0, 2])


@pytest.mark.parametrize("name", ["weight_var", "bias_var"])
@pytest.mark.parametrize("value", [-3.0, -0.01])
def test_a_variance_that_was_made_negative(name, value):
    """Bounds that are not transformations can be stepped over. BoTorch's line searches step back
    from a ``NanError``.
    """
    kernel = kernel_with_priors(2).base_kernel
    getattr(kernel, f"raw_{name}").data.fill_(value)
    with pytest.raises(InputError, match=f"^{name} must not be negative, got {value:g}") as caught:
        kernel(torch.rand(3, 2)).to_dense()
    assert isinstance(caught.value, NanError)


def test_a_weight_variance_that_was_rounded_to_zero():
    for kind in ("nngp", "ntk"):
        kernel = MaxoutKernel(3, 4, kind=kind).double()
        kernel.raw_weight_var.data.fill_(-800.0)
        assert kernel.weight_var.item() == 0.0
        value = kernel(torch.rand(3, 2, dtype=DOUBLE)).to_dense()
        first = torch.autograd.grad(value.sum(), list(kernel.parameters()), create_graph=True)
        plain = torch.autograd.grad(value.sum(), list(kernel.parameters()))
        assert all(torch.isfinite(part).all() for part in (*first, *plain))


# --- parameters -----------------------------------------------------------------------------------


def test_defaults_are_the_cores():
    assert repr(MaxoutKernel().double().to_core()) == repr(mnngp.MaxoutKernel())


def test_to_the_core_and_back():
    core = mnngp.MaxoutKernel(3, 8, 0.7, 0.0, "ntk", "float32")
    kernel = MaxoutKernel.from_core(core, weight_var_prior=GammaPrior(2.0, 1.0))
    back = kernel.to_core()
    assert (back.depth, back.rank, back.kind, back.dtype, back.bias_var) == (
        3,
        8,
        "ntk",
        "float32",
        0.0,
    )
    assert back.weight_var == pytest.approx(0.7, rel=1e-6)
    layered = mnngp.MaxoutKernel(1, weight_var=[0.5, 0.7])
    assert repr(MaxoutKernel.from_core(layered).to_core()) == repr(layered)
    with pytest.raises(InputError, match=r"must be a mnngp\.MaxoutKernel, got 3"):
        MaxoutKernel.from_core(3)
    with pytest.raises(InputError, match="no batch_shape, no lengthscales"):
        MaxoutKernel(ard_num_dims=2).to_core()


def test_variances_can_be_set():
    kernel = MaxoutKernel(weight_var=0.5).double()
    kernel.weight_var = 0.7
    # not by way of single precision
    assert kernel.weight_var.item() == pytest.approx(0.7, rel=1e-15)
    kernel.initialize(weight_var=0.8, bias_var=0.2)
    assert kernel.weight_var.item() == pytest.approx(0.8, rel=1e-15)
    batches = MaxoutKernel(batch_shape=torch.Size([3]), weight_var=torch.tensor([0.5, 0.6, 0.7]))
    assert batches.weight_var.shape == (3, 1, 1)
    torch.testing.assert_close(batches.weight_var.flatten(), torch.tensor([0.5, 0.6, 0.7]))
    constrained = MaxoutKernel(
        weight_var_constraint=Interval(0.1, 2.0),
        bias_var_constraint=GreaterThan(1e-3, initial_value=0.4),
    )
    assert constrained.weight_var.item() == pytest.approx(1.0, rel=1e-6)
    assert constrained.bias_var.item() == pytest.approx(0.4, rel=1e-6)
    with pytest.raises(
        InputError,
        match=r"weight_var must be finite, positive and as its "
        r"constraint Interval.* allows, got 3\.0",
    ):
        constrained.weight_var = 3.0
    with pytest.raises(
        InputError,
        match=r"weight_var must be inside of its constraint Interval.*, "
        r"not on its bound.*, got 2\.0",
    ):
        constrained.weight_var = 2.0
    for values in ([0.5, 0.6, 0.7], np.array([0.5, 0.6, 0.7])):
        batches.weight_var = values
        torch.testing.assert_close(batches.weight_var.flatten(), torch.tensor([0.5, 0.6, 0.7]))
    core = mnngp.MaxoutKernel(2, 3, 0.7, 0.2)
    ours = MaxoutKernel.from_core(
        core, weight_var_constraint=GreaterThan(0.01, initial_value=0.5), ard_num_dims=3
    )
    assert ours.weight_var.item() == pytest.approx(0.5, rel=1e-6)
    torch.testing.assert_close(
        ours.lengthscale, torch.ones(1, 3, dtype=DOUBLE), rtol=1e-15, atol=0.0
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"depth": 0}, "depth must be a positive integer"),
        ({"rank": 2.5}, "rank must be a positive integer"),
        ({"kind": "rbf"}, "kind must be one of 'nngp', 'ntk', got 'rbf'"),
        (
            {"weight_var": 0.0},
            r"weight_var must be finite, positive and as its constraint "
            r"Positive\(\) allows, got 0\.0",
        ),
        ({"weight_var": "1"}, "weight_var must be a finite number"),
        ({"weight_var": torch.tensor(float("nan"))}, "weight_var must be finite"),
        (
            {"weight_var": torch.ones(2)},
            r"weight_var must be a number or of the batch shape \(\), "
            r"got shape \(2,\)",
        ),
        ({"bias_var": -0.1}, "bias_var must be a finite number at least 0"),
        ({"ard_num_dims": 0}, "ard_num_dims must be a positive integer"),
        ({"lengthscale_prior": GammaPrior(2.0, 1.0)}, "need ard_num_dims"),
        ({"weight_var_prior": 1.0}, "weight_var_prior must be a gpytorch.priors.Prior"),
        (
            {"bias_var": 0.0, "bias_var_prior": GammaPrior(2.0, 1.0)},
            "bias_var_prior must be None for bias_var=0, .*got GammaPrior",
        ),
        (
            {"batch_shape": 2},
            "batch_shape must be a torch.Size or another sequence of sizes, got 2",
        ),
        ({"batch_shape": [2, -1]}, "batch_shape must be .* got .2, -1"),
        (
            {"bias_var": torch.tensor([0.0, 0.1]), "batch_shape": [2]},
            r"bias_var must be positive "
            r"for all batches, or 0 for "
            r"all",
        ),
        (
            {"bias_var": 0.0, "bias_var_constraint": Interval(0.0, 1.0)},
            "bias_var_constraint must be None for bias_var=0",
        ),
        (
            {"bias_var_constraint": GreaterThan(0.1)},
            r"bias_var must be inside of its constraint "
            r"GreaterThan.*, got 0\.1",
        ),
        (
            {"weight_var_constraint": Interval(0.1, 1.0)},
            r"weight_var must be inside of its "
            r"constraint .*bound, .*, got 1\.0",
        ),
        ({"weight_var": ["a"]}, "weight_var"),
        (
            {"bias_var_constraint": (0.0, 1.0)},
            "bias_var_constraint must be a gpytorch.constraints.Interval",
        ),
    ],
)
def test_bad_arguments(arguments, text):
    with pytest.raises(InputError, match=text):
        MaxoutKernel(**arguments)


def test_last_dimension_as_batch_is_refused():
    x = torch.ones(3, 2)
    with pytest.raises(InputError, match="give the kernel a batch_shape"):
        MaxoutKernel().forward(x, x, last_dim_is_batch=True)


def test_a_network_without_biases_stays_one():
    """It has no parameter for them: nothing that trains, loads or unfreezes parameters can give it
    some.
    """
    kernel = MaxoutKernel(2, 2, bias_var=0.0)
    kernel.requires_grad_(False).requires_grad_(True)
    assert [name for name, _ in kernel.named_parameters()] == ["raw_weight_var"]
    kernel(torch.ones(3, 2)).to_dense().sum().backward()
    assert torch.isfinite(kernel.raw_weight_var.grad).all()
    kernel.bias_var = 0.0
    with pytest.raises(
        InputError,
        match=r"bias_var must be 0, as the kernel was made; .* make "
        r"another one, got 0\.1",
    ):
        kernel.bias_var = 0.1
    with pytest.raises(
        InputError,
        match=r"bias_var must be positive; for a network without biases make a kernel "
        r"with bias_var=0, ",
    ):
        MaxoutKernel().bias_var = 0.0
    with pytest.raises(RuntimeError, match=r"Missing key.*raw_bias_var"):
        MaxoutKernel(2, 2).load_state_dict(kernel.state_dict())
    batches = MaxoutKernel(2, 2, torch.tensor([0.5, 0.9]), torch.zeros(2), batch_shape=[2]).double()
    assert batches.bias_var.shape == (2, 1, 1)
    x = torch.from_numpy(inputs()[0])
    core = mnngp.MaxoutKernel(2, 2, batches.weight_var[1].item(), 0.0)
    np.testing.assert_allclose(batches[1](x).to_dense().detach(), core(x.numpy()), rtol=1e-12)
    np.testing.assert_allclose(
        batches.expand_batch([3, 2])(x).to_dense()[2, 1].detach(), core(x.numpy()), rtol=1e-12
    )


def test_priors():
    kernel = MaxoutKernel(
        weight_var_prior=GammaPrior(3.0, 6.0), bias_var_prior=GammaPrior(2.0, 8.0), ard_num_dims=2
    )
    names = [name for name, *_ in kernel.named_priors()]
    assert names == ["weight_var_prior", "bias_var_prior"]
    for _, module, prior, closure, setting in kernel.named_priors():
        assert prior.log_prob(closure(module)).shape == (1, 1)
        setting(module, torch.tensor(0.6))
    assert kernel.weight_var.item() == pytest.approx(0.6, rel=1e-6)
    assert kernel.bias_var.item() == pytest.approx(0.6, rel=1e-6)


@pytest.mark.parametrize(
    "kernel",
    [
        MaxoutKernel(
            2,
            3,
            0.4,
            weight_var_prior=GammaPrior(3.0, 6.0),
            weight_var_constraint=Interval(0.3, 0.5),
        ),
        MaxoutKernel(2, 3, bias_var_prior=NormalPrior(0.0, 1.0)),
    ],
)
def test_draws_from_priors_that_are_out_of_bounds_are_drawn_again(kernel):
    for seed in range(10):
        torch.manual_seed(seed)
        sample_all_priors(kernel)
    assert kernel.bias_var.item() > 0.0
    with pytest.raises(RuntimeError, match="out of bounds of its current constraints"):
        kernel.weight_var = torch.tensor([[-1.0]])


def test_samples_of_the_variances_become_a_batch():
    """As Pyro's samplers load them."""
    x, y = (torch.from_numpy(part) for part in inputs())
    kernel = MaxoutKernel(2, 3, weight_var_prior=GammaPrior(3.0, 6.0)).double()
    kernel.bias_var = 0.1
    samples = torch.rand(4, 1, 1, dtype=DOUBLE, generator=torch.Generator().manual_seed(0)) + 0.1
    kernel.pyro_load_from_samples({"weight_var_prior": samples})
    found = kernel(x, y).to_dense().detach()
    for row, sample in zip(found, samples, strict=True):
        np.testing.assert_allclose(
            row, mnngp.MaxoutKernel(2, 3, sample.item(), 0.1)(x.numpy(), y.numpy()), rtol=1e-12
        )


def test_printed():
    assert "depth=3, rank=8, kind='ntk'" in str(MaxoutKernel(3, 8, kind="ntk"))


def test_functional_call():
    """With the parameters that are given, if GPyTorch does not put the evaluation off."""
    x, kernel, other = (
        torch.from_numpy(inputs()[0]).float(),
        MaxoutKernel(2, 2),
        MaxoutKernel(2, 2, 0.5, 0.3),
    )
    with gpytorch.settings.lazily_evaluate_kernels(False):
        found = torch.func.functional_call(kernel, dict(other.named_parameters()), (x,)).to_dense()
    assert torch.equal(found, other(x).to_dense())


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda kernel: pickle.loads(pickle.dumps(kernel))]
)
def test_copies(duplicate):
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    kernel = MaxoutKernel(
        2, 3, 0.6, 0.2, "ntk", ard_num_dims=3, weight_var_prior=GammaPrior(3.0, 6.0)
    )
    other = duplicate(kernel)
    assert torch.equal(other(x).to_dense(), kernel(x).to_dense())
    fresh = MaxoutKernel(2, 3, kind="ntk", ard_num_dims=3, weight_var_prior=GammaPrior(3.0, 6.0))
    fresh.load_state_dict(kernel.state_dict())
    assert torch.equal(fresh(x).to_dense(), kernel(x).to_dense())


def test_lengthscales_divide_the_inputs():
    x = torch.from_numpy(inputs()[0][:, :2])
    kernel = MaxoutKernel(2, 3, ard_num_dims=2).double()
    plain = MaxoutKernel(2, 3).double()
    # one, in single precision
    torch.testing.assert_close(kernel(x).to_dense(), plain(x).to_dense(), rtol=1e-6, atol=0.0)
    assert not kernel.is_stationary
    kernel.lengthscale = torch.tensor([0.5, 2.0], dtype=DOUBLE)
    scaled = x / torch.tensor([0.5, 2.0], dtype=DOUBLE)
    torch.testing.assert_close(kernel(x).to_dense(), plain(scaled).to_dense(), rtol=1e-14, atol=0.0)
    torch.testing.assert_close(kernel(x, diag=True), plain(scaled, diag=True), rtol=1e-14, atol=0.0)
    kernel(x).to_dense().sum().backward()
    assert kernel.raw_lengthscale.grad.abs().min() > 0.0


def test_batches_and_compositions():
    X, Y = inputs()
    x, y = torch.from_numpy(np.stack([X, 2.0 * X])), torch.from_numpy(Y)
    kernel = MaxoutKernel(2, 3, torch.tensor([0.5, 0.9]), batch_shape=torch.Size([2])).double()
    kernel.weight_var = torch.tensor([0.5, 0.9], dtype=DOUBLE)
    found = kernel(x, y).to_dense()
    assert found.shape == (2, 20, 15)
    for k, weight_var in enumerate((0.5, 0.9)):
        core = mnngp.MaxoutKernel(2, 3, weight_var, kernel.bias_var[0].item())
        np.testing.assert_allclose(found[k].detach(), core(x[k].numpy(), Y), rtol=1e-12)
        pairs = kernel(x[:, :15], y.expand(2, -1, -1), diag=True)[k]
        np.testing.assert_allclose(pairs.detach(), np.diag(core(x[k, :15].numpy(), Y)), rtol=1e-12)
    one, other = (
        MaxoutKernel(2, 3, active_dims=[0, 1]).double(),
        MaxoutKernel(1, 2, active_dims=[2]).double(),
    )
    parts = [part.to_core() for part in (MaxoutKernel(2, 3).double(), MaxoutKernel(1, 2).double())]
    left, right = parts[0](X[:, :2], Y[:, :2]), parts[1](X[:, 2:3], Y[:, 2:3])
    x = torch.from_numpy(X)
    np.testing.assert_allclose((one + other)(x, y).to_dense().detach(), left + right, rtol=1e-12)
    np.testing.assert_allclose((one * other)(x, y).to_dense().detach(), left * right, rtol=1e-12)
    scaled = gpytorch.kernels.ScaleKernel(one).double()
    scaled.outputscale = 3.0
    np.testing.assert_allclose(scaled(x, y).to_dense().detach(), 3.0 * left, rtol=1e-6)
    assert one(x, y)[3:5, :2].to_dense().shape == (2, 2)
    assert one(x[:0], y).to_dense().shape == (0, 15)


# --- packages -------------------------------------------------------------------------------------

WITHOUT = """
import sys, types
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "gpytorch"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import numpy as np, mnngp
mnngp.MaxoutKernel(2, 2)(np.eye(3))
for _ in range(2):
    try:
        import mnngp.interop.gpytorch
    except mnngp.errors.MissingExtraError as error:
        print(error.__cause__, isinstance(error, ImportError), error)
    sys.modules["torch"] = types.ModuleType("torch")  # then only gpytorch is missing
"""


def test_without_the_extra():
    command = [sys.executable, "-W", "error", "-c", WITHOUT]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = 'True mnngp.interop.gpytorch needs PyTorch and GPyTorch: pip install "mnngp[gpytorch]"'
    assert printed.splitlines() == [f"torch {text}", f"gpytorch {text}"]
