"""Columns of tokens: the words, tags and other texts of all positions, as a list of texts for each column.

`TokenColumns` behave like a list of items, which are lists of dicts `column -> text`: scikit-learn's splitters index
them by numbers, slices, arrays and masks. The dicts are made on request, so a corpus needs no dict for each token.
Shapes: I items, N positions, C columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.data.items import Items, check_is_list_of_items, check_offsets, locate, positions_of, wrap_hint
from crfqn.errors import InputError
from crfqn.messages import describe, place_of, shorten

if TYPE_CHECKING:
    from crfqn.data.tokenizers import Tokenizer


class TokenColumns(Items, Sequence[Any]):
    """Items of positions that have a text in each of several columns.

    Parameters
    ----------
    texts : mapping of str to sequence of N str
        The columns by their names, all of the same length.
    offsets : array-like of int, shape (I + 1,)
        Item i has the positions offsets[i] ... offsets[i + 1] - 1.

    Raises
    ------
    InputError
        Columns of different lengths, values that are no texts (column, item and position named), wrong offsets.

    Examples
    --------
    >>> columns = TokenColumns({"w": ["the", "dog", "it"], "pos": ["DT", "NN", "PRP"]}, [0, 2, 3])
    >>> len(columns), columns[1]
    (2, [{'w': 'it', 'pos': 'PRP'}])
    """

    blanks: list[bool] | None = None  # whether a blank follows each position, if readers know it
    tokenizer: Tokenizer | None = None  # that has cut texts into these tokens

    def __init__(self, texts: Mapping[str, Sequence[str]], offsets: ArrayLike) -> None:
        self.texts: dict[str, list[str]] = {name: list(column) for name, column in texts.items()}
        lengths = {len(column) for column in self.texts.values()}
        if len(lengths) > 1:
            shown = ", ".join(f"{name}: {len(column)}" for name, column in self.texts.items())
            raise InputError(f"expected columns of one length, got {shown}")
        cuts = np.asarray(offsets)
        n_positions = lengths.pop() if lengths else int(cuts[-1]) if cuts.ndim == 1 and cuts.size else 0
        self.offsets: NDArray[np.int64] = check_offsets(offsets, n_positions)
        for name, column in self.texts.items():
            if {*map(type, column)} <= {str}:
                continue
            n = next((n for n, text in enumerate(column) if not isinstance(text, str)), None)
            if n is not None:
                place = locate(self.offsets, n)
                raise InputError(f"{place}: expected a text in the column {name!r}, got {shorten(column[n])}")

    @classmethod
    def from_items(
        cls,
        items: Iterable[Any],
        names: Sequence[str] | None = None,
        used: Sequence[str] | None = None,
        has_more: bool = False,
    ) -> TokenColumns:
        """Return items of any form as columns.

        Parameters
        ----------
        items : TokenColumns, or iterable of I items
            An item is a sequence of positions: dicts `column -> text`, sequences of texts (a column each), or texts
            (one column).
        names : sequence of str, optional
            The columns that are read from dicts (by default all of the first position), or the names of the columns of
            sequences (by default "0", "1", ...).
        used : sequence of str, optional
            The names that dicts and TokenColumns must have, by default all. Dicts must not have other keys than the
            names or, without `names`, than the first dict.
        has_more : bool, default False
            Whether sequences of texts may have more texts than names; these are not read.

        Raises
        ------
        InputError
            Another form; a position that lacks a column, has a value that is no text (both are named), or has other
            keys: features (`crfqn.word_features`) are no columns.
        """
        if isinstance(items, cls):
            missing = [name for name in used or names or () if name not in items.texts]
            if missing:
                raise InputError(f"expected a column {missing[0]!r}; there are: {', '.join(items.texts)}")
            return items
        check_is_list_of_items(items, "a list of items with columns of texts")
        listed = list(items)
        for i, item in enumerate(listed):
            if isinstance(item, (str, bytes, Mapping)) or not isinstance(item, Iterable):
                raise InputError(
                    f"{place_of(i)}: expected a list of positions, got {describe(item)}{wrap_hint(item)}"
                )
        offsets = np.cumsum([0, *map(len, listed)], dtype=np.int64)
        positions = [position for item in listed for position in item]
        if not positions:
            return cls({name: [] for name in names or ()}, offsets)
        is_of_dicts = isinstance(positions[0], Mapping)
        columns = _columns_of(
            positions, used if is_of_dicts and used is not None else names, offsets, has_more
        )
        if is_of_dicts and (names is None or used is not None):
            known = [*(names or columns)]
            if not set(known).issuperset(chain.from_iterable(positions)):  # such as features made of a word
                n = next(n for n, position in enumerate(positions) if not set(known).issuperset(position))
                raise InputError(
                    f"{locate(offsets, n)}: expected a dict of texts by column ({', '.join(known)}), of which features "
                    f"are made, got the keys {shorten([*positions[n]])}"
                )
        missing = [name for name in used or () if name not in columns]
        if missing:
            raise InputError(
                f"{locate(offsets, 0)}: expected a text in the column {missing[0]!r}, too, got {shorten(positions[0])}"
            )
        return cls(columns, offsets)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.texts)

    def extended(self, texts: Mapping[str, list[str]]) -> TokenColumns:
        """Return the items with further columns, of N texts each."""
        return self._made({**self.texts, **texts}, self.offsets)

    def first_texts(self) -> list[list[str]]:
        """Return the first column item by item, usually the words; empty texts if there is no column."""
        if not self.texts:
            return [[""] * n for n in self.lengths.tolist()]
        first, ends = next(iter(self.texts.values())), self.offsets.tolist()
        return [first[begin:end] for begin, end in pairwise(ends)]

    def blanks_by_item(self) -> list[list[bool]] | None:
        """Return `blanks` item by item, None if they are unknown."""
        if self.blanks is None:
            return None
        return [self.blanks[begin:end] for begin, end in pairwise(self.offsets.tolist())]

    def __add__(self, other: object) -> TokenColumns:
        if not isinstance(other, TokenColumns):
            return NotImplemented
        if self.names != other.names:
            raise InputError(
                f"expected the columns {', '.join(self.names)}, got {', '.join(other.names) or 'none'}"
            )
        offsets = np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]])
        columns = self._made(
            {name: column + other.texts[name] for name, column in self.texts.items()}, offsets
        )
        if self.blanks is not None and other.blanks is not None:
            columns.blanks = self.blanks + other.blanks
        columns.tokenizer = self.tokenizer
        return columns

    def __eq__(self, other: object) -> bool:
        """Return whether the items are the same as those of another TokenColumns or a list of lists of dicts."""
        if isinstance(other, TokenColumns):
            return self.texts == other.texts and np.array_equal(self.offsets, other.offsets)
        return isinstance(other, list) and list(self) == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TokenColumns({len(self)} items, {self.n_positions} positions; {', '.join(self.names)})"

    @classmethod
    def _made(cls, texts: dict[str, list[str]], offsets: NDArray[np.int64]) -> TokenColumns:
        """Return columns of parts known to fit, without the checks."""
        columns = object.__new__(cls)
        columns.texts, columns.offsets = texts, offsets
        return columns

    def _take(self, items: NDArray[np.integer]) -> TokenColumns:
        positions, offsets = positions_of(self.offsets, items)
        rows = positions.tolist()
        texts = {name: [column[row] for row in rows] for name, column in self.texts.items()}
        columns = self._made(texts, offsets)
        columns.blanks = None if self.blanks is None else [self.blanks[row] for row in rows]
        columns.tokenizer = self.tokenizer
        return columns

    def _item(self, i: int) -> list[dict[str, str]]:
        start, stop = self.offsets[i : i + 2].tolist()
        parts = [column[start:stop] for column in self.texts.values()]
        if not parts:
            return [{} for _ in range(stop - start)]
        return [dict(zip(self.texts, values, strict=True)) for values in zip(*parts, strict=True)]


def _columns_of(
    positions: list[Any], names: Sequence[str] | None, offsets: NDArray[np.int64], has_more: bool = False
) -> dict[str, list[str]]:
    first = positions[0]
    if isinstance(first, str):
        return dict.fromkeys((names or ("0",))[:1], positions)
    if isinstance(first, Mapping):
        try:
            return {name: [position[name] for position in positions] for name in names or first}
        except (KeyError, TypeError, IndexError):
            for n, position in enumerate(positions):
                if not isinstance(position, Mapping):
                    expected = f"a dict of columns, got {shorten(position)}"
                    raise InputError(f"{locate(offsets, n)}: expected {expected}") from None
                missing = next((name for name in names or first if name not in position), None)
                if missing is not None:
                    expected = f"a text in the column {missing!r}, got None"
                    raise InputError(f"{locate(offsets, n)}: expected {expected}") from None
            raise
    if not isinstance(first, (list, tuple)):
        raise InputError(
            f"{locate(offsets, 0)}: expected a text, a list of texts, or a dict of columns, got {shorten(first)}"
        )
    width = len(names) if names else len(first)
    for n, position in enumerate(positions):
        n_texts = len(position) if isinstance(position, (list, tuple)) else 0
        if n_texts < width or (n_texts > width and not has_more):
            shown = f"{width} texts or more" if has_more else f"{width} texts"
            raise InputError(
                f"{locate(offsets, n)}: expected a list of {shown}, one a column, got {shorten(position)}"
            )
    columns = ([position[column] for position in positions] for column in range(width))
    return dict(zip(names or map(str, range(width)), columns, strict=True))
