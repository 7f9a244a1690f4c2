"""The other side of convolution.py: neural-tangents' convolutional ReLU kernel, jitted.

Reads one line of JSON a request from standard input, answers with one line of JSON. What n and m
are the other side decides: images of a peer that needs a second a pair are few.
"""

import json
import sys
import time

import jax

# JAX without 64 bits is what a user of float32 has; with them it takes other ways through the same
# network, and was the faster one for global pooling here. The other side asks for both.
jax.config.update("jax_enable_x64", sys.argv[1:] == ["x64"])

import jax.numpy as jnp  # noqa: E402
import neural_tangents  # noqa: E402
import numpy as np  # noqa: E402
from inputs import make_images  # noqa: E402  (beside this file)
from neural_tangents import stax  # noqa: E402


def main() -> None:
    version = f"neural-tangents {neural_tangents.__version__}, jax {jax.__version__}"
    print(json.dumps({"version": version}), flush=True)
    known = {}
    for line in sys.stdin:
        case = json.loads(line)
        key = json.dumps(case)
        if key not in known:
            deviations = {"W_std": case["weight_var"] ** 0.5, "b_std": case["bias_var"] ** 0.5}
            layers = [
                layer
                for _ in range(case["depth"])
                for layer in (stax.Conv(1, (3, 3), padding="SAME", **deviations), stax.Relu())
            ]
            readout = stax.GlobalAvgPool() if case["readout"] == "global" else stax.Flatten()
            _, _, kernel = stax.serial(*layers, readout, stax.Dense(1, **deviations))
            images = make_images(case["peer_n"] + case["peer_m"], case["side"], case["dtype"])
            x, y = jnp.asarray(images[: case["peer_n"]]), jnp.asarray(images[case["peer_n"] :])
            function = jax.jit(lambda x, y, kernel=kernel, kind=case["kind"]: kernel(x, y, kind))
            values = np.asarray(function(x, y).block_until_ready()).tolist()  # compiles, too
            known = {key: (function, x, y, values)}
        function, x, y, values = known[key]
        start = time.perf_counter()
        function(x, y).block_until_ready()
        seconds = (time.perf_counter() - start) / (len(x) * len(y))
        print(json.dumps({"seconds": seconds, "values": values}), flush=True)


if __name__ == "__main__":
    main()
