"""The token-wise model of the Hessian: exact within a position, blind to the covariance between positions.

    H ~ sum_t weight_t x_t x_t' (x) (P_t - p_t p_t'),   P_t(j, k) = P(states j and k are both true at t)

P_t = diag p_t where states exclude each other; in a taxonomy a node and its ancestor are true together with the
probability of the node, and P_t has entries for such pairs too. It needs no inference, only the marginals that the
gradient has needed anyway. For a flat model and a taxonomy, whose items have one position, it is the exact Hessian.

A sample of the positions is enough for a metric; the sampled matrix is then scaled to the exact diagonal, so that a
rare feature that the sample missed still has its curvature. Of the two ways to form it the cheaper one is taken:
matrix products of dense rows, or sums over the pairs of coordinates that meet at a position.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.objectives.linear.coordinates import Split
from crfqn.objectives.marginals import EdgeModel, Marginals, diagonal_scale, sample_positions
from crfqn.objectives.operations import FETCHED
from crfqn.objectives.protocols import Matrix
from crfqn.objectives.sparse_model import sparse_model

BLOCK = 256  # rows of a tile of the product: big enough for BLAS, small enough to share out


def dense_model(marginals: Marginals, split: Split, diagonal: Vector, n_sampled: int) -> NDArray[np.float32]:
    """Return the model from about `n_sampled` positions, in matrix products of fixed tiles that threads share out."""
    owner = marginals.objective
    pool, n = owner.pool, diagonal.size
    states, row = np.unique(split.states, return_inverse=True)
    sampled, c = sample_positions(marginals.variance(states), owner.position_weights, n_sampled)
    features, where = np.unique(split.features, return_inverse=True)
    x = owner.map.values_at(features, sampled) * np.sqrt(c).astype(np.float32)
    p = marginals.at(states, sampled)
    # p (1 - p) in the form p - p^2 is nothing but rounding where positions are decided: 1 - p, from 64 bits, is not.
    rest = (1.0 - p).clip(0.0).astype(np.float32)
    with_p = p.astype(np.float32)[row]
    for products, feature in zip(with_p, where, strict=True):
        products *= x[feature]
    model = np.zeros((n, n), np.float32)
    n_blocks = -(-split.n_nodes // BLOCK)
    tiles = [(i, j) for i in range(n_blocks) for j in range(i + 1)]

    def multiply(part: int) -> None:
        i, j = (slice(b * BLOCK, min((b + 1) * BLOCK, split.n_nodes)) for b in tiles[part])
        tile = -(with_p[i] @ with_p[j].T)
        model[i, j] = tile
        model[j, i] = tile.T

    bounds = np.searchsorted(split.states, np.arange(owner.n_states + 1))
    ancestors = marginals.loss.structure.ancestors

    def write_joint(part: int) -> None:
        """Write P(below and above) - p(below) p(above) = p(below) (1 - p(above)), as the one implies the other."""
        below = slice(bounds[states[part]], bounds[states[part] + 1])
        own = x[where[below]] * np.sqrt(p[part].clip(0.0).astype(np.float32) * rest[part])
        model[below, below] = own @ own.T
        for state in states[np.isin(states, ancestors.of(states[part]))]:
            above = slice(bounds[state], bounds[state + 1])
            if above != below:
                block = with_p[below] @ (x[where[above]] * rest[np.searchsorted(states, state)]).T
                model[below, above], model[above, below] = block, block.T

    pool.each(len(tiles), multiply)
    pool.each(states.size, write_joint)
    if split.edges.size:
        write_edges(model, EdgeModel(marginals, split.edges, sampled, c), states, bounds, x[where])
    return scale_to_diagonal(model, diagonal)


def write_edges(
    model: NDArray[np.float32],
    edges: EdgeModel,
    states: NDArray[np.int64],
    bounds: NDArray[np.intp],
    x: NDArray[np.float32],
) -> None:
    """Write the edges' rows and columns, the last; x (nodes, S): each coordinate's feature, times the root of c."""
    beside = slice(x.shape[0], None)
    for state in states:
        own = slice(bounds[state], bounds[state + 1])
        block = x[own] @ edges.with_nodes(state).astype(np.float32)
        model[own, beside], model[beside, own] = block, block.T
    model[beside, beside] = edges.with_edges()


def scale_to_diagonal(model: NDArray[np.float32], diagonal: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return D model D with the given diagonal, as definite as before; empty rows get the diagonal alone."""
    scale = diagonal_scale(np.diagonal(model).astype(np.float64), diagonal)
    model *= scale[:, None]
    model *= scale
    model[np.diag_indices_from(model)] = diagonal
    return model


