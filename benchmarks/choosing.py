"""How long choosing takes, on an idle machine and beside two busy processes.

    python benchmarks/choosing.py

A classifier and a regressor that choose everything by themselves, on made-up tables of 20 columns.
Each is fitted with all cores and with one thread (OMP_NUM_THREADS=1), each alone on the machine and
beside two processes that only count; all take turns, in processes of their own that have compiled
before, and medians are shown. What must hold: beside others, all cores take at most twice the time
of one thread. (Threads that wait for each other would take many times as long.)
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from revision import commit

HERE = Path(__file__).parent
SIZES = (300, 1000, 5000, 10_000)
COUNT = "while True: pass"


def table(n: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(n, 20))
    return X, np.sin(X[:, 0] * X[:, 1]) + X[:, 2] + 0.3 * np.random.default_rng(1).normal(size=n)


def fit(task: str, n: int) -> float:
    """Seconds of one fit, after a small one that compiles."""
    import mnngp

    X, y = table(n)
    classifying = task == "classifier"
    model = (mnngp.MaxoutGPClassifier if classifying else mnngp.MaxoutGPRegressor)(random_state=0)
    target = np.digitize(y, (-0.5, 0.5)) if classifying else y
    model.fit(X[:100], target[:100])
    start = time.perf_counter()
    model.fit(X, target)
    return time.perf_counter() - start


def measured(task: str, n: int, *, one_thread: bool) -> float:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    if one_thread:
        environment |= dict.fromkeys(names, "1")
    command = [sys.executable, __file__, "--fit", task, str(n)]
    return float(
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    )


@contextmanager
def busy(count: int):
    others = [subprocess.Popen([sys.executable, "-c", COUNT]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def main(turns: int) -> None:
    rows = []
    for task in ("classifier", "regressor"):
        for n in SIZES:
            times: dict[str, list[float]] = {}
            for _ in range(turns):
                for load, others in (("idle", 0), ("busy", 2)):
                    for threads in ("all cores", "one thread"):
                        with busy(others):
                            seconds = measured(task, n, one_thread=threads == "one thread")
                        times.setdefault(f"{load}, {threads}", []).append(seconds)
            medians = {name: statistics.median(values) for name, values in times.items()}
            rows.append({"task": task, "n": n, **medians, "turns": times})
            print(rows[-1], flush=True)
    about = (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, {datetime.now(UTC).date()}, "
        f"commit {commit()}"
    )
    (HERE / "results" / "choosing.json").write_text(
        json.dumps({"machine": about, "turns": turns, "rows": rows}, indent=1) + "\n"
    )
    write_table()


def write_table() -> None:
    stored = json.loads((HERE / "results" / "choosing.json").read_text())
    names = ("idle, all cores", "idle, one thread", "busy, all cores", "busy, one thread")
    text = [
        f"Seconds to fit with nothing given, 20 columns; medians of {stored['turns']} turns. "
        f"{stored['machine']}.",
        "",
        f"| | n | {' | '.join(names)} | busy, all cores to one thread |",
        f"|---|---|{'---|' * (len(names) + 1)}",
    ]
    for row in stored["rows"]:
        seconds = " | ".join(f"{row[name]:.2f}" for name in names)
        text.append(
            f"| {row['task']} | {row['n']:,} | {seconds} | "
            f"{row['busy, all cores'] / row['busy, one thread']:.2f} |"
        )
    (HERE / "results" / "choosing.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--fit", nargs=2, metavar=("TASK", "N"), help="print the seconds of one fit"
    )
    arguments = parser.parse_args()
    if arguments.fit:
        print(fit(arguments.fit[0], int(arguments.fit[1])))
    else:
        main(arguments.turns)
