"""What is left out of the tests where PyTorch is not installed (``make test-next``): whatever is
about it, and nothing else.
"""

from importlib.util import find_spec

import pytest

NEED_TORCH = [
    "src/mnngp/experiments/convergence/*.py",
    "src/mnngp/finite/*.py",
    "src/mnngp/interop/*.py",
    "tests/commands/test_converge.py",
    "tests/experiments/test_dask_runner.py",  # of a sweep with finite networks
    "tests/experiments/test_convergence.py",
    "tests/finite/*.py",
    "tests/experiments/test_finite_sweep.py",
    "tests/interop/*.py",
]
collect_ignore_glob = [] if find_spec("torch") else NEED_TORCH

# whose code tests/test_docs.py runs
PAGES = ("README.md", "convergence.md", "finite.md", "gpytorch.md", "initialisation.md")


def pytest_report_header() -> list[str]:
    """What is left out, at the head of the tests' output."""
    return (
        [f"left out without PyTorch: {', '.join((*NEED_TORCH, *PAGES))}"]
        if collect_ignore_glob
        else []
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the code of pages that use it."""
    for item in items:
        if collect_ignore_glob and item.name in {
            f"test_code_prints_what_the_page_says[{page}]" for page in PAGES
        }:
            item.add_marker(pytest.mark.skip(reason="its code needs PyTorch"))
