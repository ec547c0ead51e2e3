"""Datasets of the registry: finding, fetching, checking and reading its files."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from crfqn.datasets.content import Content, counts
from crfqn.datasets.download import DownloadError, OnProgress, download
from crfqn.datasets.files import DataFile, cache_folder, parts
from crfqn.datasets.reading import GENERATORS, Data, Shape, read_files
from crfqn.errors import DataError, DataUnavailableError


@dataclass(frozen=True)
class Verification:
    """Outcome of a dataset's check, by the kind of check that could be made.

    `check` is "file" (checksums of the files), "content" (counts, and checksum over all labels and inputs),
    "sizes" (the counts agree, and no checksum is known), "floors" (there is enough of it: the data differs from
    machine to machine, or is not known that well) or "counts" (the counts agree, the content's checksum does not:
    a similar file, not the same data).
    """

    paths: tuple[Path, ...]
    check: str
    message: str

    @property
    def is_passed(self) -> bool:
        """Whether the data is what it should be, as far as the check can tell."""
        return self.check != "counts"


@dataclass(frozen=True)
class Dataset:
    """Dataset, an entry of the registry.

    `shape` is rows and columns of an image, where features need it; `by_hand` says how to get files without address.
    """

    name: str
    title: str
    licence: str
    source: str
    reader: str
    content: Content
    files: tuple[DataFile, ...] = ()
    shape: Shape | None = None
    by_hand: str = ""

    @property
    def is_embedded(self) -> bool:
        """Whether the data is generated from installed packages, and so is always there."""
        return self.reader in GENERATORS

    def locate(self) -> tuple[Path, ...]:
        """Return the paths of the files on this machine, one a part; empty if one is missing or none is needed."""
        paths = [path for path in self._found() if path is not None]
        return tuple(paths) if len(paths) == len(parts(self.files)) else ()

    def fetch(
        self, timeout: float = 5.0, limit: float | None = None, on_progress: OnProgress | None = None
    ) -> tuple[Path, ...]:
        """Return the paths of the dataset's files, downloaded into the cache where they are not here yet.

        Parameters
        ----------
        timeout, limit : float
            Seconds to wait for a sign of life, and for everything together (None: no limit).
        on_progress : callable or None
            Called with (bytes received, bytes in all or 0), for one file after the other.

        Raises
        ------
        DataUnavailableError
            A download failed; the text names every address and says how to do it by hand.
        DataError
            What came is not the dataset; it has been deleted.
        """
        end = None if limit is None else time.monotonic() + limit
        paths, came = [], {}
        for part, path in zip(parts(self.files), self._found(), strict=True):
            if path is None:
                file = next((file for file in part if file.addresses), None)
                if file is None:
                    raise DataUnavailableError(self.how_to_find())
                left = None if end is None else max(0.0, end - time.monotonic())
                path = self._download(file, timeout, left, on_progress)
                came[path] = file.addresses[0]
            paths.append(path)
        if came:
            try:
                self.verify(paths)
            except DataError as error:
                for path in came:
                    path.unlink(missing_ok=True)
                sources = ", ".join(came.values())
                raise DataError(f"what came from {sources} was deleted again: {error}") from error
        return tuple(paths)

    def verify(self, paths: Sequence[Path] = ()) -> Verification:
        """Check files (by default the located ones) by checksums where they are known, else by content.

        Raises
        ------
        DataUnavailableError
            A file is missing.
        DataError
            A known checksum or the counts disagree, or a file cannot be read.
        """
        paths = tuple(paths) or self._located()
        files = [self._file(path) for path in paths]
        for path, file in zip(paths, files, strict=True):
            if file is not None and file.has_checksum:
                file.check(path)
        if paths and all(file is not None and file.has_checksum for file in files):
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
        """Read the dataset (from the located files by default) and check its counts.

        Raises
        ------
        DataUnavailableError
            A file is missing; the text says how to get it.
        DataError
            A file is malformed, or the counts are not those of the dataset.
        """
        paths = tuple(paths) or self._located()
        if self.is_embedded:
            data = GENERATORS[self.reader]()
        else:
            readers = [file.reader for file in map(self._file, paths) if file is not None and file.reader]
            data = read_files(readers[0] if readers else self.reader, paths, self.shape)
        differences = self.content.differences(data)
        if differences:
            where = ", ".join(map(str, paths)) or self.name
            raise DataError(f"{where}: not the dataset {self.name!r}: it has {differences}")
        return data

    def how_to_find(self) -> str:
        """Return sentences saying which files are missing, where they were looked for and how to get them."""
        every = parts(self.files)
        missing = [part for part, path in zip(every, self._found(), strict=True) if path is None]
        names = ", ".join(file.name for part in missing for file in (part if len(every) == 1 else part[:1]))
        given = os.environ.get("CRFQN_DATA")
        if not given:
            looked = "CRFQN_DATA is not set"
        elif not Path(given).is_dir():
            looked = f"CRFQN_DATA={given} is not a folder"
        else:
            looked = f"CRFQN_DATA={given} and its direct folders have none of them"
        get = (
            f"Get it by hand: {self.by_hand}" if self.by_hand else f"Get it with `crfqn data get {self.name}`"
        )
        files = f"files: {names}" if len(every) == 1 else f"missing of its {len(every)} files: {names}"
        return (
            f"the dataset {self.name!r} is not on this machine ({files}). {looked}; "
            f"nothing in the cache {cache_folder() / self.name}. {get}, "
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
        return next((file for file in self.files if file.is_at(path)), None)

    def _download(
        self, file: DataFile, timeout: float, limit: float | None, on_progress: OnProgress | None
    ) -> Path:
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
        return target
