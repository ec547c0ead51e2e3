"""The registry of datasets: what there is, where its files lie, how they are fetched, checked and read.

Each dataset is a file `data/<name>.toml`: title, licence, source, reader, the files that may hold it (any one
is enough) and what must be in them. Files are looked for in the folder that the environment variable
CRFQN_DATA names (and the folders directly in it), then in the cache (CRFQN_CACHE, else the system's).
"""

import hashlib
import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crfqn.bundled import bundled
from crfqn.download import DownloadError, OnProgress, download
from crfqn.errors import DataError, DataUnavailableError
from crfqn.readers.digits import make_digit_strings
from crfqn.readers.labeled import Labeled
from crfqn.readers.letters import read_letter_matlab, read_letter_table

Shape = tuple[int, int]
FILE_READERS: dict[str, Callable[[Path, Shape], Labeled]] = {
    "letter-table": lambda path, shape: read_letter_table(path, shape[0] * shape[1]),
    "letter-matlab": read_letter_matlab,
}
GENERATORS: dict[str, Callable[[], Labeled]] = {"digits": make_digit_strings}


@dataclass(frozen=True)
class DataFile:
    """A file that may hold the dataset; `sha256` and `size` (bytes) are empty where they are not known."""

    name: str
    addresses: tuple[str, ...] = ()
    sha256: str = ""
    size: int = 0
    reader: str = ""


@dataclass(frozen=True)
class Content:
    """What the dataset must contain; `sha256` is `Labeled.digest()`, which no order of items changes."""

    n_items: int
    n_positions: int
    n_distinct_items: int
    n_labels: int
    sha256: str = ""

    def differences(self, labeled: Labeled) -> str:
        """The counts that differ, in words; empty when all agree."""
        counts = {
            "items": (self.n_items, labeled.n_items),
            "positions": (self.n_positions, labeled.n_positions),
            "different items": (self.n_distinct_items, labeled.n_distinct_items()),
            "labels": (self.n_labels, len(labeled.distinct_labels())),
        }
        return ", ".join(
            f"{got} {what} (expected {expected})"
            for what, (expected, got) in counts.items()
            if expected != got
        )


@dataclass(frozen=True)
class Verification:
    """Which check was made.

    `check` is "file" (checksum of the file), "content" (counts, and checksum over all labels and pixels) or
    "counts" (the counts agree, the content's checksum does not: a similar file, not the same data).
    """

    path: Path | None
    check: str
    message: str

    @property
    def is_exact(self) -> bool:
        return self.check != "counts"


