"""The GPyTorch kernel has the core's values, in every type, shape and size."""

# First: it keeps a warning of linear_operator's import to itself.
from mnngp.interop.gpytorch import MaxoutKernel  # isort: skip

import copy
import unittest

import numpy as np
import pytest
import torch
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase
from linear_operator.utils.errors import NanError
from threadpoolctl import threadpool_limits

import mnngp
from mnngp import Maxout
from mnngp.errors import InputError, ScaleError
from mnngp.interop.gpytorch import autograd
from tests.interop.shared import DOUBLE, inputs, kernel_of, variances


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
@pytest.mark.parametrize("weights", [(), (0.5, 3.0, 1.5)])
def test_an_embedding_equals_the_core(kind, weights):
    """A number, a number with gaps and a category; and the derivative in the first number."""
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.normal(size=(20, 2)), rng.integers(0, 2, 20), np.eye(3)[rng.integers(0, 3, 20)]]
    )
    embedding = mnngp.Embedding(0.7, (-2.0, 2.0), ((3, 6),), (2,), weights)
    core = mnngp.MaxoutKernel(2, 3, 0.8, 0.1, kind, embedding=embedding)
    kernel, x = MaxoutKernel.from_core(core), torch.from_numpy(X).requires_grad_()
    value = kernel(x, x.detach()[:7]).to_dense()
    # a point with itself: the tangent kernel has the root of what is rounded, 3e-12
    np.testing.assert_allclose(value.detach(), core(X, X[:7]), rtol=2e-11)
    weight = torch.from_numpy(rng.normal(size=value.shape))
    (gradient,) = torch.autograd.grad((weight * value).sum(), x)
    step = np.zeros(6)
    step[0] = 1e-6
    moved = (core(X + step, X[:7]) - core(X - step, X[:7])) / 2e-6
    inside = np.abs(X[7:, 0]) < 2.0  # of those before, points with themselves have a kink
    expected = (weight.numpy() * moved).sum(axis=1)[7:]
    np.testing.assert_allclose(gradient[7:, 0][inside], expected[inside], rtol=1e-6, atol=1e-8)


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
