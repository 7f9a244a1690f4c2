"""Make convolution_reference.json: kernels of small convolutional networks, float64.

Run by `make reference`, in the environment of neural-tangents (see neural_tangents_reference.py).
A layer is ("conv", size, stride, padding), ("pool", size, stride), or the name of an activation or
of a readout.
"""

import json
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import neural_tangents  # noqa: E402
import numpy as np  # noqa: E402
from neural_tangents import stax  # noqa: E402


def conv(size=3, stride=1, padding="same"):
    return ["conv", size, stride, padding]


def pool(size, stride):
    return ["pool", size, stride]


CASES = {
    "flatten": [conv(), "relu", conv(), "relu", "flatten"],
    "global pooling": [conv(), "relu", conv(), "relu", "global"],
    "local pooling": [conv(), "relu", conv(), "relu", pool(3, 1), "flatten"],
    "inner pooling": [conv(), "relu", pool(2, 2), conv(), "relu", "global"],
    "inner pooling, flatten": [conv(), "relu", pool(2, 2), conv(), "relu", "flatten"],
    "overlapping pooling": [conv(), "relu", pool(3, 2), conv(), "relu", "global"],
    "two poolings": [
        conv(),
        "relu",
        pool(2, 2),
        conv(),
        "relu",
        pool(2, 1),
        conv(),
        "relu",
        "global",
    ],
    "stride": [conv(3, 2), "relu", conv(), "relu", "global"],
    "stride at the end": [conv(), "relu", conv(3, 2), "relu", "flatten"],
    "valid": [conv(3, 1, "valid"), "relu", conv(2, 2, "valid"), "relu", "global"],
    "circular": [conv(3, 1, "circular"), "relu", conv(3, 1, "circular"), "relu", "global"],
    "circular, flatten": [
        conv(5, 1, "circular"),
        "relu",
        conv(2, 1, "circular"),
        "relu",
        "flatten",
    ],
    "even windows": [conv(2), "relu", conv(4, 2), "relu", "global"],
    "mixed activations": [conv(), "erf", conv(), "leaky_relu", conv(1), "gelu", "global"],
    "one pixel": [conv(1), "relu", conv(1), "relu", "flatten"],
    "deep": [*[conv(), "relu"] * 8, "global"],
}
UNITS = {
    "relu": stax.Relu(),
    "leaky_relu": stax.LeakyRelu(alpha=0.25),
    "erf": stax.Erf(),
    "gelu": stax.Gelu(approximate=False),
}


def layers_of(description, weights, biases):
    maps = iter(zip(weights, biases, strict=True))
    for layer in description:
        if layer[0] == "conv":
            weight, bias = next(maps)
            window, strides = (layer[1],) * 2, (layer[2],) * 2
            yield stax.Conv(1, window, strides, layer[3].upper(), weight**0.5, bias**0.5)
        elif layer[0] == "pool":
            yield stax.AvgPool((layer[1],) * 2, (layer[2],) * 2)
        elif layer in UNITS:
            yield UNITS[layer]
        else:
            weight, bias = next(maps)
            yield stax.GlobalAvgPool() if layer == "global" else stax.Flatten()
            yield stax.Dense(1, weight**0.5, bias**0.5)


def main() -> None:
    rng, cases = np.random.default_rng(7), []
    images = {channels: rng.normal(size=(4, 6, 7, channels)).round(4) for channels in (1, 3)}
    for pixels in images.values():
        pixels[3] = (0.9 * pixels[0] + 0.01 * pixels[3]).round(4)  # nearly a multiple of the first
        pixels[2, :2] = 0.0
    for channels, pixels in images.items():
        for name, description in CASES.items():
            count = 1 + sum(layer[0] == "conv" for layer in description)
            weights = np.linspace(1.3, 2.1, count).round(3).tolist()
            biases = np.linspace(0.05, 0.2, count).round(3).tolist()
            _, _, kernel = stax.serial(*layers_of(description, weights, biases))
            apply = jax.jit(kernel, static_argnames="get")
            values = {
                kind: np.asarray(apply(pixels, None, get=kind)).tolist() for kind in ("nngp", "ntk")
            }
            cases.append(
                {
                    "name": f"{name}, {channels} channels",
                    "channels": channels,
                    "layers": description,
                    "weight_var": weights,
                    "bias_var": biases,
                    **values,
                }
            )
            print(cases[-1]["name"], flush=True)
    origin = (
        f"tests/reference/convolution_reference.py, neural-tangents {neural_tangents.__version__}"
    )
    found = {"origin": origin, "images": {c: p.tolist() for c, p in images.items()}, "cases": cases}
    Path(__file__).with_suffix(".json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
