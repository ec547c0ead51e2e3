"""Second-order information: diagonals, majorants and models of the Hessian at a point, and bounds that hold everywhere.

The token-wise model of a likelihood's Hessian is exact within a position and has no covariance between positions:

    H ~ sum_t weight_t x_t x_t' (x) (P_t - p_t p_t'),   P_t(j, k) = P(states j and k are both true at t)

P_t = diag p_t if states exclude each other; in a taxonomy a node and its ancestor are both true with the probability of
the node. The model needs no inference, only the marginals of the gradient; for items of one position (flat models,
taxonomies) it is the exact Hessian. A sample of the positions is enough for a metric; the sampled matrix is then scaled
to the exact diagonal, so that a rare feature that the sample missed still has its curvature. The matrix is formed in
the cheaper of two ways: by matrix products of dense rows, or by sums over the pairs of active coordinates at a
position.

Losses of margins have the generalised Hessian

    H = sum_i c_i x_i x_i' (x) H_i,   H_i = 2 sum over violated pairs (y, r) of (e_y - e_r)(e_y - e_r)'

As long as no pair changes sides the second-order expansion is exact. Off the diagonal H_i has entries at violated pairs
only: the product for a pair of states takes only the positions at which the pair is violated.

`ScoreLoss.hessian_bounds` are c_t for each position. The Gram matrix M = sum_t c_t x_t x_t', for steps in its metric
(Agarwal et al. 2014), is the paper's L Sigma as a sum over the items.

Shapes: I items of T_i positions, N positions, F features, K states; others as in `point.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector
from crfqn.kernels.curvature import (
    CompressedRows,
    count_present,
    count_whole,
    list_members,
    measure_rows,
    write_edge_columns,
    write_rows,
    write_whole,
)
from crfqn.objectives.linear.feature_map import CoordinateParts
from crfqn.objectives.marginals import EdgeModel, Marginals, diagonal_scale, sample_positions
from crfqn.threads import Pool

Matrix: TypeAlias = NDArray[np.float32] | scipy.sparse.csr_array  # a metric: dense, or compressed by rows

# Costs in multiplications and additions, by which models are chosen: ratios of times on one processor, rounded.
# Rows of a tile of the product: enough for fast products, and tiles enough for all threads
PRODUCT_TILE_ROWS = 256
PAIR_MULTIPLICATIONS = 150  # multiplications of a matrix product in the time of one active pair
SMALL_PRODUCT = 1e8  # multiplications, a hundredth of a second: sparse kernels take two seconds to compile
MAX_MODEL_EDGES = 1 << 12  # edges of a model, bigram features included: their rows are dense, 128 MB
MAX_SPARSE_PAIRS = 1e8  # active pairs of a model that is too large to be dense: a second
PAIR_OPERATIONS = 14.0  # operations of an active pair: found in lists, multiplied and stored
# Steps that a model serves, and sweeps of a step over the matrix, about
STEPS_PER_MODEL, SWEEPS_PER_STEP = 20, 10
ROW_BLOCK_PAIRS = 1 << 20  # pairs of a block of rows before small ones are dropped: 8 MB
DROP_TOLERANCE = 1e-3  # of the root of the product of the two diagonal entries: smaller entries are dropped
MIN_SAMPLED_DIAGONAL = 1e-30  # guard: an edge without curvature in the sample keeps its diagonal entry
NO_BLOCK = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32)
DISTINCT_PAIR_SHARE = 0.2  # of the active pairs, those that are stored: the others repeat or are dropped

# Operations of a position's messages for each state: exponentials, scaling, marginals
STATE_OPERATIONS = 16.0
# Positions that have a feature, on average, in text; pixels of images have thousands
MAX_RARE_OCCURRENCE = 50.0
STEP_OVERHEAD = 1e6  # operations of a step besides its pass, for any size of the problem: half a millisecond
FETCH_OPERATIONS = 3.0  # operations of a number that is read from or added to scores at any place of memory


class Operations(NamedTuple):
    """Operations of the passes over a problem, by which solvers choose; the same on every machine.

    They are counts, not times: with measured seconds the choice, and so the result, would depend on the machine. The
    unit is a multiplication and addition in registers; a number from a random place of memory counts for several.
    inference, entries : operations of the messages and marginals of all items; number of entries that are not zero
    has_sequences : whether items have several positions, on average
    """

    inference: float
    entries: float
    n_features: int
    n_states: int
    has_sequences: bool

    @property
    def has_rare_features(self) -> bool:
        """Whether the data are like text: two active features rarely occur together, and samples lack many of them."""
        return self.entries <= MAX_RARE_OCCURRENCE * self.n_features

    @property
    def of_pass(self) -> float:
        """The operations of image, inference and gradient, if about one weight of each entry is active."""
        return self.inference + 2.0 * FETCH_OPERATIONS * self.entries


def margin_model(point: Any, coords: Coords, diagonal: Vector, n_sampled: int) -> NDArray[np.float32]:
    """Return the model on `coords`, float32 (n, n), with the given diagonal, from about `n_sampled` positions."""
    owner, score_curvature = point.part, point.score_curvature
    split = owner.split(coords)
    marginal_variance = score_curvature.sum(axis=0) * owner.inverse_weights
    sampled, c = sample_positions(marginal_variance, owner.weights, n_sampled)
    features, feature_row = np.unique(split.features, return_inverse=True)
    x = owner.map.values_at(features, sampled)
    states = np.unique(split.states)
    bounds = np.append(np.searchsorted(split.states, states), split.n_nodes)
    blocks = [slice(bounds[i], bounds[i + 1]) for i in range(states.size)]
    loss = owner.loss.take(sampled, sampled, np.arange(sampled.size + 1))
    scores = point.scores[:, sampled]
    second_by_state = score_curvature[:, sampled] * owner.inverse_weights[sampled]
    model = np.zeros((coords.size, coords.size), np.float32)
    pairs = [(i, j) for i in range(states.size) for j in range(i + 1)]

    def multiply(part: int) -> None:
        i, j = pairs[part]
        r, s = states[i], states[j]
        second = c * (second_by_state[r] if i == j else loss.mixed(r, s, scores))
        violated = np.flatnonzero(second)
        if violated.size == 0:
            return
        columns = np.ascontiguousarray(x[:, violated])
        left = (columns * second[violated].astype(np.float32))[feature_row[blocks[i]]]
        product = left @ columns[feature_row[blocks[j]]].T
        model[blocks[i], blocks[j]] = product
        model[blocks[j], blocks[i]] = product.T

    owner.map.pool.each(len(pairs), multiply)
    return scale_to_diagonal(model, diagonal)


def dense_model(
    marginals: Marginals, split: CoordinateParts, diagonal: Vector, n_sampled: int
) -> NDArray[np.float32]:
    """Return the model from about `n_sampled` positions, by matrix products of fixed tiles that threads share."""
    owner = marginals.part
    pool, n = owner.map.pool, diagonal.size
    states, row = np.unique(split.states, return_inverse=True)
    sampled, c = sample_positions(marginals.variance(states), owner.position_weights, n_sampled)
    features, feature_row = np.unique(split.features, return_inverse=True)
    x = owner.map.values_at(features, sampled) * np.sqrt(c).astype(np.float32)
    p = marginals.at(states, sampled)
    # p - p^2 is mere rounding if p is nearly 1; p (1 - p) is not, with 1 - p from 64 bits.
    complements = (1.0 - p).clip(0.0).astype(np.float32)
    with_p = p.astype(np.float32)[row]
    for products, feature in zip(with_p, feature_row, strict=True):
        products *= x[feature]
    model = np.zeros((n, n), np.float32)
    n_blocks = -(-split.n_nodes // PRODUCT_TILE_ROWS)
    tiles = [(i, j) for i in range(n_blocks) for j in range(i + 1)]

    def multiply(part: int) -> None:
        i, j = (
            slice(b * PRODUCT_TILE_ROWS, min((b + 1) * PRODUCT_TILE_ROWS, split.n_nodes)) for b in tiles[part]
        )
        tile = -(with_p[i] @ with_p[j].T)
        model[i, j] = tile
        model[j, i] = tile.T

    bounds = np.searchsorted(split.states, np.arange(owner.n_states + 1))
    ancestors = marginals.loss.structure.ancestors

    def write_joint(part: int) -> None:
        """Write P(below and above) - p(below) p(above) = p(below) (1 - p(above)), as one implies the other."""
        below = slice(bounds[states[part]], bounds[states[part] + 1])
        rows = x[feature_row[below]] * np.sqrt(p[part].clip(0.0).astype(np.float32) * complements[part])
        model[below, below] = rows @ rows.T
        for state in ancestors.with_state(states[part]):
            above = slice(bounds[state], bounds[state + 1])
            if above != below and above.start < above.stop:
                q = complements[np.searchsorted(states, state)]
                block = with_p[below] @ (x[feature_row[above]] * q).T
                model[below, above], model[above, below] = block, block.T

    n_operations = n * n * sampled.size / 16.0  # some 16 float32 products a nanosecond
    pool.each(len(tiles), multiply, n_operations)
    pool.each(states.size, write_joint, n_operations)
    if split.edges.size:
        edges = EdgeModel(marginals, split.edges, sampled, c)
        edge_rows = slice(split.n_nodes, None)  # the last ones
        model[edge_rows, : split.n_nodes] = block = edges.with_nodes(split, x[feature_row])
        model[: split.n_nodes, edge_rows] = block.T
        model[edge_rows, edge_rows] = edges.with_edges()
    return scale_to_diagonal(model, diagonal)


def scale_to_diagonal(model: NDArray[np.float32], diagonal: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return D model D with the given diagonal, D diagonal; empty rows have the diagonal entry alone."""
    scale = diagonal_scale(np.diagonal(model).astype(np.float64), diagonal)
    model *= scale[:, None]
    model *= scale
    np.fill_diagonal(model, diagonal)
    return model


