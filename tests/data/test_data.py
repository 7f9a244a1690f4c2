"""Data: standard files in all their forms, damaged ones, malicious ones, downloads, and tables."""

import contextlib
import dataclasses
import datetime
import functools
import gzip
import hashlib
import http.server
import io
import json
import math
import os
import pickle
import struct
import sys
import tarfile
import threading
import time
import tracemalloc

import numpy as np
import polars as pl
import pooch
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from mnngp import data
from mnngp.data import Encoder, cifar, published
from mnngp.errors import DataError, InputError, MissingExtraError, MnngpError, ModelFileError

RNG = np.random.default_rng(0)
IMAGES, LABELS = (
    RNG.integers(0, 256, (7, 28, 28), dtype=np.uint8),
    np.array([3, 1, 4, 1, 5, 9, 2], np.uint8),
)
COLOURS, COLOUR_LABELS = (
    RNG.integers(0, 256, (6, 4, 3072), dtype=np.uint8),
    RNG.integers(0, 10, (6, 4), dtype=np.uint8),
)
BATCHES = [
    "data_batch_1",
    "data_batch_2",
    "data_batch_3",
    "data_batch_4",
    "data_batch_5",
    "test_batch",
]
AGAIN = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


# --------------------------------------------------------------------------------------------------


def idx(array):
    return (
        bytes((0, 0, 8, array.ndim))
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def mnist_files(n_train=5):
    return {
        "train-images-idx3-ubyte": idx(IMAGES[:n_train]),
        "train-labels-idx1-ubyte": idx(LABELS[:n_train]),
        "t10k-images-idx3-ubyte": idx(IMAGES[n_train:]),
        "t10k-labels-idx1-ubyte": idx(LABELS[n_train:]),
    }


def write(folder, files, pack=False, rename=lambda name: name):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / (rename(name) + ".gz" * pack)).write_bytes(
            gzip.compress(content) if pack else content
        )
    return folder


def binary_batch(batch):
    return np.column_stack([COLOUR_LABELS[batch], COLOURS[batch]]).tobytes()


def python2_batch(pixels, labels, order=b"\x89"):
    """As Python 2 and the NumPy of 2009 wrote it: strings are bytes, and an array is put together
    by _reconstruct.
    """

    def short(text):
        return b"U" + bytes([len(text)]) + text

    count, width = pixels.shape
    return b"".join(
        [
            b"\x80\x02}q\x01(",
            short(b"batch_label") + b"q\x02" + short(b"training batch 1 of 5") + b"q\x03",
            short(b"labels")
            + b"q\x04]q\x05("
            + b"".join(b"K" + bytes([label]) for label in labels)
            + b"e",
            short(b"data")
            + b"q\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85q\x09",
            short(b"b")
            + b"\x87Rq\x0a(K\x01"
            + b"M"
            + struct.pack("<H", count)
            + b"M"
            + struct.pack("<H", width)
            + b"\x86",
            b"cnumpy\ndtype\n" + short(b"u1") + b"K\x00K\x01\x87R(K\x03" + short(b"|"),
            b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb" + order,
            b"T"
            + struct.pack("<I", pixels.size)
            + pixels.tobytes(order="C" if order == b"\x89" else "F")
            + b"tb",
            short(b"filenames")
            + b"]("
            + short(b"leptodactylus_pentadactylus_s_000004.png") * count
            + b"eu.",
        ]
    )


def cifar_files(version):
    if version is cifar.BINARY:
        return {f"{name}.bin": binary_batch(batch) for batch, name in enumerate(BATCHES)}
    return {
        name: python2_batch(COLOURS[batch], COLOUR_LABELS[batch])
        for batch, name in enumerate(BATCHES)
    }


def archive(path, files, folder, extra=()):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for member in extra:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
        for name, content in reversed(files.items()):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@contextlib.contextmanager
