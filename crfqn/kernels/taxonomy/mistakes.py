"""Learning from the mistakes of the best labels in a taxonomy, an item at a time.

The features of a label are those of its node and of the nodes above: what both labels have above them stays.

Shapes: as in `kernels/online/mistakes.py`; K nodes. parents : int32 (K,), -1 at the top; is_label : bool (K,).
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.online.lazy_penalty import PositionRows
from crfqn.kernels.online.mistakes import N_SEEN, N_WRONG, AveragedRows, change_weight, step_size
from crfqn.kernels.rows import add_picked, aligned_rows


@subkernel
def best_node(scores, parents, is_label, sums):
    """Return the label with the largest sum of scores on its way from the top; sums : float64 (K,), those sums, out."""
    best, most = -1, -np.inf
    for k in range(parents.size):
        sums[k] = scores[k] + (sums[parents[k]] if parents[k] >= 0 else 0.0)
        if is_label[k] and (sums[k] > most or best < 0):
            best, most = k, sums[k]
    return best


@subkernel
def mark_path(node, parents, amount, signs):
    """Add `amount` to the signs of a node and of those above it."""
    while node >= 0:
        signs[node] += amount
        node = parents[node]


@kernel
def correct_tree(
    order, offsets, indptr, features, values, targets, item_weights, parents, is_label, aggressiveness, weights,
    corrections, is_fixed, pattern_of, counters,
):  # fmt: skip
    """Label each item of `order` and learn from its mistakes; parameters as in `chain.mistakes.correct_chains`."""
    rows = AveragedRows(weights, corrections, is_fixed, pattern_of, counters)
    scores, sums = aligned_rows(1, weights.shape[1])[0], np.empty(parents.size)
    signs, data = np.zeros(parents.size), PositionRows(indptr, features, values)
    for i in order:
        t = offsets[i]
        scores[:] = 0.0
        add_picked(scores, weights, features, indptr[t], indptr[t + 1], values)
        right, found = targets[t], best_node(scores, parents, is_label, sums)
        if right != found:
            mark_path(right, parents, 1.0, signs)
            mark_path(found, parents, -1.0, signs)
            tau = 1.0
            if aggressiveness > 0.0:
                square = path_square(t, data, signs, right, parents, rows)
                square += path_square(t, data, signs, found, parents, rows)
                tau = step_size(aggressiveness, sums[found] - sums[right] + 1.0, square)
            correct_path(t, data, signs, right, parents, tau * item_weights[i], rows)
            correct_path(t, data, signs, found, parents, tau * item_weights[i], rows)
            mark_path(right, parents, -1.0, signs)
            mark_path(found, parents, 1.0, signs)
            counters[N_WRONG] += 1.0
        counters[N_SEEN] += 1.0


@subkernel
def path_square(t, data, signs, node, parents, rows):
    """Return a label's part of |Delta|^2: its nodes that the other label has not, times the item's features."""
    total, k = 0.0, node
    while k >= 0:
        if signs[k] != 0.0:
            for e in range(data.indptr[t], data.indptr[t + 1]):
                value = data.values[e] if data.values.size > 0 else 1.0
                if not rows.is_fixed[rows.pattern_of[data.features[e]], k]:
                    total += value * value
        k = parents[k]
    return total


@subkernel
def correct_path(t, data, signs, node, parents, tau, rows):
    """w += tau Delta for a node and those above it."""
    k = node
    while k >= 0:
        if signs[k] != 0.0:
            for e in range(data.indptr[t], data.indptr[t + 1]):
                value = data.values[e] if data.values.size > 0 else 1.0
                change_weight(data.features[e], k, tau * signs[k] * value, rows)
        k = parents[k]
