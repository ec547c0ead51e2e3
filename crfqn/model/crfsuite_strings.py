"""String tables of CRFsuite's model files ("constant quark databases"), which number strings.

A table has a header of 24 bytes, 256 references to hash tables, the records (number, size, string with a zero byte at
its end), the hash tables (open addressing, twice as many slots as strings), and the position of each number's record.
Integers have 4 bytes, little-endian; positions count from the start of the table. The hash function is Bob Jenkins's
lookup3 (`hashlittle`), computed for all strings of one length together. Sources: Okazaki: CRFsuite, 2007, its library
CQDB; lookup3.c, May 2006 (public domain), http://burtleburtle.net/bob/c/lookup3.c.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

HASH_START = 0xDEADBEEF  # of a, b and c, plus the length: lookup3
HASH_BLOCK = 12  # bytes of a block, a word each for a, b and c: lookup3
BLOCK_ROTATIONS = (4, 6, 8, 16, 19, 4)  # bits, after each block but the last: lookup3
FINAL_ROTATIONS = (14, 11, 25, 16, 4, 14, 24)  # bits, after the last block: lookup3


def hash_strings(strings: Sequence[bytes]) -> Words:
    """Return the hash value of each string, uint32, with the initial value 0; memory is 4 times the bytes."""
    lengths = np.fromiter(map(len, strings), np.int64, len(strings))
    ends = np.cumsum(lengths)
    text = np.frombuffer(b"".join(strings), np.uint8)
    hashes = np.empty(len(strings), np.uint32)
    order = np.argsort(lengths, kind="stable")
    cuts = np.flatnonzero(np.diff(lengths[order])) + 1
    for group in np.split(order, cuts) if order.size else ():
        length = int(lengths[group[0]])
        starts = ends[group] - length
        hashes[group] = _hash_rows(text[starts[:, None] + np.arange(length)])
    return hashes


def _hash_rows(rows: NDArray[np.uint8]) -> Words:
    """Return the hash value of each row of bytes, (n, length)."""
    n, length = rows.shape
    a = np.full(n, (HASH_START + length) & 0xFFFFFFFF, np.uint32)
    b, c = a.copy(), a.copy()
    if length == 0:
        return c
    n_blocks = -(-length // HASH_BLOCK)
    padded = np.zeros((n, n_blocks * HASH_BLOCK), np.uint8)
    padded[:, :length] = rows
    words = padded.view("<u4").astype(np.uint32, copy=False)
    for block in range(n_blocks):
        first, second, third = words[:, 3 * block : 3 * block + 3].T
        a, b, c = a + first, b + second, c + third
        for by in BLOCK_ROTATIONS if block + 1 < n_blocks else ():  # a reversible step; a, b and c rotate
            a = (a - c) ^ _rotated(c, by)
            c = c + b
            a, b, c = b, c, a
    for by in FINAL_ROTATIONS:
        c = (c ^ b) - _rotated(b, by)
        a, b, c = b, c, a
    return b  # the third word: after seven rotations c is in b


def _rotated(x: Words, by: int) -> Words:
    return (x << np.uint32(by)) | (x >> np.uint32(32 - by))


class Damage(Exception):
    """The reason why bytes are no CRFsuite model; the caller adds the file's name."""


