"""Bayesian optimisation beside Matérn

Where to measure next, if every measurement is dear: BoTorch with the kernel of a network.

To find the maximum of a function that takes a day to evaluate, fit a Gaussian process to what was
measured, and measure next where the expected improvement is largest. The kernel is the belief about
the function. Matérn's is the usual one; that of a maxout network goes into BoTorch just as well.

Needs `pip install "mnngp[experiments,gpytorch]" botorch`.
"""

import matplotlib.pyplot as plt
import torch

from mnngp.interop.gpytorch import kernel_with_priors  # isort: skip
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import GammaPrior

torch.set_default_dtype(torch.float64)
bounds = torch.tensor([[-1.0], [2.0]])


def measure(x):
    """Two maxima, of which one is the higher."""
    return -torch.sin(3.0 * x) - x**2 + 0.7 * x


line = torch.linspace(-1.0, 2.0, 201)[:, None]
print(f"the maximum is {measure(line).max():.2f}, at x = {line[measure(line).argmax(), 0]:.2f}")

# %%
# `kernel_with_priors` is a maxout kernel with lengthscales and priors that suit few data. Matérn's
# gets the priors that were BoTorch's default for years. The maxout kernel knows where zero is, so
# the inputs are centred (`center=0`), for both.
kernels = {
    "maxout network": lambda: kernel_with_priors(1),
    "Matérn 5/2": lambda: ScaleKernel(
        MaternKernel(2.5, ard_num_dims=1, lengthscale_prior=GammaPrior(3.0, 6.0)),
        outputscale_prior=GammaPrior(2.0, 0.15),
    ),
}


def fit(kernel, points):
    model = SingleTaskGP(
        points,
        measure(points),
        covar_module=kernel(),
        input_transform=Normalize(1, bounds=bounds, center=0.0),
        outcome_transform=Standardize(1),
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


# %%
# Three points to begin with, and six that are chosen. (In one dimension it is enough to look for
# the largest improvement along the line; `botorch.optim.optimize_acqf` does it in more.) Grey is
# where the process believes the function to be (95 %), dotted what it is; the number of a point
# says when it was measured.
fig, axes = plt.subplots(2, 2, figsize=(7.2, 5.6), sharex=True, sharey=True)
for row, (name, kernel) in zip(axes, kernels.items(), strict=True):
    points = torch.tensor([[-0.9], [1.1], [2.0]])
    for count in range(3, 10):
        model = fit(kernel, points)
        if count in (5, 9):
            ax = row[0 if count == 5 else 1]
            with torch.no_grad():
                belief = model.posterior(line)
            mean, std = belief.mean[:, 0], belief.variance[:, 0].sqrt()
            ax.fill_between(line[:, 0], mean - 1.96 * std, mean + 1.96 * std, color="C5", alpha=0.2)
            ax.plot(line, mean, color="C0")
            ax.plot(line, measure(line), color="C1", ls=":")
            ax.plot(points, measure(points), "o", color="C1", ms=4)
            for number, x in enumerate(points[:, 0].tolist(), start=1):
                ax.annotate(
                    number, (x, measure(torch.tensor(x))), (4, 4), textcoords="offset points"
                )
            ax.set(title=f"{name}, {count} points", ylim=(-2.8, 1.2))
        improvement = LogExpectedImprovement(model, measure(points).max())
        with torch.no_grad():
            highest = improvement(line[:, None]).argmax()
        points = torch.cat([points, line[highest][None]])
    best = measure(points[:9]).cummax(0).values[:, 0]
    print(f"{name:14} best after 3, 4, ... points:", " ".join(f"{value:.2f}" for value in best[2:]))
plt.show()

# %%
# One run on one function decides nothing, and this function is an easy one: where the higher
# maximum is narrow and no point is near it (we tried Forrester's function), both kernels stayed at
# the lower one. Over ten seeds and four functions no kernel is best everywhere: [GPyTorch and
# BoTorch](../gpytorch.md#optimise-with-botorch) has the table.
