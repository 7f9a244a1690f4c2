"""``mnngp sweep``, ``table`` and ``report``: run a protocol, and see what it found."""

from __future__ import annotations

import json
import logging
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mnngp._io import PAGES, atomic_write, writable
from mnngp._system.extras import require
from mnngp.commands.data import DATA_DIR
from mnngp.experiments.records import Watcher

if TYPE_CHECKING:
    from mnngp.experiments.protocol import Split
    from mnngp.experiments.records import Result
    from mnngp.experiments.selection import Setting

_SUFFIXES = {"text": ".txt", "csv": ".csv", "markdown": ".md", "latex": ".tex"}
_RUN = typer.Argument(..., metavar="RUN", help="The store that mnngp sweep wrote.")
_REPEATS = typer.Option(
    None, min=1, help="Only the first so many repeats, for a run that is under way."
)
_EVERY = 10.0  # seconds between two lines where there is no terminal


def sweep(
    config: Path = typer.Argument(..., metavar="CONFIG", help="The protocol: a TOML file."),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        metavar="RUN",
        help="The store of results [default: CONFIG with .sqlite, here].",
    ),
    data_dir: Path | None = DATA_DIR,
    workers: int | None = typer.Option(
        None, min=1, help="Compute in so many processes of a Dask cluster on this machine."
    ),
    scheduler: str | None = typer.Option(
        None,
        metavar="ADDRESS",
        help="Compute on a running Dask cluster, such as tcp://10.0.0.1:8786.",
    ),
    retry_failed: bool = typer.Option(
        False, "--retry-failed", help="Try cells again that failed before, or were damaged."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON at the end."),
) -> None:
    """Run all cells of a protocol, or those that are not done yet.

    Stopped or killed at any moment, the same command goes on; several at once share the work. Exit
    code 1: some cells failed.
    """
    if workers is not None and scheduler is not None:
        raise typer.BadParameter(
            "--workers starts a cluster, --scheduler names one; give one of them",
            param_hint="--workers",
        )
    start = time.monotonic()
    path = Path(f"{config.stem}.sqlite") if output is None else output
    cluster = {"workers": workers, "scheduler": scheduler}
    try:
        about = _run(config, path, data_dir, retry_failed, cluster)
    except KeyboardInterrupt:
        kept = f"what is finished is in {path}, and the same command goes on"
        typer.echo(f"stopped; {kept}", err=True)
        raise typer.Exit(130) from None
    seconds = time.monotonic() - start
    if as_json:
        counts = {key: about[key] for key in ("cells", "done", "failed", "diverged", "inaccurate")}
        facts = {"path": str(path), **counts, "seconds": seconds}
        typer.echo(json.dumps(facts))
    else:
        said = f"{about['done']:,} of {about['cells']:,} cells are done"
        if about["inaccurate"]:
            said += f", {about['inaccurate']:,} of them less accurately than usual"
        if about["diverged"]:
            said += f", {about['diverged']:,} diverged"
        typer.echo(f"{said}, in {path} ({_duration(seconds)})")
    if about["failed"]:
        typer.echo(
            f"error: {about['failed']:,} cells failed; mnngp sweep --retry-failed tries them again",
            err=True,
        )
        raise typer.Exit(1)


def _run(
    config: Path, path: Path, data_dir: Path | None, retry_failed: bool, cluster: dict[str, Any]
) -> dict[str, Any]:
    from mnngp import data, finite
    from mnngp.experiments.protocol import Protocol
    from mnngp.experiments.store import Store

    protocol = Protocol.load(config)
    on_cluster = any(value is not None for value in cluster.values())
    # Without its data, or what it needs, a sweep cannot begin, and leaves no store behind.
    if any(family.kind == "finite" for family in protocol.families):
        finite.require_torch()
    if on_cluster:
        from mnngp._system.connection import checked_address, distributed

        distributed()  # or an error
        if cluster["scheduler"] is not None:
            checked_address("--scheduler", cluster["scheduler"])
    images = None if path.exists() else data.load(protocol.dataset, data_dir)
    with Store.begin(path, protocol) as store:
        if retry_failed:
            store.forget_failed()
        if store.about()["open"]:
            from mnngp.experiments import runner

            images = images or data.load(protocol.dataset, data_dir)
            display = Display(protocol.title or config.stem)
            if on_cluster:
                from mnngp.experiments import dask_runner

                # What happens to workers is the cluster's business, and in its own logs; here it
                # would tear the display apart.
                logging.disable(logging.CRITICAL)
                with dask_runner.connected(**cluster) as client, display:
                    dask_runner.run(protocol, store, images, client, display)
            else:
                with display:
                    runner.run(protocol, store, images, display)
        return store.about()


