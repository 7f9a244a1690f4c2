"""Model files that are cut off, changed, no archives or archives that nobody wrote."""

import contextlib
import hashlib
import io
import os
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest

import mnngp
from mnngp.errors import ModelFileError
from tests.estimators.model_files import (
    X,
    archive_of,
    npy,
    rewrite,
)


def test_truncated(saved):
    data = saved.read_bytes()
    for length in (0, 10, len(data) // 2, len(data) - 1):
        saved.write_bytes(data[:length])
        with pytest.raises(ModelFileError, match="not a model file, or is cut off"):
            mnngp.load(saved)


def test_every_changed_byte_is_noticed(saved):
    data = saved.read_bytes()
    expected = mnngp.load(saved).predict(X[:, :3])
    for position in np.random.default_rng(0).integers(0, len(data), size=60):
        changed = bytearray(data)
        changed[position] ^= 0x10
        saved.write_bytes(bytes(changed))
        # noticed, or a byte (in a time stamp of the archive) that changes nothing
        with contextlib.suppress(ModelFileError):
            np.testing.assert_array_equal(mnngp.load(saved).predict(X[:, :3]), expected)


def test_a_changed_array_is_noticed(saved):
    def change(header, members):
        data = bytearray(members["alpha.npy"])
        data[-1] ^= 1
        members["alpha.npy"] = bytes(data)

    rewrite(saved, change)
    with pytest.raises(
        ModelFileError, match="was changed or damaged: alpha does not match its digest"
    ):
        mnngp.load(saved)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (
            npy((1 << 40,), b"\0" * 64),
            r"alpha of the shape \(1099511627776,\) must take "
            r"8796093022208 bytes, got 64",
        ),
        (npy((2,), b"\0" * 64), r"alpha of the shape \(2,\) must take 16 bytes, got 64"),
        (npy((-1, -8), b"\0" * 64), r"alpha must have a shape that can be, .* got \(-1, -8\)"),
        (npy((8,), b"\0" * 64, "<i8"), "alpha cannot be an array of int64"),
        (npy((8,), b"\0" * 64)[:20], "alpha is no array in NumPy's format: ValueError: EOF"),
        (
            b"\x93NUMPY\x09\x00" + bytes(64),
            r"alpha must be in version 1.0 of NumPy's format, got "
            r"\(9, 0\)",
        ),
        (b"alpha", "alpha is no array in NumPy's format: ValueError"),
        (
            npy((8,), b"\0" * 64).replace(b"(8,), }", b"(8,),  "),
            "alpha is no array in NumPy's format: .*Error",
        ),
        (
            npy((8,), b"\0" * 64).replace(b"(8,), }", b"(8,)\\0}"),
            "alpha is no array in NumPy's format: .*Error",
        ),
        (
            npy((8,), b"\0" * 64).replace(b" }   ", b"-----"),
            "alpha is no array in NumPy's format: .*Error",
        ),
        (npy((8,), b"\0" * 64, [("a", "<f8")]), "alpha cannot be an array of "),
        (npy((8,), b"", "<U0"), "alpha cannot be an array of <U0"),
        (
            npy((1 << 18,), bytes(1 << 21)),
            r"alpha must take \d,\d{3} bytes and a header, got "
            r"2,097,280",
        ),
    ],
    ids=[
        "huge",
        "long",
        "negative",
        "integers",
        "cut off",
        "newer",
        "no header",
        "TokenError",
        "SyntaxError",
        "signs",
        "fields",
        "no width",
        "not read",
    ],
)
def test_arrays_that_are_not_what_they_claim(saved, member, message):
    def change(header, members):
        members["alpha.npy"] = member
        header["arrays"]["alpha"] = hashlib.sha256(member).hexdigest()

    rewrite(saved, change)
    with pytest.raises(ModelFileError, match=message):
        mnngp.load(saved)


def test_a_small_file_does_not_take_much_memory(saved):
    """Compressed, a gigabyte of zeros is a megabyte; and a directory can promise any length."""
    data = saved.read_bytes()
    zeros = npy((1 << 20,), bytes(1 << 23))

    def change(header, members):
        members["alpha.npy"] = zeros
        header["arrays"]["alpha"] = hashlib.sha256(zeros).hexdigest()

    rewrite(saved, change, zipfile.ZIP_DEFLATED)
    with pytest.raises(
        ModelFileError,
        match=r"is not as it was written: \w+\.\w+ is compressed or "
        r"encrypted",
    ):
        mnngp.load(saved)
    saved.write_bytes(data)
    with zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("more", "")  # so that the directory is written again
        archive.getinfo("alpha.npy").file_size = archive.getinfo("alpha.npy").compress_size = (
            1 << 40
        )
    with pytest.raises(ModelFileError, match="its parts are larger than the file"):
        mnngp.load(saved)


