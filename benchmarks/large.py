"""Measures the costs of ``mnngp plan``, and conjugate gradients beside the Cholesky factorisation.

    python benchmarks/large.py                  measure, fit the cost model, check it on a size not
    in the fit python benchmarks/large.py --cluster        a kernel larger than the workers' memory,
    on `dask scheduler` and `dask worker` python benchmarks/large.py --write          write the
    tables again from what is stored

One thread each; times are those of the processor, so that other work on the machine matters less.
Every size runs in a process of its own, whose peak memory is stored. Results are in
``results/large-runs.json`` and ``large.md``; the costs in the package.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).parent
RUNS = HERE / "results" / "large-runs.json"
COSTS = HERE.parent / "src" / "mnngp" / "costs.json"
MODEL = {"depth": 5, "rank": 4, "weight_var": 0.6, "bias_var": 0.1}
FITTED = (2000, 5000, 10_000, 20_000)
SEEN = 14_000  # not in the fit, but its row was looked at while the form of the fit was chosen
CHECKED = 17_000  # measured when the costs were final
FEATURES, TARGETS, NOISE, MEMORY = 784, 10, 1e-2, "2GB"
CLUSTERS = {
    "a laptop: 8 threads, 16 GB": {"workers": 1, "threads": 8, "memory": "16GB"},
    "a server: 64 threads, 512 GB": {"workers": 1, "threads": 64, "memory": "512GB"},
    "16 nodes of 32 threads, 128 GB": {"workers": 16, "threads": 32, "memory": "128GB"},
    "128 nodes of 64 threads, 256 GB": {"workers": 128, "threads": 64, "memory": "256GB"},
    "1,024 nodes of 64 threads, 512 GB": {"workers": 1024, "threads": 64, "memory": "512GB"},
}


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def seconds(function, *arguments) -> tuple[float, object]:
    began = time.process_time()
    value = function(*arguments)
    return time.process_time() - began, value


def run(n: int) -> dict:
    """One size: the kernel, the factorisation, one product, and both posteriors with their
    predictions.
    """
    import numpy as np
    from inputs import make_inputs

    from mnngp import MaxoutKernel
    from mnngp.inference import ConjugateGradients, Posterior
    from mnngp.inference.solvers.packed import Packed
    from mnngp.inference.solvers.preconditioner import partial_cholesky
    from mnngp.inference.solvers.tiles import LocalTiles
    from mnngp.kernels.evaluate import correlations, packed_correlations
    from mnngp.kernels.points import Points

    X = make_inputs(n + 1000, FEATURES, "unequal")
    y = np.tanh(X[:n, :TARGETS] + X[:n, TARGETS : 2 * TARGETS])
    kernel = MaxoutKernel(**MODEL)
    network = kernel.network
    points = Points.of("X", X[:n], np.dtype(np.float64))
    correlations(network, points.subset(np.arange(300)), points.subset(np.arange(300)))  # compiles
    base = peak()
    facts = {"n": n, "base": base}
    cg = ConjugateGradients(memory=MEMORY)
    facts["cg"], iterative = seconds(lambda: Posterior(kernel, X[:n], y, NOISE, solver=cg))
    facts["cg peak"] = peak() - base
    report = iterative.report
    facts |= {
        "iterations": report.iterations,
        "residual": max(report.residuals),
        "rank": report.rank,
        "kept": report.kept,
    }
    facts["total"] = report.total
    predicted = iterative.mean(X[n:])
    tiles = iterative.inverse.operator
    for k in (1, 11, 44):
        v = np.random.default_rng(0).normal(size=(n, k))
        facts[f"product {k}"] = min(seconds(tiles, v)[0] for _ in range(2))
    del iterative, tiles

    def columns(chosen):
        return correlations(network, points, points.subset(chosen))

    facts["root"] = seconds(partial_cholesky, columns, np.ones(n), report.rank, 0)[0]
    facts["columns"] = seconds(lambda: [columns(np.arange(64)) for _ in range(report.rank // 64)])[
        0
    ]
    packed = Packed(n, np.float64)
    facts["kernel"] = seconds(packed_correlations, network, points, packed.memory)[0]
    facts["tiles"] = facts["kernel"]
    if n <= 5000:
        facts["tiles"] = seconds(LocalTiles, network, 1.0, points, 10**12, None)[0]
    packed.add_to_diagonal(np.full(n, NOISE))
    facts["factor"] = seconds(packed.factor)[0]
    del packed
    facts["cholesky"], exact = seconds(lambda: Posterior(kernel, X[:n], y, NOISE))
    expected = exact.mean(X[n:])
    facts["difference"] = float(np.abs(predicted - expected).max() / np.abs(expected).max())
    facts["cholesky peak"] = peak() - base
    return facts


def entries() -> list[dict]:
    """The kernel for some numbers of features and layers."""
    import numpy as np
    from inputs import make_inputs

    from mnngp import MaxoutKernel
    from mnngp.kernels.evaluate import correlations
    from mnngp.kernels.points import Points

    result = []
    for d in (8, 64, 784):
        points = Points.of("X", make_inputs(4096, d, "unequal"), np.dtype(np.float64))
        rows, cols = points.subset(np.arange(2048)), points.subset(np.arange(2048, 4096))
        for depth in (1, 5, 20):
            network = MaxoutKernel(**{**MODEL, "depth": depth}).network
            correlations(network, rows, cols)
            best = min(seconds(correlations, network, rows, cols)[0] for _ in range(3))
            result.append({"features": d, "depth": depth, "seconds": best / 2048**2})
    return result


def tasks() -> float:
    """Seconds that a task costs the scheduler: many that do nothing, on one thread of this
    process.
    """
    from distributed import Client

    with Client(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
    ) as client:
        client.gather(client.map(abs, range(100)))
        began = time.process_time()
        client.gather(client.map(abs, range(1000, 3000), pure=False))
        return (time.process_time() - began) / 2000


def fitted(stored: dict) -> dict:
    """The costs, by least squares of relative errors, from the sizes in FITTED."""
    import numpy as np
    from scipy.optimize import nnls

    def solve(rows, values):
        weight = 1.0 / np.array(values)
        return nnls(np.array(rows) * weight[:, None], np.ones(len(values)))[0]

    sizes = [fact for fact in stored["sizes"] if fact["n"] in FITTED]
    rows = [[1.0, fact["features"], fact["depth"] + 1.0] for fact in stored["entries"]]
    entry, feature, layer = solve(rows, [fact["seconds"] for fact in stored["entries"]])
    # the level of the kernel from whole matrices, which take their tiles from memory and back
    level = np.mean(
        [
            fact["kernel"]
            / (0.5 * fact["n"] ** 2 * (entry + feature * FEATURES + layer * (MODEL["depth"] + 1)))
            for fact in sizes
        ]
    )
    per_entry = level * (entry + feature * FEATURES + layer * (MODEL["depth"] + 1))
    # What is left of a whole fit without the kernel is the factorisation, with all that is small
    # beside it.
    rest = [fact["cholesky"] - 0.5 * fact["n"] ** 2 * per_entry for fact in sizes]
    (factor,) = solve([[fact["n"] ** 3 / 3.0] for fact in sizes if fact["n"] > 2000], rest[1:])
    # Two or more right-hand sides are products of matrices; one alone is another routine, and is
    # never there.
    rows = [[0.5 * fact["n"] ** 2, 0.5 * fact["n"] ** 2 * k] for fact in sizes for k in (11, 44)]
    product, column = solve(rows, [fact[f"product {k}"] for fact in sizes for k in (11, 44)])
    works, rest = [], []
    for fact in sizes:
        n, rank, iterations, k = fact["n"], fact["rank"], fact["iterations"], TARGETS + 1
        tiles = 0.5 * n**2 * (per_entry + iterations * (product + column * k))
        rest.append(fact["cg"] - tiles - n * rank * per_entry)
        works.append([n * rank**2 + 4.0 * n * rank * k * iterations])
    (root,) = solve(works, np.maximum(rest, 1e-3))
    growth, start = np.polyfit(
        np.log([fact["n"] / 1e4 for fact in sizes]),
        np.log([fact["iterations"] for fact in sizes]),
        1,
    )
    costs = {
        "entry": entry * level,
        "feature": feature * level,
        "layer": layer * level,
        "factor": factor,
        "product": product,
        "column": column,
        "root": root,
        "iterations": np.exp(start),
        "growth": max(0.0, growth),
        "task": stored["task"],
    }
    return {name: float(f"{value:.4g}") for name, value in costs.items()}


def measure(sizes: tuple[int, ...]) -> None:
    from inference import machine

    stored = json.loads(RUNS.read_text()) if RUNS.exists() else {"sizes": []}
    stored["machine"] = machine()
    stored["entries"], stored["task"] = entries(), tasks()
    for n in sizes:
        result = subprocess.run(
            [sys.executable, __file__, "--run", str(n)], capture_output=True, text=True, check=True
        )
        stored["sizes"] = [fact for fact in stored["sizes"] if fact["n"] != n] + [
            json.loads(result.stdout.splitlines()[-1])
        ]
        stored["sizes"].sort(key=lambda fact: fact["n"])
        print(stored["sizes"][-1] if n == sizes[-1] else n, flush=True)
        RUNS.write_text(json.dumps(stored, indent=1))


def cluster(n: int = 20_000, d: int = 20, limit: str = "800MB") -> None:
    """A scheduler and two workers as users start them, whose memory is less than the kernel
    takes.
    """
    import numpy as np
    from distributed import Client

    from mnngp import MaxoutKernel
    from mnngp._system.memory import parse_bytes
    from mnngp.inference import ClusterConjugateGradients, Posterior

    dask = str(Path(sys.executable).with_name("dask"))
    X = np.random.default_rng(0).normal(size=(n + 500, d))
    y = np.sin(X[:n].sum(axis=1) / 3.0)
    kernel = MaxoutKernel(**MODEL)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        options = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", file]
        started = [subprocess.Popen([dask, "scheduler", "--port", "0", *options])]
        while not file.exists():
            time.sleep(0.1)
        command = [
            dask,
            "worker",
            *options,
            "--nthreads",
            "1",
            "--memory-limit",
            limit,
            "--local-directory",
            folder,
        ]
        started += [subprocess.Popen(command) for _ in range(2)]
        try:
            with Client(scheduler_file=str(file)) as client:
                client.wait_for_workers(2)
                began = time.perf_counter()
                ours = Posterior(
                    kernel, X[:n], y, NOISE, solver=ClusterConjugateGradients(scheduler=client)
                )
                wall = time.perf_counter() - began
                peaks = list(client.run(peak).values())
        finally:
            for process in started[::-1]:
                process.terminate()
                process.wait()
    exact = Posterior(kernel, X[:n], y, NOISE).mean(X[n:])
    difference = float(np.abs(ours.mean(X[n:]) - exact).max() / np.abs(exact).max())
    facts = {
        "n": n,
        "features": d,
        "limit": parse_bytes("limit", limit),
        "workers": 2,
        "wall": wall,
        "difference": difference,
    }
    facts |= {
        "peaks": peaks,
        **{name: value for name, value in asdict(ours.report).items() if name != "history"},
    }
    stored = json.loads(RUNS.read_text()) if RUNS.exists() else {"sizes": []}
    RUNS.write_text(json.dumps({**stored, "cluster": facts}, indent=1))
    print(facts)


def write() -> None:
    from mnngp._system.memory import format_bytes
    from mnngp.inference.costs import Costs, Workload, duration, plans

    stored = json.loads(RUNS.read_text())
    costs = fitted(stored)
    machine = stored["machine"]
    COSTS.write_text(json.dumps({"machine": machine, "costs": costs}, indent=1) + "\n")
    known = Costs(**costs)
    text = [
        f"d = {FEATURES}, depth {MODEL['depth']}, {TARGETS} targets, noise {NOISE:g}, one thread, "
        "seconds of the processor. "
        f"{machine['processor']}, {machine['date']}, commit {machine['commit']}. Tiles and "
        f"preconditioner may take {MEMORY}. The "
        f"costs are fitted on n = {', '.join(f'{n:,}' for n in FITTED)} (that of the factorisation "
        "without the first). The model's "
        "seconds of conjugate gradients are for the iterations that there were.",
        "",
        "| n | Cholesky | model | conjugate gradients | model | iterations | model | memory beyond "
        "the data | largest difference |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for fact in stored["sizes"]:
        job = Workload(fact["n"], FEATURES, MODEL["depth"], TARGETS, memory="4GB")
        model = {plan.solver: plan for plan in plans(job, known)}
        given = Workload(
            fact["n"],
            FEATURES,
            MODEL["depth"],
            TARGETS,
            memory="4GB",
            iterations=fact["iterations"],
        )
        iterative = next(plan for plan in plans(given, known) if plan.solver == "cg")
        taken = format_bytes(fact["cg peak"]) if fact["cg peak"] else "–"
        note = {
            SEEN: " (not in the fit, but seen while it was made)",
            CHECKED: " (measured after the fit)",
        }.get(fact["n"], "")
        name = f"{fact['n']:,}{note}"
        text.append(
            f"| {name} | {fact['cholesky']:.3g} s | {model['cholesky'].seconds:.3g} s | "
            f"{fact['cg']:.3g} s | "
            f"{iterative.seconds:.3g} s | {fact['iterations']} | {model['cg'].iterations} | "
            f"{taken} | "
            f"{fact['difference']:.0e} |"
        )
    if "cluster" in stored:
        c = stored["cluster"]
        place = {
            "workers": c["workers"],
            "threads": 1,
            "memory": c["limit"],
            "iterations": c["iterations"],
        }
        made = plans(Workload(c["n"], c["features"], MODEL["depth"], 1, **place), known)
        guess = next(plan for plan in made if plan.solver == "dask")
        text += [
            "",
            f"A kernel that does not fit: n = {c['n']:,}, d = {c['features']}, {format_bytes(c['total'])} "
            f"of tiles, on {c['workers']} "
            f"workers of {format_bytes(c['limit'])} (`dask scheduler`, `dask worker`, loopback): "
            f"{format_bytes(c['kept'])} kept and the others "
            f"computed in each of {c['iterations']} iterations, {c['wall']:.0f} s by the clock. "
            "The workers took "
            f"{format_bytes(max(c['peaks']))} at most. Largest difference from the Cholesky "
            "factorisation, relative to the largest "
            f"prediction: {c['difference']:.0e}. Planned: {guess.seconds:.0f} s and "
            f"{format_bytes(guess.worker_memory)} a worker; the "
            "machine's two cores had other work meanwhile, and the plan leaves out what a Python "
            "process takes by itself.",
        ]
    (HERE / "results" / "large.md").write_text("\n".join(text) + "\n")
    lines = [
        "| n | where | solver | time | memory a worker | over the network | the kernel |",
        "|---|---|---|---|---|---|---|",
    ]
    for n in (10**5, 10**6, 10**7):
        for name, place in CLUSTERS.items():
            plan = plans(Workload(n, FEATURES, MODEL["depth"], TARGETS, **place), known)[0]
            if plan.fits:
                kept = f"{100 * plan.kept:.0f} % kept" if plan.iterations else "factored"
                row = [
                    plan.solver,
                    duration(plan.seconds),
                    format_bytes(plan.worker_memory),
                    format_bytes(plan.traffic) if plan.traffic else "–",
                    kept,
                ]
            else:
                row = ["none fits", "", "", "", ""]
            lines.append(f"| {n:,} | {name} | {' | '.join(row)} |")
    (HERE / "results" / "large-plans.md").write_text("\n".join(lines) + "\n")
    print("\n".join(text + lines))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=sorted((*FITTED, SEEN, CHECKED)))
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(options.run)))
    elif options.cluster:
        cluster()
        write()
    elif options.write:
        write()
    else:
        measure(options.sizes)
        write()


if __name__ == "__main__":
    if os.environ.setdefault("OMP_NUM_THREADS", "1") != "1" or "numpy" in sys.modules:
        raise SystemExit("set OMP_NUM_THREADS=1: the costs are those of one thread")
    main()
