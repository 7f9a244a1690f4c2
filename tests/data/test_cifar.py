"""CIFAR-10: both versions, damaged files, and malicious ones."""

import contextlib
import gzip
import os
import pickle
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnngp import data
from mnngp.data import image_files as cifar
from mnngp.errors import DataError
from tests.data.samples import (
    AGAIN,
    BATCHES,
    COLOUR_LABELS,
    COLOURS,
    archive,
    at_most,
    binary_batch,
    check_cifar,
    cifar_files,
    python2_batch,
    write,
)


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
