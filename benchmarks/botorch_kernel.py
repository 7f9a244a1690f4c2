"""The GPyTorch kernel beside BoTorch's InfiniteWidthBNNKernel: time, agreement, and what happens
where points agree.

`python benchmarks/botorch_kernel.py` runs this. By proposition 1 rank-2 maxout on √2 x with half
the weight variance is that ReLU kernel, so both sides compute the same numbers; other ranks cost
the same. The two sides take turns, and medians are compared.
"""

# First: it keeps a warning of linear_operator's import to itself.
from mnngp.interop.gpytorch import MaxoutKernel  # isort: skip

import argparse
import math
import statistics
import time
from pathlib import Path

import botorch
import gpytorch
import torch
from botorch.models.kernels.infinite_width_bnn import InfiniteWidthBNNKernel
from kernel import machine
from rich.console import Console
from rich.progress import track
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
CASES = [
    {"n": n, "depth": depth, "dtype": dtype}
    for n, depth, dtype in (
        (20, 3, "float64"),
        (50, 3, "float64"),
        (200, 3, "float64"),
        (1000, 3, "float64"),
        (2000, 3, "float64"),
        (2000, 10, "float64"),
        (1000, 3, "float32"),
        (2000, 3, "float32"),
    )
]
FEATURES, WEIGHT_VAR, BIAS_VAR = 10, 2.0, 0.3
TASKS = ("values", "gradient in variances", "gradient in inputs")


def both(
    depth: int, dtype: torch.dtype, acos_eps: float = 1e-7
) -> list[tuple[gpytorch.kernels.Kernel, float]]:
    """Our kernel and BoTorch's, each with the factor of its inputs."""
    ours = MaxoutKernel(depth, 2).to(dtype)
    ours.weight_var, ours.bias_var = WEIGHT_VAR / 2.0, BIAS_VAR
    theirs = InfiniteWidthBNNKernel(depth, acos_eps=acos_eps).to(dtype)
    theirs.weight_var, theirs.bias_var = (
        torch.tensor([[value]], dtype=dtype) for value in (WEIGHT_VAR, BIAS_VAR)
    )
    return [(ours, math.sqrt(2.0)), (theirs, 1.0)]


def run(task: str, kernel: gpytorch.kernels.Kernel, x: torch.Tensor, weight: torch.Tensor) -> None:
    if task == "values":
        with torch.no_grad():
            kernel(x).to_dense()
        return
    kernel.zero_grad()
    x = x.clone().requires_grad_(task == "gradient in inputs")
    kernel(x).to_dense().backward(weight)


def timed(*arguments) -> float:
    start = time.perf_counter()
    run(*arguments)
    return time.perf_counter() - start


def compare(case: dict, turns: int) -> dict:
    dtype = getattr(torch, case["dtype"])
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(case["n"], FEATURES, generator=generator).to(dtype)
    weight = torch.randn(case["n"], case["n"], generator=generator).to(dtype)
    sides = [(kernel, factor * x) for kernel, factor in both(case["depth"], dtype)]
    seconds: dict[str, list[list[float]]] = {task: [[], []] for task in TASKS}
    for _ in range(turns):
        for task in TASKS:
            for found, (kernel, points) in zip(seconds[task], sides, strict=True):
                # unmeasured: the other's turn has left cold caches
                run(task, kernel, points, weight)
                found += [timed(task, kernel, points, weight) for _ in range(3)]
    with torch.no_grad():
        mine, theirs = (kernel(points).to_dense() for kernel, points in sides)
    off = ~torch.eye(case["n"], dtype=torch.bool)
    return {
        "seconds": {
            task: [statistics.median(found) for found in pair] for task, pair in seconds.items()
        },
        "difference": float(((mine - theirs).abs() / theirs.abs().max())[off].max()),
    }


