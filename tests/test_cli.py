import json
import subprocess
import sys
from pathlib import Path

import pytest

MNNGP = Path(sys.executable).with_name("mnngp")


def run(*arguments, code=0, cwd=None):
    result = subprocess.run([MNNGP, *arguments], capture_output=True, text=True, check=False, timeout=300, cwd=cwd)
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result


def test_help_names_every_command():
    shown = run("--help").stdout
    assert "demo" in shown
    assert "phase" in shown
    assert run("--version").stdout.startswith("mnngp 0.")
    for command in ("demo", "phase"):
        assert "--help" in run(command, "--help").stdout


def test_phase():
    shown = run("phase", "--rank", "4", "--depth", "30").stdout
    assert "critical weight variance 0.64460863" in shown
    facts = json.loads(run("phase", "--rank", "3", "--depth", "5", "--weight-var", "0.5", "--bias-var", "0.1", "--json").stdout)
    assert facts["phase"] == "ordered"
    assert facts["critical_weight_var"] == pytest.approx(0.78390520)
    assert len(facts["variance"]) == 6
    large = json.loads(run("phase", "--rank", "4", "--weight-var", "1e5", "--depth", "200", "--json").stdout)
    assert large["variance"][-1] is None


def test_phase_draws(tmp_path):
    target = tmp_path / "phase.png"
    assert str(target) in run("phase", "--plot", str(target)).stdout
    assert target.read_bytes()[:4] == b"\x89PNG"


def test_demo(tmp_path):
    shown = run("demo", cwd=tmp_path).stdout
    assert "maxout, rank 4" in shown
    assert (tmp_path / "mnngp-demo.png").stat().st_size > 50_000
    rows = {line.split("│")[1].strip(): line.split("│")[2:-2] for line in shown.splitlines() if line.startswith("│")}
    assert rows["ReLU"] == rows["maxout, rank 2"]  # proposition 1
    assert all(float(value) > 0.97 for name, row in rows.items() if name.startswith(("maxout", "ReLU", "tanh")) for value in row)
    ours, forest = (float(rows[name][0]) for name in ("MaxoutGPClassifier()", "random forest"))
    assert ours > forest > 0.9


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("phase", "--rank", "0"), 2, "Invalid value for '--rank'"),
        (("phase", "--weight-var", "-1"), 1, "error: weight_var must be a finite number above 0, got -1.0"),
        (("phase", "--plot", "x.foo"), 2, "must end in .png, .pdf or .svg"),
        (("phase", "--bias-var", "nan"), 1, "error: bias_var must be a finite number at least 0, got nan"),
        (("phase", "--plot", "/nonexistent/folder/x.png"), 2, "does not exist"),
        (("demo", "-o", "/nonexistent/folder/x.png"), 2, "does not exist"),
        (("nonsense",), 2, "No such command"),
    ],
)
def test_mistakes_end_in_one_line(arguments, code, message):
    assert message in run(*arguments, code=code).stderr
