import math

import numpy as np
import pytest

from mnngp import GELU, Abs, Erf, Maxout, MaxoutKernel, NetworkKernel, ReLU, Tanh, theory
from mnngp.errors import InputError

ACTIVATIONS = [Maxout(2), Maxout(4), ReLU(), Abs(), Tanh(), Erf(), GELU()]


def test_published_critical_weight_variances():
    assert [round(theory.critical_weight_var(Maxout(rank)), 5) for rank in (2, 3, 4, 5)] == [
        1.0,
        0.78391,
        0.64461,
        0.55555,
    ]
    assert theory.critical_weight_var(ReLU(), bias_var=0.3) == 2.0  # He et al. (2015)


def test_published_edge_of_chaos_of_tanh():
    """Schoenholz et al. (2017) work at σ_b² = 0.05, σ_w² = 1.76 on the critical line."""
    assert theory.critical_weight_var(Tanh(), bias_var=0.05) == pytest.approx(1.76, abs=5e-3)
    assert theory.critical_weight_var(Tanh()) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
@pytest.mark.parametrize(("weight_var", "bias_var"), [(0.5, 0.2), (1.2, 0.05), (1.5, 0.0)])
def test_depth_profile_is_the_kernels_own(activation, weight_var, bias_var):
    depth = 12
    angle = math.acos(0.3)
    X = math.sqrt(2.0) * np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
    profile = theory.depth_profile(
        activation, depth, weight_var=weight_var, bias_var=bias_var, correlation=0.3
    )
    for level, K in NetworkKernel([activation] * depth, weight_var, bias_var).path(X):
        assert profile.variance[level] == pytest.approx(K[0, 0], rel=1e-12)
        assert profile.correlation[level] == pytest.approx(K[0, 1] / K[0, 0], rel=1e-10)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
@pytest.mark.parametrize(("weight_var", "bias_var"), [(0.5, 0.2), (0.7, 0.05), (4.0, 0.3)])
def test_fixed_points_are_fixed_and_are_reached(activation, weight_var, bias_var):
    variances = {"weight_var": weight_var, "bias_var": bias_var}
    point = theory.fixed_point(activation, **variances)
    if math.isinf(point.variance):
        v = 1.0
        for _ in range(200):
            v = theory.variance_map(activation, v, **variances)
        assert v > 1e6
        return
    assert theory.variance_map(activation, point.variance, **variances) == pytest.approx(
        point.variance, rel=1e-9
    )
    assert theory.correlation_map(activation, point.correlation, **variances) == pytest.approx(
        point.correlation, rel=1e-8
    )
    profile = theory.depth_profile(activation, 150, **variances)
    assert profile.variance[-1] == pytest.approx(point.variance, rel=1e-6)
    assert profile.correlation[-1] == pytest.approx(point.correlation, abs=1e-3)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
def test_slopes_are_derivatives(activation):
    variances = {"weight_var": 0.6, "bias_var": 0.2}
    point = theory.fixed_point(activation, **variances)
    v, step = point.variance, 1e-5
    up, down = (theory.variance_map(activation, v + sign * step, **variances) for sign in (1, -1))
    assert point.variance_slope == pytest.approx((up - down) / (2.0 * step), rel=1e-6)
    gap = 1e-8
    near_one = (1.0 - theory.correlation_map(activation, 1.0 - gap, **variances)) / gap
    assert point.correlation_slope == pytest.approx(near_one, rel=1e-3)
    # at a fixed point of finite variance
    assert point.correlation_slope == pytest.approx(point.gradient_slope, rel=1e-9)
    # and 1 - ρ falls at that rate, a factor e in depth_scale layers
    profile = theory.depth_profile(activation, 60, **variances)
    assert profile.distance[60] / profile.distance[59] == pytest.approx(
        point.correlation_slope, rel=1e-3
    )
    assert point.depth_scale == pytest.approx(-1.0 / math.log(point.correlation_slope))


