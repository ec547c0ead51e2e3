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
from typing import Any, BinaryIO, NamedTuple

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
    pieces: Callable[[BinaryIO], Iterator[bytes]]
    pack: Callable[[bytes], bytes]


def _pieces_of(opened: Callable[[BinaryIO], Any]) -> Callable[[BinaryIO], Iterator[bytes]]:
    """Return a reader of pieces from what opens a compressed stream."""

    def pieces(packed: BinaryIO) -> Iterator[bytes]:
        with opened(packed) as stream:
            while piece := stream.read1(PIECE):  # what there is, also before a damaged place
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


def _zstd_pieces(packed: BinaryIO) -> Iterator[bytes]:
    """Yield the content of all frames; the readers of `zstandard` take a stream that is cut short for a whole one."""
    module = _zstd()
    rest = packed.read(ZSTD_STEP)
    while rest:
        found = module.ZstdDecompressor()
        frame = found.decompressobj() if hasattr(found, "decompressobj") else found
        while rest and not frame.eof:
            yield frame.decompress(rest)
            rest = packed.read(ZSTD_STEP) if not frame.eof else frame.unused_data
        if not frame.eof:
            raise EOFError("no end of the last frame")
        rest = rest or packed.read(ZSTD_STEP)


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
    """Return the content of a file's bytes, unpacked if they are compressed; `shown`: its name for messages.

    DataError for a stream that is cut short or damaged, or that unpacks to more than `largest` bytes.
    """
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
                "that is meant, allow it with largest_size="
            )
        pieces.append(piece)
    return b"".join(pieces)


def find_packing(start: bytes) -> Packing | None:
    """Return the way of compression that a file's first bytes tell; None for what is not compressed."""
    return next((packing for packing in PACKINGS if start.startswith(packing.magic)), None)


def unpacked_pieces(packed: BinaryIO, packing: Packing, shown: str) -> Iterator[bytes]:
    """Yield the content of a compressed stream piece by piece; DataError where it is cut short or damaged."""
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
    """Return the content compressed as the extension of the file's name says, as it is for any other name."""
    for packing in PACKINGS:
        if PurePath(name).suffix.lower() == packing.suffix:
            return packing.pack(content)
    return content
