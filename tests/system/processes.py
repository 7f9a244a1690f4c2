"""How processes of the tests find this package."""

import os
from pathlib import Path

import mnngp

SOURCES = str(Path(mnngp.__file__).parents[1].absolute())
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": SOURCES,
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
