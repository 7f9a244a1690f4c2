"""How much memory there is, and sizes as people write them."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from mnngp.errors import InputError

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available() -> int:
    """Bytes that this process could still take: of the machine's, or of its container's if that has a limit."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])
    for limit, used in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):  # no such file, or the word "max"
            free = min(free, max(0, int(Path(limit).read_text()) - int(Path(used).read_text())))
    return free


def as_bytes(name: str, value: object) -> int:
    """A size as a number of bytes, or as a word such as "4GB" or "500 MiB".

    Examples
    --------
    >>> as_bytes("memory", "1.5GB")
    1500000000
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return int(value)
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([kmgt]?i?b?)\s*", value.lower()) if isinstance(value, str) else None
    if found is None or found[2] not in _UNITS:
        raise InputError(f"{name} must be a number of bytes or a size such as '4GB' or '500MiB', got {value!r}")
    return int(float(found[1]) * _UNITS[found[2]])


def shown(size: float) -> str:
    """A size for people.

    Examples
    --------
    >>> shown(1.6e9), shown(20_000)
    ('1.6 GB', '20 kB')
    """
    for unit, word in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {word}" if size < 1000 * unit else f"{size / unit:,.0f} {word}"
    return f"{size:.0f} B"
