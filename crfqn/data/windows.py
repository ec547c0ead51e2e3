"""Window templates: features of a position made of the words (tags, ...) around it.

`w[-1]|w[0]` is the pair of the word before and the word here; in the text `the dog` it gives the position of `dog` the
feature `w[-1]|w[0]=the|dog`. A template that reaches beyond the item gives nothing. Names, and the markers of the first
and the last position, are those of CRFsuite's examples (Okazaki, CRFsuite tutorial: chunking).

Shapes: I items, N positions, F features.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.features import locate
from crfqn.data.sequences import Sequences
from crfqn.data.wording import shorten
from crfqn.errors import InputError

# Words and tags within two positions, pairs of neighbouring words, pairs and triples of neighbouring tags.
CHUNKING = """
w[-2] w[-1] w[0] w[1] w[2] w[-1]|w[0] w[0]|w[1]
pos[-2] pos[-1] pos[0] pos[1] pos[2] pos[-2]|pos[-1] pos[-1]|pos[0] pos[0]|pos[1] pos[1]|pos[2]
pos[-2]|pos[-1]|pos[0] pos[-1]|pos[0]|pos[1] pos[0]|pos[1]|pos[2]
"""
FIRST, LAST = "__BOS__", "__EOS__"
PART = re.compile(r"([^\s|=\[\]]+)\[([+-]?[0-9]+)\]")
Item = Sequence[Mapping[str, str]]


class Part(NamedTuple):
    """Part of a window template: a column, and how many positions further on it is read."""

    column: str
    offset: int

    def __str__(self) -> str:
        return f"{self.column}[{self.offset}]"


Template = tuple[Part, ...]


@dataclass(frozen=True)
class WindowFeatures:
    """Feature map of window templates.

    Parameters
    ----------
    templates : tuple of tuples of Part
    has_ends : bool
        Whether the first and the last position of an item have a feature of their own.
    """

    templates: tuple[Template, ...]
    has_ends: bool = True

    @classmethod
    def parse(
        cls, text: str = CHUNKING, columns: Sequence[str] = ("w", "pos"), has_ends: bool = True
    ) -> WindowFeatures:
        """Read templates, separated by white space: `w[0] w[-1]|w[0]`.

        Raises
        ------
        InputError
            There is none, one is malformed or comes twice, or asks for a column that is none of `columns`.
        """
        templates: list[Template] = []
        for word in text.split():
            matches = [PART.fullmatch(part) for part in word.split("|")]
            template = tuple(Part(match[1], int(match[2])) for match in matches if match)
            if len(template) < len(matches):
                raise InputError(f"expected templates like w[0] or w[-1]|w[0], got {shorten(word)}")
            unknown = [part.column for part in template if part.column not in columns]
            if unknown:
                raise InputError(
                    f"the template {shorten(word)} asks for a column {unknown[0]!r}; there are: {', '.join(columns)}"
                )
            if template in templates:
                raise InputError(f"the template {shorten(word)} comes twice")
            templates.append(template)
        if not templates:
            raise InputError("expected at least one template like w[0] or w[-1]|w[0], got none")
        return cls(tuple(templates), has_ends)

    def encode(self, items: Sequence[Item]) -> Sequences:
        """Return the features of all positions.

        Parameters
        ----------
        items : sequence of I items, each a sequence of mappings `column -> text`

        Returns
        -------
        Sequences
            With the F features that occur, sorted by name; CSR of float32 ones.

        Raises
        ------
        InputError
            A position lacks a column, or has something else than a text there (both are named).

        Notes
        -----
        Values become numbers, and templates arithmetic on them: no text is made but the F names. O(N log N) time a
        template, some 30 bytes for each entry of the matrix while it is made.
        """
        import scipy.sparse

        window = _Window(items)
        column_of: dict[str, int] = {}  # by name: different pairs may have one, such as a|b, c and a, b|c
        rows, columns = [], []
        for template in self.templates:
            positions, codes, names = window.values(template)
            numbers = [column_of.setdefault(name, len(column_of)) for name in names]
            rows.append(positions)
            columns.append(np.array(numbers, np.int32)[codes])
        ends = {FIRST: window.first, LAST: window.last} if self.has_ends and window.n_positions else {}
        for name, positions in ends.items():
            rows.append(positions)
            columns.append(np.full(positions.size, column_of.setdefault(name, len(column_of)), np.int32))
        found = list(column_of)
        order = sorted(range(len(found)), key=found.__getitem__)
        rank = np.empty(len(found), np.int32)
        rank[order] = np.arange(len(found), dtype=np.int32)
        places = np.concatenate(rows).astype(np.int32), rank[np.concatenate(columns)]
        matrix = scipy.sparse.coo_array(
            (np.ones(places[0].size, np.float32), places), shape=(window.n_positions, len(found))
        ).tocsr()
        matrix.sort_indices()
        return Sequences(matrix, window.offsets, [found[column] for column in order])


class _Window:
    """Items laid end to end, and each column of them as numbers, made when it is first used.

    Attributes
    ----------
    offsets : ndarray of int64, shape (I + 1,)
    first, last : ndarrays of the positions that begin and end an item
    """

    def __init__(self, items: Sequence[Item]) -> None:
        self.positions = [position for item in items for position in item]
        lengths = np.array([len(item) for item in items], np.int64)
        self.offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        filled = lengths > 0
        self.first, self.last = self.offsets[:-1][filled], self.offsets[1:][filled] - 1
        self.item_start = np.repeat(self.offsets[:-1], lengths)
        self.item_end = np.repeat(self.offsets[1:], lengths)
        self._columns: dict[str, tuple[list[str], NDArray[np.int64]]] = {}

    @property
    def n_positions(self) -> int:
        return len(self.positions)

    def values(self, template: Template) -> tuple[NDArray[np.int64], NDArray[np.int64], Iterator[str]]:
        """Return the positions where a template fits, the number of its feature at each, and the names by number."""
        here = np.arange(self.n_positions)
        offsets = [part.offset for part in template]
        fits = (here + min(offsets) >= self.item_start) & (here + max(offsets) < self.item_end)
        positions = np.flatnonzero(fits)
        codes = examples = np.zeros(positions.size, np.int64)
        for column, offset in template:
            texts, numbers = self._column(column)
            # Numbered anew each time: numbers stay below N, and their products below 2^63.
            pairs = codes * len(texts) + numbers[positions + offset]
            _, examples, codes = np.unique(pairs, return_index=True, return_inverse=True)
        prefix = "|".join(map(str, template))
        at_examples = [self._texts(column, positions[examples] + offset) for column, offset in template]
        names = (f"{prefix}={'|'.join(values)}" for values in zip(*at_examples, strict=True))
        return positions, codes, names

    def _texts(self, column: str, positions: NDArray[np.int64]) -> list[str]:
        texts, numbers = self._column(column)
        return [texts[number] for number in numbers[positions].tolist()]

    def _column(self, column: str) -> tuple[list[str], NDArray[np.int64]]:
        """Return the distinct texts of a column, and the number of the text of each position."""
        if column not in self._columns:
            number_of: dict[str, int] = {}
            try:
                numbers = [
                    number_of.setdefault(position[column], len(number_of)) for position in self.positions
                ]
            except (KeyError, TypeError):
                raise InputError(self._what_lacks(column)) from None
            if not all(isinstance(text, str) for text in number_of):
                raise InputError(self._what_lacks(column))
            self._columns[column] = list(number_of), np.array(numbers, np.int64)
        return self._columns[column]

    def _what_lacks(self, column: str) -> str:
        """Return a message that names the position which has no text in a column."""
        for n, position in enumerate(self.positions):
            if not isinstance(position, Mapping):
                return f"{locate(self.offsets, n)}: expected a dict of columns, got {shorten(position)}"
            if not isinstance(position.get(column), str):
                return (
                    f"{locate(self.offsets, n)}: expected a text in the column {column!r}, "
                    f"got {shorten(position.get(column))}"
                )
        raise LookupError("every position has a text")
