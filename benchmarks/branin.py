"""Bayesian optimisation of Branin's function with the GPyTorch kernel in BoTorch, beside BoTorch's default kernel and chance.

`python benchmarks/branin.py` runs this: eight points at random, then some that are chosen, for several seeds.
"""

from mnngp.interop.gpytorch import MaxoutKernel  # isort: skip  (first: it keeps a warning of linear_operator's import to itself)

import argparse
import warnings
from pathlib import Path

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.exceptions import OptimizationWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.test_functions import Branin
from gpytorch.kernels import ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from kernel import machine
from linear_operator.utils.warnings import NumericalWarning
from rich.console import Console
from rich.progress import track

RESULTS = Path(__file__).parent / "results"
FIRST = 8
KERNELS = {
    "maxout, rank 4, depth 3": lambda: ScaleKernel(MaxoutKernel(3, 4, 0.65, 0.5, ard_num_dims=2)),
    "BoTorch's default": lambda: None,
}


def best(make, seed: int, chosen: int) -> float:
    """The largest value that was found."""
    problem = Branin(negate=True)
    torch.manual_seed(seed)
    low, high = problem.bounds
    points = low + (high - low) * torch.rand(FIRST + chosen if make is None else FIRST, 2)
    for _ in range(0 if make is None else chosen):
        values = problem(points)[:, None]
        model = SingleTaskGP(
            points, values, covar_module=make(), outcome_transform=Standardize(1),
            input_transform=Normalize(2, bounds=problem.bounds, center=0.0),
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OptimizationWarning)
            warnings.simplefilter("ignore", NumericalWarning)  # a line search tries extremes, and GPyTorch adds jitter
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model), optimizer_kwargs={"options": {"maxiter": 25}})
        new, _ = optimize_acqf(LogExpectedImprovement(model, values.max()), problem.bounds, q=1, num_restarts=2, raw_samples=32)
        points = torch.cat([points, new])
    return float(problem(points).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--chosen", type=int, default=22, help="points after the first eight")
    arguments = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    console = Console(width=140)
    seeds = list(range(arguments.seeds))
    lines, optimum = [], Branin(negate=True).optimal_value
    for name, make in {**KERNELS, "at random": None}.items():
        found = [best(make, seed, arguments.chosen) for seed in track(seeds, description=name, console=console, transient=True)]
        lines.append(f"| {name} | " + " | ".join(f"{value:.3f}" for value in found) + " |")
    report = [
        "# Bayesian optimisation of Branin's function",
        "",
        f"The best of {FIRST + arguments.chosen} values, {FIRST} of them at random. The optimum is {optimum:.3f}.",
        "Made by `python benchmarks/branin.py`.",
        "",
        *(f"- {name}: {value}" for name, value in machine().items()),
        "",
        "| kernel | " + " | ".join(f"seed {seed}" for seed in seeds) + " |",
        "| --- |" + " ---: |" * len(seeds),
        *lines,
    ]
    (RESULTS / "branin.md").write_text("\n".join(report) + "\n")
    console.print("\n".join(report))


if __name__ == "__main__":
    main()
