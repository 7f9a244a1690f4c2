"""Protocols: the files in experiments/, what is refused and how, and what makes two runs the
same.
"""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from mnngp import MaxoutKernel, NetworkKernel, Tanh
from mnngp.errors import InputError
from mnngp.experiments.cells import rows
from mnngp.experiments.comparison import table1
from mnngp.experiments.protocol import Protocol, Split

FILES = sorted((Path(__file__).parents[2] / "experiments").glob("*.toml"))
# The paper's grid (section 6.1), and the sizes at which the files have a part of it
DEPTHS = (1, 5, 9, 13, 17, 21)
BIAS_VARS = [2 * i / 29 for i in range(1, 30, 4)]
WEIGHT_VARS = [0.1 + 49 * i / 290 for i in range(0, 29, 4)]
PARTS = ("-10000", "-45000", "-50000")
MAXOUT = {
    "activation": "maxout",
    "rank": [2, 4],
    "depth": [1, 5],
    "weight_var": [0.5, 1.0],
    "bias_var": 0.1,
}
TANH = {"activation": "tanh", "depth": 3, "weight_var": 1.5, "bias_var": [0.0, 0.1], "train": [100]}
RUN = {
    "title": "a title",
    "data": {"name": "digits", "train": [200, 100], "validation": 300, "repeats": 2},
    "family": [MAXOUT, TANH],
}


def changed(**keys):
    """RUN with keys such as data__train changed; None takes a key away."""
    run = copy.deepcopy(RUN)
    for key, value in keys.items():
        *path, last = key.split("__")
        place = run
        for name in path:
            place = place[int(name)] if name.isdigit() else place.setdefault(name, {})
        if value is None:
            del place[last]
        else:
            place[last] = value
    return run


# --- the files in experiments/ --------------------------------------------------------------------


def test_there_are_files():
    names = {path.stem for path in FILES}
    assert {
        "digits-small",
        "digits-grid",
        "figure3-cifar10",
        "grid-mnist-1000",
        "table1-mnist-quick",
    } <= names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_is_a_protocol(path):
    protocol = Protocol.load(path)
    assert protocol.title
    assert (protocol.policy, protocol.noise_var) == ("paper", 1e-10)
    if not path.stem.startswith("convolution-"):  # as the paper has it
        expected = {"mnist": 10000, "cifar10": 5000, "digits": 500}
        assert protocol.validation == expected[protocol.dataset]
    assert len(protocol) == sum(len(group.depths) for group in protocol.groups)
    again = Protocol.of(protocol.mapping())
    assert again == protocol