def at_most(memory):
    """Fails if more bytes are set aside at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < memory
    finally:
        tracemalloc.stop()


def check_mnist(images, name="mnist"):
    assert (images.name, images.shape, len(images.classes)) == (name, (28, 28), 10)
    np.testing.assert_array_equal(images.X, IMAGES[:5].reshape(5, -1))
    np.testing.assert_array_equal(images.X_test, IMAGES[5:].reshape(2, -1))
    np.testing.assert_array_equal(images.y, LABELS[:5])
    np.testing.assert_array_equal(images.y_test, LABELS[5:])
    assert (images.X.dtype, images.y.dtype) == (np.uint8, np.int64)
    assert not images.X.flags.writeable


def check_cifar(images):
    assert (images.name, images.shape, images.classes[6]) == ("cifar10", (3, 32, 32), "frog")
    np.testing.assert_array_equal(images.X, COLOURS[:5].reshape(20, -1))
    np.testing.assert_array_equal(images.y, COLOUR_LABELS[:5].ravel())
    np.testing.assert_array_equal(images.X_test, COLOURS[5])
    np.testing.assert_array_equal(images.y_test, COLOUR_LABELS[5])


# --------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------


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


def whole_mnist(value=0):
    """Files of the published sizes with other content."""
    labels = np.full(60000, value, np.uint8)
    zeros = np.zeros((60000, 28, 28), np.uint8)
    return {
        "train-images-idx3-ubyte": idx(zeros),
        "train-labels-idx1-ubyte": idx(labels),
        "t10k-images-idx3-ubyte": idx(zeros[:10000]),
        "t10k-labels-idx1-ubyte": idx(labels[:10000]),
    }


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


def small(name, files, **changes):
    """A collection whose published files are these."""
    collection = published.COLLECTIONS[name]
    packed = {
        f"{name}/{stem}.gz": gzip.compress(content, mtime=0) for stem, content in files.items()
    }
    known = dataclasses.replace(
        collection,
        train=5,
        test=2,
        files={
            stem: f"sha256:{hashlib.sha256(content).hexdigest()}" for stem, content in files.items()
        },
        served={
            place: f"sha256:{hashlib.sha256(content).hexdigest()}"
            for place, content in packed.items()
        },
        **changes,
    )
    return known, {place.split("/")[1]: content for place, content in packed.items()}


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


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", cifar.VERSIONS, ids=["binary", "python"])
@pytest.mark.parametrize("place", ["", "cifar10"])
@pytest.mark.parametrize("form", ["subfolder", "folder", "archive"])
def test_cifar_in_its_forms(tmp_path, version, place, form):
    if form == "archive":
        archive(tmp_path / place / version.archive, cifar_files(version), version.folder)
    else:
        write(
            tmp_path / place / (version.folder if form == "subfolder" else ""), cifar_files(version)
        )
    check_cifar(data.load("cifar10", tmp_path, verify=False))
    check_cifar(data.load("CIFAR-10", tmp_path, verify=False))
    with pytest.raises(
        DataError,
        match=r"is not the published file: (SHA-256|MD5) [0-9a-f]+, "
        r"published [0-9a-f]+",
    ):
        data.load("cifar10", tmp_path)


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_pickles_of_today(tmp_path, protocol):
    batches = {
        name: pickle.dumps(
            {b"data": COLOURS[i], b"labels": COLOUR_LABELS[i].tolist()}, protocol=protocol
        )
        for i, name in enumerate(BATCHES)
    }
    write(tmp_path, batches)
    if protocol < 5:
        check_cifar(data.load("cifar10", tmp_path, verify=False))
    else:  # arrays are written in another way, which CIFAR-10 has no need of
        with pytest.raises(DataError, match="_frombuffer"):
            data.load("cifar10", tmp_path, verify=False)


def test_columns_first(tmp_path):
    write(
        tmp_path,
        {
            name: python2_batch(COLOURS[i], COLOUR_LABELS[i], order=b"\x88")
            for i, name in enumerate(BATCHES)
        },
    )
    check_cifar(data.load("cifar10", tmp_path, verify=False))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (
            binary_batch(2)[:-1],
            r"cut off or too long: 12291 bytes are not a whole number of "
            r"records of 3073",
        ),
        (binary_batch(2) + b"\0", "cut off or too long: 12293"),
        (b"", "cut off or too long: 0"),
        (b"\x0a" + binary_batch(2)[1:], "labels must be 0 to 9, got 10"),
    ],
)
def test_damaged_binary_batches(tmp_path, content, complaint):
    files = cifar_files(cifar.BINARY) | {"data_batch_3.bin": content}
    write(tmp_path / "folder" / "cifar-10-batches-bin", files)
    archive(tmp_path / "archive" / cifar.BINARY.archive, files, cifar.BINARY.folder)
    for form in ("folder", "archive"):
        with pytest.raises(DataError, match=rf"data_batch_3\.bin.*{complaint}"):
            data.load("cifar10", tmp_path / form, verify=False)


class Evil:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


def dumped(value, protocol=3):
    return pickle.dumps({b"data": value, b"labels": [1]}, protocol=protocol)


GLOBAL = b"\x80\x02cnumpy\ndtype\n"
MALICIOUS = {
    "os.system": dumped(Evil(os.system, "touch evil")),
    "eval": dumped(Evil(eval, "open('evil', 'w')")),
    "protocol 0": b"cos\nsystem\n(S'touch evil'\ntR.",
    "protocol 4": dumped(Evil(os.system, "touch evil"), 4),
    "inst": b"(S'touch evil'\nios\nsystem\n.",
    "dotted": b"\x80\x04\x8c\x05numpy\x8c\x0ef2py.os.system\x93\x8c\x0atouch evil\x85R.",
    "numpy's own": dumped(Evil(np.fromfile, "/etc/passwd")),
    "getattr": dumped(Evil(getattr, np.ndarray, "tofile")),
    "codecs": dumped(Evil(__import__("codecs").encode, "a", "zlib")),
    "extension": b"\x80\x02\x82\x01.",
    "persistent": b"\x80\x02Pevil\n.",
    "state of a class": GLOBAL + b"}U\x01xK\x01sb.",
    "attributes of a class": GLOBAL + b"N}U\x0c__setstate__K\x01s\x86b.",
    "new object": GLOBAL + b"K\x01\x85\x81.",
    "memory": b"\x80\x02Nr\xff\xff\xff\x7f.",
    "length": b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "frame": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "endless": b"\x80\x02" + b"(" * 100000,
    "deep": b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".",
    "nothing": b"",
    "text": b"hello",
    "no dictionary": pickle.dumps([1, 2]),
    "no array": dumped([[1, 2]]),
}


@pytest.mark.parametrize("content", MALICIOUS.values(), ids=MALICIOUS)
def test_malicious_pickles_do_nothing(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data", cifar_files(cifar.PYTHON) | {"data_batch_2": content})
    with at_most(1 << 23), pytest.raises(DataError, match="data_batch_2"):
        data.load("cifar10", tmp_path / "data", verify=False)
    assert not (tmp_path / "evil").exists()
    # what was read before and after is as it was
    write(tmp_path / "data", cifar_files(cifar.PYTHON))
    check_cifar(data.load("cifar10", tmp_path / "data", verify=False))


@pytest.mark.parametrize(
    ("value", "labels", "complaint"),
    [
        (COLOURS[0].astype(np.uint16), [1] * 4, "data must be a matrix of bytes"),
        (COLOURS[0].astype(object), [1] * 4, "data must be a matrix of bytes"),
        (COLOURS[0].ravel(), [1] * 4, "data must be a matrix of bytes"),
        (COLOURS[0][:, 1:], [1] * 4, "it says 4 × 3071 and has 12284 bytes"),
        (COLOURS[0], [1] * 5, "labels must be 4 small whole numbers"),
        (COLOURS[0], [1, 2, 3, 400], "labels must be 4 small whole numbers"),
        (COLOURS[0], [1, 2, 3, -1], "labels must be 4 small whole numbers"),
        (COLOURS[0], [1, 2, 3, "4"], "labels must be 4 small whole numbers"),
        (COLOURS[0], [1, 2, 3, 10], "labels must be 0 to 9, got 10"),
        (COLOURS[0], (1, 2, 3, 4), "data or labels are missing"),
    ],
)
def test_pickles_of_the_wrong_kind(tmp_path, value, labels, complaint):
    write(
        tmp_path,
        cifar_files(cifar.PYTHON)
        | {"test_batch": pickle.dumps({b"data": value, b"labels": labels}, protocol=3)},
    )
    with pytest.raises(DataError, match=f"test_batch.*{complaint}"):
        data.load("cifar10", tmp_path, verify=False)


@AGAIN
@given(position=st.integers(0, 10**6), value=st.integers(0, 255), cut=st.booleans())
def test_damaged_pickles_never_fail_otherwise(position, value, cut):
    content = python2_batch(COLOURS[0], COLOUR_LABELS[0])
    # most of it is pixels
    outside = [i for i in range(len(content)) if not 200 < i < len(content) - 300]
    position = outside[position % len(outside)]
    changed = (
        content[:position] if cut else content[:position] + bytes([value]) + content[position + 1 :]
    )
    with contextlib.suppress(DataError):
        pixels, labels = cifar.PYTHON.batch("place", changed)
        assert pixels.shape == (4, 3072)
        assert labels.max() < 10


def member(name, size=0, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, link
    return info


@pytest.mark.parametrize(
    "extra",
    [
        member("/tmp/evil-absolute", 3),
        member("../evil-relative", 3),
        member("cifar-10-batches-bin/../../evil", 3),
    ],
)
def test_archives_write_nothing(tmp_path, extra):
    folder = tmp_path / "data"
    archive(folder / cifar.BINARY.archive, cifar_files(cifar.BINARY), cifar.BINARY.folder, [extra])
    check_cifar(data.load("cifar10", folder, verify=False))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [cifar.BINARY.archive]
    assert not os.path.exists("/tmp/evil-absolute")


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        (
            [
                member(
                    "cifar-10-batches-bin/data_batch_1.bin",
                    kind=tarfile.SYMTYPE,
                    link="/etc/passwd",
                )
            ],
            "is not a file of CIFAR-10",
        ),
        (
            [member("cifar-10-batches-bin/data_batch_1.bin", kind=tarfile.LNKTYPE, link="x")],
            "is not a file of CIFAR-10",
        ),
        (
            [member("cifar-10-batches-bin/data_batch_1.bin", kind=tarfile.DIRTYPE)],
            "is not a file of CIFAR-10",
        ),
        ([member("cifar-10-batches-bin/data_batch_1.bin", 3073)], "holds data_batch_1.bin twice"),
        ([member(f"other/{i}") for i in range(70)], "has more than 64 members"),
        ([member("zeros", 1 << 20)], "unpacks to more than 1048576 bytes"),
    ],
)
def test_strange_archives(tmp_path, monkeypatch, extra, complaint):
    monkeypatch.setattr(cifar, "_LARGEST_ARCHIVE", 1 << 20)
    archive(tmp_path / cifar.BINARY.archive, cifar_files(cifar.BINARY), cifar.BINARY.folder, extra)
    with pytest.raises(DataError, match=complaint):
        data.load("cifar10", tmp_path, verify=False)


def test_damaged_archives(tmp_path):
    path = archive(tmp_path / cifar.BINARY.archive, cifar_files(cifar.BINARY), cifar.BINARY.folder)
    whole = path.read_bytes()
    for damaged in (
        whole[: len(whole) // 2],
        whole[:-9],
        whole[:-8] + bytes(4) + whole[-4:],
        b"nonsense",
        b"",
        gzip.compress(b"x" * 9999),
    ):
        path.write_bytes(damaged)
        with pytest.raises(
            DataError,
            match=r"cifar-10-binary\.tar\.gz is (cut off or damaged|not "
            r"complete)",
        ):
            data.load("cifar10", tmp_path, verify=False)
    files = cifar_files(cifar.BINARY)
    del files["data_batch_4.bin"]
    archive(path, files, cifar.BINARY.folder)
    with pytest.raises(DataError, match=r"is not complete: data_batch_4\.bin is missing"):
        data.load("cifar10", tmp_path, verify=False)
    write(tmp_path, files)
    # a folder that is not complete does not hide an archive
    with pytest.raises(DataError, match="is not complete"):
        data.load("cifar10", tmp_path, verify=False)
    archive(path, cifar_files(cifar.BINARY), cifar.BINARY.folder)
    check_cifar(data.load("cifar10", tmp_path, verify=False))


def test_batches_that_are_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(cifar, "_LARGEST_BATCH", 20000)
    for form in ("folder", "archive"):
        files = cifar_files(cifar.BINARY) | {"data_batch_1.bin": binary_batch(0) * 2}
        if form == "folder":
            write(tmp_path / form, files)
        else:
            archive(tmp_path / form / cifar.BINARY.archive, files, cifar.BINARY.folder)
        with pytest.raises(DataError, match=r"too long for a batch|is not a file of CIFAR-10"):
            data.load("cifar10", tmp_path / form, verify=False)


# --------------------------------------------------------------------------------------------------

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


# --------------------------------------------------------------------------------------------------


class Server(http.server.ThreadingHTTPServer):
    """Serves files from memory; some of them it breaks off."""

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.broken, self.asked = files, set(), []
        threading.Thread(target=functools.partial(self.serve_forever, 0.01), daemon=True).start()

    @property
    def home(self):
        return f"http://127.0.0.1:{self.server_port}/some/folder/"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.rsplit("/", 1)[1]
        self.server.asked.append(name)
        content = self.server.files.get(name)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if name in self.server.broken else content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    known, packed = small("mnist", mnist_files())
    monkeypatch.setitem(published.COLLECTIONS, "mnist", known)
    server = Server(packed)
    yield server
    server.shutdown()
    server.server_close()


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("progress", [False, True])
def test_fetch(tmp_path, server, progress, capsys):
    folder = tmp_path / "new" / "data"
    paths = data.fetch("mnist", folder, progress, home=server.home)
    assert contents(folder) == {f"mnist/{name}": content for name, content in server.files.items()}
    assert [path.name for path in paths] == list(server.files)
    assert data.find("mnist", folder) == folder / "mnist"
    check_mnist(data.load("mnist", folder))
    if os.name == "posix":
        assert {path.stat().st_mode & 0o666 for path in paths} == {folder.stat().st_mode & 0o666}
    said = capsys.readouterr()
    assert said.out == ""
    assert ("train-images-idx3-ubyte.gz" in said.err) == progress
    # what is there and right is left alone
    times = [path.stat().st_mtime_ns for path in paths]
    server.asked.clear()
    assert data.fetch("mnist", folder, progress, home=server.home.rstrip("/")) == paths
    assert server.asked == []
    assert [path.stat().st_mtime_ns for path in paths] == times


def test_fetch_gets_only_what_is_missing_or_damaged(tmp_path, server):
    write(tmp_path / "mnist", mnist_files(), pack=True)  # right, but packed otherwise
    before = contents(tmp_path)
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").write_bytes(b"damaged")
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz").unlink()
    data.fetch("mnist", tmp_path, False, home=server.home)
    assert server.asked == ["train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz"]
    check_mnist(data.load("mnist", tmp_path))
    assert (
        contents(tmp_path)["mnist/train-images-idx3-ubyte.gz"]
        == before["mnist/train-images-idx3-ubyte.gz"]
    )
    write(tmp_path / "plain", mnist_files())
    server.asked.clear()
    assert {
        path.parent for path in data.fetch("mnist", tmp_path / "plain", False, home=server.home)
    } == {tmp_path / "plain"}
    assert server.asked == []


@pytest.mark.parametrize("before", [None, b"an older, damaged file"])
def test_a_wrong_download_is_not_kept(tmp_path, server, before):
    name = "t10k-images-idx3-ubyte.gz"
    if before is not None:
        (tmp_path / "mnist").mkdir()
        (tmp_path / "mnist" / name).write_bytes(before)
    right = server.files[name]
    server.files[name] = right[:-1] + b"?"
    with pytest.raises(
        DataError, match=f"mnist could not be downloaded.*{name}.*does not match"
    ) as error:
        data.fetch("mnist", tmp_path, False, home=server.home)
    assert hashlib.sha256(right).hexdigest() in str(error.value)
    assert hashlib.sha256(server.files[name]).hexdigest() in str(error.value)
    assert "\n" not in str(error.value)
    left = contents(tmp_path)
    assert left.pop(f"mnist/{name}", None) == before
    # nor anything temporary
    assert set(left) == {"mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz"}
    server.files[name] = right
    data.fetch("mnist", tmp_path, False, home=server.home)
    check_mnist(data.load("mnist", tmp_path))


def test_a_download_that_breaks_off(tmp_path, server):
    server.broken.add("train-images-idx3-ubyte.gz")
    with pytest.raises(
        DataError,
        match=r"mnist could not be downloaded \(http.*(broke off|no "
        r"connection|does not match)",
    ) as error:
        data.fetch("mnist", tmp_path, False, home=server.home)
    assert f"into {tmp_path / 'mnist'}" in str(error.value)
    assert contents(tmp_path) == {}


def test_without_a_server(tmp_path, server):
    del server.files["train-images-idx3-ubyte.gz"]
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: the server answers 404"):
        data.fetch("mnist", tmp_path, False, home=server.home)
    home = server.home
    server.shutdown()
    server.server_close()
    with pytest.raises(
        MnngpError,
        match=r"no connection\); put train-images-idx3-ubyte\.gz, .* "
        r"from https://.* into",
    ) as error:
        data.fetch("mnist", tmp_path, False, home=home)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="home must be an address that begins with http"):
        data.fetch("mnist", tmp_path, home="ftp://example.org")


def test_fetch_where_nothing_can_be_written(tmp_path, server):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DataError, match="cannot be written"):
        data.fetch("mnist", tmp_path / "file", False, home=server.home)


def test_fetch_cifar(tmp_path, server, monkeypatch):
    files = cifar_files(cifar.BINARY)
    content = archive(tmp_path / "served.tar.gz", files, cifar.BINARY.folder).read_bytes()
    for name, batch in files.items():
        monkeypatch.setitem(
            published.CIFAR10.files, name, f"sha256:{hashlib.sha256(batch).hexdigest()}"
        )
    monkeypatch.setitem(
        published.CIFAR10.served,
        "cifar-10-binary.tar.gz",
        f"sha256:{hashlib.sha256(content).hexdigest()}",
    )
    server.files["cifar-10-binary.tar.gz"] = content
    folder = tmp_path / "data"
    write(folder / "cifar-10-batches-bin", files | {"data_batch_1.bin": b"damaged"})
    for _ in range(2):
        assert data.fetch("cifar10", folder, False, home=server.home) == [
            folder / "cifar-10-binary.tar.gz"
        ]
        check_cifar(data.load("cifar10", folder))
    assert server.asked == ["cifar-10-binary.tar.gz"]


def test_published_addresses_and_digests():
    """Those of what is served, as their publishers give them; files and homes are as many as they
    should be.
    """
    assert published.NAMES == ("digits", "mnist", "fashion-mnist", "cifar10")
    for known in published.COLLECTIONS.values():
        digests = [*known.files.values(), *known.served.values()]
        assert all(len(digest) == len("sha256:") + 64 and int(digest[7:], 16) for digest in digests)
        assert len(set(digests)) == len(digests)
        assert known.home.startswith("http") == (known.name != "digits")
    assert [len(known.files) for known in published.COLLECTIONS.values()] == [0, 4, 4, 6]
    assert all(
        digest.startswith("md5:") and len(digest) == 36
        for digest in published.CIFAR10_PYTHON.values()
    )


# --------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------


def table(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


EXPECTED = {"a": ["1", "2", None], "b c": ["x", None, "y;,\t|z"]}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_csv(tmp_path, separator, mark, end):
    lines = ["a , b c", "1,x", " 2 ,NA", ',"y;,\t|z"', ""]
    text = end.join(line.replace(",", separator, 1) for line in lines)
    if separator != ",":
        text = text.replace(f'{separator}"y;{separator}\t', f'{separator}"y;,\t')
    frame = data.read_table(table(tmp_path, mark + text.encode()))
    assert frame.to_dict(as_series=False) == EXPECTED
    assert frame.dtypes == [pl.String, pl.String]


def test_csv_in_other_clothes(tmp_path):
    assert data.read_table(table(tmp_path, "a,b\tc\n1,5\t2\n", "t.TSV")).to_dict(
        as_series=False
    ) == {
        "a,b": ["1,5"],
        "c": ["2"],
    }
    assert data.read_table(table(tmp_path, "ä,b\n1,ß\n".encode("utf-16"))).to_dict(
        as_series=False
    ) == {
        "ä": ["1"],
        "b": ["ß"],
    }
    assert data.read_table(table(tmp_path, "a;b\n1,5;2,5\n")).to_dict(as_series=False) == {
        "a": ["1,5"],
        "b": ["2,5"],
    }
    assert data.read_table(table(tmp_path, "a\n1\n2")).to_dict(as_series=False) == {"a": ["1", "2"]}
    blank = data.read_table(table(tmp_path, 'a,b\n\n1,2\n\n"x\n\ny",4\n,\n\n\n'))
    # blank lines are not rows, a line of gaps is
    assert blank.rows() == [("1", "2"), ("x\n\ny", "4"), (None, None)]
    assert data.read_table(table(tmp_path, "a,b,c\n1,2,\n  \n1,2,3\n")).rows() == [
        ("1", "2", None),
        ("1", "2", "3"),
    ]
    quoted = data.read_table(table(tmp_path, '"a ""b""","c,d"\n"1","2"\n'))
    assert quoted.to_dict(as_series=False) == {'a "b"': ["1"], "c,d": ["2"]}
    assert (
        data.read_table(
            table(
                tmp_path,
                "a,b\n"
                + "\n".join(["?", "nan", "null", "N/A", "", "None"]).replace("\n", ",1\n")
                + ",1\n",
            )
        )["a"].to_list()
        == [None] * 6
    )


