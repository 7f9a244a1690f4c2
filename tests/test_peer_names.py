"""The tables of names in the pages for people who come from neural-tangents and GPyTorch.

What neural-tangents gives is stored (tests/reference/neural_tangents_names.py made it); GPyTorch is
run beside.
"""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import mnngp
from mnngp import NetworkKernel, ReLU, inference

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "tests" / "reference"
GIVEN = json.loads((REFERENCE / "peer_points.json").read_text())
THEIRS = json.loads((REFERENCE / "neural_tangents_names.json").read_text())["rows"]
NEEDS_TORCH = pytest.mark.skipif(not find_spec("torch"), reason="needs PyTorch")


def page(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def rows(text):
    """The first two cells of a table, without their ticks."""
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert set(text.splitlines()[1]) <= set("| -")
    return [tuple(cell.strip("| ").strip("`") for cell in line[:2]) for line in lines[2:]]


def table(kind):
    return rows(page("neural-tangents.md").split(f"**{kind}**")[1].split("\n\n")[1])


def names():
    space = {name: getattr(mnngp, name) for name in mnngp.__all__ if name[0].isupper()}
    space |= {"Posterior": inference.Posterior, "GradientFlow": inference.GradientFlow, "np": np}
    space |= {name: GIVEN[name] for name in ("s", "t", "a")}
    return space | {name: np.array(GIVEN[name]) for name in ("X", "Y", "y", "images")}


def test_every_row_was_run_there():
    run = {left for kind in ("Layers", "Images", "Calls") for left, _ in table(kind)}
    assert run - {"not there"} == set(THEIRS), "make reference"
    assert len(run) > 20


@pytest.mark.parametrize(("left", "right"), table("Layers"))
def test_layers(left, right):
    space = names()
    variances = {"weight_var": space["s"] ** 2, "bias_var": space["t"] ** 2}
    if right.startswith("weight_var"):
        variances, right = eval(f"dict({right})", space), "ReLU()"
    made = [
        NetworkKernel(list(eval(f"({right},)", space)), **variances, kind=kind)(space["X"])
        for kind in ("nngp", "ntk")
    ]
    if left != "not there":
        # their quadrature for tanh is not exact
        tolerance = 1e-3 if "Numerical" in left else 1e-12
        np.testing.assert_allclose(made, THEIRS[left], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("left", "right"), table("Images"))
def test_images(left, right):
    space = names()
    made = [
        NetworkKernel(list(eval(f"({right},)", space)), 1.0, 0.0, kind=kind)(space["images"])
        for kind in ("nngp", "ntk")
    ]
    if left != "not there":
        np.testing.assert_allclose(made, THEIRS[left], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("left", "right"), table("Calls"))
def test_calls(left, right):
    space = names()
    space["kernel"] = NetworkKernel([ReLU()], space["s"] ** 2, space["t"] ** 2)
    if THEIRS[left] is None:  # random: it runs
        pytest.importorskip("torch")
        import torch

        from mnngp import finite

        network = finite.MaxoutNetwork(
            100, rank=2, depth=1, inputs=4, parametrization="ntk", seed=0
        )
        found = eval(right, space | {"finite": finite, "network": network, "torch": torch})
        assert found.shape in {(5, 5), (5, 1)}
        if found.shape == (5, 5) and "tangent" in right:
            wide = network.kernel("ntk")(space["X"])
            assert np.linalg.norm(found - wide) < 0.5 * np.linalg.norm(wide)
        return
    expected = np.array(THEIRS[left])
    found = np.asarray(eval(right, space))
    np.testing.assert_allclose(found, expected.reshape(found.shape), rtol=1e-9, atol=1e-11)


def gpytorch_section():
    return page("gpytorch.md").split("## Coming from GPyTorch\n")[1].split("\n## ")[0]


@NEEDS_TORCH
def test_names_of_gpytorch():
    from mnngp.interop.gpytorch import MaxoutKernel  # first: it keeps a warning of theirs quiet

    import gpytorch  # isort: skip
    import torch  # isort: skip

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        text = gpytorch_section()
        space = {"torch": torch, "gpytorch": gpytorch, "MaxoutKernel": MaxoutKernel, "np": np}
        exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], space)
        pairs = rows(text.split("compared (`tests/test_peer_names.py`):\n\n")[1].split("\n\n")[0])
        assert len(pairs) == 12
        with gpytorch.settings.fast_computations(False, False, False):
            for left, right in pairs:
                theirs, ours = eval(left, space), eval(right, space)
                theirs = theirs.detach().numpy()
                np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10, err_msg=left)
    finally:
        torch.set_default_dtype(before)
