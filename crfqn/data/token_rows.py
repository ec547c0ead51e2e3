"""Features of positions as dicts or strings: the columns of their names, in the users' order.

Long inputs are written into flat buffers of 4 bytes a feature. Items are encoded in batches, by maps over the dicts'
names and values: no Python code runs per feature. Shapes: I items, N positions, F features.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from numbers import Real
from operator import getitem
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from crfqn.data.inputs import SparseMatrix
from crfqn.data.items import LARGEST_VALUE, Items, wrap_hint, wrong_value
from crfqn.data.matrices import ENTRIES_PER_BLOCK, is_matrix
from crfqn.data.vocabulary import UNSEEN, Pairs, Vocabulary
from crfqn.errors import InputError
from crfqn.messages import describe, place_of, shorten

ITEMS_PER_BATCH = 256  # items encoded at a time
ENTRIES_PER_CHUNK = 1 << 16  # entries scored at a time: some MB
DICT_TYPES, LIST_TYPES = frozenset([dict]), frozenset([list, tuple])
NAME_LIST_TYPES = LIST_TYPES | {set, frozenset}
SET_OF_ONE = frozenset([1])
NESTED_TYPES = (list, tuple, set, frozenset, Mapping)
PLAIN_TYPES = frozenset([str, bool, int, float])
OF_ONE_ITEM = "; if the lists are the positions of one item, wrap it in a list: [item]"


class Rows(NamedTuple):
    """Entries of positions (or of single items), in any order, possibly with a column twice: position t has the entries
    row_ends[t] ... row_ends[t + 1] - 1."""

    row_ends: NDArray[np.int64]  # (N + 1,)
    columns: NDArray[np.integer]  # UNSEEN for none
    values: NDArray[np.float64]  # (0,) if all are 1

    @classmethod
    def from_items(cls, items: TokenRows | NDArray | SparseMatrix) -> Rows:
        """Return the entries of `TokenRows`, or of a checked 2-D array or sparse matrix."""
        if isinstance(items, TokenRows):
            return items.rows
        if hasattr(items, "tocsr"):
            matrix = items.tocsr()
            return cls(matrix.indptr.astype(np.int64), matrix.indices, matrix.data.astype(np.float64))
        positions, columns = np.nonzero(items)
        row_ends = np.searchsorted(positions, np.arange(len(items) + 1))
        return cls(row_ends, columns, items[positions, columns].astype(np.float64))

    def stretches(self, n_entries: int = ENTRIES_PER_CHUNK) -> Iterator[Rows]:
        """Yield the rows in chunks of about so many entries."""
        n_rows, first = self.row_ends.size - 1, 0
        while first < n_rows:
            goal = self.row_ends[first] + n_entries
            last = max(first + 1, int(np.searchsorted(self.row_ends, goal, side="right")) - 1)
            yield self.cut(first, last)
            first = last

    def cut(self, first: int, last: int) -> Rows:
        """Return the positions first ... last - 1."""
        begin, end = self.row_ends[first], self.row_ends[last]
        values = self.values[begin:end] if self.values.size else self.values
        return Rows(self.row_ends[first : last + 1] - begin, self.columns[begin:end], values)


@dataclass(eq=False)
class TokenRows(Items):
    """Rows of features in the users' order, cut into items."""

    rows: Rows
    offsets: NDArray[np.int64]
    n_features: int

    def matrix(self) -> SparseMatrix:
        """Return the entries as a canonical CSR matrix (N, F), float64, or float32 if all values are 1.

        It is made in the memory of the rows, which are invalid afterwards if a position has a column twice.
        """
        import scipy.sparse

        row_ends, columns, values = self.rows
        values = values if values.size else np.ones(columns.size, np.float32)
        is_seen = columns != UNSEEN
        if not is_seen.all():
            row_ends = np.concatenate([[0], np.cumsum(is_seen)])[row_ends]
            columns, values = columns[is_seen], values[is_seen]
        if columns.size < 2**31:  # scipy wants one dtype for both
            row_ends = row_ends.astype(np.int32)
        matrix = scipy.sparse.csr_array(
            (values, columns, row_ends), shape=(row_ends.size - 1, self.n_features)
        )
        matrix.sum_duplicates()
        return matrix


def can_be_read_again(items: Sequence[Any]) -> bool:
    """Return whether items are lists without iterators as positions, which can be read only once."""
    if not LIST_TYPES.issuperset(map(type, items)):
        return False
    return not any(issubclass(kind, Iterator) for kind in {*map(type, chain.from_iterable(items))})


