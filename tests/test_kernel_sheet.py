"""The cheat sheet of kernels: its code runs, and its formulas are what the package computes.

A formula is written here once more, as it stands on the sheet; a change of one is a change of both.
"""

import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from scipy.special import kolmogi
from scipy.stats import multivariate_normal

import mnngp
from mnngp import activations, inference

PAGE = (Path(__file__).parent.parent / "docs" / "kernels.md").read_text(encoding="utf-8")
CODE = re.findall(
    r"`([A-Za-z_.\[]+\(.*?\)[\w.()=, \]]*)`", re.sub(r"```.*?```", "", PAGE, flags=re.S)
)
RHO = np.array([-0.7, 0.0, 0.3, 0.9])


@pytest.mark.parametrize("code", CODE)
def test_every_line_of_code_runs(code):
    if code.startswith("finite") and not find_spec("torch"):
        pytest.skip("needs PyTorch")
    rng = np.random.default_rng(0)
    names = {name: getattr(mnngp, name) for name in mnngp.__all__ if name not in {"interop"}}
    names |= {"Posterior": inference.Posterior}
    names |= {"GradientFlow": inference.GradientFlow, "X": rng.normal(size=(12, 3))}
    names |= {"y": rng.normal(size=12), "images": rng.normal(size=(4, 64))}
    code = code.replace("MaxoutGPRegressor()", "MaxoutGPRegressor(max_trials=1)")
    code = code.replace("MaxoutGPClassifier()", "MaxoutGPClassifier(max_trials=1)")
    assert eval(code, names) is not None


def test_all_activations_are_on_the_sheet():
    assert len(CODE) > 25
    for name in activations.__all__:
        if name not in {"Activation", "HomogeneousActivation", "SmoothActivation"}:
            assert any(code.startswith(f"{name}(") for code in CODE), name


def two(theta):
    return (np.sin(theta) + (np.pi - theta) * np.cos(theta)) / np.pi


def absolute(theta):
    return 2.0 / np.pi * (np.sin(theta) + (np.pi / 2.0 - theta) * np.cos(theta))


A = 0.1
HOMOGENEOUS = {
    mnngp.Maxout(2): (two, lambda t: 1.0 - t / np.pi),
    mnngp.ReLU(): (lambda t: 0.5 * two(t), lambda t: 0.5 * (1.0 - t / np.pi)),
    mnngp.Abs(): (absolute, lambda t: 1.0 - 2.0 * t / np.pi),
    mnngp.LeakyReLU(A): (
        lambda t: 0.25 * (1 + A) ** 2 * np.cos(t) + 0.25 * (1 - A) ** 2 * absolute(t),
        lambda t: 0.25 * (1 + A) ** 2 + 0.25 * (1 - A) ** 2 * (1.0 - 2.0 * t / np.pi),
    ),
}


@pytest.mark.parametrize("unit", HOMOGENEOUS, ids=str)
def test_homogeneous_activations(unit):
    moment, derivative = HOMOGENEOUS[unit]
    np.testing.assert_allclose(unit.moment(RHO), moment(np.arccos(RHO)), rtol=0, atol=1e-14)
    np.testing.assert_allclose(unit.derivative(RHO), derivative(np.arccos(RHO)), rtol=0, atol=1e-14)


def test_maxout_of_any_rank():
    """The derivative by sums over a grid, the value by integrating it."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    rank, rho = 4, 0.6
    x = nodes[:, None]
    y = rho * x + np.sqrt(1.0 - rho**2) * nodes[None, :]
    pair = multivariate_normal([0.0, 0.0], [[1.0, rho], [rho, 1.0]])
    below = pair.cdf(np.stack([np.broadcast_to(x, y.shape), y], axis=-1))
    found = rank * np.einsum("i,j,ij->", weights, weights, below ** (rank - 1))
    assert mnngp.Maxout(rank).derivative(rho) == pytest.approx(found, abs=2e-5)
    t, w = np.polynomial.legendre.leggauss(200)
    steps = 0.5 * (1.0 - rho)
    integral = steps * w @ mnngp.Maxout(rank).derivative(rho + steps * (t + 1.0))
    unit = mnngp.Maxout(rank)
    assert unit.moment(rho) == pytest.approx(unit.second_moment - integral, abs=1e-8)
    assert unit.derivative(0.0) == pytest.approx(1.0 / rank)
    assert unit.derivative(1.0) == pytest.approx(1.0)
    assert unit.moment(0.0) == pytest.approx(unit.mean**2)


def erf(v, w, c):
    return 2.0 / np.pi * np.arcsin(2.0 * c / np.sqrt((1.0 + 2.0 * v) * (1.0 + 2.0 * w)))


def tanh(v, w, c):
    """Scales at the middle of equal parts of Kolmogorov's distribution."""
    count = 1500
    s = kolmogi((np.arange(count) + 0.5) / count) ** 2
    return np.mean(2.0 / np.pi * np.arcsin(c / np.sqrt(np.outer(v + s, w + s))))


