"""The generalised Hessian of the losses of margins, for Prox-QN's metric.

    H = sum_i c_i x_i x_i' (x) H_i,   H_i = 2 sum over violated pairs (y, r) of (e_y - e_r)(e_y - e_r)'

Where no pair changes sides this is the loss itself, up to a line. Off the diagonal H_i has entries at violated pairs
only: a product for each pair of states takes the few positions where the pair is violated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector
from crfqn.objectives.curvature.dense_model import scale_to_diagonal
from crfqn.objectives.curvature.sampling import sample_positions
from crfqn.objectives.point import Point


def margin_model(
    point: Point, coords: Coords, diagonal: Vector, score_curvature: Vector, n_sampled: int
) -> NDArray[np.float32]:
    """Return the model on `coords`, float32 (n, n), with the given diagonal, from about `n_sampled` positions.

    score_curvature : float64 (K, N), the diagonal of the Hessian by the scores
    """
    owner = point.objective
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