def known_rows(items: Sequence[Any], pairs: Pairs, n_features: int) -> TokenRows:
    """Return items in the columns of known names; InputError names the item, the position and what came."""
    plain = plain_columns(items, pairs) if len(items) <= ITEMS_PER_BATCH else None
    if plain is None:
        return _Buffers(pairs).filled(items, n_features)
    columns, positions = plain  # without buffers, which is faster for a single batch
    row_ends, offsets = (
        np.array([0, *accumulate(map(len, lists))], np.int64) for lists in (positions, items)
    )
    return TokenRows(Rows(row_ends, np.array(columns, np.int32), np.empty(0)), offsets, n_features)


def growing_rows(items: Sequence[Any], separator: str = "=") -> tuple[TokenRows, Vocabulary]:
    """Return items in new columns, with their names, sorted; errors as `known_rows`. `separator` is between the key and
    the string of a dict's entry in a name."""
    pairs = Pairs.growing()
    rows = _Buffers(pairs).filled(items, 0)
    places, vocabulary = pairs.sorted_names(separator)
    rows.n_features = len(vocabulary)
    columns = rows.rows.columns
    for start in range(0, columns.size, ENTRIES_PER_BLOCK):
        columns[start : start + ENTRIES_PER_BLOCK] = places[columns[start : start + ENTRIES_PER_BLOCK]]
    return rows, vocabulary


def plain_columns(items: Sequence[Any], pairs: Pairs) -> tuple[list[int], list[Any]] | None:
    """Return the columns and the positions of lists of lists of strings, or of dicts to strings, booleans, 1 or 0; None
    for others."""
    if not LIST_TYPES.issuperset(map(type, items)):
        return None
    positions = list(chain.from_iterable(items))
    names = chain.from_iterable(positions)
    try:
        if NAME_LIST_TYPES.issuperset(map(type, positions)):
            return [*map(pairs.columns.__getitem__, names)], positions
        if not DICT_TYPES.issuperset(map(type, positions)):
            return None
        if all(map(SET_OF_ONE.issuperset, map(dict.values, positions))):
            return [*map(pairs.columns.__getitem__, names)], positions
        values = chain.from_iterable(map(dict.values, positions))
        return [*map(getitem, map(pairs.__getitem__, names), values)], positions
    except TypeError:  # values that must be checked, and lists, sets and dicts, which cannot be keys
        return None


class GrowingRows:
    """Growing buffers of `Rows`."""

    def __init__(self) -> None:
        self.row_ends, self.columns = array("q", [0]), array("i")
        # Usually values are 1, so only the others are kept, with their places in `columns`.
        self.other_values, self.other_at = array("d"), array("q")

    def append(self, entries: Mapping[int, float]) -> None:
        """Append a position with values by column."""
        for at, value in enumerate(entries.values(), start=len(self.columns)):
            if value != 1.0:
                self.other_at.append(at)
                self.other_values.append(value)
        self.columns.extend(entries)
        self.row_ends.append(len(self.columns))

    def rows(self) -> Rows:
        """Return all positions, in the memory of the buffers, which cannot grow while the arrays exist."""
        columns, values = np.frombuffer(self.columns, np.int32), np.empty(0)
        if self.other_at:
            values = np.ones(columns.size)
            values[np.frombuffer(self.other_at, np.int64)] = np.frombuffer(self.other_values)
        return Rows(np.frombuffer(self.row_ends, np.int64), columns, values)


