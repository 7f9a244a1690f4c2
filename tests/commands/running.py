"""Commands, in this process or as a user would start them."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path

from mnngp.commands import app

MNNGP = Path(sys.executable).with_name("mnngp")


def run(*arguments, code=0, cwd=None):
    """The command in this process."""
    stdout, stderr = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2)
    )
    before, status = sys.argv, 0
    with (
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
        contextlib.chdir(cwd or "."),
    ):
        sys.argv = ["mnngp", *arguments]
        try:
            app.main()
        except SystemExit as end:
            status = end.code or 0
        finally:
            sys.argv = before
    written = []
    for stream in (stdout, stderr):
        stream.flush()
        written.append(stream.buffer.getvalue().decode())
    result = subprocess.CompletedProcess(arguments, status, *written)
    assert status == code, result.stdout + result.stderr
    return result


def started(*arguments, code=0, **options):
    """The command as a process of its own."""
    result = subprocess.run(
        [MNNGP, *arguments], capture_output=True, text=True, check=False, timeout=300, **options
    )
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result
