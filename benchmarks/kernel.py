"""Kernel matrices beside neural-tangents' ReLU kernel: time, memory, agreement; and what importing
and compiling cost.

`make bench` runs this. By proposition 1 rank-2 maxout on √2 x with half the weight variance is that
ReLU kernel, so both sides compute the same numbers; other ranks cost the same. The two sides take
turns, and medians are compared.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from inputs import make_inputs
from peer import Peer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_info

import mnngp

HERE = Path(__file__).parent
SETTING = {"n": 4000, "d": 784, "depth": 21, "weight_var": 1.5625, "bias_var": 0.16}
CASES = [
    {"lengths": lengths, "dtype": dtype, "kind": kind, "target": target}
    for lengths, dtype, kind, target in (
        ("unequal", "float64", "nngp", 10),
        ("unequal", "float32", "nngp", 15),
        ("equal", "float64", "nngp", 25),
        ("equal", "float32", "nngp", None),
        ("unequal", "float64", "ntk", None),
        ("equal", "float64", "ntk", None),
    )
]


def ours(case: dict) -> tuple[mnngp.MaxoutKernel, np.ndarray]:
    kernel = mnngp.MaxoutKernel(
        case["depth"],
        2,
        weight_var=case["weight_var"] / 2.0,
        bias_var=case["bias_var"],
        kind=case["kind"],
        dtype=case["dtype"],
    )
    return kernel, (np.sqrt(2.0) * make_inputs(case["n"], case["d"], case["lengths"])).astype(
        case["dtype"]
    )


def timed(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def compare(case: dict, peer: Peer | None, repeats: int) -> dict:
    kernel, X = ours(case)
    corner = kernel(X)[:40, :40]
    mine, theirs, gram = [], [], []
    for _ in range(repeats):
        # In each turn a side first runs once unmeasured: the other's turn has left it cold caches
        # and scattered memory.
        if peer is not None:
            peer.ask(case)
            answer = peer.ask(case)
            theirs.append(answer["seconds"])
        mine += [timed(lambda: kernel(X)) for _ in range(4)][1:]
        gram += [timed(lambda: np.matmul(X, X.T)) for _ in range(3)][1:]
    result = {"mnngp_seconds": statistics.median(mine), "gram_seconds": statistics.median(gram)}
    if peer is not None:
        # Off the diagonal: neural-tangents takes the arc cosine of one there, and its tangent
        # kernel is then off by 1e-8.
        reference, off = np.array(answer["corner"]), ~np.eye(40, dtype=bool)
        scale = np.sqrt(np.outer(np.diag(reference), np.diag(reference)))
        result |= {
            "peer_seconds": statistics.median(theirs),
            "ratio": statistics.median(theirs) / statistics.median(mine),
            "difference": float((np.abs(corner - reference) / scale)[off].max()),
        }
    return result


MEMORY = """
import json, re, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from kernel import ours
case = json.loads({case!r})
kernel, X = ours(case)
kernel(X[:300])
status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
megabytes = lambda name: int(re.search(name + r":\\s+(\\d+) kB", status.read_text())[1]) * 1.024e-3
reset.write_text("5")  # the peak counts from here
before = megabytes("VmRSS")
K = kernel(X)
print(megabytes("VmHWM") - before - K.nbytes / 1e6)
"""


def extra_memory(case: dict) -> float:
    """Megabytes at the peak, beyond the result, in a fresh process."""
    code = MEMORY.format(here=str(HERE), case=json.dumps(case))
    return float(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
    )


def seconds_of(code: str, repeats: int, **environment: str) -> float:
    command = [sys.executable, "-c", code]
    return statistics.median(
        timed(lambda: subprocess.run(command, check=True, env={**os.environ, **environment}))
        for _ in range(repeats)
    )


def start_up() -> dict:
    """What a process pays before it computes."""
    first = "import numpy as np, mnngp; mnngp.MaxoutKernel()(np.eye(3))"
    with tempfile.TemporaryDirectory() as folder:
        compiling = seconds_of(first, 1, NUMBA_CACHE_DIR=folder)
        loading = seconds_of(first, 3, NUMBA_CACHE_DIR=folder)
    mnngp_command = Path(sys.executable).with_name("mnngp")
    help_seconds = statistics.median(
        timed(lambda: subprocess.run([mnngp_command, "--help"], check=True, capture_output=True))
        for _ in range(7)
    )
    alone = "import sklearn.gaussian_process"
    both = alone + "; from mnngp import Maxout, MaxoutKernel, theory; MaxoutKernel()"
    # in turn, for the machine's moods
    more = statistics.median(seconds_of(both, 1) - seconds_of(alone, 1) for _ in range(11))
    return {
        "import_seconds_beyond_sklearn": more,
        "help_seconds": help_seconds,
        "first_matrix_compiling_seconds": compiling,
        "first_matrix_cached_seconds": loading,
    }


def activations() -> dict:
    """How long a new rank takes, in a fresh process each."""
    code = (
        "import time; from mnngp import Maxout; t = time.perf_counter(); Maxout({rank}).profile; "
        "print(time.perf_counter() - t)"
    )
    return {
        f"maxout_{rank}_seconds": statistics.median(
            float(
                subprocess.run(
                    [sys.executable, "-c", code.format(rank=rank)],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for _ in range(3)
        )
        for rank in (2, 4, 16, 64, 256)
    }


def machine() -> dict:
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "",
    )
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        cwd=HERE,
        check=False,
    ).stdout.strip()
    blas = next((pool for pool in threadpool_info() if pool["user_api"] == "blas"), {})
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": git,
        "cpu": model or platform.processor(),
        "cores": os.cpu_count(),
        "blas": f"{blas.get('internal_api')} {blas.get('version')}, {blas.get('num_threads')} "
        f"threads, {blas.get('architecture')}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mnngp": mnngp.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--peer",
        help="the Python of an environment with neural-tangents; without it only our side is timed",
    )
    parser.add_argument("--repeats", type=int, default=3, help="turns of each side")
    arguments = parser.parse_args()
    facts, console = machine(), Console(width=120)
    peer = Peer(arguments.peer, "peer_neural_tangents.py") if arguments.peer else None
    facts |= {"peer": peer.version if peer else None, "turns": arguments.repeats}
    rows = []
    for case in track(CASES, description="comparing", console=console, transient=True):
        full = SETTING | {name: case[name] for name in ("lengths", "dtype", "kind")}
        rows.append(
            case | compare(full, peer, arguments.repeats) | {"extra_megabytes": extra_memory(full)}
        )
    other = start_up() | activations()

    title = (
        f"Kernel matrix, n = {SETTING['n']}, d = {SETTING['d']}, depth {SETTING['depth']}, Gram "
        "matrix included"
    )
    header = [
        "kind",
        "lengths",
        "type",
        "mnngp s",
        "peer s",
        "ratio",
        "target",
        "difference",
        "bare X Xᵀ s",
        "memory beyond result MB",
    ]
    lines = [
        [
            row["kind"],
            row["lengths"],
            row["dtype"],
            f"{row['mnngp_seconds']:.3f}",
            f"{row['peer_seconds']:.2f}" if peer else "-",
            f"{row['ratio']:.1f}" if peer else "-",
            f"{row['target']}" if row["target"] else "-",
            f"{row['difference']:.1e}" if peer else "-",
            f"{row['gram_seconds']:.3f}",
            f"{row['extra_megabytes']:.0f}",
        ]
        for row in rows
    ]
    table = Table(*header, title=title)
    for line in lines:
        table.add_row(*line)
    console.print(table)
    for name, value in other.items():
        console.print(f"{name.replace('_', ' '):>36}  {value:.3f}")

    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / "kernel.json").write_text(
        json.dumps({"machine": facts, "setting": SETTING, "rows": rows, "other": other}, indent=1)
        + "\n"
    )
    report = [
        f"# {title}",
        "",
        "Made by `make bench`. The peer is neural-tangents' jitted ReLU kernel after warm-up; "
        "medians of runs in turn.",
        "",
    ]
    report += [f"- {name}: {value}" for name, value in facts.items()] + [""]
    report += [
        "| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *lines)
    ] + [""]
    report += ["| start-up and set-up | seconds |", "| --- | --- |"]
    report += [
        f"| {name.removesuffix('_seconds').replace('_', ' ')} | {value:.3f} |"
        for name, value in other.items()
    ]
    (results / "kernel.md").write_text("\n".join(report) + "\n")
    console.print(f"written: {results / 'kernel.md'}")


if __name__ == "__main__":
    main()
