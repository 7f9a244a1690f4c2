"""Stores: what they hold comes back, also of older formats, or is an error that helps."""

import os
import signal
import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from mnngp.experiments.database import StoreError
from mnngp.experiments.records import Result, commit
from mnngp.experiments.store import Store
from tests.experiments.sweeps import alter, numbers, protocol_of, swept

# From Python 3.12 on a fork is warned of where there are threads, such as BLAS's.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def test_a_disk_that_is_full_from_the_start(tmp_path):
    with Store.begin(tmp_path / "run.sqlite", protocol_of()) as store:
        store._connection.execute("PRAGMA max_page_count = 1")  # SQLite takes what there is already
        row = Result(
            "d",
            1,
            1,
            1,
            0,
            0,
            "relu",
            None,
            "nngp",
            1,
            1.0,
            0.0,
            "failed",
            *[None] * 7,
            "1",
            None,
            "now",
            "x" * 100_000,
        )
        with pytest.raises(
            StoreError,
            match="cannot be written: database or disk is full; what is finished is kept",
        ):
            store.add([("key", row)])
        assert store.results() == []
        store._connection.execute("PRAGMA max_page_count = 10000")
        store.add([("key", row)])
        assert store.results() == [row]


def as_nobody(function):
    """Call a function in a process without root's rights, and return what it returns or raises, as
    text.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
            text = str(function())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with open(read, "rb") as file:
        return file.read().decode()


@pytest.fixture
def public():
    """A folder that everybody can read."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
        os.chmod(folder, 0o755)


def test_a_folder_that_cannot_be_written(public):
    protocol, path = protocol_of(), public / "run.sqlite"
    os.chmod(public, 0o555)
    assert (
        as_nobody(lambda: Store.begin(path, protocol)) == f"StoreError: {path} cannot be written: "
        f"the folder {public} is read-only"
    )
    os.chmod(public, 0o755)
    Store.begin(path, protocol).close()
    os.chmod(path, 0o444)
    os.chmod(public, 0o777)
    assert (
        as_nobody(lambda: Store.begin(path, protocol))
        == f"StoreError: {path} cannot be written: it is read-only"
    )
    os.chmod(public, 0o555)
    # reading is no problem
    assert as_nobody(lambda: Store.open(path).about()["open"]) == str(len(protocol))


def test_a_writer_that_was_killed_in_the_middle_of_a_commit(public):
    protocol, path = protocol_of(), public / "run.sqlite"
    Store.begin(path, protocol).close()
    content = path.read_bytes()
    child = os.fork()
    if not child:
        try:
            store = Store.begin(path, protocol)
            # so that pages are written before the end
            store._connection.execute("PRAGMA cache_size = 1")
            with store._transaction():
                for number in range(200):
                    store._connection.execute(
                        "INSERT INTO run VALUES (?, ?, '')", (str(number), "x" * 5000)
                    )
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    assert path.read_bytes() != content
    assert path.with_name("run.sqlite-journal").exists()
    os.chmod(path, 0o444)
    os.chmod(public, 0o555)
    assert "was left in the middle of a change; open it once where it can be written" in as_nobody(
        lambda: Store.open(path)
    )
    os.chmod(public, 0o755)
    os.chmod(path, 0o644)
    with Store.open(path) as store:
        assert store.about()["open"] == len(protocol)
    assert path.read_bytes() == content


def test_files_that_are_not_stores(tmp_path):
    path, protocol = tmp_path / "run.sqlite", protocol_of()
    with pytest.raises(StoreError, match=r"run.sqlite is not there"):
        Store.open(path)
    with pytest.raises(StoreError, match="is a folder; name a file"):
        Store.begin(tmp_path, protocol)
    with pytest.raises(StoreError, match=r"the folder .* does not exist"):
        Store.begin(tmp_path / "none" / "run.sqlite", protocol)
    path.write_text("What is this? " * 1000)
    for opened in (Store.open, lambda name: Store.begin(name, protocol)):
        with pytest.raises(
            StoreError, match="is not the store of a run, or is damaged: file is not a database"
        ):
            opened(path)
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cell (a, b)")
    connection.close()
    for opened in (Store.open, lambda name: Store.begin(name, protocol)):
        with pytest.raises(StoreError, match="is a database, but not the store of a run"):
            opened(path)
    path.write_bytes(b"")  # what a process leaves that is killed at the very beginning
    Store.begin(path, protocol).close()
    with Store.open(path) as store:
        assert store.protocol == protocol


# by mnngp at commit f27d051: 2 cells done, 2 failed
FORMAT_2 = Path(__file__).parents[1] / "reference" / "store-format-2.sqlite"


def test_a_store_of_format_2_is_read_as_it_is(tmp_path):
    path = tmp_path / "run.sqlite"
    path.write_bytes(FORMAT_2.read_bytes())
    with Store.open(path) as store:
        results, about = store.results(), store.about()
        assert store.protocol.title == "As format 2 was"
    assert [
        (one.depth, one.status, one.test_log_loss) for one in results if one.status == "done"
    ] == [
        (1, "done", 1.6769819509760127),
        (5, "done", 1.5745508717753416),
    ]
    assert (about["done"], about["failed"], about["open"], about["inaccurate"]) == (2, 2, 0, 0)
    assert path.read_bytes() == FORMAT_2.read_bytes()