def near_one() -> list[list[str]]:
    """How far each side is from the limit, where a point meets one close to it: relative errors,
    depth 1.

    For points that agree F may be replaced by its tangent at one, which leaves b + w/2 (b + w <x,
    y>/d) at depth 1. So the variance of f(x) - f(y) is w²/2d |x - y|², and the mixed second
    derivative w²/2d times the identity.
    """
    x = torch.tensor([0.3, -1.2, 0.8], dtype=torch.float64)
    toward = torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64)

    exact_mixed = WEIGHT_VAR**2 / 2.0 / len(x) * torch.eye(len(x), dtype=torch.float64)
    rows = []
    for distance in (1e-2, 1e-3, 1e-4, 1e-6, 0.0):
        y = x + distance * toward
        row = [f"{distance:g}"]
        for name, eps in (("mnngp", 1e-7), ("BoTorch", 1e-7), ("BoTorch, acos_eps = 0", 0.0)):
            kernel, factor = both(1, torch.float64, eps)[name != "mnngp"]

            def value(a, b, kernel=kernel, factor=factor):
                return kernel(factor * a[None], factor * b[None]).to_dense()[0, 0]

            with torch.no_grad():
                fall = (value(x, x) + value(y, y) - 2.0 * value(x, y)).item()
            exact_fall = WEIGHT_VAR**2 / 2.0 / len(x) * float((x - y).square().sum())
            mixed = torch.autograd.functional.hessian(value, (x, y.clone()))[0][1]
            errors = (
                abs(fall / exact_fall - 1.0) if exact_fall else abs(fall),
                float((mixed - exact_mixed).abs().max() / exact_mixed.abs().max()),
            )
            row += [f"{error:.0e}" if math.isfinite(error) else "NaN" for error in errors]
        rows.append(row)
    return rows


def table(header: list[str], lines: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *lines)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="turns of each side")
    arguments = parser.parse_args()
    console = Console(width=140)
    facts = machine() | {
        "torch": f"{torch.__version__}, {torch.get_num_threads()} threads",
        "gpytorch": gpytorch.__version__,
        "botorch": botorch.__version__,
        "turns": arguments.turns,
    }
    lines = []
    for case in track(CASES, description="comparing", console=console, transient=True):
        found = compare(case, arguments.turns)
        times = [
            text
            for task in TASKS
            for mine, theirs in [found["seconds"][task]]
            for text in (f"{1e3 * mine:.1f}", f"{1e3 * theirs:.1f}", f"{theirs / mine:.1f}")
        ]
        lines.append(
            [
                f"{case['n']}",
                f"{case['depth']}",
                case["dtype"],
                *times,
                f"{found['difference']:.0e}",
            ]
        )
    header = [
        "n",
        "depth",
        "type",
        *(text for task in TASKS for text in (f"{task}: mnngp ms", "BoTorch ms", "ratio")),
        "difference",
    ]
    title = f"Kernel matrix and its derivatives, d = {FEATURES}"
    shown = Table(*header, title=title)
    for line in lines:
        shown.add_row(*line)
    console.print(shown)

    sides = ("mnngp", "BoTorch", "BoTorch, acos_eps = 0")
    close_header = [
        "distance",
        *(
            f"{name}: {what}"
            for name in sides
            for what in ("variance of the difference", "second derivative")
        ),
    ]
    close = near_one()
    report = [
        f"# {title}",
        "",
        "Made by `python benchmarks/botorch_kernel.py`. The peer is BoTorch's "
        "`InfiniteWidthBNNKernel`; by proposition 1",
        "both sides compute the same numbers. Medians of runs in turn; a gradient includes the "
        "values. The difference is the",
        "largest off the diagonal, relative to the largest entry.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        *table(header, lines),
        "",
        "## Two points close to each other",
        "",
        "Relative errors at depth 1 of the prior variance of f(x) - f(y), and of the mixed second "
        "derivative of k(x, y),",
        "against their limits for y → x, w²/2d |x - y|² and w²/2d. At a distance the limits "
        "themselves are off by a multiple of",
        "it, in all columns alike; and the variance, a difference of numbers near one, is rounded: "
        "by some 1e-4 of itself at",
        "1e-6. At zero its error is absolute.",
        "",
        *table(close_header, close),
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "gpytorch.md").write_text("\n".join(report) + "\n")
    console.print(f"written: {RESULTS / 'gpytorch.md'}")


if __name__ == "__main__":
    main()
