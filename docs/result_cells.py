"""The cells behind the results page: what `mnngp sweep` computed, as CSV in experiments/results/.

`python docs/result_cells.py CONFIG.toml …` lays a store from what is there of a protocol, so that
`mnngp sweep CONFIG.toml` goes on where the committed cells end.

A file begins with a line of what all of its cells have in common, `# {"dataset": "mnist", …}`; the
columns are what differs. Files of many cells are compressed: pandas and polars read them all the
same.
"""

import csv
import gzip
import io
import json
import sys
from collections import Counter
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

from mnngp.experiments.protocol import Protocol
from mnngp.experiments.records import Result
from mnngp.experiments.store import Store

RESULTS = Path(__file__).parents[1] / "experiments" / "results"
ROUNDED = {"validation_log_loss": 6, "test_log_loss": 6, "seconds": 3}
SHORT = 12  # characters of a commit: one a cell in tens of thousands
MANY = 5_000  # cells from which on a file is compressed, to a tenth


def add(run: Path) -> Path:
    """Write a run's finished cells to a CSV file; only those of training sets that are complete."""
    with Store.open(run) as store:
        results = [result for result in store.results() if result.status != "failed"]
        asked = Counter(
            (group.split.n_train, group.split.repeat)
            for group in store.protocol.groups
            for _ in group.depths
        )
    count = Counter((result.n_train, result.repeat) for result in results)
    whole = [
        result
        for result in results
        if count[result.n_train, result.repeat] == asked[result.n_train, result.repeat]
    ]
    if not whole:
        raise SystemExit(f"{run}: no training set is complete")
    return write(run.stem, whole)


def write(name: str, results: list[Result]) -> Path:
    """The cells in the order of their repeats, whatever the order they were computed in."""
    rows = [_rounded(result) for result in results]
    rows.sort(key=lambda row: (row["n_train"], row["repeat"]))
    names = [field.name for field in fields(Result)]
    alike = [name for name in names if len({row[name] for row in rows}) == 1]
    common = {name: rows[0][name] for name in alike if name != "repeat"}  # one column at least
    file = io.StringIO(newline="")
    file.write(f"# {json.dumps(common, ensure_ascii=False)}\n")
    rest = [name for name in names if name not in common]
    writer = csv.DictWriter(file, rest, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    content = file.getvalue().encode()
    plain, packed = RESULTS / f"{name}.csv", RESULTS / f"{name}.csv.gz"
    few = len(rows) < MANY
    path, other = (plain, packed) if few else (packed, plain)
    # without the time, so that the same cells are the same file
    path.write_bytes(content if few else gzip.compress(content, mtime=0))
    other.unlink(missing_ok=True)
    return path


def runs(pattern: str) -> list[str]:
    """The names of the runs that were added, such as those of "convolution-*"."""
    return sorted(path.name.partition(".")[0] for path in RESULTS.glob(f"{pattern}.csv*"))


def _rounded(result: Result) -> dict[str, Any]:
    row = asdict(result)
    for name, digits in ROUNDED.items():
        row[name] = None if row[name] is None else round(row[name], digits)
    row["commit"] = row["commit"] and row["commit"][:SHORT] + "+" * row["commit"].endswith("+")
    return row


@cache  # the page asks for the same runs in several tables and pictures
def read(name: str) -> tuple[Result, ...]:
    """The cells of a run that was added; none if it was not."""
    types = get_type_hints(Result)
    plain, packed = RESULTS / f"{name}.csv", RESULTS / f"{name}.csv.gz"

    def value(name: str, text: str) -> Any:
        kind = types[name]
        if isinstance(kind, UnionType):
            if not text:
                return None
            kind = next(option for option in get_args(kind) if option is not NoneType)
        return kind(text)

    if not plain.exists() and not packed.exists():
        return ()
    content = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
    with io.StringIO(content.decode(), newline="") as file:
        common = json.loads(file.readline().removeprefix("# "))
        return tuple(
            Result(**common, **{name: value(name, text) for name, text in row.items()})
            for row in csv.DictReader(file)
        )


def restore(config: Path) -> tuple[Path, int]:
    """A store with the cells that are there of a protocol, where `mnngp sweep` looks for it."""
    protocol, path = Protocol.load(config), Path(f"{config.stem}.sqlite")
    keys = {}
    for group in protocol.groups:
        training = None if group.training is None else str(group.training)
        for depth in group.depths:
            network = (group.activation, group.rank, group.kind, group.weight_var, group.bias_var)
            options = (group.width, training, group.options, depth)
            keys[group.split.n_train, group.split.repeat, network, options] = group.key(depth)
    known, data = [], (protocol.dataset, protocol.seed, protocol.validation, protocol.test)
    for one in read(config.stem):
        if (one.dataset, one.seed, one.n_validation, one.n_test) != data:
            raise SystemExit(f"{config}: the committed cells are of other data than the protocol")
        network = (one.activation, one.rank, one.kind, one.weight_var, one.bias_var)
        options = (one.width, one.training, one.options, one.depth)
        key = keys.get((one.n_train, one.repeat, network, options))
        if key is not None:
            known.append((key, one))
    with Store.begin(path, protocol) as store:
        store.add(known)
    return path, len(known)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        store, count = restore(Path(given))
        print(f"{store}: {count:,} cells")
