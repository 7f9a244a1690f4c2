"""The theorem by experiment: finite maxout networks become the Gaussian process.

At the rate 1/width, before and during training.
"""

import numpy as np
import pytest
from scipy.stats import kstest

from mnngp import Maxout, MaxoutKernel
from mnngp.errors import InputError
from mnngp.experiments.convergence import (
    agreement,
    convergence_study,
    descent_agreement,
    exact_kurtosis,
    tangent_agreement,
)
from mnngp.experiments.convergence.covariances import power_law, printed_kernel, score
from mnngp.experiments.convergence.pictures import convergence
from mnngp.experiments.convergence.study import ANGLES, PLACES, POINTS, Descent, circle
from mnngp.finite import draw_values, draw_weights, sampling
from tests.finite.common import critical
from tests.plain import printed_recursion

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.mark.parametrize("depth", [1, 3, 5])
@pytest.mark.parametrize("rank", [2, 3, 4, 8])
def test_wide_networks_have_the_kernel_of_the_theorem(rank, depth):
    """Width 5,000: within four standard errors, each 0.07 to 0.25 % of the kernel; the printed
    recursion is off by 80 or more.
    """
    kernel = critical(rank, depth)
    found = agreement(kernel, POINTS, 5000, 200, seed=depth)
    assert found.score < 4.0
    assert found.output_score < 4.0
    assert found.error < 0.005
    printed = printed_recursion(
        Maxout(rank), POINTS, depth=depth, weight_var=kernel.weight_var, bias_var=0.1
    )
    np.testing.assert_allclose(printed_kernel(kernel, POINTS), printed, rtol=1e-13)
    assert found.printed_score == score(found.draws.covariances, printed_kernel(kernel, POINTS))
    if depth == 1:  # the two recursions agree there
        np.testing.assert_allclose(printed, kernel(POINTS), rtol=1e-12)
    else:
        assert found.printed_score > 40.0


def test_networks_of_width_5000_weight_by_weight():
    """Three networks of 100 million weights each; one alone varies by 3 %, which the draws by
    values know.
    """
    kernel = critical(2, 3)
    networks = draw_weights(kernel, POINTS, 5000, 3, seed=1).covariances
    error = draw_values(kernel, POINTS, 5000, 60, seed=2).covariances.std(axis=0, ddof=1) / np.sqrt(
        len(networks)
    )
    assert np.max(np.abs(networks.mean(axis=0) - kernel(POINTS)) / error) < 4.0
    assert np.max(np.abs(networks.mean(axis=0) - printed_kernel(kernel, POINTS)) / error) > 10.0


