"""Columns of a batch as numbers, and columns of combinations of these numbers: exactly, or by hashing.

Every distinct text is processed once: all further work is on arrays of integers. The values of a pattern's macros at a
position, as digits in a mixed base, are one integer, and a table maps this integer to a column. If the digits do not
fit into 62 bits, the combinations of the first ones are numbered, and their number is the first digit of the next
stage.

Hashed features need no table and no fit, and have no names. A text is hashed once (BLAKE2b), and a combination by
mixing the hashes of its values, so that a feature has the same column in every batch, process and machine. Features
whose hashes have the same column are one feature.

Shapes: N positions, D distinct texts of a column (then its marks) or distinct tokens, F features, P positions of a
pattern, k macros, M combinations. Sources: Weinberger, Dasgupta, Langford, Smola, Attenberg: Feature hashing for large
scale multitask learning. ICML 2009. Steele, Lea, Flood: Fast splittable pseudorandom number generators. OOPSLA 2014
(the mixing of 64 bits).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.inputs import SparseMatrix
from crfqn.data.templates.patterns import BIGRAM, LAST_POSITION, Macro, Pattern, View
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import InputError
from crfqn.messages import describe, shorten

NO_NUMBER = -1  # of a value that has none, and the column of a combination that has none
Function = Callable[[dict[str, str]], Iterable[str]]


class TokenBatch:
    """Columns of items, with the numbers of their texts; `marks` are read 1, 2, ... positions before and after an
    item, the last one also further out."""

    def __init__(self, columns: TokenColumns, marks: tuple[list[str], list[str]]) -> None:
        self.columns, self.marks = columns, marks
        self.n_positions = columns.n_positions
        lengths = columns.lengths
        self.start = np.repeat(columns.offsets[:-1], lengths)
        self.stop = np.repeat(columns.offsets[1:], lengths)
        self._numbers: dict[str, tuple[list[str], NDArray[np.int32]]] = {}
        self._values: dict[View, list[str | None]] = {}
        self._reads: dict[tuple[str, int, bool], NDArray[np.int32]] = {}

    def values(self, view: View) -> list[str | None]:
        """Return the values of a view for the D distinct texts of its column, marks last."""
        if view not in self._values:
            self._values[view] = list(map(view.function(), self._numbered(view.column)[0]))
        return self._values[view]

    def numbers(self, value_number: Mapping[View, Mapping[Any, int]]) -> dict[View, NDArray[np.int32]]:
        """Return for each view the numbers of its values (D,), NO_NUMBER for unknown ones."""
        return {
            view: np.array([number_of.get(value, NO_NUMBER) for value in self.values(view)], np.int32)
            for view, number_of in value_number.items()
        }

    def read(self, pattern: Pattern, numbers: Mapping[View, NDArray[Any]]) -> list[NDArray[Any]]:
        """Return the number of each macro's value at each position, (N,), given the `numbers` of each view's values."""
        return [numbers[macro.view][self._read(macro)] for macro in pattern.macros]

    def fits(self, pattern: Pattern) -> NDArray[np.bool_] | None:
        """Return the positions (N,) at which a pattern has a feature, None for all; a pattern of label pairs has none
        at the first position of an item."""
        if pattern.kind == BIGRAM:
            return np.arange(self.n_positions) > self.start
        if pattern.restricted_to:
            offsets = self.columns.offsets
            edges = offsets[1:] - 1 if pattern.restricted_to == LAST_POSITION else offsets[:-1]
            here = np.zeros(self.n_positions, bool)
            here[edges[self.columns.lengths > 0]] = True
            return here
        reach = [macro.offset for macro in pattern.macros]
        if pattern.has_marks or not any(reach):
            return None
        place = np.arange(self.n_positions)
        return (place + min(reach) >= self.start) & (place + max(reach) < self.stop)

    def _numbered(self, column: str) -> tuple[list[str], NDArray[np.int32]]:
        """Return the distinct texts of a column, marks last, and the number of the text at each position."""
        if column not in self._numbers:
            texts = self.columns.texts[column]
            distinct_texts = list(dict.fromkeys(texts))
            number_of = dict(zip(distinct_texts, range(len(distinct_texts)), strict=True))
            numbers = np.fromiter(map(number_of.__getitem__, texts), np.int32, len(texts))
            self._numbers[column] = [*distinct_texts, *self.marks[0], *self.marks[1]], numbers
        return self._numbers[column]

    def _read(self, macro: Macro) -> NDArray[np.int32]:
        """Return the number of the text, or mark, that a macro reads at each position."""
        key = macro.view.column, macro.offset, macro.is_absolute
        if key not in self._reads:
            texts, numbers = self._numbered(macro.view.column)
            before, after = map(len, self.marks)
            first_mark = len(texts) - before - after
            place = np.arange(self.n_positions) + macro.offset
            if macro.is_absolute:
                place = self.stop + macro.offset if macro.offset < 0 else self.start + (macro.offset - 1)
            inside = (place >= self.start) & (place < self.stop)
            texts_read = np.empty(self.n_positions, np.int32)
            texts_read[inside] = numbers[place[inside]]
            out = np.flatnonzero(place < self.start)
            texts_read[out] = first_mark + np.minimum(self.start[out] - place[out], before) - 1
            out = np.flatnonzero(place >= self.stop)
            texts_read[out] = first_mark + before + np.minimum(place[out] - self.stop[out], after - 1)
            self._reads[key] = texts_read
        return self._reads[key]


class TokenFeatures:
    """Features `<name of the function>=<text>` of the user's functions, which are called once for each distinct token
    (a dict `column -> text`) and list its texts. `names` are by distinct token, `token_of` (N,) is each position's."""

    def __init__(self, columns: TokenColumns, functions: Sequence[Function]) -> None:
        number_of: dict[tuple[str, ...], int] = {}
        rows = zip(*columns.texts.values(), strict=True)
        self.token_of = np.fromiter(
            (number_of.setdefault(row, len(number_of)) for row in rows), np.int64, columns.n_positions
        )
        tokens = [dict(zip(columns.texts, row, strict=True)) for row in number_of]
        self.names = [
            [name for function in functions for name in _names(function, token)] for token in tokens
        ]

    def counts(self) -> Counter[str]:
        """Return the number of positions of each name."""
        counts: Counter[str] = Counter()
        times = np.bincount(self.token_of, minlength=len(self.names)).tolist()
        for names, n in zip(self.names, times, strict=True):
            for name in names:
                counts[name] += n
        return counts

    def rows(self, column_of: Callable[[str], int | None], n_features: int) -> SparseMatrix:
        """Return the features of all positions, csr_array (N, F); names without a column are left out."""
        import scipy.sparse

        columns_by_token = [
            [c for name in names if (c := column_of(name)) is not None] for names in self.names
        ]
        indptr = np.cumsum([0, *map(len, columns_by_token)])
        indices = np.array([*chain.from_iterable(columns_by_token)], np.int32)
        parts = (np.ones(indices.size, np.float32), indices, indptr)
        by_token = scipy.sparse.csr_array(parts, shape=(len(columns_by_token), n_features))
        return by_token[self.token_of]


