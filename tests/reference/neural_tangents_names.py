"""Make neural_tangents_names.json: what the left side of each row of the tables in
docs/neural-tangents.md gives, with neural-tangents in float64.

Run by `make reference`, in an environment of its own (see neural_tangents_reference.py). Random
networks are run, and not kept.
"""

import json
import re
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import neural_tangents as nt  # noqa: E402
import numpy as np  # noqa: E402
from jax import numpy as jnp  # noqa: E402
from neural_tangents import stax  # noqa: E402

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "neural-tangents.md"
GIVEN = json.loads((HERE / "peer_points.json").read_text())
RANDOM = ("empirical", "monte_carlo", "apply_fn")


def rows(kind: str) -> list[str]:
    """The left cells of a table of the page."""
    text = PAGE.read_text(encoding="utf-8").split(f"**{kind}**")[1].split("\n\n")[1]
    return list(re.findall(r"^\| `(.+?)` \|", text, re.MULTILINE))


def main() -> None:
    space = {"stax": stax, "nt": nt, "jnp": jnp, "jax": jax, "key": jax.random.PRNGKey(0)}
    space |= {name: GIVEN[name] for name in ("s", "t", "a")}
    space |= {name: np.array(GIVEN[name]) for name in ("X", "Y", "y", "images")}
    found = {}
    for row in rows("Layers"):
        dense = stax.Dense(1, W_std=space["s"], b_std=space["t"])
        inner = eval(f"({row},)", space)
        layers = (*inner, stax.Relu(), *inner) if "Dense" in row[:10] else (dense, *inner, dense)
        kernel_fn = stax.serial(*layers)[2]
        found[row] = [kernel_fn(space["X"], None, kind).tolist() for kind in ("nngp", "ntk")]
    for row in rows("Images"):
        kernel_fn = stax.serial(*eval(f"({row},)", space), stax.Dense(1))[2]
        values = space["images"][..., None]
        found[row] = [
            np.asarray(kernel_fn(values, None, kind)).tolist() for kind in ("nngp", "ntk")
        ]

    def kernel_of(s: float, t: float) -> object:
        dense = {"W_std": s, "b_std": t}
        return stax.serial(stax.Dense(100, **dense), stax.Relu(), stax.Dense(1, **dense))[2]

    dense = {"W_std": space["s"], "b_std": space["t"]}
    network = stax.serial(stax.Dense(100, **dense), stax.Relu(), stax.Dense(1, **dense))
    init_fn, apply_fn, kernel_fn = network
    _, params = init_fn(space["key"], (-1, space["X"].shape[1]))
    targets = space["y"][:, None]
    ensemble = nt.predict.gradient_descent_mse_ensemble
    space |= {"init_fn": init_fn, "apply_fn": apply_fn, "kernel_fn": kernel_fn, "params": params}
    space |= {"kernel_of": kernel_of, "predict_plain": ensemble(kernel_fn, space["X"], targets)}
    space["predict_fn"] = ensemble(
        kernel_fn, space["X"], targets, diag_reg=0.1, diag_reg_absolute_scale=True
    )
    for row in rows("Calls"):
        value = np.asarray(eval(row, space))
        found[row] = None if any(word in row for word in RANDOM) else value.tolist()
    (HERE / "neural_tangents_names.json").write_text(
        json.dumps({"neural_tangents": nt.__version__, "rows": found}) + "\n"
    )


if __name__ == "__main__":
    main()
