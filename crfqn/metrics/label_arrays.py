"""True and predicted label sequences as arrays of label indices, and the spans that the labels mark.

There is no loop over positions: a `Scheme` is evaluated once for each pair of roles. A span is a run of labels that
continue each other. In strict reading the scheme must also allow its first label to open a span and its last label to
close one: an I without a B is not a span in IOB2.
Shapes: I items, N positions, K distinct labels, S spans; roles are numbers in `SPAN_ROLES`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.label_arrays import check_labels
from crfqn.data.schemes import BEGIN, BORDER, END, INSIDE, OUTSIDE, SINGLE, Scheme, Tag
from crfqn.errors import InputError
from crfqn.messages import describe, named_places, places_among
from crfqn.structures.span_rules import SpanRules, Spans

SPAN_ROLES = OUTSIDE, BEGIN, INSIDE, END, SINGLE
ANY_TYPE = "x"  # a type of spans for rules that depend only on roles


class LabelCodes(NamedTuple):
    """True and predicted labels as indices into `labels`.

    starts, items : int64 (I,), the first position and the number of each item with positions
    labels : the distinct labels in the order of their first occurrence
    """

    true: NDArray[np.int32]
    predicted: NDArray[np.int32]
    starts: NDArray[np.int64]
    items: NDArray[np.int64]
    labels: list[Any]


def encode_pair(y_true: Iterable[object], y_pred: Iterable[object]) -> LabelCodes:
    """Encode two lists of I label sequences, or one flat sequence each.

    InputError for no positions, different numbers of items or of labels in an item, or values that are not sequences.
    """
    true, true_lengths = _by_item("y_true", y_true)
    predicted, lengths = _by_item("y_pred", y_pred)
    if len(true_lengths) != len(lengths):
        raise InputError(
            f"expected as many predictions as true sequences, got {len(lengths)} and {len(true_lengths)}"
        )
    if not np.array_equal(true_lengths, lengths):
        i = int((true_lengths != lengths).argmax())
        raise InputError(
            f"item {i}: expected {true_lengths[i]} predicted labels, one for each true one, got {lengths[i]}"
        )
    ends = np.cumsum(lengths)
    numbers: dict[Any, int] = defaultdict(count().__next__)  # a new label gets the next number
    if not lengths.any():
        raise InputError("y_true: expected at least one label to score, got none")
    true_codes, codes = (_codes(items, numbers, int(ends[-1])) for items in (true, predicted))
    check_label_pair(true, predicted, numbers)
    items = np.flatnonzero(lengths)
    return LabelCodes(true_codes, codes, (ends - lengths)[items], items, list(numbers))


def check_label_pair(true: list[Any], predicted: list[Any], distinct: Iterable[Any]) -> None:
    """Raise InputError for missing labels and for labels of mixed kinds; a predicted label may be None.

    true, predicted : a list of labels for each item
    distinct : all labels that occur
    """
    kinds = set(map(type, distinct))
    if type(None) in kinds:
        kinds.discard(type(None))
        predicted = [[label for label in item if label is not None] for item in predicted]
    elif all(issubclass(kind, str) for kind in kinds) and "" not in distinct:
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


def _codes(items: list[Any], numbers: dict[Any, int], n_positions: int) -> NDArray[np.int32]:
    """Return the indices of all labels, by way of bytes if they fit, which is faster."""
    if len(numbers) <= 256:
        with suppress(ValueError):  # an index above 255
            octets = bytes(map(numbers.__getitem__, chain.from_iterable(items)))
            return np.frombuffer(octets, np.uint8).astype(np.int32)
    return np.fromiter(map(numbers.__getitem__, chain.from_iterable(items)), np.int32, n_positions)


def _by_item(name: str, y: Iterable[object]) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the items as lists of hashable labels, and the number of labels of each."""
    if isinstance(y, (str, bytes)) or not hasattr(y, "__iter__"):
        raise InputError(f"{name}: expected a list of label sequences, got {describe(y)}")
    items: list[Any] = list(y)
    kinds = set(map(type, items))
    if kinds and all(issubclass(kind, str) for kind in kinds):
        items = [items]
    elif not kinds <= {list, tuple}:
        for i, item in enumerate(items):
            if not isinstance(item, (list, tuple, np.ndarray)):
                raise InputError(f"{name}, item {i}: expected a list of labels, got {describe(item)}")
            items[i] = item.tolist() if isinstance(item, np.ndarray) else item
    return items, np.fromiter(map(len, items), np.int64, len(items))


