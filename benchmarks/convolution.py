"""Convolutional kernels beside neural-tangents': time a pair of images; and how it grows.

    python benchmarks/convolution.py --peer .venv-neural-tangents/bin/python

`make bench` runs this, too. Five layers of 3 × 3 windows and rank-2 maxout, which is the peer's
ReLU kernel by proposition 1, on images of 32 × 32 × 3. The sides take turns, and medians are
compared. The peer runs twice: JAX as it is, whose numbers have 32 bits, and with 64 bits enabled,
where it is sometimes faster, also for float32. An update is one activation of one pair of
positions.
"""

import argparse
import platform
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from inputs import make_images
from peer import Peer
from rich.progress import track

import mnngp
from mnngp import Conv, Flatten, GlobalAvgPool, Maxout, NetworkKernel

HERE = Path(__file__).parent
SETTING = {"depth": 5, "side": 32, "weight_var": 2.0, "bias_var": 0.1}
CASES = [
    {"readout": readout, "dtype": dtype, "kind": kind, "n": n, "m": m, "peer_n": p, "peer_m": q}
    for readout, dtype, kind, n, m, p, q in (
        ("global", "float32", "nngp", 64, 64, 1, 2),
        ("flatten", "float32", "nngp", 1024, 1024, 64, 128),
        ("global", "float64", "nngp", 32, 32, 1, 1),
        ("flatten", "float64", "nngp", 256, 512, 64, 128),
        ("flatten", "float32", "ntk", 256, 512, 64, 128),
    )
]


def kernel_of(case: dict) -> NetworkKernel:
    """Rank-2 maxout with half the weight variance, on √2 times the images."""
    readout = GlobalAvgPool() if case["readout"] == "global" else Flatten()
    layers = [*[Conv(3), Maxout(2)] * case["depth"], readout]
    weights, biases = case["weight_var"] / 2.0, case["bias_var"]
    return NetworkKernel(layers, weights, biases, case["kind"], case["dtype"])


def updates(case: dict) -> float:
    positions = case["side"] ** 2
    return case["depth"] * float(positions**2 if case["readout"] == "global" else positions)


def seconds_of(case: dict) -> float:
    """A pair's share of a whole kernel matrix, everything included."""
    images = np.sqrt(2.0) * make_images(case["n"] + case["m"], case["side"], case["dtype"])
    kernel, images = kernel_of(case), images.astype(case["dtype"])
    x, y = images[: case["n"]], images[case["n"] :]
    start = time.perf_counter()
    kernel(x, y)
    return (time.perf_counter() - start) / (len(x) * len(y))


def compare(case: dict, peers: dict[str, Peer], turns: int) -> dict:
    small = np.sqrt(2.0) * make_images(case["peer_n"] + case["peer_m"], case["side"], case["dtype"])
    small = small.astype(case["dtype"])
    found = kernel_of(case)(small[: case["peer_n"]], small[case["peer_n"] :])
    modes = [mode for mode in peers if mode == "x64" or case["dtype"] == "float32"]
    mine, theirs, answer = [], {mode: [] for mode in modes}, None
    for _ in range(turns):
        for mode in modes:
            answer = peers[mode].ask(case)
            theirs[mode].append(answer["seconds"])
        mine.append(seconds_of(case))
    result = {
        "ms": 1e3 * statistics.median(mine),
        "updates": updates(case) / statistics.median(mine),
    }
    result["peer_ms"] = {mode: 1e3 * statistics.median(times) for mode, times in theirs.items()}
    if answer is not None:
        reference = np.array(answer["values"])
        result["difference"] = float(np.abs(found / reference - 1.0).max())
    return {**case, **result}


def growth(turns: int) -> list[str]:
    """With the number of positions, of images, and of layers; float32, global pooling."""
    base = {**SETTING, "readout": "global", "dtype": "float32", "kind": "nngp", "n": 16, "m": 16}
    lines = []
    for name, values in (("side", (8, 16, 32)), ("n", (16, 32, 64)), ("depth", (3, 5, 10, 20))):
        for value in values:
            case = {**base, "side": 16, name: value}
            seconds = statistics.median(seconds_of(case) for _ in range(turns))
            billions = updates(case) / seconds / 1e9
            lines.append(f"| {name} = {value} | {1e3 * seconds:.3g} | {billions:.2f} |")
    return lines


def main(python: str | None, turns: int) -> None:
    peers = (
        {mode: Peer(python, "peer_convolution.py", mode) for mode in ("x32", "x64")}
        if python
        else {}
    )
    version = peers["x64"].version if peers else "no peer"
    results = [compare({**SETTING, **case}, peers, turns) for case in track(CASES, "networks")]
    text = [
        "# A pair of images, 32 × 32 × 3, five layers of 3 × 3",
        "",
        f"Made by `make bench`; {datetime.now(UTC):%Y-%m-%d}, mnngp {mnngp.__version__}, "
        f"Python {platform.python_version()}; {version}; medians of "
        f"{turns} turns, whole matrices, everything included.",
        "",
        "| readout | kind | type | mnngp ms | billion updates/s | peer ms | ratio "
        "| peer ms, 64 bits enabled | ratio | difference |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for found in results:
        theirs = []
        for mode in ("x32", "x64"):
            time_of = found["peer_ms"].get(mode)
            theirs += [f"{time_of:.3g}", f"{time_of / found['ms']:.0f}"] if time_of else ["-", "-"]
        theirs.append(f"{found['difference']:.1e}" if "difference" in found else "-")
        text.append(
            f"| {found['readout']} | {found['kind']} | {found['dtype']} | {found['ms']:.3g} "
            f"| {found['updates'] / 1e9:.2f} | {' | '.join(theirs)} |"
        )
    text += ["", "Growth, 16 × 16 images and global pooling where nothing else is said:", ""]
    text += ["| | ms a pair | billion updates/s |", "| --- | --- | --- |", *growth(turns)]
    (HERE / "results" / "convolution.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="a Python that has neural-tangents")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    main(options.peer, options.turns)
