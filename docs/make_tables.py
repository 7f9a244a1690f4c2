"""Write the tables of the documentation that are measured, as Markdown, to docs/generated/. Called
by make_figures.py.
"""

import json
import re
import shutil
from functools import partial
from pathlib import Path

import measurements
import numpy as np

from mnngp import (
    GELU,
    Abs,
    Erf,
    LeakyReLU,
    Maxout,
    MaxoutKernel,
    NetworkKernel,
    ReLU,
    theory,
)
from mnngp.experiments.tabulated import TabulatedMaxout

HERE = Path(__file__).parent
REFERENCE = HERE.parent / "tests" / "reference"


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """Return a table as Markdown."""
    lines = [header, ["---:"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def digits(value: float) -> str:
    """Return a small number with two digits."""
    return "0" if value == 0.0 else f"{value:.1e}"


def critical_weight_variances() -> str:
    """What to initialise with, rank by rank."""
    rows = []
    for rank in (2, 3, 4, 5, 8, 16):
        unit = Maxout(rank)
        point = theory.fixed_point(unit, weight_var=unit.critical_weight_var)
        fall = "never" if rank == 2 else f"{np.log(10.0) / np.log(unit.second_moment):.1f}"
        numbers = (
            unit.second_moment,
            unit.critical_weight_var,
            unit.critical_weight_var**0.5,
            point.gradient_slope,
        )
        rows.append([str(rank), *(f"{number:.6f}" for number in numbers), fall])
    return markdown(
        [
            "rank",
            r"$M = \mathbb{E} \max^2$",
            "critical `weight_var` = $1/M$",
            "its square root",
            "gradient² per layer",
            "layers for a tenth",
        ],
        rows,
    )


def against_high_precision() -> str:
    """Worst differences of F_q, F_q' and the deficit from the twenty-digit reference."""
    values = json.loads((REFERENCE / "maxout_reference.json").read_text())["values"]
    rows = []
    for rank in sorted(map(int, values)):
        unit, table = Maxout(rank), values[str(rank)]
        rho = np.array([float(row["rho"]) for row in table])
        moment, derivative, deficit = (
            np.array([float(row[name]) for row in table])
            for name in ("moment", "derivative", "deficit")
        )
        inside = (rho > 0.0) & (rho < 1.0)
        worst = (
            np.abs(unit.moment(rho) - moment).max(),
            np.abs(unit.derivative(rho) - derivative).max(),
            np.abs(unit.deficit(rho) / np.where(inside, deficit, 1.0) - 1.0)[inside].max(),
            unit.error,
        )
        rows.append([str(rank), str(len(rho)), *map(digits, worst)])
    return markdown(
        [
            "rank",
            "values",
            "$F_q$",
            "$F_q'$",
            r"$F_q(1) - F_q(\rho)$, relative",
            "stated bound of $F_q'$",
        ],
        rows,
    )


def table_method() -> str:
    """The paper's table: at its nodes, between them, and with the printed grid."""
    rows = []
    nodes = np.linspace(-1.0, 1.0, 1001)
    middle = (nodes[1:] + nodes[:-1]) / 2.0
    for rank in (2, 3, 4):
        unit, few = Maxout(rank), TabulatedMaxout(rank, n_rho=21)
        printed = TabulatedMaxout(rank, r_max=100.0, n_rho=41)
        at_nodes = np.abs(few.table - unit.moment(np.linspace(-1.0, 1.0, 21)))
        coarse = np.abs(printed.table - unit.moment(np.linspace(-1.0, 1.0, 41)))
        # At the nodes the table is exact to rounding, so between them its error is that of
        # interpolating exact values.
        between = np.abs(np.interp(middle, nodes, unit.moment(nodes)) - unit.moment(middle))
        last = between[-1] / unit.deficit(middle[-1])
        numbers = [
            digits(at_nodes[1:].max()),
            digits(between.max()),
            f"{100.0 * last:.1f} %",
            digits(coarse[1:].max()),
        ]
        rows.append([str(rank), *numbers])
    return markdown(
        [
            "rank",
            r"at 20 nodes, $\rho > -1$, $R_{\max} = 10$",
            "between 1001 nodes",
            r"of $F_q(1) - F_q(\rho)$ at $\rho = 0.999$",
            r"at 40 nodes, $\rho > -1$, $R_{\max} = 100$ as printed",
        ],
        rows,
    )


def single_precision() -> str:
    """float32 against float64, relative to √(K_ii K_jj)."""
    X = np.random.default_rng(0).normal(size=(200, 20))
    rows = []
    for depth in (1, 5, 21, 100):
        row = [str(depth)]
        for rank in (2, 4):
            for kind in ("nngp", "ntk"):
                variances = {
                    "weight_var": Maxout(rank).critical_weight_var,
                    "bias_var": 0.05,
                    "kind": kind,
                }
                single, double = (
                    MaxoutKernel(depth, rank, **variances, dtype=dtype)(X)
                    for dtype in ("float32", "float64")
                )
                scale = np.sqrt(np.outer(np.diag(double), np.diag(double)))
                row.append(digits((np.abs(single - double) / scale).max()))
        rows.append(row)
    return markdown(["depth", "rank 2, nngp", "rank 2, ntk", "rank 4, nngp", "rank 4, ntk"], rows)


def against_neural_tangents() -> str:
    """Worst differences from neural-tangents' matrices, the nearly equal pair of points apart."""
    reference = json.loads((REFERENCE / "neural_tangents_reference.json").read_text())
    activations = {
        "relu": ReLU(),
        "leaky_relu": LeakyReLU(0.25),
        "abs": Abs(),
        "erf": Erf(),
        "gelu": GELU(),
    }
    X = np.array(reference["points"])
    close = np.zeros((len(X), len(X)), dtype=bool)
    close[0, 5] = close[5, 0] = True
    rows = []
    for case in reference["cases"]:
        row = [
            case["activation"],
            str(case["depth"]),
            f"{case['weight_var']:g}",
            f"{case['bias_var']:g}",
        ]
        for kind in ("nngp", "ntk"):
            layers = [activations[case["activation"]]] * case["depth"]
            found, expected = (
                NetworkKernel(layers, case["weight_var"], case["bias_var"], kind)(X),
                np.array(case[kind]),
            )
            error = np.abs(found - expected) / np.sqrt(
                np.outer(np.diag(expected), np.diag(expected))
            )
            row += [digits(error[~close].max()), digits(error[close].max())]
        rows.append(row)
    return markdown(
        [
            "activation",
            "depth",
            "weight_var",
            "bias_var",
            "nngp",
            "nngp, close pair",
            "ntk",
            "ntk, close pair",
        ],
        rows,
    )


def calibration() -> str:
    """Scores of probabilities on held-out rows."""
    rows = [
        [
            name,
            method,
            f"{found.accuracy:.3f}",
            f"{found.log_loss:.3f}",
            f"{found.calibration_error:.3f}",
        ]
        for name, methods in measurements.calibration().items()
        for method, found in methods.items()
    ]
    return markdown(["set", "probabilities", "accuracy", "log loss", "ECE"], rows)


def ordered() -> str:
    """Accuracy over depth in the ordered phase, by four ways."""
    rows = []
    for row in measurements.ordered_phase():
        if row.depth in (1, 5, 9, 11, 13, 15, 17, 21, 100):
            accuracies = (row.plain, row.plain_in_distances, row.scaled, row.found)
            rows.append(
                [
                    str(row.depth),
                    f"{row.distance:.0e}",
                    *(f"{accuracy:.3f}" for accuracy in accuracies),
                ]
            )
    return markdown(
        [
            "depth",
            "mean u",
            "signal 1, Cholesky of K",
            "signal 1, distances",
            "signal found, Cholesky of K",
            "signal found, distances",
        ],
        rows,
    )


def benchmark(name: str, command: str) -> str:
    """A benchmark's result as a part of a page: without its title, other headings one lower, its
    pictures beside those of the other pages; or that there is none yet.
    """
    path = HERE.parent / "benchmarks" / "results" / f"{name}.md"
    if not path.exists():
        return f"*Not run yet: `{command}` writes `benchmarks/results/{name}.md`.*\n"
    text = path.read_text()
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        shutil.copyfile(path.with_name(picture), HERE / "figures" / picture)
        text = text.replace(f"]({picture})", f"](figures/{picture})")
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    return "\n".join(f"#{line}" if line.startswith("##") else line for line in lines).strip() + "\n"


TABLES = {
    "critical.md": critical_weight_variances,
    "high_precision.md": against_high_precision,
    "table_method.md": table_method,
    "single_precision.md": single_precision,
    "neural_tangents.md": against_neural_tangents,
    "calibration.md": calibration,
    "ordered.md": ordered,
    "benchmark_inference.md": partial(benchmark, "inference", "make inference"),
    "benchmark_tabular.md": partial(benchmark, "tabular", "make tabular"),
    "benchmark_features.md": partial(benchmark, "features", "python benchmarks/features.py"),
    "benchmark_sweep.md": partial(benchmark, "sweep", "python benchmarks/sweep.py"),
    "benchmark_grid.md": partial(benchmark, "grid", "python benchmarks/grid.py"),
    "benchmark_ordered.md": partial(benchmark, "ordered", "python benchmarks/ordered.py"),
}


def main() -> None:
    """Write all tables."""
    folder = HERE / "generated"
    folder.mkdir(exist_ok=True)
    for name, make in TABLES.items():
        (folder / name).write_text(make())
        print(f"written: docs/generated/{name}")


if __name__ == "__main__":
    main()
