"""The token-wise model from the pairs of coordinates that meet at a position: for text and other sparse data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.kernels.token_rows import ABOVE, BELOW, add_rows, list_members
from crfqn.objectives.coordinates import Split
from crfqn.objectives.sampling import diagonal_scale, sample_positions

if TYPE_CHECKING:
    from crfqn.objectives.crf import Point
    from crfqn.structures.structure import Lineages

BLOCK_NUMBERS = 1 << 19  # a block of rows before what is small is left out: 4 MB
LEAST = 1e-4  # of the root of the two diagonal entries: smaller entries are left out


def sparse_model(
    point: Point, coords: NDArray[np.int64], split: Split, counts: NDArray[np.int64], n_sampled: int
) -> scipy.sparse.csr_array:
    """The model from about `n_sampled` positions, row by row; the rows of a state are a thread's share.

    counts: int64 (N,), the coordinates of `split` that have a feature at each position.
    """
    owner = point.objective
    store = owner.store
    states, row = np.unique(split.states, return_inverse=True)
    sampled, c = sample_positions(point.undecided(states), owner.position_weights, n_sampled)
    roots = np.sqrt(c)
    place = np.full(store.n_positions, -1, np.int32)
    place[sampled] = np.arange(sampled.size, dtype=np.int32)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[sampled])])
    members, x = np.empty(starts[-1], np.int32), np.empty(starts[-1])
    list_members(
        split.features,
        store.indptr,
        store.indices,
        store.values,
        place,
        roots,
        starts[:-1].copy(),
        members,
        x,
    )
    marginals = point.marginals_at(states, sampled)
    x_p = x * marginals[row[members], np.repeat(np.arange(sampled.size), np.diff(starts))]
    diagonal = point.curvature(coords)
    root = np.sqrt(diagonal)
    tasks = row_blocks(split, states)
    relations = Relations(owner.structure.lineages, states, row)
    found: list[scipy.sparse.csr_array | None] = [None] * len(tasks)

    def run(part: int) -> None:
        own, first, last = tasks[part]
        rows = np.zeros((last - first, coords.size))
        add_rows(
            first, last, split.features, store.indptr, store.indices, store.values, place, roots,
            starts, members, x, x_p, marginals[own], relations.to(own), rows,
        )  # fmt: skip
        rows[np.abs(rows) <= LEAST * root[first:last, None] * root] = 0.0
        found[part] = scipy.sparse.csr_array(rows.astype(np.float32))

    owner.pool.each(len(tasks), run)
    edges = scipy.sparse.csr_array((coords.size - split.n_nodes, coords.size), dtype=np.float32)
    model = scipy.sparse.vstack([*found, edges], format="csr")
    scale = diagonal_scale(model.diagonal().astype(np.float64), diagonal)
    model.data *= scale[model.indices] * np.repeat(scale, np.diff(model.indptr))
    rest = (diagonal - model.diagonal()).astype(np.float32)
    return (model + scipy.sparse.diags_array(rest)).tocsr()


def row_blocks(split: Split, states: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """(number of the state, first and last coordinate) of blocks of rows, each of one state."""
    bounds = np.append(np.searchsorted(split.states, states), split.n_nodes)
    step = max(1, BLOCK_NUMBERS // max(split.n_nodes, 1))
    return [
        (own, first, min(first + step, bounds[own + 1]))
        for own in range(states.size)
        for first in range(bounds[own], bounds[own + 1], step)
    ]


class Relations:
    """What the state of each coordinate is to a given state: ABOVE (itself too), BELOW, or 0.

    states: those that have coordinates, ascending; row: of each coordinate, the number of its state among them.
    """

    def __init__(self, lineages: Lineages, states: NDArray[np.int64], row: NDArray[np.intp]) -> None:
        n_states = lineages.indptr.size - 1
        ones = np.ones(lineages.states.size, np.uint8)
        above = scipy.sparse.csr_array((ones, lineages.states, lineages.indptr), shape=(n_states, n_states))
        self.above = above[states][:, states].tocsr()
        self.below = self.above.T.tocsr()
        self.row = row

    def to(self, own: int) -> NDArray[np.uint8]:
        """For the state number `own`, (coordinates,)."""
        relation = np.zeros(self.above.shape[0], np.uint8)
        relation[self.below.indices[self.below.indptr[own] : self.below.indptr[own + 1]]] = BELOW
        relation[self.above.indices[self.above.indptr[own] : self.above.indptr[own + 1]]] = ABOVE
        return relation[self.row]
