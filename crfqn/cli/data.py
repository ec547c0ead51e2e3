"""`crfqn data list | get | verify`: the datasets of the registry on this machine."""

import json
from typing import Any

from crfqn.cli.exits import ExitCode, say
from crfqn.datasets import Dataset, dataset, list_datasets
from crfqn.errors import DataError, DataUnavailableError, InputError


def list_all(*, as_json: bool) -> None:
    """Print each dataset and where it is."""
    rows = [_row(entry) for entry in list_datasets()]
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        place = "built in" if row["is_embedded"] else row["path"] or f"not here: crfqn data get {row['name']}"
        print(f"{row['name']:<{width}}  {row['title']}\n{'':<{width}}  {place}")
        print(f"{'':<{width}}  licence: {row['licence']}; source: {row['source']}")


def _row(entry: Dataset) -> dict[str, Any]:
    path = entry.locate()
    return {
        "name": entry.name,
        "title": entry.title,
        "licence": entry.licence,
        "source": entry.source,
        "is_embedded": entry.is_embedded,
        "path": None if path is None else str(path),
    }


def fetch(name: str, *, is_quiet: bool) -> None:
    """Fetch a dataset and print where it is."""
    entry = _find(name)
    if entry.is_embedded:
        print(f"{name} is built in: nothing to fetch")
        return
    if is_quiet or entry.locate() is not None:
        print(entry.fetch())
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        task = progress.add_task(name, total=None)
        path = entry.fetch(
            on_progress=lambda received, total: progress.update(task, completed=received, total=total or None)
        )
    print(path)


def verify(name: str) -> int:
    """Check a dataset and print which check was made; returns the exit code."""
    entry = _find(name)
    try:
        verification = entry.verify()
    except DataUnavailableError:
        raise
    except DataError as error:
        say(f"crfqn: {error}")
        return ExitCode.NO_DATA
    place = "built in" if verification.path is None else verification.path
    print(f"{name}: {place}: {verification.message}")
    return ExitCode.OK if verification.is_exact else ExitCode.NO_DATA


def _find(name: str) -> Dataset:
    try:
        return dataset(name)
    except DataError as error:
        raise InputError(str(error)) from error