def span_rules(scheme: Scheme, labels: list[Any]) -> tuple[SpanRules, list[str]]:
    """Return the rules by which labels make spans, and the types of spans; InputError for a label of another scheme."""
    tags = [scheme.parse(label) for label in labels]
    types = sorted({tag.type for tag in tags if tag.role != OUTSIDE})
    number = {kind: n for n, kind in enumerate(types)}
    type_of = np.array([number[tag.type] if tag.role != OUTSIDE else -1 for tag in tags], np.int64)
    role_of = np.array([SPAN_ROLES.index(tag.role) for tag in tags], np.int64)
    continues = np.array(
        [[scheme.continues(Tag(a, ANY_TYPE), Tag(b, ANY_TYPE)) for b in SPAN_ROLES] for a in SPAN_ROLES]
    )
    joined = continues[role_of[:, None], role_of] & (type_of[:, None] == type_of)
    return SpanRules(type_of, joined), types


def read_spans(codes: LabelCodes, scheme: Scheme, strict: bool) -> tuple[Spans, Spans, list[str]]:
    """Return the true spans, the predicted spans, and the names of their types; raises as `span_rules`.

    strict : whether the first label of a span must be allowed to open a span, and the last one to close it
    """
    offsets = np.append(codes.starts, codes.true.size)
    with named_places(places_among(codes.items)):  # for errors about labels that the scheme does not have
        scheme.parse_all(codes.labels, codes.true, offsets)
    rules, types = span_rules(scheme, codes.labels)
    columns = codes.true, codes.predicted
    true, predicted = (rules.find(labels, offsets) for labels in columns)
    if not strict:
        return true, predicted, types
    # Whether a label may open or close a span if no span of its type is adjacent there (row 0), or if one is (row 1).
    whole = Tag(scheme.roles(1, True, True)[0], ANY_TYPE)  # a span between others of its type
    tags = [Tag(scheme.parse(label).role, ANY_TYPE) for label in codes.labels]
    opens, closes = (
        np.array(
            [
                [scheme.allows(*pair[::step]) for pair in ((side, tag) for tag in tags)]
                for side in (BORDER, whole)
            ]
        )
        for step in (1, -1)
    )
    is_first = np.zeros(codes.true.size + 1, bool)
    is_first[offsets] = True
    strict_spans = []
    for labels, (starts, stops, kinds) in zip(columns, (true, predicted), strict=True):
        type_of = np.append(rules.type_of[labels], -1)
        touches_before = ~is_first[starts] & (type_of[starts - 1] == kinds)
        touches_after = ~is_first[stops] & (type_of[stops] == kinds)
        is_legal = opens[touches_before.astype(np.intp), labels[starts]]
        is_legal &= closes[touches_after.astype(np.intp), labels[stops - 1]]
        strict_spans.append(Spans(starts[is_legal], stops[is_legal], kinds[is_legal]))
    return strict_spans[0], strict_spans[1], types


def same_borders(true: Spans, predicted: Spans) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of the true and of the predicted spans with the same first and last position."""
    place = np.full(1 + max(true.starts.max(initial=0), predicted.starts.max(initial=0)), -1)
    place[predicted.starts] = np.arange(predicted.starts.size)
    theirs = place[true.starts]
    stops = np.append(predicted.stops, -1)  # the stop for index -1, no span
    same = stops[theirs] == true.stops
    return np.flatnonzero(same), theirs[same]
