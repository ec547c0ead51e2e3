"""Columns of a batch as numbers: the distinct texts of each, what a view makes of them, and reads around each position.

Every distinct text is looked at once, whatever the number of positions: all further work is on arrays of integers.

Shapes: N positions, D distinct texts of a column (marks behind them).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.templates.encoding.combinations import NONE
from crfqn.data.templates.patterns.pattern import FIRST_POSITION, LAST_POSITION, Macro, Pattern
from crfqn.data.templates.patterns.views import View
from crfqn.data.token_columns import TokenColumns


class Batch:
    """Columns of items, with the numbers of their texts.

    Parameters
    ----------
    columns : TokenColumns
    marks : pair of lists of str
        What is read 1, 2, ... positions before an item and behind it; the last one also further out.
    """

    def __init__(self, columns: TokenColumns, marks: tuple[list[str], list[str]]) -> None:
        self.columns, self.marks = columns, marks
        self.n_positions = columns.n_positions
        lengths = columns.lengths
        self.start = np.repeat(columns.offsets[:-1], lengths)
        self.stop = np.repeat(columns.offsets[1:], lengths)
        self._numbers: dict[str, tuple[list[str], NDArray[np.int32]]] = {}
        self._places: dict[tuple[int, bool], NDArray[np.int64]] = {}
        self._reads: dict[tuple[str, int, bool], NDArray[np.int32]] = {}

    def texts(self, column: str) -> list[str]:
        """Return the distinct texts of a column, with the marks behind them."""
        return self._numbered(column)[0]

    def values(self, macro: Macro, value_of: Callable[[View], NDArray[Any]]) -> NDArray[Any]:
        """Return what a macro reads at each position, (N,), by `value_of`: for a view the values of texts."""
        return value_of(macro.view)[self._read(macro)]

    def fits(self, pattern: Pattern) -> NDArray[np.bool_] | None:
        """Return the positions (N,) at which a pattern has a feature; None for all."""
        if pattern.only:
            edges = (
                self.columns.offsets[1:] - 1 if pattern.only == LAST_POSITION else self.columns.offsets[:-1]
            )
            assert pattern.only in (FIRST_POSITION, LAST_POSITION)
            here = np.zeros(self.n_positions, bool)
            here[edges[self.columns.lengths > 0]] = True
            return here
        if pattern.has_marks or not any(macro.offset for macro in pattern.macros):
            return None
        offsets = [macro.offset for macro in pattern.macros]
        here = np.arange(self.n_positions)
        return (here + min(offsets) >= self.start) & (here + max(offsets) < self.stop)

    def _numbered(self, column: str) -> tuple[list[str], NDArray[np.int32]]:
        if column not in self._numbers:
            texts = self.columns.texts[column]
            found = list(dict.fromkeys(texts))
            number_of = dict(zip(found, range(len(found)), strict=True))
            numbers = np.fromiter(map(number_of.__getitem__, texts), np.int32, len(texts))
            self._numbers[column] = [*found, *self.marks[0], *self.marks[1]], numbers
        return self._numbers[column]

    def _read(self, macro: Macro) -> NDArray[np.int32]:
        """Return the number of the text, or mark, that a macro reads at each position."""
        key = macro.view.column, macro.offset, macro.is_absolute
        if key not in self._reads:
            texts, numbers = self._numbered(macro.view.column)
            before, behind = map(len, self.marks)
            first_mark = len(texts) - before - behind
            place = self._place(macro.offset, macro.is_absolute)
            inside = (place >= self.start) & (place < self.stop)
            found = np.full(self.n_positions, NONE, np.int32)
            found[inside] = numbers[place[inside]]
            if before:
                out = np.flatnonzero(place < self.start)
                found[out] = first_mark + np.minimum(self.start[out] - place[out], before) - 1
                out = np.flatnonzero(place >= self.stop)
                found[out] = first_mark + before + np.minimum(place[out] - self.stop[out], behind - 1)
            self._reads[key] = found
        return self._reads[key]

    def _place(self, offset: int, is_absolute: bool) -> NDArray[np.int64]:
        if not is_absolute:
            return np.arange(self.n_positions) + offset
        return self.stop + offset if offset < 0 else self.start + (offset - 1)


def rows_of(
    hits: Sequence[NDArray[np.int32]], n_positions: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the columns at each position, as the index arrays of a CSR matrix: each of `hits` has a column or NONE."""
    table = np.empty((n_positions, len(hits)), np.int32)
    for number, column in enumerate(hits):
        table[:, number] = column
    is_there = table >= 0
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.count_nonzero(is_there, axis=1))])
    return indptr, table[is_there]
