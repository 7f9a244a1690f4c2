"""Convolutional networks become the process as their channels grow."""

import numpy as np
import pytest
import torch

from mnngp import Conv, Flatten, GlobalAvgPool, Maxout, MaxoutKernel, NetworkKernel
from mnngp.errors import InputError
from mnngp.experiments.convergence import (
    image_agreement,
    image_study,
    image_tangent_agreement,
)
from mnngp.experiments.convergence.pictures import convergence

LAYERS = [Conv(3), Maxout(4), Conv(3), Maxout(4), Conv(3), Maxout(4)]
X = np.random.default_rng(0).normal(size=(3, 4, 4))


def kernel(readout, **change):
    options = {"weight_var": Maxout(4).critical_weight_var, "image_shape": (4, 4)} | change
    return NetworkKernel([*LAYERS, readout], **options)


def test_a_study_falls_like_one_over_channels(one_torch_thread):
    """Measured: -0.94 ± 0.09, and -0.92 ± 0.10 for tangent kernels; the largest score is 2.5."""
    torch.set_num_threads(2)
    study = image_study("flatten", [3], [2], [4, 16, 64], networks=30)
    assert torch.get_num_threads() == 2
    assert [row.width for row in study.covariances] == [4, 16, 64]
    assert [row.networks for row in study.covariances] == [480, 120, 30]
    exponents = {name: (value, std) for name, _, _, value, std in study.exponents()}
    assert exponents.keys() == {"kernel", "tangent kernel"}
    for value, std in exponents.values():
        assert std < 0.15
        assert abs(value + 1.0) < max(0.15, 3.0 * std)
    for row in (*study.covariances[1:], *study.tangents[1:]):
        assert row.score < 4.0
    assert study.summary()["gradient_descents"] == []
    figure = convergence(study)
    assert [ax.get_xlabel() for ax in figure.axes] == ["channels", "channels"]


@pytest.mark.parametrize("readout", [Flatten(), GlobalAvgPool()])
def test_many_channels(readout, one_torch_thread):
    one, again = (image_agreement(kernel(readout), X, 100, 30, seed=2) for _ in range(2))
    assert vars(one) == vars(again)
    assert (one.rank, one.depth, one.width, one.networks) == (4, 3, 100, 30)
    assert one.score < 4.0
    assert one.error < 0.05
    tangent = image_tangent_agreement(kernel(readout), X, 100, 30)
    assert tangent.score < 4.0
    assert tangent.error < 0.05


def test_what_is_refused():
    with pytest.raises(InputError, match="networks must be 2 or more, for a standard error"):
        image_agreement(kernel(Flatten()), X, 3, 1)
    with pytest.raises(InputError, match="kernel must be a NetworkKernel with convolutions, got"):
        image_agreement(MaxoutKernel(2, 2), X, 3, 2)
    with pytest.raises(InputError, match="kernel must have an image_shape"):
        image_tangent_agreement(kernel(Flatten(), image_shape=None), X, 3, 2)
    with pytest.raises(InputError, match=r"X must have no point where the kernel is zero.*X\[1\]"):
        image_agreement(kernel(Flatten(), bias_var=0.0), X * [[[1]], [[0]], [[1]]], 3, 2)
    with pytest.raises(InputError, match=r"X must have the shape \(n, 4, 4, 1\) or \(n, 16\)"):
        image_agreement(kernel(Flatten()), X[:, :3], 3, 2)
    with pytest.raises(InputError, match="readout must be one of 'flatten', 'global', got 'max'"):
        image_study("max")
    with pytest.raises(InputError, match="descent_up_to is for dense networks, got 5"):
        image_study(descent_up_to=5)
    with pytest.raises(InputError, match="channels must be one or more positive integers, got"):
        image_study(channels=[])
