"""Registry of datasets: entries described by files `data/<name>.toml`, finding, fetching, checking and reading them.

An entry holds title, licence, source, reader, the files (one of each part is enough) and their expected content.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import numpy as np

from crfqn.errors import DataError, DataUnavailableError, InputError
from crfqn.readers.arff import read_hierarchical_arff
from crfqn.readers.dataset_files import DataFile, DownloadError, OnProgress, cache_folder, parts
from crfqn.readers.images import (
    make_digit_strings,
    read_cifar,
    read_labelled_images,
    read_letter_matlab,
    read_letter_table,
)
from crfqn.readers.labelled_items import Documents, Labeled
from crfqn.readers.registry import FORMATS
from crfqn.readers.texts import collect_docstrings, read_newsgroups
from crfqn.taxonomy.reading import read_taxonomy_file

Data = Labeled | Documents
TAXONOMY_PART = "taxonomy"  # the part that holds the tree of the labels
PACKAGE_FOLDER = Path(__file__).resolve().parents[1]  # crfqn/
COUNT_FIELDS = {
    "items": "n_items",
    "training items": "n_train",
    "positions": "n_positions",
    "different items": "n_distinct_items",
    "labels": "n_labels",
    "features": "n_features",
    "nodes": "n_nodes",
}


@dataclass(frozen=True)
class Content:
    """Expected counts of a dataset; None for those that do not apply."""

    n_items: int
    n_labels: int
    n_train: int | None = None  # items of the data's own training part
    n_positions: int | None = None  # and distinct label sequences, of sequences
    n_distinct_items: int | None = None
    n_features: int | None = None  # columns that have an entry in the training part
    n_nodes: int | None = None  # of the taxonomy
    sha256: str = ""  # the data's `digest()`; empty if it differs by machine or is unknown
    at_least: bool = False  # counts are lower bounds, for example if the data depends on what is installed

    def differences(self, data: Data) -> str:
        """Return the counts that differ, in words; empty when all agree."""
        sizes, at_least = counts(data), "at least " if self.at_least else ""
        wanted = {what: n for what, name in COUNT_FIELDS.items() if (n := getattr(self, name)) is not None}
        return ", ".join(
            f"{sizes.get(what, 'no')} {what} (expected {at_least}{n})"
            for what, n in wanted.items()
            if what not in sizes or (sizes[what] < n if self.at_least else sizes[what] != n)
        )


def counts(data: Data) -> dict[str, int]:
    """Return the sizes of a dataset's data by name (items, labels, ...), for messages and checks."""
    sizes = {"items": data.n_items, "labels": len(data.distinct_labels())}
    if data.n_train is not None:
        sizes["training items"] = data.n_train
    if isinstance(data, Labeled):
        return sizes | {"positions": data.n_positions, "different items": len({*map(tuple, data.labels)})}
    if data.taxonomy is not None:
        sizes["nodes"] = data.taxonomy.n_nodes
    if not isinstance(data.inputs, list):
        sizes["features"] = np.unique(data.inputs[: data.n_train].indices).size
    return sizes


@dataclass(frozen=True)
class Verification:
    """Outcome of a dataset's check, by the kind of check that was possible.

    `check` is "file" (checksums of the files), "content" (counts, and checksum over all labels and inputs), "sizes"
    (the counts agree, no checksum is known), "floors" (the counts reach their lower bounds: data differs by machine, or
    exact counts are unknown) or "counts" (they agree, the checksum does not: a similar file, not the same data).
    """

    paths: tuple[Path, ...]
    check: str
    message: str

    @property
    def is_passed(self) -> bool:
        """Whether the check found the expected data."""
        return self.check != "counts"