def test_a_directory_that_leads_nowhere(saved):
    data = bytearray(saved.read_bytes())
    data[-3] ^= 0x80  # of the place where the archive's directory begins
    saved.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"is not as it was written: .* overlap"):
        mnngp.load(saved)


def test_archives_that_nobody_wrote(saved):
    data = saved.read_bytes()
    with zipfile.ZipFile(saved) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
        place = archive.getinfo("alpha.npy").header_offset
    for name in ("../evil.npy", "/etc/evil", "alpha.npy/", "model.JSON", "evil.npy"):
        archive_of(saved, [*members, (name, b"")])
        with pytest.raises(
            ModelFileError, match=r"has a part .* which this mnngp .* does not know"
        ):
            mnngp.load(saved)
    for name in ("alpha.npy", "model.json"):
        archive_of(saved, [*members, (name, dict(members)[name])])
        with pytest.raises(ModelFileError, match="two parts of the same name"):
            mnngp.load(saved)

    def directory(change):
        """With another entry of alpha in the directory; the parts are as they were."""
        saved.write_bytes(data)
        with zipfile.ZipFile(saved, "a") as archive:
            change(archive.getinfo("alpha.npy"))
            archive._didModify = True
        with pytest.raises(ModelFileError) as caught:
            mnngp.load(saved)
        return str(caught.value)

    assert "encrypted" in directory(lambda member: setattr(member, "flag_bits", 1))
    assert "zip file version" in directory(
        lambda member: (
            setattr(member, "create_version", 99) or setattr(member, "extract_version", 99)
        )
    )
    assert "overlap" in directory(lambda member: setattr(member, "header_offset", place - 30))
    assert "overlap" in directory(lambda member: setattr(member, "header_offset", 1 << 40))
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, 99):
        assert "is compressed" in directory(
            lambda member, method=method: setattr(member, "compress_type", method)
        )
    assert "cut off or damaged" in directory(lambda member: setattr(member, "CRC", 1))


def test_a_file_of_holes(saved):
    """A part that claims a gigabyte, and has it: in a file with a hole, which takes no room on the
    disk.
    """
    with zipfile.ZipFile(saved) as archive:
        members = [
            (name, archive.read(name)) for name in archive.namelist() if name != "factor.npy"
        ]
    archive_of(saved, [*members, ("factor.npy", b"")])
    size = 1 << 30
    with open(saved, "r+b") as file, zipfile.ZipFile(file, "a") as archive:
        member = archive.getinfo("factor.npy")
        member.file_size = member.compress_size = size
        archive.start_dir += size  # where the directory is written
        archive._didModify = True
    assert saved.stat().st_size > size
    tracemalloc.start()
    try:
        with pytest.raises(
            ModelFileError,
            match=r"factor must take [\d,]+ bytes and a header, got "
            r"1,073,741,824",
        ):
            mnngp.load(saved)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


class Bomb:
    """Runs code when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_inside_is_not_opened(saved, tmp_path):
    bomb = Bomb(tmp_path / "exploded")

    def change(header, members):
        buffer = io.BytesIO()
        np.save(buffer, np.array([bomb], dtype=object), allow_pickle=True)
        members["alpha.npy"] = buffer.getvalue()
        header["arrays"]["alpha"] = hashlib.sha256(buffer.getvalue()).hexdigest()

    rewrite(saved, change)
    with pytest.raises(ModelFileError, match="alpha cannot be an array of object"):
        mnngp.load(saved)
    assert not bomb.path.exists()
    saved.write_bytes(pickle.dumps(bomb))
    with pytest.raises(ModelFileError, match="not a model file"):
        mnngp.load(saved)
    assert not bomb.path.exists()


def test_other_archives(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(ModelFileError, match=r"model\.json is missing"):
        mnngp.load(path)
    with pytest.raises(FileNotFoundError):
        mnngp.load(tmp_path / "nothing")
