"""``mnngp fit`` and ``mnngp predict``: tables in, predictions out."""

import json
import os

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_wine

import mnngp
from mnngp.estimators import model_file
from mnngp.experiments import demonstration as demo
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.store import Store
from tests.commands.running import run
from tests.estimators.model_files import rewrite


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    """Half of a table to learn from and half to predict, with a gap, a category and labels."""
    tmp_path = tmp_path_factory.mktemp("wine")
    X, y = load_wine(return_X_y=True)
    table = pl.DataFrame(X[:, :6], schema=[f"x{k}" for k in range(6)]).with_columns(
        pl.when(pl.col("x0") > 14.2).then(None).otherwise(pl.col("x0")).alias("x0"),
        pl.Series("size", np.where(X[:, 9] > 5.0, "large", "small")),
        pl.Series("label", [f"wine, {k}" for k in y]),
    )
    table[::2].write_csv(tmp_path / "train.csv")
    table[1::2].write_csv(tmp_path / "new.csv")
    table[1::2].drop("label").write_parquet(tmp_path / "new.parquet")
    shown = run(
        "fit",
        "train.csv",
        "--target",
        "label",
        "-o",
        "model.mnngp",
        "--max-trials",
        "8",
        cwd=tmp_path,
    ).stdout
    (tmp_path / "shown.txt").write_text(shown)
    return tmp_path


def test_fit_and_predict_labels(wine):
    shown = (wine / "shown.txt").read_text()
    # six numbers, one of them with gaps, and two sizes
    assert "classification of 'label': 89 rows, 9 features" in shown
    result = run("predict", "model.mnngp", "new.csv", cwd=wine)
    table = pl.read_csv(result.stdout.encode())
    assert table.columns == ["prediction", "P(wine, 0)", "P(wine, 1)", "P(wine, 2)"]
    np.testing.assert_allclose(table[:, 1:].sum_horizontal(), 1.0)
    truth = pl.read_csv(wine / "new.csv")["label"]
    accuracy = (table["prediction"] == truth).mean()
    assert accuracy > 0.9
    assert f"accuracy on the 89 rows that have 'label': {accuracy:.4f}" in result.stderr
    assert (
        run("predict", "model.mnngp", "new.parquet", "-o", "out.csv", cwd=wine).stdout
        == "89 predictions: out.csv\n"
    )
    assert (wine / "out.csv").read_text() == result.stdout
    run("predict", "model.mnngp", "new.csv", "-o", "out.TSV", cwd=wine)
    assert (wine / "out.TSV").read_text().replace("\t", ",") == result.stdout.replace('"', "")
    model = mnngp.load(wine / "model.mnngp")
    encoder = mnngp.data.Encoder.from_dict(
        {key: model.table_[key] for key in model.table_ if key != "usual_std"}
    )
    probability = model.predict_proba(encoder.encode(mnngp.data.read_table(wine / "new.csv")))
    # to the last bit: CSV has all digits
    np.testing.assert_array_equal(table[:, 1:].to_numpy(), probability)


def test_fit_and_predict_numbers(wine):
    command = (
        "fit",
        "train.csv",
        "--target",
        "x5",
        "--drop",
        "label",
        "-o",
        "numbers.mnngp",
        "--max-trials",
        "4",
        "--json",
    )
    facts = json.loads(run(*command, cwd=wine).stdout)
    assert facts["task"] == "regression"
    assert facts["kernel"].keys() == {"depth", "rank", "weight_var", "bias_var", "kind"}
    table = pl.read_csv(run("predict", "numbers.mnngp", "new.csv", cwd=wine).stdout.encode())
    assert table.columns == ["prediction", "std"]
    assert (table["std"] > 0.0).all()
    again = mnngp.load(wine / "numbers.mnngp")
    again.save(wine / "again.mnngp")  # what it knows of the table stays with it
    assert (
        run("predict", "again.mnngp", "new.csv", cwd=wine).stdout
        == run("predict", "numbers.mnngp", "new.csv", cwd=wine).stdout
    )


def test_mistakes_with_tables(wine):
    assert (
        "did you mean 'label'?"
        in run("fit", "train.csv", "--target", "lable", "-o", "m", code=1, cwd=wine).stderr
    )
    assert (
        "folder nowhere does not exist"
        in run("fit", "train.csv", "--target", "label", "-o", "nowhere/m", code=1, cwd=wine).stderr
    )
    assert (
        "nothing.csv"
        in run("fit", "nothing.csv", "--target", "label", "-o", "m", code=1, cwd=wine).stderr
    )
    X = np.arange(10.0)[:, None]
    mnngp.MaxoutGPRegressor(depth=1).fit(X, X[:, 0]).save(wine / "plain.mnngp")
    assert (
        "was not written by mnngp fit"
        in run("predict", "plain.mnngp", "new.csv", code=1, cwd=wine).stderr
    )
    assert "is not a model file" in run("predict", "train.csv", "new.csv", code=1, cwd=wine).stderr


