"""Binary files that are given instead of text: their kinds by the first bytes, and advice for messages."""

from __future__ import annotations

from typing import NamedTuple


class BinaryKind(NamedTuple):
    """Kind of binary file: its name, the bytes that its files have from byte `at` on, the bytes that they `contain`
    somewhere in their beginning, and advice for one that is given as data."""

    name: str
    magic: bytes
    remedy: str
    contain: bytes = b""
    at: int = 0


PARQUET = b"PAR1"
_ZIP = b"PK\x03\x04"
_ARRAYS = "numbers beside a data file are read by --dense FILE; in Python, load it and pass the array"
_PICKLE = (
    "it is not opened, as it can run code; load it in Python and pass what it holds, or write that as JSON"
)
_MODEL = "expected data here, and the model in its own place"
WORKBOOK = BinaryKind("an Excel workbook", _ZIP, "name its format (--format xlsx, format='xlsx')", b"xl/")
BINARY_KINDS = (
    WORKBOOK,
    BinaryKind("an OpenDocument sheet", _ZIP, "save its sheet as CSV or .xlsx", b"opendocument.spreadsheet"),
    BinaryKind("a Word document", _ZIP, "save it as plain text", b"word/"),
    BinaryKind("an .npz file of numpy", _ZIP, _ARRAYS, b".npy"),
    BinaryKind("a ZIP archive", _ZIP, "unpack it and name a file of it"),
    BinaryKind("an Office document of before 2007", b"\xd0\xcf\x11\xe0", "save it as CSV or plain text"),
    *(BinaryKind("a pickle", bytes([0x80, protocol]), _PICKLE) for protocol in range(2, 6)),
    BinaryKind("an array of numpy", b"\x93NUMPY", _ARRAYS),
    BinaryKind("a Parquet file", PARQUET, "name its format (--format parquet, format='parquet')"),
    BinaryKind("an Arrow file", b"ARROW1", "write its table as Parquet"),
    BinaryKind("a Feather file", b"FEA1", "write its table as Parquet"),
    BinaryKind("an HDF5 file", b"\x89HDF", "write its table as CSV or Parquet"),
    BinaryKind("an SQLite database", b"SQLite format 3\0", "write its table as CSV"),
    BinaryKind("a PDF document", b"%PDF-", "extract its text"),
    BinaryKind("a 7z archive", b"7z\xbc\xaf", "unpack it and name a file of it"),
    BinaryKind("a RAR archive", b"Rar!\x1a", "unpack it and name a file of it"),
    BinaryKind("a tar archive", b"ustar", "unpack it and name a file of it", at=257),
    BinaryKind("a model of CRFsuite", b"lCRF", _MODEL),
    BinaryKind("a model of crfqn", b'{"__metadata__"', _MODEL, at=8),
)


def find_binary(start: bytes) -> BinaryKind | None:
    """Return the kind of a binary file by its first bytes; None for text and for a file of another kind. If the magic
    bytes are letters, which may begin a text, the start must contain bytes of 0 as well."""
    has_zeros = b"\0" in start
    for kind in BINARY_KINDS:
        is_sure = has_zeros or not kind.magic.decode("latin-1").isprintable() or b"%" in kind.magic
        if is_sure and start.startswith(kind.magic, kind.at) and kind.contain in start:
            return kind
    return None
