"""Columns of a batch as numbers: the distinct texts of each, what views and functions make of them, reads by position.

Every distinct text is looked at once, whatever the number of positions: all further work is on arrays of integers.

Shapes: N positions, D distinct texts of a column (marks behind them) or distinct tokens, F features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.templates.patterns import LAST_POSITION, Macro, Pattern, View
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import InputError
from crfqn.messages import describe, shorten

NONE = -1
Function = Callable[[dict[str, str]], Iterable[str]]


class Batch:
    """Columns of items, with the numbers of their texts.

    `marks` are read 1, 2, ... positions before an item and behind it; the last one also further out.
    """

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
        """Return what a view makes of the D distinct texts of its column, and of the marks behind them."""
        if view not in self._values:
            self._values[view] = list(map(view.function(), self._numbered(view.column)[0]))
        return self._values[view]

    def numbers(self, value_number: Mapping[View, Mapping[Any, int]]) -> dict[View, NDArray[np.int32]]:
        """Return for each view the numbers of its values (D,), NONE for unknown ones."""
        return {
            view: np.array([number_of.get(value, NONE) for value in self.values(view)], np.int32)
            for view, number_of in value_number.items()
        }

    def read(self, pattern: Pattern, numbers: Mapping[View, NDArray[Any]]) -> list[NDArray[Any]]:
        """Return what each macro reads at each position, (N,), by the `numbers` of each view's values."""
        return [numbers[macro.view][self._read(macro)] for macro in pattern.macros]

    def fits(self, pattern: Pattern) -> NDArray[np.bool_] | None:
        """Return the positions (N,) at which a pattern has a feature; None for all."""
        if pattern.only:
            offsets = self.columns.offsets
            edges = offsets[1:] - 1 if pattern.only == LAST_POSITION else offsets[:-1]
            here = np.zeros(self.n_positions, bool)
            here[edges[self.columns.lengths > 0]] = True
            return here
        reach = [macro.offset for macro in pattern.macros]
        if pattern.has_marks or not any(reach):
            return None
        place = np.arange(self.n_positions)
        return (place + min(reach) >= self.start) & (place + max(reach) < self.stop)

    def _numbered(self, column: str) -> tuple[list[str], NDArray[np.int32]]:
        """Return the distinct texts of a column, with the marks behind them, and the text of each position."""
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
            place = np.arange(self.n_positions) + macro.offset
            if macro.is_absolute:
                place = self.stop + macro.offset if macro.offset < 0 else self.start + (macro.offset - 1)
            inside = (place >= self.start) & (place < self.stop)
            found = np.empty(self.n_positions, np.int32)
            found[inside] = numbers[place[inside]]
            out = np.flatnonzero(place < self.start)
            found[out] = first_mark + np.minimum(self.start[out] - place[out], before) - 1
            out = np.flatnonzero(place >= self.stop)
            found[out] = first_mark + before + np.minimum(place[out] - self.stop[out], behind - 1)
            self._reads[key] = found
        return self._reads[key]


class TokenFeatures:
    """Features by functions of the user: a token in, a list of texts out, once for each distinct token.

    A token is a dict `column -> text`. The feature of a text is called `<name of the function>=<text>`.

    Attributes
    ----------
    names : list of D lists of str, of the features of each distinct token
    token_of : ndarray of int64, shape (N,), distinct token of each position
    """

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
        """Return how often each name comes, at all positions."""
        found: Counter[str] = Counter()
        times = np.bincount(self.token_of, minlength=len(self.names)).tolist()
        for names, n in zip(self.names, times, strict=True):
            for name in names:
                found[name] += n
        return found

    def rows(self, column_of: Callable[[str], int | None], n_features: int) -> Any:
        """Return the features of all positions, csr_array (N, F); names without a column are left out."""
        import scipy.sparse

        found = [[c for name in names if (c := column_of(name)) is not None] for names in self.names]
        indptr = np.cumsum([0, *map(len, found)])
        indices: NDArray[np.int32] = np.array([column for columns in found for column in columns], np.int32)
        parts = (np.ones(indices.size, np.float32), indices, indptr)
        by_token = scipy.sparse.csr_array(parts, shape=(len(found), n_features))
        return by_token[self.token_of]


def function_name(function: Function) -> str:
    """Return what the features of a function begin with; InputError for what is no function with a name."""
    name = getattr(function, "__name__", None)
    if not callable(function) or not isinstance(name, str):
        raise InputError(
            f"functions: expected functions `token -> list of texts` with a name, got {describe(function)}"
        )
    return name


def _names(function: Function, token: dict[str, str]) -> list[str]:
    found, name = function(dict(token)), function_name(function)
    if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
        raise InputError(f"{name}({token}): expected a list of texts, got {describe(found)}")
    texts = list(found)
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{name}({token}): expected texts, got {shorten(text)}")
    return [f"{name}={text}" for text in texts]
