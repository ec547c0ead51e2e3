"""Second-order information: diagonals, majorants and models of the Hessian at a point, and bounds that hold everywhere.

Of a likelihood it comes from the marginals (`token_model.py`). Of losses of margins it is the generalised Hessian

    H = sum_i c_i x_i x_i' (x) H_i,   H_i = 2 sum over violated pairs (y, r) of (e_y - e_r)(e_y - e_r)'

Where no pair changes sides this is the loss itself, up to a line. Off the diagonal H_i has entries at violated pairs
only: a product for each pair of states takes the few positions where the pair is violated.

A loss says its part of the bound, c_t for each position (`ScoreLoss.hessian_bounds`).
The Gram matrix M = sum_t c_t x_t x_t', for steps in its metric (Agarwal et al. 2014), is the paper's L Sigma as a sum
over the items.

Shapes: I items of T_i positions, N positions, F features, K states; others as in `point.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector
from crfqn.objectives.marginals import Marginals, edge_curvature, sample_positions
from crfqn.objectives.point import Point
from crfqn.objectives.protocols import Matrix
from crfqn.objectives.token_model import scale_to_diagonal, token_model


def squares(point: Point, coords: Coords) -> Vector:
    """Return diagonal and majorant, (2, coords).

    The diagonal of a likelihood's model is sum_t weight x_tf^2 p_t(k) (1 - p_t(k)), of edges see `marginals.py`. The
    majorant is sum_t weight x_tf^2 |p_t(k) - observed|: where p is 0 and the label is k there is no curvature at the
    point, but p has to pass through 1/2. Of a piecewise quadratic loss the diagonal is the best guess of it, too.
    """
    owner, nodes, found = point.objective, point.objective.split(coords), point.evaluation
    if not owner.loss.has_marginals:
        return np.tile(owner.map.squares(nodes, point.score_curvature), (2, 1))
    table = owner.map.residual_squares(nodes, found.residual, owner.inverse_weights)
    if nodes.edges.size == 0:
        return table
    edges = [edge_curvature(Marginals(point), nodes.edges), np.abs(found.edge_residual)[nodes.edges]]
    return np.concatenate([table, np.stack(edges)], axis=1)


def hessian_model(
    point: Point, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0
) -> Matrix | None:
    """Return the token-wise model, or the generalised Hessian from a sample; None where it would be too large."""
    owner, diagonal = point.objective, point.curvature(coords).diagonal
    if owner.loss.has_marginals:
        return token_model(Marginals(point), owner.split(coords), diagonal, n_sampled, max_dense, share)
    if coords.size > max_dense:
        return None
    return margin_model(point, coords, diagonal, n_sampled)


def margin_model(point: Point, coords: Coords, diagonal: Vector, n_sampled: int) -> NDArray[np.float32]:
    """Return the model on `coords`, float32 (n, n), with the given diagonal, from about `n_sampled` positions."""
    owner, score_curvature = point.objective, point.score_curvature
    split = owner.split(coords)
    marginal_variance = score_curvature.sum(axis=0) * owner.inverse_weights
    sampled, c = sample_positions(marginal_variance, owner.weights, n_sampled)
    features, where = np.unique(split.features, return_inverse=True)
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
        met = np.flatnonzero(second)
        if met.size == 0:
            return
        columns = np.ascontiguousarray(x[:, met])
        left = (columns * second[met].astype(np.float32))[where[blocks[i]]]
        product = left @ columns[where[blocks[j]]].T
        model[blocks[i], blocks[j]] = product
        model[blocks[j], blocks[i]] = product.T

    owner.pool.each(len(pairs), multiply)
    return scale_to_diagonal(model, diagonal)


def hessian_bound(objective: Any) -> float:
    """Return a bound on the largest eigenvalue of the Hessian that holds at all weights.

    Of losses of single positions it is that of sum_t c_t x_t x_t', c_t = weight_t times the loss's own bound: of the
    multiclass squared hinge 2 K ||X||_2^2, where the global constant of Blondel et al. (2013), appendix A, is
    4 (K - 1) sum_tj x_tj^2.
    """
    per_position, edges = objective.loss.hessian_bounds(objective.weights)
    return max(objective.map.eigenvalue_bound(per_position), edges)