def token_model(
    marginals: Marginals,
    split: CoordinateParts,
    diagonal: Vector,
    n_sampled: int,
    max_dense: int,
    share: float = 1.0,
    passes: float = np.inf,
    pair_multiplications: float = PAIR_MULTIPLICATIONS,
    max_pairs: float = MAX_SPARSE_PAIRS,
) -> Matrix | None:
    """Return the model on the coordinates `split`, (n, n) symmetric float32, dense or sparse, with the given diagonal.

    The dense one takes about `n_sampled` positions and O(n^2 n_sampled) multiplications; it is chosen if these are a
    `SMALL_PRODUCT`. The sparse one takes as many positions as cost no more, or a `share` of these. Returns None if
    there are more coordinates than `max_dense` and more than `max_pairs` pairs for a sparse one, or if the model costs
    more than `passes`. `pair_multiplications` is the cost of one pair.

    A model serves `STEPS_PER_MODEL` steps and may cost what their passes cost. It saves steps; but if passes are cheap
    and active sets large, steps with the diagonal converge before a matrix is formed, so none is formed until the
    passes have cost as much. If items have one position the model is the Hessian, and frequent features are so
    correlated that the diagonal needs many times the steps: then it is formed at the first step.
    """
    owner, features, n = marginals.part, marginals.part.map, diagonal.size
    n_dense = min(n_sampled, features.n_positions)
    of_dense = n * n * n_dense / pair_multiplications if n <= max_dense else np.inf
    if of_dense * pair_multiplications <= SMALL_PRODUCT:
        return dense_model(marginals, split, diagonal, n_sampled)
    n_entries = features.count_entries(split)
    pairs_of_pass = np.inf  # the number of pairs with the cost of a pass
    operations = owner.statistics().operations(owner.n_features, owner.n_states)
    if operations.has_sequences and operations.has_rare_features:
        of_pass = operations.inference + 2.0 * FETCH_OPERATIONS * n_entries
        operations_of_pair = PAIR_OPERATIONS + STEPS_PER_MODEL * SWEEPS_PER_STEP * DISTINCT_PAIR_SHARE
        pairs_of_pass = (of_pass + STEP_OVERHEAD) / operations_of_pair
    n_affordable = min(of_dense if n <= max_dense else max_pairs, STEPS_PER_MODEL * pairs_of_pass)
    # The active pairs of coordinates of all positions. By the Cauchy-Schwarz inequality there are too many to be
    # counted if the mean number of active coordinates is large.
    n_pairs = np.inf
    if n_entries**2 * n_dense <= of_dense * features.n_positions**2:
        n_pairs = float(np.square(features.count_active(split), dtype=np.float64).sum())
    if passes < min(n_pairs, n_affordable) / pairs_of_pass:
        return None
    n_sparse = int(features.n_positions * min(1.0, n_affordable / max(n_pairs, 1.0)))
    if n_sparse < n_dense:
        return dense_model(marginals, split, diagonal, n_sampled) if of_dense <= n_affordable else None
    return sparse_model(marginals, split, diagonal, max(1, int(share * n_sparse)))


