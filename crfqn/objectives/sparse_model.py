"""The token-wise model from the pairs of coordinates that meet at a position: for text and other sparse data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.kernels.curvature import (
    Rows,
    count_present,
    count_whole,
    list_members,
    measure_rows,
    write_edge_columns,
    write_rows,
    write_whole,
)
from crfqn.objectives.linear.feature_map import Split
from crfqn.objectives.marginals import EdgeModel, Marginals, diagonal_scale, sample_positions
from crfqn.structures.structure import Ancestors
from crfqn.threads import Pool

Limits: TypeAlias = NDArray[np.float64]  # roots: an entry (a, b) within limits[a] limits[b] is left out
BLOCK_NUMBERS = 1 << 20  # pairs of a block of rows, before what is small is left out: 8 MB
LEAST = 1e-3  # of the root of the two diagonal entries: smaller entries are left out
STORED = 1e-30  # a diagonal entry that the sample says nothing about is stored all the same
NO_BLOCK = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32)


class Lists:
    """Lists of the coordinates of nodes that each sampled position has: rows of the model are sums over these.

    states, row : the states that have coordinates, ascending; and for each coordinate the number of its own
    sampled, shares : (S,), positions, and what each of them stands for; others as in `kernels/curvature.py`
    """

    def __init__(self, marginals: Marginals, split: Split, n_sampled: int) -> None:
        owner = marginals.objective
        store = owner.map.store
        self.split = split
        self.states, self.row = np.unique(split.states, return_inverse=True)
        marginal_variance = marginals.variance(self.states)
        self.sampled, self.shares = sample_positions(marginal_variance, owner.position_weights, n_sampled)
        p = marginals.at(self.states, self.sampled)
        place, roots = np.full(store.n_positions, -1, np.int32), np.sqrt(self.shares)
        place[self.sampled] = np.arange(self.sampled.size, dtype=np.int32)
        self.starts = np.zeros(self.sampled.size + 1, np.int64)
        indptr, indices, values = store.by_feature
        of_features = split.features, self.row, indptr, indices
        count_present(*of_features, place, p, self.starts[1:])
        np.cumsum(self.starts, out=self.starts)
        n_members = self.starts[-1]
        self.members, self.offsets = np.empty(n_members, np.int32), np.empty(split.n_nodes + 1, np.int64)
        self.x, self.x_p = np.empty((2, n_members))
        self.entries, self.stops = np.empty((2, n_members), np.int64)
        list_members(
            *of_features, values, place, roots, p, self.starts, self.members, self.x, self.x_p,
            self.offsets, self.entries, self.stops,
        )  # fmt: skip

    @property
    def places(self) -> NDArray[np.int32]:
        """The sampled position of each entry of the lists, (M,)."""
        return np.repeat(np.arange(self.sampled.size, dtype=np.int32), np.diff(self.starts))


def sparse_model(
    marginals: Marginals, split: Split, diagonal: Vector, n_sampled: int, block_numbers: int = BLOCK_NUMBERS
) -> scipy.sparse.csr_array:
    """Return the model from about `n_sampled` positions, formed in blocks of rows of about `block_numbers` pairs."""
    lists = Lists(marginals, split, n_sampled)
    pairs, found = np.empty(split.n_nodes, np.int64), np.zeros(diagonal.size)
    measure_rows(lists.offsets, lists.entries, lists.stops, lists.x, lists.x_p, pairs, found[: split.n_nodes])
    limits = np.sqrt(LEAST * found)
    nodes = node_rows(marginals, lists, pairs, limits, block_numbers)
    beside, among = Rows(np.zeros(split.n_nodes + 1, np.int64), *NO_BLOCK[1:]), np.empty((0, 0))
    if split.edges.size:
        edges = EdgeModel(marginals, split.edges, lists.sampled, lists.shares)
        among = edges.with_edges()
        np.fill_diagonal(among, np.maximum(np.diagonal(among), STORED))
        found[split.n_nodes :] = np.diagonal(among)
        least = np.sqrt(LEAST * np.diagonal(among))
        beside = edge_columns(marginals, lists, edges, limits, least, block_numbers)
    return whole(nodes, beside, among, diagonal_scale(found, diagonal), diagonal)


def node_rows(
    marginals: Marginals, lists: Lists, pairs: NDArray[np.int64], limits: Limits, block_numbers: int
) -> Rows:
    """Return the model of the nodes among themselves, row by row from the diagonal on."""
    owner, split, n = marginals.objective, lists.split, lists.split.n_nodes
    bounds = np.append(np.searchsorted(split.states, lists.states), n)
    below = states_below(marginals.loss.structure.ancestors, lists.states)

    def write(first: int, last: int, *out: NDArray) -> None:
        write_rows(
            first, last, lists.offsets, lists.entries, lists.stops, lists.members, lists.x, lists.x_p, lists.row,
            bounds, below.indptr, below.indices, limits, pairs, *out,
        )  # fmt: skip

    return written(write, np.minimum(pairs + 1, n - np.arange(n)), block_numbers, owner.pool)


def edge_columns(
    marginals: Marginals, lists: Lists, edges: EdgeModel, limits: Limits, least: Limits, block_numbers: int
) -> Rows:
    """Return what nodes and edges have in common, a row for each node; least: (E',), the limits of the edges."""
    places, roots = lists.places, np.sqrt(lists.shares)

    def write(first: int, last: int, *out: NDArray) -> None:
        write_edge_columns(
            first, last, lists.offsets, lists.entries, places, lists.x_p, roots, lists.split.states,
            edges.outgoing, edges.incoming, limits, least, *out,
        )  # fmt: skip

    most_entries = np.full(lists.split.n_nodes, least.size)
    return written(write, most_entries, block_numbers, marginals.objective.pool)


def written(
    write: Callable[..., None], most_entries: NDArray[np.int64], block_numbers: int, pool: Pool
) -> Rows:
    """Return rows that `write(first, last, ends, indices, data)` writes block by block."""
    tasks = row_blocks(most_entries, block_numbers)
    blocks: list[tuple[NDArray, NDArray, NDArray]] = [NO_BLOCK] * len(tasks)

    def run(part: int) -> None:
        first, last, n_entries = tasks[part]
        ends = np.empty(last - first, np.int64)
        indices, data = np.empty(n_entries, np.int32), np.empty(n_entries, np.float32)
        write(first, last, ends, indices, data)
        blocks[part] = np.diff(ends, prepend=0), indices[: ends[-1]].copy(), data[: ends[-1]].copy()

    pool.each(len(tasks), run)
    lengths, indices, data = (np.concatenate(arrays) for arrays in zip(NO_BLOCK, *blocks, strict=True))
    return Rows(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]), indices, data)


