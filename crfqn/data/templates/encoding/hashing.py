"""Hashed features: columns from hashes of texts, without a fit and without names.

A text is hashed once (BLAKE2b), a combination by mixing the hashes of its values, so that a feature has the same
column in every batch, process and machine. Features that meet in a column are one feature.

References
----------
Weinberger, Dasgupta, Langford, Smola, Attenberg: Feature hashing for large scale multitask learning. ICML 2009.
Steele, Lea, Flood: Fast splittable pseudorandom number generators. OOPSLA 2014 (the mixing of 64 bits).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from crfqn.data.templates.encoding.batch import Batch
from crfqn.data.templates.encoding.combinations import NONE
from crfqn.data.templates.patterns.pattern import Pattern
from crfqn.data.templates.patterns.views import View

FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
MISSING = np.uint64(0)  # of a text without a value; no hash is 0


def hashed_columns(batch: Batch, patterns: Sequence[Pattern], n_columns: int) -> Iterator[NDArray[np.int32]]:
    """Yield for each pattern its column at each position (N,), NONE where it has no feature."""
    known: dict[View, NDArray[np.uint64]] = {}

    def hashes(view: View) -> NDArray[np.uint64]:
        if view not in known:
            values = map(view.function(), batch.texts(view.column))
            known[view] = np.array(
                [MISSING if value is None else _hash(value) for value in values], np.uint64
            )
        return known[view]

    for pattern in patterns:
        codes = np.full(batch.n_positions, _hash("\0".join(pattern.literals)), np.uint64)
        is_there = np.ones(batch.n_positions, bool)
        for macro in pattern.macros:
            values = batch.values(macro, hashes)
            is_there &= values != MISSING
            codes = _mixed(codes + values)
        if (here := batch.fits(pattern)) is not None:
            is_there &= here
        columns = (codes % np.uint64(n_columns)).astype(np.int32)
        columns[~is_there] = NONE
        yield columns


def hashed_column(name: str, n_columns: int) -> int:
    """Return the column of a feature that has a name."""
    return int(_hash(name) % np.uint64(n_columns))


def _hash(text: str) -> np.uint64:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little") | 1)


def _mixed(codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64-bit numbers with their bits mixed (SplitMix64's finaliser)."""
    codes = (codes ^ (codes >> np.uint64(30))) * FIRST_FACTOR
    codes = (codes ^ (codes >> np.uint64(27))) * SECOND_FACTOR
    return codes ^ (codes >> np.uint64(31))