def test_a_store_of_format_2_goes_on_with_checksums(digits, tmp_path):
    path = tmp_path / "run.sqlite"
    path.write_bytes(FORMAT_2.read_bytes())
    with Store.open(path) as reader:  # before, and while, it is changed by another
        before, protocol, keys = reader.news(0), reader.protocol, reader.keys()
        Store.begin(path, protocol).close()
        assert (reader.news(0), reader.protocol, reader.keys()) == (before, protocol, keys)
    with Store.begin(path, protocol) as store:
        assert store._value("PRAGMA user_version") == 4
        assert store.news(0) == before
        assert store.about()["created"] == "2026-11-17T09:24:02+00:00"
        assert store.forget_failed() == 2
    assert numbers(swept(path, protocol, digits)) == numbers(result for _, _, result in before)
    alter(path, "UPDATE cell SET test_accuracy = 0.99 WHERE number = 1")
    with Store.open(path) as store, pytest.raises(StoreError, match="does not have its checksum"):
        store.results()


# by mnngp at commit 85a653f: 10 cells
FORMAT_3 = FORMAT_2.with_name("store-format-3.sqlite")


def test_a_store_of_format_3_is_read_as_it_is_and_goes_on(digits, tmp_path):
    path = tmp_path / "run.sqlite"
    path.write_bytes(FORMAT_3.read_bytes())
    with Store.open(path) as store:
        before, protocol = store.news(0), store.protocol
        assert store.about()["done"] == len(protocol) == 10
        assert {result.options for _, _, result in before} == {None}
    assert path.read_bytes() == FORMAT_3.read_bytes()
    keys = {group.key(depth) for group in protocol.groups for depth in group.depths}
    assert keys == {key for _, key, _ in before}
    with Store.begin(path, protocol) as store:
        assert store._value("PRAGMA user_version") == 4
        assert store.news(0) == before
    found = swept(tmp_path / "new.sqlite", protocol, digits)
    old = numbers(result for _, _, result in before)
    for cell, values in numbers(found).items():
        assert values[1:5] == pytest.approx(old[cell][1:5], rel=1e-9)


def test_a_store_of_format_2_that_is_damaged_stays_as_it_is(tmp_path):
    path = tmp_path / "run.sqlite"
    path.write_bytes(FORMAT_2.read_bytes())
    alter(path, "UPDATE cell SET test_accuracy = 'a text' WHERE depth = 5")
    content = path.read_bytes()
    with Store.open(path) as store:
        protocol = store.protocol
        with pytest.raises(StoreError, match=r"holds test_accuracy = 'a text'"):
            store.results()
    for opened in (lambda: Store.begin(path, protocol), lambda: Store.open(path, readonly=False)):
        with pytest.raises(
            StoreError,
            match=r"holds test_accuracy = 'a text', which is not of "
            r"type float",
        ):
            opened()
        assert path.read_bytes() == content


def test_a_letter_of_format_2_that_is_damaged(tmp_path):
    path = tmp_path / "run.sqlite"
    path.write_bytes(
        FORMAT_2.read_bytes().replace(
            b"ScaleError: the kernel is about 1e4", b"ScaleError: the \xffernel is about 1e4"
        )
    )
    with Store.open(path) as store, pytest.raises(StoreError, match="Could not decode to UTF-8"):
        store.results()


def test_no_number_is_given_twice(digits, tmp_path):
    path, protocol = tmp_path / "run.sqlite", protocol_of(train=40)
    results = swept(path, protocol, digits)
    with Store.begin(path, protocol) as store:
        cells_ = store.news(0)
        last = cells_[-1][0]
        store.add([("new", replace(results[0], status="failed", test_accuracy=None, error="no"))])
        ((number, key, _),) = store.news(last)
        assert (number, key) == (last + 1, "new")
        assert store.forget_failed() == 1
        # the second is there already
        store.add([("newer", results[0]), (cells_[0][1], results[1])])
        ((number, key, _),) = store.news(last)
        assert (number, key) == (last + 2, "newer")
        assert store.news(0) == [*cells_, (last + 2, "newer", results[0])]


def test_values_come_back_as_they_were_stored(tmp_path):
    """An integer for a real number, and a zero with a sign, are not what SQLite gives back."""
    row = Result(
        "d",
        1,
        1,
        1,
        0,
        0,
        "relu",
        None,
        "nngp",
        1,
        1,
        -0.0,
        "done",
        *[0.5, -0.0, 1, 0.1, 0, 1, 5e-324],
        "1",
        None,
        "now",
        "é\0x",
    )
    with Store.begin(tmp_path / "run.sqlite", protocol_of()) as store:
        store.add([("key", row)])
        assert store.results() == [row]
        assert store.about()["done"] == 1


def test_the_commit_is_that_of_the_packages_sources(tmp_path, monkeypatch):
    found = commit()
    assert found is None or len(found.rstrip("+")) == 40
    commit.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))  # no git
    assert commit() is None
    commit.cache_clear()
