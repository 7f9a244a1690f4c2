"""Write the series of F_q that the interactive page evaluates, from those of the package.

The page's JavaScript computes nothing of one layer by itself: it has the Chebyshev coefficients of
``mnngp.activations.profile`` for some units, to the last digit, and everything else follows.
"""

import json
from pathlib import Path
from typing import Any

from mnngp import Maxout, ReLU
from mnngp.activations.base import HomogeneousActivation
from mnngp.activations.chebyshev import HALF_RANGE

SERIES = Path(__file__).parent / "javascripts" / "interactive" / "series.js"
LARGEST_RANK = 16
HALVES = ("near", "far", "near_slope", "far_slope")
OPENING = """\
// Made by docs/make_interactive.py: the Chebyshev series of each unit's F, on [0, upper].
var mnngp = mnngp || {};
mnngp.upper = UPPER;
mnngp.units = """


def units() -> dict[str, HomogeneousActivation]:
    """The units that the page knows, by the names it has for them."""
    return {
        **{str(rank): Maxout(rank) for rank in range(1, LARGEST_RANK + 1)},
        "relu": ReLU(),
    }


def described(unit: HomogeneousActivation) -> dict[str, Any]:
    """All that the page needs of a unit."""
    profile = unit.profile
    return {
        "second_moment": profile.second_moment,
        "slope_at_one": profile.slope_at_one,
        "fall": profile.fall,
        **{half: getattr(profile, half).coefficients.tolist() for half in HALVES},
    }


def script() -> str:
    """The data file, a unit to a line."""
    rows = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(described(unit))}" for name, unit in units().items()
    )
    return OPENING.replace("UPPER", repr(float(HALF_RANGE))) + "{\n" + rows + "\n};\n"


def read(text: str) -> dict[str, Any]:
    """The units of a data file."""
    return dict(json.loads(text.partition("mnngp.units = ")[2].rstrip().rstrip(";")))


if __name__ == "__main__":
    SERIES.write_text(script(), encoding="utf-8")
