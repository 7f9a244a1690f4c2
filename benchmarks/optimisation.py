"""Bayesian optimisation of test functions with the GPyTorch kernel in BoTorch, beside BoTorch's
default kernel and chance.

`python benchmarks/optimisation.py` runs this: some points at random, then some that are chosen, for
several seeds.
"""

# First: it keeps a warning of linear_operator's import to itself.
from mnngp.interop.gpytorch import kernel_with_priors  # isort: skip

import argparse
import statistics
from pathlib import Path

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.test_functions import Ackley, Branin, Hartmann, Rosenbrock, SyntheticTestFunction
from gpytorch.mlls import ExactMarginalLogLikelihood
from kernel import machine
from rich.console import Console
from rich.progress import track

RESULTS = Path(__file__).parent / "results"
PROBLEMS = {  # the function, points at random, points in all
    "Branin, 2 inputs": (Branin(negate=True), 8, 30),
    "Rosenbrock, 4 inputs": (Rosenbrock(4, bounds=[(-2.0, 2.0)] * 4, negate=True), 10, 40),
    "Ackley, 4 inputs": (Ackley(4, bounds=[(-5.0, 10.0)] * 4, negate=True), 10, 40),
    "Hartmann, 6 inputs": (Hartmann(6, negate=True), 12, 40),
}
KERNELS = {  # the kernel for some dimensions, and where the middle of the inputs goes
    "maxout, with priors": (kernel_with_priors, 0.0),
    "BoTorch's default": (lambda dimensions: None, 0.5),
    "at random": (None, 0.0),
}
FIRST_SEED = 100  # the priors were chosen while looking at seeds below 12 of Branin's function


def best(
    problem: SyntheticTestFunction, make, center: float, seed: int, first: int, last: int
) -> float:
    """The largest value that was found."""
    torch.manual_seed(seed)
    low, high = problem.bounds
    points = low + (high - low) * torch.rand(last if make is None else first, problem.dim)
    while len(points) < last:
        values = problem(points)[:, None]
        model = SingleTaskGP(
            points,
            values,
            covar_module=make(problem.dim),
            outcome_transform=Standardize(1),
            input_transform=Normalize(problem.dim, bounds=problem.bounds, center=center),
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        new, _ = optimize_acqf(
            LogExpectedImprovement(model, values.max()),
            problem.bounds,
            q=1,
            num_restarts=4,
            raw_samples=64,
        )
        points = torch.cat([points, new])
    return float(problem(points).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    console = Console(width=140)
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
    facts, lines = machine(), []  # the commit that runs, whatever there is at the end
    for title, (problem, first, last) in PROBLEMS.items():
        for name, (make, center) in KERNELS.items():
            shown = track(seeds, description=f"{title}: {name}", console=console, transient=True)
            found = [best(problem, make, center, seed, first, last) for seed in shown]
            lines.append(
                f"| {title} | {problem.optimal_value + 0.0:.3f} | {first}, {last} | {name} "
                f"| {statistics.median(found):.3f} | {min(found):.3f} | {max(found):.3f} |"
            )
            console.print(lines[-1])
    report = [
        "# Bayesian optimisation",
        "",
        f"The best value that was found, over {arguments.seeds} seeds; all signs are such that "
        "more is better.",
        "Made by `python benchmarks/optimisation.py`.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        "| function | optimum | points: at random, in all | kernel | median | worst seed | best "
        "seed |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: |",
        *lines,
    ]
    (RESULTS / "optimisation.md").write_text("\n".join(report) + "\n")
    console.print("\n".join(report))


if __name__ == "__main__":
    main()
