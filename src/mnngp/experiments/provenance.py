"""When, where and by which sources a result was made."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine() -> str:
    """Operating system, processor and cores; no names of hosts or users."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line for line in lines if line.startswith("model name"))
        processor = model.partition(":")[2].strip()
    system = f"{platform.system()} {platform.machine()}, {processor}"
    return f"{system}, {os.cpu_count()} cores, Python {platform.python_version()}"


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The commit of the package's sources, with "+" if they were changed; None if there is none."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parents[1]), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=20.0
        ).stdout.strip()

    try:
        # an environment may lie in a checkout of something else
        git("ls-files", "--error-unmatch", "__init__.py")
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None
