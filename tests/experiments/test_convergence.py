"""The theorem by experiment: finite maxout networks become the Gaussian process at the rate
1/width, before and during training.
"""

import json

import numpy as np
import pytest
import torch
import typer
from scipy.stats import ks_2samp, kstest
from typer.testing import CliRunner

from mnngp import Maxout, MaxoutKernel
from mnngp.commands.converge import _fit, converge
from mnngp.errors import InputError
from mnngp.finite import (
    MaxoutNetwork,
    agreement,
    convergence_study,
    descend,
    draw_values,
    draw_weights,
    exact_kurtosis,
    sampling,
)
from mnngp.finite.convergence import power_law, printed_kernel, score, tangent_agreement
from mnngp.finite.descent import descent_agreement, foretell
from mnngp.finite.pictures import convergence
from mnngp.finite.sampling import network_seeds, passing_network
from mnngp.finite.study import ANGLES, FEWEST, PLACES, POINTS, circle
from mnngp.finite.tangent import tangent_kernel
from tests.plain import printed_recursion


def critical(rank, depth, bias_var=0.1, kind="nngp"):
    return MaxoutKernel(depth, rank, Maxout(rank).critical_weight_var, bias_var, kind=kind)


@pytest.fixture(autouse=True)
def _one_thread():
    """The tests run beside each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# ---- the two ways to draw


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 5, 17, 101])
def test_a_network_in_blocks_is_the_network(width, dtype):
    """The same random numbers, whatever the block; sums are taken in another order (worst found:
    2e-6, 2e-15).
    """
    weight_var, bias_var = [0.8, 1.2, 0.5, 0.7], [0.2, 0.0, 0.1, 0.3]
    network = MaxoutNetwork(
        width, 3, 3, 4, weight_var=weight_var, bias_var=bias_var, seed=3, dtype=dtype
    )
    X = torch.tensor(POINTS).to(network.weights[0])
    for block in (1, 100, 5000, 10**7):
        hidden, output = passing_network(
            POINTS, width, 3, weight_var, bias_var, seed=3, dtype=dtype, block=block
        )
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(hidden, network.hidden(X).detach(), atol=tolerance)
        np.testing.assert_allclose(output, network(X).detach()[:, 0], atol=tolerance)


@pytest.mark.parametrize(("rank", "depth", "width"), [(3, 2, 4), (2, 3, 6)])
def test_values_and_weights_have_one_law(rank, depth, width):
    """Kolmogorov and Smirnov find no difference between the two ways in any entry, and find it if
    the width is another.
    """
    kernel, networks = critical(rank, depth), 1500
    values, weights = (
        way(kernel, POINTS, width, networks, seed=5) for way in (draw_values, draw_weights)
    )
    other = draw_values(kernel, POINTS, width + 3, networks, seed=5)
    for i, j in zip(*np.triu_indices(len(POINTS)), strict=True):
        assert ks_2samp(values.covariances[:, i, j], weights.covariances[:, i, j]).pvalue > 1e-3
        assert ks_2samp(other.covariances[:, i, j], weights.covariances[:, i, j]).pvalue < 1e-4
    for i in range(len(POINTS)):
        assert ks_2samp(values.outputs[:, i], weights.outputs[:, i]).pvalue > 1e-3


def test_draws_are_reproducible_and_take_their_points():
    kernel = critical(3, 2)
    for way in (draw_values, draw_weights):
        first, again, other = (way(kernel, POINTS, 20, 3, seed=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first.covariances, again.covariances)
        np.testing.assert_array_equal(first.outputs, again.outputs)
        assert not np.any(first.covariances == other.covariances)
    twice = draw_values(kernel, POINTS[[0, 0, 1]], 20, 3, seed=1)  # a singular covariance
    np.testing.assert_allclose(twice.outputs[:, 0], twice.outputs[:, 1], atol=1e-6)
    assert len(set(network_seeds(0, 1000))) == 1000


# ---- covariances and marginals


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


# ---- tangent kernels


@pytest.mark.parametrize("parametrization", ["ntk", "standard"])
def test_tangent_kernel_is_the_product_of_all_gradients(parametrization):
    variances = {"weight_var": [0.8, 1.1, 0.6], "bias_var": [0.2, 0.1, 0.0]}
    network = MaxoutNetwork(
        7, 3, 2, 4, outputs=2, **variances, parametrization=parametrization, seed=1, dtype="float64"
    )
    for output in (0, 1):
        gradients = [
            torch.autograd.grad(network(point)[output], list(network.parameters()))
            for point in torch.tensor(POINTS)
        ]
        rows = np.stack(
            [np.concatenate([part.flatten() for part in gradient]) for gradient in gradients]
        )
        expected = rows @ rows.T
        np.testing.assert_allclose(
            tangent_kernel(network, POINTS, output=output), expected, rtol=1e-12
        )
        np.testing.assert_allclose(
            tangent_kernel(network, POINTS[:2], POINTS, output=output), expected[:2], rtol=1e-12
        )
    assert all(parameter.grad is None for parameter in network.parameters())
    with torch.no_grad():
        np.testing.assert_array_equal(
            tangent_kernel(network, POINTS, output=1), tangent_kernel(network, POINTS, output=1)
        )


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


# ---- training


def test_descent_is_plain_gradient_descent():
    """Three networks at once go the way that each goes alone, by backpropagation; they are not
    changed themselves.
    """
    made = lambda seed: MaxoutNetwork(6, 3, 2, 2, parametrization="ntk", seed=seed, dtype="float64")  # noqa: E731
    X, y, new = circle(ANGLES), np.sin(ANGLES), circle(PLACES[:5])
    networks = [made(seed) for seed in range(3)]
    together = descend(networks, X, y, step=0.05, record=[0, 3, 10], new=new)
    assert together.shape == (3, 3, 5)
    for index, network in enumerate(networks):
        np.testing.assert_array_equal(network.weights[1].detach(), made(index).weights[1].detach())
        for count in range(11):
            if count in (0, 3, 10):
                own = network(torch.tensor(new))[:, 0].detach()
                np.testing.assert_allclose(
                    together[[0, 3, 10].index(count), index], own, atol=1e-12
                )
            network.zero_grad()
            (0.5 * (network(torch.tensor(X))[:, 0] - torch.tensor(y)).square().sum()).backward()
            for parameter in network.parameters():
                parameter.data -= 0.05 * parameter.grad


def test_a_network_that_diverges_has_no_prediction():
    """Of two networks one begins far away, and takes steps too long for it; the other learns."""
    networks = [
        MaxoutNetwork(6, 2, 1, 2, weight_var=w, parametrization="ntk", seed=1) for w in (1.0, 1e8)
    ]
    found = descend(
        networks,
        circle(ANGLES),
        np.sin(ANGLES),
        step=0.05,
        record=[0, 2000],
        new=circle(PLACES[:5]),
    )
    assert np.isfinite(found[0]).all()
    assert np.isfinite(found[1, 0]).all()
    assert np.isnan(found[1, 1]).all()


@pytest.mark.parametrize("pace", [0.1, 1.7])
def test_what_is_foretold_is_descent_of_a_linear_model(pace):
    """Also for steps that overshoot, up to 2/λ_max, and for a point that is there twice."""
    kernel, X, y, new = (
        critical(3, 2, kind="ntk"),
        circle(ANGLES[[0, 1, 2, 2]]),
        np.sin(ANGLES),
        circle(PLACES[:5]),
    )
    theta = kernel(np.concatenate([X, new]))[:, :4]
    start = np.random.default_rng(0).normal(size=(2, 9))
    start[:, 3] = start[:, 2]
    outputs, step = start.copy(), pace / np.linalg.eigvalsh(theta[:4])[-1]
    for _ in range(25):
        outputs = outputs - step * (outputs[:, :4] - y) @ theta.T
    (found,) = foretell(kernel, X, y, new, start, step=step, record=[25])
    np.testing.assert_allclose(found, outputs[:, 4:], rtol=1e-12)


def test_trained_networks_approach_the_tangent_kernels_predictor():
    """One network against the linear model from its own start; many against the mean and the spread
    of GradientFlow.
    """
    widths, X, y, new = (20, 200, 2000), circle(ANGLES), np.sin(ANGLES), circle(PLACES[::4])
    rows = [
        descent_agreement(critical(2, 1), X, y, new, width, 120, time=10.0, seed=3)
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


# ---- the experiment and its command


def run(*arguments):
    app = typer.Typer(rich_markup_mode=None)
    app.command()(converge)
    return CliRunner().invoke(app, arguments)


QUICK = ("--rank", "3", "--depth", "1", "--width", "5", "--width", "40", "--networks", "20")


def test_command(tmp_path):
    target = tmp_path / "convergence.png"
    result = run(*QUICK, "--plot", str(target))
    assert result.exit_code == 0, result.output
    for words in (
        "Covariances of the outputs",
        "Tangent kernels",
        "gradient descent, rank 3, depth 1",
        str(target),
    ):
        assert words in result.output
    assert target.read_bytes()[:4] == b"\x89PNG"
    found = json.loads(run(*QUICK, "--json", "--descent-up-to", "5").stdout)
    assert [row["width"] for row in found["covariances"]] == [5, 40]
    assert [row["width"] for row in found["gradient_descents"]] == [5]
    assert {row["of"] for row in found["exponents"]} == {"kernel", "tangent kernel"}
    bare = json.loads(
        run(
            *QUICK, "--json", "--all-weights", "--tangent-up-to", "0", "--descent-up-to", "0"
        ).stdout
    )
    assert bare["tangent_kernels"] == bare["gradient_descents"] == []
    assert bare["covariances"][0]["score"] != found["covariances"][0]["score"]


HUGE = (
    "--depth",
    "6",
    "--width",
    "2",
    "--rank",
    "8",
    "--networks",
    "2",
    "--weight-var",
    "1e6",
    "--tangent-up-to",
    "0",
)


def test_numbers_that_are_not_finite(tmp_path):
    """Training diverges: null in JSON, a panel without points, and columns that keep their
    width.
    """
    target = tmp_path / "huge.png"
    result = run(*HUGE, "--json", "--plot", str(target))
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["gradient_descents"]
    assert row["squared_error"] is None
    assert target.read_bytes()[:4] == b"\x89PNG"
    lines = run(*HUGE).output.splitlines()
    assert len(lines[1]) == len(lines[2])


def test_columns_keep_their_width():
    assert [_fit(value, 8, ".1f") for value in (2.04, 123456.7, 4e35, -4e35)] == [
        "     2.0",
        "123456.7",
        "   4e+35",
        "  -4e+35",
    ]
    assert [_fit(value, 8, ".2%") for value in (0.0123, 1.2e30)] == ["   1.23%", "1.2e+32%"]


def test_all_widths_are_below_the_axis():
    found = convergence_study([2], [1], [5, 10, 100], networks=5, tangent_up_to=0, descent_up_to=0)
    first, _, third = convergence(found).axes
    for ax in (first, third):
        assert [label.get_text() for label in ax.get_xticklabels()] == ["5", "10", "100"]


def test_help_says_how_many_networks():
    text = " ".join(run("--help").output.split())
    assert f"Tangent kernels take at least {FEWEST}, training at least 4." in text


def test_ctrl_c(monkeypatch):
    def interrupted(**options):
        raise KeyboardInterrupt

    monkeypatch.setattr("mnngp.finite.study.convergence_study", interrupted)
    result = run(*QUICK)
    assert result.exit_code == 130
    assert result.output == "stopped; nothing is kept\n"


def test_a_row_does_not_depend_on_the_others():
    options = {"networks": 10, "tangent_up_to": 0, "descent_up_to": 0}
    one = convergence_study([3], [2], [20], **options).covariances[0]
    among = convergence_study([2, 3], [1, 2], [20], **options).covariances[-1]
    assert one.squared_error == among.squared_error
    assert (
        one.squared_error
        != convergence_study([3], [2], [20], **options, seed=1).covariances[0].squared_error
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--plot", "x.foo"), "must end in .png, .pdf or .svg"),
        (("--networks", "1"), "Invalid value for '--networks'"),
        (("--rank", "0"), "Invalid value for '--rank'"),
        (("--bias-var", "-1"), "bias_var must be a finite number at least 0"),
        (("--weight-var", "nan"), "weight_var must be a finite number above 0"),
        (("--plot", "/nonexistent/folder/x.png"), "does not exist"),
    ],
)
def test_mistakes_are_named(arguments, message):
    result = run(*QUICK, *arguments)
    assert result.exit_code != 0
    assert message in result.output.replace("\n", " ") + str(result.exception)


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


def test_bad_input_is_refused():
    kernel = critical(2, 1)
    data = (circle(ANGLES), np.sin(ANGLES), circle(PLACES))
    for change, text in (
        ({"width": 0}, "width must be a positive integer"),
        ({"moments": 0}, "moments must be a positive integer"),
        ({"time": -1.0}, "time must be a finite number above 0"),
        ({"resolution": 0.0}, "resolution must be a finite number above 0"),
    ):
        with pytest.raises(InputError, match=text):
            descent_agreement(kernel, *data, **{"width": 5, "networks": 2} | change)
    with pytest.raises(InputError, match="kernel must be a MaxoutKernel, got 'k'"):
        descent_agreement("k", *data, 5, 2)
    with pytest.raises(
        InputError,
        match=r"new must have 2 columns, as many as X, got shape \(3, "
        r"4\)",
    ):
        descent_agreement(kernel, *data[:2], POINTS, 5, 2)
    with pytest.raises(
        InputError,
        match=r"too small to train with, got a largest eigenvalue of "
        r".*--descent-up-to 0",
    ):
        convergence_study([2], [50], [5], networks=2, weight_var=0.1, bias_var=0.0)
    with pytest.raises(InputError, match="seed must be a whole number"):
        convergence_study([2], [1], [5], seed=-1)
    for record in ([1.7], 3, [], [-1]):
        with pytest.raises(
            InputError, match="record must be whole numbers of steps, 0 or more, got"
        ):
            descend(MaxoutNetwork(2, 2, 1, 2), *data[:2], step=0.1, record=record, new=data[2])
    ends = descent_agreement(kernel, *data, 5, 2, moments=1)
    assert len(ends.times) == 3  # the start, one step, and the end
    assert ends.times[-1] == pytest.approx(100.0 * ends.times[1])
    with pytest.raises(InputError, match="width must be a positive integer"):
        draw_values(kernel, POINTS, 0, 5)
    with pytest.raises(InputError, match="networks must be 2 or more"):
        agreement(kernel, POINTS, 5, 1)
    with pytest.raises(InputError, match="draw must be one of 'values', 'weights', got 'all'"):
        agreement(kernel, POINTS, 5, 2, draw="all")
    with pytest.raises(InputError, match="kernel must be a MaxoutKernel, got 3"):
        draw_weights(3, POINTS, 5, 2)
    with pytest.raises(InputError, match="one weight_var and one bias_var"):
        printed_kernel(MaxoutKernel(1, 2, [1.0, 2.0]), POINTS)
    with pytest.raises(InputError, match="network must be a MaxoutNetwork, got int"):
        tangent_kernel(3, POINTS)
    with pytest.raises(InputError, match="output must be one of 0 to 0, got 1"):
        tangent_kernel(MaxoutNetwork(2, 2, 1, 4), POINTS, output=1)
    with pytest.raises(
        InputError, match="X must have 4 columns, as many as the network has inputs, got shape"
    ):
        tangent_kernel(MaxoutNetwork(2, 2, 1, 4), POINTS[:, :2])
    with pytest.raises(
        InputError,
        match=r"kernel must be of kind .nngp., .* there is "
        r"tangent_agreement",
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
    made = [MaxoutNetwork(2, 2, 1, 2)]
    with pytest.raises(
        InputError,
        match=r"y must have one number for each of the 4 rows of X, got "
        r"shape \(4, 1\)",
    ):
        descend(
            made, circle(ANGLES), np.sin(ANGLES)[:, None], step=0.1, record=[1], new=circle(PLACES)
        )
    with pytest.raises(
        InputError,
        match=r"new must have 2 columns, as many as the network has "
        r"inputs, got shape \(4, 3\)",
    ):
        descend(made, circle(ANGLES), np.sin(ANGLES), step=0.1, record=[1], new=np.ones((4, 3)))
    with pytest.raises(InputError, match="networks must have one output, got 3"):
        descend(
            [MaxoutNetwork(2, 2, 1, 2, 3)],
            circle(ANGLES),
            np.sin(ANGLES),
            step=0.1,
            record=[1],
            new=circle(PLACES),
        )
    for wrong in ([], [3]):
        with pytest.raises(
            InputError,
            match="networks must be a MaxoutNetwork or a sequence of them, at least one, got",
        ):
            descend(wrong, circle(ANGLES), np.sin(ANGLES), step=0.1, record=[1], new=circle(PLACES))
    with pytest.raises(InputError, match="two widths or more"):
        power_law([5], [1.0], [0.1])
    with pytest.raises(InputError, match="rank must be one or more"):
        convergence_study([])
