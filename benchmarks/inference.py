"""Fitting and predicting beside the bare BLAS and LAPACK calls that any exact method needs: time
and memory.

    python benchmarks/inference.py            n = 10,000, as in the table of the documentation
    python benchmarks/inference.py --large    n = 50,000 in float64 on one machine, with a progress
    bar (10 GB, some 10 minutes)

The bare side: the Gram matrix of the training points, that of the test points with them, one packed
Cholesky factorisation (dpftrf), the solves for all targets (dpftrs) and the product that gives the
means. The two sides take turns; medians are compared. Memory is what the process grows by at most
over what it held with the data loaded and everything compiled.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil
from inputs import make_inputs, read_idx
from revision import commit
from rich.console import Console
from scipy.linalg.lapack import dpftrf, dpftrs, dtrttf, spftrf, spftrs, strttf
from threadpoolctl import threadpool_info

import mnngp
from mnngp.estimators.features import Scaling
from mnngp.inference.solvers.packed import Packed
from mnngp.kernels.evaluate import packed_correlations

HERE = Path(__file__).parent
MODEL = {
    "depth": 5,
    "rank": 4,
    "weight_var": 0.6,
    "bias_var": 0.1,
    "kind": "nngp",
    "noise_var": 1e-3,
}
TRIAL = 6000  # points that --large judges the machine by


def data(
    n: int, m: int, d: int, lengths: str, targets: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = make_inputs(n + m, d, lengths)
    y = np.tanh(X[:, :targets] + X[:, targets : 2 * targets])
    return X[:n].copy(), y[:n], X[n:].copy()


def bare(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> float:
    """Seconds for what any exact method has to do, and nothing else. The numbers do not matter: a
    linear kernel stands for ours.
    """
    n = len(X)
    factorise, solve, pack = (
        (spftrf, spftrs, strttf) if X.dtype == np.float32 else (dpftrf, dpftrs, dtrttf)
    )
    targets = np.asfortranarray(y.astype(X.dtype))
    start = time.perf_counter()
    gram = X @ X.T
    seconds = time.perf_counter() - start
    gram[np.diag_indices(n)] += n
    packed, _ = pack(gram.T, uplo="L")
    del gram
    start = time.perf_counter()
    factor, info = factorise(n, packed, uplo="L", overwrite_a=1)
    assert info == 0
    alpha, info = solve(n, factor, targets, uplo="L")
    assert info == 0
    for first in range(0, len(new), 1000):
        (new[first : first + 1000] @ X.T) @ alpha
    return seconds + time.perf_counter() - start


def ours(
    X: np.ndarray,
    y: np.ndarray,
    new: np.ndarray,
    dtype: str,
    *,
    variance: bool = False,
    **arguments,
) -> np.ndarray:
    model = mnngp.MaxoutGPRegressor(**MODEL, normalize=None, dtype=dtype, **arguments).fit(X, y)
    return model.predict(new, return_std=True)[1] if variance else model.predict(new)


def timed(function, *arguments, **keywords) -> float:
    start = time.perf_counter()
    function(*arguments, **keywords)
    return time.perf_counter() - start


def memory(n: int, m: int, d: int, lengths: str, targets: int, dtype: str) -> float:
    """Bytes that the process grows by at most, in a process of its own."""
    result = subprocess.run(
        [sys.executable, __file__, "--memory-of", *map(str, (n, m, d, lengths, targets, dtype))],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(result.stdout)


def memory_of(n: str, m: str, d: str, lengths: str, targets: str, dtype: str) -> None:
    X, y, new = data(int(n), int(m), int(d), lengths, int(targets))
    ours(X[:300], y[:300], new[:300], dtype)  # compiles, or loads what was compiled
    process, seen, over = psutil.Process(), [], threading.Event()

    def watch() -> None:
        while not over.wait(0.002):
            seen.append(process.memory_info().rss)

    before = process.memory_info().rss
    watcher = threading.Thread(target=watch)
    watcher.start()
    ours(X, y, new, dtype)
    over.set()
    watcher.join()
    print(max(seen) - before)


def machine() -> dict:
    processor = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "?",
    )
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "processor": processor,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mnngp": mnngp.__version__,
        "blas": threadpool_info()[0]["internal_api"],
        "threads": threadpool_info()[0]["num_threads"],
    }


def choosing() -> dict[str, float]:
    """Seconds to fit a classifier that chooses everything by itself: made-up tables of 20 columns
    and 3 classes.
    """
    result = {}
    for n in (1000, 10_000):
        X = np.random.default_rng(0).normal(size=(n, 20))
        y = np.digitize(
            np.sin(X[:, 0] * X[:, 1]) + X[:, 2] + 0.3 * np.random.default_rng(1).normal(size=n),
            (-0.5, 0.5),
        )
        result[str(n)] = statistics.median(
            timed(mnngp.MaxoutGPClassifier(random_state=0).fit, X, y) for _ in range(3)
        )
    return result


def compare(n: int, m: int, d: int, targets: int, turns: int) -> None:
    cases = [("equal", "float64"), ("unequal", "float64"), ("unequal", "float32")]
    rows = []
    for lengths, dtype in cases:
        X, y, new = data(n, m, d, lengths, targets)
        inputs = X.astype(dtype), y, new.astype(dtype)
        ours(X[:300], y[:300], new[:300], dtype)
        bare(X[:300].astype(dtype), y[:300], new[:300].astype(dtype))
        times: dict[str, list[float]] = {"bare": [], "ours": [], "with std": []}
        for _ in range(turns):
            times["bare"].append(bare(*inputs))
            times["ours"].append(timed(ours, X, y, new, dtype))
        times["with std"].append(timed(ours, X, y, new, dtype, variance=True))
        row = {
            "lengths": lengths,
            "dtype": dtype,
            **{side: statistics.median(values) for side, values in times.items()},
            "ratio": statistics.median(
                a / b for a, b in zip(times["ours"], times["bare"], strict=True)
            ),
            "memory": memory(n, m, d, lengths, targets, dtype),
            "turns": times,
        }
        row["memory_of_matrix"] = row["memory"] / (n * n * np.dtype(dtype).itemsize)
        rows.append(row)
        print(row, flush=True)
    setting = {"n": n, "test points": m, "d": d, "targets": targets, "turns": turns, **MODEL}
    stored = {"machine": machine(), "setting": setting, "rows": rows, "choosing": choosing()}
    (HERE / "results" / "inference.json").write_text(json.dumps(stored, indent=1))
    write_table()


def write_table() -> None:
    """The Markdown that the documentation shows, from the stored numbers."""
    folder = HERE / "results"
    text = []
    if (folder / "inference.json").exists():
        stored = json.loads((folder / "inference.json").read_text())
        s, m = stored["setting"], stored["machine"]
        text += [
            f"n = {s['n']:,} training points, {s['test points']:,} test points, d = {s['d']}, "
            f"{s['targets']} targets, "
            f"depth {s['depth']}; medians of {s['turns']} turns. {m['processor']}, {m['cores']} "
            f"cores, {m['date']}, "
            f"commit {m['commit']}.",
            "",
            "| points | type | bare BLAS and LAPACK | fit and predict | ratio | with deviations | "
            "memory beyond the data |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in stored["rows"]:
            text.append(
                f"| {row['lengths']} lengths | {row['dtype']} | {row['bare']:.1f} s | "
                f"{row['ours']:.1f} s | {row['ratio']:.2f} | "
                f"{row['with std']:.1f} s | {row['memory'] / 1e6:.0f} MB, "
                f"{row['memory_of_matrix']:.2f} of a full matrix |"
            )
        times = ", ".join(
            f"n = {int(n):,}: {seconds:.1f} s" for n, seconds in stored["choosing"].items()
        )
        text += [
            "",
            "A classifier that chooses everything by itself (20 columns, 3 classes; "
            f"medians of 3 fits): {times}.",
        ]
    if (folder / "large.json").exists():
        large = json.loads((folder / "large.json").read_text())
        accuracy = f", accuracy {large['accuracy']:.4f}" if large["accuracy"] else ""
        text += [
            "",
            f"n = {large['n']:,} ({large['data']}), float64, {large['machine']['cores']} cores: "
            "fitted in "
            f"{large['fit'] / 60:.1f} minutes, {large['test points']:,} points predicted in "
            f"{large['predict']:.0f} s, peak memory "
            f"of the process {large['peak'] / 1e9:.1f} GB{accuracy}. Commit "
            f"{large['machine']['commit']}.",
        ]
    (folder / "inference.md").write_text("\n".join(text) + "\n")
    Console().print("\n".join(text), markup=False)


def estimate(X: np.ndarray) -> float:
    """Seconds to fit all points, roughly, from some of them: entries of the kernel grow with the
    square, the factorisation's operations with the cube. The few are enough for BLAS to be at its
    full speed; a first round compiles.
    """
    seconds = 0.0
    for n in (300, min(len(X), TRIAL)):
        kernel = mnngp.MaxoutKernel(
            **{name: value for name, value in MODEL.items() if name != "noise_var"}
        )
        points, _ = kernel.points(Scaling.of("sphere", X[:n], None)(X[:n]))
        packed = Packed(n, np.float64)
        entries = timed(packed_correlations, kernel.network, points, packed.memory)
        packed.add_to_diagonal(np.full(n, MODEL["noise_var"]))
        seconds = entries * (len(X) / n) ** 2 + timed(packed.factor) * (len(X) / n) ** 3
    return seconds


def large(n: int, m: int, mnist: str | None) -> None:
    """One exact fit of a size that fills a machine; says beforehand what it will take."""
    if mnist:
        kinds = (
            "train-images-idx3-ubyte",
            "train-labels-idx1-ubyte",
            "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte",
        )
        images, labels, new, answers = (read_idx(Path(mnist), name) for name in kinds)
        X, new = (part.reshape(len(part), -1).astype(np.float64) for part in (images[:n], new[:m]))
        labels, answers = labels[:n], answers[:m]
    else:
        X, y, new = data(n, m, 784, "equal", 10)
        labels, answers = y.argmax(axis=1), None
    size = len(X) * (len(X) + 1) / 2 * 8
    seconds = estimate(X)
    Console().print(
        f"n = {len(X):,}: {size / 1e9:.1f} GB for the factor, about "
        f"{(size + 4 * X.nbytes) / 1e9:.1f} GB in all, roughly "
        + (f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes")
        + f" (from the speed at n = {min(len(X), TRIAL):,}). Ctrl-C ends it."
    )
    start = time.perf_counter()
    model = mnngp.MaxoutGPClassifier(
        **MODEL, signal_var=1.0, normalize="sphere", progress=True
    ).fit(X, labels)
    fitted = time.perf_counter() - start
    start = time.perf_counter()
    predicted = model.predict(new)
    done = time.perf_counter() - start
    result = {
        "machine": machine(),
        "n": len(X),
        "test points": len(new),
        "data": "MNIST" if mnist else "made up",
        "fit": fitted,
        "predict": done,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "model": MODEL,
        "report": vars(model.report_),
        "accuracy": float(np.mean(predicted == answers)) if mnist else None,
    }
    print(json.dumps(result, indent=1))
    if len(X) >= 50_000:
        (HERE / "results" / "large.json").write_text(json.dumps(result, indent=1))
        write_table()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, help="training points (10,000; 50,000 with --large)")
    parser.add_argument("--test", type=int, default=10_000, help="test points")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="one fit of n = 50,000")
    parser.add_argument(
        "--mnist",
        metavar="DIR",
        help="with --large: a folder with MNIST's four files, instead of made-up data",
    )
    parser.add_argument("--memory-of", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        memory_of(*options.memory_of)
    elif options.large:
        large(options.n or 50_000, options.test, options.mnist)
    else:
        compare(options.n or 10_000, options.test, 784, 10, options.turns)


if __name__ == "__main__":
    main()
