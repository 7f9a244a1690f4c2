"""Whether a built wheel works where there is nothing but it, and whether the sdist is whole.

make dist runs this outside of the tree, with the Python that the wheel is installed in.
"""

import doctest
import importlib
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

import mnngp

IN_SDIST = (
    "src/mnngp/py.typed",
    "src/mnngp/inference/costs.json",
    "tests/public_api.txt",
    "tests/reference",
    "docs/index.md",
    "examples/priors.py",
    "experiments/results",
    "benchmarks/kernel.py",
    "Makefile",
    "constraints.txt",
    "constraints-oldest.txt",
    "mkdocs.yml",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "CITATION.cff",
)
# Their examples need no extra.
MODULES = ("activations.maxout", "activations.piecewise", "theory", "_system.memory", "data.images")


def main(dist):
    """Print what was tried, or end in an error."""
    package = Path(mnngp.__file__).parent
    assert "site-packages" in package.parts, f"{package} is not an installed package"
    assert version("mnngp") == mnngp.__version__
    assert (package / "py.typed").exists()
    print(f"mnngp {mnngp.__version__} in {package}")

    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    root = f"mnngp-{mnngp.__version__}/"
    for name in IN_SDIST:
        assert any(f"{one}/".startswith(f"{root}{name}/") for one in names), f"no {name} in {sdist}"
    print(f"{sdist.name}: {len(names)} files, {sdist.stat().st_size / 1e6:.1f} MB")

    X = np.linspace(-2.0, 2.0, 40)[:, None]
    model = mnngp.MaxoutGPRegressor(max_trials=4).fit(X, np.sin(X[:, 0]))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.mnngp"))
        again = mnngp.load(Path(folder, "model.mnngp"))
    assert np.array_equal(model.predict(X), again.predict(X))
    assert np.abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.05
    print("a fit, saved and loaded")

    for arguments in (["--help"], ["--version"], ["phase", "--rank", "4"], ["plan", "--n", "1e5"]):
        command = [str(Path(sys.executable).with_name("mnngp")), *arguments]
        subprocess.run(command, check=True, capture_output=True)
        print("mnngp", *arguments)

    for name in MODULES:
        failed, tried = doctest.testmod(importlib.import_module(f"mnngp.{name}"))
        assert not failed
        print(f"mnngp.{name}: {tried} examples")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
