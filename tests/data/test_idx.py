"""MNIST and Fashion-MNIST: standard files in all their forms, and damaged ones."""

import gzip
import hashlib
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnngp import data
from mnngp.data import published
from mnngp.errors import DataError, InputError
from tests.data.samples import (
    AGAIN,
    IMAGES,
    LABELS,
    at_most,
    check_mnist,
    idx,
    mnist_files,
    small,
    whole_mnist,
    write,
)


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("dotted", [False, True])
@pytest.mark.parametrize("place", ["mnist", "MNIST/raw", "MNIST", ""])
def test_mnist_in_its_forms(tmp_path, place, dotted, pack):
    write(
        tmp_path / place,
        mnist_files(),
        pack,
        (lambda name: name.replace("-idx", ".idx")) if dotted else lambda name: name,
    )
    check_mnist(data.load("mnist", tmp_path, verify=False))
    check_mnist(data.load("MNIST", str(tmp_path), verify=False))
    assert data.find("mnist", tmp_path) == tmp_path / place


@pytest.mark.parametrize("place", ["fashion-mnist", "FashionMNIST/raw", ""])
def test_fashion_mnist(tmp_path, place):
    write(tmp_path / place, mnist_files(), pack=True)
    images = data.load("FashionMNIST", tmp_path, verify=False)
    check_mnist(images, "fashion-mnist")
    assert images.classes[9] == "Ankle boot"


def test_packed_or_not_is_told_by_content(tmp_path):
    """Browsers unpack on the way and keep the name."""
    write(tmp_path, mnist_files(), rename=lambda name: f"{name}.gz")
    check_mnist(data.load("mnist", tmp_path, verify=False))


IMAGE_FILE = mnist_files()["train-images-idx3-ubyte"]


LABEL_FILE = mnist_files()["train-labels-idx1-ubyte"]


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        (
            "train-images-idx3-ubyte",
            IMAGE_FILE[:-1],
            "is cut off: its header says 3920 bytes of data",
        ),
        (
            "train-images-idx3-ubyte",
            IMAGE_FILE + b"\0",
            "is too long: its header says 3920 bytes of data",
        ),
        ("train-images-idx3-ubyte", IMAGE_FILE[:10], "is cut off: 10 bytes are no IDX header"),
        ("train-images-idx3-ubyte", b"", "is cut off: 0 bytes are no IDX header"),
        (
            "train-images-idx3-ubyte",
            b"\0\0\x0d\x03" + IMAGE_FILE[4:],
            "begins with 00000d03, not 00000803",
        ),
        ("train-images-idx3-ubyte", LABEL_FILE + bytes(8), "begins with 00000801, not 00000803"),
        (
            "train-images-idx3-ubyte",
            idx(IMAGES[:5, :, :27]),
            "must hold images of 28 × 28 pixels, it says 28 × 27",
        ),
        ("train-images-idx3-ubyte", idx(IMAGES[:0]), "must hold some items, it says 0"),
        (
            "train-images-idx3-ubyte",
            IMAGE_FILE[:4] + b"\xff" * 4 + IMAGE_FILE[8:],
            "more than 1073741824 are not read",
        ),
        (
            "train-labels-idx1-ubyte",
            idx(LABELS[:4]),
            "must hold 5 labels, one for each image, it holds 4",
        ),
        ("t10k-labels-idx1-ubyte", idx(LABELS[5:] + np.uint8(1)), "labels must be 0 to 9, got 10"),
    ],
)
def test_damaged_idx_files_are_named(tmp_path, name, content, complaint, pack):
    write(tmp_path, mnist_files() | {name: content}, pack)
    with pytest.raises(DataError, match=complaint) as error:
        data.load("mnist", tmp_path, verify=False)
    assert name in str(error.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda z: z[:-9],
        lambda z: z[:-8] + b"\0\0\0\0" + z[-4:],
        lambda z: z[:20],
        lambda z: z + b"rest",
    ],
)
def test_damaged_gzip_files_are_named(tmp_path, damage):
    write(tmp_path, mnist_files(), pack=True)
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte\.gz is cut off or damaged"):
        data.load("mnist", tmp_path, verify=False)


def test_a_bomb_is_not_unpacked(tmp_path):
    write(tmp_path, mnist_files(), pack=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(IMAGE_FILE + bytes(1 << 26), 1))
    with at_most(1 << 21), pytest.raises(DataError, match="too long"):
        data.load("mnist", tmp_path, verify=False)


