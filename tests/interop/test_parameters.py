"""Variances, lengthscales, priors, batches, copies; and without the extra."""

# First: it keeps a warning of linear_operator's import to itself.
from mnngp.interop.gpytorch import MaxoutKernel  # isort: skip

import copy
import pickle
import subprocess
import sys

import gpytorch
import numpy as np
import pytest
import torch
from botorch.optim.utils import sample_all_priors
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.priors import GammaPrior, NormalPrior

import mnngp
from mnngp.errors import InputError
from tests.interop.shared import DOUBLE, inputs

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
            r"weight_var must be a number or of the batch shape \(\), .*"
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
