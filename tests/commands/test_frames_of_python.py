"""Models of frames: fitted here and predicting on the command line, and the other way round."""

import numpy as np
import polars as pl
import pytest

import mnngp
from tests.commands.running import run
from tests.tables.everything import cells, frame, targets

TRAIN, NEW = cells(80), cells(20, seed=1, new=True)
Y, LABELS = targets(TRAIN)
QUICK = {
    "depth": 1,
    "rank": 2,
    "weight_var": 1.0,
    "bias_var": 0.1,
    "kind": "nngp",
    "noise_var": 0.05,
}
FILES = ("new.csv", "new.parquet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """New rows as files; in CSV durations are days, and times those of Greenwich."""
    folder = tmp_path_factory.mktemp("frames")
    new = frame("polars", NEW)
    new.write_parquet(folder / "new.parquet")
    days = new["duration"].dt.total_minutes() / 1440
    plain = new.with_columns(days.alias("duration"), new["zoned"].dt.convert_time_zone("UTC"))
    plain.with_columns(plain["zoned"].dt.replace_time_zone(None)).write_csv(folder / "new.csv")
    return folder


@pytest.mark.parametrize("file", FILES)
def test_models_of_python_on_the_command_line(folder, file):
    new = frame("polars", NEW)
    regressor = mnngp.MaxoutGPRegressor(**QUICK).fit(frame("pandas", TRAIN), Y)
    regressor.save(folder / "numbers.mnngp")
    done = run("predict", "numbers.mnngp", file, "--keep", "name", cwd=folder)
    table = pl.read_csv(done.stdout.encode())
    assert table.columns == ["name", "prediction", "std"]
    # single precision in CSV has as many digits as it needs: at most 1e-9
    mean, std = regressor.predict(new, return_std=True, include_noise=True)
    np.testing.assert_allclose(table["prediction"], mean, rtol=1e-7)
    np.testing.assert_allclose(table["std"], std, rtol=1e-7)
    assert "column 'colour': " in done.stderr
    assert "mauve" in done.stderr
    classifier = mnngp.MaxoutGPClassifier(**QUICK).fit(frame("polars", TRAIN), pl.Series(LABELS))
    classifier.save(folder / "labels.mnngp")
    table = pl.read_csv(run("predict", "labels.mnngp", file, cwd=folder).stdout.encode())
    assert table.columns == ["prediction", "P(high)", "P(low)"]
    np.testing.assert_allclose(table[:, 1:].to_numpy(), classifier.predict_proba(new), rtol=1e-7)
    assert table["prediction"].to_list() == classifier.predict(new).tolist()


def test_models_of_plain_numbers_on_the_command_line(folder):
    train = pl.DataFrame({"a": Y, "b": Y**2})
    model = mnngp.MaxoutGPRegressor(**QUICK).fit(train, np.column_stack([Y, -Y]))
    model.save(folder / "plain.mnngp")
    train[:3, ::-1].write_csv(folder / "plain.csv")
    table = pl.read_csv(run("predict", "plain.mnngp", "plain.csv", cwd=folder).stdout.encode())
    assert table.columns == ["prediction 0", "prediction 1", "std 0", "std 1"]
    np.testing.assert_array_equal(table[:, :2].to_numpy(), model.predict(train[:3]))
    for text, complaint in (
        ("a\n1\n", "has no column 'b', which the model needs"),
        ("a,b\n1,2\n,3\n", "column 'a' must have no gaps, as in training, row 2 is one"),
        ("a,b\n1,2\n1,x\n", "column 'b' must hold numbers, row 2 has 'x'"),
    ):
        (folder / "wrong.csv").write_text(text)
        done = run("predict", "plain.mnngp", "wrong.csv", code=1, cwd=folder)
        assert complaint in done.stderr


def test_models_of_the_command_line_in_python(folder):
    frame("polars", TRAIN).with_columns(pl.Series("target", Y)).write_parquet(folder / "t.parquet")
    fit = ("fit", "t.parquet", "--target", "target", "--drop", "flag", "--max-trials", "2")
    run(*fit, "-o", "fitted.mnngp", cwd=folder)
    done = run("predict", "fitted.mnngp", "new.parquet", cwd=folder)
    expected = pl.read_csv(done.stdout.encode())["prediction"]
    model = mnngp.load(folder / "fitted.mnngp")
    assert list(model.feature_names_in_) == [name for name in TRAIN if name != "flag"]
    for kind in ("pandas", "polars"):
        np.testing.assert_allclose(model.predict(frame(kind, NEW)), expected, rtol=1e-12)
