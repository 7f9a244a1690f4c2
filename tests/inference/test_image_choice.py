"""Which networks an estimator of images compares, how, and for how long."""

import time

import numpy as np
import pytest

from mnngp.inference.image_choice import ImageChoice, in_strata
from mnngp.inference.image_networks import NETWORKS, ImageSpace
from mnngp.inference.observations import Observations
from mnngp.inference.scoring import Objective

MEMBERSHIP = Objective(density=False)


def observations(n=40, shape=(6, 6, 1), seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, int(np.prod(shape))))
    label = (X[:, : X.shape[1] // 2].sum(axis=1) > 0.0).astype(int)
    return Observations.of(X, np.eye(2)[label] - 0.5)


def compared(data, seconds, space=None, budget=24, said=None):
    choice = ImageChoice(data, {"standardised": data.X}, MEMBERSHIP, np.arange(len(data)), jobs=1)
    say = (lambda line: None) if said is None else said.append
    found = choice.among(space or ImageSpace((6, 6)), seconds, budget, say, lambda part: None)
    return choice, found


def test_networks_fit_their_images():
    for shape in [(1, 1), (2, 2), (3, 40), (8, 8), (28, 28), (32, 32, 3), (96, 96, 3)]:
        kernels = ImageSpace(shape).kernels
        assert len(kernels) >= 1
        for kernel in kernels:
            strides = any(getattr(layer, "stride", 1) == 2 for layer in kernel.layers[:1])
            assert strides <= (min(shape[:2]) > 20)
    assert len(ImageSpace((32, 32, 3)).kernels) == len(NETWORKS)
    assert len(ImageSpace((1000, 1000)).kernels) >= 3  # without global pooling, and at once


def test_single_precision_is_for_the_comparison():
    space = ImageSpace((8, 8), "float64")
    assert space.default().dtype == "float32"
    assert space.fitted(space.default()).dtype == "float64"


def test_updates_go_with_costs():
    """Flips take both images, or all four pairs where a stride does not mirror."""
    for shape, times in (((28, 28), 2), ((27, 27), 4)):
        plain = ImageSpace(shape).candidates(["standardised"])
        steps = {repr(one.kernel.layers): one.updates for one in plain}
        assert min(steps.values()) == min(one.updates for one in plain if "Flatten" in repr(one))
        for one in plain:
            strided = one.kernel.layers[0].stride == 2
            pooled = "AvgPool(2)" in repr(one.kernel.layers)  # leaves the last column out
            if strided or not pooled:
                assert one.flipped.updates == (times if strided else 2) * one.updates
            assert one.flipped.kernel.flips
            assert one.flipped != one


def test_scores_are_leave_one_out():
    """Each image predicted from all others, with the noise that was found."""
    data = observations()
    _, found = compared(data, (20.0, 20.0), budget=2)
    best = found[0]
    K = best.kernel(data.X).astype(np.float64)
    errors = []
    for i in range(len(data)):
        rest = np.delete(np.arange(len(data)), i)
        C = K[np.ix_(rest, rest)] + best.noise_ratio * np.eye(len(rest))
        errors.append(data.y[i] - K[i, rest] @ np.linalg.solve(C, data.y[rest]))
    assert best.score == pytest.approx(-np.mean(np.square(errors)), rel=1e-3)
    assert best.n_rows == len(data)


def test_the_best_is_first_and_flips_are_tried():
    said = []
    _, found = compared(observations(), (30.0, 30.0), said=said)
    assert [trial.score for trial in found] == sorted((t.score for t in found), reverse=True)
    assert sum(trial.kernel.flips for trial in found) == 2
    assert said[0].startswith(f"comparing {len(found) - 2} networks on 40 of 40 images: ")


def test_more_time_more_images():
    """The rounds are on more and more images, and end about when they should."""
    data = observations(1500)
    began = time.perf_counter()
    choice, found = compared(data, (3.0, 1e9))
    took = time.perf_counter() - began
    sizes = sorted({size for _, size in choice.found})
    assert sizes[0] >= 50
    assert found[0].n_rows == sizes[-1]
    assert took < 30.0  # on a machine that does something else
    few, _ = compared(data, (0.1, 1e9))
    assert sum(size for _, size in few.found) < sum(size for _, size in choice.found)


def test_networks_that_are_too_dear_are_left_out():
    """In the comparison, or for the kernel of all images in the end; the cheapest always stays."""
    data = observations(400)
    for seconds in ((1e-9, 1e9), (10.0, 1e-9)):
        found = compared(data, seconds)[1]
        (layers,) = {repr(trial.kernel.layers) for trial in found}
        cheapest = min(ImageSpace((6, 6)).candidates(["a"]), key=lambda one: one.updates)
        assert layers == repr(cheapest.kernel.layers)


def test_every_beginning_has_each_label_in_its_proportion():
    labels = np.repeat([0, 1, 2], [600, 300, 100])
    order = in_strata(labels, np.random.default_rng(0))
    assert sorted(order) == list(range(1000))
    for size in (50, 100, 400):
        counts = np.bincount(labels[order[:size]], minlength=3)
        np.testing.assert_allclose(counts, size * np.array([0.6, 0.3, 0.1]), atol=1.5)
    assert not np.array_equal(order, in_strata(labels, np.random.default_rng(1)))
