"""String tables of CRFsuite's model files ("constant quark databases"): from a string to its number and back.

A header of 24 bytes, 256 references to hash tables, the records (number, size, string with a zero byte at its end), the
hash tables (open addressing, twice as many slots as strings), and an array of the record of each number. Integers are
of 4 bytes, little-endian, positions from the start of the table. Hash values are those of Bob Jenkins's lookup3
(`hashlittle`), of strings of one length together, twelve bytes of each at a time. Sources: Okazaki: CRFsuite, 2007, its
library CQDB; lookup3.c, May 2006 (public domain), http://burtleburtle.net/bob/c/lookup3.c.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

START = 0xDEADBEEF
BLOCK = 12  # bytes that enter at once: a word each into a, b and c
MIXING = (4, 6, 8, 16, 19, 4)  # rotations between blocks
LAST = (14, 11, 25, 16, 4, 14, 24)  # rotations after the last block


def hash_strings(strings: Sequence[bytes]) -> Words:
    """Return the hash value of each string, uint32, with the initial value 0: O(bytes), and 4 times these in memory."""
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
    a = np.full(n, (START + length) & 0xFFFFFFFF, np.uint32)
    b, c = a.copy(), a.copy()
    if length == 0:
        return c
    n_blocks = -(-length // BLOCK)
    padded = np.zeros((n, n_blocks * BLOCK), np.uint8)
    padded[:, :length] = rows
    words = padded.view("<u4").astype(np.uint32, copy=False)
    for block in range(n_blocks):
        first, second, third = words[:, 3 * block : 3 * block + 3].T
        a, b, c = a + first, b + second, c + third
        for by in MIXING if block + 1 < n_blocks else ():  # reversibly; the three words take turns
            a = (a - c) ^ _rotated(c, by)
            c = c + b
            a, b, c = b, c, a
    for by in LAST:
        c = (c ^ b) - _rotated(b, by)
        a, b, c = b, c, a
    return b  # the third word: seven turns are one more than two whole rounds


def _rotated(x: Words, by: int) -> Words:
    return (x << np.uint32(by)) | (x >> np.uint32(32 - by))


class Damage(Exception):
    """Reason why bytes are no CRFsuite model; the caller adds the file's name."""


def words_at(data: memoryview, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the unsigned 4-byte integers at the positions, aligned or not; all of them lie within the data."""
    octets = np.frombuffer(data, np.uint8)
    integers = np.zeros(positions.shape, np.int64)
    for place in range(4):
        integers |= octets[positions + place].astype(np.int64) << (8 * place)
    return integers


HEADER = struct.Struct("<4sIIIII")  # name, size, flags, byte order, strings, position of the array of records
NAME, BYTE_ORDER = b"CQDB", 0x62445371
N_TABLES = 256  # the lowest byte of a hash value says which
FIRST_RECORD = HEADER.size + 8 * N_TABLES
RECORD = struct.Struct("<II")  # number, size of the string with its zero byte


def encode_strings(strings: Sequence[bytes]) -> bytes:
    """Return the table of strings numbered 0, 1, ...; none of them has a zero byte, or comes twice."""
    keys = [string + b"\0" for string in strings]
    records = [RECORD.pack(number, len(key)) + key for number, key in enumerate(keys)]
    ends = FIRST_RECORD + np.cumsum([0, *map(len, records)])
    positions = ends[:-1]
    references, slots = _hash_tables(hash_strings(keys), positions, int(ends[-1]))
    back = int(ends[-1]) + slots.nbytes
    size = back + 4 * len(keys)
    header = HEADER.pack(NAME, size, 0, BYTE_ORDER, len(keys), back if keys else 0)
    return b"".join(
        [header, references.tobytes(), *records, slots.tobytes(), positions.astype("<u4").tobytes()]
    )


def _hash_tables(
    hashes: NDArray[np.uint32], positions: NDArray[np.int64], first: int
) -> tuple[NDArray, NDArray]:
    """Return references to the 256 hash tables, (256, 2), and their slots in turn, (slots, 2): of n strings a table has
    2 n slots, and a string is in the first free one from (hash / 256) mod 2 n on."""
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
    """Return the strings 0 ... n_strings - 1 of a table, behind which bytes may follow; nothing larger than it is made.
    Damage where it is cut short, or records do not fit together."""
    if len(table) < FIRST_RECORD:
        raise Damage("a table of strings is cut short")
    name, size, _, byte_order, n_back, back = HEADER.unpack(table[: HEADER.size])
    if name != NAME or byte_order != BYTE_ORDER:
        raise Damage("a table of strings does not begin as one")
    if not FIRST_RECORD <= size <= len(table):
        raise Damage(f"a table of strings has {size} bytes, of which {len(table)} are there")
    if n_back < n_strings or (n_strings and not FIRST_RECORD <= back <= size - 4 * n_strings):
        raise Damage(f"a table of strings has no room for {n_strings} of them")
    table = table[:size]
    positions = np.frombuffer(table, "<u4", n_strings, back if n_strings else 0).astype(np.int64)
    if positions.size and not FIRST_RECORD <= positions.min() <= positions.max() <= size - RECORD.size:
        raise Damage("a string lies outside of its table")
    numbers, sizes = words_at(table, positions), words_at(table, positions + 4)
    starts = positions + RECORD.size
    # Records do not overlap: strings that did would be larger than the file together.
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
