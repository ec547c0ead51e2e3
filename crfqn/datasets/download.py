"""Download of a file into a cache folder, from the first of several addresses that delivers it.

The transfer itself is pooch's (temporary file, moved into place when complete). Added here: short waits, a
limit on the whole transfer, progress, and one error that says of every address why it failed.
"""

import logging
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from crfqn.errors import DataError

OnProgress = Callable[[int, int], None]


class DownloadError(DataError):
    """Error of a download that no address delivered; the text has a line for each address."""


def download(
    addresses: Sequence[str],
    target: Path,
    sha256: str = "",
    *,
    timeout: float = 5.0,
    limit: float | None = None,
    on_progress: OnProgress | None = None,
) -> Path:
    """Fetch a file from the first address that works; return `target`, its path.

    Parameters
    ----------
    addresses : sequence of str
        Tried in this order.
    target : Path
        Where the complete file goes; nothing appears there before it is complete.
    sha256 : str
        Expected checksum; empty where none is known.
    timeout : float
        Seconds to wait for a sign of life: the name, the connection, the next piece.
    limit : float or None
        Seconds for everything together.
    on_progress : callable or None
        Called with (bytes received, bytes in all or 0).

    Raises
    ------
    DownloadError
        No address worked, or the folder cannot be written.
    """
    import pooch

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(f"cannot create the folder {target.parent} ({error})") from error
    end = None if limit is None else time.monotonic() + limit
    failures = []
    for address in addresses:
        wait = timeout if end is None else min(timeout, end - time.monotonic())
        try:
            if wait <= 0:
                raise TimeoutError(f"not tried: the limit of {limit:.2g} s was over")
            _resolve(address, wait)
            downloader = pooch.HTTPDownloader(timeout=wait, progressbar=_Watch(end, on_progress))
            with _silent_pooch():
                pooch.retrieve(
                    address,
                    f"sha256:{sha256}" if sha256 else None,
                    fname=target.name,
                    path=target.parent,
                    downloader=downloader,
                )
            return target
        except (OSError, ValueError) as error:  # what requests and pooch raise derives from these
            failures.append(f"  {address}: {_reason(error, wait)}")
    raise DownloadError("\n".join(failures))


class _Watch:
    """A progress bar in pooch's sense, which reports progress and ends a transfer that takes too long."""

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


@contextmanager
def _silent_pooch() -> Iterator[None]:
    """Silence pooch's messages on stderr; progress and errors are reported by the caller."""
    import pooch

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _reason(error: BaseException, timeout: float) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code} {response.reason}"
    if type(error).__name__ in ("ConnectTimeout", "ReadTimeout"):
        return f"no answer within {timeout:.2g} s"
    while error.__context__ is not None:  # requests wraps the cause several times
        error = error.__context__
    return str(error) or type(error).__name__
