"""Solvers by name, as the estimators and the command line take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnngp._system import memory
from mnngp._system.connection import distributed
from mnngp.errors import InputError
from mnngp.inference.solvers.cholesky import Cholesky
from mnngp.inference.solvers.conjugate_gradients import ConjugateGradients
from mnngp.inference.solvers.dask_conjugate_gradients import ClusterConjugateGradients
from mnngp.inference.solvers.interface import Solver

SOLVERS = {"cholesky": Cholesky, "cg": ConjugateGradients, "dask": ClusterConjugateGradients}
NAMES = ("auto", *SOLVERS)
LARGEST = 60_000  # points that "auto" factors: a quarter of an hour on two cores
ALWAYS = 5_000  # points that "auto" factors whatever the free memory seems to be: 100 MB


def check(solver: Any) -> None:
    """Raise if it is no solver."""
    named = isinstance(solver, str) and solver in NAMES
    if not named and (not callable(solver) or isinstance(solver, type)):
        raise InputError(
            f"solver must be one of {', '.join(map(repr, NAMES))}, or one of mnngp.inference, such "
            f"as ConjugateGradients(memory='4GB'), got {solver!r}"
        )


def name_of(solver: Any, n: int, dtype: Any) -> str:
    """What a solver is called; "auto" is decided for n points.

    It is the Cholesky factorisation up to ``ALWAYS`` points, and up to ``LARGEST`` if its n²/2
    numbers take less than half of the free memory: that gives leave-one-out, the evidence and quick
    variances as well. Beyond, it is conjugate gradients.
    """
    if solver == "auto":
        fits = n <= ALWAYS or np.dtype(dtype).itemsize * n * (n + 1) // 2 <= memory.available() // 2
        return "cholesky" if n <= LARGEST and fits else "cg"
    if isinstance(solver, str):
        return solver
    return next((name for name, kind in SOLVERS.items() if type(solver) is kind), "cg")


def solver_of(solver: Any, n: int, dtype: Any) -> Solver | None:
    """What ``Posterior`` takes as its solver, for n points: None is the Cholesky factorisation."""
    if not isinstance(solver, str):
        return solver  # type: ignore[no-any-return]
    name = name_of(solver, n, dtype)
    if name == "cholesky":
        return None
    if name == "dask":
        distributed()  # or an error, before any work
    return SOLVERS[name]()  # type: ignore[no-any-return]