def gelu(v, w, c):
    a = (1.0 + v) * (1.0 + w) - c**2
    arc = c / 4.0 + c / (2.0 * np.pi) * np.arcsin(c / np.sqrt((1.0 + v) * (1.0 + w)))
    rest = v * w - c**2 + c**2 / (1.0 + v) + c**2 / (1.0 + w)
    return arc + rest / (2.0 * np.pi * np.sqrt(a))


@pytest.mark.parametrize(
    ("unit", "moment", "tolerance"),
    [(mnngp.Erf(), erf, 1e-13), (mnngp.GELU(), gelu, 1e-13), (mnngp.Tanh(), tanh, 2e-5)],
    ids=lambda value: str(value)[:7],
)
def test_smooth_activations_and_the_recursion(unit, moment, tolerance):
    """NNGP and NTK of one layer, of points with different lengths; E[φ'φ'] by a difference in c."""
    x = np.array([[1.0, 0.5], [-0.3, 1.2]])
    w, b, step = 1.3, 0.2, 1e-5
    C = b + w * x @ x.T / 2.0
    v, other, c = C[0, 0], C[1, 1], C[0, 1]
    expected = b + w * moment(v, other, c)
    slope = (moment(v, other, c + step) - moment(v, other, c - step)) / (2.0 * step)
    kernel, tangent = (mnngp.NetworkKernel([unit], w, b, kind=kind)(x) for kind in ("nngp", "ntk"))
    assert kernel[0, 1] == pytest.approx(expected, abs=tolerance)
    assert tangent[0, 1] == pytest.approx(expected + w * slope * c, abs=max(tolerance, 1e-8))
    if moment is erf:
        printed = 4.0 / np.pi / np.sqrt((1.0 + 2.0 * v) * (1.0 + 2.0 * other) - 4.0 * c**2)
        assert slope == pytest.approx(printed, abs=1e-8)


def test_rank_two_is_relu_and_a_step_in_distances():
    x = np.random.default_rng(0).normal(size=(5, 3))
    relu = mnngp.NetworkKernel([mnngp.ReLU()] * 3, weight_var=1.0, bias_var=0.1)(x)
    maxout = mnngp.MaxoutKernel(3, 2, 0.5, 0.1)(2.0**0.5 * x)
    np.testing.assert_allclose(maxout, relu, rtol=1e-13)
    unit, w, b = mnngp.Maxout(4), 0.7, 0.3
    C = b + w * x @ x.T / 3.0
    K = mnngp.MaxoutKernel(1, 4, w, b)(x)
    v, after = np.diag(C), np.diag(K)
    u, u_after = (0.5 - 0.5 * one / np.sqrt(np.outer(d, d)) for one, d in ((C, v), (K, after)))
    alpha, beta = np.sqrt(w * v / after), np.sqrt(b / after)
    drop = unit.second_moment - unit.moment(np.clip(1.0 - 2.0 * u, -1.0, 1.0))
    step = 0.25 * np.subtract.outer(beta, beta) ** 2 + 0.5 * np.outer(alpha, alpha) * drop
    step += 0.25 * unit.second_moment * np.subtract.outer(alpha, alpha) ** 2
    np.testing.assert_allclose(step, u_after, rtol=0, atol=1e-14)


def test_embedding_and_leave_one_out():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=8)
    first = np.exp(-((x[:, None] - x[None]) ** 2) / (2.0 * 0.5**2)).mean(axis=2)
    first = 0.1 + first  # C⁰, with these in place of inner products
    K = mnngp.NetworkKernel([mnngp.Embedding(0.5), mnngp.Maxout(4)], 1.0, 0.1)(x)
    rho = np.clip(first / 1.1, -1.0, 1.0)
    np.testing.assert_allclose(K, 0.1 + 1.1 * mnngp.Maxout(4).moment(rho), atol=1e-11)
    kernel = mnngp.MaxoutKernel(3, 4)
    inverse = np.linalg.inv(2.0 * kernel(x) + 0.1 * np.eye(8))
    loo = inference.Posterior(kernel, x, y, 0.1, 2.0).leave_one_out()
    np.testing.assert_allclose(loo.mean, y - inverse @ y / np.diag(inverse), rtol=1e-8)
    np.testing.assert_allclose(loo.variance, 1.0 / np.diag(inverse), rtol=1e-8)
