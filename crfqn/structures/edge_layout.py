"""The numbering of the weights of edges: by context, previous label and label."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Edges(NamedTuple):
    """Single edges, int64 (n,) each: the labels that they lead from and to, and their contexts."""

    from_: NDArray[np.int64]
    to: NDArray[np.int64]
    context: NDArray[np.int64]


class EdgeLayout(NamedTuple):
    """Numbers of edges, by context, then by the label that they lead from, then by the label that they lead to.

    All positions have context 0: its K K weights are those of transitions. Each bigram feature is one more context.
    Tables of edge scores have the same numbering; matrices of label pairs have that of context 0.

    n_states : K, 1 or more
    n_contexts : 1 plus the number of bigram features; 0 for structures without edges
    """

    n_states: int
    n_contexts: int = 1

    @property
    def n_pairs(self) -> int:
        """The number of pairs of labels, K K."""
        return self.n_states**2

    @property
    def size(self) -> int:
        """The number of edges, E."""
        return self.n_contexts * self.n_pairs

    def numbers(
        self,
        from_: NDArray[np.integer] | int,
        to: NDArray[np.integer] | int,
        context: NDArray[np.integer] | int = 0,
    ) -> NDArray[np.int64]:
        """Return the numbers of edges."""
        return (np.asarray(context, np.int64) * self.n_states + from_) * self.n_states + to

    def split(self, numbers: NDArray[np.integer]) -> Edges:
        """Return the edges with these numbers."""
        before, to = np.divmod(np.asarray(numbers, np.int64), self.n_states)
        context, from_ = np.divmod(before, self.n_states)
        return Edges(from_, to, context)
