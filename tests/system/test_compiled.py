"""Compiled code on disk."""

import os
import pickle
import subprocess
import sys

CODE = """
from mnngp.kernels import strips
print(strips.polynomial((1.0, 2.0, 3.0, 4.0, 5.0), 2.0))
"""


def test_what_an_earlier_version_left_is_replaced(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def run():
        done = subprocess.run(
            [sys.executable, "-c", CODE],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "129.0\n"), done.stderr

    run()
    (index,) = tmp_path.rglob("*polynomial*.nbi")
    good = index.read_bytes()
    # numba reads its version, then what is pickled: here a class of a module that is gone
    version = pickle.dumps(pickle.loads(good))
    index.write_bytes(version + b"\x80\x04\x8c\x0amnngp.gone\x8c\x04Gone\x93.")
    run()
    assert index.read_bytes() != version
    assert b"mnngp.gone" not in index.read_bytes()
