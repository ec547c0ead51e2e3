"""The generalised Hessian of the losses of margins, for Prox-QN's metric.

    H = sum_i c_i x_i x_i' (x) H_i,   H_i = 2 sum over violated pairs (y, r) of (e_y - e_r)(e_y - e_r)'

Where no pair changes sides this is the loss itself, up to a line. Off the diagonal H_i has entries at violated pairs
only: a product for each pair of states takes the few positions where the pair is violated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crfqn.objectives.dense_model import gathered, scale_to_diagonal
from crfqn.objectives.sampling import sample_positions

if TYPE_CHECKING:
    from crfqn.objectives.flat import FlatPoint


def margin_model(
    point: FlatPoint, coords: NDArray[np.int64], n_sampled: int, max_dense: int
) -> NDArray[np.float32] | None:
    """The model on `coords`, float32 (n, n), from about `n_sampled` positions; None for more than `max_dense` ones."""
    if coords.size > max_dense:
        return None
    owner = point.objective
    split = owner.split(coords)
    undecided = point.score_curvature.sum(axis=0) * owner.inverse_weights
    sampled, c = sample_positions(undecided, owner.weights, n_sampled)
    features, where = np.unique(split.features, return_inverse=True)
    x = gathered(point, features, sampled)
    states = np.unique(split.states)
    bounds = np.append(np.searchsorted(split.states, states), split.n_nodes)
    blocks = [slice(bounds[i], bounds[i + 1]) for i in range(states.size)]
    loss, scores = owner.loss.take(sampled), point.scores[:, sampled]
    diagonal = point.score_curvature[:, sampled] * owner.inverse_weights[sampled]
    model = np.zeros((coords.size, coords.size), np.float32)
    pairs = [(i, j) for i in range(states.size) for j in range(i + 1)]

    def multiply(part: int) -> None:
        i, j = pairs[part]
        r, s = states[i], states[j]
        second = c * (diagonal[r] if i == j else loss.mixed(r, s, scores))
        met = np.flatnonzero(second)
        if met.size == 0:
            return
        columns = np.ascontiguousarray(x[:, met])
        left = (columns * second[met].astype(np.float32))[where[blocks[i]]]
        product = left @ columns[where[blocks[j]]].T
        model[blocks[i], blocks[j]] = product
        model[blocks[j], blocks[i]] = product.T

    owner.pool.each(len(pairs), multiply)
    return scale_to_diagonal(model, point.curvature(coords))