class Lists:
    """Lists of the node coordinates that are active at each sampled position; rows of the model are sums over these.

    states, row : the states that have coordinates, ascending; and the index of each coordinate's state among these
    sampled, shares : (S,), positions and their weights in the sample; others as in `kernels/curvature.py`
    """

    def __init__(self, marginals: Marginals, split: CoordinateParts, n_sampled: int) -> None:
        owner = marginals.part
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


def sparse_model(
    marginals: Marginals,
    split: CoordinateParts,
    diagonal: Vector,
    n_sampled: int,
    block_pairs: int = ROW_BLOCK_PAIRS,
) -> scipy.sparse.csr_array:
    """Return the model from about `n_sampled` positions, formed in blocks of rows with about `block_pairs` pairs."""
    nodes, of_edges, among, on_sample = sparse_rows(marginals, split, diagonal.size, n_sampled, block_pairs)
    return assemble(nodes, of_edges, among, diagonal_scale(on_sample, diagonal), diagonal)


def sparse_rows(
    marginals: Marginals, split: CoordinateParts, n_coords: int, n_sampled: int, block_pairs: int
) -> tuple[CompressedRows, CompressedRows, Vector, Vector]:
    """Return the rows of a sparse model: of nodes from the diagonal on, of nodes and edges, and of edges; and its
    diagonal. Their lists are freed before the matrix is assembled."""
    lists, owner, n = Lists(marginals, split, n_sampled), marginals.part, split.n_nodes
    pairs, on_sample = np.empty(n, np.int64), np.zeros(n_coords)
    measure_rows(lists.offsets, lists.entries, lists.stops, lists.x, lists.x_p, pairs, on_sample[:n])
    limits = np.sqrt(DROP_TOLERANCE * on_sample)
    bounds = np.append(np.searchsorted(split.states, lists.states), n)
    # Row k has the indices, among the states that have coordinates, of the descendants of states[k].
    ancestors = marginals.loss.structure.ancestors
    descendants = np.repeat(np.arange(ancestors.indptr.size - 1), np.diff(ancestors.indptr))
    is_proper = ancestors.states != descendants
    ends = ancestors.states[is_proper], descendants[is_proper]
    below = scipy.sparse.csr_array(
        (np.ones(ends[0].size, np.uint8), ends), shape=(ancestors.indptr.size - 1,) * 2
    )
    below = below[lists.states][:, lists.states].tocsr()

    def write_nodes(first: int, last: int, *out: NDArray) -> None:
        """Write the node-node block of the model, row by row from the diagonal on."""
        write_rows(
            first, last, lists.offsets, lists.entries, lists.stops, lists.members, lists.x, lists.x_p, lists.row,
            bounds, below.indptr, below.indices, limits, pairs, *out,
        )  # fmt: skip

    nodes = write_blocks(write_nodes, np.minimum(pairs + 1, n - np.arange(n)), block_pairs, owner.map.pool)
    of_edges, among = CompressedRows(np.zeros(n + 1, np.int64), *NO_BLOCK[1:]), np.empty((0, 0))
    if split.edges.size:
        edges = EdgeModel(marginals, split.edges, lists.sampled, lists.shares)
        among = edges.with_edges()
        np.fill_diagonal(among, np.maximum(np.diagonal(among), MIN_SAMPLED_DIAGONAL))
        on_sample[n:] = np.diagonal(among)
        edge_limits, roots = np.sqrt(DROP_TOLERANCE * np.diagonal(among)), np.sqrt(lists.shares)
        places = np.repeat(np.arange(lists.sampled.size, dtype=np.int32), np.diff(lists.starts))

        def write_node_edges(first: int, last: int, *out: NDArray) -> None:
            """Write the node-edge block of the model, a row for each node."""
            write_edge_columns(
                first, last, lists.offsets, lists.entries, places, lists.x_p, roots, split.states,
                edges.outgoing, edges.incoming, limits, edge_limits, *out,
            )  # fmt: skip

        of_edges = write_blocks(write_node_edges, np.full(n, edge_limits.size), block_pairs, owner.map.pool)
    return nodes, of_edges, among, on_sample


