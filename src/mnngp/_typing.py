"""The names of array types, in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
"""Real numbers in double precision, of any shape."""

Matrix = NDArray[Any]
"""Real numbers of either floating point type."""

Array = Any
"""An argument of compiled code, which has no use for static types."""