@dataclass(frozen=True)
class Dataset:
    """Dataset of the registry: its files have the format `reader`, read with `options`; `shape` is rows and columns of
    images, `by_hand` the advice for files without address."""

    name: str
    title: str
    licence: str
    source: str
    reader: str
    content: Content
    files: tuple[DataFile, ...] = ()
    shape: tuple[int, int] | None = None
    by_hand: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_embedded(self) -> bool:
        """Whether the data is generated from installed packages, and so is always available."""
        return self.reader in DATA_GENERATORS

    def locate(self) -> tuple[Path, ...]:
        """Return the paths of the files on this machine, one a part; empty if one is missing or none is needed."""
        paths = [path for path in self._found() if path is not None]
        return tuple(paths) if len(paths) == len(parts(self.files)) else ()

    def fetch(
        self, timeout: float = 5.0, limit: float | None = None, on_progress: OnProgress | None = None
    ) -> tuple[Path, ...]:
        """Return the paths of the files, downloaded if missing; `timeout` is the maximum time without received bytes,
        `limit` the maximum in all, in seconds. DataUnavailableError names every failed address; DataError if the
        download was not the dataset and has been deleted."""
        end = None if limit is None else time.monotonic() + limit
        paths: list[Path] = []
        downloads: dict[Path, str] = {}  # addresses by path
        for part, path in zip(parts(self.files), self._found(), strict=True):
            if path is None:
                file = next((file for file in part if file.addresses), None)
                if file is None:
                    raise DataUnavailableError(self.how_to_find())
                left = None if end is None else max(0.0, end - time.monotonic())
                path = cache_folder() / self.name / file.name
                try:
                    file.download(path, timeout=timeout, limit=left, on_progress=on_progress)
                except DownloadError as error:
                    raise DataUnavailableError(
                        f"the dataset {self.name!r} could not be downloaded:\n{error}\n"
                        f"By hand: save {file.addresses[0]} as {path}, or in any folder and set "
                        f"CRFQN_DATA to that folder."
                    ) from error
                downloads[path] = file.addresses[0]
            paths.append(path)
        if downloads:
            try:
                self.verify(paths)
            except DataError as error:
                for path in downloads:
                    path.unlink(missing_ok=True)
                sources = ", ".join(downloads.values())
                raise DataError(f"what came from {sources} was deleted again: {error}") from error
        return tuple(paths)

    def verify(self, paths: Sequence[Path] = ()) -> Verification:
        """Check files (by default the located ones) by checksums if they are known, else by content;
        DataUnavailableError if one is missing, DataError if a checksum or count disagrees."""
        paths = tuple(paths) or self._located()
        files = [self._file(path) for path in paths]
        for path, file in zip(paths, files, strict=True):
            if file is not None and (file.sha256 or file.sha256_unpacked):
                file.check(path)
        if paths and all(file is not None and (file.sha256 or file.sha256_unpacked) for file in files):
            whose = "the file's sha256 is" if len(paths) == 1 else f"the {len(paths)} files' sha256 are"
            return Verification(paths, "file", f"{whose} the registered one{'s' if len(paths) > 1 else ''}")
        data = self.load(paths)
        number_of = counts(data)
        what = ", ".join(f"{number_of[kind]} {kind}" for kind in ("items", "positions") if kind in number_of)
        if self.content.at_least:
            reason = "the data depends on what is installed" if self.is_embedded else "no checksum is known"
            return Verification(paths, "floors", f"{what}; {reason}")
        if not self.content.sha256:
            return Verification(paths, "sizes", f"{what} as expected; no checksum of the content is known")
        if data.digest() == self.content.sha256:
            return Verification(paths, "content", f"{what}; sha256 over labels and inputs agrees")
        return Verification(paths, "counts", f"{what} as expected, but labels or inputs differ")

    def load(self, paths: Sequence[Path] = ()) -> Data:
        """Read the dataset (from the located files by default) and check its counts; raises as `verify`."""
        paths = tuple(paths) or self._located()
        if self.is_embedded:
            data = DATA_GENERATORS[self.reader]()
        else:
            readers = [file.reader for file in map(self._file, paths) if file is not None and file.reader]
            shape = {} if self.shape is None else {"shape": self.shape}
            has_taxonomy = any(file.part == TAXONOMY_PART for file in self.files)  # in the last part
            items = paths[:-1] if has_taxonomy else paths
            data = read_files((readers or [self.reader])[0], items, **self.options, **shape)
            if has_taxonomy and isinstance(data, Documents):
                data = replace(data, taxonomy=read_taxonomy_file(paths[-1]))
        differences = self.content.differences(data)
        if differences:
            where = ", ".join(map(str, paths)) or self.name
            raise DataError(f"{where}: not the dataset {self.name!r}: it has {differences}")
        return data

    def how_to_find(self) -> str:
        """Return a message with the missing files, the searched folders and how to get the files."""
        every = parts(self.files)
        missing = [part for part, path in zip(every, self._found(), strict=True) if path is None]
        names = ", ".join(file.name for part in missing for file in (part if len(every) == 1 else part[:1]))
        folder = os.environ.get("CRFQN_DATA")
        if not folder:
            looked = "CRFQN_DATA is not set"
        elif not Path(folder).is_dir():
            looked = f"CRFQN_DATA={folder} is not a folder"
        else:
            looked = f"CRFQN_DATA={folder} and its direct folders have none of them"
        try:
            looked_in_cache = f"nothing in the cache {cache_folder() / self.name}"
        except DataUnavailableError as error:
            looked_in_cache = str(error)
        get = (
            f"Get it by hand: {self.by_hand}" if self.by_hand else f"Get it with `crfqn data get {self.name}`"
        )
        files = f"files: {names}" if len(every) == 1 else f"missing of its {len(every)} files: {names}"
        return (
            f"the dataset {self.name!r} is not on this machine ({files}). {looked}; {looked_in_cache}. {get}, "
            f"or set CRFQN_DATA to a folder that has {'one of the files' if len(every) == 1 else 'them'}."
        )

    def _found(self) -> Iterator[Path | None]:
        """Yield, for each part, the path of the first of its files that is there, None if there is none."""
        for part in parts(self.files):
            yield next((path for file in part if (path := file.locate(self.name))), None)

    def _located(self) -> tuple[Path, ...]:
        paths = self.locate()
        if not paths and not self.is_embedded:
            raise DataUnavailableError(self.how_to_find())
        return paths

    def _file(self, path: Path) -> DataFile | None:
        """Return the entry of the file at a path, None for a file of another name."""
        for file in self.files:
            for name in map(Path, (file.name, *file.also_named)):
                if path.parts[-len(name.parts) :] == name.parts:
                    return file
        return None


