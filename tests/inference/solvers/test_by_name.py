"""Which solver a name is, what is refused, and what there is without Dask."""

import builtins

import pytest

from mnngp import MaxoutGPRegressor
from mnngp._system.memory import parse_bytes
from mnngp.errors import (
    InputError,
    MissingExtraError,
)
from mnngp.inference import ClusterConjugateGradients, ConjugateGradients
from mnngp.inference.solvers import by_name, dask_conjugate_gradients
from tests.inference.problems import GIVEN


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ConjugateGradients(tolerance=0.0), "tolerance must be a finite number above 0"),
        (lambda: ConjugateGradients(max_iterations=0), "max_iterations must be a positive integer"),
        (lambda: ConjugateGradients(rank=-1), "rank must be a positive integer"),
        (
            lambda: ConjugateGradients(memory="much"),
            "memory must be a number of bytes or a size such as '4GB'",
        ),
        (
            lambda: dask_conjugate_gradients.Session(7),
            "scheduler must be an address, a distributed.Client or None, got 7",
        ),
        (lambda: by_name.check("fast"), "solver must be one of 'auto', 'cholesky', 'cg', 'dask'"),
        (lambda: by_name.check(ConjugateGradients), "solver must be one of"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
    assert parse_bytes("memory", "1.5 GiB") == 1.5 * 2**30
    assert parse_bytes("memory", 7) == 7


def test_which_solver(monkeypatch):
    assert by_name.name_of("auto", 50_000, "float64") in ("cholesky", "cg")
    monkeypatch.setattr("mnngp._system.memory.available", lambda: 10**10)
    assert by_name.name_of("auto", 30_000, "float64") == "cholesky"
    assert by_name.name_of("auto", 40_000, "float64") == "cg"  # 6.4 GB of 10
    assert by_name.name_of("auto", 40_000, "float32") == "cholesky"
    monkeypatch.setattr("mnngp._system.memory.available", lambda: 10**12)
    assert by_name.name_of("auto", 60_001, "float64") == "cg"
    assert by_name.solver_of("cholesky", 10**7, "float64") is None
    assert by_name.name_of(ClusterConjugateGradients(), 1, "float64") == "dask"


def test_without_dask(large_table, monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments):
        if name.split(".")[0] in ("dask", "distributed"):
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", refuse)
    X, y, new = (part[:100] for part in large_table)
    MaxoutGPRegressor(**GIVEN, solver="cg").fit(X, y).predict(new)
    for solver in ("dask", ClusterConjugateGradients()):
        with pytest.raises(MissingExtraError, match=r'pip install "mnngp\[dask\]"'):
            MaxoutGPRegressor(**GIVEN, solver=solver).fit(X, y)
