"""Hash values of byte strings by Bob Jenkins's lookup3 (`hashlittle`), which CRFsuite's string tables are indexed by.

Strings of one length are hashed together, twelve bytes of each at a time.

References
----------
Jenkins: lookup3.c, May 2006 (public domain), http://burtleburtle.net/bob/c/lookup3.c.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

START = 0xDEADBEEF
BLOCK = 12  # bytes that enter at once: a word each into a, b and c
MIXING = (4, 6, 8, 16, 19, 4)  # rotations between blocks
LAST = (14, 11, 25, 16, 4, 14, 24)  # rotations after the last block


def hash_strings(strings: Sequence[bytes]) -> Words:
    """Return the hash value of each string, uint32, with the initial value 0.

    Notes
    -----
    O(bytes) time, and 4 times the bytes of the strings of one length in memory.
    """
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
        a, b, c = _mixed(a, b, c) if block + 1 < n_blocks else _finished(a, b, c)
    return c


def _rotated(x: Words, by: int) -> Words:
    return (x << np.uint32(by)) | (x >> np.uint32(32 - by))


def _mixed(a: Words, b: Words, c: Words) -> tuple[Words, Words, Words]:
    """Mix the state between two blocks, reversibly; the three words take turns."""
    for by in MIXING:
        a = (a - c) ^ _rotated(c, by)
        c = c + b
        a, b, c = b, c, a
    return a, b, c


def _finished(a: Words, b: Words, c: Words) -> tuple[Words, Words, Words]:
    """Mix the state after the last block; the hash value is the third word."""
    for by in LAST:
        c = (c ^ b) - _rotated(b, by)
        a, b, c = b, c, a
    return c, a, b  # seven turns are one more than two whole rounds
