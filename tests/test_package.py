"""The package as a whole: its public interface, what is loaded when, the compiled code's cache."""

import ast
import difflib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import mnngp
from tests import public_api, without

ROOT = Path(mnngp.__file__).parent


def test_no_two_modules_have_one_name():
    """A reader who looks for one finds one. (The order of rooms is import-linter's: make lint.)"""
    names = Counter(path.stem for path in ROOT.rglob("*.py") if path.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []


def test_modules_are_short():
    """One subject each; the linter counts the arguments of functions."""
    for path in ROOT.rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path


def test_scripts_use_public_names():
    """Those of others change, and hardly any test runs benchmarks and drawings."""
    used = [
        f"{path.name}:{node.lineno} {node.attr}"
        for folder in ("docs", "benchmarks", "examples")
        for path in (ROOT.parents[1] / folder).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr != "_replace"
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]
    assert not used


def test_the_package_does_not_use_its_list_of_public_names():
    """That would hide from the linter what a module needs."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "mnngp" and path.parent != ROOT:
                assert {one.name for one in node.names}.isdisjoint(mnngp._MODULE), path


@pytest.mark.parametrize("module", public_api.MODULES)
def test_the_public_interface_is_what_is_stored(module):
    found = public_api.describe()
    if module not in found:
        pytest.skip(f"{public_api.MODULES[module]} is not installed")
    lines = difflib.unified_diff(
        public_api.stored()[module], found[module], "stored", "found", lineterm="", n=1
    )
    changed = "\n".join(lines)
    assert not changed, f"{module}\n{changed}\nif that is meant: python -m tests.public_api"


def python(code, **environment):
    """Run code in a new process and return what it prints."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_public_names():
    for name in mnngp.__all__:
        assert getattr(mnngp, name) is not None
    assert set(mnngp.__all__) <= set(dir(mnngp))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        mnngp.nonsense  # noqa: B018
    assert (ROOT / "py.typed").exists()


def test_modules_after_a_bare_import():
    """Each in a package that nothing else was asked of: one module's import brings others with
    it.
    """
    code = """
import sys
def fresh():
    for name in [name for name in sys.modules if name.partition(".")[0] == "mnngp"]:
        del sys.modules[name]
    import mnngp
    assert [name for name in sys.modules if name.startswith("mnngp")] == ["mnngp"]
    return mnngp
public = fresh()._SUBMODULES
for name in public:
    mnngp = fresh()
    assert name in dir(mnngp)
    assert getattr(mnngp, name).__name__ == f"mnngp.{name}"
print(*public, fresh().experiments.protocol.Protocol.__name__)
"""
    public = (
        "activations data errors estimators experiments finite inference interop kernels plots "
        "theory"
    )
    assert python(code) == f"{public} Protocol"


def test_without_extras_a_module_says_what_it_needs(tmp_path):
    code = """
from mnngp import *
import mnngp
for use in (lambda: mnngp.interop.gpytorch, lambda: mnngp.finite.MaxoutNetwork, lambda: mnngp.MaxoutNetwork,
            lambda: mnngp.plots.initialisation(mnngp.Maxout(2), 3)):
    try:
        use()
    except mnngp.errors.MissingExtraError as error:
        print(error)
try:
    mnngp.interop.nonsense
except AttributeError as error:
    print(error)
"""
    assert python(code, **without.environment(tmp_path, *without.EXTRAS)).splitlines() == [
        'mnngp.interop.gpytorch needs PyTorch and GPyTorch: pip install "mnngp[gpytorch]"',
        'finite networks need PyTorch: pip install "mnngp[torch]"',
        'finite networks need PyTorch: pip install "mnngp[torch]"',
        'plots need Matplotlib: pip install "mnngp[experiments]"',
        "module 'mnngp.interop' has no attribute 'nonsense'",
    ]


def test_what_is_heavy_is_loaded_late():
    loaded = python(
        "import sys, mnngp; mnngp.MaxoutKernel(); mnngp.Maxout(2); "
        "print([name for name in ('numba', 'matplotlib', 'torch', 'dask', 'typer') if name in "
        "sys.modules])"
    )
    assert loaded == "[]"
    assert (
        python("import sys, mnngp; print('sklearn' in sys.modules, 'scipy' in sys.modules)")
        == "False False"
    )
    command_line = (
        "import sys; from mnngp.commands import app; print([name for name in ('numba', 'sklearn', 'scipy', "
        "'numpy') if name in sys.modules])"
    )
    assert python(command_line) == "[]"


EVALUATE = """
import json, numpy as np, mnngp
value = mnngp.MaxoutKernel(2, 3)(np.eye(3))[0, 1]
from mnngp.kernels import forward
stats = forward.transform.stats
print(json.dumps([float(value), sum(stats.cache_hits.values()), sum(stats.cache_misses.values())]))
"""


# The same of a function that is compiled in half a second, not ten.
SMALL = """
import json, numpy as np
from mnngp.kernels import strips
value = strips.polynomial(tuple(np.arange(1.0, 10.0)), 0.5)
stats = strips.polynomial.stats
print(json.dumps([float(value), sum(stats.cache_hits.values()), sum(stats.cache_misses.values())]))
"""


def test_compiled_code_is_kept_on_disk(tmp_path):
    first = json.loads(python(EVALUATE, NUMBA_CACHE_DIR=str(tmp_path)))
    second = json.loads(python(EVALUATE, NUMBA_CACHE_DIR=str(tmp_path)))
    assert first[1:] == [0, 1]
    assert second[1:] == [1, 0]
    assert first[0] == second[0]


def test_changed_sources_are_compiled_again(tmp_path):
    """Also when a function's own file is the same and only one that it calls has changed: Numba
    alone would not notice.
    """
    python(SMALL, NUMBA_CACHE_DIR=str(tmp_path))
    assert json.loads(python(SMALL, NUMBA_CACHE_DIR=str(tmp_path)))[1:] == [1, 0]
    changed = "from mnngp._system import compiled; compiled._SOURCES = 'other'\n" + SMALL
    assert json.loads(python(changed, NUMBA_CACHE_DIR=str(tmp_path)))[1:] == [0, 1]


def test_a_cache_folder_that_cannot_be_written_breaks_nothing(tmp_path):
    """No folder at all, and one that is lost between the first look and the writing."""
    block = tmp_path / "file"
    block.write_text("not a folder")
    nowhere = (
        "import numba.core.caching as c\ndef refuse(self): raise "
        "OSError('read-only')\nc._CacheLocator.ensure_cache_path = refuse\n"
    )
    value = json.loads(python(nowhere + SMALL, NUMBA_CACHE_DIR=str(block / "cache")))[0]
    assert value == pytest.approx(sum((k + 1) * 0.5**k for k in range(9)), rel=1e-15)
    lost = (
        "import numba.core.caching as c\n"
        "def full(self, key, data): raise OSError(28, 'No space left on device')\n"
        "c.IndexDataCacheFile.save = full\n"
    )
    assert json.loads(python(lost + SMALL, NUMBA_CACHE_DIR=str(tmp_path)))[0] == value


def test_works_in_joblib_workers_and_threads():
    code = """
import numpy as np, mnngp
from concurrent.futures import ThreadPoolExecutor
from joblib import Parallel, delayed
X = np.random.default_rng(0).normal(size=(300, 10))
K = mnngp.MaxoutKernel(3, 3)
once = K(X)
with ThreadPoolExecutor(4) as pool:
    assert all(np.array_equal(once, other) for other in pool.map(K, [X] * 8))
assert all(np.array_equal(once, other) for other in Parallel(n_jobs=2)(delayed(K)(X) for _ in range(4)))
print("fine")
"""
    assert python(code) == "fine"


def test_version_is_the_packages():
    from importlib.metadata import version

    assert version("mnngp") == mnngp.__version__
