"""Reading of the bytes and numbered lines of a file, compressed or not, of a stream, or of standard input (`-`).

Compression is recognised by the first bytes, not by the name, since servers and browsers may unpack a `.gz` file and
keep its name. A file of some kilobytes can unpack to terabytes, so files are unpacked in pieces up to a limit. Every
failure is a DataError that names the file.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import select
import stat
import sys
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from io import BytesIO
from itertools import chain
from types import ModuleType
from typing import IO, Any, BinaryIO, NamedTuple

from crfqn.atomic_write import StrPath
from crfqn.data.binary_files import find_binary
from crfqn.errors import DataError, DataUnavailableError, InputError
from crfqn.messages import shorten

MAX_UNPACKED_SIZE = 4 << 30  # bytes of an unpacked file, by default
# For small files that are read whole, such as models and taxonomies: bytes, and the ratio to the packed size. Texts are
# packed to a third to a tenth of their size.
SAFE_SIZE, SAFE_RATIO = 64 << 20, 32
PIECE_SIZE = 1 << 20  # bytes unpacked at a time
ZSTD_STEP = 1 << 12  # bytes of a zstd stream at a time: up to 128 MB unpacked (blocks of 128 kB in 4 bytes)


class Packing(NamedTuple):
    """Compression format: the first bytes of its files, the extension of their names, how they are read and written."""

    name: str
    magic: bytes
    suffix: str
    pieces: Callable[[BinaryIO], Iterator[bytes]]
    pack: Callable[[bytes], bytes]


def _pieces_of(open_packed: Callable[[BinaryIO], Any]) -> Callable[[BinaryIO], Iterator[bytes]]:
    """Return a reader of pieces, given the function that opens a compressed stream."""

    def pieces(packed: BinaryIO) -> Iterator[bytes]:
        with open_packed(packed) as stream:
            while piece := stream.read1(PIECE_SIZE):  # everything before a damaged place
                yield piece

    return pieces


def _zstd() -> ModuleType:
    """Return Python's own module for zstd (from 3.14), else that of the package `zstandard`."""
    with suppress(ImportError):
        from compression import zstd

        return zstd
    try:
        import zstandard
    except ImportError:
        raise DataError(
            "zstd-compressed files need the package zstandard (or Python 3.14): pip install 'crfqn[formats]'"
        ) from None
    return zstandard


def _zstd_pieces(packed: BinaryIO) -> Iterator[bytes]:
    """Yield the content of all frames, since the readers of `zstandard` accept a truncated stream."""
    module = _zstd()
    unread = packed.read(ZSTD_STEP)
    while unread:
        decompressor = module.ZstdDecompressor()
        frame = decompressor.decompressobj() if hasattr(decompressor, "decompressobj") else decompressor
        while unread and not frame.eof:
            yield frame.decompress(unread)
            unread = packed.read(ZSTD_STEP) if not frame.eof else frame.unused_data
        if not frame.eof:
            raise EOFError("no end of the last frame")
        unread = unread or packed.read(ZSTD_STEP)


PACKINGS = (
    Packing(
        "gzip",
        b"\x1f\x8b",
        ".gz",
        _pieces_of(lambda stream: gzip.GzipFile(fileobj=stream)),
        # Without the time of day: the same content, the same bytes.
        lambda content: gzip.compress(content, mtime=0),
    ),
    Packing("bzip2", b"BZh", ".bz2", _pieces_of(bz2.BZ2File), bz2.compress),
    Packing("xz", b"\xfd7zXZ\x00", ".xz", _pieces_of(lzma.LZMAFile), lzma.compress),
    Packing("zstd", b"\x28\xb5\x2f\xfd", ".zst", _zstd_pieces, lambda content: _zstd().compress(content)),
)
PACKING_SUFFIXES = tuple(packing.suffix for packing in PACKINGS)


def unpack(raw: bytes, shown: str, largest: int = MAX_UNPACKED_SIZE) -> bytes:
    """Return the content of a file's bytes, unpacked if they are compressed; DataError, naming the file as `shown`, for
    a stream that is cut short or damaged, or that unpacks to more than `largest` bytes."""
    packing = find_packing(raw)
    if packing is None:
        return raw
    pieces: list[bytes] = []
    size = 0
    for piece in unpacked_pieces(BytesIO(raw), packing, shown):
        size += len(piece)
        if size > largest:
            raise DataError(
                f"{shown}: the {packing.name} file of {len(raw)} bytes unpacks to more than {largest} bytes; if "
                "that is meant, unpack it first, or allow it with largest_size="
            )
        pieces.append(piece)
    return b"".join(pieces)