def test_an_index_that_pandas_wrote_is_left_out(tmp_path):
    assert data.read_table(table(tmp_path, ",a\n0,5\n1,6\n")).to_dict(as_series=False) == {
        "a": ["5", "6"]
    }
    with pytest.raises(DataError, match="column 1 has no name"):
        data.read_table(table(tmp_path, ",a\n7,5\n1,6\n"))
    with pytest.raises(DataError, match="column 2 has no name"):
        data.read_table(table(tmp_path, "a,,b\n0,5,1\n1,6,1\n"))


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("t.csv", b"", "t.csv is empty"),
        ("t.csv", b"\xef\xbb\xbf\n\n", "t.csv is empty"),
        ("t.csv", b"a,b\n", "is empty: it has 2 columns and 0 rows"),
        ("t.csv", b"a,b,a, b\n1,2,3,4\n", "has more than one column 'a', 'b'"),
        (
            "t.csv",
            b"a,b\n1,2\n3,\xe9\n",
            "is not UTF-8 text: byte 0xe9 in line 3; save it as UTF-8",
        ),
        ("t.csv", b"a,b\n1,2,3\n", r"t\.csv: line 2 has 3 fields, the header has 2$"),
        ("t.csv", b'a,b,y\n\n"1\n\n1",2,3\n3,4,5,6\n', "line 6 has 4 fields, the header has 3$"),
        (
            "t.csv",
            b"\r\n\r\na;b;y\r\n1;2;3\r\n\r\n3;4\r\n",
            "line 6 has 2 fields, the header has 3; a gap is written as an empty field",
        ),
        ("t.tsv", b"a\tb\n1\n", "line 2 has 1 field, the header has 2; a gap"),
        ("t.csv", b'a,b\n1,"2\n3,4\n', "is damaged or not a table"),
        ("t.parquet", b"", "is damaged or not a table"),
        ("t.parquet", b"PAR1 nonsense PAR1", "is damaged or not a table"),
        ("t.xlsx", b"PK", r"must end in one of \.csv, "),
    ],
)
def test_files_that_are_no_tables(tmp_path, name, content, complaint):
    with pytest.raises(DataError, match=complaint):
        data.read_table(table(tmp_path, content, name))


