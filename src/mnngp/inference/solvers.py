"""How a posterior is solved for, by a word."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnngp._system import memory
from mnngp.errors import InputError
from mnngp.inference.large import ConjugateGradients

WORDS = ("auto", "cholesky", "cg", "dask", "dask-cholesky")
LARGEST = 60_000  # points that "auto" factors: a quarter of an hour on two cores
ALWAYS = 5_000  # points that "auto" factors whatever the free memory seems to be: 100 MB


def check(solver: Any) -> None:
    """Raise if it is no solver."""
    if not (callable(solver) and not isinstance(solver, type)) and not (
        isinstance(solver, str) and solver in WORDS
    ):
        raise InputError(
            f"solver must be one of {', '.join(map(repr, WORDS))}, or one of mnngp.inference, such "
            "as "
            f"ConjugateGradients(memory='4GB'), got {solver!r}"
        )


def word(solver: Any, n: int, dtype: Any) -> str:
    """What a solver is called; "auto" is decided.

    It is the Cholesky factorisation up to ``ALWAYS`` points, and up to ``LARGEST`` if its n²/2
    numbers take less than half of the free memory: that gives leave-one-out, the evidence and quick
    variances as well. Beyond, it is conjugate gradients.
    """
    if solver == "auto":
        fits = n <= ALWAYS or np.dtype(dtype).itemsize * n * (n + 1) // 2 <= memory.available() // 2
        return "cholesky" if n <= LARGEST and fits else "cg"
    if isinstance(solver, str):
        return solver
    from mnngp.inference.blocked import ClusterCholesky
    from mnngp.inference.cluster import ClusterConjugateGradients

    return {ClusterConjugateGradients: "dask", ClusterCholesky: "dask-cholesky"}.get(
        type(solver), "cg"
    )


def solver_of(solver: Any, n: int, dtype: Any) -> Any:
    """What ``Posterior`` takes as its solver, for n points: None is the Cholesky factorisation
    here.
    """
    if not isinstance(solver, str):
        return solver
    chosen = word(solver, n, dtype)
    if chosen == "cholesky":
        return None
    if chosen == "cg":
        return ConjugateGradients()
    from mnngp._system.connection import distributed
    from mnngp.inference.cluster import ClusterConjugateGradients

    distributed()  # or an error, before any work
    if chosen == "dask":
        return ClusterConjugateGradients()
    from mnngp.inference.blocked import ClusterCholesky

    return ClusterCholesky()
