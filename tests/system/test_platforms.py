"""What other platforms lack or do otherwise, by taking it away here; and what pyproject.toml
promises of versions.
"""

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import joblib
import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from threadpoolctl import ThreadpoolController

from mnngp import MaxoutGPClassifier, MaxoutKernel, data
from mnngp._system import threads
from mnngp.estimators import model_file

ROOT = Path(__file__).parents[2]


def python(*arguments, **environment):
    """Run Python in a new process and return what it prints, as bytes."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


# Windows has none of these; the other libraries have looked for them by then.
WITHOUT = """
import os, sys
import numpy, scipy.linalg, sklearn.base, numba, psutil, joblib, threadpoolctl
for name in ("sysconf", "sched_getaffinity", "fork", "getloadavg", "getuid", "geteuid", "chown", "mkfifo"):
    assert hasattr(os, name)
    delattr(os, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
import tempfile
from pathlib import Path
import mnngp
from mnngp._system import memory
X = numpy.linspace(-1.0, 1.0, 40)[:, None]
model = mnngp.MaxoutGPRegressor(depth=2, rank=3, weight_var=0.9, bias_var=0.1, kind="nngp", noise_var=0.01).fit(X, X[:, 0])
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "a model.mnngp")
    model.save(path)
    assert numpy.array_equal(mnngp.load(path).predict(X), model.predict(X))
assert memory.available() > 0
from mnngp.inference import costs
assert "n = 40" in costs.describe_here("cholesky", 40, 1, 2, 1, "float64")
print("fine")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="it is that platform")
def test_a_fit_needs_nothing_that_windows_lacks():
    assert python("-c", WITHOUT) == b"fine\n"


@pytest.fixture
def unseen(monkeypatch):
    """threadpoolctl knows no BLAS here, as it does not know Apple's Accelerate."""
    for name in ("OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "LOKY_MAX_CPU_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        threads, "_blas", lambda: ThreadpoolController().select(user_api="none of them")
    )


@pytest.mark.usefixtures("unseen")
def test_threads_with_a_blas_that_nobody_knows(monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 6)
    assert threads.count() == 6
    for name, value, expected in [
        ("OMP_NUM_THREADS", "4,2", 4),
        ("VECLIB_MAXIMUM_THREADS", "3", 3),
        ("OMP_NUM_THREADS", "64", 3),
        ("VECLIB_MAXIMUM_THREADS", "0", 6),
        ("OMP_NUM_THREADS", "many", 6),
    ]:
        monkeypatch.setenv(name, value)
        assert threads.count() == expected


@pytest.mark.usefixtures("unseen")
def test_they_are_the_cores_that_the_process_may_use(monkeypatch):
    assert threads.count() == joblib.cpu_count()
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert threads.count() == 1
    X = np.random.default_rng(0).normal(size=(300, 8))
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "2")
    unknown = MaxoutKernel(3, 3)(X)
    monkeypatch.undo()
    np.testing.assert_array_equal(unknown, MaxoutKernel(3, 3)(X))


def test_a_blas_that_does_not_tell_its_threads(monkeypatch):
    """threadpoolctl finds the library, and not the function."""

    class Silent:
        def info(self):
            return [{"num_threads": None}]

    monkeypatch.setattr(threads, "_blas", Silent)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert threads.count() == 1


def test_the_command_line_in_other_alphabets():
    """That of Windows in the West, where output goes into a file, and that of a machine without a
    locale.
    """
    assert rb"\u221afan_in" in python(
        "-m", "mnngp", "phase", "--rank", "3", PYTHONIOENCODING="cp1252"
    )
    assert rb"28\xd728" in python("-m", "mnngp", "data", "list", PYTHONIOENCODING="ascii")


def test_predictions_on_standard_output_are_utf8(tmp_path):
    table, model = tmp_path / "table.csv", tmp_path / "model.mnngp"
    table.write_text(
        "x,Größe\n" + "".join(f"{k / 10},{'αβ'[k % 20 > 9]}\n" for k in range(40)), encoding="utf-8"
    )
    encoder = data.Encoder.of(data.read_table(table), "Größe", None, ())
    given = {
        "depth": 2,
        "rank": 2,
        "weight_var": 1.0,
        "bias_var": 0.1,
        "kind": "nngp",
        "noise_var": 0.1,
    }
    fitted = MaxoutGPClassifier(**given).fit(*encoder.labelled(data.read_table(table)))
    model_file.save(fitted, model, table=encoder.as_dict())
    printed = python("-m", "mnngp", "predict", model, table, PYTHONIOENCODING="cp1252")
    assert printed.decode("utf-8").splitlines()[0] == "prediction,P(α),P(β)"
    assert b"\r" not in printed


def test_every_text_file_is_read_and_written_with_an_encoding():
    """The default is UTF-8 here, and something else on Windows."""
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                binary = any(
                    isinstance(given, ast.Constant) and "b" in str(given.value)
                    for given in node.args[1:]
                )
                text = name in ("read_text", "write_text") or (
                    name == "open" and isinstance(node.func, ast.Name) and not binary
                )
                assert not text or any(given.arg == "encoding" for given in node.keywords), (
                    f"{path}, line {node.lineno}"
                )


# --- versions -------------------------------------------------------------------------------------


def promised():
    """The requirements of the package and of its extras, less those of its documentation."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lists = [project["dependencies"], *(extras[name] for name in extras if name != "docs")]
    return [
        Requirement(text)
        for requirements in lists
        for text in requirements
        if not text.startswith("mnngp[")
    ]


def pinned(name):
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return dict(line.lower().split("==") for line in lines if line and not line.startswith("#"))


def test_the_oldest_versions_are_those_that_are_tested():
    """``make test-oldest`` installs what constraints-oldest.txt says."""
    oldest = pinned("constraints-oldest.txt")
    for requirement in promised():
        (bound,) = requirement.specifier
        assert bound.operator == ">=", (
            f"{requirement} promises no oldest version, or not all newer ones"
        )
        assert Version(oldest[requirement.name]) == Version(bound.version), (
            f"{requirement} is tested with {oldest[requirement.name]}"
        )


def test_the_newest_versions_are_within_what_is_promised():
    newest = pinned("constraints.txt")
    for requirement in promised():
        assert requirement.specifier.contains(newest[requirement.name]), requirement


def test_what_is_imported_is_required():
    """No package is there by luck; three come with others that need them."""
    required = {{"scikit-learn": "sklearn"}.get(one.name, one.name) for one in promised()}
    required |= {"linear_operator", "markupsafe", "requests"}  # of GPyTorch, Jinja and pooch
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            imported = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                imported = [node.module]
            for top in (
                {name.split(".")[0] for name in imported} - {"mnngp"} - sys.stdlib_module_names
            ):
                assert top in required, f"{path} imports {top}"
