"""Results for reports: small ones, and ones whose names hold mark-up."""

import json
import re

from tests.made_up import failure, grid, result

EVIL = """<script>window.hit = 1</script></script><img src=x onerror="window.hit = 2"> {{ 7 * 7 }} <!-- " ' & \\u003c"""


def small(**changes):
    return list(
        grid(
            **{"depths": (1, 5), "biases": (0.1, 1.0), "weights": (0.5, 1.0, 2.0), "repeats": 2}
            | changes
        )
    )


def evil_results():
    odd = {
        "dataset": EVIL,
        "activation": EVIL,
        "rank": None,
        "version": EVIL,
        "commit": EVIL,
        "finished": EVIL,
    }
    cells = [
        result(**odd, n_train=size, depth=depth, weight_var=w, bias_var=b)
        for size in (100, 200)
        for depth in (1, 2)
        for w in (1.0, 2.0)
        for b in (0.0, 0.1)
    ]
    return [*cells, failure(EVIL, **odd, depth=3)]


def drawings(page):
    return json.loads(
        re.search('(?s)<script type="application/json" id="drawings">(.*?)</script>', page)[1]
    )