PAIR = 150  # multiplications in a matrix product take the time of one pair that meets
MOST_PAIRS = 1e8  # for a model too large to be dense: a second's work
PAIR_OPERATIONS = 14.0  # of a pair that meets: found in lists, multiplied and stored
EDGE_OPERATIONS = 30.0  # of a sampled position, for each pair of edges: sparse products state by state
STEPS, SWEEPS = 20, 10  # between two models, and about how often a step goes over the matrix
DISTINCT = 0.2  # of the pairs that meet, those that neither meet again nor are too small to be kept
SAVED = 6.0  # passes that a step with this model saves, against one with its diagonal: 3 to 10 where both were tried


def token_model(
    marginals: Marginals,
    split: Split,
    diagonal: Vector,
    n_sampled: int,
    max_dense: int,
    share: float = 1.0,
    pair: float = PAIR,
    most_pairs: float = MOST_PAIRS,
) -> Matrix | None:
    """Return the model on the coordinates `split`, (n, n) symmetric float32, dense or sparse, with the given diagonal.

    The dense one comes from about `n_sampled` positions and O(n^2 n_sampled) multiplications; the sparse one from as
    many positions as cost no more, or a `share` of these. None: more than `max_dense` coordinates, and too many pairs
    for a sparse one, `most_pairs`. `pair` is what one costs, in multiplications.
    """
    features, n = marginals.objective.map, diagonal.size
    n_dense = min(n_sampled, features.n_positions)
    n_affordable = most_pairs if n > max_dense else n * n * n_dense / pair
    n_pairs = count_pairs(marginals, split, n_dense, np.inf if n > max_dense else n_affordable)
    if is_too_dear(marginals, split, min(n_pairs, n_affordable), n_dense):
        return None
    n_sparse = int(features.n_positions * min(1.0, n_affordable / max(n_pairs, 1.0)))
    if n_sparse < n_dense:
        return None if n > max_dense else dense_model(marginals, split, diagonal, n_sampled)
    return sparse_model(marginals, split, diagonal, max(1, int(share * n_sparse)))


def count_pairs(marginals: Marginals, split: Split, n_dense: int, most: float) -> float:
    """Count the pairs of coordinates that meet at a position, over all positions; inf where n_dense have too many.

    By Cauchy and Schwarz these have more than `most` if the mean number of active coordinates is large: no need to
    count then.
    """
    features = marginals.objective.map
    if features.count_entries(split) ** 2 * n_dense > most * features.n_positions**2:
        return np.inf
    return float(np.square(features.count_active(split), dtype=np.float64).sum())


def is_too_dear(marginals: Marginals, split: Split, n_pairs: float, n_sampled: int) -> bool:
    """Whether a model formed from so many pairs, and the steps with it, take longer than the passes that it saves.

    The diagonal takes some times as many steps, each of one pass; where passes are cheap and active sets large these
    are done before a matrix is formed. Of single positions the model is the Hessian itself, and frequent features
    depend on each other so much that a diagonal takes ten times as many (OCR: 150 passes, and 14): worth their price.
    """
    owner, n = marginals.objective, split.n_nodes
    if marginals.loss.n_edges == 0 or not owner.operations.has_rare_features:
        return False
    of_pass = owner.operations.inference + 2.0 * FETCHED * owner.map.count_entries(split)
    of_edges = EDGE_OPERATIONS * n_sampled * float(split.edges.size) ** 2
    of_sweeps = STEPS * SWEEPS * min(DISTINCT * n_pairs, float(n) * n)
    of_model = PAIR_OPERATIONS * n_pairs + of_edges + of_sweeps
    return of_model > STEPS * SAVED * of_pass
