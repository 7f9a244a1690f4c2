"""The command line: help, mistakes, and what needs no table. Most commands run in this process."""

import json
import subprocess
import sys

import pytest

from tests import without
from tests.commands.running import run, started


def test_the_command_as_a_process(tmp_path):
    shown = started("--version").stdout
    assert shown.startswith("mnngp 0.")
    module = subprocess.run(
        [sys.executable, "-m", "mnngp", "--version"], capture_output=True, text=True, check=True
    )
    assert module.stdout == shown
    mistake = started("fit", "nothing.csv", "--target", "y", "-o", "m", code=1, cwd=tmp_path)
    assert (mistake.stdout, mistake.stderr) == ("", "error: nothing.csv is not there\n")
    assert "No such command" in started("nonsense", code=2).stderr


def test_help_names_every_command():
    shown = run("--help").stdout
    for command in (
        "demo",
        "phase",
        "fit",
        "predict",
        "data",
        "sweep",
        "table",
        "report",
        "plan",
        "converge",
    ):
        assert command in shown
        assert "--help" in run(command, "--help").stdout


def test_phase():
    shown = run("phase", "--rank", "4", "--depth", "30").stdout
    assert "critical weight variance 0.64460863" in shown
    facts = json.loads(
        run(
            "phase",
            "--rank",
            "3",
            "--depth",
            "5",
            "--weight-var",
            "0.5",
            "--bias-var",
            "0.1",
            "--json",
        ).stdout
    )
    assert facts["phase"] == "ordered"
    assert facts["critical_weight_var"] == pytest.approx(0.78390520)
    assert len(facts["variance"]) == 6
    large = json.loads(
        run("phase", "--rank", "4", "--weight-var", "1e5", "--depth", "200", "--json").stdout
    )
    assert large["variance"][-1] is None


def test_plan():
    shown = run(
        "plan", "--n", "1e5", "--features", "784", "--memory", "8GB", "--threads", "8"
    ).stdout
    assert "n = 100,000" in shown
    assert "Advised: solver='cg'." in shown  # a factor of 40 GB
    assert "computed anew in every iteration" in shown
    facts = json.loads(
        run(
            "plan", "--n", "1e6", "--workers", "64", "--threads", "8", "--memory", "64GB", "--json"
        ).stdout
    )
    assert {plan["solver"] for plan in facts["plans"]} == {"dask"}
    assert facts["plans"][0]["seconds"] == pytest.approx(sum(facts["plans"][0]["parts"].values()))
    assert "is not for one machine" in run("plan", "--n", "10", "--solver", "dask", code=1).stderr
    assert "memory must be" in run("plan", "--n", "10", "--memory", "x", code=1).stderr


def test_phase_draws(tmp_path):
    target = tmp_path / "phase.png"
    assert str(target) in run("phase", "--plot", str(target)).stdout
    assert target.read_bytes()[:4] == b"\x89PNG"


