"""Given and predicted label sequences as arrays: numbers of labels, and the spans that they write.

No loop over positions: a `Scheme` is asked once for each pair of roles. A span is a run of labels that continue each
other; in strict reading its first may open one in the scheme, and its last close it: not an I without a B in IOB2.
Shapes: I items, N positions, K distinct labels, S spans; roles are numbers in `ROLES`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.label_codes import check_labels
from crfqn.data.schemes import BEGIN, BORDER, END, INSIDE, OUTSIDE, SINGLE, Scheme, Tag
from crfqn.errors import InputError
from crfqn.messages import describe

BYTES = 256  # how many numbers a byte has
ROLES = OUTSIDE, BEGIN, INSIDE, END, SINGLE
SOME = "x"  # the type of labels that only their roles part


class LabelCodes(NamedTuple):
    """Given and predicted labels as places in `labels`, the distinct ones in the order of their coming; `starts` int64
    (I,) is where items with at least one position begin."""

    true: NDArray[np.int32]
    predicted: NDArray[np.int32]
    starts: NDArray[np.int64]
    labels: list[Any]


class _Numbers(dict):
    """Dict that gives a new key the next number."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


def encode_pair(y_true: Any, y_pred: Any) -> LabelCodes:
    """Return two lists of I label sequences, or one flat item each, as numbers; InputError for no positions, other
    numbers of items or of labels in an item (named), no label sequences."""
    true, true_lengths = _by_item("y_true", y_true)
    predicted, lengths = _by_item("y_pred", y_pred)
    if not np.array_equal(true_lengths, lengths):
        _raise_lengths(true_lengths, lengths)
    ends, numbers = np.cumsum(lengths), _Numbers()
    if not lengths.any():
        raise InputError("y_true: expected at least one label to score, got none")
    true_codes, codes = (_codes(items, numbers, int(ends[-1])) for items in (true, predicted))
    check_pair(true, predicted, numbers)
    return LabelCodes(true_codes, codes, (ends - lengths)[lengths > 0], list(numbers))


def check_pair(true: list[Any], predicted: list[Any], distinct: Iterable[Any]) -> None:
    """Raise InputError for labels, a list an item, that are missing or of mixed kinds; `distinct`: all that occur."""
    kinds = set(map(type, distinct))
    if all(issubclass(kind, str) for kind in kinds) and "" not in distinct:
        return
    for name, items in (("y_true", true), ("y_pred", predicted)):
        try:
            check_labels([*chain.from_iterable(items)], np.cumsum([0, *map(len, items)]))
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
    if len({issubclass(kind, str) for kind in kinds}) > 1:
        firsts = [next(chain.from_iterable(items)) for items in (true, predicted)]
        raise InputError(
            f"expected labels of one kind, got {describe(firsts[0])} in y_true and {describe(firsts[1])} in y_pred"
        )


def _codes(items: list[Any], numbers: _Numbers, n_positions: int) -> NDArray[np.int32]:
    """Return the numbers of all labels; as bytes first, which are made faster than any array."""
    if len(numbers) <= BYTES:
        with suppress(ValueError):  # a number that is no byte
            found = bytes(map(numbers.__getitem__, chain.from_iterable(items)))
            return np.frombuffer(found, np.uint8).astype(np.int32)
    return np.fromiter(map(numbers.__getitem__, chain.from_iterable(items)), np.int32, n_positions)


