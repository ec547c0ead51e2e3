"""Reading of bytes and numbered lines of a file, compressed or not, of a stream, or of standard input (`-`).

For the readers of this package; every failure is a DataError that names the file.
"""

import codecs
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from crfqn.data.files.packing import LARGEST_SIZE, unpack
from crfqn.errors import DataError, DataUnavailableError, InputError

STANDARD_INPUT = "-"
BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True)
class Source:
    """Where to read from, and how: a path, `-` for standard input, or a stream of bytes or text, read to its end."""

    origin: Any
    encoding: str = "utf-8"  # of the text; this one takes a byte-order mark as such
    largest_size: int = LARGEST_SIZE  # bytes that a compressed file may unpack to

    def __post_init__(self) -> None:
        try:
            codecs.lookup(self.encoding)
        except (LookupError, TypeError):
            raise InputError(
                f"encoding: expected the name of an encoding such as 'utf-8', got {self.encoding!r}"
            ) from None
        if type(self.largest_size) is not int or self.largest_size < 1:
            raise InputError(f"largest_size: expected a positive number of bytes, got {self.largest_size!r}")

    def __str__(self) -> str:
        return shown_name(self)


Readable = str | Path | IO[Any] | Source


@dataclass(frozen=True)
class Part:
    """Whole items out of a longer text; to the readers a stream, whose lines have the numbers of the whole."""

    name: str  # of the whole, for messages
    text: str  # lines as they are in the file, with their ends
    first: int = 1  # number of the first of them
    head: str = ""  # what readers get before: the first lines of the file, which name the columns of a table
    mark: str = ""  # a byte-order mark before the text, else empty

    def read(self) -> str:
        return self.head + self.text

    def numbered_lines(self) -> Iterator[tuple[int, str]]:
        """Yield pairs (line number in the whole, line without its end)."""
        for lines, first in ((self.head.split("\n")[:-1], 1), (self.text.split("\n"), self.first)):
            for number, line in enumerate(lines, start=first):
                yield number, line.removesuffix("\r")


def source_of(origin: Readable) -> Source:
    """Return a path or stream as a source with the usual settings, and a source as it is."""
    return origin if isinstance(origin, Source) else Source(origin)


def shown_name(origin: Readable) -> str:
    """Return the name of a file for messages, `standard input` for `-`."""
    if isinstance(origin, Source):
        origin = origin.origin
    if hasattr(origin, "read"):
        name = getattr(origin, "name", None)
        return name if isinstance(name, str) else "the stream"
    return "standard input" if str(origin) == STANDARD_INPUT else str(origin)


def check_regular(path: str | Path) -> None:
    """Raise DataError for a pipe or a device, which may never end; a path without a file passes."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # which reading says better
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DataError(f"{path}: a pipe or a device; expected a regular file")


def read_bytes(origin: Readable) -> bytes:
    """Return the whole content of a file, unpacked.

    DataUnavailableError where there is no such file; DataError for a folder, a file that cannot be read, and a
    compressed stream that is cut short or damaged, or unpacks to too much.
    """
    source = source_of(origin)
    return unpack(_raw_bytes(source), shown_name(source), source.largest_size)


def text_lines(origin: Readable) -> Iterator[tuple[int, str]]:
    """Yield pairs (line number from 1, line without its end). Raises as `read_bytes`, and for other bytes than text."""
    source = source_of(origin)
    if isinstance(source.origin, Part):
        yield from source.origin.numbered_lines()
        return
    content = read_bytes(source)
    if "utf-8" in codecs.lookup(source.encoding).name:
        check_utf8(source, content)
        for number, raw in enumerate(content.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
            yield number, decode_line(source, number, raw).removesuffix("\r")
        return
    try:
        text = content.decode(source.encoding)
    except UnicodeError as error:
        raise DataError(f"{shown_name(source)}: not {source.encoding} text: {error}") from error
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        yield number, line.removesuffix("\r")


def read_text(origin: Readable) -> str:
    """Return the whole text of a file, line ends as `\\n`; raises as `text_lines`."""
    return "\n".join(line for _, line in text_lines(origin))


def check_utf8(source: Source, content: bytes) -> None:
    """Raise DataError for text whose first bytes are the mark of another encoding."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            raise DataError(
                f"{shown_name(source)}: expected {source.encoding} text, but it begins as {encoding} does; read it "
                f"with encoding={encoding!r}"
            )


def decode_line(origin: Readable, number: int, line: bytes) -> str:
    """Return a line as text. No byte of a character is a line's end, and so the DataError can say which line it is."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{shown_name(origin)}, line {number}: not UTF-8 text: byte 0x{line[error.start]:02x} behind "
            f"{error.start} others ({error.reason}); another encoding can be named (encoding='latin-1')"
        ) from error


def _raw_bytes(source: Source) -> bytes:
    origin = source.origin
    if hasattr(origin, "read"):
        content = origin.read()
        return content.encode(source.encoding) if isinstance(content, str) else bytes(content)
    with opened(origin) as stream:
        return stream.read()


@contextmanager
def opened(origin: str | Path) -> Iterator[IO[bytes]]:
    """Open a file, or standard input; errors of reading as of `read_bytes`."""
    is_standard = str(origin) == STANDARD_INPUT
    if is_standard and sys.stdin is None:
        raise DataError("standard input is closed; name a file, or pipe the items in")
    try:
        with nullcontext(sys.stdin.buffer) if is_standard else open(origin, "rb") as stream:
            yield stream
    except FileNotFoundError as error:
        raise DataUnavailableError(f"{origin}: no such file") from error
    except IsADirectoryError as error:
        raise DataError(f"{shown_name(origin)}: a folder; expected a file") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{shown_name(origin)}: cannot be read: {error}") from error
