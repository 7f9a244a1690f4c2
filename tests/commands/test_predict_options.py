"""Intervals, quantiles and warps on the command line; weights of classes."""

import json

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import recall_score

import mnngp
from mnngp import MaxoutGPClassifier
from tests.commands.running import run


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    """Lognormal prices, and the model of a part of them."""
    folder = tmp_path_factory.mktemp("prices")
    rng = np.random.default_rng(0)
    size, district = rng.uniform(-1.0, 1.0, size=160), rng.choice(["north", "south"], size=160)
    price = np.exp(size + 0.5 * (district == "north") + 0.4 * rng.normal(size=160))
    table = pl.DataFrame({"size": size, "district": district, "price": price})
    table[:100].write_csv(folder / "train.csv")
    table[100:].write_csv(folder / "new.csv")
    command = ("fit", "train.csv", "--target", "price", "--max-trials", "2", "-o", "m.mnngp")
    (folder / "shown.txt").write_text(run(*command, cwd=folder).stdout)
    return folder


def predictions(folder, *options, model="m.mnngp"):
    return pl.read_csv(run("predict", model, "new.csv", *options, cwd=folder).stdout.encode())


def test_intervals_and_quantiles(prices):
    assert "warp of 'price': Log(shift=0.0)" in (prices / "shown.txt").read_text()
    plain = predictions(prices)
    assert plain.columns == ["prediction", "std"]  # nothing that was not asked for
    table = predictions(prices, "--interval", "0.9", "--quantiles", "0.5,0.05")
    names = ["lower", "upper", "quantile 0.5", "quantile 0.05"]
    assert table.columns == ["prediction", "std", *names]
    assert table.select("prediction", "std").equals(plain)
    np.testing.assert_allclose(table["lower"], table["quantile 0.05"], rtol=1e-12)
    assert (table["lower"] > 0.0).all()
    model = mnngp.load(prices / "m.mnngp")
    new = pl.read_csv(prices / "new.csv").drop("price")
    np.testing.assert_array_equal(table["quantile 0.5"], model.predict_quantiles(new, [0.5])[:, 0])
    mean, std = model.predict(new, return_std=True, include_noise=True)
    np.testing.assert_array_equal(table["prediction"], mean)
    np.testing.assert_array_equal(table["std"], std)
    truth = pl.read_csv(prices / "new.csv")["price"]
    inside = ((truth > table["lower"]) & (truth < table["upper"])).mean()
    assert abs(inside - 0.9) < 4.0 * np.sqrt(0.09 / 60)


def test_warps_by_name(prices):
    command = ("fit", "train.csv", "--target", "price", "--max-trials", "1", "-o", "w", "--json")
    found = {
        name: json.loads(run(*command, "--warp", name, cwd=prices).stdout)["warp"]
        for name in ("none", "arcsinh")
    }
    assert found["none"] == {"name": "identity"}
    assert found["arcsinh"].keys() == {"name", "center", "scale"}
    failed = run(*command, "--warp", "sqrt", cwd=prices, code=1)
    assert "--warp must be one of" in failed.stderr
    failed = run(*command, "--class-weight", "balanced", cwd=prices, code=1)
    assert "--class-weight is for classification, 'price' holds numbers" in failed.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--interval", "90"), "--interval must be a probability above 0 and below 1, got 90.0"),
        (("--quantiles", "0.1;0.9"), "--quantiles must be numbers above 0 and below 1 with commas"),
        (("--quantiles", "0.1,1"), "such as 0.05,0.5,0.95, got '0.1,1'"),
    ],
)
def test_what_is_refused(prices, options, message):
    assert message in run("predict", "m.mnngp", "new.csv", *options, cwd=prices, code=1).stderr


# --- classes --------------------------------------------------------------------------------------


def rare_defects(n, seed):
    """One row in twelve is a defect, nearer to the others than it can be told from all of them."""
    rng = np.random.default_rng(seed)
    defect = rng.random(n) < 1.0 / 12.0
    frame = pl.DataFrame(
        {
            "heat": rng.normal(size=n) + 1.5 * defect,
            "line": np.where(rng.random(n) < 0.3 + 0.4 * defect, "old", "new"),
        }
    )
    return frame, np.where(defect, "bad", "good")


def test_balanced_classes_of_frames_and_of_the_command(tmp_path):
    frame, label = rare_defects(240, 0)
    new, truth = rare_defects(600, 1)
    recall = {}
    for class_weight in (None, "balanced"):
        model = MaxoutGPClassifier(max_trials=3, random_state=0, class_weight=class_weight)
        found = model.fit(frame, label).predict(new)
        recall[class_weight] = recall_score(truth, found, pos_label="bad")
    assert recall["balanced"] > recall[None] + 0.2
    frame.with_columns(pl.Series("label", label)).write_csv(tmp_path / "train.csv")
    new.write_csv(tmp_path / "new.csv")
    command = ("fit", "train.csv", "--target", "label", "--max-trials", "3", "-o", "m")
    run(*command, "--class-weight", "balanced", cwd=tmp_path)
    assert mnngp.load(tmp_path / "m").class_weight == "balanced"
    assert (predictions(tmp_path, model="m")["prediction"].to_numpy() == found).mean() > 0.99
    assert (
        "--class-weight must be one of"
        in run(*command, "--class-weight", "even", cwd=tmp_path, code=1).stderr
    )
    assert (
        "--warp is for regression, 'label' holds labels"
        in run(*command, "--warp", "log", cwd=tmp_path, code=1).stderr
    )
    failed = run("predict", "m", "new.csv", "--interval", "0.9", cwd=tmp_path, code=1)
    assert "--interval 0.9: m predicts labels, which have probabilities alone" in failed.stderr


def test_ordered_labels_are_regressed_on():
    """Grades from 1 to 5: a regression is nearer than classes that know of no order."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    grade = np.clip(np.rint(3.0 + X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.normal(size=300)), 1.0, 5.0)
    model = mnngp.MaxoutGPRegressor(max_trials=2, random_state=0).fit(X[:150], grade[:150])
    assert not model.process_.warps  # few values have no density
    assert np.abs(np.rint(model.predict(X[150:])) - grade[150:]).mean() < 0.6
