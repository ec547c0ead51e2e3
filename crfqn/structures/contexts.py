"""Contexts of the positions of a chain: the values of its bigram features.

A context is a distinct set of feature values; positions with the same context share a table of edge scores. If the
features are part-of-speech tags, there are about forty contexts. `EdgeLayout` numbers the weights of edges.
Shapes: N positions, B bigram features, C contexts, K states; width = K rounded up to LANES.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.kernels.forward_backward import exponentiate_tables
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.threads import Pool

MAX_CONTEXT_BYTES = 16e9  # limit of the memory of the vectors and tables of a training
# Eight vectors of a training, and three tables of an inference pass.
BYTES_PER_WEIGHT, BYTES_PER_SCORE = 8 * 8, 3 * 8


class Occurrences(NamedTuple):
    """The positions of each context or feature f, int64: places[starts[f]] ... places[starts[f + 1] - 1]."""

    starts: NDArray[np.int64]
    places: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Contexts:
    """The contexts of positions.

    table_of : int32 (N,), the context of each position
    rows : CSR float64 (C, 1 + B), of each context a constant 1, for the transitions that all positions share, and the
        values of the features
    """

    table_of: NDArray[np.int32]
    rows: scipy.sparse.csr_array

    @classmethod
    def from_matrix(cls, features: scipy.sparse.csr_array) -> Contexts:
        """Return the contexts of features, CSR (N, B), canonical."""
        n_positions = features.shape[0]
        firsts, lengths = features.indptr[:-1], np.diff(features.indptr)
        values, value_of = np.unique(features.data, return_inverse=True)
        n_distinct = features.shape[1] * values.size
        numbers = features.indices * np.int64(values.size) + value_of
        codes: NDArray[np.int64] = np.zeros(n_positions, np.int64)
        examples = np.zeros(min(n_positions, 1), np.int64)
        for place in range(int(lengths.max(initial=0))):
            has_more = np.flatnonzero(lengths > place)
            codes *= n_distinct + 1
            codes[has_more] += 1 + numbers[firsts[has_more] + place]
            _, examples, codes = np.unique(codes, return_index=True, return_inverse=True)
        rows = features[examples].astype(np.float64)
        ones = scipy.sparse.csr_array(np.ones((examples.size, 1)))
        return cls(codes.astype(np.int32), scipy.sparse.hstack([ones, rows], format="csr"))

    @classmethod
    def from_columns(
        cls, matrix: scipy.sparse.sparray | NDArray[np.number], columns: NDArray[np.int64], n_states: int
    ) -> Contexts | None:
        """Return the contexts whose features are some columns of a matrix (N, F), None without columns; InputError if
        their weights and tables would be too large."""
        if not columns.size:
            return None
        contexts = cls.from_matrix(scipy.sparse.csr_array(matrix)[:, columns])
        n_tables, n_features = contexts.rows.shape
        n_bytes = n_states**2 * (BYTES_PER_WEIGHT * n_features + BYTES_PER_SCORE * n_tables)
        if n_bytes > MAX_CONTEXT_BYTES:
            raise InputError(
                f"bigram features: {n_states**2:,} pairs of labels, {columns.size:,} features and {n_tables:,} "
                f"different sets of them would take {n_bytes / 1e9:.3g} GB, and at most {MAX_CONTEXT_BYTES / 1e9:g} GB "
                "are allowed; min_count leaves out rare features, and unigram patterns (U01:%x[0,0]) have one weight a "
                "label"
            )
        return contexts

    def take(self, positions: NDArray[np.int64]) -> Contexts:
        """Return the contexts of some positions, without unused ones."""
        used, table_of = np.unique(self.table_of[positions], return_inverse=True)
        return Contexts(table_of.astype(np.int32), self.rows[used])

    def tables(self, edges: Vector, n_states: int) -> Vector:
        """Return the tables of edge scores, (C, K, K), from edge weights (E,)."""
        by_feature = edges.reshape(self.rows.shape[1], -1)
        return (self.rows @ by_feature).reshape(-1, n_states, n_states)

    def weighted(self, by_table: Vector, power: int = 1) -> Vector:
        """Return the sum over the contexts of tables (C, K, K) times a power of the contexts' features, (E,)."""
        features = self.rows if power == 1 else self.rows.power(power)
        return (features.T @ by_table.reshape(-1, by_table.shape[1] ** 2)).reshape(-1)

    def by_context(self, positions: NDArray[np.int64]) -> Occurrences:
        """Return the positions, among the given ones, of each context."""
        contexts = self.table_of[positions]
        sizes = np.bincount(contexts, minlength=self.rows.shape[0])
        places = positions[np.argsort(contexts, kind="stable")]
        return Occurrences(np.concatenate([[0], np.cumsum(sizes)]), places)

    def occurrences(self, positions: NDArray[np.integer]) -> Occurrences:
        """Return the positions of each feature, numbered from 1, as places among the given positions."""
        rows = self.rows[self.table_of[positions]].tocsc()
        return Occurrences(rows.indptr.astype(np.int64), rows.indices.astype(np.int64))


def exponentials(tables: Vector, pool: Pool) -> tuple[Vector, Vector, Vector]:
    """Return M of each context, (C, K, width), its largest edge score and the range of its scores, (C,) each, from
    tables of edge scores, (C, K, K)."""
    n_tables, n_states, _ = tables.shape
    width = padded_width(n_states)
    factors = aligned_rows(n_tables * n_states, width).reshape(n_tables, n_states, width)
    largest, ranges = np.empty((2, n_tables))
    arrays = tables, factors, largest, ranges
    pool.map_chunks(n_tables, lambda first, last: exponentiate_tables(first, last, *arrays))
    return factors, largest, ranges


def padded_width(n_states: int) -> int:
    """Return K rounded up to LANES."""
    return -(-n_states // LANES) * LANES
