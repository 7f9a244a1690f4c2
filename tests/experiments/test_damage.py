"""Stores that were tampered with or damaged: an error, never another number."""

import os
import random
from collections import Counter as Counted

import pytest

from mnngp.experiments.database import StoreError
from mnngp.experiments.store import Store
from tests.experiments.sweeps import Counter, alter, numbers, protocol_of, swept
from tests.made_up import sealed


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "PRAGMA user_version = 5",
            "has the format 5, mnngp .* reads 1 to 4; a newer mnngp reads it",
        ),
        ("PRAGMA user_version = 2", "does not have the tables of a store"),
        (
            "CREATE TRIGGER t AFTER INSERT ON cell BEGIN DELETE FROM cell; END",
            "does not have the tables of a store",
        ),
        ("CREATE VIEW v AS SELECT * FROM cell", "does not have the tables of a store"),
        ("DROP TABLE cell", "does not have the tables of a store"),
        (
            "DELETE FROM run WHERE name = 'protocol'",
            "what it says of its run is not what was stored",
        ),
        (
            "DELETE FROM run WHERE name = 'machine'",
            "what it says of its run is not what was stored",
        ),
        ("UPDATE run SET value = '[]' WHERE name = 'protocol'", "does not hold a protocol"),
        (
            "UPDATE run SET value = replace(value, 'digits', 'x') WHERE name = 'protocol'",
            "does not hold a protocol.*data.name",
        ),
        (
            ("UPDATE run SET value = ? WHERE name = 'protocol'", ("[" * 100_000,)),
            "does not hold a protocol",
        ),
    ],
)
def test_stores_that_were_tampered_with(tmp_path, statement, message):
    path = tmp_path / "run.sqlite"
    Store.begin(path, protocol_of()).close()
    alter(path, statement)
    if "UPDATE" in str(statement):
        with pytest.raises(
            StoreError,
            match=r"what it says of its run is not what was stored.*; "
            r"take a copy",
        ):
            Store.open(path)
        sealed(path)
    with pytest.raises(StoreError, match=message):
        Store.open(path)


@pytest.mark.parametrize("value", ["'a text'", "1e999", "NULL", "x'00'"])
def test_values_that_were_tampered_with(tmp_path, digits, value):
    path, protocol = tmp_path / "run.sqlite", protocol_of(train=40)
    swept(path, protocol, digits)
    alter(path, f"UPDATE cell SET test_accuracy = {value} WHERE depth = 5")
    with (
        Store.open(path) as store,
        pytest.raises(
            StoreError, match=r"the cell '40/0/maxout-4/.*/5' does not have its checksum"
        ),
    ):
        store.results()
    sealed(path)
    with (
        Store.open(path) as store,
        pytest.raises(
            StoreError,
            match=r"holds .*; it was changed or "
            r"damaged",
        ),
    ):
        store.results()


def test_a_damaged_store(tmp_path, digits):
    path, protocol = tmp_path / "run.sqlite", protocol_of()
    swept(path, protocol, digits)
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    with (
        pytest.raises(
            StoreError,
            match=r"is not the store of a run, or is damaged|it was changed "
            r"or damaged|does not",
        ),
        Store.open(path) as store,
    ):
        store.results()


def contents(opened):
    with opened as store:
        return store.protocol, store.about(), store.results(), [key for _, key, _ in store.news(0)]


@pytest.mark.parametrize("seed", range(2))
def test_a_flipped_bit_is_an_error_or_changes_nothing(whole, tmp_path, seed):
    """Wherever it is, in values or in SQLite's own pages; also where the store is then opened to be
    added to.
    """
    content, expected = whole.read_bytes(), contents(Store.open(whole))
    generator, path, count = random.Random(seed), tmp_path / "run.sqlite", Counted()
    for bit in generator.sample(range(8 * len(content)), 200):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        for opened in (Store.open, lambda name: Store.begin(name, expected[0])):
            try:
                found = contents(opened(path))
            except StoreError:
                count["error"] += 1
            else:
                count["same"] += 1
                assert found == expected, f"bit {bit % 8} of byte {bit // 8}"
    assert min(count["error"], count["same"]) > 40  # both happen, in about equal shares


def test_cells_that_are_lost_or_doubled(whole, tmp_path):
    path = tmp_path / "run.sqlite"
    path.write_bytes(whole.read_bytes())
    alter(path, "DELETE FROM cell WHERE number = 7")
    for look in (Store.results, Store.about):
        with (
            Store.open(path) as store,
            pytest.raises(StoreError, match="does not hold just the 36 cells that were stored"),
        ):
            look(store)
    alter(path, "UPDATE total SET cells = 35")
    with (
        Store.open(path) as store,
        pytest.raises(StoreError, match="does not hold just the 35 cells"),
    ):
        store.results()
    alter(path, "DELETE FROM total")
    with (
        Store.open(path) as store,
        pytest.raises(StoreError, match="does not say how many cells it holds"),
    ):
        store.results()


def test_what_is_damaged_is_computed_again(whole, digits, tmp_path):
    """Without the cells that are as they were stored; what is lost does not cost the whole run."""
    path, before = tmp_path / "run.sqlite", contents(Store.open(whole))
    path.write_bytes(whole.read_bytes())
    alter(
        path,
        "UPDATE cell SET test_accuracy = test_accuracy + 0.01 WHERE number = 2",
        "UPDATE cell SET key = 'x' || key WHERE number = 3",
        "DELETE FROM cell WHERE number = 4",
    )
    protocol, failed = before[0], before[1]["failed"]
    with pytest.raises(
        StoreError, match="mnngp sweep --retry-failed computes what is damaged again"
    ):
        swept(path, protocol, digits)
    with Store.begin(path, protocol) as store:
        assert store.forget_failed() == failed + len(
            [one for one in before[2][1:3] if one.status != "failed"]
        )
    counter = Counter()
    results = swept(path, protocol, digits, counter)
    assert numbers(results) == numbers(before[2])
    assert counter.found == len(
        [one for one in before[2] if one.status != "failed" and one not in before[2][1:4]]
    )
    kept = [one for one in before[2] if one in results]
    assert len(kept) >= counter.found
