"""Collections of images: the digits, names, the folder, and the published files where they are."""

import os
import sys

import numpy as np
import pooch
import pytest
from sklearn.datasets import load_digits

from mnngp import data
from mnngp.errors import InputError, MissingExtraError
from tests.data.samples import RNG, check_mnist, mnist_files, write


def test_digits_are_split_as_documented():
    digits = data.load("digits")
    pixels, labels = load_digits(return_X_y=True)
    test = np.arange(1797) % 3 == 2
    np.testing.assert_array_equal(digits.X, pixels[~test])
    np.testing.assert_array_equal(digits.y_test, labels[test])
    assert (len(digits.y), len(digits.y_test), digits.X.dtype, digits.X.max()) == (
        1198,
        599,
        np.uint8,
        16,
    )
    assert (digits.shape, digits.classes) == ((8, 8), tuple("0123456789"))
    assert min(np.bincount(digits.y)) > 100  # all classes are in both parts
    assert min(np.bincount(digits.y_test)) > 40
    assert data.fetch("digits") == []
    assert data.find("digits") is None


def test_images_are_standardised_one_by_one():
    raw = RNG.integers(0, 256, (9000, 12), dtype=np.uint8)  # more than are done at a time
    raw[17] = 200  # a blank image becomes zero
    x = data.standardised(raw)
    assert x.dtype == np.float64
    plain = np.delete(raw, 17, axis=0).astype(float)
    plain = (plain - plain.mean(axis=1, keepdims=True)) / plain.std(axis=1, keepdims=True)
    np.testing.assert_allclose(np.delete(x, 17, axis=0), plain, atol=1e-14)
    assert not x[17].any()
    with pytest.raises(InputError, match="X must have 2 dimensions"):
        data.standardised(raw[0])


@pytest.mark.parametrize("name", ["nonsense", "", None, 3])
def test_unknown_names(name):
    with pytest.raises(
        InputError, match="name must be one of 'digits', 'mnist', 'fashion-mnist', 'cifar10', got"
    ):
        data.load(name)


REAL = [
    name
    for name in ("mnist", "fashion-mnist", "cifar10")
    if os.environ.get("MNNGP_DATA") and data.find(name)
]


@pytest.mark.skipif("mnist" not in REAL, reason="MNNGP_DATA does not point at MNIST")
def test_real_mnist():
    images = data.load("mnist")
    assert images.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert images.y_test[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert np.bincount(images.y).tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
        5949,
    ]
    assert (images.X.shape, images.X_test.shape) == ((60000, 784), (10000, 784))
    assert images.X.mean() == pytest.approx(33.3184, abs=1e-4)  # 0.1307 · 255, as everyone has it


@pytest.mark.skipif(
    "fashion-mnist" not in REAL, reason="MNNGP_DATA does not point at Fashion-MNIST"
)
def test_real_fashion_mnist():
    images = data.load("fashion-mnist")
    assert [images.classes[label] for label in images.y[:3]] == [
        "Ankle boot",
        "T-shirt/top",
        "T-shirt/top",
    ]
    assert np.bincount(images.y).tolist() == [6000] * 10
    assert images.X.mean() / 255.0 == pytest.approx(0.2860, abs=1e-4)


@pytest.mark.skipif("cifar10" not in REAL, reason="MNNGP_DATA does not point at CIFAR-10")
def test_real_cifar10():
    images = data.load("cifar10")
    assert images.y[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert images.y_test[:5].tolist() == [3, 8, 8, 0, 6]
    # the first pixel of the first frog
    assert images.X[0, [0, 1024, 2048]].tolist() == [59, 62, 63]
    np.testing.assert_allclose(
        images.X.reshape(-1, 3, 1024).mean(axis=(0, 2)) / 255.0, [0.4914, 0.4822, 0.4465], atol=1e-4
    )


def test_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MNNGP_DATA", str(tmp_path / "named"))
    assert data.data_folder(tmp_path) == tmp_path
    assert data.data_folder() == tmp_path / "named"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert data.data_folder("~/data") == tmp_path / "data"
    monkeypatch.setenv("MNNGP_DATA", "")
    assert data.data_folder() == pooch.os_cache("mnngp")
    monkeypatch.delenv("MNNGP_DATA")
    assert data.data_folder() == pooch.os_cache("mnngp")


def test_without_pooch_local_files_are_read(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.delenv("MNNGP_DATA", raising=False)
    with pytest.raises(
        MissingExtraError,
        match=r"say where the data is, by folder=... or MNNGP_DATA, or install "
        r"pooch.*mnngp\[exp",
    ):
        data.load("mnist")
    with pytest.raises(
        MissingExtraError,
        match=r"downloads need pooch: pip install "
        r"\"mnngp\[experiments\]\"",
    ):
        data.fetch("mnist", tmp_path)
    write(tmp_path, mnist_files())
    check_mnist(data.load("mnist", tmp_path, verify=False))
    monkeypatch.setenv("MNNGP_DATA", str(tmp_path))
    check_mnist(data.load("mnist", verify=False))
    assert len(data.load("digits").y) == 1198


def test_pictures_have_their_channels_last():
    planes = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)  # red, green and blue
    rows = planes.reshape(2, 12)
    images = data.Images("made up", rows, rows[:, 0], rows, rows[:, 0], (3, 2, 2), ("a", "b"))
    found = images.pictures(rows[1:])
    assert found.shape == (1, 2, 2, 3)
    np.testing.assert_array_equal(found[0, 1, 0], planes[1, :, 1, 0])