class _Buffers(GrowingRows):
    """Growing buffers of `TokenRows`."""

    def __init__(self, pairs: Pairs) -> None:
        super().__init__()
        self.columns_by_name, self.columns_by_pair = pairs.columns, pairs
        self.offsets = array("q", [0])
        self.is_plain, self._add_dict = True, self._add_pairs

    def filled(self, items: Sequence[Any], n_features: int) -> TokenRows:
        """Return items as rows; InputError names the malformed position."""
        for first in range(0, len(items), ITEMS_PER_BATCH):
            together = items[first : first + ITEMS_PER_BATCH]
            if self.is_plain and self._add_plain(together):
                continue
            self.is_plain = True  # until a position has values that must be checked one by one
            for i, item in enumerate(together, first):
                if not isinstance(item, (list, tuple, np.ndarray)) or is_matrix(item):
                    raise InputError(
                        f"{place_of(i)}: expected a list of positions, got {describe(item)}{wrap_hint(item)}"
                    )
                for t, position in enumerate(item):
                    try:
                        self._add(position)
                    except (TypeError, ValueError, OverflowError):
                        reason = _what_is_wrong(position)
                        if reason is None:
                            raise
                        raise InputError(f"{place_of(i, t)}: {reason}") from None
                self.offsets.append(len(self.row_ends) - 1)
        return TokenRows(self.rows(), np.array(self.offsets, np.int64), n_features)

    def _add_plain(self, items: Sequence[Any]) -> bool:
        """Append items that `plain_columns` accepts; return False, and append nothing, for others."""
        plain = plain_columns(items, self.columns_by_pair)
        if plain is None:
            return False
        columns, positions = plain
        self.row_ends.extend(accumulate(map(len, positions), initial=self.row_ends.pop()))
        self.columns.extend(array("i", columns))  # four times as fast as from an iterator
        self.offsets.extend(accumulate(map(len, items), initial=self.offsets.pop()))
        return True

    def _add(self, position: object) -> None:
        """Append a position; any exception means that it is malformed, see `_what_is_wrong`."""
        if isinstance(position, (dict, Mapping)):
            self._add_dict(position)
        elif isinstance(position, (list, tuple, set, frozenset)) or _is_string_row(position):
            self.columns.extend(map(self.columns_by_name.__getitem__, position))
        elif isinstance(position, Iterable) and not isinstance(position, (str, bytes, np.ndarray)):
            self._add(list(position))  # such as the keys of a dict
            return
        else:
            raise TypeError
        self.row_ends.append(len(self.columns))

    def _add_pairs(self, position: Mapping[str, Any]) -> None:
        """Append a position whose values are all 1, or else strings, booleans, 1 or 0, or else of any kind."""
        values, before = position.values(), len(self.columns)
        try:
            if SET_OF_ONE.issuperset(values):
                self.columns.extend(map(self.columns_by_name.__getitem__, position))
                return
            self.columns.extend(map(getitem, map(self.columns_by_pair.__getitem__, position), values))
        except TypeError:
            del self.columns[before:]
            self._add_each(position)

    def _add_each(self, position: Mapping[str, Any]) -> None:
        """Append a position with values of any kind; the next position is first tried as one like it."""
        column_of, pairs, append = self.columns_by_name, self.columns_by_pair, self.columns.append
        n_others = len(self.other_at)
        for key, value in position.items():
            if type(value) not in PLAIN_TYPES:
                if isinstance(value, NESTED_TYPES):
                    self._add_each(nested(key, value))
                    continue
                value = _plain(value)
            is_pair = type(value) is str
            column = pairs[key][value] if is_pair else column_of[key]
            if is_pair or value == 1:
                append(column)
            elif value != 0:
                if not -LARGEST_VALUE <= value <= LARGEST_VALUE:
                    raise ValueError
                if column != UNSEEN:
                    self.other_values.append(value)
                    self.other_at.append(len(self.columns))
                append(column)
        self.is_plain = False
        self._add_dict = self._add_each if len(self.other_at) > n_others else self._add_pairs


def nested(key: object, value: Iterable[object]) -> dict[str, Any]:
    """Return a collection under `key` as features "key:name": 1 for each string, or the value of a dict's entry."""
    if not isinstance(key, str):
        raise TypeError
    if isinstance(value, Mapping):
        return {f"{key}:{_checked(name)}": inner for name, inner in value.items()}
    counts = Counter(map(_checked, value))
    return {f"{key}:{name}": count for name, count in counts.items()}


def _checked(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError
    return name


def _plain(value: object) -> str | bool | float:
    """Return a value of another type (numpy's, fractions) as one of PLAIN_TYPES; TypeError if it is none."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError("a feature value must be a number, boolean or string")


def _is_string_row(position: object) -> TypeGuard[NDArray]:
    return isinstance(position, np.ndarray) and position.ndim == 1 and position.dtype.kind in "OUT"


def _what_is_wrong(position: object) -> str | None:
    """Return why `_Buffers._add` refuses a position; None if the position is right."""
    if isinstance(position, str):
        return f"expected a dict or a list of strings, got the single string {shorten(position)}{OF_ONE_ITEM}"
    if isinstance(position, Mapping):
        for key, value in position.items():
            if not isinstance(key, str):
                return f"expected feature names that are strings, got {describe(key)}"
            if isinstance(value, (str, np.bool_)):
                continue
            if isinstance(value, NESTED_TYPES):
                reason = _what_is_wrong(value)
                if reason is not None:
                    return f"feature {shorten(key)}: {reason}"
                continue
            if not isinstance(value, Real):
                expected = "a number, boolean, string, list or dict"
                return f"feature {shorten(key)}: expected {expected}, got {describe(value)}"
            if not -LARGEST_VALUE <= value <= LARGEST_VALUE:  # type: ignore[operator]
                return wrong_value(f"feature {shorten(key)}", value)
        return None
    if isinstance(position, (list, tuple, set, frozenset)) or _is_string_row(position):
        for name in position:
            if not isinstance(name, str):
                hint = "; for numbers, pass each item as a 2-D array" if isinstance(name, Real) else ""
                return f"expected a list of strings, but it contains {describe(name)}{hint}"
        return None
    return f"expected a dict or a list of strings, got {describe(position)}"
