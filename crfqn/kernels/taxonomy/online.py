"""Stochastic gradient steps over a taxonomy: one item's path sums and marginals, then its step.

The passes over the forest are those of `taxonomy.py`, called for a tile of one item.

Shapes: as in `online.py`; K nodes.
"""

import numpy as np

from crfqn.kernels import kernel
from crfqn.kernels.lazy_penalty import (
    SCALE,
    apply_lazy_penalty_to_rows,
    end_step,
    largest_item,
    learn_features,
    learning_rate,
    score_item,
    turn_item,
)
from crfqn.kernels.rows import aligned_rows
from crfqn.kernels.taxonomy.marginals import tile_down, tile_exponentials, tile_up


@kernel
def node_residual(scores, parents, is_label, target, weight, tile, shifted, exponents, residual):
    """residual[k] = weight * (P(the label is k or under it) - [the target is]), (width,)."""
    n_nodes = parents.size
    largest, total, expected = np.empty(1), np.empty(1), np.empty(1)
    tile_down(0, 1, parents, is_label, scores[:n_nodes].reshape(n_nodes, 1), tile, largest)
    tile_exponentials(1, is_label, tile, largest, expected, shifted, exponents)
    tile_up(1, parents, tile, total)
    for k in range(n_nodes):
        residual[k] = weight * (tile[k] / total[0])
    k = target
    while k >= 0:
        residual[k] -= weight
        k = parents[k]


@kernel
def learn_tree(
    order, offsets, indptr, features, values, targets, item_weights, parents, is_label, table, shares, pattern_of,
    counters, rates,
):  # fmt: skip
    """A step on each item of `order` while the scale allows; returns how many. table and clock change in place."""
    n_features, width = table.shape[0], shares.shape[1]
    most = largest_item(order, offsets, indptr)[1]
    place, first_of = np.full(n_features, -1, np.int32), np.empty(most + 1, np.int64)
    present, where = np.empty(most, np.int64), np.empty(most, np.int32)
    x = np.empty(most if values.size > 0 else 0)
    scores, residual, gradient = aligned_rows(1, width), aligned_rows(1, width), aligned_rows(1, width)[0]
    tile, shifted, exponents = (
        np.empty(parents.size),
        np.empty(parents.size),
        np.empty(parents.size, np.int64),
    )
    for done in range(order.size):
        i = order[done]
        a, b = offsets[i], offsets[i + 1]
        n = turn_item(a, b, indptr, features, values, place, present, first_of, where, x)
        apply_lazy_penalty_to_rows(present[:n], table, shares, pattern_of, counters)
        score_item(
            a, b, present[:n], first_of, where, x, indptr, features, values, table, shares, pattern_of, counters[SCALE],
            scores,
        )  # fmt: skip
        node_residual(
            scores[0], parents, is_label, targets[a], item_weights[i], tile, shifted, exponents, residual[0]
        )  # fmt: skip
        eta = learning_rate(counters, rates)
        learn_features(
            present[:n], first_of, where, x, residual, gradient, table, shares, pattern_of, eta, eta / counters[SCALE]
        )  # fmt: skip
        if not end_step(eta, counters, rates):
            return done + 1
    return order.size
