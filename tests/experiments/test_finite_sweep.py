"""Networks of finite width in sweeps: the numbers are those of networks trained by themselves, and
the rest is as for all cells.
"""

import json
import math
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mnngp.commands.sweep import Display
from mnngp.data import load, standardised
from mnngp.errors import InputError
from mnngp.experiments import (
    cells,
    comparison,
    figures,
    panels,
    rendering,
    report,
    runner,
    selection,
)
from mnngp.experiments.database import StoreError
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.records import Watcher, columns
from mnngp.experiments.store import Store
from mnngp.finite import MaxoutNetwork, Training, predict, train
from tests import without
from tests.made_up import result, sealed

MNNGP = Path(sys.executable).with_name("mnngp")
FINITE = {
    "kind": "finite",
    "width": [5, 20],
    "rank": [2, 3],
    "depth": [1, 3],
    "weight_std": [0.01, 0.1],
    "bias_std": [0.1, 1.0],
}
TRAINING = {"learning_rate": 0.003, "epochs": 30, "batch_size": 32}
INFINITE = {
    "activation": "maxout",
    "rank": [2, 3],
    "depth": [1, 3],
    "weight_var": 1.0,
    "bias_var": 0.1,
}


# What mnngp wrote before networks of finite width, to the letter.
FORMAT_1 = """
CREATE TABLE run (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE cell (key TEXT PRIMARY KEY, "dataset" TEXT NOT NULL, "n_train" INTEGER NOT NULL, "n_validation" INTEGER NOT NULL, \
"n_test" INTEGER NOT NULL, "repeat" INTEGER NOT NULL, "seed" INTEGER NOT NULL, "activation" TEXT NOT NULL, "rank" INTEGER, \
"kind" TEXT NOT NULL, "depth" INTEGER NOT NULL, "weight_var" REAL NOT NULL, "bias_var" REAL NOT NULL, "status" TEXT NOT NULL, \
"validation_accuracy" REAL, "validation_log_loss" REAL, "test_accuracy" REAL, "test_log_loss" REAL, "noise_var" REAL, \
"attempts" INTEGER, "seconds" REAL, "version" TEXT NOT NULL, "commit" TEXT, "finished" TEXT NOT NULL, "error" TEXT);
"""


def protocol_of(*families, **data):
    return Protocol.of(
        {
            "data": {"name": "digits", "train": [40, 80], "validation": 200, "test": 200} | data,
            "family": list(families),
        }
    )


def swept(path, protocol, watcher=None):
    with Store.begin(path, protocol) as store:
        runner.run(protocol, store, load("digits"), watcher)
        return store.results()


