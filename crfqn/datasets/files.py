"""Files of a dataset: their names, checksums and addresses, and where on this machine they lie.

Files are looked for in the folder that the environment variable CRFQN_DATA names (and the folders directly in
it), then in the cache (CRFQN_CACHE, else the system's).
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crfqn.data.files.lines import read_bytes
from crfqn.errors import DataError


@dataclass(frozen=True)
class DataFile:
    """File that holds the dataset, or one part of it.

    Attributes
    ----------
    name : str
        Name of the file in the cache and in the folders that are searched.
    also_named : tuple of str
        Other names of the same content, compressed or not; a name may begin with a folder's.
    part : str
        Files of the same part are alternatives; of each part one is needed.
    addresses : tuple of str
        URLs to download it from, in the order of trying.
    sha256, size
        Checksum, and size in bytes, of the file as it is; empty where they are not known.
    sha256_unpacked : str
        Checksum of its bytes without gzip's compression, so that every packing of them passes.
    reader : str
        The file's reader if it is not the dataset's.
    """

    name: str
    also_named: tuple[str, ...] = ()
    part: str = ""
    addresses: tuple[str, ...] = ()
    sha256: str = ""
    sha256_unpacked: str = ""
    size: int = 0
    reader: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the file: `name`, then the others."""
        return self.name, *self.also_named

    @property
    def has_checksum(self) -> bool:
        """Whether a checksum of the file is known."""
        return bool(self.sha256 or self.sha256_unpacked)

    def locate(self, dataset: str) -> Path | None:
        """Return the path of the file on this machine, None if it is not there."""
        found = (folder / name for name in self.names for folder in folders(dataset))
        return next((path for path in found if path.is_file()), None)

    def is_at(self, path: Path) -> bool:
        """Return whether a path ends in one of the file's names."""
        return any(path.parts[-len(Path(name).parts) :] == Path(name).parts for name in self.names)

    def check(self, path: Path) -> None:
        """Compare the checksum of the file at `path` with the registered one.

        Raises
        ------
        DataError
            It differs, or the file cannot be read.
        """
        expected = self.sha256_unpacked or self.sha256
        what, size = "checksum", f", expected {self.size}" if self.size else ""
        if self.sha256_unpacked:
            what, got = "checksum of the unpacked content", hashlib.sha256(read_bytes(path)).hexdigest()
        else:
            with open(path, "rb") as stream:
                got = hashlib.file_digest(stream, "sha256").hexdigest()
        if got != expected:
            raise DataError(
                f"{path}: {what} differs: expected sha256 {expected}, got {got} "
                f"({path.stat().st_size} bytes{size})"
            )


def parts(files: Sequence[DataFile]) -> list[list[DataFile]]:
    """Return the alternatives for each part, in the order of the files."""
    names = dict.fromkeys(file.part for file in files)
    return [[file for file in files if file.part == name] for name in names]


def folders(dataset: str) -> list[Path]:
    """Return the folders in which the files of a dataset may be, in the order of search."""
    found = []
    given = os.environ.get("CRFQN_DATA")
    if given and Path(given).is_dir():
        found += [Path(given), *sorted(path for path in Path(given).iterdir() if path.is_dir())]
    return [*found, cache_folder() / dataset]


def cache_folder() -> Path:
    """Return the folder of downloads: CRFQN_CACHE, else the operating system's place for caches."""
    given = os.environ.get("CRFQN_CACHE")
    if given:
        return Path(given)
    import pooch

    return Path(pooch.os_cache("crfqn"))