def test_paths_that_are_no_tables(tmp_path):
    for name in ("nowhere.csv", "nowhere.xlsx", "nowhere"):
        with pytest.raises(DataError, match=f"{name} is not there"):
            data.read_table(tmp_path / name)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder\.csv is not a file"):
        data.read_table(tmp_path / "folder.csv")
    with pytest.raises(InputError, match="path must be the path of a file, got 3"):
        data.read_table(3)


def test_without_polars(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(
        MissingExtraError,
        match=r"tables need polars: pip install "
        r"\"mnngp\[experiments\]\"",
    ):
        data.read_table(tmp_path / "table.csv")


def test_parquet_keeps_its_types(tmp_path):
    path = tmp_path / "[a]*.parquet"  # not a pattern
    frame = pl.DataFrame(
        {
            "n": [1, None],
            "code": ["007", "12"],
            "flag": [True, None],
            "day": [datetime.date(2024, 1, 2)] * 2,
        }
    )
    frame.write_parquet(path)
    again = data.read_table(path)
    assert again.dtypes == [pl.Int64, pl.Categorical, pl.Boolean, pl.Date]
    assert Encoder.of(again.with_columns(y=pl.Series([1.5, 2.5])), "y").features == [
        "n is missing",
        "code = 007",
        "code = 12",
        "flag = true",
        "flag is missing",
    ]


@AGAIN
@given(position=st.integers(0, 10**6), value=st.integers(0, 255), cut=st.booleans())
def test_damaged_parquet_never_fails_otherwise(tmp_path, position, value, cut):
    buffer = io.BytesIO()
    pl.DataFrame({"n": range(50), "t": [f"text {i % 5}" for i in range(50)]}).write_parquet(buffer)
    content = buffer.getvalue()
    position %= len(content)
    changed = (
        content[:position] if cut else content[:position] + bytes([value]) + content[position + 1 :]
    )
    with contextlib.suppress(DataError):
        frame = data.read_table(table(tmp_path, changed, "t.parquet"))
        assert not cut  # what is cut off is never read, what is changed is a whole table at most
        assert frame.shape == (50, 2)


@settings(AGAIN, max_examples=200)
@given(
    st.binary(max_size=200) | st.text(alphabet='ab1,;\t|\n\r" \x00ä', max_size=80).map(str.encode)
)
def test_any_bytes_are_a_table_or_an_error(tmp_path, content):
    with contextlib.suppress(DataError):
        frame = data.read_table(table(tmp_path, content))
        assert frame.height > 0
        assert all(dtype == pl.String for dtype in frame.dtypes)


# --------------------------------------------------------------------------------------------------

CSV = """id,age,city,when,flag,empty,same,half,price
r001,10,Bern,2024-01-01,True,,7,1,100.5
r002,,Rome,2024-01-02,False,,7,,200
r003,30,,2024-01-03,true,,7,1,300
r004,20,Bern,,FALSE,,7,,400
r005,40,Oslo,2024-01-05 12:00,True,,7,1,
r006,50,Bern,2024-01-06T06:00:00,False,,7,,600
"""


def test_what_is_learned(tmp_path):
    frame = data.read_table(table(tmp_path, CSV))
    encoder = Encoder.of(frame, "price")
    assert encoder.features == [
        *(f"id = r00{i}" for i in (1, 2, 3, 4, 6)),  # six rows are too few to call them names
        "age",
        "age is missing",
        "city = Bern",
        "city = Rome",
        "city is missing",
        "when",
        "when is missing",
        "flag = false",
        "flag = true",
        "half is missing",
    ]
    assert encoder.task == "regression"
    assert encoder.notes == (
        "1 of 6 rows have no 'price' and are left out",
        "column 'when' holds dates, which become days since 1970-01-01",
        "column 'empty' is left out: it has no values",
        "column 'same' is left out: it is always 7",
    )
    X, y = encoder.labelled(frame)
    np.testing.assert_array_equal(y, [100.5, 200.0, 300.0, 400.0, 600.0])
    day = 19723.0  # 2024-01-01
    np.testing.assert_array_equal(
        X[:, 5:],
        [  # age, missing; Bern, Rome, missing; when, missing; false, true; half is missing
            [10, 0, 1, 0, 0, day, 0, 0, 1, 0],
            [20, 1, 0, 1, 0, day + 1, 0, 1, 0, 1],
            [30, 0, 0, 0, 1, day + 2, 0, 0, 1, 0],
            [20, 0, 1, 0, 0, day + 1, 1, 1, 0, 1],
            [50, 0, 1, 0, 0, day + 5.25, 0, 1, 0, 1],
        ],
    )
    everything = encoder.encode(frame)
    assert everything.shape == (6, 15)
    # Oslo is new
    np.testing.assert_array_equal(everything[4, 5:], [40, 0, 0, 0, 0, day + 4.5, 0, 0, 1, 0])
    assert everything.dtype == np.float64
    assert (
        Encoder.of(frame, "price", drop=["id", "when"]).features
        == encoder.features[5:10] + encoder.features[12:]
    )


def test_new_rows(tmp_path):
    encoder = Encoder.of(data.read_table(table(tmp_path, CSV)), "price", drop=["id"])
    new = table(tmp_path, "unasked;half;flag;when;city;age\nx;2;TRUE;;Nowhere;\n", "new.csv")
    np.testing.assert_array_equal(
        encoder.encode(data.read_table(new)), [[20, 1, 0, 0, 0, 19724, 1, 0, 1, 0]]
    )
    # the same rows, typed
    typed = pl.DataFrame(
        {
            "age": [10, 30],
            "city": pl.Series(["Bern", None], dtype=pl.Categorical),
            "when": [datetime.datetime(2024, 1, 5, 12), None],
            "flag": [True, None],
            "half": [1.0, math.nan],
        }
    )
    np.testing.assert_array_equal(
        encoder.encode(typed),
        [[10, 0, 1, 0, 0, 19727.5, 0, 0, 1, 0], [30, 0, 0, 0, 1, 19724, 1, 0, 0, 1]],
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            "age,city,when,flag\n1,a,2024-01-01,true",
            "has no column 'half', which the model needs; it has 'age', 'city'",
        ),
        (
            "Age,city,when,flag,half\n1,a,2024-01-01,true,1",
            "column 'age', which the model needs; did you mean 'Age'",
        ),
        (
            "age,city,when,flag,half\n1,a,,true,1\nold,a,,true,1",
            "column 'age' must hold numbers, row 2 has 'old'",
        ),
        (
            "age,city,when,flag,half\n1,a,,true,1\n-inf,a,,true,1",
            "column 'age' must be finite, row 2 has -inf",
        ),
        ("age,city,when,flag,half\n1,a,,true,1e400", "column 'half' must be finite, row 1 has inf"),
        (
            "age,city,when,flag,half\n1,a,2024-01-01,true,1\n1,a,soon,t,1",
            "column 'when' must hold dates like .*, row 2 has 'soon'",
        ),
    ],
)
def test_new_rows_that_do_not_fit(tmp_path, change, complaint):
    encoder = Encoder.of(data.read_table(table(tmp_path, CSV)), "price", drop=["id"])
    with pytest.raises(InputError, match=complaint):
        encoder.encode(data.read_table(table(tmp_path, change)))


