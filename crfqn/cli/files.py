"""`crfqn data list | get | verify` for the registered datasets; `crfqn convert` for models of other tools."""

from pathlib import Path
from typing import Any

from crfqn.cli.exits import ExitCode
from crfqn.cli.output import say, to_json
from crfqn.errors import DataError, DataUnavailableError, InputError
from crfqn.messages import MESSAGES
from crfqn.readers.datasets import Dataset, dataset, list_datasets


def list_all(*, as_json: bool) -> None:
    """Print each dataset and the paths of its files."""
    rows = [_row(entry) for entry in list_datasets()]
    if as_json:
        print(to_json(rows))
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        print(f"{row['name']:<{width}}  {row['title']}")
        missing = "built in" if row["is_embedded"] else f"not here: crfqn data get {row['name']}"
        for place in row["paths"] or [missing]:
            print(f"{'':<{width}}  {place}")
        print(f"{'':<{width}}  licence: {row['licence']}; source: {row['source']}")


def _row(entry: Dataset) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "licence": entry.licence,
        "source": entry.source,
        "is_embedded": entry.is_embedded,
        "paths": [str(path) for path in entry.locate()],
    }


def fetch(name: str, *, as_json: bool, is_quiet: bool) -> None:
    """Fetch a dataset into the cache and print the paths of its files."""
    entry = _find(name)
    paths: tuple[Path, ...] = ()
    if not entry.is_embedded:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        how: dict[str, Any] = {"transient": True, "redirect_stdout": False}
        how["disable"] = is_quiet or bool(entry.locate())
        with Progress(*columns, console=Console(file=MESSAGES), **how) as bar:  # type: ignore[arg-type]
            task = bar.add_task(name, total=None)
            paths = entry.fetch(
                on_progress=lambda received, total: bar.update(task, completed=received, total=total or None)
            )
    if as_json:
        print(to_json(_row(entry)))
    elif entry.is_embedded:
        print(f"{name} is built in: nothing to fetch")
    else:
        print(*paths, sep="\n")


def verify(name: str, *, as_json: bool) -> int:
    """Check a dataset and print how it was checked; return the exit code."""
    entry = _find(name)
    try:
        verification = entry.verify()
    except DataUnavailableError:
        raise
    except DataError as error:
        say(f"crfqn: {error}")
        return ExitCode.NO_DATA
    if as_json:
        print(to_json(_row(entry) | {"is_passed": verification.is_passed, "message": verification.message}))
    else:
        place = ", ".join(map(str, verification.paths)) or "built in"
        print(f"{name}: {place}: {verification.message}")
    return ExitCode.OK if verification.is_passed else ExitCode.NO_DATA


def _find(name: str) -> Dataset:
    try:
        return dataset(name)
    except DataError as error:
        raise InputError(str(error)) from error


def convert_model(
    source: Path,
    target: Path,
    source_format: str | None,
    target_format: str | None,
    *,
    as_json: bool,
    is_quiet: bool,
    **options: Any,
) -> None:
    """Read a model file and write it in another format; options that are None or False are left out."""
    from crfqn import interchange

    options = {name: value for name, value in options.items() if value not in (None, False)}
    model = interchange.convert(source, target, source_format, target_format, **options)
    n_weights = model.model_.n_stored
    if as_json:
        facts = {"path": str(target), "bytes": target.stat().st_size, "kind": model.KIND}
        print(to_json(facts | {"n_labels": len(model.classes_), "n_weights": n_weights}))
    elif not is_quiet:
        say(f"wrote {target}: {len(model.classes_)} labels, {n_weights:,} weights")
