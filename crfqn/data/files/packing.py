"""Compressed files: unpacking by the first bytes, within a limit of the size, and packing by the extension.

Compression is recognised by the first bytes, not by the name: servers and browsers unpack `.gz` files on the way and
keep the name. A file of some kilobytes can unpack to terabytes, so unpacking goes by pieces and stops at a limit.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import PurePath
from typing import Any, NamedTuple

from crfqn.errors import DataError

LARGEST_SIZE = 4 << 30  # bytes of an unpacked file, unless the caller says otherwise
PIECE = 1 << 20  # bytes unpacked at a time
ZSTD_STEP = (
    1 << 12
)  # bytes of a zstd stream at a time, which unpack to 128 MB at most (blocks of 128 kB in 4 bytes)


class Packing(NamedTuple):
    """Way of compression: what its files begin and end their names with, how they are read and written."""

    name: str
    magic: bytes
    suffix: str
    pieces: Callable[[bytes], Iterator[bytes]]
    pack: Callable[[bytes], bytes]


def _pieces_of(opened: Callable[[BytesIO], Any]) -> Callable[[bytes], Iterator[bytes]]:
    """Return a reader of pieces from what opens a compressed stream."""

    def pieces(raw: bytes) -> Iterator[bytes]:
        with opened(BytesIO(raw)) as stream:
            while piece := stream.read(PIECE):
                yield piece

    return pieces


def _zstd() -> Any:
    """Return Python's own module for zstd (from 3.14), else that of the package `zstandard`."""
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise DataError(
        "zstd-compressed files need the package zstandard (or Python 3.14): pip install 'crfqn[formats]'"
    )


def _zstd_pieces(raw: bytes) -> Iterator[bytes]:
    """Yield the content of all frames; the readers of `zstandard` take a stream that is cut short for a whole one."""
    module = _zstd()
    rest = memoryview(raw)
    while rest:
        found = module.ZstdDecompressor()
        frame = found.decompressobj() if hasattr(found, "decompressobj") else found
        while rest and not frame.eof:
            yield frame.decompress(bytes(rest[:ZSTD_STEP]))
            rest = rest[ZSTD_STEP:]
        if not frame.eof:
            raise EOFError("no end of the last frame")
        rest = rest[:0] if not (left := len(frame.unused_data) + len(rest)) else memoryview(raw)[-left:]


def _pack_gzip(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)  # without the time of day: the same content, the same bytes


PACKINGS = (
    Packing("gzip", b"\x1f\x8b", ".gz", _pieces_of(lambda stream: gzip.GzipFile(fileobj=stream)), _pack_gzip),
    Packing("bzip2", b"BZh", ".bz2", _pieces_of(bz2.BZ2File), bz2.compress),
    Packing("xz", b"\xfd7zXZ\x00", ".xz", _pieces_of(lzma.LZMAFile), lzma.compress),
    Packing("zstd", b"\x28\xb5\x2f\xfd", ".zst", _zstd_pieces, lambda content: _zstd().compress(content)),
)
SUFFIXES = tuple(packing.suffix for packing in PACKINGS)


def unpack(raw: bytes, shown: str, largest: int = LARGEST_SIZE) -> bytes:
    """Return the content of a file's bytes, unpacked if they are compressed.

    Parameters
    ----------
    raw : bytes
    shown : str
        Name of the file, for messages.
    largest : int
        Bytes that a compressed file may unpack to.

    Raises
    ------
    DataError
        The compressed stream is cut short, damaged, or unpacks to more than `largest` bytes.
    """
    packing = next((packing for packing in PACKINGS if raw.startswith(packing.magic)), None)
    if packing is None:
        return raw
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in packing.pieces(raw):
            size += len(piece)
            if size > largest:
                raise DataError(
                    f"{shown}: the {packing.name} file of {len(raw)} bytes unpacks to more than {largest} bytes; if "
                    "that is meant, allow it with largest_size="
                )
            pieces.append(piece)
    except EOFError as error:
        raise DataError(
            f"{shown}: the {packing.name} file is cut short ({len(raw)} bytes are there); fetch or copy it again"
        ) from error
    except DataError:
        raise
    except (OSError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{shown}: the {packing.name} file is damaged: {error}") from error
    except Exception as error:
        if type(error).__name__ != "ZstdError":  # of whichever module is there
            raise
        raise DataError(f"{shown}: the zstd file is damaged: {error}") from error
    return b"".join(pieces)


def pack(content: bytes, name: str) -> bytes:
    """Return the content compressed as the extension of the file's name says, as it is for any other name."""
    for packing in PACKINGS:
        if PurePath(name).suffix.lower() == packing.suffix:
            return packing.pack(content)
    return content