def whole(
    nodes: Rows, beside: Rows, among: Vector, scale: NDArray[np.float32], diagonal: Vector
) -> scipy.sparse.csr_array:
    """Return the symmetric matrix D M D with the given diagonal; parameters as `write_whole` has them."""
    n = diagonal.size
    ends = np.zeros(n + 1, np.int64)
    count_whole(nodes, beside, among, ends)
    n_entries = (
        2 * (nodes.indices.size + beside.indices.size) - nodes.indptr.size + 1 + np.count_nonzero(among)
    )
    indices, data = np.empty(n_entries, np.int32), np.empty(n_entries, np.float32)
    write_whole(nodes, beside, among, scale, diagonal, ends, indices, data)
    return scipy.sparse.csr_array((data, indices, ends.astype(np.int32)), shape=(n, n))


def row_blocks(most_entries: NDArray[np.int64], block_numbers: int) -> list[tuple[int, int, int]]:
    """Cut rows into blocks: (first row, the one after the last, entries at the most) of each."""
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(most_entries)])
    blocks, first, n = [], 0, most_entries.size
    while first < n:
        after = int(np.searchsorted(ends, ends[first] + block_numbers, side="right")) - 1
        last = max(after, first + 1)
        blocks.append((first, last, int(ends[last] - ends[first])))
        first = last
    return blocks


def states_below(ancestors: Ancestors, states: NDArray[np.int64]) -> scipy.sparse.csr_array:
    """Return, as row k, the places of the states (ascending) that are below states[k]."""
    n = ancestors.indptr.size - 1
    lengths = np.diff(ancestors.indptr)
    descendant = np.repeat(np.arange(n), lengths)
    is_proper = ancestors.states != descendant
    pairs = ancestors.states[is_proper], descendant[is_proper]
    below = scipy.sparse.csr_array((np.ones(pairs[0].size, np.uint8), pairs), shape=(n, n))
    return below[states][:, states].tocsr()
