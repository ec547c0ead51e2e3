"""Entries of the registry: a dataset is described by a file `data/<name>.toml`.

It holds title, licence, source, reader, the files (of each part any one is enough) and what must be in them.
"""

import tomllib
from pathlib import Path
from typing import Any

from crfqn.datasets.bundled import bundled
from crfqn.datasets.content import Content
from crfqn.datasets.entry import Dataset
from crfqn.datasets.files import DataFile
from crfqn.datasets.reading import FILE_READERS, GENERATORS
from crfqn.errors import DataError


def list_datasets() -> list[Dataset]:
    """Return all datasets of the registry, sorted by name."""
    return [_read_entry(path) for path in sorted(bundled("data").glob("*.toml"))]


def dataset(name: str) -> Dataset:
    """Return the dataset of that name.

    Raises
    ------
    DataError
        There is none; the text lists the names.
    """
    path = bundled("data") / f"{name}.toml"
    if Path(name).name != name or not path.is_file():
        names = ", ".join(entry.name for entry in list_datasets())
        raise DataError(f"there is no dataset {name!r}; there are: {names}")
    return _read_entry(path)


def _read_entry(path: Path) -> Dataset:
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        shape = table.pop("shape", None)
        if shape is not None:
            n_rows, n_columns = shape
            shape = n_rows, n_columns
        files = tuple(_file(file) for file in table.pop("files", []))
        content = Content(**table.pop("content"))
        entry = Dataset(content=content, files=files, shape=shape, **table)
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(f"{path}: not a registry entry: {error}") from error
    unknown = {entry.reader, *(file.reader for file in files if file.reader)} - {*FILE_READERS, *GENERATORS}
    if unknown:
        raise DataError(f"{path}: unknown readers: {', '.join(sorted(unknown))}")
    return entry


def _file(table: dict[str, Any]) -> DataFile:
    names, addresses = (tuple(table.pop(name, ())) for name in ("also_named", "addresses"))
    return DataFile(also_named=names, addresses=addresses, **table)
