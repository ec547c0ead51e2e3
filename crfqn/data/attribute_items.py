"""Positions with attributes, numbers by name, in flat arrays of 4 bytes an attribute, or 12 if values differ from 1.

`AttributeItems` behave like a list of items, which are lists of dicts `attribute -> value`. The dicts are made on
request: those of a file would take ten times the file's size. Shapes: I items, N positions, n attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.items import LARGEST_VALUE, Items, locate, positions_of, wrong_value
from crfqn.data.token_rows import Rows, TokenRows
from crfqn.data.vocabulary import UNSEEN, Vocabulary
from crfqn.errors import InputError
from crfqn.messages import shorten


class AttributeItems(Items, Sequence[Any]):
    """Items of positions that have attributes with finite values.

    Parameters
    ----------
    names : list of n str
        The attributes, each of them once.
    rows : Rows of N positions
        Its columns are the places of the attributes in `names`, and no position has a column twice.
    offsets : ndarray of int64, shape (I + 1,)
        Item i has the positions offsets[i] ... offsets[i + 1] - 1.
    """

    def __init__(self, names: list[str], rows: Rows, offsets: NDArray[np.int64]) -> None:
        self.names, self.rows, self.offsets = names, rows, offsets

    def encode(self, columns: Mapping[str, int], n_features: int) -> TokenRows:
        """Return the entries in the columns of these names; InputError, naming item, position and attribute, for a
        value that is too large."""
        return self._in_columns(np.array([columns[name] for name in self.names], np.int32), n_features)

    def encode_new(self) -> tuple[TokenRows, Vocabulary]:
        """Return the entries in new columns, and their names, sorted; errors as of `encode`."""
        present = np.unique(self.rows.columns).tolist()
        present.sort(key=self.names.__getitem__)
        places = np.full(len(self.names), UNSEEN, np.int32)
        places[present] = np.arange(len(present))
        return self._in_columns(places, len(present)), Vocabulary([self.names[place] for place in present])

    def _in_columns(self, places: NDArray[np.int32], n_features: int) -> TokenRows:
        row_ends, columns, values = self.rows
        wrong = np.flatnonzero(~(np.abs(values) <= LARGEST_VALUE))
        if wrong.size:
            place = locate(self.offsets, int(np.searchsorted(row_ends, wrong[0], side="right")) - 1)
            name = f"feature {shorten(self.names[columns[wrong[0]]])}"
            raise InputError(f"{place}: {wrong_value(name, values[wrong[0]])}")
        columns = places[columns]
        if values.size:
            columns[values == 0] = UNSEEN
        return TokenRows(Rows(row_ends, columns, values.copy()), self.offsets, n_features)

    def __add__(self, other: object) -> AttributeItems | list[Any]:
        if isinstance(other, list):
            return [*self, *other]
        if not isinstance(other, AttributeItems):
            return NotImplemented
        place_of = {name: place for place, name in enumerate(self.names)}
        places = np.array([place_of.setdefault(name, len(place_of)) for name in other.names], np.int32)
        (row_ends, columns, values), more = self.rows, other.rows
        if values.size or more.values.size:
            both = [one.values if one.values.size else np.ones(one.columns.size) for one in (self.rows, more)]
            values = np.concatenate(both)
        columns = np.concatenate([columns, places[more.columns]])
        rows = Rows(np.concatenate([row_ends, row_ends[-1] + more.row_ends[1:]]), columns, values)
        return AttributeItems(
            [*place_of], rows, np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]])
        )

    def __radd__(self, other: object) -> list[Any]:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def __eq__(self, other: object) -> bool:
        """Return whether the items are the same as those of other AttributeItems or a list of lists of dicts."""
        return isinstance(other, (list, AttributeItems)) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"AttributeItems({len(self)} items, {self.n_positions} positions, {len(self.names)} attributes)"
        )

    def _take(self, items: NDArray[np.integer]) -> AttributeItems:
        positions, offsets = positions_of(self.offsets, items)
        entries, row_ends = positions_of(self.rows.row_ends, positions)
        values = self.rows.values[entries] if self.rows.values.size else self.rows.values
        return AttributeItems(self.names, Rows(row_ends, self.rows.columns[entries], values), offsets)

    def _item(self, i: int) -> list[dict[str, float]]:
        first, last = self.offsets[i : i + 2].tolist()
        row_ends, columns, values = self.rows.cut(first, last)
        names = [self.names[column] for column in columns.tolist()]
        numbers = values.tolist() or [1.0] * len(names)
        return [
            dict(zip(names[begin:end], numbers[begin:end], strict=True))
            for begin, end in pairwise(row_ends.tolist())
        ]
