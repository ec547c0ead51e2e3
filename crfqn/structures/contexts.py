"""Contexts: the distinct sets of observed features that the transitions into positions depend on.

The edge scores of a position are sums over its features, so that positions with the same features share a table: with
part-of-speech tags as features there are some forty of them for all positions. Shapes: N positions, B features of
pairs of labels, C contexts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Contexts:
    """The context of each position, int32 (N,), and `rows`, CSR float64 (C, 1 + B): a constant 1, for the transitions
    that are the same everywhere, and the values of the features."""

    table_of: NDArray[np.int32]
    rows: Any

    @classmethod
    def of(cls, features: Any) -> Contexts:
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

    def take(self, positions: NDArray[np.int64]) -> Contexts:
        """Return the contexts of some positions, without those that none of them has."""
        used, table_of = np.unique(self.table_of[positions], return_inverse=True)
        return Contexts(table_of.astype(np.int32), self.rows[used])
