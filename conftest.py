"""What is left out of the tests where PyTorch is not installed (``make test-next``): whatever is about it, and nothing else."""

from importlib.util import find_spec

NEED_TORCH = [
    "src/mnngp/finite/*.py",
    "src/mnngp/interop/*.py",
    "tests/test_convergence.py",
    "tests/test_finite.py",
    "tests/test_finite_sweep.py",
    "tests/test_gpytorch.py",
]
collect_ignore_glob = [] if find_spec("torch") else NEED_TORCH


def pytest_report_header() -> list[str]:
    """What is left out, at the head of the tests' output."""
    return [f"left out without PyTorch: {', '.join(NEED_TORCH)}"] if collect_ignore_glob else []