def safe_size(n_packed: int) -> int:
    """Return the maximum unpacked size, in bytes, of a compressed model or taxonomy of this size."""
    return max(SAFE_SIZE, SAFE_RATIO * n_packed)


def find_packing(start: bytes) -> Packing | None:
    """Return the compression format of a file by its first bytes; None for a file that is not compressed."""
    return next((packing for packing in PACKINGS if start.startswith(packing.magic)), None)


def unpacked_pieces(packed: BinaryIO, packing: Packing, shown: str) -> Iterator[bytes]:
    """Yield the content of a compressed stream piece by piece; DataError if it is cut short or damaged."""
    try:
        yield from packing.pieces(packed)
    except EOFError as error:
        raise DataError(
            f"{shown}: the {packing.name} file is cut short ({packed.tell()} bytes are there); fetch or copy it again"
        ) from error
    except DataError:
        raise
    except (OSError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{shown}: the {packing.name} file is damaged: {error}") from error
    except Exception as error:
        if type(error).__name__ != "ZstdError":  # of whichever module is there
            raise
        raise DataError(f"{shown}: the zstd file is damaged: {error}") from error


def pack(content: bytes, name: str) -> bytes:
    """Return the content compressed by the extension of the file's name, unchanged for any other name."""
    for packing in PACKINGS:
        if os.path.splitext(name)[1].lower() == packing.suffix:
            return packing.pack(content)
    return content


STANDARD_INPUT = "-"
# Size in bytes and lines of the beginning of a file from which its properties are read; its last line may be longer.
START_SIZE, START_LINES, MAX_LINE_SIZE = 1 << 16, 3, 1 << 26
BLANK_BYTES = b" \t\r\n"
# An encoding: UTF-8 that keeps any other byte (`surrogateescape`), so that a text is written as it was read. CRF++,
# CRFsuite and Wapiti read bytes, and their users cut words anywhere in a character.
BYTES_ENCODING = "bytes"
RETURN_WITHIN = (
    "a carriage return (CR) within the line; expected lines that end with LF or CR LF (of CR alone, `tr '\\r' '\\n'` "
    "makes them)"
)
BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True)
class Source:
    """Source of data with its settings: a path, `-` for standard input, or a stream of bytes or text."""

    origin: Any
    encoding: str = "utf-8"  # of the text, or BYTES_ENCODING; "utf-8" skips a byte-order mark
    largest_size: int = MAX_UNPACKED_SIZE  # bytes that a compressed file may unpack to
    codec: str = field(init=False, compare=False)  # Python's name of the encoding
    # Python's handler of invalid bytes: an error, or with BYTES_ENCODING a lone surrogate each.
    errors: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        is_bytes = self.encoding == BYTES_ENCODING
        object.__setattr__(self, "codec", "utf-8" if is_bytes else self.encoding)
        object.__setattr__(self, "errors", "surrogateescape" if is_bytes else "strict")
        try:
            codecs.lookup(self.codec)
        except (LookupError, TypeError):
            raise InputError(
                f"encoding: expected the name of an encoding such as 'utf-8', got {self.encoding!r}"
            ) from None
        if type(self.largest_size) is not int or self.largest_size < 1:
            raise InputError(f"largest_size: expected a positive number of bytes, got {self.largest_size!r}")

    def __str__(self) -> str:
        return shown_name(self)

    def encoded(self, parts: Iterable[str | bytes]) -> Iterator[bytes]:
        """Yield the parts of a text as bytes, parts that are bytes unchanged; InputError for a character that the
        encoding does not have."""
        # One byte-order mark of utf-16, not one a part.
        encoder = codecs.getincrementalencoder(self.codec)(self.errors)
        try:
            for part in parts:  # the formats that make bytes encode texts themselves
                yield part if isinstance(part, bytes) else encoder.encode(part)
        except UnicodeEncodeError as error:
            wrong = shorten(error.object[error.start : error.end])
            raise InputError(f"{self.encoding!r} cannot encode {wrong}, which is in the data") from None


