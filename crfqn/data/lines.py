"""Reading of bytes and numbered lines of a plain, gzip- or bzip2-compressed file, or of standard input (`-`).

Compression is recognised by the first bytes, not by the name: servers and browsers unpack `.gz` files on the
way and keep the name. For the readers of this package; every failure is a DataError that names the file.
"""

import bz2
import gzip
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from crfqn.errors import DataError, DataUnavailableError

PACKINGS = {b"\x1f\x8b": ("gzip", gzip.decompress), b"BZh": ("bzip2", bz2.decompress)}  # by their first bytes
STANDARD_INPUT = "-"


def shown_name(path: str | Path) -> str:
    """Return the name of a file for messages, `standard input` for `-`."""
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def check_regular(path: str | Path) -> None:
    """Check that a data file is no pipe or device, which may never end; a path without a file passes.

    Raises
    ------
    DataError
        It is a pipe or a device.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # which reading says better
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DataError(f"{path}: a pipe or a device; expected a regular file")


def read_bytes(path: str | Path) -> bytes:
    """Return the whole content of a file, unpacked.

    Raises
    ------
    DataUnavailableError
        There is no such file.
    DataError
        It is a folder, it cannot be read, or the compressed stream is cut short or damaged.
    """
    raw = _raw_bytes(path)
    magic = next((magic for magic in PACKINGS if raw.startswith(magic)), None)
    if magic is None:
        return raw
    kind, unpack = PACKINGS[magic]
    try:
        return unpack(raw)
    except (EOFError, ValueError) as error:  # gzip's and bz2's words for an early end
        raise DataError(
            f"{shown_name(path)}: the {kind} file is cut short ({len(raw)} bytes are there); fetch or copy it again"
        ) from error
    except (OSError, zlib.error) as error:
        raise DataError(f"{shown_name(path)}: the {kind} file is damaged: {error}") from error


def text_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield pairs (line number from 1, line without its end). Raises as `read_bytes`, and for bad UTF-8."""
    for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
        try:
            yield number, line.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise DataError(f"{shown_name(path)}, line {number}: not UTF-8 text: {error}") from error


def _raw_bytes(path: str | Path) -> bytes:
    if str(path) == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise DataUnavailableError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise DataError(f"{path}: a folder; expected a file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
