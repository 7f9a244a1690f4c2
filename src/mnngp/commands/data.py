"""``mnngp data``: which collections there are, and how to get them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="Collections of images: what there is, and downloads (checked by hash).",
)
DATA_DIR = typer.Option(
    None, "--data-dir", help="Folder of the files [default: $MNNGP_DATA, or the user's cache]."
)


@app.command("list", epilog="Example: mnngp data list")
def show(
    data_dir: Path | None = DATA_DIR,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show the collections, and where they are."""
    from mnngp import data

    facts: list[dict[str, Any]] = [
        {
            "name": each.name,
            "train": each.train,
            "test": each.test,
            "shape": list(each.shape),
            "classes": len(each.classes),
            "download_megabytes": each.megabytes,
            "place": str(found) if (found := data.find(each.name, data_dir)) is not None else None,
        }
        for each in data.COLLECTIONS.values()
    ]
    if as_json:
        typer.echo(json.dumps(facts))
        return
    from rich.console import Console
    from rich.table import Column, Table

    table = Table(
        "name", "images", "to test on", "shape", "download", Column("where", overflow="fold")
    )
    for fact in facts:
        here = "in scikit-learn" if fact["name"] == "digits" else fact["place"] or "not here"
        size = f"{fact['download_megabytes']:.0f} MB" if fact["download_megabytes"] else ""
        counts = (f"{fact['train']:,}", f"{fact['test']:,}")
        table.add_row(fact["name"], *counts, "×".join(map(str, fact["shape"])), size, here)
    Console().print(table)
    typer.echo("mnngp data fetch NAME downloads one.")


@app.command(epilog="Example: mnngp data fetch mnist")
def fetch(
    name: str = typer.Argument(..., help="mnist, fashion-mnist or cifar10."),
    data_dir: Path | None = DATA_DIR,
) -> None:
    """Download a collection from its public home, unless it is there already."""
    from mnngp import data

    paths = data.fetch(name, data_dir)
    for path in paths:
        typer.echo(path)
    if not paths:
        typer.echo(f"{name} comes with scikit-learn: nothing to download")