def test_typed_columns_that_do_not_fit():
    encoder = Encoder.of(
        pl.DataFrame({"x": [1.0, 2.0], "d": ["2024-01-01", "2024-01-02"], "y": [1.5, 2.5]}), "y"
    )
    good = {"x": [1.0], "d": ["2024-01-01"]}
    for change, complaint in [
        ({"x": [datetime.date(2024, 1, 1)]}, "column 'x' must hold numbers, got Date"),
        ({"x": [[1.0]]}, r"column 'x' must hold numbers, got List\(Float64\)"),
        ({"d": [3]}, "column 'd' must hold dates like 2024-05-31, got Int64"),
    ]:
        with pytest.raises(InputError, match=complaint):
            encoder.encode(pl.DataFrame(good | change))
    for column in ([[1], [2]], [{"a": 1}, {"a": 2}], [b"a", b"b"]):
        with pytest.raises(
            InputError,
            match=r"'x y' must hold numbers, dates or text, got .*; drop it \(--drop "
            r"'x y' on the command line\)",
        ):
            Encoder.of(pl.DataFrame({"x y": column, "y": [1.5, 2.5]}), "y")
    with pytest.raises(InputError, match=r"frame must be a polars\.DataFrame"):
        encoder.encode([[1.0]])
    with pytest.raises(InputError, match="must have at least one row"):
        encoder.encode(pl.DataFrame(good).head(0))


def test_columns_without_any_value_in_new_rows():
    encoder = Encoder.of(
        pl.DataFrame(
            {"x": [1.0, 3.0], "c": ["a", "b"], "d": ["2024-01-01", "2024-01-03"], "y": [1.5, 2.5]}
        ),
        "y",
    )
    np.testing.assert_array_equal(
        encoder.encode(pl.DataFrame({"x": [None], "c": [None], "d": [None]})), [[1, 0, 0, 19723]]
    )


HALVES = [0.5 * i for i in range(100)]


def numbered(**columns):
    return pl.DataFrame({"x": range(100)} | columns)


def test_names_are_left_out_and_rare_categories_too():
    names = numbered(name=[f"person {i}" for i in range(100)], y=[0.5 * i for i in range(100)])
    encoder = Encoder.of(names, "y")
    assert encoder.features == ["x"]
    assert encoder.notes == (
        "column 'name' is left out: 100 different texts in 100 rows are no categories",
    )
    many = pl.DataFrame(
        {"c": [f"c{i % 150:03}" for i in range(400)], "y": [0.5 * i for i in range(400)]}
    )
    encoder = Encoder.of(many, "y")
    assert len(encoder.features) == 100
    assert encoder.features[:2] == ["c = c000", "c = c001"]  # those of three rows, not of two
    assert encoder.notes == (
        "column 'c': 100 of 150 categories are features, the most frequent ones",
    )
    assert encoder.encode(many).sum() == 300


@pytest.mark.parametrize(
    ("values", "task", "expected"),
    [
        ([0.5 * i for i in range(100)], None, "regression"),
        (["a", "b"] * 50, None, "classification"),
        ([True, False] * 50, None, "classification"),
        (pl.Series(["1", "2"] * 50, dtype=pl.Categorical), None, "classification"),
        (["1.5", "2"] * 50, None, "regression"),
        ([0, 1] * 50, None, "regression"),
        ([0, 1] * 50, "classification", "classification"),
        ([True, False] * 50, "regression", "regression"),
        ([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)] * 50, None, "classification"),
    ],
)
def test_tasks(values, task, expected):
    frame = numbered(y=values)
    encoder = Encoder.of(frame, "y", task)
    assert encoder.task == expected
    _, y = encoder.labelled(frame)
    if expected == "regression":
        np.testing.assert_array_equal(y, [float(value) for value in values])
    else:
        texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
        assert y.tolist() == texts
        assert y.dtype.kind == "U"


def test_labels_are_the_same_whatever_their_type():
    for values in (["1", "0"], [1, 0], [1.0, 0.0]):
        assert (
            Encoder.of(numbered(y=values * 50), "y", "classification").labelled(
                numbered(y=values * 50)
            )[1][0]
            == "1"
        )
    assert (
        "if they are classes, say task='classification' (--task classification)"
        in Encoder.of(numbered(y=[1, 0] * 50), "y").notes[0]
    )


@pytest.mark.parametrize(
    ("frame", "target", "options", "complaint"),
    [
        (
            numbered(price=HALVES),
            "prise",
            {},
            "the table has no column 'prise'; did you mean 'price'",
        ),
        (numbered(price=HALVES), "zzz", {}, "the table has no column 'zzz'; it has 'x', 'price'"),
        (
            numbered(price=HALVES),
            "price",
            {"drop": ["xx"]},
            "the table has no column 'xx'; did you mean 'x'",
        ),
        (numbered(price=HALVES), 3, {}, "the table has no column 3; it has"),
        (
            numbered(price=HALVES),
            "price",
            {"task": "guess"},
            "task must be one of 'regression', 'classification', got 'guess'",
        ),
        (
            numbered(price=HALVES),
            "price",
            {"drop": ["x"]},
            "no feature is left: all columns but 'price' were dropped",
        ),
        (
            pl.DataFrame({"price": HALVES}),
            "price",
            {},
            "no column of the table can be a feature: there is only 'price'",
        ),
        (
            numbered(c=["a"] * 100, y=HALVES),
            "y",
            {"drop": ["x"]},
            "can be a feature: column 'c' is left out: it is always 'a'",
        ),
        (
            numbered(price=HALVES),
            "price",
            {"drop": ["price"]},
            "column 'price' is the target and cannot be dropped",
        ),
        (numbered(y=[3] * 100), "y", {}, "column 'y' is always 3: there is nothing to predict"),
        (
            numbered(y=["3", "3.0"] * 50),
            "y",
            {"task": "regression"},
            "column 'y' is always 3: there is nothing to predict",
        ),
        (
            numbered(y=[3] * 100),
            "y",
            {"task": "classification"},
            "column 'y' is always '3': there is nothing to predict",
        ),
        (
            numbered(y=[1.0, -5e300] * 50),
            "y",
            {},
            r"column 'y' is too large \(-5e\+300\); give it "
            r"in other units",
        ),
        (
            numbered(y=[None] * 100),
            "y",
            {},
            "column 'y' must have a value in some row, it has none",
        ),
        (
            numbered(y=[math.nan] * 100),
            "y",
            {},
            "column 'y' must have a value in some row, it has none",
        ),
        (numbered(y=["a"] * 100), "y", {}, "column 'y' is always 'a': there is nothing to predict"),
        (
            numbered(y=[f"{i},5" for i in range(100)]),
            "y",
            {},
            r"'y' looks like numbers with decimal commas, such as '0,5' \(row 1\), which are not "
            r"understood; .*like 1234.5",
        ),
        (
            numbered(y=[None, *(f"{i}" for i in range(98)), "abc"]),
            "y",
            {},
            r"column 'y' looks like numbers, but 'abc' \(row 100\) is none; numbers must be "
            r"written like 1234.5",
        ),
        (
            numbered(y=["1", "2"] + [f"no. {i}" for i in range(98)]),
            "y",
            {},
            r"has 100 different texts in 100 rows, which are no classes, such as 'no. 0' \(row "
            r"3\); .*like 1234.5",
        ),
        (
            numbered(y=pl.Series([str(i) for i in range(100)], dtype=pl.Categorical)),
            "y",
            {},
            r"has 100 different texts in 100 rows, which are no classes, such as '0' \(row 1\)",
        ),
        (
            numbered(y=["a", "b"] * 50),
            "y",
            {"task": "regression"},
            "column 'y' must hold numbers, row 1 has 'a'",
        ),
        (numbered(y=[1.0, math.inf] * 50), "y", {}, "column 'y' must be finite, row 2 has inf"),
        (
            numbered(z=[1.0, math.inf] * 50, y=[1.5, 2.5] * 50),
            "y",
            {},
            "column 'z' must be finite, row 2 has inf",
        ),
        (numbered(y=[1.0] * 100).head(0), "y", {}, "the table must have at least one row"),
    ],
)
def test_tables_that_nothing_can_be_learned_from(frame, target, options, complaint):
    with pytest.raises(InputError, match=complaint):
        Encoder.of(frame, target, **options)


def test_targets_of_new_rows():
    encoder = Encoder.of(numbered(y=[0.5 * i for i in range(100)]), "y")
    X, y = encoder.labelled(pl.DataFrame({"x": [1, 2, 3], "y": [1.5, None, math.nan]}))
    assert (X.tolist(), y.tolist()) == ([[1.0]], [1.5])
    for column, complaint in [
        ({}, "the table has no column 'y'"),
        ({"y": ["high"]}, "column 'y' must hold numbers, row 1 has 'high'"),
        ({"y": [math.inf]}, "column 'y' must be finite, row 1 has inf"),
        ({"y": [None]}, "must have a value in some row"),
    ]:
        with pytest.raises(InputError, match=complaint):
            encoder.labelled(pl.DataFrame({"x": [1]} | column))


