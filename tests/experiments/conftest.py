"""Fixtures of the tests of sweeps."""

import pytest

from mnngp.data import load
from tests.experiments.sweeps import Zygote, protocol_of, swept


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module")
def zygote(tmp_path_factory):
    process = Zygote(tmp_path_factory.mktemp("zygote"))
    yield process
    process.close()


@pytest.fixture(scope="module")
def whole(digits, tmp_path_factory):
    """The store of cells of which some failed, and one is less accurate than usual."""
    deep = {
        "activation": "maxout",
        "rank": 2,
        "depth": [1, 60],
        "weight_var": 1e-6,
        "bias_var": 0.1,
    }
    others = {
        "activation": "maxout",
        "rank": [2, 3],
        "depth": [1, 2],
        "weight_var": [1.0, 1e200],
        "bias_var": [0.1, 0.5],
    }
    protocol, path = (
        protocol_of(train=[20, 30], family=[deep, others]),
        tmp_path_factory.mktemp("whole") / "run.sqlite",
    )
    results = swept(path, protocol, digits)
    assert {(result.status, result.warning is None) for result in results} == {
        ("done", True),
        ("done", False),
        ("failed", True),
    }
    return path
