"""GPyTorch kernels of any activations, with a variance for each layer."""

# First: it keeps a warning of linear_operator's import to itself.
from mnngp.interop.gpytorch import MaxoutKernel, NetworkKernel  # isort: skip

import pickle

import gpytorch
import numpy as np
import pytest
import torch

import mnngp
from mnngp import GELU, Abs, Erf, LeakyReLU, Maxout, ReLU, Tanh
from mnngp.errors import InputError
from mnngp.experiments.tabulated import TabulatedMaxout
from mnngp.interop.gpytorch import autograd

DOUBLE = torch.float64
CORES = [
    mnngp.NetworkKernel([ReLU(), LeakyReLU(0.2), Abs()], [1.5, 1.0, 0.8, 1.2], 0.1),
    mnngp.NetworkKernel([Maxout(4), GELU(), Tanh()], 1.3, [0.1, 0.2, 0.3, 0.4]),
    mnngp.NetworkKernel([Erf(), Erf()], [30.0, 200.0, 1.0], 0.3),  # real degrees
    mnngp.NetworkKernel([Tanh(), Maxout(2)], 1.1, 0.0),
    mnngp.MaxoutKernel(3, 4, [0.5, 0.9, 0.7, 1.1], [0.2, 0.1, 0.05, 0.3]),
]


def points():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(9, 3)), rng.normal(size=(6, 3))
    X[1], X[2] = X[0], -X[0]
    Y[0] = X[3]
    return X, Y


def ours(core):
    kind = MaxoutKernel if isinstance(core, mnngp.MaxoutKernel) else NetworkKernel
    return kind.from_core(core)


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("core", CORES, ids=repr)
def test_equals_the_core(core, kind):
    """Values, symmetric and not, compiled and by PyTorch's operations; the diagonal."""
    core = core.clone_with_theta(core.theta)
    core.kind = kind
    X, Y = points()
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    kernel = ours(core)
    assert repr(kernel.to_core()) == repr(core)
    network = autograd.Network(kernel._units, kind == "ntk")
    w, b = (part[0].expand(len(kernel._units) + 1) for part in (kernel.weight_var, kernel.bias_var))
    with torch.no_grad():
        found = {
            "square": (kernel(x).to_dense(), core(X)),
            "cross": (kernel(x, y).to_dense(), core(X, Y)),
            "diagonal": (kernel(x, diag=True), core.diag(X)),
            "operations": (autograd._by_operations(network, x, y, w, b), core(X, Y)),
        }
    for name, (mine, expected) in found.items():
        # Measured worst: 4e-14 of the largest entry, in sums over real degrees.
        np.testing.assert_allclose(
            mine, expected, rtol=0.0, atol=2e-13 * np.abs(expected).max(), err_msg=name
        )


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("core", CORES, ids=repr)
def test_derivatives(core, kind):
    """In inputs and in every layer's variances, against central differences."""
    core = core.clone_with_theta(core.theta)
    core.kind = kind
    X, Y = points()
    if kind == "ntk":  # which has kinks where points agree
        X[1], X[2], Y[0] = X[1] + 0.5, X[2] + 0.4, Y[0] + 0.3
    kernel = ours(core)
    parameters = [part for part in kernel.parameters() if part.requires_grad]

    def function(x, y, *values):
        named = {name: None for name, _ in kernel.named_parameters()}
        state = dict(zip(named, values, strict=True))
        return torch.func.functional_call(kernel, state, (x, y)).to_dense()

    x, y = (torch.from_numpy(part).requires_grad_() for part in (X, Y))
    assert torch.autograd.gradcheck(function, (x, y, *parameters), atol=1e-5, rtol=1e-4)


def test_second_derivatives_of_homogeneous_layers():
    kernel = NetworkKernel([ReLU(), Maxout(3), Abs()], [0.9, 1.2, 0.8, 1.0]).double()
    x = torch.randn(4, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    function = lambda x: kernel(x, x[:2] + 0.3).to_dense()  # noqa: E731
    assert torch.autograd.gradgradcheck(function, (x.requires_grad_(),))


def test_second_derivatives_of_smooth_layers_are_refused():
    kernel = NetworkKernel([GELU()]).double()
    x = torch.randn(3, 2, dtype=DOUBLE, requires_grad=True)
    total = kernel(x).to_dense().sum()
    with pytest.raises(NotImplementedError, match="second derivatives of kernels with smooth"):
        torch.autograd.grad(total, x, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivatives of kernels with smooth"):
        torch.autograd.functional.hessian(lambda x: kernel(x).to_dense().sum(), x.detach())


def test_layers_in_batches_and_files():
    kernel = MaxoutKernel(2, 3, weight_var=[[0.5, 0.6, 0.7], [0.8, 0.9, 1.0]], batch_shape=[2])
    assert kernel.weight_var.shape == (2, 1, 3)
    assert kernel.bias_var.shape == (2, 1, 1)
    x = torch.randn(5, 2)
    both = kernel(x).to_dense()
    one = MaxoutKernel(2, 3, weight_var=[0.8, 0.9, 1.0])(x).to_dense()
    torch.testing.assert_close(both[1], one)
    again = pickle.loads(pickle.dumps(kernel))
    assert torch.equal(again(x).to_dense(), both)
    other = MaxoutKernel(2, 3, weight_var=[[1.0] * 3] * 2, batch_shape=[2])
    other.load_state_dict(kernel.state_dict())
    assert torch.equal(other(x).to_dense(), both)


def test_layers_are_trained():
    """The evidence of a few points rises, and the layers' variances part."""
    torch.manual_seed(0)
    x = torch.linspace(-1.0, 1.0, 12, dtype=DOUBLE)[:, None]
    y = torch.sin(4.0 * x[:, 0])

    class Model(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood().double())
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = NetworkKernel([GELU(), Maxout(4)], weight_var=[1.0] * 3).double()

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    model = Model().double().train()
    likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    values = []
    for _ in range(30):
        optimiser.zero_grad()
        loss = -likelihood(model(x), y)
        loss.backward()
        optimiser.step()
        values.append(-loss.item())
    assert values[-1] > values[0] + 0.1
    found = model.covar_module.weight_var[0].detach()
    assert len(set(found.numpy().round(3))) == 3


@pytest.mark.parametrize(
    ("layers", "text"),
    [
        ([], "layers must be a list of at least one activation"),
        ([Maxout(2), 3], r"layers\[1\] must be an activation"),
        ([TabulatedMaxout(2, n_grid=51, n_rho=101)], r"layers\[0\] has no derivatives"),
    ],
)
def test_bad_layers(layers, text):
    with pytest.raises(InputError, match=text):
        NetworkKernel(layers)


def test_variances_of_another_number_of_layers():
    with pytest.raises(InputError, match=r"weight_var must be a number .*, got shape \(3,\)"):
        NetworkKernel([ReLU()], weight_var=[1.0, 1.0, 1.0])