def test_targets_that_cannot_be_scored():
    numbers = Encoder.of(numbered(y=HALVES), "y")
    x = {"x": [1, 2]}
    X, y = numbers.scored(pl.DataFrame(x | {"y": [None, "2.5"]}))
    assert (X.tolist(), y.tolist()) == ([[2.0]], [2.5])
    for values in (
        [1.5, math.inf],
        ["1.5", "high"],
        [1.5, 1e200],
        [datetime.date(2024, 1, 1)] * 2,
        [[1.0], [2.0]],
    ):
        assert numbers.scored(pl.DataFrame(x | {"y": values})) is None
        assert len(numbers.surprises(pl.DataFrame(x | {"y": values}))) == 1
    for column in ({}, {"y": [None, None]}, {"y": [math.nan, None]}):
        assert numbers.scored(pl.DataFrame(x | column)) is None
        assert numbers.surprises(pl.DataFrame(x | column)) == []
    assert numbers.surprises(pl.DataFrame(x | {"y": ["1", "high"]})) == [
        "column 'y' must hold numbers, row 2 has 'high': predictions are not compared with it"
    ]
    labels = Encoder.of(numbered(y=["a", "b"] * 50), "y")
    assert labels.scored(pl.DataFrame(x | {"y": [None, "new"]}))[1].tolist() == ["new"]
    assert labels.scored(pl.DataFrame(x | {"y": [[1], [2]]})) is None
    with pytest.raises(InputError, match="has no column 'x', which the model needs"):
        labels.scored(pl.DataFrame({"y": ["a"]}))


def test_what_is_new_to_the_model_is_said(tmp_path):
    text = "a,flag,city,g,y\n" + "".join(
        f"{i},{i % 2 == 0},{'ABCDE'[i % 5]},{i if i % 7 else ''},{i / 2}\n" for i in range(60)
    )
    frame = data.read_table(table(tmp_path, text))
    encoder = Encoder.of(frame, "y")
    assert encoder.surprises(frame) == []
    new = {
        "a": [None] * 60,
        "flag": [0, 1] * 30,
        "city": ["A"] * 55 + ["R", "Q", "U", "S", None],
        "g": [None] * 60,
    }
    assert encoder.surprises(pl.DataFrame(new)) == [
        "column 'a': all 60 rows are gaps, of which training had none; the median stands in",
        "column 'flag': 60 of 60 rows hold values that training did not have ('0', '1'); it had "
        "'false', 'true'",
        "column 'city': 1 of 60 rows is a gap, of which training had none; they are none of the "
        "categories",
        "column 'city': 4 of 60 rows hold values that training did not have ('Q', 'R', 'S', …); it "
        "had 'A', 'B', 'C', …",
    ]
    good = {"a": [1.0, math.nan], "flag": [True, False], "city": ["A", "B"], "g": [None, 1]}
    assert encoder.surprises(pl.DataFrame(good)) == [
        "column 'a': 1 of 2 rows is a gap, of which training had none; the median stands in"
    ]
    assert encoder.surprises(pl.DataFrame(good | {"a": [1, 2], "flag": ["TRUE", "yes"]})) == [
        "column 'flag': 1 of 2 rows hold values that training did not have ('yes'); it had "
        "'false', 'true'"
    ]
    many = pl.DataFrame({"c": [f"c{i % 150:03}" for i in range(400)], "y": range(400)})
    (line,) = Encoder.of(many, "y").surprises(many)
    assert line.startswith(
        "column 'c': 100 of 400 rows hold values that training did not have or "
        "had too rarely ('c100', "
    )


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        (
            [f"{i},{i % 10}4" for i in range(30)],
            "looks like numbers with decimal commas, such as '0,04' (row 2), which are not "
            "understood, "
            "so it is taken as text and left out",
        ),
        (
            ["1.234,5", "12", "999,5", "7,25"],
            "looks like numbers with decimal commas, such as '999,5' (row 4), which are not "
            "understood, "
            "so it is taken as text, 4 categories",
        ),
        (
            ["999", "1,511", "12,000"],
            "looks like numbers with thousands separators or decimal commas, such as '1,511' (row "
            "3), which are not understood, "
            "so it is taken as text, 3 categories",
        ),
        (
            ["999", "1,511.5", "12,000,000", "1'000", "2\u202f000"],
            "looks like numbers with thousands separators, such as '1,511.5' (row 3), which are "
            "not understood, "
            "so it is taken as text, 5 categories",
        ),
        (
            [f"{1 + i % 28:02}/05/{2000 + i}" for i in range(30)],
            "looks like dates, such as '01/05/2000' (row 2), of which only the form 2024-05-31 is "
            "understood, "
            "so it is taken as text and left out",
        ),
        (
            ["2024-05-31T12:00:00Z", "2024-06-01T12:00:00Z"],
            "looks like dates, such as '2024-05-31T12:00:00Z' (row 2), of which only the form "
            "2024-05-31 is understood, "
            "so it is taken as text, 2 categories",
        ),
        (
            [*(f"{i}" for i in range(900, 1000)), "1,000"],
            "looks like numbers with thousands separators or decimal commas, such as '1,000' (row "
            "102), which are not understood, "
            "so it is taken as text and left out",
        ),
        (
            [f"{20 + i}-03-01" for i in range(30)],
            "looks like dates, such as '20-03-01' (row 2), of which only the form 2024-05-31 is "
            "understood, "
            "so it is taken as text and left out",
        ),
        (["1,5"] * 10, "is left out: it is always '1,5'"),
        ([*"12345678", "x", "z"], None),
        (["red", "4,5", "blue"], None),
        (["a", "b", None], None),
    ],
)
def test_columns_that_look_like_numbers_say_why_they_are_none(cells, note):
    n = len(cells)
    frame = pl.DataFrame(
        {"x": range(n + 1), "a": ["left out", *cells], "y": [None, *(0.5 * i for i in range(n))]}
    )
    notes = Encoder.of(frame, "y").notes[1:]  # the first counts the row without a target
    assert notes == (() if note is None else (f"column 'a' {note}",))


DAYS = [f"2024-05-{i:02}" for i in range(1, 31)]