class Display(Watcher):
    """How the sweep goes, on standard error: a live panel on a terminal, else lines."""

    def __init__(self, title: str) -> None:
        from rich.console import Console

        self.title, self.console = _printable(title), Console(stderr=True, highlight=False)
        self.live: Any = None
        self.total = self.ours = 0
        self.advance = 0.0  # in cells that are computed here, finished ones included
        # Finished cells, and those of them that failed: another process may open these again.
        self.cells: set[tuple[Setting, int]] = set()
        self.failed: set[tuple[Setting, int]] = set()
        self.phase, self.error = "", ""
        self.started = self.told = time.monotonic()
        self.accuracies: dict[Setting, list[float]] = defaultdict(list)

    def __enter__(self) -> Display:
        if self.console.is_terminal:
            from rich.live import Live

            self.live = Live(get_renderable=self._panel, console=self.console, transient=True)
            self.live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.live is not None:
            self.live.__exit__(*error)

    # --- what a watcher is told -------------------------------------------------------------------

    def begin(self, total: int, finished: Sequence[Result]) -> None:
        self.total = total
        self._take(finished)
        self.started = time.monotonic()
        already = f", {len(self.cells):,} of them done before" if self.cells else ""
        self._say(f"{self.title}: {total:,} cells{already}")

    def preparing(self, split: Split) -> None:
        self.phase = f"{split.n_train:,} training images, repeat {split.repeat + 1}"

    def finished(self, results: Sequence[Result]) -> None:
        self.ours += len(results)
        self.advance = max(self.advance, float(self.ours))
        self._take(results)
        from mnngp.experiments.selection import Setting

        for result in results:
            if result.status == "failed":
                self._say(f"failed: {_network(Setting.of(result))}: {result.error}")
        if (
            self.live is None
            and results
            and (time.monotonic() > self.told + _EVERY or len(self.cells) == self.total)
        ):
            self._say(" · ".join(self._facts()))

    def advanced(self, cells: float) -> None:
        self.advance += cells
        if self.live is None and time.monotonic() > self.told + _EVERY:
            self._say(" · ".join(self._facts()))

    def waiting(self, cells: int) -> None:
        self._waits(f"another process is computing the last {cells:,} cells")

    def no_workers(self) -> None:
        self._waits("the cluster has no workers yet; waiting for some")

    def _waits(self, phase: str) -> None:
        if self.live is None and self.phase != phase:
            self._say(phase)
        self.phase = phase

    # --- what is shown ----------------------------------------------------------------------------

    def _take(self, results: Sequence[Result]) -> None:
        from mnngp.experiments.selection import Setting

        for result in results:
            cell = Setting.of(result), result.repeat
            self.cells.add(cell)
            (self.failed.add if result.status == "failed" else self.failed.discard)(cell)
            if result.validation_accuracy is not None:
                self.accuracies[Setting.of(result)].append(result.validation_accuracy)

    def _say(self, text: str) -> None:
        """A line; what it says is data, not mark-up."""
        self.told = time.monotonic()
        self.console.print(_printable(text), markup=False, soft_wrap=True)

    def _facts(self) -> list[str]:
        ahead = max(0.0, self.advance - self.ours)  # of cells that are under way
        under_way = f", {ahead:.2f} under way" if ahead >= 0.01 else ""
        facts = [f"{len(self.cells):,} of {self.total:,} cells{under_way}"]
        seconds = time.monotonic() - self.started
        if self.ours + ahead > 0.0 and seconds > 0.0:
            rate = (self.ours + ahead) / seconds
            left = _duration(max(0.0, self.total - len(self.cells) - ahead) / rate)
            facts += [f"{rate:.3g} a second", f"{left} left"]
        if self.failed:
            facts.append(f"{len(self.failed):,} failed")
        best = self._best()
        return [*facts, f"best {best}"] if best and self.live is None else facts

    def _best(self) -> str:
        """The network with the highest mean validation accuracy so far, at each size."""
        best: dict[int, tuple[float, Setting]] = {}
        for setting, values in self.accuracies.items():
            mean = sum(values) / len(values)
            if setting.n_train not in best or mean > best[setting.n_train][0]:
                best[setting.n_train] = mean, setting
        return "; ".join(
            f"{mean:.4f} with {n_train:,}: {_network(setting)}"
            for n_train, (mean, setting) in sorted(best.items())
        )

    def _panel(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        line = Table.grid(padding=(0, 2))
        line.add_row(
            ProgressBar(total=max(1, self.total), completed=len(self.cells), width=30),
            Text(" · ".join(self._facts())),
        )
        best = (f"best validation accuracy {one}" for one in self._best().split("; ") if one)
        lines = (Text(text, style="green") for text in best)
        return Group(Text(self.title, style="bold"), line, Text(self.phase, style="dim"), *lines)


def _printable(text: str) -> str:
    """Without what would steer a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _network(setting: Setting) -> str:
    from mnngp.experiments.protocol import ACTIVATIONS

    unit = setting.activation if setting.rank is None else f"{setting.activation}-{setting.rank}"
    if setting.activation not in ACTIVATIONS and setting.rank is not None:  # all of its layers
        unit = f"{setting.activation}, rank {setting.rank}"
    weight, bias, depth = setting.weight_var, setting.bias_var, setting.depth
    if setting.width is not None:
        deviations = f"weight_std {weight**0.5:.4g}, bias_std {bias**0.5:.4g}"
        return f"{unit}, width {setting.width}, depth {depth}, {deviations}, {setting.training}"
    kind = "" if setting.kind == "nngp" else f" {setting.kind}"
    options = "" if setting.options is None else f", {setting.options}"
    return f"{unit}{kind}, depth {depth}, weight_var {weight:.4g}, bias_var {bias:.4g}{options}"


def _duration(seconds: float) -> str:
    if seconds < 100.0:
        return f"{seconds:.1f} s" if seconds < 10.0 else f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60.0:.1f} h"


# --- what it found --------------------------------------------------------------------------------


def table(
    run: Path = _RUN,
    style: str | None = typer.Option(
        None,
        "--format",
        help="text, csv, markdown or latex [default: what the output's suffix says, else text].",
    ),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="Where to write it (.txt, .csv, .md or .tex) [default: print it].",
    ),
    ranks: bool = typer.Option(False, "--ranks", help="A row for each rank, too."),
    missing: bool = typer.Option(
        False, "--missing", help="Also the rows of the paper that were not run."
    ),
    repeats: int | None = _REPEATS,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Print Table 1: the paper's accuracy, ours with its spread, and the difference in standard
    errors.
    """
    from mnngp import _validation

    style = None if style is None else _validation.one_of("format", style, tuple(_SUFFIXES))
    if output is not None:
        wanted = list(_SUFFIXES) if style is None else [style, "text"]
        suffixes = list(dict.fromkeys(_SUFFIXES[name] for name in wanted))
        writable(output, run, suffixes=[".json"] if as_json else suffixes)
        style = style or next(
            (known for known, suffix in _SUFFIXES.items() if suffix == output.suffix.lower()), None
        )
    from mnngp.experiments import comparison, rendering, selection
    from mnngp.experiments.store import Store

    with Store.open(run) as store:
        results = store.results()
        about = store.about(results)
        rows = selection.rows(results, store.repeats(repeats))
    if about["open"] and repeats is None:
        typer.echo(
            f"{about['done']:,} of {about['cells']:,} cells are done; --repeats N looks at "
            "the first N repeats",
            err=True,
        )
    lines = comparison.lines(rows, ranks=ranks, missing=missing)
    if as_json:
        text = json.dumps([comparison.record(line) for line in lines])
    elif style in (None, "text") and output is None and sys.stdout.isatty():
        text = rendering.as_text(lines, shutil.get_terminal_size().columns).rstrip("\n")
    else:
        text = rendering.render(lines, style or "text").rstrip("\n")
    if output is None:
        typer.echo(text)
    else:
        with atomic_write(output) as file:
            file.write(f"{text}\n".encode())
        typer.echo(f"table: {output}")


def report(
    run: Path = _RUN,
    output: Path = typer.Option(
        Path("report.html"), "--output", "-o", help="Where to write the page (HTML)."
    ),
    title: str | None = typer.Option(None, help="Of the page [default: the protocol's]."),
    repeats: int | None = _REPEATS,
) -> None:
    """Write one page with the table, the figures, timings and what was run; it needs no network."""
    writable(output, run, suffixes=PAGES)
    require("reports", "jinja2", "plotly")
    from mnngp.experiments import report as page
    from mnngp.experiments.store import Store

    with Store.open(run) as store:
        typer.echo(f"report: {page.write(store, output, title=title, repeats=repeats)}")