def test_a_good_copy_is_used_where_another_is_damaged(tmp_path):
    write(tmp_path, mnist_files(), pack=True)
    write(tmp_path, {"train-images-idx3-ubyte": b"damaged"})
    check_mnist(data.load("mnist", tmp_path, verify=False))
    write(tmp_path / "mnist", mnist_files() | {"train-labels-idx1-ubyte": b"damaged"})
    check_mnist(data.load("mnist", tmp_path, verify=False))
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"damaged too")
    # the first one that was met
    with pytest.raises(DataError, match=r"mnist.train-labels-idx1-ubyte"):
        data.load("mnist", tmp_path, verify=False)


def test_what_is_missing_is_said_in_a_line_or_two(tmp_path):
    with pytest.raises(DataError, match="mnist is not in") as error:
        data.load("mnist", tmp_path)
    for part in (
        "train-images-idx3-ubyte.gz, train-labels",
        f"into {tmp_path / 'mnist'}",
        "mnngp data fetch mnist",
        "https://",
    ):
        assert part in str(error.value)
    assert "\n" not in str(error.value)
    write(tmp_path, mnist_files())
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="is not complete, t10k-labels-idx1-ubyte is missing"):
        data.load("mnist", tmp_path)
    assert data.find("mnist", tmp_path) is None
    with pytest.raises(DataError, match=r"was to be in .*nowhere, which is not a folder"):
        data.load("cifar10", tmp_path / "nowhere")
    with pytest.raises(InputError, match="folder must be the path of a folder, got 3"):
        data.load("mnist", 3)


@pytest.mark.skipif(
    os.name == "nt" or not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="root may read everything",
)
def test_files_without_permission(tmp_path):
    write(tmp_path, mnist_files())
    (tmp_path / "train-images-idx3-ubyte").chmod(0)
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        data.load("mnist", tmp_path, verify=False)


def test_other_content_is_refused_unless_asked_for(tmp_path):
    files = whole_mnist()
    write(tmp_path, files)
    found = hashlib.sha256(files["train-images-idx3-ubyte"]).hexdigest()
    with pytest.raises(
        DataError, match="train-images-idx3-ubyte is not the published file: SHA-256"
    ) as error:
        data.load("mnist", tmp_path)
    assert found in str(error.value)
    assert "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db" in str(error.value)
    assert "verify=False" in str(error.value)
    assert len(data.load("mnist", tmp_path, verify=False).y) == 60000
    with pytest.raises(DataError, match="must hold 60000 items, it says 5"):
        data.load("mnist", write(tmp_path / "small", mnist_files()))


def test_mistaking_one_collection_for_another(tmp_path, monkeypatch):
    """The files of MNIST and Fashion-MNIST have the same names and sizes."""
    other = {name: content[:-1] + b"\7" for name, content in mnist_files().items()}
    monkeypatch.setitem(published.COLLECTIONS, "mnist", small("mnist", mnist_files())[0])
    monkeypatch.setitem(published.COLLECTIONS, "fashion-mnist", small("fashion-mnist", other)[0])
    write(tmp_path, other, pack=True)
    assert data.load("fashion-mnist", tmp_path).y_test[-1] == 7
    with pytest.raises(
        DataError, match="not the published file but train-images-idx3-ubyte of fashion-mnist"
    ):
        data.load("mnist", tmp_path)


@AGAIN
@given(
    position=st.integers(0, 10**6), value=st.integers(0, 255), cut=st.booleans(), pack=st.booleans()
)
def test_any_damage_is_noticed_by_the_digest(tmp_path, position, value, cut, pack):
    known, _ = small("mnist", mnist_files())
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(published.COLLECTIONS, "mnist", known)
        write(tmp_path, mnist_files(), pack)
        path = tmp_path / ("train-images-idx3-ubyte" + ".gz" * pack)
        content = bytearray(path.read_bytes())
        position %= len(content)
        changed = (
            content[:position]
            if cut
            else content[:position] + bytes([value]) + content[position + 1 :]
        )
        path.write_bytes(changed)
        try:
            # a byte of gzip's header may be of no importance
            check_mnist(data.load("mnist", tmp_path))
        except DataError as error:
            assert "train-images-idx3-ubyte" in str(error)  # noqa: PT017
            assert changed != content