@pytest.mark.parametrize(("rank", "depth"), [(2, 1), (3, 3), (4, 5), (8, 3), (2, 5)])
def test_the_squared_error_falls_like_one_over_width(rank, depth):
    """Slope -1 ± 0.15 from width 5 to 5,000. At depth 5 width 5 is too narrow for a pure power: (1
    + c/width)^5 - 1 has -1.08.
    """
    widths, kernel = (5, 50, 500, 5000), critical(rank, depth)
    rows = [
        agreement(kernel, POINTS, width, min(6000, 300_000 // width), seed=1) for width in widths
    ]
    slope, error = power_law(
        widths, [row.squared_error for row in rows], [row.squared_error_std for row in rows]
    )
    assert error < 0.05
    assert slope == pytest.approx(-1.0, abs=0.15)
    # variances at any width are as they must be; at width 5 the fourth moment has no good estimate
    for row in rows[1:]:
        assert row.kurtosis == pytest.approx(
            row.exact_kurtosis, rel=0.5 if row.networks < 1000 else 0.12
        )
    assert rows[0].distance > 10.0 * rows[2].distance


def test_a_single_layer_kurtosis_by_hand_and_variances_without_bias():
    """E m⁴ is 3 for rank 2. The mean of V is the kernel's diagonal at width 3 too, and its variance
    the exact one.
    """
    kernel, width, networks = MaxoutKernel(1, 2, 0.9, 0.3), 3, 60_000
    v = 0.3 + 0.9 * np.sum(POINTS**2, axis=1) / 4
    by_hand = 3.0 * (0.9 * v) ** 2 * (3.0 - 1.0) / width / (0.3 + 0.9 * v) ** 2
    np.testing.assert_allclose(exact_kurtosis(kernel, POINTS, width), by_hand, rtol=1e-12)
    kernel = critical(3, 2, 0.3)
    variance = draw_values(kernel, POINTS, width, networks, seed=0).covariances[
        :, [0, 1, 2], [0, 1, 2]
    ]
    exact = kernel.diag(POINTS)
    error = variance.std(axis=0) / np.sqrt(networks)
    assert np.max(np.abs(variance.mean(axis=0) - exact) / error) < 4.0
    squares = (variance / exact - 1.0) ** 2
    error = squares.std(axis=0) / np.sqrt(networks)
    assert (
        np.max(np.abs(squares.mean(axis=0) - exact_kurtosis(kernel, POINTS, width) / 3.0) / error)
        < 4.0
    )


def test_only_covariances_are_biased():
    """By -0.10 to -0.14 over the width, rank 4 and depth 3 (200,000 networks); variances are not,
    at any width.
    """
    kernel, width, networks = critical(4, 3), 10, 60_000
    ratio = draw_values(kernel, POINTS, width, networks, seed=6).covariances / kernel(POINTS) - 1.0
    mean, error = ratio.mean(axis=0), ratio.std(axis=0) / np.sqrt(networks)
    apart = np.triu_indices(len(POINTS), 1)
    assert np.max(np.abs(np.diag(mean / error))) < 4.0
    assert np.max((mean / error)[apart]) < -3.0
    assert np.min(width * mean[apart]) > -0.25


def test_outputs_become_gaussian():
    """The outputs themselves, divided by the kernel's standard deviation: rejected at width 5,
    accepted at 5,000.
    """
    kernel, point = critical(2, 3), POINTS[:1]
    for width, networks, rejected in ((5, 20_000, True), (5000, 1500, False)):
        outputs = draw_values(kernel, point, width, networks, seed=4).outputs[:, 0] / np.sqrt(
            kernel.diag(point)
        )
        chance = kstest(outputs, "norm").pvalue
        assert chance < 1e-12 if rejected else chance > 0.01


@pytest.mark.parametrize(("rank", "depth", "networks"), [(2, 1, 32), (3, 2, 8), (4, 3, 8)])
def test_tangent_kernel_at_width_2000(rank, depth, networks):
    """The mean of a few networks is within 3 % (found: 0.3 to 1.4 %), one network within 3 to 5 %
    (root mean square, measured).
    """
    found = tangent_agreement(critical(rank, depth), POINTS, 2000, networks, seed=2)
    assert found.error < 0.03
    assert found.score < 5.0  # standard errors of a dozen have long tails
    assert np.sqrt(found.squared_error) < 0.05


def test_tangent_kernels_squared_error_falls_like_one_over_width():
    widths = (10, 50, 250)
    rows = [tangent_agreement(critical(3, 2), POINTS, width, 150, seed=1) for width in widths]
    slope, error = power_law(
        widths, [row.squared_error for row in rows], [row.squared_error_std for row in rows]
    )
    assert error < 0.05
    assert slope == pytest.approx(-1.0, abs=0.15)


def test_trained_networks_approach_the_tangent_kernels_predictor():
    """One network against the linear model from its own start; many against the mean and the spread
    of GradientFlow.
    """
    widths, X, y, new = (20, 200, 2000), circle(ANGLES), np.sin(ANGLES), circle(PLACES[::4])
    rows = [
        descent_agreement(
            critical(2, 1), (X, y, new), width, 120, descent=Descent(time=10.0), seed=3
        )
        for width in widths
    ]
    slope, error = power_law(
        widths, [row.squared_error for row in rows], [row.squared_error_std for row in rows]
    )
    assert error < 0.06
    assert slope == pytest.approx(-1.0, abs=0.15)
    wide = rows[-1]
    assert wide.squared_error < 1e-3
    # The step is 0.2/λ_max: the flow is followed up to some 2 % of what changes, far less than the
    # networks' spread.
    for moment in (0, 4, len(wide.times) - 1):
        ahead = (wide.trained[moment].mean(axis=0) - wide.mean[moment]) / (
            wide.std[moment] / np.sqrt(wide.networks)
        )
        assert np.max(np.abs(ahead)) < 4.0
        # relative standard error 1/√240 = 6.5 %
        ratio = wide.trained[moment].std(axis=0, ddof=1) / wide.std[moment]
        assert np.all((ratio > 0.74) & (ratio < 1.26))


def test_all_widths_are_below_the_axis():
    found = convergence_study([2], [1], [5, 10, 100], networks=5, tangent_up_to=0, descent_up_to=0)
    first, _, third = convergence(found).axes
    for ax in (first, third):
        assert [label.get_text() for label in ax.get_xticklabels()] == ["5", "10", "100"]


def test_a_row_does_not_depend_on_the_others():
    options = {"networks": 10, "tangent_up_to": 0, "descent_up_to": 0}
    one = convergence_study([3], [2], [20], **options).covariances[0]
    among = convergence_study([2, 3], [1, 2], [20], **options).covariances[-1]
    assert one.squared_error == among.squared_error
    assert (
        one.squared_error
        != convergence_study([3], [2], [20], **options, seed=1).covariances[0].squared_error
    )


def test_wide_layers_are_drawn_in_parts(monkeypatch):
    """The law is the same: the mean over networks is the kernel."""
    monkeypatch.setattr(sampling, "BLOCK", 3 * 2 * 7)  # seven units at a time
    found = agreement(critical(2, 2), POINTS, 50, 400)
    assert found.score < 4.0
    assert found.squared_error == pytest.approx(
        agreement(critical(2, 2), POINTS, 50, 400, seed=1, draw="weights").squared_error, rel=0.3
    )


def test_networks_that_do_not_vary():
    """Without noise in the covariances there is no score and no exponent, and no warning either."""
    quiet = convergence_study(
        [2], [1], np.array([5, 10]), networks=4, weight_var=1e-30, tangent_up_to=0, descent_up_to=0
    )
    assert list(quiet.exponents()) == []
    assert score(np.ones((4, 2, 2)), np.ones((2, 2))) == 0.0


def test_a_study_refuses_bad_input():
    kernel = critical(2, 1)
    data = (circle(ANGLES), np.sin(ANGLES), circle(PLACES))
    for change, text in (
        ({"width": 0}, "width must be a positive integer"),
        ({"moments": 0}, "moments must be a positive integer"),
        ({"time": -1.0}, "time must be a finite number above 0"),
        ({"resolution": 0.0}, "resolution must be a finite number above 0"),
    ):
        width = change.pop("width", 5)
        with pytest.raises(InputError, match=text):
            descent_agreement(kernel, data, width, 2, descent=Descent(**change))
    with pytest.raises(InputError, match="kernel must be a MaxoutKernel, got 'k'"):
        descent_agreement("k", data, 5, 2)
    with pytest.raises(
        InputError, match=r"new must have 2 columns, as many as X, got shape \(3, 4\)"
    ):
        descent_agreement(kernel, (*data[:2], POINTS), 5, 2)
    with pytest.raises(
        InputError,
        match=r"too small to train with, got a largest eigenvalue of .*--descent-up-to 0",
    ):
        convergence_study([2], [50], [5], networks=2, weight_var=0.1, bias_var=0.0)
    with pytest.raises(InputError, match="seed must be a whole number"):
        convergence_study([2], [1], [5], seed=-1)
    with pytest.raises(InputError, match="rank must be one or more"):
        convergence_study([])
    with pytest.raises(InputError, match="two widths or more"):
        power_law([5], [1.0], [0.1])


def test_the_fewest_moments():
    data = (circle(ANGLES), np.sin(ANGLES), circle(PLACES))
    ends = descent_agreement(critical(2, 1), data, 5, 2, descent=Descent(moments=1))
    assert len(ends.times) == 3  # the start, one step, and the end
    assert ends.times[-1] == pytest.approx(100.0 * ends.times[1])


def test_agreement_refuses_bad_input():
    kernel = critical(2, 1)
    with pytest.raises(InputError, match="networks must be 2 or more"):
        agreement(kernel, POINTS, 5, 1)
    with pytest.raises(InputError, match="draw must be one of 'values', 'weights', got 'all'"):
        agreement(kernel, POINTS, 5, 2, draw="all")
    with pytest.raises(InputError, match="one weight_var and one bias_var"):
        printed_kernel(MaxoutKernel(1, 2, [1.0, 2.0]), POINTS)
    with pytest.raises(
        InputError, match=r"kernel must be of kind .nngp., .* there is tangent_agreement"
    ):
        agreement(critical(2, 1, kind="ntk"), POINTS, 5, 2)
    points, without = np.concatenate([POINTS, np.zeros((1, 4))]), critical(2, 1, bias_var=0.0)
    for call in (
        lambda: agreement(without, points, 5, 2),
        lambda: tangent_agreement(without, points, 5, 2),
        lambda: exact_kurtosis(without, points, 5),
    ):
        with pytest.raises(InputError, match=r"no point where the kernel is zero .*: X\[3\]"):
            call()
    for width, text in (
        (5.5, r"width must be a positive integer .*, got 5\.5"),
        ([0], r"width\[0\] must be a positive integer .*, got 0"),
        ([5, 6], r"width must be one number for 3 points, or X a single point, got \[5, 6\]"),
    ):
        with pytest.raises(InputError, match=text):
            exact_kurtosis(kernel, POINTS, width)
