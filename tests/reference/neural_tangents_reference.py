"""Make neural_tangents_reference.json: small kernel matrices of neural-tangents, in float64.

Run by `make reference`, in an environment of its own: neural-tangents is archived and needs
jax==0.4.30, numpy<2, scipy<1.13.
"""

import json
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import jaxlib  # noqa: E402
import neural_tangents  # noqa: E402
import numpy as np  # noqa: E402
from neural_tangents import stax  # noqa: E402

POINTS = [
    [1.0, 0.5, -0.25, 2.0],
    [0.75, 0.5, -0.5, 1.5],
    [-1.0, -0.5, 0.25, -2.0],  # opposite to the first
    [0.125, -3.0, 0.5, 0.0],
    [0.03125, 0.0, 0.015625, -0.0625],  # short
    [1.0, 0.5, -0.25, 2.0009765625],  # nearly the first
    [-2.5, 1.5, 0.75, 0.375],
]
ACTIVATIONS = {
    "relu": stax.Relu(),
    "leaky_relu": stax.LeakyRelu(alpha=0.25),
    "abs": stax.Abs(),
    "erf": stax.Erf(),
    "gelu": stax.Gelu(approximate=False),
}
CASES = [
    # activation, depth, weight_var, bias_var
    ("relu", 1, 2.0, 0.0),
    ("relu", 1, 1.5625, 0.25),
    ("relu", 3, 1.5625, 0.25),
    ("relu", 21, 1.5625, 0.25),
    ("relu", 21, 2.0, 0.0625),
    ("leaky_relu", 3, 1.5625, 0.25),
    ("abs", 3, 1.0, 0.25),
    ("erf", 1, 1.5625, 0.25),
    ("erf", 3, 1.0, 0.0625),
    ("gelu", 1, 1.5625, 0.25),
    ("gelu", 3, 1.0, 0.0625),
]


def main() -> None:
    points = np.array(POINTS)
    cases = []
    for activation, depth, weight_var, bias_var in CASES:
        dense = {"W_std": weight_var**0.5, "b_std": bias_var**0.5}
        layers = [
            layer
            for _ in range(depth)
            for layer in (stax.Dense(1, **dense), ACTIVATIONS[activation])
        ]
        _, _, kernel = stax.serial(*layers, stax.Dense(1, **dense))
        values = {name: np.asarray(kernel(points, None, name)).tolist() for name in ("nngp", "ntk")}
        cases.append(
            {
                "activation": activation,
                "depth": depth,
                "weight_var": weight_var,
                "bias_var": bias_var,
                **values,
            }
        )
    origin = (
        "tests/reference/neural_tangents_reference.py, neural-tangents "
        f"{neural_tangents.__version__}, "
        f"jax {jax.__version__}, jaxlib {jaxlib.__version__}, numpy {np.__version__}, float64, CPU"
    )
    target = Path(__file__).with_suffix(".json")
    target.write_text(
        json.dumps({"origin": origin, "points": POINTS, "cases": cases}, indent=1) + "\n"
    )
    print(f"{len(cases)} cases written to {target}")


if __name__ == "__main__":
    main()