def test_demo(tmp_path):
    shown = run("demo", cwd=tmp_path).stdout
    assert "maxout, rank 4" in shown
    assert shown.rstrip().endswith("Report: mnngp-demo.html")
    page = (tmp_path / "mnngp-demo.html").read_text()
    assert "Nothing chosen by hand" in page
    assert 'src="data:image/png;base64,iVBOR' in page
    rows = {
        line.split("│")[1].strip(): line.split("│")[2:-2]
        for line in shown.splitlines()
        if line.startswith("│")
    }
    assert rows["ReLU"] == rows["maxout, rank 2"]  # proposition 1
    assert all(
        float(value) > 0.97
        for name, row in rows.items()
        if name.startswith(("maxout", "ReLU", "tanh"))
        for value in row
    )
    ours, forest = (float(rows[name][0]) for name in ("MaxoutGPClassifier()", "random forest"))
    assert ours > forest > 0.9


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("phase", "--rank", "0"), 2, "Invalid value for '--rank'"),
        (
            ("phase", "--weight-var", "-1"),
            1,
            "error: weight_var must be a finite number above 0, got -1.0",
        ),
        (
            ("phase", "--plot", "x.foo"),
            1,
            "error: x.foo must end in .png, .pdf or .svg; nothing else is written here",
        ),
        (
            ("phase", "--bias-var", "nan"),
            1,
            "error: bias_var must be a finite number at least 0, got nan",
        ),
        (("phase", "--plot", "/nonexistent/folder/x.png"), 1, "does not exist"),
        (("converge", "--plot", "x.jpg"), 1, "error: x.jpg must end in .png, .pdf or .svg"),
        (("demo", "-o", "x.pdf"), 1, "error: x.pdf must end in .html or .htm"),
        (("demo", "-o", "/nonexistent/folder/x.html"), 1, "does not exist"),
        (
            ("table", "x.sqlite", "-o", "x.pdf"),
            1,
            "error: x.pdf must end in .txt, .csv, .md or .tex",
        ),
        (
            ("table", "x.sqlite", "-o", "x.csv", "--format", "latex"),
            1,
            "error: x.csv must end in .tex or .txt",
        ),
        (("table", "x.sqlite", "-o", "x.txt", "--json"), 1, "error: x.txt must end in .json;"),
        (
            ("table", "x.sqlite", "--format", "word"),
            1,
            "error: format must be one of 'text', 'csv', 'markdown', 'latex', got 'word'",
        ),
        (("report", "x.sqlite", "-o", "x.pdf"), 1, "error: x.pdf must end in .html or .htm"),
        (
            ("fit", "x.csv", "--target", "y", "-o", "m.csv"),
            1,
            "error: m.csv must end in .mnngp, or have no suffix;",
        ),
        (
            ("predict", "m", "x.csv", "-o", "x.xlsx"),
            1,
            "error: x.xlsx must end in .csv, .tsv or .parquet; nothing else is written",
        ),
        (("predict", "m", "x.csv", "-o", "x"), 1, "error: x must end in .csv, .tsv or .parquet"),
    ],
)
def test_mistakes_end_in_one_line(arguments, code, message):
    assert message in run(*arguments, code=code).stderr


NEEDED = {
    ("demo",): "demonstration's pictures and report need Matplotlib and Jinja2 and Plotly: pip "
    'install "mnngp[experiments]"',
    ("phase", "--plot", "x.png"): 'plots need Matplotlib: pip install "mnngp[experiments]"',
    ("converge", "--plot", "x.png"): 'plots need Matplotlib: pip install "mnngp[experiments]"',
    ("report", "x.sqlite"): 'reports need Jinja2 and Plotly: pip install "mnngp[experiments]"',
    ("fit", "x.csv", "--target", "y", "-o", "m"): "tables need polars: pip install "
    '"mnngp[experiments]"',
    ("predict", "m", "x.csv"): 'tables need polars: pip install "mnngp[experiments]"',
}


@pytest.mark.parametrize("arguments", NEEDED, ids=lambda arguments: arguments[0])
def test_what_is_not_installed_is_said_before_any_work(arguments, tmp_path):
    """As after a plain install. Nothing is printed before, so nothing was computed, and no file is
    left.
    """
    environment = without.environment(tmp_path / "hidden", *without.EXTRAS)
    (tmp_path / "here").mkdir()
    result = started(*arguments, code=1, env=environment, cwd=tmp_path / "here")
    assert result.stdout == ""
    assert result.stderr.endswith(f"{NEEDED[arguments]}\n")
    assert result.stderr.count("\n") == 1
    assert list((tmp_path / "here").iterdir()) == []


def test_a_plain_install_is_enough_for_the_rest(tmp_path):
    environment = without.environment(tmp_path / "hidden", *without.EXTRAS)
    assert "critical weight variance" in started("phase", env=environment).stdout
    assert "Advised" in started("plan", "--n", "1e4", env=environment).stdout


def test_data(tmp_path):
    facts = {
        fact["name"]: fact
        for fact in json.loads(run("data", "list", "--data-dir", str(tmp_path), "--json").stdout)
    }
    assert facts["mnist"] | {"download_megabytes": 0} == {
        "name": "mnist",
        "train": 60000,
        "test": 10000,
        "shape": [28, 28],
        "classes": 10,
        "download_megabytes": 0,
        "place": None,
    }
    assert "not here" in run("data", "list", "--data-dir", str(tmp_path)).stdout
    assert "comes with scikit-learn" in run("data", "fetch", "digits").stdout
    assert "name must be one of" in run("data", "fetch", "nothing", code=1).stderr
