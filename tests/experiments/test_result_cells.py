"""The committed cells of the results page: written, read and laid out as a store again."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mnngp.experiments.store import Store
from tests.experiments.sweeps import protocol_of, swept

ROOT = Path(__file__).parents[2]
CONFIG = """
[data]
name = "digits"
train = [60]
validation = 200
repeats = 2

[[family]]
activation = "maxout"
rank = [2, 3]
depth = [1, 2]
weight_var = 0.8
bias_var = 0.1
"""


@pytest.fixture
def cells(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    monkeypatch.delitem(sys.modules, "result_cells", raising=False)
    import result_cells

    monkeypatch.setattr(result_cells, "RESULTS", tmp_path)
    monkeypatch.chdir(tmp_path)
    return result_cells


@pytest.mark.parametrize(("count", "ending"), [(1, ".csv"), (2, ".csv"), (4, ".csv.gz")])
def test_what_is_written_is_read(cells, monkeypatch, tmp_path, digits, count, ending):
    monkeypatch.setattr(cells, "MANY", 3)
    protocol = protocol_of(train=60, validation=200, test=599)
    results = swept(tmp_path / "run.sqlite", protocol, digits)[:count]
    cells.write("run", results[:1] if count > 3 else results)  # a run that has grown since
    assert cells.write("run", results).name == f"run{ending}"
    assert cells.runs("r*") == ["run"]
    found = cells.read("run")

    def known(one):
        rounded = {
            name: round(getattr(one, name), digits) for name, digits in cells.ROUNDED.items()
        }
        return replace(one, **rounded, commit=one.commit and one.commit[:12])

    assert set(map(known, found)) == set(map(known, results))
    assert cells.read("nothing") == ()


def test_a_sweep_goes_on_with_what_is_committed(cells, tmp_path, digits):
    from mnngp.experiments.protocol import Protocol

    config = tmp_path / "run.toml"
    config.write_text(CONFIG)
    protocol = Protocol.load(config)
    whole = swept(tmp_path / "whole.sqlite", protocol, digits)
    cells.write("run", [one for one in whole if one.repeat == 0])
    path, count = cells.restore(config)
    assert count == 4
    with Store.open(path) as store:
        assert {one.repeat for one in store.results()} == {0}
        missing = [group.split.repeat for group in protocol.groups if store.missing(group)]
    assert set(missing) == {1}
    config.write_text(CONFIG.replace("validation = 200", "validation = 100"))
    with pytest.raises(SystemExit, match="of other data than the protocol"):
        cells.restore(config)