def test_every_row_of_table_1_is_in_a_file():
    """To the two decimals that are printed, with as many repeats as two cores can do."""
    asked = {}
    for path in FILES:
        if path.stem.startswith("table1-"):
            protocol = Protocol.load(path)
            for group in protocol.groups:
                for depth in group.depths:
                    setting = (
                        group.activation,
                        group.rank,
                        depth,
                        f"{group.bias_var:.2f}",
                        f"{group.weight_var:.2f}",
                    )
                    asked[protocol.dataset, group.split.n_train, *setting] = protocol.repeats
    rows = [row for row in table1() if row.family != "finite"]
    assert len(rows) == 36
    assert set(asked) == {
        (
            row.dataset,
            row.n_train,
            row.activation,
            row.rank,
            row.depth,
            f"{row.bias:.2f}",
            f"{row.weight:.2f}",
        )
        for row in rows
    }
    assert {key[1]: repeats for key, repeats in asked.items()} == {
        100: 20,
        500: 20,
        1000: 20,
        5000: 3,
        10000: 1,
        45000: 1,
        50000: 1,
    }


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in FILES
        if path.stem.startswith(("grid", "figure")) and not path.stem.endswith(PARTS)
    ],
    ids=lambda path: path.stem,
)
def test_grids_are_the_papers(path):
    protocol = Protocol.load(path)
    for family in protocol.families:
        assert family.depth == DEPTHS
        np.testing.assert_array_equal(family.bias_var, BIAS_VARS)
        np.testing.assert_array_equal(family.weight_var, WEIGHT_VARS)
    maxout = sum(len(group.depths) for group in protocol.groups if group.activation == "maxout")
    assert maxout == 1152 * protocol.repeats * len(protocol.train)
    names = {family.activation for family in protocol.families}
    assert names == (
        {"maxout"} if "figure" in path.stem or "once" in path.stem else {"maxout", "relu", "tanh"}
    )


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.stem.startswith("grid") and path.stem.endswith(PARTS)],
    ids=lambda path: path.stem,
)
def test_parts_of_grids_are_of_the_papers(path):
    for family in Protocol.load(path).families:
        assert set(family.depth) <= set(DEPTHS)
        assert set(family.bias_var) <= set(BIAS_VARS)
        assert set(family.weight_var) <= set(WEIGHT_VARS)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": None}, "data is missing"),
        ({"data": 3}, r"data must be a table, \[data\], got 3"),
        ({"data__name": "imagenet"}, "data.name must be one of 'digits', 'mnist'.*got 'imagenet'"),
        ({"data__name": None}, "data.name is missing"),
        (
            {"data__size": 3},
            "data.size is not known here; there are name, repeats, seed, test, train, validation",
        ),
        ({"data__train": []}, "data.train must hold at least one value, got none"),
        ({"data__train": [100, 0]}, r"data.train\[1\] must be a positive integer.*got 0"),
        ({"data__train": True}, "data.train must be a positive integer.*got True"),
        (
            {"data__train": 1000},
            r"data.train and data.validation must be at most 1198 "
            r"together.*digits, got 1000 \+ 300",
        ),
        ({"data__validation": 1.5}, "data.validation must be a positive integer.*got 1.5"),
        ({"data__test": 600}, "data.test must be at most 599, the test images of digits, got 600"),
        ({"data__repeats": 0}, "data.repeats must be a positive integer"),
        ({"data__seed": -1}, "data.seed must be a whole number from 0 to 2⁶³ - 1, got -1"),
        ({"title": 3}, "title must be a text, got 3"),
        ({"colour": "red"}, "colour is not known here; there are data, family, noise, title"),
        ({"noise": []}, r"noise must be a table, \[noise\], got \[\]"),
        ({"noise__policy": "none"}, "noise.policy must be one of 'paper', 'relative', got 'none'"),
        ({"noise__noise_var": float("nan")}, "noise.noise_var must be a finite number"),
        ({"family": None}, "family is missing"),
        ({"family": []}, r"family must be one or more tables, \[\[family\]\]"),
        ({"family": [1]}, r"family\[0\] must be a table, got 1"),
        ({"family__1__depth": 0}, r"family\[1\].depth must be a positive integer.*got 0"),
        ({"family__1__depth": [1, 20000]}, r"family\[1\].depth must be at most 10,000, got 20,000"),
        ({"family__1__depth": None}, r"family\[1\].depth is missing"),
        ({"family__1__rank": 2}, r"family\[1\].rank is for maxout only, got 2 with tanh"),
        ({"family__0__rank": None}, r"family\[0\].rank is missing"),
        (
            {"family__0__activation": "swish"},
            r"family\[0\].activation must be one of 'maxout', "
            r"'relu'.*got 'swish'",
        ),
        (
            {"family__0__kind": "gp"},
            r"family\[0\].kind must be one of 'nngp', 'ntk', 'finite', got "
            r"'gp'",
        ),
        ({"family__0__weight_var": 0.0}, r"family\[0\].weight_var must be a finite number above 0"),
        (
            {"family__0__weight_var": [1.0, "2"]},
            r"family\[0\].weight_var\[1\] must be a finite "
            r"number",
        ),
        (
            {"family__0__weight_var": []},
            r"family\[0\].weight_var must hold at least one value, got "
            r"none",
        ),
        ({"family__0__bias_var": -0.1}, r"family\[0\].bias_var must be a finite number at least 0"),
        (
            {"family__0__bias_var": {"from": 0.0, "to": 2.0}},
            r"family\[0\].bias_var.count is missing",
        ),
        (
            {"family__0__bias_var": {"from": 0.0, "to": "2", "count": 3}},
            r"family\[0\].bias_var.to "
            r"must be a finite number",
        ),
        (
            {"family__0__bias_var": {"from": 0.0, "to": 2.0, "step": 3}},
            r"family\[0\].bias_var.step "
            r"is not known here",
        ),
        (
            {"family__0__bias_var": {"from": 0.0, "to": 2.0, "count": 10**9}},
            r"bias_var.count must "
            r"be at most 1,000,000",
        ),
        (
            {"family__0__bias_var": {"from": 0.0, "to": 2.0, "count": 10**6}},
            "at most 1,000,000 cells can be run, got",
        ),
        (
            {"family__0__train": [300]},
            r"family\[0\].train must be some of data.train, \[100, "
            r"200\], got \[300\]",
        ),
        ({"family__0__width": 5}, r"family\[0\].width is not known here"),
    ],
)
def test_errors_name_the_key(changes, message):
    with pytest.raises(InputError, match=message):
        Protocol.of(changed(**changes))