def numbers(results):
    return {
        (r.n_train, r.width, r.rank, r.depth, r.weight_var, r.bias_var, r.training): (
            r.validation_accuracy,
            r.test_log_loss,
        )
        for r in results
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A sweep of finite and infinite networks."""
    path = tmp_path_factory.mktemp("finite") / "run.sqlite"
    swept(path, protocol_of(FINITE | TRAINING, INFINITE))
    return path


@pytest.fixture
def results(run):
    with Store.open(run) as store:
        return store.results()


# --- the numbers ----------------------------------------------------------------------------------


def test_a_cell_is_a_network_that_was_trained_by_itself(results):
    """The same split, start and order of the batches. Measured over all cells: the log losses
    differ by 5e-8 at most.
    """
    digits, protocol = load("digits"), protocol_of(FINITE | TRAINING)
    cell = next(
        r
        for r in results
        if (r.n_train, r.width, r.rank, r.depth) == (80, 20, 3, 3) and r.weight_var == 0.1 * 0.1
    )
    split = next(split for split in protocol.splits if split.n_train == 80)
    chosen, held_out = cells.rows(protocol, split, len(digits.y))
    start, order = (
        int(np.random.SeedSequence([0, 0, which]).generate_state(1)[0]) for which in (1, 2)
    )
    network = MaxoutNetwork(
        20, 3, 3, 64, 10, weight_std=0.1, bias_std=math.sqrt(cell.bias_var), seed=start
    )
    targets = np.eye(10)[digits.y[chosen]] - 0.1
    train(network, standardised(digits.X[chosen]), targets, Training(**TRAINING, seed=order))
    outputs = predict(network, standardised(digits.X[held_out]))
    assert cell.validation_accuracy == np.mean(outputs.argmax(axis=1) == digits.y[held_out])
    evidence = cells.SoftmaxLoss(outputs.astype(float), digits.y[held_out])
    assert cell.validation_log_loss == pytest.approx(evidence(evidence.sharpness()), rel=1e-5)
    assert cell.training == "adam, learning rate 0.003, 30 epochs, batches of 32"


def test_they_learn(results):
    """As well as the Gaussian process nearly, if the initialisation is one that works."""
    best = max(r.test_accuracy for r in results if r.kind == "finite" and r.n_train == 80)
    infinite = max(r.test_accuracy for r in results if r.kind == "nngp" and r.n_train == 80)
    assert infinite > best > infinite - 0.15 > 0.6


def test_the_same_numbers_again_and_after_an_interruption(run, results, tmp_path):
    class Impatient(Watcher):
        def finished(self, found):
            if any(one.kind == "finite" for one in found):
                raise KeyboardInterrupt

    protocol, path = protocol_of(FINITE | TRAINING, INFINITE), tmp_path / "run.sqlite"
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            swept(path, protocol, Impatient())
    with Store.open(path) as store:
        assert 0 < store.about()["done"] < len(protocol)
    assert numbers(swept(path, protocol)) == numbers(results)


def test_networks_of_one_shape_are_trained_together():
    protocol = protocol_of(FINITE | {"learning_rate": [1e-3, 1e-2]})
    found = runner.units(protocol)
    assert sum(map(len, found)) == len(protocol) == 2 * 2 * 2 * 2 * 4 * 2
    assert {len(unit) for unit in found} == {4}
    for unit in found:
        assert len({(g.split, g.width, g.rank, g.depths, g.training) for g in unit.groups}) == 1
    large = runner.units(protocol_of(FINITE | {"width": 5000, "depth": 21}))
    assert {len(unit) for unit in large} == {1}  # memory
    splits = [unit.split for unit in found]
    assert splits == sorted(splits)  # those of a split stand together: their locks are one range


def test_early_stopping_in_a_sweep(tmp_path):
    family = FINITE | {
        "width": 20,
        "rank": 3,
        "depth": 1,
        "bias_std": 0.1,
        "learning_rate": 0.02,
        "epochs": 400,
        "weight_std": 0.1,
    }
    plain, stopped = (
        swept(tmp_path / f"{name}.sqlite", protocol_of(family | more, train=40))[0]
        for name, more in (("plain", {}), ("stopped", {"patience": 5}))
    )
    assert stopped.training == f"{plain.training}, patience 5"
    assert stopped.validation_log_loss != plain.validation_log_loss


def test_the_best_so_far_is_that_of_one_training():
    """Networks that differ in their training alone are different ones, as in the table."""
    shown = Display("a sweep")
    for rate, accuracies in ((1e-6, (0.1, 0.2)), (1e-2, (0.8, 0.9))):
        training = str(Training(learning_rate=rate))
        shown._take(
            [
                result(
                    width=5,
                    rank=2,
                    kind="finite",
                    repeat=r,
                    validation_accuracy=a,
                    training=training,
                )
                for r, a in enumerate(accuracies)
            ]
        )
    assert shown._best().startswith("0.8500 with 1,000: maxout-2, width 5, ")
    assert shown._best().endswith("adam, learning rate 0.01, 200 epochs, batches of 256")


# --- divergence -----------------------------------------------------------------------------------


def test_what_diverges_is_reported_and_left_out(tmp_path):
    family = {
        "kind": "finite",
        "width": 20,
        "rank": 2,
        "depth": 5,
        "weight_std": [0.1, 1e8],
        "bias_std": 0.1,
        **TRAINING,
    }
    protocol, path = protocol_of(family, train=40, repeats=2), tmp_path / "run.sqlite"
    found = swept(path, protocol)
    assert [r.status for r in sorted(found, key=lambda r: (r.weight_var, r.repeat))] == [
        "done",
        "done",
        "diverged",
        "diverged",
    ]
    diverged = [r for r in found if r.status == "diverged"]
    assert all(
        r.error == "its loss or its outputs were not finite after 0 of 30 epochs" for r in diverged
    )
    with Store.open(path) as store:
        about = store.about()
        assert (about["done"], about["failed"], about["diverged"], about["open"]) == (2, 0, 2, 0)
        page = report.render(store)
    assert "Of the networks of finite width 2 diverged: they are left out." in page
    assert "2 done, 0 failed, 2 diverged, 0 to come" in page
    (row, *_) = selection.rows(found)
    assert (len(row.candidates), row.diverged, row.failed, row.incomplete, row.total) == (
        1,
        1,
        0,
        0,
        2,
    )
    assert "of 2 candidates 1 diverged, left out" in rendering.as_text(comparison.lines([row]))
    # It is a result, not a failure.
    config = tmp_path / "run.toml"
    config.write_text(
        '[data]\nname = "digits"\ntrain = 40\nvalidation = 200\ntest = 200\nrepeats = '
        '2\n[[family]]\nkind = "finite"\nwidth = 20\n'
        "rank = 2\ndepth = 5\nweight_std = [0.1, 1e8]\nbias_std = 0.1\nlearning_rate = "
        "0.003\nepochs = 30\nbatch_size = 32\n"
    )
    done = subprocess.run(
        [MNNGP, "sweep", config, "-o", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "2 of 4 cells are done, 2 diverged" in done.stdout


def test_early_stopping_keeps_what_was_best_before_a_divergence(tmp_path):
    family = {
        "kind": "finite",
        "width": 20,
        "rank": 2,
        "depth": 2,
        "weight_std": 0.3,
        "bias_std": 0.1,
    }
    family |= {"optimizer": "sgd", "learning_rate": 0.5, "epochs": 30}
    (plain,) = swept(tmp_path / "plain.sqlite", protocol_of(family, train=40, repeats=1))
    (stopped,) = swept(
        tmp_path / "stopped.sqlite", protocol_of(family | {"patience": 30}, train=40, repeats=1)
    )
    assert plain.status == "diverged"
    assert stopped.status == "done"
    assert stopped.validation_accuracy > 0.0


# --- tables, figures, report ----------------------------------------------------------------------


def test_rows_over_all_widths_by_width_and_by_rank(results):
    rows = selection.rows(results)
    finite = [(row.width, row.rank) for row in rows if row.kind == "finite" and row.n_train == 40]
    assert finite == [(None, None), (5, None), (5, 2), (5, 3), (20, None), (20, 2), (20, 3)]
    whole = next(row for row in rows if row.kind == "finite" and row.n_train == 40)
    assert len(whole.candidates) == 2 * 2 * 2 * 4
    assert not whole.partial
    best = max(
        row.best.validation_accuracy
        for row in rows
        if row.kind == "finite" and row.n_train == 40 and row.width
    )
    assert whole.best.validation_accuracy == best
    names = [line.network for line in comparison.lines(rows) if line.n_train == 40]
    assert names == ["maxout", "maxout, finite width"]
    everything = [line.network for line in comparison.lines(rows, ranks=True) if line.n_train == 40]
    assert "maxout, width 20, rank 3" in everything
    text = rendering.as_text(comparison.lines(rows))
    assert "width-q-depth-σ_b-σ_w, with standard deviations" in text


def test_the_papers_finite_row_stands_beside_ours():
    ours = result(
        kind="finite",
        n_train=100,
        rank=3,
        depth=13,
        width=500,
        bias_var=0.1**2,
        weight_var=0.001**2,
        noise_var=None,
    )
    (line,) = comparison.lines(selection.rows([ours]))
    assert line.paper.model == line.model == "500-3-13-0.1-0.001"
    assert line.difference == pytest.approx(0.935 - 0.7070)


def test_the_table_says_which_learning_rate_was_selected(tmp_path):
    family = {
        "kind": "finite",
        "width": 20,
        "rank": 2,
        "depth": 1,
        "weight_std": 0.1,
        "bias_std": 0.1,
    } | TRAINING
    found = swept(
        tmp_path / "run.sqlite", protocol_of(family | {"learning_rate": [1e-9, 3e-3]}, train=40)
    )
    (line,) = comparison.lines([selection.rows(found)[0]])
    assert "selected with adam, learning rate 0.003, 30 epochs, batches of 32" in " ".join(
        rendering.as_text([line]).split()
    )
    record = comparison.record(line)
    assert (record["weight_std"], record["weight_var"], record["bias_std"]) == (0.1, None, 0.1)


def test_figure_2_has_a_line_for_each_width_and_a_panel_for_each_rank(results):
    figure = figures.accuracy(selection.rows(results), "digits")
    shown = {(trace["name"], trace["xaxis"]) for trace in figure["data"]}
    assert shown == {
        (name, axis)
        for name in ("maxout", "maxout, width 5", "maxout, width 20")
        for axis in ("x", "x2", "x3")
    }
    styles = {(trace["marker"]["color"], trace["marker"]["symbol"]) for trace in figure["data"]}
    assert len(styles) == 3
    one_size = figures.accuracy(selection.rows([r for r in results if r.n_train == 40]), "digits")
    assert {trace["y"][0] for trace in one_size["data"]} >= {
        "maxout, rank 2",
        "maxout, width 5, rank 2",
    }


def test_heat_maps_and_timings_by_width(results):
    names = [name for name, _ in panels.all_heat_maps(selection.rows(results))]
    assert "digits, 80 images, maxout, width 20" in names
    assert "digits, 80 images, maxout, finite width" not in names  # widths cannot be in one map
    figure = dict(panels.all_heat_maps(selection.rows(results)))[
        "digits, 80 images, maxout, width 20"
    ]
    assert figure["layout"]["xaxis"]["title"]["text"] == "σ<sub>w</sub>"
    assert figure["layout"]["xaxis"]["ticktext"] == ["0.01", "0.1"]
    titles = {one["text"] for one in figures.timings(results)["layout"]["annotations"]}
    assert titles == {"maxout", "maxout, width 5", "maxout, width 20"}


def test_the_report_says_how_wide(results):
    page = report.render([r for r in results if r.kind == "finite"])
    assert "20 units wide maxout networks" in page
    assert "infinitely wide maxout networks of" not in page


# --- the protocol ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"weight_var": 1.0},
            r"family\[0\].weight_var is not known here; there are activation, "
            r"batch_size, bias_std",
        ),
        ({"width": None}, r"family\[0\].width is missing"),
        ({"width": [5, 0]}, r"family\[0\].width\[1\] must be a positive integer.*got 0"),
        ({"width": 10_000_000}, r"family\[0\].width must be at most 1,000,000, got 10,000,000"),
        ({"activation": "relu"}, r"family\[0\].activation must be one of 'maxout', got 'relu'"),
        (
            {"weight_std": 0.0},
            r"family\[0\].weight_std must be a finite number at least 1e-100 and "
            r"at most 1e\+100, got 0.0",
        ),
        (
            {"optimizer": "lbfgs"},
            r"family\[0\].optimizer must be one of 'adam', 'sgd', got 'lbfgs'",
        ),
        (
            {"learning_rate": [1e-3, -1.0]},
            r"family\[0\].learning_rate\[1\] must be a finite number "
            r"above 0",
        ),
        ({"epochs": 0}, r"family\[0\].epochs must be a positive integer.*got 0"),
        ({"patience": "long"}, r"family\[0\].patience must be a positive integer.*got 'long'"),
        ({"rank": None}, r"family\[0\].rank is missing"),
    ],
)
def test_errors_name_the_key(changes, message):
    family = {key: value for key, value in (FINITE | changes).items() if value is not None}
    with pytest.raises(InputError, match=message):
        protocol_of(family)


def test_a_width_is_not_for_infinite_networks():
    with pytest.raises(InputError, match=r"family\[0\].width is not known here"):
        protocol_of(INFINITE | {"width": 5})


def test_standard_deviations_come_back_to_the_last_digit():
    deviations = [0.001, 0.01, 0.1, 0.3, 0.5, 1.0 / 3.0, 0.7, 1.0]
    protocol = protocol_of(
        FINITE
        | {
            "weight_std": deviations,
            "learning_rate": [1e-5, 3e-4],
            "patience": 7,
            "optimizer": "sgd",
        }
    )
    mapping = protocol.mapping()["family"][0]
    assert mapping["weight_std"] == sorted(deviations)
    assert (mapping["learning_rate"], mapping["patience"], mapping["optimizer"]) == (
        [1e-5, 3e-4],
        7,
        "sgd",
    )
    assert Protocol.of(protocol.mapping()) == protocol


def test_the_papers_grid_is_stated():
    for name, largest in (("mnist", 50_000), ("cifar10", 45_000)):
        folder = Path(__file__).parents[2] / "experiments"
        whole, part = (
            Protocol.load(folder / f"finite-{name}{suffix}.toml") for suffix in ("", "-part")
        )
        (grid,) = whole.families
        assert (len(grid), whole.repeats, max(whole.train)) == (1080, 20, largest)
        assert [str(one) for one in grid.training] == [
            "adam, learning rate 1e-05, 200 epochs, batches of 256"
        ]
        own = [family for family in part.families if family.kind == "finite"]
        assert {width for family in own for width in family.width} == {5, 50, 500}
        for key in ("width", "rank", "depth", "weight_var", "bias_var", "training"):
            assert all(set(getattr(family, key)) <= set(getattr(grid, key)) for family in own)


# --- the store ------------------------------------------------------------------------------------


def test_a_store_from_before_finite_networks_is_read_and_goes_on(tmp_path):
    protocol, path = protocol_of(INFINITE, train=40), tmp_path / "run.sqlite"
    whole = swept(path, protocol)
    old = tmp_path / "old.sqlite"
    with Store.open(path) as store:
        about = store._run()
        cells_ = [
            (key, *[getattr(one, name) for name in columns(1)]) for _, key, one in store.news(0)
        ]
    connection = sqlite3.connect(old)
    connection.executescript(FORMAT_1)
    connection.executemany("INSERT INTO run VALUES (?, ?)", about.items())
    connection.executemany(
        f"INSERT INTO cell VALUES ({', '.join('?' * len(cells_[0]))})", cells_[:-2]
    )
    connection.execute(f"PRAGMA application_id = {0x6D6E6E67}")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    with Store.open(old) as store:
        assert [replace(one, width=None) for one in store.results()] == whole[:-2]
    assert numbers(swept(old, protocol)) == numbers(whole)
    with Store.open(old) as store:
        assert store._value("PRAGMA user_version") == 4


@pytest.mark.parametrize("change", ["weight_var = -1.0", "width = NULL", "kind = 'nngp'"])
def test_a_network_that_cannot_be_is_refused(run, tmp_path, change):
    """A store may come from a stranger."""
    path = tmp_path / "run.sqlite"
    path.write_bytes(run.read_bytes())
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE cell SET {change} WHERE kind = 'finite'")
    connection.commit()
    connection.close()
    sealed(path)
    with (
        Store.open(path) as store,
        pytest.raises(StoreError, match="holds a network that cannot be"),
    ):
        store.results()


# --- without PyTorch ------------------------------------------------------------------------------


def test_without_torch_it_says_so_and_reads_what_others_have_run(run, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(
        '[data]\nname = "digits"\ntrain = 40\nvalidation = 200\n[[family]]\nkind = "finite"\nwidth '
        "= 5\nrank = 2\ndepth = 1\n"
        "weight_std = 0.1\nbias_std = 0.1\n"
    )

    def command(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "mnngp", *map(str, arguments)],
            env=without.environment(tmp_path / "blocked", "torch"),
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )

    refused = command("sweep", config)
    assert refused.returncode == 1
    assert refused.stderr == 'error: finite networks need PyTorch: pip install "mnngp[torch]"\n'
    assert not (tmp_path / "run.sqlite").exists()
    shown = command("table", run, "--json")
    assert shown.returncode == 0, shown.stderr
    assert {row["network"] for row in json.loads(shown.stdout)} == {
        "maxout",
        "maxout, finite width",
    }
