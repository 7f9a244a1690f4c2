"""Beside BoTorch's kernel of ReLU networks, and in both libraries' ways."""

# First: it keeps a warning of linear_operator's import to itself.
from mnngp.interop.gpytorch import MaxoutKernel, kernel_with_priors  # isort: skip


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
from linear_operator.utils.errors import NanError
from sklearn.gaussian_process import GaussianProcessRegressor
from torch.autograd.functional import hessian

import mnngp
from mnngp.errors import InputError
from tests.interop.shared import DOUBLE, kernel_of, touching, variances

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
