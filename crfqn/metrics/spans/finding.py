"""Spans in labels of a scheme, found in array operations: no loop over positions.

What a scheme means is asked of `data.schemes.Scheme` once for each pair of roles. A span is a run of labels of which
each continues the one before. In strict reading it counts only if its first label may open a span of the scheme, and
its last may close one: an I without a B before it is no span of IOB2.

Shapes: N positions, S spans, K labels; roles are numbers in `ROLES`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.schemes import BEGIN, BORDER, END, INSIDE, OUTSIDE, SINGLE, Scheme, Tag
from crfqn.metrics.spans.encoding import LabelCodes

ROLES = OUTSIDE, BEGIN, INSIDE, END, SINGLE
SOME = "x"  # the type of labels that only their roles part


class Spans(NamedTuple):
    """Spans in the order of their first positions; starts, stops (one behind the last), types : int64 (S,)."""

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    types: NDArray[np.int64]

    def take(self, which: NDArray[Any]) -> Spans:
        """Return some of the spans, by number or by mask."""
        return Spans(*(array[which] for array in self))


class SpanReader:
    """Reader of the spans in codes of `labels`; InputError for a label that the scheme does not have.

    Attributes
    ----------
    types : list of the types of the labels, sorted
    """

    def __init__(self, labels: list[Any], scheme: Scheme, strict: bool) -> None:
        tags = [scheme.parse(label) for label in labels]
        self.types = sorted({tag.type for tag in tags if tag.role != OUTSIDE})
        self.strict = strict
        place = {kind: n for n, kind in enumerate(self.types)}
        self._role = np.array([ROLES.index(tag.role) for tag in tags])
        self._type = np.array([place[tag.type] if tag.role != OUTSIDE else -1 for tag in tags])
        known = [OUTSIDE, *scheme.letters]
        self._continues = np.zeros((len(ROLES), len(ROLES)), bool)  # of labels of one type
        self._opens, self._closes = np.zeros((2, len(ROLES)), bool), np.zeros((2, len(ROLES)), bool)
        whole = scheme.roles(1, True, True)[0]  # of a span between others of its type
        for role in known[1:]:
            tag = Tag(role, SOME)
            for touches, neighbour in enumerate((BORDER, Tag(whole, SOME))):
                self._opens[touches, ROLES.index(role)] = scheme.allows(neighbour, tag)
                self._closes[touches, ROLES.index(role)] = scheme.allows(tag, neighbour)
            for before in known[1:]:
                self._continues[ROLES.index(before), ROLES.index(role)] = scheme.continues(
                    Tag(before, SOME), tag
                )

    def read(self, codes: NDArray[np.int32], item_starts: NDArray[np.int64]) -> Spans:
        """Return the spans in labels by position, of items that begin at `item_starts`."""
        roles, types = self._role[codes], self._type[codes]
        is_inside = types >= 0
        touches = np.zeros(codes.size + 1, bool)  # the label before is of the same type, in the same item
        touches[1:-1] = is_inside[1:] & (types[1:] == types[:-1])
        touches[item_starts] = False
        goes_on = np.zeros(codes.size + 1, bool)
        goes_on[1:-1] = touches[1:-1] & self._continues[roles[:-1], roles[1:]]
        starts = np.flatnonzero(is_inside & ~goes_on[:-1])
        lasts = np.flatnonzero(is_inside & ~goes_on[1:])
        found = Spans(starts, lasts + 1, types[starts])
        if not self.strict:
            return found
        opens = self._opens[touches[starts].astype(np.intp), roles[starts]]
        return found.take(opens & self._closes[touches[lasts + 1].astype(np.intp), roles[lasts]])


def read_spans(codes: LabelCodes, scheme: Scheme, strict: bool) -> tuple[Spans, Spans, list[str]]:
    """Return the given spans, the predicted ones, and the names of their types."""
    reader = SpanReader(codes.labels, scheme, strict)
    return reader.read(codes.true, codes.starts), reader.read(codes.predicted, codes.starts), reader.types


def same_borders(true: Spans, predicted: Spans) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the given and of the predicted spans that begin and end at the same positions."""
    _, ours, theirs = np.intersect1d(true.starts, predicted.starts, True, return_indices=True)
    same = true.stops[ours] == predicted.stops[theirs]
    return ours[same], theirs[same]
