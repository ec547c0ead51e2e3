"""Scores of a few positions under sparse weights, with numpy alone: intercept + weights x features.

Sums are taken in the order of the features, entries of one feature together, as `kernels/sparse.py` has it: the results
are the same, bit by bit. Shapes: N positions, F features, K states (labels, or nodes of a taxonomy).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.token_rows import TokenRows
from crfqn.errors import InputError
from crfqn.model.content import Entries

LOW = 32  # bits of a key that hold the feature; the position stands above
FEATURE = (1 << LOW) - 1
STRETCH = 1 << 16  # entries scored at a time: some MB


class Rows(NamedTuple):
    """Entries of positions, as `TokenRows` has them: row_ends int64 (N + 1,), columns, values float64, (0,): ones."""

    row_ends: NDArray[np.int64]
    columns: NDArray[np.integer]
    values: Vector

    @classmethod
    def of(cls, items: Any) -> Rows:
        """Return the entries of `TokenRows`, or of a checked 2-D array or sparse matrix."""
        if isinstance(items, TokenRows):
            return cls(items.row_ends, items.columns, items.values)
        if hasattr(items, "tocsr"):
            matrix = items.tocsr()
            return cls(matrix.indptr.astype(np.int64), matrix.indices, matrix.data.astype(np.float64))
        positions, columns = np.nonzero(items)
        row_ends = np.searchsorted(positions, np.arange(len(items) + 1))
        return cls(row_ends, columns, items[positions, columns].astype(np.float64))

    def stretches(self) -> Iterator[Rows]:
        """Yield the rows by some at a time, of about STRETCH entries."""
        n_rows, first = self.row_ends.size - 1, 0
        while first < n_rows:
            goal = self.row_ends[first] + STRETCH
            last = max(first + 1, int(np.searchsorted(self.row_ends, goal, side="right")) - 1)
            yield self.cut(first, last)
            first = last

    def cut(self, first: int, last: int) -> Rows:
        """Return the positions first ... last - 1."""
        begin, end = self.row_ends[first], self.row_ends[last]
        values = self.values[begin:end] if self.values.size else self.values
        return Rows(self.row_ends[first : last + 1] - begin, self.columns[begin:end], values)


class FeatureWeights:
    """Weights by feature: feature f has counts[f] `weights` for `states`, up to place tails[f]; intercept : (K,)."""

    def __init__(self, entries: Entries, shape: tuple[int, int], intercept: Vector | None = None) -> None:
        self.n_states, n_features = shape
        values, rows, columns = entries
        order = np.lexsort((rows, columns))
        self.weights, self.states = values[order], rows[order]
        self.counts = np.bincount(columns, minlength=n_features)
        self.tails = np.cumsum(self.counts)
        self.intercept = intercept

    @property
    def features(self) -> NDArray[np.int64]:
        """The features that have weights, sorted."""
        return np.flatnonzero(self.counts)

    def entries(self) -> Entries:
        """Return the weights, by feature."""
        return Entries(self.weights, self.states, np.repeat(np.arange(self.counts.size), self.counts))

    def scores(self, rows: Rows) -> Vector:
        """Return the scores of positions, float64 (N, K); InputError for a value that is not finite."""
        if rows.columns.size <= STRETCH:
            return self._scores(rows)
        return np.concatenate([self._scores(part) for part in rows.stretches()])

    def terms(self, rows: Rows, position: int) -> tuple[Vector, NDArray[np.int64], NDArray[np.int64]]:
        """Return what a position's scores are sums of: weights times values, and the state and feature of each."""
        _, columns, values = _sorted(rows.cut(position, position + 1))
        counts, places = self._places(columns)
        factors = 1.0 if values is None else values.repeat(counts)
        return self.weights[places] * factors, self.states[places], columns.repeat(counts)

    def _places(self, columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many weights each of some features has, and the places of all of them."""
        counts = self.counts.take(columns)
        ends = counts.cumsum()
        places = np.arange(ends[-1] if ends.size else 0)
        places += (self.tails.take(columns) - ends).repeat(counts)
        return counts, places

    def _scores(self, rows: Rows) -> Vector:
        n_positions, n_states = rows.row_ends.size - 1, self.n_states
        positions, columns, values = _sorted(rows)
        counts, places = self._places(columns)
        terms, cells = self.weights.take(places), self.states.take(places)
        if values is not None:
            terms *= values.repeat(counts)
        cells += (positions * n_states).repeat(counts)
        if self.intercept is not None:
            cells = np.concatenate([np.arange(n_positions * n_states), cells])
            terms = np.concatenate([np.tile(self.intercept, n_positions), terms])
        found = np.bincount(cells, terms, n_positions * n_states)
        return found.astype(np.float64, copy=False).reshape(n_positions, n_states)


def _sorted(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64], Vector | None]:
    """Return position, feature and value of the entries that have a feature, ascending and each once; None for ones."""
    row_ends, columns, values = rows
    keys = (np.arange(row_ends.size - 1) << LOW).repeat(row_ends[1:] - row_ends[:-1])
    keys += columns
    is_known = columns >= 0
    if not values.size:
        keys = keys[is_known]
        keys.sort()
        if not (keys[1:] == keys[:-1]).any():
            return keys >> LOW, keys & FEATURE, None
        values = np.ones(keys.size)
    else:
        keys, values = keys[is_known], values[is_known]
        order = keys.argsort(kind="stable")
        keys, values = keys[order], values[order]
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: keys.size])
    entry = np.repeat(np.arange(firsts.size), np.diff(firsts, append=keys.size))
    sums: Any = np.bincount(entry, values, firsts.size)  # one after the other, as they came
    values = sums.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        place = int(keys[firsts[~np.isfinite(values)][0]])
        raise InputError(f"position {place >> LOW}: the values of feature {place & FEATURE} are not finite")
    keys = keys[firsts]
    return keys >> LOW, keys & FEATURE, values