def list_datasets() -> list[Dataset]:
    """Return all datasets of the registry, sorted by name."""
    return [_read_entry(path) for path in sorted(bundled("data").glob("*.toml"))]


def dataset(name: str) -> Dataset:
    """Return the dataset of that name; DataError, listing the names, if there is none."""
    path = bundled("data") / f"{name}.toml"
    if Path(name).name != name or not path.is_file():
        names = ", ".join(entry.name for entry in list_datasets())
        raise DataError(f"there is no dataset {name!r}; there are: {names}")
    return _read_entry(path)


def _read_entry(path: Path) -> Dataset:
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        if "shape" in table:
            n_rows, n_columns = table["shape"]
            table["shape"] = n_rows, n_columns
        files = []
        for file in table.pop("files", []):
            names, addresses = (tuple(file.pop(key, ())) for key in ("also_named", "addresses"))
            files.append(DataFile(also_named=names, addresses=addresses, **file))
        content = Content(**table.pop("content"))
        entry = Dataset(content=content, files=tuple(files), **table)
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(f"{path}: not a registry entry: {error}") from error
    readers = {entry.reader, *(file.reader for file in files if file.reader)}
    unknown = readers - {*FILE_READERS, *PAIR_READERS, *DATA_GENERATORS}
    if unknown:
        raise DataError(f"{path}: unknown readers: {', '.join(sorted(unknown))}")
    return entry


def bundled(kind: Literal["models", "data"]) -> Path:
    """Return the folder `models` of recipes or `data` of datasets: in a wheel `crfqn/_bundled/`, else next to crfqn."""
    candidates = (PACKAGE_FOLDER / "_bundled" / kind, PACKAGE_FOLDER.parent / kind)
    for folder in candidates:
        if folder.is_dir():
            return folder
    tried = " and ".join(str(folder) for folder in candidates)
    raise DataError(
        f"this installation of crfqn has no folder {kind!r}: expected {tried}; install crfqn again"
    )


# Readers of a dataset's files: the formats of `crfqn.readers`, and the formats of single collections. A reader takes
# one file; the last of several is the test part.
FILE_READERS: dict[str, Callable[..., Any]] = {name: format.read for name, format in FORMATS.items()} | {
    "letter-table": lambda path, shape: read_letter_table(path, shape[0] * shape[1]),
    "letter-matlab": read_letter_matlab,
    "hierarchical-arff": read_hierarchical_arff,
    "newsgroups": read_newsgroups,
    "cifar": read_cifar,
}
PAIR_READERS = {"idx": read_labelled_images}  # a file of inputs and one of labels
DATA_GENERATORS: dict[str, Callable[[], Data]] = {
    "digits": make_digit_strings,
    "docstrings": collect_docstrings,
}


def read_files(reader: str, paths: Sequence[Path], **options: Any) -> Data:
    """Read a dataset from its files, one a part, with the options of their format; DataError for malformed files, or
    files that do not belong together. Labels are texts, even if they are numbers."""
    try:
        if reader in PAIR_READERS:
            data = [
                PAIR_READERS[reader](*pair, **options) for pair in zip(paths[::2], paths[1::2], strict=True)
            ]
        else:
            data = [FILE_READERS[reader](path, **options) for path in paths]
        joined = reduce(lambda train, test: train.joined(test), data)
    except InputError as error:  # of parts that are valid alone
        raise DataError(f"{', '.join(map(str, paths))}: {error}") from error
    return replace(joined, has_numbers=False)