def function_name(function: Function) -> str:
    """Return the start of the names of a function's features; InputError for anything but a function with a name."""
    name = getattr(function, "__name__", None)
    if not callable(function) or not isinstance(name, str):
        raise InputError(
            f"functions: expected functions `token -> list of texts` with a name, got {describe(function)}"
        )
    return name


def _names(function: Function, token: dict[str, str]) -> list[str]:
    listed, name = function(dict(token)), function_name(function)
    if isinstance(listed, (str, bytes)) or not isinstance(listed, Iterable):
        raise InputError(f"{name}({token}): expected a list of texts, got {describe(listed)}")
    texts = list(listed)
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{name}({token}): expected texts, got {shorten(text)}")
    return [f"{name}={text}" for text in texts]


MAX_CODE = 2**62  # of a combination of values: int64 holds its product with the next base
MAX_TABLE_KEYS = 1 << 20  # maximum number of keys for a table of all of them: 4 MB
FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
MISSING_HASH = np.uint64(0)  # of a text without a value; no hash is 0


class Numbering(NamedTuple):
    """Table from keys to numbers: sorted keys with their numbers, or all numbers by key (`keys` is empty then)."""

    keys: NDArray[np.int64]
    numbers: NDArray[np.int32]

    @classmethod
    def build(cls, keys: NDArray[np.int64], numbers: NDArray[np.int32], size: int) -> Numbering:
        """Return the table of distinct keys 0 ... size - 1."""
        if size <= MAX_TABLE_KEYS:
            table = np.full(size, NO_NUMBER, np.int32)
            table[keys] = numbers
            return cls(np.empty(0, np.int64), table)
        if not keys.size:  # a key that does not occur, since empty `keys` mean a table of all keys
            return cls(np.array([MAX_CODE]), np.array([NO_NUMBER], np.int32))
        if (keys[1:] < keys[:-1]).any():
            order = np.argsort(keys)
            keys, numbers = keys[order], numbers[order]
        return cls(keys, numbers)

    def find(self, keys: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the numbers of keys, NO_NUMBER for those without one; a key that is NO_NUMBER has none."""
        if not self.keys.size:
            numbers = self.numbers[keys]
        else:
            places = np.searchsorted(self.keys, keys)
            places[places == self.keys.size] = 0
            numbers = self.numbers[places]
            numbers[self.keys[places] != keys] = NO_NUMBER
        numbers[keys < 0] = NO_NUMBER
        return numbers


@dataclass(frozen=True)
class Combinations:
    """Table from combinations of k numbers, number i in 0 ... sizes[i] - 1, to columns. The key of a stage (first,
    stop, Numbering) is the number from the stage before, then digits first ... stop - 1."""

    sizes: tuple[int, ...]
    stages: tuple[tuple[int, int, Numbering], ...]

    @classmethod
    def build(
        cls, digits: NDArray[np.int64], columns: NDArray[np.int32], sizes: Sequence[int]
    ) -> Combinations:
        """Return the table of distinct combinations, `digits` (M, k), and their columns (M,)."""
        stages: list[tuple[int, int, Numbering]] = []
        codes, size, first = np.zeros(len(columns), np.int64), 1, 0
        for i, base in enumerate([*sizes, MAX_CODE]):
            if size * max(base, 1) >= MAX_CODE:
                is_last = i == len(sizes)
                keys, numbers = codes, columns
                if not is_last:
                    keys, inverse = np.unique(codes, return_inverse=True)
                    numbers = np.arange(keys.size, dtype=np.int32)
                    codes = inverse.astype(np.int64)
                stages.append((first, i, Numbering.build(keys, numbers, size)))
                size, first = max(int(keys.size), 1), i
            if i < len(sizes):
                codes = codes * base + digits[:, i]
                size *= max(base, 1)
        return cls(tuple(sizes), tuple(stages))

    def find(self, values: Sequence[NDArray[np.int32]], n_positions: int) -> NDArray[np.int32]:
        """Return the column at each of P positions, where macro i has the value values[i], (P,), or NO_NUMBER."""
        codes = np.zeros(n_positions, np.int64)
        for first, stop, numbering in self.stages:
            is_none = codes < 0
            for i in range(first, stop):
                codes *= self.sizes[i]
                codes += values[i]
                is_none |= values[i] < 0
            codes[is_none] = NO_NUMBER
            codes = numbering.find(codes).astype(np.int64)
        return codes.astype(np.int32)


def distinct(
    values: Sequence[NDArray[np.int32]], sizes: Sequence[int], n_positions: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct complete combinations (M, k), sorted, and the number of positions of each (M,)."""
    complete = np.ones(n_positions, bool)
    for column in values:
        complete &= column >= 0
    positions = np.flatnonzero(complete)
    codes, size = np.zeros(positions.size, np.int64), 1
    for column, base in zip(values, sizes, strict=True):
        if size * max(base, 1) >= MAX_CODE:
            distinct_codes, codes = np.unique(codes, return_inverse=True)
            size = max(distinct_codes.size, 1)
        codes = codes * base + column[positions]
        size *= max(base, 1)
    if size <= max(MAX_TABLE_KEYS, positions.size):
        counts = np.bincount(codes, minlength=size)
        distinct_codes = np.flatnonzero(counts)
        example = np.empty(size, np.int64)
        example[codes] = positions
        examples, counts = example[distinct_codes], counts[distinct_codes]
    else:
        _, first, counts = np.unique(codes, return_index=True, return_counts=True)
        examples = positions[first]
    digits = np.zeros((examples.size, len(values)), np.int64)
    for i, column in enumerate(values):
        digits[:, i] = column[examples]
    return digits, counts


def hashed_columns(
    pattern: Pattern, values: Sequence[NDArray[np.uint64]], n_positions: int, n_columns: int
) -> NDArray[np.int32]:
    """Return the column at each of P positions, where macro i has the hash values[i], (P,), or MISSING_HASH."""
    codes = np.full(n_positions, text_hash("\0".join(pattern.literals)), np.uint64)
    is_complete = np.ones(n_positions, bool)
    for hashes in values:
        is_complete &= hashes != MISSING_HASH
        codes = codes + hashes  # and its bits mixed: SplitMix64's finaliser
        codes = (codes ^ (codes >> np.uint64(30))) * FIRST_FACTOR
        codes = (codes ^ (codes >> np.uint64(27))) * SECOND_FACTOR
        codes ^= codes >> np.uint64(31)
    columns = (codes % np.uint64(n_columns)).astype(np.int32)
    columns[~is_complete] = NO_NUMBER
    return columns


def text_hash(text: str | None) -> np.uint64:
    """Return the hash of a text, MISSING_HASH for None."""
    if text is None:
        return MISSING_HASH
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little") | 1)