def words_at(data: memoryview, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the unsigned 4-byte integers at the positions, aligned or not. All must lie within the data."""
    octets = np.frombuffer(data, np.uint8)
    integers = np.zeros(positions.shape, np.int64)
    for place in range(4):
        integers |= octets[positions + place].astype(np.int64) << (8 * place)
    return integers


# Name, size, flags, byte order, number of strings, position of the positions of records.
TABLE_HEADER = struct.Struct("<4sIIIII")
TABLE_NAME, BYTE_ORDER = b"CQDB", 0x62445371
N_TABLES = 256  # hash tables: the lowest byte of a hash value selects one
FIRST_RECORD = TABLE_HEADER.size + 8 * N_TABLES  # position, in bytes
RECORD_HEADER = struct.Struct("<II")  # number, size of the string with its zero byte


def encode_strings(strings: Sequence[bytes]) -> bytes:
    """Return the table of distinct strings without zero bytes, numbered 0, 1, ..."""
    keys = [string + b"\0" for string in strings]
    records = [RECORD_HEADER.pack(number, len(key)) + key for number, key in enumerate(keys)]
    ends = FIRST_RECORD + np.cumsum([0, *map(len, records)])
    positions = ends[:-1]
    references, slots = _hash_tables(hash_strings(keys), positions, int(ends[-1]))
    back = int(ends[-1]) + slots.nbytes
    size = back + 4 * len(keys)
    header = TABLE_HEADER.pack(TABLE_NAME, size, 0, BYTE_ORDER, len(keys), back if keys else 0)
    return b"".join(
        [header, references.tobytes(), *records, slots.tobytes(), positions.astype("<u4").tobytes()]
    )


def _hash_tables(
    hashes: NDArray[np.uint32], positions: NDArray[np.int64], first: int
) -> tuple[NDArray, NDArray]:
    """Return references to the 256 hash tables, (256, 2), and the slots of all tables, (slots, 2). A table of n strings
    has 2 n slots; a string takes the first free one from (hash / 256) mod 2 n on."""
    table_of = hashes % N_TABLES
    sizes = 2 * np.bincount(table_of, minlength=N_TABLES)
    starts = np.cumsum(sizes) - sizes
    slots = np.zeros((int(sizes.sum()), 2), "<u4")
    home = (hashes >> np.uint32(8)) % np.maximum(sizes, 1)[table_of]
    taken = bytearray(slots.shape[0])
    place = np.empty(hashes.size, np.int64)
    rows = zip(home.tolist(), starts[table_of].tolist(), sizes[table_of].tolist(), strict=True)
    for number, (slot, start, size) in enumerate(rows):
        while taken[start + slot]:
            slot = (slot + 1) % size
        taken[start + slot] = 1
        place[number] = start + slot
    slots[place, 0], slots[place, 1] = hashes, positions
    references = np.stack([np.where(sizes > 0, first + 8 * starts, 0), sizes], axis=1).astype("<u4")
    return references, slots


def decode_strings(table: memoryview, n_strings: int) -> list[bytes]:
    """Return the strings 0 ... n_strings - 1 of a table, after which other bytes may follow. Memory is O(size of
    the table). Damage if the table is cut short, or if its records do not fit together."""
    if len(table) < FIRST_RECORD:
        raise Damage("a table of strings is cut short")
    name, size, _, byte_order, n_back, back = TABLE_HEADER.unpack(table[: TABLE_HEADER.size])
    if name != TABLE_NAME or byte_order != BYTE_ORDER:
        raise Damage("a table of strings does not begin as one")
    if not FIRST_RECORD <= size <= len(table):
        raise Damage(f"a table of strings has {size} bytes, but {len(table)} remain")
    if n_back < n_strings or (n_strings and not FIRST_RECORD <= back <= size - 4 * n_strings):
        raise Damage(f"a table of strings has no room for {n_strings} of them")
    table = table[:size]
    positions = np.frombuffer(table, "<u4", n_strings, back if n_strings else 0).astype(np.int64)
    if positions.size and not FIRST_RECORD <= positions.min() <= positions.max() <= size - RECORD_HEADER.size:
        raise Damage("a string lies outside of its table")
    numbers, sizes = words_at(table, positions), words_at(table, positions + 4)
    starts = positions + RECORD_HEADER.size
    # Records do not overlap: overlapping strings could be larger than the file.
    if (numbers != np.arange(n_strings)).any() or (starts + sizes > size).any() or sizes.sum() > size:
        raise Damage("the strings of a table do not fit together")
    strings = [
        bytes(table[start : start + length])
        for start, length in zip(starts.tolist(), sizes.tolist(), strict=True)
    ]
    for number, string in enumerate(strings):
        if not string.endswith(b"\0") or string.count(b"\0") != 1:
            raise Damage(f"string {number} of a table has no end, or two")
    return [string[:-1] for string in strings]
