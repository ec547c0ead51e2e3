"""Stochastic gradient steps over a taxonomy: one item's path sums and marginals, then its step.

For the SGD solver. The passes over the forest are those of `marginals.py`, called for a tile of one item.

Shapes: as in `online/lazy_penalty.py`; K nodes.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.online.lazy_penalty import (
    SCALE,
    LazyRows,
    PositionRows,
    apply_lazy_penalty_to_rows,
    end_step,
    largest_item,
    learn_features,
    learning_rate,
    new_item_columns,
    score_item,
    transpose_item,
)
from crfqn.kernels.rows import aligned_rows
from crfqn.kernels.taxonomy.marginals import tile_down, tile_exponentials, tile_up


@subkernel
def node_residual(scores, parents, is_label, target, weight, tile, shifted, exponents, residual):
    """residual[k] = weight * (P(the label is k or under it) - [the target is]), float64 (width,).

    tile, shifted, exponents : float64, float64 and int64 (K,), scratch
    """
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
    """Take a step on each item of `order` while the scale is in range; returns the number of steps.

    table and counters change in place. Parameters as in `chain.online.learn_chains`; parents : int32 (K,); is_label :
    bool (K,)
    """
    rows, data = LazyRows(table, shares, pattern_of, counters), PositionRows(indptr, features, values)
    n_features, width = table.shape[0], shares.shape[1]
    most = largest_item(order, offsets, indptr)[1]
    columns = new_item_columns(most, 0, n_features, values.size == 0)
    scores, residual, gradient = aligned_rows(1, width), aligned_rows(1, width), aligned_rows(1, width)[0]
    tile, shifted, exponents = (
        np.empty(parents.size),
        np.empty(parents.size),
        np.empty(parents.size, np.int64),
    )
    for done in range(order.size):
        i = order[done]
        a, b = offsets[i], offsets[i + 1]
        n = transpose_item(a, b, data, columns)
        apply_lazy_penalty_to_rows(columns.present[:n], rows)
        score_item(a, b, n, data, columns, rows, scores)
        node_residual(
            scores[0], parents, is_label, targets[a], item_weights[i], tile, shifted, exponents, residual[0]
        )  # fmt: skip
        eta = learning_rate(counters, rates)
        learn_features(n, columns, residual, gradient, rows, eta, eta / counters[SCALE])
        if not end_step(eta, counters, rates):
            return done + 1
    return order.size
