"""The token-wise model by matrix products: for data whose active features are in many positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.objectives.coordinates import Split
from crfqn.objectives.curvature.edge_model import EdgeModel
from crfqn.objectives.curvature.marginals import Marginals
from crfqn.objectives.curvature.sampling import diagonal_scale, sample_positions

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