@dataclass(frozen=True)
class Dataset:
    """One entry of the registry. `shape` is rows and columns of an image."""

    name: str
    title: str
    licence: str
    source: str
    reader: str
    shape: Shape
    content: Content
    files: tuple[DataFile, ...] = ()

    @property
    def is_embedded(self) -> bool:
        """Generated from what is installed: always there."""
        return self.reader in GENERATORS

    def locate(self) -> Path | None:
        """The first of the dataset's files on this machine; None if there is none or none is needed."""
        for file in self.files:
            for folder in self._folders():
                if (folder / file.name).is_file():
                    return folder / file.name
        return None

    def fetch(
        self, timeout: float = 5.0, limit: float | None = None, on_progress: OnProgress | None = None
    ) -> Path | None:
        """Path of the dataset's file, downloaded into the cache if it is not here yet; None if embedded.

        Parameters
        ----------
        timeout, limit : float
            Seconds to wait for a sign of life, and for the whole transfer (None: no limit).
        on_progress : callable or None
            Called with (bytes received, bytes in all or 0).

        Raises
        ------
        DataUnavailableError
            The download failed; the text names every address and says how to do it by hand.
        DataError
            What came is not the dataset; it has been deleted.
        """
        path = self.locate()
        if path is not None or self.is_embedded:
            return path
        file = next(file for file in self.files if file.addresses)
        target = cache_folder() / self.name / file.name
        try:
            download(
                file.addresses, target, file.sha256, timeout=timeout, limit=limit, on_progress=on_progress
            )
        except DownloadError as error:
            raise DataUnavailableError(
                f"the dataset {self.name!r} could not be downloaded:\n{error}\n"
                f"By hand: save {file.addresses[0]} as {target}, or in any folder and set "
                f"CRFQN_DATA to that folder."
            ) from error
        try:
            self.verify(target)
        except DataError as error:
            target.unlink(missing_ok=True)
            raise DataError(f"what came from {file.addresses[0]} was deleted again: {error}") from error
        return target

    def verify(self, path: Path | None = None) -> Verification:
        """Check a file (by default the located one) by its checksum where one is known, else by its content.

        Raises
        ------
        DataUnavailableError
            No file is there.
        DataError
            A known checksum or the counts disagree, or the file cannot be read.
        """
        path = path or self._located()
        file = self._file(path)
        if path is not None and file is not None and file.sha256:
            with open(path, "rb") as stream:
                got = hashlib.file_digest(stream, "sha256").hexdigest()
            if got != file.sha256:
                raise DataError(
                    f"{path}: checksum differs: expected sha256 {file.sha256}, got {got} "
                    f"({path.stat().st_size} bytes, expected {file.size})"
                )
            return Verification(path, "file", "the file's sha256 is the registered one")
        labeled = self.load(path)
        counts = f"{labeled.n_items} items, {labeled.n_positions} positions"
        if labeled.digest() == self.content.sha256:
            return Verification(path, "content", f"{counts}; sha256 over labels and pixels agrees")
        return Verification(path, "counts", f"{counts} as expected, but labels or pixels differ")

    def load(self, path: Path | None = None) -> Labeled:
        """Read the dataset (from the located file by default) and check its counts.

        Raises
        ------
        DataUnavailableError
            No file is there; the text says how to get one.
        DataError
            The file is malformed, or its counts are not those of the dataset.
        """
        path = path or self._located()
        if path is None:
            labeled = GENERATORS[self.reader]()
        else:
            file = self._file(path)
            reader = file.reader if file is not None and file.reader else self.reader
            labeled = FILE_READERS[reader](path, self.shape)
        differences = self.content.differences(labeled)
        if differences:
            raise DataError(f"{path or self.name}: not the dataset {self.name!r}: it has {differences}")
        return labeled

    def how_to_find(self) -> str:
        """Where the files were looked for and how to get them, in sentences."""
        names = ", ".join(file.name for file in self.files)
        given = os.environ.get("CRFQN_DATA")
        if not given:
            looked = "CRFQN_DATA is not set"
        elif not Path(given).is_dir():
            looked = f"CRFQN_DATA={given} is not a folder"
        else:
            looked = f"CRFQN_DATA={given} and its direct folders have none of them"
        return (
            f"the dataset {self.name!r} is not on this machine (files: {names}). {looked}; "
            f"nothing in the cache {cache_folder() / self.name}. Get it with `crfqn data get {self.name}`, "
            f"or set CRFQN_DATA to a folder that has one of the files."
        )

    def _located(self) -> Path | None:
        path = self.locate()
        if path is None and not self.is_embedded:
            raise DataUnavailableError(self.how_to_find())
        return path

    def _file(self, path: Path | None) -> DataFile | None:
        return next((file for file in self.files if path is not None and file.name == path.name), None)

    def _folders(self) -> list[Path]:
        folders = []
        given = os.environ.get("CRFQN_DATA")
        if given and Path(given).is_dir():
            folders += [Path(given), *sorted(path for path in Path(given).iterdir() if path.is_dir())]
        return [*folders, cache_folder() / self.name]


def cache_folder() -> Path:
    """The folder of downloads: CRFQN_CACHE, else the operating system's place for caches."""
    given = os.environ.get("CRFQN_CACHE")
    if given:
        return Path(given)
    import pooch

    return Path(pooch.os_cache("crfqn"))


def list_datasets() -> list[Dataset]:
    """All datasets of the registry, by name."""
    return [_read_entry(path) for path in sorted(bundled("data").glob("*.toml"))]


def dataset(name: str) -> Dataset:
    """The dataset of that name.

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
        n_rows, n_columns = table.pop("shape")
        files = tuple(
            DataFile(addresses=tuple(file.pop("addresses", ())), **file) for file in table.pop("files", [])
        )
        content = Content(**table.pop("content"))
        entry = Dataset(shape=(n_rows, n_columns), content=content, files=files, **table)
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(f"{path}: not a registry entry: {error}") from error
    unknown = {entry.reader, *(file.reader for file in files if file.reader)} - {*FILE_READERS, *GENERATORS}
    if unknown:
        raise DataError(f"{path}: unknown readers: {', '.join(sorted(unknown))}")
    return entry
