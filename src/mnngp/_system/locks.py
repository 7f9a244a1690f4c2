"""Locks of the operating system, on single bytes of a file.

They go with the process that holds them, however it ends: nothing stays claimed by the dead, and
there is no clock or heartbeat.
"""

from __future__ import annotations

import sys
from typing import IO

if sys.platform == "win32":
    import msvcrt

    def lock(file: IO[bytes], start: int, count: int) -> bool:
        """Try to lock some bytes; whether nobody else has one of them."""
        file.seek(start)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, count)
        except OSError:
            return False
        return True

    def unlock(file: IO[bytes], start: int, count: int) -> None:
        """Give them back."""
        file.seek(start)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, count)

else:
    import fcntl

    def lock(file: IO[bytes], start: int, count: int) -> bool:
        """Try to lock some bytes; whether nobody else has one of them."""
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, start)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(file: IO[bytes], start: int, count: int) -> None:
        """Give them back."""
        fcntl.lockf(file, fcntl.LOCK_UN, count, start)
