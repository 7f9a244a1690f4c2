"""Files and tables for the tests of data: standard ones, made small, and how to check them."""

import contextlib
import dataclasses
import gc
import gzip
import hashlib
import io
import struct
import tarfile
import tracemalloc

import numpy as np
import polars as pl
from hypothesis import HealthCheck, settings

from mnngp.data import image_files as cifar
from mnngp.data import published

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
    gc.collect()  # or what earlier tests left may come to its end here
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


def table(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


CSV = """id,age,city,when,flag,empty,same,half,price
r001,10,Bern,2024-01-01,True,,7,1,100.5
r002,,Rome,2024-01-02,False,,7,,200
r003,30,,2024-01-03,true,,7,1,300
r004,20,Bern,,FALSE,,7,,400
r005,40,Oslo,2024-01-05 12:00,True,,7,1,
r006,50,Bern,2024-01-06T06:00:00,False,,7,,600
"""


HALVES = [0.5 * i for i in range(100)]


def numbered(**columns):
    return pl.DataFrame({"x": range(100)} | columns)