@pytest.mark.parametrize(
    ("cells", "odd", "kind"),
    [
        ([f"{i / 7}" for i in range(30)], ["abc"], "numbers"),
        ([*"123123123"], ["x"], "numbers"),
        ([f"{i}" for i in range(40)], ["0x1F", "1_000", "5 kg"], "numbers"),
        (DAYS, ["soon"], "dates"),
        (DAYS, ["22-03-01"], "dates"),  # not a day of the year 22
        (DAYS, ["2024-02-30", "31/05/2024", "2024-05-31T12:00:00Z"], "dates"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_mistake_among_many_is_a_gap_and_said(cells, odd, kind, first):
    mixed = [*odd, *cells] if first else [*cells, *odd]
    frame = pl.DataFrame({"a": mixed, "y": [0.5 * i for i in range(len(mixed))]})
    encoder = Encoder.of(frame, "y")
    verb = "is none and counts as a gap" if len(odd) == 1 else "are none and count as gaps"
    row = 1 if first else len(cells) + 1
    note = (
        f"column 'a' holds {kind}, but {len(odd)} of {len(mixed)} values {verb}, first {odd[0]!r} "
        f"(row {row})"
    )
    assert encoder.notes[0] == note
    assert encoder.features == ["a", "a is missing"]
    X, _ = encoder.labelled(frame)
    plain, _ = Encoder.of(pl.DataFrame({"a": cells, "y": range(len(cells))}), "y").labelled(
        pl.DataFrame({"a": cells, "y": range(len(cells))})
    )
    where = np.isin(mixed, cells)
    np.testing.assert_array_equal(X[where, 0], plain[:, 0])
    np.testing.assert_array_equal(X[:, 1], ~where)


def test_one_bad_cell_does_not_stop_a_prediction():
    """It is a gap, and told with its column, the number of such cells, the first row and its
    value.
    """
    frame = pl.DataFrame({"d": DAYS, "n": range(30), "g": ["1", None] * 15, "y": HALVES[:30]})
    encoder = Encoder.of(frame, "y")
    new = pl.DataFrame(
        {
            "d": ["2024-05-03", "22-03-01", "2024-05-05"],
            "n": ["1", "2,5", "inf"],
            "g": ["1", "1", "1"],
        }
    )
    with pytest.raises(
        InputError, match="column 'd' must hold dates like 2024-05-31, row 2 has '22-03-01'"
    ):
        encoder.encode(new)
    with pytest.raises(InputError, match="column 'n' must hold numbers, row 2 has '2,5'"):
        # two of three: something else than a mistake
        encoder.encode(new.with_columns(d=pl.lit("2024-05-03")), strict=False)
    for cells in (["old", "1,5", "1"], pl.Series(["a", "b", "1"], dtype=pl.Categorical)):
        with pytest.raises(
            InputError,
            match=r"column 'n' must hold numbers, row 1 has '\w+', the "
            r"first of 2 such",
        ):
            encoder.encode(
                new.with_columns(n=cells if isinstance(cells, pl.Series) else pl.Series(cells)),
                strict=False,
            )
    for cells in (["inf"] * 3, [math.inf] * 3):
        with pytest.raises(InputError, match="column 'n' must be finite, row 1 has inf"):
            encoder.encode(new.with_columns(n=pl.Series(cells)), strict=False)
    new = new.with_columns(n=pl.Series(["1", "2", "inf"]))
    median = 19858.0  # 2024-05-15
    np.testing.assert_array_equal(
        encoder.encode(new, strict=False)[:, :2], [[median - 12, 1], [median, 2], [median - 10, 14]]
    )
    assert encoder.surprises(new) == [
        "column 'd': 1 of 3 rows cannot be read as dates like 2024-05-31 and counts as a gap, for "
        "which the median stands in, "
        "first '22-03-01' (row 2)",
        "column 'n': 1 of 3 rows cannot be read as numbers and counts as a gap, for which the "
        "median stands in, "
        "first 'inf' (row 3)",
    ]
    known = frame.head(4).with_columns(
        g=pl.Series(["1", "one", "1", "1"]), d=pl.lit(None, dtype=pl.String)
    )
    assert (
        encoder.surprises(known)[1] == "column 'g': 1 of 4 rows cannot be read as numbers and "
        "counts as a gap, first 'one' (row 2)"
    )
    assert encoder.encode(known, strict=False)[:, -1].tolist() == [0, 1, 0, 0]
    X, y = encoder.scored(new.with_columns(y=pl.Series([1.0, 2.0, None])), strict=False)
    assert (X[:, 0].tolist(), y.tolist()) == ([median - 12, median], [1.0, 2.0])


@pytest.mark.parametrize(
    "form",
    [
        "2022-03-01",
        "2022-3-1",
        "2022-03-01 06:00",
        "2022-03-01T06:00",
        "2022-03-01 06:00:00",
        "2022-03-01T6:00:00.250",
    ],
)
def test_forms_of_a_date(form):
    encoder = Encoder.of(pl.DataFrame({"d": ["2022-01-01", form], "y": [1.5, 2.5]}), "y")
    day = (datetime.date(2022, 3, 1) - datetime.date(1970, 1, 1)).days
    expected = day + (0.25 if ":" in form else 0.0) + (0.25 / 86400 if "." in form else 0.0)
    assert encoder.encode(pl.DataFrame({"d": [form]}))[0, 0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "form",
    [
        "22-03-01",
        "02022-03-01",
        "+2022-03-01",
        "2022-02-29",
        "2022-03-01 x",
        "2022-03-01Z",
        "01-03-2022",
        "2022-03-01 25:00",
    ],
)
def test_what_is_no_date(form):
    encoder = Encoder.of(pl.DataFrame({"d": ["2022-01-01", "2022-01-03"], "y": [1.5, 2.5]}), "y")
    with pytest.raises(InputError, match=r"column 'd' must hold dates like 2024-05-31, row 2 has"):
        encoder.encode(pl.DataFrame({"d": ["2022-01-01", form]}))


def test_values_far_outside_of_training_are_said():
    frame = pl.DataFrame(
        {
            "age": [18, 90, 40],
            "when": ["2023-01-01", "2023-12-31", "2023-06-01"],
            "y": [0.5, 1.5, 2.5],
        }
    )
    encoder = Encoder.of(frame, "y")
    # half of the width, and no more
    near = pl.DataFrame({"age": ["-18", "126", "18"], "when": ["2022-07-03", "2024-06-30", None]})
    assert encoder.surprises(near) == [
        "column 'when': 1 of 3 rows is a gap, of which training had none; the median stands in"
    ]
    far = pl.DataFrame(
        {
            "age": [40.0, 900.0, -50.0],
            "when": [datetime.date(2023, 5, 1), datetime.date(22, 3, 1), None],
        }
    )
    assert encoder.surprises(far) == [
        "column 'age': 2 of 3 rows are far outside of 18 to 90, what training had, first 900.0 "
        "(row 2)",
        "column 'when': 1 of 3 rows is a gap, of which training had none; the median stands in",
        "column 'when': 1 of 3 rows is far outside of 2023-01-01 to 2023-12-31, what training had, "
        "first 0022-03-01 (row 2)",
    ]
    old = encoder.as_dict()
    for column in old["columns"]:  # as version 0.1 wrote it
        del column["low"], column["high"]
    assert len(Encoder.from_dict(old).surprises(far)) == 1
    np.testing.assert_array_equal(Encoder.from_dict(old).encode(far), encoder.encode(far))


def test_ordinary_rows_are_not_said_to_be_far():
    """Half of the range beyond the largest of 500 is at 4.5 standard deviations and more, or at 10
    times an exponential's mean.
    """
    rng = np.random.default_rng(1)
    for draw, most in ((rng.normal, 0), (rng.exponential, 1)):
        train, new = (
            pl.DataFrame({f"c{i}": draw(size=n) for i in range(10)} | {"y": rng.normal(size=n)})
            for n in (500, 100)
        )
        assert len(Encoder.of(train, "y").surprises(new)) <= most


def test_whole_numbers_beyond_2_to_the_53_are_not_merged(tmp_path):
    start = 2**53 + 1  # which floating point rounds to its neighbour
    assert float(start) == float(start - 1)
    groups = [start + i % 3 for i in range(60)]
    rows = [start + i for i in range(60)]
    frame = pl.DataFrame({"g": groups, "row": rows, "y": HALVES[:60]})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    reason = "which would be rounded and are most probably identifiers, so it is taken as text"
    for name in ("t.csv", "t.parquet"):
        read = data.read_table(tmp_path / name)
        encoder = Encoder.of(read, "y")
        assert encoder.features == [f"g = {start + i}" for i in range(3)]
        assert encoder.encode(read).sum(axis=0).tolist() == [20, 20, 20]
        assert encoder.notes == (
            f"column 'g' holds whole numbers beyond 2^53, such as {start} (row 1), {reason}, 3 "
            "categories",
            f"column 'row' holds whole numbers beyond 2^53, such as {start} (row 1), {reason} and "
            "left out",
        )
    # what floating point holds exactly, such as times in nanoseconds, stays a number
    times = pl.DataFrame(
        {"t": [1_700_000_000_000_000_000 + 10**9 * i for i in range(30)], "y": HALVES[:30]}
    )
    assert Encoder.of(times, "y").notes == ()
    assert Encoder.of(times.cast(pl.String), "y").features == ["t"]
    decimals = times.with_columns(
        t=pl.Series([str(start + i) for i in range(30)]).cast(pl.Decimal(30, 2))
    )
    assert (
        "beyond 2^53, such as 9007199254740993.00 (row 1)"
        in Encoder.of(decimals.with_columns(x=pl.Series(HALVES[:30])), "y").notes[0]
    )


def test_targets_beyond_2_to_the_53():
    frame = numbered(y=[2**53 + 1 + i % 2 for i in range(100)])
    assert Encoder.of(frame, "y").notes[-1] == (
        "column 'y' holds whole numbers beyond 2^53, such as 9007199254740993 (row 1), which would "
        "be rounded and are most "
        "probably identifiers; if they are classes, say task='classification' (--task "
        "classification)"
    )
    labels = Encoder.of(frame, "y", "classification").labelled(frame)[1]
    assert labels[:2].tolist() == ["9007199254740993", "9007199254740994"]


def test_a_target_that_looks_like_numbers_is_not_silently_classes():
    frame = numbered(y=["0", "1"] * 49 + ["0", "x"])
    assert Encoder.of(frame, "y").notes == (
        "column 'y' looks like numbers, but 'x' (row 100) is none, so it is taken as text, 3 "
        "classes",
    )
    assert Encoder.of(frame, "y", "classification").notes == ()


def test_durations_become_days(tmp_path):
    hours = [datetime.timedelta(hours=12 * i) for i in range(4)]
    frame = pl.DataFrame({"d": [*hours[:3], None], "y": hours})
    for unit in ("ms", "us", "ns"):
        frame.cast({"d": pl.Duration(unit), "y": pl.Duration(unit)}).write_parquet(
            tmp_path / "t.parquet"
        )
        again = data.read_table(tmp_path / "t.parquet")
        encoder = Encoder.of(again, "y")
        X, y = encoder.labelled(again)
        assert (X.tolist(), y.tolist()) == ([[0, 0], [0.5, 0], [1, 0], [0.5, 1]], [0, 0.5, 1, 1.5])
        assert "column 'd' holds durations, which become days" in encoder.notes
    texts = Encoder.of(numbered(c=["a", "b"] * 50, y=HALVES), "y")
    assert (
        "training did not have ('0.5'); it had 'a', 'b'"
        in texts.surprises(pl.DataFrame({"x": [1], "c": hours[1:2]}))[0]
    )
    assert texts.encode(pl.DataFrame({"x": [1], "c": hours[1:2]})).tolist() == [[1, 0, 0]]


def test_rows_are_counted_as_the_table_does():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, math.inf], "y": [None, math.nan, 1.5, 2.5]})
    with pytest.raises(InputError, match="column 'x' must be finite, row 4 has inf"):
        Encoder.of(frame, "y")
    encoder = Encoder.of(frame.with_columns(x=pl.Series([1.0, 2.0, 3.0, 4.0])), "y")
    with pytest.raises(InputError, match="column 'x' must hold numbers, row 4 has 'many'"):
        encoder.labelled(frame.with_columns(x=pl.Series(["1", "2", "3", "many"])), strict=True)
    with pytest.raises(InputError, match="column 'y' must hold numbers, row 3 has 'b'"):
        encoder.labelled(pl.DataFrame({"x": [1, 2, 3], "y": [None, "1", "b"]}))


