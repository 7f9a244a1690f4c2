"""What a model says of itself, of all kinds of models."""

import pickle
import re

import numpy as np
import polars as pl
import pytest

import mnngp
from mnngp import (
    Conv,
    Flatten,
    MaxoutGPClassifier,
    MaxoutGPRegressor,
    MaxoutKernel,
    NetworkKernel,
    ReLU,
)
from mnngp.errors import AccuracyWarning
from mnngp.estimators import ModelSummary, summary

rng = np.random.default_rng(9)
N = 60
X = rng.normal(size=(N, 3))
Y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=N)
GIVEN = {"depth": 1, "rank": 4, "weight_var": 0.6446, "bias_var": 0.1, "kind": "nngp"}
FRAME = pl.DataFrame(
    {
        "x": X[:, 0],
        "<script>alert(1)</script>": X[:, 1],
        "kind": ["a", "b", "c"] * (N // 3),
        "unit": ["<b>cm</b>\x1b[31m"] * N,
    }
)


def checked(model):
    """The lines below each heading, of a summary that fits and escapes."""
    made = model.summary()
    assert isinstance(made, ModelSummary)
    text, table = str(made), made._repr_html_()
    assert max(map(len, text.splitlines())) <= 80
    assert repr(made) == text
    assert text.isprintable() or set(filter(lambda one: not one.isprintable(), text)) == {"\n"}
    assert "<script>" not in table
    assert "<b>cm" not in table
    assert table.startswith("<table>")
    for heading, lines in made.sections.items():
        assert heading in text
        assert heading in table
        for name, _ in lines:
            assert f"  {name}" in text
    return {heading: dict(lines) for heading, lines in made.sections.items()}


def test_of_a_classifier_of_a_frame():
    labels = np.where(X[:, 0] > 0.0, "<yes>", "no")
    model = MaxoutGPClassifier(max_trials=6, random_state=0).fit(FRAME, labels)
    found = checked(model)
    assert found["Data"]["task"] == "classification, 2 classes: '<yes>', 'no'"
    assert found["Data"]["rows"] == "60"
    assert found["Data"]["columns"] == "4, which became 5 features"
    assert found["Data"]["note"].startswith("column 'unit' is left out")
    assert found["Model"]["chosen"].startswith("out of 6 by leave-one-out mean squared error")
    assert "that of the next best" in found["Model"]["chosen"]
    assert f"{model.trials_[1]['score']:.4g}" in found["Model"]["chosen"]
    assert f"{model.noise_var_:.4g}" == found["Model"]["noise variance"]
    majority = np.bincount(labels == "no").max() / N
    expected = f"{model.loo_.accuracy:.3f} (always the most frequent class: {majority:.3f})"
    assert found["Leave-one-out"]["accuracy"] == expected
    entropy = -(majority * np.log(majority) + (1.0 - majority) * np.log(1.0 - majority))
    assert found["Leave-one-out"]["log loss"].endswith(f"{entropy:.3f})")
    assert found["Relevance"][f"{model.feature_relevance_.max():.3f}"] == "'x'"
    assert "Warnings" not in found


def test_of_a_regressor():
    model = MaxoutGPRegressor(**GIVEN, features="embedding", random_state=0).fit(X, Y)
    found = checked(model)
    assert found["Data"] == {"task": "regression", "rows": "60", "columns": "3"}
    assert "lengthscale" in found["Model"]["features"]
    assert "columns" in found["Model"]["compared"]
    assert "ranks" in found["Model"]["compared"]
    assert found["Model"]["network"] == (
        "maxout of rank 4, 1 hidden layer; weight variance 0.6446, bias variance 0.1; kernel: NNGP"
    )
    assert found["Model"]["solver"] == "Cholesky factorisation, nothing was added to the noise"
    left_out = found["Leave-one-out"]
    assert left_out["R²"].startswith(f"{model.loo_.r2:.3f} ")
    assert left_out["RMSE"] == f"{model.loo_.rmse:.4g} (always the mean: {Y.std():.4g})"
    inside = np.abs(Y - model.loo_.mean) <= 1.6449 * model.loo_.std
    assert left_out["90 % intervals"].startswith(f"hold {100.0 * inside.mean():.1f} %")
    assert next(iter(found["Relevance"].values())) == "'x0'"


def test_of_several_targets_weights_and_repeated_rows():
    weight = np.ones(N)
    weight[:4] = 0.0
    rows = X.copy()
    rows[10:20] = rows[20:30]
    model = MaxoutGPRegressor(**GIVEN, features="linear")
    model.fit(rows, np.column_stack([Y, 100.0 * X[:, 1]]), weight)
    found = checked(model)
    assert found["Data"]["task"] == "regression of 2 targets"
    assert found["Data"]["rows"] == "60, of which 4 have the weight zero; 46 distinct"
    assert found["Model"]["noise variance"].count(",") == 1
    model.loo_  # noqa: B018


def test_of_a_kernel_that_is_given(tmp_path):
    kernel = NetworkKernel([ReLU()], 2.0, 0.1)
    model = MaxoutGPRegressor(kernel=kernel, noise_var=0.01, signal_var=1.0, max_trials=2)
    found = checked(model.fit(X, Y))
    assert found["Model"]["network"].startswith("NetworkKernel(layers=[ReLU()]")
    model.save(tmp_path / "model.mnngp")
    for other in (mnngp.load(tmp_path / "model.mnngp"), pickle.loads(pickle.dumps(model))):
        assert str(other.summary()) == str(model.summary())
    fixed = MaxoutKernel(1, 2, 1.0, 0.0, weight_var_bounds="fixed", dtype="float32")
    model = MaxoutGPRegressor(kernel=fixed, noise_var=0.01, signal_var=1.0, normalize="sphere")
    found = checked(model.fit(X, Y))
    assert found["Model"]["chosen"].startswith("the only one that was tried")
    assert found["Model"]["network"].endswith("kernel: NNGP, in float32")
    assert found["Model"]["features"] == "each row standardised"


def test_of_a_loaded_frame(tmp_path):
    model = MaxoutGPClassifier(**GIVEN, noise_var=0.1).fit(FRAME, X[:, 0] > 0.0)
    model.save(tmp_path / "model.mnngp")
    again = mnngp.load(tmp_path / "model.mnngp")
    assert checked(again) == checked(model)


def test_of_images():
    kernel = NetworkKernel([Conv(3), ReLU(), Flatten()], 2.0, 0.1, image_shape=(4, 4))
    images = rng.normal(size=(12, 16))
    model = MaxoutGPClassifier(kernel=kernel, noise_var=0.1, signal_var=1.0, max_trials=1)
    found = checked(model.fit(images, images[:, 0] > 0.0))
    assert "Relevance" not in found
    assert "Conv(3" in found["Model"]["network"]


def test_of_what_takes_long_or_cannot_be_had(monkeypatch):
    model = MaxoutGPRegressor(**GIVEN, noise_var=0.01, features="linear").fit(X, Y)
    monkeypatch.setattr(summary, "_CHEAP", 50)
    assert "not computed for 60 distinct rows" in str(model.summary())
    model.loo_.mean  # noqa: B018
    assert "RMSE" in str(model.summary())  # what is known costs nothing
    many = rng.normal(size=(300, 3))
    model = MaxoutGPRegressor(**GIVEN, noise_var=0.1, features="linear", solver="cg")
    found = checked(model.fit(many, many[:, 0]))
    assert found["Leave-one-out"][""].startswith("not available: ")
    assert found["Model"]["solver"].startswith("conjugate gradients: ")


def warnings_of(model):
    checked(model)
    return " ".join(text for _, text in model.summary().sections.get("Warnings", ()))


def test_warnings():
    with pytest.warns(AccuracyWarning, match="distinct rows"):
        few = MaxoutGPRegressor().fit(X[:3], Y[:3])
    assert "3 distinct rows: no kernel can be chosen from so few" in warnings_of(few)
    model = MaxoutGPRegressor(**GIVEN, noise_var=0.01, features="linear").fit(X, Y)
    assert warnings_of(model) == ""
    model.report_ = type(model.report_)(1e-6, 3, 1.0, 1e9)
    assert "until 1e-06 was added to the noise variance" in warnings_of(model)
    noise = MaxoutGPRegressor(**GIVEN, noise_var=0.01, signal_var=1.0, features="linear")
    noise.fit(X, rng.normal(size=N))
    assert noise.loo_.r2 < 0.0
    assert "no better than the mean: the columns may tell nothing" in warnings_of(noise)


def test_before_a_fit():
    with pytest.raises(Exception, match="not fitted"):
        MaxoutGPRegressor().summary()


def test_warped_targets():
    """Scores are in the units of the targets, and so are those of who looks at no column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.exp(2.0 + X[:, 0] + 0.3 * rng.normal(size=120))
    model = MaxoutGPRegressor(warp="log", max_trials=6, random_state=0).fit(X, y)
    text = str(model.summary())
    assert "warped: Log(shift=0.0)" in text
    assert f"(always the mean: {y.std():.4g})" in text
    held = float(re.search(r"hold ([\d.]+) %", text)[1])
    assert 84.0 <= held <= 96.0  # 120 rows: two standard errors
    assert "Warnings" not in text
