"""Training many networks at once beside training them one after the other.

`python benchmarks/finite.py` times a step (an epoch, of 100 points) of the paper's 15 networks of
one shape (5 standard deviations of the weights, 3 of the biases), with 784 inputs, depth 5 and rank
3, for widths 5, 50 and 500,

1. as `mnngp.finite.train` does it: together; 2. one after the other, as everybody writes it: a
module, autograd, `torch.optim.Adam`, a loop; 3. together by the means of PyTorch:
`stack_module_state`, `vmap` of `functional_call`, autograd, one fused Adam; 4. the matrix products
of a step and nothing else: no program can be quicker that computes them with the same library;

and 20 repeats of them with other data, 300 networks of width 5 in one call. In float32, with one
thread, as a sweep's workers do; times are processor seconds of that thread (so that it matters less
what else the machine does), without what comes before the second step. The ways take turns. Some 2
minutes.
"""

import argparse
import os
import platform
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from revision import commit
from rich.console import Console

from mnngp import __version__
from mnngp.finite import MaxoutNetwork, Training, train
from mnngp.finite.stack import Shape

HERE = Path(__file__).parent
DEPTH, RANK, POINTS, INPUTS, CLASSES = 5, 3, 100, 784, 10
STEPS = {5: 60, 50: 15, 500: 3}
RATE = 1e-5


class Clock:
    """Is called before each step."""

    def __init__(self):
        self.ticks = []

    def __call__(self):
        self.ticks.append(time.thread_time())

    def step(self):
        """Seconds of one, without the first."""
        return (self.ticks[-1] - self.ticks[1]) / (len(self.ticks) - 2)


def networks(width, repeats=1):
    return [
        MaxoutNetwork(
            width, RANK, DEPTH, INPUTS, CLASSES, weight_std=weight, bias_std=bias, seed=repeat
        )
        for repeat in range(repeats)
        for weight in (0.001, 0.01, 0.1, 0.5, 1.0)
        for bias in (0.1, 0.5, 1.0)
    ]


def data(*sets):
    random = np.random.default_rng(0)
    X, labels = (
        random.normal(size=(*sets, POINTS, INPUTS)),
        random.integers(0, CLASSES, size=(*sets, POINTS)),
    )
    return X.astype(np.float32), (np.eye(CLASSES)[labels] - 0.1).astype(np.float32)


def together(group, X, Y, steps):
    clock = Clock()
    histories = train(group, X, Y, Training(learning_rate=RATE, epochs=steps + 2), stop=clock)
    assert not any(history.diverged for history in histories)
    return clock.step(), [history.loss[-1] for history in histories]


def one_after_the_other(group, X, Y, steps):
    seconds, losses = 0.0, []
    X, Y = torch.tensor(X), torch.tensor(Y)
    for network in group:
        clock, optimizer = Clock(), torch.optim.Adam(network.parameters(), lr=RATE)
        for _ in range(steps + 2):
            clock()
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(network(X), Y)
            loss.backward()
            optimizer.step()
        seconds += clock.step()
        losses.append(loss.item())
    return seconds, losses


def by_vmap(group, X, Y, steps):
    parameters, buffers = torch.func.stack_module_state(group)
    X, Y, base = torch.tensor(X), torch.tensor(Y), group[0]

    def loss_of(parameters, buffers):
        return torch.nn.functional.mse_loss(
            torch.func.functional_call(base, (parameters, buffers), (X,)), Y
        )

    losses_of = torch.func.vmap(loss_of)
    clock, optimizer = Clock(), torch.optim.Adam(parameters.values(), lr=RATE, fused=True)
    for _ in range(steps + 2):
        clock()
        optimizer.zero_grad()
        losses = losses_of(parameters, buffers)
        losses.sum().backward()
        optimizer.step()
    return clock.step(), losses.tolist()


