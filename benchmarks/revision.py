"""Which commit a benchmark measures."""

import subprocess
from pathlib import Path


def commit() -> str:
    """The short name of the present one; nothing outside of a clone."""
    return subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