def write_blocks(
    write: Callable[..., None], max_entries: NDArray[np.int64], block_pairs: int, pool: Pool
) -> CompressedRows:
    """Return rows that `write(first, last, ends, indices, data)` writes block by block."""
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(max_entries)])
    tasks: list[
        tuple[int, int, int]
    ] = []  # first row, the one after the last, and upper bound on the entries
    while (start := tasks[-1][1] if tasks else 0) < max_entries.size:
        after = int(np.searchsorted(starts, starts[start] + block_pairs, side="right")) - 1
        after = max(after, start + 1)
        tasks.append((start, after, int(starts[after] - starts[start])))
    blocks: list[tuple[NDArray, NDArray, NDArray]] = [NO_BLOCK] * len(tasks)

    def run(part: int) -> None:
        first, last, n_entries = tasks[part]
        ends = np.empty(last - first, np.int64)
        indices, data = np.empty(n_entries, np.int32), np.empty(n_entries, np.float32)
        write(first, last, ends, indices, data)
        blocks[part] = np.diff(ends, prepend=0), indices[: ends[-1]].copy(), data[: ends[-1]].copy()

    pool.each(len(tasks), run)
    lengths, indices, data = (np.concatenate(arrays) for arrays in zip(NO_BLOCK, *blocks, strict=True))
    return CompressedRows(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]), indices, data)


def assemble(
    nodes: CompressedRows,
    of_edges: CompressedRows,
    among: Vector,
    scale: NDArray[np.float32],
    diagonal: Vector,
) -> scipy.sparse.csr_array:
    """Return the symmetric matrix D M D with the given diagonal; parameters as of `write_whole`."""
    n = diagonal.size
    ends = np.zeros(n + 1, np.int64)
    count_whole(nodes, of_edges, among, ends)
    n_entries = (
        2 * (nodes.indices.size + of_edges.indices.size) - nodes.indptr.size + 1 + np.count_nonzero(among)
    )
    indices, data = np.empty(n_entries, np.int32), np.empty(n_entries, np.float32)
    write_whole(nodes, of_edges, among, scale, diagonal, ends, indices, data)
    return scipy.sparse.csr_array((data, indices, ends.astype(np.int32)), shape=(n, n))