Readable = StrPath | IO[Any] | Source


@dataclass(frozen=True)
class Part:
    """Whole items of a longer text; readers read it as a stream whose lines have their numbers in that text."""

    name: str  # of the whole, for messages
    text: str  # unchanged lines of the file, with their ends
    first: int = 1  # number of the first of them
    head: str = ""  # what readers get first: the first lines of the file, which name the columns of a table
    mark: str = ""  # a byte-order mark before the text, else empty
    # Shared by all parts of a text: the reader's notes, with which it reads the next parts as it would the whole text.
    facts: dict[str, Any] = field(default_factory=dict, compare=False)

    def read(self) -> str:
        return self.head + self.text


def safe_source(path: StrPath) -> Source:
    """Return the path of a model, a taxonomy or a list as a source that may unpack to `safe_size` bytes."""
    return Source(path, largest_size=safe_size(os.path.getsize(path) if os.path.exists(path) else 0))


def source_of(origin: Readable) -> Source:
    """Return a path or stream as a source with the default settings, and a source unchanged."""
    return origin if isinstance(origin, Source) else Source(origin)


def facts_of(origin: Readable) -> dict[str, Any]:
    """Return the reader's notes on the earlier parts, to be extended; a new dict if the file is read as a whole."""
    part = source_of(origin).origin
    return part.facts if isinstance(part, Part) else {}


def shown_name(origin: Readable) -> str:
    """Return the name of a file for messages, `standard input` for `-`."""
    if isinstance(origin, Source):
        origin = origin.origin
    if hasattr(origin, "read"):
        name = getattr(origin, "name", None)
        return name if isinstance(name, str) else "the stream"
    return "standard input" if str(origin) == STANDARD_INPUT else str(origin)


def check_regular(path: StrPath) -> None:
    """Raise DataError for a pipe or a device, which may never end; a path without a file passes."""
    if str(path) != STANDARD_INPUT and is_stream(path):
        raise DataError(f"{path}: a pipe or a device; expected a regular file")


