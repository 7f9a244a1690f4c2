"""The command that draws finite networks."""

import json

import pytest
import typer
from typer.testing import CliRunner

from mnngp.commands.limits import _fit, converge
from mnngp.experiments.convergence.study import FEWEST


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


def test_convolutional_networks(tmp_path):
    target = tmp_path / "channels.png"
    quick = (*QUICK, "--descent-up-to", "0")  # that of dense networks is enough
    result = run(*quick, "--readout", "flatten", "--plot", str(target))
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[1].startswith("rank depth channels networks")
    assert len(lines[1]) == len(lines[2])
    for words in ("falls like channels", "tangent kernel, rank 3, depth 1", str(target)):
        assert words in result.output
    assert "printed" not in result.output
    assert target.read_bytes()[:4] == b"\x89PNG"
    found = json.loads(run(*quick, "--readout", "global", "--json").stdout)
    assert [row["width"] for row in found["covariances"]] == [5, 40]
    assert [row["networks"] for row in found["covariances"]] == [160, 20]


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


def test_help_says_how_many_networks():
    text = " ".join(run("--help").output.split())
    assert f"Tangent kernels take at least {FEWEST}, training at least 4." in text


def test_ctrl_c(monkeypatch):
    def interrupted(**options):
        raise KeyboardInterrupt

    monkeypatch.setattr("mnngp.experiments.convergence.study.convergence_study", interrupted)
    result = run(*QUICK)
    assert result.exit_code == 130
    assert result.output == "stopped; nothing is kept\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--plot", "x.foo"), "must end in .png, .pdf or .svg"),
        (("--networks", "1"), "Invalid value for '--networks'"),
        (("--rank", "0"), "Invalid value for '--rank'"),
        (("--bias-var", "-1"), "bias_var must be a finite number at least 0"),
        (("--weight-var", "nan"), "weight_var must be a finite number above 0"),
        (("--readout", "max"), "readout must be one of 'flatten', 'global', got 'max'"),
        (("--readout", "flatten", "--descent-up-to", "9"), "descent_up_to is for dense networks"),
        (("--plot", "/nonexistent/folder/x.png"), "does not exist"),
    ],
)
def test_mistakes_are_named(arguments, message):
    result = run(*QUICK, *arguments)
    assert result.exit_code != 0
    assert message in result.output.replace("\n", " ") + str(result.exception)
