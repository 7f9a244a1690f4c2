import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_wine

import mnngp
from mnngp import demo
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.store import Store

MNNGP = Path(sys.executable).with_name("mnngp")


def run(*arguments, code=0, cwd=None):
    result = subprocess.run([MNNGP, *arguments], capture_output=True, text=True, check=False, timeout=300, cwd=cwd)
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result


def test_help_names_every_command():
    shown = run("--help").stdout
    assert "demo" in shown
    assert "phase" in shown
    assert run("--version").stdout.startswith("mnngp 0.")
    for command in ("demo", "phase", "fit", "predict", "data", "sweep", "table", "report", "plan", "converge"):
        assert command in shown
        assert "--help" in run(command, "--help").stdout
    module = subprocess.run([sys.executable, "-m", "mnngp", "--version"], capture_output=True, text=True, check=True)
    assert module.stdout == run("--version").stdout


def test_phase():
    shown = run("phase", "--rank", "4", "--depth", "30").stdout
    assert "critical weight variance 0.64460863" in shown
    facts = json.loads(run("phase", "--rank", "3", "--depth", "5", "--weight-var", "0.5", "--bias-var", "0.1", "--json").stdout)
    assert facts["phase"] == "ordered"
    assert facts["critical_weight_var"] == pytest.approx(0.78390520)
    assert len(facts["variance"]) == 6
    large = json.loads(run("phase", "--rank", "4", "--weight-var", "1e5", "--depth", "200", "--json").stdout)
    assert large["variance"][-1] is None


def test_plan():
    shown = run("plan", "--n", "1e5", "--features", "784", "--memory", "8GB", "--threads", "8").stdout
    assert "n = 100,000" in shown
    assert "Advised: solver='cg'." in shown  # a factor of 40 GB
    assert "computed anew in every iteration" in shown
    facts = json.loads(run("plan", "--n", "1e6", "--workers", "64", "--threads", "8", "--memory", "64GB", "--json").stdout)
    assert {plan["solver"] for plan in facts["plans"]} == {"dask", "dask-cholesky"}
    assert facts["plans"][0]["seconds"] == pytest.approx(sum(facts["plans"][0]["parts"].values()))
    assert "is not for one machine" in run("plan", "--n", "10", "--solver", "dask", code=1).stderr
    assert "memory must be" in run("plan", "--n", "10", "--memory", "x", code=1).stderr


def test_phase_draws(tmp_path):
    target = tmp_path / "phase.png"
    assert str(target) in run("phase", "--plot", str(target)).stdout
    assert target.read_bytes()[:4] == b"\x89PNG"


def test_demo(tmp_path):
    shown = run("demo", cwd=tmp_path).stdout
    assert "maxout, rank 4" in shown
    assert shown.rstrip().endswith("Report: mnngp-demo.html")
    page = (tmp_path / "mnngp-demo.html").read_text()
    assert "Nothing chosen by hand" in page
    assert 'src="data:image/png;base64,iVBOR' in page
    rows = {line.split("│")[1].strip(): line.split("│")[2:-2] for line in shown.splitlines() if line.startswith("│")}
    assert rows["ReLU"] == rows["maxout, rank 2"]  # proposition 1
    assert all(float(value) > 0.97 for name, row in rows.items() if name.startswith(("maxout", "ReLU", "tanh")) for value in row)
    ours, forest = (float(rows[name][0]) for name in ("MaxoutGPClassifier()", "random forest"))
    assert ours > forest > 0.9


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("phase", "--rank", "0"), 2, "Invalid value for '--rank'"),
        (("phase", "--weight-var", "-1"), 1, "error: weight_var must be a finite number above 0, got -1.0"),
        (("phase", "--plot", "x.foo"), 2, "must end in .png, .pdf or .svg"),
        (("phase", "--bias-var", "nan"), 1, "error: bias_var must be a finite number at least 0, got nan"),
        (("phase", "--plot", "/nonexistent/folder/x.png"), 2, "does not exist"),
        (("demo", "-o", "/nonexistent/folder/x.html"), 1, "does not exist"),
        (("nonsense",), 2, "No such command"),
    ],
)
def test_mistakes_end_in_one_line(arguments, code, message):
    assert message in run(*arguments, code=code).stderr


@pytest.fixture
def wine(tmp_path):
    """Half of a table to learn from and half to predict, with a gap, a category and labels."""
    X, y = load_wine(return_X_y=True)
    table = pl.DataFrame(X[:, :6], schema=[f"x{k}" for k in range(6)]).with_columns(
        pl.when(pl.col("x0") > 14.2).then(None).otherwise(pl.col("x0")).alias("x0"),
        pl.Series("size", np.where(X[:, 9] > 5.0, "large", "small")),
        pl.Series("label", [f"wine, {k}" for k in y]),
    )
    table[::2].write_csv(tmp_path / "train.csv")
    table[1::2].write_csv(tmp_path / "new.csv")
    table[1::2].drop("label").write_parquet(tmp_path / "new.parquet")
    return tmp_path