class Ahead(io.RawIOBase):
    """Stream with a buffered beginning that can be inspected before it is read: a pipe cannot be read twice."""

    def __init__(self, stream: Any, closes: bool, start: bytes = b"") -> None:
        self._stream, self._closes = stream, closes
        self.start, self.is_at_end, self._n_read = bytearray(start), False, 0

    def extend(self, size: int, waits: bool) -> None:
        """Extend the beginning by the next read, and up to `size` bytes in all. Unless `waits` is set, only bytes that
        are available are read."""
        is_there = True
        while len(self.start) < size and not self.is_at_end and (is_there or waits):
            piece = self._stream.read1(min(size - len(self.start), PIECE_SIZE))
            self.start += piece
            self.is_at_end = not piece
            is_there = has_come(self._stream)

    def fileno(self) -> int:
        return int(self._stream.fileno())

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._n_read

    def read1(self, size: int = -1) -> bytes:
        """Return up to `size` of the remaining bytes; none at the end."""
        end = len(self.start) if size < 0 else self._n_read + size
        piece = bytes(self.start[self._n_read : end]) or self._stream.read1(size)
        self._n_read += len(piece)
        if self._n_read >= len(self.start):
            self.start = self.start[:0]
        return piece

    def readinto(self, buffer: Any) -> int:
        piece = self.read1(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if self._closes and not self.closed:
            self._stream.close()
        super().close()


def has_come(stream: IO[bytes] | io.IOBase) -> bool:
    """Return whether the next read will not block, False if that is unknown (no file, or Windows)."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        return False


# Standard input and pipes whose beginning has been inspected and that have not been read yet.
_looked_at: dict[Hashable, Ahead] = {}


def _identity(origin: StrPath) -> Hashable:
    """Return the key of a stream in this table."""
    if str(origin) == STANDARD_INPUT:
        return id(sys.stdin.buffer)
    state = os.stat(origin)
    return state.st_dev, state.st_ino  # whatever the path that leads there


def is_stream(origin: StrPath) -> bool:
    """Return whether a name is standard input, a pipe or a device, which can be read only once and may never end."""
    try:
        mode = stat.S_IFREG if str(origin) == STANDARD_INPUT else os.stat(origin).st_mode
    except (OSError, ValueError):  # of which reading gives the better message
        return False
    return str(origin) == STANDARD_INPUT or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def read_start(origin: Readable, *, waits: bool = False) -> tuple[bytes, bool]:
    """Return the beginning of a file or stream, unpacked, without consuming it, and whether it is the whole content.

    It has some START_SIZE bytes and START_LINES lines, of any length up to MAX_LINE_SIZE. The beginning of a stream has
    a line and the bytes received with it, unless `waits` is set. It is empty if the file cannot be read.
    """
    name = source_of(origin).origin
    try:
        if not is_stream(name):
            with open(name, "rb") as stream:
                return _start(Ahead(stream, closes=False), START_LINES, waits=True)
        if _identity(name) not in _looked_at:
            is_standard = str(name) == STANDARD_INPUT
            begun: BinaryIO = sys.stdin.buffer if is_standard else open(name, "rb")  # noqa: SIM115 (read later)
            _looked_at[_identity(name)] = Ahead(begun, closes=not is_standard)
        return _start(_looked_at[_identity(name)], START_LINES if waits else 1, waits=waits)
    except (OSError, ValueError, AttributeError):  # AttributeError: standard input is closed
        return b"", True


def _start(stream: Ahead, n_lines: int, waits: bool) -> tuple[bytes, bool]:
    size = START_SIZE
    while True:
        start, is_all = _unpacked_start(bytes(stream.start), size)
        n_blank = len(start[:START_SIZE]) - len(start[:START_SIZE].lstrip(BLANK_BYTES))
        is_enough = start.count(b"\n", n_blank) >= n_lines and (len(start) >= START_SIZE or not waits)
        is_all = is_all and stream.is_at_end
        if is_all or is_enough or _is_empty(start) or len(start) >= MAX_LINE_SIZE:
            return start, is_all
        stream.extend(size, waits)
        size = max(size, 2 * len(stream.start))


def _is_empty(start: bytes) -> bool:
    """Return whether all bytes are 0, as in /dev/zero, which never ends."""
    return bool(start) and not start[:START_SIZE].strip(b"\0")


def _unpacked_start(raw: bytes, size: int) -> tuple[bytes, bool]:
    """Return the unpacked first bytes of a file, up to a piece that passes `size`, and whether they are all."""
    packing = find_packing(raw)
    if packing is None:
        return raw, True
    pieces: list[bytes] = []
    with suppress(DataError):  # for the end, which is cut off
        for piece in unpacked_pieces(BytesIO(raw), packing, ""):
            pieces.append(piece)
            if sum(map(len, pieces)) >= size:
                return b"".join(pieces), False
    return b"".join(pieces), True


def read_bytes(origin: Readable) -> bytes:
    """Return the whole content of a file, unpacked. DataUnavailableError if there is no file; DataError for a folder,
    an unreadable file, and a compressed stream that is cut short, damaged or unpacks to too much."""
    source = source_of(origin)
    if hasattr(source.origin, "read"):
        content = source.origin.read()
        raw = b"".join(source.encoded([content])) if isinstance(content, str) else bytes(content)
    else:
        with opened(source.origin) as stream:
            raw = _read_stream(source, stream) if is_stream(source.origin) else stream.read()
    return unpack(raw, shown_name(source), source.largest_size)


def _read_stream(source: Source, stream: Any) -> bytes:
    """Return the content of a stream up to its end; DataError for more bytes than a compressed file may unpack to."""
    pieces, size = [], 0
    while piece := stream.read1(PIECE_SIZE):
        pieces.append(piece)
        size += len(piece)
        if size > source.largest_size:
            raise DataError(
                f"{source}: has more than {source.largest_size} bytes; if that is meant, allow it with largest_size="
            )
    return b"".join(pieces)


def text_lines(origin: Readable, *, keeps_returns: bool = False) -> Iterator[tuple[int, str]]:
    """Yield pairs (line number from 1, line without its end, LF or CR LF). Raises as `read_bytes`, and for other bytes
    than text; for a CR within a line, too, unless it `keeps_returns`."""
    source = source_of(origin)
    shown, part = shown_name(source), source.origin
    lines: Iterable[tuple[int, str]]
    if isinstance(part, Part):
        lines = chain(enumerate(part.head.split("\n")[:-1], 1), enumerate(part.text.split("\n"), part.first))
    elif "utf-8" in codecs.lookup(source.codec).name:
        content = read_bytes(source)
        check_text(source, content)
        raw_lines = content.removeprefix(codecs.BOM_UTF8).split(b"\n")
        del content
        lines = ((number, decode_line(source, number, raw)) for number, raw in enumerate(raw_lines, 1))
    else:
        content = read_bytes(source)
        check_text(source, content)
        try:
            text = content.decode(source.encoding)
        except UnicodeError as error:
            raise DataError(f"{shown}: not {source.encoding} text: {error}") from error
        lines = enumerate(text.removeprefix("\ufeff").split("\n"), 1)
    for number, line in lines:
        if "\r" in line:
            line = line.removesuffix("\r")
            if not keeps_returns:
                check_whole(shown, number, line)
        yield number, line


def blank_parted(line: str) -> list[str]:
    """Return the fields of a line, separated by blanks and tabs only; [] for a blank line."""
    fields = line.replace("\t", " ").split(" ")
    return [field for field in fields if field] if "" in fields else fields


def is_blank(line: str) -> bool:
    """Return whether a line, with or without its end, has only blanks and tabs."""
    return not line.strip(" \t\r\n")


def check_whole(shown: str, number: int, line: str) -> None:
    """Raise DataError, naming the file as `shown`, for a line with a CR in it."""
    if "\r" in line:
        raise DataError(f"{shown}, line {number}: {RETURN_WITHIN}")


def read_text(origin: Readable) -> str:
    """Return the whole text of a file, line ends as `\\n`; raises as `text_lines`."""
    return "\n".join(line for _, line in text_lines(origin))


def check_text(source: Source, content: bytes) -> None:
    """Raise DataError, with the kind of the file and advice, for one that begins as text of another encoding or as a
    binary file does."""
    start = content[:START_SIZE]
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if start.startswith(mark) and "utf-8" in codecs.lookup(source.codec).name:
            raise DataError(
                f"{shown_name(source)}: expected {source.encoding} text, but it begins as {encoding} does; read it "
                f"with encoding={encoding!r} (--encoding {encoding})"
            )
    kind = find_binary(start)
    if kind is not None:
        raise DataError(f"{shown_name(source)}: expected text, got {kind.name}; {kind.remedy}")
    # Encodings whose ASCII characters have a byte of 0.
    is_wide = codecs.lookup(source.codec).name.startswith(("utf-16", "utf-32"))
    if b"\0" in start and source.encoding != BYTES_ENCODING and not is_wide:
        raise DataError(
            f"{shown_name(source)}: expected text, got binary data (the byte after {start.index(0):,} others is 0); "
            f"UTF-16 is read with encoding='utf-16-le' (--encoding utf-16-le), any bytes with {BYTES_ENCODING!r}"
        )


def decode_line(origin: Readable, number: int, line: bytes) -> str:
    """Return a line as text; DataError, naming the line, which is known since no character has the byte of a line's
    end."""
    try:
        return line.decode("utf-8", source_of(origin).errors)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{shown_name(origin)}, line {number}: not UTF-8 text: byte 0x{line[error.start]:02x} after "
            f"{error.start} others ({error.reason}); another encoding can be named (--encoding latin-1, "
            f"encoding='latin-1'), or {BYTES_ENCODING}, which keeps all bytes unchanged"
        ) from error


@contextmanager
def opened(origin: StrPath) -> Iterator[IO[bytes]]:
    """Open a file, or standard input; errors of reading as of `read_bytes`."""
    is_standard = str(origin) == STANDARD_INPUT
    if is_standard and sys.stdin is None:
        raise DataError("standard input is closed; name a file, or pipe the items in")
    try:
        begun = _looked_at.pop(_identity(origin), None) if _looked_at else None
        unread: Any = begun or (nullcontext(sys.stdin.buffer) if is_standard else open(origin, "rb"))  # noqa: SIM115
        with unread as stream:
            yield stream
    except FileNotFoundError as error:
        raise DataUnavailableError(f"{origin}: no such file") from error
    except IsADirectoryError as error:
        raise DataError(f"{shown_name(origin)}: a folder; expected a file") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{shown_name(origin)}: cannot be read: {error}") from error