@pytest.mark.parametrize("activation", [Tanh(), Erf()], ids=repr)
def test_fixed_points_at_large_and_small_variances(activation):
    for weight_var, bias_var in ((1.0, 1e10), (1e12, 0.0), (0.5, 1e-20), (300.0, 2.0)):
        point = theory.fixed_point(activation, weight_var=weight_var, bias_var=bias_var)
        again = theory.variance_map(
            activation, point.variance, weight_var=weight_var, bias_var=bias_var
        )
        assert 0.0 < point.variance < np.inf
        assert again == pytest.approx(point.variance, rel=1e-13)
    # Where erf is a step, E φ'² = (4/π)/√(1 + 4v).
    wide = theory.fixed_point(Erf(), weight_var=1e12, bias_var=0.0)
    assert wide.gradient_slope == pytest.approx(
        1e12 * 4.0 / np.pi / np.sqrt(1.0 + 4.0 * wide.variance), rel=1e-13
    )
    # half of it at infinity
    assert theory.fixed_point(GELU(), weight_var=3.0).gradient_slope == pytest.approx(
        1.5, rel=1e-13
    )


def test_phases():
    unit = Maxout(4)
    critical = unit.critical_weight_var
    for factor, phase in ((0.9, "ordered"), (1.0, "critical"), (1.1, "chaotic")):
        for bias_var in (0.0, 0.3):
            assert (
                theory.fixed_point(unit, weight_var=factor * critical, bias_var=bias_var).phase
                == phase
            )
    line = theory.critical_weight_var(Tanh(), bias_var=0.1)
    assert theory.fixed_point(Tanh(), weight_var=0.99 * line, bias_var=0.1).phase == "ordered"
    assert theory.fixed_point(Tanh(), weight_var=1.01 * line, bias_var=0.1).phase == "chaotic"
    chaotic = theory.fixed_point(Tanh(), weight_var=4.0, bias_var=0.1)
    assert 0.0 < chaotic.correlation < 0.9


def test_gelu_grows_or_dies():
    """Its variance has no stable fixed point but zero without bias: from one it dies below 1/E φ²,
    and grows above.
    """
    critical = theory.critical_weight_var(GELU())
    assert critical == pytest.approx(GELU().critical_weight_var, rel=1e-9)
    assert theory.fixed_point(GELU(), weight_var=0.99 * critical).variance == 0.0
    above = theory.fixed_point(GELU(), weight_var=1.01 * critical)
    assert math.isinf(above.variance)
    assert above.phase == "chaotic"


def test_ranks_above_two_cannot_keep_activations_and_gradients_both():
    for rank in (3, 4, 8):
        point = theory.fixed_point(Maxout(rank), weight_var=Maxout(rank).critical_weight_var)
        assert point.variance_slope == pytest.approx(1.0)
        assert point.gradient_slope == pytest.approx(1.0 / Maxout(rank).second_moment)
    two = theory.fixed_point(Maxout(2), weight_var=1.0)
    assert two.variance_slope == pytest.approx(1.0)
    assert two.gradient_slope == pytest.approx(1.0)


def test_gradient_is_that_of_the_tangent_kernel():
    """Θ_ii = Σ_l (K^l_ii) · (gradient behind layer l): the profile's two columns make the tangent
    kernel.
    """
    depth, weight_var, bias_var = 7, 0.8, 0.2
    profile = theory.depth_profile(Maxout(3), depth, weight_var=weight_var, bias_var=bias_var)
    tangent = MaxoutKernel(depth, 3, weight_var, bias_var, kind="ntk").diag(np.array([[1.0]]))
    assert profile.variance @ profile.gradient == pytest.approx(tangent[0], rel=1e-13)


def test_phases_and_pictures(tmp_path):
    phases = [theory.fixed_point(Maxout(3), weight_var=w).phase for w in (0.5, 1.0)]
    assert phases == ["ordered", "chaotic"]
    from mnngp import plots

    for activation in (Maxout(4), Tanh()):
        target = tmp_path / "phase.png"
        plots.initialisation(activation, 10, bias_var=0.05).savefig(target)
        assert target.read_bytes()[:4] == b"\x89PNG"


def test_bad_input():
    with pytest.raises(InputError, match="activation must be an activation"):
        theory.fixed_point("relu", weight_var=1.0)
    with pytest.raises(InputError, match=r"weight_var must be a finite number above 0, got 0\.0"):
        theory.fixed_point(ReLU(), weight_var=0.0)
    for variance in (-1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="variance must be finite and at least 0"):
            theory.variance_map(ReLU(), variance, weight_var=1.0, bias_var=0.0)
    with pytest.raises(InputError, match="depth must be a positive integer"):
        theory.depth_profile(ReLU(), 0, weight_var=1.0)
    with pytest.raises(
        InputError,
        match=r"correlation must be a finite number at least -1 and at "
        r"most 1, got 1\.5",
    ):
        theory.depth_profile(ReLU(), 3, weight_var=1.0, correlation=1.5)
