"""Files of a dataset: their names, checksums and addresses, their places on this machine, and their download.

Files are searched in the folder that the environment variable CRFQN_DATA names (and the folders directly in it), then
in the cache (CRFQN_CACHE, else the system's). The transfer itself is pooch's (temporary file, moved into place when
complete). This module adds short timeouts, a limit on the whole transfer, progress, and one error with the reason of
every address.
"""

import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from crfqn.data.files import read_bytes
from crfqn.errors import DataError, DataUnavailableError

OnProgress = Callable[[int, int], None]  # called with bytes received, and bytes in all or 0


class DownloadError(DataError):
    """Error of a download that failed from all addresses; the text has a line for each address."""


@dataclass(frozen=True)
class DataFile:
    """File of the dataset, or of one part of it."""

    name: str  # in the cache and in the folders that are searched
    also_named: tuple[str, ...] = ()  # of the same content, packed or not, perhaps below a folder
    part: str = ""  # files of the same part are alternatives; each part needs one
    addresses: tuple[str, ...] = ()  # URLs, in the order of trying
    sha256: str = ""  # of the file's bytes; empty if unknown, as are the others
    sha256_unpacked: str = ""  # without gzip's compression, so that every packing passes
    size: int = 0  # in bytes
    reader: str = ""  # if it is not the dataset's

    def locate(self, dataset: str) -> Path | None:
        """Return the path of the file on this machine, None if it is not there."""
        paths = (folder / name for name in (self.name, *self.also_named) for folder in folders(dataset))
        return next((path for path in paths if path.is_file()), None)

    def check(self, path: Path) -> None:
        """Raise DataError unless the checksum of the file at `path` is the registered one."""
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

    def download(
        self,
        target: Path,
        *,
        timeout: float = 5.0,
        limit: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Fetch the file from the first address that works; nothing appears at `target` before it is complete.
        `timeout` is the maximum time without received bytes, `limit` the maximum in all, in seconds."""
        import pooch

        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DownloadError(f"cannot create the folder {target.parent} ({error})") from error
        end = None if limit is None else time.monotonic() + limit
        checksum = f"sha256:{self.sha256}" if self.sha256 else None
        failures = []
        for address in self.addresses:
            wait = timeout if end is None else min(timeout, end - time.monotonic())
            try:
                if wait <= 0:
                    raise TimeoutError(f"not tried: the limit of {limit:.2g} s was over")
                _resolve(address, wait)
                transfer = pooch.HTTPDownloader(timeout=wait, progressbar=_TransferLimit(end, on_progress))
                level = pooch.get_logger().level
                pooch.get_logger().setLevel(logging.WARNING)  # progress and errors are reported by the caller
                try:
                    pooch.retrieve(
                        address, checksum, fname=target.name, path=target.parent, downloader=transfer
                    )
                finally:
                    pooch.get_logger().setLevel(level)
                return
            except (OSError, ValueError) as error:  # what requests and pooch raise derives from these
                failures.append(f"  {address}: {_reason(error, wait)}")
        raise DownloadError("\n".join(failures))


def parts(files: Sequence[DataFile]) -> list[list[DataFile]]:
    """Return the alternatives for each part, in the order of the files."""
    names = dict.fromkeys(file.part for file in files)
    return [[file for file in files if file.part == name] for name in names]


def folders(dataset: str) -> list[Path]:
    """Return the folders in which the files of a dataset may be, in the order of search."""
    paths, data_folder = [], os.environ.get("CRFQN_DATA")
    if data_folder and Path(data_folder).is_dir():
        paths += [Path(data_folder), *sorted(path for path in Path(data_folder).iterdir() if path.is_dir())]
    with suppress(DataUnavailableError):
        paths.append(cache_folder() / dataset)
    return paths


def cache_folder() -> Path:
    """Return the folder of downloads: CRFQN_CACHE, else the operating system's place for caches; DataUnavailableError
    for a user without a home folder."""
    if folder := os.environ.get("CRFQN_CACHE"):
        return Path(folder)
    import pooch

    try:
        return Path(pooch.os_cache("crfqn"))
    except RuntimeError as error:  # as in containers, for a user's number without a name
        raise DataUnavailableError(
            "there is no home folder, and so no folder for downloads: set CRFQN_CACHE to a folder that can be "
            "written, or CRFQN_DATA to one that has the data"
        ) from error


class _TransferLimit:
    """A progress bar for pooch, which reports progress and ends a transfer that takes too long."""

    def __init__(self, end: float | None, on_progress: OnProgress | None) -> None:
        self.total = 0
        self.received = 0
        self.end = end
        self.on_progress = on_progress

    def update(self, n_bytes: int) -> None:
        self.received += n_bytes
        if self.on_progress is not None:
            self.on_progress(min(self.received, self.total or self.received), self.total)
        is_complete = 0 < self.total <= self.received
        if self.end is not None and time.monotonic() > self.end and not is_complete:
            raise TimeoutError(f"too slow: {self.received} of {self.total or '?'} bytes within the limit")

    def reset(self) -> None:
        self.received = 0

    def close(self) -> None:
        pass


def _resolve(address: str, timeout: float) -> None:
    """Look the host up within `timeout`; the system's resolver may take half a minute without a network."""
    import socket  # here, since these imports take a tenth of the start of `crfqn predict`
    import urllib.request
    from urllib.parse import urlsplit

    host, scheme = urlsplit(address).hostname or "", urlsplit(address).scheme
    if scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
        return  # the proxy looks it up
    failure: list[OSError] = []

    def look_up() -> None:
        try:
            socket.getaddrinfo(host, None)
        except OSError as error:
            failure.append(error)

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(timeout)
    if failure or thread.is_alive():
        raise OSError(f"the host {host} cannot be found" + ("" if failure else f" within {timeout:.2g} s"))


def _reason(error: BaseException, timeout: float) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code} {response.reason}"
    if type(error).__name__ in ("ConnectTimeout", "ReadTimeout"):
        return f"no answer within {timeout:.2g} s"
    while error.__context__ is not None:  # requests wraps the cause several times
        error = error.__context__
    return str(error) or type(error).__name__
