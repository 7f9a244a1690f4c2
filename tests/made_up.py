"""Results that no sweep made, but one could have: for the tests of tables and reports."""

import math
import sqlite3

import numpy as np

from mnngp.experiments.protocol import Group, Protocol, Split
from mnngp.experiments.records import Result, checksum, checksum_of_all
from mnngp.experiments.store import Store

DEPTHS = (1, 5, 9, 13, 17, 21)
BIASES = tuple(2.0 * i / 29.0 for i in range(1, 30, 4))
WEIGHTS = tuple(0.1 + 49.0 * i / 290.0 for i in range(0, 29, 4))


def result(**changes):
    """One finished cell."""
    values = {
        "dataset": "mnist",
        "n_train": 1000,
        "n_validation": 10000,
        "n_test": 10000,
        "repeat": 0,
        "seed": 0,
        "activation": "maxout",
        "rank": 4,
        "kind": "nngp",
        "depth": 5,
        "weight_var": 4.83,
        "bias_var": 0.34,
        "status": "done",
        "validation_accuracy": 0.93,
        "validation_log_loss": 0.3,
        "test_accuracy": 0.935,
        "test_log_loss": 0.29,
        "noise_var": 1e-10,
        "attempts": 1,
        "seconds": 0.02,
        "version": "0.1.0",
        "commit": "4ebd56d",
        "finished": "2026-11-16T03:00:00+00:00",
        "error": None,
    }
    return Result(**values | changes)


def failure(error, **changes):
    """One failed cell."""
    nothing = dict.fromkeys(
        (
            "validation_accuracy",
            "validation_log_loss",
            "test_accuracy",
            "test_log_loss",
            "noise_var",
            "attempts",
        ),
        None,
    )
    return result(status="failed", error=error, **nothing | changes)


def level(dataset, n_train):
    """About what the paper reports at this size."""
    return (
        1.0 - 0.23 * (100.0 / n_train) ** 0.46
        if dataset != "cifar10"
        else 0.25 + 0.055 * math.log(n_train / 100.0)
    )


def grid(
    *,
    dataset="mnist",
    sizes=(1000,),
    repeats=1,
    ranks=(2, 3, 4),
    depths=DEPTHS,
    biases=BIASES,
    weights=WEIGHTS,
    activations=("maxout",),
    kind="nngp",
    seed=0,
    **changes,
):
    """All cells of a grid, with accuracies that vary over it as real ones do: poor where a network
    is too ordered or chaotic.
    """
    rng = np.random.default_rng(seed)
    for n_train in sizes:
        luck = 0.02 * (100.0 / n_train) ** 0.5 * rng.normal(size=repeats)
        for activation in activations:
            for rank in ranks if activation == "maxout" else (None,):
                critical = {None: 2.0, 2: 1.0, 3: 0.784, 4: 0.645}.get(rank, 0.5)
                for depth in depths:
                    for bias in biases:
                        for weight in weights:
                            distance = math.log(weight / critical) - 0.12 * bias
                            loss = (
                                0.008
                                * depth**0.5
                                * (max(-distance, 0.0) ** 1.5 + 0.15 * max(distance, 0.0))
                            )
                            accuracy = level(dataset, n_train) - min(0.6, loss)
                            hard = depth > 15 and distance < -1.5
                            for repeat in range(repeats):
                                value = accuracy + luck[repeat] + 0.003 * rng.normal()
                                yield result(
                                    dataset=dataset,
                                    n_train=n_train,
                                    activation=activation,
                                    rank=rank,
                                    kind=kind,
                                    depth=depth,
                                    bias_var=bias,
                                    weight_var=weight,
                                    repeat=repeat,
                                    seed=1000 + repeat,
                                    validation_accuracy=round(value, 4),
                                    validation_log_loss=round(2.3 * (1.0 - value), 4),
                                    test_accuracy=round(value + 0.002 * rng.normal(), 4),
                                    test_log_loss=round(2.2 * (1.0 - value), 4),
                                    noise_var=1e-7 if hard else 1e-10,
                                    attempts=4 if hard else 1,
                                    seconds=round(
                                        (1e-9 * n_train**2.3 + 2e-8 * n_train**1.7 * depth**0.5)
                                        * rng.uniform(0.9, 1.3),
                                        5,
                                    ),
                                    **changes,
                                )


def stored(path, results, *, title="Made up", repeats=None, **data):
    """A real store with these results, of a protocol that asks for their whole grid."""
    results = list(results)
    families = {}
    for one in results:
        grid = families.setdefault(
            (one.activation, one.kind),
            {name: set() for name in ("rank", "depth", "weight_var", "bias_var", "train")},
        )
        for name in ("rank", "depth", "weight_var", "bias_var"):
            grid[name].add(getattr(one, name))
        grid["train"].add(one.n_train)
    first = results[0]
    protocol = Protocol.of(
        {
            "title": title,
            "data": {
                "name": first.dataset,
                "train": sorted({one.n_train for one in results}),
                "validation": first.n_validation,
                "repeats": repeats or 1 + max(one.repeat for one in results),
                "test": first.n_test,
                **data,
            },
            "family": [
                {"activation": activation, "kind": kind}
                | {name: sorted(values) for name, values in grid.items() if values != {None}}
                for (activation, kind), grid in families.items()
            ],
        }
    )
    store = Store.begin(path, protocol)
    store.add((key(one), one) for one in results)
    return store


def sealed(path):
    """Give a store that was changed checksums that fit, as whoever changes one on purpose can."""
    connection = sqlite3.connect(path, isolation_level=None)
    for number, *row in connection.execute("SELECT rowid, name, value FROM run").fetchall():
        connection.execute("UPDATE run SET checksum = ? WHERE rowid = ?", (checksum(row), number))
    for number, *row, _ in connection.execute("SELECT * FROM cell").fetchall():
        connection.execute("UPDATE cell SET checksum = ? WHERE number = ?", (checksum(row), number))
    rows = connection.execute("SELECT checksum FROM cell").fetchall()
    connection.execute(
        "UPDATE total SET cells = ?, checksum = ?", (len(rows), checksum_of_all(rows))
    )
    connection.close()


def key(one):
    """The name of a result's cell."""
    split = Split(one.n_train, one.repeat)
    return Group(
        split, one.activation, one.rank, one.kind, one.weight_var, one.bias_var, (one.depth,)
    ).key(one.depth)