def _by_item(name: str, y: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the items, as lists of labels that can be keys, and how many labels each has."""
    if isinstance(y, (str, bytes)) or not hasattr(y, "__iter__"):
        raise InputError(f"{name}: expected a list of label sequences, got {describe(y)}")
    items = list(y)
    kinds = set(map(type, items))
    if kinds and all(issubclass(kind, str) for kind in kinds):
        items = [items]
    elif not kinds <= {list, tuple}:
        items = [_as_list(name, i, item) for i, item in enumerate(items)]
    return items, np.fromiter(map(len, items), np.int64, len(items))


def _as_list(name: str, i: int, item: Any) -> list[Any] | tuple[Any, ...]:
    if isinstance(item, np.ndarray):
        return item.tolist()
    if not isinstance(item, (list, tuple)):
        raise InputError(f"{name}, item {i}: expected a list of labels, got {describe(item)}")
    return item


def _raise_lengths(expected: NDArray[np.int64], got: NDArray[np.int64]) -> None:
    if len(expected) != len(got):
        raise InputError(
            f"expected as many predictions as true sequences, got {len(got)} and {len(expected)}"
        )
    i = int((expected != got).argmax())
    raise InputError(
        f"item {i}: expected {expected[i]} predicted labels, one for each true one, got {got[i]}"
    )


class SpanArrays(NamedTuple):
    """Spans in the order of their first positions; starts, stops (one behind the last), types : int64 (S,)."""

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    types: NDArray[np.int64]

    def take(self, which: NDArray[Any]) -> SpanArrays:
        """Return some of the spans, by number or by mask."""
        return SpanArrays(*(array[which] for array in self))


class SpanReader:
    """Reader of the spans in codes of `labels`; InputError for a label that the scheme does not have."""

    def __init__(self, labels: list[Any], scheme: Scheme, strict: bool) -> None:
        tags = [scheme.parse(label) for label in labels]
        self.types = sorted({tag.type for tag in tags if tag.role != OUTSIDE})
        self.strict = strict
        place = {kind: n for n, kind in enumerate(self.types)}
        self._role = np.array([ROLES.index(tag.role) for tag in tags])
        self._type = np.array([place[tag.type] if tag.role != OUTSIDE else -1 for tag in tags])
        self._opens, self._closes = np.zeros((2, len(ROLES)), bool), np.zeros((2, len(ROLES)), bool)
        continues = np.zeros((len(ROLES), len(ROLES)), bool)  # of labels of one type
        whole = scheme.roles(1, True, True)[0]  # of a span between others of its type
        for role in scheme.letters:
            tag = Tag(role, SOME)
            for touches, neighbour in enumerate((BORDER, Tag(whole, SOME))):
                self._opens[touches, ROLES.index(role)] = scheme.allows(neighbour, tag)
                self._closes[touches, ROLES.index(role)] = scheme.allows(tag, neighbour)
            for before in scheme.letters:
                continues[ROLES.index(before), ROLES.index(role)] = scheme.continues(Tag(before, SOME), tag)
        self._is_inside = self._type >= 0
        self._joins = continues[self._role[:, None], self._role] & (self._type[:, None] == self._type)

    def read(self, codes: NDArray[np.int32], item_starts: NDArray[np.int64]) -> SpanArrays:
        """Return the spans in labels by position, of items that begin at `item_starts`."""
        n_positions = codes.size
        is_first = np.zeros(n_positions + 1, bool)
        is_first[item_starts], is_first[n_positions] = True, True
        goes_on = np.zeros(n_positions + 1, bool)
        pairs = codes[:-1].astype(np.int64) * len(self._role) + codes[1:]
        goes_on[1:-1] = self._joins.take(pairs)  # three times as fast as two indices
        goes_on &= ~is_first
        is_inside = self._is_inside.take(codes)
        starts = np.flatnonzero(is_inside & ~goes_on[:-1])
        lasts = np.flatnonzero(is_inside & ~goes_on[1:])
        found = SpanArrays(starts, lasts + 1, self._type[codes[starts]])
        if not self.strict:
            return found
        before, behind = codes[starts - 1], codes[np.minimum(lasts + 1, n_positions - 1)]
        touches_before = ~is_first[starts] & (self._type[before] == found.types)
        touches_behind = ~is_first[lasts + 1] & (self._type[behind] == found.types)
        opens = self._opens[touches_before.astype(np.intp), self._role[codes[starts]]]
        return found.take(opens & self._closes[touches_behind.astype(np.intp), self._role[codes[lasts]]])


def read_spans(codes: LabelCodes, scheme: Scheme, strict: bool) -> tuple[SpanArrays, SpanArrays, list[str]]:
    """Return the given spans, the predicted ones, and the names of their types."""
    reader = SpanReader(codes.labels, scheme, strict)
    return reader.read(codes.true, codes.starts), reader.read(codes.predicted, codes.starts), reader.types


def same_borders(true: SpanArrays, predicted: SpanArrays) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the given and of the predicted spans that begin and end at the same positions."""
    place = np.full(1 + max(true.starts.max(initial=0), predicted.starts.max(initial=0)), -1)
    place[predicted.starts] = np.arange(predicted.starts.size)
    theirs = place[true.starts]
    stops = np.append(predicted.stops, -1)  # which the place -1 finds
    same = stops[theirs] == true.stops
    return np.flatnonzero(same), theirs[same]
