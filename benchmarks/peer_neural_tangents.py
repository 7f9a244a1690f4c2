"""The other side of kernel.py: neural-tangents' jitted ReLU kernel, in an environment of its own.

Reads one line of JSON a request from standard input, answers with one line of JSON.
"""

import json
import sys
import time

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import neural_tangents  # noqa: E402
import numpy as np  # noqa: E402
from inputs import make_inputs  # noqa: E402  (beside this file)
from neural_tangents import stax  # noqa: E402


def main() -> None:
    print(
        json.dumps(
            {"version": f"neural-tangents {neural_tangents.__version__}, jax {jax.__version__}"}
        ),
        flush=True,
    )
    compiled = {}
    for line in sys.stdin:
        case = json.loads(line)
        key = (case["lengths"], case["dtype"], case["kind"])
        if key not in compiled:
            dense = {"W_std": case["weight_var"] ** 0.5, "b_std": case["bias_var"] ** 0.5}
            layers = [
                layer
                for _ in range(case["depth"])
                for layer in (stax.Dense(512, **dense), stax.Relu())
            ]
            _, _, kernel = stax.serial(*layers, stax.Dense(1, **dense))
            X = jnp.asarray(
                make_inputs(case["n"], case["d"], case["lengths"]).astype(case["dtype"])
            )
            # The faster of the two ways to ask for a symmetric matrix, measured: two arguments.
            function = jax.jit(lambda x, y, kernel=kernel, kind=case["kind"]: kernel(x, y, kind))
            # warm-up: compilation is not counted
            corner = np.asarray(function(X, X).block_until_ready())[:40, :40]
            compiled = {key: (function, X)}
        function, X = compiled[key]
        start = time.perf_counter()
        function(X, X).block_until_ready()
        print(
            json.dumps({"seconds": time.perf_counter() - start, "corner": corner.tolist()}),
            flush=True,
        )


if __name__ == "__main__":
    main()