def test_nothing_that_is_read_is_overwritten(wine):
    before = (wine / "train.csv").read_bytes()
    assert (
        "it is the file that is read"
        in run("fit", "train.csv", "--target", "label", "-o", "train.csv", code=1, cwd=wine).stderr
    )
    assert (wine / "train.csv").read_bytes() == before
    for name in ("model.mnngp", "new.csv"):
        assert (
            "it is the file that is read"
            in run("predict", "model.mnngp", "new.csv", "-o", name, code=1, cwd=wine).stderr
        )
    os.mkfifo(wine / "pipe")  # as /dev/null, which root could replace
    assert (
        "not an ordinary file"
        in run("fit", "train.csv", "--target", "label", "-o", "pipe", code=1, cwd=wine).stderr
    )
    store = wine / "run.sqlite"
    Store.begin(store, Protocol.of(demo.PROTOCOL)).close()
    before = store.read_bytes()
    for command in ("table", "report"):
        assert (
            "it is the file that is read"
            in run(command, "run.sqlite", "-o", "run.sqlite", code=1, cwd=wine).stderr
        )
    assert store.read_bytes() == before
    assert "0 of 960 cells are done" in run("table", "run.sqlite", cwd=wine).stderr


def test_predictions_keep_what_is_wanted(wine):
    run(
        "predict",
        "model.mnngp",
        "new.csv",
        "--keep",
        "x1",
        "--keep",
        "size",
        "-o",
        "out.parquet",
        cwd=wine,
    )
    table, new = pl.read_parquet(wine / "out.parquet"), pl.read_csv(wine / "new.csv")
    assert table.columns[:3] == ["x1", "size", "prediction"]
    assert table["size"].to_list() == new["size"].to_list()
    assert (
        "no such column"
        in run("predict", "model.mnngp", "new.csv", "--keep", "y", code=1, cwd=wine).stderr
    )
    new.with_columns(
        pl.lit("huge").alias("size"), pl.lit(None, dtype=pl.String).alias("label")
    ).write_csv(wine / "odd.csv")
    result = run("predict", "model.mnngp", "odd.csv", cwd=wine)
    assert "'size'" in result.stderr
    assert "'huge'" in result.stderr
    assert "accuracy" not in result.stderr  # no label to compare with


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A table with dates, numbers and identifiers, and a model of it."""
    folder = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(0)
    n = 120
    day, age = rng.integers(0, 365, n), rng.integers(18, 91, n)
    when = [str(np.datetime64("2021-01-01") + int(days)) for days in day]
    table = pl.DataFrame(
        {
            "id": [2**53 + 1 + i for i in range(n)],
            "when": when,
            "age": age.astype(str),
            "city": rng.choice(["A", "B"], n),
            "y": (0.01 * day + 0.1 * age + 0.3 * rng.normal(size=n)).round(3),
        }
    )
    table[:80].write_csv(folder / "train.csv")
    table[80:].write_csv(folder / "new.csv")
    result = run(
        "fit", "train.csv", "--target", "y", "-o", "model.mnngp", "--max-trials", "2", cwd=folder
    )
    assert (
        "note: column 'id' holds whole numbers beyond 2^53, such as 9007199254740993 (row 1), "
        "which would be" in result.stdout
    )
    return folder


def test_predictions_tell_what_they_could_not_know(people):
    """Dates in another form, numbers that are none, values far outside, new categories: on
    standard error.
    """
    usual = run("predict", "model.mnngp", "new.csv", "--keep", "id", cwd=people)
    assert usual.stderr.startswith("R² on the 40 rows")  # ordinary rows give no notes
    changes = {
        3: ("when", "22-03-01"),
        7: ("age", "900"),
        11: ("age", "0x1F"),
        13: ("city", "C"),
        17: ("age", "1,5"),
    }
    rows = pl.read_csv(people / "new.csv", infer_schema_length=0).to_dicts()
    for row, (name, value) in changes.items():
        rows[row][name] = value
    pl.DataFrame(rows).write_csv(people / "odd.csv")
    odd = run("predict", "model.mnngp", "odd.csv", "--keep", "id", cwd=people)
    before, after = (pl.read_csv(result.stdout.encode()) for result in (usual, odd))
    assert after["id"].to_list() == [2**53 + 1 + i for i in range(80, 120)]
    same = np.setdiff1d(np.arange(40), list(changes))
    np.testing.assert_allclose(
        after["prediction"].to_numpy()[same], before["prediction"].to_numpy()[same], rtol=1e-13
    )  # of other sums
    notes = [line.removeprefix("note: ") for line in odd.stderr.splitlines()[:-1]]
    assert notes == [
        "column 'when': 1 of 40 rows cannot be read as dates like 2024-05-31 and counts as a gap, "
        "for which the median stands in, "
        "first '22-03-01' (row 4)",
        "column 'age': 2 of 40 rows cannot be read as numbers and count as gaps, for which the "
        "median stands in, "
        "first '0x1F' (row 12)",
        "column 'age': 1 of 40 rows is far outside of 19 to 90, what training had, first '900' "
        "(row 8)",
        "column 'city': 1 of 40 rows hold values that training did not have ('C'); it had 'A', 'B'",
    ]
    # a date that is off by a month is nonsense by a few tenths, one that is off by two thousand
    # years by thousands
    assert abs(after["prediction"][3] - before["prediction"][3]) < 4.0


def test_extrapolations_of_labels_are_told(wine):
    """Where the network sees the columns themselves; behind an embedding one is only its share."""
    fit = ("fit", "train.csv", "--target", "label", "-o", "linear.mnngp", "--features", "linear")
    run(*fit, cwd=wine)
    assert "extrapolation" not in run("predict", "linear.mnngp", "new.csv", cwd=wine).stderr
    pl.read_csv(wine / "new.csv").with_columns(
        pl.col("x1") + pl.when(pl.int_range(pl.len()) < 2).then(0.0).otherwise(1e3)
    ).write_csv(wine / "far.csv")
    assert (
        "note: 87 of 89 rows are far from all training rows: their predictions are extrapolations "
        "(a standard deviation of" in (run("predict", "linear.mnngp", "far.csv", cwd=wine).stderr)
    )
    embedded = run("predict", "model.mnngp", "far.csv", cwd=wine).stderr
    assert "column 'x1': 87 of 89 rows are far outside of" in embedded


def test_model_files_of_version_0_1_still_predict(people):
    """They know neither the range of a column nor how sure predictions usually are."""
    model = mnngp.load(people / "model.mnngp")
    old = model.table_ | {
        "columns": [
            {key: column[key] for key in column if key not in ("low", "high")}
            for column in model.table_["columns"]
        ]
    }
    del old["usual_std"]
    model_file.save(model, people / "older.mnngp", table=old)
    predicted = {
        run("predict", name, "new.csv", cwd=people).stdout
        for name in ("model.mnngp", "older.mnngp")
    }
    assert len(predicted) == 1
    for table, complaint in (
        (
            model.table_ | {"usual_std": "1"},
            "usual_std must be a finite number at least 0, got '1'",
        ),
        (
            model.table_ | {"usual_std": -1.0},
            "usual_std must be a finite number at least 0, got -1.0",
        ),
        ({}, "the encoder must have the keys columns, notes"),
        (
            model.table_ | {"columns": model.table_["columns"][1:]},
            "the columns of the encoder must become",
        ),
        (model.table_ | {"task": "guessing"}, "the encoder's task must be one of"),
    ):
        path = people / "false.mnngp"
        path.write_bytes((people / "model.mnngp").read_bytes())
        rewrite(path, lambda header, members, table=table: header.update(table=table))
        assert complaint in run("predict", "false.mnngp", "new.csv", code=1, cwd=people).stderr


def test_tables_are_written_as_their_suffix_says(tmp_path):
    Store.begin(tmp_path / "run.sqlite", Protocol.of(demo.PROTOCOL)).close()
    begin = {"t.csv": "dataset,", "t.md": "|", "t.tex": "% needs", "t.txt": ""}
    for name, text in begin.items():
        run("table", "run.sqlite", "--missing", "-o", name, cwd=tmp_path)
        assert (tmp_path / name).read_text().startswith(text)
    assert len({(tmp_path / name).read_text() for name in begin}) == 4


def test_warnings_of_a_fit_are_notes(tmp_path):
    (tmp_path / "few.csv").write_text("x,y\n1,1\n2,2\n3,4\n")
    done = run("fit", "few.csv", "--target", "y", "-o", "few.mnngp", cwd=tmp_path)
    assert "note: X has only 3 distinct rows, from which no kernel can be chosen" in done.stdout
    assert "the only one that was tried" in done.stdout
    assert done.stderr == ""
    for n in ("inf", "1e200"):
        assert "Invalid value for '--n'" in run("plan", "--n", n, code=2).stderr
