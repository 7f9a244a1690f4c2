"""``class_weight`` of the classifier, as scikit-learn has it."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import recall_score
from sklearn.utils.class_weight import compute_sample_weight

import mnngp
from mnngp import MaxoutGPClassifier

X, LABELS = load_iris(return_X_y=True)
GIVEN = {"depth": 2, "rank": 3, "weight_var": 0.8, "bias_var": 0.2, "kind": "nngp"}
FEW = np.concatenate([np.arange(50), np.arange(50, 80), np.arange(100, 112)])


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 2.5, 2: 0.25}])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_a_sample_weight(class_weight, weighted):
    rows, y = X[FEW], LABELS[FEW]
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=len(y)) if weighted else None
    by_class = MaxoutGPClassifier(**GIVEN, class_weight=class_weight)
    by_class.fit(rows, y, sample_weight=weight)
    each = np.ones(len(y)) if weight is None else weight
    if class_weight == "balanced":  # which counts weights; from 1.7 on scikit-learn does, too
        each = each * (each.sum() / (3.0 * np.bincount(y, weights=each)))[y]
    else:
        each = each * compute_sample_weight(class_weight, y)
    by_row = MaxoutGPClassifier(**GIVEN).fit(rows, y, sample_weight=each)
    np.testing.assert_allclose(by_class.predict_proba(X), by_row.predict_proba(X), rtol=1e-9)
    if not weighted:
        np.testing.assert_allclose(each, compute_sample_weight(class_weight, y))
    if weighted:  # the caller's is as it was
        np.testing.assert_array_equal(
            weight, np.random.default_rng(0).uniform(0.5, 2.0, size=len(y))
        )


def test_rows_of_weight_zero_do_not_count():
    weight = np.zeros(len(X))
    weight[FEW] = 1.0
    left_out = MaxoutGPClassifier(**GIVEN, class_weight="balanced").fit(X, LABELS, weight)
    absent = MaxoutGPClassifier(**GIVEN, class_weight="balanced").fit(X[FEW], LABELS[FEW])
    np.testing.assert_allclose(left_out.predict_proba(X), absent.predict_proba(X), atol=1e-12)


def test_equal_weights_change_nothing():
    plain = MaxoutGPClassifier(**GIVEN).fit(X, LABELS)
    ones = MaxoutGPClassifier(**GIVEN, class_weight={0: 1.0, 1: 1.0, 2: 1.0}).fit(X, LABELS)
    np.testing.assert_array_equal(plain.predict_proba(X), ones.predict_proba(X))


def test_a_rare_class_is_found():
    """Two Gaussians two deviations apart, one in twenty of the second: best is the middle, where
    Φ(1) = 84 % of each are found; without weights the second is hardly ever predicted.
    """
    rng = np.random.default_rng(0)
    y = (rng.random(3000) < 0.05).astype(int)
    rows = rng.normal(size=(3000, 2)) + np.column_stack([2.0 * y - 1.0, 0.0 * y])
    found = {}
    for class_weight in (None, "balanced"):
        model = MaxoutGPClassifier(class_weight=class_weight, max_trials=8, random_state=0)
        predicted = model.fit(rows[:600], y[:600]).predict(rows[600:])
        recalls = recall_score(y[600:], predicted, average=None)
        found[class_weight] = *recalls, model.predict_proba(rows[600:])[:, 1].mean()
    assert found[None][1] < 0.4
    assert found[None][2] == pytest.approx(0.05, abs=0.02)  # as frequent as it is
    np.testing.assert_allclose(found["balanced"][:2], 0.84, atol=0.1)
    # for classes of equal weight: Φ(1) of the second, 1 - Φ(1) of the first, roughly
    assert 0.2 < found["balanced"][2] < 0.4


@pytest.mark.parametrize("labels", [LABELS, np.array(["a", "b", "c"])[LABELS], LABELS * 10.0])
def test_round_trip(tmp_path, labels):
    weights = dict(zip(np.unique(labels), (1.0, 2, np.float32(0.5)), strict=True))
    model = MaxoutGPClassifier(**GIVEN, class_weight=weights).fit(X, labels)
    model.save(tmp_path / "m")
    again = mnngp.load(tmp_path / "m")
    assert again.class_weight == weights
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.fit(X, labels).predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("even", r"class_weight must be None, 'balanced' or a dict from labels .* got 'even'"),
        ([1.0, 2.0], "class_weight must be None, 'balanced' or a dict"),
        ({0: -1.0}, r"class_weight\[0\] must be a finite number at least 0, got -1.0"),
        ({0: "1"}, r"class_weight\[0\] must be a finite number at least 0, got '1'"),
        (
            {0: 0.0, 1: 0.0, 2: 0.0},
            "(?i)sample.weights? must (contain at least one non-zero number|be above 0)",
        ),
    ],
)
def test_what_is_refused(class_weight, message):
    with pytest.raises(ValueError, match=message):
        MaxoutGPClassifier(class_weight=class_weight).fit(X, LABELS)


def test_labels_that_are_not_there():
    with pytest.raises(ValueError, match=r"classes, \[1, 2\], are not in class_weight"):
        MaxoutGPClassifier(class_weight={0: 1.0, 7: 2.0}).fit(X, LABELS)