def products(group, steps):
    """Forward, and backward with respect to the weights and, but for the first layer, to what came
    in.
    """
    count, clock = len(group), Clock()
    maps = []
    for layer, (rows, columns) in enumerate(Shape.of(group[0]).maps):
        # the first layer of all networks is one product
        sets, height = (count, rows) if layer else (1, count * rows)
        maps.append(
            [
                torch.rand(sets, *size)
                for size in ((height, columns), (columns, POINTS), (height, POINTS))
            ]
        )
    results = [[torch.empty_like(part) for part in parts] for parts in maps]
    for _ in range(steps + 2):
        clock()
        for layer, ((W, H, dZ), (dW, dH, Z)) in enumerate(zip(maps, results, strict=True)):
            torch.bmm(W, H, out=Z)
            torch.bmm(dZ, H.mT, out=dW)
            if layer:
                torch.bmm(W.mT, dZ, out=dH)
    return clock.step()


def measure(width, turns):
    """Medians of the seconds of a step in the four ways, and of the ratios to the first."""
    X, Y = data()
    ways, ratios, difference = [], [], 0.0
    for _ in range(turns + 1):  # the first one imports, and takes memory
        results = [
            way(networks(width), X, Y, STEPS[width])
            for way in (together, one_after_the_other, by_vmap)
        ]
        ways.append([seconds for seconds, _ in results] + [products(networks(width), STEPS[width])])
        ratios.append([seconds / ways[-1][0] for seconds in ways[-1]])
        expected = np.array(results[1][1])
        difference = max(
            difference,
            *(np.max(np.abs(np.array(losses) / expected - 1.0)) for _, losses in results),
        )
    return np.median(ways[1:], axis=0), np.median(ratios[1:], axis=0), difference


def repeats(turns):
    """Seconds of a step of a network: 20 repeats in one call, and one repeat."""
    many, few = data(20), data()
    pairs = [
        (
            together(networks(5, 20), *many, 10)[0] / 300,
            together(networks(5), *few, STEPS[5])[0] / 15,
        )
        for _ in range(turns + 1)
    ][1:]
    return statistics.median(one for one, _ in pairs), statistics.median(
        other / one for one, other in pairs
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=3, help="of which the medians count")
    arguments = parser.parse_args()
    console = Console()
    torch.set_num_threads(1)
    rows, difference = [], 0.0
    for width in STEPS:
        with console.status(f"width {width}"):
            seconds, ratios, apart = measure(width, arguments.turns)
        difference = max(difference, apart)
        ours, loop, vmap, _ = 1e3 * seconds
        rows.append(
            f"| {width} | {ours:.1f} | {loop:.0f} | {ratios[1]:.1f} | {vmap:.0f} | {ratios[2]:.1f} "
            f"| {100 * ratios[3]:.0f} % |"
        )
        console.print(rows[-1])
    with console.status("20 repeats"):
        each, gain = repeats(arguments.turns)
    lines = [
        "# Training many networks at once",
        "",
        f"- machine: {platform.machine()}, {os.cpu_count()} cores, load average at the end "
        f"{os.getloadavg()[0]:.1f}",
        f"- mnngp {__version__} ({commit()}), PyTorch {torch.__version__}, "
        f"{datetime.now(UTC):%Y-%m-%d}",
        f"- 15 networks of depth {DEPTH} and rank {RANK}, {INPUTS} inputs, {POINTS} points in one "
        "batch, Adam, float32, one thread",
        f"- medians of {arguments.turns} turns, processor time of a step of all 15",
        f"- the losses after the last step differ by at most {difference:.0e} of their size "
        "between the ways",
        "- command: `python benchmarks/finite.py`",
        "",
        "| width | together, ms | one after the other, ms | ratio | `torch.func.vmap`, ms | ratio "
        "| share of matrix products |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *rows,
        "",
        f"20 repeats of width 5 with data of their own in one call, 300 networks: {1e6 * each:.0f} "
        "µs a network and step, "
        f"{gain:.1f} times as fast as 15 in a call.",
    ]
    path = HERE / "results" / "finite.md"
    path.write_text("\n".join(lines) + "\n")
    console.print(path.read_text(), markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