def test_rows_without_a_target_may_hold_anything(tmp_path):
    frame = data.read_table(
        table(tmp_path, "x,d,c,y\n1,2024-01-01,a,1.5\n2,2024-01-02,b,2.5\ntotal,both,,\ninf,,c,\n")
    )
    encoder = Encoder.of(frame, "y")
    assert encoder.features == ["x", "d", "c = a", "c = b"]
    X, y = encoder.labelled(frame)
    assert (X[:, 0].tolist(), y.tolist()) == ([1.0, 2.0], [1.5, 2.5])


CELLS = {
    pl.Float64: st.floats() | st.none(),
    pl.Int64: st.integers(-(2**63), 2**63 - 1) | st.none(),
    pl.String: st.none()
    | st.text(max_size=4)
    | st.sampled_from(["1", "2.5", "2024-01-02", "nan", "inf"]),
    pl.Boolean: st.booleans() | st.none(),
    pl.Date: st.dates() | st.none(),
    pl.Datetime("us"): st.datetimes() | st.none(),
    pl.Duration("us"): st.timedeltas(datetime.timedelta(-100000), datetime.timedelta(100000))
    | st.none(),
    pl.Time: st.times() | st.none(),
}


@st.composite
def frames(draw):
    rows = draw(st.integers(1, 12))
    kinds = draw(st.lists(st.sampled_from(list(CELLS)), min_size=2, max_size=5))
    values = [draw(st.lists(CELLS[kind], min_size=rows, max_size=rows)) for kind in kinds]
    return pl.DataFrame(
        [
            pl.Series(f"c{i}", column, dtype=kind)
            for i, (kind, column) in enumerate(zip(kinds, values, strict=True))
        ]
    )


@settings(AGAIN, max_examples=150)
@given(frames(), frames())
def test_any_table_gives_finite_features_or_an_error(frame, other):
    with contextlib.suppress(InputError):
        encoder = Encoder.of(frame, "c0")
        X, y = encoder.labelled(frame)  # what was learned from can be encoded
        assert X.shape == (len(y), len(encoder.features))
        assert np.isfinite(X).all()
        assert (
            Encoder.from_dict(json.loads(json.dumps(encoder.as_dict(), allow_nan=False))) == encoder
        )
        with contextlib.suppress(InputError):
            assert np.isfinite(encoder.encode(other)).all()
        assert np.isfinite(encoder.encode(other, strict=False)).all()
        assert all(isinstance(line, str) for line in encoder.surprises(other))
        if (compared := encoder.scored(other)) is not None:
            np.testing.assert_array_equal(compared[1], encoder.labelled(other)[1])


def test_columns_of_any_name():
    names = ["count", "category", "", "literal", "index", "*", "^.*$", "a b"]
    frame = pl.DataFrame({name: ["u", "v", "w"] for name in names} | {"y": [0.5, 1.5, 2.5]})
    encoder = Encoder.of(frame, "y")
    np.testing.assert_array_equal(encoder.encode(frame), np.tile(np.eye(3), len(names)))
    assert Encoder.of(frame, "count", drop="*").task == "classification"


def test_labels_keep_their_spelling():
    frame = numbered(c=["True", "FALSE"] * 50, y=["True", "False"] * 50)
    encoder = Encoder.of(frame, "y")
    assert encoder.labelled(frame)[1][:2].tolist() == ["True", "False"]
    assert encoder.features == ["x", "c = false", "c = true"]


def test_large_numbers_stay_finite():
    frame = pl.DataFrame(
        {
            "x": [1.7e308, -1.7e308, None, 2.0**80],
            "k": [2**62, -(2**62), 0, 1],
            "y": [0.5, 1.5, 2.5, 3.5],
        }
    )
    assert np.isfinite(Encoder.of(frame, "y").encode(frame)).all()


def test_an_encoder_through_json(tmp_path):
    frame = data.read_table(table(tmp_path, CSV))
    encoder = Encoder.of(frame, "price")
    again = Encoder.from_dict(json.loads(json.dumps(encoder.as_dict(), allow_nan=False)))
    assert again == encoder
    np.testing.assert_array_equal(again.encode(frame), encoder.encode(frame))


NUMBER = {"name": "x", "median": 1.0, "gaps": False, "varies": True, "dates": False}
CHOICE = {"name": "c", "categories": ["a", "b"], "gaps": False}
STORED = {"target": "y", "task": "regression", "columns": [NUMBER, CHOICE], "notes": []}


@pytest.mark.parametrize(
    ("data_", "complaint"),
    [
        (None, "the encoder must have the keys target, task, columns, notes"),
        ([STORED], "the encoder must have the keys"),
        ({}, "the encoder must have the keys"),
        (STORED | {"more": 1}, "the encoder must have the keys"),
        (STORED | {"target": 3}, "the encoder: target must be of type str, got int"),
        (STORED | {"task": "guess"}, "task must be one of regression, classification, got 'guess'"),
        (STORED | {"columns": []}, "must have columns"),
        (STORED | {"notes": [3]}, "notes must be text"),
        (STORED | {"columns": [3]}, "a column of numbers must have the keys"),
        (STORED | {"columns": [NUMBER, NUMBER]}, "names of their own"),
        (STORED | {"target": "x"}, "the target is none of them"),
        (
            STORED | {"columns": [NUMBER | {"median": math.nan}]},
            "column 'x' must have a finite median",
        ),
        (STORED | {"columns": [NUMBER | {"median": "1"}]}, "median must be of type float, got str"),
        (STORED | {"columns": [NUMBER | {"varies": False}]}, "at least one feature"),
        (
            STORED | {"columns": [NUMBER | {"low": 0.0}]},
            "a column of numbers must have the keys .*, low, high",
        ),
        (
            STORED | {"columns": [NUMBER | {"low": 0.0, "high": "2"}]},
            "high must be of type float, got str",
        ),
        (
            STORED | {"columns": [NUMBER | {"low": 2.0, "high": 3.0}]},
            "finite bounds around its median, got 2.0 and 3.0",
        ),
        (
            STORED | {"columns": [NUMBER | {"low": 0.0, "high": math.inf}]},
            "finite bounds around its median",
        ),
        (STORED | {"columns": [NUMBER | {"gaps": 1}]}, "gaps must be of type bool, got int"),
        (
            STORED | {"columns": [CHOICE | {"categories": []}]},
            "column 'c' must have 1 to 100 categories, got 0",
        ),
        (
            STORED | {"columns": [CHOICE | {"categories": [str(i) for i in range(101)]}]},
            "1 to 100 categories, got 101",
        ),
        (
            STORED | {"columns": [CHOICE | {"categories": ["a", "a"]}]},
            "the categories of column 'c' must be different texts",
        ),
        (STORED | {"columns": [CHOICE | {"categories": ["a", 1]}]}, "must be different texts"),
        (
            STORED | {"columns": [CHOICE | {"categories": "ab"}]},
            "categories must be of type list, got str",
        ),
        (
            STORED | {"columns": [CHOICE | {"median": 1.0}]},
            "a column of categories must have the keys",
        ),
    ],
)
def test_stored_encoders_are_checked(data_, complaint):
    assert Encoder.from_dict(STORED).features == ["x", "c = a", "c = b"]
    with pytest.raises(ModelFileError, match=complaint):
        Encoder.from_dict(data_)


def test_large_tables_are_quick(tmp_path):
    """5,000 rows and 300 columns take a second to read, learn and encode; a loop over cells would
    take a minute.
    """
    n = 5000
    columns = {f"n{i}": RNG.normal(size=n) for i in range(200)}
    columns |= {f"c{i}": RNG.choice(["red", "green", "blue"], n) for i in range(80)}
    columns |= {f"i{i}": [f"name {row}" for row in range(n)] for i in range(20)}
    frame = pl.DataFrame(columns | {"y": RNG.normal(size=n)})
    frame.write_csv(tmp_path / "large.csv")
    start = time.perf_counter()
    read = data.read_table(tmp_path / "large.csv")
    encoder = Encoder.of(read, "y")
    X = encoder.encode(read)
    assert time.perf_counter() - start < 20.0
    assert X.shape == (n, 200 + 3 * 80)
    np.testing.assert_allclose(X[:, 7], frame["n7"].to_numpy())
    assert len(encoder.notes) == 20