def test_fit_and_predict_labels(wine):
    shown = run("fit", "train.csv", "--target", "label", "-o", "model.mnngp", "--max-trials", "8", cwd=wine).stdout
    assert "classification of 'label': 89 rows, 9 features" in shown  # six numbers, one of them with gaps, and two sizes
    result = run("predict", "model.mnngp", "new.csv", cwd=wine)
    table = pl.read_csv(result.stdout.encode())
    assert table.columns == ["prediction", "P(wine, 0)", "P(wine, 1)", "P(wine, 2)"]
    np.testing.assert_allclose(table[:, 1:].sum_horizontal(), 1.0)
    truth = pl.read_csv(wine / "new.csv")["label"]
    accuracy = (table["prediction"] == truth).mean()
    assert accuracy > 0.9
    assert f"accuracy on the 89 rows that have 'label': {accuracy:.4f}" in result.stderr
    assert run("predict", "model.mnngp", "new.parquet", "-o", "out.csv", cwd=wine).stdout == "89 predictions: out.csv\n"
    assert (wine / "out.csv").read_text() == result.stdout


def test_fit_and_predict_numbers(wine):
    command = ("fit", "train.csv", "--target", "x5", "--drop", "label", "-o", "model.mnngp", "--max-trials", "4", "--json")
    facts = json.loads(run(*command, cwd=wine).stdout)
    assert facts["task"] == "regression"
    assert facts["kernel"].keys() == {"depth", "rank", "weight_var", "bias_var", "kind"}
    table = pl.read_csv(run("predict", "model.mnngp", "new.csv", cwd=wine).stdout.encode())
    assert table.columns == ["prediction", "std"]
    assert (table["std"] > 0.0).all()
    again = mnngp.load(wine / "model.mnngp")
    again.save(wine / "again.mnngp")  # what it knows of the table stays with it
    assert run("predict", "again.mnngp", "new.csv", cwd=wine).stdout == run("predict", "model.mnngp", "new.csv", cwd=wine).stdout


def test_mistakes_with_tables(wine):
    assert "did you mean 'label'?" in run("fit", "train.csv", "--target", "lable", "-o", "m", code=1, cwd=wine).stderr
    assert (
        "folder nowhere does not exist" in run("fit", "train.csv", "--target", "label", "-o", "nowhere/m", code=1, cwd=wine).stderr
    )
    assert "nothing.csv" in run("fit", "nothing.csv", "--target", "label", "-o", "m", code=1, cwd=wine).stderr
    X = np.arange(10.0)[:, None]
    mnngp.MaxoutGPRegressor(depth=1).fit(X, X[:, 0]).save(wine / "plain.mnngp")
    assert "was not written by mnngp fit" in run("predict", "plain.mnngp", "new.csv", code=1, cwd=wine).stderr
    assert "is not a model file" in run("predict", "train.csv", "new.csv", code=1, cwd=wine).stderr


def test_nothing_that_is_read_is_overwritten(wine):
    before = (wine / "train.csv").read_bytes()
    assert "it is the file that is read" in run("fit", "train.csv", "--target", "label", "-o", "train.csv", code=1, cwd=wine).stderr
    assert (wine / "train.csv").read_bytes() == before
    run("fit", "train.csv", "--target", "label", "-o", "model.mnngp", "--max-trials", "1", cwd=wine)
    for name in ("model.mnngp", "new.csv"):
        assert "it is the file that is read" in run("predict", "model.mnngp", "new.csv", "-o", name, code=1, cwd=wine).stderr
    os.mkfifo(wine / "pipe")  # as /dev/null, which root could replace
    assert "not an ordinary file" in run("fit", "train.csv", "--target", "label", "-o", "pipe", code=1, cwd=wine).stderr
    store = wine / "run.sqlite"
    Store.begin(store, Protocol.of(demo.PROTOCOL)).close()
    before = store.read_bytes()
    for command in ("table", "report"):
        assert "it is the file that is read" in run(command, "run.sqlite", "-o", "run.sqlite", code=1, cwd=wine).stderr
    assert store.read_bytes() == before
    assert "0 of 960 cells are done" in run("table", "run.sqlite", cwd=wine).stderr


def test_predictions_keep_what_is_wanted(wine):
    run("fit", "train.csv", "--target", "label", "-o", "model.mnngp", "--max-trials", "1", cwd=wine)
    run("predict", "model.mnngp", "new.csv", "--keep", "x1", "--keep", "size", "-o", "out.parquet", cwd=wine)
    table, new = pl.read_parquet(wine / "out.parquet"), pl.read_csv(wine / "new.csv")
    assert table.columns[:3] == ["x1", "size", "prediction"]
    assert table["size"].to_list() == new["size"].to_list()
    assert "no such column" in run("predict", "model.mnngp", "new.csv", "--keep", "y", code=1, cwd=wine).stderr
    new.with_columns(pl.lit("huge").alias("size"), pl.lit(None, dtype=pl.String).alias("label")).write_csv(wine / "odd.csv")
    result = run("predict", "model.mnngp", "odd.csv", cwd=wine)
    assert "'size'" in result.stderr
    assert "'huge'" in result.stderr
    assert "accuracy" not in result.stderr  # no label to compare with


def test_data(tmp_path):
    facts = {fact["name"]: fact for fact in json.loads(run("data", "list", "--data-dir", str(tmp_path), "--json").stdout)}
    assert facts["mnist"] | {"download_megabytes": 0} == {
        "name": "mnist", "train": 60000, "test": 10000, "shape": [28, 28], "classes": 10, "download_megabytes": 0, "place": None
    }  # fmt: skip
    assert "not here" in run("data", "list", "--data-dir", str(tmp_path)).stdout
    assert "comes with scikit-learn" in run("data", "fetch", "digits").stdout
    assert "name must be one of" in run("data", "fetch", "nothing", code=1).stderr
