"""Kernels as a whole."""

import numpy as np
import pytest

from mnngp import (
    Maxout,
    MaxoutKernel,
    NetworkKernel,
    ReLU,
    Tanh,
)
from mnngp.kernels import evaluate
from tests import plain
from tests.contracts import check_kernel
from tests.kernels.shared import KERNELS, MIXED, SMOOTH


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_contract(kernel):
    check_kernel(kernel)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_contract_in_single_precision(kernel):
    """Measured worst against float64, relative to the largest entry: 1e-6."""
    single = kernel.clone_with_theta(kernel.theta)
    single.dtype = "float32"
    check_kernel(single, tolerance=3e-6)
    X = np.random.default_rng(2).normal(size=(20, 6))
    np.testing.assert_allclose(single(X), kernel(X), atol=1e-5 * np.abs(kernel(X)).max())


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("equal_lengths", [False, True])
@pytest.mark.parametrize("bias_var", [0.2, 0.0])
@pytest.mark.parametrize(
    "layers", [[Maxout(3)], [Maxout(4)] * 6, MIXED, [Maxout(1)] * 2, [Tanh()] * 2, SMOOTH], ids=str
)
def test_against_the_plain_recursion(layers, bias_var, equal_lengths, kind):
    rng = np.random.default_rng(0)
    count = 8 if layers in ([Tanh()] * 2, SMOOTH) else 40
    X, Y = rng.normal(size=(count, 7)), rng.normal(size=(count // 2, 7))
    if equal_lengths:
        X, Y = (Z / np.linalg.norm(Z, axis=1, keepdims=True) for Z in (X, Y))
    expected = plain.kernel(layers, X, Y, weight_var=0.9, bias_var=bias_var, kind=kind)
    found = NetworkKernel(layers, weight_var=0.9, bias_var=bias_var, kind=kind)(X, Y)
    # Measured worst: 3e-14 of the scale, where a linear network's covariances pass zero.
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=2e-13 * np.abs(expected).max())


def test_variances_of_each_layer():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(9, 3)), rng.normal(size=(8, 3))
    w, b = [0.5, 2.0, 1.25, 0.7], [0.3, 0.0, 0.1, 0.2]
    layers = [Maxout(2), ReLU(), Maxout(5)]
    expected = plain.kernel(layers, X, Y, weight_var=w, bias_var=b)
    np.testing.assert_allclose(
        NetworkKernel(layers, weight_var=w, bias_var=b)(X, Y), expected, rtol=1e-13
    )


def test_path_gives_every_depth():
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(12, 4)), np.eye(5)):
        for kind in ("nngp", "ntk"):
            found = dict(MaxoutKernel(9, 3, kind=kind).path(X, depths=(9, 1, 5, 5)))
            assert list(found) == [1, 5, 9]
            for depth, K in found.items():
                np.testing.assert_allclose(K, MaxoutKernel(depth, 3, kind=kind)(X), rtol=2e-13)
    beyond = dict(MaxoutKernel(2, 3).path(X, depths=[4]))
    np.testing.assert_allclose(beyond[4], MaxoutKernel(4, 3)(X), rtol=1e-14)


def test_matrices_of_the_path_are_the_callers():
    X = np.random.default_rng(0).normal(size=(6, 3))
    kept = []
    for _, K in MaxoutKernel(4, 3).path(X):
        kept.append(K.copy())
        K[:] = np.nan
    assert np.isfinite(kept).all()


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("rank", [2, 3, 8])
def test_the_short_cut_for_equal_lengths_is_exact(monkeypatch, rank, kind):
    """The network collapsed into one series against the layers one by one, to rounding, at all
    depths.
    """
    X = np.random.default_rng(0).normal(size=(60, 9))
    X /= np.linalg.norm(X, axis=1, keepdims=True) / 3.0
    kernel = MaxoutKernel(
        100, rank, weight_var=Maxout(rank).critical_weight_var, bias_var=0.05, kind=kind
    )
    quick = dict(kernel.path(X, depths=(1, 5, 21, 100)))
    used = evaluate._collapsed(kernel.network, np.ones(3), [100])
    assert used is not None
    monkeypatch.setattr(evaluate, "_collapsed", lambda *_: None)
    for depth, K in kernel.path(X, depths=(1, 5, 21, 100)):
        np.testing.assert_allclose(quick[depth], K, rtol=2e-13, atol=1e-14 * K.max())


def test_no_bias_takes_the_short_cut_for_any_lengths():
    network = MaxoutKernel(5, 3, bias_var=0.0).network
    assert evaluate._collapsed(network, np.array([1.0, 2.0, 0.0]), [5]) is not None
    assert (
        evaluate._collapsed(MaxoutKernel(5, 3, bias_var=0.1).network, np.array([1.0, 2.0]), [5])
        is None
    )


def test_layers_that_do_not_fit_the_table_memory_are_done_in_parts(monkeypatch):
    X = np.random.default_rng(0).normal(size=(20, 4))
    for kind in ("nngp", "ntk"):
        kernel = NetworkKernel([Maxout(3)] * 4 + [Tanh()] + [Maxout(2)] * 4, kind=kind)
        whole = kernel(X)
        monkeypatch.setattr(evaluate, "_TABLE_BYTES", 1)
        np.testing.assert_allclose(kernel(X), whole, rtol=1e-14)
        monkeypatch.undo()


def test_threads_do_not_change_the_result():
    from threadpoolctl import threadpool_limits

    X = np.random.default_rng(0).normal(size=(700, 30))
    kernel = MaxoutKernel(4, 3)
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            results.append(kernel(X))
    assert np.array_equal(*results)


def test_thread_limits_hold_and_are_given_back(monkeypatch):
    from threadpoolctl import threadpool_info, threadpool_limits

    from mnngp._system import threads

    seen = []
    executor = threads.ThreadPoolExecutor
    monkeypatch.setattr(
        threads, "ThreadPoolExecutor", lambda count: seen.append(count) or executor(count)
    )
    X = np.random.default_rng(0).normal(size=(600, 20))
    with threadpool_limits(1, user_api="blas"):
        MaxoutKernel(3, 3)(X)
        assert not seen
    with threadpool_limits(2, user_api="blas"):
        before = [pool["num_threads"] for pool in threadpool_info()]
        MaxoutKernel(3, 3)(X)
        assert [pool["num_threads"] for pool in threadpool_info()] == before
    assert set(seen) == {2}


def test_overlapping_callers_give_the_cores_back():
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_info

    X = np.random.default_rng(0).normal(size=(600, 20))
    kernel = MaxoutKernel(3, 3)
    once = kernel(X)
    before = [pool["num_threads"] for pool in threadpool_info()]
    with ThreadPoolExecutor(4) as pool:
        for other in pool.map(kernel, [X] * 40):
            assert np.array_equal(once, other)
    assert [pool["num_threads"] for pool in threadpool_info()] == before
