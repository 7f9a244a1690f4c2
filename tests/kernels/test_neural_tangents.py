"""Against neural-tangents 0.6.5 (values kept in reference/, made by `make reference`), and the
paper's proposition 1.
"""

import json
from pathlib import Path

import mpmath
import numpy as np
import pytest

from mnngp import GELU, Abs, Erf, LeakyReLU, MaxoutKernel, NetworkKernel, ReLU

REFERENCE = json.loads(
    (Path(__file__).parents[1] / "reference" / "neural_tangents_reference.json").read_text()
)
X = np.array(REFERENCE["points"])
ACTIVATIONS = {
    "relu": ReLU(),
    "leaky_relu": LeakyReLU(0.25),
    "abs": Abs(),
    "erf": Erf(),
    "gelu": GELU(),
}
CASES = [
    pytest.param(case, id=f"{case['activation']}-{case['depth']}-{case['bias_var']}")
    for case in REFERENCE["cases"]
]
RELU = [case for case in CASES if case.values[0]["activation"] == "relu"]
# neural-tangents takes the angle by an arc cosine, which has lost half of its digits for these two
# (points 0 and 5 nearly agree).
CLOSE = np.zeros((len(X), len(X)), dtype=bool)
CLOSE[0, 5] = CLOSE[5, 0] = True


def assert_agree(found, expected):
    """Relative to √(K_ii K_jj), since some entries are zero. Measured worst: 1.2e-13, and 3.5e-12
    for the close pair.
    """
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    error = np.abs(found - expected) / scale
    assert error[~CLOSE].max() < 1e-12
    assert error[CLOSE].max() < 1e-11


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("case", CASES)
def test_same_kernels(case, kind):
    kernel = NetworkKernel(
        [ACTIVATIONS[case["activation"]]] * case["depth"],
        case["weight_var"],
        case["bias_var"],
        kind,
    )
    assert_agree(kernel(X), np.array(case[kind]))


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("case", RELU)
def test_proposition_1(case, kind):
    """Rank-2 maxout is ReLU with twice the weight variance and inputs / √2; it holds for the
    tangent kernel too.
    """
    kernel = MaxoutKernel(
        case["depth"], 2, weight_var=case["weight_var"] / 2.0, bias_var=case["bias_var"], kind=kind
    )
    assert_agree(kernel(np.sqrt(2.0) * X), np.array(case[kind]))


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_depth_21_within_1e_12(kind):
    """The whole matrix at depth 21, relative entry by entry, but for the pair where neural-tangents
    itself is off (next test).
    """
    for case in (case.values[0] for case in RELU if case.values[0]["depth"] == 21):
        kernel = MaxoutKernel(
            21, 2, weight_var=case["weight_var"] / 2.0, bias_var=case["bias_var"], kind=kind
        )
        found, expected = kernel(np.sqrt(2.0) * X), np.array(case[kind])
        assert np.abs(found / expected - 1.0)[~CLOSE].max() < 1e-12


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("case", RELU)
def test_where_the_two_differ_we_are_right(case, kind):
    """Both against the closed form in 60-digit arithmetic.

    Measured worst of ours: 7e-15 relative to √(K_ii K_jj); 5e-14 for the tangent kernel of nearly
    opposite points without bias.
    """
    with mpmath.workdps(60):
        exact = exact_relu_kernel(case, kind)
    found = NetworkKernel([ReLU()] * case["depth"], case["weight_var"], case["bias_var"], kind)(X)
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    ours, theirs = (np.abs(kernel - exact) / scale for kernel in (found, np.array(case[kind])))
    assert ours.max() < (2e-13 if case["bias_var"] == 0.0 else 2e-14)
    assert ours[0, 5] <= max(theirs[0, 5], 1e-15)


def exact_relu_kernel(case, kind):
    w, b = mpmath.mpf(case["weight_var"]), mpmath.mpf(case["bias_var"])
    rows = [[mpmath.mpf(x) for x in row] for row in REFERENCE["points"]]
    n = len(rows)
    C = [[b + w * mpmath.fdot(p, q) / len(p) for q in rows] for p in rows]
    theta = [row[:] for row in C]
    for _ in range(case["depth"]):
        new_C, new_theta = ([[mpmath.mpf(0)] * n for _ in range(n)] for _ in range(2))
        for i in range(n):
            for j in range(n):
                scale = mpmath.sqrt(C[i][i] * C[j][j])
                angle = mpmath.acos(max(min(C[i][j] / scale, mpmath.mpf(1)), mpmath.mpf(-1)))
                moment = (
                    scale
                    * (mpmath.sin(angle) + (mpmath.pi - angle) * mpmath.cos(angle))
                    / (2 * mpmath.pi)
                )
                new_C[i][j] = b + w * moment
                new_theta[i][j] = (
                    new_C[i][j] + w * (mpmath.pi - angle) / (2 * mpmath.pi) * theta[i][j]
                )
        C, theta = new_C, new_theta
    return np.array([[float(value) for value in row] for row in (theta if kind == "ntk" else C)])
