"""The paper's figures, from results."""

import json

import numpy as np
import pytest

from mnngp.activations import Maxout
from mnngp.experiments import figures, panels, selection
from mnngp.experiments.tabulated import _grid_moment
from tests.experiments.pages import small
from tests.made_up import result


def all_figures():
    rows = selection.rows(small(sizes=(100, 500), activations=("maxout", "relu", "tanh", "erf")))
    yield figures.moments()
    yield figures.accuracy(rows, "mnist")
    yield figures.accuracy(
        selection.rows(small(dataset="digits", activations=("maxout", "relu"))), "digits"
    )
    yield from (figure for _, figure in panels.all_heat_maps(rows))
    yield figures.timings(small(sizes=(100, 5000), activations=("maxout", "relu")))
    yield figures.timings(small())


def test_figures_are_what_plotly_knows():
    import plotly.graph_objects as go

    for figure in all_figures():
        drawn = go.Figure(figure)  # it checks every name and value
        axes = {trace.xaxis or "x" for trace in drawn.data}
        assert len(axes) == figure["layout"]["meta"]["panels"]
        json.dumps(figure, allow_nan=False)


def test_figure_1_shows_what_the_library_does_today():
    (curves, *errors) = (
        panel for panel in (figures.moments()["data"][:4], *figures.moments()["data"][4:])
    )
    for rank, curve in zip((2, 3, 4, 8), curves, strict=True):
        np.testing.assert_allclose(curve["y"], Maxout(rank).moment(np.array(curve["x"])), atol=2e-5)
    by_method = {(trace["legendgroup"], trace["xaxis"]): trace for trace in errors}
    assert len(by_method) == 12
    for panel, rank in (("x2", 2), ("x3", 3), ("x4", 4)):
        assert max(by_method["library", panel]["y"]) < 5e-15
        assert 1e-7 < np.median(by_method["table", panel]["y"]) < 1e-5
        table = figures._errors()[rank, "table"]
        rho, error = table[len(table) // 3]
        nodes = sum(_grid_moment(rank, rho + step, 501, 10.0) for step in (-0.001, 0.001)) / 2.0
        assert nodes - Maxout(rank).moment(rho) == pytest.approx(error, rel=1e-2)


def test_figure_2_has_a_panel_a_rank_and_the_papers_points():
    rows = selection.rows(small(sizes=(100, 500), activations=("maxout", "relu")))
    figure = figures.accuracy(rows, "mnist")
    assert [note["text"] for note in figure["layout"]["annotations"]] == [
        "all ranks",
        "rank 2",
        "rank 3",
        "rank 4",
    ]
    by_name = {(trace["name"], trace["xaxis"]): trace for trace in figure["data"]}
    best = [row.best.test_accuracy.mean for row in rows if row.rank == 3]
    assert by_name["maxout", "x3"]["y"] == pytest.approx(best, abs=1e-5)
    assert by_name["maxout", "x3"]["x"] == [100, 500]
    assert by_name["paper: finite width", "x"]["y"] == [
        0.7070,
        0.8837,
        0.9210,
        0.9626,
        0.9729,
        0.9859,
    ]
    assert by_name["paper: maxout", "x3"]["y"] == [0.9763]  # where the paper selected rank 3
    assert ("ReLU", "x4") in by_name
    assert figures.accuracy(rows, "cifar10") is None


def test_figure_3_holds_the_mean_validation_accuracies():
    results = small()
    row = selection.rows(results)[0]
    figure = panels.heat_maps(row)
    maps = [trace for trace in figure["data"] if trace["type"] == "heatmap"]
    assert [trace["name"] for trace in maps] == [
        f"q = {rank}, depth {depth}" for rank in (2, 3, 4) for depth in (1, 5)
    ]
    for candidate in row.candidates:
        setting = candidate.setting
        z = maps[2 * (2, 3, 4).index(setting.rank) + (1, 5).index(setting.depth)]["z"]
        value = z[(0.1, 1.0).index(setting.bias_var)][(0.5, 1.0, 2.0).index(setting.weight_var)]
        assert value == pytest.approx(candidate.validation_accuracy, abs=1e-5)
    assert {trace["coloraxis"] for trace in maps} == {"coloraxis"}
    values = np.array([trace["z"] for trace in maps])
    assert (figure["layout"]["coloraxis"]["cmin"], figure["layout"]["coloraxis"]["cmax"]) == (
        values.min(),
        values.max(),
    )
    gap = [
        one
        for one in results
        if (one.rank, one.depth, one.bias_var, one.weight_var, one.repeat) != (3, 1, 1.0, 0.5, 1)
    ]
    assert panels.heat_maps(selection.rows(gap)[0])["data"][2]["z"][1][0] is None
    assert panels.heat_maps(selection.rows([result()])[0]) is None


def test_a_hundred_depths_are_thinned_out_and_the_best_is_kept():
    row = selection.rows(small(ranks=(2, 3), depths=range(1, 101), repeats=1))[0]
    names = [trace["name"] for trace in panels.heat_maps(row)["data"] if trace["type"] == "heatmap"]
    best = row.best.setting
    assert len(names) <= panels.MOST_PANELS
    assert f"q = {best.rank}, depth {best.depth}" in names
