"""How much memory there is, and sizes as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mnngp.errors import InputError

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
# bytes that a fit may count on: an estimate decides how to solve, never whether to
_LEAST = 256 * 2**20
# Where control groups of memory are mounted, by their version, and the files of a group. Beyond
# memory.high a process is not killed, but slowed down until it stands.
_MOUNTS = {1: "sys/fs/cgroup/memory", 2: "sys/fs/cgroup"}
_LIMITS = ("memory.max", "memory.high", "memory.limit_in_bytes")
_USED = ("memory.current", "memory.usage_in_bytes")


def available(root: str | Path = "/") -> int:
    """Bytes that this process could still take, at least 256 MiB.

    It is the least of what the machine has, of what is left to each control group that the process
    is in (a container, a job of Slurm, a slice of systemd), and of what ``ulimit -v`` and ``ulimit
    -d`` leave. Memory that holds nothing but copies of files is free: the kernel gives it back when
    it is needed. ``root`` is where Linux's files are.
    """
    return max(_LEAST, min([*_of_the_machine(), *left(root)], default=_LEAST))


def _of_the_machine() -> Iterator[int]:
    """What psutil knows, on every platform; it does not look at control groups."""
    import psutil

    try:
        yield int(psutil.virtual_memory().available)
    except (OSError, RuntimeError, ValueError, psutil.Error):  # a sandbox without /proc, for one
        return


def left(root: str | Path) -> Iterator[int]:
    """Bytes that each limit on this process leaves, as Linux tells below ``root``.

    Files that are missing, cannot be read or make no sense set no limit.
    """
    root = Path(root)
    for mount, group in _groups(root):
        for folder in (group, *group.parents):
            yield from _left_to_group(folder)
            if folder == mount:
                break
    yield from _left_to_process(root / "proc" / "self")


def _groups(root: Path) -> Iterator[tuple[Path, Path]]:
    """Where control groups of memory are mounted, and the folder of this process's group there.

    In a container the path may be the host's, of which the mount shows the last folders, or none.
    """
    for line in _lines(root / "proc/self/cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        version = 2 if number == "0" and not controllers else 1
        if version == 1 and "memory" not in controllers.split(","):
            continue
        mount, names = root / _MOUNTS[version], path.strip("/").split("/")
        views = (mount.joinpath(*names[start:]) for start in range(len(names)))
        group = next((view for view in views if view.is_dir() and ".." not in names), mount)
        yield mount, group


def _left_to_group(folder: Path) -> Iterator[int]:
    limits = [limit for name in _LIMITS for limit in _numbers(folder / name)]
    used = [size for name in _USED for size in _numbers(folder / name)]
    if not limits or not used:
        return
    stat: dict[str, int] = {}
    for line in _lines(folder / "memory.stat"):
        name, _, value = line.partition(" ")
        if value.isdecimal():
            stat[name] = int(value)
    # Of version 1: the tightest limit above, also of groups that a container cannot see.
    limit = min(*limits, stat.get("hierarchical_memory_limit", limits[0]))
    # Pages of files that nobody read lately are given back first; those in use and caches of the
    # kernel in part. Version 1 has totals over a group and those in it.
    idle, busy = (
        stat.get(f"total_{name}", stat.get(name, 0)) for name in ("inactive_file", "active_file")
    )
    busy += stat.get("slab_reclaimable", 0)
    yield limit - max(0, used[0] - idle - busy // 2)


def _left_to_process(own: Path) -> Iterator[int]:
    """What the limits on the address space (ulimit -v) and on data (ulimit -d) leave."""
    status = dict(line.split(":", 1) for line in _lines(own / "status") if ":" in line)
    for line in _lines(own / "limits"):
        for limit, size in (("Max address space", "VmSize"), ("Max data size", "VmData")):
            words, used = line.removeprefix(limit).split(), status.get(size, "").split()
            if (
                line.startswith(limit)
                and words
                and words[0].isdecimal()
                and used
                and used[0].isdecimal()
            ):
                yield int(words[0]) - 1024 * int(used[0])


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _numbers(path: Path) -> list[int]:
    """The number in a file, if there is one: not the word "max"."""
    return [int(line) for line in _lines(path)[:1] if line.strip().isdecimal()]


def parse_bytes(name: str, value: object) -> int:
    """A size as a number of bytes, or as a word such as "4GB" or "500 MiB".

    Examples
    --------
    >>> parse_bytes("memory", "1.5GB")
    1500000000
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return int(value)
    found = (
        re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([kmgt]?i?b?)\s*", value.lower())
        if isinstance(value, str)
        else None
    )
    if found is None or found[2] not in _UNITS:
        raise InputError(
            f"{name} must be a number of bytes or a size such as '4GB' or '500MiB', got {value!r}"
        )
    return int(float(found[1]) * _UNITS[found[2]])


def format_bytes(size: float) -> str:
    """A size for people.

    Examples
    --------
    >>> format_bytes(1.6e9), format_bytes(20_000)
    ('1.6 GB', '20 kB')
    """
    for unit, word in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return (
                f"{size / unit:.3g} {word}" if size < 1000 * unit else f"{size / unit:,.0f} {word}"
            )
    return f"{size:.0f} B"
