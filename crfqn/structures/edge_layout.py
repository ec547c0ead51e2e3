"""The numbering of the weights of edges: by the observation, the label before and the label."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Edges(NamedTuple):
    """Edges one by one, int64 (n,) each: the labels that they lead from and to, and their contexts."""

    from_: NDArray[np.int64]
    to: NDArray[np.int64]
    context: NDArray[np.int64]


class EdgeLayout(NamedTuple):
    """Numbers of edges, by context, then by the label that they lead from, then to.

    Context 0 is that of all positions: its K K weights are those of transitions. Each bigram feature is one more
    context. Tables of edge scores have the same numbering; matrices of label pairs have that of context 0.

    n_states : K, at least 1
    n_contexts : 1 for a plain chain, 0 for structures without edges
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

    @property
    def has_contexts(self) -> bool:
        """Whether edges have contexts besides that of all positions."""
        return self.n_contexts > 1

    @property
    def plain(self) -> EdgeLayout:
        """The layout of transitions alone, whose numbers are the same in this one."""
        return self._replace(n_contexts=min(self.n_contexts, 1))

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
