"""Block-coordinate Frank-Wolfe on max-margin taxonomies: the best label with the tree loss added, an item at a time.

Shapes: as in `kernels/taxonomy/mistakes.py`; N items, a position each.
"""

import numpy as np

from crfqn.kernels import kernel
from crfqn.kernels.dual.frank_wolfe import step_on_rows
from crfqn.kernels.online.lazy_penalty import PositionRows, largest_item, new_item_columns, transpose_item
from crfqn.kernels.online.mistakes import N_SEEN, AveragedRows, feature_changes
from crfqn.kernels.rows import add_picked, aligned_rows
from crfqn.kernels.taxonomy.mistakes import best_node, mark_path


@kernel
def improve_trees(
    order, offsets, indptr, features, values, targets, masses, node_counts, parents, is_label, moves, gaps, weights,
    corrections, is_fixed, pattern_of, counters,
):  # fmt: skip
    """Measure the duality gap of each item, and take a step on it; parameters as in `chain.frank_wolfe`."""
    rows, data = (
        AveragedRows(weights, corrections, is_fixed, pattern_of, counters),
        PositionRows(indptr, features, values),
    )
    n_features, width = weights.shape
    _, most = largest_item(order, offsets, indptr)
    columns = new_item_columns(most, 0, n_features, values.size == 0)
    sums, path_sums = aligned_rows(min(most, n_features), width), np.empty(parents.size)
    scores, change = aligned_rows(1, width), aligned_rows(1, width)
    for i in order:
        t = offsets[i]
        scores[0] = 0.0
        add_picked(scores[0], weights, features, indptr[t], indptr[t + 1], values)
        for k in range(parents.size):
            scores[0, k] += 0.5  # half a node of y' alone: the tree loss, less half the nodes above y
        mark_path(targets[t], parents, -1.0, scores[0])
        change[0] = node_counts[t]
        mark_path(best_node(scores[0], parents, is_label, path_sums), parents, -1.0, change[0])
        gap = 0.0
        for k in range(parents.size):
            gap -= change[0, k] * scores[0, k]
        gaps[i] = masses[i] * max(gap, 0.0)
        if not moves:
            continue
        if gap > 0.0:
            n = transpose_item(t, t + 1, data, columns)
            feature_changes(n, columns, change, sums)
            gamma = step_on_rows(columns.present[:n], sums, gap, masses[i], rows)
            for k in range(width):
                node_counts[t, k] -= gamma * change[0, k]
        counters[N_SEEN] += 1.0