def test_errors_of_files_name_the_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("title = ")
    with pytest.raises(InputError, match=r"run.toml is not a TOML file: "):
        Protocol.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"run.toml is not a TOML file: "):
        Protocol.load(path)
    path.write_text("[data]\nname = 'mnist'\n")
    with pytest.raises(InputError, match=r"run.toml: data.train is missing"):
        Protocol.load(path)
    with pytest.raises(InputError, match=r"none.toml is not there"):
        Protocol.load(tmp_path / "none.toml")


# --- what makes a run -----------------------------------------------------------------------------


def test_cells_groups_and_splits():
    protocol = Protocol.of(RUN)
    assert list(protocol.splits) == [Split(100, 0), Split(200, 0), Split(100, 1), Split(200, 1)]
    assert len(protocol) == 2 * (2 * 8 + 2)
    assert [group.split for group in protocol.groups] == sorted(
        (group.split for group in protocol.groups), key=lambda s: s.repeat
    )
    keys = [group.key(depth) for group in protocol.groups for depth in group.depths]
    assert len(set(keys)) == len(keys) == len(protocol)
    assert {group.split.n_train for group in protocol.groups if group.activation == "tanh"} == {100}


def test_what_two_families_share_is_run_once():
    other = MAXOUT | {"depth": [5, 9], "weight_var": 1.0}
    protocol = Protocol.of(changed(family=[MAXOUT, other]))
    assert len(protocol) == 4 * (8 + 2)
    assert {group.depths for group in protocol.groups if group.weight_var == 1.0} == {(1, 5, 9)}


def test_a_protocol_is_the_same_however_it_is_written():
    protocol = Protocol.of(RUN)
    same = changed(
        title="another",
        data__train=[100, 200, 100],
        data__seed=0,
        data__test=599,
        noise__noise_var=1e-10,
        family__0__rank=[4, 2],
        family__0__weight_var={"from": 0.5, "to": 1, "count": 2},
        family__0__bias_var=[0.1],
    )
    assert Protocol.of(same).canonical() == protocol.canonical()
    assert protocol.differences(Protocol.of(same)) == []
    assert json.loads(protocol.canonical())["data"]["train"] == [100, 200]


def test_differences_are_shown_by_key():
    new = changed(data__repeats=3, family__0__weight_var=[0.5, 1.5, 2.0], family__1__kind="ntk")
    assert Protocol.of(RUN).differences(Protocol.of(new)) == [
        "data.repeats: 2 → 3",
        "family[0].weight_var[1]: 1.0 → 1.5",
        "family[1].kind: nngp → ntk",
        "family[0].weight_var[2]: nothing → 2.0",
    ]


def test_kernels():
    maxout, tanh = (
        next(g for g in Protocol.of(RUN).groups if g.activation == name)
        for name in ("maxout", "tanh")
    )
    X = np.random.default_rng(0).normal(size=(5, 3))
    expected = MaxoutKernel(5, maxout.rank, maxout.weight_var, maxout.bias_var)(X)
    np.testing.assert_array_equal(maxout.kernel(5)(X), expected)
    np.testing.assert_array_equal(
        tanh.kernel(3)(X), NetworkKernel([Tanh()] * 3, tanh.weight_var, tanh.bias_var)(X)
    )
    for activation in ("relu", "leaky_relu", "abs", "erf", "gelu"):
        (group,) = Protocol.of(
            changed(
                data__train=100,
                data__repeats=1,
                family=[TANH | {"activation": activation, "bias_var": 0.1}],
            )
        ).groups
        assert np.linalg.eigvalsh(group.kernel(2)(X)).min() > 0.0


def test_splits_of_the_data():
    protocol = Protocol.of(RUN)
    small, validation = rows(protocol, Split(100, 0), 1198)
    large, _ = rows(protocol, Split(200, 0), 1198)
    assert (len(small), len(validation)) == (100, 300)
    assert len({*small, *validation}) == 400
    np.testing.assert_array_equal(large[:100], small)
    np.testing.assert_array_equal(np.concatenate([small, validation])[:200], large)
    np.testing.assert_array_equal(
        small, np.random.default_rng(np.random.SeedSequence([0, 0])).permutation(1198)[:100]
    )
    assert set(rows(protocol, Split(100, 1), 1198)[0]) != set(small)
    seeded = Protocol.of(changed(data__seed=7))
    assert set(rows(seeded, Split(100, 0), 1198)[0]) != set(small)
